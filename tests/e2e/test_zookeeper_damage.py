# SPDX-License-Identifier: Apache-2.0
"""
A server that says what none would, within a session: the connection to it is ended, counted and said why; what was known stays,
and the next connection tells the rest. None of it reaches ZooKeeper's client library, which would end the process.
"""
import subprocess

import pytest
from support.base import BIN, LIMIT, wait_until
from support.http import get
from zookeeper_damage_support import DAMAGES, GarblingProxy, anything, is_answer
from zookeeper_support import Place, in_force, knows, picked, tree_of, workers


def behind(world, place):
    proxy = GarblingProxy(place.server.port)
    world.closers.append(proxy.close)
    return proxy


def refused(lb):
    return tree_of(lb)['refused_frames']


@pytest.mark.parametrize('only', [is_answer, anything], ids=['in an answer', 'in whatever comes next'])
def test_no_damage_within_a_session_reaches_the_library(world, zookeeper_server, only):
    place = Place(world, server=zookeeper_server)
    proxy = behind(world, place)
    [address] = workers(world, 1)
    place.tree.register('/workers', address)
    lb = place.balancer(url=place.url(hosts=proxy.address))
    wait_until(knows(lb, [address]), 'the worker')
    assert refused(lb) == 0
    for i, (name, damage) in enumerate(DAMAGES.items()):
        before = refused(lb)
        proxy.damage(damage, only=only)
        place.tree.set('', variance=2 + i)
        wait_until(lambda: refused(lb) > before, 'a refusal of a frame: ' + name)
        assert picked(lb) == {address}, name
        wait_until(in_force(lb, 'variance', str(2 + i)), 'the truth, after: ' + name)
        assert lb.process.alive(), name
    assert 'tree-frame-refused' in lb.process.output()
    assert 'resumelb_tree_refused_frames_total ' in get(lb.admin, '/metrics', host=lb.admin).text


def test_the_tool_goes_on_over_another_connection(world, zookeeper_server):
    place = Place(world, server=zookeeper_server)
    proxy = behind(world, place)
    place.tree.set('', variance=2)
    for name, damage in DAMAGES.items():
        proxy.damage(damage, only=is_answer)
        done = subprocess.run([BIN / 'resumelbctl', 'tree', '--tree', place.url('', proxy.address), 'export'],
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 0, (name, done.stderr)
        assert 'variance = 2' in done.stdout, (name, done.stdout)
        assert not proxy.damages, name
        assert 'zookeeper-frame-refused' in done.stderr, (name, done.stderr)
