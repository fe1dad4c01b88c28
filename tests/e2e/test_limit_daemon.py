# SPDX-License-Identifier: Apache-2.0
"""Pool counters at daemons that several load balancers share: the original daemon, killed and restarted."""
import pytest
from limit_support import Asked, HeldApp, Poolcounterd, balancer, ends, outcome, waits
from support.base import free_port, wait_until
from test_limits import all_ok, ask


@pytest.fixture
def app():
    a = HeldApp()
    yield a
    a.let_all_go()
    a.server.close()


@pytest.fixture
def daemon():
    d = Poolcounterd()
    yield d
    d.stop()


def two(world, app, daemon, **rule):
    counters = {'pages': dict({'where': 'daemon', 'workers': 1}, **rule)}
    return [balancer(world, app, counters, name='lb%d' % i, pool_counter_servers=[daemon.address]) for i in range(2)]


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


def test_who_leaves_gives_its_place_at_the_daemon_back(world, app, daemon):
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


def test_over_its_limits_the_daemon_refuses_and_fractions_of_seconds_are_kept(world, app, daemon):
    one, other = two(world, app, daemon, maxqueue=2, timeout='150ms')
    first, = ask(one, 1)
    assert other.get('/late', 'a.example').status == 503
    ends(other, 'limit-timeout', 1)
    waiting = Asked(one.address, '/waits')
    waits(one, 1)
    r = other.get('/full', 'a.example')
    assert r.status == 503
    ends(other, 'limit-full', 1)
    assert waiting.wait().status == 503
    app.let_all_go()
    all_ok([first])


def test_of_any_one_asks_for_all_of_its_load_balancer(world, app, daemon):
    one, other = two(world, app, daemon, mode='any', maxqueue=100)
    asked = ask(one, 6, '/page')
    waits(one, 5)
    asked += ask(other, 6, '/page')
    waits(other, 6)
    assert (figure(daemon, 'processing_workers'), figure(daemon, 'waiting_workers')) == (1, 1)
    app.let_go()
    all_ok(asked[:6])
    # The other one has no copy of it: one of its own does the work again, for all of them.
    app.under_way(1)
    app.let_all_go()
    all_ok(asked[6:])
    assert len(app.begun) == 2
    ends(one, 'coalesced', 5)
    ends(other, 'coalesced', 5)


@pytest.mark.parametrize('policy, status', [('open', 200), ('closed', 503)])
def test_while_the_daemon_is_away_on_unreachable_decides(world, app, policy, status):
    app.let_all_go()
    counters = {'pages': {'where': 'daemon', 'on_unreachable': policy}}
    lb = balancer(world, app, counters, pool_counter_servers=['127.0.0.1:%d' % free_port()])
    assert [lb.get('/', 'a.example').status for _ in range(8)] == [status] * 8
    wait_until(lambda: lb.app()['stats']['requests_active'] == 0, 'all to be accounted for')
    assert outcome(lb, 'limit-unreachable') == (8 if status == 503 else 0)


def test_a_daemon_that_dies_lets_those_who_wait_go_on_and_is_used_again_when_it_is_back(world, app, daemon):
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
    wait_until(counted, 'the daemon to be asked again', 20)


def test_a_daemon_that_says_nothing_holds_nobody_longer_than_the_time_out(world, app):
    import socket
    silent = socket.socket()
    silent.bind(('127.0.0.1', 0))
    silent.listen(100)
    app.let_all_go()
    counters = {'pages': {'where': 'daemon', 'timeout': '300ms'}}
    lb = balancer(world, app, counters, pool_counter_servers=['127.0.0.1:%d' % silent.getsockname()[1]])
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
