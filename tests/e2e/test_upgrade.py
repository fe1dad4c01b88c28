# SPDX-License-Identifier: Apache-2.0
"""SIGUSR2: a new load balancer takes over the sockets without a failed request."""
import os
import re
import shutil
import signal
import socket
import threading

import pytest

from agent_support import TinyAgent
from support.base import BIN, LIMIT, PACE, free_port, wait_until
from support.certificates import Pair, shown
from support.http import Client, get
from support.scripted import hello, serve
from upgrade_support import Http2, Loads, Posts, alive, follow, http2_context, pid_of, upgrade

ROUNDS = int(os.environ.get('RLB_SOAK_ROUNDS', '1'))


class Front:
    """A load balancer with each kind of listener, and two workers that record their POSTs."""

    def __init__(self, world, name='resumelb', workers=2, **settings):
        self.posts = Posts()
        self.world = world
        self.workers = [world.scripted(serve(self.posts.respond)) for _ in range(workers)]
        pair = Pair(world.directory, name + '-site', ['test.example'])
        self.plain, self.tls = ('127.0.0.1:%d' % free_port() for _ in range(2))
        self.unix = 'unix:%s' % (world.directory / (name + '.sock'))
        self.listen = [{'address': self.plain}, {'address': self.tls, 'tls': pair.entry, 'http2': True},
                       {'address': self.unix}]
        self.config = {'workers': [w.address for w in self.workers], **settings}
        self.lb = world.resumelb(self.config, listen=self.listen, name=name)

    def loads(self, pause=PACE):
        plans = [(address, kind, posts, keep) for address, kind in
                 ((self.plain, 'plain'), (self.tls, 'tls'), (self.unix, 'plain'))
                 for posts in (False, True) for keep in (False, True)]
        return Loads(plans + [(self.tls, 'h2', posts, True) for posts in (False, True)], pause)


def test_no_request_is_lost_and_none_comes_twice_over_many_upgrades(world):
    front = Front(world, threads=3)
    loads = front.loads()
    loads.go_on(10)
    pids = [front.lb.process.pid]
    # different numbers of loops: some loops then accept from several sockets, or share one
    for threads in (1, 4, 2, 3) * ROUNDS:
        front.lb.config['threads'] = str(threads)
        front.lb.write_config()
        upgrade(front.lb)
        assert front.lb.json()['threads'] == threads
        loads.go_on(10)
        pids.append(front.lb.process.pid)
    loads.stop()
    assert len(set(pids)) == len(pids)
    assert sorted(front.posts.names) == loads.sent()
    assert loads.done() > 500
    front.lb.process.stop()
    assert not os.path.exists(front.unix[5:])


def accepted(lb):
    page = get(lb.admin, '/metrics', host=lb.admin).text
    return int(re.search(r'^resumelb_client_connections_total (\d+)', page, re.M).group(1))


def test_an_idle_client_is_served_once_more_by_the_old_one_and_asked_to_close(world):
    front = Front(world)
    idle, fresh = Client(front.plain), Client(front.plain)
    assert idle.request().status == 200
    # `fresh` is connected and accepted, and has not sent a request yet
    wait_until(lambda: accepted(front.lb) == 2, 'both to be accepted')
    old = front.lb.process
    old.kill(signal.SIGUSR2)
    follow(front.lb, old.pid)
    for c in (idle, fresh):
        r = c.request('POST', body=b'x')
        assert (r.status, r['Connection']) == (200, 'close')
        c.close()
    assert old.wait() == 0


def test_a_client_in_the_queue_of_the_listener_is_served_by_the_new_process(world):
    """The old process is at its limit of connections, so that these clients are accepted only by the new one."""
    front = Front(world, max_client_connections=2, threads=1)
    holders = [Client(front.plain) for _ in range(2)]
    for c in holders:
        assert c.request().status == 200
    waiting = [Client(front.plain) for _ in range(5)]
    for c in waiting:
        c.send()
    old = front.lb.process
    old.kill(signal.SIGUSR2)
    assert waiting[0].receive().body == b'hello'
    waiting[0].close()
    for c in waiting[1:]:
        assert c.receive().body == b'hello'
        c.close()
    for c in holders:
        c.close()
    follow(front.lb, old.pid)
    assert old.wait() == 0


@pytest.mark.parametrize('broken', ['file', 'port', 'program', 'state'])
def test_a_new_one_that_cannot_start_changes_nothing(world, broken):
    binary = world.directory / 'resumelb'
    shutil.copy(BIN / 'resumelb', binary)
    front = Front(world, state_dir=str(world.directory / 'state'))
    front.lb.process.stop()
    taken = socket.create_server(('127.0.0.1', 0))
    front.lb.process = world.process([binary, '-c', front.lb.path], 'copy')
    wait_until(front.lb.ready, 'the copy')
    loads = front.loads()
    loads.go_on(3)
    good = front.lb.path.read_text()
    if broken == 'file':
        front.lb.path.write_text(good + 'no_such_setting: 1\n')
    elif broken == 'port':
        front.lb.config['listen'] = front.listen + [{'address': '127.0.0.1:%d' % taken.getsockname()[1]}]
        front.lb.write_config()
    elif broken == 'state':
        front.lb.config['state_dir'] = '/proc/no-such-directory'
        front.lb.write_config()
    else:
        (world.directory / 'new').write_text('#!/bin/sh\nexit 7\n')
        (world.directory / 'new').chmod(0o755)
        os.rename(world.directory / 'new', binary)
    pid = front.lb.process.pid
    front.lb.process.kill(signal.SIGUSR2)
    wait_until(lambda: 'upgrade-failed' in front.lb.process.output(), 'the failure')
    loads.go_on(3)
    assert pid_of(front.lb) == pid
    if broken == 'program':
        front.lb.process.wait_logged('how="exit 7"')
        os.unlink(binary)
        shutil.copy(BIN / 'resumelb', binary)
    front.lb.path.write_text(good)
    upgrade(front.lb)
    loads.go_on(3)
    loads.stop()
    taken.close()
    assert os.path.exists(front.unix[5:])
    assert sorted(front.posts.names) == loads.sent()


def test_a_new_one_that_hangs_is_given_up(world):
    binary = world.directory / 'resumelb'
    shutil.copy(BIN / 'resumelb', binary)
    front = Front(world, upgrade_timeout='10s')
    front.lb.process.stop()
    front.lb.process = world.process([binary, '-c', front.lb.path], 'copy')
    wait_until(front.lb.ready, 'the copy')
    (world.directory / 'new').write_text('#!/bin/sh\necho $$ > %s\nexec sleep 1000\n' % (world.directory / 'hung'))
    (world.directory / 'new').chmod(0o755)
    os.rename(world.directory / 'new', binary)
    front.lb.process.kill(signal.SIGUSR2)
    wait_until(lambda: 'reason="not ready in time"' in front.lb.process.output(), 'the end of patience')
    assert not alive(int((world.directory / 'hung').read_text()))
    assert get(front.plain).status == 200 and front.lb.process.alive()


def slow_start(front):
    """Adds a worker with a resume stream that sends nothing: the new process waits start_wait for it."""
    silent = socket.create_server(('127.0.0.1', 0))
    front.lb.config['workers'] = [w.address for w in front.workers] + [
        {'address': '127.0.0.1:%d' % silent.getsockname()[1], 'resume': 'stream'}]
    front.lb.config['start_wait'] = '60s'
    front.lb.write_config()
    return silent


def children(pid):
    with open('/proc/%d/task/%d/children' % (pid, pid)) as f:
        return [int(x) for x in f.read().split()]


def test_the_second_of_two_signals_is_ignored_and_sigterm_ends_both(world):
    front = Front(world)
    silent = slow_start(front)
    old = front.lb.process
    old.kill(signal.SIGUSR2)
    new = wait_until(lambda: children(old.pid), 'the new one')
    old.kill(signal.SIGUSR2)
    wait_until(lambda: 'upgrade-ignored reason="an upgrade is in progress"' in old.output(), 'the rejection')
    assert children(old.pid) == new
    assert get(front.plain).status == 200
    old.kill(signal.SIGTERM)
    assert old.wait() == 0
    old.wait_logged('reason="shutdown requested"')
    assert not alive(new[0])
    silent.close()


def test_no_new_one_is_started_while_draining(world):
    gate = threading.Event()

    def respond(c, head, body):
        gate.wait(LIMIT)
        c.respond(b'slow')
    w = world.scripted(serve(respond))
    lb = world.resumelb({'workers': [w.address]})
    with Client(lb.address) as c:
        c.send()
        wait_until(lambda: w.requests, 'the request')
        lb.process.kill(signal.SIGTERM)
        wait_until(lambda: 'stopping' in lb.process.output(), 'the drain')
        lb.process.kill(signal.SIGUSR2)
        wait_until(lambda: 'upgrade-ignored reason="shutting down"' in lb.process.output(), 'the rejection')
        gate.set()
        assert c.receive().body == b'slow'
    assert lb.process.wait() == 0


def test_a_request_in_progress_is_finished_and_both_end_when_the_service_is_stopped(world):
    gate = threading.Event()

    def respond(c, head, body):
        gate.wait(LIMIT)
        c.respond(b'slow')
    w = world.scripted(serve(respond))
    lb = world.resumelb({'workers': [w.address]})
    with Client(lb.address) as c:
        c.send('POST', body=b'x')
        wait_until(lambda: w.requests, 'the request')
        old = lb.process
        old.kill(signal.SIGUSR2)
        follow(lb, old.pid)
        # sent to all processes of the unit, as by a service manager
        old.kill(signal.SIGTERM)
        lb.process.kill(signal.SIGTERM)
        lb.process.wait()
        assert old.alive()
        gate.set()
        assert c.receive().body == b'slow'
    assert old.wait() == 0
    assert len(w.requests) == 1


def test_skills_pass_to_the_new_process(world):
    workers = [world.scripted(serve(hello)) for _ in range(2)]
    lb = world.resumelb({'workers': [w.address for w in workers], 'resume': 'measure', 'history': 5,
                         'state_dir': str(world.directory / 'state')})

    for _ in range(20):
        assert lb.get(host='a.example').status == 200
    wait_until(lambda: 'a.example' in str(lb.json('/resumes.json')), 'skills')
    upgrade(lb)
    assert 'a.example' in str(lb.json('/resumes.json'))
    # the new process has the lock: another process is still rejected
    other = world.resumelb({'workers': [workers[0].address], 'state_dir': str(world.directory / 'state')}, name='other', wait=False)
    assert other.process.wait() == 1 and 'state-dir-lock-failed' in other.process.output()
    assert lb.get(host='a.example').status == 200


def test_the_service_manager_receives_the_new_main_pid(world):
    """The old process reports the new one, as only its notifications are accepted, and does not report a stop of the service."""
    path = str(world.directory / 'notify')
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(path)
    notify.settimeout(LIMIT)
    w = world.scripted(serve(hello))
    lb = world.resumelb({'workers': [w.address]}, env={'NOTIFY_SOCKET': path})
    assert notify.recv(1000) == b'READY=1'
    upgrade(lb)
    assert notify.recv(1000) == b'MAINPID=%d\nREADY=1' % lb.process.pid
    lb.process.stop()
    assert notify.recv(1000) == b'STOPPING=1'
    notify.setblocking(False)
    with pytest.raises(BlockingIOError):
        notify.recv(1000)
    notify.close()


def test_the_registration_in_the_tree_keeps_its_name(world):
    tree = world.directory / 'tree'
    w = world.scripted(serve(hello))
    lb = world.resumelb({'applications': {'app': {'tree': 'directory:%s' % (tree / 'app'), 'workers': [w.address]}}})
    providers = tree / 'app' / 'providers'

    def registered():
        return {p.name: p.read_text() for p in providers.iterdir()}
    wait_until(lambda: lb.address in registered(), 'the registration')
    upgrade(lb)
    wait_until(lambda: '"pid":%d' % lb.process.pid in registered().get(lb.address, '').replace(' ', ''), 'the new one\'s')
    assert len(registered()) == 1


def test_an_http2_client_gets_goaway_and_finishes_what_it_has(world):
    gate = threading.Event()

    def respond(c, head, body):
        if b'/slow' in head[:20]:
            gate.wait(LIMIT)
        c.respond(b'done')
    w = world.scripted(serve(respond))
    pair = Pair(world.directory, 'site', ['test.example'])
    address = '127.0.0.1:%d' % free_port()
    lb = world.resumelb({'workers': [w.address]}, listen=[{'address': address, 'tls': pair.entry, 'http2': True}])
    client, responses = Http2(address, http2_context()), []
    assert client.request('GET', '/') == (200, b'done')
    thread = threading.Thread(target=lambda: responses.append(client.request('POST', '/slow', (), b'x')))
    thread.start()
    wait_until(lambda: len(w.requests) == 2, 'the request')
    old = lb.process
    old.kill(signal.SIGUSR2)
    follow(lb, old.pid)
    wait_until(lambda: client.leaving, 'GOAWAY')
    gate.set()
    thread.join(LIMIT)
    assert responses == [(200, b'done')]
    client.close()
    assert old.wait() == 0
    assert Http2(address, http2_context()).request('GET', '/') == (200, b'done')


def test_a_number_in_the_environment_that_is_no_channel_is_rejected(world):
    w = world.scripted(serve(hello))
    for value in ('7', '1', 'x', ''):
        lb = world.resumelb({'workers': [w.address]}, name='env%s' % value, wait=False,
                            env={'RESUMELB_UPGRADE_FD': value})
        assert lb.process.wait() == 1
        lb.process.wait_logged('upgrade-protocol-mismatch')


def test_every_change_at_once_costs_none_a_request(world):
    """Changed settings, new certificates, redeployed workers and new programs, one after the other."""
    tree = world.directory / 'tree'
    agent = TinyAgent(world, slots=2, max_queue=200)
    posts = Posts()
    listed = [world.scripted(serve(posts.respond)) for _ in range(2)]
    live = Pair(world.directory, 'live', ['test.example'])
    others = [Pair(world.directory, 'other%d' % i, ['test.example']) for i in range(2)]
    plain, tls = ('127.0.0.1:%d' % free_port() for _ in range(2))
    applications = {'app': {'tree': 'directory:%s' % (tree / 'app'), 'path': '/app'},
                    'site': {'workers': [w.address for w in listed], 'path': '/'}}
    lb = world.resumelb({'applications': applications}, wait=False,
                        listen=[{'address': plain}, {'address': tls, 'tls': live.entry, 'http2': True}])
    wait_until(lambda: lb.listening() and len([w for w in lb.workers('app').values() if w['state'] == 'ready']) == 2,
               'the agent\'s workers')
    loads = Loads([(plain, 'plain', True, True), (plain, 'plain', False, False), (tls, 'tls', True, True),
                   (tls, 'tls', False, False), (tls, 'h2', True, True)])
    deployed = Loads([(plain, 'plain', False, True)], target='/app')
    (world.directory / 'tmp').mkdir(exist_ok=True)
    instances = {w['instance'] for w in lb.workers('app').values()}
    for turn in range(2 * ROUNDS):
        retries = 3 + turn % 2      # another value in each turn
        applications['site']['retries'] = retries
        lb.reload()
        wait_until(lambda: lb.app('site')['settings']['retries']['value'] == str(retries), 'the setting')
        others[turn % 2].copy_to(live)
        lb.reload()
        wait_until(lambda: shown(tls, 'test.example') == others[turn % 2].fingerprint, 'the certificate')
        (world.directory / 'tmp' / 'restart.txt').write_text(str(turn))
        upgrade(lb)
        loads.go_on(10)
        deployed.go_on(5)
        wait_until(lambda: len([w for w in lb.workers('app').values() if w['state'] == 'ready'
                                and w['instance'] not in instances]) == 2, 'new workers')
        instances |= {w['instance'] for w in lb.workers('app').values()}
        assert shown(tls, 'test.example') == others[turn % 2].fingerprint
    loads.stop()
    deployed.stop()
    assert sorted(posts.names) == loads.sent()
    assert len(agent.json()['applications']['app']['slots']) == 2
