#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
More clients than descriptors: the CPU time of a server while it cannot accept connections, and whether it serves afterwards.

    bench/edge_descriptors.py [--limit 100] [--clients 400] [--seconds 5]

Each server starts with RLIMIT_NOFILE of --limit (hard and soft) and one thread or process where it can; --clients connect
and send nothing. CPU time is of all its processes, over --seconds, as a share of one core. Then all clients disconnect, and
one sends a request. RLB_BIN: directory of the programs (default build/bin).
"""
import argparse
import socket
import time

from agent_support import cpu_seconds, descendants, table
from limit_load import fresh_world
from support.base import BIN, free_port, wait_until
from support.http import get
from support.scripted import hello, serve

RESUMELB = '''listen: [{address: "127.0.0.1:%(port)d"}]
workers: ["%(worker)s"]
threads: "1"
'''
NGINX = '''daemon off; worker_processes 1; pid %(directory)s/nginx.pid; error_log %(directory)s/nginx-error.log crit;
events { worker_connections 1000; }
http { access_log off; client_body_temp_path %(directory)s/b; proxy_temp_path %(directory)s/p; fastcgi_temp_path %(directory)s/f;
  uwsgi_temp_path %(directory)s/u; scgi_temp_path %(directory)s/s;
  server { listen 127.0.0.1:%(port)d; location / { proxy_pass http://%(worker)s; } } }
'''
HAPROXY = '''global
  nbthread 1
  maxconn 1000
  no strict-limits
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend f
  bind 127.0.0.1:%(port)d
  default_backend b
backend b
  server w %(worker)s
'''
H2O = '''num-threads: 1
listen: {port: %(port)d, host: 127.0.0.1}
hosts: {default: {paths: {/: {proxy.reverse.url: "http://%(worker)s/"}}}}
'''
SERVERS = {
    'resumelb': (RESUMELB, [BIN / 'resumelb', '-c']),
    'nginx': (NGINX, ['nginx', '-c']),
    'HAProxy': (HAPROXY, ['haproxy', '-db', '-f']),
    'h2o': (H2O, ['h2o', '-m', 'worker', '-c']),
}


def good(address):
    try:
        return get(address).status == 200
    except (OSError, ValueError):
        return False


def measure(world, name, worker, args):
    text, argv = SERVERS[name]
    values = {'port': free_port(), 'worker': worker.address, 'directory': world.directory}
    path, address = world.directory / (name + '.conf'), '127.0.0.1:%d' % values['port']
    path.write_text(text % values)
    process = world.process(['prlimit', '--nofile=%d:%d' % (args.limit, args.limit), *argv, path], name)
    wait_until(lambda: good(address), name, 20)
    clients = []
    for _ in range(args.clients):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(('127.0.0.1', values['port']))
        clients.append(s)
    time.sleep(1)
    pids = [process.pid, *descendants(process.pid)]
    began, before = time.monotonic(), cpu_seconds(pids)
    time.sleep(args.seconds)
    share = (cpu_seconds(pids) - before) / (time.monotonic() - began)
    for s in clients:
        s.close()
    try:
        wait_until(lambda: good(address), 'a response', 10)
        again = 'yes'
    except AssertionError:
        again = 'no'
    process.stop()
    return [name, '%.1f %%' % (100 * share), again]


def main():
    p = argparse.ArgumentParser(description=__doc__.strip().split('\n')[0])
    p.add_argument('--limit', type=int, default=100)
    p.add_argument('--clients', type=int, default=400)
    p.add_argument('--seconds', type=float, default=5)
    args = p.parse_args()
    with fresh_world() as world:
        worker = world.scripted(serve(hello))
        rows = [measure(world, name, worker, args) for name in SERVERS]
    table(['server', 'CPU', 'serves again'], rows)


if __name__ == '__main__':
    main()
