# SPDX-License-Identifier: Apache-2.0
"""Limits at daemons that several load balancers share: the original daemon, killed and restarted."""
import pytest
from limit_support import Asked, HeldApp, Poolcounterd, balancer, ends, outcome, waits
from poolcounter_support import ORIGINAL, OURS
from support.base import free_port, wait_until
from support.http import Client
from test_limits import all_ok, ask


@pytest.fixture
def app():
    a = HeldApp()
    yield a
    a.let_all_go()
    a.server.close()


@pytest.fixture(params=[ORIGINAL, OURS], ids=['original', 'ours'])
def daemon(request):
    d = Poolcounterd(request.param)
    yield d
    d.stop()


def two(world, app, daemon, **rule):
    limits = {'pages': dict({'where': 'daemon', 'workers': 1}, **rule)}
    return [balancer(world, app, limits, name='lb%d' % i, pool_counter_servers=[daemon.address]) for i in range(2)]


def figure(daemon, name):
    return int(daemon.stats()[name])


def test_two_load_balancers_together_keep_the_limit(world, app, daemon):
    one, other = two(world, app, daemon, workers=2)
    asked = ask(one, 2)
    asked += ask(other, 2, '/more-%d')
    waits(other, 2)
    app.under_way(2)
    app.let_go()
    waits(other, 1)
    app.under_way(2)
    app.let_all_go()
    all_ok(asked)
    wait_until(lambda: figure(daemon, 'processing_workers') == 0, 'all locks to be released')


def test_a_client_that_leaves_releases_its_lock_at_the_daemon(world, app, daemon):
    one, other = two(world, app, daemon)
    first, = ask(one, 1)
    second, third = ask(other, 2, '/more-%d')
    waits(other, 2)
    wait_until(lambda: figure(daemon, 'waiting_workers') == 2, 'two to wait at the daemon')
    second.leave()
    waits(other, 1)
    first.leave()
    waits(other, 0)
    wait_until(lambda: 'GET /more-1' in app.begun, 'the next one')
    app.let_all_go()
    all_ok([third])
    assert 'GET /more-0' not in app.begun


def test_over_its_limits_the_daemon_rejects_and_fractions_of_seconds_are_kept(world, app, daemon):
    one, other = two(world, app, daemon, maxqueue=2)
    rule = other.config['limits']['pages']
    first, = ask(one, 1)
    for timeout, seconds in (('150ms', 0.15), ('10m', 600)):
        other.reload({'limits': {'pages': {**rule, 'timeout': timeout}}})
        wait_until(lambda: other.app()['limits'][0]['figures']['timeout_s'] == seconds, 'the other time-out')
        if timeout == '150ms':
            assert other.get('/late', 'a.example').status == 503
            ends(other, 'limit-timeout', 1)
    waiting = Asked(one.address, '/waits')
    waits(one, 1)
    wait_until(lambda: figure(daemon, 'waiting_workers') == 1, 'it to wait at the daemon')
    r = other.get('/full', 'a.example')
    assert r.status == 503
    ends(other, 'limit-full', 1)
    app.let_all_go()
    all_ok([first, waiting])


def test_mode_any_asks_the_daemon_once_for_all_requests_of_a_load_balancer(world, app, daemon):
    one, other = two(world, app, daemon, mode='any', maxqueue=100)
    asked = ask(one, 6, '/page')
    waits(one, 5)
    asked += ask(other, 6, '/page')
    waits(other, 6)
    assert (figure(daemon, 'processing_workers'), figure(daemon, 'waiting_workers')) == (1, 1)
    app.let_go()
    all_ok(asked[:6])
    # The other load balancer has not stored the response: one of its requests does the work again, for all of them.
    app.under_way(1)
    app.let_all_go()
    all_ok(asked[6:])
    assert len(app.begun) == 2
    ends(one, 'coalesced', 5)
    ends(other, 'coalesced', 5)


def test_mode_any_counts_requests_that_wait_in_the_load_balancer_for_maxqueue(world, app, daemon):
    lb, _ = two(world, app, daemon, mode='any', maxqueue=3)
    asked = ask(lb, 3, '/page')
    app.under_way(1)
    waits(lb, 2)
    assert lb.get('/page', 'a.example').status == 503
    ends(lb, 'limit-full', 1)
    app.let_all_go()
    all_ok(asked)
    assert len(app.begun) == 1


@pytest.mark.parametrize('mode', ['each', 'any'])
@pytest.mark.parametrize('old, new', [('local', 'daemon'), ('daemon', 'local')])
def test_where_changes_while_requests_wait_and_they_get_their_turns_in_order(world, app, daemon, mode, old, new):
    def rule(where):
        return {'pages': {'key': 'all', 'mode': mode, 'workers': 1, 'where': where, 'timeout': '10m'}}
    # Only GET and HEAD requests are coalesced: each request with another method does its own work, in each mode.
    lb = balancer(world, app, rule(old), pool_counter_servers=[daemon.address], threads='1')
    asked = []
    for i in range(4):
        asked += [Asked(lb.address, '/old-%d' % i, method='PUT', body=b'x')]
        app.under_way(1)
        waits(lb, i)
    lb.reload({'limits': rule(new)})
    wait_until(lambda: lb.app()['limits'][0]['figures']['where'] == new, 'the change')
    # The loop applies the change between two iterations: a request without a limit causes one more.
    with Client(lb.address) as c:
        assert c.request('OPTIONS', '/', 'a.example', [('Max-Forwards', '0')]).status == 200
    # A request with the new setting passes; the waiting ones continue to wait with the old one.
    asked += [Asked(lb.address, '/new-0', method='PUT', body=b'x')]
    app.under_way(2)
    asked += [Asked(lb.address, '/new-1', method='PUT', body=b'x')]
    waits(lb, 4)
    assert app.begun == ['PUT /old-0', 'PUT /new-0']
    figures = lb.app()['limits'][0]['figures']
    assert (figures['held'], figures['waiting']) == (2, 4)
    for i in range(1, 4):
        app.let_go()
        wait_until(lambda: 'PUT /old-%d' % i in app.begun or 'PUT /new-1' in app.begun, 'the next one')
        app.under_way(2)
    app.let_all_go()
    all_ok(asked)
    assert [b for b in app.begun if 'old' in b] == ['PUT /old-%d' % i for i in range(4)]
    assert app.most <= 2


@pytest.mark.parametrize('policy, status', [('open', 200), ('closed', 503)])
def test_while_the_daemon_is_away_on_unreachable_decides(world, app, policy, status):
    app.let_all_go()
    limits = {'pages': {'where': 'daemon', 'on_unreachable': policy}}
    lb = balancer(world, app, limits, pool_counter_servers=['127.0.0.1:%d' % free_port()])
    assert [lb.get('/', 'a.example').status for _ in range(8)] == [status] * 8
    wait_until(lambda: lb.app()['stats']['requests_active'] == 0, 'all to be accounted for')
    assert outcome(lb, 'limit-unreachable') == (8 if status == 503 else 0)


def test_a_daemon_that_dies_lets_those_that_wait_continue_and_is_used_again_when_it_is_back(world, app, daemon):
    one, other = two(world, app, daemon)
    asked = ask(one, 1) + ask(other, 2, '/more-%d')
    waits(other, 2)
    daemon.stop()
    app.under_way(3)
    waits(other, 0)
    app.let_all_go()
    all_ok(asked)
    daemon.start()
    def counted():
        all_ok([Asked(one.address, '/again')])
        return figure(daemon, 'total_acquired') > 0
    wait_until(counted, 'the daemon to be asked again')


def test_a_daemon_that_states_nothing_holds_no_other_longer_than_the_time_out(world, app):
    import socket
    silent = socket.socket()
    silent.bind(('127.0.0.1', 0))
    silent.listen(100)
    app.let_all_go()
    limits = {'pages': {'where': 'daemon', 'timeout': '300ms'}}
    lb = balancer(world, app, limits, pool_counter_servers=['127.0.0.1:%d' % silent.getsockname()[1]])
    status = lb.get('/', 'a.example').status
    silent.close()
    assert status in (200, 503)


def test_servers_that_change_while_running_take_over_new_requests(world, app, daemon):
    app.let_all_go()
    other = Poolcounterd()
    try:
        lb = balancer(world, app, {'pages': {'where': 'daemon'}}, pool_counter_servers=[daemon.address])
        all_ok([Asked(lb.address)])
        assert figure(daemon, 'total_acquired') == 1
        lb.reload({'pool_counter_servers': [other.address]})
        def moved():
            all_ok([Asked(lb.address)])
            return figure(other, 'total_acquired') > 0
        wait_until(moved, 'the other daemon to be asked')
    finally:
        other.stop()
