# SPDX-License-Identifier: Apache-2.0
"""The actions of an operator at the admin address (drain, undrain, confirm-removal, forget, reload), and their authorization."""
import json
import shutil

import pytest
from ctl_support import ctl
from support.base import free_port, wait_until
from support.http import get
from support.scripted import hello, serve
from test_http2_behaviour import metric
from test_waiting import Tree
from upgrade_support import upgrade

TOKEN = 'another-word-that-cannot-be-guessed'


class Actions:
    """A load balancer over two workers."""

    def __init__(self, world, more=(), **admin):
        self.workers = [world.scripted(serve(hello)) for _ in range(2)]
        port = free_port()
        settings = {'address': '127.0.0.1:%d' % port, **admin}
        self.lb = world.resumelb({'workers': [w.address for w in self.workers] + list(more), 'admin': settings, 'history': 1,
                                  'state_dir': str(world.directory / 'state')}, wait=False)
        self.lb.admin = settings['address']
        wait_until(self.lb.ready, 'it to be ready')

    def post(self, what, order=None, token=TOKEN, **kw):
        headers = [('Authorization', 'Bearer ' + token)] if token else []
        body = b'' if order is None else json.dumps(order).encode()
        return get(self.lb.admin, '/actions/' + what, host=kw.pop('host', self.lb.admin),
                   method=kw.pop('method', 'POST'), headers=headers, body=body, **kw)

    def done(self, what, order=None):
        r = self.post(what, order)
        assert r.status == 200 and r['Content-Type'] == 'application/json', (r.status, r.text)
        return json.loads(r.body)


@pytest.fixture
def acting(world):
    return Actions(world, actions_token=TOKEN)


def test_a_drained_worker_gets_nothing_until_it_is_undrained(acting):
    first, second = (w.address for w in acting.workers)
    assert acting.done('drain', {'worker': first}) == {
        'action': 'drain', 'application': 'default', 'worker': first, 'changed': True, 'state': 'drained'}
    assert acting.done('drain', {'worker': first, 'application': 'default'})['changed'] is False
    assert acting.lb.workers()[first]['state'] == 'drained'
    for i in range(6):
        assert acting.lb.get(host='h%d.example' % i).status == 200
    assert not acting.workers[0].requests and len(acting.workers[1].requests) == 6
    acting.done('undrain', {'worker': first})
    acting.done('drain', {'worker': second})
    assert acting.lb.get(host='h0.example').status == 200
    assert len(acting.workers[0].requests) == 1
    assert acting.lb.workers()[first]['state'] == 'ready'


def test_a_drain_that_cannot_be_saved_says_so_and_is_saved_when_it_can_be(acting, world):
    first = acting.workers[0].address
    directory = world.directory / 'state' / 'default'
    shutil.rmtree(directory, ignore_errors=True)
    directory.write_text('not a directory')
    token = world.directory / 'token'
    token.write_text(TOKEN)
    for changed in (True, False):
        done = acting.done('drain', {'worker': first})
        assert (done['changed'], done['state'], done['unsaved']) == (changed, 'drained', 'Not a directory')
        response = ctl('drain', first, '--address', acting.lb.admin, '--token-file', token, code=1)
        assert 'in effect, but not saved: Not a directory (retried; a restart before forgets it)' in response.error
    assert str(directory / 'drained.json') in [f['file'] for f in acting.lb.json()['unsaved_files']]
    assert metric(acting.lb, 'resumelb_state_files_unsaved') >= 1
    directory.unlink()
    wait_until(lambda: acting.lb.json()['unsaved_files'] == [], 'it to be saved')
    assert json.loads((directory / 'drained.json').read_text())['drained'] == [first]
    assert 'unsaved' not in acting.done('drain', {'worker': first})
    ctl('drain', first, '--address', acting.lb.admin, '--token-file', token)


def test_an_action_is_visible_in_the_next_status_document_although_it_is_cached(world):
    # With so many workers the status document is cached for a short time.
    acting = Actions(world, more=['127.0.0.2:%d' % port for port in range(2000, 5000)], actions_token=TOKEN)
    first = acting.workers[0].address
    for action, state in 3 * [('drain', 'drained'), ('undrain', 'ready')]:
        acting.lb.workers()
        assert acting.done(action, {'worker': first})['state'] == state
        assert acting.lb.workers()[first]['state'] == state


def test_a_drained_worker_is_left_alone_after_an_upgrade_and_a_restart(acting, world):
    first, second = (w.address for w in acting.workers)
    acting.done('drain', {'worker': first})
    upgrade(acting.lb)
    assert acting.lb.workers()[first]['state'] == 'drained' and acting.lb.workers()[second]['state'] == 'ready'
    assert acting.lb.process.stop() == 0
    acting.lb.start()
    assert acting.lb.workers()[first]['state'] == 'drained'
    for i in range(6):
        assert acting.lb.get(host='h%d.example' % i).status == 200
    assert not acting.workers[0].requests
    acting.done('undrain', {'worker': first})
    assert acting.lb.process.stop() == 0
    acting.lb.start()
    assert {w['state'] for w in acting.lb.workers().values()} == {'ready'}
    assert not list(world.directory.rglob('drained.json'))


def test_a_drained_worker_that_was_removed_and_listed_again_is_undrained(acting):
    first, second = (w.address for w in acting.workers)
    acting.done('drain', {'worker': first})
    config = dict(acting.lb.config)
    acting.lb.reload(dict(config, workers=[second]))
    wait_until(lambda: list(acting.lb.workers()) == [second], 'one worker')
    acting.lb.reload(config)
    wait_until(lambda: len(acting.lb.workers()) == 2, 'two workers')
    assert acting.lb.workers()[first]['state'] == 'ready'


@pytest.mark.parametrize('content', ['{"v":1,"drained":[7]}', 'nonsense', '{"v":2,"drained":[]}'])
def test_a_file_of_drained_workers_that_is_none_is_set_aside(world, content):
    directory = world.directory / 'state' / 'default'
    directory.mkdir(parents=True)
    (directory / 'drained.json').write_text(content)
    acting = Actions(world, actions_token=TOKEN)
    assert {w['state'] for w in acting.lb.workers().values()} == {'ready'}
    assert (directory / 'drained.json.bad').read_text() == content
    acting.lb.process.wait_logged('drained-not-read')


def kept_skills(directory, worker):
    for path in directory.rglob('*'):
        if path.is_file() and worker.rpartition(':')[2] in path.name:
            return json.loads(path.read_text())['skills']
    return None


def test_forgotten_skills_are_learnt_again(acting, world):
    for i in range(6):
        assert acting.lb.get(host='h%d.example' % i).status == 200
    resumes = lambda: acting.lb.json('/resumes.json')['applications']['default']
    skills = lambda: sorted(c for r in resumes().values() for c in r)
    assert skills() == ['h%d.example' % i for i in range(6)]
    assert acting.done('forget', {'class': 'h3.example'}) == {'action': 'forget', 'workers': 2, 'scores': 1}
    assert 'h3.example' not in skills() and len(skills()) == 5
    mine = acting.workers[0].address
    assert acting.done('forget', {'worker': mine})['scores'] == len([c for c in range(6) if c != 3]) - len(
        resumes()[acting.workers[1].address])
    assert resumes()[mine] == {}
    # its file is rewritten soon, too
    wait_until(lambda: kept_skills(world.directory / 'state', mine) == {}, 'the file to be rewritten')
    acting.done('forget')
    assert skills() == []
    assert acting.lb.get(host='h3.example').status == 200 and skills() == ['h3.example']


def test_a_removal_of_most_workers_can_be_confirmed(world, browser):
    tree = Tree(world.directory / 'tree')
    workers = [world.scripted(serve(hello)).address for _ in range(4)]
    for w in workers:
        tree.register(w)
    port = free_port()
    lb = world.resumelb({'tree': 'directory:%s' % tree.path, 'resume': 'measure', 'state_dir': str(world.directory / 'state'),
                         'admin': {'address': '127.0.0.1:%d' % port, 'actions_token': TOKEN}}, wait=False)
    lb.admin = '127.0.0.1:%d' % port
    wait_until(lambda: lb.listening() and set(lb.workers()) == set(workers), 'the workers')
    token = world.directory / 'token'
    token.write_text(TOKEN)

    def order(*words, **kw):
        return ctl('confirm-removal', '--address', lb.admin, '--token-file', token, *words, **kw)

    assert 'no worker is held' in order(code=1).error and lb.app()['tree']['confirm_removal'] is None
    for w in workers[:3]:
        tree.end(w)
    wait_until(lambda: lb.app()['tree']['held'] == 3, 'them to be held')
    assert set(lb.workers()) == set(workers)
    command = 'resumelbctl confirm-removal --token-file FILE --application default'
    assert lb.app()['tree']['confirm_removal'] == command
    line, = lb.process.wait_logged(' registrations-held ')
    assert 'action="' in line and command + '"' in line
    browser.open_status(lb.admin)
    assert command in browser.text() and command in ctl('status', '--address', lb.admin).out
    assert 'this worker is not held' in order(workers[3], code=1).error
    assert 'no such application' in order('--application', 'x', code=1).error
    assert order(workers[0]).out.endswith('default released 1 held workers\n')
    assert set(lb.workers()) == set(workers[1:])
    assert order('--json', '--application', 'default').json() == {
        'action': 'confirm-removal', 'application': 'default', 'workers': 2}
    assert set(lb.workers()) == {workers[3]} and lb.app()['tree']['held'] == 0
    assert command not in ctl('status', '--address', lb.admin).out
    # A restart does not recall them, and one that registers again is a worker again.
    kept = world.directory / 'state' / 'default' / 'tree.json'
    wait_until(lambda: list(json.loads(kept.read_text())['parts']['providers']) == [workers[3]], 'the file')
    tree.register(workers[0])
    wait_until(lambda: set(lb.workers()) == {workers[0], workers[3]}, 'it to be back')


def test_reload_states_what_is_rejected(acting):
    acting.lb.config['retries'] = 1
    acting.lb.write_config()
    assert acting.done('reload') == {'action': 'reload'}
    assert acting.lb.app()['settings']['retries']['value'] == '1'
    acting.lb.config['retries'] = 'many'
    acting.lb.write_config()
    r = acting.post('reload')
    assert r.status == 409 and 'retries' in json.loads(r.body)['error']
    assert acting.lb.app()['settings']['retries']['value'] == '1'


def test_orders_that_make_no_sense_are_rejected_and_do_nothing(acting):
    mine = acting.workers[0].address
    for what, order, status in [
            ('drain', None, 400), ('drain', {'worker': 'nobody:1'}, 404), ('drain', {'worker': mine, 'application': 'x'}, 404),
            ('drain', {'worker': 1}, 400), ('drain', {'worker': mine, 'class': 'c'}, 400), ('drain', {'wroker': mine}, 400),
            ('forget', {'worker': 'nobody:1'}, 404), ('forget', [mine], 400), ('reload', {'worker': mine}, 400),
            ('confirm-removal', {'class': 'c'}, 400), ('confirm-removal', {'application': 'x'}, 404), ('confirm-removal', None, 409)]:
        r = acting.post(what, order)
        assert r.status == status and json.loads(r.body)['error'], (what, order, r.text)
    assert get(acting.lb.admin, '/actions/drain', host=acting.lb.admin, method='POST', body=b'{"worker":',
               headers=[('Authorization', 'Bearer ' + TOKEN)]).status == 400
    assert acting.lb.workers()[mine]['state'] == 'ready'


def test_actions_want_the_token_and_post(acting):
    order = {'worker': acting.workers[0].address}
    assert acting.post('drain', order, token=None).status == 401
    assert acting.post('drain', order, token='guess').status == 401
    assert acting.post('drain', order, host='evil.example').status == 421
    assert acting.post('drain', order, method='PUT').status == 405
    assert get(acting.lb.admin, '/actions/drain', host=acting.lb.admin).status == 405
    assert get(acting.lb.admin, '/status.json', host=acting.lb.admin).status == 200, 'reading needs no token'
    assert acting.lb.workers()[order['worker']]['state'] == 'ready'


def test_actions_are_off_without_a_token_of_theirs(world):
    acting = Actions(world)
    r = acting.post('drain', {'worker': acting.workers[0].address})
    assert r.status == 403 and 'actions_token' in json.loads(r.body)['error']
