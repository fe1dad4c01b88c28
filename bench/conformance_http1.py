#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
The request cases of the end-to-end tests, against resumelb and its peers.

    bench/conformance_http1.py [--only SUBJECT ...] [--groups GROUP ...] [--list]

All subjects have the same worker, which parses requests strictly. A case is right if the result is as RFC 9110 and
9112 require: the request arrives complete and once, or is rejected; where they permit both, both are right. Peers are
configured as reverse proxies by their manuals, with the fields of forwarding set. --list prints the wrong cases.
RLB_BIN: directory of the programs (default build/bin).
"""
import argparse
import contextlib
import pathlib
import shutil
import tempfile

from agent_support import table
from support import forward_cases, request_cases
from support.base import free_port, wait_until
from support.conformance import Worker, run, wrong
from support.http import get
from support.servers import World

SECONDS = 0.5       # after this time without a response or a close, a server waits for more input

NGINX = '''
daemon off; master_process off; worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/error.log crit;
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path {directory}/b; proxy_temp_path {directory}/p; fastcgi_temp_path {directory}/f;
  uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
  map $http_upgrade $wanted {{ default ""; ~*^websocket$ websocket; }}
  map $wanted $connection_wanted {{ default upgrade; "" ""; }}
  upstream w {{ server {worker}; keepalive 8; }}
  server {{
    listen {address};
    location / {{
      proxy_pass http://w; proxy_http_version 1.1; proxy_set_header Host $http_host;
      proxy_set_header Upgrade $wanted; proxy_set_header Connection $connection_wanted;
      proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header TE ""; proxy_set_header Trailer "";
    }}
  }}
}}
'''
HAPROXY = '''
defaults
  mode http
  timeout client 60s
  timeout server 60s
  timeout connect 5s
frontend f
  bind {address}
  http-request set-header X-Forwarded-For %[src]
  http-request set-header X-Forwarded-Proto http
  default_backend b
backend b
  http-reuse safe
  server w {worker}
'''
H2O = '''
num-threads: 1
user: root
listen: {{host: 127.0.0.1, port: {port}}}
pid-file: {directory}/h2o.pid
error-log: {directory}/h2o.err
proxy.preserve-host: ON
proxy.websocket: ON
hosts:
  default:
    paths:
      /:
        proxy.reverse.url: "http://{worker}/"
'''


def peer(world, name, argv, text, worker):
    port = free_port()
    address = '127.0.0.1:%d' % port
    path = world.directory / (name + '.conf')
    path.write_text(text.format(directory=world.directory, address=address, port=port, worker=worker.address))
    process = world.process([a.format(path=path, directory=world.directory) for a in argv], name)

    def up():
        assert process.alive(), process.output()[-2000:]
        with contextlib.suppress(OSError):
            return get(address, '/probe').status == 200
    wait_until(up, name)
    return address


def resumelb(world, worker):
    return world.resumelb({'workers': [worker.address]}).address


SUBJECTS = {
    'resumelb': resumelb,
    'nginx': lambda w, worker: peer(w, 'nginx', ['/usr/sbin/nginx', '-c', '{path}', '-p', '{directory}'], NGINX, worker),
    'haproxy': lambda w, worker: peer(w, 'haproxy', ['/usr/sbin/haproxy', '-db', '-f', '{path}'], HAPROXY, worker),
    'h2o': lambda w, worker: peer(w, 'h2o', ['/usr/bin/h2o', '-c', '{path}'], H2O, worker),
}


def parse():
    p = argparse.ArgumentParser(description=__doc__.strip().split('\n')[0])
    p.add_argument('--only', nargs='*', choices=list(SUBJECTS))
    p.add_argument('--groups', nargs='*')
    p.add_argument('--list', action='store_true', help='the wrong cases of all subjects, not of resumelb alone')
    return p.parse_args()


def right_of(options, name, cases, world, worker):
    """{group: number of right cases}"""
    address = SUBJECTS[name](world, worker)
    right = {}
    for case in cases:
        right.setdefault(case.group, 0)
        out = run(case, address, worker, SECONDS)
        why = wrong(case, out, ours=False)
        right[case.group] += why is None
        if why is not None and (options.list or name == 'resumelb'):
            print('%s: %s: %s: %s' % (name, case.group, case.name, why[:200]), flush=True)
    return right


@contextlib.contextmanager
def fresh(name):
    directory = pathlib.Path(tempfile.mkdtemp(prefix='conformance-'))
    world = World(directory)
    try:
        yield world
    finally:
        world.close()
        shutil.rmtree(directory, ignore_errors=True)


def main():
    options = parse()
    cases = [c for c in (*request_cases.cases(), *forward_cases.cases())
             if c.only is None and (not options.groups or c.group in options.groups)]
    names = options.only or list(SUBJECTS)
    right = {}
    for name in names:
        with fresh(name) as world:
            worker = Worker()
            world.closers.append(worker.close)
            right[name] = right_of(options, name, cases, world, worker)
    groups = list(dict.fromkeys(c.group for c in cases))
    totals = {g: sum(c.group == g for c in cases) for g in groups}
    table(['group', 'cases', *names], [[g, str(totals[g]), *(str(right[n][g]) for n in names)] for g in groups] +
          [['all', str(len(cases)), *(str(sum(right[n].values())) for n in names)]])


if __name__ == '__main__':
    main()
