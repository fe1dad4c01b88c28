#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
Many clients request the same expensive page at once, during ordinary requests: the effect of limits.

    bench/michael_jackson.py [--waves 3] [--any-waves 20] [--clients 200] [--cpu 0.2] [--processes 4] [--rate 40]
                             [--only NAME ...]

A gunicorn with one process, of one request at a time, for each of --processes. One page of one class costs --cpu seconds
of processor time for each rendering. Cheap pages of ten other classes are requested at --rate a second, at random
times, from before the first wave to after the last one. In a wave all clients, already connected, request the page at
once. Renderings are counted by the application. Everything is restarted for each row. RLB_BIN: directory of the programs
(default build/bin).
"""
import argparse
import asyncio
import statistics
import time

from agent_support import number, table
from counted_support import Counted
from limit_load import OpenLoop, application_cpu, fresh_world, go_first, percentile_ms, wave

QUIET_S = 8.0           # before the first wave
BETWEEN_S = 1.0         # from the end of a wave to the next one
WAVE_PATIENCE_S = 600.0
HOT, PAGE = 'hot.example', '/michael-jackson'

EACH = {'mode': 'each', 'workers': 2, 'maxqueue': 1000, 'timeout': '10m', 'match': {'path': 'exact:' + PAGE}}
ANY = {**EACH, 'mode': 'any', 'workers': 1}
# A request that finds all processes busy waits for a connection, or soon tries the next worker.
STAYS, ELSEWHERE = {'connection_wait_timeout': '10m'}, {'connection_wait_timeout': '5ms'}

ROWS = {
    'no counter': STAYS,
    'each, workers: 2': {**STAYS, 'limits': {'page': EACH}},
    'any': {**STAYS, 'limits': {'page': ANY}},
    'each, workers: 2, connection_wait_timeout: 5ms': {**ELSEWHERE, 'limits': {'page': EACH}},
    'any, connection_wait_timeout: 5ms': {**ELSEWHERE, 'limits': {'page': ANY}},
}


def parse():
    p = argparse.ArgumentParser(description=__doc__.strip().split('\n')[0])
    p.add_argument('--waves', type=int, default=3)
    p.add_argument('--any-waves', type=int, default=20, help='waves of rows with mode any, which are short')
    p.add_argument('--clients', type=int, default=200)
    p.add_argument('--cpu', type=float, default=0.2, help='CPU seconds of a rendering')
    p.add_argument('--processes', type=int, default=4)
    p.add_argument('--rate', type=float, default=40, help='cheap pages a second')
    p.add_argument('--only', nargs='*', choices=list(ROWS))
    return p.parse_args()


def cheap(random):
    return 'site%d.example' % random.randrange(10), '/cheap'


async def measure(options, lb, app, waves):
    """Samples of the waves, and the responses of the other classes in the quiet time and during the waves."""
    load = OpenLoop(lb.address, options.rate, cheap)
    samples, spans = [], []
    quiet_from = time.monotonic() + QUIET_S / 4     # the first requests open connections and create classes
    await asyncio.sleep(QUIET_S)
    quiet_to = time.monotonic()
    for _ in range(waves):
        rendered, cpu = len(app.requests(path=PAGE)), application_cpu(app)
        began, responses = await wave(lb.address, options.clients, HOT, '%s?cpu=%g' % (PAGE, options.cpu),
                                    WAVE_PATIENCE_S)
        ended = time.monotonic()
        spans.append((began, ended))
        samples.append({'renderings': len(app.requests(path=PAGE)) - rendered, 'took_s': ended - began,
                        'cpu_s': application_cpu(app) - cpu, 'failed': sum(not a.good for a in responses)})
        await asyncio.sleep(BETWEEN_S)
    others = await load.stop()
    quiet = [a for a in others if quiet_from <= a.due < quiet_to]
    during = [a for a in others if any(b <= a.due < e for b, e in spans)]
    return samples, quiet, during, others


def run(options, name):
    waves = options.any_waves if name.startswith('any') else options.waves
    with fresh_world() as world:
        app = Counted(world, options.processes)
        lb = world.resumelb({'workers': app.addresses, 'resume': 'measure', 'max_connections': 1,
                             'first_byte_timeout': '10m', **ROWS[name]})
        return asyncio.run(measure(options, lb, app, waves))


def row(name, samples, quiet, during, others):
    def median(key):
        return statistics.median(s[key] for s in samples)
    renderings = sorted({s['renderings'] for s in samples})
    return [name, str(len(samples)), ' or '.join(map(str, renderings)), number(median('took_s'), 2),
            number(median('cpu_s'), 2), number(percentile_ms(quiet, 50), 1), number(percentile_ms(quiet, 99), 1),
            number(percentile_ms(during, 50), 1), number(percentile_ms(during, 99), 1), str(len(during)),
            str(sum(s['failed'] for s in samples) + sum(not a.good for a in others))]


def main():
    options = parse()
    go_first()
    rows = [row(name, *run(options, name)) for name in ROWS if not options.only or name in options.only]
    print('%d clients at once, %d processes, a rendering costs %g s of CPU' %
          (options.clients, options.processes, options.cpu))
    table(['', 'waves', 'renderings a wave', 'all responses after s', 'CPU s of the application',
           'others, quiet: p50 ms', 'p99 ms', 'during the wave: p50 ms', 'p99 ms', 'of requests', 'failed'], rows)


if __name__ == '__main__':
    main()
