# SPDX-License-Identifier: Apache-2.0
"""Settings from the tree, also when the tree has invalid values, becomes unreachable, or is empty afterwards."""
import itertools
import json
import shutil
import time

from agent_support import TinyAgent
from ctl_support import ctl
from support.base import wait_until
from support.http import get
from support.scripted import hello, serve
from test_waiting import Tree


def setting(lb, name):
    return lb.app()['settings'][name]


def metric(lb, name):
    text = get(lb.admin, '/metrics', host=lb.admin).text
    return float(next(line.split()[-1] for line in text.splitlines() if line.startswith(name + '{')))


def balancer(world, n=0, **config):
    """A load balancer, its tree, and N registered workers with self-measured resumes."""
    tree = Tree(world.directory / 'tree')
    workers = [world.scripted(serve(hello)) for _ in range(n)]
    for w in workers:
        tree.register(w.address)
    lb = world.resumelb({'tree': 'directory:%s' % tree.path, 'start_wait': '100ms', 'resume': 'measure',
                         'state_dir': str(world.directory / 'state'), **config}, wait=False)
    wait_until(lb.listening, 'the load balancer')
    wait_until(lambda: set(lb.workers()) == {w.address for w in workers}, 'the workers')
    return lb, tree, workers


def test_a_rejected_value_is_reported_with_path_value_and_reason(world):
    lb, tree, _ = balancer(world)
    tree.set(variance='lots', retries=3)
    wait_until(lambda: setting(lb, 'retries')['value'] == '3', 'the good one')
    rejected, = lb.app()['rejected']
    assert rejected['path'] == '/' and rejected['name'] == 'variance' and rejected['value'] == 'lots' and rejected['why']
    line = lb.process.wait_logged('setting-rejected')[0]
    assert 'path=/ ' in line and 'setting=variance' in line and 'value="lots"' in line and 'reason="' in line
    assert metric(lb, 'resumelb_settings_rejected_total') == 1 and metric(lb, 'resumelb_rejected_settings') == 1
    tree.set(variance=3, retries=3)
    wait_until(lambda: setting(lb, 'variance') == {'value': '3', 'origin': 'tree'}, 'the mended one')
    assert metric(lb, 'resumelb_settings_rejected_total') == 1 and metric(lb, 'resumelb_rejected_settings') == 0
    tree.set()
    wait_until(lambda: setting(lb, 'variance') == {'value': '4', 'origin': 'default'}, 'the default')


def test_null_is_absent_and_whole_numbers_lose_their_fraction(world):
    lb, tree, _ = balancer(world, retries=5)
    tree.set('limits/reports', path='prefix:/reports/', workers=4.9, maxqueue=None)
    tree.set(retries=7.9, variance=4.5)
    wait_until(lambda: setting(lb, 'retries') == {'value': '7', 'origin': 'tree'}, 'the whole number')
    assert setting(lb, 'variance') == {'value': '4.5', 'origin': 'tree'}
    tree.set(retries=None, variance=None)
    wait_until(lambda: setting(lb, 'retries') == {'value': '5', 'origin': 'yaml'}, "the configuration file's value")
    assert setting(lb, 'variance') == {'value': '4', 'origin': 'default'} and lb.app()['rejected'] == []
    wait_until(lambda: [r['settings']['workers']['value'] for r in lb.app()['limits']] == ['4'], 'the limit')
    rule, = lb.app()['limits']
    assert rule['in_force'] and rule['rejected'] == [] and rule['settings']['maxqueue']['origin'] == 'default'
    agent = TinyAgent(world).wait_ready()
    agent.write_node({'history': 7.9, 'max_processes': None})
    wait_until(lambda: agent.app()['settings']['history'] == {'value': '7', 'origin': 'tree'}, "the agent's setting")
    assert agent.app()['rejected'] == []


def test_settings_that_run_code_or_open_listeners_are_rejected_from_the_tree(world):
    lb, tree, _ = balancer(world)
    bad = {'classifier': 'plugin', 'tree': 'zookeeper://evil:1', 'tree_path': '/x', 'error_page': '/etc/passwd',
           'zookeeper_auth': '/etc/shadow', 'workers': '10.0.0.1:80', 'hosts': 'evil.example'}
    tree.set(retries=5, **bad)
    wait_until(lambda: setting(lb, 'retries')['value'] == '5', 'the good one')
    rejected = {r['name']: r['why'] for r in lb.app()['rejected']}
    assert set(rejected) == set(bad) and all('configuration file only' in why for why in rejected.values())
    for name in bad:
        assert any('setting-rejected' in line for line in lb.process.wait_logged(f'setting={name} '))
    agent = TinyAgent(world).wait_ready()
    bad = {'command': '/bin/evil', 'user': 'root', 'environment': 'x', 'address': '0.0.0.0:1', 'root': '/tmp'}
    unknown = ['odd', 'strange', 'utterly strange']
    agent.write_node({'history': 7, **bad, **dict.fromkeys(unknown, 1)})
    wait_until(lambda: agent.app()['settings']['history']['value'] == '7', 'the good one')
    assert {r['name'] for r in agent.app()['rejected']} == set(bad)
    assert agent.figures()['rejected_settings'] == len(bad)
    for name in unknown:
        line, = agent.process.wait_logged(f'setting="{name}"')
        assert 'setting-unknown' in line


def test_a_node_that_goes_is_held_and_then_given_up(world):
    lb, tree, _ = balancer(world)
    file = tree.path / 'properties.json'
    spoils = (lambda: file.write_text('{"retries": '), file.unlink)
    for hold, spoil in itertools.product(('1h', '1ms'), spoils):
        if hold == '1ms':
            lb.change(settings_hold=hold)
        tree.set(retries=7)
        wait_until(lambda: setting(lb, 'retries')['value'] == '7' and not lb.app()['held'], 'the setting')
        spoil()
        if hold == '1h':
            wait_until(lambda: lb.app()['held'], 'it to be held')
            assert setting(lb, 'retries') == {'value': '7', 'origin': 'tree'}
            assert metric(lb, 'resumelb_settings_held') == 1
            continue
        wait_until(lambda: setting(lb, 'retries') == {'value': '2', 'origin': 'default'}, 'it to be given up')
        assert not lb.app()['held']
    lb.process.wait_logged('tree-node-invalid path=/ reason="properties.json: ')
    # away and back in time: nothing happened
    lb.change(settings_hold='1h')
    tree.set(retries=7)
    wait_until(lambda: setting(lb, 'retries')['value'] == '7', 'the setting')
    file.unlink()
    wait_until(lambda: lb.app()['held'], 'it to be held')
    tree.set(retries=7)
    wait_until(lambda: not lb.app()['held'], 'it to be back')
    assert setting(lb, 'retries') == {'value': '7', 'origin': 'tree'}


def shown(program):
    """The output of `resumelbctl status`."""
    return ctl('status', '--address', program.admin).out


def test_a_link_that_does_not_resolve_is_a_warning_until_it_does(world):
    lb, tree, _ = balancer(world)
    tree.set(**{'workers ->': '/nowhere', 'retries =>': '../defaults'})
    wait_until(lambda: len(lb.app()['broken_links']) == 2, 'both links')
    tree.set(**{'workers ->': '/nowhere', 'retries': 7})
    wait_until(lambda: setting(lb, 'retries')['value'] == '7', 'the setting')
    link = '/: link workers -> /nowhere: node /nowhere does not exist; create it or correct the link'
    assert lb.app()['broken_links'] == [link]
    assert link in shown(lb)
    w = world.scripted(serve(hello))
    tree.register(w.address, node='nowhere')
    wait_until(lambda: set(lb.workers()) == {w.address}, 'the worker')
    wait_until(lambda: lb.app()['broken_links'] == [], 'the link to resolve')
    assert 'nowhere' not in shown(lb)
    wait_until(lambda: lb.process.output().count(' tree-links-resolved ') == 2, 'both links to be reported')
    broken = lb.process.wait_logged(' warn tree-link-broken ')
    assert [line for line in broken if 'path=/workers reason="%s" action="' % link in line] and len(broken) == 2


def test_an_agents_link_that_does_not_resolve_is_a_warning(world):
    agent = TinyAgent(world).wait_ready()
    agent.write_node({'history =>': '/defaults'})
    wait_until(lambda: len(agent.app()['broken_links']) == 1, 'the link')
    problem, = agent.app()['broken_links']
    assert 'property link history =>: node /defaults does not exist' in problem
    assert 'node /defaults does not exist' in shown(agent)
    # In one step, as a node without properties would cause another warning.
    (agent.tree.parent / 'defaults').mkdir()
    (agent.tree.parent / 'defaults' / 'properties.json').write_text('{"history": 7}')
    (agent.tree.parent / 'defaults').rename(agent.tree / 'defaults')
    wait_until(lambda: agent.app()['broken_links'] == [], 'the link to resolve')
    assert agent.app()['settings']['history'] == {'value': '7', 'origin': 'tree'}
    assert len(agent.process.wait_logged(' tree-links-resolved ')) == 1
    assert len(agent.process.wait_logged(' warn tree-link-broken ')) == 1


def test_a_restart_with_the_tree_wiped_continues_with_what_it_reported_last(world):
    lb, tree, workers = balancer(world, 3)
    tree.set(retries=7)
    wait_until(lambda: setting(lb, 'retries')['value'] == '7', 'the setting')
    memory = world.directory / 'state' / 'default' / 'tree.json'

    def kept():
        parts = json.loads(memory.read_text())['parts'] if memory.exists() else {}
        return len(parts.get('providers', {})) == 3 and parts.get('settings', {}).get('retries') == 7
    wait_until(kept, 'the memory')
    assert memory.stat().st_mode & 0o777 == 0o600
    lb.kill()
    shutil.rmtree(tree.path)
    lb.start(wait=False)
    wait_until(lb.listening, 'the load balancer')
    assert lb.get().body == b'hello'
    assert set(lb.workers()) == {w.address for w in workers}
    assert setting(lb, 'retries') == {'value': '7', 'origin': 'tree'} and lb.app()['held']
    assert lb.app()['tree']['held'] == 3 and metric(lb, 'resumelb_tree_held_workers') == 3
    # the tree is complete again
    tree.held.clear()
    for w in workers:
        tree.register(w.address)
    tree.set(retries=6)
    wait_until(lambda: (tree := lb.app()['tree'])['held'] == 0 and tree['providers'] == 3, 'the workers')
    wait_until(lambda: setting(lb, 'retries')['value'] == '6' and not lb.app()['held'], 'the setting')


def test_a_start_without_a_response_uses_what_is_remembered(world):
    w = world.scripted(serve(hello))
    directory = world.directory / 'state' / 'default'
    directory.mkdir(parents=True)
    url = 'zookeeper://127.0.0.1:1/none'
    (directory / 'tree.json').write_text(json.dumps({
        'v': 1, 'tree': url + ' ', 'saved': int(time.time()) - 60,
        'parts': {'settings': {'retries': 7, 'error_page': '/etc/passwd'}, 'providers': {w.address: {'version': '2'}}}}))
    lb = world.resumelb({'tree': url, 'provider_networks': ['loopback'], 'state_dir': str(world.directory / 'state'),
                         'resume': 'measure', 'tree_start_wait': '300ms'})
    assert lb.get().body == b'hello'
    tree = lb.app()['tree']
    assert tree['remembered'] and 55 < tree['remembered_age_s'] < 600 and not tree['connected']
    assert setting(lb, 'retries')['value'] == '7' and lb.app()['remembered']
    assert [r['name'] for r in lb.app()['rejected']] == ['error_page']
    assert metric(lb, 'resumelb_tree_remembered') == 1 and metric(lb, 'resumelb_tree_connected') == 0


def test_an_agent_remembers_its_settings(world):
    agent = TinyAgent(world, history=100).wait_ready()
    agent.write_node({'history': 7})
    wait_until(lambda: agent.app()['settings']['history']['value'] == '7', 'the setting')
    state = world.directory / 'agent-state'
    memory = next(iter(wait_until(lambda: list(state.glob('*/tree.json')), 'the memory')))
    wait_until(lambda: json.loads(memory.read_text())['parts'].get('settings') == {'history': 7}, 'its content')
    agent.process.stop()
    shutil.rmtree(agent.tree)
    agent.start()
    agent.wait_ready()
    assert agent.app()['settings']['history'] == {'value': '7', 'origin': 'tree'} and agent.app()['held']


def test_registrations_that_flap_make_no_second_worker_and_no_new_connections(world):
    lb, tree, workers = balancer(world, 4, pool={'policy': 'classless'}, threads='1')
    for _ in range(8):
        lb.get()
    opened = {name: w['connections']['opened'] for name, w in lb.workers().items()}
    for i in range(200):
        w = workers[i % 4]
        tree.end(w.address)
        tree.register(w.address)
        if i % 20 == 0:
            assert lb.get().status == 200
            assert len(lb.app()['workers']) == 4
    wait_until(lambda: lb.app()['tree']['providers'] == 4, 'all to be registered')
    assert {name: w['connections']['opened'] for name, w in lb.workers().items()} == opened


def test_we_are_registered_with_what_others_want_to_know(world):
    lb, tree, _ = balancer(world, advertise=['lb1.example', '192.0.2.1:80'], description='the first one')
    directory = tree.path / 'providers'
    wait_until(lambda: lb.app()['tree']['registered'], 'the registration')
    assert {f.name for f in directory.iterdir()} == {'lb1.example:%d' % lb.port, '192.0.2.1:80'}
    facts = json.loads((directory / '192.0.2.1:80').read_text())
    assert facts['pid'] == lb.process.pid and facts['description'] == 'the first one' and facts['admin'] == lb.admin
    assert facts['application'] == 'default' and facts['version']
    assert facts['classifier_fingerprint'] == lb.app()['fingerprint']


def test_applications_share_one_tree(world):
    tree = Tree(world.directory / 'tree')
    a, b = world.scripted(serve(hello)), world.scripted(serve(hello))
    tree.register(a.address, node='one/workers')
    tree.register(b.address, node='two/workers')
    url = 'directory:%s' % tree.path
    lb = world.resumelb({'applications': {
        'one': {'tree': url, 'tree_path': '/one', 'hosts': ['one.example'], 'resume': 'measure'},
        'two': {'tree': url, 'tree_path': '/two', 'hosts': ['two.example'], 'resume': 'measure'}}})
    wait_until(lambda: set(lb.workers('one')) == {a.address} and set(lb.workers('two')) == {b.address}, 'the workers')
    assert lb.get(host='one.example').status == 200 and a.requests and not b.requests
    (tree.path / 'two' / 'properties.json').write_text('{"retries": 9}')
    wait_until(lambda: lb.app('two')['settings']['retries']['value'] == '9', 'the setting')
    assert lb.app('one')['settings']['retries']['value'] == '2'
