# SPDX-License-Identifier: Apache-2.0
"""
Random requests, composed of elements that determine the framing, and their interpretation by a strict parser: an oracle that
shares no code with the tested programs.
"""
import re

LENGTHS = [b'0', b'3', b'03', b'5', b'3 ', b' 3', b'+3', b'3,3', b'', b'-3', b'0x3', b'99999999999999999999', b'3\t']
CODINGS = [b'chunked', b'Chunked', b'identity', b'gzip, chunked', b'chunked, chunked', b' chunked', b'chunked ',
           b'xchunked', b'"chunked"', b'chunked,', b'', b'\x0bchunked', b'chunked\t']
NAMES = [(b'Content-Length', LENGTHS), (b'Transfer-Encoding', CODINGS), (b'content-length', LENGTHS),
         (b'TRANSFER-ENCODING', CODINGS), (b'Content_Length', LENGTHS), (b'Content-Length ', LENGTHS),
         (b' Transfer-Encoding', CODINGS), (b'X', [b'y', b'Content-Length: 3', b'\x80', b'']),
         (b'Connection', [b'keep-alive', b'Content-Length', b'Transfer-Encoding', b'X']),
         (b'Host', [b'a.example'])]
ENDS = [b'\r\n'] * 300 + [b'\n', b'\r', b'\r\r\n', b'\n\r\n', b'\r\n ', b'\0\r\n']
BODIES = [b'', b'abc', b'abcde', b'3\r\nabc\r\n0\r\n\r\n', b'03\r\nabc\r\n0\r\n\r\n', b'3;x\r\nabc\r\n0\r\nA: b\r\n\r\n',
          b'0\r\n\r\n', b'3\r\nabcd\r\n0\r\n\r\n', b'3\nabc\n0\n\n', b'3 \r\nabc\r\n0\r\n\r\n', b'3\r\nabc\r\n0\r\n',
          b'1\r\na\r\n2\r\nbc\r\n00\r\n\r\n', b'-3\r\nabc\r\n0\r\n\r\n', b'\r\n3\r\nabc\r\n0\r\n\r\n',
          b'3\r\nabc\r\n0\r\nContent-Length: 3\r\n\r\n', b'5\r\nabc\r\n0\r\n\r\n']
WHOLE = [b'3\r\nabc\r\n0\r\n\r\n', b'03\r\nabc\r\n0\r\n\r\n', b'3;x\r\nabc\r\n0\r\nA: b\r\n\r\n', b'0\r\n\r\n']
TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
FIELD = re.compile(rb'(' + TOKEN + rb'):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*\Z')
CHUNK = re.compile(rb'([0-9A-Fa-f]{1,16})((?:;' + TOKEN + rb'(?:=' + TOKEN + rb')?)*)\Z')


def one(random, number):
    head = [b'POST /m%d HTTP/1.1' % number, b'Host: a.example']
    for _ in range(random.choice((0, 1, 1, 1, 1, 2, 3))):
        name, values = random.choice(NAMES[:2]) if random.random() < 0.75 else random.choice(NAMES)
        # Mostly valid values, as otherwise hardly any request would be valid.
        value = values[random.randrange(3 if random.random() < 0.7 else len(values)) % len(values)]
        head.insert(random.randrange(1, len(head) + 1), name + b': ' + value)
    out = b''.join(line + random.choice(ENDS) for line in head) + b'\r\n'
    if random.random() < 0.4:
        return out + random.choice(BODIES)
    if b'hunked\r' in out:
        return out + random.choice(WHOLE)
    return out + (b'abc' if b'3\r' in out else b'')


def mutation(random, number):
    """One to three random requests, one after the other."""
    return b''.join(one(random, number) for _ in range(random.choice((1, 1, 2, 3))))


class Rejected(Exception):
    pass


class Incomplete(Exception):
    pass


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def line(self):
        end = self.data.find(b'\n', self.at)
        if end < 0:
            raise Incomplete
        line, self.at = self.data[self.at:end], end + 1
        if not line.endswith(b'\r') or b'\r' in line[:-1]:
            raise Rejected
        return line[:-1]

    def take(self, n):
        if len(self.data) - self.at < n:
            raise Incomplete
        self.at += n
        return self.data[self.at - n:self.at]

    def fields(self):
        while True:
            line = self.line()
            if not line:
                return
            field = FIELD.match(line)
            if not field:
                raise Rejected
            yield field[1].lower(), field[2]

    def chunks(self):
        body = b''
        while True:
            size = CHUNK.match(self.line())
            if not size:
                raise Rejected
            n = int(size[1], 16)
            if n == 0:
                for _ in self.fields():
                    pass
                return body
            body += self.take(n)
            end = self.take(min(2, len(self.data) - self.at))
            if not b'\r\n'.startswith(end):
                raise Rejected
            if len(end) < 2:
                raise Incomplete

    def request(self):
        if self.data.startswith(b'\r\n', self.at):
            self.at += 2
        line = re.match(rb'(' + TOKEN + rb') (/[!-~]*) HTTP/1\.1\Z', self.line())
        if not line:
            raise Rejected
        lengths, codings, hosts = [], [], []
        kinds = {b'content-length': lengths, b'transfer-encoding': codings, b'host': hosts}
        for name, value in self.fields():
            kinds.get(name, []).append(value)
        if len(hosts) != 1 or len(lengths) + len(codings) > 1:
            raise Rejected
        if any(c.lower() != b'chunked' for c in codings):
            raise Rejected
        if any(not re.match(rb'[0-9]+\Z', n) or int(n) >= 1 << 63 for n in lengths):
            raise Rejected
        body = self.chunks() if codings else self.take(int(lengths[0])) if lengths else b''
        return line[1].decode(), line[2].decode(), body


def read(data):
    """Parses DATA. Returns (requests, 'whole', 'incomplete' or 'rejected')."""
    reader, requests = Reader(data), []
    try:
        # An empty line at the end may precede the next request.
        while data[reader.at:] not in (b'', b'\r\n'):
            requests.append(reader.request())
    except Rejected:
        return requests, 'rejected'
    except Incomplete:
        return requests, 'incomplete'
    return requests, 'whole'
