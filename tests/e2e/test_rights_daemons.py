# SPDX-License-Identifier: Apache-2.0
"""Privileges of the agent and of the pool counter daemon with the setting `user`."""
import json
import os
import pathlib
import select
import signal
import socket
import stat
import subprocess
import sys

import pytest

from agent_support import TinyAgent
from agent_upgrade_support import upgrade
from poolcounter_support import Daemon, alive, status
from rights_support import DAEMON, NOBODY, ORDINARY, ORDINARY_NAME, ROOT, assert_is, assert_is_none, threads_of
from support.base import BIN, LIMIT, free_port, low_port, wait_until
from support.http import Client

# A user other than the one that the unprivileged daemons below run as: they are configured to switch to it.
OTHER = 'daemon' if ROOT else 'nobody'


def rejected(open_world, program, text):
    """Runs PROGRAM as an unprivileged user. Returns its error output."""
    path = open_world.directory / 'rejected.yaml'
    path.write_text(text)
    out = subprocess.run([*ORDINARY, open_world.bin / program, '-c', path], capture_output=True, text=True, timeout=LIMIT,
                         stdin=subprocess.DEVNULL)
    assert out.returncode == 1, out.stderr
    return out.stderr


def agent_text(open_world, top='', app=''):
    return ('state_dir: %s\n%sapplications: {app: {command: [/bin/true], root: /, address: "127.0.0.1:0"%s}}\n'
            % (open_world.directory / 'state', top, app))


def test_daemons_that_are_not_roots_cannot_become_another_user(open_world):
    text = 'user: %s\n' % OTHER
    assert 'only root can become another user' in rejected(open_world, 'resumelb-agent', agent_text(open_world, top=text))
    text += 'listen: "127.0.0.1:%d"\n' % free_port()
    assert 'only root can become another user' in rejected(open_world, 'resumelb-poolcounter', text)


@pytest.mark.skipif(not ROOT, reason='what only root can do')
def test_an_agent_becomes_the_user_for_good_and_everything_continues_working(open_world):
    directory, low, door = open_world.directory, low_port(), open_world.directory / 'door.sock'
    agent = TinyAgent(open_world, top={'user': 'nobody'}, root='/', address='127.0.0.1:%d' % low,
                      listen=['unix:%s' % door])
    agent.addresses = ['127.0.0.1:%d' % low]
    agent.wait_ready()
    supervisor = agent.json()['supervisor_pid']
    seen = json.loads(agent.get().body)
    assert (seen['uid'], seen['gid'], seen['groups']) == (NOBODY, NOBODY, [NOBODY])
    assert (seen['env']['USER'], seen['env']['LOGNAME']) == ('nobody', 'nobody')
    assert seen['env']['HOME'] != '/root'
    for pid in (agent.process.pid, supervisor, seen['pid']):
        assert_is_none(pid)
    assert (door.stat().st_uid, stat.S_IMODE(door.stat().st_mode)) == (NOBODY, 0o660)
    with Client('unix:%s' % door) as c:
        assert c.request().status == 200
    state = directory / 'agent-state'
    assert {p.stat().st_uid for p in (state, *state.rglob('*'))} == {NOBODY}
    # A new process needs no root privileges: it inherits the socket of the low port, and the application process.
    upgrade(agent)
    assert_is_none(agent.process.pid)
    assert json.loads(agent.get().body)['pid'] == seen['pid']


@pytest.mark.parametrize('app', [', user: daemon', ', group: daemon', ', user: %s, group: daemon' % ORDINARY_NAME])
def test_only_root_can_start_an_agent_with_a_user_and_applications_of_others(open_world, app):
    said = rejected(open_world, 'resumelb-agent', agent_text(open_world, top='user: %s\n' % ORDINARY_NAME, app=app))
    assert 'privileges-drop-failed user=%s reason="only root can start processes of other users"' % ORDINARY_NAME in said


@pytest.mark.parametrize('app, why', [
    (', user: root', 'an agent that has a user does not start processes of root'),
    (', user: daemon, group: nogroup', "is in the group of the agent's own user"),
    (', user: daemon, environment: {AT: "{socket}"}', 'with {socket} in command or environment'),
])
def test_an_agent_with_a_user_rejects_others_that_would_reach_too_much_or_too_little(open_world, app, why):
    path = open_world.directory / 'rejected.yaml'
    path.write_text(agent_text(open_world, top='user: nobody\n', app=app))
    out = subprocess.run([BIN / 'resumelb-agent', '-t', '-c', path], capture_output=True, text=True, timeout=LIMIT)
    assert out.returncode == 1 and why in out.stderr, out.stderr


def test_an_application_may_name_the_user_that_its_agent_has(open_world):
    path = open_world.directory / 'good.yaml'
    path.write_text(agent_text(open_world, top='user: nobody\n', app=', user: nobody'))
    out = subprocess.run([BIN / 'resumelb-agent', '-t', '-c', path], capture_output=True, text=True, timeout=LIMIT)
    assert out.returncode == 0, out.stderr


class SplitAgent(TinyAgent):
    """An agent that runs as an unprivileged user, with a supervisor of root and application processes of another user."""

    def __init__(self, world, user='daemon', top=None, **settings):
        super().__init__(world, top={'user': 'nobody', **(top or {})}, root='/', user=user, **settings)

    def supervisor(self):
        return self.json()['supervisor_pid']

    def seen(self):
        return json.loads(self.get().body)

    def assert_split(self, user=DAEMON):
        """Checks the users and the capabilities of the supervisor, the agent and the process. Returns the pid of the process."""
        for t in threads_of(self.supervisor()):
            assert t['Uid'] == ['0'] * 4 and int(t['CapEff'][0], 16) != 0, t
        assert_is_none(self.process.pid)
        seen = self.seen()
        assert (seen['uid'], seen['gid'], seen['groups']) == (user, user, [user])
        assert_is(seen['pid'], user)
        return seen['pid']


@pytest.fixture
def split(open_world):
    """Creates such agents in a directory that belongs to root, except the files that they and their processes write."""
    open_world.directory.chmod(0o755)
    tree, log = open_world.directory / 'tree', open_world.directory / 'agent-served.log'
    tree.mkdir()
    os.chown(tree, NOBODY, NOBODY)
    log.touch()
    log.chmod(0o666)
    return lambda **settings: SplitAgent(open_world, **settings)


only_root = pytest.mark.skipif(not ROOT, reason='what only root can do')


@only_root
@pytest.mark.parametrize('settings', [{}, {'socket': 'tcp'}, {'server': ('{port}',)}])
def test_the_supervisor_alone_stays_root_where_applications_have_other_users(open_world, split, settings):
    agent = split(**settings).wait_ready()
    agent.assert_split()
    state = open_world.directory / 'agent-state'
    # The agent cannot replace the files of the supervisor.
    assert (state.stat().st_uid, state.stat().st_gid, stat.S_IMODE(state.stat().st_mode)) == (0, NOBODY, 0o1771)
    assert {(state / name).stat().st_uid for name in ('run', 'supervisor.lock', 'supervisor.sock')} == {0}
    assert stat.S_IMODE((state / 'run').stat().st_mode) == 0o711
    assert (state / 'app').stat().st_uid == NOBODY


@only_root
def test_a_process_that_dies_comes_back_as_its_user(split):
    agent = split().wait_ready()
    first = agent.assert_split()
    with Client(agent.address) as c:
        try:
            c.request(headers=[('x-die', '1')])
        except (OSError, AssertionError):
            pass
    wait_until(lambda: agent.get().status == 200 and agent.seen()['pid'] != first, 'another process')
    agent.assert_split()


@only_root
def test_an_upgrade_and_the_one_after_need_no_root(split):
    agent = split().wait_ready()
    pid, supervisor = agent.assert_split(), agent.supervisor()
    for _ in range(2):
        upgrade(agent)
        assert agent.assert_split() == pid and agent.supervisor() == supervisor


@only_root
def test_a_killed_agent_is_followed_by_one_that_drops_its_rights_as_well(split):
    agent = split().wait_ready()
    pid, supervisor = agent.assert_split(), agent.supervisor()
    agent.process.kill(signal.SIGKILL)
    agent.process.wait()
    agent.start()
    agent.wait_ready()
    assert agent.assert_split() == pid and agent.supervisor() == supervisor


@only_root
def test_an_agent_that_was_root_gets_a_user_at_a_restart(open_world, split):
    """The state_dir is assigned to the user manually; the agent then makes root the owner of the supervisor's files again."""
    agent = split(top={'user': 'root'}).wait_ready()
    agent.process.kill(signal.SIGINT)
    agent.process.wait()
    state = open_world.directory / 'agent-state'
    for path in (state, *state.rglob('*')):
        os.chown(path, NOBODY, NOBODY)
    agent.top['user'] = 'nobody'
    agent.start()
    agent.wait_ready()
    agent.assert_split()
    assert (state.stat().st_uid, (state / 'run').stat().st_uid) == (0, 0)


@only_root
def test_a_user_that_none_had_at_the_start_needs_a_restart(split, monkeypatch):
    # A program that fails to start exits without freeing its memory.
    monkeypatch.setenv('ASAN_OPTIONS', os.environ.get('ASAN_OPTIONS', '') + ':detect_leaks=0')
    agent = split().wait_ready()
    pid, supervisor = agent.assert_split(), agent.supervisor()
    config = agent.path
    before = config.read_text()
    assert before.count('daemon') == 1
    config.write_text(before.replace('daemon', 'bin'))
    agent.process.kill(signal.SIGHUP)
    wait_until(lambda: 'config-reload-failed' in agent.process.output(), 'it to be rejected')
    agent.process.wait_logged('an application has one that none had at the start: restart')
    # A new process cannot make the supervisor accept the user either.
    agent.process.kill(signal.SIGUSR2)
    wait_until(lambda: 'upgrade-failed' in agent.process.output(), 'the upgrade to fail')
    agent.process.wait_logged('supervisor-users-rejected')
    agent.process.wait_logged('supervisor-join-failed')
    assert agent.assert_split() == pid
    # A start as root succeeds, with a new supervisor.
    agent.process.kill(signal.SIGKILL)
    agent.process.wait()
    agent.config['applications']['app']['user'] = 'bin'
    agent.start()
    agent.wait_ready()
    assert agent.assert_split(user=2) != pid and agent.supervisor() != supervisor


@only_root
def test_a_supervisor_of_an_agent_that_stayed_root_is_not_taken_over(split):
    """The supervisor of such an agent would start processes of any user."""
    agent = split(top={'user': 'root'}).wait_ready()
    pid, supervisor = agent.seen()['pid'], agent.supervisor()
    agent.process.kill(signal.SIGKILL)
    agent.process.wait()
    agent.top['user'] = 'nobody'
    agent.start()
    agent.wait_ready()
    assert agent.assert_split() != pid and agent.supervisor() != supervisor


# An application that puts a link to another socket in the place of its own, and waits.
LINKED = 'import os, sys, time; os.symlink(%r, sys.argv[1]); time.sleep(3600)'


@only_root
def test_a_process_cannot_lead_its_agent_to_a_socket_of_another_user(open_world):
    """In {socket} mode the directory is the application's, and the agent may open sockets that the application may not."""
    path = str(open_world.directory / 'agent-state' / 'root.sock')
    pathlib.Path(path).parent.mkdir(mode=0o711)
    with socket.socket(socket.AF_UNIX) as secret:
        secret.bind(path)
        os.chmod(path, 0o600)
        secret.listen()
        agent = TinyAgent(open_world, root='/', user='nobody', start_timeout='1s', ready_probe=None)
        agent.process.kill(signal.SIGINT)
        agent.process.wait()
        agent.config['applications']['app']['command'] = [sys.executable, '-c', LINKED % path, '{socket}']
        agent.start()
        agent.wait_listening()
        reached = lambda: bool(select.select([secret], [], [], 0)[0])
        wait_until(lambda: reached() or 'process-start-timeout' in agent.process.output(), 'the start to fail')
        assert not reached()


@only_root
def test_an_agent_of_root_serves_by_the_sockets_that_applications_bind_as_their_users(open_world):
    agent = TinyAgent(open_world, server=('{socket}',), root='/', user='nobody').wait_ready()
    assert json.loads(agent.get().body)['uid'] == NOBODY


def try_as(user, code):
    """Runs Python CODE as USER. Returns its output."""
    out = subprocess.run(['setpriv', '--reuid=%d' % user, '--regid=%d' % user, '--clear-groups', sys.executable, '-c', code],
                         capture_output=True, text=True, timeout=LIMIT)
    assert out.returncode == 0, out.stderr
    return out.stdout.strip()


# A client of the supervisor, like a compromised agent: it states the listed user, and requests a process of another one.
ASK = """
import json, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try:
    s.connect(%(path)r)
    def send(**m):
        s.send(json.dumps(m).encode())
    send(op='hello', v=2, adopt_timeout_ms=10000, users=[{'uid': %(uid)d, 'gid': %(gid)d, 'groups': [%(gid)d]}])
    hello = json.loads(s.recv(65536))
    for _ in range(hello['processes']):
        s.recv(65536)
    send(op='spawn', id='ab' * 16, application='app', spec='0' * 16, slot=0, listen=1, words=['/bin/true'], env=[], root='/',
         switch_user=%(switch)s, uid=%(want)d, gid=%(want)d, groups=[%(want)d], stop_timeout_ms=1000)
    print(s.recv(65536).decode())
except OSError as e:
    print('closed', e)
"""


@only_root
@pytest.mark.parametrize('user, want, switch, said', [
    (NOBODY, 0, True, 'uid 0, gid 0, with its groups, is not a user of an application'),
    (NOBODY, 2, True, 'uid 2, gid 2, with its groups, is not a user of an application'),
    (NOBODY, NOBODY, False, 'is not a user of an application'),
    (NOBODY, DAEMON, True, '"spawned"'),
    (DAEMON, DAEMON, True, 'closed'),
])
def test_the_supervisor_starts_processes_of_its_list_alone(open_world, split, user, want, switch, said):
    split().wait_ready()
    path = str(open_world.directory / 'agent-state' / 'supervisor.sock')
    assert said in try_as(user, ASK % {'path': path, 'uid': NOBODY, 'gid': NOBODY, 'want': want, 'switch': switch})


@only_root
def test_the_agents_user_cannot_put_links_in_the_supervisors_way(open_world, split):
    split().wait_ready()
    state = open_world.directory / 'agent-state'
    for name in ('run', 'supervisor.sock', 'supervisor.lock'):
        for step in ('os.rename(%r, %r)' % (str(state / name), str(state / 'away')), 'os.unlink(%r)' % str(state / name)):
            code = 'import os\ntry:\n    %s\nexcept OSError as e:\n    print(type(e).__name__)' % step
            assert try_as(NOBODY, code) in ('PermissionError', 'IsADirectoryError')


def not_started(open_world):
    """Runs the agent as root. Returns its error output."""
    path = open_world.directory / 'not-started.yaml'
    path.write_text(agent_text(open_world, top='user: nobody\n', app=', user: daemon'))
    out = subprocess.run([open_world.bin / 'resumelb-agent', '-c', path], capture_output=True, text=True, timeout=LIMIT,
                         stdin=subprocess.DEVNULL)
    assert out.returncode == 1, out.stderr
    return out.stderr


@only_root
@pytest.mark.parametrize('name, said', [('run', 'supervisor-directory-failed'), ('supervisor.lock', 'supervisor-lock-failed'),
                                        ('agent.lock', 'state-dir-lock-failed')])
def test_links_that_were_there_before_are_not_followed(open_world, name, said):
    open_world.directory.chmod(0o755)
    state, target = open_world.directory / 'state', open_world.directory / 'target'
    state.mkdir()
    target.mkdir(mode=0o700)
    (target / 'file').touch()
    (state / name).symlink_to(target if name == 'run' else target / 'made')
    assert said in not_started(open_world)
    assert [p.name for p in target.iterdir()] == ['file'] and stat.S_IMODE(target.stat().st_mode) == 0o700
    assert (state / name).is_symlink()


@only_root
def test_a_state_dir_below_a_directory_of_others_is_rejected(open_world):
    open_world.directory.chmod(0o755)
    os.chown(open_world.directory, DAEMON, DAEMON)
    assert 'state-dir-insecure directory=%s' % open_world.directory in not_started(open_world)


@pytest.mark.skipif(not ROOT, reason='what only root can do')
def test_a_pool_counter_daemon_becomes_the_user_for_good(open_world):
    low, admin, path = low_port(), free_port(), open_world.directory / 'pool.sock'
    pool = Daemon(open_world, binary=open_world.bin / 'resumelb-poolcounter', own_socket=False, config={
        'user': 'nobody', 'listen': ['127.0.0.1:%d' % low, 'unix:%s' % path], 'listen_mode': 660,
        'admin': {'address': '127.0.0.1:%d' % admin}})
    wait_until(lambda: 'privileges-dropped' in pool.process.output(), 'the rights to be dropped')
    holder = pool.connect(('127.0.0.1', low))
    assert holder.ask('ACQ4ME k 1 9 0') == 'LOCKED'
    assert_is_none(pool.process.pid, threads=2)
    assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (NOBODY, 0o660)
    assert pool.connect(str(path)).ask('ACQ4ME k 2 9 0') == 'LOCKED'
    assert status(admin)['counters']['held'] == 2
    # The next process needs no root privileges: it inherits the sockets.
    pool.process.kill(signal.SIGUSR2)
    wait_until(lambda: 'stage="handed over"' in pool.process.output(), 'the new process')
    pid = int(pool.process.output().rpartition('stage="handed over" pid=')[2].split()[0])
    try:
        wait_until(lambda: status(admin)['counters']['held'] == 0, 'it at the admin address')
        assert_is_none(pid, threads=2)
    finally:
        subprocess.run(['kill', '-TERM', str(pid)], check=True)
        wait_until(lambda: not alive(pid), 'it to end')


@pytest.mark.parametrize('text, said', [
    ('user: no-such-user\n', 'user no-such-user: unknown user'),
    ('user: nobody\ngroup: no-such-group\n', 'unknown group'),
    ('group: nogroup\n', 'group nogroup: requires user'),
])
def test_a_user_that_is_not_there_is_a_bad_configuration(open_world, text, said):
    for program, whole in (('resumelb-poolcounter', text), ('resumelb-agent', agent_text(open_world, top=text))):
        path = open_world.directory / 'bad.yaml'
        path.write_text(whole)
        out = subprocess.run([BIN / program, '-t', '-c', path], capture_output=True, text=True, timeout=LIMIT,
                             stdin=subprocess.DEVNULL)
        assert out.returncode == 1 and said in out.stderr, out.stderr
