#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
Many workers in ZooKeeper: how soon after its start a load balancer responds and has them all, and its CPU time when
idle and while some of them leave and return every second, under the same light load.

    bench/tree_scale.py [--workers 1000] [--flapping 100] [--seconds 10] [--bin build/bin]

One process serves all workers, each at a loopback address of its own. One JSON line at the end.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def parse():
    p = argparse.ArgumentParser(description=__doc__.strip().split('\n')[0])
    p.add_argument('--workers', type=int, default=1000)
    p.add_argument('--flapping', type=int, default=100, help='workers that leave and return each second')
    p.add_argument('--seconds', type=float, default=10)
    p.add_argument('--rate', type=float, default=200, help='requests per second in both phases')
    p.add_argument('--bin', default=str(ROOT / 'build' / 'bin'))
    return p.parse_args()


options = parse()
os.environ['RLB_BIN'] = options.bin
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / 'tests' / 'e2e'))
from support.base import wait_until  # noqa: E402
from support.http import get  # noqa: E402
from support.servers import World  # noqa: E402
from zookeeper_support import Load, Place, knows, workers  # noqa: E402

PROVIDERS = '/app/workers/providers/'


def register(place, addresses):
    for p in [place.client.create_async(PROVIDERS + w, b'{"pid": 1}', ephemeral=True) for w in addresses]:
        p.get()


def unregister(place, addresses):
    for p in [place.client.delete_async(PROVIDERS + w) for w in addresses]:
        p.get()


def cpu_seconds(pid):
    fields = pathlib.Path('/proc/%d/stat' % pid).read_text().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def rss_mib(pid):
    text = pathlib.Path('/proc/%d/status' % pid).read_text()
    return round(int(text.split('VmRSS:')[1].split()[0]) / 1024, 1)


def phase(lb, each_second):
    """CPU (percent of one core), memory and requests over some seconds; EACH_SECOND is called once a second."""
    load = Load([lb], rate=options.rate, sites=2000)
    load.go_on(int(options.rate))
    used, done, began = cpu_seconds(lb.process.pid), load.done, time.monotonic()
    for i in range(int(options.seconds)):
        each_second(i)
        time.sleep(max(0.0, began + i + 1 - time.monotonic()))
    elapsed = time.monotonic() - began
    result = {'cpu_percent': round(100 * (cpu_seconds(lb.process.pid) - used) / elapsed, 1),
              'rss_mib': rss_mib(lb.process.pid), 'requests': load.done - done, 'failed': len(load.failures),
              'seconds': round(elapsed, 1)}
    load.stop()
    return result


def start_up(place, addresses):
    """Seconds from the start of the program: to the first response, and until every worker is eligible."""
    lb = place.world.resumelb({'applications': {'app': {'tree': place.url(), 'resume': 'measure'}}}, wait=False)
    began = time.monotonic()

    def responded():
        try:
            return get(lb.address, '/').status == 200
        except OSError:
            return False
    wait_until(responded, 'the first response', 60)
    first = time.monotonic() - began
    wait_until(knows(lb, addresses), 'all workers', 60)
    return lb, {'first_response_s': round(first, 3), 'all_known_s': round(time.monotonic() - began, 3)}


def main():
    world = World(pathlib.Path(tempfile.mkdtemp(prefix='rlb-bench-')))
    try:
        place = Place(world)
        addresses = workers(world, options.workers)
        place.client.ensure_path(PROVIDERS[:-1])
        register(place, addresses)
        lb, start = start_up(place, addresses)
        result = {'workers': options.workers, **start, 'idle': phase(lb, lambda i: None)}
        turns = options.workers // options.flapping

        away = []

        def flap(i):
            """Removes the next workers, and registers those of the previous second again."""
            some = addresses[i % turns * options.flapping:][:options.flapping]
            unregister(place, some)
            register(place, away)
            away[:] = some
        result['flapping'] = phase(lb, flap)
        register(place, away)
        wait_until(knows(lb, addresses), 'all workers again', 30)
        print(json.dumps(result))
    finally:
        world.close()


if __name__ == '__main__':
    main()
