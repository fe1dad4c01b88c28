# SPDX-License-Identifier: Apache-2.0
"""The policies over HTTP: the selection of workers, /explain, and a second policy beside the first."""
import json
from collections import Counter

import pytest
from support.base import wait_until
from support.http import get
from support.scripted import serve

SITES = ['s%d.example' % i for i in range(12)]


def worker(world, name):
    return world.scripted(serve(lambda c, head, body: c.respond(name.encode())))


@pytest.fixture
def workers(world):
    return [worker(world, 'w%d' % i) for i in range(4)]


def balancer(world, workers, **pool):
    # One loop: a request is completed before the next one is processed.
    return world.resumelb({'workers': [w.address for w in workers], 'pool': pool}, threads=1)


def served(lb, rounds):
    """{site: Counter of the workers that served it}, one request at a time."""
    found = {site: Counter() for site in SITES}
    for _ in range(rounds):
        for site in SITES:
            r = lb.get(host=site)
            assert r.status == 200
            found[site][r.text] += 1
    return found


def explain(lb, query):
    r = get(lb.admin, '/explain?' + query, host=lb.admin)
    return r.status, json.loads(r.text)


def metric(lb, name):
    for line in get(lb.admin, '/metrics', host=lb.admin).text.splitlines():
        if line.startswith('resumelb_' + name + '{'):
            return float(line.rsplit(' ', 1)[1])
    raise AssertionError('%s is missing' % name)


def test_round_robin_gives_each_its_turn(world, workers):
    lb = balancer(world, workers, policy='round_robin')
    total = sum(served(lb, 4).values(), Counter())
    assert set(total.values()) == {12}
    assert lb.app()['policy'] == 'round_robin' and lb.app()['picks']['round_robin'] == 48


def test_hash_keeps_a_class_with_its_worker_in_every_load_balancer(world, workers):
    first = balancer(world, workers, policy='hash')
    second = world.resumelb({'workers': [w.address for w in reversed(workers)], 'pool': {'policy': 'hash'}}, name='second', threads=1)
    here, there = served(first, 3), served(second, 1)
    assert all(len(of) == 1 for of in here.values())
    assert {s: set(of) for s, of in here.items()} == {s: set(of) for s, of in there.items()}


@pytest.mark.parametrize('policy', ['p2c', 'least_backlog', 'classless'])
def test_policies_without_classes_serve_all(world, workers, policy):
    lb = balancer(world, workers, policy=policy)
    total = sum(served(lb, 5).values(), Counter())
    assert sum(total.values()) == 60 and len(total) == 4
    assert lb.app()['policy'] == policy


@pytest.mark.parametrize('policy', ['adaptive', 'resume', 'round_robin', 'p2c', 'hash', 'least_backlog'])
def test_explain_foretells_which_worker_gets_a_request(world, workers, policy):
    lb = balancer(world, workers, policy=policy)
    names = {w.address: 'w%d' % i for i, w in enumerate(workers)}
    served(lb, 1)
    for site in SITES:
        # The previous worker is released shortly after its response.
        wait_until(lambda: lb.app()['backlog'] == 0, 'nothing in flight')
        status, told = explain(lb, 'class=' + site)
        assert status == 200 and told['policy'] == policy and told['class'] == site and told['workers'] == 4
        (chosen,) = [c for c in told['candidates'] if c['chosen']]
        assert chosen['worker'] == told['worker']
        assert all('passed_over' in c for c in told['candidates'] if not c['chosen'])
        before = lb.app()['picks'][told['reason']]
        assert lb.get(host=site).text == names[told['worker']]
        assert lb.app()['picks'][told['reason']] == before + 1


def test_explain_shows_the_cutoff_and_its_steps(world, workers):
    lb = balancer(world, workers, policy='resume')
    lb.get(host='a.example')
    status, told = explain(lb, 'application=default&class=a.example')
    assert status == 200 and told['reason'] == 'skilled'
    assert told['values']['max_backlog'] == 1 and told['values']['min_backlog'] >= 1
    assert told['steps'] == [{'step': 'skilled at the class', 'before': 4, 'after': 1},
                             {'step': 'within the cutoff', 'before': 1, 'after': 1}]
    status, told = explain(lb, 'class=')
    assert status == 200 and told['class'] == '' and told['reason'] == 'unskilled'
    # The explanation has no side effects.
    assert explain(lb, 'class=')[1]['reason'] == 'unskilled'


@pytest.mark.parametrize('query, status', [
    ('', 400), ('application=default', 400), ('class=a&class=b', 400), ('class=a&x=1', 400), ('class=%', 400),
    ('class=%4', 400), ('class=%zz', 400), ('class=%00', 400), ('class=a%20b', 400), ('class=a&', 200), ('class=a&&', 400),
    ('class=' + 'a' * 255, 200), ('class=' + 'a' * 256, 400), ('class=' + '%61' * 255, 200), ('class=a&' + 'b' * 2100, 400),
    ('class=a&application=other', 404), ('class=a&application=default&application=default', 400),
    ('class=a&application=' + 'd' * 300, 400), ('CLASS=a', 400), ('class', 200)])
def test_explain_rejects_what_it_does_not_understand(world, workers, query, status):
    lb = balancer(world, workers[:1])
    got, told = explain(lb, query)
    assert got == status, told
    assert ('error' in told) == (status != 200)


def test_with_several_applications_one_has_to_be_named(world, workers):
    lb = world.resumelb({'applications': {
        'one': {'hosts': ['one.example'], 'workers': [workers[0].address]},
        'two': {'hosts': ['two.example'], 'workers': [workers[1].address]}}})
    assert explain(lb, 'class=a')[0] == 400
    assert explain(lb, 'class=a&application=two')[1]['worker'] == workers[1].address


def test_a_shadow_is_counted_and_not_obeyed(world, workers):
    lb = balancer(world, workers, policy='round_robin', shadow_policy='hash', hash_balance_factor=0)
    total = sum(served(lb, 5).values(), Counter())
    assert set(total.values()) == {15}
    shadow = lb.app()['shadow']
    assert shadow['policy'] == 'hash' and shadow['requests'] == 60
    assert 0 < shadow['differed'] <= 60
    # Each of the twelve classes was once without a score at its worker.
    assert shadow['shadow_skilled'] == 48
    assert metric(lb, 'shadow_picks_total') == 60
    assert metric(lb, 'shadow_differed_total') == shadow['differed']
    assert metric(lb, 'shadow_skilled_total') == 48
    assert metric(lb, 'shadow_policy_skilled_total') == shadow['policy_skilled']


def test_without_a_shadow_its_figures_are_zero(world, workers):
    lb = balancer(world, workers)
    served(lb, 1)
    assert lb.app()['shadow'] == {'policy': 'off', 'requests': 0, 'differed': 0, 'policy_skilled': 0, 'shadow_skilled': 0,
                                  'policy_wait_s': 0, 'shadow_wait_s': 0, 'overdue': 0}
