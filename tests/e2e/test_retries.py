# SPDX-License-Identifier: Apache-2.0
"""Workers that fail: requests that are retried, requests that never are, and the responses to the client."""
import json
import os
import re
import signal
import threading
import time

import pytest

from support.base import LIMIT, free_port, freeze, wait_until
from support.http import Client
from support.scripted import hello, serve


def static(*workers, **settings):
    config = {'workers': [{'address': w} for w in workers], 'pool': {'policy': 'classless'}}
    config.update(settings)
    return config


def test_a_get_goes_to_another_worker_when_one_fails_it(world):
    bad = world.scripted(lambda c: c.read_request() and c.reset())
    good = world.scripted(serve(hello))
    lb = world.resumelb(static(bad.address, good.address))
    for i in range(10):
        assert lb.get('/%d' % i).body == b'hello'
    assert bad.requests, 'the failing worker was tried'
    # no request is sent again to the worker that failed it
    heads = [h.split(b'\r\n')[0] for h, _ in bad.requests]
    assert len(heads) == len(set(heads))


def test_refused_connections_cost_no_request_of_any_method(world):
    dead = ['127.0.0.1:%d' % free_port() for _ in range(4)]
    good = world.scripted(serve(hello))
    lb = world.resumelb(static(*dead, good.address))
    for i in range(20):
        assert lb.get('/', method='POST' if i % 2 else 'GET', body=b'x' if i % 2 else None).body == b'hello'
    assert len([r for r in good.requests if r[0].startswith(b'POST')]) == 10


def test_all_workers_dead_is_a_502_with_the_error_page(world):
    page = world.directory / 'error.html'
    page.write_text('<h1>${status} ${reason}</h1><p>${request_id}</p>')
    lb = world.resumelb(static('127.0.0.1:%d' % free_port(), error_page=str(page)))
    r = lb.get('/')
    assert r.status == 502 and '<h1>502 Bad Gateway</h1>' in r.text
    assert r['X-Request-ID'] in r.text
    assert r['Content-Type'].startswith('text/html')


def test_an_error_page_has_the_type_of_its_file_and_the_one_that_accept_prefers(world):
    html, json_page = world.directory / 'error.html', world.directory / 'error.json'
    html.write_text('<h1>${status} ${reason}</h1>')
    json_page.write_text('{"status": ${status}, "id": "${request_id}"}')
    lb = world.resumelb(static('127.0.0.1:%d' % free_port(), error_page=[str(html), str(json_page)]))
    for accept, kind in ((None, 'text/html'), ('application/json', 'application/json'), ('text/html, */*;q=0.8', 'text/html'),
                         ('application/*', 'application/json')):
        r = lb.get('/', headers=[('Accept', accept)] if accept else [])
        assert (r.status, r['Content-Type'].partition(';')[0]) == (502, kind)
        if kind == 'application/json':
            assert json.loads(r.text) == {'status': 502, 'id': r['X-Request-ID']}
        else:
            assert r.text == '<h1>502 Bad Gateway</h1>'
    only = world.resumelb(static('127.0.0.1:%d' % free_port(), error_page=str(json_page)), name='only')
    assert only.get('/', headers=[('Accept', 'text/html')])['Content-Type'] == 'application/json'


def test_the_workers_request_id_passes_where_we_set_none(world):
    w = world.scripted(serve(lambda c, head, body: c.respond(headers=[('X-Request-ID', 'theirs')])))
    assert world.resumelb(static(w.address, request_id=False)).get('/')['X-Request-ID'] == 'theirs'
    assert world.resumelb(static(w.address), name='setting').get('/')['X-Request-ID'] != 'theirs'


def test_posts_are_never_executed_twice_by_us(world):
    executed = []

    def script(c):
        while True:
            got = c.read_request()
            if got is None:
                return
            executed.append(got[0].split(b' ')[1])
            c.reset()               # executed the request, then died without a response
            return
    workers = [world.scripted(script) for _ in range(3)]
    lb = world.resumelb(static(*[w.address for w in workers]))
    for i in range(12):
        r = lb.get('/%d' % i, method='POST', body=b'order')
        assert r.status == 502
    assert len(executed) == len(set(executed)) == 12


def test_an_idle_connection_that_proves_dead_costs_a_get_nothing(world):
    """The worker closes the idle connection when the next request arrives on it."""
    def script(c):
        assert c.read_request()
        c.respond(b'hello')
        got = c.read_request()      # a second request on this connection: close without a byte
        if got:
            c.reset()
    w = world.scripted(script)
    lb = world.resumelb(static(w.address, retries=0), threads=1)
    for _ in range(6):
        assert lb.get('/').body == b'hello'
    wait_until(lambda: lb.app()['stats']['retries_fresh'] >= 2, 'the count')


# What a worker sends on an idle connection while the next request is in transit: bytes behind a response without content, or
# the response with which it gives the connection up.
STRAY = b'0\r\n\r\n'
GIVEN_UP = b'HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno'


def crossing(late):
    """Responds to the first request of each connection with a 304; the second one finds LATE instead of its response."""
    def script(c):
        if c.read_request():
            c.write(b'HTTP/1.1 304 Not Modified\r\nX-Connection: %d\r\n\r\n' % c.number)
        if c.read_request():
            c.write(late)
    return script


@pytest.mark.parametrize('retries', [0, 1])
@pytest.mark.parametrize('late', [STRAY, GIVEN_UP], ids=['left-over bytes', '408'])
def test_stray_bytes_on_an_idle_connection_cost_a_get_nothing(world, late, retries):
    w = world.scripted(crossing(late))
    lb = world.resumelb(static(w.address, retries=retries), threads=1)
    for i in range(6):
        r = lb.get('/%d' % i)
        assert (r.status, r['X-Connection']) == (304, str(i))
    assert [head.split()[1] for head, _ in w.requests] == [b'/0', b'/1', b'/1', b'/2', b'/2', b'/3', b'/3', b'/4', b'/4', b'/5', b'/5']
    wait_until(lambda: lb.app()['outcomes']['responded'] == 6, 'the outcomes')
    stats = lb.app()['stats']
    as_retries = 5 if late == STRAY and retries else 0
    assert (stats['retries'], stats['retries_fresh']) == (as_retries, 5 - as_retries)


def test_left_over_bytes_of_an_idle_connection_send_a_get_to_another_worker_if_there_is_one(world):
    workers = [world.scripted(crossing(STRAY)) for _ in range(2)]
    lb = world.resumelb(static(*[w.address for w in workers], retry_budget=1), threads=1)
    for i in range(10):
        assert lb.get('/%d' % i).status == 304
    targets = [[head.split()[1] for head, _ in w.requests] for w in workers]
    assert all(len(t) == len(set(t)) for t in targets), 'no worker gets a request twice'
    assert len(targets[0]) + len(targets[1]) > 10


@pytest.mark.parametrize('late, status', [(STRAY, 502), (GIVEN_UP, 408)], ids=['left-over bytes', '408'])
def test_stray_bytes_on_an_idle_connection_repeat_no_post(world, late, status):
    def script(c):
        while c.read_request():
            c.write(late if w.requests[-1][0].startswith(b'POST') else b'HTTP/1.1 304 Not Modified\r\n\r\n')
    w = world.scripted(script)
    lb = world.resumelb(static(w.address), threads=1)
    assert lb.get('/0').status == lb.get('/1').status == 304
    assert lb.get('/2', method='POST', body=b'order').status == status
    assert [head.split()[1] for head, _ in w.requests] == [b'/0', b'/1', b'/2']
    assert len(w.connections) == 1


@pytest.mark.parametrize('bad, status', [
    (b'nonsense\r\n\r\n', 502),
    (b'HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n', 502),
    (GIVEN_UP, 408),
    (b'HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n', 408)], ids=['nonsense', 'bad length', '408', '408 of the application'])
def test_a_response_that_is_bad_on_a_new_connection_too_is_not_asked_for_again(world, bad, status):
    def script(c):
        while c.read_request():
            c.write(bad if b'/bad' in w.requests[-1][0] else b'HTTP/1.1 304 Not Modified\r\n\r\n')
    w = world.scripted(script)
    lb = world.resumelb(static(w.address, retries=0), threads=1)
    assert lb.get('/bad').status == status
    assert lb.get('/good').status == 304
    assert lb.get('/bad').status == status
    repeated = 3 if b'Content-Length: x' in bad or b'Content-Length: 0' in bad else 4
    assert len(w.requests) == repeated


def test_a_worker_that_closed_an_idle_connection_on_a_request_gets_unsafe_ones_on_fresh_connections_only(world):
    def script(c):
        if c.read_request():
            c.respond(b'%d' % c.number)
        if c.sock.recv(1):          # the worker closes the connection and ignores this request
            c.reset()
    w = world.scripted(script)
    lb = world.resumelb(static(w.address), threads=1)
    assert lb.get('/').status == lb.get('/').status == 200      # the second request detects the behavior of the worker
    wait_until(lambda: lb.app()['stats']['retries_fresh'] == 1, 'the count')
    for i in range(20):
        assert lb.get('/%d' % i, method='POST', body=b'order').status == 200
    assert len([r for r in w.requests if r[0].startswith(b'POST')]) == 20


def test_unsafe_requests_back_to_back_use_one_connection(world):
    w = world.scripted(serve(hello))
    lb = world.resumelb(static(w.address), threads=1)
    for i in range(60):
        assert lb.get('/%d' % i, method='POST', body=b'x').body == b'hello'
    assert len(w.connections) == 1


def test_one_unsafe_request_at_most_is_lost_and_none_repeated_where_each_response_is_followed_by_a_close(world):
    """The close is not announced, and crosses the next request: a request that came just before it is lost by a reset."""
    w = world.scripted(lambda c: c.read_request() and c.respond(b'hello'))
    lb = world.resumelb(static(w.address), threads=1)
    statuses = [lb.get('/%d' % i, method='POST', body=b'x').status for i in range(200)]
    lost = [i for i in range(200) if statuses[i] == 502]
    assert len(lost) <= 1 and statuses.count(200) == 200 - len(lost)
    assert [r[0].split()[1] for r in w.requests] == [b'/%d' % i for i in range(200) if i not in lost]


def test_no_unsafe_request_is_sent_on_a_connection_that_was_closed_after_its_response(world):
    w = world.scripted(lambda c: c.read_request() and c.respond(b'hello'))
    lb = world.resumelb(static(w.address), threads=1)
    for i in range(60):
        assert lb.get('/%d' % i, method='POST', body=b'x').body == b'hello'
        wait_until(lambda: w.connections[i].ended, 'the connection to be closed')
    assert len(w.connections) == len(w.requests) == 60


def test_an_unsafe_request_goes_out_on_a_connection_idle_too_long_never(world):
    def script(c):
        while True:
            got = c.read_request()
            if got is None:
                return
            c.respond(b'%d' % c.number)
    w = world.scripted(script)
    lb = world.resumelb(static(w.address, unsafe_reuse_idle='50ms'), threads=1)
    first = lb.get('/').body
    wait_until(lambda t=time.monotonic(): time.monotonic() - t > 0.1, 'the connection to have idled')
    assert lb.get('/', method='POST', body=b'x').body != first
    assert len(w.connections) == 2


def test_first_byte_timeout_is_a_504_and_the_worker_is_given_up(world):
    gate = threading.Event()

    def respond(c, head, body):
        if b'/slow' in head:
            gate.wait(LIMIT)
        c.respond(b'hello')
    w = world.scripted(serve(respond))
    lb = world.resumelb(static(w.address, first_byte_timeout='200ms'))
    assert lb.get('/slow').status == 504
    wait_until(lambda: re.search('worker-failed .* response=none setting=first_byte_timeout\n', lb.process.output()), 'the log')
    wait_until(lambda: lb.app()['backlog'] == 0, 'the worker to be given up')
    lb.change(first_byte_timeout='10m')
    assert lb.get('/quick').body == b'hello'
    gate.set()


def test_a_pause_within_a_response_cuts_it(world):
    gate = threading.Event()

    def script(c):
        c.read_request()
        c.write(b'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello')
        gate.wait(LIMIT)
    w = world.scripted(script)
    lb = world.resumelb(static(w.address, between_bytes_timeout='200ms'))
    with Client(lb.address) as c:
        c.send()
        assert c.head()[1] == 200
        assert c._need(5) == b'hello'
        assert not c._more()
    gate.set()
    wait_until(lambda: lb.app()['outcomes']['response-timeout'] == 1, 'the outcome')
    wait_until(lambda: re.search('worker-failed .* response=begun setting=between_bytes_timeout\n', lb.process.output()), 'the log')


def test_total_timeout_bounds_the_whole_request(world):
    gate = threading.Event()
    w = world.scripted(serve(lambda c, h, b: gate.wait(LIMIT)))
    lb = world.resumelb(static(w.address, total_timeout='300ms'))
    assert lb.get('/').status == 504
    wait_until(lambda: lb.app()['outcomes']['total-timeout'] == 1, 'the count')
    wait_until(lambda: re.search('total-timeout .* response=none setting=total_timeout\n', lb.process.output()), 'the log')
    gate.set()


def test_requests_wait_in_line_for_the_one_connection(world):
    order = []

    def respond(c, head, body):
        order.append(int(head.split(b' ')[1][1:]))
        time.sleep(0.02)            # service time of the scripted worker
        c.respond(b'hello')
    w = world.scripted(serve(respond))
    lb = world.resumelb(static(w.address, max_connections=1))
    clients = []
    for i in range(12):
        c = Client(lb.address)
        c.send(target='/%d' % i)
        clients.append(c)
        wait_until(lambda: lb.app()['stats']['requests'] == i + 1, 'request %d to arrive' % i)
    for c in clients:
        assert c.receive().body == b'hello'
        c.close()
    assert sorted(order) == order, 'first come, first served'
    assert max(len(w.connections), 1) <= 2


def test_waiting_for_a_connection_ends_in_another_worker(world):
    gate = threading.Event()

    def slow(c, head, body):
        gate.wait(LIMIT)
        c.respond(b'slow')
    one = world.scripted(serve(slow))
    lb = world.resumelb(dict(static(one.address, max_connections=1, connection_wait_timeout='200ms'), pool={'policy': 'resume'}))
    first = Client(lb.address)
    first.send(host='a')
    wait_until(lambda: len(one.requests) == 1, 'the worker to be busy')
    r = lb.get('/', host='a')
    assert r.status == 503 and r['Retry-After'] == '1'
    wait_until(lambda: lb.app()['outcomes']['workers-busy'] == 1, 'the count')
    gate.set()
    assert first.receive().body == b'slow'
    first.close()


def test_a_worker_that_rejects_is_left_alone_for_a_while(world):
    port = free_port()
    good = world.scripted(serve(hello))
    lb = world.resumelb(static('127.0.0.1:%d' % port, good.address, eject_time='300ms'))
    for _ in range(20):
        assert lb.get('/').body == b'hello'
    assert 1 <= lb.app()['stats']['connect_failures'] < 10
    wait_until(lambda: lb.app()['stats']['ejections'] >= 1, 'the count')


def test_a_worker_that_accepts_connections_again_is_back_long_before_its_time(world):
    """It is probed by connecting: no request has to fail for that, and none is sent to it in the meantime."""
    one, other = world.gunicorn('one'), world.scripted(serve(hello))
    lb = world.resumelb(static(one.address, other.address, eject_time='10m', eject_probe='50ms', resume='measure'))
    wait_until(lambda: lb.get('/').body != b'hello', 'the first to serve')
    one.kill()

    def ejected():
        lb.get('/')
        return lb.workers()[one.address]['ejected']
    wait_until(ejected, 'the ejection')
    assert lb.workers()[one.address]['ejected_why'] == 'refused'
    before = lb.app()['stats']
    requests = lb.workers()[one.address]['requests']
    for _ in range(20):
        assert lb.get('/').body == b'hello'
    assert lb.workers()[one.address]['ejected']
    one.start()
    wait_until(lambda: not lb.workers()[one.address]['ejected'], 'the worker to be back')
    after = lb.app()['stats']
    assert (after['ejections'], after['connect_failures']) == (before['ejections'], before['connect_failures'])
    assert lb.workers()[one.address]['requests'] == requests
    wait_until(lambda: lb.get('/').body != b'hello', 'it to serve')


def test_a_get_whose_worker_dies_after_the_head_goes_elsewhere(world):
    """Servers write the head and the body separately: no part of the response was passed on in between."""
    def script(c):
        c.read_request()
        # The load balancer is frozen, so that it receives the head and the reset together.
        freeze(lb.process.pid)
        try:
            c.write(b'HTTP/1.1 200 OK\r\nX-From: dead\r\nContent-Length: 5\r\n\r\n')
            c.reset()
        finally:
            os.kill(lb.process.pid, signal.SIGCONT)
    bad = world.scripted(script)
    good = world.scripted(serve(hello))
    lb = world.resumelb(static(bad.address, good.address))
    for _ in range(6):
        r = lb.get('/')
        assert (r.status, r.body, r['X-From']) == (200, b'hello', None)
    assert bad.requests
    # requests that must not be executed twice get a response, and sent once
    statuses = {lb.get('/', method='POST', body=b'x').status for _ in range(4)}
    assert statuses == {200, 502}


def test_a_head_whose_body_is_slow_to_come_is_passed_on_all_the_same(world):
    gate = threading.Event()

    def script(c):
        c.read_request()
        c.write(b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n')
        gate.wait(LIMIT)
        c.write(b'hello')
    w = world.scripted(script)
    lb = world.resumelb(static(w.address))
    with Client(lb.address) as c:
        c.send()
        assert c.head()[1] == 200
        gate.set()
        assert c._need(5) == b'hello'


def test_ejected_workers_come_back_when_the_last_one_rejects(world):
    """Two workers refuse connections and are ejected. They accept again when the third one ends: eject_time fails no request."""
    ports = [free_port() for _ in range(2)]
    third = world.scripted(lambda c: c.read_request() and c.respond(b'hello', headers=[('Connection', 'close')]))
    lb = world.resumelb(static(*['127.0.0.1:%d' % p for p in ports], third.address, eject_time='10m', pool={'policy': 'resume'}))
    # a class without a skilled worker is sent to the least recently used one
    for i in range(3):
        assert lb.get('/', host='site%d.example' % i).body == b'hello'
    wait_until(lambda: lb.app()['stats']['ejections'] == 2, 'both to be ejected')
    for p in ports:
        world.scripted(serve(hello), port=p)
    third.close()
    for method in ('POST', 'GET'):
        assert lb.get('/', method=method, body=b'x').body == b'hello'


def test_a_get_that_fails_everywhere_else_tries_the_ejected_ones(world):
    port = free_port()
    dying = threading.Event()

    def respond(c, head, body):
        if dying.is_set():
            c.reset()
        else:
            c.respond(b'hello')
    other = world.scripted(serve(respond))
    lb = world.resumelb(static('127.0.0.1:%d' % port, other.address, eject_time='10m', pool={'policy': 'resume'}))
    for i in range(2):
        assert lb.get('/', host='site%d.example' % i).body == b'hello'
    wait_until(lambda: lb.app()['stats']['ejections'] == 1, 'the first to be ejected')
    world.scripted(serve(hello), port=port)
    dying.set()
    assert lb.get('/').body == b'hello'


def test_a_worker_that_resets_request_after_request_is_left_alone(world):
    healed = threading.Event()

    def script(c):
        while c.read_request():
            if not healed.is_set():
                c.reset()
                return
            c.respond(b'healed')
    bad = world.scripted(script)
    good = world.scripted(serve(hello))
    lb = world.resumelb(static(bad.address, good.address, eject_after=3, eject_time='10m', eject_probe=0))
    for i in range(40):
        assert lb.get('/%d' % i).body == b'hello'
    assert len(bad.requests) == 3
    worker = lb.workers()[bad.address]
    assert (worker['ejected'], worker['ejected_why'], worker['available']) == (True, 'reset', False)
    assert 0 < worker['ejected_for_s'] <= 600
    # a request without another worker is served by it nevertheless
    healed.set()
    good.close()
    assert lb.get('/').body == b'healed'


def test_at_most_eject_max_of_the_workers_that_time_out_are_ejected(world):
    gate = threading.Event()

    def respond(c, head, body):
        if not gate.is_set() and b'/slow' in head:
            gate.wait(LIMIT)
        c.respond(b'hello')
    workers = [world.scripted(serve(respond)) for _ in range(4)]
    lb = world.resumelb(static(*[w.address for w in workers], eject_after=1, eject_time='10m', first_byte_timeout='50ms'))
    for i in range(12):
        assert lb.get('/slow%d' % i).status == 504
    out = [w for w in lb.workers().values() if w['ejected']]
    assert [w['ejected_why'] for w in out] == ['first-byte-timeout'] * 2
    wait_until(lambda: lb.app()['stats']['ejections'] == 2, 'the count')
    lb.change(first_byte_timeout='10m')
    gate.set()
    assert lb.get('/').body == b'hello'


def test_a_worker_that_fails_again_when_it_is_back_is_out_for_longer_each_time(world):
    port = free_port()
    dead = '127.0.0.1:%d' % port
    good = world.scripted(serve(hello))
    lb = world.resumelb(static(dead, good.address, eject_time='20ms', eject_probe=0))

    def out_for_ten_times_as_long():
        assert lb.get('/').body == b'hello'
        return lb.workers()[dead].get('ejected_for_s', 0) > 0.2
    wait_until(out_for_ten_times_as_long, 'ejections that have doubled')
    assert lb.workers()[dead]['ejected_why'] == 'refused'


def test_no_more_requests_are_retries_at_once_than_the_budget_has(world):
    """All requests fail at the bad worker; the retried ones hang at the good worker, and use the budget."""
    gate = threading.Event()

    def slow(c, head, body):
        gate.wait(LIMIT)
        c.respond(b'hello')
    bad = world.scripted(lambda c: c.read_request() and c.reset())
    good = world.scripted(serve(slow))
    lb = world.resumelb(static(bad.address, good.address, eject_time=0, retry_budget=0, retry_budget_min=2))
    clients = []

    def retrying():
        # the bad worker is idle after each failure: it is selected before the good one, which has the retries in flight
        c = Client(lb.address)
        c.send()
        clients.append(c)
        wait_until(lambda: len(good.requests) == len(clients), 'the request to come to the good one')
        return lb.app()['stats']['retries'] == 2
    wait_until(retrying, 'the budget to be taken')
    assert lb.get('/').status == 502
    stats = lb.app()['stats']
    assert (stats['retries'], stats['retries_over_budget']) == (2, 1)
    gate.set()
    assert [c.receive().body for c in clients] == [b'hello'] * len(clients)
    # the budget that they used is available again
    for _ in range(10):
        assert lb.get('/').status == 200
    assert lb.app()['stats']['retries_over_budget'] == 1
    for c in clients:
        c.close()


def test_after_16_workers_have_failed_a_request_no_further_one_is_tried(world):
    """Every other one refuses the connection, the rest reset it when the request has arrived: either may be the last."""
    fails = [world.scripted(lambda c: c.read_request() and c.reset()) for _ in range(13)]
    workers = [a for w in fails for a in ('127.0.0.1:%d' % free_port(), w.address)] + ['127.0.0.1:%d' % free_port()]
    lb = world.resumelb(static(*workers, retries=10, retry_budget=1, eject_after=0, eject_after_refused=0, poison_deaths=0), threads=1)
    for i in range(20):
        assert lb.get('/%d' % i).status == 502
    assert sum(len(w.requests) for w in fails) + lb.app()['stats']['connect_failures'] == 20 * 16
