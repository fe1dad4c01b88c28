# SPDX-License-Identifier: Apache-2.0
"""The protocol of PoolCounter, as documented in docs/guide/poolcounter.md: responses, order of checks, wake-ups, counters."""
import socket

import pytest

from poolcounter_support import COUNTERS, TIMES, Daemon
from support.base import wait_until


@pytest.fixture
def pool(world):
    return Daemon(world)


# ---- lines ----

@pytest.mark.parametrize('line', ['', 'STATS', 'ACQ4ME', 'ACQ4ANY', ' RELEASE', 'release', 'stats FULL', 'ACQ4ME\tk 1 1 1',
                                  'acq4me k 1 1 1', 'ACQ4YOU k 1 1 1', 'ACQ4ME\0 k 1 1 1', '\0RELEASE', 'RELEAS'])
def test_an_unknown_line_is_a_bad_command(pool, line):
    c = pool.connect()
    assert c.ask(line) == 'ERROR BAD_COMMAND'
    assert c.ask('ACQ4ME k 1 1 0') == 'LOCKED'


@pytest.mark.parametrize('line', ['ACQ4ME ', 'ACQ4ME k', 'ACQ4ME k 1', 'ACQ4ME k 0 1 1', 'ACQ4ME k 1 0 1', 'ACQ4ANY k -1 1 1',
                                  'ACQ4ME k +1 1 1', 'ACQ4ME k 1x 1 1', 'ACQ4ME k 1.5 1 1', 'ACQ4ME k\t1 1',
                                  'ACQ4ME k\0 1 1 1', 'ACQ4ANY    ', 'ACQ4ME k 1 1\t1 1'])
def test_an_acquire_without_key_or_limits_is_bad_syntax_and_counted_nowhere(pool, line):
    c = pool.connect()
    before = pool.counters()
    assert c.ask(line) == 'ERROR BAD_SYNTAX'
    assert pool.counters() == before


@pytest.mark.parametrize('line', ['ACQ4ME k 1 1', 'ACQ4ME k 1 1 x', 'ACQ4ME k 01 0001 0', 'ACQ4ME    k   1  1   5   ',
                                  'ACQ4ANY k 1 1 -1 more words', 'ACQ4ME k 1 1 0\r', 'ACQ4ME k 1 1\0x',
                                  'ACQ4ME k 2147483648 2147483648 0'])
def test_blanks_leading_zeros_and_further_words_do_no_harm(pool, line):
    assert pool.ask(line) == 'LOCKED'


def test_keys_are_bytes(pool):
    first = pool.connect()
    for key in ('a%20b', 'A%20B', 'a%20B'):
        assert first.ask('ACQ4ME %s 1 1 0' % key) == 'LOCKED'
    assert pool.counters()['hashtable_entries'] == 3
    other = pool.connect()
    other.send(b'ACQ4ME \xff\x01\x80\t 1 1 0\n')
    assert other.line() == 'LOCKED'
    assert other.ask('ACQ4ME a%20b 1 1 0') == 'QUEUE_FULL'


def test_one_carriage_return_is_dropped_and_a_second_one_is_not(pool):
    c = pool.connect()
    assert c.ask('STATS UPTIME\r').startswith('uptime: ')
    assert c.ask('STATS UPTIME\r\r') == 'ERROR WRONG_STAT'
    assert c.ask('ACQ4ME k\r 1 1 0\r') == 'LOCKED'
    assert pool.ask('ACQ4ME k 1 1 0') == 'LOCKED'


def test_the_rest_of_a_release_is_not_checked(pool):
    c = pool.connect()
    for rest in ('', ' k', ' other', 'xyz', '\0'):
        assert c.ask('ACQ4ME k 1 1 0') == 'LOCKED'
        assert c.ask('RELEASE' + rest) == 'RELEASED'


def test_a_nul_ends_the_line_early(pool):
    c = pool.connect()
    assert c.ask('STATS UPTIME\0x').startswith('uptime: ')


# ---- acquire: the order of the checks ----

def test_the_fifth_lock_is_rejected_before_anything_else_is_checked(pool):
    c = pool.connect()
    for i in range(4):
        assert c.ask('ACQ4ME k%d 1 1 0' % i) == 'LOCKED'
    assert c.ask('ACQ4ME ') == 'LOCK_HELD'
    assert c.ask('ACQ4ANY k0 1 1 9') == 'LOCK_HELD'
    assert pool.counters()['lock_mismatch'] == 2
    assert c.ask('RELEASE') == 'RELEASED'
    assert c.ask('ACQ4ME k3 1 1 0') == 'LOCKED'


def test_a_fourth_lock_that_waits_counts_as_one_of_four(pool):
    pool.holders('ACQ4ME busy 1 9 0')
    c = pool.connect()
    for i in range(3):
        assert c.ask('ACQ4ME k%d 1 1 0' % i) == 'LOCKED'
    c.send('ACQ4ME busy 1 9 99\n')
    pool.wait_for(waiting_workers=1)
    assert c.ask('ACQ4ME x 1 1 1') == 'LOCK_HELD'


def test_a_waiting_client_gets_no_further_lock_and_continues_to_wait(pool):
    holder, = pool.holders('ACQ4ME k 1 9 0')
    waiter = pool.waiter('ACQ4ME k 1 9 9999')
    assert waiter.ask('ACQ4ME other 1 1 1') == 'ERROR WAIT_FOR_RESPONSE'
    assert waiter.ask('ACQ4ANY ') == 'ERROR WAIT_FOR_RESPONSE'
    assert waiter.ask('foo') == 'ERROR BAD_COMMAND'
    assert pool.counters()['lock_while_waiting'] == 2
    assert holder.ask('RELEASE') == 'RELEASED'
    assert waiter.line() == 'LOCKED'


def test_maxqueue_counts_holders_too_and_also_when_a_slot_is_free(pool):
    pool.holders('ACQ4ME k 5 2 0', 'ACQ4ANY k 5 2 0')
    assert pool.ask('ACQ4ME k 5 2 9') == 'QUEUE_FULL'
    assert pool.counters()['full_queues'] == 1
    assert pool.ask('ACQ4ME k 5 3 9') == 'LOCKED'


def test_waiters_count_against_maxqueue(pool):
    pool.holders('ACQ4ME k 1 9 0')
    pool.waiter('ACQ4ANY k 1 9 9999')
    assert pool.ask('ACQ4ME k 1 2 9') == 'QUEUE_FULL'


def test_larger_workers_overtake_those_that_wait(pool):
    pool.holders('ACQ4ME k 1 9 0')
    waiter = pool.waiter('ACQ4ME k 1 9 9999')
    pool.holders('ACQ4ME k 2 9 9')
    assert waiter.is_silent()
    assert pool.counters()['waiting_workers'] == 1


def test_without_a_timeout_none_waits(pool):
    pool.holders('ACQ4ME k 1 9 0')
    before = pool.counters()
    for verb in ('ACQ4ME', 'ACQ4ANY'):
        for timeout in ('0', '', 'x', '0.25', '-1'):
            assert pool.ask('%s k 1 9 %s' % (verb, timeout)) == 'TIMEOUT'
    assert pool.counters() == before


def test_an_old_waiters_own_workers_are_not_checked_again(pool):
    a, _ = pool.holders('ACQ4ME k 3 9 0', 'ACQ4ME k 3 9 0')
    waiter = pool.waiter('ACQ4ME k 1 9 9999')
    assert a.ask('RELEASE') == 'RELEASED'
    assert waiter.line() == 'LOCKED'
    assert pool.counters()['processing_workers'] == 2


def test_the_same_client_may_take_a_key_several_times_and_wait_for_itself(pool):
    c = pool.connect()
    assert c.ask('ACQ4ME k 2 9 0') == 'LOCKED'
    assert c.ask('ACQ4ME k 2 9 0') == 'LOCKED'
    assert c.ask('ACQ4ME k 2 9 1') == 'TIMEOUT'
    assert pool.counters()['processing_workers'] == 2


def test_a_key_is_there_while_one_holds_or_waits(pool):
    a, = pool.holders('ACQ4ME k 1 9 0')
    b = pool.waiter('ACQ4ME k 1 9 9999')
    a.close()
    assert b.line() == 'LOCKED'
    assert pool.counters()['hashtable_entries'] == 1
    b.close()
    pool.wait_for(hashtable_entries=0)


# ---- release ----

def test_without_a_lock_there_is_nothing_to_release(pool):
    c = pool.connect()
    assert c.ask('RELEASE k') == 'NOT_LOCKED'
    assert pool.counters()['release_mismatch'] == 1


def test_release_drops_the_newest_lock_whatever_key_it_names(pool):
    c = pool.connect()
    c.ask('ACQ4ME first 1 1 0')
    c.ask('ACQ4ME second 1 1 0')
    assert c.ask('RELEASE first') == 'RELEASED'
    assert pool.ask('ACQ4ME second 1 1 0') == 'LOCKED'
    assert pool.ask('ACQ4ME first 1 1 0') == 'QUEUE_FULL'


def test_release_wakes_every_any_and_then_the_oldest_me(pool):
    holder, = pool.holders('ACQ4ME k 1 9 0')
    first = pool.waiter('ACQ4ANY k 1 9 9999')
    me = pool.waiter('ACQ4ME k 1 9 9999')
    second = pool.waiter('ACQ4ANY k 1 9 9999')
    later = pool.waiter('ACQ4ME k 1 9 9999')
    assert holder.ask('RELEASE') == 'RELEASED'
    assert [first.line(), second.line(), me.line()] == ['DONE', 'DONE', 'LOCKED']
    assert later.is_silent()
    # They have left the pool and hold no lock.
    assert first.ask('RELEASE') == 'NOT_LOCKED'
    figures = pool.counters()
    assert (figures['processing_workers'], figures['waiting_workers'], figures['total_acquired']) == (1, 1, 2)
    assert me.ask('RELEASE') == 'RELEASED'
    assert later.line() == 'LOCKED'


def test_any_is_woken_though_other_holders_remain(pool):
    a, b = pool.holders('ACQ4ANY k 2 9 0', 'ACQ4ANY k 2 9 0')
    waiter = pool.waiter('ACQ4ANY k 2 9 99')
    assert a.ask('RELEASE') == 'RELEASED'
    assert waiter.line() == 'DONE'
    assert pool.counters()['processing_workers'] == 1
    b.close()


def test_a_wait_given_up_wakes_the_other_anyones_and_no_me(pool):
    pool.holders('ACQ4ME k 1 9 0')
    quitter = pool.waiter('ACQ4ME k 1 9 9999')
    anyone = pool.waiter('ACQ4ANY k 1 9 9999')
    me = pool.waiter('ACQ4ME k 1 9 9999')
    assert quitter.ask('RELEASE') == 'RELEASED'
    assert anyone.line() == 'DONE'
    assert me.is_silent()
    figures = pool.counters()
    assert (figures['total_releases'], figures['processed_count']) == (1, 0)
    assert quitter.ask('RELEASE') == 'NOT_LOCKED'


# ---- disconnect ----

@pytest.mark.parametrize('how', ['close', 'reset', 'half-close'])
def test_a_lost_holder_is_followed_by_me_before_any_and_none_is_done(pool, how):
    holder, = pool.holders('ACQ4ME k 1 9 0')
    anyone = pool.waiter('ACQ4ANY k 1 9 9999')
    me = pool.waiter('ACQ4ME k 1 9 9999')
    if how == 'half-close':
        holder.sock.shutdown(socket.SHUT_WR)
        assert holder.ended()
    elif how == 'reset':
        holder.reset()
    else:
        holder.close()
    assert me.line() == 'LOCKED'
    assert anyone.is_silent()
    me.close()
    assert anyone.line() == 'LOCKED'
    figures = pool.counters()
    assert (figures['processed_count'], figures['total_releases'], figures['total_acquired']) == (2, 0, 3)


def test_a_lost_waiter_just_leaves(pool):
    holder, = pool.holders('ACQ4ME k 1 9 0')
    waiter = pool.waiter('ACQ4ANY k 1 9 9999')
    other = pool.waiter('ACQ4ANY k 1 9 9999')
    waiter.sock.shutdown(socket.SHUT_WR)
    assert waiter.ended()
    pool.wait_for(waiting_workers=1)
    assert other.is_silent()
    assert holder.ask('RELEASE') == 'RELEASED'
    assert other.line() == 'DONE'


def test_all_locks_of_a_lost_client_go(pool):
    c = pool.connect()
    for i in range(4):
        assert c.ask('ACQ4ME k%d 1 1 0' % i) == 'LOCKED'
    c.close()
    pool.wait_for(hashtable_entries=0, processing_workers=0, processed_count=4)


def test_lines_that_come_with_the_end_get_a_response_before_it(pool):
    c = pool.connect()
    c.send('ACQ4ME k 1 1 0\nRELEASE\n')
    c.sock.shutdown(socket.SHUT_WR)
    assert [c.line(), c.line()] == ['LOCKED', 'RELEASED']
    assert c.ended()


# ---- timeouts ----

def test_a_wait_ends_after_its_timeout_and_what_is_held_stays(pool):
    holder, = pool.holders('ACQ4ME k 1 9 0')
    c = pool.connect()
    assert c.ask('ACQ4ME mine 1 1 0') == 'LOCKED'
    assert c.ask('ACQ4ANY k 1 9 1') == 'TIMEOUT'
    other = pool.waiter('ACQ4ANY k 1 9 9999')
    assert other.is_silent()
    figures = pool.counters()
    assert (figures['processing_workers'], figures['waiting_workers']) == (2, 1)
    assert pool.times()['wasted timeout time'] >= 1
    assert c.ask('RELEASE') == 'RELEASED'
    assert holder.ask('RELEASE') == 'RELEASED'


def test_the_timer_of_an_responded_wait_is_over_with_it(pool):
    holder, = pool.holders('ACQ4ME k 1 9 0')
    waiter = pool.waiter('ACQ4ME k 1 9 10')
    assert holder.ask('RELEASE') == 'RELEASED'
    assert waiter.line() == 'LOCKED'
    # Another wait with the same time-out starts later than the first one, and therefore ends after it.
    assert pool.ask('ACQ4ME k 1 9 10') == 'TIMEOUT'
    assert waiter.is_silent()
    assert waiter.ask('RELEASE') == 'RELEASED'


# ---- stats ----

def test_full_has_the_uptime_the_times_and_the_counters_in_order(pool):
    lines = pool.full()
    assert lines[0] == 'uptime: 0 days, 0h 0m %ss' % lines[0].split()[-1].rstrip('s')
    assert [line.split(':')[0] for line in lines[1:]] == TIMES + COUNTERS
    assert lines[1:9] == ['%s: 0.000000s' % name for name in TIMES]
    assert lines[9:] == ['%s: 0' % name for name in COUNTERS]


@pytest.mark.parametrize('name', COUNTERS)
def test_a_counter_is_recognized_by_name_whatever_its_case(pool, name):
    assert pool.ask('STATS ' + name.upper()) == name + ': 0'


@pytest.mark.parametrize('what', ['', 'uptime ', ' uptime', 'total processing time', 'nothing', 'UPTIME x', 'done'])
def test_other_names_are_wrong_stats(pool, what):
    c = pool.connect()
    assert c.ask('STATS ' + what) == 'ERROR WRONG_STAT'
    assert c.ask('STATS uptime').startswith('uptime: 0 days, 0h 0m ')


def test_a_waiting_client_may_ask_for_stats(pool):
    holder, = pool.holders('ACQ4ME k 1 9 0')
    waiter = pool.waiter('ACQ4ME k 1 9 9999')
    assert waiter.ask('STATS waiting_workers') == 'waiting_workers: 1'
    assert holder.ask('RELEASE') == 'RELEASED'
    assert waiter.line() == 'LOCKED'


def test_times_are_summed_where_they_belong(pool):
    holder, = pool.holders('ACQ4ME k 1 9 0')
    anyone, me = pool.waiter('ACQ4ANY k 1 9 9999'), pool.waiter('ACQ4ME k 1 9 9999')
    wait_until(lambda: pool.ask('STATS uptime') != 'uptime: 0 days, 0h 0m 0s', 'a second')
    assert holder.ask('RELEASE') == 'RELEASED'
    assert [anyone.line(), me.line()] == ['DONE', 'LOCKED']
    times = pool.times()
    assert times['total processing time'] == times['average processing time'] > 0
    assert times['gained time'] == times['total processing time']
    assert times['waiting time for me'] == times['waiting time'] > 0
    assert times['waiting time for good'] > 0
    assert times['waiting time for anyone'] == times['wasted timeout time'] == 0
    last = pool.waiter('ACQ4ANY k 1 9 9999')
    me.close()
    assert last.line() == 'LOCKED'
    times = pool.times()
    assert times['waiting time for anyone'] > 0
    assert times['waiting time'] == pytest.approx(times['waiting time for me'] + times['waiting time for anyone'], abs=2e-6)
