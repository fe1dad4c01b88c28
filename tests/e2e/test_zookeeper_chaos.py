# SPDX-License-Identifier: Apache-2.0
"""Random faults of servers, connections, sessions, workers and settings, combined. Afterwards the state must be correct."""
import os
import random

import pytest
from support.base import wait_until
from support.zookeeper import Tree
from zookeeper_support import SHORT_SESSION, Load, Place, in_force, knows, pause, setting, tree_of, workers

ROUNDS = int(os.environ.get('RLB_SOAK_ROUNDS', '1'))
SEED = int(os.environ.get('RLB_SEED', random.randrange(1 << 30)))
STEPS = 30


class Chaos:
    """
    Three servers with a proxy in front of each, and two load balancers that use only the proxies. The client of the test uses the
    servers directly; a majority of them is always running, so that it can set the expected final state.
    """

    def __init__(self, world, seed):
        self.random = random.Random(seed)
        # Short sessions: clients soon leave a frozen server, and a client without a connection soon loses its nodes.
        self.place = Place(world, count=3, timeout=6.0)
        self.tree = self.place.tree
        self.proxies = [self.place.proxy(s) for s in self.place.servers]
        self.addresses = workers(world, 12)
        self.there = set()
        for w in self.addresses[:6]:
            self.join(w)
        hosts = ','.join(p.address for p in self.proxies)
        self.balancers = [self.place.balancer('resumelb%d' % i, url=self.place.url(hosts=hosts), discovery_max_drop=1,
                                              zookeeper_session_timeout=SHORT_SESSION)
                          for i in range(2)]
        self.away = None    # the server that is stopped or frozen

    def join(self, w):
        self.tree.register('/workers', w)
        self.there.add(w)

    # ---- what may happen ----

    def somebody_joins(self):
        self.join(self.random.choice(self.addresses))

    def somebody_leaves(self):
        w = self.random.choice(self.addresses)
        # some are always registered, so that a worker is available
        if w not in self.addresses[:3]:
            self.tree.unregister('/workers', w)
            self.there.discard(w)

    def setting(self):
        self.tree.set('', variance=self.random.randrange(2, 9), retries=self.random.randrange(1, 5))

    def garbage(self):
        self.tree.set_raw('', self.random.choice([b'{"variance": ', b'[]', b'\xff', b'{"variance": "lots"}', b'']))

    def a_server_goes_or_comes(self):
        if self.away is None:
            self.away = self.random.choice(self.place.servers)
            self.random.choice([self.away.kill, self.away.stop, self.away.freeze])()
        else:
            self.back()

    def back(self):
        if self.away is not None and self.away.process.alive():
            self.away.thaw()
        elif self.away is not None:
            self.away.start(wait=False)
        self.away = None

    def connections(self):
        p = self.random.choice(self.proxies)
        self.random.choice([p.cut, p.cut, p.refuse if not p.refusing else p.pass_on, p.blackhole, p.pass_on])()

    def own_nodes_vanish(self):
        for name in self.tree.providers('') or []:
            self.tree.unregister('', name)

    def step(self):
        self.random.choice([self.somebody_joins, self.somebody_joins, self.somebody_leaves, self.setting, self.garbage,
                            self.a_server_goes_or_comes, self.connections, self.connections, self.own_nodes_vanish])()
        pause(self.random.uniform(0, 0.2))

    # ---- and the end of it ----

    def quiet(self):
        self.back()
        for p in self.proxies:
            p.pass_on()
        self.place.ensemble.wait_serving()
        for w in sorted(self.there):
            self.tree.register('/workers', w)
        self.tree.set('', variance=9.5)

    def check(self):
        for lb in self.balancers:
            wait_until(lambda: tree_of(lb)['connected'] and tree_of(lb)['registered'], 'the tree')
            wait_until(in_force(lb, 'variance', '9.5'), 'the setting')
            wait_until(knows(lb, self.there), 'the workers: %s' % sorted(self.there))
        wait_until(lambda: len(self.tree.providers('')) == 2, 'both load balancers')


@pytest.mark.parametrize('turn', range(ROUNDS))
def test_after_any_chaos_the_tree_is_true(world, turn):
    print('RLB_SEED=%d' % (SEED + turn))
    chaos = Chaos(world, SEED + turn)
    load = Load(chaos.balancers, rate=100)
    for _ in range(STEPS * ROUNDS):
        chaos.step()
    chaos.quiet()
    chaos.check()
    load.go_on(50)
    load.stop()
    assert Tree(chaos.place.client, '/app').properties('')['variance'] == 9.5


@pytest.mark.soak
def test_a_server_that_lost_all_its_data(world):
    """Workers that respond are not removed because the tree is empty; all nodes are restored by registration."""
    place = Place(world)
    addresses = workers(world, 4)
    lb = place.balancer(settings_hold='300s')
    for w in addresses:
        place.tree.register('/workers', w)
    place.tree.set('', variance=2)
    wait_until(knows(lb, addresses), 'the workers')
    wait_until(in_force(lb, 'variance', '2'), 'the setting')
    load = Load([lb])
    load.go_on(100)
    place.server.kill()
    data = place.server.directory / place.server.name / 'data'
    data.rename(data.with_name('lost'))
    place.server.start()
    wait_until(lambda: tree_of(lb)['connected'] and tree_of(lb)['registered'], 'the tree')
    load.go_on(100)
    assert knows(lb, addresses)()
    assert setting(lb, 'variance')['value'] == '2'
    fresh = place.connect()
    tree = Tree(fresh, '/app')
    tree.set('', variance=3)
    for w in addresses:
        tree.register('/workers', w)
    wait_until(in_force(lb, 'variance', '3'), 'the setting')
    tree.unregister('/workers', addresses[0])
    wait_until(knows(lb, addresses[1:]), 'one less')
    load.stop()
