#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How connections are distributed over the data loops: by the kernel alone (the socket that accepted them), and as they are served.

    bench/accept_balance.py [--bin build/bin] [--seconds 3] [--loops 2,4,8] [--connections 64]

Needs wrk. The worker, which responds at once, is part of the program: one process, one thread per connection.
Shown are the shares of connections, and of requests, of the loops with the least and with the most; 1.00 is fair."""
import argparse
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request


def worker():
    """An HTTP/1.1 server for keep-alive connections without bodies; its port."""
    s = socket.create_server(('127.0.0.1', 0), backlog=1024)
    response = b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello'

    def talk(c):
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while data := c.recv(65536):
                c.sendall(response * data.count(b'\r\n\r\n'))
        except ConnectionError:
            pass  # the load balancer has exited

    def accept():
        while True:
            threading.Thread(target=talk, args=(s.accept()[0],), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    return s.getsockname()[1]


def free_port():
    with socket.create_server(('127.0.0.1', 0)) as s:
        return s.getsockname()[1]


def status(port):
    with urllib.request.urlopen('http://127.0.0.1:%d/status.json' % port, timeout=5) as r:
        return json.load(r)['loops']


def start(options, loops, directory, upstream):
    port, admin = free_port(), free_port()
    path = pathlib.Path(directory) / 'resumelb.yaml'
    path.write_text('threads: %d\nlisten: [{address: "127.0.0.1:%d"}]\nadmin: {address: "127.0.0.1:%d"}\nresume: measure\nmax_connections: 0\n'
                    'workers: [{address: "127.0.0.1:%d"}]\n' % (loops, port, admin, upstream))
    p = subprocess.Popen([pathlib.Path(options.bin) / 'resumelb', '-c', path], stderr=subprocess.DEVNULL)
    for _ in range(500):
        try:
            status(admin)
            return p, port, admin
        except OSError:
            time.sleep(0.02)
    sys.exit('resumelb did not start')


def spread(figures):
    fair = sum(figures) / len(figures)
    return '%.2f to %.2f' % (min(figures) / fair, max(figures) / fair)


def measure(options, loops, close, directory, upstream):
    p, port, admin = start(options, loops, directory, upstream)
    try:
        subprocess.run(['wrk', '-t1', '-c%d' % options.connections, '-d%ds' % options.seconds] + ['-HConnection: close'] * close +
                       ['http://127.0.0.1:%d/' % port], check=True, stdout=subprocess.DEVNULL)
        now = status(admin)
    finally:
        p.terminate()
        p.wait()
    by_kernel = [one['accepted'] for one in now]
    served = [one['accepted'] - one['given'] + one['taken'] for one in now]
    print('| %d | %s | %s | %s | %s | %.1f %% |' % (
        loops, 'new connection each' if close else 'keep-alive', spread(by_kernel), spread(served), spread([one['requests'] for one in now]),
        100 * sum(one['given'] for one in now) / sum(by_kernel)), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--bin', default=pathlib.Path(__file__).parent.parent / 'build/bin')
    p.add_argument('--seconds', type=int, default=3)
    p.add_argument('--loops', default='2,4,8')
    p.add_argument('--connections', type=int, default=64)
    options = p.parse_args()
    upstream = worker()
    print('| loops | connections | by the kernel | served | requests | given |\n| ---: | --- | --- | --- | --- | ---: |')
    with tempfile.TemporaryDirectory() as directory:
        for loops in options.loops.split(','):
            for close in (False, True):
                measure(options, int(loops), close, directory, upstream)


main()
