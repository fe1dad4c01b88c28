#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The status page of a large pool: 1,000 workers, 10,000 classes. Measures how long its data takes to send, and the effect of
viewers on requests: paced requests in rounds, alternately without and with open pages.

    bench/status_page.py [WORKERS [CLASSES]]        (RLB_BIN names the programs' directory)
"""
import asyncio
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / 'tests/e2e'))
sys.dont_write_bytecode = True
from support.base import free_port  # noqa: E402
from support.http import get  # noqa: E402
from support.many_workers import address, start  # noqa: E402
from support.servers import World  # noqa: E402

ROUNDS, ROUND_S, RATE, CONNECTIONS, LISTENERS = 10, 4, 600, 8, 4


async def ask(reader, writer, cls):
    writer.write(b'GET / HTTP/1.1\r\nHost: class-%d.example\r\n\r\n' % cls)
    head = await reader.readuntil(b'\r\n\r\n')
    assert head.startswith(b'HTTP/1.1 200'), head
    fields = head.lower().split(b'content-length: ')
    await reader.readexactly(int(fields[1].split(b'\r\n')[0]))


async def client(lb, classes, until, rate, seen):
    reader, writer = await asyncio.open_connection(*lb.address.split(':'))
    at = time.perf_counter() + random.random() / rate
    while at < until:
        await asyncio.sleep(max(0, at - time.perf_counter()))
        before = time.perf_counter()
        await ask(reader, writer, random.randrange(classes))
        seen.append(time.perf_counter() - before)
        at += 1 / rate
    writer.close()


async def round_of(lb, classes):
    seen, until = [], time.perf_counter() + ROUND_S
    await asyncio.gather(*(client(lb, classes, until, RATE / CONNECTIONS, seen) for _ in range(CONNECTIONS)))
    return seen


async def teach(lb, classes):
    """Sends one request of each class."""
    async def some(part):
        reader, writer = await asyncio.open_connection(*lb.address.split(':'))
        for cls in part:
            await ask(reader, writer, cls)
        writer.close()
    await asyncio.gather(*(some(range(i, classes, 16)) for i in range(16)))


def listen(lb):
    """Reads the page in a separate process, so that reading does not delay the timed requests."""
    return subprocess.Popen(['curl', '-sN', '-o', '/dev/null', 'http://%s/live' % lb.admin])


def cpu_s(pid):
    fields = open('/proc/%d/task/%d/stat' % (pid, pid)).read().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def quantile(xs, q):
    return 1000 * sorted(xs)[int(q * (len(xs) - 1))]


async def measure(lb, classes):
    await teach(lb, classes)
    alone, watched = [], []
    cpu = [0, 0]
    for i in range(2 * ROUNDS):
        watchers = [listen(lb) for _ in range(LISTENERS if i % 2 else 0)]
        before = cpu_s(lb.process.pid)
        (watched if i % 2 else alone).append(await round_of(lb, classes))
        cpu[i % 2] += cpu_s(lb.process.pid) - before
        for w in watchers:
            w.kill()
            w.wait()
    for name, rounds in (('no listeners', alone), ('%d listeners' % LISTENERS, watched)):
        print('%-16s p50 %.2f ms, p99 %.2f ms (median of %d rounds; rounds %s), control loop %.1f %% of a core' % (
            name, statistics.median(quantile(r, .5) for r in rounds), statistics.median(quantile(r, .99) for r in rounds),
            len(rounds), ' '.join('%.1f' % quantile(r, .99) for r in rounds),
            100 * cpu[rounds is watched] / (ROUNDS * ROUND_S)))


def main():
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    classes = int(sys.argv[2]) if len(sys.argv) > 2 else 10000
    world = World(pathlib.Path(tempfile.mkdtemp(prefix='rlb-page-')))
    port = free_port()
    child = start(port, workers)
    try:
        lb = world.resumelb({'workers': [address(i, port) for i in range(workers)]})
        asyncio.run(measure(lb, classes))
        for path in ('/status.json', '/settings.json', '/events', '/resumes.json'):
            times = []
            for _ in range(20):
                before = time.perf_counter()
                size = len(get(lb.admin, path, host=lb.admin).body)
                times.append(time.perf_counter() - before)
            print('%-16s %7d bytes, median %.1f ms, worst of 20 %.1f ms' % (
                path, size, 1000 * statistics.median(times), 1000 * max(times)))
    finally:
        child.kill()
        child.wait()
        world.close()


if __name__ == '__main__':
    main()
