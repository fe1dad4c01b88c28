# SPDX-License-Identifier: Apache-2.0
"""Something else than a ZooKeeper answers at its address for a while: the tree is back as soon as the real one is."""
import random
import struct

import pytest
from support.base import wait_until
from zookeeper_damage_support import GarblingProxy
from zookeeper_support import Place, in_force, tree_of

NOISE = random.Random(1).randbytes(200)


def greeting(timeout_ms):
    """What a server answers to who connects, with a session of that time-out."""
    body = struct.pack('>iiqi16s?', 0, timeout_ms, 0x123456789, 16, b'p' * 16, False)
    return struct.pack('>i', len(body)) + body


@pytest.mark.parametrize('said', [
    NOISE, struct.pack('>i', len(NOISE)) + NOISE, b'\x7f\xff\xff\xff' + NOISE, b'\xff\xff\xff\xff' + NOISE,
    greeting(0x7fffffff), greeting(-1), greeting(0), greeting(-0x80000000)],
    ids=['noise', 'a frame of noise', 'a frame without end', 'a frame of less than nothing', 'a session of weeks',
         'a session of less than nothing', 'a session of no time', 'a session of less than that'])
def test_garbage_in_place_of_a_greeting_is_forgotten_when_the_server_is_back(world, zookeeper_server, said):
    place = Place(world, server=zookeeper_server)
    proxy = GarblingProxy(place.server.port)
    world.closers.append(proxy.close)
    place.tree.set('', variance=2)
    lb = place.balancer(url=place.url(hosts=proxy.address))
    wait_until(in_force(lb, 'variance', '2'), 'the setting')
    before = proxy.accepted
    proxy.garble(said)
    # a session of ours ends of it, or the next one; what matters is the one after those
    wait_until(lambda: proxy.accepted >= before + 2, 'further tries')
    assert setting_of(lb) == '2', 'going on with what was last known'
    proxy.pass_on()
    place.tree.set('', variance=3)
    wait_until(in_force(lb, 'variance', '3'), 'the next setting')
    assert tree_of(lb)['connected']


def setting_of(lb):
    return lb.app('app')['settings']['variance']['value']
