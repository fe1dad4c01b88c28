# SPDX-License-Identifier: Apache-2.0
"""Methods and targets that are passed on, those to which the load balancer itself responds, and fields removed by Connection."""
import pytest
from support.base import free_port, wait_until
from support.certificates import Pair
from support.http import Client
from support.http2 import DATA, END_HEADERS, END_STREAM, HEADERS, Http2, frame, request
from support.scripted import hello, serve

DEFAULT = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'


def start(world, response=hello, **settings):
    w = world.scripted(serve(response))
    return w, world.resumelb(dict({'workers': [{'address': w.address}]}, **settings))


def ask(lb, lines):
    """Sends a request with exactly these lines. Returns the response."""
    with Client(lb.address) as c:
        c.send_raw('\r\n'.join([*lines, '', '']).encode())
        return c.receive()


@pytest.mark.parametrize('method', DEFAULT.replace('HEAD, ', '').split(', '))
def test_the_common_methods_pass(world, method):
    w, lb = start(world)
    assert ask(lb, [method + ' /x HTTP/1.1', 'Host: a.example']).status == 200
    assert w.requests[-1][0].startswith(method.encode() + b' /x HTTP/1.1\r\n')


@pytest.mark.parametrize('method', ['TRACE', 'PROPFIND', 'LOCK'])
def test_a_method_that_is_not_allowed_gets_the_list_of_allowed_ones(world, method):
    w, lb = start(world)
    r = ask(lb, [method + ' / HTTP/1.1', 'Host: a.example'])
    assert r.status == 405 and r['Allow'] == DEFAULT
    assert w.requests == []
    wait_until(lambda: lb.app()['outcomes']['method-not-allowed'] == 1, 'the account')


@pytest.mark.parametrize('method', ['BREW', 'get', 'X-ODD'])
def test_a_method_that_none_knows_is_not_implemented(world, method):
    w, lb = start(world)
    r = ask(lb, [method + ' / HTTP/1.1', 'Host: a.example'])
    assert r.status == 501 and r['Allow'] is None
    assert w.requests == []
    wait_until(lambda: lb.app()['outcomes']['method-unknown'] == 1, 'the account')


@pytest.mark.parametrize('method, status', [('PROPFIND', 405), ('BREW', 501)])
def test_no_upload_is_invited_for_a_method_that_is_not_allowed(world, method, status):
    w, lb = start(world)
    with Client(lb.address) as c:
        c.send_raw(b'%s / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n' % method.encode())
        r = c.receive()
        assert (r.status, c.interim, r['Connection']) == (status, [], 'close')
        c.send_raw(b'x' * 100000)   # a client that does not wait can still read the response
    assert w.requests == []


def test_no_upload_is_invited_over_http2_for_a_method_that_is_not_allowed(world, tmp_path):
    w = world.scripted(serve(hello))
    port = free_port()
    world.resumelb({'workers': [{'address': w.address}]}, listen=[
        {'address': '127.0.0.1:%d' % port, 'tls': Pair(tmp_path, 'front', ['test.example']).entry, 'http2': True}])
    with Http2(port) as c:
        for stream, end in ((1, False), (3, True)):
            c.send(frame(HEADERS, request(('expect', '100-continue'), method='PROPFIND'), END_HEADERS, stream))
            c.until_over(stream)
            assert c.streams[stream].status == '405' and len(c.streams[stream].heads) == 1
            c.send(frame(DATA, b'x' * 1000, END_STREAM if end else 0, stream))
        c.send(frame(HEADERS, request(), END_HEADERS | END_STREAM, 5))
        c.until_over(5)
        assert c.streams[5].status == '200' and c.goaway is None
    assert len(w.requests) == 1


def test_connect_never_passes(world):
    w, lb = start(world)
    assert ask(lb, ['CONNECT a.example:80 HTTP/1.1', 'Host: a.example:80']).status in (400, 405, 501)
    assert w.requests == []


def test_webdav_passes_where_it_is_configured_and_sighup_changes_it(world):
    w, lb = start(world, methods=['GET', 'PROPFIND', 'BREW'])

    def status(method):
        return ask(lb, [method + ' /dav HTTP/1.1', 'Host: a.example', 'Depth: 1']).status
    assert status('PROPFIND') == 200 and b'Depth: 1' in w.requests[-1][0]
    assert status('BREW') == 200
    assert status('POST') == 405
    lb.reload({'methods': ['GET', 'POST']})
    wait_until(lambda: status('POST') == 200, 'the new list')
    assert status('PROPFIND') == 405
    assert status('BREW') == 501


def test_options_that_may_go_no_farther_gets_a_response_here(world):
    w, lb = start(world)
    for target in ('/x', '*'):
        r = ask(lb, ['OPTIONS %s HTTP/1.1' % target, 'Host: a.example', 'Max-Forwards: 0'])
        assert r.status == 200 and r['Allow'] == DEFAULT and r.body == b''
    assert w.requests == []
    wait_until(lambda: lb.app()['outcomes']['responded-here'] == 2, 'the account')


def test_trace_that_may_go_no_farther_shows_the_request_without_its_secrets(world):
    w, lb = start(world, methods=['GET', 'TRACE'])
    r = ask(lb, ['TRACE /a?b HTTP/1.1', 'Host: a.example', 'Max-Forwards: 0', 'X-Seen: yes', 'Cookie: secret=1',
                 'Authorization: Basic c2VjcmV0', 'X-Forwarded-For: 1.2.3.4'])
    assert r.status == 200 and r['Content-Type'] == 'message/http'
    lines = r.body.decode().split('\r\n')
    assert lines[:2] == ['TRACE /a?b HTTP/1.1', 'Host: a.example']
    assert 'x-seen: yes' in lines
    assert b'secret' not in r.body and b'Basic' not in r.body and b'1.2.3.4' not in r.body
    assert w.requests == []


@pytest.mark.parametrize('method', ['OPTIONS', 'TRACE'])
def test_otherwise_it_continues_with_one_forward_less(world, method):
    w, lb = start(world, methods=['GET', 'OPTIONS', 'TRACE'])
    for sent, passed in (('7', '6'), ('1', '0'), ('999999999999999999999999', '255')):
        assert ask(lb, [method + ' / HTTP/1.1', 'Host: a', 'max-forwards: ' + sent]).status == 200
        assert w.requests[-1][0].lower().count(b'max-forwards') == 1
        assert b'max-forwards: %s\r\n' % passed.encode() in w.requests[-1][0] + b'\r\n'


@pytest.mark.parametrize('fields', [['Max-Forwards: x'], ['Max-Forwards: -1'], ['Max-Forwards: 1', 'Max-Forwards: 1']])
def test_a_max_forwards_that_is_no_number_is_rejected(world, fields):
    w, lb = start(world)
    assert ask(lb, ['OPTIONS / HTTP/1.1', 'Host: a', *fields]).status == 400
    assert w.requests == []


def test_max_forwards_has_no_effect_on_other_methods(world):
    w, lb = start(world)
    assert ask(lb, ['GET / HTTP/1.1', 'Host: a', 'Max-Forwards: 0']).status == 200
    assert b'Max-Forwards: 0' in w.requests[-1][0]


# ---- Connection ----

def test_fields_that_a_client_lists_in_connection_are_removed_but_never_ours(world):
    w, lb = start(world, response=lambda c, head, body: c.respond(body))
    r = ask(lb, ['POST / HTTP/1.1', 'Host: a.example', 'Content-Length: 0', 'X-Hop: 1', 'X-Hop2: 2', 'X-End: 3',
                 'Connection: X-Hop,host , content-length, x-forwarded-for, X-Forwarded-Proto',
                 'Connection: x-hop2, X-Forwarded-Host, Via, X-Request-ID, Resumelb-Class, transfer-encoding'])
    assert r.status == 200
    head = w.requests[-1][0].decode().lower() + '\r\n'
    assert 'x-hop' not in head and '\r\nconnection' not in head
    for line in ('host: a.example', 'content-length: 0', 'x-forwarded-for: 127.0.0.1', 'x-forwarded-proto: http',
                 'x-forwarded-host: a.example', 'resumelb-class: a.example', 'x-end: 3'):
        assert head.count('\r\n%s\r\n' % line) == 1, line
    assert '\r\nvia: ' in head and '\r\nx-request-id: ' in head


def test_a_client_behind_a_trusted_proxy_cannot_have_its_word_taken_back(world):
    for mode, passed in (('set', '192.0.2.9'), ('append', '192.0.2.9, 127.0.0.1'), ('off', '192.0.2.9')):
        w, lb = start(world, trusted_proxies=['loopback'], forwarded_for=mode)
        ask(lb, ['GET / HTTP/1.1', 'Host: a', 'X-Forwarded-For: 192.0.2.9', 'X-Forwarded-Proto: https',
                 'Connection: X-Forwarded-For, X-Forwarded-Proto, Forwarded'])
        head = w.requests[-1][0].decode().lower() + '\r\n'
        assert 'x-forwarded-for: %s\r\n' % passed in head
        assert 'x-forwarded-proto: https\r\n' in head
        lb.process.stop()


def test_fields_that_a_worker_lists_in_connection_are_removed_but_never_framing(world):
    def respond(c, head, body):
        c.respond(b'hello', headers=[('X-Hop', '1'), ('X-End', '2'), ('Keep-Alive', 'timeout=5'),
                                    ('Proxy-Authenticate', 'Basic'), ('Connection', 'x-hop, content-length, date, via')])
    _, lb = start(world, response=respond)
    r = ask(lb, ['GET / HTTP/1.1', 'Host: a'])
    assert r.status == 200 and r.body == b'hello' and r['Content-Length'] == '5' and r['X-End'] == '2'
    assert r['X-Hop'] is None and r['Keep-Alive'] is None and r['Proxy-Authenticate'] == 'Basic'
    assert r['Date'] and r['Via']


# ---- absolute form ----

def test_the_authority_of_an_absolute_target_becomes_the_host(world):
    w, lb = start(world)
    assert ask(lb, ['GET http://Paper.example:80/a?b=c HTTP/1.1', 'Host: paper.example:80']).status == 200
    head = w.requests[-1][0].decode()
    assert head.startswith('GET /a?b=c HTTP/1.1\r\n')
    assert head.count('Host: ') == 2, 'Host and X-Forwarded-Host'
    assert '\r\nHost: Paper.example:80\r\n' in head and 'X-Forwarded-Host: Paper.example:80' in head
    assert ask(lb, ['GET http://a.example HTTP/1.1', 'Host: a.example']).status == 200
    assert w.requests[-1][0].startswith(b'GET / HTTP/1.1\r\n')


def test_http10_may_have_an_absolute_target_without_a_host(world):
    w, lb = start(world)
    assert ask(lb, ['GET http://a.example/x HTTP/1.0']).status == 200
    assert b'\r\nHost: a.example\r\n' in w.requests[-1][0]
