# SPDX-License-Identifier: Apache-2.0
"""What clients may not send, told by the raw bytes: refused with a clear answer, counted and logged."""
import json
import re
import urllib.request

import pytest
from support.base import free_port, wait_until
from support.http import Client
from support.scripted import serve
from test_tls import certificate, tls_client  # noqa: F401 (a fixture)

HEAD = b'POST /form HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n'


def echo(c, head, body):
    c.answer(head.split(b' ')[1] + b' ' + body)


def refused(lb, reason):
    with urllib.request.urlopen('http://%s/metrics' % lb.admin, timeout=20) as r:
        return int(re.search(r'^resumelb_client_refused_total\{reason="%s"\} (\d+)$' % re.escape(reason),
                             r.read().decode(), re.M)[1])


@pytest.mark.parametrize('body, reason', [
    (b'3zz\r\nabc\r\n0\r\n\r\n', 'malformed chunk size'),
    (b'3\nabc\r\n0\r\n\r\n', 'line that does not end in CRLF'),
    (b'3\r\nabcde\r\n0\r\n\r\n', 'chunk that does not end where its size says'),
    (b'3;' + b'x' * 5000 + b'\r\nabc\r\n0\r\n\r\n', 'malformed or too long chunk extension'),
    (b'3\r\nabc\r\n0\r\n folded\r\n\r\n', 'malformed trailer field'),
])
def test_a_chunked_body_that_two_could_read_differently_is_refused_and_logged(world, body, reason):
    w = world.scripted(serve(echo))
    log = world.folder / 'access.log'
    lb = world.resumelb({'workers': [w.address], 'access_log': str(log), 'access_log_format': 'json'})
    with Client(lb.address) as c:
        c.send_raw(HEAD + b'3;a=b\r\nabc\r\n0\r\nA: b\r\n\r\n' + HEAD + body)
        assert c.receive().body == b'/form abc'
        r = c.receive()
        assert r.status == 400 and r['Connection'] == 'close' and r.body == reason.encode()
        assert c._more() is False or c.sock.recv(1) == b''
    assert refused(lb, reason) == 1
    assert len(w.requests) == 1
    wait_until(lambda: len(log.read_text().splitlines()) == 2, 'two lines')
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    line, = [line for line in lines if line['outcome'] == 'refused']
    assert line['reason'] == reason and line['status'] == 400 and line['target'] == '/form'
    assert line['host'] == 'a.example' and line['client'] == '127.0.0.1' and line['worker'] == ''


def test_more_than_100_fields_are_431(world):
    w = world.scripted(serve(echo))
    lb = world.resumelb({'workers': [w.address]})
    for n, status in ((99, 200), (100, 431), (5000, 431)):
        with Client(lb.address) as c:
            c.send_raw(b'GET / HTTP/1.1\r\nHost: a\r\n' + b'X: y\r\n' * n + b'\r\n')
            assert c.receive().status == status, n
    assert refused(lb, 'too many header fields') == 2


def test_the_same_holds_behind_tls(world, certificate):  # noqa: F811
    w = world.scripted(serve(echo))
    port = free_port()
    lb = world.resumelb({'workers': [w.address]}, listen=[
        {'address': '127.0.0.1:%d' % port, 'tls': {'certificate': str(certificate[0]), 'key': str(certificate[1])}}])
    with Client(None, sock=tls_client('127.0.0.1:%d' % port, certificate, ['http/1.1'])) as c:
        c.send_raw(HEAD + b'1\r\nx\r\n0\r\n\r\n' + b'GET /next HTTP/1.1\r\nHost: a\r\n\r\n' + HEAD + b'1 \r\nx')
        assert c.receive().body == b'/form x'
        assert c.receive().body == b'/next '
        r = c.receive()
        assert r.status == 400 and r.body == b'malformed chunk size'
    assert refused(lb, 'malformed chunk size') == 1
