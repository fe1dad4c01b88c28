# SPDX-License-Identifier: Apache-2.0
"""Policy adaptive with several load balancers: they find each other in the tree, and agree on the homes of classes."""
import json
import select

import pytest
from agent_support import Stream, TinyAgent
from support.base import wait_until
from support.http import Client, get

SITES = ['site%d.example' % i for i in range(20)]


def balancer(world, agent, name):
    lb = world.resumelb({'applications': {'app': {
        'tree': 'directory:%s' % agent.tree, 'tree_path': '/app', 'pool': {'policy': 'adaptive'}}}}, wait=False, name=name)
    wait_until(lb.listening, 'the load balancer')
    wait_until(lambda: [lb.workers('app').get(a, {}).get('state') for a in agent.addresses] == ['ready'] * len(agent.addresses),
               'the workers')
    return lb


def together(lb):
    return lb.app('app')['tree']['balancers']


@pytest.fixture
def pair(world):
    agent = TinyAgent(world, slots=4).wait_ready()
    lbs = [balancer(world, agent, name) for name in ('first', 'second')]
    wait_until(lambda: [together(lb) for lb in lbs] == [2, 2], 'the load balancers to find each other')
    return agent, lbs


def explain(lb, site):
    return json.loads(get(lb.admin, '/explain?application=app&class=' + site, host=lb.admin).text)


def homes(lb, site):
    told = explain(lb, site)
    n = told['steps'][0]['after']
    return sorted(c['worker'] for c in told['candidates'][:n])


def came_as(address, site):
    """The reason for which the worker is a home of the site, as it publishes it."""
    stream = Stream(address, headers=[('Resumelb-Homes', '1')])
    try:
        return stream.wait(lambda x: site in x.get('homes', {}), 'the home')['homes'][site][2]
    finally:
        stream.close()


def agree(lbs, sites):
    return all(homes(lbs[0], s) == homes(lbs[1], s) != [] for s in sites)


def ask(lb, site):
    r = lb.get(host=site)
    assert r.status == 200
    return r


def test_the_homes_of_each_class_are_the_same_for_both(pair):
    agent, lbs = pair
    for n in range(15):
        for i, site in enumerate(SITES):
            ask(lbs[(n + i) % 2], site)

    def come_to_agree():
        # An unused home is removed at the next request of its class.
        for i, site in enumerate(SITES):
            ask(lbs[i % 2], site)
            ask(lbs[1 - i % 2], site)
        # Each class has one home, except a few that both load balancers assigned at the same time.
        return agree(lbs, SITES) and sum(len(homes(lbs[0], s)) for s in SITES) <= len(SITES) + 4

    # ... ten seconds after its last use.
    wait_until(come_to_agree, 'the two to agree')
    # The work is shared: every worker is the home of a class.
    assert {h for s in SITES for h in homes(lbs[0], s)} == set(agent.addresses)


def test_a_first_home_given_by_one_is_used_by_the_other(pair):
    agent, lbs = pair
    first = {site: json.loads(ask(lbs[i % 2], site).text)['pid'] for i, site in enumerate(SITES)}
    wait_until(lambda: agree(lbs, SITES), 'the two to agree')
    pids = {address: agent.slot(i)['process']['pid'] for i, address in enumerate(agent.addresses)}

    def served_at_home(lb, site):
        home = explain(lb, site)['worker']
        return home if json.loads(ask(lb, site).text)['pid'] == pids[home] else None

    for i, site in enumerate(SITES):
        # Repeated if the class was moved between the two requests.
        home = wait_until(lambda: served_at_home(lbs[1 - i % 2], site), 'its home to serve the class')
        # The first home, or another one if the class was moved since, which the worker then publishes.
        assert pids[home] == first[site] or came_as(home, site) == 'reassign'


def hold_up(world, agent, lb):
    """
    A request that holds up a worker which is the only home of a class that the other load balancer owns: of such a class, this one
    may not assign a further home, and moves it instead. Returns the client, the file that ends the request, the worker, and the
    class. A request may move its own class, so that only the agent knows where it is.
    """
    for i, site in enumerate(SITES):
        gate, hang = world.directory / ('gate%d' % i), Client(lb.address)
        hang.send(host=site, headers=[('X-Until', str(gate))])
        home, = wait_until(lambda: [a for n, a in enumerate(agent.addresses) if agent.slot(n)['backlog'] == 1], 'a worker to be held up')
        victims = [s for s in SITES if s != site and homes(lb, s) == [home] and not explain(lb, s)['values']['owned']]
        if victims:
            return hang, gate, home, victims[0]
        gate.write_text('')
        assert hang.receive().status == 200
        wait_until(lambda: all(agent.slot(n)['backlog'] == 0 for n in range(len(agent.addresses))), 'the worker to be idle')
    raise AssertionError('no class that the other load balancer owns')


def test_a_move_by_one_is_followed_by_the_other(world, pair):
    agent, lbs = pair
    for site in SITES * 3:
        ask(lbs[0], site)
    wait_until(lambda: agree(lbs, SITES), 'the two to agree')
    hang, gate, home, victim = hold_up(world, agent, lbs[0])

    def moved():
        # Requests before the move wait at the old home, as behind a slow request, or are served elsewhere once.
        with Client(lbs[0].address) as c:
            c.send(host=victim)
            wait_until(lambda: (select.select([c.sock], [], [], 0)[0] or home not in homes(lbs[0], victim)
                                or agent.slot(agent.addresses.index(home))['backlog'] > 1), 'the request to be routed')
        return home not in homes(lbs[0], victim)

    wait_until(moved, 'the class to move')
    wait_until(lambda: homes(lbs[1], victim) == homes(lbs[0], victim), 'the other to follow')
    assert home not in homes(lbs[1], victim)
    assert ask(lbs[1], victim).status == 200
    gate.write_text('')
    assert hang.receive().status == 200


def test_a_load_balancer_that_is_left_decides_alone(pair):
    agent, lbs = pair
    lbs[1].process.kill()
    wait_until(lambda: together(lbs[0]) == 1, 'the other to be gone')
    for site in SITES:
        ask(lbs[0], site)


def test_fields_about_homes_pass_only_between_load_balancer_and_agent(pair):
    agent, lbs = pair
    for header in ('new', 'replicate', 'reassign; from=127.0.0.1:1', 'passing'):
        r = lbs[0].get(host='forged.example', headers=[('Resumelb-Home', header), ('Resumelb-Homes', '1')])
        assert r.status == 200
        assert not [name for name, _ in json.loads(r.text)['headers'] if name.startswith('resumelb-home')]
        assert 'Resumelb-Home' not in dict(r.headers)


def test_a_stream_reports_homes_to_one_that_asks_all_of_them_first_and_then_what_has_changed(world):
    agent = TinyAgent(world).wait_ready()

    def ask_agent(site, home=None):
        headers = [('Resumelb-Class', site), ('Resumelb-Classifier', '0' * 16)]
        with Client(agent.address) as c:
            c.send(host=site, headers=headers + ([('Resumelb-Home', home)] if home else []))
            assert c.receive().status == 200

    plain = Stream(agent.address)
    ask_agent('a.example', 'new')
    ask_agent('b.example', 'reassign; from=127.0.0.1:9')
    ask_agent('c.example', 'passing')
    ask_agent('d.example', 'nonsense')
    stream = Stream(agent.address, headers=[('Resumelb-Homes', '1')])
    stream.wait(lambda x: 'homes' in x, 'the first homes')
    homes = {k: v for x in list(stream.lines) for k, v in x.get('homes', {}).items()}
    assert sorted(homes) == ['a.example', 'b.example', 'd.example']
    assert [homes[k][2:4] for k in sorted(homes)] == [['new', ''], ['reassign', '127.0.0.1:9'], ['used', '']]
    assert all(0 <= v[1] <= v[0] and v[4] >= 0 for v in homes.values())
    ask_agent('a.example', 'replicate')
    changed = stream.wait(lambda x: x.get('homes', {}).get('a.example', [0, 0, ''])[2] == 'replicate', 'the change')
    assert list(changed['homes']) == ['a.example']
    # A stream that has not requested homes receives none.
    assert not [x for x in plain.lines if 'homes' in x]


def test_homes_are_of_one_classifier_and_all_come_at_once(world):
    agent = TinyAgent(world).wait_ready()
    prints = ['%016x' % n for n in range(3)]

    def ask_agent(site, fingerprint):
        headers = [('Resumelb-Class', site), ('Resumelb-Classifier', fingerprint), ('Resumelb-Home', 'new')]
        assert agent.get(headers=headers).status == 200

    def first_lines(fingerprint):
        """The first lines of a stream: a resume, then homes."""
        stream = Stream(agent.address, headers=[('Resumelb-Homes', '1'), ('Resumelb-Classifier', fingerprint)])
        stream.wait(lambda x: 'skills' in x, 'the resume')
        ask_agent('last.example', fingerprint)
        stream.wait(lambda x: 'last.example' in x.get('homes', {}), 'the change')
        at, = [i for i, x in enumerate(stream.lines) if 'last.example' in x.get('homes', {})]
        return [set(x['homes'] if 'homes' in x else x['skills']) for x in stream.lines[:at]]

    for site, fingerprint in (('a.example', prints[0]), ('b.example', prints[1]), ('c.example', prints[1])):
        ask_agent(site, fingerprint)
    assert first_lines(prints[1]) == [{'b.example', 'c.example'}] * 2
    assert first_lines(prints[0]) == [{'a.example'}] * 2
    # The least recently used ones make room for a third.
    assert first_lines(prints[2]) == [set()]
    assert first_lines(prints[1]) == [set()]


def test_a_stream_reports_a_home_whose_first_request_still_waits_for_the_process(world):
    agent = TinyAgent(world, concurrency=1).wait_ready()
    gate = world.directory / 'gate'
    headers = [('Resumelb-Classifier', '0' * 16)]
    stream = Stream(agent.address, headers=[('Resumelb-Homes', '1')])
    busy = Client(agent.address)
    busy.send(host='a.example', headers=headers + [('Resumelb-Class', 'a.example'), ('X-Until', str(gate))])
    wait_until(lambda: agent.slot()['backlog'] == 1, 'the process to be held up')
    waiting = {'b.example': 'new', 'c.example': 'passing', 'd.example': 'reassign; from=127.0.0.1:9'}
    clients = {}
    for site, home in waiting.items():
        clients[site] = Client(agent.address)
        clients[site].send(host=site, headers=headers + [('Resumelb-Class', site), ('Resumelb-Home', home)])

    def told():
        return {k: v[2:4] for x in list(stream.lines) for k, v in x.get('homes', {}).items()}

    wait_until(lambda: {'b.example', 'd.example'} <= set(told()), 'the homes')
    assert not gate.exists()
    gate.write_text('')
    for c in [busy, *clients.values()]:
        assert c.receive().status == 200
        c.close()
    # The request that the process then received was not another decision; the home of the passed-on request is elsewhere.
    wait_until(lambda: any(x.get('homes', {}).get('d.example', [0] * 5)[4] > 0 for x in list(stream.lines)), 'the work')
    assert told() == {'a.example': ['used', ''], 'b.example': ['new', ''], 'd.example': ['reassign', '127.0.0.1:9']}
