# SPDX-License-Identifier: Apache-2.0
"""
Responses of a worker, byte by byte, and the permitted results for a client: one table for the tests and for bench/.

The `wire` of a case is the worker's reaction to the request: bytes are written, a number is a pause in seconds, and one of FIN,
RST, HANG ends it; without an end the connection stays open for another request. `want` is the correct result, of PASS, BAD, CUT,
LATE; where the RFCs leave a choice there are several. PASS: the response as the case has it. BAD: 502. CUT: a 502, or
a response that the client can detect as incomplete. LATE: 504. `again` states whether the worker's connection may carry
another request: False for never, None if both are correct.
"""
import dataclasses

FIN, RST, HANG = 'fin', 'rst', 'hang'
PASS, BAD, CUT, LATE = 'pass', 'bad', 'cut', 'late'
POISON = b'HTTP/1.1 200 OK\r\nContent-Length: 6\r\nX-Poison: 1\r\n\r\nPOISON'
HELLO = b'hello'
# Time-outs in seconds, for the first byte and between bytes, of the subjects for `timed` cases.
TIMEOUT = 0.5


@dataclasses.dataclass
class Case:
    group: str
    name: str
    wire: list
    want: tuple = (PASS,)
    status: int = 200
    body: bytes = HELLO
    has: tuple = ()             # (name, value) that the client must receive, in this order
    lacks: tuple = ()           # names that it must not receive
    again: object = None
    methods: tuple = ('GET',)
    clients: tuple = ('1.0', '1.0 keep', '1.1', '1.1 close', '2')
    request_body: bytes = b''
    strict: bool = False        # for resumelb only PASS is correct
    paced: bool = False         # tests time-outs; valid only if no pause was longer than intended

    number: int = 0

    @property
    def timed(self):
        """Whether it tests time-outs. All other cases need long time-outs, so that the result is independent of the machine's speed."""
        return LATE in self.want or self.paced

    @property
    def path(self):
        words = ''.join(c if c.isalnum() else ' ' for c in self.group + ' ' + self.name).split()
        return '/%d-%s' % (self.number, '-'.join(words))


def head(*lines, first='HTTP/1.1 200 OK'):
    out = b''
    for line in (first, *lines):
        out += (line if isinstance(line, bytes) else line.encode('latin-1')) + b'\r\n'
    return out + b'\r\n'


def sized(*lines, first='HTTP/1.1 200 OK', body=HELLO):
    return head(*lines, 'Content-Length: %d' % len(body), first=first) + body


def chunked(*parts, lines=(), first='HTTP/1.1 200 OK', end=b'0\r\n\r\n'):
    data = b''.join(b'%x\r\n%s\r\n' % (len(p), p) for p in parts)
    return head(*lines, 'Transfer-Encoding: chunked', first=first) + data + end


TE = head('Transfer-Encoding: chunked')
EITHER = (PASS, BAD)
ALL = []


def add(group, name, *wire, **kw):
    ALL.append(Case(group, name, list(wire), number=len(ALL), **kw))


def status_lines():
    g = 'status line'
    add(g, 'HTTP 1.0', sized(first='HTTP/1.0 200 OK'), again=False)
    add(g, 'HTTP 1.0 kept', sized('Connection: keep-alive', first='HTTP/1.0 200 OK'))
    add(g, 'no reason', sized(first='HTTP/1.1 200 '))
    add(g, 'no reason nor blank', sized(first='HTTP/1.1 200'), want=EITHER)
    add(g, 'HTTP 1.2', sized(first='HTTP/1.2 200 OK'), want=EITHER)
    add(g, 'reason beyond ASCII', sized(first=b'HTTP/1.1 200 \xc3\xa4h'), want=EITHER)
    add(g, 'long reason', sized(first='HTTP/1.1 200 ' + 'r' * 1000), want=EITHER)
    add(g, 'CRLF before', b'\r\n' + sized(), want=EITHER)
    for code in (600, 777, 999):
        add(g, 'status %d' % code, sized(first='HTTP/1.1 %d Odd' % code), want=EITHER, status=code)
    for name, first in (
            ('HTTP 2.0', 'HTTP/2.0 200 OK'), ('HTTP 3', 'HTTP/3 200 OK'), ('HTTP 0.9', 'HTTP/0.9 200 OK'),
            ('HTTP 11.1', 'HTTP/11.1 200 OK'), ('HTTP 1.', 'HTTP/1. 200 OK'), ('HTTP +1.1', 'HTTP/+1.1 200 OK'),
            ('HTTP 1', 'HTTP/1 200 OK'), ('HTTP 1,1', 'HTTP/1,1 200 OK'), ('no blank', 'HTTP/1.1200 OK'),
            ('two digits', 'HTTP/1.1 20 OK'), ('four digits', 'HTTP/1.1 2000 OK'), ('code 099', 'HTTP/1.1 099 OK'),
            ('code 000', 'HTTP/1.1 000 OK'), ('negative', 'HTTP/1.1 -200 OK'), ('plus', 'HTTP/1.1 +200 OK'),
            ('letters', 'HTTP/1.1 abc OK'), ('hex', 'HTTP/1.1 2c8 OK'), ('no code', 'HTTP/1.1'), ('no code, blank', 'HTTP/1.1 '),
            ('ICY', 'ICY 200 OK'), ('a request line', 'GET / HTTP/1.1'), ('code runs into reason', 'HTTP/1.1 200OK'),
            ('NUL in reason', b'HTTP/1.1 200 O\0K'), ('bare CR in reason', b'HTTP/1.1 200 O\rK'),
            ('NUL in version', b'HTTP/1.\0 200 OK'), ('no slash', 'HTTP1.1 200 OK'), ('HTTPS', 'HTTPS/1.1 200 OK'),
            ('garbage line before', 'garbage\r\nHTTP/1.1 200 OK'), ('blank before', ' HTTP/1.1 200 OK'),
            ('double blank', 'HTTP/1.1  200 OK'), ('tab', 'HTTP/1.1\t200 OK'), ('lower case', 'http/1.1 200 OK')):
        # A proxy may also remove a bare CR or NUL, and a lenient parser may accept the last three.
        lenient = name in ('NUL in reason', 'bare CR in reason', 'double blank', 'tab', 'lower case')
        add(g, name, sized(first=first), FIN, want=EITHER if lenient else (BAD,))
    add(g, 'HTTP 0.9 body', b'<html>hello</html>', FIN, want=(BAD,))
    add(g, 'binary garbage', bytes(range(256)) * 4, FIN, want=(BAD,))
    add(g, 'TLS alert', b'\x15\x03\x01\x00\x02\x02\x46', FIN, want=(BAD,))
    add(g, 'HTTP 2 preface', b'\0\0\0\x04\0\0\0\0\0', FIN, want=(BAD,))
    add(g, 'endless line', b'HTTP/1.1 200 ' + b'x' * 300000, FIN, want=(BAD,))


def fields():
    g = 'fields'
    for name, line, want in (
            ('nameless', ': v', EITHER), ('no colon', 'nonsense', EITHER), ('illegal name', 'X(A): v', EITHER),
            ('NUL in name', b'X\0A: v', EITHER), ('name beyond ASCII', b'X\xe4A: v', EITHER),
            ('NUL in value', b'X-A: v\0w', EITHER), ('bare CR in value', b'X-A: v\rSet-Cookie: evil=1', EITHER),
            ('bare CR before CRLF', b'X-A: v\r', EITHER), ('DEL in value', b'X-A: v\x7fw', EITHER),
            ('escape in value', b'X-A: v\x1bw', EITHER), ('obs-fold', 'X-A: v\r\n w', EITHER),
            ('obs-fold by tab', 'X-A: v\r\n\tw', EITHER), ('obs-fold first', ' X-A: v', EITHER),
            ('obs-fold of length', 'Content-Length:\r\n 5', EITHER), ('bare LF in value', b'X-A: v\nX-B: w', EITHER),
            ('name of blanks', '   : v', EITHER), ('quoted name', '"X-A": v', EITHER)):
        add(g, name, sized(line), want=want)
    add(g, 'bare LF everywhere', b'HTTP/1.1 200 OK\nContent-Length: 5\n\nhello', FIN, want=EITHER)
    add(g, 'bare LF at the end', b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\nhello', FIN, want=EITHER)
    add(g, 'bare CR line ends', b'HTTP/1.1 200 OK\rContent-Length: 5\r\rhello', FIN, want=(BAD,))
    add(g, 'empty value', sized('X-Empty:', 'X-A: v'), has=(('x-empty', ''), ('x-a', 'v')))
    add(g, 'blank value', sized('X-Empty:    '), has=(('x-empty', ''),))
    add(g, 'blank before colon', sized('X-A : v'), has=(('x-a', 'v'),))
    add(g, 'tab before colon', sized('X-A\t: v'), has=(('x-a', 'v'),))
    add(g, 'blank before the colon of the length', b'HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello')
    add(g, 'no blank behind colon', sized('X-A:v'), has=(('x-a', 'v'),))
    add(g, 'blanks around value', sized('X-A: \t v w \t '), has=(('x-a', 'v w'),))
    add(g, 'value beyond ASCII', sized(b'X-A: \xc3\xa4\xff'), has=(('x-a', '\xc3\xa4\xff'),))
    add(g, 'tab in value', sized('X-A: a\tb'), has=(('x-a', 'a\tb'),))
    add(g, 'colons in value', sized('X-A: a:b: c'), has=(('x-a', 'a:b: c'),))
    add(g, 'token characters', sized("X!#$%&'*+-.^_`|~9: v"), has=(("x!#$%&'*+-.^_`|~9", 'v'),), want=EITHER)
    add(g, 'order and repeats', sized('X-A: 1', 'X-B: 2', 'X-A: 3'), has=(('x-a', '1'), ('x-b', '2'), ('x-a', '3')))
    add(g, 'cookies', sized('Set-Cookie: a=1; Path=/', 'Set-Cookie: b=2, c'),
        has=(('set-cookie', 'a=1; Path=/'), ('set-cookie', 'b=2, c')))
    add(g, 'end to end', sized('Content-Type: text/x', 'ETag: "a"', 'Last-Modified: x', 'Cache-Control: max-age=1',
                               'Vary: A', 'Age: 3', 'Location: /x', 'Content-Encoding: x-y', 'Link: <a>; rel=b',
                               'Accept-Ranges: bytes', 'Content-Language: de', 'Expires: 0', 'Allow: GET'),
        has=(('content-type', 'text/x'), ('etag', '"a"'), ('cache-control', 'max-age=1'), ('vary', 'A'), ('age', '3'),
             ('location', '/x'), ('content-encoding', 'x-y'), ('link', '<a>; rel=b'), ('content-language', 'de'),
             ('expires', '0'), ('allow', 'GET')))
    add(g, 'Server', sized('Server: theirs/1'), has=(('server', 'theirs/1'),))
    add(g, 'Via is added to', sized('Via: 1.0 first'), has=(('via', '1.0 first'),))
    add(g, 'WWW-Authenticate', sized('WWW-Authenticate: Basic realm="a"', first='HTTP/1.1 401 No'), status=401,
        has=(('www-authenticate', 'Basic realm="a"'),))
    add(g, 'Proxy-Authenticate', sized('Proxy-Authenticate: Basic realm="a"', first='HTTP/1.1 407 No'), status=407,
        has=(('proxy-authenticate', 'Basic realm="a"'),))
    add(g, 'ours', sized('Resumelb-Failed: 1', 'Resumelb-Unprocessed: 1', 'Resumelb-Class: x', 'X-A: 1'), has=(('x-a', '1'),))
    add(g, 'a field of 16 KiB', sized('X-A: ' + 'v' * 16384), want=EITHER)
    add(g, '90 fields are enough', sized(*['X-%d: v' % i for i in range(90)]), has=(('x-0', 'v'), ('x-89', 'v')), want=EITHER)
    add(g, '1000 fields', sized(*['X-%d: v' % i for i in range(1000)]), want=EITHER)
    add(g, 'a field of 128 KiB', sized('X-A: ' + 'v' * 131072), want=EITHER)
    add(g, 'endless head', b'HTTP/1.1 200 OK\r\n' + b'X-A: vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv\r\n' * 30000, FIN, want=(BAD,))
    add(g, 'a byte at a time', *[bytes([b]) for b in sized('X-A: v')], has=(('x-a', 'v'),))
    add(g, 'long name', sized('X-%s: v' % ('n' * 500)), want=EITHER)

    g = 'hop-by-hop'
    add(g, 'listed', sized('Connection: X-Hop, x-other', 'X-Hop: 1', 'X-Other: 2', 'X-A: 3'),
        lacks=('x-hop', 'x-other'), has=(('x-a', '3'),))
    add(g, 'listed behind', sized('X-Hop: 1', 'Connection: keep-alive, X-Hop'), lacks=('x-hop',))
    add(g, 'two lines', sized('Connection: X-Hop', 'Connection: X-Other', 'X-Hop: 1', 'X-Other: 2'), lacks=('x-hop', 'x-other'))
    add(g, 'listed with close', sized('Connection: close, X-Hop', 'X-Hop: 1'), FIN, lacks=('x-hop',), again=False)
    add(g, 'odd list', sized('Connection: ,, X-Hop ,\t', 'X-Hop: 1'), lacks=('x-hop',))
    add(g, 'Keep-Alive', sized('Connection: keep-alive', 'Keep-Alive: timeout=5'), lacks=('keep-alive',))
    add(g, 'Proxy-Connection', sized('Proxy-Connection: keep-alive'), lacks=('proxy-connection',))
    add(g, 'TE', sized('TE: trailers'), lacks=('te',))
    add(g, 'Upgrade unasked', sized('Connection: upgrade', 'Upgrade: h2c'), lacks=('upgrade',))
    add(g, 'close honoured', sized('Connection: close'), again=False)
    add(g, 'Close honoured', sized('Connection: Keep-Alive, CLOSE'), again=False)
    add(g, 'close on a second line', sized('Connection: keep-alive', 'Connection: close'), again=False)
    add(g, 'close, and FIN', sized('Connection: close'), FIN, again=False)
    add(g, 'FIN unannounced', sized(), FIN)
    add(g, 'RST unannounced', sized(), 0.02, RST)


def lengths():
    g = 'Content-Length'
    add(g, 'twice the same', head('Content-Length: 5', 'Content-Length: 5') + HELLO, want=EITHER)
    add(g, 'list of the same', head('Content-Length: 5, 5') + HELLO, want=EITHER)
    add(g, 'leading zeros', head('Content-Length: 0005') + HELLO, want=EITHER)
    add(g, 'blanks around', head('Content-Length:   5  ') + HELLO)
    add(g, 'upper case', head('CONTENT-LENGTH: 5') + HELLO)
    add(g, 'zero', head('Content-Length: 0'), body=b'')
    for name, value in (('list of two', '5, 6'), ('plus', '+5'), ('minus', '-5'), ('empty', ''), ('hex', '0x5'),
                        ('fraction', '5.0'), ('words', 'five'), ('two numbers', '5 5'), ('semicolon', '5;'),
                        ('exponent', '5e0'), ('20 digits', '99999999999999999999'), ('2^64', '18446744073709551616'),
                        ('2^64 + 5', '18446744073709551621'), ('2^63', '9223372036854775808'), ('quoted', '"5"'),
                        ('comma', ','), ('underscore', '5_0')):
        add(g, name, head('Content-Length: %s' % value) + HELLO, FIN, want=(CUT,) if name == '2^63' else (BAD,))
    add(g, 'beyond ASCII', head(b'Content-Length: \xd9\xa5') + HELLO, FIN, want=(BAD,))
    add(g, 'twice, differing', head('Content-Length: 5', 'Content-Length: 6') + HELLO + b'!', FIN, want=(BAD,))
    add(g, 'twice, differing, the last shorter', head('Content-Length: 6', 'Content-Length: 5') + HELLO, FIN, want=(BAD,))
    add(g, 'twice, one invalid', head('Content-Length: 5', 'Content-Length: x') + HELLO, FIN, want=(BAD,))
    add(g, 'twice, one empty', head('Content-Length: 5', 'Content-Length:') + HELLO, FIN, want=(BAD,))

    g = 'over and short'
    for end in (FIN, RST):
        add(g, 'short by one, ' + end, head('Content-Length: 6') + HELLO, 0.05, end, want=(CUT,))
        add(g, 'short by all, ' + end, head('Content-Length: 6'), 0.05, end, want=(CUT,))
        add(g, 'short at once, ' + end, head('Content-Length: 6') + HELLO, end, want=(CUT,))
        add(g, 'a large one short, ' + end, head('Content-Length: 300001') + b'x' * 300000, 0.05, end, want=(CUT,))
    add(g, 'short, then silent', head('Content-Length: 6') + HELLO, HANG, want=(CUT, LATE))
    add(g, 'head, then silent', head('Content-Length: 6'), HANG, want=(CUT, LATE))
    add(g, 'over by one', sized() + b'!', again=False)
    add(g, 'over by a response', sized() + POISON, again=False)
    add(g, 'over, later', sized(), 0.03, POISON, again=False)
    add(g, 'over zero', head('Content-Length: 0') + POISON, body=b'', again=False)
    add(g, 'over by CRLF', sized() + b'\r\n', again=False)
    add(g, 'over, and FIN', sized() + b'!', FIN, again=False)
    add(g, 'over, in the second write', head('Content-Length: 5') + b'hel', 0.02, b'lo' + POISON, again=False)
    add(g, 'a large one, and over', head('Content-Length: 300000') + b'x' * 300000 + POISON, body=b'x' * 300000, again=False)


def codings():
    g = 'Transfer-Encoding'
    add(g, 'chunked', chunked(b'hel', b'lo'))
    add(g, 'Chunked', head('transfer-encoding: Chunked') + b'5\r\nhello\r\n0\r\n\r\n')
    add(g, 'blanks', head('Transfer-Encoding:  chunked\t') + b'5\r\nhello\r\n0\r\n\r\n')
    add(g, 'wins over length', chunked(HELLO, lines=('Content-Length: 3',)), want=EITHER, again=False, strict=True)
    add(g, 'wins over length behind', head('Transfer-Encoding: chunked', 'Content-Length: 50') + b'5\r\nhello\r\n0\r\n\r\n',
        want=EITHER, again=False, strict=True)
    add(g, 'wins over length, poison', chunked(HELLO, lines=('Content-Length: 3',)) + POISON, want=EITHER, again=False)
    add(g, 'wins over bad length', chunked(HELLO, lines=('Content-Length: x',)), want=EITHER, again=False)
    add(g, 'wins over two lengths', chunked(HELLO, lines=('Content-Length: 1', 'Content-Length: 2')), want=EITHER, again=False)
    add(g, 'of HTTP 1.0', chunked(HELLO, first='HTTP/1.0 200 OK'), FIN, want=EITHER, again=False)
    add(g, 'of HTTP 1.0 kept', chunked(HELLO, lines=('Connection: keep-alive',), first='HTTP/1.0 200 OK'), want=EITHER, again=False)
    add(g, 'empty element', head('Transfer-Encoding: chunked,') + b'5\r\nhello\r\n0\r\n\r\n', FIN, want=EITHER)
    for name, value in (('gzip, chunked', 'gzip, chunked'), ('chunked twice', 'chunked, chunked'), ('chunked first', 'chunked, gzip'),
                        ('xchunked', 'xchunked'), ('chunkedx', 'chunkedx'), ('quoted', '"chunked"'), ('parameter', 'chunked;a=b'),
                        ('chunked identity', 'chunked, identity'), ('NUL', 'chunked\0'), ('vertical tab', '\x0bchunked'),
                        ('semicolon', 'chunked;')):
        add(g, name, head('Transfer-Encoding: ' + value) + b'5\r\nhello\r\n0\r\n\r\n', FIN, want=(BAD,))
    add(g, 'two lines', head('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked') + b'5\r\nhello\r\n0\r\n\r\n', FIN, want=(BAD,))
    add(g, 'gzip on a line before', head('Transfer-Encoding: gzip', 'Transfer-Encoding: chunked') + b'5\r\nhello\r\n0\r\n\r\n', FIN, want=(BAD,))
    add(g, 'identity', head('Transfer-Encoding: identity') + HELLO, FIN, want=EITHER)
    add(g, 'identity and length', head('Transfer-Encoding: identity', 'Content-Length: 5') + HELLO, want=EITHER)
    add(g, 'empty', head('Transfer-Encoding:', 'Content-Length: 5') + HELLO, FIN, want=EITHER)

    g = 'chunks'
    for name, data in (('upper case', b'5\r\nhello\r\n0\r\n\r\n'), ('leading zeros', b'0005\r\nhello\r\n000\r\n\r\n'),
                       ('extension', b'5;a=b\r\nhello\r\n0;c\r\n\r\n'), ('quoted extension', b'5;a="b;c"\r\nhello\r\n0\r\n\r\n'),
                       ('one byte each', b''.join(b'1\r\n%c\r\n' % c for c in HELLO) + b'0\r\n\r\n'),
                       ('trailers', b'5\r\nhello\r\n0\r\nX-Trailer: 1\r\nX-Other: 2\r\n\r\n')):
        add(g, name, TE + data)
    add(g, 'blank before extension', TE + b'5 ;a=b\r\nhello\r\n0\r\n\r\n', want=(PASS, CUT))
    add(g, 'announced trailer', head('Transfer-Encoding: chunked', 'Trailer: X-T') + b'5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n')
    add(g, 'framing in trailers', TE + b'5\r\nhello\r\n0\r\nContent-Length: 3\r\nTransfer-Encoding: gzip\r\n\r\n',
        want=(PASS, CUT))
    add(g, 'hexadecimal', TE + b'1A\r\n' + b'x' * 26 + b'\r\n1a\r\n' + b'y' * 26 + b'\r\n0\r\n\r\n', body=b'x' * 26 + b'y' * 26)
    add(g, 'empty body', TE + b'0\r\n\r\n', body=b'')
    add(g, 'a byte at a time', TE, *[bytes([b]) for b in b'5;a\r\nhello\r\n0\r\nX: y\r\n\r\n'])
    add(g, 'large', TE + b'493e0\r\n' + b'x' * 300000 + b'\r\n0\r\n\r\n', body=b'x' * 300000)
    add(g, 'thousand', TE + b'1\r\nx\r\n' * 1000 + b'0\r\n\r\n', body=b'x' * 1000)
    for name, data in (
            ('no number', b'xyz\r\nhello\r\n'), ('empty size', b'\r\nhello\r\n'), ('negative', b'-5\r\nhello\r\n'),
            ('plus', b'+5\r\nhello\r\n'), ('0x', b'0x5\r\nhello\r\n'), ('two numbers', b'5 5\r\nhello\r\n'),
            ('17 digits', b'10000000000000005\r\nhello\r\n'), ('2^64 - 1', b'FFFFFFFFFFFFFFFF\r\nhello\r\n'),
            ('2^63', b'8000000000000000\r\nhello\r\n'), ('no CRLF behind data', b'5\r\nhello'), ('data too long', b'5\r\nhello!!\r\n'),
            ('other bytes behind data', b'5\r\nhelloXY'), ('bare CR in size', b'5\rhello\r\n'),
            ('size with NUL', b'5\0\r\nhello\r\n'), ('blank before size', b' 5\r\nhello\r\n'), ('comma', b'5,\r\nhello\r\n'),
            ('underscore', b'0_5\r\nhello\r\n'), ('G', b'5g\r\nhello\r\n'), ('a hundred thousand digits', b'0' * 100000 + b'5\r\nhello\r\n')):
        add(g, name, TE + data + b'0\r\n\r\n', FIN, want=(CUT,))
        add(g, name + ', second', TE + b'3\r\nabc\r\n', 0.05, data + b'0\r\n\r\n', FIN, want=(CUT,))
    for name, data in (('bare LF behind size', b'5\nhello\r\n'), ('bare LF behind data', b'5\r\nhello\n')):
        add(g, name, TE + data + b'0\r\n\r\n', FIN, want=(PASS, CUT))
    add(g, 'endless extension', TE + b'5;' + b'x' * 300000, FIN, want=(CUT,))
    add(g, 'endless trailers', TE + b'5\r\nhello\r\n0\r\n' + b'X-T: vvvvvvvvvvvvvvvv\r\n' * 30000, FIN, want=(CUT, PASS))

    g = 'chunks cut'
    for end in (FIN, RST):
        for name, data in (('before the first', b''), ('in a size', b'1'), ('behind a size', b'5'), ('in an extension', b'5;a'),
                           ('behind a size line', b'5\r\n'), ('in the data', b'5\r\nhel'), ('behind the data', b'5\r\nhello'),
                           ('in the CRLF', b'5\r\nhello\r'), ('between chunks', b'5\r\nhello\r\n'),
                           ('in the last size', b'5\r\nhello\r\n0'), ('behind the last size', b'5\r\nhello\r\n0\r\n'),
                           ('in the trailers', b'5\r\nhello\r\n0\r\nX-T: 1'), ('behind the trailers', b'5\r\nhello\r\n0\r\nX-T: 1\r\n'),
                           ('in the last CRLF', b'5\r\nhello\r\n0\r\n\r')):
            add(g, '%s, %s' % (name, end), TE + data, 0.05, end, want=(CUT,))
    add(g, 'at once', TE + b'5\r\nhello\r\n', FIN, want=(CUT,))
    add(g, 'a large one', TE + b'493e0\r\n' + b'x' * 300000 + b'\r\n', 0.05, FIN, want=(CUT,))
    add(g, 'silent in the data', TE + b'5\r\nhel', HANG, want=(CUT, LATE))
    add(g, 'silent between chunks', TE + b'5\r\nhello\r\n', HANG, want=(CUT, LATE))

    g = 'chunks over'
    add(g, 'a byte', chunked(HELLO) + b'!', again=False)
    add(g, 'a CRLF', chunked(HELLO) + b'\r\n', again=False)
    add(g, 'a response', chunked(HELLO) + POISON, again=False)
    add(g, 'a response later', chunked(HELLO), 0.03, POISON, again=False)
    add(g, 'another last chunk', chunked(HELLO) + b'0\r\n\r\n', again=False)


def delimited():
    g = 'by close'
    for first in ('HTTP/1.1 200 OK', 'HTTP/1.0 200 OK'):
        v = first[:8]
        add(g, v, head(first=first) + HELLO, FIN, again=False)
        add(g, v + ' close', head('Connection: close', first=first) + HELLO, FIN, again=False)
        add(g, v + ' empty', head(first=first), FIN, body=b'', again=False)
        add(g, v + ' in parts', head(first=first), 0.03, b'hel', 0.03, b'lo', 0.03, FIN, again=False)
        add(g, v + ' large', head(first=first) + b'x' * 300000, FIN, body=b'x' * 300000, again=False)
        add(g, v + ' reset', head(first=first) + HELLO, 0.05, RST, want=(CUT,))
        add(g, v + ' silent', head(first=first) + HELLO, HANG, want=(CUT, LATE))
    add(g, 'kept, they say', head('Connection: keep-alive') + HELLO, FIN, again=False)
    add(g, 'looks chunked', head() + b'5\r\nhello\r\n0\r\n\r\n', FIN, body=b'5\r\nhello\r\n0\r\n\r\n', again=False)
    add(g, 'looks like a response', head() + POISON, FIN, body=POISON, again=False)


def without_body():
    g = 'no content'
    for code in (204, 304):
        first = 'HTTP/1.1 %d None' % code
        kw = {'status': code, 'body': b''}
        add(g, '%d' % code, head(first=first), **kw)
        add(g, '%d and an ETag' % code, head('ETag: "a"', first=first), has=(('etag', '"a"'),), **kw)
        add(g, '%d with length 0' % code, head('Content-Length: 0', first=first), **kw)
        add(g, '%d with length, no bytes' % code, head('Content-Length: 5', first=first), **kw)
        add(g, '%d with bytes' % code, sized(first=first), again=False, **kw)
        add(g, '%d with bytes, no length' % code, head(first=first) + HELLO, again=False, **kw)
        add(g, '%d with poison' % code, head(first=first) + POISON, again=False, **kw)
        add(g, '%d with poison later' % code, head(first=first), 0.03, POISON, again=False, **kw)
        add(g, '%d chunked, no bytes' % code, head('Transfer-Encoding: chunked', first=first), want=EITHER, **kw)
        add(g, '%d chunked' % code, chunked(HELLO, first=first), want=EITHER, again=False, **kw)
        add(g, '%d and close' % code, head('Connection: close', first=first), FIN, again=False, **kw)
    add(g, '304 keeps its length', head('Content-Length: 1234', 'ETag: "a"', first='HTTP/1.1 304 Same'), status=304, body=b'',
        has=(('etag', '"a"'),))
    add(g, '205', head('Content-Length: 0', first='HTTP/1.1 205 Reset'), status=205, body=b'')
    add(g, '205 chunked', chunked(first='HTTP/1.1 205 Reset'), status=205, body=b'')
    g = 'HEAD'
    kw = {'methods': ('HEAD',), 'body': b''}
    add(g, 'length', head('Content-Length: 1234'), has=(('content-length', '1234'),), **kw)
    add(g, 'length 0', head('Content-Length: 0'), **kw)
    add(g, 'chunked', head('Transfer-Encoding: chunked'), **kw)
    add(g, 'neither', head(), **kw)
    add(g, 'neither, and FIN', head(), FIN, **kw)
    add(g, 'of HTTP 1.0', head('Content-Length: 5', first='HTTP/1.0 200 OK'), FIN, has=(('content-length', '5'),), again=False, **kw)
    add(g, 'with bytes', sized(), again=False, **kw)
    add(g, 'with chunks', chunked(HELLO), again=False, **kw)
    add(g, 'with poison', head('Content-Length: 5') + POISON, again=False, **kw)
    add(g, 'with poison later', head('Content-Length: 5'), 0.03, POISON, again=False, **kw)
    add(g, '404', head('Content-Length: 9', first='HTTP/1.1 404 Nowhere'), status=404, has=(('content-length', '9'),), **kw)
    add(g, '304', head('ETag: "a"', first='HTTP/1.1 304 Same'), status=304, has=(('etag', '"a"'),), **kw)
    add(g, '204', head(first='HTTP/1.1 204 None'), status=204, **kw)
    add(g, 'bad length', head('Content-Length: x'), FIN, want=(BAD,), **kw)
    add(g, 'two lengths', head('Content-Length: 5', 'Content-Length: 6'), FIN, want=(BAD,), **kw)
    add(g, 'silent', HANG, want=(LATE,), **kw)


def interim():
    g = '1xx'
    final = sized()
    for code in (100, 102, 103, 199):
        add(g, '%d' % code, head(first='HTTP/1.1 %d Wait' % code) + final)
        add(g, '%d apart' % code, head(first='HTTP/1.1 %d Wait' % code), 0.03, final)
        add(g, '%d with fields' % code, head('Link: </a>; rel=preload', 'X-Early: 1', first='HTTP/1.1 %d Wait' % code) + final)
        add(g, '%d, then FIN' % code, head(first='HTTP/1.1 %d Wait' % code), FIN, want=(BAD,), methods=('POST',), request_body=b'x')
        add(g, '%d, then silent' % code, head(first='HTTP/1.1 %d Wait' % code), HANG, want=(LATE,), methods=('POST',), request_body=b'x')
    add(g, 'a few', head(first='HTTP/1.1 103 Hints') * 5 + final)
    add(g, 'a hundred', head('Link: </a>', first='HTTP/1.1 103 Hints') * 100 + final, want=EITHER, strict=True)
    add(g, 'a thousand', head(first='HTTP/1.1 100 Continue') * 1000 + final, want=EITHER)
    add(g, 'endless', head(first='HTTP/1.1 100 Continue') * 40000, FIN, want=(BAD,))
    add(g, 'then chunked', head(first='HTTP/1.1 100 Continue') + chunked(HELLO))
    add(g, 'then by close', head(first='HTTP/1.1 100 Continue') + head() + HELLO, FIN)
    add(g, 'with a length', head('Content-Length: 0', first='HTTP/1.1 100 Continue') + final, want=EITHER)
    add(g, 'then garbage', head(first='HTTP/1.1 100 Continue') + b'garbage\r\n\r\n', FIN, want=(BAD,))
    add(g, 'then 204', head(first='HTTP/1.1 100 Continue') + head(first='HTTP/1.1 204 None'), status=204, body=b'')
    add(g, 'a byte at a time', *[bytes([b]) for b in head(first='HTTP/1.1 103 Hints') + final])
    add(g, 'of a HEAD', head(first='HTTP/1.1 103 Hints') + head('Content-Length: 5'), methods=('HEAD',), body=b'')
    switch = head('Connection: upgrade', 'Upgrade: websocket', first='HTTP/1.1 101 Switch')
    add(g, '101 unasked', switch, HANG, want=(BAD,))
    add(g, '101 unasked, then bytes', switch + POISON, want=(BAD,), again=False)
    add(g, '101 unasked, then FIN', switch, FIN, want=(BAD,))
    add(g, '101 without Upgrade', head(first='HTTP/1.1 101 Switch'), HANG, want=(BAD,))
    add(g, '101 behind 100', head(first='HTTP/1.1 100 Continue') + switch, HANG, want=(BAD,))


def statuses():
    g = 'status and framing'
    for code in (200, 201, 202, 203, 206, 226, 300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 406, 408, 409, 410, 411,
                 412, 413, 414, 415, 416, 417, 418, 421, 422, 423, 424, 425, 428, 429, 431, 451, 499, 500, 501, 502, 503, 504,
                 505, 507, 508, 511, 599):
        first = 'HTTP/1.1 %d Some Words' % code
        add(g, '%d by length' % code, sized(first=first), status=code)
        add(g, '%d chunked' % code, chunked(b'hel', b'lo', first=first), status=code)
        add(g, '%d by close' % code, head(first=first) + HELLO, FIN, status=code)
        add(g, '%d of HTTP 1.0' % code, head(first='HTTP/1.0 %d Some Words' % code) + HELLO, FIN, status=code)
        add(g, '%d empty' % code, head('Content-Length: 0', first=first), status=code, body=b'')
    for method in ('POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'):
        add(g, 'of a %s' % method, sized(), methods=(method,), request_body=b'' if method in ('DELETE', 'OPTIONS') else b'data')
        add(g, 'chunked, of a %s' % method, chunked(HELLO), methods=(method,),
            request_body=b'' if method in ('DELETE', 'OPTIONS') else b'data')
    add(g, '206 with its range', sized('Content-Range: bytes 0-4/10', first='HTTP/1.1 206 Part'), status=206,
        has=(('content-range', 'bytes 0-4/10'),))
    add(g, '416 with its range', sized('Content-Range: bytes */10', first='HTTP/1.1 416 No'), status=416,
        has=(('content-range', 'bytes */10'),))
    required = sized('Upgrade: h2c', 'Connection: upgrade', first='HTTP/1.1 426 Up')
    add(g, '426', required, status=426, has=(('upgrade', 'h2c'),), clients=('1.0', '1.0 keep', '1.1', '1.1 close'))
    add(g, '426 over HTTP 2', required, status=426, lacks=('upgrade', 'connection'), clients=('2',))
    add(g, '503 with Retry-After', sized('Retry-After: 7', first='HTTP/1.1 503 Later'), status=503, has=(('retry-after', '7'),))
    add(g, '405 with Allow', sized('Allow: GET, HEAD', first='HTTP/1.1 405 No'), status=405, has=(('allow', 'GET, HEAD'),))


def faults():
    g = 'faults'
    for method, body in (('GET', b''), ('HEAD', b''), ('POST', b'data'), ('PUT', b'data'), ('DELETE', b'')):
        kw = {'methods': (method,), 'request_body': body}
        add(g, 'FIN without a byte, ' + method, FIN, want=(BAD,), **kw)
        add(g, 'RST without a byte, ' + method, RST, want=(BAD,), **kw)
        add(g, 'half a status line, ' + method, b'HTTP/1.1 2', FIN, want=(BAD,), **kw)
        add(g, 'half a head, ' + method, b'HTTP/1.1 200 OK\r\nContent-Le', FIN, want=(BAD,), **kw)
        add(g, 'half a head, reset, ' + method, b'HTTP/1.1 200 OK\r\nContent-Le', 0.03, RST, want=(BAD,), **kw)
        add(g, 'all but the blank line, ' + method, b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n', FIN, want=(BAD,), **kw)
        add(g, 'silent, ' + method, HANG, want=(LATE,), **kw)
        add(g, 'silent in the head, ' + method, b'HTTP/1.1 200 OK\r\nContent-Le', HANG, want=(LATE,), **kw)
    add(g, 'late, but not too late', TIMEOUT / 4, sized(), paced=True)
    add(g, 'slow, but not too slow', head('Content-Length: 5'), *sum(([TIMEOUT / 5, bytes([b])] for b in HELLO), []), paced=True)
    large = {'methods': ('POST',), 'request_body': b'x' * 400000}
    add(g, 'of a large POST', sized(), **large)
    add(g, 'FIN without a byte, of a large POST', FIN, want=(BAD,), **large)


def tables():
    for fill in (status_lines, fields, lengths, codings, delimited, without_body, interim, statuses, faults):
        fill()
    names = [(c.group, c.name) for c in ALL]
    assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)[:5]


tables()
GROUPS = list(dict.fromkeys(c.group for c in ALL))
