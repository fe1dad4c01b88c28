# SPDX-License-Identifier: Apache-2.0
"""Idle connections: they use no resources between two requests, and each works normally afterwards."""
import os
import signal
import socket
import ssl

import pytest
from support.base import free_port, wait_until
from support.certificates import Pair, blind_context
from support.http import Client, connect, get
from support.scripted import serve

KINDS = ['plain', 'TLSv1_2', 'TLSv1_3']
REQUEST = b'GET /%d HTTP/1.1\r\nHost: a.example\r\n\r\n'
PROXY = b'PROXY TCP4 192.0.2.7 198.51.100.9 51000 443\r\n'


class Front:
    """A load balancer with a plain, a TLS and a PROXY protocol listener; the worker's responses contain the path and the body."""

    def __init__(self, world, **settings):
        self.worker = world.scripted(serve(lambda c, h, b: c.respond(h.split(b' ')[1] + b' ' + b)))
        self.plain, self.tls, self.proxied = ('127.0.0.1:%d' % free_port() for _ in range(3))
        pair = Pair(world.directory, 'edge', ['a.example'])
        self.lb = world.resumelb({'workers': [self.worker.address], **settings}, threads=1,
                                 listen=[{'address': self.plain}, {'address': self.tls, 'tls': pair.entry},
                                         {'address': self.proxied, 'proxy_protocol': True}])

    def dial(self, kind):
        if kind == 'plain':
            return Client(None, sock=connect(self.plain))
        context = blind_context(ssl.TLSVersion[kind])
        context.set_alpn_protocols(['http/1.1'])
        return Client(None, sock=context.wrap_socket(connect(self.tls), server_hostname='a.example'))

    def metric(self, name):
        text = get(self.lb.admin, '/metrics', host=self.lb.admin).text
        return sum(float(line.rpartition(' ')[2]) for line in text.split('\n') if line.startswith('resumelb_' + name))


def idle(front, kind):
    """Opens a connection that has had a request, and is idle."""
    c = front.dial(kind)
    assert c.request('GET', '/first').body == b'/first '
    return c


@pytest.mark.parametrize('kind', KINDS)
def test_a_connection_continues_after_each_pause(world, kind):
    front = Front(world)
    with idle(front, kind) as c:
        accepted = front.metric('client_connections_total')
        for i in range(2):
            assert c.request('POST', '/again', body=b'x' * 100_000).body == b'/again ' + b'x' * 100_000
            assert ('X-Forwarded-Proto: https' in front.worker.requests[-1][0].decode()) == (kind != 'plain')
        c.send_raw(b''.join(REQUEST % i for i in range(20)))
        assert [c.receive().body for _ in range(20)] == [b'/%d ' % i for i in range(20)]
        assert c.request('GET', '/head', headers=[('Connection', 'close')])['connection'] == 'close'
        assert c.sock.recv(1) == b''
        assert front.metric('client_connections_total') == accepted


@pytest.mark.parametrize('kind', KINDS)
def test_a_head_that_comes_in_two_parts_ends_the_pause(world, kind):
    front = Front(world)
    with idle(front, kind) as c:
        c.send_raw(b'GET /half HTTP/1.1\r\nHost:')
        before = front.worker.requests[:]
        other = front.dial(kind)
        assert other.request('GET', '/other').body == b'/other '
        assert len(front.worker.requests) == len(before) + 1
        c.send_raw(b' a.example\r\n\r\n')
        assert c.receive().body == b'/half '
        other.close()


def test_half_a_record_of_tls_ends_no_pause_for_good(world):
    front = Front(world)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = blind_context().wrap_bio(incoming, outgoing, server_hostname='a.example')
    with connect(front.tls) as sock:
        def step(action):
            while True:
                try:
                    done = action()
                    sock.sendall(outgoing.read())
                    return done
                except ssl.SSLWantReadError:
                    sock.sendall(outgoing.read())
                    data = sock.recv(65536)
                    assert data
                    incoming.write(data)

        def respond():
            got = b''
            while not got.endswith(b'/7 '):
                got += step(lambda: tls.read(65536))
            return got

        step(tls.do_handshake)
        step(lambda: tls.write(REQUEST % 7))
        assert respond().startswith(b'HTTP/1.1 200')
        # The server has received a part of a record, which cannot be decrypted yet.
        tls.write(REQUEST % 7)
        record = outgoing.read()
        sock.sendall(record[:20])
        sock.sendall(record[20:])
        assert respond().startswith(b'HTTP/1.1 200')


@pytest.mark.parametrize('kind', KINDS)
def test_a_client_that_leaves_meanwhile_is_noticed(world, kind):
    front = Front(world)
    c = idle(front, kind)
    before = len(os.listdir('/proc/%d/fd' % front.lb.process.pid))
    c.close()
    wait_until(lambda: len(os.listdir('/proc/%d/fd' % front.lb.process.pid)) < before, 'its descriptor to be closed')
    with front.dial(kind) as other:
        assert other.request('GET', '/other').body == b'/other '


@pytest.mark.parametrize('kind', KINDS)
def test_an_idle_connection_is_closed_in_order_after_its_timeout(world, kind):
    front = Front(world, keep_alive_timeout='10s')
    with idle(front, kind) as c:
        assert c.sock.recv(1) == b''       # without close_notify, TLS would raise an exception here
        assert len(front.worker.requests) == 1


@pytest.mark.parametrize('kind', KINDS)
def test_a_reload_leaves_it_and_the_end_closes_it(world, kind):
    front = Front(world)
    with idle(front, kind) as c:
        front.lb.reload({'keep_alive_timeout': '30m'})
        wait_until(lambda: 'reload' in front.lb.process.output(), 'the reload')
        assert c.request('GET', '/again').body == b'/again '
        front.lb.process.kill(signal.SIGTERM)
        assert c.sock.recv(1) == b''
        assert front.lb.process.wait() == 0


def test_the_client_that_a_proxy_has_named_is_used(world):
    front = Front(world)
    with connect(front.proxied) as sock:
        sock.sendall(PROXY)
        c = Client(None, sock=sock)
        for target in ('/a', '/b'):
            assert c.request('GET', target).body == target.encode() + b' '
            assert 'X-Forwarded-For: 192.0.2.7\r\n' in front.worker.requests[-1][0].decode()
