# SPDX-License-Identifier: Apache-2.0
"""The parts start in any order; at the end all are connected."""
import itertools
import os
import subprocess

import pytest
from agent_support import TinyAgent
from support.base import BIN, wait_until
from support.zookeeper import Server, Tree, connect
from zookeeper_support import SESSION, Load, in_force, knows, tree_of

# z: ZooKeeper, l: the load balancer, a: the agent, s: the settings in the tree.
ALL_ORDERS = [''.join(o) for o in itertools.permutations('zlas')]
# In these orders each part is first and last once, and before and after each other part.
SOME_ORDERS = ['zlas', 'salz', 'lsza', 'azsl']
ORDERS = ALL_ORDERS if int(os.environ.get('RLB_SOAK_ROUNDS', '1')) > 1 else SOME_ORDERS


class Parts:
    """The parts. The method with the letter of a part starts it."""

    def __init__(self, world):
        self.world = world
        self.server = Server(world.directory, owner=world.processes)
        self.hosts = 'zookeeper://' + self.server.address
        self.lb = self.agent = self.client = None

    def z(self):
        self.server.start()

    def l(self):  # noqa: E743
        self.lb = self.world.resumelb({'start_wait': '100ms', 'applications': {'app': {
            'tree': self.hosts + '/site/app', 'provider_networks': ['loopback'], 'zookeeper_session_timeout': SESSION}}}, wait=False)
        wait_until(self.lb.listening, 'the load balancer')

    def a(self):
        self.agent = TinyAgent(self.world, top={'tree': self.hosts + '/site', 'zookeeper_session_timeout': SESSION})
        self.agent.wait_listening()

    def s(self):
        """Writes the settings with the running server, or before its start with a temporary server on the same data."""
        server = self.server
        if self.server.process is None:
            server = Server(self.world.directory).start()
        client = connect(server.address)
        tree = Tree(client, '/site/app')
        tree.set('', variance=2.5)
        tree.set('/workers', history=17)
        client.stop()
        client.close()
        if server is not self.server:
            server.stop()


@pytest.mark.parametrize('order', ORDERS)
def test_in_any_order(world, order):
    parts = Parts(world)
    for letter in order:
        getattr(parts, letter)()
    lb, agent = parts.lb, parts.agent
    wait_until(knows(lb, agent.addresses), 'the worker')
    wait_until(in_force(lb, 'variance', '2.5'), 'the setting')
    wait_until(lambda: agent.app()['settings']['history'] == {'value': '17', 'origin': 'tree'}, 'its setting')
    wait_until(lambda: tree_of(lb)['registered'], 'our registration')
    load = Load([lb], rate=100)
    load.go_on(20)
    load.stop()
    assert agent.served()


def test_bad_urls_are_rejected_at_the_line(world):
    for url in ('zookeeper://', 'zookeeper:///app', 'zookeeper://host:0/app', 'zookeeper://h:99999/a',
                'zookeeper://h:1,/a', 'zookeeper://h:1/../a', 'zookeeperr://h:1/a'):
        file = world.directory / 'bad.yaml'
        file.write_text('listen: [{address: 127.0.0.1:1}]\ntree: "%s"\n' % url)
        done = subprocess.run([BIN / 'resumelb', '-t', '-c', file], stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1, url
        assert 'bad.yaml:2:' in done.stderr, (url, done.stderr)
