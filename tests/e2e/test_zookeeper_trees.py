# SPDX-License-Identifier: Apache-2.0
"""Trees in a real ZooKeeper: settings that take effect immediately, links, and invalid data that must be rejected or tolerated."""
import json
import os

import pytest
from agent_support import TinyAgent
from kazoo.exceptions import NoAuthError
from kazoo.security import make_acl, make_digest_acl
from support.base import wait_until
from support.zookeeper import OPEN_ACL_UNSAFE, Tree
from zookeeper_support import Load, Place, in_force, knows, remembered, setting, tree_of, workers

CHANGES = int(os.environ.get('RLB_ZOOKEEPER_CHANGES', '1000'))


def rejected(lb):
    return {r['name']: r['why'] for r in lb.app('app')['rejected']}


def test_a_thousand_changes_in_a_row_end_in_the_last_one(world, zookeeper_server):
    place = Place(world, server=zookeeper_server)
    w, = workers(world, 1)
    place.tree.register('/workers', w)
    lb = place.balancer()
    wait_until(knows(lb, [w]), 'the worker')
    place.tree.set('', variance=1)
    load = Load([lb], rate=50)
    for i in range(CHANGES):
        place.tree.set('', variance=1 + i / 1000, retries=i % 10)
    last = '%g' % (1 + (CHANGES - 1) / 1000)
    wait_until(in_force(lb, 'variance', last), 'the last value')
    assert setting(lb, 'retries')['value'] == str((CHANGES - 1) % 10)
    load.stop()


def test_bad_values_are_rejected_alone_and_good_ones_beside_them_hold(world, zookeeper_server):
    place = Place(world, server=zookeeper_server)
    lb = place.balancer(pool={'variance': 6})
    place.tree.set('', variance=2.5, retries=7)
    wait_until(in_force(lb, 'variance', '2.5'), 'the settings')
    place.tree.set('', variance='lots', retries=3, connect_timeout='-1s', colour='blue')
    wait_until(in_force(lb, 'retries', '3'), 'the good one')
    assert set(rejected(lb)) >= {'variance', 'connect_timeout'}
    assert setting(lb, 'variance')['value'] == '2.5', 'the last good one'
    # without a value in the tree, that of the YAML file is effective
    place.tree.set('', retries=3)
    wait_until(lambda: setting(lb, 'variance') == {'value': '6', 'origin': 'file'} or
               setting(lb, 'variance')['value'] == '6', 'the value of the file')


def test_writing_the_tree_cannot_run_code(world, zookeeper_server):
    place = Place(world, server=zookeeper_server, root='/site/app')
    plugin = world.directory / 'evil.so'
    plugin.write_bytes(b'\x7fELF')
    lb = place.balancer()
    place.tree.set('', variance=3, classifier={'plugin': {'path': str(plugin)}}, error_page='/etc/passwd',
                   tree='directory:/', workers=['127.0.0.1:1'])
    wait_until(in_force(lb, 'variance', '3'), 'the good one')
    assert set(rejected(lb)) >= {'classifier', 'error_page', 'tree', 'workers'}
    assert all(why for why in rejected(lb).values())
    agent = TinyAgent(world, top={'tree': place.url('/site')})
    wait_until(lambda: place.tree.providers('/workers'), 'the slot')
    place.tree.set('/workers', history=7, command=['/bin/sh', '-c', 'touch %s/run' % world.directory], user='root',
                   root='/', environment={'LD_PRELOAD': str(plugin)})
    app = wait_until(lambda: (lambda a: a['settings']['history']['value'] == '7' and a)(
        agent.json()['applications']['app']), 'the good one')
    assert {r['name'] for r in app['rejected']} >= {'command', 'user', 'root', 'environment'}, app['rejected']
    for name in ('command', 'user', 'root'):
        assert app['settings'][name]['origin'] != 'tree'
    assert not (world.directory / 'run').exists()


def test_nodes_of_garbage_hold_what_was_and_good_ones_follow(world, zookeeper_server):
    place = Place(world, server=zookeeper_server)
    a, b = workers(world, 2)
    place.tree.register('/workers', a)
    place.tree.set('', variance=2)
    lb = place.balancer()
    wait_until(in_force(lb, 'variance', '2'), 'the setting')
    wait_until(knows(lb, [a]), 'the worker')
    load = Load([lb], rate=50)
    for junk in (b'{"variance": ', b'[1, 2]', b'{"variance": 3} x', b'\xff\xfe{}', b'{"variance": 3, "variance": 4}',
                 b'{"a": ' * 100 + b'1' + b'}' * 100, b'y' * 1000000,
                 b'{' + b','.join(b'"k%d": %d' % (i, i) for i in range(60000)) + b'}'):
        place.tree.set_raw('', junk)
        wait_until(lambda: lb.app('app')['held'], repr(junk[:30]))
        assert setting(lb, 'variance')['value'] == '2', junk[:30]
        place.tree.set('', variance=2)
        wait_until(lambda: not lb.app('app')['held'], 'the good node')
    # large and valid
    place.tree.set_raw('', b'{"variance": 3, "x": "' + b'y' * 1000000 + b'"}')
    wait_until(in_force(lb, 'variance', '3'), 'the setting')
    place.tree.set_raw('', b'{"variance": 5}')
    wait_until(in_force(lb, 'variance', '5'), 'the setting')
    place.tree.register('/workers', b)
    wait_until(knows(lb, [a, b]), 'the worker')
    load.stop()


def test_providers_of_garbage_are_rejected_alone(world, zookeeper_server):
    place = Place(world, server=zookeeper_server)
    good, odd = workers(world, 2)
    place.tree.register('/workers', good)
    names = ['no-address', 'two words:1', '%2F', '\u00fc.example:80', '127.0.0.1:99999', ':80', '127.0.0.1:0', 'x' * 300,
             '127.0.0.1:80:80', '\u202e:1']
    for name in names:
        place.client.create('/app/workers/providers/' + name, b'{}', ephemeral=True)
    data = [b'{"pid": ', b'[]', b'7', b'\xff', b'{"application": "other"}', b'{"x": "' + b'y' * 900000 + b'"}']
    for i, junk in enumerate(data):
        place.client.create('/app/workers/providers/127.0.0.9:%d' % (100 + i), junk, ephemeral=True)
    # wrong types in known fields do not remove a worker
    place.client.create('/app/workers/providers/' + odd, b'{"version": {"a": 1}, "pid": [2], "state": 7}', ephemeral=True)
    # a child without an owning session
    place.client.create('/app/workers/providers/odd-persistent/below', b'{}', makepath=True)
    lb = place.balancer()
    wait_until(lambda: {good, odd} <= set(lb.workers('app')), 'the good ones')
    load = Load([lb], rate=50)
    load.go_on(30)
    wait_until(lambda: 'no-address' in tree_of(lb)['rejected_providers'], 'the rejections')
    shown = tree_of(lb)['rejected_providers']
    assert '127.0.0.1:99999' in shown and '127.0.0.9:104' in shown
    assert '127.0.0.9:104' not in lb.workers('app')
    assert not [n for n in lb.workers('app') if n.startswith('no-') or n.endswith(':99999')]
    load.stop()


def test_more_children_than_a_packet_holds_cost_nothing_but_themselves(world, zookeeper_server):
    """The client library closes its connection because of such a list; the other nodes continue to work."""
    place = Place(world, server=zookeeper_server)
    a, b = workers(world, 2)
    place.tree.register('/workers', a)
    place.tree.set('', variance=2)
    lb = place.balancer()
    wait_until(knows(lb, [a]), 'the worker')
    load = Load([lb], rate=50)
    names = ['/app/workers/providers/%06d-%s' % (i, 'x' * 993) for i in range(1200)]
    pending = [place.client.create_async(n, b'{}', acl=OPEN_ACL_UNSAFE) for n in names]
    for p in pending:
        p.get()
    place.tree.set('', variance=3)
    wait_until(in_force(lb, 'variance', '3'), 'the settings in spite of it')
    load.go_on(50)
    assert a in lb.workers('app')
    pending = [place.client.delete_async(n) for n in names]
    for p in pending:
        p.get()
    place.tree.register('/workers', b)
    wait_until(knows(lb, [a, b]), 'the list to be read again')
    place.tree.set('', variance=4)
    wait_until(in_force(lb, 'variance', '4'), 'the settings')
    load.stop()


def test_a_path_that_is_not_there_yet_is_waited_for(world, zookeeper_server):
    place = Place(world, server=zookeeper_server, root='/not/there/yet')
    w, = workers(world, 1)
    lb = place.balancer(url=place.url('/not/there/yet/app'))
    tree = Tree(place.client, '/not/there/yet/app')
    # its own registration creates the path; settings and workers are added later
    tree.set('', variance=2)
    wait_until(in_force(lb, 'variance', '2'), 'the setting')
    tree.register('/workers', w)
    wait_until(knows(lb, [w]), 'the worker')
    assert lb.get()['X-Worker'] == w


def test_the_tree_reaches_no_service_that_only_this_machine_may_use(world, zookeeper_server):
    place = Place(world, server=zookeeper_server)
    w, = workers(world, 1)
    port = w.rsplit(':', 1)[1]
    # None means the default.
    lb = place.balancer(provider_networks=None, worker_wait_timeout='100ms')
    own = [lb.admin, lb.address, lb.admin.replace('127.0.0.1', '[::ffff:127.0.0.1]')]
    loopback = [w, 'localhost:' + port, '0.0.0.0:' + port, '[::1]:' + port, 'unix:/run/private.sock']
    for address in [*own, *loopback]:
        place.tree.register('/workers', address.replace('/', '%2F'))

    def rejected_providers():
        return {r['name']: r['why'] for r in tree_of(lb)['provider_rejections']}
    wait_until(lambda: len(rejected_providers()) == len(own + loopback), 'all of them to be rejected')
    assert lb.workers('app') == {} and lb.get('/status.json').status == 503
    lines = lb.process.wait_logged(' registration-rejected ')
    assert len(lines) <= len(own + loopback), lines
    # After SIGHUP the setting permits addresses of this machine, but not the load balancer itself.
    config = lb.config['applications']['app']
    lb.reload({'applications': {'app': {**config, 'provider_networks': ['loopback']}}})
    wait_until(knows(lb, [w, *('%s:%s' % (host, port) for host in ('127.0.0.1', '0.0.0.0', '[::1]'))]), 'the workers')
    why = rejected_providers()
    assert set(why) == {*own, 'unix:/run/private.sock'}
    assert all("one of this load balancer's listeners" in why[name] for name in own), why
    # Another SIGHUP reverts this.
    lb.reload({'applications': {'app': {**config, 'provider_networks': ['10.0.0.0/8']}}})
    wait_until(lambda: lb.workers('app') == {}, 'the worker to be gone')
    assert len(rejected_providers()) == len(own + loopback)


def linked(world, zookeeper_server):
    """A site with two pools; the application's workers and a setting are links."""
    place = Place(world, server=zookeeper_server, root='/site')
    blue, green = workers(world, 2)
    place.tree.register('/pools/blue/workers', blue)
    place.tree.register('/pools/green/workers', green)
    place.tree.set('/shared', limit=2.5)
    place.tree.set('/lb', **{'workers ->': '/site/pools/blue/workers', 'variance =>': '/site/shared limit'})
    # a changed link replaces all workers at once, which is intended here
    lb = place.balancer(tree_path='/lb', discovery_max_drop=1)
    return place, lb, blue, green


def test_links_are_followed_and_so_are_their_changes(world, zookeeper_server):
    place, lb, blue, green = linked(world, zookeeper_server)
    wait_until(knows(lb, [blue]), 'the linked workers')
    wait_until(in_force(lb, 'variance', '2.5'), 'the linked setting')
    load = Load([lb], rate=50)
    # a change of the targets
    place.tree.set('/shared', limit=3.5)
    wait_until(in_force(lb, 'variance', '3.5'), "the target's new value")
    place.tree.register('/pools/blue/workers', green)
    wait_until(knows(lb, [blue, green]), "the target's new worker")
    place.tree.unregister('/pools/blue/workers', green)
    wait_until(knows(lb, [blue]), 'its end')
    # a change of the links themselves
    place.tree.set('/other', variance=7)
    place.tree.set('/lb', **{'workers ->': '/site/pools/blue/workers', 'variance =>': '/site/other'})
    wait_until(in_force(lb, 'variance', '7'), 'another target')
    place.tree.register('/pools/both/workers', blue)
    place.tree.register('/pools/both/workers', green)
    place.tree.set('/lb', **{'workers ->': '../pools/both/workers', 'variance =>': '/site/other'})
    wait_until(knows(lb, [blue, green]), 'a relative link')
    # a link within a path
    place.tree.set('/pools', **{'live ->': '/site/pools/green'})
    place.tree.set('/lb', **{'workers ->': '/site/pools/live/workers', 'variance =>': '/site/other'})
    wait_until(knows(lb, [green]), 'links over links')
    place.tree.set('/pools', **{'live ->': '/site/pools/blue'})
    wait_until(knows(lb, [blue]), 'a link in the middle')
    load.stop()


@pytest.mark.parametrize('properties, elsewhere', [
    ({'workers ->': '/site/lb/workers', 'variance =>': '/site/lb'}, {}),
    ({'workers ->': '/site/a/workers', 'variance =>': '/site/a'},
     {'/a': {'workers ->': '/site/b/workers', 'variance =>': '/site/b'}, '/b': {'workers ->': '/site/a/workers', 'variance =>': '/site/a'}}),
])
def test_loops_of_links_are_reported_and_do_no_harm(world, zookeeper_server, properties, elsewhere):
    place, lb, blue, green = linked(world, zookeeper_server)
    wait_until(knows(lb, [blue]), 'the linked workers')
    wait_until(in_force(lb, 'variance', '2.5'), 'the linked setting')
    for path, node in elsewhere.items():
        place.tree.set(path, **node)
    place.tree.set('/lb', retries=5, **properties)
    wait_until(in_force(lb, 'retries', '5'), 'the setting that is not a link')
    wait_until(lambda: 'loop' in lb.process.output(), 'the log of the loop')
    assert 'loop' in lb.app('app')['problem'] and 'loop' in tree_of(lb)['providers_problem']
    assert setting(lb, 'variance')['value'] == '2.5', 'the last good value'
    assert blue in lb.workers('app')
    place.tree.set('/lb', **{'workers ->': '/site/pools/green/workers', 'variance =>': '/site/shared limit'})
    wait_until(knows(lb, [green]), 'the mended link')
    assert lb.get()['X-Worker'] == green


def auth_file(world, text, name='auth'):
    path = world.directory / name
    path.write_text(text + '\n')
    path.chmod(0o600)
    return str(path)


def test_with_an_identity_our_nodes_are_ours_alone(world, zookeeper_server):
    place = Place(world, server=zookeeper_server)
    w, = workers(world, 1)
    readers = [make_digest_acl('lb', 's3cret', all=True), make_digest_acl('admin', 'pw', all=True)]
    admin = place.connect(auth_data=[('digest', 'admin:pw')])
    # only those two identities can read settings and providers
    admin.create('/app', b'{"variance": 2.5}', acl=readers)
    admin.create('/app/providers', b'', acl=readers)
    admin.create('/app/workers', b'', acl=readers)
    admin.create('/app/workers/providers', b'', acl=readers)
    admin.create('/app/workers/providers/' + w, b'{"pid": 1}', ephemeral=True, acl=readers)
    lb = place.balancer(zookeeper_auth=auth_file(world, 'lb:s3cret'))
    wait_until(in_force(lb, 'variance', '2.5'), 'the setting')
    wait_until(knows(lb, [w]), 'the worker')
    assert lb.get()['X-Worker'] == w
    ours, = wait_until(lambda: admin.get_children('/app/providers'), 'the registration')
    path = '/app/providers/' + ours
    acls, _ = admin.get_acls(path)
    for acl in acls:
        assert acl.acl_list == ['READ'] or acl.id.id.startswith('resumelb:'), acls
    for stranger in (place.client, admin):
        with pytest.raises(NoAuthError):
            stranger.set(path, b'{}')
    # the plain password must not be disclosed
    assert 's3cret' not in json.dumps(lb.json()) and 's3cret' not in lb.process.output()


def lock_down(admin, root):
    """The permissions in docs/guide/registry.md: `ops` writes, `site` reads and registers below providers."""
    ops = make_digest_acl('ops', 'SECRET', all=True)
    nodes = {'': {}, '/app': {}, '/app/providers': {'create': True, 'delete': True}, '/app/workers': {},
             '/app/workers/providers': {'create': True, 'delete': True}}
    for path, more in nodes.items():
        admin.create(root + path, b'', acl=[ops, make_digest_acl('site', 'PASSWORD', read=True, **more)])


def test_with_the_documented_permissions_programs_read_and_register_and_no_more(world, zookeeper_server):
    place = Place(world, server=zookeeper_server, root='/site/app')
    admin = place.connect(auth_data=[('digest', 'ops:SECRET')])
    lock_down(admin, '/site')
    auth = auth_file(world, 'site:PASSWORD')
    agent = TinyAgent(world, top={'tree': place.url('/site'), 'zookeeper_auth': auth})
    lb = place.balancer(zookeeper_auth=auth, resume='auto')
    wait_until(knows(lb, agent.addresses), 'the slot')
    wait_until(lambda: tree_of(lb)['registered'], 'our registration')
    assert lb.get().status == 200
    admin.set('/site/app', b'{"variance": 2.5}')
    wait_until(in_force(lb, 'variance', '2.5'), 'the setting')
    # a client without the identity cannot read it; a client with it cannot write settings
    with pytest.raises(NoAuthError):
        place.client.get('/site/app')
    thief = place.connect(auth_data=[('digest', 'site:PASSWORD')])
    assert thief.get('/site/app')[0] == b'{"variance": 2.5}'
    for path in ('/site/app', '/site/app/workers'):
        with pytest.raises(NoAuthError):
            thief.set(path, b'{}')
    with pytest.raises(NoAuthError):
        thief.set('/site/app/workers/providers/' + agent.addresses[0], b'{}')


def test_a_node_that_cannot_be_read_is_reported_and_read_when_it_can(world, zookeeper_server):
    place = Place(world, server=zookeeper_server)
    w, = workers(world, 1)
    place.tree.register('/workers', w)
    admin = place.connect(auth_data=[('digest', 'admin:pw')])
    admin.set('/app', b'{"variance": 2.5}')
    admin.set_acls('/app', [make_digest_acl('admin', 'pw', all=True), make_acl('world', 'anyone', create=True)])
    lb = place.balancer()
    wait_until(knows(lb, [w]), 'the worker')
    assert lb.get()['X-Worker'] == w
    assert setting(lb, 'variance')['origin'] != 'tree'
    wait_until(lambda: 'no permission to read it' in lb.process.output(), 'a word about it')
    admin.set_acls('/app', OPEN_ACL_UNSAFE)
    # a changed ACL triggers no watch: it is re-read periodically, or with the next change
    admin.set('/app', b'{"variance": 3.5}')
    wait_until(in_force(lb, 'variance', '3.5'), 'the setting')


def test_the_last_known_workers_and_settings_serve_without_any_zookeeper(world):
    place = Place(world)
    addresses = workers(world, 3)
    for w in addresses:
        place.tree.register('/workers', w)
    place.tree.set('', variance=2.5)
    top = {'state_dir': str(world.directory / 'state'), 'start_wait': '1s'}
    lb = place.balancer(top=top)
    wait_until(knows(lb, addresses), 'the workers')
    wait_until(in_force(lb, 'variance', '2.5'), 'the setting')
    assert lb.get().status == 200
    # written after a short delay
    wait_until(lambda: remembered(world.directory / 'state', [*addresses, '2.5']), 'it to be remembered')
    place.server.stop()
    lb.kill()
    lb.start(wait=False)
    wait_until(lb.listening, 'the load balancer')
    assert wait_until(lambda: lb.get(), 'a response').status == 200
    assert knows(lb, addresses)()
    assert setting(lb, 'variance')['value'] == '2.5'
    assert not tree_of(lb)['connected']
    load = Load([lb])
    load.go_on(50)
    # when the server is available again, the state of the tree is applied
    place.server.start()
    place.tree.set('', variance=4)
    for w in addresses:
        place.tree.register('/workers', w)
    place.tree.unregister('/workers', addresses[0])
    wait_until(in_force(lb, 'variance', '4'), 'the setting')
    wait_until(knows(lb, addresses[1:]), 'one less')
    load.stop()
