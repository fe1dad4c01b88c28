# SPDX-License-Identifier: Apache-2.0
"""resumelbctl top in a pseudo-terminal: its screen, keys, resizing, and the restoration of the terminal in all cases."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest
from ctl_support import ctl
from support.base import BIN, LIMIT, wait_until
from support.scripted import hello, serve

ENTER, LEAVE = b'\x1b[?1049h', b'\x1b[?1049l'


class Terminal:
    """resumelbctl in its own pseudo-terminal."""

    def __init__(self, *words, rows=24, columns=100, env=None):
        self.master, slave = pty.openpty()
        self.slave = slave
        self.resize(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.seen = b''
        self.process = subprocess.Popen(
            [str(BIN / 'resumelbctl'), *words], stdin=slave, stdout=slave, stderr=subprocess.PIPE, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**os.environ, 'TERM': 'xterm', 'NO_COLOR': '', **(env or {})})

    def resize(self, rows, columns):
        self.rows = rows
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))

    def read(self):
        while select.select([self.master], [], [], 0.05)[0]:
            self.seen += os.read(self.master, 65536)
        return self.seen

    def screen(self):
        """The lines of the last completely drawn screen, without colors."""
        *before, last = [b'', b'', *self.read().split(b'\x1b[H')[1:]]
        if b'\x1b[J' not in last and last.count(b'\n') + 1 < self.rows:
            last = before[-1]
        last = last.replace(b'\x1b[K', b'').partition(b'\x1b[J')[0]
        return re.sub(rb'\x1b\[[0-9;]*m', b'', last).decode().replace('\r', '').split('\n')

    def wait(self, condition, what='the screen'):
        return wait_until(lambda: condition(self.screen()), what)

    def press(self, keys):
        os.write(self.master, keys)

    def end(self):
        deadline = time.monotonic() + LIMIT
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read()
        assert self.process.poll() is not None, 'it does not end'
        self.read()
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()
        os.close(self.master)
        os.close(self.slave)

    def is_as_it_was(self):
        after = termios.tcgetattr(self.slave)
        return after[:4] == self.before[:4] and self.seen.rfind(LEAVE) > self.seen.rfind(ENTER) >= 0 \
            and self.seen.rfind(b'\x1b[?25h') > self.seen.rfind(b'\x1b[?25l')


@pytest.fixture
def lb(world):
    workers = [world.scripted(serve(hello)) for _ in range(30)]
    balancer = world.resumelb({'workers': [w.address for w in workers], 'pool': {'policy': 'round_robin'}})
    balancer.names = [w.address for w in workers]
    return balancer


@pytest.fixture
def start(lb):
    terminals = []

    def begin(*words, **kw):
        terminals.append(Terminal('top', '-a', lb.admin, '-i', '1', *words, **kw))
        return terminals[-1]
    yield begin
    for t in terminals:
        t.close()


def workers_of(screen):
    return [line.split()[0] for line in screen if re.match(r'127\.0\.0\.1:\d+ ', line)]


def test_workers_are_shown_with_their_rates(lb, start):
    t = start('--sort', 'r')
    t.wait(lambda s: len(workers_of(s)) == 20)

    def busy(screen):
        lb.get()
        return re.search(r', (?=[\d.]*[1-9])[\d.]+ requests/s', '\n'.join(screen))
    t.wait(busy, 'requests to be counted')
    assert any(line.startswith('default: policy round_robin, 30 workers') for line in t.screen())
    t.press(b'q')
    assert t.end() == 0 and t.is_as_it_was()


def test_keys_sort_reverse_scroll_pause_and_help(lb, start):
    t = start('--sort', 'n')
    names = sorted(lb.names)
    t.wait(lambda s: workers_of(s) == names[:20])
    t.press(b'R')
    t.wait(lambda s: workers_of(s) == names[::-1][:20])
    t.press(b'R\x1b[B\x1b[B')
    t.wait(lambda s: workers_of(s) == names[2:22])
    t.press(b'\x1b[A')
    t.wait(lambda s: workers_of(s) == names[1:21])
    t.press(b'\x1b[6~')
    t.wait(lambda s: workers_of(s)[0] == names[19])
    t.press(b'p')
    t.wait(lambda s: 'PAUSED' in s[0])
    t.press(b'h')
    t.wait(lambda s: any('sort by requests/s' in line for line in s))
    t.press(b'hb')
    t.wait(lambda s: 'by backlog' in s[0] and workers_of(s))
    t.press(b'q')
    assert t.end() == 0


def columns_of(screen):
    """The titles of the columns."""
    return re.split(r' {2,}| (?=mean|oldest|req|fail|service|skills|state|backlog)', next(x for x in screen if x.startswith('worker ')))


def test_on_80_columns_and_24_rows_it_states_what_is_hidden_and_arrows_show_it(lb, start):
    t = start('--sort', 'n', columns=80)
    t.wait(lambda s: len(workers_of(s)) == 20)
    screen = t.screen()
    assert len(screen) == 24 and all(len(line) <= 80 for line in screen)
    assert columns_of(screen) == ['worker', 'state', 'backlog', 'mean', 'oldest s', 'req/s', 'fail/s', 'service ms']
    assert 'workers 1 to 20 of 30 (up, down); hidden columns (left, right): skills' in screen
    # Each worker has a value in all columns.
    rows = [line for line in screen if re.match(r'127\.0\.0\.1:\d+ ', line)]
    assert {len(line.split()) for line in rows} == {8}
    t.press(b'\x1b[C')
    t.wait(lambda s: columns_of(s) == ['worker', 'backlog', 'mean', 'oldest s', 'req/s', 'fail/s', 'service ms', 'skills'])
    assert any('hidden columns (left, right): state' in line for line in t.screen())
    # The last column on the right is visible.
    t.press(b'\x1b[C')
    t.press(b'\x1b[B')
    t.wait(lambda s: any(line.startswith('workers 2 to 21 of 30') for line in s))
    assert columns_of(t.screen())[1:] == ['backlog', 'mean', 'oldest s', 'req/s', 'fail/s', 'service ms', 'skills']
    t.press(b'\x1b[D\x1b[D')
    t.wait(lambda s: columns_of(s)[1] == 'state')
    # The column that it is sorted by stays visible.
    t.press(b'k')
    t.wait(lambda s: columns_of(s)[-1] == 'skills' and 'mean' not in columns_of(s))
    t.press(b'q')
    assert t.end() == 0 and t.is_as_it_was()


def test_where_there_is_room_for_all_nothing_is_reported_to_be_hidden(start):
    t = start(rows=40, columns=120)
    t.wait(lambda s: len(workers_of(s)) == 30)
    assert not any('hidden' in line or 'workers 1 to' in line for line in t.screen())
    t.press(b'q')
    assert t.end() == 0


def test_top_follows_the_size_of_the_terminal(start):
    t = start()
    t.wait(lambda s: len(workers_of(s)) == 20)
    t.resize(10, 60)
    os.kill(t.process.pid, signal.SIGWINCH)
    t.wait(lambda s: len(workers_of(s)) == 6 and len(s) == 10 and all(len(line) <= 60 for line in s))
    t.resize(2, 10)
    os.kill(t.process.pid, signal.SIGWINCH)
    t.wait(lambda s: len(s) == 2 and all(len(line) <= 10 for line in s))
    t.press(b'q')
    assert t.end() == 0 and t.is_as_it_was()


@pytest.mark.parametrize('name, code', [('SIGINT', 0), ('SIGTERM', 0), ('SIGHUP', 0), ('SIGQUIT', 0),
                                        ('SIGABRT', -signal.SIGABRT), ('SIGSEGV', -signal.SIGSEGV)])
def test_the_terminal_is_as_before_however_it_ends(start, name, code):
    t = start()
    t.wait(workers_of)
    os.kill(t.process.pid, getattr(signal, name))
    assert t.end() == code
    assert t.is_as_it_was()


def test_top_restores_the_terminal_while_it_is_stopped(start):
    t = start()
    t.wait(workers_of)
    os.kill(t.process.pid, signal.SIGTSTP)
    # Its process group is orphaned, without a shell above it; the kernel does not stop such a group, so that it continues immediately.
    t.wait(lambda s: t.seen.count(ENTER) == 2 and t.seen.count(LEAVE) == 1)
    t.wait(workers_of)
    t.press(b'q')
    assert t.end() == 0 and t.is_as_it_was()


def test_top_continues_when_the_load_balancer_has_exited(lb, start):
    t = start()
    t.wait(workers_of)
    lb.kill()
    t.wait(lambda s: 'refused' in s[1] and workers_of(s))
    t.press(b'q')
    assert t.end() == 0 and t.is_as_it_was()


def test_colours_are_for_terminals_without_no_color(lb, start):
    t = start()
    t.wait(workers_of)
    assert b'\x1b[2mworker' in t.seen
    plain = start(env={'NO_COLOR': '1'})
    plain.wait(workers_of)
    assert not re.search(rb'\x1b\[[0-9;]*[1-9]m', plain.seen)


def test_without_a_terminal_it_states_what_to_do(lb):
    assert 'status --watch' in ctl('top', '-a', lb.admin, code=1).error
    assert 'refused' in ctl('top', '-a', '127.0.0.1:1', code=1).error
    ctl('top', '--sort', 'x', code=2)
    ctl('top', '--interval', '0', code=2)
