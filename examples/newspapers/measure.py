#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compare `policy: classless` and `policy: adaptive` with the same traffic to the newspapers; prints a table.

Each policy gets new processes with empty caches, a warm-up, then the measured requests.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import generate  # noqa: E402
from stack import HERE, Failed, Stack  # noqa: E402

COLUMNS = (('policy', 'policy', '%s'), ('requests/s', 'requests_per_second', '%.0f'),
           ('loads/request', 'loads_per_request', '%.2f'), ('hit rate', 'hit_rate', '%.3f'),
           ('p50 ms', 'p50_ms', '%.1f'), ('p99 ms', 'p99_ms', '%.1f'),
           ('processes/site', 'processes_per_site', '%.2f'), ('errors', 'errors', '%d'))


def parse():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--policies', default='classless,adaptive')
    p.add_argument('--processes', type=int, default=4)
    p.add_argument('--warmup', type=int, default=10000, help='requests before measuring')
    p.add_argument('--requests', type=int, default=10000)
    p.add_argument('--concurrency', type=int, default=8)
    p.add_argument('--rate', type=float, default=0)
    p.add_argument('--zipf', type=float, default=0.9)
    p.add_argument('--delay-ms', type=float, default=0, help='imitate a remote database')
    p.add_argument('--json', action='store_true')
    generate.add_options(p)
    return p.parse_args()


def traffic(stack, o, requests, seed):
    done = subprocess.run(
        ['/usr/bin/python3', '-B', str(HERE / 'traffic.py'), '--json', '--url', 'http://127.0.0.1:%d' % stack.port,
         '--requests', str(requests), '--concurrency', str(o.concurrency), '--rate', str(o.rate),
         '--zipf', str(o.zipf), '--seed', str(seed)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    if not done.stdout:
        raise Failed('no traffic\n' + stack.logs())
    return json.loads(done.stdout)


def measure(policy, o, db, directory):
    environment = {'NEWSPAPERS_DB': str(db), 'NEWSPAPERS_LOAD_DELAY_MS': str(o.delay_ms)}
    with Stack(directory / policy, processes=o.processes, policy=policy, environment=environment) as stack:
        traffic(stack, o, o.warmup, o.seed)
        return {'policy': policy, **traffic(stack, o, o.requests, o.seed + 1)}


def table(rows):
    lines = [[head for head, _, _ in COLUMNS]] + [[form % r[key] for _, key, form in COLUMNS] for r in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    lines.insert(1, ['-' * w for w in widths])
    return '\n'.join('| %s |' % ' | '.join(c.ljust(w) for c, w in zip(line, widths)) for line in lines)


def main():
    o = parse()
    default = 'newspapers-%d-%d-%d.sqlite' % (o.sites, o.objects, o.seed)
    db = pathlib.Path(os.environ.get('NEWSPAPERS_DB') or HERE.parents[1] / 'run' / default).resolve()
    say = (lambda text: None) if o.json else print
    generate.ensure(db, o.sites, o.objects, o.seed, say=say)
    try:
        with tempfile.TemporaryDirectory(prefix='rlb-measure-') as directory:
            rows = [measure(p, o, db, pathlib.Path(directory)) for p in o.policies.split(',')]
    except Failed as e:
        sys.exit('measure.py: %s' % e)
    print(json.dumps(rows) if o.json else table(rows))


if __name__ == '__main__':
    main()
