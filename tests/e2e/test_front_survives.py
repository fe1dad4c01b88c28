# SPDX-License-Identifier: Apache-2.0
"""Conditions that must not end the process: the maximum of streams, invalid prefaces, no space for bodies, no file descriptors."""
import hashlib
import pathlib
import re
import signal
import socket
import ssl
import struct
import subprocess
import threading

import pytest
from agent_support import TinyAgent
from support.base import LIMIT, free_port, limit_descriptors, wait_until
from support.certificates import Pair
from support.http import Client, connect
from support.http2 import (DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, SETTINGS, WINDOW_UPDATE, Http2, frame, only_settings,
                           negotiated, request, to_the_end)
from support.scripted import serve
from test_http2 import Front
from test_http2_behaviour import metric

WHOLE = END_STREAM | END_HEADERS
STREAMS = 100


def window(n, stream=0):
    return frame(WINDOW_UPDATE, struct.pack('>I', n), 0, stream)


class Gate:
    """Holds the responses of workers until COUNT requests have arrived, then releases all of them together."""

    def __init__(self, count):
        self.count, self.here, self.changed = count, 0, threading.Condition()

    def __call__(self, c, head, body):
        with self.changed:
            self.here += 1
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.here >= self.count, LIMIT)
        c.respond(b'x' * 100)


def all_at_once(front):
    """Sends STREAMS requests with a WINDOW_UPDATE each in one write, and further WINDOW_UPDATE frames during the responses."""
    with front.connect(struct.pack('>HI', 4, 1 << 20)) as c:
        c.send(window(1 << 20) + b''.join(frame(HEADERS, request(), WHOLE, n) + window(1000, n)
                                          for n in range(1, 2 * STREAMS, 2)))
        assert c.until(lambda: 3 in c.settings).settings[3] == STREAMS
        numbers = range(1, 2 * STREAMS, 2)
        while not c.closed and not all(c.stream(n).over for n in numbers):
            c.send(window(1)).more()
        assert all(c.stream(n).ended and c.stream(n).status == '200' for n in numbers), c.goaway


def test_as_many_streams_run_as_are_announced(world):
    gate = Gate(STREAMS)
    front = Front(world, gate, max_connections=2 * STREAMS)
    all_at_once(front)
    assert front.lives()


def test_connections_with_all_their_streams_in_use_do_not_end_the_process(world):
    front = Front(world, lambda c, *_: c.respond(b'x' * 100))
    for _ in range(60):
        all_at_once(front)
    assert front.lives()


def test_h2load_with_all_streams_loses_nothing(world):
    front = Front(world, lambda c, *_: c.respond(b'x' * 20000))
    out = subprocess.run(['h2load', '-n', '5000', '-c', '10', '-w', '13', '-m', str(STREAMS), 'https://127.0.0.1:%d/' % front.port],
                         capture_output=True, text=True, timeout=LIMIT).stdout
    assert re.search(r'^requests: 5000 total, .* 5000 succeeded, 0 failed, 0 errored', out, re.M), out
    assert front.lives()


# ---- connection prefaces ----

GET = b'GET / HTTP/1.1\r\nHost: test.example\r\n\r\n'
WRONG = {
    'a request of HTTP/1': GET,
    '100 zeros': bytes(100),
    '24 wrong bytes, then no SETTINGS': b'x' * 24 + frame(PING, b'12345678'),
    '24 wrong bytes, then SETTINGS': b'x' * 24 + frame(SETTINGS),
    '33 wrong bytes': b'x' * 33,
    'one wrong byte': b'x',
    'the last byte wrong': PREFACE[:-1] + b'x' + frame(SETTINGS),
    'the first byte missing': PREFACE[1:] + frame(SETTINGS),
    'a header of a proxy': b'PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n' + PREFACE + frame(SETTINGS),
    'a handshake of TLS': b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + bytes(300),
}
RIGHT = {       # a valid preface, followed by invalid data
    'no SETTINGS': PREFACE + frame(PING, b'12345678'),
    'half a frame, then the end': PREFACE + frame(SETTINGS)[:5],
    'half a preface, then the end': PREFACE[:12],
    'SETTINGS of a wrong size': PREFACE + frame(SETTINGS, b'x'),
    'the preface twice': PREFACE + PREFACE,
}


@pytest.mark.parametrize('name', WRONG)
def test_a_wrong_preface_ends_its_connection_alone(world, name):
    front = Front(world)
    for at_once in (True, False):
        with negotiated(front.port) as s:
            for data in [WRONG[name]] if at_once else [WRONG[name][i:i + 1] for i in range(len(WRONG[name]))]:
                try:
                    s.sendall(data)
                except OSError:         # it has been closed
                    break
            assert only_settings(to_the_end(s))
    assert front.lives()
    wait_until(lambda: metric(front.lb, 'resumelb_client_rejected_total{reason="wrong connection preface of HTTP/2"}') == 2, 'the rejections to be counted')


@pytest.mark.parametrize('name', RIGHT)
def test_an_error_after_the_preface_ends_its_connection_only(world, name):
    front = Front(world)
    for at_once in (True, False):
        with negotiated(front.port) as s:
            for data in [RIGHT[name]] if at_once else [RIGHT[name][i:i + 1] for i in range(len(RIGHT[name]))]:
                s.sendall(data)
            if 'the end' in name:
                s.shutdown(socket.SHUT_WR)
            to_the_end(s)
    assert front.lives()


def test_a_drain_meets_connections_at_every_byte_of_their_start(world):
    front = Front(world)
    start = PREFACE + frame(SETTINGS) + frame(HEADERS, request(), WHOLE, 1)
    open_ones = []
    for n in range(len(start)):
        s = negotiated(front.port)
        s.sendall(start[:n])
        open_ones.append(s)
    for n in range(0, len(start), 2):       # these connections end at the same time as the drain
        open_ones[n].close()
    front.lb.process.kill(signal.SIGTERM)
    for s in open_ones[1::2]:
        to_the_end(s)
        s.close()
    assert front.lb.process.wait() == 0


# ---- no room for bodies ----

BODY = bytes(range(256)) * 4096         # 1 MiB
PIECE = 16000
DIRECTORY_BYTES = 8 << 20
LARGE = {'body_spill': '64KiB'}


class Directory:
    """The directory of spilled bodies: a separate file system that the test can make fail, and repair."""

    def __init__(self, world):
        self.root = world.directory / 'room'
        self.root.mkdir()
        mount = ['mount', '-t', 'tmpfs', '-o', 'size=%d' % DIRECTORY_BYTES, 'none', self.root]
        if subprocess.run(mount, capture_output=True).returncode:
            pytest.skip('file systems cannot be mounted here')
        world.closers.append(lambda: subprocess.run(['umount', '-l', self.root], check=True))
        self.path = self.root / 'bodies'
        self.path.mkdir()

    def fail(self, how):
        if how == 'gone':
            self.path.rename(self.root / 'elsewhere')
        elif how == 'read-only':
            subprocess.run(['mount', '-o', 'remount,ro', self.root], check=True)
        else:                           # or so full that it has space only for a part of a body
            (self.root / 'much').write_bytes(bytes(DIRECTORY_BYTES - (4096 if how == 'full' else len(BODY) // 2)))

    def mend(self, how):
        if how == 'gone':
            (self.root / 'elsewhere').rename(self.path)
        elif how == 'read-only':
            subprocess.run(['mount', '-o', 'remount,rw', self.root], check=True)
        else:
            (self.root / 'much').unlink()


def digest(c, head, body):
    c.respond(hashlib.sha256(body).hexdigest().encode())


def chunks(body):
    return b''.join(b'%x\r\n%s\r\n' % (len(body[i:i + PIECE]), body[i:i + PIECE]) for i in range(0, len(body), PIECE)) + b'0\r\n\r\n'


def sized(sock, expect=()):
    with Client(None, sock=sock) as c:
        c.send('POST', headers=[('Content-Length', str(len(BODY))), *expect], body=BODY)
        r = c.receive()
        return r.status, r.body


def chunked(sock, expect=()):
    with Client(None, sock=sock) as c:
        c.send('POST', headers=[('Transfer-Encoding', 'chunked'), *expect], body=chunks(BODY))
        r = c.receive()
        return r.status, r.body


def sized_with_expect(sock):
    return sized(sock, [('Expect', '100-continue')])


def chunked_with_expect(sock):
    return chunked(sock, [('Expect', '100-continue')])


def pieces_of(number, padding=b''):
    flags = 8 if padding else 0
    return b''.join(frame(DATA, (bytes([len(padding)]) if padding else b'') + BODY[i:i + PIECE] + padding,
                          flags | (END_STREAM if i + PIECE >= len(BODY) else 0), number)
                    for i in range(0, len(BODY), PIECE))


def http2(port, *fields, padding=b''):
    """Two uploads on one connection; the first one pauses in the middle of a frame."""
    with Http2(port) as c:
        one, other = pieces_of(1, padding), pieces_of(3, padding)
        c.send(b''.join(frame(HEADERS, request(*fields, method='POST'), END_HEADERS, n) for n in (1, 3)))
        c.send(one[:200000]).send(one[200000:] + other)
        c.until_over(1, 3)
        assert (c.stream(1).status, c.stream(1).body) == (c.stream(3).status, c.stream(3).body), (c.streams, c.goaway)
        assert c.stream(1).ended and c.stream(1).reset in (None, 'NO_ERROR')     # the rest of it is not needed
        return int(c.stream(1).status), c.stream(1).body


class Balancer:
    def __init__(self, world, directory, **settings):
        self.worker = world.scripted(serve(digest))
        self.plain, self.tls = free_port(), free_port()
        pair = Pair(world.directory, 'front', ['test.example'])
        # Without file descriptors nothing else ends the wait for a connection.
        self.lb = world.resumelb({'workers': [self.worker.address], 'spill_dir': str(directory.path), 'connection_wait_timeout': '5s',
                                  'worker_wait_timeout': '5s', **LARGE, **settings}, listen=[
            {'address': '127.0.0.1:%d' % self.plain}, {'address': '127.0.0.1:%d' % self.tls, 'tls': pair.entry, 'http2': True}])
        self.process = self.lb.process

    def secure(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(connect('127.0.0.1:%d' % self.tls), server_hostname='test.example')

    def uploads(self):
        for one in (sized, sized_with_expect, chunked, chunked_with_expect):
            yield one.__name__, lambda: one(connect('127.0.0.1:%d' % self.plain))
            yield one.__name__ + ' over TLS', lambda: one(self.secure())
        yield 'HTTP/2', lambda: http2(self.tls)
        yield 'HTTP/2, sized', lambda: http2(self.tls, ('content-length', str(len(BODY))))
        yield 'HTTP/2, padded', lambda: http2(self.tls, padding=bytes(100))

    def get(self):
        with Client('127.0.0.1:%d' % self.plain) as c:
            return c.request().status


def descriptors(process):
    return len(list(pathlib.Path('/proc/%d/fd' % process.pid).iterdir()))


@pytest.mark.parametrize('how', ['full', 'full soon', 'gone', 'read-only'])
def test_uploads_that_there_is_no_room_for_are_503_alone(world, how):
    directory = Directory(world)
    front = Balancer(world, directory)
    right = 200, hashlib.sha256(BODY).hexdigest().encode()
    wrong = 503, b'no room to keep the body'
    for name, upload in front.uploads():
        assert upload() == right, name
    directory.fail(how)
    wait_until(lambda: front.get() == 200)
    before = descriptors(front.process)
    for _ in range(3):
        for name, upload in front.uploads():
            assert upload() == wrong, name
            assert front.process.alive() and front.get() == 200
    wait_until(lambda: descriptors(front.process) <= before + 4, 'the descriptors of files that came to nothing')
    directory.mend(how)
    for name, upload in front.uploads():
        assert upload() == right, name


@pytest.mark.parametrize('how', ['full', 'gone', 'read-only'])
def test_an_agent_responds_503_alone_too(world, how):
    directory = Directory(world)
    agent = TinyAgent(world, top={'spill_dir': str(directory.path), **LARGE})
    wait_until(lambda: agent_get(agent) == 200, 'its process')
    for how_now, status in ((None, 200), (how, 503), (None, 200)):
        if how_now:
            directory.fail(how_now)
        for upload in (sized, sized_with_expect, chunked, chunked_with_expect):
            assert upload(connect(agent.addresses[0]))[0] == status, (upload.__name__, how_now)
            assert agent.process.alive() and agent_get(agent) == 200
        if how_now:
            directory.mend(how_now)


def agent_get(agent):
    try:
        with Client(agent.addresses[0]) as c:
            return c.request().status
    except OSError:
        return None


# ---- no descriptors ----

@pytest.mark.parametrize('spare', [0, 1, 3, 20])
def test_without_descriptors_requests_of_each_kind_continue_or_are_rejected_alone(world, spare):
    gate = threading.Event()

    def script(c, head, body):
        if b' /held' in head:
            assert gate.wait(LIMIT)
        digest(c, head, body)
    worker = world.scripted(serve(script))
    plain, tls = free_port(), free_port()
    lb = world.resumelb({'workers': [worker.address], 'spill_dir': str(world.directory), 'worker_wait_timeout': '1s', **LARGE}, listen=[
        {'address': '127.0.0.1:%d' % plain},
        {'address': '127.0.0.1:%d' % tls, 'tls': Pair(world.directory, 'front', ['test.example']).entry, 'http2': True}])
    nothing, right = hashlib.sha256(b'').hexdigest().encode(), hashlib.sha256(BODY).hexdigest().encode()
    half = len(BODY) // 2
    with Client('127.0.0.1:%d' % plain) as held, Client('127.0.0.1:%d' % plain) as by_length, \
            Client('127.0.0.1:%d' % plain) as by_chunks, Client('127.0.0.1:%d' % plain) as late, Http2(tls) as h2:
        held.send(target='/held')
        by_length.send('POST', headers=[('Content-Length', str(len(BODY)))], body=BODY[:half])
        by_chunks.send('POST', headers=[('Transfer-Encoding', 'chunked')], body=b'%x\r\n%s' % (len(BODY), BODY[:half]))
        one, other = pieces_of(3), pieces_of(5)
        h2.send(frame(HEADERS, request(path='/held'), WHOLE, 1))
        h2.send(frame(HEADERS, request(method='POST'), END_HEADERS, 3) + one[:half])
        assert late.request().body == nothing
        wait_until(lambda: len([1 for head, _ in worker.requests if b'/held' in head]) == 2, 'what is held')
        late.send_raw(b'POST / HTTP/1.1\r\n')      # an idle connection could be closed to make room
        used = descriptors(lb.process)
        limit_descriptors(lb.process, used + spare)
        waiting = [connect('127.0.0.1:%d' % plain) for _ in range(40)]      # connections that only the kernel has accepted
        for s in waiting:
            s.sendall(GET)
        late.send_raw(b'Host: test.example\r\nTransfer-Encoding: chunked\r\n\r\n' + chunks(BODY))
        assert late.receive().status in ((503,) if spare == 0 else (200, 502, 503))
        h2.send(one[half:] + frame(HEADERS, request(method='POST'), END_HEADERS, 5) + other)
        h2.until_over(3, 5)
        assert {h2.stream(n).status for n in (3, 5)} <= {'200', '502', '503'}, (h2.streams, h2.goaway)
        by_length.send_raw(BODY[half:])
        by_chunks.send_raw(BODY[half:] + b'\r\n0\r\n\r\n')
        for c in (by_length, by_chunks):
            r = c.receive()
            assert (r.status, r.body) == (200, right) or r.status in (502, 503), r
        assert lb.process.alive()
        limit_descriptors(lb.process)
        gate.set()
        assert held.receive().body == nothing and h2.until_over(1).stream(1).body == nothing
        for s in waiting:
            with Client(None, sock=s) as c:
                assert c.receive().status in (200, 502, 503)
    with Client('127.0.0.1:%d' % plain) as c:
        c.send('POST', headers=[('Transfer-Encoding', 'chunked')], body=chunks(BODY))
        assert c.receive().body == right
