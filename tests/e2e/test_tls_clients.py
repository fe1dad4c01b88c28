# SPDX-License-Identifier: Apache-2.0
"""Client certificates: which clients are accepted, and the header fields for workers, which clients cannot forge."""
import ssl

import pytest
from support.base import free_port, wait_until
from support.certificates import Pair, blind_context, dial, key_options, make_once, openssl
from support.http import Client, CutShort, connect, get
from support.scripted import hello, serve

FORGED = [('X-SSL-Client-S-DN', 'CN=forged'), ('x_ssl_client_verify', 'SUCCESS'), ('X-Ssl_Client-Anything', '1')]
VERSIONS = pytest.mark.parametrize('version', [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=['1.2', '1.3'])


def issue(directory, authority, name, subject):
    cert, key = directory / (name + '.pem'), directory / (name + '-key.pem')
    make_once(cert, key, (authority.cert.read_bytes(), subject), lambda: openssl(
        'req', '-x509', *key_options('ec'), '-nodes', '-keyout', key, '-out', cert, '-days', '2', '-subj', subject, '-utf8',
        '-CA', authority.cert, '-CAkey', authority.key, '-addext', 'basicConstraints=critical,CA:FALSE'))
    return cert, key


class Site:
    def __init__(self, world, verify, **settings):
        self.worker = world.scripted(serve(hello))
        self.authority = Pair(world.directory, 'authority', ['authority.example'])
        self.stranger = Pair(world.directory, 'stranger', ['stranger.example'])
        self.server = Pair(world.directory, 'server', ['site.example'])
        self.address, self.plain = ('127.0.0.1:%d' % free_port() for _ in range(2))
        self.tls = {**self.server.entry, 'client_ca': str(self.authority.cert), 'client_verify': verify}
        self.lb = world.resumelb(dict({'workers': [self.worker.address]}, **settings), listen=[
            {'address': self.address, 'tls': self.tls}, {'address': self.plain}])

    def ask(self, context, headers=FORGED):
        """Sends a request. Returns the certificate fields that the worker received."""
        with Client(None, sock=dial(self.address, None, context)) as c:
            assert c.request(headers=headers).status == 200
        return self.told()

    def told(self):
        lines = self.worker.requests[-1][0].decode().splitlines()
        return sorted(line for line in lines if line.lower().replace('_', '-').startswith('x-ssl-client'))

    def rejects(self, context):
        # in TLS 1.3 a client receives the alert after its handshake
        try:
            with Client(None, sock=dial(self.address, None, context)) as c:
                c.request()
        except (OSError, CutShort):
            return True
        return False


def with_certificate(pair, version=None):
    context = blind_context(version)
    context.load_cert_chain(*map(str, pair))
    return context


@VERSIONS
def test_a_verified_subject_is_sent_to_workers(world, version):
    site = Site(world, 'optional')
    pair = issue(world.directory, site.authority, 'ann', '/O=Caf\u00e9, Inc./CN=Ann "A" <a>')
    told = site.ask(with_certificate(pair, version))
    assert told == ['X-SSL-Client-S-DN: CN=Ann \\"A\\" \\<a\\>,O=Caf\\C3\\A9\\, Inc.', 'X-SSL-Client-Verify: SUCCESS']
    assert site.ask(blind_context(version)) == ['X-SSL-Client-Verify: NONE']
    # forged fields are also removed at a plain listener
    assert get(site.plain, headers=FORGED).status == 200 and site.told() == []


@VERSIONS
def test_a_client_certificate_that_is_not_verified_is_rejected(world, version):
    site = Site(world, 'optional')
    stranger = issue(world.directory, site.stranger, 'eve', '/CN=eve')
    assert site.rejects(with_certificate(stranger, version))
    long = issue(world.directory, site.authority, 'long', ''.join('/OU=%02d%s' % (i, 'x' * 60) for i in range(20)))
    assert site.rejects(with_certificate(long, version))
    assert site.worker.requests == []
    wait_until(lambda: 'resumelb_tls_failures_total{reason="client-certificate"} 2\n' in get(
        site.lb.admin, '/metrics', host=site.lb.admin).text, 'the failures to be counted')


@VERSIONS
def test_a_required_certificate_is_required(world, version):
    site = Site(world, 'required')
    assert site.rejects(blind_context(version))
    assert site.worker.requests == []
    pair = issue(world.directory, site.authority, 'ann', '/CN=ann')
    assert site.ask(with_certificate(pair, version)) == ['X-SSL-Client-S-DN: CN=ann', 'X-SSL-Client-Verify: SUCCESS']


@VERSIONS
def test_a_resumed_session_has_its_certificate_until_the_authorities_change(world, version):
    site = Site(world, 'optional')
    context = with_certificate(issue(world.directory, site.authority, 'ann', '/CN=ann'), version)

    def visit(session):
        s = context.wrap_socket(connect(site.address), session=session)
        with Client(None, sock=s) as c:
            assert c.request().status == 200
            return s.session_reused, s.session
    resumed, session = visit(None)
    assert not resumed
    resumed, session = visit(session)
    assert resumed and site.told() == ['X-SSL-Client-S-DN: CN=ann', 'X-SSL-Client-Verify: SUCCESS']
    # after the removal of the CA, sessions with certificates that it has issued are rejected too
    requests = len(site.worker.requests)
    site.authority.cert.write_bytes(site.stranger.cert.read_bytes())
    wait_until(lambda: 'certificates-reloaded' in site.lb.process.output(), 'the change')
    with pytest.raises((OSError, CutShort)):
        visit(session)
    assert len(site.worker.requests) == requests


def test_only_a_trusted_proxy_states_a_certificate_and_not_where_one_is_verified(world):
    site = Site(world, 'optional', trusted_proxies=['loopback'])
    assert get(site.plain, headers=FORGED).status == 200
    assert site.told() == ['X-SSL-Client-S-DN: CN=forged', 'X-Ssl_Client-Anything: 1', 'x_ssl_client_verify: SUCCESS']
    assert site.ask(blind_context()) == ['X-SSL-Client-Verify: NONE']


def test_asking_for_certificates_of_no_authority_is_rejected(world):
    pair = Pair(world.directory, 'server', ['site.example'])
    bad = world.resumelb({'workers': ['127.0.0.1:1']}, name='bad', wait=False, listen=[
        {'address': '127.0.0.1:%d' % free_port(), 'tls': {**pair.entry, 'client_verify': 'required'}}])
    assert bad.process.wait() == 1 and 'go together' in bad.process.output()
