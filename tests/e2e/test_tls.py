# SPDX-License-Identifier: Apache-2.0
"""TLS on a listener, with HTTP/2 by ALPN unless it is switched off."""
import ssl
import subprocess

import pytest
from support.base import LIMIT, free_port
from support.certificates import Pair
from support.http import Client, connect
from support.scripted import hello, serve


@pytest.fixture
def certificate(tmp_path):
    pair = Pair(tmp_path, 'site', ['test.example'])
    return pair.cert, pair.key


def tls_client(address, certificate, alpn):
    context = ssl.create_default_context(cafile=str(certificate[0]))
    context.set_alpn_protocols(alpn)
    return context.wrap_socket(connect(address), server_hostname='test.example')


def curl(*args):
    return subprocess.run(['curl', '-sS', '--max-time', str(LIMIT), *args], capture_output=True, text=True)


def test_tls_and_http2_are_what_the_listener_states(world, certificate):
    w = world.scripted(serve(lambda c, h, b: c.respond(h.split(b' ')[0] + b' ' + b.upper(), headers=[('Connection-X', '1')])))
    plain_h1, with_h2 = free_port(), free_port()
    tls = {'certificate': str(certificate[0]), 'key': str(certificate[1])}
    lb = world.resumelb({'workers': [{'address': w.address}]}, listen=[
        {'address': '127.0.0.1:%d' % plain_h1, 'tls': tls, 'http2': False},
        {'address': '127.0.0.1:%d' % with_h2, 'tls': tls}])

    s = tls_client('127.0.0.1:%d' % plain_h1, certificate, ['h2', 'http/1.1'])
    assert s.selected_alpn_protocol() == 'http/1.1' and s.version() == 'TLSv1.3'
    with Client(None, sock=s) as c:
        for _ in range(3):
            assert c.request().body == b'GET '
        assert c.request('POST', body=b'abc').body == b'POST ABC'
    head = w.requests[-1][0].lower()
    assert b'x-forwarded-proto: https' in head

    s = tls_client('127.0.0.1:%d' % with_h2, certificate, ['h2', 'http/1.1'])
    assert s.selected_alpn_protocol() == 'h2'
    s.close()
    url = 'https://test.example:%d' % with_h2
    where = ['--cacert', str(certificate[0]), '--resolve', 'test.example:%d:127.0.0.1' % with_h2, '--http2']
    r = curl(*where, '-d', 'a' * 100_000, '-w', ' %{http_version} %{http_code}', url + '/x')
    assert r.stdout == 'POST ' + 'A' * 100_000 + ' 2 200', r.stderr
    r = curl(*where, '-I', url + '/x')
    assert 'HTTP/2 200' in r.stdout
    # many concurrent requests on one connection
    r = curl(*where, '--parallel', *[a for i in range(30) for a in (url + '/%d' % i, '-o', '/dev/null')],
             '-w', '%{http_code}\n')
    assert r.stdout.split() == ['200'] * 30, r.stdout + r.stderr


def test_old_protocols_are_rejected(world, certificate):
    w = world.scripted(serve(hello))
    port = free_port()
    world.resumelb({'workers': [{'address': w.address}]}, listen=[
        {'address': '127.0.0.1:%d' % port, 'tls': {'certificate': str(certificate[0]), 'key': str(certificate[1])}}])
    r = subprocess.run(['openssl', 's_client', '-connect', '127.0.0.1:%d' % port, '-tls1_1',
                        '-cipher', 'ALL:@SECLEVEL=0'], capture_output=True, text=True, input='', timeout=LIMIT)
    assert r.returncode != 0
