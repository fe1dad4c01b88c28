# SPDX-License-Identifier: Apache-2.0
"""A load balancer with limits, and requests with a duration that the test controls."""
import socket
import ssl
import subprocess
import threading

import h2.connection
import h2.events

from support.base import LIMIT, free_port, wait_until
from support.certificates import Pair
from support.http import Client
from support.scripted import Scripted, serve


class HeldApp:
    """A worker that holds its responses until the test releases them. `responses`: functions that send the response, by path."""

    def __init__(self, responses=None):
        self.lock, self.waiting, self.begun = threading.Lock(), [], []
        self.most = 0    # maximum number of concurrent requests
        self.open = threading.Event()
        self.responses = responses or {}
        self.server = Scripted(serve(self.respond))
        self.address = self.server.address

    def respond(self, c, head, body):
        method, target = head.decode('latin-1').split(' ')[:2]
        done = threading.Event()
        with self.lock:
            number = len(self.begun)
            self.begun.append('%s %s' % (method, target))
            self.waiting.append(done)
            self.most = max(self.most, len(self.waiting))
        while not self.open.is_set() and not done.wait(0.005):
            pass
        with self.lock:
            if done in self.waiting:
                self.waiting.remove(done)
        act = self.responses.get(target.partition('?')[0])
        if act is not None:
            act(c, number)
        else:
            c.respond(b'number %d' % number)

    def let_go(self, n=1):
        """Releases the responses of the N oldest requests in progress."""
        wait_until(lambda: len(self.waiting) >= n, '%d in progress' % n)
        with self.lock:
            for done in [self.waiting.pop(0) for _ in range(n)]:
                done.set()

    def let_all_go(self):
        self.open.set()

    def under_way(self, n):
        wait_until(lambda: len(self.waiting) == n, '%d in progress, not %d' % (n, len(self.waiting)))


class Asked:
    """One request on its own connection, sent immediately; its response is awaited later."""

    def __init__(self, address, target='/', host='a.example', method='GET', headers=(), body=None):
        self.response, self.problem = None, None
        self.client = Client(address)
        self.client.send(method, target, host, headers, body)
        self.thread = threading.Thread(target=self._receive, args=(method,), daemon=True)
        self.thread.start()

    def _receive(self, method):
        try:
            self.response = self.client.receive(is_head=method == 'HEAD')
        except Exception as e:
            self.problem = e

    def responded(self):
        return not self.thread.is_alive()

    def wait(self):
        self.thread.join(LIMIT)
        assert self.response is not None, self.problem
        return self.response

    def leave(self):
        self.client.sock.shutdown(socket.SHUT_RDWR)
        self.client.close()


class Http2:
    """One HTTP/2 connection; stream n asks for targets[n]."""

    def __init__(self, port, host='a.example'):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(['h2'])
        self.sock = context.wrap_socket(socket.create_connection(('127.0.0.1', port), timeout=LIMIT))
        self.host, self.bodies, self.statuses = host, {}, {}
        self.h2 = h2.connection.H2Connection()
        self.h2.initiate_connection()
        self.sock.sendall(self.h2.data_to_send())

    def ask(self, targets):
        first = self.h2.get_next_available_stream_id()
        for i, target in enumerate(targets):
            self.h2.send_headers(first + 2 * i, [(':method', 'GET'), (':path', target), (':scheme', 'https'),
                                                 (':authority', self.host)], end_stream=True)
        self.sock.sendall(self.h2.data_to_send())
        return [first + 2 * i for i in range(len(targets))]

    def reset(self, stream):
        self.h2.reset_stream(stream)
        self.sock.sendall(self.h2.data_to_send())

    def receive(self, streams):
        """Receives until all STREAMS have ended. Returns their statuses."""
        ended = set()
        while not ended >= set(streams):
            data = self.sock.recv(65536)
            assert data, 'the connection ended after %s' % ended
            for e in self.h2.receive_data(data):
                if isinstance(e, h2.events.ResponseReceived):
                    self.statuses[e.stream_id] = int(dict(e.headers)[b':status'])
                elif isinstance(e, h2.events.DataReceived):
                    self.bodies[e.stream_id] = self.bodies.get(e.stream_id, b'') + e.data
                elif isinstance(e, h2.events.StreamEnded):
                    ended.add(e.stream_id)
            self.sock.sendall(self.h2.data_to_send())
        return [self.statuses[s] for s in streams]

    def close(self):
        self.sock.close()


def tls_listener(world, port):
    return {'address': '127.0.0.1:%d' % port, 'tls': Pair(world.directory, 'site', ['a.example']).entry, 'http2': True}


def balancer(world, app, limits, name='resumelb', **more):
    # A long time-out: no request may expire in the queue because the machine is busy.
    limits = {name: {'timeout': '10m', **rule} for name, rule in limits.items()}
    config = {'workers': [app.address], 'resume': 'measure', 'retries': 0, 'limits': limits}
    listen = more.pop('listen', None)
    if 'pool_counter_servers' in more:
        # Long time-outs: a daemon that is slow on a busy machine must not count as hanging, except in tests of that.
        config.update(pool_counter_connect_timeout='60s', pool_counter_response_timeout='60s')
    config.update(more)
    return world.resumelb(config, name=name, listen=listen)


def waits(lb, n):
    wait_until(lambda: lb.app()['stats']['waiting_for_limit'] == n, '%d to wait for their turn' % n)


def outcome(lb, name):
    return lb.app()['outcomes'].get(name, 0)


def ends(lb, name, n):
    """Waits until N requests have that outcome: a response is received shortly before it is counted."""
    wait_until(lambda: outcome(lb, name) == n, '%d to be %s, not %d' % (n, name, outcome(lb, name)))


class Poolcounterd:
    """The original daemon, on a port that the test chooses."""

    def __init__(self, program='/usr/bin/poolcounterd'):
        self.program = program
        self.listener = None
        self.process = None
        self.port = free_port()
        self.address = '127.0.0.1:%d' % self.port
        self.start()

    def start(self):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(('127.0.0.1', self.port))
        s.listen(1024)
        self.process = subprocess.Popen([self.program], stdin=s, stderr=subprocess.DEVNULL)
        s.close()

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stats(self):
        with socket.create_connection(('127.0.0.1', self.port), LIMIT) as s:
            s.sendall(b'STATS FULL\n')
            data = b''
            while not data.endswith(b'\n\n'):
                data += s.recv(65536)
        return dict(line.split(': ', 1) for line in data.decode().split('\n') if ': ' in line)
