# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 through the load balancer: the permitted behavior of clients and workers, byte by byte."""
import os
import socket
import threading

import pytest
from support.base import LIMIT, wait_until
from support.http import Client, CutShort, get
from support.scripted import hello, serve


def static(*workers, **settings):
    config = {'workers': [{'address': w} for w in workers]}
    config.update(settings)
    return config


def test_a_request_reaches_gunicorn_and_comes_back(world):
    app = world.gunicorn()
    lb = world.resumelb(static(app.address))
    r = lb.get('/some/path?a=1&b=%20', host='Paper.example:80')
    seen = r.body and __import__('json').loads(r.body)
    assert r.status == 200
    assert seen['path'] == '/some/path' and seen['query'] == 'a=1&b=%20'
    assert seen['host'] == 'Paper.example:80'
    assert seen['headers']['HTTP_RESUMELB_CLASS'] == 'paper.example'
    assert len(seen['headers']['HTTP_RESUMELB_CLASSIFIER']) == 16
    assert seen['headers']['HTTP_X_FORWARDED_FOR'] == '127.0.0.1'
    assert seen['headers']['HTTP_X_FORWARDED_PROTO'] == 'http'
    assert seen['headers']['HTTP_X_FORWARDED_HOST'] == 'Paper.example:80'
    assert 'resumelb' in seen['headers']['HTTP_VIA']
    assert seen['headers']['HTTP_X_REQUEST_ID'] == r['X-Request-ID']


def test_headers_that_only_we_may_set_never_pass_from_outside(world):
    app = world.gunicorn()
    lb = world.resumelb(static(app.address))
    r = lb.get('/', headers=[('Resumelb-Class', 'forged'), ('resumelb-feed', '1'), ('Resumelb-Anything', 'x'),
                             ('X-Forwarded-For', '1.2.3.4'), ('Connection', 'X-Secret, close'), ('X-Secret', 'y'),
                             ('Keep-Alive', '5'), ('Proxy-Connection', 'keep-alive'), ('TE', 'trailers')])
    headers = __import__('json').loads(r.body)['headers']
    assert headers['HTTP_RESUMELB_CLASS'] == 'test.example'
    assert headers['HTTP_X_FORWARDED_FOR'] == '127.0.0.1'
    for gone in ('HTTP_RESUMELB_FEED', 'HTTP_RESUMELB_ANYTHING', 'HTTP_X_SECRET', 'HTTP_KEEP_ALIVE',
                 'HTTP_PROXY_CONNECTION', 'HTTP_TE'):
        assert gone not in headers, gone


def test_request_ids_of_one_loop_count_up_in_hexadecimal(world):
    w = world.scripted(serve(hello))
    lb = world.resumelb(static(w.address), threads=1)
    with Client(lb.address) as c:
        ids = [c.request()['X-Request-ID'] for _ in range(300)]
    assert all(len(i) == 32 and i == i.lower() for i in ids)
    assert {i[:16] for i in ids} == {ids[0][:16]}, 'the process and the loop'
    counts = [int(i[16:], 16) for i in ids]
    assert counts == list(range(counts[0], counts[0] + 300))


def test_keep_alive_and_pipelining_keep_their_order(world):
    def respond(c, head, body):
        c.respond(head.split(b' ')[1])
    w = world.scripted(serve(respond))
    lb = world.resumelb(static(w.address))
    with Client(lb.address) as c:
        for i in range(5):
            assert c.request(target='/%d' % i).body == b'/%d' % i
        c.send_raw(b''.join(b'GET /p%d HTTP/1.1\r\nHost: a\r\n\r\n' % i for i in range(20)))
        for i in range(20):
            assert c.receive().body == b'/p%d' % i
    assert len(w.connections) <= 2, 'connections to the worker are kept'


def test_head_204_304_have_no_body_and_keep_the_connection(world):
    def respond(c, head, body):
        if head.startswith(b'HEAD'):
            c.write(b'HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n')
        elif b'/204' in head:
            c.write(b'HTTP/1.1 204 No Content\r\n\r\n')
        elif b'/304' in head:
            c.write(b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\nContent-Length: 99\r\n\r\n')
        else:
            c.respond(b'body')
    w = world.scripted(serve(respond))
    lb = world.resumelb(static(w.address))
    with Client(lb.address) as c:
        r = c.request('HEAD')
        assert r.status == 200 and r['Content-Length'] == '12345'
        assert c.request(target='/204').status == 204
        r = c.request(target='/304')
        assert r.status == 304 and r['ETag'] == '"x"'
        assert c.request(target='/x').body == b'body'
    assert len(w.connections) <= 2


def test_chunked_both_ways(world):
    def respond(c, head, body):
        low = head.lower()
        assert b'transfer-encoding' not in low and low.count(b'content-length') == 1
        c.write(b'HTTP/1.1 404 Nope\r\nTransfer-Encoding: chunked\r\n\r\n')
        for part in (body[:3], body[3:]):
            c.write(b'%x;ext=1\r\n%s\r\n' % (len(part), part))
        c.write(b'0\r\nTrailer: x\r\n\r\n')
    w = world.scripted(serve(respond))
    lb = world.resumelb(static(w.address))
    with Client(lb.address) as c:
        for _ in range(2):
            c.send('POST', headers=[('Transfer-Encoding', 'chunked')])
            c.send_raw(b'3\r\nabc\r\n')
            c.send_raw(b'5\r\ndefgh\r\n0\r\n\r\n')
            r = c.receive()
            assert (r.status, r.reason, r.body) == (404, 'Nope', b'abcdefgh')
            assert r['Transfer-Encoding'] == 'chunked'


def test_response_without_length_is_delimited_by_close_for_http10(world):
    def script(c):
        c.read_request()
        c.write(b'HTTP/1.0 200 OK\r\n\r\nall of it')
    w = world.scripted(script)
    lb = world.resumelb(static(w.address))
    with Client(lb.address) as c:
        r = c.request(version='1.0', headers=[('Connection', 'keep-alive')])
        assert r.body == b'all of it' and not c._more()
    with Client(lb.address) as c:
        assert c.request().body == b'all of it'
        assert c.request().body == b'all of it'


def test_interim_responses_are_consumed(world):
    def respond(c, head, body):
        c.write(b'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n')
        c.respond(b'final')
    w = world.scripted(serve(respond))
    lb = world.resumelb(static(w.address))
    with Client(lb.address) as c:
        assert c.request().body == b'final'
        c.send('POST', headers=[('Expect', '100-continue'), ('Content-Length', '3')])
        assert c.head()[1] == 100
        c.send_raw(b'abc')
        assert c.receive().body == b'final'
    assert w.requests[-1][1] == b'abc'


@pytest.mark.parametrize('count, status', [(100, 200), (101, 502)])
def test_a_hundred_interim_responses_are_consumed_and_no_more(world, count, status):
    def respond(c, head, body):
        c.write(b'HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n' * count)
        c.respond(b'final')
    w = world.scripted(serve(respond))
    lb = world.resumelb(static(w.address, retries=0))
    for _ in range(2):
        assert lb.get().status == status


@pytest.mark.parametrize('version', ['1.0', '1.1'])
def test_hints_and_trailers_of_a_worker_go_no_further(world, version):
    def respond(c, head, body):
        for status in ('102 Processing', '103 Early Hints', '104 Upload Resumption Supported', '199 Whatever'):
            c.write(b'HTTP/1.1 %s\r\nLink: </early>\r\n\r\n' % status.encode())
        c.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Late\r\n\r\n3\r\nabc\r\n0\r\nX-Late: 1\r\n\r\n')
    w = world.scripted(serve(respond))
    lb = world.resumelb(static(w.address))
    with Client(lb.address) as c:
        c.send(version=version, headers=[('Connection', 'close'), ('TE', 'trailers')])
        while c._more():
            pass
        got = bytes(c.buffer)
    head, _, body = got.partition(b'\r\n\r\n')
    assert head.startswith(b'HTTP/1.1 200 OK\r\n') and got.count(b'HTTP/1.') == 1
    assert body == (b'abc' if version == '1.0' else b'3\r\nabc\r\n0\r\n\r\n')
    assert b'early' not in got and b'late' not in got.lower() and b'trailer' not in got.lower()


@pytest.mark.parametrize('megabytes', [1, 16])
def test_large_bodies_both_ways(world, megabytes):
    size = megabytes << 20

    def respond(c, head, body):
        c.write(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Got: %d\r\n\r\n' % (size, len(body)))
        block = os.urandom(1 << 20)
        c.block = block
        for _ in range(megabytes):
            c.write(block)
    w = world.scripted(serve(respond))
    lb = world.resumelb(static(w.address))
    with Client(lb.address) as c:
        body = b'x' * size
        sender = threading.Thread(target=c.send, kwargs=dict(method='POST', body=body))
        sender.start()
        r = c.receive()
        sender.join()
        assert r['X-Got'] == str(size)
        assert len(r.body) == size and r.body[:1 << 20] == w.connections[-1].block == r.body[-(1 << 20):]


def test_a_slow_client_sets_its_worker_free_and_costs_bounded_memory(world):
    def respond(c, head, body):
        c.write(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % (200 << 10))
        c.write(b'y' * (200 << 10))
    w = world.scripted(serve(respond))
    lb = world.resumelb(static(w.address, max_connections=1))
    with socket.create_connection(('127.0.0.1', lb.port)) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(b'GET / HTTP/1.1\r\nHost: slow\r\n\r\n')
        wait_until(lambda: len(w.requests) == 1, 'the slow request')
        wait_until(lambda: lb.app()['backlog'] == 0, 'the worker to be free again')
        with Client(lb.address) as c:
            assert len(c.request(host='quick').body) == 200 << 10


def test_reading_from_the_worker_follows_a_slow_client_beyond_the_buffer(world):
    sent = []

    def respond(c, head, body):
        c.write(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % (64 << 20))
        for _ in range(64):
            c.write(b'z' * (1 << 20))
            sent.append(1)
    w = world.scripted(serve(respond))
    lb = world.resumelb(static(w.address, response_spill_max='0'))
    with Client(lb.address) as c:
        c.send()
        wait_until(lambda: len(sent) >= 1, 'the worker to send')
        before = -1
        while before != len(sent):          # until the worker is blocked
            before = len(sent)
            threading.Event().wait(0.3)
        assert len(sent) < 40
        status = open('/proc/%d/status' % lb.process.pid).read()
        rss = int(status.split('VmRSS:')[1].split()[0])
        if 'build-asan' not in str(lb.process.popen.args[0]):
            assert rss < 60_000, rss
        assert len(c.receive().body) == 64 << 20


def test_websocket_upgrade_is_tunnelled_with_early_bytes(world):
    def script(c):
        head, _ = c.read_request()
        low = head.lower()
        assert b'upgrade: websocket' in low and b'connection: upgrade' in low
        c.write(b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
                b'Sec-WebSocket-Accept: abc\r\n\r\nearly')
        while True:
            data = c.sock.recv(65536)
            if not data:
                return
            c.write(data.upper())
    w = world.scripted(script)
    lb = world.resumelb(static(w.address))
    with Client(lb.address) as c:
        c.send(headers=[('Upgrade', 'websocket'), ('Connection', 'Upgrade'), ('Sec-WebSocket-Key', 'k')])
        r = c.receive()
        assert r.status == 101 and r['Sec-WebSocket-Accept'] == 'abc' and r['Upgrade'].lower() == 'websocket'
        assert c._need(5) == b'early'
        for n in (1, 10, 100_000):
            c.send_raw(b'a' * n)
            assert c._need(n) == b'A' * n
        wait_until(lambda: lb.app()['stats']['tunnels'] == 1, 'the tunnel in the figures')
    wait_until(lambda: lb.app()['stats']['tunnels'] == 0, 'the tunnel to end')
    # any other Upgrade is dropped and responded as a plain request
    plain = world.scripted(serve(lambda c, head, body: c.respond(b'yes' if b'pgrade' in head else b'no')))
    lb2 = world.resumelb(static(plain.address), name='lb2')
    assert get(lb2.address, headers=[('Upgrade', 'h2c'), ('Connection', 'Upgrade')]).body == b'no'


def test_a_response_cut_short_reaches_the_client_as_cut_short(world):
    def script(c):
        head, _ = c.read_request()
        if b'/length' in head:
            c.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this')
        else:
            c.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n')
    w = world.scripted(script)
    lb = world.resumelb(static(w.address))
    for target in ('/length', '/chunked'):
        with Client(lb.address) as c, pytest.raises((CutShort, ValueError)):
            c.request(target=target)
    wait_until(lambda: lb.app()['outcomes']['cut-short'] == 2, 'the outcome')


def test_a_response_that_is_no_http_gets_502(world):
    for i, garbage in enumerate((b'SSH-2.0-hello\r\n', b'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
                                 b'HTTP/1.1 200 OK\r\nbad header\r\n\r\n', b'\x00' * 1000,
                                 b'HTTP/1.1 200 OK\r\nX: ' + b'y' * 200_000)):
        def script(c):
            c.read_request()
            c.write(garbage)
            c.sock.recv(1)
        w = world.scripted(script)
        lb = world.resumelb(static(w.address), name='lb%d' % i)
        assert lb.get('/').status == 502, garbage[:20]


def test_ipv6_and_unix_sockets_on_both_sides(world):
    path = str(world.directory / 'worker.sock')
    front = 'unix:' + str(world.directory / 'front.sock')
    on_unix = world.scripted(serve(hello), path=path)
    on_six = world.scripted(serve(hello), host='::1')
    from support.base import free_port
    six = '[::1]:%d' % free_port('::1')
    lb = world.resumelb(static(on_unix.address, on_six.address),
                        listen=[{'address': front}, {'address': six}])
    for address in (front, six):
        for i in range(4):
            assert get(address, host='h%d' % i).body == b'hello'
    assert on_unix.requests and on_six.requests
    assert set(lb.workers()) == {on_unix.address, on_six.address}


def test_clients_that_leave_while_they_wait_are_noticed(world):
    import threading as t
    gate = t.Event()

    def respond(c, head, body):
        gate.wait(LIMIT)
        c.respond(b'late')
    w = world.scripted(serve(respond))
    lb = world.resumelb(static(w.address))
    c = Client(lb.address)
    c.send()
    wait_until(lambda: lb.app()['backlog'] == 1, 'the request at the worker')
    c.close()
    wait_until(lambda: lb.app()['backlog'] == 0, 'the request to be given up')
    wait_until(lambda: lb.app()['outcomes']['client-gone'] == 1, 'the count')
    gate.set()


@pytest.mark.parametrize('raw', [
    b'GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd',
    b'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    b'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
    b'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n',
    b'GET / HTTP/1.1\r\n\r\n',
    b'GET / HTTP/1.1\r\nHost: a/b@c\r\n\r\n',
    b'GET / HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n',
    b'GET / HTTP/1.1\nHost: a\n\n',
    b'G@T / HTTP/1.1\r\nHost: a\r\n\r\n',
])
def test_ambiguous_requests_are_rejected_and_never_reach_a_worker(world, raw):
    w = world.scripted(serve(hello))
    lb = world.resumelb(static(w.address))
    with Client(lb.address) as c:
        c.send_raw(raw)
        r = c.receive()
        assert 400 <= r.status < 500, r.status
        assert not c._more(), 'the connection is closed'
    assert not w.requests
