# SPDX-License-Identifier: Apache-2.0
"""
The servers of a ZooKeeper by their names, with a name server of the test: a program that is connected does not need it. The load
balancer has a /etc/resolv.conf of its own, which only root can give it.
"""
import os
import random
import socket
import struct
import threading

import pytest

from support.base import free_port, wait_until
from support.zookeeper import Proxy
from zookeeper_support import SESSION, Place, in_force, tree_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason='only root can mount a file for a program')
# Mounts the three files that follow for the program after them.
MOUNT = ('mount --bind "$1" /etc/hosts && mount --bind "$2" /etc/resolv.conf && mount --bind "$3" /etc/nsswitch.conf && shift 3 && '
         'exec "$@"')


class NameServer:
    """Responds to queries for IPv4 addresses by ADDRESSES, a dict, and counts all queries. SILENT: it does not respond."""

    def __init__(self, addresses):
        self.addresses, self.queries, self.silent = addresses, 0, False
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # The port is always 53: runs on one machine have different addresses.
        while True:
            self.host = '127.%d.%d.%d' % (random.randrange(64, 255), random.randrange(256), random.randrange(1, 255))
            try:
                self.socket.bind((self.host, 53))
                break
            except OSError:
                pass
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                query, client = self.socket.recvfrom(4096)
            except OSError:
                return
            self.queries += 1
            if self.silent or len(query) < 13:
                continue
            labels, at = [], 12
            while query[at]:
                labels.append(query[at + 1:at + 1 + query[at]].decode())
                at += 1 + query[at]
            kind, = struct.unpack('>H', query[at + 1:at + 3])
            address = self.addresses.get('.'.join(labels))
            found = address is not None and kind == 1
            head = query[:2] + struct.pack('>5H', 0x8180 if address else 0x8183, 1, found, 0, 0)
            response = b'\xc0\x0c' + struct.pack('>2HIH', 1, 1, 60, 4) + socket.inet_aton(address) if found else b''
            try:
                self.socket.sendto(head + query[12:at + 5] + response, client)
            except OSError:     # closed at the end of the test
                return

    def close(self):
        self.socket.close()


def balancer(place, names, hosts):
    """A load balancer with the name server NAMES, and the ZooKeeper at HOSTS."""
    d = place.world.directory
    files = {'hosts': '127.0.0.1 localhost\n', 'resolv.conf': 'nameserver %s\n' % names.host, 'nsswitch.conf': 'hosts: files dns\n'}
    for name, text in files.items():
        (d / name).write_text(text)
    lb = place.world.resumelb(
        {'applications': {'app': {'tree': place.url(hosts=hosts), 'provider_networks': ['loopback'], 'resume': 'measure',
                                  'zookeeper_session_timeout': SESSION}}}, wait=False,
        wrapper=['unshare', '-m', '--propagation', 'private', 'sh', '-c', MOUNT, 'sh', *(d / name for name in files)])
    wait_until(lb.listening, 'the load balancer')
    wait_until(lambda: tree_of(lb)['connected'], 'the tree')
    return lb


def our_session(place):
    name, = wait_until(lambda: place.tree.providers(''), 'the registration')
    return place.tree.ask(place.client.exists, place.tree.path('/providers/' + name)).ephemeralOwner


def set_and_see(place, lb, value):
    place.tree.set('', variance=value)
    wait_until(in_force(lb, 'variance', str(value)), 'the setting')


@pytest.fixture
def name_server(world):
    server = NameServer({})
    world.closers.append(server.close)
    return server


def test_a_program_that_is_connected_does_not_ask_for_names(world, zookeeper_server, name_server):
    place = Place(world, server=zookeeper_server)
    name_server.addresses.update({'zk%d.test' % i: '127.0.0.1' for i in (1, 2, 3)})
    port = zookeeper_server.port
    lb = balancer(place, name_server, ','.join('zk%d.test:%d' % (i, port) for i in (1, 2, 3)))
    set_and_see(place, lb, 1)
    session, asked, before = our_session(place), name_server.queries, tree_of(lb)
    assert asked > 0
    name_server.silent = True
    for value in (2, 3) * 10:
        place.tree.set('', variance=value)
        wait_until(lambda: name_server.queries != asked or in_force(lb, 'variance', str(value))(), 'the setting')
        assert name_server.queries == asked
    after = tree_of(lb)
    assert after['connected'] and after['connections'] == before['connections'] and our_session(place) == session


def test_names_are_resolved_again_when_a_connection_is_lost(world, zookeeper_server, name_server):
    """The server is reached by a proxy at one address, and later, with the same port, at another."""
    place = Place(world, server=zookeeper_server)
    port = free_port()
    old = Proxy(zookeeper_server.port, host='127.0.0.2', port=port)
    new = Proxy(zookeeper_server.port, host='127.0.0.3', port=port)
    world.closers += [old.close, new.close]
    name_server.addresses['zk.test'] = '127.0.0.2'
    lb = balancer(place, name_server, 'zk.test:%d' % port)
    set_and_see(place, lb, 1)
    session = our_session(place)
    name_server.addresses['zk.test'] = '127.0.0.3'
    assert new.accepted == 0
    old.refuse()
    wait_until(lambda: new.accepted > 0 and tree_of(lb)['connected'], 'a connection to the new address')
    set_and_see(place, lb, 2)
    assert our_session(place) == session
