#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
Three pool counter daemons that two load balancers share, under continuous load; each is killed (SIGKILL) and started
again: the effect on requests and limits, and its duration.

    bench/limit_daemons.py [--outages 0.2,2,10] [--keys 4]

Each daemon has --keys keys; each key has two requests at a time (workers: 2) and four clients. gunicorns of many threads
record begin and end of each request, so that concurrency is known exactly. One row per implementation and length of outage,
in which each of the three is stopped once. RLB_BIN: directory of the programs (default build/bin).
"""
import argparse
import time

from agent_support import number, table
from limit_daemons_support import Shared
from limit_load import fresh_world, go_first
from poolcounter_support import ORIGINAL, OURS


def parse():
    p = argparse.ArgumentParser(description=__doc__.strip().split('\n')[0])
    p.add_argument('--outages', default='0.2,2,10', help='seconds')
    p.add_argument('--keys', type=int, default=4, help='of each daemon')
    return p.parse_args()


def run(options, name, program, away_s):
    """The row of three outages of AWAY_S seconds."""
    with fresh_world() as world:
        shared = Shared(world, program, options.keys)
        load = shared.load()
        began = time.monotonic()
        time.sleep(3)
        passed = []
        for at in range(len(shared.daemons)):
            o = shared.kill(at)
            time.sleep(away_s)
            shared.restart(o)
            shared.wait_settled(o)
            passed.append(shared.passed_for_s(o))
        load.stop()
        most_out = max(shared.most(o.at, o.began, o.over) for o in shared.outages)
        return ['%s, %g s' % (name, away_s), number(load.done), number(load.done / (time.monotonic() - began)), str(len(load.failures)),
                str(max(shared.most_while_counted())), str(most_out), ', '.join(number(s, 1) for s in passed)]


def main():
    options = parse()
    go_first()
    rows = [run(options, name, program, float(away)) for name, program in (('original', ORIGINAL), ('ours', OURS))
            for away in options.outages.split(',')]
    table(['each daemon stopped for', 'requests', 'a second', 'failed', 'most at once of a key while its daemon runs',
           'while it is stopped', 'over the limit after its start, s'], rows)


if __name__ == '__main__':
    main()
