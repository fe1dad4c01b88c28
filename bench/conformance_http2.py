#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
The rows of tests/e2e/http2_cases.py against resumelb (RLB_BIN names its directory), nginx and HAProxy, as packaged, each
with the same worker: how many results the standard permits, by group. Then 100,000 requests that are reset at
once: seconds of CPU, connections opened to the worker, growth in MB. `dev/install-deps bench` installs the others.
"""
import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tests' / 'e2e'))
from http2_cases import CASES, right, run  # noqa: E402
from support.base import BIN, free_port, wait_until  # noqa: E402
from support.certificates import Pair  # noqa: E402
from support.http2 import END_HEADERS, END_STREAM, HEADERS, RST_STREAM, Http2, frame, request  # noqa: E402
from support.scripted import Scripted, serve  # noqa: E402

NGINX = '''daemon off; error_log stderr crit; pid {directory}/nginx.pid; worker_processes 1;
events {{ worker_connections 4096; }}
http {{ access_log off; client_body_temp_path {directory}/b; proxy_temp_path {directory}/p; fastcgi_temp_path {directory}/f;
uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {cert}; ssl_certificate_key {key};
location / {{ proxy_pass http://{worker}; proxy_http_version 1.1; }} }} }}'''
HAPROXY = '''global
  nbthread 1
defaults
  mode http
  timeout client 20s
  timeout server 20s
  timeout connect 5s
frontend f
  bind 127.0.0.1:{port} ssl crt {pem} alpn h2
  default_backend b
backend b
  server w {worker}
'''
OURS = 'listen: [{{"address": "127.0.0.1:{port}", "tls": {{"certificate": "{cert}", "key": "{key}"}}}}]\n' \
       'threads: "1"\nworkers: ["{worker}"]\n'
SUBJECTS = [('resumelb', OURS, [BIN / 'resumelb', '-c']), ('nginx', NGINX, ['nginx', '-c']),
            ('haproxy', HAPROXY, ['haproxy', '-f'])]


def family(pid):
    children = pathlib.Path('/proc/%d/task/%d/children' % (pid, pid)).read_text().split()
    return [pid] + [p for c in children for p in family(int(c))]


def cpu_s(pids):
    fields = [pathlib.Path('/proc/%d/stat' % p).read_text().rpartition(')')[2].split() for p in pids]
    return sum(int(f[11]) + int(f[12]) for f in fields) / os.sysconf('SC_CLK_TCK')


def resident_mb(pids):
    return sum(int(pathlib.Path('/proc/%d/statm' % p).read_text().split()[1]) for p in pids) * 4096 / 1e6


def responds(port):
    try:
        with Http2(port, seconds=5) as c:
            return c.get(1).status == '200'
    except OSError:
        return False


def resets(port, worker, pids):
    before = cpu_s(pids), len(worker.connections), resident_mb(pids)
    with Http2(port) as c:
        for first in range(1, 200_001, 2000):
            c.send(b''.join(frame(HEADERS, request(), END_STREAM | END_HEADERS, n) +
                            frame(RST_STREAM, b'\0\0\0\x08', 0, n) for n in range(first, first + 2000, 2)))
    last = None
    while last != (last := cpu_s(pids)):        # until it is idle
        time.sleep(0.5)
    return last - before[0], len(worker.connections) - before[1], resident_mb(pids) - before[2]


def subject(name, config, argv, directory):
    worker = Scripted(serve(lambda c, head, body: c.respond(b'ok')))
    port, pair = free_port(), Pair(directory, name, ['test.example'])
    pem = directory / (name + '-all.pem')
    pem.write_bytes(pair.cert.read_bytes() + pair.key.read_bytes())
    path = directory / (name + '.conf')
    path.write_text(config.format(port=port, cert=pair.cert, key=pair.key, pem=pem, directory=directory, worker=worker.address))
    process = subprocess.Popen([*argv, path], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: responds(port), name, 20)
        good, bad = collections.Counter(), []
        for case in CASES:
            try:
                verdict = run(port, case)
            except OSError as e:
                verdict = 'no word: %s' % e
            good[case[0]] += right(verdict, case[4])
            if not right(verdict, case[4]):
                bad.append('%s: %s: %s' % (case[0], case[1], verdict))
        return good, bad, resets(port, worker, family(process.pid))
    finally:
        process.terminate()
        process.wait()
        worker.close()


def main():
    total = collections.Counter(c[0] for c in CASES)
    with tempfile.TemporaryDirectory() as directory:
        for name, config, argv in SUBJECTS:
            good, bad, (cpu, opened, grown) = subject(name, config, argv, pathlib.Path(directory))
            print('%-9s %s' % (name, '  '.join('%s %d/%d' % (g, good[g], n) for g, n in total.items())))
            print('%-9s 100,000 resets: %.2f CPU s, %d worker connections, %.1f MB' % (name, cpu, opened, grown))
            print(''.join('          %s\n' % b for b in bad), end='', flush=True)


main()
