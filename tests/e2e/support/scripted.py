# SPDX-License-Identifier: Apache-2.0
"""A worker that a test controls byte by byte, for failures and timings that no real server produces on demand."""
import socket
import threading

from .base import LIMIT, free_port, wait_until


class Connection:
    """The connection that a script receives: it reads requests, writes bytes, and closes the connection in a given way."""

    def __init__(self, sock, number, server, peer):
        self.sock, self.number, self.server = sock, number, server
        self.peer, self.ended = peer, False
        self.buffer = bytearray()      # appending to bytes would be quadratic for large bodies

    def read_request(self):
        """Reads a request. Returns (head bytes, body bytes), or None at the end of the connection."""
        while b'\r\n\r\n' not in self.buffer:
            data = self.sock.recv(65536)
            if not data:
                return None
            self.buffer += data
        end = self.buffer.index(b'\r\n\r\n')
        head = bytes(self.buffer[:end])
        del self.buffer[:end + 4]
        length = 0
        for line in head.split(b'\r\n')[1:]:
            name, _, value = line.partition(b':')
            if name.strip().lower() == b'content-length':
                length = int(value)
        while len(self.buffer) < length:
            data = self.sock.recv(65536)
            if not data:
                return None
            self.buffer += data
        body = bytes(self.buffer[:length])
        del self.buffer[:length]
        if self.server.remembers:
            self.server.requests.append((head, body))
        return head, body

    def write(self, data):
        self.sock.sendall(data)

    def respond(self, body=b'ok', status='200 OK', headers=()):
        lines = ['HTTP/1.1 ' + status, 'Content-Length: %d' % len(body)] + ['%s: %s' % h for h in headers]
        self.write('\r\n'.join(lines).encode() + b'\r\n\r\n' + body)

    def reset(self):
        """Closes the connection with RST."""
        if self.sock.fileno() < 0:
            return
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
        self.sock.close()


class Scripted:
    """Runs script(connection) in a thread per connection. `requests` collects the requests received, unless `remembers` is false."""

    def __init__(self, script, host='127.0.0.1', path=None, port=0, remembers=True):
        self.script = script
        self.remembers = remembers
        self.requests = []
        self.connections = []
        self.errors = []
        if path:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(path)
            self.address = 'unix:' + path
        else:
            self.listener = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET)
            if port:            # the port of an earlier worker; connections of that may still be open
                self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port = port or free_port(host)
            self.listener.bind((host, port))
            self.address = ('[%s]:%d' if ':' in host else '%s:%d') % (host, port)
        self.listener.listen(1024)
        self.closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        number = 0
        while not self.closed:
            try:
                sock, peer = self.listener.accept()
            except OSError:
                return
            sock.settimeout(LIMIT)
            c = Connection(sock, number, self, peer)
            number += 1
            self.connections.append(c)
            threading.Thread(target=self._run, args=(c,), daemon=True).start()

    def _run(self, c):
        try:
            self.script(c)
        except OSError:
            pass            # the peer has closed the connection: a normal end of a script
        except Exception as e:
            self.errors.append(e)
        finally:
            c.sock.close()
            c.ended = True
            if not self.remembers:
                self.connections.remove(c)

    def heard_all(self):
        """Waits for the end of all connections, including those not accepted yet. `requests` is complete afterwards."""
        with socket.socket(self.listener.family) as last:
            last.connect(self.listener.getsockname())
            name = last.getsockname()
            wait_until(lambda: any(c.peer == name for c in self.connections), 'those that wait to be accepted')
        wait_until(lambda: all(c.ended for c in self.connections), 'all connections to end')

    def close(self):
        self.closed = True
        # shutdown first: close alone does not wake a thread that is blocked in accept
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        for c in list(self.connections):
            # Only the connection's own thread closes the socket: that may be blocked in a call with the descriptor, which could
            # be reused for another socket.
            try:
                c.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        assert not self.errors, self.errors


def serve(response):
    """Returns a script that calls respond(connection, head, body) for every request of a connection."""
    def script(c):
        while True:
            request = c.read_request()
            if request is None:
                return
            response(c, *request)
    return script


def hello(c, head, body):
    c.respond(b'hello')
