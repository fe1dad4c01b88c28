# SPDX-License-Identifier: Apache-2.0
"""Faults of the original that ours does not have (the table in docs/guide/poolcounter.md), and its additional features."""
import ctypes
import os
import socket
import threading

import pytest

from poolcounter_support import Daemon
from support.base import LIMIT, limit_descriptors, wait_until


@pytest.fixture
def pool(world):
    return Daemon(world)


# ---- lines ----

def test_pipelined_commands_all_get_a_response_in_order(pool):
    c = pool.connect()
    n = 5000
    c.send('ACQ4ME k 1 1 0\nRELEASE\nSTATS hashtable_entries\n' * n)
    expected = ['LOCKED', 'RELEASED', 'hashtable_entries: 0']
    for i in range(3 * n):
        assert c.line() == expected[i % 3], i


def test_pipelined_commands_behind_a_wait_get_a_response_before_it(pool):
    holder, = pool.holders('ACQ4ME k 1 9 0')
    c = pool.connect()
    c.send('ACQ4ME k 1 9 9999\nSTATS waiting_workers\nACQ4ME x 1 1 1\n')
    assert [c.line(), c.line()] == ['waiting_workers: 1', 'ERROR WAIT_FOR_RESPONSE']
    assert holder.ask('RELEASE') == 'RELEASED'
    assert c.line() == 'LOCKED'


def test_a_line_may_come_byte_by_byte(pool):
    c = pool.connect()
    c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in b'ACQ4ME some:key 1 1 0\r':
        c.send(bytes([byte]))
        pool.ask('STATS uptime')  # after the response the daemon has read the line
    assert c.is_silent()
    assert c.ask('') == 'LOCKED'
    assert pool.ask('ACQ4ME some:key 1 1 0') == 'QUEUE_FULL'


def test_a_line_of_1024_bytes_is_taken_whole(pool):
    c = pool.connect()
    key = 'k' * (1024 - len('ACQ4ME  1 1 0\n'))
    assert c.ask('ACQ4ME %s 1 1 0' % key) == 'LOCKED'
    assert pool.ask('ACQ4ME %s 1 1 0' % key) == 'QUEUE_FULL'


@pytest.mark.parametrize('size', [1024, 1025, 2047, 100000])
def test_a_longer_line_gets_a_response_once_and_no_part_of_it_is_run(pool, size):
    c = pool.connect()
    command = b'RELEASE'
    c.send(b'x' * (size - len(command)) + command + b'\nSTATS UPTIME\n')
    assert c.line() == 'ERROR BAD_COMMAND'
    assert c.line().startswith('uptime: ')
    c.send(b'y' * size)
    assert c.line() == 'ERROR BAD_COMMAND'
    c.send(b'STATS FULL\nRELEASE\n')
    assert c.line() == 'NOT_LOCKED'


def test_numbers_saturate_instead_of_wrapping_around(pool):
    huge = '9' * 40
    holders = pool.holders('ACQ4ME k 4294967296 4294967296 0', 'ACQ4ME k %s %s %s' % (huge, huge, huge))
    assert len(holders) == 2
    pool.waiter('ACQ4ME k 1 %s %s' % (huge, huge))


def test_wrong_stat_has_a_newline(pool):
    assert pool.ask('STATS no_such') == 'ERROR WRONG_STAT'


# ---- waits ----

@pytest.mark.parametrize('sent', ['STATS UPTIME\n', 'ACQ4ME x 1 1 1\n', 'foo\n', 'ST'])
def test_a_timer_survives_what_its_client_sends(pool, sent):
    pool.holders('ACQ4ME k 1 9 0')
    c = pool.connect()
    c.send('ACQ4ME k 1 9 8\n')
    pool.wait_for(waiting_workers=1)
    c.send(sent)
    if sent.endswith('\n'):
        assert c.line() != ''
    assert c.line() == 'TIMEOUT'


def test_a_wait_given_up_is_not_counted_as_waiting_for_ever(pool):
    pool.holders('ACQ4ME k 1 9 0')
    for _ in range(3):
        waiter = pool.waiter('ACQ4ME k 1 9 9999')
        assert waiter.ask('RELEASE') == 'RELEASED'
    assert pool.counters()['waiting_workers'] == 0


def test_the_processing_clock_starts_again_at_a_hand_over(pool):
    holder, = pool.holders('ACQ4ME k 1 9 0')
    me = pool.waiter('ACQ4ME k 1 9 9999')
    # much longer than it then holds the lock
    since = pool.uptime()
    wait_until(lambda: pool.uptime() > since + 4, 'some seconds')
    assert holder.ask('RELEASE') == 'RELEASED'
    first = pool.times()['total processing time']
    assert [me.line(), me.ask('RELEASE')] == ['LOCKED', 'RELEASED']
    times = pool.times()
    # The wait of the second one is in the sum of waits, and not in its processing time.
    assert times['waiting time for me'] > 0
    assert times['total processing time'] < first + times['waiting time for me']


def test_a_thousand_waiters_are_woken_by_one_release(pool):
    holder, = pool.holders('ACQ4ANY k 1 2000 0')
    waiters = [pool.connect() for _ in range(1500)]
    for w in waiters:
        w.send('ACQ4ANY k 1 2000 9999\n')
    pool.wait_for(waiting_workers=len(waiters))
    assert holder.ask('RELEASE') == 'RELEASED'
    assert [w.line() for w in waiters] == ['DONE'] * len(waiters)
    assert pool.counters()['hashtable_entries'] == 0


def test_a_herd_whose_clients_leave_unread_harms_no_other(pool):
    holder, = pool.holders('ACQ4ANY k 1 2000 0')
    waiters = [pool.connect() for _ in range(600)]
    for w in waiters:
        w.send('ACQ4ANY k 1 2000 9999\n')
    pool.wait_for(waiting_workers=len(waiters))
    # Some close and some release at the same time as all are notified.
    holder.send('RELEASE\n')
    for i, w in enumerate(waiters):
        if i % 3 == 0:
            w.reset()
        elif i % 3 == 1:
            w.send('RELEASE\n')
    assert holder.line() == 'RELEASED'
    for i, w in enumerate(waiters):
        if i % 3 == 1:
            assert (w.line(), w.line()) in (('DONE', 'NOT_LOCKED'),)
    pool.wait_for(waiting_workers=0, processing_workers=0, hashtable_entries=0)


# ---- responses that are not taken ----

def test_a_client_that_reads_late_loses_no_response(pool):
    c = pool.connect()
    n = 20000
    sender = threading.Thread(target=c.send, args=('STATS FULL\n' * n,))
    sender.start()
    wait_until(lambda: pool.counters()['failed_sends'] > 0, 'responses that do not fit')
    for _ in range(n):
        assert len(c.block()) == 21
    sender.join()
    assert c.ask('RELEASE') == 'NOT_LOCKED'


def test_a_client_that_never_reads_is_closed_and_loses_what_it_holds(world):
    pool = Daemon(world, config={'send_timeout': '200ms'})
    c = pool.connect()
    assert c.ask('ACQ4ME k 1 9 0') == 'LOCKED'
    waiter = pool.waiter('ACQ4ME k 1 9 9999')
    # The daemon stops reading from the client, so that the client cannot send everything either.
    with pytest.raises(ConnectionError):
        while True:
            c.send('STATS FULL\n' * 1000)
    assert waiter.line() == 'LOCKED'


# ---- connections ----

def sockets_of(pid):
    """Duplicates of the sockets of process PID, obtained with pidfd_getfd(2)."""
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    pidfd = os.pidfd_open(pid)
    for fd in os.listdir('/proc/%d/fd' % pid):
        try:
            if not os.readlink('/proc/%d/fd/%s' % (pid, fd)).startswith('socket:'):
                continue
        except OSError:
            continue
        copy = syscall(438, pidfd, int(fd), 0)
        assert copy >= 0, os.strerror(ctypes.get_errno())
        with socket.socket(fileno=copy) as s:
            yield s
    os.close(pidfd)


def test_connections_have_no_delay_and_keep_alive(pool):
    c = pool.connect()
    assert c.ask('RELEASE') == 'NOT_LOCKED'
    found = 0
    for s in sockets_of(pool.process.pid):
        if s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            continue
        assert s.getpeername() == c.sock.getsockname()
        assert s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert s.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert [s.getsockopt(socket.IPPROTO_TCP, o) for o in
                (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)] == [60, 10, 3]
        found += 1
    assert found == 1


def test_three_thousand_connects_in_one_instant_are_all_served(world):
    pool = Daemon(world)
    sockets = []
    for _ in range(3000):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(pool.address)
        sockets.append(s)
    for s in sockets:
        s.settimeout(LIMIT)
        s.sendall(b'STATS hashtable_entries\n')
    for s in sockets:
        assert s.recv(100) == b'hashtable_entries: 0\n'
        s.close()


def test_without_descriptors_accepting_pauses_and_continues(world):
    pool = Daemon(world)
    assert pool.ask('RELEASE') == 'NOT_LOCKED'  # after the response it has raised its limit
    limit_descriptors(pool.process, 40)
    clients = [pool.connect() for _ in range(60)]
    served = [c for c in clients[:10] if c.ask('RELEASE') == 'NOT_LOCKED']
    assert len(served) == 10
    wait_until(lambda: 'accepting-paused' in pool.process.output(), 'the pause')
    for c in clients[:40]:
        c.close()
    assert clients[-1].ask('RELEASE') == 'NOT_LOCKED'
    assert int(clients[-1].ask('STATS connect_errors').split(': ')[1]) < 1000


# ---- memory ----

def test_more_keys_or_waiters_than_allowed_are_out_of_memory_and_all_continues(world):
    pool = Daemon(world, config={'max_keys': 2, 'max_waiters': 1})
    pool.holders('ACQ4ME a 1 9 0', 'ACQ4ME b 1 9 0')
    c = pool.connect()
    assert c.ask('ACQ4ME c 1 9 0') == 'ERROR OUT_OF_MEMORY'
    pool.waiter('ACQ4ME a 1 9 9999')
    assert c.ask('ACQ4ME a 1 9 9999') == 'ERROR OUT_OF_MEMORY'
    assert c.ask('ACQ4ME a 2 9 9999') == 'LOCKED'


# ---- beyond the original ----

def test_a_type_has_slots_by_configuration(world):
    pool = Daemon(world, config={'types': {'ArticleView': {'slots': 2, 'workers': 1}}})
    a, _ = pool.holders('ACQ4ME ArticleView:a 9 9 0', 'ACQ4ME ArticleView:b 9 9 0')
    assert pool.ask('ACQ4ME ArticleView:c 9 9 0') == 'TIMEOUT'
    pool.holders('ACQ4ME Other:c 9 9 0', 'ACQ4ME ArticleVie:c 9 9 0')
    waiter = pool.waiter('ACQ4ME ArticleView:c 9 9 9999')
    same_key = pool.waiter('ACQ4ME ArticleView:b 9 9 9999')
    assert a.ask('RELEASE') == 'RELEASED'
    assert waiter.line() == 'LOCKED'
    assert same_key.is_silent()


def test_slots_may_come_with_the_request(pool):
    a, _ = pool.holders('ACQ4ME t:a 9 9 0 2', 'ACQ4ME t:b 9 9 0 2')
    assert pool.ask('ACQ4ME t:c 9 9 0 2') == 'TIMEOUT'
    pool.holders('ACQ4ME t:d 9 9 0', 'ACQ4ME u:c 9 9 0 1')
    waiter = pool.waiter('ACQ4ME t:c 9 9 99 3')
    assert a.ask('RELEASE') == 'RELEASED'
    assert waiter.line() == 'LOCKED'


def test_limits_of_types_follow_the_configuration(world):
    pool = Daemon(world, config={'types': {'t': {'slots': 1}}})
    pool.holders('ACQ4ME t:a 9 9 0')
    waiter = pool.waiter('ACQ4ME t:b 9 9 9999')
    pool.reload({'types': {'t': {'slots': 2}}})
    assert waiter.line() == 'LOCKED'
    last = pool.waiter('ACQ4ME t:c 9 9 9999')
    pool.reload({})
    assert last.line() == 'LOCKED'
    pool.reload({'types': {'t': {'slots': 0, 'workers': -1}}})
    pool.process.wait_logged('config-reload-failed')
    assert pool.ask('STATS processing_workers') == 'processing_workers: 3'


def test_fractional_timeouts_by_option(world):
    pool = Daemon(world, config={'fractional_timeouts': True})
    pool.holders('ACQ4ME k 1 9 0')
    c = pool.connect()
    c.send('ACQ4ME k 1 9 0.25\n')
    assert c.line() == 'TIMEOUT'
    assert pool.times()['wasted timeout time'] >= 0.25
    waited = pool.times()['wasted timeout time']
    assert c.ask('ACQ4ME k 1 9 .5') == c.ask('ACQ4ME k 1 9 1.') == c.ask('ACQ4ME k 1 9 0.0') == 'TIMEOUT'
    assert pool.times()['wasted timeout time'] == waited


def test_more_stats_by_option(world):
    pool = Daemon(world, config={'extra_stats': True})
    lines = pool.full()
    assert lines[20].startswith('processed_count: ')
    assert [line.split(':')[0] for line in lines[21:]] == ['connections', 'done', 'timeouts', 'immediate_timeouts',
                                                           'abandoned_waits', 'out_of_memory', 'bad_commands']
    pool.holders('ACQ4ME k 1 9 0')
    assert pool.ask('ACQ4ME k 1 9 0') == 'TIMEOUT'
    assert pool.ask('STATS Immediate_timeouts') == 'immediate_timeouts: 1'


def test_a_key_that_is_too_long_is_bad_syntax(world):
    pool = Daemon(world, config={'max_key': 10})
    c = pool.connect()
    assert c.ask('ACQ4ME 12345678901 1 1 0') == 'ERROR BAD_SYNTAX'
    assert c.ask('ACQ4ME 1234567890 1 1 0') == 'LOCKED'


def test_clients_of_one_address_are_limited(world):
    pool = Daemon(world, config={'max_connections_per_address': 2})
    a, b = pool.connect(), pool.connect()
    assert a.ask('RELEASE') == b.ask('RELEASE') == 'NOT_LOCKED'
    assert pool.connect().ended()
    a.close()
    wait_until(lambda: pool.connect().ask_or_none('RELEASE') == 'NOT_LOCKED', 'a place')


def test_over_max_connections_one_that_connects_waits(world):
    pool = Daemon(world, config={'max_connections': 2})
    a, b = pool.connect(), pool.connect()
    assert a.ask('RELEASE') == b.ask('RELEASE') == 'NOT_LOCKED'
    c = pool.connect()
    c.send('RELEASE\n')
    assert a.ask('STATS uptime').startswith('uptime')
    assert c.is_silent()
    a.close()
    assert c.line() == 'NOT_LOCKED'


def test_idle_clients_are_closed_and_holders_are_not(world):
    pool = Daemon(world, config={'idle_timeout': '8s'})
    holder = pool.connect()
    assert holder.ask('ACQ4ME k 1 9 0') == 'LOCKED'
    waiter = pool.connect()
    waiter.send('ACQ4ME k 1 9 9999\n')
    idle = pool.connect()
    assert idle.ended()
    assert holder.ask('RELEASE') == 'RELEASED'
    assert waiter.line() == 'LOCKED'
    assert holder.ended()
    assert waiter.ask('RELEASE') == 'RELEASED'
