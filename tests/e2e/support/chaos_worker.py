# SPDX-License-Identifier: Apache-2.0
"""
A worker of the chaos run: chaos_worker.py PORT NAME good|bad SEED EXECUTED serves the same responses as chaos_app.py, and also
bodies delimited by the end of the connection. A bad worker does so for half of the requests, and applies one of FAULTS to the
others. Both have a resume stream, so that they can be registered in a tree; that of a bad one breaks.
"""
import json
import random
import select
import socket
import sys
import threading
import time

from chaos_bodies import TARGET, body_of, framing_of, pieces, record

STREAM = '/.well-known/resumelb/resume'
RESET = b'\1\0\0\0\0\0\0\0'    # SO_LINGER with time 0: close() sends a reset
# Response heads that are not HTTP or have an invalid or ambiguous framing.
GARBAGE = [
    b'HTP/1.1 200 OK\r\n\r\n', b'HTTP/1.1 abc OK\r\n\r\n', b'HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n', b'\0\0\0\0\r\n\r\n',
    b'220 mail.example ESMTP\r\n', b'\x16\x03\x01\x02\x00\x01\x00', b'HTTP/1.1 200 OK\r\nno colon here\r\n\r\n',
    b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!', b'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n',
    b'HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n', b'HTTP/1.1 200 OK\r\nContent-Length: 1e3\r\n\r\n',
    b'HTTP/1.1 200 OK\r\nX: ' + b'y' * 300_000 + b'\r\n\r\n', b'HTTP/1.1 200 OK\r\n' + b'X: y\r\n' * 5000 + b'\r\n']


class Reset(Exception):
    """Raised to end the connection with a reset."""


class Closed(Exception):
    """Raised to end the connection."""


class Worker:
    def __init__(self, port, name, kind, seed, executed):
        self.name, self.bad, self.executed = name, kind == 'bad', executed
        self.random = random.Random(int(seed))
        self.listener = socket.create_server(('127.0.0.1', int(port)), backlog=256)
        self.instance = '%s-%s' % (name, seed)

    def run(self):
        print('ready', flush=True)
        while True:
            sock, _ = self.listener.accept()
            threading.Thread(target=self.connection, args=(sock,), daemon=True).start()

    def connection(self, sock):
        sock.settimeout(3600)
        try:
            if self.bad and self.random.random() < 0.05:
                raise Reset
            stream = sock.makefile('rb')
            while self.request(sock, stream):
                pass
        except Reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        except (Closed, OSError):
            pass
        finally:
            # The file object keeps the socket open.
            try:
                stream.close()
            except NameError:
                pass
            sock.close()

    def request(self, sock, stream):
        line = stream.readline().decode('latin-1')
        if not line:
            return False
        method, target, _ = line.split(' ', 2)
        headers = {}
        while True:
            line = stream.readline().strip()
            if not line:
                break
            name, _, value = line.decode('latin-1').partition(':')
            headers[name.lower()] = value.strip()
        body = self.body(stream, headers)
        if target == STREAM:
            return self.resume(sock, headers)
        if TARGET.fullmatch(target) is None:
            sock.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
            return True
        if method == 'POST':
            record(self.executed, target, body)
        how = self.random.choice(FAULTS) if self.bad and self.random.random() < 0.5 else respond
        return how(self, sock, target)

    def body(self, stream, headers):
        if headers.get('transfer-encoding') == 'chunked':
            body = b''
            while True:
                size = int(stream.readline().split(b';')[0], 16)
                body += stream.read(size)
                stream.readline()
                if size == 0:
                    return body
        return stream.read(int(headers.get('content-length', 0)))

    def resume(self, sock, headers):
        if headers.get('resumelb-feed') != '1':
            sock.sendall(b'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n')
            return True
        line = {'v': 1, 'instance': self.instance, 'application': 'app', 'version': '', 'fingerprint': '0' * 16,
                'state': 'ready', 'generation': 1, 'skills': {}}
        sock.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: application/x-resumelb-resume+jsonl\r\n'
                     b'Transfer-Encoding: chunked\r\n\r\n')
        send_chunk(sock, json.dumps(line).encode() + b'\n')
        # One line per second until the peer closes.
        while not select.select([sock], [], [], 1)[0]:
            if self.bad and self.random.random() < 0.1:
                send_chunk(sock, self.random.choice([b'{"v":1,', b'\xff\xfe\n', b'[]\n', b'{"v":2}\n', b'x' * 70_000 + b'\n']))
                raise self.random.choice([Reset, Closed])
            send_chunk(sock, b'\n')
        raise Closed

    def head(self, *fields):
        return b'\r\n'.join([b'HTTP/1.1 200 OK', b'X-Worker: %s' % self.name.encode(), *fields]) + b'\r\n\r\n'


def length(body):
    return b'Content-Length: %d' % len(body)


CHUNKED = b'Transfer-Encoding: chunked'


def send_chunk(sock, data, extension=b''):
    sock.sendall(b'%x%s\r\n%s\r\n' % (len(data), extension, data))


# ---- responses that are right, if not always nice ----

def respond(w, sock, target):
    body, framing = body_of(target), framing_of(target)
    if framing == 'length':
        sock.sendall(w.head(length(body)) + body)
        return True
    if framing == 'close':
        sock.sendall(w.head(b'Connection: close') + body)
        return False
    sock.sendall(w.head(CHUNKED))
    for piece in pieces(body):
        if framing == 'slow':
            time.sleep(0.01)
        send_chunk(sock, piece)
    sock.sendall(b'0\r\n\r\n')
    return True


def interim_first(w, sock, target):
    sock.sendall(b'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n')
    return respond(w, sock, target)


def extensions_and_trailers(w, sock, target):
    sock.sendall(w.head(CHUNKED))
    for piece in pieces(body_of(target)):
        send_chunk(sock, piece, b';a="b;c";d')
    sock.sendall(b'0\r\nX-Trailer: said late\r\n\r\n')
    return True


def byte_by_byte(w, sock, target):
    body = body_of(target)
    for byte in w.head(length(body)):
        sock.sendall(bytes([byte]))
    sock.sendall(body)
    return True


def too_long(w, sock, target):
    """Sends more bytes than announced."""
    body = body_of(target)
    sock.sendall(w.head(length(body)) + body + b'and something else')
    return True


def two_responses(w, sock, target):
    """Sends an unsolicited second response in the same write: a later one could be read as the response to the next request."""
    body = body_of(target)
    if len(body) > 16_000:
        return respond(w, sock, target)
    sock.sendall(w.head(length(body)) + body + w.head(b'Content-Length: 6') + b'stolen')
    return True


# ---- none at all ----

def reset(w, sock, target):
    raise Reset


def close(w, sock, target):
    raise Closed


def half_a_head(w, sock, target):
    body = body_of(target)
    head = w.head(length(body))
    sock.sendall(head[:w.random.randrange(1, len(head))])
    time.sleep(w.random.choice([0, 0.05]))
    raise w.random.choice([Reset, Closed])


def garbage(w, sock, target):
    sock.sendall(w.random.choice(GARBAGE))
    raise Closed


def hang(w, sock, target):
    time.sleep(w.random.uniform(0.1, 1.5))
    raise w.random.choice([Reset, Closed])


# ---- one that breaks ----

def half_a_body(w, sock, target):
    body = body_of(target)
    sock.sendall(w.head(b'Content-Length: %d' % (len(body) + 1)) + body[:w.random.randrange(len(body) + 1)])
    time.sleep(w.random.choice([0, 0.05]))
    raise w.random.choice([Reset, Closed])


def half_a_chunk(w, sock, target):
    sock.sendall(w.head(CHUNKED))
    for piece in pieces(body_of(target))[:4]:
        send_chunk(sock, piece)
    sock.sendall(w.random.choice([b'', b'1000\r\nnot so much', b'5', b'0\r\n', b'0\r\nX-Trailer']))
    time.sleep(w.random.choice([0, 0.05]))
    raise w.random.choice([Reset, Closed])


def bad_chunk(w, sock, target):
    sock.sendall(w.head(CHUNKED))
    for piece in pieces(body_of(target))[:4]:
        send_chunk(sock, piece)
    sock.sendall(w.random.choice([b'zz\r\nhello\r\n', b'-5\r\nhello\r\n', b'5\r\nhello, world\r\n', b'ffffffffffffffffff\r\nhello\r\n',
                                  b'\r\n\r\n', b'0x5\r\nhello\r\n']) + b'0\r\n\r\n')
    return False


def reset_before_the_end(w, sock, target):
    """Sends a body delimited by the end of the connection, and resets the connection, so that the body is incomplete."""
    body = body_of(target)
    sock.sendall(w.head(b'Connection: close') + body[:len(body) // 2])
    raise Reset


FAULTS = [interim_first, extensions_and_trailers, byte_by_byte, too_long, two_responses, reset, close, half_a_head, garbage, garbage,
          hang, half_a_body, half_a_chunk, bad_chunk, reset_before_the_end]


if __name__ == '__main__':
    Worker(*sys.argv[1:]).run()
