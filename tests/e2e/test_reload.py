# SPDX-License-Identifier: Apache-2.0
"""SIGHUP, start and stop: changes at run time, the log of changes that need a restart, and the shutdown."""
import hashlib
import selectors
import signal
import socket
import ssl
import threading

from support.base import LIMIT, free_port, wait_until
from support.certificates import Pair
from support.http import Client, connect
from support.scripted import hello, serve


def certificate(directory, name):
    pair = Pair(directory, name, [name])
    return pair.cert, pair.key


def served_certificate(address, sock=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with context.wrap_socket(sock or connect(address)) as s:
        return hashlib.sha256(s.getpeercert(True)).hexdigest()


def fingerprint(cert):
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(cert.read_text())).hexdigest()


def test_a_renewed_certificate_is_served_after_sighup(world):
    old, new = certificate(world.directory, 'old'), certificate(world.directory, 'new')
    live = [world.directory / 'live.pem', world.directory / 'live-key.pem']
    for source, target in zip(old, live):
        target.write_bytes(source.read_bytes())
    w = world.scripted(serve(hello))
    address = '127.0.0.1:%d' % free_port()
    lb = world.resumelb({'workers': [w.address]},
                        listen=[{'address': address, 'tls': {'certificate': str(live[0]), 'key': str(live[1])}}])
    assert served_certificate(address) == fingerprint(old[0])
    for source, target in zip(new, live):
        target.write_bytes(source.read_bytes())
    lb.reload()
    wait_until(lambda: served_certificate(address) == fingerprint(new[0]), 'the new certificate')
    assert all(served_certificate(address) == fingerprint(new[0]) for _ in range(10)), 'on every loop'
    # a certificate that does not match its key changes nothing
    live[0].write_bytes(old[0].read_bytes())
    lb.reload()
    wait_until(lambda: 'config-reload-failed' in lb.process.output(), 'the rejection')
    assert served_certificate(address) == fingerprint(new[0])


def test_settings_change_and_what_needs_a_restart_is_reported(world):
    w = world.scripted(serve(hello))
    lb = world.resumelb({'workers': [w.address], 'retries': 1})
    setting = lambda name: lb.app()['settings'][name]
    assert setting('retries') == {'value': '1', 'origin': 'yaml'}
    lb.reload({'retries': 4, 'pool': {'variance': 2}, 'threads': '1', 'path': '/x', 'log_level': 'debug'})
    wait_until(lambda: setting('retries') == {'value': '4', 'origin': 'yaml'}, 'retries')
    assert setting('variance') == {'value': '2', 'origin': 'yaml'}
    assert setting('path')['value'] == '/'
    log = lb.process.output()
    assert 'config-restart-required application=- setting=threads' in log and 'config-restart-required application=default setting=path' in log
    assert lb.get().body == b'hello'


def test_a_worker_that_is_taken_off_the_list_finishes_what_it_has(world):
    gate = threading.Event()

    def respond(c, head, body):
        gate.wait(LIMIT)
        c.respond(b'slow')
    slow, quick = world.scripted(serve(respond)), world.scripted(serve(hello))
    lb = world.resumelb({'workers': [slow.address]})
    with Client(lb.address) as c:
        c.send()
        wait_until(lambda: slow.requests, 'the request')
        lb.reload({'workers': [quick.address]})
        wait_until(lambda: quick.address in lb.workers(), 'the other worker')
        assert lb.workers()[slow.address]['state'] == 'leaving'
        assert lb.get().body == b'hello'
        gate.set()
        assert c.receive().body == b'slow'
    wait_until(lambda: set(lb.workers()) == {quick.address}, 'it to be gone')


def test_host_names_of_workers_are_resolved(world):
    w = world.scripted(serve(hello))
    port = w.address.rsplit(':', 1)[1]
    lb = world.resumelb({'workers': ['localhost:' + port]}, wait=False)
    wait_until(lambda: lb.listening() and w.address in lb.workers(), 'the worker')
    wait_until(lambda: lb.get().status == 200, 'a response')
    bad = world.resumelb({'workers': ['no-such-host.invalid:80'], 'start_wait': '60s'}, name='bad', wait=False)
    wait_until(bad.listening, 'it: a failure is a response')
    bad.process.wait_logged('worker-not-resolved')


def test_a_second_process_on_the_same_port_is_rejected(world):
    w = world.scripted(serve(hello))
    lb = world.resumelb({'workers': [w.address]})
    other = world.resumelb({'workers': [w.address]}, listen=[{'address': lb.address}], name='other', wait=False)
    assert other.process.wait() == 1
    other.process.wait_logged(lb.address)
    assert lb.get().status == 200


def test_unix_sockets_come_and_go_with_the_process(world):
    w = world.scripted(serve(hello))
    path = world.directory / 'front.sock'
    lb = world.resumelb({'workers': [w.address]}, listen=[{'address': 'unix:%s' % path, 'mode': 600}], threads=3)
    assert path.stat().st_mode & 0o777 == 0o600
    for _ in range(10):
        with Client('unix:%s' % path) as c:
            assert c.request().body == b'hello'
    lb.process.stop()
    assert not path.exists()


def test_drain_timeout_cuts_what_is_left(world):
    gate = threading.Event()
    world.closers.insert(0, gate.set)
    w = world.scripted(serve(lambda c, h, b: gate.wait(LIMIT)))
    lb = world.resumelb({'workers': [w.address], 'drain_timeout': '300ms'})
    with Client(lb.address) as c:
        c.send()
        wait_until(lambda: w.requests, 'the request')
        lb.process.kill(signal.SIGTERM)
        assert lb.process.wait() == 0
    lb.process.wait_logged('drain-timeout drain_timeout_ms=300 requests_cut=1')


def test_sigint_stops_at_once(world):
    gate = threading.Event()
    world.closers.insert(0, gate.set)
    w = world.scripted(serve(lambda c, h, b: gate.wait(LIMIT)))
    lb = world.resumelb({'workers': [w.address], 'drain_timeout': '1h'})
    with Client(lb.address) as c:
        c.send()
        wait_until(lambda: w.requests, 'the request')
        lb.process.kill(signal.SIGINT)
        assert lb.process.wait() == 0


def test_a_slow_operator_does_not_hold_up_the_end(world):
    w = world.scripted(serve(hello))
    lb = world.resumelb({'workers': [w.address], 'drain_timeout': '1h'})
    with Client(lb.admin) as idle, Client(lb.admin) as slow:
        idle.send(host=lb.admin)
        slow.send_raw(b'GET /resumes.json HTTP/1.1\r\nHost: ')
        idle.receive()
        lb.process.kill(signal.SIGTERM)
        assert lb.process.wait() == 0


def test_sigterm_while_starting_ends_it(world):
    # the kernel accepts connections to this socket, but nothing is ever sent on them
    mute = socket.socket()
    mute.bind(('127.0.0.1', 0))
    mute.listen(8)
    world.closers.append(mute.close)
    lb = world.resumelb({'workers': ['127.0.0.1:%d' % mute.getsockname()[1]], 'resume': 'stream', 'start_wait': '60s'},
                        wait=False)
    mute.settimeout(LIMIT)
    mute.accept()[0].close()
    lb.process.kill(signal.SIGTERM)
    assert lb.process.wait() == 0


def test_systemd_is_notified_when_it_is_ready_reloads_and_stops(world):
    path = str(world.directory / 'notify')
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(path)
    s.settimeout(LIMIT)
    world.closers.append(s.close)
    w = world.scripted(serve(hello))
    lb = world.resumelb({'workers': [w.address]}, env={'NOTIFY_SOCKET': path})
    assert s.recv(100) == b'READY=1'
    lb.reload()
    assert s.recv(100) == b'RELOADING=1' and s.recv(100) == b'READY=1'
    lb.process.kill(signal.SIGTERM)
    assert s.recv(100) == b'STOPPING=1'
    assert lb.process.wait() == 0


def test_clients_leave_descriptors_for_the_workers(world):
    """With few file descriptors clients can use only a part of them: every accepted client is served."""
    w = world.scripted(serve(hello))
    lb = world.resumelb({'workers': [{'address': w.address}]}, wrapper=['prlimit', '--nofile=64'])
    clients = [socket.create_connection(('127.0.0.1', lb.port)) for _ in range(100)]
    for s in clients:
        s.sendall(b'GET / HTTP/1.1\r\nHost: test.example\r\n\r\n')
    # the others wait in the listen queue until accepted clients close, in any order
    selector = selectors.DefaultSelector()
    for s in clients:
        selector.register(s, selectors.EVENT_READ)
    for _ in clients:
        ready = selector.select(LIMIT)
        assert ready, '%d are never served' % len(selector.get_map())
        s = ready[0][0].fileobj
        assert s.recv(65536).startswith(b'HTTP/1.1 200 ')
        selector.unregister(s)
        s.close()
    assert 'accept-failed' not in lb.process.output()


def test_tunnels_outlive_the_membership_of_their_worker(world):
    def script(c):
        head, _ = c.read_request()
        if b'pgrade' not in head:
            c.respond(b'plain')
            return
        c.write(b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
        while data := c.sock.recv(65536):
            c.write(data.upper())
    old, new = world.scripted(script), world.scripted(script)
    lb = world.resumelb({'workers': [old.address]})
    clients = [Client(lb.address) for _ in range(3)]
    for c in clients:
        assert c.request('GET', '/', headers=[('Upgrade', 'websocket'), ('Connection', 'Upgrade')]).status == 101
    lb.reload({'workers': [new.address]})
    wait_until(lambda: set(lb.workers()) == {new.address}, 'the old worker to be gone')
    assert lb.get().status == 200
    for c in clients:
        c.send_raw(b'abc')
        assert c._need(3) == b'ABC'
    clients[0].close()
    wait_until(lambda: lb.app()['stats']['tunnels'] == 2, 'one to end')
    lb.reload({'workers': [old.address]})
    wait_until(lambda: set(lb.workers()) == {old.address}, 'the old worker to be back')
    assert lb.get().status == 200
    for c in clients[1:]:
        c.close()
    wait_until(lambda: lb.app()['stats']['tunnels'] == 0, 'all to end')
