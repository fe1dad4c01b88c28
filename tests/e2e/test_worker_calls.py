# SPDX-License-Identifier: Apache-2.0
"""PUT and DELETE /workers/ADDRESS at the admin address: workers that scripts register without a tree."""
import json
import shutil
import threading
import time
import urllib.parse

import pytest
from ctl_support import TOKEN, ctl, provider_file
from load_support import Load
from support import many_workers
from support.base import free_port, wait_until
from support.http import get
from upgrade_support import upgrade

HOUR = 3600


class Site:
    """A load balancer that knows no worker at first, and 40 workers: address(i)."""

    def __init__(self, world, **more):
        self.port = free_port()
        child = many_workers.start(self.port, 40)
        world.closers.append(lambda: (child.kill(), child.wait()))
        self.world = world
        admin = {'address': '127.0.0.1:%d' % free_port(), 'actions_token': TOKEN}
        self.state = world.directory / 'state'
        workers = {} if 'applications' in more else {'workers': []}
        self.lb = world.resumelb({**workers, 'admin': admin, 'state_dir': str(self.state), **more}, wait=False)
        self.lb.admin = admin['address']
        wait_until(self.lb.listening, 'the listeners')
        self.token = world.directory / 'token'
        self.token.write_text(TOKEN + '\n')

    def address(self, i):
        return many_workers.address(i, self.port)

    def call(self, method, address, body=None, token=TOKEN, encode=True):
        headers = [('Authorization', 'Bearer ' + token)] if token else []
        content = b'' if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return get(self.lb.admin, '/workers/' + (urllib.parse.quote(address, safe=':[]') if encode else address),
                   host=self.lb.admin, method=method, headers=headers, body=content)

    def put(self, i, status=201, **body):
        r = self.call('PUT', self.address(i) if isinstance(i, int) else i, body or None)
        assert r.status == status and r['Content-Type'] == 'application/json', (r.status, r.text)
        return json.loads(r.body)

    def delete(self, i, status=200, body=None):
        r = self.call('DELETE', self.address(i) if isinstance(i, int) else i, body)
        assert r.status == status, (r.status, r.text)
        return json.loads(r.body)

    def calls(self):
        return self.lb.app()['calls']

    def called(self):
        return {w['name']: w for w in self.calls()['workers']}

    def wait_known(self, *numbers):
        want = {self.address(i) for i in numbers}
        wait_until(lambda: set(self.lb.workers()) == want, 'workers %s' % sorted(want))

    def ctl(self, *words, **kw):
        return ctl('worker', *words, '--address', self.lb.admin, '--token-file', self.token, **kw)


@pytest.fixture
def site(world):
    return Site(world)


def test_a_put_registers_a_worker_and_a_repeated_one_renews_it(site):
    first = site.address(0)
    assert site.put(0) == {'action': 'register', 'application': 'default', 'worker': first, 'created': True, 'ttl': None}
    assert site.lb.get('/').text == first
    assert site.put(0, 200)['created'] is False
    assert site.put(0, 200, ttl=HOUR)['ttl'] == HOUR
    w = site.lb.workers()[first]
    assert w['sources'] == ['call'] and HOUR - 60 < w['ends_in_s'] <= HOUR
    assert site.called()[first] == {'name': first, 'ttl_s': HOUR, 'ends_in_s': w['ends_in_s'], 'worker': first, 'why': ''}
    assert site.delete(0) == {'action': 'remove', 'application': 'default', 'worker': first, 'known': False}
    assert site.lb.workers() == {} and site.called() == {}
    assert site.delete(0, 404) == {'error': 'no such worker'}


def test_properties_of_a_registration_apply_to_the_worker(site):
    first = site.address(0)
    site.put(0, version='7', instance='a', pid=12, description='a process', application='default')
    w = site.lb.workers()[first]
    assert (w['version'], w['instance']) == ('7', 'a')
    site.put(0, 200, version='8', instance='b')
    w = site.lb.workers()[first]
    assert (w['version'], w['instance']) == ('8', 'b')
    # Another spelling is the same worker.
    assert site.put('[::ffff:%s]:%d' % (first.rpartition(':')[0], site.port), 200)['worker'] == first
    assert list(site.lb.workers()) == [first]
    site.put('localhost:%d' % site.port)
    wait_until(lambda: '127.0.0.1:%d' % site.port in site.lb.workers(), 'the worker of a name')
    site.delete('127.0.0.1:%d' % site.port, 409)
    site.delete('localhost:%d' % site.port)
    site.wait_known(0)


@pytest.mark.parametrize('address, body, why', [
    ('10.0.0.1', None, 'not an address'),
    ('10.0.0.256:80', None, 'not an address'),
    ('10.0.0.1:0', None, 'its name has no port'),
    ('10.0.0.1:80\0', None, 'not an address'),
    ('10.0.0.1:80\xff', None, 'not an address'),
    ('a' * 64 + '.example:80', None, 'not an address'),
    ('unix:/' + 'a' * 300, None, 'the address is too long'),
    ('unix:/' + 'a' * 200, None, 'not an address'),
    ('10.0.0.1:80', b'nonsense', 'not a JSON object'),
    ('10.0.0.1:80', b'[]', 'not a JSON object'),
    ('10.0.0.1:80', b'{"ttl": 5, "ttl": 6}', 'not a JSON object'),
    ('10.0.0.1:80', b'{' * 2000, 'not a JSON object'),
    ('10.0.0.1:80', {'tll': 30}, 'unknown member'),
    ('10.0.0.1:80', {'ttl': 0}, '"ttl" must be a whole number of seconds'),
    ('10.0.0.1:80', {'ttl': 1.5}, '"ttl" must be a whole number of seconds'),
    ('10.0.0.1:80', {'ttl': '30'}, '"ttl" must be a whole number of seconds'),
    ('10.0.0.1:80', {'ttl': 10 ** 12}, '"ttl" must be a whole number of seconds'),
    ('10.0.0.1:80', {'version': 7}, 'must be strings'),
    ('10.0.0.1:80', {'instance': 'x' * 65}, 'must be strings; an instance has at most 64 bytes'),
    ('10.0.0.1:80', {'pid': '7'}, '"pid" must be a whole number'),
    ('10.0.0.1:80', {'application': ''}, '"application" must be a name'),
    ('10.0.0.1:80?ttl=5', None, 'a query is not accepted'),
])
def test_an_invalid_call_changes_nothing(site, address, body, why):
    r = site.call('PUT', urllib.parse.quote(address, safe=':/?=', encoding='latin-1'), body, encode=False)
    assert r.status in (400, 403), (r.status, r.text)
    assert why in json.loads(r.body)['error'], r.text
    assert site.lb.workers() == {} and site.called() == {}
    assert not (site.state / 'default' / 'workers.json').exists()


def test_bodies_are_bounded(site):
    assert site.call('PUT', site.address(0), b'{"description": "' + b'x' * 5000 + b'"}').status == 413
    assert site.lb.workers() == {}


def test_a_call_needs_the_token_of_actions(site, world):
    for token in (None, 'guess', TOKEN + 'x'):
        for method in ('PUT', 'DELETE'):
            assert site.call(method, site.address(0), token=token).status == 401
    r = site.call('GET', site.address(0))
    assert r.status == 405 and r['Allow'] == 'PUT, DELETE'
    assert site.call('PUT', '', encode=False).status == 404
    assert site.lb.workers() == {}
    off = world.resumelb({'workers': [site.address(0)]}, wait=False)
    wait_until(off.listening, 'the listeners')
    r = get(off.admin, '/workers/' + site.address(0), host=off.admin, method='PUT')
    assert r.status == 403 and 'no actions_token is set' in r.text


def test_the_rules_for_registrations_apply(world):
    site = Site(world, provider_networks=['127.0.0.0/8', '10.0.0.0/8'])
    assert 'provider_networks' in site.put('192.0.2.1:80', 403)['error']
    assert 'provider_networks' in site.put('unix:/run/x.sock', 403)['error']
    assert 'is one of this load balancer' in site.put(site.lb.address, 403)['error'] and site.lb.workers() == {}
    site.put('10.0.0.1:80')
    site.put(0)
    site.lb.reload({**site.lb.config, 'provider_networks': ['127.0.0.0/8']})
    wait_until(lambda: set(site.lb.workers()) == {site.address(0)}, 'one worker')
    assert 'provider_networks' in site.called()['10.0.0.1:80']['why']
    assert 'rejected call: 10.0.0.1:80' in ctl('status', '--address', site.lb.admin).out


def test_other_machines_must_not_register_workers_of_this_one(world):
    port = free_port()
    site = Site(world)
    site.lb.process.stop()
    site.lb.config['admin'] = {'address': '0.0.0.0:%d' % port, 'token': TOKEN, 'actions_token': TOKEN}
    site.lb.admin = '127.0.0.1:%d' % port
    site.lb.start(wait=False)
    site.lb.process.wait_logged('admin=0.0.0.0')
    assert site.put(0, 403)['error'] == 'its address is loopback, and provider_networks does not allow that'
    assert site.put('10.0.0.1:80')['created'] is True


def test_workers_of_the_list_and_of_the_tree_are_not_removed_by_a_call(world):
    listed, registered, both = (many_workers.address(i, 9) for i in range(3))
    tree = world.directory / 'tree'
    site = Site(world, workers=[listed, both], tree='directory:%s' % tree)
    with provider_file(tree / 'workers' / 'providers', registered, {}):
        wait_until(lambda: registered in site.lb.workers(), 'the registration')
        assert 'the configuration lists this worker' in site.delete(listed, 409)['error']
        assert 'is registered in the tree' in site.delete(registered, 409)['error']
        site.put(both)
        assert site.lb.workers()[both]['sources'] == ['list', 'call']
        assert site.delete(both)['known'] is True
        assert site.lb.workers()[both]['sources'] == ['list']


def test_each_application_has_workers_of_its_own(world):
    site = Site(world, applications={'a': {'hosts': ['a.example'], 'workers': []},
                                                   'b': {'hosts': ['b.example'], 'workers': []}})
    assert site.put(0, 400)['error'] == '"application" is missing'
    assert site.put(0, 404, application='c')['error'] == 'no such application'
    site.put(0, application='a')
    site.put(1, application='b')
    assert site.lb.get('/', host='a.example').text == site.address(0)
    assert site.lb.get('/', host='b.example').text == site.address(1)
    site.delete(0, 404, {'application': 'b'})
    site.delete(0, body={'application': 'a'})


def test_an_application_grows_and_shrinks_by_calls_without_a_failed_request(site):
    for i in (0, 1):
        site.put(i)
    with Load([site.lb.address], clients=4) as load:
        load.go_on()
        for i in range(2, 10):
            site.put(i, ttl=HOUR)
        site.wait_known(*range(10))
        load.go_on()
        # Most of the workers: a call is a confirmation, so none is held.
        for i in range(1, 10):
            site.delete(i)
        site.wait_known(0)
        assert site.lb.app()['tree']['held'] == 0
        load.go_on()


def test_a_registration_with_a_ttl_ends_unless_it_is_renewed(site):
    for i in range(4):
        site.put(i, ttl=HOUR)
    site.put(0, 200, ttl=2)
    for _ in range(6):      # together longer than the ttl
        time.sleep(0.5)
        site.put(0, 200, ttl=2)
    assert site.address(0) in site.lb.workers()
    with Load([site.lb.address], clients=2) as load:
        load.go_on()
        site.wait_known(1, 2, 3)
        load.go_on()
    site.lb.process.wait_logged('worker-unregistered application=default worker=%s reason="ttl"' % site.address(0))


def test_workers_whose_registrations_all_expire_are_held_while_they_respond(site):
    for i in range(4):
        site.put(i, ttl=1)
    with Load([site.lb.address], clients=2) as load:
        wait_until(lambda: site.lb.app()['tree']['held'] == 4, 'held workers')
        load.go_on()
        assert site.called() == {}
        assert {tuple(w['sources']) for w in site.lb.workers().values()} == {('held',)}
        # They are held by the next process as well.
        upgrade(site.lb)
        wait_until(lambda: site.lb.app()['tree']['held'] == 4, 'held workers')
        load.go_on()
        site.put(0, ttl=HOUR)
        assert site.lb.workers()[site.address(0)]['sources'] == ['call']
        site.delete(1)
        site.wait_known(0, 2, 3)
        load.go_on()


def test_registrations_survive_a_restart_with_the_time_that_is_left(site):
    site.put(0)
    site.put(1, ttl=HOUR, version='3')
    for i in (2, 3):
        site.put(i, ttl=4)
    for how in ('stop', 'kill'):
        if how == 'stop':
            assert site.lb.process.stop() == 0
        else:
            site.lb.process.kill()
            site.lb.process.wait()
        site.lb.start()
        called = site.called()
        assert set(called) >= {site.address(0), site.address(1)}
        assert called[site.address(0)]['ttl_s'] is None and HOUR - 300 < called[site.address(1)]['ends_in_s'] <= HOUR
        assert all(w['ends_in_s'] <= 4 for n, w in called.items() if n in (site.address(2), site.address(3)))
        assert site.lb.workers()[site.address(1)]['version'] == '3'
        assert site.lb.get('/').status == 200
    site.wait_known(0, 1)


def test_confirmed_registrations_are_there_after_a_kill(site):
    """The response comes when the registration is saved."""
    for i in range(5):
        site.put(i)
        site.lb.process.kill()
        site.lb.process.wait()
        site.lb.start()
        assert set(site.lb.workers()) == {site.address(k) for k in range(i + 1)}
    site.delete(4)
    site.lb.process.kill()
    site.lb.process.wait()
    site.lb.start()
    assert set(site.lb.workers()) == {site.address(k) for k in range(4)}
    for i in range(4):
        site.delete(i)
    assert not (site.state / 'default' / 'workers.json').exists()


def test_calls_during_upgrades_are_all_in_effect_afterwards(site):
    """Each call is confirmed, or rejected with 503 and repeated."""
    stop, confirmed, unexpected, repeated = threading.Event(), [], [], []

    def register():
        i = 0
        while not stop.wait(0.002) and i < 1000:
            address = '127.9.%d.%d:%d' % (i // 250, i % 250 + 1, site.port)
            try:
                r = site.call('PUT', address, {'ttl': HOUR})
            except OSError:
                repeated.append('closed')
                continue
            if r.status in (200, 201):
                confirmed.append(address)
                i += 1
            elif r.status == 503:
                repeated.append(r.text)
            else:
                unexpected.append((r.status, r.text))

    caller = threading.Thread(target=register)
    caller.start()
    try:
        for _ in range(3):
            n = len(confirmed)
            upgrade(site.lb)
            wait_until(lambda: unexpected or len(confirmed) > n + 10, 'further calls')
    finally:
        stop.set()
        caller.join()
    assert not unexpected and len(confirmed) > 30
    assert set(site.called()) == set(confirmed), sorted(set(confirmed) ^ set(site.called()))
    assert site.lb.process.stop() == 0
    site.lb.start()
    assert set(site.called()) == set(confirmed)


def test_calls_of_many_clients_at_once_are_all_in_effect(site):
    failures = []

    def run(k):
        for n in range(10):
            i = k * 10 + n
            try:
                site.put('127.8.0.%d:%d' % (i + 1, site.port), ttl=HOUR)
                site.put('127.8.0.%d:%d' % (i + 1, site.port), 200, ttl=HOUR)
                if n % 2 == 1:
                    site.delete('127.8.0.%d:%d' % (i + 1, site.port))
            except AssertionError as e:
                failures.append(e)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[:3]
    assert set(site.called()) == {'127.8.0.%d:%d' % (i + 1, site.port) for i in range(80) if i % 2 == 0}
    assert site.calls()['unsaved'] is None


def test_the_number_of_registrations_is_bounded(site):
    for i in range(1000):
        site.put('127.7.%d.%d:1' % (i // 250, i % 250 + 1))
    assert '1000' in site.put('127.6.0.1:1', 409)['error']
    site.put('127.7.0.1:1', 200)
    site.delete('127.7.0.1:1')
    site.put('127.6.0.1:1')


def test_a_registration_that_cannot_be_saved_says_so_and_is_saved_when_it_can_be(site):
    directory = site.state / 'default'
    shutil.rmtree(directory, ignore_errors=True)
    directory.write_text('not a directory')
    assert site.put(0)['unsaved'] == 'Not a directory'
    out = site.ctl('add', site.address(1), code=1)
    assert 'in effect, but not saved: Not a directory' in out.error
    site.wait_known(0, 1)
    assert str(directory / 'workers.json') in [f['file'] for f in site.lb.json()['unsaved_files']]
    assert site.calls()['unsaved'] == 'Not a directory'
    directory.unlink()
    wait_until(lambda: site.calls()['unsaved'] is None, 'it to be saved')
    assert set(json.loads((directory / 'workers.json').read_text())['workers']) == {site.address(0), site.address(1)}


@pytest.mark.parametrize('content', [
    'nonsense', '[]', '{"v":2,"workers":{}}', '{"v":1,"workers":[]}', '{"v":1,"workers":{"127.0.0.1:1":7}}',
    '{"v":1,"workers":{"127.0.0.1:1":{"properties":{},"ttl":-1}}}', '{"v":1,"workers":{"127.0.0.1:1":{"properties":{},"until":-1}}}'])
def test_a_file_of_registrations_that_is_none_is_set_aside(world, content):
    directory = world.directory / 'state' / 'default'
    directory.mkdir(parents=True)
    (directory / 'workers.json').write_text(content)
    site = Site(world)
    assert site.lb.workers() == {} and site.called() == {}
    assert (directory / 'workers.json.bad').read_text() == content
    site.lb.process.wait_logged('called-workers-not-read')
    site.put(0)


def test_without_a_state_dir_registrations_last_until_the_end_of_the_process(world):
    site = Site(world, state_dir=None)
    site.put(0)
    assert site.lb.get('/').text == site.address(0)
    assert site.lb.process.stop() == 0
    site.lb.start(wait=False)
    wait_until(site.lb.listening, 'the listeners')
    assert site.lb.workers() == {}


def test_the_status_page_shows_the_call_and_the_time_left(site, browser):
    site.put(0, ttl=HOUR)
    site.put(1)
    browser.open_status(site.lb.admin)
    cells = browser.js('[...document.querySelectorAll("td")].map(c => c.textContent)')
    assert [c for c in cells if c.startswith('call (')] and 'call' in cells, cells


def test_resumelbctl_registers_lists_and_removes_workers(site):
    first, second = site.address(0), site.address(1)
    assert site.ctl('add', first, '--ttl', '90', '--version', '7').out == '%s: default %s registered for 90 s\n' % (
        site.lb.admin, first)
    assert site.ctl('add', first, '--ttl', '90', '--version', '7').out.endswith('renewed for 90 s\n')
    assert site.ctl('add', second).out.endswith('%s registered\n' % second)
    out = site.ctl('list').out
    assert 'default: workers registered by calls, at most 1000' in out
    assert [line.split()[0] for line in out.splitlines()[2:]] == [first, second], out
    assert '1m 30s' in out
    listed = json.loads(site.ctl('list', '--json').out)
    assert [w['name'] for w in listed['default']['workers']] == [first, second]
    status = ctl('status', '--address', site.lb.admin).out
    assert 'call (1m ' in status, status
    assert site.ctl('remove', first).out == '%s: default %s removed\n' % (site.lb.admin, first)
    assert 'no such worker' in site.ctl('remove', first, code=1).error
    assert 'not an address' in site.ctl('add', 'nonsense', code=1).error
    for words in ([], ['add'], ['give', first], ['list', first], ['remove', first, '--ttl', '9'], ['add', first, '--ttl', '0']):
        site.ctl(*words, code=2)
    ctl('worker', 'add', first, '--address', site.lb.admin, code=2)
