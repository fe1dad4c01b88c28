#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
What an idle connection costs: bytes of the load balancer's own memory, for HTTP/1 plain and over TLS, and HTTP/2 over TLS.

    bench/edge_idle.py [--connections 1000] [--settle 4] [--cookie 0]

A separate load balancer with one loop for each kind. Each connection has one request, with a --cookie of so many bytes,
then nothing. --settle seconds later the growth of the process's private memory since the first such connection is divided
by their number. RLB_BIN: directory of the programs (default build/bin).
"""
import argparse
import pathlib
import resource
import ssl
import time

from agent_support import table
from limit_load import fresh_world
from support.base import free_port
from support.certificates import Pair, blind_context
from support.http import connect
from support.scripted import hello, serve

PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + b'\0\0\0\4\0\0\0\0\0'
# :method GET, :scheme https, :path /, :authority a.example; the stream ends.
BLOCK = b'\x82\x87\x84\x41\x09a.example'
HTTP1 = b'GET / HTTP/1.1\r\nHost: a.example\r\n'


def integer(n):
    """HPACK integer with a prefix of 7 bits."""
    if n < 127:
        return bytes([n])
    n, out = n - 127, b'\x7f'
    while n >= 128:
        n, out = n >> 7, out + bytes([n & 127 | 128])
    return out + bytes([n])


def request(http2, cookie):
    if not http2:
        return HTTP1 + (b'Cookie: %s\r\n' % (b'x' * cookie) if cookie else b'') + b'\r\n'
    # A literal without indexing.
    block = BLOCK + (b'\0\6cookie' + integer(cookie) + b'x' * cookie if cookie else b'')
    return PREFACE + len(block).to_bytes(3, 'big') + b'\1\5\0\0\0\1' + block


def ended(got, http2):
    """Whether the response is complete."""
    if not http2:
        return got.endswith(b'hello')
    while len(got) >= 9:
        size = int.from_bytes(got[:3], 'big')
        if len(got) < 9 + size:
            return False
        if got[3] in (0, 1) and got[4] & 1:
            return True
        got = got[9 + size:]
    return False


def ask(sock, http2, cookie):
    sock.sendall(request(http2, cookie))
    got = b''
    while not ended(got, http2):
        data = sock.recv(65536)
        assert data, got
        got += data


def private_bytes(pid):
    text = pathlib.Path('/proc/%d/smaps_rollup' % pid).read_text()
    return sum(int(line.split()[1]) for line in text.split('\n') if line.startswith('Private_Dirty')) * 1024


def dial(address, tls, http2):
    sock = connect(address)
    if not tls:
        return sock
    context = blind_context()
    context.set_alpn_protocols(['h2' if http2 else 'http/1.1'])
    return context.wrap_socket(sock, server_hostname='a.example')


def measure(options, tls, http2):
    with fresh_world() as world:
        worker = world.scripted(serve(hello))
        address = '127.0.0.1:%d' % free_port()
        entry = {'tls': Pair(world.directory, 'edge', ['a.example']).entry, 'http2': http2} if tls else {}
        lb = world.resumelb({'workers': [worker.address]}, threads=1, listen=[{'address': address, **entry}])
        socks = [dial(address, tls, http2)]
        ask(socks[0], http2, options.cookie)
        before = private_bytes(lb.process.pid)
        for _ in range(options.connections):
            socks.append(dial(address, tls, http2))
            ask(socks[-1], http2, options.cookie)
        first = private_bytes(lb.process.pid)
        time.sleep(options.settle)
        after = private_bytes(lb.process.pid)
        for s in socks:
            s.close()
        return (first - before) / options.connections, (after - before) / options.connections


def main():
    p = argparse.ArgumentParser(description=__doc__.strip().split('\n')[0])
    p.add_argument('--connections', type=int, default=1000)
    p.add_argument('--settle', type=float, default=4)
    p.add_argument('--cookie', type=int, default=0)
    options = p.parse_args()
    files = 2 * options.connections + 1000
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, max(files, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    rows = []
    for name, tls, http2 in (('HTTP/1.1', False, False), ('HTTP/1.1, TLS', True, False), ('HTTP/2, TLS', True, True)):
        rows.append([name, *('%.0f' % n for n in measure(options, tls, http2))])
    table(['', 'bytes each, after the last response', '... idle for %g s' % options.settle], rows)


main()
