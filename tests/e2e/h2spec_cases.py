# SPDX-License-Identifier: Apache-2.0
"""
The cases of h2spec, the usual conformance suite for HTTP/2 servers, with its numbers. One row each: id, the action of the
client, the data that it sends after SETTINGS were exchanged in both directions, and the allowed results. Rows that
http2_cases.py also has are taken from there. The verdicts are stricter than those of h2spec, which accepts a connection
closed without a GOAWAY frame as an error of any kind, and a response with any status as a success.

The data is bytes, or a list of bytes, of functions of the client that return bytes, and of conditions to wait for:
    acknowledged  its last SETTINGS frame is acknowledged       over  stream 1 has ended       data  a DATA frame

    P, F, S, C, W  GOAWAY with PROTOCOL_, FRAME_SIZE_, STREAM_CLOSED, COMPRESSION_ or FLOW_CONTROL_ERROR, then the end
    p, f, s, w, r  the stream is reset with that, or with REFUSED_STREAM, and no other one: stream 1, or if the last
                   member of the row is None, the highest one
    X              the connection ends, with or without GOAWAY
    2              status 200, from the worker
    -              the PING with eight zero bytes is acknowledged, no other one is, and no stream is reset
    1              the last DATA frame has exactly 1 byte     D  a DATA frame     A  SETTINGS is acknowledged
    0              the first frame is SETTINGS, without ACK
"""
import collections
import struct

from http2_cases import CASES, GET, NAMES, OPEN, data, get, headers, post, setting, window
from support.http2 import (ACK, CODES, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING,
                           PREFACE, PRIORITY, RST_STREAM, SETTINGS, WEIGHED, Http2, block, frame, integer, request)

# Number of cases of each section; the sum is 146.
SECTIONS = {
    'generic/1': 1, 'generic/2': 5, 'generic/3.1': 3, 'generic/3.2': 3, 'generic/3.3': 5, 'generic/3.4': 1,
    'generic/3.5': 1, 'generic/3.7': 1, 'generic/3.8': 1, 'generic/3.9': 2, 'generic/3.10': 2, 'generic/4': 4,
    'generic/5': 15,
    'http2/3.5': 2, 'http2/4.1': 3, 'http2/4.2': 3, 'http2/4.3': 3, 'http2/5.1': 13, 'http2/5.1.1': 2, 'http2/5.1.2': 1,
    'http2/5.3.1': 2, 'http2/5.4.1': 1, 'http2/5.5': 2, 'http2/6.1': 3, 'http2/6.2': 4, 'http2/6.3': 2, 'http2/6.4': 3,
    'http2/6.5': 3, 'http2/6.5.2': 5, 'http2/6.5.3': 2, 'http2/6.7': 4, 'http2/6.8': 1, 'http2/6.9': 3,
    'http2/6.9.1': 3, 'http2/6.9.2': 3, 'http2/6.10': 6, 'http2/7': 2, 'http2/8.1': 1, 'http2/8.1.2': 1,
    'http2/8.1.2.1': 4, 'http2/8.1.2.2': 2, 'http2/8.1.2.3': 7, 'http2/8.1.2.6': 2, 'http2/8.2': 1,
    'hpack/2.3.3': 2, 'hpack/4.2': 1, 'hpack/5.2': 3, 'hpack/6.1': 1, 'hpack/6.3': 1}
# h2spec has this case only in strict mode.
STRICT = ['http2/5.4.1/2']

BYTES = {(group, name): sent for group, name, sent, *_ in CASES}
HUFFMAN = {symbol: (code, bits) for (bits, code), symbol in CODES.items()}


def the(group, name):
    """A row of http2_cases.py: its name and its data."""
    return group + ': ' + name, BYTES[group, name]


def huffman(text):
    """A string literal in Huffman encoding (RFC 7541 section 5.2)."""
    digits = ''.join('{:0{}b}'.format(*HUFFMAN[ord(c)]) for c in text)
    digits += '1' * (-len(digits) % 8)
    coded = int(digits, 2).to_bytes(len(digits) // 8, 'big')
    return integer(len(coded), 7, 0x80) + coded


def plain(text):
    return integer(len(text), 7) + text.encode()


def priority(stream=1, depends=0, weight=255):
    return frame(PRIORITY, struct.pack('>IB', depends, weight), 0, stream)


def resets(code=8, stream=1):
    return frame(RST_STREAM, struct.pack('>I', code), 0, stream)


def begun(fields=b'', flags=END_STREAM):
    """An incomplete field section."""
    return headers(request() + fields, flags)


def continuation(payload, flags=END_HEADERS, stream=1):
    return frame(CONTINUATION, payload, flags, stream)


def field(first, bits, text):
    """A request with user-agent by its index in the static table, and with a name that is a literal."""
    return headers(request() + integer(58, bits, first) + text('h2spec') + new(first, text))


def new(first, text):
    return bytes([first]) + text('x-test') + text('h2spec')


def more_than_announced(client):
    return b''.join(headers(request(), stream=2 * n + 1) for n in range(client.settings[3] + 1))


PROBE = frame(PING, bytes(8))
MORE = block([('x-more', 'x' * 4000)])
TRAILERS = block([('x-test', 'ok')])

CASES_OF_H2SPEC = [
    # id, what is done, what is sent, allowed
    ('generic/1/1', 'the preface', None, '0'),
    ('generic/2/1', 'PRIORITY of an idle stream', priority() + PROBE, '-'),
    ('generic/2/2', 'WINDOW_UPDATE after END_STREAM', setting(4, 0) + GET + window(1, 1), 'D'),
    ('generic/2/3', 'PRIORITY after END_STREAM', setting(4, 0) + GET + priority() + window(1, 1), 'D'),
    ('generic/2/4', 'RST_STREAM after END_STREAM', GET + resets() + PROBE, '-'),
    ('generic/2/5', 'PRIORITY of a closed stream', [GET, 'over', priority() + PROBE], '-'),
    ('generic/3.1/1', 'one DATA frame', post(data()), '2'),
    ('generic/3.1/2', 'two DATA frames', post(data(flags=0), data()), '2'),
    ('generic/3.1/3', 'padded DATA', post(data(b'\5test' + bytes(5), PADDED | END_STREAM)), '2'),
    ('generic/3.2/1', *the('valid', 'a request'), '2'),
    ('generic/3.2/2', 'padded HEADERS', headers(b'\x08' + request() + bytes(8), END_STREAM | END_HEADERS | PADDED),
     '2'),
    ('generic/3.2/3', 'HEADERS with a priority', headers(struct.pack('>IB', 0, 255) + request(),
                                                         END_STREAM | END_HEADERS | WEIGHED), '2'),
    ('generic/3.3/1', 'the lowest weight', priority(weight=0) + GET, '2'),
    ('generic/3.3/2', 'the highest weight', priority() + GET, '2'),
    ('generic/3.3/3', 'a stream that depends on an idle one', priority(3, 1, 0) + GET, '2'),
    ('generic/3.3/4', 'an exclusive dependency', priority(1, 1 << 31, 0) + GET, '2'),
    ('generic/3.3/5', 'PRIORITY of a higher stream than that of the request', priority(3) + GET, '2'),
    ('generic/3.4/1', 'RST_STREAM of an open stream', OPEN + resets() + PROBE, '-'),
    ('generic/3.5/1', 'SETTINGS with all settings', frame(SETTINGS, b''.join(struct.pack('>HI', *s) for s in (
        (1, 4096), (2, 1), (3, 100), (4, 65535), (5, 16384), (6, 100)))), 'A'),
    ('generic/3.7/1', 'PING', PROBE, '-'),
    ('generic/3.8/1', 'GOAWAY', frame(GOAWAY, bytes(8) + b'end') + PROBE, '-'),
    ('generic/3.9/1', 'WINDOW_UPDATE of the connection', window(1) + PROBE, '-'),
    ('generic/3.9/2', 'WINDOW_UPDATE of a stream', GET + window(1, 1), '2'),
    ('generic/3.10/1', 'one CONTINUATION', headers(request()[:5], END_STREAM) + continuation(request()[5:]), '2'),
    ('generic/3.10/2', *the('valid', 'a head in three frames'), '2'),
    ('generic/4/1', *the('valid', 'a request'), '2'),
    ('generic/4/2', 'HEAD', get(method='HEAD'), '2'),
    ('generic/4/3', 'POST', post(data(b'', 0), data()), '2'),
    ('generic/4/4', 'POST with trailers', post(data(flags=0), headers(TRAILERS), fields=[('trailer', 'x-test')]), '2'),
    ('generic/5/1', 'an index of the static table', headers(request() + integer(58, 7, 0x80)), '2'),
    # Each row has both: the name by its index and as a literal.
    ('generic/5/2', 'a literal that is indexed, by Huffman', field(0x40, 6, huffman), '2'),
    ('generic/5/3', 'a literal that is indexed', field(0x40, 6, plain), '2'),
    ('generic/5/4', 'a new name that is indexed', headers(request() + new(0x40, plain)), '2'),
    ('generic/5/5', 'a new name that is indexed, by Huffman', headers(request() + new(0x40, huffman)), '2'),
    ('generic/5/6', 'a literal that is not indexed', field(0, 4, plain), '2'),
    ('generic/5/7', 'a literal that is not indexed, by Huffman', field(0, 4, huffman), '2'),
    ('generic/5/8', 'a new name that is not indexed', headers(request() + new(0, plain)), '2'),
    ('generic/5/9', 'a new name that is not indexed, by Huffman', headers(request() + new(0, huffman)), '2'),
    ('generic/5/10', 'a literal that is never indexed', field(0x10, 4, plain), '2'),
    ('generic/5/11', 'a literal that is never indexed, by Huffman', field(0x10, 4, huffman), '2'),
    ('generic/5/12', 'a new name that is never indexed', headers(request() + new(0x10, plain)), '2'),
    ('generic/5/13', 'a new name that is never indexed, by Huffman', headers(request() + new(0x10, huffman)), '2'),
    ('generic/5/14', 'a table of 128 bytes', headers(integer(128, 5, 0x20) + request()), '2'),
    ('generic/5/15', 'a table of 128, then of 4096 bytes',
     headers(integer(128, 5, 0x20) + integer(4096, 5, 0x20) + request()), '2'),

    ('http2/3.5/1', 'the preface', None, '0'),
    ('http2/3.5/2', 'another preface', b'INVALID CONNECTION PREFACE\r\n\r\n', 'PX'),
    ('http2/4.1/1', 'an unknown frame', frame(0x16, bytes(8)) + PROBE, '-'),
    ('http2/4.1/2', 'unknown flags', frame(PING, bytes(8), 0x16), '-'),
    ('http2/4.1/3', 'unknown flags and the reserved bit', frame(PING, bytes(8), 0x16, 1 << 31), '-'),
    ('http2/4.2/1', 'DATA as large as allowed', post(data(bytes(16384))), '2'),
    ('http2/4.2/2', 'DATA larger than allowed', post(data(bytes((1 << 20) + 1))), 'fF'),
    ('http2/4.2/3', *the('frames', 'HEADERS larger than allowed'), 'F'),
    ('http2/4.3/1', 'a literal without a length', headers(b'\x40'), 'C'),
    ('http2/4.3/2', 'PRIORITY within a block', begun(flags=0) + priority() + continuation(MORE), 'P'),
    ('http2/4.3/3', *the('blocks', 'HEADERS within a block'), 'P'),
    ('http2/5.1/1', *the('streams', 'DATA of an idle stream'), 'P'),
    ('http2/5.1/2', *the('streams', 'RST_STREAM of an idle stream'), 'P'),
    ('http2/5.1/3', *the('streams', 'WINDOW_UPDATE of an idle stream'), 'P'),
    ('http2/5.1/4', *the('blocks', 'CONTINUATION without HEADERS'), 'P'),
    ('http2/5.1/5', *the('streams', 'DATA after END_STREAM'), 'sS'),
    ('http2/5.1/6', *the('streams', 'HEADERS after END_STREAM'), 'sS'),
    ('http2/5.1/7', *the('blocks', 'CONTINUATION after the end'), 'sSpP'),
    ('http2/5.1/8', *the('streams', 'DATA after RST_STREAM'), 'sS'),
    ('http2/5.1/9', *the('streams', 'HEADERS after RST_STREAM'), 'sS'),
    ('http2/5.1/10', 'CONTINUATION after RST_STREAM', OPEN + resets() + continuation(MORE), 'sSpP'),
    ('http2/5.1/11', 'DATA of a closed stream', [GET, 'over', data()], 'sS'),
    ('http2/5.1/12', 'HEADERS of a closed stream', [GET, 'over', GET], 'S'),
    ('http2/5.1/13', 'CONTINUATION of a closed stream', [GET, 'over', continuation(MORE)], 'SP'),
    ('http2/5.1.1/1', *the('streams', 'HEADERS of an even stream'), 'P'),
    # S: the HEADERS frame of the higher stream has closed this one.
    ('http2/5.1.1/2', *the('streams', 'HEADERS of a lower stream'), 'PS'),
    ('http2/5.1.2/1', 'more streams than announced', [setting(4, 0), more_than_announced], 'pr', None),
    ('http2/5.3.1/1', *the('streams', 'a stream that depends on itself'), 'pP'),
    ('http2/5.3.1/2', *the('streams', 'PRIORITY that depends on itself'), 'pP'),
    ('http2/5.4.1/1', 'PING of a stream: the connection ends', frame(PING, bytes(8), 0, 3), 'PX'),
    ('http2/5.4.1/2', 'PING of a stream: GOAWAY', frame(PING, bytes(8), 0, 3), 'P'),
    ('http2/5.5/1', 'an unknown frame', frame(0x16, bytes(8)) + PROBE, '-'),
    ('http2/5.5/2', *the('blocks', 'an unknown frame within a block'), 'P'),
    ('http2/6.1/1', *the('frames', 'DATA of stream 0'), 'P'),
    ('http2/6.1/2', 'DATA after END_STREAM of a POST', headers(request(method='POST')) + data(), 'sS'),
    ('http2/6.1/3', *the('frames', 'DATA padded by all of it'), 'P'),
    ('http2/6.2/1', 'PRIORITY within a block', begun(flags=0) + priority() + continuation(MORE), 'P'),
    ('http2/6.2/2', *the('blocks', 'HEADERS within a block'), 'P'),
    ('http2/6.2/3', *the('frames', 'HEADERS of stream 0'), 'P'),
    ('http2/6.2/4', *the('frames', 'HEADERS padded by more than all'), 'pP'),
    ('http2/6.3/1', *the('frames', 'PRIORITY of stream 0'), 'P'),
    ('http2/6.3/2', 'PRIORITY of four bytes', GET + frame(PRIORITY, b'\x80\0\0\1', 0, 1), 'fF'),
    ('http2/6.4/1', *the('frames', 'RST_STREAM of stream 0'), 'P'),
    ('http2/6.4/2', *the('streams', 'RST_STREAM of an idle stream'), 'P'),
    ('http2/6.4/3', *the('frames', 'RST_STREAM too short'), 'fF'),
    ('http2/6.5/1', *the('frames', 'SETTINGS acknowledged with payload'), 'F'),
    ('http2/6.5/2', *the('frames', 'SETTINGS of a stream'), 'P'),
    ('http2/6.5/3', *the('frames', 'SETTINGS not of six'), 'PF'),
    ('http2/6.5.2/1', *the('settings', 'ENABLE_PUSH 2'), 'P'),
    ('http2/6.5.2/2', *the('settings', 'INITIAL_WINDOW_SIZE too large'), 'W'),
    ('http2/6.5.2/3', *the('settings', 'MAX_FRAME_SIZE too small'), 'P'),
    ('http2/6.5.2/4', *the('settings', 'MAX_FRAME_SIZE too large'), 'P'),
    ('http2/6.5.2/5', 'an unknown setting', setting(0xff, 1) + PROBE, '-'),
    ('http2/6.5.3/1', 'INITIAL_WINDOW_SIZE twice', [frame(SETTINGS, struct.pack('>HIHI', 4, 100, 4, 1)), 'acknowledged',
                                                    GET], '1'),
    ('http2/6.5.3/2', 'SETTINGS', setting(2, 0), 'A'),
    ('http2/6.7/1', 'PING', PROBE, '-'),
    ('http2/6.7/2', 'PING with ACK', frame(PING, b'unwanted', ACK) + PROBE, '-'),
    ('http2/6.7/3', *the('frames', 'PING of a stream'), 'P'),
    ('http2/6.7/4', *the('frames', 'PING too short'), 'F'),
    ('http2/6.8/1', *the('frames', 'GOAWAY of a stream'), 'P'),
    ('http2/6.9/1', *the('windows', 'of the connection by 0'), 'P'),
    ('http2/6.9/2', *the('windows', 'of a stream by 0'), 'pP'),
    ('http2/6.9/3', *the('frames', 'WINDOW_UPDATE too short'), 'F'),
    ('http2/6.9.1/1', 'a window of 1 byte', [setting(4, 1), 'acknowledged', GET], '1'),
    ('http2/6.9.1/2', *the('windows', 'of the connection over the maximum'), 'W'),
    ('http2/6.9.1/3', *the('windows', 'of a stream over the maximum'), 'w'),
    ('http2/6.9.2/1', 'INITIAL_WINDOW_SIZE after HEADERS', [setting(4, 0), 'acknowledged', GET + setting(4, 1)], '1'),
    ('http2/6.9.2/2', 'a window below 0', [setting(4, 3), 'acknowledged', GET, 'data', setting(4, 2), 'acknowledged',
                                           window(2, 1)], '1'),
    ('http2/6.9.2/3', *the('settings', 'INITIAL_WINDOW_SIZE too large'), 'W'),
    ('http2/6.10/1', 'two CONTINUATIONs', begun() + continuation(MORE, 0) + continuation(MORE), '2'),
    ('http2/6.10/2', 'DATA after a CONTINUATION', headers(request(method='POST'), 0) + continuation(MORE, 0) + data(),
     'P'),
    ('http2/6.10/3', 'CONTINUATION of stream 0', begun() + continuation(MORE, stream=0), 'P'),
    ('http2/6.10/4', *the('blocks', 'CONTINUATION after the end'), 'P'),
    ('http2/6.10/5', 'CONTINUATION after one that ended', begun() + continuation(MORE) * 2, 'P'),
    ('http2/6.10/6', *the('blocks', 'DATA within a block'), 'P'),
    ('http2/7/1', 'GOAWAY with an unknown code', frame(GOAWAY, struct.pack('>II', 0, 0xff)) + PROBE, '-'),
    ('http2/7/2', 'RST_STREAM with an unknown code', OPEN + resets(0xff) + PROBE, '-'),
    ('http2/8.1/1', *the('streams', 'HEADERS in a body, without END_STREAM'), 'pP'),
    ('http2/8.1.2/1', *the('malformed', 'an upper-case name'), 'pP'),
    ('http2/8.1.2.1/1', *the('malformed', 'an unknown pseudo-header field'), 'pP'),
    ('http2/8.1.2.1/2', *the('malformed', ':status'), 'pP'),
    ('http2/8.1.2.1/3', *the('malformed', 'a pseudo-header field in trailers'), 'pP'),
    ('http2/8.1.2.1/4', *the('malformed', 'a pseudo-header field after others'), 'pP'),
    ('http2/8.1.2.2/1', *the('malformed', 'connection'), 'pP'),
    ('http2/8.1.2.2/2', 'te: trailers, deflate', headers(request(('te', 'trailers, deflate'))), 'pP'),
    # Not the row of http2_cases.py: nginx gives other results for a name that is a literal.
    ('http2/8.1.2.3/1', 'an empty :path, by its index',
     headers(request(path=None) + integer(4, 6, 0x40) + plain('')), 'pP'),
    ('http2/8.1.2.3/2', *the('malformed', 'no :method'), 'pP'),
    ('http2/8.1.2.3/3', *the('malformed', 'no :scheme'), 'pP'),
    ('http2/8.1.2.3/4', *the('malformed', 'no :path'), 'pP'),
    ('http2/8.1.2.3/5', *the('malformed', ':method twice'), 'pP'),
    ('http2/8.1.2.3/6', ':scheme twice', headers(request((':scheme', 'https'))), 'pP'),
    ('http2/8.1.2.3/7', *the('malformed', ':path twice'), 'pP'),
    ('http2/8.1.2.6/1', *the('lengths', 'more body than content-length'), 'pP'),
    ('http2/8.1.2.6/2', *the('lengths', 'more body, in pieces'), 'pP'),
    ('http2/8.2/1', *the('frames', 'PUSH_PROMISE'), 'P'),

    ('hpack/2.3.3/1', *the('hpack', 'an index that is not there'), 'C'),
    ('hpack/2.3.3/2', *the('hpack', 'a name index that is not there'), 'C'),
    ('hpack/4.2/1', *the('hpack', 'a change of the table after a field'), 'C'),
    ('hpack/5.2/1', *the('hpack', 'padding of more than 7 bits'), 'C'),
    ('hpack/5.2/2', *the('hpack', 'padding of zeros'), 'C'),
    ('hpack/5.2/3', *the('hpack', 'EOS in a string'), 'C'),
    ('hpack/6.1/1', *the('hpack', 'index 0'), 'C'),
    ('hpack/6.3/1', *the('hpack', 'a table larger than allowed'), 'C'),
]


def section(case):
    return case[0].rpartition('/')[0]


def sections():
    return dict(collections.Counter(section(c) for c in CASES_OF_H2SPEC if c[0] not in STRICT))


def kinds(sent):
    """The type and the flags of each frame."""
    while len(sent) >= 9:
        yield sent[3], sent[4]
        sent = sent[9 + int.from_bytes(sent[:3], 'big'):]


class Client(Http2):
    """One connection; the methods without arguments are conditions."""

    def __init__(self, port, **kw):
        super().__init__(port, setting(4, 65535)[9:], **kw)
        self.settings_sent, self.data_seen = 1, 0

    def shake_hands(self):
        self.until(lambda: self.settings).until(self.acknowledged)
        return self.send(frame(SETTINGS, b'', ACK))

    def count(self, kind, flags=0):
        return sum(k == kind and f & flags == flags for k, f, *_ in self.frames)

    def failed(self):
        return self.goaway not in (None, 'NO_ERROR')

    def acknowledged(self):
        return self.failed() or self.count(SETTINGS, ACK) == self.settings_sent

    def over(self):
        return self.failed() or self.stream(1).over

    def data(self):
        return self.failed() or self.count(DATA) > self.data_seen

    def probed(self):
        return self.failed() or bytes(8) in self.pings()

    def pings(self):
        return [p for k, f, _, p in self.frames if k == PING and f & ACK]

    def resets(self):
        return {n: s.reset for n, s in self.streams.items() if s.reset}

    def do(self, steps):
        for step in [steps] if isinstance(steps, bytes) else steps:
            if isinstance(step, str):
                self.until(getattr(self, step))
                continue
            step = step if isinstance(step, bytes) else step(self)
            self.settings_sent += sum(k == SETTINGS and not f & ACK for k, f in kinds(step))
            self.data_seen = self.count(DATA)
            self.send(step)

    def ending(self):
        """Waits for the end of the connection. Returns its result."""
        self.until(lambda: False)
        return 'connection ' + self.goaway if self.goaway else 'closed'

    def error(self, stream):
        self.until(lambda: self.failed() or self.resets())
        if not self.resets():
            return self.ending()
        self.ping()     # the others are served
        stream = stream or max(self.streams)
        return 'stream ' + self.resets()[stream] if [*self.resets()] == [stream] and not self.failed() else 'more'


def first(c):
    kind, flags, *_ = c.until(lambda: c.frames).frames[0]
    return kind == SETTINGS and not flags & ACK


def served(c):
    s = c.until(c.over).stream(1)
    return s.status == '200' and s.ended and not s.reset


# Results that are not errors.
GOOD = {
    '0': first,
    '2': served,
    '-': lambda c: c.until(c.probed).pings() == [bytes(8)],
    '1': lambda c: c.until(c.data) and len([p for k, _, _, p in c.frames if k == DATA][-1]) == 1,
    'D': lambda c: c.until(c.data).count(DATA) > c.data_seen,
    'A': lambda c: c.until(c.acknowledged).count(SETTINGS, ACK) == c.settings_sent}
ERRORS = {**NAMES, 'X': 'closed'}


def check(port, case, **kw):
    """Runs a case. Returns None, or what is wrong with the result."""
    name, _, steps, allowed, stream = *case, *([1] if len(case) == 4 else [])
    preface = steps if name == 'http2/3.5/2' else PREFACE
    with Client(port, preface=preface, **kw) as c:
        try:
            if name.rpartition('/')[0] not in ('generic/1', 'http2/3.5'):
                c.shake_hands().do(steps)
            if allowed not in GOOD:
                result = c.error(stream)
                return None if result in [ERRORS[a] for a in allowed] else result
            if GOOD[allowed](c) and not c.failed() and not c.closed and not c.resets():
                return None
            return 'connection %s, streams %s, frames %s' % (
                c.goaway or c.closed, c.resets(), [f[:3] for f in c.frames])
        except (TimeoutError, IndexError) as e:
            return '%r, connection %s, streams %s' % (e, c.goaway or c.closed, c.resets())
