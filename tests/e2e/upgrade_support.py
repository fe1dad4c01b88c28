# SPDX-License-Identifier: Apache-2.0
"""A load balancer that is replaced by a new process, and clients that send requests in the meantime."""
import os
import signal
import struct
import threading

import hpack

from support.base import LIMIT, PACE, wait_until
from support.certificates import blind_context
from support.http import Client, CutShort, connect


def alive(pid):
    try:
        with open('/proc/%d/stat' % pid) as f:
            return f.read().rpartition(')')[2].split()[0] != 'Z'
    except OSError:
        return False


class Successor:
    """A process started by the process before it. It is not a child of the test run: it is polled and ended by its pid."""
    at_the_end = signal.SIGTERM

    def __init__(self, pid, before):
        self.pid, self.before, self.name = pid, before, before.name

    def alive(self):
        return alive(self.pid)

    def kill(self, sig=signal.SIGKILL):
        os.kill(self.pid, sig)

    def wait(self):
        wait_until(lambda: not alive(self.pid), 'process %d to end' % self.pid)

    def stop(self):
        if self.alive():
            self.kill(signal.SIGTERM)
            self.wait()
        return self.before.stop()

    def output(self):
        return self.before.output()


def pid_of(lb):
    """The pid of the process that responds at the admin address, or None if no process responds."""
    try:
        return lb.json()['pid']
    except (OSError, AssertionError, ValueError, CutShort):
        return None


def follow(lb, old_pid):
    """Waits until a process other than OLD_PID serves, and makes it the process of LB. Returns the previous one."""
    pid = wait_until(lambda: pid_of(lb) not in (None, old_pid) and pid_of(lb), 'a new process')
    before = lb.process
    lb.process = Successor(pid, before)
    lb.world.processes[:] = [p for p in lb.world.processes if p is not before] + [lb.process]
    return before


def upgrade(lb):
    """Sends SIGUSR2 and waits until only the new process serves."""
    old = lb.process
    old.kill(signal.SIGUSR2)
    follow(lb, old.pid)
    assert old.wait() in (0, None), lb.process.output()[-4000:]


class Http2:
    """One HTTP/2 connection with one request at a time. `leaving` is set after GOAWAY."""

    def __init__(self, address, context):
        self.sock = context.wrap_socket(connect(address), server_hostname='test.example')
        assert self.sock.selected_alpn_protocol() == 'h2'
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.stream, self.leaving, self.last = -1, False, 1 << 31
        self.sock.sendall(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
        self._frame(4, 0, 0, b'')

    def _frame(self, kind, flags, stream, payload):
        self.sock.sendall(struct.pack('>I', len(payload))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + payload)

    def _exactly(self, n):
        data = b''
        while len(data) < n:
            more = self.sock.recv(n - len(data))
            if not more:
                raise ConnectionError('closed')
            data += more
        return data

    def _next(self):
        head = self._exactly(9)
        size, kind, flags = int.from_bytes(head[:3], 'big'), head[3], head[4]
        payload = self._exactly(size)
        if kind == 4 and not flags & 1:
            self._frame(4, 1, 0, b'')
        elif kind == 6 and not flags & 1:
            self._frame(6, 1, 0, payload)
        elif kind == 7:
            self.leaving, self.last = True, int.from_bytes(payload[:4], 'big') & 0x7fffffff
        return kind, flags, int.from_bytes(head[5:9], 'big') & 0x7fffffff, payload

    def request(self, method, target, headers=(), body=b''):
        """Sends a request. Returns the status and the body of its response."""
        self.stream += 2
        fields = [(':method', method), (':scheme', 'https'), (':path', target), (':authority', 'test.example')]
        fields += [(name.lower(), value) for name, value in headers]
        self._frame(1, 4 if body else 5, self.stream, self.encoder.encode(fields))
        if body:
            self._frame(0, 1, self.stream, body)
        status, data = None, b''
        while True:
            kind, flags, stream, payload = self._next()
            if self.stream > self.last:
                raise ConnectionError('a request after the last one that is taken')
            if stream != self.stream:
                continue
            if kind == 3:
                raise ConnectionError('stream reset: %r' % payload)
            if kind == 1:
                status = int(dict(self.decoder.decode(payload))[':status'])
            if kind == 0:
                data += payload
                if payload:
                    self._frame(8, 0, 0, struct.pack('>I', len(payload)))
            if kind in (0, 1) and flags & 1:
                return status, data

    def close(self):
        self.sock.close()


def http2_context():
    context = blind_context()
    context.set_alpn_protocols(['h2'])
    return context


class Load:
    """
    Continuous requests: GETs, or POSTs with a unique name each. `kind`: plain, tls, h2. `keep`: whether the connection is reused
    for the next request. The client stops using a connection after `Connection: close` or GOAWAY, and retries no request.
    """

    def __init__(self, address, kind, posts, keep, pause=PACE, target='/'):
        self.address, self.kind, self.posts, self.keep = address, kind, posts, keep
        self.pause, self.target = pause, target
        self.name = '%s-%s-%s-%d' % (kind, 'post' if posts else 'get', 'keep' if keep else 'fresh', id(self))
        self.ending, self.failures, self.done, self.sent = threading.Event(), [], 0, []
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _open(self):
        if self.kind == 'h2':
            return Http2(self.address, http2_context())
        if self.kind == 'tls':
            raw = connect(self.address)
            return Client(self.address, sock=blind_context().wrap_socket(raw, server_hostname='test.example'))
        return Client(self.address)

    def _once(self, client, n):
        once = '%s-%d' % (self.name, n)
        method, headers, body = 'GET', [], None
        if self.posts:
            method, headers, body = 'POST', [('X-Once', once)], b'x' * 100
            self.sent.append(once)
        if self.kind == 'h2':
            status, _ = client.request(method, self.target, headers, body or b'')
            return status, client.leaving
        r = client.request(method, self.target, headers=headers, body=body)
        return r.status, (r['Connection'] or '').lower() == 'close'

    def _run(self):
        client, n = None, 0
        while not self.ending.is_set():
            n += 1
            try:
                client = client or self._open()
                status, last = self._once(client, n)
                if status != 200:
                    self.failures.append((self.name, n, status))
                if last or not self.keep:
                    client.close()
                    client = None
            except Exception as e:  # any exception in a client counts as a failure of the load balancer
                self.failures.append((self.name, n, repr(e)))
                client = None
            self.done += 1
            self.ending.wait(self.pause)

    def stop(self):
        self.ending.set()
        self.thread.join(LIMIT)
        assert not self.thread.is_alive()


class Loads:
    """Several concurrent loads."""

    def __init__(self, plans, pause=PACE, target='/'):
        self.all = [Load(*plan, pause=pause, target=target) for plan in plans]

    def failures(self):
        return [f for x in self.all for f in x.failures]

    def go_on(self, n):
        """Waits until each load has completed N more requests. Fails if any request has failed."""
        targets = [(x, x.done + n) for x in self.all]
        wait_until(lambda: self.failures() or all(x.done >= t for x, t in targets), '%d more of each' % n)
        assert not self.failures(), self.failures()[:5]

    def stop(self):
        for x in self.all:
            x.ending.set()
        for x in self.all:
            x.stop()
        assert not self.failures(), self.failures()[:5]

    def done(self):
        return sum(x.done for x in self.all)

    def sent(self):
        return sorted(once for x in self.all for once in x.sent)


class Posts:
    """The POST requests that workers have received: the name of each, once per reception."""

    def __init__(self):
        self.lock, self.names = threading.Lock(), []

    def respond(self, c, head, body):
        for line in head.split(b'\r\n') if isinstance(head, bytes) else []:
            name, _, value = line.partition(b':')
            if name.lower() == b'x-once':
                with self.lock:
                    self.names.append(value.strip().decode())
        c.respond(b'hello')


__all__ = ['Http2', 'Load', 'Loads', 'Posts', 'Successor', 'alive', 'follow', 'pid_of', 'http2_context', 'upgrade']
