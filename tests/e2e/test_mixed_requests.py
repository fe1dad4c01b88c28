# SPDX-License-Identifier: Apache-2.0
"""
Requests of all kinds, one after the other on one connection. Each gets its response, in order, with any division of the
bytes, plain and over TLS.
"""
import io
import random
import select
import socket
import ssl

import pytest
from support.base import LIMIT, free_port
from support.certificates import Pair, dial
from support.http import connect
from support.scripted import serve

LARGE = 3 << 20     # more than the socket buffers hold, so that the end is sent only when the client reads
KINDS = ('get', 'post', 'chunked', 'head', 'padded', 'absolute', 'large', 'spilled')
ROUNDS = 6
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def request(kind, n):
    """The bytes of request N, and the (target, body) that the worker should receive."""
    target = '/%s/%d' % (kind, n)
    head = 'GET %s HTTP/1.1\r\nHost: a.example\r\nX-Number: %d\r\n' % (target, n)
    body = b'GET /inner/%d HTTP/1.1\r\nHost: a.example\r\n\r\n' % n
    if kind == 'post':
        head = head.replace('GET', 'POST', 1) + 'Content-Length: %d\r\n' % len(body)
        return head.encode() + b'\r\n' + body, (target, body)
    if kind == 'chunked':
        head = head.replace('GET', 'PUT', 1) + 'Transfer-Encoding: chunked\r\n'
        return head.encode() + b'\r\n%x\r\n%s\r\n0\r\n\r\n' % (len(body), body), (target, body)
    if kind == 'spilled':
        body = body * 3000
        head = head.replace('GET', 'POST', 1) + 'Content-Length: %d\r\n' % len(body)
        return head.encode() + b'\r\n' + body, (target, body)
    if kind == 'head':
        return head.replace('GET', 'HEAD', 1).encode() + b'\r\n', (target, b'')
    if kind == 'padded':
        return head.encode() + b'X-Padded: a  \t \r\n\r\n', (target, b'')
    if kind == 'absolute':
        return head.replace(target, 'http://a.example' + target, 1).encode() + b'\r\n', (target, b'')
    return head.encode() + b'\r\n', (target, b'')


def echo(connection, head, body):
    line, *fields = head.decode().split('\r\n')
    method, target, _ = line.split(' ')
    number = next(f.split(': ')[1] for f in fields if f.lower().startswith('x-number:'))
    text = ('%s %s %s ' % (method, target, number)).encode() + body[:100]
    if '/large/' in target:
        text = text.ljust(LARGE, b'.')
    if method == 'HEAD':
        connection.write(b'HTTP/1.1 200 OK\r\nX-Echo: %s\r\nContent-Length: %d\r\n\r\n' % (text, LARGE))
    else:
        connection.respond(text, headers=[('X-Echo', text[:60].split(b'\r')[0].decode())])


def respond(stream):
    """(X-Echo, Content-Length, body) of the next response."""
    assert stream.readline() == b'HTTP/1.1 200 OK\r\n'
    fields = {}
    while (line := stream.readline()) != b'\r\n':
        name, _, value = line.decode().partition(': ')
        fields[name.lower()] = value.strip()
    length = int(fields['content-length'])
    return fields['x-echo'], length, b'' if fields['x-echo'].startswith('HEAD') else stream.read(length)


class Talk(io.RawIOBase):
    """Sends DATA in pieces while responses are read, in one thread, as a TLS object must not be used by two."""

    def __init__(self, sock, data, random_):
        sock.setblocking(False)
        self.sock, self.data, self.random = sock, data, random_
        self.piece = b''

    def readable(self):
        return True

    def send(self):
        while self.piece or self.data:
            if not self.piece:
                n = self.random.choice((1, 3, 20, 100, 1000, 20000, len(self.data)))
                self.piece, self.data = self.data[:n], self.data[n:]
            try:
                self.piece = self.piece[self.sock.send(self.piece):]
            except WOULD_BLOCK:
                return

    def readinto(self, room):
        while True:
            self.send()
            try:
                return self.sock.recv_into(room)
            except WOULD_BLOCK:
                ready = select.select([self.sock], [self.sock] if self.piece else [], [], LIMIT)
                assert ready[0] or ready[1], 'nothing received'


@pytest.mark.parametrize('tls', [False, True], ids=['plain', 'tls'])
def test_each_request_of_a_connection_has_its_response_in_order_whatever_kinds_they_are(world, tls):
    worker = world.scripted(serve(echo))
    address = '127.0.0.1:%d' % free_port()
    entry = {'tls': Pair(world.directory, 'site', ['a.example']).entry} if tls else {}
    world.resumelb({'workers': [worker.address], 'body_spill': '64KiB'}, listen=[{'address': address, **entry}])
    for seed in range(ROUNDS):
        random_ = random.Random(seed)
        kinds = [random_.choice(KINDS) for _ in range(25)]
        requests = [request(kind, n) for n, kind in enumerate(kinds)]
        print('seed', seed, kinds)
        sock = dial(address, 'a.example') if tls else connect(address)
        with sock, io.BufferedReader(Talk(sock, b''.join(r for r, _ in requests), random_)) as stream:
            for n, (kind, (_, (target, body))) in enumerate(zip(kinds, requests)):
                echoed, length, got = respond(stream)
                text = ' '.join((echoed.split(' ')[0], target, str(n))) + ' '
                assert echoed.startswith(text.strip()), (n, kind)
                if kind != 'head':
                    assert got.startswith(text.encode() + body[:100]), (n, kind)
                assert length == (LARGE if kind in ('large', 'head') else len(text) + len(body[:100])), (n, kind)
            if not tls:
                sock.shutdown(socket.SHUT_WR)
                assert stream.read() == b''
