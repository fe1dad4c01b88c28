#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
resumelb-agent alone, as a small application server, and Debian's passenger (standalone, its own HTTP engine): the
same Python application, at most two processes with one request at a time each.

    bench/agent_passenger.py [--rounds 5] [--seconds 4] [--boot 1] [--what rate,restart] [--bin build/bin]

rate: the time from the first request, without any process, to its response; then requests/s, p50 and p99 with 1 and 8
connections, CPU time per request of all that is not the application, and memory (PSS). restart: 100 requests/s, half of
them POSTs, while restart.txt is touched; the application takes --boot seconds to start.

Both run the application with their own or the usual server (passenger's WSGI loader, gunicorn's sync worker) and with
the same two: gunicorn, and the bare WSGI server of bench/. Each round restarts everything, in rotating order; results are
medians over the rounds, failures their sum. Needs passenger and wrk.
"""
import argparse
import json
import pathlib
import time

from agent_support import (ROOT, Agent, Bench, Paced, Passenger, bare, cpu_seconds, get, gunicorn, is_application,
                           median, number, pss_mib, table, turning, wait_until, wrk)

PROCESSES = 2
RATE = 100
SLOW_S = 0.1
# Time until a restart is noticed: passenger checks the file at least every ten seconds.
PATIENCE_S = 40
SETTLED_S = 1.5


def parse():
    p = argparse.ArgumentParser(description=__doc__.strip().split('\n')[0])
    p.add_argument('--rounds', type=int, default=5)
    p.add_argument('--seconds', type=int, default=4)
    p.add_argument('--boot', type=float, default=1.0)
    p.add_argument('--what', default='rate,restart')
    p.add_argument('--only', default='', help='only the subjects with names that contain this')
    p.add_argument('--bin', default=str(ROOT / 'build' / 'bin'))
    p.add_argument('--json', help='file for all samples')
    return p.parse_args()


def subjects(bench, options, minimum, boot=0.0):
    binary = pathlib.Path(options.bin) / 'resumelb-agent'
    counts = {'min_processes': minimum, 'max_processes': PROCESSES}
    some = [Passenger(bench, 'passenger, its own', minimum=minimum, maximum=PROCESSES, boot=boot),
            Passenger(bench, 'passenger, gunicorn', gunicorn('--bind', '127.0.0.1:$PORT'), minimum, PROCESSES, boot=boot),
            Passenger(bench, 'passenger, bare', bare('$PORT'), minimum, PROCESSES, boot=boot),
            Agent(bench, 'agent, gunicorn', gunicorn(), binary, boot=boot, **counts),
            Agent(bench, 'agent, bare', bare(), binary, boot=boot, **counts)]
    return [s for s in some if options.only in s.name]


def load_until_all_run(server):
    """Sends requests until the maximum number of processes have responded; returns them."""
    load = Paced(server.address, 2000, clients=16)
    wait_until(lambda: len({r[2] for r in load.snapshot() if r[2]}) >= PROCESSES, '%s: all processes' % server.name, 30)
    return {r[2] for r in load.stop() if r[2]}


def rate(server, options):
    began = time.monotonic()
    response = get(server.address, '/')
    sample = {'spawn_ms': (time.monotonic() - began) * 1000, 'first_status': response.status}
    load_until_all_run(server)
    for c in (1, 8):
        wrk(server.address, c, 1)
        pids = server.servers()
        used = cpu_seconds(pids)
        result = wrk(server.address, c, options.seconds)
        result['cpu_us'] = (cpu_seconds(pids) - used) * 1e6 / result['requests']
        sample.update({'%s_%d' % (k, c): v for k, v in result.items()})
    pids = server.pids()
    sample['server_mib'] = pss_mib(p for p in pids if not is_application(p))
    sample['application_mib'] = pss_mib(p for p in pids if is_application(p))
    return sample


def restart(server, options):
    server.wait_up()
    before = load_until_all_run(server)
    load = Paced(server.address, RATE)
    wait_until(lambda: len(load.snapshot()) > RATE, 'load', 20)
    wait_until(lambda: all(not r[3] and r[1] < SLOW_S for r in load.snapshot()[-RATE // 2:]), 'quiet load', 20)
    ago = len(load.snapshot())
    touched = time.monotonic()
    (server.bench.directory / 'tmp' / 'restart.txt').touch()

    def settled():
        results = [r for r in load.snapshot()[ago:] if r[0] > time.monotonic() - SETTLED_S]
        return len(results) > RATE and all(r[2] and r[2] not in before and r[1] < SLOW_S for r in results)
    try:
        wait_until(settled, 'the new processes', PATIENCE_S)
    except AssertionError:
        return {'not_restarted': 1, 'failed': 0, 'slow': None, 'max_ms': None}
    finally:
        results = load.stop()[ago:]
    responded = [(due + took, process) for due, took, process, error in results if not error]
    new = min(t for t, process in responded if process not in before)
    old = max((t for t, process in responded if process in before), default=touched)
    return {'requests': len(results), 'failed': sum(1 for r in results if r[3]),
            'errors': sorted({r[3] for r in results if r[3]}), 'slow': sum(1 for r in results if r[1] >= SLOW_S),
            'max_ms': max(r[1] for r in results) * 1000, 'first_new_s': new - touched, 'last_old_s': old - touched}


def run(options, everything, measure):
    samples = {}
    for n in range(options.rounds):
        for server in turning(everything, n):
            (server.bench.directory / 'tmp' / 'restart.txt').unlink(missing_ok=True)
            server.start()
            try:
                samples.setdefault(server.name, []).append(measure(server, options))
            finally:
                server.stop()
    return samples


def print_rate(samples):
    rows = []
    for name, some in samples.items():
        rows.append([name] + [number(median(some, '%s_%d' % (k, c)), d) for c in (1, 8)
                              for k, d in (('rps', 0), ('p50_us', 0), ('p99_us', 0), ('cpu_us', 1))] +
                    [number(median(some, 'server_mib'), 1), number(median(some, 'application_mib'), 1),
                     number(median(some, 'spawn_ms')),
                     str(sum(s['errors_%d' % c] + s['bad_%d' % c] for s in some for c in (1, 8)))])
    table(['', *('%s, %d conn.' % (k, c) for c in (1, 8) for k in ('requests/s', 'p50 us', 'p99 us', 'server CPU us/req')),
           'server MiB', 'application MiB', 'first request ms', 'errors'], rows)


def print_restart(samples):
    rows = []
    for name, some in samples.items():
        rows.append([name, str(len(some)), number(median(some, 'requests')), str(sum(s['failed'] for s in some)),
                     number(median(some, 'slow')), number(median(some, 'max_ms')), number(median(some, 'first_new_s'), 1),
                     number(median(some, 'last_old_s'), 1), str(sum(s.get('not_restarted', 0) for s in some))])
    table(['', 'restarts', 'requests in each', 'failed, all', 'slower than 100 ms', 'slowest ms', 'first new after s',
           'last old after s', 'not restarted'], rows)


def main():
    options = parse()
    kept = {}
    with Bench() as bench:
        if 'rate' in options.what:
            kept['rate'] = run(options, subjects(bench, options, 0), rate)
            print_rate(kept['rate'])
        if 'restart' in options.what:
            kept['restart'] = run(options, subjects(bench, options, PROCESSES, options.boot), restart)
            print_restart(kept['restart'])
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(kept))


if __name__ == '__main__':
    main()
