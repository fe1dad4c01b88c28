# SPDX-License-Identifier: Apache-2.0
"""Hand-made HTTP/2 (RFC 9113, RFC 7541): the test controls every frame, and received frames are decoded here."""
import socket
import ssl
import struct

from .base import LIMIT

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, WEIGHED = 1, 1, 4, 8, 0x20
ERRORS = ('NO_ERROR PROTOCOL_ERROR INTERNAL_ERROR FLOW_CONTROL_ERROR SETTINGS_TIMEOUT STREAM_CLOSED FRAME_SIZE_ERROR '
          'REFUSED_STREAM CANCEL COMPRESSION_ERROR CONNECT_ERROR ENHANCE_YOUR_CALM INADEQUATE_SECURITY '
          'HTTP_1_1_REQUIRED').split()
PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'

# RFC 7541 appendix A ('_' for a blank), and the lengths of the codes of appendix B, which is canonical.
STATIC = [tuple(f.replace('_', ' ').rsplit('=', 1)) for f in '''
:authority= :method=GET :method=POST :path=/ :path=/index.html :scheme=http :scheme=https :status=200
:status=204 :status=206 :status=304 :status=400 :status=404 :status=500 accept-charset=
accept-encoding=gzip,_deflate accept-language= accept-ranges= accept= access-control-allow-origin= age= allow=
authorization= cache-control= content-disposition= content-encoding= content-language= content-length=
content-location= content-range= content-type= cookie= date= etag= expect= expires= from= host= if-match=
if-modified-since= if-none-match= if-range= if-unmodified-since= last-modified= link= location= max-forwards=
proxy-authenticate= proxy-authorization= range= referer= refresh= retry-after= server= set-cookie=
strict-transport-security= transfer-encoding= user-agent= vary= via= www-authenticate=
'''.split()]
LENGTHS = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6,
    6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8,
    13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15,
    11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23,
    23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26,
    26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21,
    22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27,
    27, 26, 30]


def huffman():
    codes, code, last = {}, 0, 0
    for symbol in sorted(range(257), key=lambda s: (LENGTHS[s], s)):
        code <<= LENGTHS[symbol] - last
        last = LENGTHS[symbol]
        codes[last, code] = symbol
        code += 1
    return codes


CODES = huffman()


def frame(kind, payload=b'', flags=0, stream=0):
    return struct.pack('>I', len(payload))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + payload


def integer(value, bits, first=0):
    top = (1 << bits) - 1
    if value < top:
        return bytes([first | value])
    out, value = [first | top], value - top
    while value >= 128:
        out.append(128 | value & 127)
        value >>= 7
    return bytes(out + [value])


def as_bytes(s):
    return s if isinstance(s, bytes) else s.encode('latin-1')


def literal(name, value, first=0):
    """A literal field without indexing (0), or with incremental indexing (0x40)."""
    name, value = as_bytes(name), as_bytes(value)
    return bytes([first]) + integer(len(name), 7) + name + integer(len(value), 7) + value


def block(fields):
    return b''.join(literal(*f) for f in fields)


REQUEST = [(':method', 'GET'), (':scheme', 'https'), (':path', '/'), (':authority', 'test.example')]


def request(*more, drop=(), **pseudo):
    """The fields of a request. Keywords set pseudo-header fields; None omits one."""
    fields = [(n, pseudo.pop(n[1:], v)) for n, v in REQUEST]
    assert not pseudo, pseudo
    return block([f for f in fields if f[1] is not None] + list(more))


class Decoder:
    def __init__(self):
        self.table = []

    def integer(self, data, at, bits):
        value = data[at] & (1 << bits) - 1
        at += 1
        if value == (1 << bits) - 1:
            shift = 0
            while True:
                value += (data[at] & 127) << shift
                shift += 7
                at += 1
                if data[at - 1] < 128:
                    break
        return value, at

    def string(self, data, at):
        coded = data[at] & 128
        n, at = self.integer(data, at, 7)
        raw = data[at:at + n]
        assert len(raw) == n
        if not coded:
            return raw.decode('latin-1'), at + n
        out, code, bits = [], 0, 0
        for byte in raw:
            for shift in range(7, -1, -1):
                code, bits = code << 1 | byte >> shift & 1, bits + 1
                if (bits, code) in CODES:
                    out.append(CODES[bits, code])
                    code, bits = 0, 0
        assert bits < 8 and code == (1 << bits) - 1, 'padding'
        return bytes(out).decode('latin-1'), at + n

    def field(self, index):
        assert index
        return STATIC[index - 1] if index <= len(STATIC) else self.table[index - len(STATIC) - 1]

    def decode(self, data):
        fields, at = [], 0
        while at < len(data):
            byte = data[at]
            if byte & 128:
                index, at = self.integer(data, at, 7)
                fields.append(self.field(index))
                continue
            if byte & 0xe0 == 0x20:
                _, at = self.integer(data, at, 5)
                continue
            index, at = self.integer(data, at, 6 if byte & 64 else 4)
            name, at = (self.field(index)[0], at) if index else self.string(data, at)
            value, at = self.string(data, at)
            fields.append((name, value))
            if byte & 64:
                self.table.insert(0, (name, value))
                while sum(len(n) + len(v) + 32 for n, v in self.table) > 4096:
                    self.table.pop()
        return fields


class Stream:
    def __init__(self):
        # With bytes, a large body would be copied for each of its frames.
        self.heads, self.body, self.ended, self.reset = [], bytearray(), False, None

    @property
    def status(self):
        return self.heads[-1][0][1] if self.heads else None

    def __getitem__(self, name):
        return ', '.join(v for n, v in self.heads[-1] if n == name) or None

    @property
    def over(self):
        return self.ended or self.reset is not None


def negotiated(port, seconds=LIMIT, receive_bytes=None, source='127.0.0.1'):
    """Opens a TLS connection with HTTP/2 negotiated, on which nothing was sent yet."""
    raw = socket.socket()
    if receive_bytes:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    raw.settimeout(seconds)
    raw.bind((source, 0))
    raw.connect(('127.0.0.1', port))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(['h2'])
    sock = context.wrap_socket(raw, server_hostname='test.example')
    assert sock.selected_alpn_protocol() == 'h2'
    return sock


def to_the_end(sock):
    """All data until the peer has closed."""
    got = b''
    try:
        while data := sock.recv(65536):
            got += data
    except ConnectionError:
        pass
    return got


class Http2:
    """One connection. Received data is stored by stream; `goaway` and `closed` describe its end."""

    def __init__(self, port, settings=b'', seconds=LIMIT, preface=PREFACE, receive_bytes=None, source='127.0.0.1'):
        self.sock = negotiated(port, seconds, receive_bytes, source)
        self.buffer, self.decoder, self.fragment = bytearray(), Decoder(), b''
        self.streams, self.frames, self.goaway, self.last_stream, self.closed = {}, [], None, None, False
        self.settings, self.windows, self.sent_windows = {}, {}, {}
        self.send(preface + frame(SETTINGS, settings))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def stream(self, number):
        return self.streams.setdefault(number, Stream())

    def send(self, data):
        try:
            self.sock.sendall(data)
        except OSError:        # the connection may be closed while data is still being sent
            pass
        return self

    def _on_frame(self, kind, flags, number, payload):
        self.frames.append((kind, flags, number, payload))
        if kind in (HEADERS, CONTINUATION):
            self.fragment += payload
            if flags & END_HEADERS:
                self.stream(number).heads.append(self.decoder.decode(self.fragment))
                self.fragment = b''
            if kind == HEADERS and flags & END_STREAM:
                self.stream(number).ended = True
        elif kind == DATA:
            self.stream(number).body += payload
            self.stream(number).ended |= bool(flags & END_STREAM)
        elif kind == RST_STREAM:
            self.stream(number).reset = ERRORS[struct.unpack('>I', payload)[0]]
        elif kind == GOAWAY:
            self.last_stream, code = struct.unpack('>II', payload[:8])
            self.goaway = ERRORS[code]
        elif kind == WINDOW_UPDATE:
            self.windows[number] = self.windows.get(number, 0) + struct.unpack('>I', payload)[0]
        elif kind == SETTINGS and not flags & ACK:
            self.settings = {k: v for k, v in struct.iter_unpack('>HI', payload)}

    def more(self):
        """Receives and processes data. Returns false at the end of the connection."""
        try:
            data = self.sock.recv(65536)
        except (ConnectionError, ssl.SSLError) as e:
            if isinstance(e, socket.timeout):
                raise
            data = b''
        if not data:
            self.closed = True
            return False
        self.buffer += data
        at = 0
        while len(self.buffer) >= at + 9:
            end = at + 9 + int.from_bytes(self.buffer[at:at + 3], 'big')
            if len(self.buffer) < end:
                break
            head, payload, at = self.buffer[at:at + 9], bytes(self.buffer[at + 9:end]), end
            self._on_frame(head[3], head[4], int.from_bytes(head[5:], 'big'), payload)
        del self.buffer[:at]
        return True

    def until(self, condition):
        while not condition() and not self.closed:
            self.more()
        return self

    def until_over(self, *numbers):
        open_ones = list(reversed(numbers))

        def over():
            # A completed stream stays completed: with many streams, only the first incomplete one is checked each time.
            while open_ones and self.stream(open_ones[-1]).over:
                open_ones.pop()
            return self.goaway not in (None, 'NO_ERROR') or not open_ones
        return self.until(over)

    def ping(self, mark=b'whatever'):
        """Sends a PING and waits for its acknowledgement: all data sent before was processed then."""
        def responded():
            return any(k == PING and f & ACK and p == mark for k, f, _, p in self.frames)
        self.send(frame(PING, mark))
        return self.until(lambda: responded() or self.goaway not in (None, 'NO_ERROR'))

    def get(self, number=1, fields=None):
        self.send(frame(HEADERS, fields if fields is not None else request(), END_STREAM | END_HEADERS, number))
        self.until_over(number)
        return self.stream(number)

    def verdict(self, number):
        """The result of a stream: its status or reset, or the end of the connection."""
        s = self.streams.get(number)
        if s is not None and s.reset and not (s.ended and s.reset == 'NO_ERROR'):
            return 'stream ' + s.reset
        if s is not None and s.status:
            return s.status if s.ended else s.status + ' unfinished'
        if self.goaway not in (None, 'NO_ERROR'):
            return 'connection ' + self.goaway
        return 'closed' if self.closed else 'nothing'


def only_settings(got):
    """Whether GOT is what a server sends before the client speaks: frames of SETTINGS and WINDOW_UPDATE; or nothing, after a reset."""
    kinds = set()
    while got:
        kinds.add(got[3])
        got = got[9 + int.from_bytes(got[:3], 'big'):]
    return kinds <= {SETTINGS, WINDOW_UPDATE}
