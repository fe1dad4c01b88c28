# SPDX-License-Identifier: Apache-2.0
"""Requests rejected before an application is selected: they get a response immediately, and are counted and logged; and full request targets."""
import json
import re
import subprocess

import pytest
from agent_support import TinyAgent
from support.base import LIMIT, free_port, wait_until
from support.certificates import Pair
from support.http import Client, CutShort, get
from support.http2 import DATA, END_HEADERS, HEADERS, RST_STREAM, Http2, frame, request
from support.scripted import hello, serve


class Start:
    def __init__(self, world, listen=None, **settings):
        self.worker = world.scripted(serve(hello))
        self.log = world.directory / 'access.log'
        self.lb = world.resumelb(dict({'workers': [{'address': self.worker.address}], 'access_log': str(self.log),
                                       'access_log_format': 'json', 'max_body': '1000'}, **settings), listen=listen)

    def line(self, n=1):
        wait_until(lambda: self.log.exists() and self.log.read_text().count('\n') >= n, 'line %d' % n)
        return json.loads(self.log.read_text().splitlines()[n - 1])

    def metrics(self):
        return get(self.lb.admin, '/metrics', host=self.lb.admin).text

    def assert_rejected(self, status, reason, client='127.0.0.1'):
        """Checks that the request was rejected with STATUS and counted and logged once, and nothing else was."""
        line = self.line()
        assert (line['status'], line['outcome'], line['reason'], line['client']) == (status, 'rejected', reason, client)
        assert 'resumelb_client_rejected_total{reason="%s"} 1\n' % reason in self.metrics()
        assert 'resumelb_unrouted_total{outcome="rejected"} 1\n' in self.metrics()
        assert self.lb.json()['unrouted'] == {'rejected': 1}
        assert not self.worker.requests


@pytest.mark.parametrize('fields', [[], ['Expect: 100-continue']])
def test_a_body_that_states_it_is_too_large_is_413_at_its_head(world, fields):
    t = Start(world)
    with Client(t.lb.address) as c:
        c.send_raw('\r\n'.join(['POST /up HTTP/1.1', 'Host: a.example', 'Content-Length: 1001', *fields, '', '']).encode())
        r = c.receive()
        assert r.status == 413 and r.text == 'body too large' and not c.interim
        assert r['Connection'] == 'close' and c.sock.recv(1) == b''
    t.assert_rejected(413, 'body too large')
    assert (t.line()['method'], t.line()['target'], t.line()['host']) == ('POST', '/up', 'a.example')


@pytest.mark.parametrize('chunks', [
    [b'3e9\r\n'],                                                     # more than it may be, announced
    [b'3e8\r\n' + b'a' * 1000 + b'\r\n', b'1\r\n'],                   # one byte more than it may be
    [b'1f4\r\n' + b'a' * 500 + b'\r\n'] * 2 + [b'fffffffffff\r\n'],
])
def test_a_chunked_body_is_413_with_the_chunk_that_makes_it_too_large(world, chunks):
    t = Start(world)
    with Client(t.lb.address) as c:
        c.send_raw(b'POST /up HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n')
        for chunk in chunks:
            c.send_raw(chunk)
        assert c.receive().status == 413
    t.assert_rejected(413, 'body too large')


@pytest.mark.parametrize('fields, body', [
    (['Content-Length: 1000'], b'a' * 1000),
    (['Transfer-Encoding: chunked'], b'3e8\r\n' + b'a' * 1000 + b'\r\n0\r\n\r\n'),
])
def test_a_body_as_large_as_it_may_be_passes(world, fields, body):
    t = Start(world)
    with Client(t.lb.address) as c:
        c.send_raw('\r\n'.join(['POST / HTTP/1.1', 'Host: a', *fields, '', '']).encode() + body)
        assert c.receive().status == 200
    assert t.worker.requests[-1][1] == b'a' * 1000


def test_a_client_that_continues_to_send_after_a_413_still_reads_it(world):
    t = Start(world)
    with Client(t.lb.address) as c:
        c.send_raw(b'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n' + b'a' * 200000)
        assert c.receive().status == 413
    t.assert_rejected(413, 'body too large')


def test_an_expectation_that_is_none_is_417(world):
    t = Start(world)
    with Client(t.lb.address) as c:
        c.send('POST', headers=[('Expect', '200-ok')], body=b'abc')
        assert c.receive().status == 417
    t.assert_rejected(417, 'Expect other than 100-continue')


def test_large_bodies_and_expectations_over_http2_are_413_and_417(world):
    pair, port = Pair(world.directory, 'cert', ['a.example']), free_port()
    t = Start(world, listen=[{'address': '127.0.0.1:%d' % port, 'tls': pair.entry, 'http2': True}])

    def curl(*args, data=b''):
        r = subprocess.run(['curl', '-sS', '--http2', '--max-time', str(LIMIT), '--cacert', pair.cert, '--resolve',
                            'a.example:%d:127.0.0.1' % port, '--data-binary', '@-', *args, '-o', '/dev/null', '-w', '%{http_code}',
                            'https://a.example:%d/' % port], input=data, capture_output=True)
        return r.stdout.decode()
    assert curl(data=b'a' * 1000) == '200'
    assert curl(data=b'a' * 1001) == '413'
    assert curl('-H', 'Expect: 200-ok') == '417'
    # Each loop writes its own log lines, so that their order may differ.
    reasons = {t.line(n)['reason'] for n in (3, 2, 1)}
    assert {'body too large', 'Expect other than 100-continue'} < reasons


def test_100_continue_is_reported_before_the_body_comes(world):
    t = Start(world)
    with Client(t.lb.address) as c:
        c.send_raw(b'POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n')
        assert c.head()[1] == 100
        c.send_raw(b'abc')
        assert c.receive().status == 200
    head, body = t.worker.requests[-1]
    assert body == b'abc' and b'expect' not in head.lower()


@pytest.mark.parametrize('target', ['a.example:443', '/', 'http://a.example/'])
def test_connect_is_501_whatever_methods_states(world, target):
    t = Start(world)
    with Client(t.lb.address) as c:
        c.send('CONNECT', target, host='a.example')
        r = c.receive()
        assert r.status == 501 and r['Connection'] == 'close'
    t.assert_rejected(501, 'CONNECT, of which only a forward proxy has a use')


def test_trace_is_405_with_what_is_allowed(world):
    t = Start(world, methods=['GET', 'PUT'])
    r = t.lb.get('/', method='TRACE')
    assert r.status == 405 and r['Allow'] == 'GET, PUT'
    assert (t.line()['outcome'], t.line()['status']) == ('method-not-allowed', 405)


@pytest.mark.parametrize('method, target, host, line, authority', [
    ('GET', 'http://b.example/x?y', 'a.example', 'GET /x?y', 'b.example'),
    ('GET', 'https://b.example:444', 'a.example', 'GET /', 'b.example:444'),
    ('GET', 'HTTP://B.example?y', 'a.example', 'GET /?y', 'B.example'),
    ('OPTIONS', 'http://b.example', 'a.example', 'OPTIONS *', 'b.example'),
    ('OPTIONS', 'http://b.example:80/', 'a.example', 'OPTIONS /', 'b.example:80'),
])
def test_a_target_in_full_replaces_host_for_workers_and_classes(world, method, target, host, line, authority):
    t = Start(world, classifier='host')
    with Client(t.lb.address) as c:
        assert c.request(method, target, host).status == 200
    head = t.worker.requests[-1][0].decode().split('\r\n')
    assert head[0] == line + ' HTTP/1.1'
    assert [f.lower() for f in head if f.lower().startswith('host:')] == ['host: ' + authority.lower()]
    assert 'resumelb-class: b.example' in [f.lower() for f in head]
    assert t.line()['host'] == authority


def test_a_target_in_full_finds_the_application_of_its_host(world):
    a, b = world.scripted(serve(lambda c, h, b: c.respond(b'a'))), world.scripted(serve(lambda c, h, b: c.respond(b'b')))
    lb = world.resumelb({'applications': {
        'a': {'hosts': ['a.example'], 'workers': [{'address': a.address}]},
        'b': {'hosts': ['b.example'], 'workers': [{'address': b.address}]}}})
    assert lb.get('http://b.example/', host='a.example').body == b'b'
    assert lb.get('http://a.example/', host='b.example').body == b'a'


@pytest.mark.parametrize('request_line, host', [
    ('GET http://a.example/ HTTP/1.1', []),
    ('GET http://a.example/ HTTP/1.1', ['Host: a.example', 'Host: a.example']),
    ('GET http://a.example/ HTTP/1.1', ['Host: a/b']),
    ('GET http://user@a.example/ HTTP/1.1', ['Host: a.example']),
    ('GET ftp://a.example/ HTTP/1.1', ['Host: a.example']),
    ('GET http:///x HTTP/1.1', ['Host: a.example']),
])
def test_an_invalid_target_or_host_is_400(world, request_line, host):
    t = Start(world)
    with Client(t.lb.address) as c:
        c.send_raw('\r\n'.join([request_line, *host, '', '']).encode())
        assert c.receive().status == 400
        with pytest.raises(CutShort):
            c.receive()
    assert not t.worker.requests and t.line()['outcome'] == 'rejected'


@pytest.mark.parametrize('body', [b'Content-Length: 1000\r\n\r\nabc', b'Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n'])
def test_an_upload_that_is_broken_off_leaves_a_line_and_a_figure(world, body):
    t = Start(world)
    with Client(t.lb.address) as c:
        c.send_raw(b'POST /upload HTTP/1.1\r\nHost: a.example\r\n' + body)
    t.assert_rejected(400, 'client ended before its request was complete')


def test_an_upload_over_http2_that_is_broken_off_leaves_a_line_too(world):
    pair, port = Pair(world.directory, 'cert', ['a.example']), free_port()
    t = Start(world, listen=[{'address': '127.0.0.1:%d' % port, 'tls': pair.entry, 'http2': True}])
    with Http2(port) as c:
        c.send(frame(HEADERS, request(method='POST'), END_HEADERS, 1) + frame(DATA, b'abc', 0, 1) + frame(RST_STREAM, b'\0\0\0\x08', 0, 1))
        c.send(frame(HEADERS, request(method='POST'), END_HEADERS, 3) + frame(DATA, b'abc', 0, 3)).ping()
    reason = 'client ended before its request was complete'
    wait_until(lambda: 'resumelb_client_rejected_total{reason="%s"} 2\n' % reason in t.metrics(), 'both to be counted')
    assert [t.line(n)['status'] for n in (1, 2)] == [400, 400]


def test_the_line_of_what_is_no_request_has_a_dash_for_it(world):
    t = Start(world, access_log_format='combined')
    with Client(t.lb.address) as c:
        c.send_raw(b'\r\n\r\n')
        assert c.receive().status == 400
    wait_until(lambda: t.log.exists() and t.log.read_text().endswith('\n'), 'the line')
    assert re.match(r'127\.0\.0\.1 - - \[[^]]+\] "-" 400 0 "-" "-" ', t.log.read_text()), t.log.read_text()


@pytest.mark.parametrize('hosts, usual', [(['*.b.example', 'shop.example', 'c.example'], 'shop.example'), ([], None)])
def test_a_request_of_http_1_0_without_host_has_a_usable_one_at_the_worker(world, hosts, usual):
    worker = world.scripted(serve(hello))
    lb = world.resumelb({'applications': {'shop': {'workers': [worker.address], **({'hosts': hosts} if hosts else {})}}})
    with Client(lb.address) as c:
        c.send_raw(b'GET / HTTP/1.0\r\n\r\n')
        assert c.receive().status == 200
    (head, _), = worker.requests
    assert ('\r\nHost: %s\r\n' % (usual or lb.address)).encode() in head


def test_a_process_of_an_agent_gets_a_usable_host_too(world):
    front = '127.0.0.1:%d' % free_port()
    agent = TinyAgent(world, listen=[front]).wait_ready()
    for address in (front, agent.addresses[0]):
        with Client(address) as c:
            c.send_raw(b'GET / HTTP/1.0\r\n\r\n')
            r = c.receive()
            assert r.status == 200
            assert [v for n, v in json.loads(r.body)['headers'] if n == 'host'] == [address]
