# SPDX-License-Identifier: Apache-2.0
"""
Shared parts of the measurements of resumelb-agent: the application, the servers under comparison (each newly started and
ended by pid), the load, and the cost of processes.
"""
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / 'tests' / 'e2e'))
from support.base import Process, free_port, wait_until  # noqa: E402
from support.http import Client, get  # noqa: E402

PYTHON = '/usr/bin/python3'
# Measured programs and their load have priority over other processes (as root; else all are equal).
NICE = -10
PR_SET_CHILD_SUBREAPER = 36

# 1 KiB; BENCH_BOOT seconds to start, as applications that load much do, BENCH_WORK seconds per response. X-Process
# distinguishes the processes; a pid alone does not, as a later process may get the same one.
APP = '''
import os, time
time.sleep(float(os.environ.get("BENCH_BOOT", "0")))
ID = "%d-%d" % (os.getpid(), time.time_ns())
BODY = b"x" * 1024
WORK = float(os.environ.get("BENCH_WORK", "0"))
def application(environ, start_response):
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if length:
        environ["wsgi.input"].read(length)
    if WORK:
        time.sleep(WORK)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "1024"), ("X-Process", ID)])
    return [BODY]
'''


def gunicorn(*options):
    return [PYTHON, '-m', 'gunicorn', '--workers=1', '--log-level=warning', '--worker-tmp-dir=/dev/shm', *options,
            'passenger_wsgi:application']


def bare(*options):
    return [PYTHON, str(HERE / 'bare_wsgi.py'), 'passenger_wsgi:application', *options]


class Bench:
    """One run: a directory with the application. All processes started in it are reaped by this process, including those that
    others forked. The directory with the logs is retained if the run fails."""

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix='rlb-bench-'))
        # Other users run the application: passenger starts it as the owner of its files, or as user `nobody`.
        self.directory.chmod(0o755)
        (self.directory / 'passenger_wsgi.py').write_text(APP)
        (self.directory / 'tmp').mkdir()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), 'PR_SET_CHILD_SUBREAPER')
        if os.getuid() == 0:
            set_nice()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            shutil.rmtree(self.directory)
        else:
            print('logs: %s' % self.directory, file=sys.stderr)

    def process(self, argv, name, env=None):
        return Process(argv, name, self.directory, {'PYTHONDONTWRITEBYTECODE': '1', **(env or {})}, cwd=self.directory)


def set_nice():
    """Sets the priority of this process and all it starts; with autogroups of the scheduler, also that of the groups."""
    os.nice(NICE)
    start = subprocess.Popen.__init__

    def with_group(self, *args, **kw):
        start(self, *args, **kw)
        raise_group(self.pid)
    subprocess.Popen.__init__ = with_group
    raise_group(os.getpid())


def raise_group(pid):
    try:
        pathlib.Path('/proc/%d/autogroup' % pid).write_text(str(NICE))
    except OSError:
        pass


class Server:
    """The server of the application. start() returns when it listens, stop() when all its processes have exited."""

    def __init__(self, bench, name, boot=0.0, work=0.0):
        self.bench, self.name, self.boot, self.work = bench, name, boot, work
        self.process = None

    def environment(self):
        return {'BENCH_BOOT': str(self.boot), 'BENCH_WORK': str(self.work)}

    def up(self):
        try:
            return get(self.address, '/').status == 200
        except (OSError, AssertionError):
            return False

    def start(self):
        self.port = free_port()
        self.address = '127.0.0.1:%d' % self.port
        self.launch()

    def wait_up(self):
        wait_until(self.up, '%s to respond: %s' % (self.name, self.process.output()[-2000:]), 30)

    def stop(self):
        left = descendants(os.getpid())
        self.end()
        wait_until(lambda: not [p for p in left if reaped(p)], '%s to be gone' % self.name, 30)

    def end(self):
        self.process.stop(40)

    def pids(self):
        """All its processes: the descendants of this process."""
        return descendants(os.getpid())

    def servers(self):
        """Its processes that are not the application's."""
        return [p for p in self.pids() if not is_application(p)]


class Direct(Server):
    """gunicorn alone, at a port."""

    def __init__(self, bench, name, options=(), **kw):
        super().__init__(bench, name, **kw)
        self.options = options

    def launch(self):
        self.process = self.bench.process(gunicorn(*self.options, '--bind', self.address), 'direct', self.environment())


class DirectBare(Server):
    def launch(self):
        self.process = self.bench.process(bare(str(self.port)), 'direct-bare', self.environment())


class Agent(Server):
    """resumelb-agent with one application or several; clients use the application's own address."""

    def __init__(self, bench, name, command, binary, top=None, door='listen', **settings):
        super().__init__(bench, name, boot=settings.pop('boot', 0.0), work=settings.pop('work', 0.0))
        self.command, self.binary, self.top, self.door = command, binary, top or {}, door
        self.settings = settings

    def application(self, address, **settings):
        own = {'listen': address} if self.door == 'listen' else {'address': address + '+'}
        return {'root': str(self.bench.directory), 'command': self.command, 'ready_probe': '/', 'start_timeout': '60s',
                'environment': {'PYTHONDONTWRITEBYTECODE': '1', **self.environment()}, **own, **settings}

    def applications(self):
        return {'app': self.application(self.address, **self.settings)}

    def write_config(self):
        config = {'state_dir': self.state, 'admin': {'address': self.admin}, 'applications': self.applications(),
                  **self.top}
        self.path.write_text(''.join('%s: %s\n' % (k, json.dumps(v)) for k, v in config.items()))

    def launch(self):
        self.admin = '127.0.0.1:%d' % free_port()
        # A new directory: no resume and no supervisor of an earlier round.
        self.state = tempfile.mkdtemp(prefix='state-', dir=self.bench.directory)
        self.path = self.bench.directory / 'agent.yaml'
        self.write_config()
        self.process = self.bench.process([self.binary, '-c', self.path], 'agent')
        wait_until(self.listening, 'the agent to listen: ' + self.process.output()[-2000:], 30)

    def listening(self):
        if not self.process.alive():
            raise SystemExit('the agent exited: ' + self.process.output()[-2000:])
        try:
            return get(self.admin, '/healthz', host=self.admin).status == 200
        except OSError:
            return False


    def reload(self, **settings):
        self.settings.update(settings)
        self.write_config()
        self.process.kill(signal.SIGHUP)

    def status(self):
        return json.loads(get(self.admin, '/status.json', host=self.admin).body)


class Passenger(Server):
    """Debian's passenger, standalone with its own HTTP engine. COMMAND, with $PORT for the port, replaces
    its own WSGI server."""

    def __init__(self, bench, name, command=None, minimum=2, maximum=2, idle=0, **kw):
        super().__init__(bench, name, **kw)
        self.command, self.minimum, self.maximum, self.idle = command, minimum, maximum, idle

    def launch(self):
        directory = tempfile.mkdtemp(prefix='passenger-', dir=self.bench.directory)
        self.pid_file = pathlib.Path(directory) / 'pid'
        # By default it assumes unlimited concurrency of a process of an unknown server.
        what = ['--app-start-command', ' '.join(self.command), '--force-max-concurrent-requests-per-process', '1'] \
            if self.command else ['--app-type', 'wsgi', '--startup-file', 'passenger_wsgi.py']
        # Caches and reports to its vendor, which the others do not have, are off.
        argv = ['passenger', 'start', str(self.bench.directory), '--engine', 'builtin', '--address', '127.0.0.1', '--port',
                str(self.port), '--python', PYTHON, *what, '--max-pool-size', str(self.maximum), '--min-instances',
                str(self.minimum), '--pool-idle-time', str(self.idle), '--environment', 'production',
                '--no-install-runtime', '--disable-turbocaching', '--disable-security-update-check',
                '--disable-anonymous-telemetry', '--instance-registry-dir', directory, '--daemonize', '--pid-file',
                str(self.pid_file), '--log-file', directory + '/log']
        for name, value in self.environment().items():
            argv += ['--envvar', '%s=%s' % (name, value)]
        self.process = self.bench.process(argv, 'passenger')
        if self.process.wait(60) != 0:
            raise SystemExit('passenger: ' + self.process.output())
        for pid in self.pids():
            raise_group(pid)

    def end(self):
        # Like `passenger stop`, which cannot observe the exit of a process that is a child of this one.
        if self.pid_file.exists():
            os.kill(int(self.pid_file.read_text()), signal.SIGTERM)
        self.process.log.close()


# --- processes and their costs --------------------------------------------------------------------------------


def stat(pid):
    """Fields of /proc/PID/stat after the name: state, parent, ...; None if it has exited."""
    try:
        return pathlib.Path('/proc/%d/stat' % pid).read_text().rpartition(')')[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def descendants(pid):
    children = {}
    for entry in os.listdir('/proc'):
        if entry.isdigit():
            fields = stat(int(entry))
            if fields and fields[0] != 'Z':
                children.setdefault(int(fields[1]), []).append(int(entry))
    found, look = [], [pid]
    while look:
        some = children.get(look.pop(), [])
        found += some
        look += some
    return found


def reaped(pid):
    """Reaps the process if it has exited; returns whether it still runs."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
    fields = stat(pid)
    return fields is not None and fields[0] != 'Z'


def command_line(pid):
    try:
        return pathlib.Path('/proc/%d/cmdline' % pid).read_bytes().replace(b'\0', b' ').decode()
    except (FileNotFoundError, ProcessLookupError):
        return ''


def is_application(pid):
    return 'python' in command_line(pid).split(' ')[0]


def pss_mib(pids):
    """Memory of these processes, each shared page divided by those that share it."""
    total = 0
    for pid in pids:
        try:
            text = pathlib.Path('/proc/%d/smaps_rollup' % pid).read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found = re.search(r'^Pss:\s+(\d+)', text, re.M)
        total += int(found.group(1)) if found else 0
    return total / 1024


def cpu_seconds(pids):
    """User and system time of these processes, from the kernel's clock of each: like utime + stime of /proc/PID/stat,
    but with a resolution of nanoseconds."""
    total = 0.0
    for pid in pids:
        try:
            total += time.clock_gettime((~pid << 3) | 2)
        except OSError:
            pass
    return total


# --- load -----------------------------------------------------------------------------------------------------


def wrk(address, connections, seconds):
    """Closed loop over persistent connections: requests/s, p50 and p99 in us, requests, errors."""
    out = subprocess.run(['wrk', '-t1', '-c%d' % connections, '-d%ds' % seconds, '--latency', '--timeout', '10s',
                          'http://%s/' % address], stdout=subprocess.PIPE, text=True, check=True).stdout

    def percentile(p):
        number, unit = re.search(r'^\s+%d%%\s+([\d.]+)(us|ms|s)$' % p, out, re.M).groups()
        return float(number) * {'us': 1, 'ms': 1e3, 's': 1e6}[unit]
    errors = re.search(r'Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)', out)
    bad = re.search(r'Non-2xx or 3xx responses: (\d+)', out)
    return {'rps': float(re.search(r'Requests/sec:\s+([\d.]+)', out).group(1)), 'p50_us': percentile(50),
            'p99_us': percentile(99), 'requests': int(re.search(r'(\d+) requests in', out).group(1)),
            'errors': sum(map(int, errors.groups())) if errors else 0, 'bad': int(bad.group(1)) if bad else 0}


class Paced:
    """Requests at a fixed rate, independent of responses: each is sent when it is due, and its time counts from then.
    Persistent connections, as many as needed to be never late; every second request is a POST."""

    def __init__(self, address, rate, clients=16):
        self.address, self.apart = address, clients / rate
        self.results, self.lock, self.ended = [], threading.Lock(), threading.Event()
        began = time.monotonic()
        self.threads = [threading.Thread(target=self._run, args=(began + i / rate, i), daemon=True) for i in range(clients)]
        for t in self.threads:
            t.start()

    def _run(self, due, number):
        client = None
        while not self.ended.wait(max(0.0, due - time.monotonic())):
            post = number % 2 == 1
            process, error = None, None
            try:
                client = client or Client(self.address, 30)
                r = client.request(*(('POST', '/') if post else ('GET', '/')), body=b'x' * 64 if post else None)
                process = r['X-Process']
                if r.status != 200:
                    error = str(r.status)
                if (r['Connection'] or '').lower() == 'close':
                    client.close()
                    client = None
            except Exception as e:
                error = type(e).__name__
                if client:
                    client.close()
                client = None
            with self.lock:
                self.results.append((due, time.monotonic() - due, process, error))
            due += self.apart
            number += 1

    def snapshot(self):
        with self.lock:
            return list(self.results)

    def stop(self):
        self.ended.set()
        for t in self.threads:
            t.join(40)
        return self.snapshot()


def exactly(address, count, connections):
    """COUNT requests over persistent connections, one after the other on each."""
    failed = []

    def run():
        try:
            with Client(address, 60) as c:
                for _ in range(count // connections):
                    assert c.request().status == 200
        except Exception as e:
            failed.append(e)
    threads = [threading.Thread(target=run) for _ in range(connections)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]
    return count // connections * connections


# --- tables ---------------------------------------------------------------------------------------------------


def median(samples, key):
    values = [s[key] for s in samples if s.get(key) is not None]
    return statistics.median(values) if values else None


def number(value, digits=0):
    return '' if value is None else '{:,.{}f}'.format(value, digits)


def table(heads, rows):
    print('| ' + ' | '.join(heads) + ' |')
    print('| --- |' + ' ---: |' * (len(heads) - 1))
    for row in rows:
        print('| ' + ' | '.join(row) + ' |')
    print(flush=True)


def turning(things, n):
    """The items in another order each round, so that none always follows the same other one."""
    return things[n % len(things):] + things[:n % len(things)]


def end_all(signum, frame):
    raise SystemExit(1)


signal.signal(signal.SIGTERM, end_all)
