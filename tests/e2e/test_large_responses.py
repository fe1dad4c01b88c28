# SPDX-License-Identifier: Apache-2.0
"""Large bodies arrive unchanged, in any pattern of writes and reads; an incomplete body stays detectably incomplete."""
import concurrent.futures
import functools
import hashlib
import json
import random
import socket

import pytest
from support.base import LIMIT, free_port, wait_until
from support.certificates import Pair, blind_context
from support.http import Client, CutShort, connect
from support.scripted import serve
from test_agent import attached

KIB = 1024
# Sizes around those that are read with a head, worth splicing, and fit into a buffer; and much larger ones.
SIZES = [1, 4095, 16 * KIB, 32 * KIB - 1, 32 * KIB, 36 * KIB + 1, 64 * KIB, 100_000, 256 * KIB, MIB := KIB * KIB, 5 * MIB + 3]


@functools.cache
def body_of(size):
    return random.Random(size).randbytes(size)


def pieces(data, seed):
    """Divides DATA into pieces of all sizes, from a few bytes to more than a socket buffer."""
    r = random.Random(seed)
    at = 0
    while at < len(data):
        n = int(2 ** r.uniform(8, 18))
        yield data[at:at + n]
        at += n


def respond(c, head, body):
    """/SIZE/HOW: sends SIZE bytes in one write, after the head, in pieces, in chunks, or only the first half."""
    _, size, how = head.split(b' ')[1].decode().split('/')
    data = body_of(int(size))
    first = b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % len(data)
    if how == 'whole':
        c.write(first + data)
    elif how == 'apart':
        c.write(first)
        c.write(data)
    elif how == 'pieces':
        for piece in pieces(first + data, len(data)):
            c.write(piece)
    elif how == 'chunks':
        c.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
        for piece in pieces(data, len(data)):
            c.write(b'%x\r\n%s\r\n' % (len(piece), piece))
        c.write(b'0\r\n\r\n')
    else:
        c.write(first + data[:len(data) // 2])
        c.sock.close()


def front(world, **settings):
    w = world.scripted(serve(respond))
    plain, tls = ('127.0.0.1:%d' % free_port() for _ in range(2))
    lb = world.resumelb({'workers': [w.address], 'eject_after': 0, 'poison_deaths': 0,
                         'access_log': str(world.directory / 'access.log'), 'access_log_format': 'json', **settings},
                        listen=[{'address': plain},
                                {'address': tls, 'tls': Pair(world.directory, 'large', ['test.example']).entry}], threads=1)
    lb.address, lb.tls_address = plain, tls
    return lb, w


def digest(data):
    return hashlib.sha256(data).hexdigest()


def assert_is(response, size):
    assert response.status == 200
    assert len(response.body) == size
    right = response.body == body_of(size)      # not in an assertion, as pytest would compare and print megabytes
    assert right


def secure(address):
    return Client(None, sock=blind_context().wrap_socket(connect(address), server_hostname='test.example'))


@pytest.mark.parametrize('how', ['whole', 'apart', 'pieces', 'chunks'])
@pytest.mark.parametrize('kind', ['1.1', '1.0', 'tls'])
def test_bodies_of_all_sizes_arrive_whole_on_one_connection(world, kind, how):
    lb, w = front(world)
    with (secure(lb.tls_address) if kind == 'tls' else Client(lb.address)) as c:
        for size in SIZES * 2:
            if kind == '1.0':
                with Client(lb.address) as old:
                    assert_is(old.request(target='/%d/%s' % (size, how), version='1.0'), size)
            else:
                assert_is(c.request(target='/%d/%s' % (size, how)), size)
    assert len(w.connections) == 1      # the connection to the worker is reused after each response


def test_the_agents_front_passes_large_bodies_on(world):
    w = world.scripted(serve(respond))
    agent = attached(world, w.address)
    with Client(agent.addresses[0]) as c:
        for how in ('whole', 'apart', 'pieces', 'chunks'):
            for size in SIZES:
                assert_is(c.request(target='/%d/%s' % (size, how)), size)


def slow_client(address):
    """A client socket with a small receive buffer: nearly all of a body is sent only when the client reads."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * KIB)
    host, _, port = address.rpartition(':')
    sock.connect((host, int(port)))
    sock.settimeout(LIMIT)
    return sock


def take_slowly(address, size, how):
    """Reads a response in small pieces until the end of the connection. Returns its body."""
    with slow_client(address) as sock:
        sock.sendall(b'GET /%d/%s HTTP/1.1\r\nHost: test.example\r\nConnection: close\r\n\r\n' % (size, how.encode()))
        r = random.Random(size)
        data = bytearray()
        while bit := sock.recv(r.randrange(1, 6 * KIB)):
            data += bit
    return bytes(data).partition(b'\r\n\r\n')[2]


def test_slow_clients_get_every_byte_while_quick_ones_are_served_at_once(world):
    lb, _ = front(world, response_buffer='128KiB')
    sizes = [3 * MIB + i for i in range(6)]
    with concurrent.futures.ThreadPoolExecutor(len(sizes)) as pool:
        slow = [pool.submit(take_slowly, lb.address, size, how) for size, how in zip(sizes, ['whole', 'apart', 'pieces'] * 2)]
        with Client(lb.address) as c:
            while not all(s.done() for s in slow):
                assert_is(c.request(target='/%d/whole' % MIB), MIB)
        for size, s in zip(sizes, slow):
            assert digest(s.result()) == digest(body_of(size))
    assert lb.app()['backlog'] == 0


@pytest.mark.parametrize('size', [64 * KIB, MIB, 5 * MIB])
def test_a_body_that_a_worker_cuts_is_cut_after_its_last_byte_and_the_next_response_is_whole(world, size):
    lb, w = front(world)
    with Client(lb.address) as c:
        c.send(target='/%d/cut' % size)
        _, status, _, _ = c.head()
        assert status == 200
        with pytest.raises(CutShort) as cut:
            c._need(size)
        assert str(cut.value).endswith('bytes of %d' % size)
        assert bytes(c.buffer) == body_of(size)[:size // 2]
    with Client(lb.address) as c:
        assert_is(c.request(target='/%d/whole' % size), size)
    assert len(w.connections) == 2


def test_the_access_log_counts_the_bytes_of_large_bodies_exactly(world):
    lb, _ = front(world)
    log = world.directory / 'access.log'
    with Client(lb.address) as c:
        for size in SIZES:
            c.request(target='/%d/pieces' % size)
        c.send(target='/%d/cut' % MIB)
        with pytest.raises(CutShort):
            c.receive()
    wait_until(lambda: len(log.read_text().splitlines()) == len(SIZES) + 1, 'the lines in the access log')
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line['sent_bytes'] for line in lines] == SIZES + [MIB // 2]
    assert [line['outcome'] for line in lines] == ['responded'] * len(SIZES) + ['cut-short']
