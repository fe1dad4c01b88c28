# SPDX-License-Identifier: Apache-2.0
"""Several pool counter daemons under load, one of which is killed or hangs: the effect on requests and on limits."""
import os
import signal
import socket

import pytest
from limit_daemons_support import PROGRAMS, WORKERS, Shared
from limit_support import Asked, HeldApp, Poolcounterd, balancer, ends, outcome, waits
from poolcounter_support import ORIGINAL
from support.base import LIMIT, freeze, wait_until
from support.http import Client

# The default response time-out, set when a daemon hangs; before, long time-outs apply because of busy machines.
QUICK = {'pool_counter_response_timeout': '250ms'}
# The daemons to kill, in order.
KILLED = (2, 0, 1, 0) if int(os.environ.get('RLB_SOAK_ROUNDS', '1')) > 1 else (2, 0)


def hang(lb, daemon, **rule):
    freeze(daemon.process.pid)
    lb.config['limits']['sites'].update(rule)
    lb.change(**QUICK)


# The load balancer is the client of the daemon, and is tested with both; the original one is killed only in the soak run.
@pytest.mark.parametrize('program', [pytest.param(p, marks=pytest.mark.soak if p == ORIGINAL else []) for p in PROGRAMS],
                         ids=lambda p: str(p).rpartition('/')[2])
def test_daemons_are_killed_under_load_and_no_request_fails_and_only_their_own_limits_are_passed(world, program):
    shared = Shared(world, program)
    load = shared.load()
    wait_until(lambda: load.done > 100, 'load')
    for at in KILLED:
        o = shared.kill(at)
        shared.wait_passed(o)
        shared.restart(o)
        shared.wait_settled(o)
    done = load.done
    wait_until(lambda: load.done > done + 100, 'load while all are there')
    load.stop()
    assert load.failures == []
    # The limit was reached and never exceeded.
    assert shared.most_while_counted() == [WORKERS] * 3


@pytest.fixture(params=PROGRAMS, ids=lambda p: str(p).rpartition('/')[2])
def daemon(request):
    d = Poolcounterd(request.param)
    yield d
    d.process.send_signal(signal.SIGCONT)
    d.stop()


def test_a_daemon_that_hangs_counts_as_unreachable_after_a_few_time_outs_until_it_responds(world, daemon):
    app = HeldApp()
    world.closers.append(app.server.close)
    app.let_all_go()
    lb = balancer(world, app, {'sites': {'where': 'daemon'}}, pool_counter_servers=[daemon.address])
    assert lb.get('/', 'a.example').status == 200
    hang(lb, daemon, timeout='300ms')
    responses = []

    def passes():
        responses.append(lb.get('/', 'a.example').status)
        return responses[-1] == 200
    wait_until(passes, 'requests to pass')
    # They wait for their time-out until three probes have failed, each after 250 ms.
    assert responses[:-1] == [503] * (len(responses) - 1)
    # From time to time it is probed, which no request waits for.
    while 'for_ms=2000' not in lb.process.output():
        assert lb.get('/', 'a.example').status == 200
    lb.config['limits']['sites'].update(timeout='10m')
    lb.change(pool_counter_response_timeout='1m')
    daemon.process.send_signal(signal.SIGCONT)
    acquired = int(daemon.stats()['total_acquired'])

    def counted():
        assert lb.get('/', 'a.example').status == 200
        return int(daemon.stats()['total_acquired']) > acquired
    wait_until(counted, 'the daemon to be asked again')


def test_requests_that_wait_at_a_hanging_daemon_continue_when_it_counts_as_unreachable(world, daemon):
    app = HeldApp()
    world.closers += [app.server.close, app.let_all_go]
    lb = balancer(world, app, {'sites': {'where': 'daemon', 'timeout': '10m'}}, threads='1',
                  pool_counter_servers=[daemon.address])
    hosts = ['site%d.example' % i for i in range(4)]
    held = [Asked(lb.address, '/first', host) for host in hosts]
    app.under_way(4)
    waiting = [Asked(lb.address, '/second', host) for host in hosts]
    wait_until(lambda: int(daemon.stats()['waiting_workers']) == 4, 'one of each to wait at the daemon')
    hang(lb, daemon)
    # Four locks are released; the missing responses are how the load balancer detects that the daemon hangs.
    app.let_go(4)
    wait_until(lambda: 'pool-counter-server-suspended' in lb.process.output(), 'the silence to be noticed')
    app.under_way(4)
    app.let_all_go()
    assert [a.wait().status for a in held + waiting] == [200] * 8
    assert outcome(lb, 'limit-timeout') == 0


def test_no_visitor_waits_for_a_daemon_that_hangs_and_it_is_found_again_without_one(world, daemon):
    app = HeldApp()
    world.closers += [app.server.close, app.let_all_go]
    app.let_all_go()
    lb = balancer(world, app, {'sites': {'where': 'daemon', 'timeout': '10m'}}, threads='4',
                  pool_counter_servers=[daemon.address])
    assert lb.get('/', 'a.example').status == 200
    hang(lb, daemon)
    asked = [Asked(lb.address, '/', 'site%d.example' % i) for i in range(16)]
    assert [a.wait().status for a in asked] == [200] * 16
    # One loop detected it for all, and during the back-off no loop sends requests to the daemon.
    wait_until(lambda: lb.process.output().count('for_ms=500') == 1, 'for_ms=500')
    assert [lb.get('/', 'site%d.example' % i).status for i in range(16)] == [200] * 16
    daemon.process.send_signal(signal.SIGCONT)
    wait_until(lambda: 'pool-counter-server-restored' in lb.process.output(), 'it to be found, without any request')
    acquired = int(daemon.stats()['total_acquired'])

    def counted():
        assert lb.get('/', 'a.example').status == 200
        return int(daemon.stats()['total_acquired']) > acquired
    wait_until(counted, 'it to be asked again')
    assert lb.app()['limits'][0]['figures']['unreachable_open'] >= 32


def test_a_wait_is_no_silence(world, daemon):
    app = HeldApp()
    world.closers += [app.server.close, app.let_all_go]
    lb = balancer(world, app, {'sites': {'where': 'daemon', 'timeout': '10m'}}, pool_counter_servers=[daemon.address],
                  pool_counter_response_timeout='5s')
    asked = [Asked(lb.address, '/first')]
    app.under_way(1)
    asked += [Asked(lb.address, '/second')]
    waits(lb, 1)
    # Probes continue while it waits; the daemon does not count them.
    wait_until(lambda: lb.app()['pool_counter_servers'][0]['idle'] >= 1, 'a probe')
    assert 'pool-counter-server-suspended' not in lb.process.output() and len(app.begun) == 1
    app.let_all_go()
    assert [a.wait().status for a in asked] == [200, 200]
    assert int(daemon.stats()['total_acquired']) == 2


@pytest.mark.parametrize('mode', ['each', 'any'])
def test_all_connections_taken_is_not_a_full_queue(world, daemon, mode):
    app = HeldApp()
    world.closers += [app.server.close, app.let_all_go]
    lb = balancer(world, app, {'sites': {'key': '{SERVER_NAME}', 'mode': mode, 'where': 'daemon', 'maxqueue': 1000}},
                  pool_counter_servers=[daemon.address], pool_counter_connections=4)
    asked = [Asked(lb.address, '/', 'busy.example', method='PUT', body=b'x') for _ in range(4)]
    app.under_way(1)    # before, the first one may be one of the three, as it waits for the daemon's response
    waits(lb, 3)
    assert lb.get('/', 'idle.example').status == 503
    ends(lb, 'limit-connections', 1)
    assert outcome(lb, 'limit-full') == 0
    figures = lb.app()['limits'][0]['figures']
    assert (figures['rejected_connections'], figures['rejected_full']) == (1, 0)
    lb.process.wait_logged('pool-counter-connections-exhausted application=default server=%s limit=4' % daemon.address)
    app.let_all_go()
    assert [a.wait().status for a in asked] == [200] * 4
    # A connection is free again when the daemon has responded to the release.
    wait_until(lambda: lb.get('/', 'idle.example').status == 200, 'a free connection')


def test_a_class_with_many_waiting_requests_takes_no_connection_from_another(world, daemon):
    app = HeldApp()
    world.closers += [app.server.close, app.let_all_go]
    lb = balancer(world, app, {'sites': {'key': '{SERVER_NAME}', 'where': 'daemon', 'maxqueue': 5000, 'timeout': '10m'}},
                  threads='1', pool_counter_servers=[daemon.address])
    clients = [Client(lb.address) for _ in range(1100)]
    try:
        for c in clients:
            c.send('GET', '/', 'busy.example')
        waits(lb, 1099)
        app.let_all_go()
        assert lb.get('/', 'idle.example').status == 200
        assert outcome(lb, 'limit-full') == 0
    finally:
        for c in clients:
            c.close()


def test_slots_at_a_daemon_that_does_not_know_them_are_reported_once_per_rule(world, daemon):
    app = HeldApp()
    world.closers += [app.server.close, app.let_all_go]
    app.let_all_go()
    rule = {'where': 'daemon', 'workers': 1, 'slots': 2}
    lb = balancer(world, app, {'one': rule, 'other': rule, 'without': {'where': 'daemon'}},
                  pool_counter_servers=[daemon.address])
    assert [lb.get('/', 'site%d.example' % i).status for i in range(20)] == [200] * 20
    told = ['pool-counter-server-ignores-slots application=default server=%s limit_name=%s ' % (daemon.address, name)
            for name in ('one', 'other', 'without')]
    if daemon.program == ORIGINAL:
        wait_until(lambda: all(t in lb.process.output() for t in told[:2]), 'both rules to be reported')
        assert [lb.get('/', 'site%d.example' % i).status for i in range(20)] == [200] * 20
        wait_until(lambda: [lb.process.output().count(t) for t in told] == [1, 1, 0], 'each event once')
    else:
        assert b'slots: ' in asked_directly(daemon, b'STATS SLOTS\n')
        assert 'pool-counter-server-ignores-slots' not in lb.process.output()


def asked_directly(daemon, line):
    with socket.create_connection(('127.0.0.1', daemon.port), LIMIT) as s:
        s.sendall(line)
        return s.recv(1000)
