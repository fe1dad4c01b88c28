#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
What the agent's hop costs: latency compared with direct requests to the same server, and the agent's CPU time and
system calls per request.

    bench/agent_hop.py [--rounds 5] [--seconds 4] [--connections 1,8] [--requests 4000] [--rt]
                       [--bin build/bin]

Servers: gunicorn with one process of 8 threads (persistent connections), and the bare WSGI server of bench/. Each is
measured directly at a port and behind the agent, which connects to it over a unix socket: once at the application's own
address (`listen`), once at a slot's, which measures classes as well. Each round restarts everything, in rotating order;
results are medians over the rounds. On a machine with other load, p99 depends on that: --rt makes all measured processes
real-time tasks (as root), which the kernel limits to 95 % of a core. Needs wrk and strace.
"""
import argparse
import json
import os
import pathlib
import re
import signal

from agent_support import (ROOT, Agent, Bench, Direct, DirectBare, bare, cpu_seconds, exactly, gunicorn, is_application,
                           median, number, stat, table, turning, wait_until, wrk)

THREADS = 8
GTHREAD = ('--worker-class=gthread', '--threads=%d' % THREADS, '--keep-alive=60')


def parse():
    p = argparse.ArgumentParser(description=__doc__.strip().split('\n')[0])
    p.add_argument('--rounds', type=int, default=5)
    p.add_argument('--seconds', type=int, default=4)
    p.add_argument('--connections', default='1,8')
    p.add_argument('--requests', type=int, default=4000, help='under strace')
    p.add_argument('--rt', action='store_true', help='real-time tasks')
    p.add_argument('--bin', default=str(ROOT / 'build' / 'bin'))
    p.add_argument('--json', help='file for all samples')
    return p.parse_args()


def subjects(bench, binary):
    def agent(name, command, door, concurrency):
        return Agent(bench, name, command, binary, door=door, min_processes=1, max_processes=1, concurrency=concurrency)
    return [('gunicorn', Direct(bench, 'gunicorn, direct', GTHREAD)),
            ('gunicorn', agent('gunicorn, agent', gunicorn(*GTHREAD), 'listen', THREADS)),
            ('gunicorn', agent('gunicorn, agent, slot', gunicorn(*GTHREAD), 'slot', THREADS)),
            ('bare', DirectBare(bench, 'bare, direct')),
            ('bare', agent('bare, agent', bare(), 'listen', THREADS)),
            ('bare', agent('bare, agent, slot', bare(), 'slot', THREADS))]


def hop_pids(server):
    """The processes of the agent without its supervisor's children; none if direct."""
    return [p for p in server.pids() if not is_application(p)] if isinstance(server, Agent) else []


def measure(server, connections, seconds):
    wrk(server.address, connections, 1)
    pids = hop_pids(server)
    used = cpu_seconds(pids)
    sample = wrk(server.address, connections, seconds)
    sample['cpu_us'] = (cpu_seconds(pids) - used) * 1e6 / sample['requests'] if pids else None
    return sample


def traced(pid):
    text = pathlib.Path('/proc/%d/status' % pid).read_text()
    return int(text.split('TracerPid:')[1].split()[0]) != 0


def system_calls(server, count, connections):
    """Calls per request of the agent's process and its threads, by name."""
    pid = max(hop_pids(server), key=lambda p: int(stat(p)[17]))     # the process with threads; the supervisor has none
    out = server.bench.directory / 'strace.txt'
    tracer = server.bench.process(['strace', '-c', '-f', '-o', out, '-p', str(pid)], 'strace')
    wait_until(lambda: traced(pid), 'strace')
    done = exactly(server.address, count, connections)
    tracer.kill(signal.SIGINT)
    tracer.wait()
    tracer.log.close()
    calls = {}
    for line in out.read_text().splitlines():
        # % time, seconds, usecs/call, calls, [errors], name
        found = re.match(r'\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$', line)
        if found and found.group(2) != 'total':
            calls[found.group(2)] = int(found.group(1)) / done
    return calls


def rounds(options, everything, connections):
    samples, calls = {}, {}
    for n in range(options.rounds):
        for kind, server in turning(everything, n):
            server.start()
            try:
                server.wait_up()
                for c in connections:
                    samples.setdefault((server.name, c), []).append(measure(server, c, options.seconds))
                    if n == 0 and isinstance(server, Agent) and options.requests:
                        calls[server.name, c] = system_calls(server, options.requests, c)
            finally:
                server.stop()
    return samples, calls


def added(samples, server, direct, c, key):
    """The median over the rounds of the difference within a round."""
    pairs = [{'d': a[key] - b[key]} for a, b in zip(samples[server, c], samples[direct, c])]
    return median(pairs, 'd')


def print_calls(calls):
    table(['system calls per request', 'connections', 'total', 'of them'], [
        [name, str(c), number(sum(found.values()), 2),
         ', '.join('%.2f %s' % (v, k) for k, v in sorted(found.items(), key=lambda i: -i[1]) if v >= 0.05)]
        for (name, c), found in calls.items()])


def main():
    options = parse()
    connections = [int(c) for c in options.connections.split(',')]
    if options.rt:
        # Processes that are started inherit it.
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    with Bench() as bench:
        everything = subjects(bench, pathlib.Path(options.bin) / 'resumelb-agent')
        samples, calls = rounds(options, everything, connections)
    direct = {kind: s.name for kind, s in reversed(everything) if not isinstance(s, Agent)}
    rows = []
    for c in connections:
        for kind, server in everything:
            some, base = samples[server.name, c], direct[kind]
            is_agent = isinstance(server, Agent)
            plus = [number(added(samples, server.name, base, c, k)) if is_agent else '' for k in ('p50_us', 'p99_us')]
            rows.append([server.name, str(c), number(median(some, 'rps')), number(median(some, 'p50_us')), plus[0],
                         number(median(some, 'p99_us')), plus[1], number(median(some, 'cpu_us'), 1),
                         str(sum(s['errors'] + s['bad'] for s in some))])
    table(['', 'connections', 'requests/s', 'p50 us', 'added', 'p99 us', 'added', 'agent CPU us/req', 'errors'], rows)
    if calls:
        print_calls(calls)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(
            {'samples': {'%s/%d' % k: v for k, v in samples.items()}, 'calls': {'%s/%d' % k: v for k, v in calls.items()}}))


if __name__ == '__main__':
    main()
