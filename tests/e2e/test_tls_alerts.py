# SPDX-License-Identifier: Apache-2.0
"""What openssl s_client is told when a handshake cannot be finished, and that good handshakes are finished."""
import re
import subprocess

import pytest

from support.base import LIMIT, free_port
from support.certificates import Authority, Pair
from support.http import get
from support.scripted import hello, serve

NO_ALERT = 'libh2o closes the socket when a handshake fails, without the alert that OpenSSL has written'
BARE = pytest.mark.xfail(strict=True, reason=NO_ALERT)
REQUEST = b'GET / HTTP/1.1\r\nHost: test.example\r\nConnection: close\r\n\r\n'


@pytest.fixture(scope='module', autouse=True)
def version():
    print(subprocess.run(['openssl', 'version'], capture_output=True, text=True, check=True, timeout=LIMIT).stdout.strip())


class Front:
    def __init__(self, world, **tls):
        self.worker = world.scripted(serve(hello))
        self.port = free_port()
        self.address = '127.0.0.1:%d' % self.port
        self.pair = Pair(world.folder, 'front', ['test.example'])
        self.lb = world.resumelb({'workers': [self.worker.address]},
                                 listen=[{'address': self.address, 'tls': {**self.pair.entry, **tls}}])

    def s_client(self, *options, data=REQUEST):
        """What s_client prints, both ways, when it has sent DATA and the connection has ended."""
        out = subprocess.run(['openssl', 's_client', '-connect', self.address, '-servername', 'test.example', '-ign_eof',
                              *map(str, options)], input=data, capture_output=True, timeout=LIMIT, check=False)
        return (out.stdout + out.stderr).decode(errors='replace')

    def serves(self):
        return 'HTTP/1.1 200 OK' in self.s_client()

    def failures(self):
        lines = get(self.lb.admin, '/metrics', host=self.lb.admin).text.splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith('resumelb_tls_failures_total{'))


@pytest.fixture
def front(world):
    return Front(world)


# What the client offers, and the number of the alert that RFC 8446 section 6 (or RFC 5246 section 7.2) has for that.
FAILURES = [
    pytest.param(['-tls1_1', '-cipher', 'ALL:@SECLEVEL=0'], 'protocol version', 70, id='tls1.1', marks=BARE),
    pytest.param(['-alpn', 'foo'], 'no application protocol', 120, id='alpn', marks=BARE),
    pytest.param(['-tls1_2', '-cipher', 'AES128-SHA'], 'handshake failure', 40, id='cipher', marks=BARE),
    pytest.param(['-tls1_3', '-ciphersuites', 'TLS_AES_128_CCM_SHA256'], 'handshake failure', 40, id='ciphersuite', marks=BARE),
]


@pytest.mark.parametrize('options, text, number', FAILURES)
def test_a_failed_handshake_ends_with_its_alert(front, options, text, number):
    told = front.s_client(*options)
    assert front.failures() == 1
    assert front.serves()
    assert 'alert %s' % text in told and 'SSL alert number %d' % number in told, told


@pytest.mark.parametrize('options, number', [
    pytest.param(['-tls1_3'], 116, id='1.3: certificate_required', marks=BARE),
    pytest.param(['-tls1_2'], 40, id='1.2: handshake_failure', marks=BARE)])
def test_a_client_without_the_certificate_that_is_required(world, options, number):
    authority = Authority(world.folder)
    client = authority.sign('client', usage='clientAuth')
    front = Front(world, client_ca=str(authority.cert), verify='required')
    told = front.s_client(*options)
    assert 'HTTP/1.1 200' not in told
    assert 'HTTP/1.1 200 OK' in front.s_client(*options, '-cert', client.cert, '-key', client.key)
    assert 'SSL alert number %d' % number in told, told


@pytest.mark.xfail(strict=True, reason='the warning no_renegotiation does not arrive: the client cannot decrypt what it is sent instead')
def test_renegotiation_is_refused(front):
    """R at the start of what it reads asks s_client to renegotiate."""
    with subprocess.Popen(['openssl', 's_client', '-connect', front.address, '-servername', 'test.example', '-tls1_2'],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as client:
        client.stdin.write(b'R\n')
        client.stdin.flush()
        # It keeps its input open, and ends by what it is told.
        told = client.stdout.read().decode(errors='replace')
    assert 'RENEGOTIATING' in told and 'no renegotiation' in told, told
    assert front.serves()


@pytest.mark.parametrize('options, wanted', [
    (['-tls1_2'], ['TLSv1.2', 'Secure Renegotiation IS supported']),
    (['-tls1_3'], ['TLSv1.3']),
    (['-tls1_2', '-cipher', 'ECDHE-ECDSA-CHACHA20-POLY1305'], ['ECDHE-ECDSA-CHACHA20-POLY1305']),
    (['-tls1_3', '-ciphersuites', 'TLS_AES_128_GCM_SHA256'], ['TLS_AES_128_GCM_SHA256']),
    (['-alpn', 'http/1.1'], ['ALPN protocol: http/1.1']),
    (['-alpn', 'http/1.0'], ['ALPN protocol: http/1.0']),
    (['-alpn', 'foo,http/1.1'], ['ALPN protocol: http/1.1']),
    (['-tls1_3', '-groups', 'P-384'], ['TLSv1.3']),
])
def test_a_good_handshake(front, options, wanted):
    told = front.s_client(*options)
    assert 'HTTP/1.1 200 OK' in told, told
    for text in wanted:
        assert text in told, told
    assert front.failures() == 0


@pytest.mark.parametrize('version', ['-tls1_2', '-tls1_3'])
def test_a_session_is_resumed(front, version):
    session = front.pair.cert.parent / 'session.pem'
    assert 'New, TLSv1' in front.s_client(version, '-sess_out', session)
    assert re.search(r'^Reused, TLSv1', front.s_client(version, '-sess_in', session), re.M)


def test_early_data_is_not_taken(front):
    """What comes with it could be sent again by somebody else (RFC 8470)."""
    session, early = front.pair.cert.parent / 'session.pem', front.pair.cert.parent / 'early'
    early.write_bytes(REQUEST)
    told = front.s_client('-tls1_3', '-sess_out', session)
    assert 'Max Early Data: 0' in told
    told = front.s_client('-tls1_3', '-sess_in', session, '-early_data', early)
    assert 'Early data was accepted' not in told
