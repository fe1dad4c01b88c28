# SPDX-License-Identifier: Apache-2.0
"""Setting `user` of the agent and of the pool counter daemon, and what is left to them then."""
import json
import signal
import stat
import subprocess

import pytest

from agent_support import TinyAgent
from agent_upgrade_support import upgrade
from poolcounter_support import Daemon, alive, status
from rights_support import NOBODY, ORDINARY, ROOT, assert_is_nobody
from support.base import BIN, free_port, low_port, wait_until
from support.http import Client

# Somebody else than nobody, whom the daemons below are asked to become.
OTHER = 'daemon' if ROOT else 'nobody'


def refused(open_world, program, text):
    """As an ordinary user; what it says."""
    path = open_world.folder / 'refused.yaml'
    path.write_text(text)
    out = subprocess.run([*ORDINARY, BIN / program, '-c', path], capture_output=True, text=True, timeout=60,
                         stdin=subprocess.DEVNULL)
    assert out.returncode == 1, out.stderr
    return out.stderr


def agent_text(open_world, top='', app=''):
    return ('state_dir: %s\n%sapplications: {app: {command: [/bin/true], root: /, address: "127.0.0.1:0"%s}}\n'
            % (open_world.folder / 'state', top, app))


def test_daemons_that_are_not_roots_cannot_become_another_user(open_world):
    text = 'user: %s\n' % OTHER
    assert 'only root can become another user' in refused(open_world, 'resumelb-agent', agent_text(open_world, top=text))
    text += 'listen: "127.0.0.1:%d"\n' % free_port()
    assert 'only root can become another user' in refused(open_world, 'resumelb-poolcounter', text)


@pytest.mark.skipif(not ROOT, reason='what only root can do')
def test_an_agent_becomes_the_user_for_good_and_everything_goes_on_working(open_world):
    folder, low, door = open_world.folder, low_port(), open_world.folder / 'door.sock'
    agent = TinyAgent(open_world, top={'user': 'nobody'}, root='/', address='127.0.0.1:%d' % low,
                      listen=['unix:%s' % door])
    agent.addresses = ['127.0.0.1:%d' % low]
    agent.wait_ready()
    keeper = agent.json()['keeper_pid']
    seen = json.loads(agent.get().body)
    assert (seen['uid'], seen['gid'], seen['groups']) == (NOBODY, NOBODY, [NOBODY])
    assert (seen['env']['USER'], seen['env']['LOGNAME']) == ('nobody', 'nobody')
    assert seen['env']['HOME'] != '/root'
    for pid in (agent.process.pid, keeper, seen['pid']):
        assert_is_nobody(pid)
    assert (door.stat().st_uid, stat.S_IMODE(door.stat().st_mode)) == (NOBODY, 0o660)
    with Client('unix:%s' % door) as c:
        assert c.request().status == 200
    state = folder / 'agent-state'
    assert {p.stat().st_uid for p in (state, *state.rglob('*'))} == {NOBODY}
    # A new program needs no root: the socket of the low port is left to it, and the process as well.
    upgrade(agent)
    assert_is_nobody(agent.process.pid)
    assert json.loads(agent.get().body)['pid'] == seen['pid']


@pytest.mark.parametrize('app', [', user: daemon', ', group: daemon', ', user: nobody, group: daemon'])
def test_an_agent_with_a_user_refuses_applications_of_others(open_world, app):
    said = refused(open_world, 'resumelb-agent', agent_text(open_world, top='user: nobody\n', app=app))
    assert "another one than the agent's own" in said and 'leave out one of the two' in said


def test_an_application_may_name_the_user_that_its_agent_has(open_world):
    path = open_world.folder / 'good.yaml'
    path.write_text(agent_text(open_world, top='user: nobody\n', app=', user: nobody'))
    out = subprocess.run([BIN / 'resumelb-agent', '-t', '-c', path], capture_output=True, text=True, timeout=60)
    assert out.returncode == 0, out.stderr


@pytest.mark.skipif(not ROOT, reason='what only root can do')
def test_a_pool_counter_daemon_becomes_the_user_for_good(open_world):
    low, admin, path = low_port(), free_port(), open_world.folder / 'pool.sock'
    pool = Daemon(open_world, own_socket=False, config={
        'user': 'nobody', 'listen': ['127.0.0.1:%d' % low, 'unix:%s' % path], 'listen_mode': 660,
        'admin': {'address': '127.0.0.1:%d' % admin}})
    wait_until(lambda: 'rights-dropped' in pool.process.output(), 'the rights to be dropped')
    holder = pool.connect(('127.0.0.1', low))
    assert holder.ask('ACQ4ME k 1 9 0') == 'LOCKED'
    assert_is_nobody(pool.process.pid, threads=2)
    assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (NOBODY, 0o660)
    assert pool.connect(str(path)).ask('ACQ4ME k 2 9 0') == 'LOCKED'
    assert status(admin)['counters']['held'] == 2
    # The next one needs no root: the sockets are left to it.
    pool.process.kill(signal.SIGUSR1)
    wait_until(lambda: 'new-process-serves' in pool.process.output(), 'the new process')
    pid = int(pool.process.output().rpartition('new-process-serves pid=')[2].split()[0])
    try:
        wait_until(lambda: status(admin)['counters']['held'] == 0, 'it at the admin address')
        assert_is_nobody(pid, threads=2)
    finally:
        subprocess.run(['kill', '-TERM', str(pid)], check=True)
        wait_until(lambda: not alive(pid), 'it to end')


@pytest.mark.parametrize('text, said', [
    ('user: no-such-user\n', 'user no-such-user: there is no such user'),
    ('user: nobody\ngroup: no-such-group\n', 'there is no such group'),
    ('group: nogroup\n', 'group nogroup: is nothing without a user'),
])
def test_a_user_that_is_not_there_is_a_bad_configuration(open_world, text, said):
    for program, whole in (('resumelb-poolcounter', text), ('resumelb-agent', agent_text(open_world, top=text))):
        path = open_world.folder / 'bad.yaml'
        path.write_text(whole)
        out = subprocess.run([BIN / program, '-t', '-c', path], capture_output=True, text=True, timeout=60,
                             stdin=subprocess.DEVNULL)
        assert out.returncode == 1 and said in out.stderr, out.stderr
