#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a TLS handshake costs: CPU time of the server for each, full and resumed, compared with nginx, haproxy and h2o.

    bench/tls_handshakes.py [--subjects resumelb,nginx,haproxy,h2o] [--handshakes N] [--rounds N]

TLS 1.2 and 1.3, certificates of ECDSA P-256 and of RSA 2048. Each connection has one small request, so that the
handshake is complete when it is counted; the cost of a connection without TLS is subtracted. All forward the request to the
same worker, over persistent connections. While a subject waits for the worker, CPU caches are overwritten; the cost of that
is not subtracted. Subjects are measured alternately.
A resumed handshake uses the ticket of an earlier connection; one that is not resumed is an error. CPU time is the kernel's,
of all threads of all processes of a subject (schedstat). Peers that are not installed are left out.
"""
import argparse
import collections
import os
import pathlib
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from processes import cpu_ns, free_port

HERE = os.path.dirname(os.path.abspath(__file__))
VERSIONS = {'1.2': ssl.TLSVersion.TLSv1_2, '1.3': ssl.TLSVersion.TLSv1_3}
KEYS = {'ECDSA': ['ec', '-pkeyopt', 'ec_paramgen_curve:P-256'], 'RSA': ['rsa:2048']}
REQUEST = b'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
START_S = 20
RESUMELB = """\
threads: 1
state_dir: {directory}
listen:
  - {{address: "127.0.0.1:{plain}"}}
  - {{address: "127.0.0.1:{tls}", tls: {{certificate: {directory}/c.pem, key: {directory}/k.pem}}}}
workers: [{{address: "127.0.0.1:{worker}"}}]
"""
NGINX = """\
daemon off; worker_processes 1; pid {directory}/pid; error_log {directory}/log;
events {{ worker_connections 512; }}
http {{ access_log off; upstream worker {{ server 127.0.0.1:{worker}; keepalive 8; }}
  server {{ listen 127.0.0.1:{plain}; listen 127.0.0.1:{tls} ssl; ssl_certificate {directory}/c.pem; ssl_certificate_key {directory}/k.pem;
    ssl_protocols TLSv1.2 TLSv1.3; location / {{ proxy_pass http://worker; proxy_http_version 1.1; proxy_set_header Connection ""; }} }} }}
"""
HAPROXY = """\
global
    nbthread 1
defaults
    mode http
    timeout client 10s
    timeout connect 10s
    timeout server 10s
frontend f
    bind 127.0.0.1:{plain}
    bind 127.0.0.1:{tls} ssl crt {directory}/both.pem
    default_backend b
backend b
    http-reuse always
    server worker 127.0.0.1:{worker}
"""
H2O = """\
num-threads: 1
listen: {{host: 127.0.0.1, port: {plain}}}
listen: {{host: 127.0.0.1, port: {tls}, ssl: {{certificate-file: {directory}/c.pem, key-file: {directory}/k.pem, minimum-version: TLSv1.2}}}}
hosts: {{default: {{paths: {{/: {{proxy.reverse.url: "http://127.0.0.1:{worker}/"}}}}}}}}
"""
SUBJECTS = {
    'resumelb': (RESUMELB, lambda bin, conf: [bin, '-c', conf]),
    'nginx': (NGINX, lambda bin, conf: [bin, '-c', conf]),
    'haproxy': (HAPROXY, lambda bin, conf: [bin, '-db', '-f', conf]),
    'h2o': (H2O, lambda bin, conf: [bin, '-m', 'worker', '-c', conf]),
}


def serve_worker(listener):
    """Keeps connections open; sends one response per read, as no subject pipelines requests."""
    def talk(c):
        while c.recv(65536):
            c.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')

    while True:
        threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()


class Subject:
    def __init__(self, name, program, key, worker):
        self.name = name
        self.directory = tempfile.mkdtemp(prefix='handshakes.')
        subprocess.run(['openssl', 'req', '-x509', '-newkey', *KEYS[key], '-nodes', '-days', '30', '-subj', '/CN=localhost',
                        '-keyout', 'k.pem', '-out', 'c.pem'], cwd=self.directory, check=True, stderr=subprocess.DEVNULL)
        directory = pathlib.Path(self.directory)
        directory.chmod(0o755)
        (directory / 'both.pem').write_text((directory / 'c.pem').read_text() + (directory / 'k.pem').read_text())
        self.plain, self.tls = free_port(), free_port()
        config, command = SUBJECTS[name]
        conf = directory / 'conf'
        conf.write_text(config.format(directory=self.directory, plain=self.plain, tls=self.tls, worker=worker))
        self.process = subprocess.Popen(command(program, str(conf)), stdout=subprocess.DEVNULL, stderr=open(directory / 'err', 'w'))
        self.session = {}
        self.wait()

    def wait(self):
        until = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(('127.0.0.1', self.tls)).close()
                return
            except ConnectionRefusedError:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise SystemExit('tls_handshakes: %s does not start, see %s' % (self.name, self.directory))
                time.sleep(0.05)

    def visit(self, context=None, session=None):
        """One connection with one request; its session."""
        with socket.create_connection(('127.0.0.1', self.tls if context else self.plain)) as s:
            if context:
                s = context.wrap_socket(s, session=session)
                if session is not None and not s.session_reused:
                    raise SystemExit('tls_handshakes: %s did not resume a session' % self.name)
            s.sendall(REQUEST)
            got = b''
            while True:
                data = s.recv(65536)
                if not data:
                    break
                got += data
            if not got.startswith(b'HTTP/1.1 200'):
                raise SystemExit('tls_handshakes: %s responded %r' % (self.name, got[:60]))
            kept = s.session if context else None
            s.close()
        return kept

    def cost_us(self, n, context=None, resume=False):
        session = self.visit(context)
        before = cpu_ns(self.process.pid)
        for _ in range(n):
            self.visit(context, session if resume else None)
        return (cpu_ns(self.process.pid) - before) / n / 1000

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(START_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory)


def client(version):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = context.maximum_version = VERSIONS[version]
    return context


def measure(subjects, options, samples, key):
    for _ in range(options.rounds):
        plain = {s.name: s.cost_us(options.handshakes) for s in subjects}
        for version in VERSIONS:
            context = client(version)
            for kind in ('full', 'resumed'):
                for s in subjects:
                    cost = s.cost_us(options.handshakes, context, kind == 'resumed') - plain[s.name]
                    samples[key, version, kind][s.name].append(cost)


def print_table(samples, names):
    print('CPU us of a handshake, median; in brackets times the best peer\n')
    print('| certificate | TLS | | %s |' % ' | '.join(names))
    print('| --- | --- | --- |%s' % (' ---: |' * len(names)))
    for (key, version, kind), by_name in samples.items():
        cost = {n: statistics.median(by_name[n]) for n in names}
        best = min((cost[n] for n in names if n != 'resumelb'), default=cost[names[0]])
        print('| %s | %s | %s | %s |' % (key, version, kind, ' | '.join('%.0f (%.2f)' % (cost[n], cost[n] / best) for n in names)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--subjects', default=','.join(SUBJECTS))
    parser.add_argument('--bin', default=os.environ.get('RESUMELB_BIN', os.path.join(HERE, '..', 'build', 'bin', 'resumelb')))
    parser.add_argument('--handshakes', type=int, default=300)
    parser.add_argument('--rounds', type=int, default=3)
    options = parser.parse_args()
    programs = {n: options.bin if n == 'resumelb' else shutil.which(n, path=os.environ['PATH'] + ':/usr/sbin')
                for n in options.subjects.split(',')}
    names = [n for n in programs if programs[n]]
    listener = socket.create_server(('127.0.0.1', 0))
    threading.Thread(target=serve_worker, args=(listener,), daemon=True).start()
    samples = collections.defaultdict(lambda: collections.defaultdict(list))
    for key in KEYS:
        subjects = []
        try:
            for n in names:
                subjects.append(Subject(n, programs[n], key, listener.getsockname()[1]))
            measure(subjects, options, samples, key)
        finally:
            for s in subjects:
                s.close()
    print_table(samples, names)


if __name__ == '__main__':
    sys.exit(main())
