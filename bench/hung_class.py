#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
The database of the busiest class hangs: the effect on the other classes, with limits and without.

    bench/hung_class.py [--rounds 3] [--rate 100] [--quiet 30] [--hang 30] [--processes 8] [--only NAME ...]

A gunicorn with one process, of one request at a time, for each of --processes; --rate requests a second, at random
times, independent of responses: 90 % for one class, the others for ten more. Each waits 10 ms for its database. After
--quiet seconds that of the hot class hangs: each of its requests takes 10 s, for --hang seconds. Latency counts from when
the request was due; one without a response after 30 s counts as failed, and with those 30 s. Everything is restarted
for each row and round; the result is the median of the rounds' ratios. RLB_BIN: directory of the programs (default build/bin).
"""
import argparse
import asyncio
import statistics
import time

from agent_support import number, table, turning
from counted_support import Counted
from limit_load import OpenLoop, fresh_world, go_first, percentile_ms

WARM_S = 5.0            # before the time that counts as quiet
HOT = 'hot.example'
DB_S = 0.01

PLAIN = {'max_connections': 1}
LIMIT = {'limits': {'sites': {'workers': 2, 'maxqueue': 20, 'timeout': '500ms'}}}
# For the hot class alone, with any keys.
SLOTS = {'limits': {'hot': {'match': {'class': 'hot.example'}, 'key': '{PATH_INFO}', 'workers': 2, 'slots': 2,
                                   'maxqueue': 20, 'timeout': '500ms'}}}
ELSEWHERE = {'connection_wait_timeout': '5ms'}
CLASSLESS = {'pool': {'policy': 'classless'}}

ROWS = {
    'no counter': PLAIN,
    'workers: 2': {**PLAIN, **LIMIT},
    'workers: 2, connection_wait_timeout: 5ms': {**PLAIN, **LIMIT, **ELSEWHERE},
    'workers: 2, policy: classless': {**PLAIN, **LIMIT, **CLASSLESS},
    'slots: 2, connection_wait_timeout: 5ms': {**PLAIN, **SLOTS, **ELSEWHERE},
    'no counter, connection_wait_timeout: 5ms': {**PLAIN, **ELSEWHERE},
}


def parse():
    p = argparse.ArgumentParser(description=__doc__.strip().split('\n')[0])
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--rate', type=float, default=100)
    p.add_argument('--quiet', type=float, default=30, help='seconds')
    p.add_argument('--hang', type=float, default=30, help='seconds')
    p.add_argument('--processes', type=int, default=8)
    p.add_argument('--only', nargs='*', choices=list(ROWS))
    return p.parse_args()


def pick(random):
    host = HOT if random.random() < 0.9 else 'site%d.example' % random.randrange(10)
    return host, '/page?db=%g' % DB_S


async def measure(options, lb, app, seed):
    """The responses of the quiet time and of the hang."""
    load = OpenLoop(lb.address, options.rate, pick, seed)
    began = time.monotonic()
    await asyncio.sleep(WARM_S + options.quiet)
    app.hang()
    hung = time.monotonic()
    await asyncio.sleep(options.hang)
    ended = time.monotonic()
    app.hang_no_more()
    responses = await load.stop()
    return ([a for a in responses if began + WARM_S <= a.due < hung], [a for a in responses if hung <= a.due < ended])


def run(options, name, seed):
    with fresh_world() as world:
        app = Counted(world, options.processes)
        lb = world.resumelb({'workers': app.addresses, 'resume': 'measure', **ROWS[name]})
        return asyncio.run(measure(options, lb, app, seed))


def hot(responses, wanted):
    return [a for a in responses if (a.host == HOT) == wanted]


def sample(quiet, hang):
    q, h = hot(quiet, False), hot(hang, False)
    return {'quiet50': percentile_ms(q, 50), 'quiet99': percentile_ms(q, 99), 'hang50': percentile_ms(h, 50),
            'hang99': percentile_ms(h, 99), 'ratio': percentile_ms(h, 99) / percentile_ms(q, 99),
            'others': len(h), 'failed': sum(not a.good for a in h), 'quiet_bad': sum(not a.good for a in quiet),
            'hot503': sum(a.status == 503 for a in hot(hang, True)), 'hot': len(hot(hang, True))}


def row(name, samples):
    def median(key, digits=0):
        return number(statistics.median(s[key] for s in samples), digits)

    def total(key):
        return sum(s[key] for s in samples)
    return [name, median('quiet50', 1), median('quiet99', 1), median('hang50', 1), median('hang99', 1),
            median('ratio', 2), '%d of %d' % (total('failed'), total('others')),
            '%d %%' % round(100 * total('hot503') / total('hot')), str(total('quiet_bad'))]


def main():
    options = parse()
    go_first()
    names = [n for n in ROWS if not options.only or n in options.only]
    samples = {n: [] for n in names}
    for n in range(options.rounds):
        for name in turning(names, n):
            samples[name].append(sample(*run(options, name, n + 1)))
            print(name, samples[name][-1], flush=True)
    table(['others', 'quiet: p50 ms', 'p99 ms', 'hang: p50 ms', 'p99 ms', 'p99 hang / quiet', 'without a response 200',
           'hot: 503', 'failed in quiet'], [row(n, samples[n]) for n in names])


if __name__ == '__main__':
    main()
