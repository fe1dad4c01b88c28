# SPDX-License-Identifier: Apache-2.0
"""Requests that are under way for as long as a test wants, behind a load balancer with pool counters."""
import socket
import subprocess
import threading

from support.base import PATIENCE, wait_until
from support.http import Client
from support.scripted import Scripted, serve


class HeldApp:
    """A worker that answers no request before it is told to. `answers` says how, by path."""

    def __init__(self, answers=None):
        self.lock, self.waiting, self.begun = threading.Lock(), [], []
        self.open = threading.Event()
        self.answers = answers or {}
        self.server = Scripted(serve(self.answer))
        self.address = self.server.address

    def answer(self, c, head, body):
        method, target = head.decode('latin-1').split(' ')[:2]
        done = threading.Event()
        with self.lock:
            number = len(self.begun)
            self.begun.append('%s %s' % (method, target))
            self.waiting.append(done)
        while not self.open.is_set() and not done.wait(0.005):
            pass
        with self.lock:
            if done in self.waiting:
                self.waiting.remove(done)
        act = self.answers.get(target.partition('?')[0])
        if act is not None:
            act(c, number)
        else:
            c.answer(b'number %d' % number)

    def let_go(self, n=1):
        """The N oldest of those under way are answered."""
        wait_until(lambda: len(self.waiting) >= n, '%d under way' % n)
        with self.lock:
            for done in [self.waiting.pop(0) for _ in range(n)]:
                done.set()

    def let_all_go(self):
        self.open.set()

    def under_way(self, n):
        wait_until(lambda: len(self.waiting) == n, '%d under way, not %d' % (n, len(self.waiting)))


class Asked:
    """One request, on a connection of its own, that is waited for later."""

    def __init__(self, address, target='/', host='a.example', method='GET', headers=(), body=None):
        self.response, self.problem = None, None
        self.client = Client(address, seconds=60)
        self.client.send(method, target, host, headers, body)
        self.thread = threading.Thread(target=self._receive, args=(method,), daemon=True)
        self.thread.start()

    def _receive(self, method):
        try:
            self.response = self.client.receive(is_head=method == 'HEAD')
        except Exception as e:
            self.problem = e

    def answered(self):
        return not self.thread.is_alive()

    def wait(self):
        self.thread.join(60 * PATIENCE)
        assert self.response is not None, self.problem
        return self.response

    def leave(self):
        self.client.sock.shutdown(socket.SHUT_RDWR)
        self.client.close()


def balancer(world, app, counters, name='resumelb', **more):
    config = {'workers': [app.address], 'resume': 'measure', 'retries': 0, 'pool_counters': counters}
    config.update(more)
    return world.resumelb(config, name=name)


def waits(lb, n):
    wait_until(lambda: lb.app()['stats']['limit_waiting'] == n, '%d to wait for their turn' % n)


def outcome(lb, name):
    return lb.app()['outcomes'].get(name, 0)


def ends(lb, name, n):
    """So many requests have that outcome; an answer is there a moment before it is counted."""
    wait_until(lambda: outcome(lb, name) == n, '%d to be %s, not %d' % (n, name, outcome(lb, name)))


class Poolcounterd:
    """The original daemon, on a port of our choice."""

    def __init__(self, program='/usr/bin/poolcounterd', port=0):
        self.program = program
        self.listener = None
        self.process = None
        self.start(port)

    def start(self, port=None):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(('127.0.0.1', self.port if port is None else port))
        s.listen(1024)
        self.port = s.getsockname()[1]
        self.address = '127.0.0.1:%d' % self.port
        self.process = subprocess.Popen([self.program], stdin=s, stderr=subprocess.DEVNULL)
        s.close()

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stats(self):
        with socket.create_connection(('127.0.0.1', self.port), 10) as s:
            s.sendall(b'STATS FULL\n')
            data = b''
            while not data.endswith(b'\n\n'):
                data += s.recv(65536)
        return dict(line.split(': ', 1) for line in data.decode().split('\n') if ': ' in line)
