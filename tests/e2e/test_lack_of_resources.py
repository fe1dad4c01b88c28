# SPDX-License-Identifier: Apache-2.0
"""File descriptors, disk space or memory run out while requests are in progress: each gets its documented response."""
import contextlib
import hashlib
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import types

import pytest

from agent_support import TinyAgent
from poolcounter_support import Daemon
from support.base import SLOWNESS, limit_descriptors, wait_until
from support.http import Client, CutShort, connect, get
from support.http2 import END_HEADERS, HEADERS, Http2, frame, request
from test_front_survives import BODY, GET, LARGE, Balancer, Directory, descriptors, pieces_of

UPGRADE = [('Connection', 'Upgrade'), ('Upgrade', 'websocket')]
RIGHT = 200, hashlib.sha256(BODY).hexdigest().encode()
NO_ROOM = 503, b'no room to keep the body'
FEW, HALF = 10000, len(BODY) // 2     # body_spill is between them


def script(c):
    """Echoes the data of a tunnel; responds to other requests with the digest of their body."""
    while (asked := c.read_request()) is not None:
        head, body = asked
        if b'\r\nupgrade: websocket' in head.lower():
            c.write(b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
            while data := c.sock.recv(65536):
                c.write(data)
            return
        c.respond(hashlib.sha256(body).hexdigest().encode())


class Front(Balancer):
    def __init__(self, world, directory, **settings):
        super().__init__(world, directory, **settings)
        self.worker.script = script

    def sockets(self):
        return {'plain': connect('127.0.0.1:%d' % self.plain), 'TLS': self.secure()}


class UnderWay:
    """Two tunnels, and partially sent uploads of each kind."""

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
        """Sends the rest of each upload. Returns the responses by kind of request."""
        found = {}
        for c, last in [(c, b'') for c in self.sized.values()] + [(c, b'\r\n0\r\n\r\n') for c in self.chunked.values()]:
            found[len(found)] = ended(c, BODY[self.part:] + last)
        self.http2.send(self.pieces[0][self.part:] + frame(HEADERS, request(method='POST'), END_HEADERS, 3) + self.pieces[1])
        self.http2.until_over(1, 3)
        for n in (1, 3):
            s = self.http2.stream(n)
            found['HTTP/2', n] = (int(s.status), bytes(s.body)) if s.ended else None
        return found

    def tunnels_work(self):
        for c in self.tunnels.values():
            c.send_raw(b'still here')
            assert c._need(10) == b'still here'


def ended(c, rest):
    """Sends REST. Returns the response, or None if the connection ended without a complete one."""
    with contextlib.suppress(OSError):      # a response may arrive before everything is sent
        c.send_raw(rest)
    try:
        r = c.receive()
        return r.status, r.body
    except (OSError, CutShort):
        return None


class Room(Directory):
    """A directory that can also be made read-only while files in it are open."""

    def fail(self, how):
        if how == 'not to be written':
            # A mount through which a file is already being written cannot become read-only: it is made so before it is in place.
            aside = str(self.path) + '-aside'
            os.mkdir(aside)
            for command in (['--bind', self.path, aside], ['-o', 'remount,bind,ro', aside], ['--bind', aside, self.path]):
                subprocess.run(['mount', *command], check=True)
            subprocess.run(['umount', aside], check=True)
        else:
            super().fail(how)

    def mend(self, how):
        if how == 'not to be written':
            subprocess.run(['umount', '-l', self.path], check=True)
        else:
            super().mend(how)


def bodies_kept(process, directory):
    links = pathlib.Path('/proc/%d/fd' % process.pid).iterdir()
    with contextlib.suppress(FileNotFoundError):    # a descriptor is closed in the meantime
        return len([1 for link in links if os.readlink(link).startswith(str(directory.root))])
    return 0


@pytest.mark.parametrize('part', [FEW, HALF])
@pytest.mark.parametrize('how', ['full', 'gone', 'not to be written'])
def test_uploads_in_progress_are_whole_or_503_and_tunnels_continue_when_there_is_no_room(world, how, part):
    directory = Room(world)
    front = Front(world, directory)
    with contextlib.ExitStack() as stack:
        under_way = UnderWay(front, part, stack)
        wait_until(lambda: bodies_kept(front.process, directory) >= (4 if part == HALF else 0), 'the bodies to be in files')
        with contextlib.suppress(OSError):      # the files of uploads in progress use a part of the space: use up all the rest
            directory.fail(how)
        found = under_way.uploads()
        under_way.tunnels_work()
        assert set(found.values()) <= {RIGHT, NO_ROOM}, found
        # a rejected upload frees its space for the next one; without the directory no new body can be stored
        assert NO_ROOM in found.values() and (how == 'full' or found['HTTP/2', 3] == NO_ROOM), found
        assert front.process.alive() and front.get() == 200
    directory.mend(how)
    for name, upload in front.uploads():
        assert upload() == RIGHT, name


@pytest.mark.parametrize('limit', [64, 128, 300])
def test_requests_in_progress_get_a_response_and_tunnels_continue_without_descriptors(world, limit):
    front = Front(world, Directory(world))
    with contextlib.ExitStack() as stack:
        under_way = UnderWay(front, FEW, stack)
        assert descriptors(front.process) < limit
        limit_descriptors(front.process, limit)
        waiting = [stack.enter_context(Client('127.0.0.1:%d' % front.plain)) for _ in range(limit)]
        for c in waiting:
            c.send_raw(GET)
        wait_until(lambda: descriptors(front.process) == limit, 'all descriptors to be in use')
        found = under_way.uploads()
        under_way.tunnels_work()
        assert all(f == RIGHT or f[0] in (502, 503) for f in found.values()), found
        assert front.process.alive()
        limit_descriptors(front.process)
        for c in waiting:
            assert c.receive().status in (200, 502, 503)
    for name, upload in front.uploads():
        assert upload() == RIGHT, name


def size_of(process):
    with open('/proc/%d/status' % process.pid) as f:
        return int(re.search(r'^VmSize:\s+(\d+) kB', f.read(), re.M)[1]) * 1024


WITHOUT_SANITIZER = pytest.mark.skipif(SLOWNESS != 1, reason='a sanitizer maps memory of its own')
MIB = 1 << 20
IN_MEMORY = {'body_spill': '2MiB'}


def limit_memory(process, spare):
    resource.prlimit(process.pid, resource.RLIMIT_AS, (size_of(process) + spare, resource.RLIM_INFINITY))


def ends_for_lack_of_memory(process):
    wait_until(lambda: not process.alive(), 'its end')
    assert process.wait() == -signal.SIGABRT
    assert re.search('out of memory|no memory', process.output())


def use_up(process, port, stack):
    """Starts uploads without their last byte, each with its body in memory, until PROCESS has ended."""
    with contextlib.suppress(OSError):
        while process.alive():
            client = stack.enter_context(Client('127.0.0.1:%d' % port))
            client.send('POST', headers=[('Content-Length', str(len(BODY)))], body=BODY[:-1])


@WITHOUT_SANITIZER
@pytest.mark.parametrize('spare', [0, 8 * MIB, 32 * MIB, 128 * MIB])
def test_a_process_without_memory_ends_with_a_plain_word_and_the_next_one_serves(world, spare):
    front = Front(world, Directory(world), **IN_MEMORY)
    with contextlib.ExitStack() as stack:
        under_way = UnderWay(front, FEW, stack)
        limit_memory(front.process, spare)
        found = under_way.uploads()
        assert all(f is None or f == RIGHT or f[0] in (502, 503) for f in found.values()), found
        if spare >= 32 * MIB:       # sufficient memory for these
            assert set(found.values()) == {RIGHT} and front.process.alive()
            under_way.tunnels_work()
        use_up(front.process, front.plain, stack)
        ends_for_lack_of_memory(front.process)
        for c in under_way.tunnels.values():        # as documented, they end with the process
            assert ended(c, b'still here') is None
    front.lb.start()
    front.process = front.lb.process
    for name, upload in front.uploads():
        assert upload() == RIGHT, name


# ---- the totals of bodies ----

TOTALS = {'request_buffers_total': '1MiB', 'body_spill_total': '1MiB', 'body_spill': '2MiB'}


def bodies_in_use(admin, prefix):
    text = get(admin, '/metrics', host=admin).text
    return tuple(int(re.search(r'^%s_body_%s (\d+)$' % (prefix, what), text, re.M)[1]) for what in ('memory_bytes', 'file_bytes', 'files'))


def assert_totals_hold(address, used):
    """One upload takes all the memory, the next one all the room in files, and any other is rejected alone."""
    rest = len(BODY) - 1
    with Client(address) as first, Client(address) as second, Client(address) as third:
        for c, now in ((first, (rest, 0, 0)), (second, (rest, rest, 1))):
            c.send('POST', headers=[('Content-Length', str(len(BODY)))], body=BODY[:-1])
            wait_until(lambda now=now: used() == now, 'its body to be counted')
        third.send('POST', headers=[('Transfer-Encoding', 'chunked')], body=b'%x\r\n' % len(BODY))
        assert ended(third, BODY) == NO_ROOM
        wait_until(lambda: used() == (rest, rest, 1), 'the rejected body to go')
        found = [ended(c, BODY[-1:]) for c in (first, second)]
    wait_until(lambda: used() == (0, 0, 0), 'the bodies to go')
    r = get(address, method='POST', body=BODY)
    return found + [(r.status, r.body)]


def test_bodies_of_all_requests_together_have_limits(world):
    front = Front(world, types.SimpleNamespace(path=world.directory), **TOTALS)
    found = assert_totals_hold('127.0.0.1:%d' % front.plain, lambda: bodies_in_use(front.lb.admin, 'resumelb'))
    assert found == [RIGHT] * 3


def test_bodies_of_all_requests_of_an_agent_together_have_limits(world):
    agent = TinyAgent(world, top={'spill_dir': str(world.directory), **TOTALS}).wait_ready()
    found = assert_totals_hold(agent.addresses[0], lambda: bodies_in_use(agent.admin, 'resumelb_agent'))
    assert [(status, json.loads(body)['body']) for status, body in found] == [(200, len(BODY))] * 3


# ---- an agent ----

class AgentUnderWay:
    """A tunnel, and a partially sent upload of each kind, at an agent with a process for each."""

    def __init__(self, world, stack, **settings):
        self.agent = TinyAgent(world, slots=4, top={'spill_dir': str(world.directory), **settings}).wait_ready()
        self.tunnel, self.sized, self.chunked = (stack.enter_context(Client(self.agent.addresses[n])) for n in range(3))
        assert self.tunnel.request(headers=UPGRADE).status == 101
        self.sized.send('POST', headers=[('Content-Length', str(len(BODY)))], body=BODY[:HALF])
        self.chunked.send('POST', headers=[('Transfer-Encoding', 'chunked')], body=b'%x\r\n%s' % (len(BODY), BODY[:HALF]))

    def uploads(self):
        """[(status, received bytes of the body), or None if the connection ended]."""
        responses = ended(self.sized, BODY[HALF:]), ended(self.chunked, BODY[HALF:] + b'\r\n0\r\n\r\n')
        return [a and (a[0], json.loads(a[1])['body'] if a[0] == 200 else None) for a in responses]

    def tunnel_works(self):
        self.tunnel.send_raw(b'still here')
        assert self.tunnel._need(10) == b'STILL HERE'


WHOLE_UPLOAD = 200, len(BODY)


@pytest.mark.parametrize('limit', [64, 128, 300])
def test_an_agents_requests_in_progress_get_a_response_and_its_tunnel_continues_without_descriptors(world, limit):
    with contextlib.ExitStack() as stack:
        under_way = AgentUnderWay(world, stack, **LARGE)
        agent = under_way.agent
        limit = max(limit, descriptors(agent.process) + 1)
        limit_descriptors(agent.process, limit)
        waiting = [stack.enter_context(Client(agent.addresses[3])) for _ in range(limit)]
        for c in waiting:
            c.send_raw(GET)
        wait_until(lambda: descriptors(agent.process) == limit, 'all descriptors to be in use')
        found = under_way.uploads()
        under_way.tunnel_works()
        assert all(f is not None and (f == WHOLE_UPLOAD or f[0] in (502, 503)) for f in found), found
        assert agent.process.alive()
        limit_descriptors(agent.process)
        for c in waiting:
            assert c.receive().status in (200, 502, 503)
        assert agent.get(n=3).status == 200


@WITHOUT_SANITIZER
@pytest.mark.parametrize('spare', [0, 8 * MIB, 32 * MIB, 128 * MIB])
def test_an_agent_without_memory_ends_with_a_plain_word_and_the_next_one_takes_its_processes(world, spare):
    with contextlib.ExitStack() as stack:
        under_way = AgentUnderWay(world, stack, **IN_MEMORY)
        agent = under_way.agent
        pids = [agent.pid(n) for n in range(4)]
        limit_memory(agent.process, spare)
        found = under_way.uploads()
        assert all(f in (None, WHOLE_UPLOAD) or f[0] in (502, 503) for f in found), found
        if spare >= 32 * MIB:
            assert found == [WHOLE_UPLOAD] * 2 and agent.process.alive()
            under_way.tunnel_works()
        use_up(agent.process, int(agent.addresses[3].rpartition(':')[2]), stack)
        ends_for_lack_of_memory(agent.process)
        assert ended(under_way.tunnel, b'still here') is None
    agent.start()
    agent.wait_ready()
    assert [agent.pid(n) for n in range(4)] == pids
    assert agent.get(n=3, method='POST', body=BODY).status == 200


# ---- the pool counter daemon ----

@pytest.mark.parametrize('limit', [64, 128, 300])
def test_locks_are_released_and_handed_over_without_descriptors(world, limit):
    pool = Daemon(world)
    (holder,) = pool.holders('ACQ4ME k 1 9 600')
    waiter = pool.waiter('ACQ4ME k 1 9 600')
    limit_descriptors(pool.process, limit)
    others = [pool.connect() for _ in range(limit)]
    wait_until(lambda: descriptors(pool.process) == limit, 'all descriptors to be in use')
    assert holder.ask('RELEASE') == 'RELEASED' and waiter.line() == 'LOCKED'
    assert others[0].ask('ACQ4ME other 1 9 600') == 'LOCKED'
    assert pool.process.alive()
    limit_descriptors(pool.process)
    assert [c.ask('RELEASE') for c in others] == ['RELEASED'] + ['NOT_LOCKED'] * (limit - 1)
    assert waiter.ask('RELEASE') == 'RELEASED' and pool.ask('ACQ4ME k 1 9 0') == 'LOCKED'


def one_more_key(pool):
    """The response to a new client that requests a new key, or None if its connection was closed."""
    number = len(pool.streams)
    return pool.connect().ask_or_none('ACQ4ME %d%s 1 9 600' % (number, 'k' * 900))


@WITHOUT_SANITIZER
@pytest.mark.parametrize('spare', [0, 2 * MIB, 4 * MIB])
def test_a_daemon_without_memory_rejects_new_keys_and_keeps_its_locks(world, spare):
    # A single malloc arena, as each further one would reserve 64 MiB of address space.
    pool = Daemon(world, env={'MALLOC_ARENA_MAX': '1'})
    (holder,) = pool.holders('ACQ4ME k 1 9 600')
    waiter = pool.waiter('ACQ4ME k 1 9 600')
    limit_memory(pool.process, spare)
    while (response := one_more_key(pool)) == 'LOCKED':
        pass
    assert response in ('ERROR OUT_OF_MEMORY', None)
    assert {one_more_key(pool) for _ in range(20)} <= {'LOCKED', 'ERROR OUT_OF_MEMORY', None}
    assert holder.ask('RELEASE') == 'RELEASED' and waiter.line() == 'LOCKED'
    assert pool.process.alive()
    resource.prlimit(pool.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert waiter.ask('RELEASE') == 'RELEASED' and pool.ask('ACQ4ME k 1 9 0') == 'LOCKED'
    assert one_more_key(pool) == 'LOCKED'
