# SPDX-License-Identifier: Apache-2.0
"""resumelbctl tree, with a real ZooKeeper and with a directory: export returns what was imported, and other data is preserved."""
import contextlib
import json
import os
import re
import subprocess
import threading

import pytest
from kazoo.security import make_digest_acl

from agent_support import TinyAgent
from ctl_support import provider_file
from support.base import BIN, LIMIT, ROOT, wait_until
from support.zookeeper import OPEN_ACL_UNSAFE, Proxy, Server, Tree, connect

TALK = '''\
/ghm
  /databases
    /main
      engine = 'postgres'
      threads => /lb variance
      /providers
/lb : load balancer
  variance = 4
  main -> /ghm/databases/main
  /providers
'''


class Response:
    def __init__(self, done):
        self.code, self.out = done.returncode, done.stdout.decode(errors='surrogateescape')
        self.error = done.stderr.decode(errors='replace')


class Tool:
    """resumelbctl tree for one URL. A call passes the further arguments, and checks that the exit code is `code`."""

    def __init__(self, url):
        self.url = url

    def argv(self, words):
        return [str(w) for w in (BIN / 'resumelbctl', 'tree', '--tree', self.url, '--timeout', '600', *words)]

    def __call__(self, *words, code=0, text=None):
        done = subprocess.run(self.argv(words), input=text.encode() if text is not None else b'', capture_output=True,
                              timeout=LIMIT)
        response = Response(done)
        assert response.code == code, (words, response.code, response.out, response.error)
        assert 'Sanitizer' not in response.error and 'assertion failed' not in response.error, response.error
        return response

    def load(self, text, *words, **kw):
        return self('import', '-', *words, text=text, **kw)

    def start(self, *words):
        return subprocess.Popen(self.argv(words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)


class ZooKeeperPlace:
    """The ZooKeeper server of the module, empty, with a kazoo client. The tree is the whole server."""

    def __init__(self, server, client):
        self.client, self.url = client, 'zookeeper://%s' % server.address
        self.tree = Tree(client)
        self.tool = Tool(self.url)
        self.tree.set_raw('', b'')
        for name in self.tree.ask(client.get_children, '/'):
            if name != 'zookeeper':
                self.tree.remove('/' + name)

    @contextlib.contextmanager
    def provider(self, path, name, **properties):
        self.tree.register(path, name, **properties)
        yield
        self.tree.unregister(path, name)

    def raw(self, path):
        return self.tree.ask(self.client.get, self.tree.path(path))[0]

    def put_raw(self, path, data):
        self.tree.set_raw(path, data)


class DirectoryPlace:
    def __init__(self, place):
        self.root = place / 'tree'
        self.url = 'directory:%s' % self.root
        self.tool = Tool(self.url)

    def provider(self, path, name, **properties):
        return provider_file(self.root / path.strip('/') / 'providers', name, {'pid': 1, **properties})

    def raw(self, path):
        file = self.root / path.strip('/') / 'properties.json'
        return file.read_bytes() if file.exists() else b''

    def put_raw(self, path, data):
        place = self.root / path.strip('/')
        place.mkdir(parents=True, exist_ok=True)
        (place / 'properties.json').write_bytes(data)


@pytest.fixture(scope='module', autouse=True)     # set up before any test, as otherwise the server would count as left running by a test
def server(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp('zookeeper')).start()
    yield s
    s.stop()


@pytest.fixture(scope='module')
def client(server):
    c = connect(server.address)
    yield c
    c.stop()
    c.close()


@pytest.fixture
def zookeeper(server, client):
    return ZooKeeperPlace(server, client)


@pytest.fixture
def directory(tmp_path):
    return DirectoryPlace(tmp_path)


@pytest.fixture(params=['zookeeper', 'directory'])
def place(request):
    return request.getfixturevalue(request.param)


# ---- in and out ----

def test_tree_of_the_talk_is_the_same_in_both_places(zookeeper, directory):
    for place in (zookeeper, directory):
        assert place.tool.load(TALK).out == ''
        assert place.tool('export').out == TALK
        assert place.tool('print').out == TALK
        assert place.tool('export', '/lb').out == TALK[TALK.index('/lb : '):]
        assert json.loads(place.tool('get', '/lb').out) == {'type': 'load balancer', 'variance': 4}
        assert place.tool('get', '/ghm/databases/main', 'threads').out == '4\n'
        # the path contains a node link
        assert place.tool('get', '/lb/main', 'engine').out == '"postgres"\n'
    assert zookeeper.tree.properties('/lb') == {'type': 'load balancer', 'variance': 4, 'main ->': '/ghm/databases/main'}
    assert zookeeper.tree.properties('/ghm/databases/main') == {'engine': 'postgres', 'threads =>': '/lb variance'}
    assert zookeeper.raw('/ghm/databases') == b''
    assert b' ' not in zookeeper.raw('/lb').replace(b'main ->', b'').replace(b'load balancer', b'')


def test_export_goes_to_a_file_and_back_from_it(place, tmp_path):
    place.tool.load(TALK)
    file = tmp_path / 'kept.tree'
    assert place.tool('export', '--output', file).out == ''
    assert file.read_text() == TALK
    assert place.tool('diff', file).out == ''
    assert place.tool('import', file, '/copy/of').out == ''
    assert place.tool('export', '/copy/of').out == '/of\n' + ''.join('  %s\n' % s for s in TALK.splitlines())
    assert place.tool('diff', file, '/copy/of').out == ''


def test_example_in_conf_is_imported_and_its_links_lead_somewhere(place):
    place.tool('import', ROOT / 'conf' / 'example.tree')
    once = place.tool('export').out
    assert place.tool.load(once).out == ''
    assert place.tool('export').out == once
    assert json.loads(place.tool('get', '/site/shop').out) == {
        'type': 'a web shop', 'variance': 4.0, 'connection_wait_timeout': '5s', 'backlog_history': 9, 'retries': 2,
        'unskilled_score': 1.0}
    assert json.loads(place.tool('get', '/site/shop/workers').out) == {'history': 9999}
    assert json.loads(place.tool('get', '/site/shop/database').out) == {'type': 'postgres'}
    assert json.loads(place.tool('get', '/site/shop/limits/per-site').out) == {
        'key': '{SERVER_NAME}', 'maxqueue': 100, 'timeout': '5s', 'workers': 8}


def below(url, path):
    """Settings that refer to the node PATH of the tree at URL in all possible ways."""
    yield {'tree': url, 'tree_path': path}
    if url.startswith('zookeeper:'):
        yield {'tree': url + path}


def test_settings_in_the_example_are_in_effect(world, place):
    place.tool('import', ROOT / 'conf' / 'example.tree')
    expected = {'variance': '4', 'connection_wait_timeout': '5s', 'backlog_history': '9', 'retries': '2', 'unskilled_score': '1'}
    for i, tree in enumerate(below(place.url, '/site/shop')):
        lb = world.resumelb({'applications': {'shop': tree}}, wait=False, name='lb%d' % i)
        wait_until(lb.listening, 'the load balancer')
        settings = wait_until(lambda: (s := lb.app('shop')['settings'])['variance']['origin'] == 'tree' and s, 'the settings')
        assert {name: settings[name] for name in expected} == \
            {name: {'value': value, 'origin': 'tree'} for name, value in expected.items()}
        assert lb.app('shop')['rejected'] == [] and lb.app('shop')['problem'] is None
        wait_until(lambda: {r['name']: r['in_force'] for r in lb.app('shop')['limits']} == {'per-site': True, 'reports': True},
                   'the limits')
        place.tool('set', '/site/defaults', 'variance=%d' % (i + 5))
        wait_until(lambda: lb.app('shop')['settings']['variance']['value'] == str(i + 5), 'the value that is linked to')
        place.tool('set', '/site/defaults', 'variance=4')


def test_an_agent_serves_the_example_and_an_application_of_another_name_rejects_its_workers(world, place):
    place.tool('import', ROOT / 'conf' / 'example.tree')
    place.tool.load('/beta\n  workers -> ../shop/workers\n', '/site')
    agent = TinyAgent(world, app='shop', path='/site/shop/workers', top={'tree': place.url, 'host_path': '/site/hosts/app1'})
    wait_until(lambda: agent.ready() and agent.json()['max_processes'] == 8, 'the agent, with the setting of its host')
    applications = {name: {'hosts': [name + '.example'], 'tree': place.url, 'tree_path': '/site/' + name,
                           'provider_networks': ['loopback'], 'worker_wait_timeout': '100ms'} for name in ('shop', 'beta')}
    lb = world.resumelb({'applications': applications}, wait=False)
    wait_until(lambda: lb.listening() and lb.get(host='shop.example').status == 200, 'a response of the worker')
    # A worker of no stated application is reachable by both paths.
    with place.provider('/site/shop/workers', '127.0.0.1:1'):
        for name in applications:
            wait_until(lambda: '127.0.0.1:1' in lb.workers(name), 'the worker that is linked to')
    wait_until(lambda: lb.workers('beta') == {}, 'no worker')
    assert lb.app('beta')['tree']['provider_rejections'] == [{'name': agent.address, 'why': 'it is registered for another application'}]
    assert lb.app('shop')['tree']['provider_rejections'] == []
    assert lb.get(host='beta.example').status == 503


def test_a_url_with_a_path_begins_there_and_links_lead_out_of_it(zookeeper):
    zookeeper.tool('import', ROOT / 'conf' / 'example.tree')
    shop = Tool(zookeeper.url + '/site/shop')
    assert json.loads(shop('get', '/', 'variance').out) == 4
    assert json.loads(shop('get', '/database').out) == {'type': 'postgres'}
    assert '/limits\n  /per-site\n' in shop('print').out
    shop('set', '/database', 'size=1')
    assert zookeeper.tree.properties('/site/databases/main') == {'type': 'postgres', 'size': 1}
    assert shop.load('/new\n', '--dry-run', '--no-trim').out == 'add /site/shop/new\n'
    assert 'leaves the tree' in shop('set', '/../x', 'a=1', '--create', code=1).error
    # A missing path is created.
    Tool(zookeeper.url + '/made/of/old').load('/a\n  x = 1\n')
    assert zookeeper.tree.properties('/made/of/old/a') == {'x': 1}


# ---- what others wrote ----

def test_nodes_that_kazoo_wrote_are_read(zookeeper):
    t = zookeeper.tree
    t.set_raw('/json', json.dumps({'b': [1, 2.5, None, True], 'a': 'ä'}, separators=(',', ':')).encode())
    t.set_raw('/pretty', b' {\n "a": 1 }\n')
    t.set_raw('/raw', 'plain text, ä'.encode())
    t.set_raw('/empty', b'')
    with zookeeper.provider('/service', '127.0.0.1:8080', pid=4711, version='2'):
        assert zookeeper.tool('print').out == '''\
/empty
/json
  a = 'ä'
  b = [1, 2.5, None, True]
/pretty
  a = 1
/raw
  string_value = 'plain text, ä'
/service
  /providers
    /127.0.0.1:8080
      # a provider
      pid = 4711
      version = '2'
'''
        assert '127.0.0.1' not in zookeeper.tool('export').out
        assert '    /127.0.0.1:8080\n      pid = 4711\n' in zookeeper.tool('export', '--ephemeral').out
    once = zookeeper.tool('export').out
    zookeeper.tool.load(once, '/copy')
    for path in ('/json', '/raw', '/empty'):
        assert zookeeper.raw('/copy' + path) == (zookeeper.raw(path) if path != '/json' else
                                                 '{"a":"ä","b":[1,2.5,null,true]}'.encode())


def test_providers_are_marked(place):
    place.tool.load('/s\n  /providers\n')
    with place.provider('/s', '127.0.0.1:80'):
        assert '    /127.0.0.1:80\n      # a provider\n      pid = 1\n' in place.tool('print', '/s').out
        assert place.tool('export').out == '/s\n  /providers\n'
        error = place.tool('set', '/s/providers/127.0.0.1:80', 'pid=2', code=1).error
        assert 'belongs to the process that registered it' in error
    assert place.tool('print').out == '/s\n  /providers\n'


def test_garbage_is_shown_and_survives(zookeeper):
    t, tool = zookeeper.tree, zookeeper.tool
    large = b'{"a": "' + b'x' * 1000000 + b'"}'
    garbage = {'/bad': b'{"a": 1,}', '/twice': b'{"a": 1, "a": 2}', '/binary': bytes(range(256)), '/large': large,
               '/deep': b'{"a": ' + b'[' * 100 + b']' * 100 + b'}', '/nul': b'{"a": "\\u0000"}',
               '/list': b'[1, 2]', '/good': b'{"a":1}'}
    for path, data in garbage.items():
        t.set_raw(path, data)
    odd = ['/a b', '/x=1', '/ümlaut', '/rtl\u202e', '/#', "/it's"]
    for path in odd:
        t.set_raw(path, b'{"a":1}')
    shown = tool('print').out
    assert '/bad\n  # not JSON: line 1, column ' in shown
    assert "/'a b'\n  a = 1\n" in shown and "/'x=1'\n" in shown and '/ümlaut\n' in shown and "/it's\n" in shown
    assert "/u'rtl\\u202e'\n" in shown and '\u202e' not in shown
    assert "  string_value = b'\\x00\\x01" in shown
    assert 'x' * 1000000 in shown
    # the rest is exported, and an import restores it unchanged
    exported = tool('export', code=1)
    assert exported.error.count('not representable in this format') == 3, exported.error
    tool.load(exported.out, '/copy')
    for path in ('/binary', '/list', '/good'):
        assert zookeeper.raw('/copy' + path) == garbage[path]
    assert json.loads(tool('get', '/copy/bad').out) == {'string_value': '{"a": 1,}'}
    # an import of the same text changes nothing
    assert tool.load(exported.out, '--dry-run').out == ''
    tool.load(exported.out)
    for path, data in garbage.items():
        assert zookeeper.raw(path) == data
    assert 'is not JSON' in tool('set', '/bad', 'a=1', code=1).error
    for path in odd:
        assert t.properties(path) == {'a': 1}


def test_names_that_the_format_cannot_state_are_not_trimmed(zookeeper):
    zookeeper.tree.set_raw('/a/b c', b'{}')
    zookeeper.tree.set_raw('/a/d', b'{}')
    path = '/a/b c'
    assert zookeeper.tool.load('/a\n', '--trim').out == 'extra path not trimmed: %s\n' % path
    assert zookeeper.tree.exists('/a/b c') and not zookeeper.tree.exists('/a/d')


def test_servers_own_nodes_are_no_part_of_a_tree(server, zookeeper):
    top = Tool('zookeeper://%s' % server.address)
    zookeeper.tool.load('/a\n')
    out = top('print').out
    assert '/a\n' in out and '/zookeeper\n' not in out


def test_properties_of_the_top_are_shown_and_set(place):
    place.tool.load('/a\n')
    place.tool('set', '/', 'x=1')
    assert place.tool('print').out == 'x = 1\n/a\n'
    assert 'take the node above it' in place.tool('export', code=1).error
    assert place.tool('get', '/', 'x').out == '1\n'


def test_a_tree_is_printed_as_json_for_programs(place):
    place.tool.load('/a : lb\n  x = 1.5\n  main -> /b\n  /c\n    y = "z"\n/b\n')
    assert json.loads(place.tool('print', '--json').out) == {'nodes': {
        'a': {'properties': {'type': 'lb', 'x': 1.5, 'main ->': '/b'}, 'nodes': {'c': {'properties': {'y': 'z'}}}}, 'b': {}}}
    assert json.loads(place.tool('print', '/a/c', '-j').out) == {'nodes': {'c': {'properties': {'y': 'z'}}}}


# ---- import ----

def test_import_over_a_tree_changes_what_differs(place):
    place.tool.load('/test\n  a=1\n  b = 2\n  /c1\n    /c12\n  /c2\n  ae->         /x\n  ad->         /y\n')
    after = '/test\n  a=2\n  /c1\n    /c12\n      a = 1\n      b -> /b\n      /c123\n  ae->         /z\n  p => /q r\n'
    said = '''\
/test a change from 1 to 2
/test remove link ad -> /y
/test ae link change from '/x' to '/z'
/test remove property b = 2
/test add link p => /q r
extra path not trimmed: /test/c2
/test/c1/c12 add property a = 1
/test/c1/c12 add link b -> /b
add /test/c1/c12/c123
'''
    before = place.tool('export').out
    assert place.tool.load(after, '--dry-run').out == said
    assert place.tool('diff', '-', text=after, code=1).out == said
    assert place.tool('export').out == before
    assert place.tool.load(after).out == 'extra path not trimmed: /test/c2\n'
    assert place.tool.load(after, '--no-trim').out == ''
    assert place.tool('diff', '-', '--no-trim', text=after).out == ''
    assert place.tool.load(after, '--trim', '--dry-run').out == 'would delete /test/c2.\n'
    assert place.tool.load(after, '--trim').out == ''
    assert place.tool('diff', '-', text=after).out == ''
    assert place.tool('export').out == '''\
/test
  a = 2
  p => /q r
  ae -> /z
  /c1
    /c12
      a = 1
      b -> /b
      /c123
'''


def test_trimming_spares_providers_and_what_is_above_them(place):
    place.tool.load('/a\n  /keep\n    /service\n      /providers\n    /gone\n  /providers\n')
    with place.provider('/a/keep/service', '10.0.0.1:80'), place.provider('/a', '10.0.0.2:80'):
        text = '/a\n  /providers\n'
        assert place.tool.load(text).out == 'extra path not trimmed: /a/keep\n'
        told = '''\
would delete /a/keep/gone.
would not delete /a/keep/service/providers/10.0.0.1:80: a provider
would not delete /a/keep/service/providers: holds providers
would not delete /a/keep/service: holds providers
would not delete /a/keep: holds providers
'''
        assert place.tool.load(text, '--trim', '--dry-run').out == told
        assert '/gone' in place.tool('export').out
        assert place.tool.load(text, '--trim').out.count('not deleted: ') == 4
        out = place.tool('print').out
        assert '10.0.0.1:80' in out and '10.0.0.2:80' in out and '/gone' not in out
    place.tool.load(text, '--trim')
    assert place.tool('print').out == text


def test_nodes_beside_the_topmost_are_never_touched(place):
    place.tool.load('/a\n  /x\n/b\n')
    assert place.tool.load('/c\n', '--trim').out == ''
    assert place.tool.load('/y\n', '/a', '--trim').out == ''
    assert place.tool('export').out == '/a\n  /x\n  /y\n/b\n/c\n'


def test_bad_text_changes_nothing_and_is_reported_with_its_place(place, tmp_path):
    place.tool.load('/a\n  x = 1\n')
    file = tmp_path / 'bad.tree'
    file.write_text('/a\n  x = 2\n  y = __import__("os")\n')
    assert place.tool('import', file, code=1).error == \
        'resumelbctl: %s:3:7: expected a string, number, list, dict, True, False or None\n' % file
    assert place.tool('diff', file, code=2).out == ''
    assert place.tool('import', tmp_path / 'none', code=1).error == 'resumelbctl: %s: not found\n' % (tmp_path / 'none')
    assert place.tool('export').out == '/a\n  x = 1\n'


# ---- set and get ----

def test_set_changes_single_properties(place):
    place.tool.load('/a\n  x = 1\n  y = 2\n')
    place.tool('set', '/a', 'x=2', 'list=[1,{"k":null}]', 'text=5s', 'quoted="7"', 'eq=a=b->c', 'blank = a b', 'l->/b',
               'p => /c d', '--unset', 'y', '--unset', 'never-there')
    assert place.tool('export').out == '''\
/a
  blank = 'a b'
  eq = 'a=b->c'
  list = [1, {'k': None}]
  p => /c d
  quoted = '7'
  text = '5s'
  x = 2
  l -> /b
'''
    place.tool('set', '/a', '--unset', 'l ->', '--unset', 'p =>')
    assert ' ->' not in place.tool('export').out
    # the node is changed through a link
    place.tool('set', '/a', 'self->/a/b')
    place.tool('set', '/a/b', 'z=1', '--create')
    place.tool('set', '/a/self', 'z=2')
    assert place.tool('get', '/a/b').out == '{"z":2}\n'


def test_set_rejects_what_none_would_take(place):
    place.tool.load('/a\n  x = 1\n')
    before = place.tool('export').out
    assert '--create' in place.tool('set', '/none', 'x=1', code=1).error
    for word in ('x', '=1', 'a b=1', '#x=1', 'a->', 'a->b c', "it's=1", 'a\u202eb=1', 'a=>b c d'):
        place.tool('set', '/a', word, code=2)
    place.tool('set', '/a', code=2)
    assert 'over 1' in place.tool('set', '/a', *['big%d=%s' % (i, 'x' * 100000) for i in range(12)], code=1).error
    deep = 'd=' + '[' * 8 + ']' * 8
    assert 'nested too deep' in place.tool('set', '/a', deep, code=1).error
    assert 'path too long' in place.tool('set', '/' + 'x' * 600, 'a=1', '--create', code=1).error
    assert 'leaves the tree' in place.tool('set', '/../x', 'a=1', '--create', code=1).error
    assert place.tool('export').out == before


def test_directory_rejects_hidden_names(directory):
    directory.tool.load('/a\n')
    assert 'not a valid node name here' in directory.tool('set', '/a/.hidden', 'x=1', '--create', code=1).error
    assert directory.tool('print').out == '/a\n'


def test_get_reports_what_is_not_there(place):
    place.tool.load('/a\n  x = 1\n  l => /none\n  loop => /a loop\n')
    assert 'no such node' in place.tool('get', '/b', code=1).error
    assert 'no property y' in place.tool('get', '/a', 'y', code=1).error
    assert 'does not exist' in place.tool('get', '/a', 'l', code=1).error
    response = place.tool('get', '/a', code=1)
    assert json.loads(response.out) == {'x': 1}
    assert 'links in a row' in response.error


def test_sets_at_once_lose_nothing(place):
    place.tool.load('/a\n  x = 1\n')
    running = [place.tool.start('set', '/a', 'k%d=%d' % (i, i), 'who="%d"' % i) for i in range(24)]
    for p in running:
        _, error = p.communicate(timeout=LIMIT)
        assert p.returncode == 0, error
    got = json.loads(place.tool('get', '/a').out)
    who = got.pop('who')
    assert who in {str(i) for i in range(24)}
    assert got == {'x': 1, **{'k%d' % i: i for i in range(24)}}


# ---- watch ----

def test_watch_prints_a_line_per_change(place):
    place.tool.load('/a\n  x = 1\n  y => /b\n/b\n  y = 2\n')
    child = place.tool.start('watch', '/a')
    patience = threading.Timer(LIMIT, child.kill)
    patience.start()
    try:
        lines = []

        def until(text):
            while not (lines and text in lines[-1]):
                line = child.stdout.readline().decode()
                assert line, (lines, child.stderr.read())
                lines.append(line)
            assert re.match(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z /a ', lines[-1])
        until('property y = 2')
        assert any('is there' in s for s in lines) and any('property x = 1' in s for s in lines)
        place.tool('set', '/b', 'y="new"')
        until("property y = 'new'")
        place.tool('set', '/a', '--unset', 'x')
        until('no property x')
        with place.provider('/a', '127.0.0.1:80'):
            until("provider 127.0.0.1:80 = {'pid': 1}")
        until('no provider 127.0.0.1:80')
    finally:
        patience.cancel()
        child.kill()
        child.communicate()


# ---- permissions, failures, usage ----

@pytest.fixture
def identities(tmp_path):
    def make(user, password):
        file = tmp_path / user
        file.write_text('%s:%s\n' % (user, password))
        file.chmod(0o600)
        return file
    return make


def test_permissions_are_kept_and_reported(server, zookeeper, identities, request):
    ops, other = identities('ops', 'hush'), identities('other', 'hush2')
    tool = zookeeper.tool
    # ZooKeeper shows the identities in permissions only to clients that may change them.
    client = connect(server.address, auth_data=[('digest', 'ops:hush')])
    request.addfinalizer(client.close)
    request.addfinalizer(client.stop)
    # Other identities may not delete these, and the next test expects an empty server.
    request.addfinalizer(lambda: [client.delete(p, recursive=True) for p in ('/open', '/own', '/secret') if client.exists(p)])
    tool.load('/open\n  x = 1\n')
    assert client.get_acls('/open')[0] == OPEN_ACL_UNSAFE
    tool.load('/own\n  x = 1\n  /below\n', '--auth-file', ops)
    own = {make_digest_acl('ops', 'hush', all=True), *[a._replace(perms=1) for a in OPEN_ACL_UNSAFE]}
    assert set(client.get_acls('/own')[0]) == own
    # all clients can read, only the identity can write
    assert tool('get', '/own').out == '{"x":1}\n'
    for words in (('set', '/own', 'x=2'), ('set', '/own', 'x=2', '--auth-file', other)):
        error = tool(*words, code=1).error
        assert '/own: not permitted to write it' in error and 'auth' in error and 'hush' not in error
    tool('set', '/own', 'x=3', '--auth-file', ops)
    assert 'not permitted to make it' in tool.load('/own\n  x = 3\n  /below\n  /new\n', code=1).error
    assert 'not permitted to delete it' in tool.load('/own\n  x = 3\n', '--trim', code=1).error
    # existing nodes keep their permissions, except with --reset-acl
    tool.load('/open\n  x = 2\n', '--auth-file', ops)
    assert client.get_acls('/open')[0] == OPEN_ACL_UNSAFE
    tool.load('/open\n  x = 2\n', '--auth-file', ops, '--reset-acl')
    assert set(client.get_acls('/open')[0]) == own
    tool('set', '/open', '--reset-acl', '--auth-file', ops)
    # an unreadable node does not hide others
    client.create('/secret', b'{"x":1}', acl=[make_digest_acl('ops', 'hush', all=True)])
    response = tool('print', code=1)
    assert '/own\n' in response.out and '/secret\n  # cannot be read\n' in response.out
    assert '/secret: not permitted to read it' in response.error
    assert '/secret\n  x = 1\n' in tool('print', '--auth-file', ops).out


def test_directory_without_permission_is_reported(directory):
    if os.getuid() == 0:
        # Root is never denied access. The tool reports a properties file that is not a regular file in the same way.
        directory.tool.load('/a\n/b\n')
        (directory.root / 'a' / 'properties.json').mkdir()
        response = directory.tool('print', code=1)
        assert response.out == '/a\n  # cannot be read\n/b\n' and 'not a regular file' in response.error
        return
    directory.tool.load('/a\n  x = 1\n/b\n')
    (directory.root / 'a').chmod(0)
    try:
        response = directory.tool('print', code=1)
        assert '/b\n' in response.out and 'Permission denied' in response.error
    finally:
        (directory.root / 'a').chmod(0o770)


def test_auth_file_open_to_all_is_rejected(zookeeper, identities):
    file = identities('ops', 'hush')
    file.chmod(0o644)
    error = zookeeper.tool('print', '--auth-file', file, code=1).error
    assert 'accessible to all users' in error and 'hush' not in error


def test_an_unreachable_server_is_reported_within_the_timeout(tmp_path):
    tool = Tool('zookeeper://127.0.0.1:1/x')
    error = tool('print', '--timeout', '1', code=1).error
    assert error == 'resumelbctl: zookeeper: no response from 127.0.0.1:1 within 1000 ms (is it running? --timeout)\n'
    assert tool('diff', '-', '--timeout', '1', text='', code=2).out == ''
    assert 'no such node' in Tool('directory:%s/none' % tmp_path)('print', code=1).error


def connections_to(port):
    with open('/proc/net/tcp') as f:
        return sum(line.split()[2].endswith(':%04X' % port) and line.split()[3] == '01' for line in f)


def test_tool_waits_for_a_server_that_comes_back(server, zookeeper):
    zookeeper.tool.load(TALK)
    before = connections_to(server.port)
    server.freeze()
    child = zookeeper.tool.start('export')
    try:
        # The kernel accepts the connection; the frozen server does not respond.
        wait_until(lambda: connections_to(server.port) > before, 'the tool to connect')
    finally:
        server.thaw()
    out, error = child.communicate(timeout=LIMIT)
    assert child.returncode == 0 and out.decode() == TALK, error


def test_changes_survive_connections_that_break(server, zookeeper, tmp_path):
    text = ''.join('/n%d\n  x = %d\n' % (i, i) for i in range(1000, 1200))
    file = tmp_path / 'many.tree'
    file.write_text(text)
    proxy = Proxy(server.port)
    try:
        child = Tool('zookeeper://' + proxy.address).start('import', file)
        for _ in range(5):
            before = proxy.accepted
            proxy.cut()
            wait_until(lambda: child.poll() is not None or proxy.accepted > before, 'another connection')
        _, error = child.communicate(timeout=LIMIT)
        assert child.returncode == 0, error
    finally:
        proxy.close()
    assert zookeeper.tool('export').out == text


@pytest.mark.parametrize('words, said', [
    ((), 'expected a verb'), (('prnt',), 'unknown verb'), (('get',), 'expected'), (('get', 'a', 'b', 'c'), 'expected'),
    (('print', '--timeout', '0'), '--timeout: expected a whole number'), (('print', '--bogus'), 'bogus'), (('export', '--json'), 'for print'),
    (('import', '-', '--trim', '--no-trim'), 'one of'),
])
def test_bad_usage_is_reported(tmp_path, words, said):
    response = Tool('directory:%s' % tmp_path)(*words, code=2)
    assert said in response.error and '--help' in response.error and response.out == ''


def test_bad_urls_are_reported():
    for url in ('', 'x', 'zookeeper:x', 'zookeeper://', 'zookeeper://a:0', 'directory:relative'):
        done = subprocess.run([str(BIN / 'resumelbctl'), 'tree', '-u', url, 'print'], capture_output=True)
        assert done.returncode == (2 if url == '' else 1) and done.stderr.startswith(b'resumelbctl'), (url, done)


def test_url_is_taken_from_the_environment(directory):
    directory.tool.load(TALK)
    done = subprocess.run([str(BIN / 'resumelbctl'), 'tree', 'export'], capture_output=True, env={**os.environ, 'RESUMELB_TREE': directory.tool.url})
    assert done.returncode == 0 and done.stdout.decode() == TALK
    helped = subprocess.run([str(BIN / 'resumelbctl'), 'tree', '--help'], capture_output=True)
    assert helped.returncode == 0 and b'--auth-file' in helped.stdout
