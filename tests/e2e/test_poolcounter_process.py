# SPDX-License-Identifier: Apache-2.0
"""The process of the daemon: options, addresses, signals, upgrades, the admin address."""
import os
import re
import select
import signal
import socket
import subprocess

import pytest

from poolcounter_support import OURS, Daemon, alive, page, status
from support.base import LIMIT, ROOT, free_port, wait_until


def run(*args, stdin=subprocess.DEVNULL):
    return subprocess.run([OURS, *map(str, args)], stdin=stdin, capture_output=True, text=True, timeout=LIMIT)


def listening(daemon, text='listening'):
    wait_until(lambda: text in daemon.process.output(), 'it to listen')


# ---- options ----

@pytest.mark.parametrize('args', [['-x'], ['-l'], ['-p', 'x'], ['-p', '65536'], ['--describe', 'outcomes'], ['-c']])
def test_bad_usage_is_reported_and_ends_with_1(args):
    done = run(*args)
    assert done.returncode == 1
    assert 'usage: resumelb-poolcounter' in done.stderr


@pytest.mark.parametrize('address', ['localhost', '127.1', '1.2.3.4.5', '', '::g', 'unix:relative', '127.0.0.1:99999'])
def test_an_address_that_is_none_is_reported_as_the_original_does(address):
    # Checked first: the standard input is a socket, but not a listening one.
    with socket.socket() as s:
        done = run('-l', address, stdin=s)
    assert (done.returncode, done.stderr) == (1, 'Address `%s` is not valid to listen on.\n' % address)


def test_version_help_and_manual_pages_are_printed():
    assert re.fullmatch(r'resumelb-poolcounter \d+\.\d+\.\d+\n', run('-v').stdout)
    assert '-l, --listen ADDRESS' in run('--help').stdout
    assert 'max_waiters' in run('--describe', 'settings').stdout
    assert 'resumelb_poolcounter_type_held' in run('--describe', 'stats').stdout


def test_a_configuration_is_tested_whole(tmp_path):
    bad = tmp_path / 'bad.yaml'
    bad.write_text('listen: [localhost:1, 127.0.0.1:2]\nmax_kays: 3\ntypes:\n  "a b": {slots: 1}\n  c: {slots: x}\n'
                   'admin: {address: "0.0.0.0:1"}\n')
    done = run('-t', '-c', bad)
    assert done.returncode == 1
    for problem in (':1:', ':2:', 'did you mean "max_key', ':4:', ':5:', 'needs a token'):
        assert problem in done.stderr, done.stderr
    good = tmp_path / 'good.yaml'
    good.write_text('types: {ArticleView: {slots: 10, workers: 4}}\n')
    assert run('-t', '-c', good).returncode == 0
    assert run('-c', tmp_path / 'none.yaml').returncode == 1


# ---- addresses ----

def test_the_daemon_listens_at_several_addresses_of_all_kinds(world):
    path = '%s/pool.sock' % world.directory
    port, other = free_port(), free_port()
    pool = Daemon(world, own_socket=False,
                  args=['-l', '127.0.0.1', '-l', '::1', '-l', 'unix:' + path, '-l', '127.0.0.1:%d' % other, '-p', str(port)])
    listening(pool, 'address=127.0.0.1:%d' % other)
    clients = [pool.connect(a) for a in (('127.0.0.1', port), ('::1', port), path, ('127.0.0.1', other))]
    assert [c.ask('ACQ4ME k 9 %d 0' % (i + 1)) for i, c in enumerate(clients)] == ['LOCKED'] * 4
    assert [c.ask('STATS processing_workers') for c in clients] == ['processing_workers: 4'] * 4


def test_the_double_colon_serves_both_families(world):
    port = free_port()
    pool = Daemon(world, own_socket=False, args=['-l', '::', '-p', str(port)])
    listening(pool, '0.0.0.0:')
    assert [pool.connect((h, port)).ask('RELEASE') for h in ('127.0.0.1', '::1')] == ['NOT_LOCKED'] * 2


def test_configured_addresses_are_listened_at(world):
    port = free_port()
    pool = Daemon(world, own_socket=False, config={'listen': ['127.0.0.1:%d' % port], 'backlog': 7})
    listening(pool)
    assert pool.connect(('127.0.0.1', port)).ask('RELEASE') == 'NOT_LOCKED'


def test_an_address_in_use_ends_it_with_1(world):
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        s.listen()
        done = run('-l', '127.0.0.1', '-p', s.getsockname()[1])
    assert done.returncode == 1
    assert 'listen-failed' in done.stderr


def test_a_daemon_without_its_admin_address_serves_no_client(tmp_path):
    with socket.create_server(('127.0.0.1', 0)) as taken, socket.create_server(('127.0.0.1', 0)) as listener:
        config = tmp_path / 'pool.yaml'
        port = taken.getsockname()[1]
        config.write_text('admin: {address: "127.0.0.1:%d"}\n' % port)
        # It has been in the queue of the socket since before the start of the program.
        with socket.create_connection(listener.getsockname(), timeout=LIMIT) as early:
            early.sendall(b'RELEASE\n')
            done = run('-c', config, stdin=listener)
            assert select.select([early], [], [], 0)[0] == []
    assert done.returncode == 1
    assert 'admin-listen-failed address=127.0.0.1:%d ' % port in done.stderr
    assert ' listening ' not in done.stderr


def test_the_daemon_restarts_at_its_address_while_clients_are_still_connected(world):
    port = free_port()
    first = Daemon(world, own_socket=False, args=['-p', str(port)])
    listening(first)
    c = first.connect(('127.0.0.1', port))
    assert c.ask('RELEASE') == 'NOT_LOCKED'
    first.process.kill(signal.SIGTERM)
    assert first.process.wait() == 0
    second = Daemon(world, 'second', own_socket=False, args=['-p', str(port)])
    listening(second)
    assert second.connect(('127.0.0.1', port)).ask('RELEASE') == 'NOT_LOCKED'


def test_a_standard_input_that_does_not_listen_is_not_taken(world):
    port = free_port()
    a, b = socket.socketpair()
    with a, b:
        p = subprocess.Popen([OURS, '-p', str(port)], stdin=a, stderr=subprocess.PIPE, text=True)
        try:
            assert 'inherited-descriptor-invalid' in p.stderr.readline()
            assert 'listening' in p.stderr.readline()
            socket.create_connection(('127.0.0.1', port), timeout=LIMIT).close()
        finally:
            p.terminate()
            assert p.wait() == 0
            p.stderr.close()


def test_a_service_managers_sockets_are_taken(world):
    # The shell passes its own pid, which exec retains.
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        s.listen()
        os.set_inheritable(s.fileno(), True)
        p = subprocess.Popen(['/bin/bash', '-c', 'exec 3<&%d; LISTEN_PID=$$ LISTEN_FDS=1 exec %s' % (s.fileno(), OURS)],
                             stdin=subprocess.DEVNULL, pass_fds=[s.fileno()])
        try:
            with socket.create_connection(s.getsockname(), timeout=LIMIT) as c:
                c.sendall(b'RELEASE\n')
                assert c.recv(100) == b'NOT_LOCKED\n'
        finally:
            p.terminate()
            assert p.wait() == 0


# ---- signals ----

@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_daemon_at_once_with_0_and_closes_its_clients(world, number):
    pool = Daemon(world)
    holder, = pool.holders('ACQ4ME k 1 9 0')
    waiter = pool.waiter('ACQ4ME k 1 9 9999')
    pool.process.kill(number)
    assert holder.ended()
    assert waiter.ended()
    assert pool.process.wait() == 0


def follow(pool):
    """Sends SIGUSR2. Returns the pid of the new process."""
    pool.process.kill(signal.SIGUSR2)
    found = wait_until(lambda: re.findall(r'stage="handed over" pid=(\d+)', pool.process.output()), 'the new process')
    return int(found[-1])


@pytest.fixture
def followers():
    pids = []
    yield pids
    for pid in pids:
        if alive(pid):
            os.kill(pid, signal.SIGTERM)
        wait_until(lambda pid=pid: not alive(pid), 'process %d to end' % pid)


def test_after_usr2_the_old_process_serves_its_clients_to_the_last(world, followers):
    pool = Daemon(world)
    holder, = pool.holders('ACQ4ME k 1 9 0')
    waiter = pool.waiter('ACQ4ME k 1 9 9999')
    anyone = pool.waiter('ACQ4ANY k 1 9 10')
    followers.append(follow(pool))
    # The pools of the new process are empty.
    new = pool.connect()
    wait_until(lambda: pool.ask('STATS total_acquired') == 'total_acquired: 0', 'the new process alone')
    assert new.ask('ACQ4ME k 1 9 0') == 'LOCKED'
    # The clients of the old process have lost neither locks, nor places in queues, nor timers.
    assert anyone.line() == 'TIMEOUT'
    assert waiter.is_silent()
    assert holder.ask('RELEASE') == 'RELEASED'
    assert waiter.line() == 'LOCKED'
    assert pool.process.alive()
    for c in (holder, waiter, anyone):
        c.close()
    assert pool.process.wait() == 0
    assert new.ask('STATS processing_workers') == 'processing_workers: 1'


def test_an_old_process_without_clients_ends_at_once(world, followers):
    pool = Daemon(world)
    assert pool.ask('RELEASE') == 'NOT_LOCKED'
    followers.append(follow(pool))
    assert pool.process.wait() == 0
    assert pool.ask('RELEASE') == 'NOT_LOCKED'


def test_no_connect_is_rejected_or_lost_while_processes_follow_one_another(world, followers):
    pool = Daemon(world)
    assert pool.ask('RELEASE') == 'NOT_LOCKED'
    pool.process.kill(signal.SIGUSR2)
    assert pool.ask('RELEASE') == 'NOT_LOCKED'
    while pool.process.alive():
        assert pool.ask('RELEASE') == 'NOT_LOCKED'
    followers.append(int(re.findall(r'stage="handed over" pid=(\d+)', pool.process.output())[-1]))
    # A second upgrade, of the new process.
    before = len(re.findall('stage="handed over"', pool.process.output()))
    os.kill(followers[0], signal.SIGUSR2)
    wait_until(lambda: pool.ask('RELEASE') == 'NOT_LOCKED' and not alive(followers[0]), 'the first follower to end')
    found = re.findall(r'stage="handed over" pid=(\d+)', pool.process.output())
    assert len(found) == before + 1
    followers.append(int(found[-1]))


def test_a_new_process_that_fails_leaves_the_old_one_as_it_was(world):
    pool = Daemon(world, config={})
    holder, = pool.holders('ACQ4ME k 1 9 0')
    pool.configure('max_keys: nonsense\n')
    pool.process.kill(signal.SIGUSR2)
    wait_until(lambda: 'upgrade-failed' in pool.process.output(), 'it to fail')
    assert pool.ask('STATS processing_workers') == 'processing_workers: 1'
    pool.configure('{}')
    assert holder.ask('RELEASE') == 'RELEASED'


def test_the_admin_address_goes_along(world, followers):
    port = free_port()
    pool = Daemon(world, config={'admin': {'address': '127.0.0.1:%d' % port}})
    wait_until(lambda: 'listening' in pool.process.output(), 'it to listen')
    holder, = pool.holders('ACQ4ME k 1 9 0')
    assert status(port)['counters']['held'] == 1
    followers.append(follow(pool))
    wait_until(lambda: status(port)['counters']['held'] == 0, 'the new process at the admin address')
    assert page(port, '/readyz').status == 200
    holder.close()
    assert pool.process.wait() == 0


# ---- the admin address ----

def test_pages_report_holders_waiters_and_types(world):
    port = free_port()
    pool = Daemon(world, config={'admin': {'address': '127.0.0.1:%d' % port}, 'max_types': 2})
    holder, = pool.holders('ACQ4ME <b>:1 1 9 0')
    pool.holders('ACQ4ME two:1 1 9 0', 'ACQ4ME three:1 1 9 0', 'ACQ4ME four:1 1 9 0')
    waiter = pool.waiter('ACQ4ME <b>:1 1 9 9999')
    assert pool.ask('ACQ4ME <b>:1 1 2 99') == 'QUEUE_FULL'
    assert pool.ask('ACQ4ANY <b>:1 1 9 0') == 'TIMEOUT'
    s = status(port)
    assert s['oldest_holder']['key'] == '<b>:1'
    assert s['oldest_holder']['client'] == '%s:%d' % holder.sock.getsockname()
    assert (s['counters']['held'], s['counters']['waiting'], s['counters']['keys']) == (4, 1, 4)
    rows = {t['type']: t for t in s['types']}
    assert set(rows) == {'<b>', 'two', ''}
    assert {k: rows['<b>'][k] for k in ('held', 'waiting', 'acquired', 'queue_full', 'timeouts')} == {
        'held': 1, 'waiting': 1, 'acquired': 1, 'queue_full': 1, 'timeouts': 1}
    assert rows['']['held'] == 2
    assert holder.ask('RELEASE') == 'RELEASED'
    assert waiter.line() == 'LOCKED'
    s = status(port)
    assert s['wait']['count'] == s['work']['count'] == 1
    assert [(k['key'], k['waits']) for k in s['most_waited_for']] == [('<b>:1', 1)]
    metrics = page(port, '/metrics').text
    for line in ('resumelb_poolcounter_held 4', 'resumelb_poolcounter_type_held{type="<b>"} 1', 'resumelb_poolcounter_wait_seconds_count 1',
                 'resumelb_poolcounter_type_acquired_total{type=""} 2', 'resumelb_poolcounter_connections %d' % s['clients']):
        assert line in metrics, metrics
    assert page(port, '/healthz').status == 200


def test_keys_that_are_no_text_do_no_harm_to_the_pages(world):
    port = free_port()
    pool = Daemon(world, config={'admin': {'address': '127.0.0.1:%d' % port}})
    c = pool.connect()
    c.send(b'ACQ4ME \xff"\\:\x01 1 1 0\n')
    assert c.line() == 'LOCKED'
    assert status(port)['oldest_holder']['held_s'] >= 0
    assert b'_type_held{type="\\\\xff\\\\x22\\\\x5c"} 1' in page(port, '/metrics').body
    assert page(port, '/').status == 200


def test_the_example_configuration_is_good():
    assert run('-t', '-c', ROOT / 'conf' / 'resumelb-poolcounter.yaml').returncode == 0
