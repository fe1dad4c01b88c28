# SPDX-License-Identifier: Apache-2.0
"""Limits in the load balancer: a request over a limit is queued, rejected, or gets the response of another request."""
import time

import pytest
from limit_support import Asked, HeldApp, Http2, balancer, ends, tls_listener, waits
from support.base import free_port, wait_until


@pytest.fixture
def app():
    a = HeldApp()
    yield a
    a.let_all_go()
    a.server.close()


def ask(lb, n, target='/%d', **kw):
    """Sends N requests one after the other: each has arrived before the next is sent."""
    asked = []
    for i in range(n):
        before = lb.app()['stats']['requests']
        asked.append(Asked(lb.address, target % i if '%d' in target else target, **kw))
        wait_until(lambda: lb.app()['stats']['requests'] == before + 1, 'it to arrive')
    return asked


def all_ok(asked):
    assert [a.wait().status for a in asked] == [200] * len(asked)


# ---- each ----

def test_a_class_has_at_most_workers_requests_in_progress_and_the_others_follow_in_order(world, app):
    lb = balancer(world, app, {'sites': {'workers': 2}})
    asked = ask(lb, 5)
    waits(lb, 3)
    app.under_way(2)
    for left in (2, 1, 0):
        app.let_go()
        waits(lb, left)
        app.under_way(2)    # the request that was granted has reached the worker before the next one is granted
    app.let_all_go()
    all_ok(asked)
    # the first two arrive concurrently, over two connections
    assert sorted(app.begun[:2]) == ['GET /0', 'GET /1'] and app.begun[2:] == ['GET /2', 'GET /3', 'GET /4']


def test_another_class_is_not_held_up(world, app):
    lb = balancer(world, app, {'sites': {'workers': 1}})
    ask(lb, 3)
    waits(lb, 2)
    ask(lb, 1, '/other', host='b.example')
    app.under_way(2)
    assert 'GET /other' in app.begun


def test_slots_limit_all_classes_together_and_the_oldest_is_next(world, app):
    lb = balancer(world, app, {'sites': {'workers': 2, 'slots': 3}})
    for n, host in enumerate('abcde'):
        ask(lb, 1, '/' + host, host=host + '.example')
        app.under_way(min(n + 1, 3))
        waits(lb, max(n - 2, 0))
    for waiting in (1, 0):
        app.let_go()
        app.under_way(3)
        waits(lb, waiting)
    assert app.begun == ['GET /' + host for host in 'abcde']


def test_above_maxqueue_the_counters_own_error_gets_a_response_at_once(world, app):
    page = world.directory / 'full.html'
    page.write_text('<h1>Come back: ${status}</h1>')
    lb = balancer(world, app, {'sites': {'workers': 1, 'maxqueue': 2, 'status': 429, 'retry_after': '7s', 'page': str(page)}})
    asked = ask(lb, 2)
    waits(lb, 1)
    r = lb.get('/3', 'a.example')
    assert (r.status, r['retry-after'], r.text) == (429, '7', '<h1>Come back: 429</h1>')
    ends(lb, 'limit-full', 1)
    app.let_all_go()
    all_ok(asked)


def test_a_request_that_has_waited_for_its_timeout_gets_503(world, app):
    lb = balancer(world, app, {'sites': {'workers': 1, 'timeout': '150ms'}})
    asked = ask(lb, 1)
    app.under_way(1)
    r = lb.get('/late', 'a.example')
    assert (r.status, r['retry-after']) == (503, '1')
    ends(lb, 'limit-timeout', 1)
    assert app.begun == ['GET /0']
    app.let_all_go()
    all_ok(asked)


def test_a_request_that_leaves_while_it_waits_is_forgotten_at_once(world, app):
    lb = balancer(world, app, {'sites': {'workers': 1}})
    first, second, third = ask(lb, 3)
    waits(lb, 2)
    second.leave()
    waits(lb, 1)
    app.let_go()
    app.under_way(1)
    app.let_all_go()
    all_ok([first, third])
    assert app.begun == ['GET /0', 'GET /2']


def test_a_request_that_leaves_while_it_is_served_ends_its_lease(world, app):
    lb = balancer(world, app, {'sites': {'workers': 1}})
    first, second = ask(lb, 2)
    waits(lb, 1)
    first.leave()
    waits(lb, 0)
    wait_until(lambda: len(app.begun) == 2, 'the next one to begin')
    app.let_all_go()
    all_ok([second])


def test_a_worker_that_dies_gives_the_place_back(world, app):
    app.responses['/0'] = lambda c, n: c.reset()
    lb = balancer(world, app, {'sites': {'workers': 1}})
    asked = ask(lb, 2)
    waits(lb, 1)
    app.let_go()
    assert asked[0].wait().status == 502
    app.let_all_go()
    all_ok(asked[1:])


def test_a_slow_client_holds_no_place(world, app):
    app.responses['/big'] = lambda c, n: c.respond(b'x' * 4000000)
    lb = balancer(world, app, {'sites': {'workers': 1}}, response_buffer='8MiB')
    slow = Asked.__new__(Asked)
    from support.http import Client
    slow.client = Client(lb.address)
    slow.client.send('GET', '/big', 'a.example')
    app.under_way(1)
    second, = ask(lb, 1, '/second')
    waits(lb, 1)
    app.let_go()
    wait_until(lambda: 'GET /second' in app.begun, 'the next one, although the first response is not read')
    app.let_all_go()
    all_ok([second])
    assert len(slow.client.receive().body) == 4000000


@pytest.mark.parametrize('match, hit, miss', [
    ({'path': 'prefix:/w/'}, ('GET', '/w/x'), ('GET', '/v/w/')),
    ({'path': 'exact:/a b'}, ('GET', '/a%20b?q'), ('GET', '/a')),
    ({'path': 'regex:[.]php$'}, ('GET', '/x.php?y'), ('GET', '/x.php5')),
    ({'method': 'POST'}, ('POST', '/'), ('GET', '/')),
    ({'class': 'a.example'}, ('GET', '/'), None),
    ({'class': 'b.example'}, None, ('GET', '/')),
])
def test_only_what_matches_is_counted(world, app, match, hit, miss):
    lb = balancer(world, app, {'some': {'workers': 1, 'timeout': '0s', 'key': 'all', 'match': match}})
    for what, status in ((hit, 503), (miss, None)):
        if what is None:
            continue
        method, target = what
        body = b'x' if method == 'POST' else None
        under_way = len(app.waiting)
        ask(lb, 1, target, method=method, body=body)
        app.under_way(under_way + 1)
        second, = ask(lb, 1, target, method=method, body=body)
        if status:
            assert second.wait().status == status
        else:
            app.under_way(under_way + 2)


def test_leases_of_several_limits_are_acquired_in_order_and_all_released(world, app):
    lb = balancer(world, app, {'first': {'workers': 2, 'key': 'x'}, 'second': {'workers': 1, 'key': '{PATH_INFO}', 'timeout': '100ms'}})
    asked = ask(lb, 1, '/a')
    assert lb.get('/a', 'a.example').status == 503
    # the second lock of the first counter is free again
    asked += ask(lb, 1, '/b')
    app.under_way(2)
    app.let_all_go()
    all_ok(asked)


def test_a_rule_that_goes_at_a_reload_lets_those_that_wait_continue(world, app):
    lb = balancer(world, app, {'sites': {'workers': 1}})
    asked = ask(lb, 3)
    waits(lb, 2)
    lb.reload({'limits': {}})
    wait_until(lambda: 'reloaded' in lb.process.output() or 'configuration' in lb.process.output(), 'the reload')
    asked += ask(lb, 1, '/free')
    wait_until(lambda: 'GET /free' in app.begun, 'one that is not counted any more')
    app.let_all_go()
    all_ok(asked)
    waits(lb, 0)


def test_raising_workers_at_a_reload_lets_those_that_wait_go_at_once(world, app):
    lb = balancer(world, app, {'sites': {'workers': 1}})
    asked = ask(lb, 4)
    waits(lb, 3)
    lb.reload({'limits': {'sites': {'workers': 3}}})
    app.under_way(3)
    waits(lb, 1)
    app.let_all_go()
    all_ok(asked)


def test_a_shadow_counts_and_rejects_none(world, app):
    lb = balancer(world, app, {'sites': {'workers': 1, 'maxqueue': 2, 'shadow': True}})
    asked = ask(lb, 4)
    app.under_way(4)
    app.let_all_go()
    all_ok(asked)


# ---- any ----

ANY = {'pages': {'mode': 'any', 'workers': 1, 'maxqueue': 1000}}


def test_many_requests_for_the_same_page_do_the_work_once(world, app):
    lb = balancer(world, app, ANY)
    began = time.monotonic()
    asked = ask(lb, 12, '/page?x=1')
    waits(lb, 11)
    app.let_all_go()
    all_ok(asked)
    assert app.begun == ['GET /page?x=1']
    assert {a.wait().text for a in asked} == {'number 0'}
    coalesced = [a for a in asked if a.wait()['cache-status']]
    assert len(coalesced) == 11
    assert {a.wait()['cache-status'] for a in coalesced} == {'resumelb; fwd=miss; collapsed'}
    assert max(int(a.wait()['age']) for a in coalesced) <= time.monotonic() - began
    ends(lb, 'coalesced', 11)
    ends(lb, 'responded', 1)


def test_a_shared_response_is_not_stored_for_later_requests(world, app):
    lb = balancer(world, app, ANY)
    app.let_all_go()
    assert [lb.get('/page', 'a.example').text for _ in range(3)] == ['number 0', 'number 1', 'number 2']


@pytest.mark.parametrize('one, other', [
    (dict(target='/page?x=1'), dict(target='/page?x=2')),
    (dict(host='a.example'), dict(host='b.example')),
    (dict(), dict(method='HEAD')),
    (dict(), dict(method='POST', body=b'x')),
    (dict(), dict(headers=[('Authorization', 'Basic eDp5')])),
    (dict(), dict(headers=[('Range', 'bytes=0-1')])),
    (dict(), dict(headers=[('Cache-Control', 'no-cache')])),
])
def test_requests_that_differ_do_not_share_a_response(world, app, one, other):
    lb = balancer(world, app, {'pages': dict(ANY['pages'], workers=2)})
    a, = ask(lb, 1, **dict(dict(target='/page'), **one))
    b, = ask(lb, 1, **dict(dict(target='/page'), **other))
    app.under_way(2)
    app.let_all_go()
    all_ok([a, b])
    assert not b.wait()['cache-status']


@pytest.mark.parametrize('field', [('Set-Cookie', 'a=b'), ('Cache-Control', 'private'), ('Cache-Control', 'no-store'),
                                   ('Cache-Control', 'no-cache'), ('Vary', '*')])
def test_a_response_that_may_not_be_shared_is_made_for_each_request_workers_at_a_time(world, app, field):
    app.responses['/page'] = lambda c, n: c.respond(b'number %d' % n, headers=[field])
    lb = balancer(world, app, {'pages': dict(ANY['pages'], workers=2)})
    asked = ask(lb, 6, '/page')
    waits(lb, 4)
    app.under_way(2)
    app.let_go()
    waits(lb, 3)
    app.under_way(2)
    app.let_all_go()
    all_ok(asked)
    assert len({a.wait().text for a in asked}) == 6


def test_vary_is_respected(world, app):
    app.responses['/page'] = lambda c, n: c.respond(b'number %d' % n, headers=[('Vary', 'Accept-Language')])
    lb = balancer(world, app, ANY)
    first = ask(lb, 2, '/page', headers=[('Accept-Language', 'de')])
    second = ask(lb, 2, '/page', headers=[('Accept-Language', 'en')])
    waits(lb, 3)
    app.let_go()
    all_ok(first)
    app.let_all_go()
    all_ok(second)
    assert {a.wait().text for a in first} == {'number 0'}
    assert {a.wait().text for a in second}.isdisjoint({'number 0'})


def test_when_the_one_that_works_fails_the_next_one_tries(world, app):
    app.responses['/page'] = lambda c, n: c.reset() if n == 0 else c.respond(b'number %d' % n)
    lb = balancer(world, app, ANY)
    asked = ask(lb, 4, '/page')
    waits(lb, 3)
    app.let_go()
    assert asked[0].wait().status == 502
    app.under_way(1)
    app.let_all_go()
    all_ok(asked[1:])
    assert {a.wait().text for a in asked[1:]} == {'number 1'} and len(app.begun) == 2


def test_when_the_client_of_the_one_that_works_leaves_the_next_one_tries(world, app):
    lb = balancer(world, app, ANY)
    asked = ask(lb, 3, '/page')
    waits(lb, 2)
    asked[0].leave()
    wait_until(lambda: len(app.begun) == 2, 'the next one to try')
    app.let_all_go()
    all_ok(asked[1:])
    assert {a.wait().text for a in asked[1:]} == {'number 1'}


def test_a_page_larger_than_stored_max_size_is_made_by_each(world, app):
    app.responses['/page'] = lambda c, n: c.respond(b'x' * 3000)
    lb = balancer(world, app, ANY, stored_max_size='1KiB')
    asked = ask(lb, 3, '/page')
    app.let_all_go()
    all_ok(asked)
    assert len(app.begun) == 3


def test_an_error_is_no_response_for_others(world, app):
    app.responses['/page'] = lambda c, n: c.respond(b'oops', status='500 Internal Server Error')
    lb = balancer(world, app, ANY)
    asked = ask(lb, 3, '/page')
    app.let_all_go()
    assert [a.wait().status for a in asked] == [500] * 3
    assert len(app.begun) == 3


# ---- HTTP/2 ----

def test_streams_of_one_connection_share_the_work_and_one_that_is_reset_is_forgotten(world, app):
    port = free_port()
    lb = balancer(world, app, ANY, listen=[tls_listener(world, port)])
    c = Http2(port)
    streams = c.ask(['/page'] * 8)
    waits(lb, 7)
    c.reset(streams[5])
    waits(lb, 6)
    app.let_all_go()
    rest = streams[:5] + streams[6:]
    assert c.receive(rest) == [200] * 7
    assert {c.bodies[s] for s in rest} == {b'number 0'} and app.begun == ['GET /page']
    c.close()


def test_a_connection_that_ends_takes_all_its_streams_out_of_the_queue(world, app):
    port = free_port()
    lb = balancer(world, app, {'sites': {'workers': 1}}, listen=[tls_listener(world, port)])
    c, other = Http2(port), Http2(port)
    c.ask(['/a%d' % i for i in range(5)])
    waits(lb, 4)
    stream = other.ask(['/other'])
    waits(lb, 5)
    c.close()
    wait_until(lambda: 'GET /other' in app.begun, 'the other one to have its turn')
    app.let_all_go()
    assert other.receive(stream) == [200]
    assert len(app.begun) == 2
    waits(lb, 0)
    other.close()


def test_a_request_leaves_the_queue_when_its_total_timeout_ends(world, app):
    lb = balancer(world, app, {'sites': {'workers': 1}}, total_timeout='300ms')
    asked = ask(lb, 2)
    assert [a.wait().status for a in asked] == [504, 504]
    waits(lb, 0)
    app.let_all_go()
    lb.change(total_timeout='10m')
    assert lb.get('/again', 'a.example').status == 200


# ---- stale ----

def fill(lb, app, target='/page', **kw):
    """Stores a valid response of the page."""
    asked = ask(lb, 1, target, **kw)
    app.let_go()
    all_ok(asked)
    return asked[0].wait()


@pytest.mark.parametrize('how, outcomes', [({'on_full': 'stale', 'maxqueue': 1}, 'full'), ({'on_busy': 'stale'}, 'busy'),
                                           ({'on_timeout': 'stale', 'timeout': '100ms'}, 'timeout')])
def test_over_a_limit_the_last_good_response_is_served_and_reports_it(world, app, how, outcomes):
    lb = balancer(world, app, {'pages': dict({'workers': 1, 'key': 'x'}, **how)})
    assert fill(lb, app).text == 'number 0'
    busy = ask(lb, 1, '/page')
    app.under_way(1)
    r = lb.get('/page', 'a.example')
    assert (r.status, r.text) == (200, 'number 0')
    assert r['cache-status'].startswith('resumelb; hit; ttl=') and r['cache-status'].endswith('; detail=' + outcomes)
    assert r['age'].isdigit()
    ends(lb, 'stale', 1)
    app.let_all_go()
    all_ok(busy)


def test_without_a_stored_response_the_error_or_the_turn_stays(world, app):
    lb = balancer(world, app, {'pages': {'workers': 1, 'key': 'x', 'maxqueue': 1, 'on_full': 'stale'}})
    ask(lb, 1, '/page')
    app.under_way(1)
    assert lb.get('/other', 'a.example').status == 503


def test_a_response_that_must_be_revalidated_is_never_served_stale(world, app):
    app.responses['/page'] = lambda c, n: c.respond(b'x', headers=[('Cache-Control', 'max-age=0, must-revalidate')])
    lb = balancer(world, app, {'pages': {'workers': 1, 'key': 'x', 'maxqueue': 1, 'on_full': 'stale'}})
    fill(lb, app)
    ask(lb, 1, '/page')
    app.under_way(1)
    assert lb.get('/page', 'a.example').status == 503


def test_after_a_post_to_it_a_page_is_not_served_stale(world, app):
    lb = balancer(world, app, {'pages': {'workers': 1, 'key': 'x', 'maxqueue': 1, 'on_full': 'stale'}})
    fill(lb, app)
    fill(lb, app, method='POST', body=b'x')
    ask(lb, 1, '/page')
    app.under_way(1)
    assert lb.get('/page', 'a.example').status == 503
