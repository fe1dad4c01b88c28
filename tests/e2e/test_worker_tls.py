# SPDX-License-Identifier: Apache-2.0
"""TLS to workers: which workers are trusted, which are not, and that TLS changes nothing else."""
import ssl
import subprocess
import threading

import pytest

from support.base import BIN, LIMIT, wait_until
from support.certificates import Authority, Pair, openssl
from support.http import Client, CutShort
from support.scripted import serve
from worker_tls_support import (NAME, Nginx, Pki, TlsGunicorn, balancer, reasons, stats, tls_script, tls_server)

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture
def pki(tmp_path):
    return Pki(tmp_path)


def test_a_gunicorn_is_served_over_tls_and_its_connections_are_kept(world, pki):
    g = TlsGunicorn(world, 'g', pki.worker, extra=['--worker-class=gthread', '--threads=2', '--keep-alive=30'])
    lb = balancer(world, g.address, worker_tls={'ca': pki.ca})
    for i in range(20):
        assert lb.get('/').status == 200
    body = b'x' * 3000000
    with Client(lb.address) as c:
        r = c.request('POST', '/post', body=body)
        assert r.status == 200 and b'"body": 3000000' in r.body
    s = stats(lb)
    assert s['worker_tls_connects'] == s['connects'] < 5
    assert s['connections_reused'] >= 15
    assert lb.workers()[g.address]['tls'] == '127.0.0.1'


def test_an_nginx_sends_large_bodies_over_tls_to_slow_and_fast_clients(world, pki):
    n = Nginx(world, pki.worker, location='root %s;' % world.directory)
    data = bytes(range(256)) * 40000
    (world.directory / 'large').write_bytes(data)
    lb = balancer(world, n.address, worker_tls={'ca': pki.ca, 'server_name': NAME}, response_buffer='64KiB')
    for _ in range(3):
        assert lb.get('/large').body == data
    with Client(lb.address) as c:
        c.send(target='/large')
        got = bytearray()
        while len(got) < len(data) or len(got) < got.index(b'\r\n\r\n') + 4 + len(data):
            part = c.sock.recv(3000)
            assert part
            got += part
        assert got[got.index(b'\r\n\r\n') + 4:] == data
    assert stats(lb)['worker_tls_failures'] == 0


@pytest.mark.parametrize('version', VERSIONS)
def test_the_next_connection_resumes_the_session_of_the_last(world, pki, version):
    def respond(c, head, body):
        c.respond(b'x', headers=[('Connection', 'close')])
        c.sock.unwrap()
        c.sock.close()
    seen = []
    w = tls_server(world, pki.worker, respond, version, seen)
    lb = balancer(world, w.address, worker_tls={'ca': pki.ca, 'server_name': NAME}, threads='1')
    for _ in range(6):
        assert lb.get('/').status == 200
    s = stats(lb)
    assert s['worker_tls_connects'] == len(seen) == 6
    assert s['worker_tls_resumed'] == 5


@pytest.mark.parametrize('version', VERSIONS)
def test_an_idle_connection_with_session_tickets_on_it_is_used_again(world, pki, version):
    seen = []
    w = tls_server(world, pki.worker, version=version, seen=seen)
    lb = balancer(world, w.address, worker_tls={'ca': pki.ca, 'server_name': NAME}, threads='1', unsafe_reuse_idle='60s')
    with Client(lb.address) as c:
        for i in range(10):     # POSTs use an idle connection only after one was successfully reused
            post = i > 1 and i % 2
            assert c.request('POST' if post else 'GET', '/', body=b'x' if post else None).status == 200
    assert len(seen) == 1
    assert (stats(lb)['connections_reused'], stats(lb)['retries_fresh']) == (9, 0)


def test_a_post_never_goes_out_on_an_idle_connection_that_its_worker_has_closed(world, pki):
    over = threading.Semaphore(0)

    def respond(c, head, body):
        c.respond(b'ok')
        if head.startswith(b'GET'):
            c.sock = c.sock.unwrap()     # only close_notify in both directions: the TCP connection stays open
            over.release()
            while c.sock.recv(1000):     # further data on it, plain or encrypted, gets no response
                pass
    w = tls_server(world, pki.worker, respond)
    lb = balancer(world, w.address, worker_tls={'ca': pki.ca}, threads='1', unsafe_reuse_idle='60s')
    for _ in range(5):
        assert lb.get('/').status == 200
        assert over.acquire(timeout=LIMIT)
        with Client(lb.address) as c:
            assert c.request('POST', '/', body=b'x').status == 200
    assert [h.split()[0] for h, _ in w.requests] == [b'GET', b'POST'] * 5


def test_bytes_behind_a_response_are_no_response_to_the_next_request(world, pki):
    def respond(c, head, body):
        c.write(b'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood' + b'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad')
    w = tls_server(world, pki.worker, respond)
    lb = balancer(world, w.address, worker_tls={'ca': pki.ca}, threads='1')
    assert [lb.get('/').body for _ in range(5)] == [b'good'] * 5


# ---- untrusted workers ----

def rejection(world, address, want, **config):
    lb = balancer(world, address, **config)
    assert lb.get('/').status in (502, 503)
    wait_until(lambda: want in ' '.join(reasons(lb)), '%s in the log' % want)
    assert stats(lb)['worker_tls_failures'] >= 1
    return lb


def test_a_certificate_of_another_authority_is_rejected(world, pki, tmp_path):
    other = Authority(tmp_path, 'other')
    w = tls_server(world, pki.worker)
    rejection(world, w.address, 'certificate rejected: unable to get local issuer certificate',
            worker_tls={'ca': str(other.cert)})
    assert w.requests == []


def test_without_a_ca_the_system_s_authorities_count(world, pki):
    w = tls_server(world, pki.worker)
    rejection(world, w.address, 'certificate rejected', worker_tls={})
    lb = world.resumelb({'workers': [w.address], 'worker_tls': {}}, name='trusting', env={'SSL_CERT_FILE': pki.ca})
    assert lb.get('/').body == b'scripted'


def test_an_expired_certificate_is_rejected(world, pki):
    old = pki.authority.sign('old', ['IP:127.0.0.1'], days=0)
    check = ['openssl', 'x509', '-in', old.cert, '-noout', '-checkend', '0']
    wait_until(lambda: subprocess.run(check, timeout=LIMIT).returncode == 1, 'the certificate to expire')
    w = tls_server(world, old)
    rejection(world, w.address, 'certificate rejected: certificate has expired', worker_tls={'ca': pki.ca})
    assert w.requests == []


def test_a_certificate_for_another_name_or_address_is_rejected(world, pki):
    elsewhere = pki.authority.sign('elsewhere', ['DNS:elsewhere.example', 'IP:127.0.0.9'])
    w = tls_server(world, elsewhere)
    lb = rejection(world, w.address, 'certificate rejected: IP address mismatch', worker_tls={'ca': pki.ca})
    lb.kill()
    lb = rejection(world, w.address, 'certificate rejected: hostname mismatch', worker_tls={'ca': pki.ca, 'server_name': NAME})
    assert w.requests == []
    lb.reload({'worker_tls': {'ca': pki.ca, 'server_name': 'elsewhere.example'}})
    wait_until(lambda: lb.get('/').status == 200, 'the right name')


def test_a_certificate_of_a_client_is_none_of_a_server(world, pki):
    client = pki.authority.sign('client', ['IP:127.0.0.1'], usage='clientAuth')
    w = tls_server(world, client)
    rejection(world, w.address, 'certificate rejected', worker_tls={'ca': pki.ca})


def test_a_self_signed_certificate_is_rejected_unless_nothing_is_verified(world, tmp_path, pki):
    alone = Pair(tmp_path, 'alone', ['alone.example'])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(alone.cert, alone.key)
    w = tls_server(world, None, context=context)
    lb = rejection(world, w.address, 'certificate rejected: self-signed certificate', worker_tls={'ca': pki.ca})
    lb.reload({'worker_tls': {'verify': False}})
    wait_until(lambda: lb.get('/').body == b'scripted', 'no verification')


def test_a_plain_worker_gets_nothing_in_the_clear(world, pki):
    got = []

    def script(c):
        got.append(c.sock.recv(65536))
        c.write(b'HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n')
    w = world.scripted(script)
    lb = rejection(world, w.address, 'the peer does not speak TLS', worker_tls={'ca': pki.ca})
    assert got and all(b'HTTP' not in g and g[0] == 22 for g in got)
    assert lb.workers()[w.address]['requests'] == 0


def test_a_worker_that_resets_in_the_handshake_is_left_for_another(world, pki):
    def script(c):
        c.sock.recv(10)
        c.reset()
    bad, good = world.scripted(script), tls_server(world, pki.worker)
    lb = balancer(world, bad.address, good.address, worker_tls={'ca': pki.ca})
    for _ in range(10):
        with Client(lb.address) as c:
            assert c.request('POST', '/', body=b'x').status == 200
    assert wait_until(lambda: reasons(lb), 'the reason in the log')[0] in ('Connection reset by peer', 'closed in the handshake')
    lb.process.wait_logged('reason=tls')      # ejected, as one that refuses connections


def test_a_handshake_that_hangs_ends_with_connect_timeout(world, pki):
    gate = threading.Event()
    bad, good = world.scripted(lambda c: gate.wait(LIMIT)), tls_server(world, pki.worker)
    lb = balancer(world, bad.address, good.address, worker_tls={'ca': pki.ca}, connect_timeout='5s')
    for _ in range(4):
        assert lb.get('/').body == b'scripted'
    gate.set()
    wait_until(lambda: 'handshake not completed in time' in reasons(lb), 'the reason in the log')
    lb.process.wait_logged('reason="connection timed out" setting=connect_timeout')


# ---- client certificates ----

def demanding(signed, ca, version):
    context = signed.server_context(version)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(ca)
    return context


@pytest.mark.parametrize('version', VERSIONS)
def test_a_worker_that_asks_for_our_certificate_gets_it_and_none_is_a_failure_with_its_reason(world, pki, version):
    ours = pki.authority.sign('balancer', usage='clientAuth')
    w = tls_server(world, None, context=demanding(pki.worker, pki.ca, version))
    lb = balancer(world, w.address, worker_tls={'ca': pki.ca})
    assert lb.get('/').status in (502, 503)
    assert w.requests == []
    wait_until(lambda: reasons(lb), 'the reason in the log')
    assert 'alert' in reasons(lb)[0] or 'requesting a client certificate' in reasons(lb)[0], reasons(lb)
    lb.reload({'worker_tls': {'ca': pki.ca, **ours.entry}})
    wait_until(lambda: lb.get('/').status == 200, 'our certificate')


# ---- ends ----

def close_delimited(notify):
    def respond(c, head, body):
        c.write(b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n' + b'x' * 5000)
        if notify:
            c.sock.unwrap()
        c.sock.close()
    return respond


@pytest.mark.parametrize('version', VERSIONS)
def test_a_response_to_the_close_is_whole_only_with_a_close_notify(world, pki, version):
    whole = tls_server(world, pki.worker, close_delimited(True), version)
    lb = balancer(world, whole.address, worker_tls={'ca': pki.ca})
    assert lb.get('/').body == b'x' * 5000
    cut = tls_server(world, pki.worker, close_delimited(False), version)
    lb = world.resumelb({'workers': [cut.address], 'worker_tls': {'ca': pki.ca}}, name='cut')
    with pytest.raises((CutShort, ConnectionError)):
        lb.get('/')


@pytest.mark.parametrize('version', VERSIONS)
def test_a_response_with_its_length_is_whole_without_a_close_notify(world, pki, version):
    def respond(c, head, body):
        c.respond(b'x' * 50000)
        c.sock.close()
    w = tls_server(world, pki.worker, respond, version)
    lb = balancer(world, w.address, worker_tls={'ca': pki.ca})
    for _ in range(10):
        assert lb.get('/').body == b'x' * 50000


def test_a_response_cut_within_its_length_is_passed_on_as_cut_short(world, pki):
    def respond(c, head, body):
        c.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n' + b'x' * 50000)
        c.sock.unwrap()
        c.sock.close()
    w = tls_server(world, pki.worker, respond)
    lb = balancer(world, w.address, worker_tls={'ca': pki.ca})
    with pytest.raises((CutShort, ConnectionError)):
        lb.get('/')


# ---- the rest of it ----

def test_a_websocket_goes_through_to_a_tls_worker_and_back(world, pki):
    def script(c):
        head, _ = c.read_request()
        assert b'Upgrade: websocket' in head or b'upgrade: websocket' in head
        c.write(b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nearly')
        total = 0
        while True:
            data = c.sock.recv(65536)
            if not data:
                return
            c.sock.sendall(data)
            total += len(data)
            if total == 2000003:
                c.sock.unwrap()
                return
    w = world.scripted(tls_script(pki.worker.server_context(), script))
    lb = balancer(world, w.address, worker_tls={'ca': pki.ca})
    with Client(lb.address) as c:
        c.send(headers=[('Upgrade', 'websocket'), ('Connection', 'Upgrade'), ('Sec-WebSocket-Version', '13'),
                        ('Sec-WebSocket-Key', 'AAAAAAAAAAAAAAAAAAAAAA==')])
        head = b''
        while b'\r\n\r\nearly' not in head:
            part = c.sock.recv(4096)
            assert part
            head += part
        assert head.startswith(b'HTTP/1.1 101')
        data = bytes(range(251)) * 7968 + b'end' + bytes(2000003 - 251 * 7968 - 3)
        got = bytearray()

        def read():
            while True:
                part = c.sock.recv(65536)
                if not part:
                    return
                got.extend(part)
        t = threading.Thread(target=read)
        t.start()
        c.sock.sendall(data)
        t.join(LIMIT)
        assert bytes(got) == data


def test_active_checks_speak_tls_too(world, pki):
    w = tls_server(world, pki.worker)
    lb = balancer(world, w.address, worker_tls={'ca': pki.ca}, health_check_path='/ok', health_check_interval='100ms')
    wait_until(lambda: any(h.startswith(b'GET /ok') for h, _ in w.requests), 'a check')
    assert lb.workers()[w.address]['state'] == 'ready'
    lb.reload({'worker_tls': {'ca': str(pki.worker.cert)}})      # not the CA of the worker's certificate
    wait_until(lambda: lb.workers()[w.address]['state'] == 'unhealthy', 'the check to fail')
    assert 'TLS failed' in lb.workers()[w.address]['check']['why']


def test_one_worker_may_be_an_exception_in_both_directions(world, pki):
    plain = world.scripted(serve(lambda c, h, b: c.respond(b'plain')))
    secret = tls_server(world, pki.worker)
    lb = world.resumelb({'workers': [{'address': plain.address, 'tls': 'off'}, {'address': secret.address, 'server_name': NAME}],
                         'pool': {'policy': 'classless'}, 'worker_tls': {'ca': pki.ca}})
    assert {lb.get('/').body for _ in range(10)} == {b'plain', b'scripted'}
    assert lb.workers()[secret.address]['tls'] == NAME and 'tls' not in lb.workers()[plain.address]
    lb.kill()
    lb = world.resumelb({'workers': [plain.address, {'address': secret.address, 'tls': 'on'}],
                         'pool': {'policy': 'classless'}}, name='one', env={'SSL_CERT_FILE': pki.ca})
    assert {lb.get('/').body for _ in range(10)} == {b'plain', b'scripted'}


def test_the_server_name_is_sent_and_a_host_name_of_a_worker_is_its_own(world, pki):
    asked = []
    context = pki.authority.sign('local', ['DNS:localhost']).server_context()
    context.sni_callback = lambda sock, name, ctx: asked.append(name)
    w = tls_server(world, None, context=context)
    lb = balancer(world, 'localhost:%s' % w.address.rpartition(':')[2], worker_tls={'ca': pki.ca})
    assert lb.get('/').body == b'scripted'
    assert set(asked) == {'localhost'}


def test_authorities_that_change_on_disk_count_at_once_and_sessions_of_before_do_not(world, pki, tmp_path):
    other = Authority(tmp_path, 'other')
    theirs = other.sign('theirs', ['IP:127.0.0.1'])
    bundle = tmp_path / 'bundle.pem'
    bundle.write_text(pki.authority.cert.read_text())

    def respond(c, head, body):
        c.respond(b'x', headers=[('Connection', 'close')])
        c.sock.unwrap()
    w = tls_server(world, pki.worker, respond)
    lb = balancer(world, w.address, worker_tls={'ca': str(bundle)}, threads='1', eject_time='0s')
    assert [lb.get('/').status for _ in range(3)] == [200] * 3
    assert stats(lb)['worker_tls_resumed'] >= 1
    bundle.write_text(other.cert.read_text())
    wait_until(lambda: 'worker-certificates-reloaded' in lb.process.output(), 'the files to be read')
    assert lb.get('/').status in (502, 503)
    bundle.write_text('no certificate')
    wait_until(lambda: 'worker-certificates-reload-failed' in lb.process.output(), 'the file to be rejected')
    bundle.write_text(pki.authority.cert.read_text())
    wait_until(lambda: lb.get('/').status == 200, 'the first authority again')
    assert theirs.cert.exists()


def test_unusable_files_are_errors_of_the_configuration(world, pki, tmp_path):
    path = tmp_path / 'bad.yaml'

    def complaint(worker_tls, worker='127.0.0.1:9'):
        path.write_text('listen: [{address: "127.0.0.1:9"}]\nworkers: [%s]\nworker_tls: %s\n' % (worker, worker_tls))
        r = subprocess.run([BIN / 'resumelb', '-t', '-c', path], capture_output=True, text=True, timeout=LIMIT)
        assert r.returncode == 1, r.stderr
        return r.stderr
    assert 'certificate and key go together' in complaint('{certificate: %s}' % pki.worker.cert)
    assert 'cannot use these authorities' in complaint('{ca: /nowhere.pem}')
    assert 'server_name' in complaint('{server_name: "a b"}')
    assert 'ciphers' in complaint('{ciphers: NOTHING}')
    assert 'mismatch' in complaint('{certificate: %s, key: %s}' % (pki.worker.cert, pki.authority.key))
    assert 'server_name' in complaint('{}', '{address: "127.0.0.1:9", server_name: "*"}')


def test_the_old_versions_of_tls_are_not_taken(world, pki):
    w = tls_server(world, pki.worker, version=ssl.TLSVersion.TLSv1_2)
    rejection(world, w.address, 'protocol version', worker_tls={'ca': pki.ca, 'min_version': '1.3'})
    assert openssl('version').stdout.startswith(b'OpenSSL')
