#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
From a change in ZooKeeper to its effect: the time from the call that registers a worker to the end of its first response,
and from the call that sets a property to a status page that shows it as effective.

    bench/tree_latency.py [--changes 200] [--servers 1] [--bin build/bin]

Real servers, real load balancer, changes by another program (kazoo) at random moments. One JSON line at the end.
"""
import argparse
import json
import os
import pathlib
import random
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def parse():
    p = argparse.ArgumentParser(description=__doc__.strip().split('\n')[0])
    p.add_argument('--changes', type=int, default=200)
    p.add_argument('--servers', type=int, default=1, choices=(1, 3))
    p.add_argument('--bin', default=str(ROOT / 'build' / 'bin'))
    return p.parse_args()


options = parse()
os.environ['RLB_BIN'] = options.bin
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / 'tests' / 'e2e'))
from support.http import Client  # noqa: E402
from support.servers import World  # noqa: E402
from support.base import wait_until  # noqa: E402
from zookeeper_support import Place, in_force, knows, setting, workers  # noqa: E402

# Time between changes: longer than the pause after a burst (20 ms), and random.
APART = (0.05, 0.15)
DEADLINE = 10


def summary(times):
    times = sorted(times)
    return {'changes': len(times), 'median_ms': round(times[len(times) // 2] * 1000, 2),
            'p99_ms': round(times[int(len(times) * 0.99)] * 1000, 2), 'max_ms': round(times[-1] * 1000, 2)}


def until(condition, began):
    while not condition():
        if time.monotonic() - began > DEADLINE:
            raise SystemExit('no effect within %d s' % DEADLINE)
    return time.monotonic() - began


def registrations(place, lb, addresses):
    """A new worker becomes the first eligible one, so that it gets the next request of a new class."""
    client, number, times = Client(lb.address), [0], []

    def responded_by(w):
        number[0] += 1
        r = client.request(host='c%d.example' % number[0])
        assert r.status == 200
        return r['X-Worker'] == w
    for i in range(options.changes):
        w = addresses[1 + i % (len(addresses) - 1)]
        time.sleep(random.uniform(*APART))
        began = time.monotonic()
        place.tree.register('/workers', w)
        times.append(until(lambda: responded_by(w), began))
        place.tree.unregister('/workers', w)
    return times


def settings(place, lb):
    times = []
    for i in range(options.changes):
        value = '%g' % (2 + i / 1000)
        time.sleep(random.uniform(*APART))
        began = time.monotonic()
        place.tree.set('', variance=float(value))
        times.append(until(lambda: setting(lb, 'variance')['value'] == value, began))
    return times


def main():
    world = World(pathlib.Path(tempfile.mkdtemp(prefix='rlb-bench-')))
    try:
        place = Place(world, count=options.servers)
        # The pool removes a worker half a second after the tree: enough workers that none is registered again before that.
        addresses = workers(world, 41)
        place.tree.register('/workers', addresses[0])
        place.tree.set('', variance=1)
        lb = place.balancer()
        wait_until(knows(lb, addresses[:1]), 'the first worker')
        wait_until(in_force(lb, 'variance', '1'), 'the first setting')
        print(json.dumps({'servers': options.servers, 'registered_to_routed': summary(registrations(place, lb, addresses)),
                          'set_to_in_force': summary(settings(place, lb))}))
    finally:
        world.close()


if __name__ == '__main__':
    main()
