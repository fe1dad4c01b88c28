# SPDX-License-Identifier: Apache-2.0
"""
Chromium opens a page of 200 parts over HTTP/2 and states the urgency of each (RFC 9218): the more urgent ones are complete first.

No time is measured. A relay holds what the load balancer sends until it has the responses to all requests that Chromium has in
progress, the least urgent ones first; then the order in which they end is the load balancer's decision alone.
"""
import itertools
import json
import re
import socket
import threading

from support.base import LIMIT, free_port, wait_until
from support.certificates import Pair
from support.scripted import serve
from test_browser import trusting  # noqa: F401

# Bytes of each part, so many that the kernel takes only the first few of a hundred before the relay opens.
PART = 200_000
TAGS = {'image': '<img src="/image/%d">', 'async': '<script async src="/async/%d"></script>', 'script': '<script src="/script/%d"></script>',
        'style': '<link rel="stylesheet" href="/style/%d">'}
FETCHES = ('low', 'auto', 'high')
TAGS_EACH, FETCHES_EACH = 35, 20
PARTS = TAGS_EACH * len(TAGS) + FETCHES_EACH * len(FETCHES)
STREAMS = 100       # that the load balancer permits

# Two parts: the fetches are in progress before Chromium gets the second.
PAGE = [text.encode() for text in (
    '<!DOCTYPE html><title>parts</title><body><script>for (let i = 0; i < %d; ++i) for (let priority of %s) '
    'fetch("/" + priority + "/" + i, {priority}).then(r => r.text());</script>\n' % (FETCHES_EACH, list(FETCHES)),
    '\n'.join(tag % i for i in range(TAGS_EACH) for tag in TAGS.values()))]
TYPES = {'image': 'image/svg+xml', 'style': 'text/css'}


class Worker:
    """
    Responds to the parts when release() permits it, the least urgent ones first. `urgency`: of each requested part, as Chromium
    states it; `responded`: in this order.
    """

    def __init__(self, world):
        self.urgency, self.responded, self.released, self.changed = {}, [], 0, threading.Condition()
        self.scripted = world.scripted(serve(self.respond))

    def respond(self, c, head, body):
        path = head.split(b' ')[1].decode()
        kind = path.split('/')[1]
        if path == '/favicon.ico':
            c.respond(b'', '404 Not Found')
            return
        if path == '/':
            c.write(b'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n' % sum(map(len, PAGE)) + PAGE[0])
            wait_until(lambda: len(self.urgency) == FETCHES_EACH * len(FETCHES), 'the fetches')
            c.write(PAGE[1])
            return
        stated = re.search(rb'^priority: *(.*?)\r?$', head, re.I | re.M)
        level = re.search(rb'\bu=(\d)', stated[1] if stated else b'')
        with self.changed:
            self.urgency[path] = mine = int(level[1]) if level else 3
            number = len(self.urgency)
            assert self.changed.wait_for(lambda: number <= self.released and not any(
                other > mine for part, other in self.urgency.items() if part not in self.responded), LIMIT)
        c.respond(b' ' * PART, headers=[('Content-Type', TYPES.get(kind, 'text/javascript')), ('Cache-Control', 'no-store')])
        with self.changed:
            self.responded.append(path)
            self.changed.notify_all()

    def release(self, count):
        with self.changed:
            self.released = count
            self.changed.notify_all()


class Relay:
    """Passes bytes on between clients and PORT; those of the server only while `open` is set."""

    def __init__(self, world, port):
        self.target, self.open = port, threading.Event()
        self.open.set()
        self.port = free_port()
        self.listener = socket.create_server(('127.0.0.1', self.port))
        world.closers.append(self.close)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                client, _ = self.listener.accept()
                server = socket.socket()
                # Otherwise the kernel takes up to 4 MB before the load balancer has to wait: its buffer grows with the segments.
                server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                server.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
                server.connect(('127.0.0.1', self.target))
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self.pump, args=pair, daemon=True).start()
        except OSError:     # the end of the test
            pass

    def pump(self, source, sink):
        try:
            while data := source.recv(4096):
                if source.getpeername()[1] == self.target:
                    self.open.wait(LIMIT)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.open.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def ended(log):
    """The parts that are complete, in the order of the access log."""
    lines = log.read_text().split('\n')[:-1] if log.exists() else []
    return [part for part in (json.loads(line)['target'] for line in lines) if part.count('/') == 2]


def misplaced(levels):
    """The share of pairs of different LEVELS in which the less urgent one is first: 0 if sorted, a half if mixed at random."""
    pairs = [a > b for a, b in itertools.combinations(levels, 2) if a != b]
    return sum(pairs) / len(pairs)


def test_the_more_urgent_parts_of_a_page_are_complete_first(world, trusting):  # noqa: F811
    worker, port, log = Worker(world), free_port(), world.directory / 'access.log'
    pair = Pair(world.directory, 'front', ['localhost'])
    lb = world.resumelb({'workers': [worker.scripted.address], 'max_connections': STREAMS, 'access_log': str(log),
                         'access_log_format': 'json', 'access_log_fields': ['target']},
                        listen=[{'address': '127.0.0.1:%d' % port, 'tls': pair.entry, 'http2': True}])
    relay = Relay(world, port)
    trusting.call('Page.navigate', url='https://127.0.0.1:%d/' % relay.port)
    before = 0
    for count in (STREAMS, PARTS):
        wait_until(lambda: len(worker.urgency) == count, 'the requests')
        relay.open.clear()
        worker.release(count)
        wait_until(lambda: lb.workers()[worker.scripted.address]['backlog'] == 0, 'all responses to be at the load balancer')
        relay.open.set()
        wait_until(lambda: len(ended(log)) == count, 'all of them to end')
        responded, complete = ([worker.urgency[path] for path in paths[before:]] for paths in (worker.responded, ended(log)))
        print('urgency in the order of completion:', complete)
        assert max(complete.count(level) for level in set(complete)) <= 0.7 * STREAMS
        assert misplaced(responded) == 1 and misplaced(complete) < 0.25
        before = count
    wait_until(lambda: trusting.js('document.readyState') == 'complete', 'the page')
    protocols = trusting.js('performance.getEntriesByType("resource").map(e => e.nextHopProtocol)')
    assert protocols.count('h2') >= PARTS and set(protocols) == {'h2'}
    assert [c for c in trusting.complaints if 'favicon' not in c] == []
    assert worker.scripted.errors == []
