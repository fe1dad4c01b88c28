# SPDX-License-Identifier: Apache-2.0
"""A plain listener that redirects every client to https, and serves nothing itself."""
import json
import subprocess

import pytest
from support.base import BIN, LIMIT, free_port, wait_until
from support.certificates import Pair
from support.http import Client, get
from support.scripted import hello, serve


class Pages:
    def __init__(self, world, **listen):
        self.plain, self.port = '127.0.0.1:%d' % free_port(), free_port()
        self.pair = Pair(world.directory, 'cert', ['a.example'])
        self.worker, self.log = world.scripted(serve(hello)), world.directory / 'access.log'
        self.lb = world.resumelb({'workers': [{'address': self.worker.address}], 'access_log': str(self.log),
                                  'access_log_format': 'json'},
                                 listen=[dict({'address': self.plain, 'redirect_https': self.port}, **listen),
                                         {'address': '127.0.0.1:%d' % self.port, 'tls': self.pair.entry}])

    def lines(self, n):
        wait_until(lambda: self.log.exists() and self.log.read_text().count('\n') >= n, '%d lines' % n)
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.mark.parametrize('method, status', [('GET', 301), ('HEAD', 301), ('POST', 308), ('DELETE', 308), ('PROPFIND', 308)])
def test_every_request_goes_to_the_same_place_by_https(world, method, status):
    p = Pages(world)
    with Client(p.plain) as c:
        for target in ('/x/y?z=%20', '/'):
            r = c.request(method, target, 'a.example:8080', body=b'abc' if method == 'POST' else None)
            assert (r.status, r['Location']) == (status, 'https://a.example:%d%s' % (p.port, target))
    assert not p.worker.requests
    line = p.lines(2)[0]
    assert (line['status'], line['outcome'], line['target'], line['host']) == (status, 'redirected', '/x/y?z=%20', 'a.example:8080')
    assert p.lb.json()['unrouted']['redirected'] == 2
    assert 'resumelb_unrouted_total{outcome="redirected"} 2\n' in get(p.lb.admin, '/metrics', host=p.lb.admin).text


def test_a_client_that_follows_arrives(world):
    p = Pages(world)
    host, _, port = p.plain.rpartition(':')
    r = subprocess.run(['curl', '-sS', '-L', '--max-time', str(LIMIT), '--cacert', p.pair.cert, '-d', 'abc',
                        '--resolve', 'a.example:%s:127.0.0.1' % port, '--resolve', 'a.example:%d:127.0.0.1' % p.port,
                        '-w', ' %{http_code}', 'http://a.example:%s/x' % port], capture_output=True, text=True)
    assert r.stdout.endswith(' 200'), r.stdout + r.stderr
    head, body = p.worker.requests[-1]
    assert head.startswith(b'POST /x ') and body == b'abc'


@pytest.mark.parametrize('request_head', [b'GET / HTTP/1.0\r\n\r\n', b'GET / HTTP/1.1\r\nHost:\r\n\r\n',
                                          b'GET / HTTP/1.1\r\nHost: a/b\r\n\r\n', b'GET / HTTP/1.1\r\n\r\n',
                                          b'GET / HTTP/1.1\r\nHost: a@b\r\n\r\n'])
def test_without_a_host_there_is_nowhere_to_go(world, request_head):
    p = Pages(world)
    with Client(p.plain) as c:
        c.send_raw(request_head)
        r = c.receive()
        assert r.status == 400 and r['Location'] is None


def test_a_target_in_full_states_where(world):
    p = Pages(world)
    assert get(p.plain, 'http://b.example/x', host='a.example')['Location'] == 'https://b.example:%d/x' % p.port


def test_a_redirect_works_behind_a_proxy(world):
    p = Pages(world, proxy_protocol=True)
    with Client(p.plain) as c:
        c.send_raw(b'PROXY TCP4 192.0.2.7 192.0.2.1 1000 80\r\n')
        assert c.request(host='a.example').status == 301
    assert p.lines(1)[0]['client'] == '192.0.2.7'


def test_a_tls_listener_cannot_redirect_to_itself(world):
    path = world.directory / 'bad.yaml'
    path.write_text('listen: [%s]\nworkers: [{address: "127.0.0.1:9"}]\n' % json.dumps(
        {'address': '127.0.0.1:%d' % free_port(), 'redirect_https': 443, 'tls': Pair(world.directory, 'c', ['a']).entry}))
    r = subprocess.run([BIN / 'resumelb', '-t', '-c', path], capture_output=True, text=True, timeout=LIMIT)
    assert r.returncode == 1 and 'redirect_https is for a plain listener' in r.stderr
