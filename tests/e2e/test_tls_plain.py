# SPDX-License-Identifier: Apache-2.0
"""Plain HTTP sent to a TLS listener gets a plain error response; other invalid input gets no response."""
import contextlib
import subprocess

import pytest
from support.base import LIMIT, free_port, wait_until
from support.certificates import Pair, dial
from support.http import Client, connect, get
from support.scripted import hello, serve

TEXT = b'this address speaks TLS: use https\n'
REQUEST = b'GET / HTTP/1.1\r\nHost: first.example\r\n\r\n'
PROXY = b'PROXY TCP4 192.0.2.7 198.51.100.9 51000 443\r\n'


class Front:
    def __init__(self, world, proxied=False, **settings):
        self.worker = world.scripted(serve(hello))
        self.address = '127.0.0.1:%d' % free_port()
        pair = Pair(world.directory, 'first', ['first.example'])
        listener = {'address': self.address, 'tls': pair.entry, 'proxy_protocol': proxied}
        self.lb = world.resumelb({'workers': [self.worker.address], **settings}, listen=[listener])

    def failures(self, reason):
        prefix = 'resumelb_tls_failures_total{reason="%s"} ' % reason
        lines = get(self.lb.admin, '/metrics', host=self.lb.admin).text.splitlines()
        return int([line for line in lines if line.startswith(prefix)][0][len(prefix):])

    def counted(self, reason, n=1):
        wait_until(lambda: self.failures(reason) == n, '%d failures: %s' % (n, reason))

    def serves(self):
        """Checks that TLS still works, and that no plain request has reached the worker."""
        with Client(None, sock=dial(self.address, 'first.example')) as c:
            return c.request(host='first.example').status == 200 and len(self.worker.requests) == 1


def respond(s):
    """All data until the end of the connection."""
    got = b''
    while True:
        data = s.recv(65536)
        if not data:
            return got
        got += data


def is_told(got):
    head, _, body = got.partition(b'\r\n\r\n')
    lines = head.split(b'\r\n')
    assert lines[0] == b'HTTP/1.1 400 Bad Request' and body == TEXT, got
    assert b'Connection: close' in lines and b'Content-Length: %d' % len(TEXT) in lines, got
    return True


@pytest.mark.parametrize('more', [[], ['-I'], ['-X', 'DELETE'], ['--http2-prior-knowledge'], ['-d', 'a' * 100_000]])
def test_curl_is_asked_to_use_https(world, more):
    front = Front(world)
    r = subprocess.run(['curl', '-sS', '--max-time', str(LIMIT), '-w', ' %{http_code}', *more, 'http://%s/x' % front.address],
                       capture_output=True, text=True)
    if '--http2-prior-knowledge' in more:
        assert r.returncode != 0, r.stdout
    elif '-I' in more:
        assert r.stdout.startswith('HTTP/1.1 400 Bad Request\n') and r.stdout.endswith(' 400'), (r.stdout, r.stderr)
    else:
        assert r.stdout == TEXT.decode() + ' 400', (r.stdout, r.stderr)
    front.counted('plain-http')
    assert front.failures('closed') == 0 and front.serves()


def test_every_method_is_reported_and_slow_bytes_make_no_difference(world):
    front = Front(world)
    methods = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'CONNECT', 'TRACE']
    for method in methods:
        with connect(front.address) as s:
            s.sendall(method.encode() + b' / HTTP/1.0\r\n\r\n')
            assert is_told(respond(s))
    with connect(front.address) as s:
        for i in range(len('GET /')):
            s.sendall(REQUEST[i:i + 1])
            # it was processed when later requests have been served
            assert get(front.lb.admin, '/metrics', host=front.lb.admin).status == 200
        assert is_told(respond(s))
    front.counted('plain-http', len(methods) + 1)
    assert front.serves()


@pytest.mark.parametrize('data', [b'\0' * 40, b'\xff\xfe\xfd' * 20, b'SSH-2.0-OpenSSH_9.2\r\n', b'GETS / HTTP/1.1\r\n\r\n',
                                  b'get / HTTP/1.1\r\n\r\n', b'\r\nGET / HTTP/1.1\r\n\r\n', b'EHLO first.example\r\n'])
def test_other_nonsense_gets_nothing(world, data):
    front = Front(world)
    with connect(front.address) as s:
        s.sendall(data)
        try:
            assert respond(s) == b''
        except ConnectionResetError:
            pass
    front.counted('closed')
    assert front.failures('plain-http') == 0 and front.serves()


def test_a_request_that_never_ends_is_bounded(world):
    front = Front(world, header_timeout='5s')
    with connect(front.address) as few, connect(front.address) as half:
        few.sendall(REQUEST[:4])
        half.sendall(REQUEST[:20])
        assert is_told(respond(half))
        assert respond(few) == b''
        front.counted('closed')
        # none of the two connections was closed
        front.counted('plain-http')
    assert front.serves()


def test_a_client_that_continues_to_send_is_cut(world):
    front = Front(world)
    sent = 0
    with connect(front.address) as s:
        s.sendall(b'POST / HTTP/1.1\r\nHost: first.example\r\nContent-Length: 1000000000000\r\n\r\n')
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while sent < 200_000_000:
                sent += s.send(bytes(65536))
    assert sent >= 8 << 20
    front.counted('plain-http')
    assert front.serves()


@pytest.mark.parametrize('pieces', [[PROXY + REQUEST], [PROXY, REQUEST], [PROXY + REQUEST[:3], REQUEST[3:]]])
def test_behind_a_proxy_header_it_is_the_same(world, pieces):
    front = Front(world, proxied=True, max_connections_per_address=1)

    def send_pieces():
        """Returns the response, or nothing while the connection before still counts."""
        with connect(front.address) as s, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for piece in pieces:
                s.sendall(piece)
                assert get(front.lb.admin, '/metrics', host=front.lb.admin).status == 200
            return respond(s)

    for n in (1, 2):
        assert is_told(wait_until(send_pieces, 'the place of the address'))
        front.counted('plain-http', n)
    assert front.failures('closed') == 0 and not front.worker.requests
