# SPDX-License-Identifier: Apache-2.0
"""Memory: the cost of an idle client, and the absence of growth under load.

RLB_MEMORY_REQUESTS sets the number of requests of the load (more in the soak run).
"""
import hashlib
import os
import pathlib
import re
import socket
import threading

import pytest
from support.base import BIN, LIMIT, wait_until
from support.http import Client
from support.scripted import serve

pytestmark = pytest.mark.soak

REQUESTS = int(os.environ.get('RLB_MEMORY_REQUESTS', '2400'))
CLIENTS = 1500
IDLE_BYTES = 2000               # a connection between two requests
HALF_A_HEAD_BYTES = 2500
FLAT_BYTES = 3 << 20            # growth over the second half of the requests
sanitized = pytest.mark.skipif('asan' in str(BIN) or 'tsan' in str(BIN), reason='sanitizers have memory of their own')


def anonymous(lb):
    status = pathlib.Path('/proc/%d/status' % lb.process.pid).read_text()
    return int(re.search(r'RssAnon:\s+(\d+)', status).group(1)) * 1024


def echo(c, head, body):
    size = int(re.match(rb'\S+ /(\d*)', head).group(1) or 2)
    c.write(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Sum: %s\r\n\r\n' % (
        size, hashlib.sha256(body).hexdigest().encode()))
    c.write(bytes(size))


def balancer(world, **settings):
    # The worker does not record requests: the bodies of half an hour are tens of gigabytes.
    return world.resumelb({'workers': [{'address': world.scripted(serve(echo), remembers=False).address}], 'resume': 'measure',
                           'threads': 1, **settings})


def dial(lb, data):
    s = socket.create_connection(('127.0.0.1', lb.port))
    s.sendall(data)
    return s


@sanitized
def test_idle_connections_and_unfinished_heads_cost_little(world):
    lb = balancer(world)
    request = b'GET /2 HTTP/1.1\r\nHost: a\r\n\r\n'
    warm = [dial(lb, request) for _ in range(100)]
    for s in warm:
        assert s.recv(4096)
    socks = []
    for data, bound in ((request, IDLE_BYTES), (request[:-10], HALF_A_HEAD_BYTES)):
        before = anonymous(lb)
        for _ in range(CLIENTS):
            socks.append(dial(lb, data))
            if data == request:
                assert socks[-1].recv(4096)
        last = dial(lb, request)        # it is accepted and read after all others
        assert last.recv(4096)
        warm.append(last)
        assert (anonymous(lb) - before) / CLIENTS < bound
    for s in warm + socks:
        s.close()


def test_a_large_body_is_the_same_at_the_worker_whatever_its_size(world):
    lb = balancer(world)
    with Client(lb.address) as c:
        for size in (1, (512 << 10) - 1, 512 << 10, (512 << 10) + 1, 5_000_000):
            body = os.urandom(size)
            assert c.request(method='POST', target='/2', body=body)['X-Sum'] == hashlib.sha256(body).hexdigest()


class Load:
    """Sends requests of all kinds without a pause; some are aborted."""

    def __init__(self, lb):
        self.lb, self.ended, self.done, self.wrong = lb, threading.Event(), 0, []
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(4)]
        for t in self.threads:
            t.start()

    def round(self, i):
        with Client(self.lb.address) as c:
            for target, body in (('/2', b''), ('/65536', b''), ('/1000000', b''), ('/2', bytes(1000)),
                                 ('/2', bytes(300_000)), ('/2', bytes(700_000))):
                r = c.request(method='POST' if body else 'GET', target=target, host='h%d' % (i % 50), body=body)
                if r.status != 200 or r['X-Sum'] != hashlib.sha256(body).hexdigest():
                    self.wrong.append((target, r.status))
                self.done += 1
        dial(self.lb, b'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n' + bytes(600_000)).close()
        dial(self.lb, b'GET /1000000 HTTP/1.1\r\nHost: a\r\n\r\n').close()

    def run(self, i):
        while not self.ended.is_set():
            self.round(i)
            i += 1

    def stop(self):
        self.ended.set()
        for t in self.threads:
            t.join(LIMIT)


@sanitized
def test_memory_is_flat_under_load(world):
    lb = balancer(world)
    load = Load(lb)
    seen = []
    for done in range(0, REQUESTS, REQUESTS // 100):
        wait_until(lambda: load.done >= done or load.wrong, '%d requests' % done)
        seen.append(anonymous(lb))
    load.stop()
    assert not load.wrong
    half = len(seen) // 2
    assert max(seen[half:]) - max(seen[:half]) < FLAT_BYTES, seen
