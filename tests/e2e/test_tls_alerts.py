# SPDX-License-Identifier: Apache-2.0
"""openssl s_client: the alerts of handshakes that fail, and the handshakes that succeed."""
import re
import subprocess

import pytest
from support.base import LIMIT, free_port
from support.certificates import Pair
from support.scripted import hello, serve

REQUEST = 'GET / HTTP/1.1\r\nHost: first.example\r\nConnection: close\r\n\r\n'
RENEGOTIATE = 'R\n'
OLD = ['-cipher', 'ALL:@SECLEVEL=0']        # without it the client itself does not support the version, or the suite


@pytest.fixture(scope='module', autouse=True)
def versions():
    print(subprocess.run(['openssl', 'version'], capture_output=True, text=True, check=True, timeout=LIMIT).stdout.strip())


class Site:
    """Two certificates, selected by name. Listener `strict` requires client certificates, `plain_h1` does not offer HTTP/2."""

    def __init__(self, world):
        self.worker, self.directory = world.scripted(serve(hello)), world.directory
        self.first, self.second, self.authority = (Pair(world.directory, n, [n + '.example']) for n in ('first', 'second', 'authority'))
        both = {'certificates': [self.first.entry, self.second.entry]}
        tls = {'open': (both, True), 'http1': (both, False),
               'strict': ({**both, 'client_ca': str(self.authority.cert), 'client_verify': 'required'}, True),
               'new': ({**both, 'min_version': '1.3'}, True)}
        self.addresses = {name: '127.0.0.1:%d' % free_port() for name in tls}
        self.lb = world.resumelb({'workers': [self.worker.address]}, listen=[
            {'address': self.addresses[name], 'tls': t, 'http2': http2} for name, (t, http2) in tls.items()])

    def __call__(self, *options, listener='open', say=REQUEST, name='first.example'):
        names = ['-servername', name] if name else ['-noservername']
        # With -ign_eof it runs until the server closes, and does not interpret a line R as a command.
        stays = [] if say in (RENEGOTIATE, '') else ['-ign_eof']
        return subprocess.run(['openssl', 's_client', '-connect', self.addresses[listener], *names, *stays, *map(str, options)],
                              input=say, capture_output=True, text=True, errors='replace', timeout=LIMIT)

    def serves(self):
        r = self('-tls1_3')
        return 'HTTP/1.1 200 OK' in r.stdout and self.lb.process.alive()


@pytest.fixture
def site(world):
    return Site(world)


def alert_of(r):
    """The number of the alert that ended the connection, or None if there was none."""
    if 'ssl3_read_bytes:no renegotiation' in r.stderr:      # a warning, which s_client treats as fatal
        return NO_RENEGOTIATION
    found = re.findall(r'SSL alert number (\d+)', r.stderr)
    return int(found[0]) if found else None


PROTOCOL_VERSION, HANDSHAKE_FAILURE, NO_RENEGOTIATION, CERTIFICATE_REQUIRED, NO_APPLICATION_PROTOCOL = 70, 40, 100, 116, 120
UNKNOWN_CA = 48

ALERTS = [
    ('TLS 1.1', ['-tls1_1', *OLD], {}, PROTOCOL_VERSION),
    ('TLS 1.0', ['-tls1', *OLD], {}, PROTOCOL_VERSION),
    ('TLS 1.2 where 1.3 is the least', ['-tls1_2'], {'listener': 'new'}, PROTOCOL_VERSION),
    ('an unknown application protocol', ['-alpn', 'foo'], {}, NO_APPLICATION_PROTOCOL),
    ('an unknown application protocol in TLS 1.2', ['-alpn', 'foo', '-tls1_2'], {}, NO_APPLICATION_PROTOCOL),
    ('HTTP/2 alone where it is not offered', ['-alpn', 'h2'], {'listener': 'http1'}, NO_APPLICATION_PROTOCOL),
    ('a suite of TLS 1.2 without forward secrecy', ['-tls1_2', '-cipher', 'AES128-GCM-SHA256'], {}, HANDSHAKE_FAILURE),
    ('a suite of TLS 1.2 with CBC', ['-tls1_2', '-cipher', 'ECDHE-ECDSA-AES128-SHA'], {}, HANDSHAKE_FAILURE),
    ('a suite of TLS 1.2 for another key', ['-tls1_2', '-cipher', 'ECDHE-RSA-AES128-GCM-SHA256'], {}, HANDSHAKE_FAILURE),
    ('a suite of TLS 1.3', ['-tls1_3', *OLD, '-ciphersuites', 'TLS_AES_128_CCM_8_SHA256'], {}, HANDSHAKE_FAILURE),
    ('a group of TLS 1.2', ['-tls1_2', '-groups', 'brainpoolP256r1'], {}, HANDSHAKE_FAILURE),
    ('no certificate in TLS 1.3', ['-tls1_3'], {'listener': 'strict'}, CERTIFICATE_REQUIRED),
    ('no certificate in TLS 1.2', ['-tls1_2'], {'listener': 'strict'}, HANDSHAKE_FAILURE),
    ('a certificate of an unknown CA in TLS 1.3', ['-tls1_3', 'STRANGER'], {'listener': 'strict'}, UNKNOWN_CA),
    ('a certificate of an unknown CA in TLS 1.2', ['-tls1_2', 'STRANGER'], {'listener': 'strict'}, UNKNOWN_CA),
    ('renegotiation', ['-tls1_2'], {'say': RENEGOTIATE}, NO_RENEGOTIATION),
]


@pytest.mark.parametrize('options, more, alert', [pytest.param(*row[1:], id=row[0]) for row in ALERTS])
def test_a_handshake_that_fails_ends_with_an_alert(site, options, more, alert):
    if 'STRANGER' in options:
        options = [*options[:-1], '-cert', site.second.cert, '-key', site.second.key]
    r = site(*options, **more)
    assert 'HTTP/1.1 200' not in r.stdout and r.returncode != 0
    assert site.serves()
    assert len(site.worker.requests) == 1
    assert alert_of(r) == alert, r.stderr[-500:]


# ---- handshakes that succeed ----

VERSIONS = pytest.mark.parametrize('version', ['1.2', '1.3'])


def option(version):
    return '-tls' + version.replace('.', '_')


def is_served(r, version, how='New'):
    assert r.returncode == 0 and 'HTTP/1.1 200 OK' in r.stdout and r.stdout.rstrip().endswith(('hello', 'closed')), (r.stdout, r.stderr)
    assert re.search('^%s, TLSv%s, Cipher is ' % (how, re.escape(version)), r.stdout, re.M), r.stdout
    return True


def subject_of(r):
    """The common name of the server's certificate. Releases of openssl differ in spaces."""
    return re.search(r'^subject=CN ?= ?(.*)$', r.stdout, re.M)[1]


@VERSIONS
def test_a_version_that_is_offered(site, version):
    for more in ([], ['-cert', site.second.cert, '-key', site.second.key]):        # a certificate that is not requested
        r = site(option(version), *more)
        assert is_served(r, version) and 'Compression: NONE' in r.stdout
    # the requested certificate
    r = site(option(version), '-cert', site.authority.cert, '-key', site.authority.key, listener='strict')
    assert is_served(r, version) and b'X-SSL-Client-Verify: SUCCESS' in site.worker.requests[-1][0]


SUITES = {'1.2': ['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-AES256-GCM-SHA384', 'ECDHE-ECDSA-CHACHA20-POLY1305'],
          '1.3': ['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256']}


@VERSIONS
def test_each_suite_that_is_offered(site, version):
    for suite in SUITES[version]:
        r = site(option(version), '-cipher' if version == '1.2' else '-ciphersuites', suite)
        assert is_served(r, version) and 'Cipher is ' + suite in r.stdout


@pytest.mark.parametrize('alpn, chosen', [
    ('http/1.1', 'http/1.1'), ('http/1.1,h2', 'h2'), ('foo,http/1.1', 'http/1.1'), ('http/1.0,http/1.1', 'http/1.1'),
    ('http/1.0', 'http/1.0'), (None, None)])
@VERSIONS
def test_application_protocols(site, version, alpn, chosen):
    r = site(option(version), *(['-alpn', alpn] if alpn else []), say='' if chosen == 'h2' else REQUEST)
    if chosen != 'h2':
        assert is_served(r, version)
    assert ('ALPN protocol: %s\n' % chosen if chosen else 'No ALPN negotiated') in r.stdout, r.stdout


@VERSIONS
def test_the_server_name_chooses_the_certificate(site, version):
    for name in ('first', 'second'):
        r = site(option(version), name=name + '.example', say=REQUEST.replace('first', name))
        assert is_served(r, version) and subject_of(r) == name + '.example'
    for name in (None, 'third.example'):
        r = site(option(version), name=name)
        assert is_served(r, version) and subject_of(r) == 'first.example'


@VERSIONS
def test_a_session_is_resumed(site, version):
    kept = site.directory / 'session'
    assert is_served(site(option(version), '-sess_out', kept), version)
    for _ in range(3):                      # on either of two loops
        assert is_served(site(option(version), '-sess_in', kept), version, how='Reused')
    # not at a listener that requires a client certificate, which the session does not have
    r = site(option(version), '-sess_in', kept, listener='strict')
    assert 'HTTP/1.1 200' not in r.stdout


def test_early_data_is_not_taken(site):
    kept, early = site.directory / 'session', site.directory / 'early'
    early.write_text(REQUEST)
    r = site('-tls1_3', '-sess_out', kept)
    assert is_served(r, '1.3') and 'Max Early Data: 0' in r.stdout and 'Early data was not sent' in r.stdout
    r = site('-tls1_3', '-sess_in', kept, '-early_data', early)
    assert is_served(r, '1.3', how='Reused') and 'Early data was accepted' not in r.stdout
    assert len(site.worker.requests) == 2
