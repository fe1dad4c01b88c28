# SPDX-License-Identifier: Apache-2.0
"""No worker available: requests wait in one bounded FIFO queue per application, and none is lost."""
import fcntl
import json
import os
import pathlib
import socket
import ssl
import struct
import threading
import time

import h2.connection
import h2.events
from support.base import LIMIT, free_port, wait_until
from support.certificates import Pair
from support.http import Client
from support.scripted import hello, serve


def locked(f):
    """Takes the OFD write lock of the whole file."""
    try:
        # struct flock of F_OFD_SETLK (37)
        fcntl.fcntl(f, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except BlockingIOError:
        return False
    return True


def claimed(temporary, path):
    """Moves TEMPORARY to PATH, over what a dead process left there; its lock excludes others that remove that."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        try:
            with open(path, 'r+') as old:
                if locked(old) and os.path.samestat(os.fstat(old.fileno()), os.lstat(path)):
                    os.unlink(path)
        except FileNotFoundError:
            pass
        return False
    os.unlink(temporary)
    return True


class Tree:
    """Registers providers in a directory tree as an agent does: a file kept open under an OFD lock."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.held = {}

    def register(self, address, node='workers', **properties):
        directory = self.path / node / 'providers'
        directory.mkdir(parents=True, exist_ok=True)
        name = address.replace('%', '%25').replace('/', '%2F')
        temporary = directory / ('.tmp-' + name)
        f = open(temporary, 'w')
        assert locked(f)
        f.write(json.dumps(dict({'pid': os.getpid()}, **properties)))
        f.flush()
        if address in self.held:
            os.rename(temporary, directory / name)
        else:
            wait_until(lambda: claimed(temporary, directory / name), 'the name to be free')
        self.held[address] = f

    def end(self, address):
        """Releases the lock and leaves the file, as after the death of the process."""
        self.held.pop(address).close()

    def set(self, node='', **properties):
        directory = self.path / node
        directory.mkdir(parents=True, exist_ok=True)
        temporary = directory / '.tmp-properties'
        temporary.write_text(json.dumps(properties))
        os.rename(temporary, directory / 'properties.json')


def feeding(world, instance, concurrency=1, response=b'hello', delay=0.0, skills=None, **more):
    """A scripted worker with a resume stream; the test controls the end of the stream."""
    gate = threading.Event()
    streams = []

    def script(c):
        while True:
            got = c.read_request()
            if got is None:
                return
            if got[0].startswith(b'GET /.well-known/resumelb/resume ') and b'resumelb-feed: 1' in got[0].lower():
                c.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/x-resumelb-resume+jsonl\r\n'
                        b'Transfer-Encoding: chunked\r\n\r\n')
                line = json.dumps(dict({'v': 1, 'instance': instance, 'application': 'app', 'version': '1',
                                        'fingerprint': '', 'state': 'ready', 'generation': 0,
                                        'concurrency': concurrency, 'skills': skills or {}}, **more)).encode() + b'\n'
                c.write(b'%x\r\n%s\r\n' % (len(line), line))
                streams.append(c)
                gate.wait(LIMIT)
                return
            if delay:
                time.sleep(delay)   # its service time
            c.respond(response)
    s = world.scripted(script)
    s.streams = streams
    s.gate = gate
    world.closers.insert(0, gate.set)
    return s


def tree_lb(world, **settings):
    tree = Tree(world.directory / 'tree')
    config = {'tree': 'directory:%s' % tree.path, 'start_wait': '100ms'}
    config.update(settings)
    lb = world.resumelb(config, wait=False)
    wait_until(lb.listening, 'the load balancer')
    return tree, lb


def test_requests_wait_for_a_worker_and_go_when_one_joins(world):
    tree, lb = tree_lb(world)
    clients = [Client(lb.address) for _ in range(30)]
    for c in clients:
        c.send()
    wait_until(lambda: lb.app()['waiting'] == 30, 'all to wait')
    w = feeding(world, 'one', delay=0.01)
    tree.register(w.address)
    for c in clients:
        assert c.receive().body == b'hello'
        c.close()
    wait_until(lambda: (app := lb.app())['waiting'] == 0 and app['backlog'] == 0, 'all to be over')


def test_no_worker_in_time_is_a_503_with_retry_after(world):
    tree, lb = tree_lb(world, worker_wait_timeout='200ms', retry_after='7s')
    r = lb.get()
    assert r.status == 503 and r['Retry-After'] == '7'
    wait_until(lambda: lb.app()['outcomes']['no-worker'] == 1, 'the count')


def test_the_queue_is_bounded(world):
    tree, lb = tree_lb(world, worker_wait_max=5)
    clients = [Client(lb.address) for _ in range(5)]
    for c in clients:
        c.send()
    wait_until(lambda: lb.app()['waiting'] == 5, 'the queue to be full')
    assert lb.get().status == 503
    wait_until(lambda: lb.app()['outcomes']['wait-queue-full'] == 1, 'it to be counted')
    for c in clients[:2]:
        c.close()
    wait_until(lambda: lb.app()['waiting'] == 3, 'the requests of closed clients to leave the queue')
    w = feeding(world, 'one')
    tree.register(w.address)
    for c in clients[2:]:
        assert c.receive().body == b'hello'
        c.close()


def test_a_worker_with_another_instance_is_a_new_worker(world):
    tree, lb = tree_lb(world)
    w = feeding(world, 'first', skills={'a.example': 50.0})
    tree.register(w.address)
    assert lb.get(host='a.example').body == b'hello'
    assert lb.workers()[w.address]['instance'] == 'first'
    assert lb.json('/resumes.json')['applications']['default'][w.address].get('a.example')


def test_a_provider_whose_owner_ended_is_gone_and_its_stream_decides(world):
    tree, lb = tree_lb(world)
    a, b = feeding(world, 'a'), feeding(world, 'b')
    tree.register(a.address)
    tree.register(b.address)
    wait_until(lambda: len([w for w in lb.workers().values() if w['state'] == 'ready']) == 2, 'both workers')
    tree.end(a.address)
    # its stream is still connected, which has precedence over a missing node
    assert lb.get(host='x').status == 200
    for c in a.connections:
        c.reset()
    a.close()
    a.gate.set()
    wait_until(lambda: lb.workers().get(a.address, {}).get('state') != 'ready', 'worker a to be gone')
    for i in range(5):
        assert lb.get(host='h%d' % i).body == b'hello'


def test_providers_of_another_application_are_rejected(world):
    tree, lb = tree_lb(world)
    w = feeding(world, 'w', application='wrong')
    good = feeding(world, 'g')
    tree.register(w.address, application='wrong-one')
    tree.register(good.address)
    wait_until(lambda: good.address in lb.workers(), 'the good one')
    assert lb.workers().get(w.address, {}).get('state') != 'ready'


def test_live_settings_follow_the_tree_and_bad_ones_are_rejected(world):
    tree, lb = tree_lb(world, pool={'variance': 6}, worker_wait_timeout='100ms')
    setting = lambda name: lb.app()['settings'][name]
    assert setting('variance') == {'value': '6', 'origin': 'yaml'}
    tree.set(variance=2.5, retries=7, connect_timeout='1s')
    wait_until(lambda: setting('variance') == {'value': '2.5', 'origin': 'tree'}, 'variance')
    assert setting('retries')['value'] == '7' and setting('connect_timeout')['value'] == '1s'
    # one invalid, one not permitted in the tree, one unknown: only these are rejected, the others are applied
    tree.set(variance='lots', retries=3, error_page='/etc/passwd', colour='blue')
    wait_until(lambda: setting('retries')['value'] == '3', 'the good one')
    assert setting('variance')['value'] == '2.5', 'keeps its last good value'
    rejected = {r['name']: r['why'] for r in lb.app()['rejected']}
    assert set(rejected) >= {'variance', 'error_page'} and rejected['variance']
    assert setting('error_page')['value'] in ('', None)
    # settings not in the tree have the YAML value, or else the default
    tree.set()
    wait_until(lambda: setting('variance') == {'value': '6', 'origin': 'yaml'}, 'variance back')
    assert setting('retries') == {'value': '2', 'origin': 'default'}
    # an invalid node does not change the settings
    tree.set(variance=3)
    wait_until(lambda: setting('variance')['value'] == '3', 'variance')
    (tree.path / 'properties.json').write_text('{"variance": ')
    wait_until(lambda: 'variance' in lb.process.output(), 'a log line')
    lb.get()
    assert setting('variance')['value'] == '3'


def test_a_burst_of_changes_ends_with_the_last_one(world):
    tree, lb = tree_lb(world)
    for i in range(2000):
        tree.set(retries=i % 10, variance=1 + i / 1000)
    wait_until(lambda: lb.app()['settings']['variance']['value'] == '2.999', 'the last value')


def test_resumes_change_where_requests_go(world):
    tree, lb = tree_lb(world, pool={'policy': 'resume'})
    slow, quick = feeding(world, 's', response=b'slow', skills={'a': 1.0}), feeding(world, 'q', response=b'quick', skills={'a': 99.0})
    tree.register(slow.address)
    tree.register(quick.address)
    wait_until(lambda: [w['skills'] for w in lb.workers().values()] == [1, 1], 'both resumes')
    assert {lb.get(host='a').body for _ in range(10)} == {b'quick'}
    line = json.dumps({'v': 1, 'instance': 'q', 'application': 'app', 'version': '1', 'fingerprint': '',
                       'state': 'ready', 'generation': 1, 'skills': {'a': 0.1}}).encode() + b'\n'
    bad = b'{"v":1, nonsense\n'
    for data in (bad, line):
        quick.streams[0].write(b'%x\r\n%s\r\n' % (len(data), data))
    wait_until(lambda: lb.json('/resumes.json')['applications']['default'][quick.address]['a'] < 1, 'the new resume')
    assert {lb.get(host='a').body for _ in range(10)} == {b'slow'}
    wait_until(lambda: lb.app()['stats']['feed_bad_lines'] == 1, 'the count')


def test_an_agents_promise_lets_even_a_post_be_tried_elsewhere(world):
    tree, lb = tree_lb(world)

    def unprocessed(c, head, body):
        c.respond(b'full', '503 Service Unavailable', [('Resumelb-Unprocessed', '1')])
    full = feeding(world, 'f', skills={'a': 99.0})
    original = full.script

    def script(c):
        got = c.read_request()
        while got and not got[0].startswith(b'GET /.well-known'):
            unprocessed(c, *got)
            got = c.read_request()
        if got:
            c.buffer[:0] = got[0] + b'\r\n\r\n'
            original(c)
    full.script = script
    free = feeding(world, 'g', response=b'free')
    tree.register(full.address)
    tree.register(free.address)
    wait_until(lambda: len([w for w in lb.workers().values() if w['state'] == 'ready']) == 2, 'both workers')
    for i in range(5):
        r = lb.get('/', host='a', method='POST', body=b'x')
        assert r.body == b'free' and r['Resumelb-Unprocessed'] is None
    # Not each time: a worker that rejected a request is avoided for a while.
    wait_until(lambda: 1 <= lb.app()['stats']['unprocessed'] <= 5, 'the count')
    assert lb.workers()[full.address]['failures'] == 0


def many_requests_on_one_connection(port, n):
    """Sends N concurrent requests over HTTP/2, where a response is not written in the loop iteration that creates it."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(['h2'])
    sock = context.wrap_socket(socket.create_connection(('127.0.0.1', port), timeout=LIMIT))
    c = h2.connection.H2Connection()
    c.initiate_connection()
    for i in range(n):
        c.send_headers(2 * i + 1, [(':method', 'GET'), (':path', '/'), (':scheme', 'https'),
                                   (':authority', 'test.example')], end_stream=True)
    sock.sendall(c.data_to_send())
    return sock, c


def statuses_of(sock, c, n):
    statuses = []
    while len(statuses) < n:
        data = sock.recv(65536)
        assert data, 'the connection ended after %s' % statuses
        statuses += [int(dict(e.headers)[b':status']) for e in c.receive_data(data)
                     if isinstance(e, h2.events.ResponseReceived)]
    return statuses


def test_a_request_that_times_out_with_a_grant_in_transit_ends_in_order(world):
    """
    A request in progress times out, and its place is granted to the next one in the queue, which times out in the same loop
    iteration.
    """
    gate = threading.Event()
    world.closers.insert(0, gate.set)
    w = world.scripted(serve(lambda c, h, b: gate.wait(LIMIT)))
    tree = Tree(world.directory / 'tree' / 'app')
    tree.set()
    port, tls = free_port(), Pair(world.directory, 'site', ['test.example']).entry
    lb = world.resumelb({'applications': {'app': {
        'tree': 'directory:%s' % tree.path, 'resume': 'measure', 
        'total_timeout': '15s'}}}, wait=False, threads=1,
        listen=[{'address': '127.0.0.1:%d' % port, 'tls': tls, 'http2': True}])
    wait_until(lb.listening, 'the load balancer')
    wait_until(lambda: 'listening addresses' in lb.process.output(), 'its listeners')
    sock, c = many_requests_on_one_connection(port, 10)
    waiting = lambda n: lb.app('app')['stats']['requests_waiting'] == n
    wait_until(lambda: waiting(10), 'all to wait')
    tree.register(w.address)
    wait_until(lambda: waiting(9) and len(w.requests) == 1, 'the first to run')
    assert statuses_of(sock, c, 10) == [504] * 10
    sock.close()
    wait_until(lambda: lb.app('app')['stats']['requests_active'] == 0, 'nothing to be left')
