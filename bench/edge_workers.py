#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
Workers that fail or are slow: resumelb with its defaults, compared with nginx, HAProxy and h2o:

  stale     a worker that resets a connection instead of reading a second request. 60 GETs, then 60 POSTs, a client
            each. Lost: no response 200. Twice: received more than once by the worker.
  killed    two workers, 4 clients without pause; one is killed and started again, repeatedly. Failed GETs and POSTs.
  slow      two workers, one of which takes 1 s; 40 requests, 4 at once. Quick: response in less than 0.5 s.

    bench/edge_workers.py [--only NAME ...] [--seconds 6]

h2o has one worker and the first row only. RLB_BIN: directory of the programs (default build/bin).
"""
import argparse
import concurrent.futures
import threading
import time

from agent_support import free_port, table
from conformance_responses import start
from limit_load import fresh_world
from support.http import Client, CutShort
from support.scripted import Scripted, serve

N = 60


def ask(address, method, target):
    """The status; 0: no response."""
    try:
        with Client(address) as c:
            return c.request(method, target, body=b'x' if method == 'POST' else None).status
    except (OSError, CutShort, ValueError):
        return 0


def stale(name):
    seen = {}

    def script(c):
        first = c.read_request()
        if first is None:
            return
        seen.setdefault(first[0].split()[1], []).append('done')
        c.respond(b'ok')
        # The worker has decided to close: further bytes are ignored.
        c.sock.recv(1)
        c.reset()
    with fresh_world() as world:
        w = world.scripted(script)
        address = start(name, world, [w.address], tuned=False)[0]
        lost = {m: sum(ask(address, m, '/%s-%d' % (m, i)) != 200 for i in range(N)) for m in ('GET', 'POST')}
        twice = sum(len(v) > 1 for k, v in seen.items() if k.startswith(b'/POST'))
    return ['%d / %d of %d' % (lost['GET'], lost['POST'], N), '%d' % twice]


class Killed:
    """A worker that is killed with all its connections, and started again on its port."""

    def __init__(self, world):
        self.world, self.port = world, free_port()
        self.up()

    def up(self):
        self.server = Scripted(serve(lambda c, h, b: c.respond(b'ok')), port=self.port)
        self.address, self.port = self.server.address, int(self.server.address.rpartition(':')[2])

    def kill(self):
        self.server.closed = True
        self.server.listener.shutdown(2)
        self.server.listener.close()
        for c in self.server.connections:
            try:
                c.sock.shutdown(2)
            except OSError:
                pass


def killed(name, seconds):
    failed, done, stopping = {'GET': 0, 'POST': 0}, {'GET': 0, 'POST': 0}, threading.Event()
    lock = threading.Lock()

    def load(n):
        i = 0
        while not stopping.is_set():
            i += 1
            method = 'GET' if i % 2 else 'POST'
            good = ask(address, method, '/%d-%d' % (n, i)) == 200
            with lock:
                done[method] += 1
                failed[method] += not good
    with fresh_world() as world:
        stays = world.scripted(serve(lambda c, h, b: c.respond(b'ok')))
        dies = Killed(world)
        address = start(name, world, [stays.address, dies.address], tuned=False)[0]
        threads = [threading.Thread(target=load, args=(n,), daemon=True) for n in range(4)]
        for t in threads:
            t.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.5)
            dies.kill()
            time.sleep(0.5)
            dies.up()
        stopping.set()
        for t in threads:
            t.join()
        dies.kill()
    return ['%d of %d / %d of %d' % (failed['GET'], done['GET'], failed['POST'], done['POST'])]


def slow(name):
    def respond(pause):
        def one(c, head, body):
            time.sleep(pause if b'/plain' not in head else 0)
            c.respond(b'ok')
        return one

    def timed(i):
        began = time.monotonic()
        good = ask(address, 'GET', '/%d' % i) == 200
        return good and time.monotonic() - began < 0.5
    with fresh_world() as world:
        workers = [world.scripted(serve(respond(p))) for p in (1.0, 0.0)]
        address = start(name, world, [w.address for w in workers], tuned=False)[0]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            quick = sum(pool.map(timed, range(40)))
        one_by_one = sum(map(timed, range(40)))
    return ['%d' % quick, '%d' % one_by_one]


def main():
    p = argparse.ArgumentParser(description=__doc__.strip().split('\n')[0])
    names = ('resumelb', 'nginx', 'haproxy', 'h2o')
    p.add_argument('--only', nargs='*', choices=names)
    p.add_argument('--seconds', type=float, default=6)
    options = p.parse_args()
    rows = []
    for name in options.only or names:
        rows.append([name, *stale(name)] + (['-'] * 3 if name == 'h2o' else killed(name, options.seconds) + slow(name)))
        print(rows[-1], flush=True)
    table(['', 'stale: lost GETs / POSTs', 'POSTs twice', 'killed: failed GETs / POSTs', 'slow: quick of 40, 4 at once', 'one at a time'], rows)


if __name__ == '__main__':
    main()
