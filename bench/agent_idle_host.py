#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
A host with many applications of which few are used: how soon only these have processes, and how much memory that
releases.

    bench/agent_idle_host.py [--applications 50] [--used 3] [--idle 10] [--server gunicorn] [--bin build/bin]

Two hosts, started one after the other. In both, every application gets one request, then max_idle_time is set:
  without a budget  each has a process. Then a few get requests, about 50 a second each, by one client; the others'
                    processes exit after --idle seconds without a request.
  max_processes     4 for each of the few: all are processes of others. Then 8 clients each send requests to the few
                    without pause, 50 ms of work a request: each could use 4 processes and has none.
Memory is the PSS of the applications' processes (gunicorn: a master and a worker each), and that of the agent.
"""
import argparse
import pathlib
import threading
import time

from agent_support import (ROOT, Agent, Bench, Client, bare, free_port, get, gunicorn, is_application, number, pss_mib,
                           table, wait_until)

MAX_EACH = 4
WORK_S = 0.05
PATIENCE_S = 180


def parse():
    p = argparse.ArgumentParser(description=__doc__.strip().split('\n')[0])
    p.add_argument('--applications', type=int, default=50)
    p.add_argument('--used', type=int, default=3)
    p.add_argument('--idle', type=int, default=10, help='max_idle_time, seconds')
    p.add_argument('--server', choices=('gunicorn', 'bare'), default='gunicorn')
    p.add_argument('--bin', default=str(ROOT / 'build' / 'bin'))
    return p.parse_args()


class Host(Agent):
    """An agent with many applications, each at an address of its own."""

    def __init__(self, bench, options, **settings):
        command = gunicorn() if options.server == 'gunicorn' else bare()
        super().__init__(bench, 'host', command, pathlib.Path(options.bin) / 'resumelb-agent', min_processes=0,
                         max_processes=MAX_EACH, **settings)
        self.addresses = ['127.0.0.1:%d' % free_port() for _ in range(options.applications)]
        self.address = self.addresses[0]

    def start(self):
        self.launch()

    def applications(self):
        return {'app%d' % i: self.application(a, **self.settings) for i, a in enumerate(self.addresses)}

    def counts(self):
        """Processes of each application, including those that are ending."""
        groups = self.status()['applications']
        return [groups['app%d' % i]['counts']['processes'] for i in range(len(self.addresses))]

    def ask_each(self):
        """Sends a request to each; seconds for all. The used ones are first: the last processes are the others'."""
        began = time.monotonic()
        for address in self.addresses:
            assert get(address, '/').status == 200, address
        return time.monotonic() - began

    def look(self):
        pids = self.pids()
        return {'processes': sum(self.counts()), 'mib': pss_mib(p for p in pids if is_application(p)),
                'agent_mib': pss_mib(p for p in pids if not is_application(p))}


class Users:
    """Clients of one application; each sends a request PAUSE seconds after the last response."""

    def __init__(self, address, clients, pause):
        self.address, self.pause = address, pause
        self.ended, self.times, self.failed = threading.Event(), [], []
        self.threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(clients)]
        for t in self.threads:
            t.start()

    def _ask(self):
        while not self.ended.wait(self.pause):
            began = time.monotonic()
            try:
                with Client(self.address, 60) as c:
                    status = c.request().status
                if status == 200:
                    self.times.append(time.monotonic() - began)
                else:
                    self.failed.append(status)
            except Exception as e:
                self.failed.append(type(e).__name__)

    def stop(self):
        self.ended.set()
        for t in self.threads:
            t.join(60)


def converge(host, options, clients, pause, each):
    """Sends requests to the used ones until all processes are theirs and each has EACH; begins by setting max_idle_time."""
    used = options.used
    host.reload(max_idle_time='%ds' % options.idle)
    result = {'before': host.look()}
    began = time.monotonic()
    users = [Users(a, clients, pause) for a in host.addresses[:used]]
    try:
        wait_until(lambda: all(n == (each if i < used else 0) for i, n in enumerate(host.counts())),
                   'processes of the used ones only', PATIENCE_S)
        result['took'] = time.monotonic() - began
        result['after'], result['counts'] = host.look(), host.counts()[:used]
    finally:
        for u in users:
            u.stop()
    times = sorted(t for u in users for t in u.times)
    result.update(responded=len(times), slowest=times[-1], failed=sum(len(u.failed) for u in users))
    return result


def measure(bench, options, way, each, clients, pause, **settings):
    host = Host(bench, options, max_idle_time='1h', **settings)
    host.start()
    try:
        return {'way': way, 'started': host.ask_each(), **converge(host, options, clients, pause, each)}
    finally:
        host.stop()


def measure_both(bench, options):
    budget = MAX_EACH * options.used
    yield measure(bench, options, 'without a budget', 1, 1, 0.02)
    yield measure(bench, options, 'max_processes %d' % budget, MAX_EACH, 2 * MAX_EACH, 0,
                  top={'max_processes': budget}, work=WORK_S)


def main():
    options = parse()
    rows = []
    with Bench() as bench:
        results = list(measure_both(bench, options))
    for r in results:
        rows.append([r['way'], number(r['started'], 1), str(r['before']['processes']), number(r['before']['mib']),
                     number(r['before']['agent_mib'], 1), number(r['took'], 1), '+'.join(map(str, r['counts'])),
                     number(r['after']['mib']), number(r['after']['agent_mib'], 1), number(r['responded']),
                     number(r['slowest'] * 1000), str(r['failed'])])
    table(['%d applications, %d used, max_idle_time %d s' % (options.applications, options.used, options.idle), 'each asked once, s', 'processes',
           'applications MiB', 'agent MiB', 'only the used ones after s', 'processes then', 'applications MiB then',
           'agent MiB then', 'requests meanwhile', 'slowest ms', 'failed'], rows)


if __name__ == '__main__':
    main()
