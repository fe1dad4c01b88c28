# SPDX-License-Identifier: Apache-2.0
"""Policy adaptive when a worker announces its end: its classes get other homes before it has exited, and no request fails."""
import json
import signal

import pytest
from agent_support import TinyAgent, alive
from load_support import Load
from support.base import free_port, wait_until
from support.http import Client, get

SITES = ['site%d.example' % i for i in range(24)]
TOKEN = 'a-word-that-cannot-be-guessed'


class Balancer:
    """A load balancer with an actions token, for agents of one application."""

    def __init__(self, world, agents):
        self.admin = '127.0.0.1:%d' % free_port()
        self.lb = world.resumelb({
            'admin': {'address': self.admin, 'actions_token': TOKEN},
            'applications': {'app': {'tree': 'directory:%s' % agents[0].tree, 'tree_path': '/app'}}}, wait=False)
        self.lb.admin = self.admin
        wait_until(self.lb.listening, 'the load balancer')
        addresses = [a for agent in agents for a in agent.addresses]
        wait_until(lambda: [self.state(a) for a in addresses] == ['ready'] * len(addresses), 'the workers')

    def state(self, address):
        return self.lb.workers('app').get(address, {}).get('state')

    def order(self, what, address):
        r = get(self.admin, '/actions/' + what, method='POST', host=self.admin, headers=[('Authorization', 'Bearer ' + TOKEN)],
                body=json.dumps({'worker': address}).encode())
        assert r.status == 200, r.text

    def explain(self, site):
        r = get(self.admin, '/explain?application=app&class=' + site, host=self.admin)
        assert r.status == 200, r.text
        return json.loads(r.text)

    def homes(self):
        """{site: the worker for its next request}, for the sites that have a home."""
        told = {site: self.explain(site) for site in SITES}
        return {site: t['worker'] for site, t in told.items() if t['reason'] == 'home'}

    def visit(self, rounds=1, held=0):
        """Requests all SITES. Returns {site: pid that responded}. HELD other requests are in flight."""
        pids = {}
        for _ in range(rounds):
            for site in SITES:
                r = self.lb.get(host=site)
                assert r.status == 200
                pids[site] = json.loads(r.text)['pid']
        wait_until(lambda: self.lb.app('app')['backlog'] == held, 'nothing else in flight')
        return pids

    def hold(self, site, gate):
        """Sends a request that is in flight until the file GATE exists."""
        client = Client(self.lb.address)
        client.send(host=site, headers=[('X-Until', str(gate))])
        wait_until(lambda: self.lb.app('app')['backlog'] == 1, 'the request to be in flight')
        return client


def load_of(b):
    return Load([b.lb.address], clients=4, keep=False, sites=len(SITES))


def test_a_drained_worker_has_no_class_left_while_it_ends_what_it_has(world):
    agent = TinyAgent(world, slots=4).wait_ready()
    b = Balancer(world, [agent])
    b.visit(3)
    before = b.homes()
    assert sorted(before) == sorted(SITES) and set(before.values()) == set(agent.addresses)
    held = b.hold(SITES[0], world.directory / 'gate')
    leaving = before[SITES[0]]
    b.order('drain', leaving)
    after = b.homes()
    # All classes have a home immediately, without a request for any. Only the classes of the drained worker have a new one.
    assert sorted(after) == sorted(SITES) and leaving not in after.values()
    assert all(after[s] == before[s] for s in SITES if before[s] != leaving)
    moved = [after[s] for s in SITES if before[s] == leaving]
    assert len(moved) > 3 and len(set(moved)) == 3, moved
    assert b.lb.workers('app')[leaving]['backlog'] == 1
    b.visit(held=1)
    assert b.lb.workers('app')[leaving]['backlog'] == 1, 'its request in flight, and no new one'
    (world.directory / 'gate').write_text('')
    assert held.receive().status == 200
    # A worker that returns gets classes by rebalancing, like a new one.
    b.order('undrain', leaving)
    assert {s: w for s, w in b.homes().items() if w == leaving} == {}


def test_an_agent_that_stops_has_handed_over_before_its_processes_end(world):
    first = TinyAgent(world, slots=2, name='first').wait_ready()
    second = TinyAgent(world, slots=2, name='second').wait_ready()
    b = Balancer(world, [first, second])
    b.visit(3)
    leaving = next(s for s, w in b.homes().items() if w in first.addresses)
    process = first.pid(first.addresses.index(b.homes()[leaving]))
    held = b.hold(leaving, world.directory / 'gate')
    first.process.kill(signal.SIGTERM)
    wait_until(lambda: b.homes() and set(b.homes().values()) <= set(second.addresses), 'all classes to have their homes at the other')
    assert sorted(b.homes()) == sorted(SITES) and len(set(b.homes().values())) == 2
    assert alive(process), 'it has a request in flight'
    b.visit(held=1)
    (world.directory / 'gate').write_text('')
    assert held.receive().status == 200
    assert first.process.wait() == 0


def test_an_agent_that_stops_under_load_fails_no_request(world):
    first = TinyAgent(world, slots=2, name='first').wait_ready()
    second = TinyAgent(world, slots=2, name='second').wait_ready()
    b = Balancer(world, [first, second])
    with load_of(b) as load:
        load.go_on(40)
        first.process.kill(signal.SIGTERM)
        assert first.process.wait() == 0
        load.go_on(40)


def instances(b):
    # A worker that is being removed is still listed, with the same name, while it has requests in flight.
    return {w['name']: w['instance'] for w in b.lb.app('app')['workers'] if w['state'] == 'ready'}


@pytest.mark.parametrize('persistent', [True, False])
def test_processes_that_are_replaced_leave_their_classes_to_their_successors(world, persistent):
    (world.directory / 'tmp').mkdir(mode=0o755)
    agent = TinyAgent(world, slots=3, persistent=persistent).wait_ready()
    b = Balancer(world, [agent])
    pids = b.visit(3)
    before, lives = b.homes(), instances(b)
    assert sorted(before) == sorted(SITES)
    held = b.hold(SITES[0], world.directory / 'gate')
    (world.directory / 'tmp' / 'restart.txt').touch()
    wait_until(lambda: all(instances(b).get(a) not in (None, lives[a]) for a in agent.addresses), 'three new processes')
    # The old process still has its request in flight; its classes are assigned to the new one, and no others have moved.
    assert alive(pids[SITES[0]])
    assert b.homes() == before
    now = b.visit(held=1)
    assert not set(now.values()) & set(pids.values())
    assert b.homes() == before
    (world.directory / 'gate').write_text('')
    r = held.receive()
    assert r.status == 200 and json.loads(r.text)['pid'] == pids[SITES[0]]
    wait_until(lambda: not alive(pids[SITES[0]]), 'the old one to end')


def test_a_rolling_restart_under_load_fails_no_request(world):
    (world.directory / 'tmp').mkdir(mode=0o755)
    agent = TinyAgent(world, slots=4).wait_ready()
    b = Balancer(world, [agent])
    with load_of(b) as load:
        load.go_on(40)
        lives = instances(b)
        pids = [slot['process']['pid'] for slot in agent.app()['slots']]
        (world.directory / 'tmp' / 'restart.txt').touch()
        wait_until(lambda: all(instances(b).get(a) not in (None, lives[a]) for a in agent.addresses), 'four new processes')
        load.go_on(40)
    wait_until(lambda: not any(alive(p) for p in pids), 'the old ones to end')
    assert set(b.homes()) == set(SITES)
