# SPDX-License-Identifier: Apache-2.0
"""SIGUSR2 with ZooKeeper: each name stays registered once, afterwards by the new process; load balancers lose no worker meanwhile."""
import threading

from kazoo.exceptions import NoNodeError

from agent_support import TinyAgent
from agent_upgrade_support import upgrade as upgrade_agent
from support.base import LIMIT, wait_until
from support.scripted import hello, serve
from upgrade_support import upgrade as upgrade_balancer
from zookeeper_support import SESSION, Place, picked

UPGRADES = 3


class Watcher:
    """Polls repeatedly, and records the different results."""

    def __init__(self, world, look):
        self.look, self.seen, self.looks, self.ending, self.problem = look, set(), 0, False, None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        world.closers.append(self.end)

    def _run(self):
        try:
            while not self.ending:
                self.seen.add(tuple(sorted(self.look())))
                self.looks += 1
        except Exception as e:
            self.problem = e

    def go_on(self):
        target = self.looks + 20
        wait_until(lambda: self.looks >= target or self.problem, 'some looks')

    def end(self):
        self.ending = True
        self.thread.join(LIMIT)
        assert self.problem is None
        return self.seen


def provider(place, path, name):
    """The session and the properties of a provider, or None if it does not exist."""
    node = '%s/providers/%s' % (path, name)
    try:
        return place.client.exists(place.tree.path(node)).ephemeralOwner, place.tree.properties(node)
    except (NoNodeError, AttributeError):
        return None


def test_a_load_balancer_is_registered_once_and_by_the_new_process(world, zookeeper_server):
    place = Place(world, server=zookeeper_server)
    w = world.scripted(serve(hello))
    lb = place.balancer(workers=[w.address])
    wait_until(lambda: place.tree.providers('') == [lb.address], 'its registration')
    reader = place.connect()
    names = Watcher(world, lambda: reader.get_children(place.tree.path('/providers')))
    for _ in range(UPGRADES):
        before = provider(place, '', lb.address)[0]
        names.go_on()
        upgrade_balancer(lb)
        owner, said = wait_until(lambda: provider(place, '', lb.address), 'the new registration')
        assert owner != before and said['pid'] == lb.process.pid
        names.go_on()
        assert place.tree.providers('') == [lb.address]
    # In between it may be absent for a short time, but there is never another name.
    assert {(lb.address,)} <= names.end() <= {(), (lb.address,)}


def test_an_agents_slots_are_registered_once_by_the_new_process_and_no_load_balancer_misses_one(world, zookeeper_server):
    place = Place(world, server=zookeeper_server, root='/app')
    agent = TinyAgent(world, slots=2, top={'tree': place.url(''), 'zookeeper_session_timeout': SESSION})
    lb = place.balancer(resume='auto')
    wanted = sorted(agent.addresses)
    wait_until(lambda: picked(lb) == set(wanted), 'both workers')
    reader = place.connect()
    names = Watcher(world, lambda: reader.get_children(place.tree.path('/workers/providers')))
    workers = Watcher(world, lambda: lb.workers('app'))
    for _ in range(UPGRADES):
        before = {provider(place, '/workers', a)[0] for a in wanted}
        names.go_on()
        workers.go_on()
        pid = upgrade_agent(agent)
        wait_until(lambda: all(str(pid) in (provider(place, '/workers', a) or (0, {}))[1].get('agent', '') for a in wanted),
                   "the new one's")
        after = {provider(place, '/workers', a)[0] for a in wanted}
        assert len(after) == 1 and after.isdisjoint(before)
        names.go_on()
        workers.go_on()
        assert place.tree.providers('/workers') == wanted
    assert all(set(seen) <= set(wanted) for seen in names.end())
    assert workers.end() == {tuple(wanted)}
