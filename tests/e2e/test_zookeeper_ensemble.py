# SPDX-License-Identifier: Apache-2.0
"""An ensemble of three servers, of which any one fails, and then all: no request fails because of ZooKeeper."""
import json
import os

import pytest
from support.base import wait_until
from support.zookeeper import Tree, end_session
from zookeeper_support import SHORT_SESSION, SHORT_SESSION_SECONDS, Load, Place, in_force, knows, pause, setting, tree_of, workers

ROUNDS = int(os.environ.get('RLB_SOAK_ROUNDS', '1'))
# Time without any server: some seconds longer than a session; longer in the soak run.
WITHOUT_SECONDS = 20 if ROUNDS > 1 else SHORT_SESSION_SECONDS * 2.5


def settled(place, lb):
    return lambda: tree_of(lb)['connected'] and tree_of(lb)['registered'] and len(place.tree.providers('')) > 0


def change_and_see(place, balancers, value):
    place.tree.set('', variance=value)
    for lb in balancers:
        wait_until(in_force(lb, 'variance', '%g' % value), 'the setting')


def start(world, count, addresses, **settings):
    place = Place(world, count=3)
    for w in addresses:
        place.tree.register('/workers', w)
    balancers = [place.balancer('resumelb%d' % i, **settings) for i in range(count)]
    for lb in balancers:
        wait_until(knows(lb, addresses), 'the workers')
    return place, balancers


@pytest.mark.soak
def test_any_one_server_may_go_under_traffic(world):
    """The connected server is frozen, the leader is killed: the client connects to another server with its existing session."""
    addresses = workers(world, 3)
    place, (lb,) = start(world, 1, addresses[:2])
    load = Load([lb])
    path = '/app/providers/' + wait_until(lambda: place.tree.providers(''), 'the registration')[0]
    for i, server in enumerate(place.servers[:2]):
        server.freeze()
        change_and_see(place, [lb], 3 + i)
        load.go_on(20)
        server.thaw()
        place.ensemble.wait_serving()
    for turn in range(ROUNDS):
        leader = place.ensemble.leader()
        leader.kill()
        change_and_see(place, [lb], 2 + turn / 10)
        load.go_on(50)
        leader.start()
        place.ensemble.wait_serving()
    place.tree.register('/workers', addresses[2])
    wait_until(knows(lb, addresses), 'the workers')
    # the session did not expire
    assert tree_of(lb).get('expired', 0) == 0
    assert place.tree.ask(place.client.exists, path) is not None
    load.stop()


@pytest.mark.soak
def test_without_a_majority_everything_continues_and_then_catches_up(world):
    addresses = workers(world, 3)
    place, (lb,) = start(world, 1, addresses[:2])
    load = Load([lb], rate=100)
    for server in place.servers[:2]:
        server.kill()
    wait_until(lambda: not tree_of(lb)['connected'], 'the loss to be seen')
    load.go_on(100)
    assert knows(lb, addresses[:2])()
    for server in place.servers[:2]:
        server.start(wait=False)
    place.ensemble.wait_serving()
    for w in addresses:
        place.tree.register('/workers', w)
    wait_until(knows(lb, addresses), 'the workers')
    wait_until(settled(place, lb), 'the tree')
    change_and_see(place, [lb], 3)
    load.stop()


@pytest.mark.soak
def test_no_get_fails_over_a_full_cycle_of_everything(world):
    """
    Under steady load through two load balancers: each server is restarted in turn, the session of a provider ends, all servers are
    stopped for longer than every session and started again. At the end the state is that of the tree.
    """
    addresses = workers(world, 6)
    place, balancers = start(world, 2, addresses[:3], zookeeper_session_timeout=SHORT_SESSION)
    others = place.connect()
    for w in addresses[3:5]:
        Tree(others, '/app').register('/workers', w)
    for lb in balancers:
        wait_until(knows(lb, addresses[:5]), 'the workers')
    load = Load(balancers, rate=100, clients=8)
    load.go_on(100)
    for turn in range(ROUNDS):
        for i, server in enumerate(place.servers):
            server.stop()
            load.go_on(50)
            server.start(wait=False)
            place.ensemble.wait_serving()
            change_and_see(place, balancers, 2 + turn + i / 10)
    end_session(place.hosts, others)
    for lb in balancers:
        wait_until(knows(lb, addresses[:3]), 'two workers less')
    load.go_on(100)
    for server in place.servers:
        server.kill()
    for lb in balancers:
        wait_until(lambda: not tree_of(lb)['connected'], 'the loss to be seen')
    pause(WITHOUT_SECONDS)
    load.go_on(100)
    for lb in balancers:
        assert knows(lb, addresses[:3])()
    for server in place.servers:
        server.start(wait=False)
    place.ensemble.wait_serving()
    # the workers of the lost sessions are registered again; one is new
    for w in (*addresses[:3], addresses[5]):
        place.tree.register('/workers', w)
    for lb in balancers:
        wait_until(settled(place, lb), 'the tree')
        wait_until(knows(lb, [*addresses[:3], addresses[5]]), 'the workers')
    wait_until(lambda: len(place.tree.providers('')) == 2, 'both load balancers in the tree')
    change_and_see(place, balancers, 9)
    load.go_on(100)
    total = load.stop()
    print(json.dumps({'requests': total, 'failed': len(load.failures), 'slowest_ms': round(load.slowest * 1000)}))
    assert all(setting(lb, 'variance')['value'] == '9' for lb in balancers)
