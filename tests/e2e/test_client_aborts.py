# SPDX-License-Identifier: Apache-2.0
"""Clients that abort: in any state their request ends immediately, or soon if unread bytes hide the end of the connection."""
import socket
import ssl
import struct
import threading

import h2.events
import pytest
from support.base import LIMIT, wait_until
from support.http import Client, connect
from support.scripted import hello, serve
from test_slow_clients import Http2, front, secure

GET = b'GET /wait HTTP/1.1\r\nHost: a.example\r\n\r\n'
NEXT = b'GET /next HTTP/1.1\r\nHost: a.example\r\n\r\n'
BIG = 64 << 20


class Ends:
    """A worker that responds to /wait with nothing, or with the start of a large response, and records the end of its connection."""

    def __init__(self, stage):
        self.stage, self.begun, self.ended = stage, threading.Event(), threading.Event()

    def __call__(self, c):
        while True:
            if self.stage == 'upload' and not self.begun.is_set():
                # The body is not read; the kernel buffers only a part of it.
                head = c.sock.recv(100)
                if head.startswith(b'POST /wait'):
                    self.begun.set()
                    wait_for_reset(c.sock)
                    self.ended.set()
                    return
                c.buffer += head
            got = c.read_request()
            if got is None:
                return
            if b' /wait ' not in got[0].split(b'\r\n')[0] + b' ':
                c.respond(b'hello')
                continue
            if self.stage == 'streaming':
                c.write(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\nbegun' % BIG)
            self.begun.set()
            try:
                c.sock.recv(1)      # nothing more comes but the end
            except OSError:
                pass
            self.ended.set()
            return


def wait_for_reset(sock):
    """Waits until the peer has closed, although there may be unread bytes from it."""
    import select
    p = select.poll()
    p.register(sock, select.POLLRDHUP)
    assert p.poll(1000 * LIMIT)


# --- how a client goes -------------------------------------------------------------------------------------------


def fin(sock):
    sock.close()


def rst(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    if hasattr(sock, 'detach') and hasattr(sock, 'unwrap'):
        socket.socket(fileno=sock.detach()).close()     # without close_notify
    else:
        sock.close()


def close_notify(sock):
    """Sends only a TLS close_notify: the connection stays open."""
    sock.settimeout(0.01)
    try:
        sock.unwrap()
    except (OSError, ValueError):
        pass


class Plain:
    def __init__(self, lb, request):
        self.sock = connect(lb.address)
        self.sock.sendall(request)


class Tls:
    most = None

    def __init__(self, lb, request):
        self.sock = secure(lb.tls_address, most=self.most)
        self.sock.sendall(request)


class Tls12(Tls):
    """TLS 1.2: its close_notify can be distinguished from a request on the wire."""
    most = ssl.TLSVersion.TLSv1_2


WAYS = [('plain', Plain, 'fin', fin), ('plain', Plain, 'rst', rst), ('tls', Tls, 'fin', fin), ('tls', Tls, 'rst', rst),
        ('tls', Tls12, 'close_notify', close_notify)]
BY_WAY = pytest.mark.parametrize('dial, leave', [(w[1], w[3]) for w in WAYS], ids=['%s-%s' % (w[0], w[2]) for w in WAYS])


def everything_went_back(lb, gone=1):
    wait_until(lambda: lb.app()['outcomes'].get('client-gone', 0) == gone, 'the outcome')
    a = lb.app()
    assert a['backlog'] == 0 and a['stats']['requests_active'] == 0


@BY_WAY
@pytest.mark.parametrize('stage', ['first-byte', 'streaming'])
def test_an_abort_closes_the_connection_to_the_worker(world, dial, leave, stage):
    w = Ends(stage)
    lb, _ = front(world, w)
    c = dial(lb, GET)
    assert w.begun.wait(LIMIT)
    if stage == 'streaming':
        wait_until(lambda: c.sock.recv(4096), 'the head')
    leave(c.sock)
    assert w.ended.wait(LIMIT)
    everything_went_back(lb)


@pytest.mark.parametrize('dial, leave', [(Plain, fin), (Plain, rst), (Tls, fin), (Tls, rst)],
                         ids=['plain-fin', 'plain-rst', 'tls-fin', 'tls-rst'])
@pytest.mark.parametrize('stage', ['first-byte', 'streaming'])
def test_pipelined_bytes_do_not_hide_its_end(world, dial, leave, stage):
    w = Ends(stage)
    lb, worker = front(world, w)
    c = dial(lb, GET)
    assert w.begun.wait(LIMIT)
    c.sock.sendall(NEXT)
    leave(c.sock)
    assert w.ended.wait(LIMIT)
    everything_went_back(lb)
    assert len(worker.requests) == 1


@BY_WAY
def test_an_abort_during_an_upload_ends_it_at_the_worker(world, dial, leave):
    w = Ends('upload')
    lb, _ = front(world, w)
    body = 16 << 20
    c = dial(lb, b'POST /wait HTTP/1.1\r\nHost: a.example\r\nContent-Length: %d\r\n\r\n' % body)
    c.sock.sendall(b'x' * body)
    assert w.begun.wait(LIMIT)
    leave(c.sock)
    assert w.ended.wait(LIMIT)
    everything_went_back(lb)


@BY_WAY
def test_an_abort_within_the_request_body_reaches_no_worker(world, dial, leave):
    lb, worker = front(world)
    c = dial(lb, b'POST /wait HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1000\r\n\r\nabc')
    leave(c.sock)
    assert lb.get('/next').body == b'hello'
    c.sock.close()
    assert [head.split(b' ')[1] for head, _ in worker.requests] == [b'/next']


class Records:
    """A TLS client. The caller decides how its records are divided into segments."""

    def __init__(self, address, version):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
        self.sock, self.comes, self.goes = connect(address), ssl.MemoryBIO(), ssl.MemoryBIO()
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.tls = context.wrap_bio(self.comes, self.goes)
        self.wait_for(self.tls.do_handshake)

    def wait_for(self, call):
        while True:
            try:
                got = call()
                self.sock.sendall(self.goes.read())
                return got
            except ssl.SSLWantReadError:
                self.sock.sendall(self.goes.read())
                data = self.sock.recv(65536)
                assert data, 'closed'
                self.comes.write(data)

    def record(self, data):
        self.tls.write(data)
        return self.goes.read()

    def receive(self, end):
        got = b''
        while not got.endswith(end):
            got += self.wait_for(lambda: self.tls.read(65536))
        return got


@pytest.mark.parametrize('version', [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=['1.2', '1.3'])
def test_bytes_amid_a_record_are_no_last_word_whatever_they_are(world, version):
    gate = threading.Event()

    def respond(c, head, body):
        assert not head.startswith(b'GET /wait') or gate.wait(LIMIT)
        c.respond(body or b'hello')
    lb, _ = front(world, serve(respond), threads=1)
    c = Records(lb.tls_address, version)
    first = c.record(GET)
    body = b'b' * 12000
    second = c.record(b'POST /next HTTP/1.1\r\nHost: a.example\r\nContent-Length: %d\r\n\r\n%s' % (len(body), body))
    cut = second.index(b'\x15', 5)     # the first byte of an alert, after the header of the record itself
    c.sock.sendall(first + second[:cut])
    wait_until(lambda: lb.app()['stats']['requests_active'] == 1, 'the first one at its worker')
    c.sock.sendall(second[cut:])
    # There is one loop, which processes the earlier bytes first.
    assert [lb.get('/other').status for _ in range(3)] == [200] * 3
    gate.set()
    assert c.receive(b'hello').startswith(b'HTTP/1.1 200 ')
    assert c.receive(body).startswith(b'HTTP/1.1 200 ')
    assert lb.app()['outcomes']['client-gone'] == 0


def in_queue(lb, figure, n=1):
    wait_until(lambda: lb.app()['stats'][figure] == n, figure)


# A close_notify behind other records cannot be distinguished from them.
ALONE_OR_NOT = [(w[1], w[3], pipelined) for pipelined in (False, True) for w in WAYS
                if not (pipelined and w[3] is close_notify)]


@pytest.mark.parametrize('dial, leave, pipelined', ALONE_OR_NOT)
def test_an_abort_leaves_the_queue_for_a_worker(world, dial, leave, pipelined):
    lb = no_worker(world)
    c = dial(lb, GET)
    in_queue(lb, 'requests_waiting')
    if pipelined:
        c.sock.sendall(NEXT)
    leave(c.sock)
    in_queue(lb, 'requests_waiting', 0)
    everything_went_back(lb)


def no_worker(world):
    (world.directory / 'tree').mkdir()
    lb, _ = front(world, workers=[], tree='directory:%s' % (world.directory / 'tree'), start_wait='100ms',
                  worker_wait_timeout='10m', wait=False)
    wait_until(lambda: 'listening addresses' in lb.process.output(), 'its listeners')
    return lb


@BY_WAY
@pytest.mark.parametrize('queue, settings', [
    ('waiting_for_limit', {'limits': {'one': {'workers': 1, 'maxqueue': 10, 'timeout': '10m'}}}),
    ('connection_waiting', {'max_connections': 1, 'connection_wait_timeout': '10m'})], ids=['counter', 'connection'])
def test_an_abort_leaves_the_queues_behind_another_request(world, dial, leave, queue, settings):
    w = Ends('first-byte')
    lb, _ = front(world, w, **settings)
    first = dial(lb, GET)
    assert w.begun.wait(LIMIT)
    c = dial(lb, GET)
    in_queue(lb, queue)
    leave(c.sock)
    in_queue(lb, queue, 0)
    wait_until(lambda: lb.app()['outcomes'].get('client-gone', 0) == 1, 'the outcome')
    assert lb.app()['backlog'] == 1 and not w.ended.is_set()
    leave(first.sock)
    assert w.ended.wait(LIMIT)
    everything_went_back(lb, 2)


@pytest.mark.parametrize('leave', ['rst_stream', 'fin', 'rst'])
@pytest.mark.parametrize('stage', ['first-byte', 'streaming'])
def test_an_abort_ends_the_streams_of_its_connection(world, leave, stage):
    w = Ends(stage)
    lb, _ = front(world, w)
    c = Http2(lb.tls_address)
    c.send(1, path='/wait')
    assert w.begun.wait(LIMIT)
    if stage == 'streaming':
        assert c.until(lambda e: isinstance(e, h2.events.DataReceived))
    if leave == 'rst_stream':
        c.c.reset_stream(1)
        c.flush()
    else:
        {'fin': fin, 'rst': rst}[leave](c.sock)
    assert w.ended.wait(LIMIT)
    everything_went_back(lb)
    if leave == 'rst_stream':
        c.send(3)
        assert c.until(lambda e: isinstance(e, h2.events.StreamEnded) and e.stream_id == 3)
        c.close()


# --- clients that close their half -----------------------------------------------------------------------------


def test_a_client_that_closes_its_half_is_served_with_ignore_client_abort(world):
    gate = threading.Event()
    world.closers.insert(0, gate.set)
    lb, w = front(world, serve(lambda c, head, body: (gate.wait(LIMIT), hello(c, head, body))), ignore_client_abort=True)
    with Client(lb.address) as c:
        c.send_raw(GET)
        c.sock.shutdown(socket.SHUT_WR)
        wait_until(lambda: len(w.requests) == 1, 'the request')
        gate.set()
        assert c.receive().body == b'hello'


@pytest.mark.parametrize('half_closed', [False, True])
def test_a_reset_ends_a_request_with_ignore_client_abort(world, half_closed):
    w = Ends('first-byte')
    lb, _ = front(world, w, ignore_client_abort=True)
    c = Plain(lb, GET)
    assert w.begun.wait(LIMIT)
    if half_closed:
        c.sock.shutdown(socket.SHUT_WR)
    rst(c.sock)
    assert w.ended.wait(LIMIT)
    everything_went_back(lb)
