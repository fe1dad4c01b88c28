# SPDX-License-Identifier: Apache-2.0
"""Descriptors, disk or memory run out while requests of each kind are under way: each gets its documented answer."""
import contextlib
import hashlib
import os
import pathlib
import re
import resource
import signal

import pytest

from support.base import SLOWNESS, wait_until
from support.http import Client, CutShort, connect
from support.http2 import END_HEADERS, HEADERS, Http2, frame, request
from test_front_survives import BODY, GET, Balancer, Folder, descriptors, pieces_of

UPGRADE = [('Connection', 'Upgrade'), ('Upgrade', 'websocket')]
RIGHT = 200, hashlib.sha256(BODY).hexdigest().encode()
NO_ROOM = 503, b'no room to keep the body'
FEW, HALF = 10000, len(BODY) // 2     # body_spill is between them


def script(c):
    """Echoes what comes through a tunnel; anything else is answered with its body's digest."""
    while (asked := c.read_request()) is not None:
        head, body = asked
        if b'\r\nupgrade: websocket' in head.lower():
            c.write(b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
            while data := c.sock.recv(65536):
                c.write(data)
            return
        c.answer(hashlib.sha256(body).hexdigest().encode())


class Front(Balancer):
    def __init__(self, world, folder):
        super().__init__(world, folder)
        self.worker.script = script

    def sockets(self):
        return {'plain': connect('127.0.0.1:%d' % self.plain), 'TLS': self.secure()}


class UnderWay:
    """Two tunnels, and uploads of each kind of which a part has been sent."""

    def __init__(self, front, part, stack):
        self.part, self.tunnels, self.sized, self.chunked = part, {}, {}, {}
        for clients in (self.tunnels, self.sized, self.chunked):
            clients.update({name: stack.enter_context(Client(None, sock=s)) for name, s in front.sockets().items()})
        for c in self.tunnels.values():
            assert c.request(headers=UPGRADE).status == 101
        for c in self.sized.values():
            c.send('POST', headers=[('Content-Length', str(len(BODY)))], body=BODY[:part])
        for c in self.chunked.values():
            c.send('POST', headers=[('Transfer-Encoding', 'chunked')], body=b'%x\r\n%s' % (len(BODY), BODY[:part]))
        self.http2, self.pieces = stack.enter_context(Http2(front.tls)), [pieces_of(n) for n in (1, 3)]
        self.http2.send(b''.join(frame(HEADERS, request(method='POST'), END_HEADERS, n) + p[:part] if n == 1 else
                                 b'' for n, p in zip((1, 3), self.pieces))).more()

    def uploads(self):
        """The rest of each upload is sent: the answers by the kind of request."""
        found = {}
        for c, last in [(c, b'') for c in self.sized.values()] + [(c, b'\r\n0\r\n\r\n') for c in self.chunked.values()]:
            found[len(found)] = ended(c, BODY[self.part:] + last)
        self.http2.send(self.pieces[0][self.part:] + frame(HEADERS, request(method='POST'), END_HEADERS, 3) + self.pieces[1])
        self.http2.until_over(1, 3)
        for n in (1, 3):
            s = self.http2.stream(n)
            found['HTTP/2', n] = (int(s.status), s.body) if s.ended else None
        return found

    def tunnels_work(self):
        for c in self.tunnels.values():
            c.send_raw(b'still here')
            assert c._need(10) == b'still here'


def ended(c, rest):
    """The answer; None: the connection ended without a whole one."""
    with contextlib.suppress(OSError):      # an answer may come before all has been sent
        c.send_raw(rest)
    try:
        r = c.receive()
        return r.status, r.body
    except (OSError, CutShort):
        return None


def bodies_kept(process, folder):
    links = pathlib.Path('/proc/%d/fd' % process.pid).iterdir()
    with contextlib.suppress(FileNotFoundError):    # one is closed meanwhile
        return len([1 for link in links if os.readlink(link).startswith(str(folder.root))])
    return 0


@pytest.mark.parametrize('part', [FEW, HALF])
@pytest.mark.parametrize('how', ['full', 'gone'])
def test_uploads_under_way_are_whole_or_503_and_tunnels_go_on_when_there_is_no_room(world, how, part):
    folder = Folder(world)
    front = Front(world, folder)
    with contextlib.ExitStack() as stack:
        under_way = UnderWay(front, part, stack)
        wait_until(lambda: bodies_kept(front.process, folder) >= (4 if part == HALF else 0), 'the bodies to be in files')
        with contextlib.suppress(OSError):      # the files of uploads under way have some of the room: then all the rest is taken
            folder.fail(how)
        found = under_way.uploads()
        under_way.tunnels_work()
        assert set(found.values()) <= {RIGHT, NO_ROOM}, found
        # the room of one that is refused is free for the next; where there is no folder, there is none for any new body
        assert NO_ROOM in found.values() and (how == 'full' or found['HTTP/2', 3] == NO_ROOM), found
        assert front.process.alive() and front.get() == 200
    folder.mend(how)
    for name, upload in front.uploads():
        assert upload() == RIGHT, name


@pytest.mark.parametrize('limit', [64, 128, 300])
def test_requests_under_way_are_answered_and_tunnels_go_on_without_descriptors(world, limit):
    front = Front(world, Folder(world))
    with contextlib.ExitStack() as stack:
        under_way = UnderWay(front, FEW, stack)
        assert descriptors(front.process) < limit
        resource.prlimit(front.process.pid, resource.RLIMIT_NOFILE, (limit, 20000))
        waiting = [stack.enter_context(Client('127.0.0.1:%d' % front.plain)) for _ in range(limit)]
        for c in waiting:
            c.send_raw(GET)
        wait_until(lambda: descriptors(front.process) == limit, 'all descriptors to be in use')
        found = under_way.uploads()
        under_way.tunnels_work()
        assert all(f == RIGHT or f[0] in (502, 503) for f in found.values()), found
        assert front.process.alive()
        resource.prlimit(front.process.pid, resource.RLIMIT_NOFILE, (20000, 20000))
        for c in waiting:
            assert c.receive().status in (200, 502, 503)
    for name, upload in front.uploads():
        assert upload() == RIGHT, name


def size_of(process):
    with open('/proc/%d/status' % process.pid) as f:
        return int(re.search(r'^VmSize:\s+(\d+) kB', f.read(), re.M)[1]) * 1024


@pytest.mark.skipif(SLOWNESS != 1, reason='a sanitizer maps memory of its own')
def test_a_process_without_memory_ends_with_a_plain_word_and_the_next_one_serves(world):
    front = Front(world, Folder(world))
    with contextlib.ExitStack() as stack:
        under_way = UnderWay(front, FEW, stack)
        resource.prlimit(front.process.pid, resource.RLIMIT_AS, (size_of(front.process), resource.RLIM_INFINITY))
        found = under_way.uploads()
        assert all(f is None or f == RIGHT or f[0] in (502, 503) for f in found.values()), found
        with contextlib.suppress(OSError, CutShort):
            while front.process.alive():
                client = stack.enter_context(Client('127.0.0.1:%d' % front.plain))
                client.send('POST', headers=[('Content-Length', str(len(BODY)))], body=BODY[:60000])
        wait_until(lambda: not front.process.alive(), 'its end')
    assert front.process.wait() == -signal.SIGABRT
    assert re.search('out of memory|no memory', front.process.output())
    front.lb.start()
    front.process = front.lb.process
    for name, upload in front.uploads():
        assert upload() == RIGHT, name
