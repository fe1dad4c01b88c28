# SPDX-License-Identifier: Apache-2.0
"""The settings of the host, from their own node: in a directory and in ZooKeeper."""
import itertools
import json
import os
import shutil
import socket
import subprocess

import pytest

from agent_support import alive
from load_support import Load
from support.base import BIN, wait_until
from support.http import get
from support.zookeeper import Server
from test_agent_life import rewrite
from test_agent_pool import PoolAgent, hold
from zookeeper_support import SESSION, Place

HOST = '/hosts/' + socket.gethostname()


class Directory:
    def __init__(self, world):
        self.directory = world.directory / 'tree'
        self.url = 'directory:%s' % self.directory

    def set_raw(self, path, text):
        directory = self.directory / path.lstrip('/')
        directory.mkdir(parents=True, exist_ok=True)
        (directory / 'properties.tmp').write_text(text)
        (directory / 'properties.tmp').rename(directory / 'properties.json')

    def set(self, path, **properties):
        self.set_raw(path, json.dumps(properties))

    def remove(self, path):
        shutil.rmtree(self.directory / path.lstrip('/'))

    def vanish(self):
        """Removes the directory, as if its file system were not mounted."""
        shutil.rmtree(self.directory)


class ZooKeeper:
    """The test's own tree in SERVER. A test that ends the server has its own server, too."""

    def __init__(self, world, server=None):
        self.place = Place(world, root='/' + world.directory.name, server=server)
        self.url = self.place.url()

    def set_raw(self, path, text):
        self.place.tree.set_raw(path, text.encode())

    def set(self, path, **properties):
        self.place.tree.set(path, **properties)

    def remove(self, path):
        self.place.tree.remove(path)

    def vanish(self):
        self.place.server.kill()


@pytest.fixture(scope='module')
def server(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp('zookeeper')).start()
    yield s
    s.stop()


@pytest.fixture(params=[Directory, ZooKeeper])
def tree(request, world, server):
    return Directory(world) if request.param is Directory else ZooKeeper(world, server)


@pytest.fixture(params=[Directory, ZooKeeper])
def own_tree(request, world):
    """A tree that the test may remove."""
    return request.param(world)


class HostAgent(PoolAgent):
    """An agent with one application of at most four processes and a minimum of none."""

    def __init__(self, world, tree, top=None, **settings):
        settings = {'min_processes': 0, 'max_processes': 4, **settings}
        top = {'tree': tree.url, 'max_processes': 4, 'zookeeper_session_timeout': SESSION, **(top or {})}
        super().__init__(world, slots=4, top=top, **settings)
        self.wait_ready()

    def host(self):
        return self.json()['host']

    def value(self, name):
        row = self.host()['settings'][name]
        return row['value'], row['origin']

    def wait_value(self, name, value, origin='tree'):
        wait_until(lambda: self.value(name) == (value, origin), '%s = %s from %s' % (name, value, origin))

    def rejected(self):
        return {r['name']: r for r in self.host()['rejected']}

    def metric(self, name):
        text = get(self.admin, '/metrics', host=self.admin).text
        return float(next(line.split()[-1] for line in text.splitlines() if line.startswith(name + ' ')))


def all_busy(agent, world, n):
    """Sends N requests. Returns them, and the file that must be created to release them."""
    go = world.directory / 'go'
    held = hold(agent, go, n)
    wait_until(lambda: agent.figures()['requests_running'] == n, '%d requests to run' % n)
    return held, go


# ---- effective ----

def test_the_maximum_follows_the_tree_under_load(world, tree):
    agent = HostAgent(world, tree)
    with Load([agent.front], clients=6, posts=2, keep=False, headers=[('X-Delay', '0.01')]) as load:
        # The maximum is changed repeatedly, each time after the number of processes has followed.
        for maximum in ('4', '2', '4', '1', '3'):
            tree.set(HOST, max_processes=int(maximum))
            wait_until(lambda: agent.value('max_processes') == (maximum, 'tree')
                       and agent.processes() == int(maximum), '%s processes' % maximum)
    figures = agent.figures()
    assert figures['deaths'] == 0 and figures['failures'] == 0 and figures['ended_over_max'] >= 5
    executed = [line for line in agent.served() if line.startswith('POST')]
    assert sorted(executed) == sorted('POST ' + target for target in load.posts), 'each once'


def test_a_busy_process_is_not_ended_by_a_lower_maximum(world, tree):
    agent = HostAgent(world, tree)
    held, go = all_busy(agent, world, 3)
    pids = [p for p in agent.pids() if p]
    tree.set(HOST, max_processes=1)
    agent.wait_value('max_processes', '1')
    assert agent.json()['max_processes'] == 1 and agent.processes() == 3 and all(map(alive, pids))
    go.write_text('')
    assert [r.result().status for r in held] == [200] * 3
    wait_until(lambda: agent.processes() == 1, 'one process')
    assert agent.figures()['deaths'] == 0 and agent.figures()['ended_over_max'] == 2


def test_an_application_without_a_maximum_gets_more_slots_with_the_hosts(world, tree):
    agent = HostAgent(world, tree, top={'max_processes': 2}, max_processes=0)
    assert len(agent.app()['slots']) == 2
    tree.set(HOST, max_processes=3)
    wait_until(lambda: len(agent.app()['slots']) == 3, 'a third slot')
    wait_until(lambda: agent.slot(2)['registered'], 'it to be registered')
    tree.set(HOST, max_processes=1)
    wait_until(lambda: [s['registered'] for s in agent.app()['slots']] == [True, False, False], 'the others to go')
    assert agent.ask().status == 200


def test_a_maximum_below_the_minima_holds_and_is_reported(world, tree):
    agent = HostAgent(world, tree, min_processes=3)
    wait_until(lambda: agent.processes() == 3, 'those that are always there')
    tree.set(HOST, max_processes=2)
    wait_until(lambda: agent.processes() == 2, 'one to end')
    assert agent.host()['rejected'] == [] and agent.ask().status == 200
    agent.process.wait_logged('max-processes-too-low max_processes=2 min_processes=3')
    tree.set(HOST, max_processes=4)
    wait_until(lambda: agent.processes() == 3, 'it to be back')


def test_overlap_is_switched_by_the_tree(world, tree):
    agent = HostAgent(world, tree, min_processes=1, max_processes=1, top={'max_processes': 1})
    tree.set(HOST, replace_overlap=False)
    agent.wait_value('replace_overlap', 'false')

    def replace():
        """Replaces the process. Returns whether the new one started while the previous one was running."""
        before, replaced = agent.pid(), agent.figures()['replaced']
        (world.directory / 'tmp').mkdir(exist_ok=True)
        (world.directory / 'tmp' / 'restart.txt').write_text(str(before))
        wait_until(lambda: agent.states()[0] == 'ready' and agent.pid() != before and not alive(before), 'another')
        return agent.figures()['replaced'] > replaced
    assert not replace()
    tree.set(HOST, replace_overlap='yes')
    agent.wait_value('replace_overlap', 'true')
    assert replace()


# ---- what is not taken ----

def test_an_invalid_property_is_rejected_alone_and_reported(world, tree):
    agent = HostAgent(world, tree)
    assert agent.value('max_processes') == ('4', 'yaml') and agent.value('replace_overlap') == ('true', 'default')
    tree.set(HOST, max_processes=3)
    agent.wait_value('max_processes', '3')
    for nonsense in ('lots', -1, 4097, [2], '', '2.5'):
        tree.set(HOST, max_processes=nonsense, replace_overlap=False)
        wait_until(lambda: 'max_processes' in agent.rejected(), 'the rejection of %r' % (nonsense,))
        assert agent.value('max_processes') == ('3', 'tree') and agent.json()['max_processes'] == 3
        agent.wait_value('replace_overlap', 'false')
        tree.set(HOST, max_processes=3)
        wait_until(lambda: not agent.rejected(), 'it to be mended')
        agent.wait_value('replace_overlap', 'true', 'default')
    line = agent.process.wait_logged('setting-rejected')[0]
    assert 'path=%s ' % HOST in line and 'setting=max_processes' in line and 'value="lots"' in line and 'reason="' in line


def test_settings_of_the_file_only_are_rejected_and_reported_everywhere(world, tree):
    agent = HostAgent(world, tree)
    local = {'tree': 'directory:/evil', 'state_dir': '/evil', 'host_path': '/evil', 'allow': '0.0.0.0/0',
             'zookeeper_auth': '/etc/shadow', 'spill_dir': '/evil', 'admin': '0.0.0.0:1', 'applications': 'x'}
    tree.set(HOST, max_processes=2, log_level='debug', max_body='1', strange=1, **local)
    agent.wait_value('max_processes', '2')
    rejected = agent.rejected()
    assert set(rejected) == {*local, 'log_level', 'max_body'}
    assert all('configuration file only' in rejected[name]['why'] for name in local)
    assert 'SIGHUP' in rejected['log_level']['why'] and 'restart' in rejected['max_body']['why']
    assert all(r['path'] == HOST for r in rejected.values())
    wait_until(lambda: agent.process.output().count('setting-unknown') == 1, 'setting-unknown')
    assert agent.metric('resumelb_agent_host_rejected_settings') == len(rejected)
    assert agent.metric('resumelb_agent_host_settings_changes_total') == 1
    text = subprocess.run([BIN / 'resumelbctl', '-a', agent.admin, 'status'], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    assert 'settings: max_processes = 2 (from the tree)' in text and 'rejected setting log_level: ' in text


# ---- coming and going ----

def test_settings_that_the_node_does_not_state_are_from_the_file(world, tree):
    agent = HostAgent(world, tree)
    tree.set(HOST, max_processes=2, replace_overlap=False)
    agent.wait_value('replace_overlap', 'false')
    # the file gets another value, which the tree overrides
    agent.config['max_processes'] = 3
    rewrite(agent)
    wait_until(lambda: 'config-reloaded' in agent.process.output(), 'the file')
    assert agent.value('max_processes') == ('2', 'tree')
    tree.set(HOST, replace_overlap=False)
    agent.wait_value('max_processes', '3', 'yaml')
    assert agent.json()['max_processes'] == 3 and agent.value('replace_overlap') == ('false', 'tree')
    agent.config['max_processes'] = 4
    rewrite(agent)
    agent.wait_value('max_processes', '4', 'yaml')
    assert agent.json()['max_processes'] == 4


def test_a_node_that_goes_is_held_and_then_given_up(world, tree):
    agent = HostAgent(world, tree)
    spoils = (lambda: tree.set_raw(HOST, '{"max_processes": '), lambda: tree.remove(HOST))
    for hold, spoil in itertools.product(('1h', '1ms'), spoils):
        if agent.config['settings_hold'] != hold:
            agent.config['settings_hold'] = hold
            rewrite(agent)
            agent.wait_value('settings_hold', hold, 'yaml')
        tree.set(HOST, max_processes=2)
        agent.wait_value('max_processes', '2')
        wait_until(lambda: not agent.host()['held'], 'it not to be held')
        spoil()
        if hold == '1h':
            wait_until(lambda: agent.host()['held'], 'it to be held')
            assert agent.value('max_processes') == ('2', 'tree')
            continue
        agent.wait_value('max_processes', '4', 'yaml')
        assert not agent.host()['held'] and agent.json()['max_processes'] == 4


def test_a_restart_without_the_tree_continues_with_what_it_reported_last(world, own_tree):
    agent = HostAgent(world, own_tree)
    own_tree.set(HOST, max_processes=2, replace_overlap=False)
    agent.wait_value('replace_overlap', 'false')
    memory = agent.state_dir / 'tree.json'
    wait_until(lambda: memory.exists() and json.loads(memory.read_text())['parts']['settings']['max_processes'] == 2,
               'it to be remembered')
    agent.process.stop()
    own_tree.vanish()
    agent.start()
    agent.wait_ready()
    assert agent.value('max_processes') == ('2', 'tree') and agent.value('replace_overlap') == ('false', 'tree')
    assert agent.json()['max_processes'] == 2
    host = agent.host()
    assert host['remembered'] or host['held']
    if isinstance(own_tree, ZooKeeper):
        own_tree.place.server.start()
        own_tree.set(HOST, max_processes=3)
        agent.wait_value('max_processes', '3')
        assert not agent.host()['remembered']


def test_processes_above_the_files_maximum_are_taken_over(world, tree):
    agent = HostAgent(world, tree, top={'max_processes': 1, 'tree_start_wait': '60s'})
    tree.set(HOST, max_processes=3)
    agent.wait_value('max_processes', '3')
    held, go = all_busy(agent, world, 3)
    go.write_text('')
    assert [r.result().status for r in held] == [200] * 3
    pids = agent.pids()
    memory = agent.state_dir / 'tree.json'
    wait_until(lambda: memory.exists() and 'max_processes' in memory.read_text(), 'it to be remembered')
    agent.kill()
    agent.start()
    agent.wait_ready()
    wait_until(lambda: not agent.host()['remembered'], 'the tree to respond')
    assert agent.pids() == pids and agent.figures()['ended_over_max'] == 0
    assert all(alive(p) for p in pids if p)


# ---- which node ----

def test_hosts_may_share_a_node_by_a_link(world, tree):
    tree.set('/small', max_processes=2)
    tree.set(HOST, **{'max_processes =>': '../../small max_processes'})
    agent = HostAgent(world, tree, top={'tree': tree.url})
    agent.wait_value('max_processes', '2')
    tree.set('/small', max_processes=3)
    agent.wait_value('max_processes', '3')


def test_the_node_can_be_named(world):
    tree = Directory(world)
    tree.set('/racks/b2', max_processes=2)
    tree.set(HOST, max_processes=3)
    agent = HostAgent(world, tree, top={'host_path': '/racks/b2'})
    agent.wait_value('max_processes', '2')
    assert agent.host()['path'] == '/racks/b2'
    agent.config['host_path'] = '/racks/b3'
    rewrite(agent)
    wait_until(lambda: 'config-restart-required setting=host_path' in agent.process.output(), 'the warning')
    assert agent.host()['path'] == '/racks/b2' and agent.value('host_path') == ('/racks/b2', 'yaml')


@pytest.mark.parametrize('path,why', [('racks/b2', "must begin with '/'"), ('/', 'name a node'),
                                      ('/app/workers', 'is the node of app too')])
def test_a_bad_name_is_an_error_of_the_file(world, path, why):
    agent = HostAgent(world, Directory(world))
    agent.config['host_path'] = path
    rewrite(agent)
    wait_until(lambda: 'config-reload-failed' in agent.process.output(), 'the rejection')
    p = subprocess.run([BIN / 'resumelb-agent', '-t', '-c', agent.path], stderr=subprocess.PIPE,
                       stdout=subprocess.PIPE, text=True, env={**os.environ})
    assert p.returncode == 1 and 'host_path: ' in p.stdout + p.stderr and why in p.stdout + p.stderr


def test_without_a_tree_the_file_is_all_there_is(world):
    agent = HostAgent(world, Directory(world), top={'tree': None})
    assert agent.value('max_processes') == ('4', 'yaml') and agent.host()['rejected'] == []
    agent.config['max_processes'] = 2
    rewrite(agent)
    agent.wait_value('max_processes', '2', 'yaml')
    assert agent.json()['max_processes'] == 2 and not (agent.state_dir / 'tree.json').exists()
