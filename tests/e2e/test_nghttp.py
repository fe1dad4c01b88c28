# SPDX-License-Identifier: Apache-2.0
"""nghttp and h2load: clients with another HTTP/2 library, and all options that affect the protocol."""
import random
import re
import subprocess

import pytest

from support.base import LIMIT
from test_http2 import Front

PAGE, SENT = b'p' * 300_000, b's' * 200_000


@pytest.fixture(scope='module', autouse=True)
def versions():
    for program in ('nghttp', 'h2load'):
        print(subprocess.run([program, '--version'], capture_output=True, text=True, check=True, timeout=LIMIT).stdout.strip())


@pytest.fixture
def front(world):
    fields = [('X-Name-%d' % i, 'value') for i in range(40)]

    def respond(c, head, body):
        # front.lives() requests a body that fits into one window.
        c.respond(b'alive' if b' / ' in head else b'%d ' % len(body) + PAGE, headers=fields)
    return Front(world, respond)


def nghttp(front, *options, times=1):
    """Runs nghttp. Its standard output has all bodies, with interleaved parts."""
    uris = ['https://127.0.0.1:%d/%d' % (front.port, i) for i in range(times)]
    return subprocess.run(['nghttp', '--no-verify-peer', *map(str, options), *uris], capture_output=True, timeout=LIMIT)


OPTIONS = [pytest.param(options, id=options[:60]) for options in (
    '--header-table-size=0', '--header-table-size=64', '--header-table-size=1024',
    '--header-table-size=4096 --header-table-size=0 --header-table-size=8192',
    '--header-table-size=65536', '--encoder-header-table-size=0', '--encoder-header-table-size=64', '--encoder-header-table-size=65536',
    '--window-bits=6', '--window-bits=10', '--window-bits=14', '--window-bits=30 --connection-window-bits=30', '--window-bits=14 --connection-window-bits=16',
    '--max-concurrent-streams=1', '--max-concurrent-streams=100', '--weight=1', '--weight=256', '--no-dep',
    '--continuation', '--padding=255', '--no-push', '--header=x-long:' + 'v' * 8000, '--header=:authority:test.example',
    '--trailer=x-end:1 --data=/dev/null', '--data=SENT', '--data=SENT --no-content-length', '--data=SENT --trailer=x-end:1',
    '--data=SENT --expect-continue', '--data=SENT --continuation', '--data=SENT --padding=100 --window-bits=10',
    '--multiply=20', '--multiply=20 --window-bits=12', '--multiply=20 --data=SENT')]


@pytest.mark.parametrize('options', OPTIONS)
def test_an_option_that_changes_the_protocol(front, options):
    options = options.split()
    sent = front.lb.process.log_path.parent / 'sent'
    sent.write_bytes(SENT)
    length = len(SENT) if '--data=SENT' in options else 0
    times = 20 if '--multiply=20' in options else 1
    r = nghttp(front, *(o.replace('SENT', str(sent)) for o in options), times=3)
    assert r.returncode == 0, r.stderr[-2000:]
    assert re.findall(rb'(\d+) ', r.stdout) == [b'%d' % length] * 3 * times, r.stderr[-2000:]
    assert r.stdout.count(b'p') == len(PAGE) * 3 * times
    assert len(front.worker.requests) == 3 * times and all(len(body) == length for _, body in front.worker.requests)
    assert front.lives()


def test_a_download_with_small_windows_is_no_flood(world):
    front = Front(world, lambda c, *_: c.respond(b'p' * 30_000), http2_window_updates='100')
    assert nghttp(front, '--multiply=20', '--window-bits=6').stdout == b'p' * 30_000 * 20


def h2load(front, n, *options):
    out = subprocess.run(['h2load', '-n', str(n), *map(str, options), 'https://127.0.0.1:%d/' % front.port],
                         capture_output=True, text=True, timeout=LIMIT).stdout
    assert 'requests: %d total, %d started, %d done, %d succeeded, 0 failed, 0 errored' % (n, n, n, n) in out, out
    assert 'status codes: %d 2xx, 0 3xx, 0 4xx, 0 5xx' % n in out, out


def test_h2load_with_100_streams_and_windows_of_any_size(world):
    front = Front(world, lambda c, *_: c.respond(b'x' * 3000))
    seed = random.randrange(1 << 32)
    print('seed', seed)
    draw = random.Random(seed)
    for _ in range(10):
        # With windows of 64 bytes the bodies take less than 100,000 WINDOW_UPDATE frames, the limit for one second.
        bits, all_bits = draw.randint(6, 30), draw.randint(16, 30)
        print('windows of %d and %d bits' % (bits, all_bits))
        h2load(front, 1000, '-c', draw.choice((1, 3, 10)), '-m', '100', '-w', bits, '-W', all_bits)
    assert front.lives()


def test_h2load_over_http1_and_with_bodies(world):
    front = Front(world, lambda c, head, body: c.respond(b'%d' % len(body)))
    sent = world.directory / 'sent'
    sent.write_bytes(b's' * 5000)
    h2load(front, 1000, '--h1', '-c', 20)
    h2load(front, 1000, '-c', 10, '-m', 100, '-d', sent)
    h2load(front, 1000, '--h1', '-c', 10, '-d', sent)
    assert all(len(body) == 5000 for head, body in front.worker.requests if head.startswith(b'POST'))
    assert sum(head.startswith(b'POST') for head, _ in front.worker.requests) == 2000
    assert front.lives()


def test_h2load_without_a_header_table(world):
    front = Front(world, lambda c, *_: c.respond(b'x'))
    h2load(front, 500, '-c', 10, '-m', 20, '--header-table-size=0', '--encoder-header-table-size=0')
