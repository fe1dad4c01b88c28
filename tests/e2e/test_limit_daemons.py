# SPDX-License-Identifier: Apache-2.0
"""Several pool counter daemons under load: one is killed, one hangs; what becomes of requests, and of limits."""
import signal

import pytest
from limit_daemons_support import PROGRAMS, WORKERS, Shared
from limit_support import Asked, HeldApp, Poolcounterd, balancer, outcome
from support.base import freeze, wait_until


@pytest.mark.parametrize('program', PROGRAMS, ids=lambda p: str(p).rpartition('/')[2])
def test_daemons_are_killed_under_load_and_no_request_fails_and_only_their_own_limits_are_passed(world, program):
    shared = Shared(world, program)
    load = shared.load()
    wait_until(lambda: load.done > 100, 'load', 30)
    for at in (2, 0, 1, 0):
        o = shared.kill(at)
        shared.wait_passed(o)
        shared.restart(o)
        shared.wait_settled(o)
    done = load.done
    wait_until(lambda: load.done > done + 100, 'load while all are there', 30)
    load.stop()
    assert load.failures == []
    # What could be at work was; never more.
    assert shared.most_while_counted() == [WORKERS] * 3


@pytest.fixture(params=PROGRAMS, ids=lambda p: str(p).rpartition('/')[2])
def daemon(request):
    d = Poolcounterd(request.param)
    yield d
    d.process.send_signal(signal.SIGCONT)
    d.stop()


def test_a_daemon_that_hangs_counts_as_unreachable_after_a_few_time_outs_until_it_answers(world, daemon):
    app = HeldApp()
    world.closers.append(app.server.close)
    app.let_all_go()
    # One loop: each finds out for itself.
    lb = balancer(world, app, {'sites': {'where': 'daemon', 'timeout': '300ms'}}, threads='1',
                  pool_counter_servers=[daemon.address])
    assert lb.get('/', 'a.example').status == 200
    freeze(daemon.process.pid)
    answers = []

    def passes():
        answers.append(lb.get('/', 'a.example').status)
        return answers[-1] == 200
    wait_until(passes, 'requests to pass')
    # Three failures are enough; one more may have begun to wait before the third was known.
    assert answers[:-1] == [503] * (len(answers) - 1) and 2 <= len(answers) <= 5
    # From time to time it is asked whether it answers again, which costs nobody the answer.
    while 'rest_ms=2000' not in lb.process.output():
        assert lb.get('/', 'a.example').status == 200
    daemon.process.send_signal(signal.SIGCONT)
    acquired = int(daemon.stats()['total_acquired'])

    def counted():
        assert lb.get('/', 'a.example').status == 200
        return int(daemon.stats()['total_acquired']) > acquired
    wait_until(counted, 'the daemon to be asked again', 20)


def test_who_waits_at_a_daemon_that_hangs_goes_on_when_it_counts_as_unreachable(world, daemon):
    app = HeldApp()
    world.closers += [app.server.close, app.let_all_go]
    lb = balancer(world, app, {'sites': {'where': 'daemon', 'timeout': '10m'}}, threads='1',
                  pool_counter_servers=[daemon.address])
    hosts = ['site%d.example' % i for i in range(4)]
    held = [Asked(lb.address, '/first', host) for host in hosts]
    app.under_way(4)
    waiting = [Asked(lb.address, '/second', host) for host in hosts]
    wait_until(lambda: int(daemon.stats()['waiting_workers']) == 4, 'one of each to wait at the daemon')
    freeze(daemon.process.pid)
    # Four locks go back; that nobody says so is how the daemon's silence is noticed.
    app.let_go(4)
    wait_until(lambda: 'counter-server-rests' in lb.process.output(), 'the silence to be noticed')
    app.under_way(4)
    app.let_all_go()
    assert [a.wait().status for a in held + waiting] == [200] * 8
    assert outcome(lb, 'limit-timeout') == 0
