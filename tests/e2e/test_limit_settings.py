# SPDX-License-Identifier: Apache-2.0
"""Configuration of limits: YAML, overlays from the tree, rules only in the tree, rejected settings, SIGHUP; with a directory
and with ZooKeeper."""
import json
import shutil
import subprocess
import threading

import pytest
from support.base import BIN, LIMIT, PACE, ROOT, wait_until
from support.http import Client
from support.scripted import hello, serve
from test_waiting import Tree
from zookeeper_support import Place

DATABASE = {'workers': 4, 'match': {'path': 'prefix:/report'}}


class DirectoryTree:
    """The application's node in a directory."""

    def __init__(self, world, _):
        self.tree = Tree(world.directory / 'tree')
        self.url = 'directory:%s' % self.tree.path

    def set(self, name, **properties):
        self.tree.set('limits/' + name, **properties)

    def remove(self, name):
        shutil.rmtree(self.tree.path / 'limits' / name)


class ZooKeeperTree:
    """The application's node in ZooKeeper."""

    def __init__(self, world, server):
        self.place = Place(world, server=server)
        self.url = self.place.url()

    def set(self, name, **properties):
        self.place.tree.set_raw('/limits/' + name, json.dumps(properties).encode())

    def remove(self, name):
        self.place.tree.remove('/limits/' + name)


@pytest.fixture(params=[DirectoryTree, ZooKeeperTree], ids=['directory', 'zookeeper'])
def tree(request, world, zookeeper_server):
    return request.param(world, zookeeper_server)


def balancer(world, tree, **config):
    w = world.scripted(serve(hello))
    return world.resumelb({'tree': tree.url, 'workers': [w.address], 'state_dir': str(world.directory / 'state'),
                           'settings_hold': '300ms', **config})


def limits(lb):
    return {one['name']: one for one in lb.app()['limits']}


def value(lb, name, setting):
    """The setting as (value, origin), or None if the rule does not exist."""
    one = limits(lb).get(name)
    return one and (one['settings'][setting]['value'], one['settings'][setting]['origin'])


def rejected(lb, name):
    return {r['name']: r['why'] for r in limits(lb)[name]['rejected']}


def test_the_tree_goes_over_the_file_and_gives_it_back(world, tree):
    lb = balancer(world, tree, limits={'database': DATABASE})
    assert value(lb, 'database', 'workers') == ('4', 'yaml') and value(lb, 'database', 'timeout') == ('5s', 'default')
    tree.set('database', workers=2, timeout='1s')
    wait_until(lambda: value(lb, 'database', 'workers') == ('2', 'tree'), 'the overlay')
    assert value(lb, 'database', 'timeout') == ('1s', 'tree')
    assert value(lb, 'database', 'path') == ('prefix:/report', 'yaml')
    tree.set('database', timeout='1s')
    wait_until(lambda: value(lb, 'database', 'workers') == ('4', 'yaml'), 'what the file says')
    tree.remove('database')
    wait_until(lambda: value(lb, 'database', 'timeout') == ('5s', 'default'), 'the hold to end')


def test_a_rule_of_the_tree_alone_comes_and_goes(world, tree):
    lb = balancer(world, tree)
    assert lb.app()['limits'] == []
    tree.set('search', workers=2, **{'class': 'prefix:search'})
    wait_until(lambda: value(lb, 'search', 'workers') == ('2', 'tree'), 'the rule')
    one = limits(lb)['search']
    assert one['origin'] == 'tree' and one['in_force'] and one['settings']['class']['value'] == 'prefix:search'
    tree.remove('search')
    wait_until(lambda: not limits(lb), 'the rule to go')
    assert lb.get().body == b'hello'


def test_a_rule_of_the_tree_states_how_many_of_what(world, tree):
    lb = balancer(world, tree)
    tree.set('rest', timeout='1s')
    wait_until(lambda: 'rest' in limits(lb) and 'has no property workers' in limits(lb)['rest']['why'], 'the reason')
    assert not limits(lb)['rest']['in_force']
    tree.set('rest', workers=3, key='{HTTP_X_TENANT}')
    wait_until(lambda: limits(lb)['rest']['in_force'], 'the rule')
    assert value(lb, 'rest', 'key') == ('{HTTP_X_TENANT}', 'tree')


def test_an_invalid_property_is_rejected_with_its_reason_and_the_others_apply(world, tree):
    lb = balancer(world, tree, limits={'database': DATABASE})
    tree.set('database', workers='many', maxqueue=50, page='/etc/passwd', match='x', mode='any')
    wait_until(lambda: value(lb, 'database', 'maxqueue') == ('50', 'tree'), 'the good one')
    assert value(lb, 'database', 'workers') == ('4', 'yaml')
    why = rejected(lb, 'database')
    assert set(why) == {'workers', 'page', 'match', 'mode'} and 'configuration file only' in why['page']
    assert 'shares responses' in why['mode'] and value(lb, 'database', 'mode') == ('each', 'default')
    tree.set('database', workers=60, maxqueue=50)
    wait_until(lambda: 'is above maxqueue' in rejected(lb, 'database').get('workers', ''), 'the rejection')
    assert value(lb, 'database', 'workers') == ('4', 'yaml')
    tree.set('database', maxqueue=50, path='regex:(')
    wait_until(lambda: 'at its character 2' in rejected(lb, 'database').get('path', ''), 'the rejection')
    assert value(lb, 'database', 'path') == ('prefix:/report', 'yaml')
    line = lb.process.wait_logged('setting-rejected')[0]
    assert 'limit_name=database' in line and 'path=/limits/database' in line


def test_sighup_adds_changes_and_removes_rules_or_does_nothing(world, tree):
    lb = balancer(world, tree, limits={'a': {'workers': 1}, 'b': {'workers': 2}})
    tree.set('b', timeout='1s')
    wait_until(lambda: value(lb, 'b', 'timeout') == ('1s', 'tree'), 'the overlay')
    lb.reload({'limits': {'c': {'workers': 3}, 'b': {'workers': 4}}})
    wait_until(lambda: list(limits(lb)) == ['c', 'b'], 'the other rules')
    assert value(lb, 'b', 'workers') == ('4', 'yaml') and value(lb, 'b', 'timeout') == ('1s', 'tree')
    lb.reload({'limits': {'c': {'workers': 9}, 'd': {'key': '{NOTHING}'}}})
    wait_until(lambda: 'config-reload-failed' in lb.process.output(), 'the rejection')
    assert list(limits(lb)) == ['c', 'b'] and value(lb, 'c', 'workers') == ('3', 'yaml')
    # settings in the tree of a rule that was removed do not become a rule for all requests
    tree.set('b', workers=1)
    wait_until(lambda: value(lb, 'b', 'workers') == ('1', 'tree'), 'the overlay')
    lb.reload({'limits': {'c': {'workers': 5}}})
    wait_until(lambda: value(lb, 'c', 'workers') == ('5', 'yaml'), 'the change')
    assert not limits(lb)['b']['in_force'] and 'none of key' in limits(lb)['b']['why']


def test_a_restart_with_the_tree_wiped_continues_with_what_it_reported_last(world):
    tree = DirectoryTree(world, None)
    lb = balancer(world, tree, limits={'database': DATABASE}, settings_hold='1h')
    tree.set('database', workers=2)
    tree.set('search', workers=3, key='all')
    memory = world.directory / 'state' / 'default' / 'tree.json'

    def kept():
        parts = json.loads(memory.read_text())['parts'] if memory.exists() else {}
        return 'limits/database' in parts and 'search' in parts.get('limits', {}) and \
            parts.get('limits/search') == {'workers': 3, 'key': 'all'}
    wait_until(kept, 'the memory')
    lb.kill()
    shutil.rmtree(tree.tree.path)
    lb.start()
    wait_until(lambda: value(lb, 'search', 'workers') == ('3', 'tree'), 'the rule')
    wait_until(lambda: limits(lb)['search']['held'] and limits(lb)['database']['held'], 'them to be held')
    assert value(lb, 'database', 'workers') == ('2', 'tree')


def test_more_workers_let_those_continue_that_wait_and_fewer_bind_at_once(world, tree):
    gate = threading.Event()

    def respond(c, head, body):
        gate.wait(LIMIT)
        c.respond(b'slow')
    slow = world.scripted(serve(respond))
    lb = world.resumelb({'tree': tree.url, 'workers': [slow.address],
                         'limits': {'all': {'key': 'all', 'workers': 1, 'timeout': '10m'}}})

    def rejected():
        # Each loop applies new settings in its next iteration: an earlier request waits with the old time-out.
        with Client(lb.address, seconds=LIMIT / 10) as c:
            c.send()
            try:
                return c.receive().status == 503
            except TimeoutError:
                return False
    with Client(lb.address) as a, Client(lb.address) as b:
        a.send()
        wait_until(lambda: len(slow.requests) == 1, 'the first request')
        b.send()
        wait_until(lambda: lb.app()['stats']['waiting_for_limit'] == 1, 'the second to wait')
        tree.set('all', workers=2)
        wait_until(lambda: len(slow.requests) == 2, 'the second request')
        tree.set('all', workers=1, timeout='0s')
        wait_until(lambda: value(lb, 'all', 'workers') == ('1', 'tree'), 'the change')
        wait_until(rejected, 'the third to be rejected at once')
        gate.set()
        assert a.receive().body == b.receive().body == b'slow'


def test_a_daemon_that_the_tree_asks_for_and_none_named_is_notified_of_and_servers_may_come_later(world):
    tree = DirectoryTree(world, None)
    lb = balancer(world, tree)
    tree.set('all', key='all', workers=1, where='daemon')
    wait_until(lambda: value(lb, 'all', 'where') == ('daemon', 'tree'), 'the rule')
    wait_until(lambda: 'limits-without-servers application=default' in lb.process.output(), 'the warning')
    assert lb.get().body == b'hello', 'on_unreachable is open'
    tree.set('all', key='all', workers=1, where='daemon', on_unreachable='closed', status=529)
    wait_until(lambda: value(lb, 'all', 'on_unreachable') == ('closed', 'tree'), 'the change')
    wait_until(lambda: lb.get().status == 529, 'the rejection')
    tree.tree.set('', pool_counter_servers='counter.example:7531')
    wait_until(lambda: 'host name is not permitted' in str(lb.app()['rejected']), 'the name to be rejected')
    tree.tree.set('', pool_counter_servers='127.0.0.1:1, [::1]:1')
    wait_until(lambda: lb.app()['settings']['pool_counter_servers'] ==
               {'value': '127.0.0.1:1, [::1]:1', 'origin': 'tree'}, 'the servers')


def test_rules_that_change_all_the_time_lose_no_request(world):
    tree = DirectoryTree(world, None)
    lb = balancer(world, tree, limits={'all': {'key': 'all', 'workers': 2, 'timeout': '10m'}}, settings_hold='1ms')
    over, responses = threading.Event(), []

    def client():
        with Client(lb.address) as c:
            while not over.wait(PACE):
                responses.append(c.request().status)
    threads = [threading.Thread(target=client) for _ in range(8)]
    for t in threads:
        t.start()
    try:
        for i in range(40):
            workers = str(1 + i % 7)
            tree.set('all', workers=workers, slots=int(workers) + i % 2)
            tree.set('more', workers=1 + i % 5, key='{class}{PATH_INFO}', path='regex:^/')
            if i % 10 == 5:
                lb.reload({'limits': {'all': {'key': 'all', 'workers': 2, 'timeout': '%dm' % (20 + i)}}})
            wait_until(lambda: value(lb, 'all', 'workers') == (workers, 'tree') and value(lb, 'more', 'workers'), 'the rules')
            if i % 4 == 3:
                tree.remove('more')
                wait_until(lambda: 'more' not in limits(lb), 'the rule to go')
        wait_until(lambda: len(responses) > 100, 'responses')
    finally:
        over.set()
        for t in threads:
            t.join(LIMIT)
    assert not any(t.is_alive() for t in threads), 'a request waits for ever'
    assert set(responses) == {200}
    wait_until(lambda: lb.app()['stats']['requests_active'] == 0, 'no request to be active')


def test_t_states_where_each_mistake_is(world):
    path = world.directory / 'bad.yaml'
    path.write_text('listen: ["127.0.0.1:0"]\nworkers: ["127.0.0.1:1"]\npool_counter_servers: ["counter.example:7531"]\n'
                    'limits:\n  a:\n    match: {path: "regex:("}\n  b: {key: "{class"}\n')
    p = subprocess.run([BIN / 'resumelb', '-t', '-c', path], capture_output=True, text=True, timeout=LIMIT)
    assert p.returncode == 1
    for place, words in (('3:24', 'host name is not permitted'), ('6:19', 'at its character 2'), ('7:12', 'without }')):
        assert any(line.startswith('%s:%s: ' % (path, place)) and words in line for line in p.stderr.splitlines()), p.stderr


def test_the_manual_s_examples_are_taken(world):
    section = (ROOT / 'docs' / 'guide' / 'limits.md').read_text().split('\n## Concurrency limits\n')[1].split('\n## ')[0]
    block = section.split('```yaml\n')[1].split('```')[0]
    path = world.directory / 'manual.yaml'
    path.write_text('listen: ["127.0.0.1:0"]\nworkers: ["127.0.0.1:1"]\n' + block)
    p = subprocess.run([BIN / 'resumelb', '-t', '-c', path], capture_output=True, text=True, timeout=LIMIT)
    assert p.returncode == 0, p.stderr


def test_the_example_tree_s_rules_are_effective(world):
    root = world.directory / 'tree'
    subprocess.run([BIN / 'resumelbctl', 'tree', '--tree', 'directory:%s' % root, 'import', ROOT / 'conf' / 'example.tree'],
                   check=True, capture_output=True, timeout=LIMIT)
    w = world.scripted(serve(hello))
    lb = world.resumelb({'tree': 'directory:%s/site/shop' % root, 'workers': [w.address]})
    wait_until(lambda: {n: one['in_force'] for n, one in limits(lb).items()} == {'per-site': True, 'reports': True},
               'the rules')
    assert value(lb, 'per-site', 'key') == ('{SERVER_NAME}', 'tree') and value(lb, 'reports', 'shadow') == ('true', 'tree')
    assert lb.get().body == b'hello'
