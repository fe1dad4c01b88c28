# SPDX-License-Identifier: Apache-2.0
"""The workloads: what each sends, and what is read from the programs that send it."""
import pathlib
import re
import socket
import statistics
import subprocess
import tempfile
import time

CONNECTIONS = 64
LIGHT_CLIENTS, LIGHT_PER_SECOND = 20, 2000
IDLE_CONNECTIONS = 2000
IDLE_WAIT_S = 2     # time within which an idle connection releases memory


def wrk(path, tls=False, connections=CONNECTIONS, headers=(), post_bytes=0):
    return {'tool': 'wrk', 'path': path, 'tls': tls, 'connections': connections, 'headers': headers, 'post_bytes': post_bytes}


WORKLOADS = {
    'get-1k': wrk('/1k'),
    'get-64k': wrk('/64k'),
    'get-1m': wrk('/1m', connections=16),
    'post-1k': wrk('/post', post_bytes=1024),
    'post-256k': wrk('/post', connections=16, post_bytes=256 * 1024),
    'new-connection': wrk('/1k', headers=('Connection: close',)),
    'tls-1k': wrk('/1k', tls=True),
    'tls-64k': wrk('/64k', tls=True),
    'tls-new-connection': wrk('/1k', tls=True, headers=('Connection: close',)),
    'http2-1k': {'tool': 'h2load', 'path': '/1k'},
    'light-1k': {'tool': 'light', 'path': '/1k'},
    'serial-1k': wrk('/1k', connections=1),
    'idle': {'tool': 'idle'},
}
UNITS = {'us': 1, 'ms': 1000, 's': 1000000, 'm': 60000000}


def pinned(o, command):
    r = subprocess.run(['taskset', '-c', str(o.load_core), *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if r.returncode != 0:
        raise SystemExit('peers: %s: %s' % (command[0], r.stdout.strip()))
    return r.stdout


def found(pattern, text):
    m = re.search(pattern, text)
    if not m:
        raise SystemExit('peers: unexpected output: ' + text)
    return m


def latency_us(text, percent):
    m = found(r'(?<![\d.])%s%%\s+([\d.]+)(us|ms|s|m)\b' % re.escape(str(percent)), text)
    return float(m.group(1)) * UNITS[m.group(2)]


def seconds_text(s):
    """wrk takes whole seconds."""
    return '%ds' % max(1, round(s))


def run_wrk(load, subject, o, seconds):
    with tempfile.NamedTemporaryFile('w', suffix='.lua') as script:
        script.write('wrk.headers["Host"] = "localhost"\n')
        if load['post_bytes']:
            script.write('wrk.method = "POST"\nwrk.body = string.rep("x", %d)\n' % load['post_bytes'])
        # wrk itself prints none above 99.
        script.write('done = function(summary, latency) io.write("  99.9%  ", latency:percentile(99.9), "us\\n") end\n')
        script.flush()
        headers = [x for h in load['headers'] for x in ('-H', h)]
        # On a busy machine a response may take longer than the two seconds after which wrk counts an error.
        text = pinned(o, ['wrk', '-t1', '-c%d' % load['connections'], '-d' + seconds_text(seconds), '--latency', '--timeout', '60s',
                          '-s', script.name, *headers, (subject.tls_url if load['tls'] else subject.url) + load['path']])
    m = found(r'(\d+) requests in ([\d.]+)(ms|s|m)\b', text)
    errors = re.search(r'Non-2xx or 3xx responses: (\d+)', text)
    broken = re.search(r'Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)', text)
    count = (int(errors.group(1)) if errors else 0) + (sum(map(int, broken.groups())) if broken else 0)
    return {'requests': int(m.group(1)), 'seconds': float(m.group(2)) * UNITS[m.group(3)] / 1e6,
            'p50_us': latency_us(text, 50), 'p99_us': latency_us(text, 99), 'p999_us': latency_us(text, 99.9),
            'errors': count}


def h2load_counts(text):
    m = found(r'requests: (\d+) total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed', text)
    return int(m.group(2)), int(m.group(2)) - int(m.group(3))


def run_h2load(load, subject, o, seconds):
    started = time.monotonic()
    text = pinned(o, ['h2load', '-t1', '-c16', '-m8', '-D%d' % max(1, round(seconds)), subject.tls_url + load['path']])
    done, errors = h2load_counts(text)
    return {'requests': done, 'seconds': time.monotonic() - started, 'errors': errors}


def run_light(load, subject, o, seconds):
    """LIGHT_PER_SECOND requests in total, a light load for every subject."""
    with tempfile.TemporaryDirectory() as directory:
        log = pathlib.Path(directory) / 'log'
        n = max(LIGHT_CLIENTS, int(LIGHT_PER_SECOND * seconds))
        text = pinned(o, ['h2load', '--h1', '-t1', '-c%d' % LIGHT_CLIENTS, '-n%d' % n, '--rps=%d' % (LIGHT_PER_SECOND // LIGHT_CLIENTS),
                          '--log-file=%s' % log, subject.url + load['path']])
        took = sorted(int(line.split('\t')[2]) for line in log.read_text().splitlines())
    done, errors = h2load_counts(text)
    cuts = statistics.quantiles(took, n=1000)
    return {'requests': done, 'seconds': n / LIGHT_PER_SECOND, 'errors': errors, 'p50_us': cuts[499], 'p99_us': cuts[989],
            'p999_us': cuts[998]}


def dial(subject):
    s = socket.create_connection(('127.0.0.1', subject.plain))
    s.sendall(b'GET /1k HTTP/1.1\r\nHost: localhost\r\n\r\n')
    return s


def read_response(s):
    got = b''
    while len(got) < 1024 + 4 or len(got) < got.find(b'\r\n\r\n') + 4 + 1024:
        data = s.recv(65536)
        if not data:
            raise SystemExit('peers: connection closed before its response was complete')
        got += data


def run_idle(of):
    """Bytes of a connection after one response, once earlier connections have filled the program's tables."""
    clients = []
    sizes = []
    with of.fresh() as subject:
        for _ in range(2):
            for _ in range(IDLE_CONNECTIONS):
                clients.append(dial(subject))
                read_response(clients[-1])
            time.sleep(IDLE_WAIT_S)
            sizes.append(subject.anonymous_bytes())
        for s in clients:
            s.close()
    return {'idle_bytes': (sizes[1] - sizes[0]) / IDLE_CONNECTIONS}


TOOLS = {'wrk': run_wrk, 'h2load': run_h2load, 'light': run_light}


def run(name, subject, o):
    """The figures of one run of the workload."""
    load = WORKLOADS[name]
    if load['tool'] == 'idle':
        return run_idle(subject)
    tool = TOOLS[load['tool']]
    before = subject.cpu_ns()
    r = tool(load, subject, o, o.seconds)
    spent = subject.cpu_ns() - before
    if r['requests'] == 0:
        raise SystemExit('peers: no response of %s in %s' % (subject.name, name))
    r['cpu_us'] = spent / r['requests'] / 1000
    r['per_second'] = r['requests'] / r['seconds']
    return r
