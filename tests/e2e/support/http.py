# SPDX-License-Identifier: Apache-2.0
"""A raw HTTP/1.1 client: the test controls all bytes sent, and sees all bytes received."""
import socket

from .base import LIMIT


def connect(address, seconds=LIMIT):
    """Connects to ADDRESS: 'host:port', '[ipv6]:port', 'unix:/path' or a (host, port) pair."""
    if isinstance(address, tuple):
        return socket.create_connection(address, timeout=seconds)
    if address.startswith('unix:'):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(seconds)
        s.connect(address[5:])
        return s
    host, _, port = address.rpartition(':')
    return socket.create_connection((host.strip('[]'), int(port)), timeout=seconds)


class CutShort(ConnectionError):
    """The connection ended before the end of the response."""


class BodyCutShort(CutShort):
    """The connection ended after the head of the response, before the end of its body."""


class Response:
    def __init__(self, status, reason, headers, body, version):
        self.status, self.reason, self.headers, self.body, self.version = status, reason, headers, body, version

    def __getitem__(self, name):
        """The value of a header field, or None. Several values are joined by ', '."""
        found = [v for k, v in self.headers if k.lower() == name.lower()]
        return ', '.join(found) if found else None

    @property
    def text(self):
        return self.body.decode('utf-8', 'replace')


class Client:
    """One connection. request() = send() + receive()."""

    def __init__(self, address, seconds=LIMIT, sock=None):
        self.address = address
        self.sock = sock or connect(address, seconds)
        self.buffer = bytearray()      # appending to bytes would be quadratic for large bodies
        self.interim = []

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send_raw(self, data):
        self.sock.sendall(data)

    def send(self, method='GET', target='/', host='test.example', headers=(), body=None, version='1.1'):
        lines = ['%s %s HTTP/%s' % (method, target, version)]
        if host is not None:
            lines.append('Host: %s' % host)
        lines += ['%s: %s' % h for h in headers]
        names = {h[0].lower() for h in headers}
        if body is not None and not names & {'content-length', 'transfer-encoding'}:
            lines.append('Content-Length: %d' % len(body))
        self.sock.sendall('\r\n'.join(lines).encode('latin-1') + b'\r\n\r\n' + (body or b''))

    def _more(self):
        # For larger reads Python maps and unmaps memory each time, which is five times the cost of a small response.
        data = self.sock.recv(1 << 16)
        if not data:
            return False
        self.buffer += data
        return True

    def _need(self, n):
        while len(self.buffer) < n:
            if not self._more():
                raise BodyCutShort('%d bytes of %d' % (len(self.buffer), n))
        data = bytes(self.buffer[:n])
        del self.buffer[:n]
        return data

    def _line(self):
        while b'\r\n' not in self.buffer:
            if not self._more():
                raise CutShort('in a line: %r' % self.buffer[:80])
        line = self._need(self.buffer.index(b'\r\n') + 2)
        return line[:-2]

    def head(self):
        status_line = self._line().decode('latin-1')
        version, status, reason = (status_line.split(' ', 2) + [''])[:3]
        headers = []
        while True:
            line = self._line()
            if not line:
                return version, int(status), reason, headers
            name, _, value = line.decode('latin-1').partition(':')
            headers.append((name, value.strip()))

    def receive(self, is_head=False):
        while True:
            version, status, reason, headers = self.head()
            if status >= 200 or status == 101:
                break
            self.interim.append(status)
        return Response(status, reason, headers, self.body(status, headers, is_head), version)

    def body(self, status, headers, is_head=False):
        """Receives the body of a response, according to its framing."""
        low = {}
        for k, v in headers:
            low.setdefault(k.lower(), v)
        if is_head or status in (101, 204, 304):
            return b''
        if 'chunked' in low.get('transfer-encoding', ''):
            body = bytearray()
            while True:
                size = int(self._line().split(b';')[0], 16)
                if size == 0:
                    while self._line():
                        pass
                    return bytes(body)
                body += self._need(size)
                if self._need(2) != b'\r\n':
                    raise BodyCutShort('chunk without its end')
        if 'content-length' in low:
            return self._need(int(low['content-length']))
        while self._more():
            pass
        return self._need(len(self.buffer))

    def request(self, method='GET', target='/', host='test.example', headers=(), body=None, version='1.1'):
        self.send(method, target, host, headers, body, version)
        return self.receive(is_head=method == 'HEAD')


def get(address, target='/', host='test.example', method='GET', **kw):
    with Client(address) as c:
        return c.request(method, target, host, **kw)
