# SPDX-License-Identifier: Apache-2.0
"""Random conversations with the original daemon and with ours, in parallel: every response, and every counter after every step,
must be equal. RLB_SEED repeats a run; RLB_DIFFERENTIAL_CONVERSATIONS sets its length."""
import os
import random
import select
import time

import pytest
from poolcounter_support import COUNTERS, ORIGINAL, TIMES, Daemon
from support.base import LIMIT

pytestmark = pytest.mark.soak

CONVERSATIONS = int(os.environ.get('RLB_DIFFERENTIAL_CONVERSATIONS', '30'))
CLIENTS = 6
STEPS = 80  # of one conversation; then all clients close
SETTLE = LIMIT

# The only permitted differences, by the fault of the original that causes them (with the names in docs/guide/poolcounter.md).
TOLERATED = {
    'pipelining': 'of several lines in one read it runs the first: it is sent them one by one, ours all at once',
    'split lines': 'it loses the first part of a line in two segments: it is sent it whole, ours in pieces',
    'over-long lines': 'it runs the tail of one: only ours is sent one, and must respond once',
    'newline of WRONG_STAT': 'it sends none: put in before comparing',
    'waiting_workers': 'it counts a wait that RELEASE has ended as waiting for ever: those are subtracted',
    'cancelled timers': 'any line from a waiting client cancels its timer: waits are endless, except those of clients that send nothing',
    'numbers': 'they wrap around at 2^32: no number is as large',
    'fifth word': 'it ignores it, ours reads it as `slots`: a further word is not a number',
    'times': 'it adds waiting to processing, and computes in single precision: only the names are compared',
}

KEYS = ['a', 'b', 'type:c', 'type:d', 'k%20k', '\xe9\x01']
BAD = ['', 'foo', 'STATS', 'ACQ4ME', 'acq4me a 1 1 1', ' RELEASE', 'ACQ4ME ', 'ACQ4ME a', 'ACQ4ANY a 0 1 1', 'ACQ4ME a 1 0 1',
       'ACQ4ME a -1 5 5', 'ACQ4ME a 1x 5 5', 'ACQ4ME\ta 1 1 1', 'ACQ4ME a\t1 1 1', 'STATS nothing', 'STATS uptime ', 'STATS  uptime',
       'STATS ', 'ACQ4ME a\0 1 1 1', 'RELEAS', 'RELEASE\r\r', '\r', 'ACQ4YOU a 1 1 1']


class Side:
    """One of the two daemons, and the connections of all clients to it."""

    def __init__(self, daemon, is_original):
        self.daemon, self.is_original = daemon, is_original
        self.control = daemon.connect()
        self.clients = [None] * CLIENTS
        self.leaked = 0
        self.heard = [b''] * CLIENTS

    def open(self, i):
        self.clients[i] = self.daemon.connect()
        self.heard[i] = b''

    def listen(self):
        """Receives the data that has arrived so far, for each client."""
        for i, c in enumerate(self.clients):
            while c is not None and select.select([c.sock], [], [], 0)[0]:
                try:
                    data = c.sock.recv(65536)
                except ConnectionResetError:
                    break
                if not data:
                    break
                self.heard[i] += data
        # 'newline of WRONG_STAT'
        if self.is_original:
            return [h.replace(b'ERROR WRONG_STAT', b'ERROR WRONG_STAT\n') for h in self.heard]
        return list(self.heard)

    def figures(self):
        self.control.send('STATS FULL\n')
        lines = self.control.block()
        # 'times'
        assert [line.split(':')[0] for line in lines] == ['uptime'] + TIMES + COUNTERS
        figures = {k: int(v) for k, v in (line.split(': ') for line in lines) if k in COUNTERS}
        figures['waiting_workers'] -= self.leaked  # 'waiting_workers'
        return figures

    def say(self, i, line):
        """Client I sends LINE and waits for the response, or until it is queued: the original would lose an earlier next line."""
        before, heard = self.figures(), len(self.listen()[i])
        self.clients[i].send((line + '\n').encode('latin-1'))
        deadline = time.monotonic() + SETTLE
        while True:
            now = self.figures()
            if len(self.listen()[i]) > heard or now['waiting_workers'] > before['waiting_workers']:
                break
            assert time.monotonic() < deadline, 'no response to %r: %s' % (line, now)
        # A RELEASE that did not end processing has ended a wait.
        now = self.figures()
        if self.is_original and line.startswith('RELEASE'):
            gone = now['total_releases'] - before['total_releases']
            self.leaked += gone - (now['processed_count'] - before['processed_count'])


class Pair:
    def __init__(self, original, ours, rng):
        self.original, self.ours = Side(original, True), Side(ours, False)
        self.sides = (self.original, self.ours)
        self.rng = rng
        self.trace = []
        self.steps = 0
        for i in range(CLIENTS):
            self.open(i)

    def open(self, i):
        for s in self.sides:
            s.open(i)

    def compare(self):
        """Waits until both are in the same state: responses may be in transit for a short time; a real difference persists."""
        deadline = time.monotonic() + SETTLE
        while True:
            figures = [s.figures() for s in self.sides]
            heard = [s.listen() for s in self.sides]
            if figures[0] == figures[1] and heard[0] == heard[1]:
                break
            if time.monotonic() > deadline:
                raise AssertionError('original: %s %s\nours:     %s %s\nafter:\n%s' % (
                    figures[0], heard[0], figures[1], heard[1], '\n'.join(map(repr, self.trace[-40:]))))
        self.trace += [('received', i, h) for i, h in enumerate(heard[1]) if h]
        for s in self.sides:
            s.heard = [b''] * CLIENTS
        self.steps += 1

    def say(self, i, line):
        self.trace.append(('say', i, line))
        for s in self.sides:
            s.say(i, line)
        self.compare()

    def pipeline(self, i, lines):
        # 'pipelining'
        self.trace.append(('pipeline', i, lines))
        self.ours.clients[i].send(''.join(line + '\n' for line in lines).encode('latin-1'))
        for line in lines:
            self.original.say(i, line)
        self.compare()

    def split(self, i, line):
        # 'split lines'
        self.trace.append(('split', i, line))
        data = (line + '\n').encode('latin-1')
        at = self.rng.randrange(len(data))
        self.original.say(i, line)
        for part in (data[:at], data[at:]):
            self.ours.clients[i].send(part)
            self.ours.figures()
        self.compare()

    def too_long(self, i):
        # 'over-long lines'
        self.trace.append(('too long', i))
        c = self.ours.clients[i]
        self.compare()
        c.send(b'STATS FULL ' * self.rng.randrange(100, 400) + b'\n')
        assert c.line() == 'ERROR BAD_COMMAND'
        self.compare()

    def leave(self, i, how):
        self.trace.append(('leave', i, how))
        for s in self.sides:
            c = s.clients[i]
            if how == 'reset':
                c.reset()
            elif how == 'half-close':
                c.sock.shutdown(1)
                while True:  # earlier data may still be there
                    try:
                        if not c.sock.recv(65536):
                            break
                    except ConnectionResetError:
                        break
                c.close()
            else:
                c.close()
            s.clients[i] = None
        self.compare()
        self.open(i)
        self.compare()


def random_acquire(rng):
    verb = rng.choice(('ACQ4ME', 'ACQ4ANY'))
    words = [rng.choice(KEYS), str(rng.randint(1, 3)), str(rng.randint(1, 6)), rng.choice(('0', '99', '99', '099', 'x', ''))]
    # 'fifth word'
    tail = rng.choice(('', '', '', ' ', ' more', '\r', ' x y'))
    return verb + ' ' + rng.choice((' ', ' ', '  ')).join(words) + tail


def random_line(rng):
    what = rng.random()
    if what < 0.5:
        return random_acquire(rng)
    if what < 0.8:
        return rng.choice(('RELEASE', 'RELEASE a', 'RELEASExyz', 'RELEASE\r'))
    if what < 0.9:
        name = rng.choice([c for c in COUNTERS if c != 'waiting_workers'])
        return 'STATS ' + rng.choice((name, name.upper()))
    return rng.choice(BAD)


def random_step(pair, rng):
    i = rng.randrange(CLIENTS)
    what = rng.random()
    if what < 0.72:
        pair.say(i, random_line(rng))
    elif what < 0.80:
        pair.pipeline(i, [random_line(rng) for _ in range(rng.randint(2, 5))])
    elif what < 0.86:
        pair.split(i, random_line(rng))
    elif what < 0.88:
        pair.too_long(i)
    else:
        pair.leave(i, rng.choice(('close', 'reset', 'half-close')))


def test_random_conversations_go_as_with_the_original(world):
    seed = int(os.environ.get('RLB_SEED', random.randrange(2**32)))
    print('RLB_SEED=%d' % seed)
    rng = random.Random(seed)
    pair = Pair(Daemon(world, 'original', ORIGINAL), Daemon(world, 'ours'), rng)
    for _ in range(CONVERSATIONS):
        for _ in range(STEPS):
            random_step(pair, rng)
        for i in range(CLIENTS):
            pair.leave(i, 'close')
        figures = pair.ours.figures()
        assert figures['hashtable_entries'] == figures['processing_workers'] == figures['waiting_workers'] == 0
        assert figures['total_acquired'] == figures['processed_count']
        del pair.trace[:]
    print('%d steps: %s' % (pair.steps, figures))
    for counter in ('total_acquired', 'total_releases', 'full_queues', 'lock_mismatch', 'lock_while_waiting', 'release_mismatch'):
        assert figures[counter] > 0, 'the conversations never reached %s' % counter


def test_silent_waiters_time_out_as_with_the_original(world):
    # 'cancelled timers'
    seed = int(os.environ.get('RLB_SEED', random.randrange(2**32)))
    print('RLB_SEED=%d' % seed)
    rng = random.Random(seed)
    pair = Pair(Daemon(world, 'original', ORIGINAL), Daemon(world, 'ours'), rng)
    pair.say(0, 'ACQ4ME k 1 9 0')
    for i in range(1, CLIENTS):
        pair.say(i, '%s k 1 9 %d' % (rng.choice(('ACQ4ME', 'ACQ4ANY')), rng.randint(14, 15)))
    for s in pair.sides:
        assert [s.clients[i].line() for i in range(1, CLIENTS)] == ['TIMEOUT'] * (CLIENTS - 1)
    pair.compare()
    assert pair.ours.figures()['waiting_workers'] == 0
    pair.say(0, 'RELEASE')
    pair.say(1, 'ACQ4ANY k 1 9 0')
    assert pair.ours.figures()['total_acquired'] == 2
