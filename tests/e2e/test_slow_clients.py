# SPDX-License-Identifier: Apache-2.0
"""Clients that send or read too slowly are disconnected and counted; a rejected client can read the reason."""
import re
import socket
import ssl
import subprocess
import threading
import time

import h2.config
import h2.connection
import h2.events
import pytest
from support.base import BIN, LIMIT, ROOT, free_port, wait_until
from support.certificates import Pair, blind_context
from support.http import Client, connect, get
from support.scripted import hello, serve

HEAD = b'POST / HTTP/1.1\r\nHost: a.example\r\n'


def front(world, script=None, wait=True, **settings):
    """A load balancer with a plain and a TLS listener (`tls_address`), and its scripted worker."""
    w = world.scripted(script or serve(hello))
    port, tls_port = free_port(), free_port()
    pair = Pair(world.directory, 'edge', ['a.example'])
    lb = world.resumelb(
        {'workers': [w.address], 'resume': 'measure', 'access_log': str(world.directory / 'access.log'), **settings},
        listen=[{'address': '127.0.0.1:%d' % port},
                {'address': '127.0.0.1:%d' % tls_port, 'tls': pair.entry, 'http2': True}], wait=wait)
    wait_until(lb.listening, 'the load balancer')
    lb.address, lb.tls_address = '127.0.0.1:%d' % port, '127.0.0.1:%d' % tls_port
    return lb, w


def metric(lb, name):
    text = get(lb.admin, '/metrics', host=lb.admin).text
    return sum(float(line.rpartition(' ')[2]) for line in text.split('\n') if line.startswith('resumelb_' + name))


def rejected(lb, reason):
    return metric(lb, 'client_rejected_total{reason="%s"}' % reason)


def secure(address, *protocols, most=None):
    context = blind_context()
    if most is not None:
        context.maximum_version = most
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context.wrap_socket(connect(address), server_hostname='a.example')


def dial(lb, kind):
    return Client(None, sock=connect(lb.address) if kind == 'plain' else secure(lb.tls_address))


def drip(client, data, until):
    """Sends DATA slowly, byte by byte, until this fails or UNTIL() is true."""
    try:
        for byte in data:
            if until():
                return
            client.sock.sendall(bytes([byte]))
            time.sleep(0.1)
    except OSError:
        pass


class Http2:
    """An HTTP/2 client that sends no window updates by itself: the test controls the windows."""

    def __init__(self, address, window=None):
        self.sock = secure(address, 'h2')
        self.c = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding='utf-8'))
        self.c.initiate_connection()
        if window is not None:
            self.c.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.events = []
        self.ended = False
        self.flush()

    def flush(self):
        self.sock.sendall(self.c.data_to_send())

    def send(self, stream, method='GET', end=True, path='/', fields=()):
        self.c.send_headers(stream, [(':method', method), (':path', path), (':scheme', 'https'),
                                     (':authority', 'a.example'), *fields], end_stream=end)
        self.flush()

    def until(self, wanted):
        """Reads until wanted(event) and returns that event, or None at the end of the connection."""
        while True:
            for e in self.events:
                if wanted(e):
                    return e
            if self.ended:
                return None
            try:
                data = self.sock.recv(65536)
            except ConnectionError:
                data = b''
            self.ended = not data
            if data:
                self.events += self.c.receive_data(data)
                self.flush()

    def is_cut(self):
        return self.until(lambda e: False) is None

    def close(self):
        self.sock.close()


SLOW_BODIES = {'min_body_rate': '1KiB', 'min_body_rate_grace': '1s'}


@pytest.mark.parametrize('kind', ['plain', 'tls'])
@pytest.mark.parametrize('framing', [b'Content-Length: 1000', b'Transfer-Encoding: chunked'])
def test_a_body_below_the_minimum_rate_gets_408_and_is_counted_and_logged(world, kind, framing):
    lb, w = front(world, **SLOW_BODIES)
    with dial(lb, kind) as c:
        c.send_raw(HEAD + framing + b'\r\n\r\n' + (b'3e8\r\n' if b'chunked' in framing else b''))
        t = threading.Thread(target=drip, args=(c, b'x' * 900, lambda: rejected(lb, 'request body too slow') == 1))
        t.start()
        r = c.receive()
        assert r.status == 408 and r['Connection'] == 'close'
        assert c.sock.recv(1) == b''
        t.join()
    assert w.requests == []
    wait_until(lambda: '" 408 ' in (world.directory / 'access.log').read_text(), 'the line in the access log')


def test_a_body_that_makes_the_rate_in_bursts_is_served(world):
    # The pauses are much shorter than the grace time, the total is longer: another client, which is too slow, is rejected.
    lb, w = front(world, min_body_rate='100', min_body_rate_grace='10s')
    burst, n = b'x' * 5000, 0
    with dial(lb, 'plain') as c, dial(lb, 'plain') as slow:
        c.send_raw(HEAD + b'Transfer-Encoding: chunked\r\n\r\n')
        slow.send_raw(HEAD + b'Content-Length: 2500\r\n\r\nx')

        def send():
            nonlocal n
            n += 1
            c.send_raw(b'%x\r\n%s\r\n' % (len(burst), burst))
            return rejected(lb, 'request body too slow') == 1
        wait_until(send, 'the slow one to be rejected')
        assert slow.receive().status == 408
        c.send_raw(b'0\r\n\r\n')
        assert c.receive().status == 200
    assert [len(body) for _, body in w.requests] == [n * len(burst)]


@pytest.mark.parametrize('kind', ['plain', 'tls'])
def test_a_head_that_is_never_complete_gets_408(world, kind):
    lb, _ = front(world, header_timeout='5s')
    with dial(lb, kind) as c:
        c.send_raw(b'GET / HTTP/1.1\r\nHost: a.exam')
        assert c.receive().status == 408
    assert rejected(lb, 'request head too slow') == 1 and metric(lb, 'client_header_timeouts_total') == 1


def test_a_stalled_upload_over_http2_loses_its_stream_alone(world):
    lb, w = front(world, **SLOW_BODIES)
    c = Http2(lb.tls_address)
    for stream in (1, 3):
        c.send(stream, 'POST', end=False)
    c.c.send_data(3, b'x' * 10)
    c.flush()
    gone = {c.until(lambda e, s=s: isinstance(e, h2.events.StreamReset) and e.stream_id == s).stream_id for s in (1, 3)}
    assert gone == {1, 3}
    c.send(5)
    assert c.until(lambda e: isinstance(e, h2.events.StreamEnded) and e.stream_id == 5)
    c.close()
    assert rejected(lb, 'request body too slow') == 2 and len(w.requests) == 1


def test_a_client_that_stays_in_the_middle_of_a_frame_loses_the_stream_then_the_connection(world):
    lb, _ = front(world, **SLOW_BODIES, header_timeout='1s')
    c = Http2(lb.tls_address)
    c.send(1, 'POST', end=False)
    c.sock.sendall(b'\x00\x10\x00\x00\x00\x00\x00\x00\x01' + b'x' * 10)
    assert c.until(lambda e: isinstance(e, h2.events.StreamReset)).stream_id == 1
    assert c.is_cut()
    c.close()
    assert rejected(lb, 'request body too slow') == 1
    wait_until(lambda: metric(lb, 'client_header_timeouts_total') == 1, 'the count')


BIG = 8 << 20


def streaming(c, head, body):
    c.respond(b'x' * BIG)


def slow_reader(lb, kind):
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.settimeout(LIMIT)
    host, port = (lb.address if kind == 'plain' else lb.tls_address).rsplit(':', 1)
    raw.connect((host, int(port)))
    return Client(None, sock=raw if kind == 'plain' else blind_context().wrap_socket(raw, server_hostname='a.example'))


@pytest.mark.parametrize('kind', ['plain', 'tls'])
def test_a_client_that_reads_below_the_minimum_rate_is_cut_and_the_worker_released(world, kind):
    lb, _ = front(world, serve(streaming), min_send_rate='1MiB', min_send_rate_grace='1s')
    with slow_reader(lb, kind) as c:
        c.send()

        def take():
            try:
                c.sock.recv(512)
            except OSError:
                pass
            return metric(lb, 'client_slow_readers_total') == 1
        wait_until(take, 'it to be cut')
        wait_until(lambda: lb.app()['backlog'] == 0, 'the worker to be free')


def test_a_client_that_reads_fast_enough_is_not_cut(world):
    # The pauses are much shorter than the grace time, the total is longer: another client, which does not read, is disconnected.
    lb, _ = front(world, serve(streaming), min_send_rate='100', min_send_rate_grace='10s')
    with slow_reader(lb, 'plain') as c, slow_reader(lb, 'plain') as slow:
        slow.send()
        c.send()
        c.head()
        got = len(c.buffer)

        def take():
            nonlocal got
            got += len(c.sock.recv(8192))
            return metric(lb, 'client_slow_readers_total') == 1
        wait_until(take, 'the slow one to be cut')
        assert got < BIG // 2
        while got < BIG:
            data = c.sock.recv(32768)
            assert data, 'cut'
            got += len(data)
    assert metric(lb, 'client_slow_readers_total') == 1


@pytest.mark.parametrize('windows', ['stream', 'connection'])
@pytest.mark.parametrize('setting, count', [
    ({'min_send_rate': '100', 'min_send_rate_grace': '1s', 'send_timeout': '1h'}, 'client_slow_readers_total'),
    ({'min_send_rate': '0', 'send_timeout': '1s'}, 'client_send_timeouts_total')])
def test_closed_windows_over_http2_are_a_client_that_takes_nothing(world, windows, setting, count):
    lb, _ = front(world, serve(streaming), **setting)
    c = Http2(lb.tls_address, 0 if windows == 'stream' else None)
    for stream in (1, 3, 5):
        c.send(stream)
    assert c.is_cut()
    c.close()
    assert metric(lb, count) >= 1
    wait_until(lambda: lb.app()['backlog'] == 0, 'the worker to be free')


def test_a_stream_whose_window_is_closed_is_too_slow_though_others_flow(world):
    def respond(c, head, body):
        c.respond(b'x' * (BIG if head.startswith(b'GET /big') else 10))
    lb, _ = front(world, serve(respond), min_send_rate='1000', min_send_rate_grace='1s')
    c = Http2(lb.tls_address, 100)
    c.send(1, path='/big')
    stream = 3

    def flow():
        nonlocal stream
        try:
            c.send(stream)
            c.until(lambda e, s=stream: isinstance(e, h2.events.StreamEnded) and e.stream_id == s)
        except OSError:
            c.ended = True
        stream += 2
        return c.ended
    wait_until(flow, 'the connection to be cut')
    c.close()
    assert metric(lb, 'client_slow_readers_total') == 1


@pytest.mark.parametrize('setting, count', [
    ({'min_send_rate': '100', 'min_send_rate_grace': '3s', 'send_timeout': '1h'}, 'client_slow_readers_total'),
    ({'min_send_rate': '0', 'send_timeout': '3s'}, 'client_send_timeouts_total')])
def test_a_stream_that_waits_for_a_more_urgent_one_is_not_slow(world, setting, count):
    # The limits apply to two clients that read nothing, one after the other, while the less urgent response waits.
    lb, _ = front(world, serve(streaming), **setting)
    c = Http2(lb.tls_address, BIG)
    c.send(1, fields=[('priority', 'u=0')])
    c.until(lambda e: isinstance(e, h2.events.DataReceived) and c.c.inbound_flow_control_window == 0)
    c.send(3, fields=[('priority', 'u=7')])
    for cut in (1, 2):
        stalled = Http2(lb.tls_address)
        stalled.send(1)
        while metric(lb, count) != cut:
            seen = len(c.events)
            c.c.increment_flow_control_window(100)
            c.flush()
            c.until(lambda e, seen=seen: len(c.events) > seen)
            assert not c.ended
            time.sleep(0.05)  # most of the response stays in the load balancer: the other one is not served
        stalled.close()
    c.c.increment_flow_control_window(2 * BIG)
    c.flush()
    for stream in (1, 3):
        assert c.until(lambda e, s=stream: isinstance(e, h2.events.StreamEnded) and e.stream_id == s)
    assert metric(lb, count) == 2
    c.close()


def test_a_zero_window_of_tcp_is_caught_by_send_timeout(world):
    lb, _ = front(world, serve(streaming), min_send_rate='0', send_timeout='1s')
    with slow_reader(lb, 'plain') as c:
        c.send()
        wait_until(lambda: metric(lb, 'client_send_timeouts_total') == 1, 'it to be cut')
        wait_until(lambda: lb.app()['backlog'] == 0, 'the worker to be free')


REJECTIONS = {
    400: b'POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 1048576\r\n\r\n',
    431: b'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\nX: ' + b'x' * 70000 + b'\r\n\r\n',
    413: b'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n',
    408: b'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n' + b'x' * 100,
}


@pytest.mark.parametrize('kind', ['plain', 'tls'])
@pytest.mark.parametrize('status', sorted(REJECTIONS))
def test_a_rejection_reaches_a_client_that_continues_sending(world, kind, status):
    lb, w = front(world, max_body='100KiB' if status == 413 else '1GiB', **SLOW_BODIES)
    with dial(lb, kind) as c:
        c.send_raw(REJECTIONS[status])
        if status == 408:
            wait_until(lambda: rejected(lb, 'request body too slow') == 1, 'the rejection')
        for _ in range(64):
            c.send_raw(b'x' * 16384)
        r = c.receive()
        assert r.status == status
        assert (r['Connection'] or '').lower() == 'close'
    assert w.requests == []


def test_no_more_of_a_response_is_taken_than_response_buffer(world):
    lb, _ = front(world, serve(streaming), response_buffer='64KiB')
    with slow_reader(lb, 'plain') as c:
        c.send()
        buffered = lambda: lb.app()['stats']['buffered_bytes']
        # Reading from the worker resumes when half of the buffer has been sent, not before.
        wait_until(lambda: buffered() >= 32 << 10, 'the buffer to be filled')
        assert buffered() <= 64 << 10


@pytest.mark.parametrize('size, settings, held', [
    (128 << 10, {}, 0), (16 << 20, {}, 0), (16 << 20, {'response_spill_max': '0'}, 1)])
def test_a_slow_client_holds_a_worker_as_the_manual_states(world, size, settings, held):
    lb, w = front(world, serve(lambda c, head, body: c.respond(b'x' * size)), **settings)
    with dial(lb, 'plain') as c:
        c.send()
        wait_until(lambda: len(w.requests) == 1, 'the request')
        if held:
            # The sockets and the buffer are full: no data is transferred until the client reads.
            wait_until(lambda: lb.app()['stats']['buffered_bytes'] > 200 << 10, 'the buffer to be full')
        wait_until(lambda: next(iter(lb.workers().values()))['backlog'] == held, 'the worker to be %d' % held)
        assert c.receive().status == 200
    wait_until(lambda: next(iter(lb.workers().values()))['backlog'] == 0, 'the worker to be free')


def test_the_manual_has_the_limits_of_slow_clients_as_they_are(world):
    manual = (ROOT / 'docs' / 'guide' / 'proxying.md').read_text().split('\n## Slow clients\n')[1].split('\n## ')[0]
    table = subprocess.run([BIN / 'resumelb', '--describe', 'settings'], capture_output=True, text=True, check=True).stdout
    defaults = dict(re.findall(r'^\| `(\w+)` \|[^|]*\| `([^`]*)` \|', table, re.M))
    for name, written in (('response_buffer', '256 KiB'), ('response_buffers_total', '32 MiB'), ('send_timeout', '60 s'),
                          ('response_spill_max', '1 GiB'), ('response_spill_total', '8 GiB'), ('worker_hold_timeout', '5 s'),
                          ('min_send_rate', '240 bytes'), ('min_send_rate_grace', '60 s'), ('total_timeout', 'off')):
        assert written.replace(' ', '').replace('bytes', '') == defaults[name], name
        assert re.search(r'`%s`[^.`]*%s' % (name, written), manual), name
    for other in ('docs/architecture.md', 'docs/faq.md', 'docs/runbook.md'):
        assert 'proxying.md#slow-clients' in (ROOT / other).read_text(), other


def test_beyond_response_buffers_total_reading_follows_the_clients(world):
    lb, _ = front(world, serve(streaming), response_buffers_total='1MiB', response_buffer='256KiB', response_spill_total='0',
                  max_connections=0)
    clients = [Http2(lb.tls_address, 0) for _ in range(4)]
    for c in clients:
        for i in range(32):
            c.send(2 * i + 1)
    wait_until(lambda: lb.app()['backlog'] == 128, 'all to be with the worker')
    buffered = lambda: lb.app()['stats']['buffered_bytes']
    wait_until(lambda: buffered() > 1 << 20, 'the total to be used up')
    # The limit, the minimum of each response, and the amount that a loop has not yet reported to the others.
    assert buffered() <= (1 << 20) + (256 << 10) + 128 * (16 << 10) + (64 << 10)
    for c in clients:
        c.close()
    wait_until(lambda: lb.app()['backlog'] == 0 and buffered() == 0, 'all to be given back')
