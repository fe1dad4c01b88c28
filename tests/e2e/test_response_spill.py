# SPDX-License-Identifier: Apache-2.0
"""A client that does not read occupies no worker: the unread response is spilled to a file, within the limits."""
import contextlib
import hashlib
import json
import os
import pathlib
import random
import socket
import struct

import pytest
from support.base import LIMIT, free_port, limit_descriptors, wait_until
from support.certificates import Pair, blind_context
from support.http import BodyCutShort, Client, get
from support.http2 import END_HEADERS, END_STREAM, HEADERS, WINDOW_UPDATE, Http2, frame, request
from support.scripted import serve
from test_front_survives import Directory

MIB = 1 << 20
SIZE = 20 * MIB
BODY = random.Random(1).randbytes(SIZE)
FEW = 3 * MIB       # for HTTP/2: the client of these tests is slow
SLOW, OTHERS = 4, 20


def digest(data):
    return hashlib.sha256(data).hexdigest()


class Workers:
    """Two workers that serve one connection each. `written`: the number of large responses that they have completely written."""

    def __init__(self, world, count=2):
        self.written = 0
        self.all = [world.scripted(serve(self.respond)) for _ in range(count)]
        self.addresses = [w.address for w in self.all]

    def respond(self, c, head, body):
        what = head.split(b' ')[1].decode().strip('/')
        if what == 'small':
            c.respond(b'small')
            return
        data = BODY[:FEW] if what == 'few' else BODY
        if what == 'chunks':
            c.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
            for at in range(0, len(data), 100_000):
                piece = data[at:at + 100_000]
                c.write(b'%x\r\n%s\r\n' % (len(piece), piece))
            c.write(b'0\r\n\r\n')
        elif what == 'events':
            c.write(b'HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\nContent-Length: %d\r\n\r\n' % len(data) + data)
        elif what == 'half':
            c.write(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % len(data) + data[:len(data) // 2])
            c.sock.shutdown(socket.SHUT_WR)
        else:
            c.respond(data)
        self.written += 1


class Front:
    def __init__(self, world, workers, **settings):
        self.log = world.directory / 'access.log'
        self.plain, self.tls = free_port(), free_port()
        self.lb = world.resumelb(
            {'workers': workers.addresses, 'max_connections': 1, 'eject_after': 0, 'poison_deaths': 0,
             'response_spill_dir': str(world.directory), 'worker_hold_timeout': 'off',
             'access_log': str(self.log), 'access_log_format': 'json', **settings},
            listen=[{'address': '127.0.0.1:%d' % self.plain},
                    {'address': '127.0.0.1:%d' % self.tls, 'tls': Pair(world.directory, 'spill', ['test.example']).entry, 'http2': True}])
        self.address = '127.0.0.1:%d' % self.plain
        self.process = self.lb.process

    def stats(self):
        return self.lb.app()['stats']

    def slow(self, tls=False):
        raw = slow_socket(self.tls if tls else self.plain)
        return Client(None, sock=blind_context().wrap_socket(raw, server_hostname='test.example') if tls else raw)

    def lines(self, **wanted):
        found = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [f for f in found if all(f[k] == v for k, v in wanted.items())]

    def all_given_back(self):
        wait_until(lambda: all(self.stats()[k] == 0 for k in ('spilled_bytes', 'buffered_bytes', 'requests_active')),
                   'all to be given back')


def unnamed_files(process):
    links = pathlib.Path('/proc/%d/fd' % process.pid).iterdir()
    with contextlib.suppress(FileNotFoundError):    # a descriptor is closed in the meantime
        return len([1 for link in links if os.readlink(link).endswith(' (deleted)')])
    return None


def slow_socket(port):
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.settimeout(LIMIT)
    raw.connect(('127.0.0.1', port))
    return raw


def read(c):
    """Reads the rest of the response. Returns the body."""
    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)
    return c.receive().body


def beside_slow_clients(workers, slow, address, target):
    """
    Leaves large responses unread and sends small requests. Returns the numbers of large responses taken from the workers, of small
    ones responded, and of large ones received intact.
    """
    found = {'taken': 0, 'responded': 0, 'intact': 0}
    before = workers.written
    with contextlib.ExitStack() as stack:
        clients = []
        for n in range(SLOW):
            clients.append(stack.enter_context(slow()))
            clients[-1].send(target=target)
            wait_until(lambda n=n: workers.written == before + n + 1, 'the response to be taken from its worker')
        found['taken'] = workers.written - before
        found['responded'] = sum(get(address, '/small').body == b'small' for _ in range(OTHERS))
        found['intact'] = sum(digest(read(c)) == digest(BODY) for c in clients)
    return found


class Nginx:
    def __init__(self, world, workers):
        self.port = free_port()
        self.address = '127.0.0.1:%d' % self.port
        directory = world.directory / 'nginx'
        directory.mkdir()
        (directory / 'nginx.conf').write_text('''
daemon off; master_process off; pid %(directory)s/pid; error_log stderr warn;
events { worker_connections 256; }
http {
    access_log off; client_body_temp_path %(directory)s/body; proxy_temp_path %(directory)s/proxy;
    fastcgi_temp_path %(directory)s/f; uwsgi_temp_path %(directory)s/u; scgi_temp_path %(directory)s/s;
    upstream workers { %(servers)s }
    server {
        listen %(address)s; send_timeout 1h;
        location / {
            proxy_pass http://workers; proxy_buffering on; proxy_max_temp_file_size 1024m; proxy_read_timeout 1h;
        }
    }
}
''' % {'directory': directory, 'address': self.address,
            'servers': ' '.join('server %s max_conns=1;' % a for a in workers.addresses)})
        process = world.process(['/usr/sbin/nginx', '-p', directory, '-c', directory / 'nginx.conf'], 'nginx')

        def up():
            assert process.alive(), process.output()[-3000:]
            with contextlib.suppress(OSError):
                return get(self.address, '/small').status == 200
        wait_until(up, 'nginx')


@pytest.mark.parametrize('tls, target', [(False, '/big'), (True, '/big'), (False, '/chunks')])
def test_clients_that_do_not_read_hold_no_worker(world, tls, target):
    workers = Workers(world)
    front = Front(world, workers)
    found = beside_slow_clients(workers, lambda: front.slow(tls), front.address, target)
    assert found == {'taken': SLOW, 'responded': OTHERS, 'intact': SLOW}
    front.all_given_back()
    stats = front.stats()
    assert stats['spilled_responses'] == SLOW
    assert stats['spill_limits'] == stats['spill_failures'] == stats['holds_cut'] == 0
    wait_until(lambda: len(front.lines(target=target, outcome='responded', sent_bytes=SIZE)) == SLOW, 'the lines: %s' % front.lines(target=target))


def test_nginx_with_its_files_does_the_same(world):
    workers = Workers(world)
    front, nginx = Front(world, workers), Nginx(world, workers)
    ours = beside_slow_clients(workers, front.slow, front.address, '/big')
    front.all_given_back()
    front.lb.process.stop()         # its connections are the only ones that these workers may have
    assert ours == beside_slow_clients(workers, lambda: Client(None, sock=slow_socket(nginx.port)), nginx.address, '/big')


def test_streams_whose_windows_are_closed_hold_no_worker(world):
    workers = Workers(world)
    front = Front(world, workers, response_buffer='64KiB')
    with Http2(front.tls) as c:
        numbers = range(1, 2 * SLOW, 2)
        for i, n in enumerate(numbers):
            c.send(frame(HEADERS, request(path='/few'), END_STREAM | END_HEADERS, n))
            wait_until(lambda i=i: workers.written == i + 1, 'the response to be taken from its worker')
        assert sum(get(front.address, '/small').status == 200 for _ in range(OTHERS)) == OTHERS
        for n in (0, *numbers):
            c.send(frame(WINDOW_UPDATE, struct.pack('>I', 1 << 30), 0, n))
        c.until_over(*numbers)
        assert {digest(c.stream(n).body) for n in numbers} == {digest(BODY[:FEW])}
    front.all_given_back()
    assert front.stats()['spilled_responses'] == SLOW


def test_the_place_at_a_pool_counter_is_free_when_the_worker_is(world):
    workers = Workers(world)
    front = Front(world, workers, limits={'sites': {'workers': 1}})
    with front.slow() as c:
        c.send(target='/big')
        wait_until(lambda: workers.written == 1, 'the response to be taken from its worker')
        assert [get(front.address, '/small').status for _ in range(3)] == [200] * 3
        assert digest(read(c)) == digest(BODY)


def test_a_response_that_its_worker_cuts_is_passed_on_as_far_as_it_came(world):
    workers = Workers(world, 1)
    front = Front(world, workers)
    with front.slow() as c:
        c.send(target='/half')
        wait_until(lambda: workers.written == 1, 'the half to be taken')
        wait_until(lambda: next(iter(front.lb.workers().values()))['backlog'] == 0, 'the worker to be free')
        assert front.stats()['spilled_responses'] == 1
        with pytest.raises(BodyCutShort):
            read(c)
        assert bytes(c.buffer) == BODY[:SIZE // 2]
    assert wait_until(lambda: front.lines(outcome='cut-short'), 'the line')[0]['sent_bytes'] == SIZE // 2
    front.all_given_back()


def test_a_client_that_leaves_gives_the_space_of_its_response_back(world):
    workers = Workers(world, 1)
    front = Front(world, workers)
    with front.slow() as c:
        c.send(target='/big')
        wait_until(lambda: workers.written == 1, 'the response to be taken from its worker')
        assert front.stats()['spilled_bytes'] > SIZE // 2
        wait_until(lambda: unnamed_files(front.process) == 1, 'the file')
    front.all_given_back()
    wait_until(lambda: unnamed_files(front.process) == 0, 'the file to be closed')
    wait_until(lambda: front.lines(outcome='client-gone'), 'the line')


@pytest.mark.parametrize('settings', [{}, {'response_spill_max': '2MiB'}])
def test_responses_that_wait_for_their_clients_are_cut_at_the_end_of_drain_timeout(world, settings):
    workers = Workers(world, 1)
    front = Front(world, workers, drain_timeout='1s', **settings)
    with front.slow() as c, front.slow(tls=True) as waiting:
        c.send(target='/big')
        wait_until(lambda: front.stats()['spilled_bytes'] > MIB, 'the file')
        waiting.send(target='/big')
        wait_until(lambda: front.stats()['requests_active'] == 2, 'both')
        assert front.lb.process.stop() == 0
        with pytest.raises(BodyCutShort):
            read(c)


def test_beyond_the_total_reading_follows_the_client(world):
    workers = Workers(world)
    # The first response fits; for the second there is only the space of what the sockets hold of both.
    front = Front(world, workers, response_spill_total='20MiB')
    with front.slow() as first, front.slow() as second:
        first.send(target='/big')
        wait_until(lambda: workers.written == 1, 'the first response to be taken from its worker')
        second.send(target='/big')
        wait_until(lambda: front.stats()['spill_limits'] == 1, 'the limit')
        # Not whether its worker has written it: with a fast start the kernel's buffers grow to the size of the rest.
        assert SIZE // 2 < front.stats()['spilled_bytes'] <= SIZE
        assert get(front.address, '/small').status == 200       # by the other worker
        assert digest(read(second)) == digest(BODY)
        assert digest(read(first)) == digest(BODY)
    front.all_given_back()
    with front.slow() as third:
        third.send(target='/big')
        wait_until(lambda: workers.written == 3, 'the room of the others to be used again')
        assert digest(read(third)) == digest(BODY)


@pytest.mark.parametrize('settings, count', [
    ({'response_spill_max': '0'}, None),
    ({'response_spill_total': '0'}, 'spill_limits'),
    ({'response_spill_max': '2MiB'}, 'spill_limits')])
def test_a_limited_response_holds_its_worker_and_is_intact_while_no_request_waits(world, settings, count):
    workers = Workers(world, 1)
    front = Front(world, workers, worker_hold_timeout='1ms', **settings)
    with front.slow() as c:
        c.send(target='/big')
        wait_until(lambda: front.stats()['buffered_bytes'] > 200 << 10, 'the buffer to be full')
        wait_until(lambda: count is None or front.stats()[count] != 0, 'the limit')
        assert workers.written == 0
        assert front.stats()['spilled_bytes'] <= 2 * MIB
        assert next(iter(front.lb.workers().values()))['backlog'] == 1
        assert digest(read(c)) == digest(BODY)
    front.all_given_back()
    assert front.stats()['holds_cut'] == 0


@pytest.mark.parametrize('target', ['/big', '/events'])
def test_a_worker_that_others_wait_for_is_held_no_longer_than_worker_hold_timeout(world, target):
    workers = Workers(world, 1)
    front = Front(world, workers, worker_hold_timeout='1s', response_spill_max='2MiB')
    with front.slow() as c:
        c.send(target=target)
        wait_until(lambda: front.stats()['buffered_bytes'] > 200 << 10, 'the buffer to be full')
        assert get(front.address, '/small').body == b'small'
        assert front.stats()['holds_cut'] == 1 and workers.written == 0
        with pytest.raises(BodyCutShort):
            read(c)
        assert BODY.startswith(bytes(c.buffer)) and len(c.buffer) < SIZE
    assert len(wait_until(lambda: front.lines(outcome='slow-client'), 'the line')) == 1
    wait_until(lambda: 'slow-response-cut' in front.process.output(), 'the event')
    front.all_given_back()


def test_event_streams_are_not_put_into_files(world):
    workers = Workers(world, 1)
    front = Front(world, workers)
    with front.slow() as c:
        c.send(target='/events')
        wait_until(lambda: front.stats()['buffered_bytes'] > 200 << 10, 'the buffer to be full')
        assert digest(read(c)) == digest(BODY)
    front.all_given_back()
    stats = front.stats()
    assert stats['spilled_responses'] == stats['spill_limits'] == stats['spill_failures'] == 0


@pytest.mark.parametrize('how', ['full', 'full soon', 'gone', 'read-only', 'descriptors'])
def test_without_room_for_files_reading_follows_the_client(world, how):
    workers = Workers(world, 1)
    directory = Directory(world)
    front = Front(world, workers, response_spill_dir=str(directory.path))
    with front.slow() as c:
        assert c.request(target='/small').status == 200         # its connection, and that to the worker, are there
        if how == 'descriptors':
            used = {int(p.name) for p in pathlib.Path('/proc/%d/fd' % front.process.pid).iterdir()}
            free = min(set(range(len(used) + 1)) - used)
            limit_descriptors(front.process, free)
        else:
            directory.fail(how)
        c.send(target='/big')
        wait_until(lambda: 'response-spill-failed' in front.process.output(), 'the event')
        limit_descriptors(front.process)
        assert front.stats()['spill_failures'] != 0 and workers.written == 0
        assert digest(read(c)) == digest(BODY)
        if how != 'descriptors':
            directory.mend(how)
        c.send(target='/few')
        wait_until(lambda: workers.written == 2, 'the response to be taken from its worker')
        assert read(c) == BODY[:FEW]
    front.all_given_back()


def test_a_full_disk_takes_a_part_of_a_response_and_the_rest_follows_the_client(world):
    workers = Workers(world, 1)
    directory = Directory(world)
    front = Front(world, workers, response_spill_dir=str(directory.path))
    with front.slow() as c:
        c.send(target='/big')
        wait_until(lambda: front.stats()['spill_failures'] != 0, 'the failure')
        assert front.stats()['spilled_bytes'] > 0
        assert digest(read(c)) == digest(BODY)
    front.all_given_back()
