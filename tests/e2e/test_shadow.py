# SPDX-License-Identifier: Apache-2.0
"""Policy adaptive as a shadow of other policies, with real gunicorns and with an agent that would publish homes."""
import json
import threading
from collections import Counter

import pytest
from agent_support import Stream, TinyAgent
from counted_support import Counted
from ctl_support import ctl
from support.base import wait_until
from support.http import Client, get
from support.servers import World

SITES = ['site%d.example' % i for i in range(13)]  # coprime to the number of workers, so that each class is sent to all of them


@pytest.fixture(scope='module')
def started(tmp_path_factory):
    """The gunicorns that all tests share."""
    w = World(tmp_path_factory.mktemp('gunicorns'))
    yield Counted(w, 3)
    w.close()


@pytest.fixture
def gunicorns(started):
    started.forget()
    return started


def balancer(world, workers, **pool):
    lb = world.resumelb({'workers': workers.addresses, 'pool': {'policy': 'round_robin', **pool}})
    wait_until(lambda: all(w['state'] == 'ready' for w in lb.workers().values()), 'the workers')
    return lb


def explain(lb, site, application='default'):
    return json.loads(get(lb.admin, '/explain?application=%s&class=%s' % (application, site), host=lb.admin).text)


def metric(lb, name):
    for line in get(lb.admin, '/metrics', host=lb.admin).text.splitlines():
        if line.startswith('resumelb_' + name + '{'):
            return float(line.rsplit(' ', 1)[1])
    raise AssertionError('%s is missing' % name)


def ask(address, site, path='/'):
    r = get(address, path, host=site)
    assert r.status == 200
    return r.text.split()[2]    # the pid of the process


def test_adaptive_beside_round_robin_reports_what_it_would_do_and_changes_nothing(world, gunicorns):
    lb = balancer(world, gunicorns, shadow_policy='adaptive')
    seen = Counter(ask(lb.address, site) for _ in range(12) for site in SITES)
    assert set(seen.values()) == {4 * len(SITES)}       # round robin
    wait_until(lambda: lb.app()['backlog'] == 0, 'all to end')
    shadow = lb.app()['shadow']
    assert shadow['policy'] == 'adaptive' and shadow['requests'] == 12 * len(SITES)
    # With round robin each class is sent to all three; in the shadow it has one home, except a few that were moved.
    assert shadow['policy_skilled'] == 9 * len(SITES)
    assert shadow['policy_skilled'] < shadow['shadow_skilled'] <= 11 * len(SITES)
    assert 0 < shadow['differed'] < shadow['requests'] and shadow['overdue'] == 0
    for name, figure in (('picks', 'requests'), ('differed', 'differed'), ('policy_skilled', 'policy_skilled'),
                         ('skilled', 'shadow_skilled'), ('overdue', 'overdue')):
        assert metric(lb, 'shadow_%s_total' % name) == shadow[figure]
    assert metric(lb, 'shadow_wait_seconds_total') == pytest.approx(shadow['shadow_wait_s'])
    assert metric(lb, 'shadow_policy_wait_seconds_total') == pytest.approx(shadow['policy_wait_s'])


def test_explain_shows_the_decision_of_the_shadow_policy_too(world, gunicorns):
    lb = balancer(world, gunicorns, shadow_policy='adaptive')
    for _ in range(3):
        for site in SITES:
            ask(lb.address, site)
    wait_until(lambda: lb.app()['backlog'] == 0, 'all to end')
    told = explain(lb, SITES[0])
    assert (told['policy'], told['reason']) == ('round_robin', 'round_robin')
    shadow = told['shadow']
    assert (shadow['policy'], shadow['reason'], shadow['workers']) == ('adaptive', 'home', 3)
    assert sorted(c['worker'] for c in shadow['candidates']) == sorted(gunicorns.addresses)
    assert [c['worker'] for c in shadow['candidates'] if c['chosen']] == [shadow['worker']]
    assert shadow['steps'][0] == {'step': 'homes of the class', 'before': 3, 'after': 1}
    out = ctl('explain', '-a', lb.admin, '--class', SITES[0]).out
    assert 'shadow_policy adaptive, which is not applied:\n%s would be selected: home' % shadow['worker'] in out
    assert 'shadow' not in explain(balancer(world, gunicorns), SITES[0])


def test_a_class_that_keeps_its_home_waiting_gets_another_in_the_shadow_though_in_truth_none_waits(world, gunicorns):
    """Three concurrent requests of one class: with round robin they never wait; at a single worker, which serves one, they would."""
    lb = balancer(world, gunicorns, shadow_policy='adaptive')
    others = SITES[1:]
    for _ in range(3):
        for site in others:
            ask(lb.address, site)

    enough = threading.Event()
    asked = []

    def visitor():
        while not enough.is_set():
            asked.append(ask(lb.address, SITES[0], '/?db=0.03'))

    visitors = [threading.Thread(target=visitor) for _ in range(3)]
    for v in visitors:
        v.start()
    try:
        wait_until(lambda: explain(lb, SITES[0])['shadow']['steps'][0]['after'] >= 2 and lb.app()['shadow']['shadow_wait_s'] > 0,
                   'a second home')
    finally:
        enough.set()
        for v in visitors:
            v.join()
    wait_until(lambda: lb.app()['backlog'] == 0, 'all to end')
    assert len(gunicorns.requests(host=SITES[0])) == len(asked)


def published(address):
    """The reason for which each class has its home at the worker, as its agent publishes it."""
    stream = Stream(address, headers=[('Resumelb-Homes', '1')])
    try:
        return {site: home[2] for site, home in stream.wait(lambda x: x.get('homes'), 'homes')['homes'].items()}
    finally:
        stream.close()


@pytest.mark.parametrize('policy, shadow', [('round_robin', 'adaptive'), ('adaptive', 'round_robin')])
def test_agents_get_the_homes_of_the_effective_policy_only(world, policy, shadow):
    agent = TinyAgent(world, slots=2).wait_ready()
    lb = world.resumelb({'applications': {'app': {'tree': 'directory:%s' % agent.tree, 'tree_path': '/app',
                                                  'pool': {'policy': policy, 'shadow_policy': shadow}}}}, wait=False)
    wait_until(lb.listening, 'the load balancer')
    wait_until(lambda: [lb.workers('app').get(a, {}).get('state') for a in agent.addresses] == ['ready'] * 2, 'the workers')
    c = Client(lb.address)
    for _ in range(4):
        for site in SITES:
            c.send(host=site)
            assert c.receive().status == 200
    wait_until(lambda: lb.app('app')['backlog'] == 0, 'all to end')
    assert lb.app('app')['shadow']['requests'] == 4 * len(SITES)
    ways = Counter(way for a in agent.addresses for way in published(a).values())
    if policy == 'adaptive':
        assert ways['new'] > 0
    else:
        assert set(ways) == {'used'}
