# SPDX-License-Identifier: Apache-2.0
"""Invalid input from clients, as raw bytes: it is rejected with a clear response, counted and logged."""
import json
import re
import struct
import urllib.request

import pytest
from support.base import LIMIT, free_port, wait_until
from support.http import Client
from support.scripted import serve
from test_tls import certificate, tls_client  # noqa: F401 (a fixture)

HEAD = b'POST /form HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n'


def echo(c, head, body):
    c.respond(head.split(b' ')[1] + b' ' + body)


def rejected(lb, reason):
    with urllib.request.urlopen('http://%s/metrics' % lb.admin, timeout=LIMIT) as r:
        return int(re.search(r'^resumelb_client_rejected_total\{reason="%s"\} (\d+)$' % re.escape(reason),
                             r.read().decode(), re.M)[1])


@pytest.mark.parametrize('body, reason', [
    (b'3zz\r\nabc\r\n0\r\n\r\n', 'malformed chunk size'),
    (b'3\nabc\r\n0\r\n\r\n', 'line that does not end in CRLF'),
    (b'3\r\nabcde\r\n0\r\n\r\n', 'chunk that does not end at its size'),
    (b'3;' + b'x' * 5000 + b'\r\nabc\r\n0\r\n\r\n', 'malformed or too long chunk extension'),
    (b'3\r\nabc\r\n0\r\n folded\r\n\r\n', 'malformed trailer field'),
])
def test_a_chunked_body_that_two_could_read_differently_is_rejected_and_logged(world, body, reason):
    w = world.scripted(serve(echo))
    log = world.directory / 'access.log'
    lb = world.resumelb({'workers': [w.address], 'access_log': str(log), 'access_log_format': 'json'})
    with Client(lb.address) as c:
        c.send_raw(HEAD + b'3;a=b\r\nabc\r\n0\r\nA: b\r\n\r\n' + HEAD + body)
        assert c.receive().body == b'/form abc'
        r = c.receive()
        assert r.status == 400 and r['Connection'] == 'close' and r.body == reason.encode()
        assert c._more() is False or c.sock.recv(1) == b''
    assert rejected(lb, reason) == 1
    assert len(w.requests) == 1
    wait_until(lambda: len(log.read_text().splitlines()) == 2, 'two lines')
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    line, = [line for line in lines if line['outcome'] == 'rejected']
    assert line['reason'] == reason and line['status'] == 400 and line['target'] == '/form'
    assert line['host'] == 'a.example' and line['client'] == '127.0.0.1' and line['worker'] == ''


def test_more_than_100_fields_are_431(world):
    w = world.scripted(serve(echo))
    lb = world.resumelb({'workers': [w.address]})
    for n, status in ((99, 200), (100, 431), (5000, 431)):
        with Client(lb.address) as c:
            c.send_raw(b'GET / HTTP/1.1\r\nHost: a\r\n' + b'X: y\r\n' * n + b'\r\n')
            assert c.receive().status == status, n
    assert rejected(lb, 'too many header fields') == 2


def test_the_same_holds_behind_tls(world, certificate):  # noqa: F811
    w = world.scripted(serve(echo))
    port = free_port()
    lb = world.resumelb({'workers': [w.address]}, listen=[
        {'address': '127.0.0.1:%d' % port, 'tls': {'certificate': str(certificate[0]), 'key': str(certificate[1])}}])
    with Client(None, sock=tls_client('127.0.0.1:%d' % port, certificate, ['http/1.1'])) as c:
        c.send_raw(HEAD + b'1\r\nx\r\n0\r\n\r\n' + b'GET /next HTTP/1.1\r\nHost: a\r\n\r\n' + HEAD + b'1 \r\nx')
        assert c.receive().body == b'/form x'
        assert c.receive().body == b'/next '
        r = c.receive()
        assert r.status == 400 and r.body == b'malformed chunk size'
    assert rejected(lb, 'malformed chunk size') == 1


PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 1, 2, 3, 4, 6, 7, 8, 9
# :method GET, :path /, :scheme https, :authority test.example, encoded with the static table
BLOCK = b'\x82\x84\x87\x41\x0ctest.example'


def frame(kind, payload=b'', flags=0, stream=0):
    return struct.pack('>I', len(payload))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + payload


class Http2:
    """Hand-made frames over TLS."""

    def __init__(self, port, certificate):  # noqa: F811
        self.sock = tls_client('127.0.0.1:%d' % port, certificate, ['h2'])
        self.buffer = b''
        self.send(PREFACE + frame(SETTINGS))

    def send(self, data):
        try:
            self.sock.sendall(data)
        except OSError:        # the connection may be closed while data is still being sent
            pass

    def frames(self):
        """All frames until the end of the connection."""
        while True:
            while len(self.buffer) >= 9:
                n = int.from_bytes(self.buffer[:3], 'big')
                if len(self.buffer) < 9 + n:
                    break
                kind, payload = self.buffer[3], self.buffer[9:9 + n]
                self.buffer = self.buffer[9 + n:]
                yield kind, payload
            try:
                data = self.sock.recv(65536)
            except ConnectionError:
                return
            if not data:
                return
            self.buffer += data

    def get(self, stream):
        self.send(frame(HEADERS, BLOCK, 5, stream))
        body = b''
        for kind, payload in self.frames():
            if kind == 0:
                body += payload
                if body.endswith(b'/ '):
                    return body
        raise AssertionError('no response: %r' % body)


FLOODS = [
    (frame(PING, b'12345678') * 1000, 'too many PING frames'),
    (frame(SETTINGS) * 1000, 'too many SETTINGS frames'),
    (frame(WINDOW_UPDATE, b'\0\0\0\1') * 150_000, 'too many WINDOW_UPDATE frames'),
    (frame(PRIORITY, b'\0\0\0\0\1', stream=1) * 3000, 'too many PRIORITY frames'),
    (frame(42, b'\0\0\0\1u=1') * 1000, 'too many frames of unknown types'),
    (frame(HEADERS, BLOCK, 0, 3) + frame(CONTINUATION, stream=3) * 1000, 'too many CONTINUATION frames'),
    (frame(HEADERS, BLOCK, 0, 3) + frame(CONTINUATION, bytes(16384), stream=3) * 10, 'header fields too large'),
    (b''.join(frame(HEADERS, BLOCK, 4, 3 + 2 * i) + frame(RST_STREAM, b'\0\0\0\x08', stream=3 + 2 * i)
              for i in range(2000)), 'too many RST_STREAM frames'),
]


@pytest.mark.parametrize('flood, reason', FLOODS, ids=[reason for _, reason in FLOODS])
def test_a_client_that_floods_with_frames_loses_its_connection_and_others_notice_nothing(
        world, certificate, flood, reason):  # noqa: F811
    w = world.scripted(serve(echo))
    log = world.directory / 'access.log'
    port = free_port()
    tls = {'certificate': str(certificate[0]), 'key': str(certificate[1])}
    lb = world.resumelb({'workers': [w.address], 'access_log': str(log), 'access_log_format': 'json'},
                        listen=[{'address': '127.0.0.1:%d' % port, 'tls': tls, 'http2': True}])
    other = Http2(port, certificate)
    assert other.get(1) == b'/ '
    c = Http2(port, certificate)
    assert c.get(1) == b'/ '
    c.send(flood)
    seen = list(c.frames())
    goaway = [struct.unpack('>I', payload[4:8])[0] for kind, payload in seen if kind == GOAWAY]
    if 'CONTINUATION' not in reason and 'large' not in reason:
        assert goaway[:1] == [11] or not goaway, 'ENHANCE_YOUR_CALM, where the client still reads it'
    assert rejected(lb, reason) == 1
    assert other.get(3) == b'/ '

    def rejections():
        """The lines of rejections, without the last line, which may be incomplete."""
        return [json.loads(line) for line in log.read_text().split('\n')[:-1] if '"rejected"' in line]

    def its_own():
        """The lines without those of other requests that ended with the connection."""
        return [line for line in rejections() if line['reason'] != 'client ended before its request was complete']
    line, = wait_until(its_own, 'its line')
    assert line['reason'] == reason and line['protocol'] == 'HTTP/2.0' and line['client'] == '127.0.0.1'
    assert {line['status'] for line in rejections()} <= {400, 429, 431}


def test_a_client_that_pings_too_often_gets_enhance_your_calm(world, certificate):  # noqa: F811
    w = world.scripted(serve(echo))
    port = free_port()
    tls = {'certificate': str(certificate[0]), 'key': str(certificate[1])}
    world.resumelb({'workers': [w.address], 'http2_pings': 20},
                   listen=[{'address': '127.0.0.1:%d' % port, 'tls': tls, 'http2': True}])
    c = Http2(port, certificate)
    assert c.get(1) == b'/ '
    c.send(frame(PING, b'12345678') * 50)
    goaway = [payload for kind, payload in c.frames() if kind == GOAWAY]
    assert [struct.unpack('>I', p[4:8])[0] for p in goaway] == [11]


@pytest.mark.parametrize('response, reason', [
    (b'HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok', 'line that does not end in CRLF'),
    (b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok', 'different values of Content-Length'),
    (b'HTTP/1.1 200 OK\r\nA: \x01\r\n\r\n', 'control byte in the head'),
])
def test_the_log_states_what_is_wrong_with_a_response(world, response, reason):
    w = world.scripted(serve(lambda c, head, body: c.write(response)))
    lb = world.resumelb({'workers': [w.address], 'retries': 0})
    with Client(lb.address) as c:
        c.send_raw(b'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
        assert c.receive().status == 502
    wait_until(lambda: 'worker-failed' in lb.process.output(), 'the log')
    lb.process.wait_logged('reason="%s"' % reason)
