#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""resumelb-poolcounter compared with Debian's poolcounterd: CPU time per command, latency, memory, the herd, a burst.

    bench/poolcounter.py [--build build] [--rounds 5] [--seconds 3] [--only lock50,herd] [--before PROGRAM]

Both run alternately, in an order that changes each round; medians are printed, with minimum and maximum. Each gets a
listening socket as standard input. The herd is also measured for wake_floor.c: the same recv and send, and nothing else.
strace counts system calls per command in a separate run, as it is slow. Needs poolcounter and strace (dev/install-deps)."""
import argparse
import collections
import json
import os
import pathlib
import re
import resource
import signal
import socket
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
DESCRIPTORS = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
# The number of connections that both sides may have open, less a reserve.
MANY = min(25000, DESCRIPTORS - 500)

# Name, arguments for poolcounter_load; {s}: seconds.
SCENARIOS = collections.OrderedDict([
    ('lock1', 'lock 1 1000 {s}'),
    ('lock50', 'lock 50 1000 {s}'),
    ('lock1000', 'lock 1000 100000 {s}'),
    ('herd', 'herd 1000 - {s}'),
    ('idle', 'idle %d' % min(MANY, 5000)),
    ('hold', 'hold %d %d' % (MANY, 4 * MANY)),
    ('burst', 'burst 3000'),
])


class Daemon:
    """A daemon with a listening socket as descriptor 0, or, to measure its backlog, one that opens port OWN_LISTENER itself."""

    def __init__(self, argv, own_listener=None, prefix=()):
        self.listener = socket.socket()
        self.listener.bind(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        if own_listener:
            self.listener.close()
            self.port = own_listener
            stdin = subprocess.DEVNULL
        else:
            self.listener.listen(4096)
            stdin = self.listener
        self.process = subprocess.Popen([*prefix, *argv], stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.listener.close()
        while True:
            try:
                with socket.create_connection(('127.0.0.1', self.port)) as c:
                    c.sendall(b'STATS UPTIME\n')
                    if c.recv(100):
                        break
            except ConnectionRefusedError:
                pass

    def pid(self):
        """The process id of the daemon, also under strace."""
        children = pathlib.Path('/proc/%d/task/%d/children' % (self.process.pid, self.process.pid)).read_text().split()
        return int(children[0]) if children else self.process.pid

    def end(self):
        os.kill(self.pid(), signal.SIGTERM)
        self.process.wait()


def load(build, daemon, words):
    out = subprocess.run([build / 'bench' / 'poolcounter_load', str(daemon.port), str(daemon.pid()), *words.split()],
                         capture_output=True, text=True)
    if out.returncode != 0:
        raise SystemExit('poolcounter_load %s: %s' % (words, out.stderr))
    return json.loads(out.stdout)


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def one(build, name, argv, words):
    # The burst measures the listener's queue, so the daemon opens the socket. The original's port is fixed.
    own = None
    if words.startswith('burst'):
        own = 7531 if argv[0].endswith('poolcounterd') else free_port()
        if own != 7531:
            argv = [*argv, '-p', str(own)]
    daemon = Daemon(argv, own)
    try:
        return load(build, daemon, words)
    finally:
        daemon.end()


def system_calls(build, argv, seconds):
    """Calls per command at 50 connections, by name; names with less than 0.01 are left out."""
    with tempfile.TemporaryDirectory() as directory:
        trace = pathlib.Path(directory) / 'trace'
        daemon = Daemon(argv, prefix=['strace', '-f', '-c', '-o', trace])
        done = load(build, daemon, 'lock 50 1000 %g' % seconds)
        daemon.end()
        commands = done['ops_per_s'] * seconds
        calls = {}
        for line in trace.read_text().splitlines():
            found = re.match(r'\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$', line)
            if found and found.group(2) != 'total' and int(found.group(1)) / commands >= 0.01:
                calls[found.group(2)] = int(found.group(1)) / commands
        return calls


def table(results, names):
    print('| scenario | figure | %s | ours / original |' % ' | '.join(names))
    print('| --- | --- |%s --- |' % (' --- |' * len(names)))
    for (scenario, figure), by_name in results.items():
        cells = []
        for name in names:
            values = by_name[name]
            cells.append('%g (%g..%g)' % (statistics.median(values), min(values), max(values)) if values else '')
        first = statistics.median(by_name['original'])
        ratio = '%.2f' % (statistics.median(by_name['ours']) / first) if first else ''
        print('| %s | %s | %s | %s |' % (scenario, figure, ' | '.join(cells), ratio))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--build', type=pathlib.Path, default=ROOT / 'build')
    p.add_argument('--rounds', type=int, default=5)
    p.add_argument('--seconds', type=float, default=3)
    p.add_argument('--only', default=','.join(SCENARIOS))
    p.add_argument('--before', help='an older resumelb-poolcounter to measure as well')
    o = p.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    daemons = [('original', ['/usr/bin/poolcounterd']), ('ours', [str(o.build / 'bin' / 'resumelb-poolcounter')])]
    if o.before:
        daemons.insert(1, ('before', [o.before]))
    floor = ('floor', [str(o.build / 'bench' / 'wake_floor')])
    results = collections.OrderedDict()
    for r in range(o.rounds):
        for scenario in o.only.split(','):
            subjects = daemons + [floor] if scenario == 'herd' else daemons
            for name, argv in subjects[::-1] if r % 2 else subjects:
                for figure, value in one(o.build, name, argv, SCENARIOS[scenario].format(s=o.seconds)).items():
                    results.setdefault((scenario, figure), collections.defaultdict(list))[name].append(value)
    herd = 'herd' in o.only.split(',')
    table(results, [name for name, _ in daemons] + ['floor'] * herd)
    for name, argv in daemons:
        calls = system_calls(o.build, argv, o.seconds)
        print('\nsystem calls per command, %s: %.2f: %s' % (
            name, sum(calls.values()), ', '.join('%s %.2f' % c for c in sorted(calls.items(), key=lambda c: -c[1]))))


if __name__ == '__main__':
    main()
