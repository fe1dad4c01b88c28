# SPDX-License-Identifier: Apache-2.0
"""OCSP responses are stapled while they are valid and current, and are re-read when their file changes."""
import datetime
import pathlib
import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509 import ocsp
from support.base import LIMIT, free_port, wait_until
from support.certificates import Pair, openssl
from support.scripted import hello, serve


class Authority(Pair):
    """A CA that issues certificates and OCSP responses for them."""

    def __init__(self, directory, name='authority'):
        super().__init__(directory, name, [name + '.example'])
        self.directory, self.index, self.serial = directory, directory / (name + '.index'), 0x1000
        self.index.write_text('')

    def issue(self, name, kind='ec'):
        options = ['-newkey', 'rsa:2048'] if kind == 'rsa' else ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1']
        self.serial += 1
        cert, key = (self.directory / ('%s-%s%s.pem' % (name, kind, part)) for part in ('', '-key'))
        openssl('req', '-x509', *options, '-nodes', '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=' + name,
                '-addext', 'subjectAltName=DNS:' + name, '-CA', self.cert, '-CAkey', self.key,
                '-set_serial', str(self.serial))
        with self.index.open('a') as f:
            # openssl requires unique subjects
            f.write('V\t491231235959Z\t\t%X\tunknown\t/CN=%s %s\n' % (self.serial, name, kind))
        leaf = self.directory / (cert.name + '.leaf')
        leaf.write_bytes(cert.read_bytes())
        cert.write_bytes(cert.read_bytes() + self.cert.read_bytes())
        return {'certificate': str(cert), 'key': str(key), 'ocsp': str(cert) + '.ocsp'}

    def expired_response(self, entry):
        # openssl's own responder cannot use a time in the past
        cert, issuer = (x509.load_pem_x509_certificate(pathlib.Path(p).read_bytes())
                        for p in (entry['certificate'] + '.leaf', self.cert))
        now = datetime.datetime.utcnow()
        builder = ocsp.OCSPResponseBuilder().add_response(
            cert, issuer, hashes.SHA256(), ocsp.OCSPCertStatus.GOOD, now - datetime.timedelta(days=2),
            now - datetime.timedelta(seconds=1), None, None).responder_id(ocsp.OCSPResponderEncoding.HASH, issuer)
        key = serialization.load_pem_private_key(self.key.read_bytes(), None)
        return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)

    def respond(self, entry):
        request, response = self.directory / 'request.der', self.directory / 'response.der'
        openssl('ocsp', '-issuer', self.cert, '-cert', entry['certificate'] + '.leaf', '-reqout', request, '-no_nonce')
        openssl('ocsp', '-index', self.index, '-CA', self.cert, '-rsigner', self.cert, '-rkey', self.key,
                '-reqin', request, '-respout', response, '-ndays', 1)
        return response.read_bytes()


def stapled(address, name, *more):
    """Returns whether a client that requests a response gets one, which openssl has verified as good."""
    r = subprocess.run(['openssl', 's_client', '-connect', address, '-servername', name, '-status', *more],
                       capture_output=True, text=True, input='', timeout=LIMIT)
    if 'OCSP response: no response sent' in r.stdout:
        return False
    assert 'OCSP Response Status: successful' in r.stdout and 'Cert Status: good' in r.stdout, r.stdout + r.stderr
    return True


@pytest.fixture
def authority(world):
    return Authority(world.directory)


def start(world, entries):
    w = world.scripted(serve(hello))
    address = '127.0.0.1:%d' % free_port()
    lb = world.resumelb({'workers': [w.address]}, listen=[{'address': address, 'tls': {'certificates': entries}}])
    return lb, address


def put(entry, response):
    with open(entry['ocsp'], 'wb') as f:
        f.write(response)


def test_a_good_response_is_stapled_for_its_certificate_alone(world, authority):
    one, two = authority.issue('one.example'), authority.issue('two.example')
    put(one, authority.respond(one))
    del two['ocsp']
    lb, address = start(world, [one, two])
    for version in ('-tls1_2', '-tls1_3'):
        assert stapled(address, 'one.example', version)
        assert not stapled(address, 'two.example', version)
    assert 'ocsp-not-stapled' not in lb.process.output()


def test_each_kind_of_key_has_its_own_ocsp_response(world, authority):
    rsa, ec = authority.issue('both.example', 'rsa'), authority.issue('both.example', 'ec')
    put(rsa, authority.respond(rsa))
    put(ec, authority.respond(rsa))
    lb, address = start(world, [rsa, ec])
    assert stapled(address, 'both.example', '-tls1_3', '-sigalgs', 'rsa_pss_rsae_sha256')
    assert not stapled(address, 'both.example', '-tls1_3', '-sigalgs', 'ecdsa_secp256r1_sha256')
    lb.process.wait_logged('of another certificate')


def test_the_response_follows_its_file(world, authority):
    one = authority.issue('one.example')
    lb, address = start(world, [one])
    lb.process.wait_logged('ocsp-not-stapled')
    assert not stapled(address, 'one.example')
    put(one, authority.respond(one))
    wait_until(lambda: stapled(address, 'one.example'), 'the response')
    put(one, authority.expired_response(one))
    wait_until(lambda: not stapled(address, 'one.example'), 'the expired one')
    lb.process.wait_logged('it has expired')


def test_wrong_responses_are_not_stapled_and_reported(world, authority):
    one, two = authority.issue('one.example'), authority.issue('two.example')
    good = authority.respond(one)
    stranger = Authority(world.directory, 'stranger')
    lb, address = start(world, [one])
    key = authority.key
    for response, why in ((b'junk', 'not an OCSP response'), (good[:-1], 'not an OCSP response'), (good + b'x', 'not an OCSP response'),
                        (authority.respond(two), 'of another certificate'), (b'', 'not an OCSP response')):
        before = lb.process.output().count('ocsp-not-stapled')
        put(one, response)
        wait_until(lambda: lb.process.output().count('ocsp-not-stapled') > before, why)
        lb.process.wait_logged(why)
        assert not stapled(address, 'one.example')
    # signed by another CA
    authority.cert, authority.key = stranger.cert, stranger.key
    put(one, authority.respond(one))
    wait_until(lambda: 'not signed for' in lb.process.output(), 'the rejection')
    assert not stapled(address, 'one.example')
    # revoked
    authority.cert, authority.key = world.directory / 'authority.pem', key
    authority.index.write_text(authority.index.read_text().replace('V\t491231235959Z\t\t', 'R\t491231235959Z\t260101000000Z\t'))
    put(one, authority.respond(one))
    wait_until(lambda: 'does not confirm the certificate' in lb.process.output(), 'the rejection')
    assert not stapled(address, 'one.example')
    put(one, good)
    wait_until(lambda: stapled(address, 'one.example'), 'the good one')
