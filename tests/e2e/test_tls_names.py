# SPDX-License-Identifier: Apache-2.0
"""Several certificates on one listener: selection by name and by the client's capabilities; versions and suites; status 421."""
import re
import ssl
import subprocess

import h2.config
import h2.connection
import h2.events
import pytest
from support.base import LIMIT, free_port, wait_until
from support.certificates import Pair, blind_context, dial, rejected, shown
from support.http import Client, connect, get
from support.scripted import hello, serve


def start(world, tls, **listen):
    w = world.scripted(serve(hello))
    address = '127.0.0.1:%d' % free_port()
    lb = world.resumelb({'workers': [w.address]}, listen=[{'address': address, 'tls': tls, **listen}])
    return lb, address


def metric(lb, name):
    lines = get(lb.admin, '/metrics', host=lb.admin).text.splitlines()
    return int([line for line in lines if line.startswith('resumelb_' + name + ' ')][0].rsplit(' ', 1)[1])


@pytest.fixture
def pairs(world):
    return {name: Pair(world.directory, name, names) for name, names in (
        ('first', ['first.example', 'www.first.example']), ('wild', ['*.wild.example']),
        ('exact', ['shop.wild.example']), ('bad', ['*.example', 'f*.bad.example', '*']))}


def test_the_server_name_chooses_among_certificates(world, pairs):
    lb, address = start(world, {'certificates': [p.entry for p in pairs.values()]})
    expected = {
        'first.example': 'first', 'www.first.example': 'first', 'FIRST.Example': 'first', None: 'first',
        'a.wild.example': 'wild', 'A.Wild.EXAMPLE': 'wild', 'shop.wild.example': 'exact',
        # a wildcard is one complete label and does not match below a top-level domain: the default certificate is used
        'wild.example': 'first', 'a.b.wild.example': 'first', 'other.example': 'first', 'foo.bad.example': 'first',
    }
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        for name, which in expected.items():
            assert shown(address, name, blind_context(version)) == pairs[which].fingerprint, (name, version)
    wait_until(lambda: metric(lb, 'tls_handshakes_total{version="1.2"}') == len(expected), 'the handshakes to be counted')
    wait_until(lambda: metric(lb, 'tls_handshakes_total{version="1.3"}') == len(expected), 'the handshakes to be counted')


def test_a_client_gets_the_certificate_with_the_kind_of_key_it_supports(world):
    names = ['both.example', 'www.both.example']
    rsa = Pair(world.directory, 'rsa', names, 'rsa')
    ec = Pair(world.directory, 'ec', names[::-1])
    other = Pair(world.directory, 'other', ['other.example'])
    lb, address = start(world, {'certificates': [other.entry, rsa.entry, ec.entry]})
    for name in names:
        for suite, pair in (('ECDHE-RSA-AES128-GCM-SHA256', rsa), ('ECDHE-ECDSA-AES128-GCM-SHA256', ec)):
            assert shown(address, name, blind_context(ssl.TLSVersion.TLSv1_2, ciphers=suite)) == pair.fingerprint
    # in TLS 1.3 the signature algorithms decide; releases of openssl differ in the signature's name
    for algorithm, kind in (('rsa_pss_rsae_sha256', 'rsa.pss.*'), ('ecdsa_secp256r1_sha256', 'ecdsa.*')):
        r = subprocess.run(['openssl', 's_client', '-connect', address, '-servername', names[0], '-tls1_3',
                            '-sigalgs', algorithm], capture_output=True, text=True, input='', timeout=LIMIT)
        assert re.search('^Peer signature type: %s$' % kind, r.stdout, re.I | re.M), r.stdout + r.stderr
    # both have the same names and count as one certificate: a request for the other name is not misdirected
    with Client(None, sock=dial(address, names[0])) as c:
        assert c.request(host=names[1]).status == 200


def test_a_request_for_another_certificates_host_is_misdirected(world, pairs):
    lb, address = start(world, {'certificates': [p.entry for p in pairs.values()]})
    with Client(None, sock=dial(address, 'first.example')) as c:
        assert c.request(host='first.example').status == 200
        assert c.request(host='www.first.example:%s' % address.rsplit(':')[1]).status == 200
        assert c.request(host='a.wild.example').status == 421
        assert c.request(host='SHOP.wild.example.:443').status == 421
        # a host of no certificate is not misdirected
        assert c.request(host='unknown.example').status == 200
        assert c.request(host='127.0.0.1').status == 200
        assert c.request(host='[::1]:443').status == 200
        assert c.request(host='first.example').status == 200
    assert lb.json()['unrouted'] == {'misdirected': 2}
    with Client(None, sock=dial(address, 'a.wild.example')) as c:
        assert c.request(host='b.wild.example').status == 200
        assert c.request(host='first.example').status == 421


def test_http2_connections_get_421_per_request(world, pairs):
    lb, address = start(world, {'certificates': [p.entry for p in pairs.values()]}, http2=True)
    context = blind_context()
    context.set_alpn_protocols(['h2'])
    sock = dial(address, 'first.example', context)
    conn = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding='utf-8'))
    conn.initiate_connection()
    statuses = {}
    for stream, host in ((1, 'first.example'), (3, 'a.wild.example'), (5, 'www.first.example')):
        conn.send_headers(stream, [(':method', 'GET'), (':path', '/'), (':scheme', 'https'), (':authority', host)],
                          end_stream=True)
    sock.sendall(conn.data_to_send())
    while len(statuses) < 3:
        data = sock.recv(65536)
        assert data
        for event in conn.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                statuses[event.stream_id] = dict(event.headers)[':status']
        sock.sendall(conn.data_to_send())
    sock.close()
    assert statuses == {1: '200', 3: '421', 5: '200'}


def test_one_certificate_serves_every_host(world, pairs):
    lb, address = start(world, pairs['first'].entry)
    with Client(None, sock=dial(address, 'first.example')) as c:
        assert c.request(host='a.wild.example').status == 200


def test_versions_and_suites_are_what_is_configured(world, pairs):
    lb, address = start(world, {**pairs['first'].entry, 'min_version': '1.3',
                                'ciphersuites': 'TLS_AES_128_GCM_SHA256'})
    assert rejected(address, context=blind_context(ssl.TLSVersion.TLSv1_2))
    with dial(address, None) as s:
        assert s.version() == 'TLSv1.3' and s.cipher()[0] == 'TLS_AES_128_GCM_SHA256'
    wait_until(lambda: metric(lb, 'tls_failures_total{reason="version"}') == 1, 'the failure to be counted')
    # a reload changes the suites for new connections
    lb.config['listen'][0]['tls'] = {**pairs['first'].entry, 'ciphers': 'ECDHE-ECDSA-AES256-GCM-SHA384',
                                     'ciphersuites': 'TLS_CHACHA20_POLY1305_SHA256'}
    lb.reload()
    wait_until(lambda: not rejected(address, context=blind_context(ssl.TLSVersion.TLSv1_2)), 'TLS 1.2')
    with dial(address, None, blind_context(ssl.TLSVersion.TLSv1_2)) as s:
        assert s.cipher()[0] == 'ECDHE-ECDSA-AES256-GCM-SHA384'
    with dial(address, None) as s:
        assert s.cipher()[0] == 'TLS_CHACHA20_POLY1305_SHA256'
    assert rejected(address, context=blind_context(ssl.TLSVersion.TLSv1_2, ciphers='ECDHE-ECDSA-AES128-GCM-SHA256'))
    wait_until(lambda: metric(lb, 'tls_failures_total{reason="nothing-in-common"}') >= 1, 'the failure to be counted')


def test_renegotiation_is_rejected(world, pairs):
    lb, address = start(world, pairs['first'].entry)
    r = subprocess.run(['openssl', 's_client', '-connect', address, '-tls1_2'], capture_output=True, text=True,
                       input='R\n', timeout=LIMIT)
    # only one handshake, then the connection ends
    assert 'RENEGOTIATING' in r.stderr and r.returncode != 0, r.stdout + r.stderr
    assert 'Compression: NONE' in r.stdout


def test_clients_that_close_or_distrust_the_certificate_are_counted_by_reason(world, pairs):
    lb, address = start(world, pairs['first'].entry)
    assert rejected(address, 'first.example', ssl.create_default_context())
    wait_until(lambda: metric(lb, 'tls_failures_total{reason="rejected-by-client"}') == 1, 'the rejection')
    connect(address).close()
    wait_until(lambda: metric(lb, 'tls_failures_total{reason="closed"}') == 1, 'the client that closed')


@pytest.mark.parametrize('tls,complaint', [
    ({'certificates': []}, '1 to 256'),
    ({'certificates': [{'certificate': 'CERT'}]}, 'key is required'),
    ({'certificates': [{'certificate': 'CERT', 'key': 'KEY'}, {'certificate': 'CERT', 'key': 'OTHER'}]}, 'OTHER: '),
    ({'certificate': 'CERT', 'key': 'KEY', 'certificates': [{'certificate': 'CERT', 'key': 'KEY'}]}, 'either'),
    ({'certificate': 'CERT', 'key': 'KEY', 'ciphers': 'none-such'}, 'ciphers: '),
    ({'certificate': 'CERT', 'key': 'KEY', 'ciphersuites': 'TLS_NONE'}, 'ciphersuites: '),
    ({'certificate': 'CERT', 'key': 'KEY', 'min_version': '1.1'}, 'min_version'),
], ids=['none', 'no key', 'wrong key', 'both', 'ciphers', 'ciphersuites', 'version'])
def test_unusable_certificates_are_rejected_with_their_place(world, pairs, tls, complaint):
    files = {'CERT': str(pairs['first'].cert), 'KEY': str(pairs['first'].key), 'OTHER': str(pairs['wild'].key)}

    def fill(value):
        if isinstance(value, dict):
            return {k: fill(v) for k, v in value.items()}
        if isinstance(value, list):
            return [fill(v) for v in value]
        return files.get(value, value)
    lb = world.resumelb({'workers': ['127.0.0.1:1']}, wait=False,
                        listen=[{'address': '127.0.0.1:%d' % free_port(), 'tls': fill(tls)}])
    assert lb.process.wait() == 1
    lines = [line for line in lb.process.output().splitlines() if files.get(complaint[:-2], complaint) in line]
    assert lines and all(line.startswith(str(lb.path) + ':1:') for line in lines), lb.process.output()
