#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
What clients receive for each possible response of a worker (tests/e2e/support/response_cases.py), and the results of
requests when one of two workers fails (fault_cases.py): resumelb compared with nginx, HAProxy and h2o.

    bench/conformance_responses.py [--only NAME ...] [--groups NAME ...] [--wrong]

Each subject serves the same cases, one after the other, with time-outs of 500 ms. --wrong lists the wrong cases. Any
result that the RFCs permit is right. RLB_BIN: directory of the programs (default build/bin).
"""
import argparse

from limit_load import fresh_world
from agent_support import table, free_port, wait_until
from support.certificates import Pair
from support.fault_cases import GROUP, Faulty, run_faults
from support.http import get
from support.response_cases import GROUPS, TIMEOUT
from support.response_run import Player, Subject
from support import response_run

MS = int(TIMEOUT * 1000)
# Some fail many cases: a shorter time-out saves time.
response_run.CLIENT_S = 2.0

NGINX = '''
daemon off; master_process off; pid {directory}/nginx.pid; error_log {directory}/nginx-error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; client_body_temp_path {directory}/b; proxy_temp_path {directory}/p; fastcgi_temp_path {directory}/f;
  uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s; client_max_body_size 0;
  upstream w {{ {servers} keepalive 16; }}
  server {{
    listen {plain}; listen {tls} ssl http2; ssl_certificate {cert}; ssl_certificate_key {key};
    location / {{
      proxy_pass http://w; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_connect_timeout {ms}ms; proxy_read_timeout {ms}ms; proxy_send_timeout {ms}ms;
    }}
  }}
}}
'''
HAPROXY = '''
global
  maxconn 1000
  nbthread 1
defaults
  mode http
  timeout connect {ms}ms
  timeout client 10s
  timeout server {ms}ms
  option redispatch
  retries 2
frontend f
  bind {plain}
  bind {tls} ssl crt {both} alpn h2,http/1.1
  default_backend b
backend b
{servers}
'''
H2O = '''
listen: {{host: 127.0.0.1, port: {plain_port}}}
listen: {{host: 127.0.0.1, port: {tls_port}, ssl: {{certificate-file: {cert}, key-file: {key}}}}}
pid-file: {directory}/h2o.pid
error-log: {directory}/h2o-error.log
num-threads: 1
{user}
hosts:
  default:
    paths:
      /:
        {servers}
        proxy.preserve-host: ON
        proxy.timeout.io: {ms}
        proxy.timeout.keepalive: 2000
'''


def peer(name, world, workers, plain, tls, pair, ms):
    both = world.directory / 'both.pem'
    both.write_text(pair.cert.read_text() + pair.key.read_text())
    lines = {'nginx': ' '.join('server %s max_fails=0;' % w for w in workers),
             'haproxy': '\n'.join('  server w%d %s' % (i, w) for i, w in enumerate(workers)),
             'h2o': 'proxy.reverse.url: "http://%s/"' % workers[0]}
    text = {'nginx': NGINX, 'haproxy': HAPROXY, 'h2o': H2O}[name].format(
        directory=world.directory, servers=lines[name], plain=plain, tls=tls, cert=pair.cert, key=pair.key, both=both, ms=ms,
        plain_port=plain.rpartition(':')[2], tls_port=tls.rpartition(':')[2], user='user: root')
    path = world.directory / (name + '.conf')
    path.write_text(text)
    argv = {'nginx': ['/usr/sbin/nginx', '-p', world.directory, '-c', path], 'haproxy': ['/usr/sbin/haproxy', '-db', '-f', path],
            'h2o': ['/usr/bin/h2o', '-c', path]}[name]
    return world.process(argv, name)


def start(name, world, workers, tuned=True):
    """Addresses: plain, TLS. TUNED: short time-outs, and no worker is ejected; else resumelb has its defaults."""
    plain, tls = ('127.0.0.1:%d' % free_port() for _ in range(2))
    pair = Pair(world.directory, 'test', ['test.example'], kind='rsa')
    if name == 'resumelb':
        settings = {'first_byte_timeout': '%dms' % MS, 'between_bytes_timeout': '%dms' % MS, 'eject_after': 0,
                    'eject_after_refused': 0, 'poison_deaths': 0, 'retry_budget': 1} if tuned else {}
        world.resumelb({'workers': workers, **settings},
                       listen=[{'address': plain}, {'address': tls, 'tls': pair.entry, 'http2': True}], threads=1)
        return plain, tls
    start_peer(name, world, workers, plain, tls, pair, tuned)
    return plain, tls


def start_peer(name, world, workers, plain, tls, pair, tuned):
    process = peer(name, world, workers, plain, tls, pair, MS if tuned else 10000)

    def up():
        assert process.alive(), process.output()[-3000:]
        try:
            return get(plain, '/plain').status == 200
        except OSError:
            return False
    wait_until(up, name, 20)


def cases(name, groups):
    """{group: results}"""
    with fresh_world() as world:
        player = Player(world)
        where = start(name, world, [player.address])
        subject = Subject(player, *where, strict=name == 'resumelb')
        if name != 'resumelb':
            pair = Pair(world.directory, 'again', ['test.example'], kind='rsa')
            subject.revive = lambda: start_peer(name, world, [player.address], *where, pair, True)
        results = {}
        for g in groups:
            results[g] = subject.run_group(g)
            print('%s: %s: %d of %d wrong' % (name, g, sum(bool(r[-1]) for r in results[g]), len(results[g])), flush=True)
        return results


def faults(name):
    with fresh_world() as world:
        faulty = Faulty(world)
        return run_faults(faulty, start(name, world, faulty.addresses)[0])


def main():
    p = argparse.ArgumentParser(description=__doc__.strip().split('\n')[0])
    names = ('resumelb', 'nginx', 'haproxy', 'h2o')
    p.add_argument('--only', nargs='*', choices=names)
    p.add_argument('--groups', nargs='*', choices=[*GROUPS, GROUP])
    p.add_argument('--wrong', action='store_true')
    options = p.parse_args()
    wanted = options.groups or [*GROUPS, GROUP]
    results = {}
    for name in options.only or names:
        results[name] = cases(name, [g for g in GROUPS if g in wanted])
        # h2o has one worker.
        if GROUP in wanted and name != 'h2o':
            results[name][GROUP] = faults(name)
        for group, found in results[name].items():
            if options.wrong:
                for r in found:
                    if r[-1]:
                        print('%s: %s:' % (name, group), *[getattr(x, 'name', x) for x in r], flush=True)

    def score(found):
        return '%d/%d' % (sum(not r[-1] for r in found), len(found)) if found else '-'
    rows = [[g] + [score(results[n].get(g)) for n in results] for g in wanted]
    rows.append(['all'] + [score([r for g in results[n].values() for r in g]) for n in results])
    table(['right of all cases', *results], rows)


if __name__ == '__main__':
    main()
