#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
What slow and greedy clients cost: resumelb, and those of nginx, HAProxy and h2o that are installed, in one run.

    bench/edge_slow.py [--only ROW ...] [--servers NAME ...] [--seconds 8] [--scale 1.0]

Rows:

    others      p99 of an unrelated client during each load of the other rows
    window      2,000 HTTP/2 streams of 1 MB with closed windows
    readers     100 clients read 10 MB slowly
    share       throughput of other clients, with four workers of one request at a time, while 100 slow clients read
                200 KiB each, as a fraction of their throughput alone
    uploads     connections to workers that 300 slow POSTs hold
    gigabyte    1 GB down and up
    idle        5,000 idle connections and 2,000 that never complete a request head
    keepalive   idle connections between two requests, 5,000 plain and 3,000 of TLS 1.3, at once and after four seconds

Each server is restarted for each row, with two threads. Memory is RssAnon of its processes (not backed by a file); files are
those they hold open and have written. --scale: factor for the numbers of clients. RLB_BIN: directory of the programs
(default build/bin).
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import re
import resource
import shutil
import socket
import sys
import tempfile
import threading
import time

from agent_support import cpu_seconds, descendants, number, table, wrk
from support.base import BIN, Process, free_port, wait_until
from support.certificates import Pair, blind_context
from support.http import Client, get

MB = 1e6
GIGABYTE = 10 ** 9
SLOW_READ_S = 6.0       # how long slow clients are connected before memory is measured
IDLE_S = 4.0            # and idle ones


def parse():
    p = argparse.ArgumentParser(description=__doc__.strip().split('\n')[0])
    p.add_argument('--only', nargs='*', choices=list(ROWS))
    p.add_argument('--servers', nargs='*', choices=list(SERVERS))
    p.add_argument('--seconds', type=int, default=8, help='of load')
    p.add_argument('--scale', type=float, default=1.0)
    return p.parse_args()


# --- workers: GET /N is N bytes; a body is read to its end -------------------------------------------------------


def serve_one(sock, piece=memoryview(bytes(1 << 20))):
    """Serves one request of a connection. Returns False if the connection has ended."""
    data = b''
    while b'\r\n\r\n' not in data:
        got = sock.recv(65536)
        if not got:
            return False
        data += got
    head, _, body = data.partition(b'\r\n\r\n')
    length = re.search(rb'(?i)\r\ncontent-length: *(\d+)', head)
    left = int(length.group(1)) - len(body) if length else 0
    while left > 0:
        got = sock.recv(1 << 18)
        if not got:
            return False
        left -= len(got)
    n = int(re.match(rb'\S+ /(\d*)', head).group(1) or 2)
    sock.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n' % n)
    while n > 0:
        n -= sock.send(piece[:n])
    return True


def serve(sock, one):
    with sock:
        try:
            while serve_one(sock) and not one:
                pass
            if one:
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass
        except OSError:
            pass


def run_worker(listener, one):
    """ONE: one request at a time, each on a separate connection; else a thread for each connection."""
    while True:
        sock, _ = listener.accept()
        if one:
            sock.settimeout(30)
            serve(sock, True)
        else:
            threading.Thread(target=serve, args=(sock, False), daemon=True).start()


class Workers:
    def __init__(self, n, one):
        self.ports, self.processes, self.one = [], [], one
        for _ in range(n):
            listener = socket.create_server(('127.0.0.1', free_port()), backlog=4096)
            self.ports.append(listener.getsockname()[1])
            self.processes.append(multiprocessing.Process(target=run_worker, args=(listener, one), daemon=True))
            self.processes[-1].start()
            listener.close()

    def held(self):
        """The number of established connections to the workers."""
        ends = {'0100007F:%04X' % p for p in self.ports}
        lines = pathlib.Path('/proc/net/tcp').read_text().split('\n')[1:-1]
        return sum(f[1] in ends and f[3] == '01' for f in map(str.split, lines))

    def stop(self):
        for p in self.processes:
            p.kill()
            p.join()


class QuickWorkers:
    """One nginx that sends 1,000 bytes: faster than the measured server, so that times are those of the server."""
    one = False

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix='rlb-origin-'))
        self.ports = [free_port()]
        self.directory.chmod(0o755)
        for size in (10 ** 6, 10 ** 7, GIGABYTE):
            with open(self.directory / str(size), 'wb') as f:
                f.truncate(size)
        path = self.directory / 'origin.conf'
        path.write_text('daemon off; worker_processes 2; pid %s/pid; error_log stderr crit; events { worker_connections 4096; }\n'
                        'http { access_log off; keepalive_requests 1000000000; sendfile on; sendfile_max_chunk 128k;\n'
                        '  server { listen 127.0.0.1:%d; root %s; client_max_body_size 0;\n'
                        '    location / { return 200 "%s"; } location ~ ^/1000000 { } } }\n' % (
                            self.directory, self.ports[0], self.directory, 'x' * 1000))
        self.process = Process(['/usr/sbin/nginx', '-c', path, '-p', self.directory], 'origin', self.directory)
        wait_until(lambda: responds(self.ports[0]), 'the origin')

    def stop(self):
        self.process.stop(2)
        shutil.rmtree(self.directory)


def responds(port):
    try:
        return get('127.0.0.1:%d' % port, '/').status == 200
    except OSError:
        return False


# --- servers -----------------------------------------------------------------------------------------------------


class Server:
    def __init__(self, workers):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix='rlb-edge-'))
        self.directory.chmod(0o755)
        self.port, self.tls_port = free_port(), free_port()
        self.address, self.workers = '127.0.0.1:%d' % self.port, workers
        self.pair = Pair(self.directory, 'edge', ['a.example'])
        self.process = Process(self.argv(), type(self).__name__, self.directory)
        wait_until(self.up, '%s: %s' % (type(self).__name__, self.process.output()), 20)
        self.idle = self.memory()

    def up(self):
        try:
            return get(self.address, '/2').status == 200
        except (OSError, AssertionError):
            return False

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path

    def pids(self):
        return [self.process.pid] + descendants(self.process.pid)

    def memory(self):
        total = 0
        for pid in self.pids():
            found = re.search(r'RssAnon:\s+(\d+)', pathlib.Path('/proc/%d/status' % pid).read_text())
            total += int(found.group(1)) * 1024
        return total

    def growth(self):
        return (self.memory() - self.idle) / MB

    def files(self):
        seen = {}
        for pid in self.pids():
            for fd in pathlib.Path('/proc/%d/fd' % pid).iterdir():
                try:
                    s, name = fd.stat(), os.readlink(fd)
                except OSError:
                    continue
                if (s.st_mode & 0o170000) == 0o100000 and not name.endswith('.log'):
                    seen[s.st_dev, s.st_ino] = s.st_blocks * 512
        return sum(seen.values()) / MB

    def cpu(self):
        return cpu_seconds(self.pids())

    def stop(self):
        self.process.stop(2)
        shutil.rmtree(self.directory)


class Ours(Server):
    title, http2, settings = 'resumelb', True, {}

    def argv(self):
        worker = {'max_connections': 1} if self.workers.one else {'max_connections': 0}
        config = {'listen': [{'address': self.address}, {'address': '127.0.0.1:%d' % self.tls_port, 'http2': True,
                                                         'tls': self.pair.entry}],
                  'threads': '2', 'spill_dir': str(self.directory), 'resume': 'measure', 'connection_wait_timeout': '60s',
                  'workers': ['127.0.0.1:%d' % p for p in self.workers.ports], **worker, **self.settings}
        return [BIN / 'resumelb', '-c',
                self.write('resumelb.yaml', ''.join('%s: %s\n' % (k, json.dumps(v)) for k, v in config.items()))]


class OursSmall(Ours):
    title, settings = 'resumelb, response_buffer: 16KiB', {'response_buffer': '16KiB'}


class Nginx(Server):
    title, http2 = 'nginx', True

    def argv(self):
        servers = ' '.join('server 127.0.0.1:%d;' % p for p in self.workers.ports)
        keep = '' if self.workers.one else 'keepalive 64;'
        text = '''
daemon off; worker_processes 2; pid %(f)s/pid; error_log stderr error; worker_rlimit_nofile 20000;
events { worker_connections 16000; }
http { access_log off; client_max_body_size 0; proxy_temp_path %(f)s/proxy; client_body_temp_path %(f)s/body;
  fastcgi_temp_path %(f)s/f; uwsgi_temp_path %(f)s/u; scgi_temp_path %(f)s/s;
  upstream app { %(servers)s %(keep)s }
  server { listen 127.0.0.1:%(port)d backlog=4096; listen 127.0.0.1:%(tls)d ssl http2 backlog=4096;
    ssl_certificate %(cert)s; ssl_certificate_key %(key)s;
    location / { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; } } }
''' % {'f': self.directory, 'servers': servers, 'keep': keep, 'port': self.port, 'tls': self.tls_port,
       'cert': self.pair.cert, 'key': self.pair.key}
        return ['nginx', '-c', self.write('nginx.conf', text)]


class Haproxy(Server):
    title, http2 = 'HAProxy', True

    def argv(self):
        pem = self.write('both.pem', self.pair.cert.read_text() + self.pair.key.read_text())
        limit = ' maxconn 1' if self.workers.one else ''
        text = 'global\n nbthread 2\n maxconn 9000\ndefaults\n mode http\n timeout connect 5s\n timeout client 60s\n' \
            ' timeout server 60s\n timeout queue 60s\n balance leastconn\nfrontend in\n bind 127.0.0.1:%d\n' \
            ' bind 127.0.0.1:%d ssl crt %s alpn h2,http/1.1\n default_backend app\nbackend app\n' \
            % (self.port, self.tls_port, pem)
        text += ''.join(' server s%d 127.0.0.1:%d%s\n' % (i, p, limit) for i, p in enumerate(self.workers.ports))
        return ['haproxy', '-db', '-f', self.write('haproxy.cfg', text)]


class H2o(Server):
    title, http2 = 'h2o', True

    def argv(self):
        listen = ['listen: {host: 127.0.0.1, port: %d}' % self.port,
                  'listen: {host: 127.0.0.1, port: %d, ssl: {certificate-file: %s, key-file: %s}}'
                  % (self.tls_port, self.pair.cert, self.pair.key)]
        text = '\n'.join(listen + [
            'num-threads: 2', 'max-connections: 9000', 'temp-buffer-path: %s' % self.directory, 'hosts:', '  default:',
            '    paths:', '      "/":', '        proxy.reverse.url: "http://127.0.0.1:%d"' % self.workers.ports[0],
            'limit-request-body: 2000000000', 'user: root', ''])
        return ['h2o', '-c', self.write('h2o.conf', text)]


SERVERS = {'resumelb': Ours, 'resumelb-small': OursSmall, 'nginx': Nginx, 'haproxy': Haproxy, 'h2o': H2o}


def installed(name):
    return name.startswith('resumelb') or shutil.which(name) is not None


# --- clients -----------------------------------------------------------------------------------------------------


def slow_socket(port):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect(('127.0.0.1', port))
    return s


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, 'big') + bytes([kind, flags]) + stream.to_bytes(4, 'big') + payload


def open_streams(server, n, per_connection=100):
    """GET /1000000 on N streams, none of which has a window. Every header is a literal, so that nothing is stored."""
    context = blind_context()
    context.set_alpn_protocols(['h2'])

    def literal(name, value):
        return b'\0' + bytes([len(name)]) + name + bytes([len(value)]) + value
    block = b'\x82\x87' + literal(b':path', b'/1000000') + literal(b':authority', b'a.example')
    found = []
    while n > 0:
        s = context.wrap_socket(socket.create_connection(('127.0.0.1', server.tls_port)))
        count = min(n, per_connection)
        s.sendall(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0, (4).to_bytes(2, 'big') + bytes(4)) +
                  frame(4, 1, 0, b'') + b''.join(frame(1, 5, 2 * i + 1, block) for i in range(count)))
        n -= count
        found.append(s)
    return found


def settled(figure, seconds=3.0):
    """The largest value until it has not grown for SECONDS."""
    best, since = figure(), time.monotonic()
    while time.monotonic() - since < seconds:
        time.sleep(0.2)
        now = figure()
        if now > best * 1.005 + 0.05:
            best, since = now, time.monotonic()
    return best


def window(options, cls):
    workers = Workers(1, False)
    server = cls(workers)
    socks = open_streams(server, int(2000 * options.scale))
    value = settled(server.growth)
    files = server.files()
    for s in socks:
        s.close()
    server.stop()
    workers.stop()
    return [number(value, 1), number(files, 1)]


class SlowReaders:
    """N clients that request BYTES and read 4 KiB every tenth of a second; a client that is done repeats its request."""

    def __init__(self, port, n, size):
        self.port, self.request = port, b'GET /%d HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n' % size
        self.ended = threading.Event()
        self.socks = [self.dial() for _ in range(n)]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def dial(self):
        s = slow_socket(self.port)
        s.sendall(self.request)
        s.setblocking(False)
        return s

    def run(self):
        while not self.ended.wait(0.1):
            for i, s in enumerate(self.socks):
                try:
                    if s.recv(4096):
                        continue
                except BlockingIOError:
                    continue
                except OSError:
                    pass
                s.close()
                self.socks[i] = self.dial()

    def stop(self):
        self.ended.set()
        self.thread.join()
        for s in self.socks:
            s.close()


def readers(options, cls):
    workers = Workers(1, False)
    server = cls(workers)
    slow = SlowReaders(server.port, int(100 * options.scale), 10 * 1000 * 1000)
    time.sleep(SLOW_READ_S)
    value, files = settled(server.growth), server.files()
    slow.stop()
    server.stop()
    workers.stop()
    return [number(value, 1), number(files, 1)]


def share(options, cls):
    if cls is H2o:
        return ['']     # proxies to one address only
    workers = Workers(4, True)
    server = cls(workers)
    quiet = wrk(server.address + '/1000', 16, options.seconds)
    slow = SlowReaders(server.port, int(100 * options.scale), 200 * 1024)
    time.sleep(2)
    busy = wrk(server.address + '/1000', 16, options.seconds)
    slow.stop()
    server.stop()
    workers.stop()
    return ['%s (%s of %s)' % (number(busy['rps'] / quiet['rps'], 2), number(busy['rps']), number(quiet['rps']))]


def send_slowly(server, n):
    socks = []
    for _ in range(n):
        s = socket.create_connection(('127.0.0.1', server.port))
        s.sendall(b'POST /2 HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100000\r\n\r\n' + b'x' * 50000)
        socks.append(s)
    return socks


def uploads(options, cls):
    workers = Workers(1, False)
    server = cls(workers)
    before = workers.held()
    socks = send_slowly(server, int(300 * options.scale))
    held = max(0, settled(workers.held, 1.5) - before)
    files = server.files()
    for s in socks:
        s.close()
    server.stop()
    workers.stop()
    return [number(held), number(files, 1)]


class Peak:
    """The largest growth of a server's memory during the load."""

    def __init__(self, server):
        self.server, self.best, self.ended = server, 0.0, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended.wait(0.05):
            self.best = max(self.best, self.server.growth())

    def stop(self):
        self.ended.set()
        self.thread.join()
        return self.best


def gigabyte_request(up):
    head, length = ('POST /2', 'Content-Length: %d\r\n' % GIGABYTE) if up else ('GET /%d' % GIGABYTE, '')
    return ('%s HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n%s\r\n' % (head, length)).encode()


def transfer_once(port, up):
    with socket.create_connection(('127.0.0.1', port), timeout=120) as s:
        s.sendall(gigabyte_request(up))
        piece = bytes(1 << 20)
        left = GIGABYTE if up else 0
        while left > 0:
            left -= s.send(piece[:left])
        room, got = bytearray(1 << 20), 0
        while True:
            n = s.recv_into(room)
            if n == 0:
                break
            got += n
    assert got > (50 if up else GIGABYTE), got


def transfer(server, up):
    cpu, peak = server.cpu(), Peak(server)
    transfer_once(server.port, up)
    return number(server.cpu() - cpu, 2), number(peak.stop(), 1)


def gigabyte(options, cls):
    cells = []
    for up in (True, False):
        workers = Workers(1, False)
        server = cls(workers)
        cells += transfer(server, up)
        server.stop()
        workers.stop()
    return cells


def idle(options, cls):
    workers = QuickWorkers()
    server = cls(workers)
    quiet = wrk(server.address + '/1000', 8, options.seconds)
    before = server.memory()
    socks = []
    for i in range(int(7000 * options.scale)):
        s = socket.create_connection(('127.0.0.1', server.port))
        if i % 7 < 2:
            s.sendall(b'GET / HTTP/1.1\r\nHost: a.exam')
        socks.append(s)
    grown = settled(server.memory) - before
    busy = wrk(server.address + '/1000', 8, options.seconds)
    for s in socks:
        s.close()
    server.stop()
    workers.stop()
    return [number(grown / len(socks)), number(quiet['p99_us'] / 1000, 2), number(busy['p99_us'] / 1000, 2)]


def keepalive_connections(server, tls, n):
    def dial(context=blind_context()):
        sock = socket.create_connection(('127.0.0.1', server.tls_port if tls else server.port))
        client = Client(None, sock=context.wrap_socket(sock) if tls else sock)
        assert client.request('GET', '/1000').status == 200
        return client

    kept = [dial() for _ in range(100)]     # includes allocations that are made once
    time.sleep(IDLE_S)
    before = server.memory()
    kept += [dial() for _ in range(n)]
    at_once = server.memory()
    time.sleep(IDLE_S)
    return [number((m - before) / n) for m in (at_once, server.memory())]


def keepalive(options, cls):
    workers, cells = QuickWorkers(), []
    for tls, n in (False, 5000), (True, 3000):
        server = cls(workers)
        cells += keepalive_connections(server, tls, int(n * options.scale))
        server.stop()
    workers.stop()
    return cells


class Transfers:
    """Transfers a gigabyte up or down, repeatedly."""

    def __init__(self, server, up):
        self.port, self.up = server.port, up
        self.process = multiprocessing.Process(target=self.run, daemon=True)
        self.process.start()

    def run(self):
        while True:
            transfer_once(self.port, self.up)

    def close(self):
        self.process.kill()
        self.process.join()


def others(options, cls):
    """p99 of one client that sends requests in a closed loop, alone and during each of the other loads."""
    beside = [lambda s: open_streams(s, int(2000 * options.scale)), lambda s: [SlowReaders(s.port, int(100 * options.scale), 10 ** 7)],
              lambda s: send_slowly(s, int(300 * options.scale)), lambda s: [Transfers(s, True)], lambda s: [Transfers(s, False)]]
    cells = []
    for begin in beside:
        workers = QuickWorkers()
        server = cls(workers)
        quiet = wrk(server.address + '/1000', 1, options.seconds)
        held = begin(server)
        time.sleep(2)
        busy = wrk(server.address + '/1000', 1, options.seconds)
        cells.append('%s to %s' % (number(quiet['p99_us'] / 1000, 2), number(busy['p99_us'] / 1000, 2)))
        for h in held:
            h.close() if hasattr(h, 'close') else h.stop()
        server.stop()
        workers.stop()
    return cells


ROWS = {
    'others': (others, ['p99 ms of one client, alone and beside: 2,000 closed streams', '100 slow readers', '300 slow POSTs',
                        '1 GB up', '1 GB down']),
    'window': (window, ['2,000 closed streams of 1 MB: MB in memory', 'in files']),
    'readers': (readers, ['100 slow readers of 10 MB: MB in memory', 'in files']),
    'share': (share, ['requests/s others get beside 100 slow clients']),
    'uploads': (uploads, ['worker connections held by 300 slow POSTs', 'MB in files']),
    'gigabyte': (gigabyte, ['1 GB up: CPU s', 'MB grown', '1 GB down: CPU s', 'MB grown']),
    'keepalive': (keepalive, ['bytes a connection between two requests, at once', 'after 4 s', 'TLS 1.3, at once', 'after 4 s']),
    'idle': (idle, ['bytes a connection, 5,000 idle and 2,000 with half a head', 'others: p99 ms without them', 'with']),
}


def main():
    options = parse()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    names = [n for n in SERVERS if (not options.servers or n in options.servers) and installed(n)]
    for row, (measure, heads) in ROWS.items():
        if options.only and row not in options.only:
            continue
        cells = []
        for n in names:
            if SERVERS[n] is OursSmall and row not in ('window', 'readers'):
                continue
            try:
                cells.append([SERVERS[n].title] + measure(options, SERVERS[n]))
            except (OSError, AssertionError) as e:
                cells.append([SERVERS[n].title, 'failed: %s' % e] + [''] * (len(heads) - 1))
            print(cells[-1], file=sys.stderr, flush=True)
        table([''] + heads, cells)


if __name__ == '__main__':
    main()
