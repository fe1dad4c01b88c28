# SPDX-License-Identifier: Apache-2.0
"""A flood of unknown class names: memory is bounded, and known classes keep their homes, or skills.

RLB_FLOOD sets the number of distinct Hosts (1,000,000 in the soak run).
"""
import json
import os
import socket
import threading

import pytest
from support.base import LIMIT, wait_until
from support.http import get

pytestmark = pytest.mark.soak

DISTINCT = int(os.environ.get('RLB_FLOOD', '10000'))
CLASSES = min(100_000, 2 * DISTINCT // 3)      # max_classes: fewer than are sent, and at most the default
BOUND_KIB = 20 * 1024 + CLASSES * 1.8           # limit of resident memory: the base without classes, and a limit per class
BODY = b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'


class Fast:
    """A worker that responds to pipelined GETs as fast as possible in Python: it counts blank lines and parses nothing."""

    def __init__(self):
        self.listener = socket.socket()
        self.listener.bind(('127.0.0.1', 0))
        self.listener.listen(1024)
        self.address = '127.0.0.1:%d' % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        tail = b''
        try:
            while True:
                data = s.recv(65536)
                if not data:
                    return
                tail += data
                n = tail.count(b'\r\n\r\n')
                if n:
                    tail = tail[tail.rindex(b'\r\n\r\n') + 4:]
                    s.sendall(BODY * n)
        except OSError:
            pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def flood(lb, first, count, known, every):
    """Sends pipelined requests with distinct Hosts; one in EVERY requests has a known one."""
    s = socket.create_connection(('127.0.0.1', lb.port))
    s.settimeout(LIMIT)
    sent = 0
    batch = 50
    for start in range(first, first + count, batch):
        hosts = ['flood-%d.example' % i for i in range(start, min(start + batch, first + count))]
        if (start - first) % every < batch:
            hosts += known
        s.sendall(b''.join(b'GET / HTTP/1.1\r\nHost: %s\r\n\r\n' % h.encode() for h in hosts))
        got = b''
        while got.count(b'\r\n\r\nok') < len(hosts):
            data = s.recv(1 << 18)
            assert data
            got += data
        assert got.count(b'HTTP/1.1 200') == len(hosts)
        sent += len(hosts)
    s.close()
    return sent


def rss_kib(pid):
    return int(open('/proc/%d/status' % pid).read().split('VmRSS:')[1].split()[0])


def reason(lb, cls):
    return json.loads(get(lb.admin, '/explain?class=' + cls, host=lb.admin).body)['reason']


@pytest.mark.parametrize('policy', ['adaptive', 'resume'])
def test_a_flood_of_hosts_costs_bounded_memory_and_known_classes_keep_their_place(world, policy):
    workers = [Fast() for _ in range(2)]
    world.closers += [w.close for w in workers]
    # Resumes are frequent and may have as many classes as the limit of all together, so that classes compete for space.
    lb = world.resumelb({'workers': [w.address for w in workers], 'state_dir': str(world.directory / 'state'),
                         'history': 1000, 'max_skills': CLASSES, 'max_skill_age': 10 * DISTINCT,
                         'pool': {'policy': policy, 'max_classes': CLASSES}})
    known = ['known-%d.example' % i for i in range(100)]
    # A class becomes known when it is requested again in a later sweep, a tenth of max_classes requests later.
    for i in range(3):
        flood(lb, i * 100_000, 12 * CLASSES // 100, known, CLASSES)
    half = DISTINCT // 2
    failures = []

    def run(first):
        try:
            flood(lb, first, half, known, 45 * CLASSES // 100)
        except Exception as e:
            failures.append(e)
    threads = [threading.Thread(target=run, args=(1_000_000 + i * 10_000_000,)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures
    app = wait_until(lambda: (app := lb.app())['backlog'] == 0 and app, 'the pool to be idle')
    assert app['stats']['requests'] >= DISTINCT
    assert app['classes'] <= CLASSES
    resumes = lb.json('/resumes.json')['applications']['default']
    kept = {c for skills in resumes.values() for c in skills}
    if policy == 'resume':
        assert set(known) <= kept
    else:       # routing is by homes
        assert {reason(lb, cls) for cls in known} == {'home'} and reason(lb, 'new.example') != 'home'
    if 'asan' not in str(lb.process.popen.args[0]) and 'tsan' not in str(lb.process.popen.args[0]):
        assert rss_kib(lb.process.pid) <= BOUND_KIB, rss_kib(lb.process.pid)
    print('distinct %d, classes kept %d, RSS %d KiB' % (DISTINCT, app['classes'], rss_kib(lb.process.pid)))
