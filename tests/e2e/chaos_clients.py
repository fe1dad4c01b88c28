# SPDX-License-Identifier: Apache-2.0
"""The clients of the chaos run, and the judge that evaluates the responses they receive."""
import collections
import itertools
import os
import random
import socket
import ssl
import struct
import threading
import time

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
from support.base import LIMIT
from support.chaos_bodies import body_of, digest
from support.http import Client, CutShort, connect
from support.http2 import GOAWAY

HOSTS = ['site%d.example' % i for i in range(12)]
# Pause between the requests of one client: the run needs many kinds of faults, not much load.
PAUSE_S = 0.02


class Judge:
    """Records the result of every request. `deeds`: for each worker, the times of interventions that may cut a response short."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.wrong = []                                  # corrupt, failed or unexplained results: none is allowed
        self.deeds = collections.defaultdict(list)
        self.responded = collections.Counter()            # POSTs by target: responds with 200
        self.sent = set()

    def done_to(self, worker):
        with self.lock:
            self.deeds[worker].append(time.monotonic())

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def fault(self, what, *details):
        with self.lock:
            self.counts[what] += 1
            self.wrong.append((time.strftime('%H:%M:%S'), what, *details))

    def whole(self, kind, method, target, status, headers, body):
        """Records a response that is complete according to its framing."""
        worker = headers.get('x-worker')
        if method == 'POST' and status != 200:
            self.count('POSTs without a response of a worker')
        elif status != 200:
            self.fault('failed GETs', kind, target, status, body[:200])
        elif digest(body) != digest(body_of(target)):
            self.fault('corrupted responses', kind, target, worker, len(body), body[:40])
        else:
            self.count('whole')
            self.count('whole, ' + kind)
            if method == 'POST':
                with self.lock:
                    self.responded[target] += 1

    def cut(self, kind, method, target, headers, began, why):
        """
        Records a response that is detectably incomplete. Only bad workers may send such a response, and workers that an
        intervention affected in the meantime.
        """
        worker = headers.get('x-worker', '')
        with self.lock:
            done = [t for t in self.deeds[worker] if t > began - 1]
        if worker.startswith('bad') or done:
            self.count('cut, visibly')
        else:
            self.fault('cut for no reason', kind, method, target, worker, repr(why))

    def none(self, kind, method, target, why):
        """Records a request without a response: its connection ended before."""
        self.fault('requests without a response', kind, method, target, repr(why))


class Kind(threading.Thread):
    """One client. turn() sends one or a few requests. Its random choices are determined by its seed."""

    numbers = itertools.count()

    def __init__(self, load):
        super().__init__(daemon=True)
        self.load, self.judge = load, load.judge
        self.name = '%s-%d' % (type(self).__name__.lower(), next(Kind.numbers))
        self.kind = type(self).__name__
        self.random = random.Random('%s %s' % (load.seed, self.name))
        self.n, self.client = 0, None

    def run(self):
        while not self.load.stopping.wait(PAUSE_S):
            try:
                self.turn()
            except Exception as e:
                self.judge.fault('clients that failed', self.name, repr(e))
                self.forget()
        self.forget()

    def forget(self):
        if self.client is not None:
            self.client.close()
            self.client = None

    def target(self, method='get', most=1_000_000):
        self.n += 1
        length = self.random.choice([0, 1, self.random.randrange(2000), self.random.randrange(2000),
                                     self.random.randrange(60_000), self.random.randrange(most)])
        framing = self.random.choice(['length', 'length', 'chunked', 'close', 'slow'])
        target = '/%s/%s/%d/%s-%d' % (method, framing, min(length, most), self.name, self.n)
        if method == 'post':
            with self.judge.lock:
                self.judge.sent.add(target)
        return target

    def host(self):
        return self.random.choice(HOSTS)

    def open(self):
        return Client(self.load.lb.address)

    def ask(self, c, target, method='GET', version='1.1', **kw):
        began = time.monotonic()
        c.send(method, target, host=self.host(), version=version, **kw)
        return began

    def take(self, c, target, began, method='GET'):
        """Receives one response. Returns false if the connection cannot be used any more."""
        headers = {}
        try:
            version, status, _, fields = c.head()
            while status < 200:
                version, status, _, fields = c.head()
            headers = {k.lower(): v for k, v in fields}
            body = c.body(status, fields)
        except (CutShort, OSError) as e:
            if not headers:
                self.judge.none(self.kind, method, target, e)
            else:
                self.judge.cut(self.kind, method, target, headers, began, e)
            return False
        except ValueError as e:
            self.judge.fault('responses that are no HTTP', self.kind, target, repr(e))
            return False
        self.judge.whole(self.kind, method, target, status, headers, body)
        return headers.get('connection', '').lower() != 'close'


class Kept(Kind):
    def turn(self):
        self.client = self.client or self.open()
        target = self.target()
        if not self.take(self.client, target, self.ask(self.client, target)):
            self.forget()


class Tls(Kept):
    def open(self):
        sock = self.load.context([]).wrap_socket(connect(self.load.tls_address), server_hostname='test.example')
        return Client(None, sock=sock)


class Fresh(Kind):
    def turn(self):
        with self.open() as c:
            target = self.target()
            self.take(c, target, self.ask(c, target, headers=[('Connection', 'close')]))


class Old(Kind):
    """
    HTTP/1.0: a response without a length ends with the connection. If such a response is cut short, the connection must not be
    closed cleanly.
    """

    def turn(self):
        with self.open() as c:
            target = self.target()
            self.take(c, target, self.ask(c, target, version='1.0'))


class Pipelined(Kind):
    def turn(self):
        with self.open() as c:
            targets = [self.target(most=50_000) for _ in range(self.random.randrange(2, 6))]
            began, hung_up = [], None
            try:
                for t in targets:
                    began.append(self.ask(c, t))
            except OSError as e:
                hung_up = e
            for target, at in zip(targets, began):
                if not self.take(c, target, at):
                    # The results of the requests behind a response that was cut short are undefined.
                    self.judge.count('behind one that was cut')
                    return
            # Only a response that was cut short may end a connection on which requests are still being sent.
            if hung_up:
                self.judge.fault('connections that end for no reason', self.kind, targets[len(began)], repr(hung_up))


class Slow(Kind):
    """Reads large responses slowly, in small pieces."""

    class Sipping(Client):
        def _more(self):
            time.sleep(0.003)
            data = self.sock.recv(16384)
            self.buffer += data
            return bool(data)

    def turn(self):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        sock.settimeout(LIMIT)
        sock.connect(('127.0.0.1', self.load.lb.port))
        with Slow.Sipping(None, sock=sock) as c:
            target = self.target()
            self.take(c, target, self.ask(c, target))


class Leaving(Kind):
    """Resets its connection at any point of a request or a response."""

    def turn(self):
        with self.open() as c:
            if self.random.random() < 0.3:
                target = self.target('post', 100_000)
                body = body_of(target)
                c.send_raw(b'POST %s HTTP/1.1\r\nHost: test.example\r\nContent-Length: %d\r\n\r\n' % (target.encode(), len(body)))
                c.send_raw(body[:self.random.randrange(len(body) + 1)])
            else:
                self.ask(c, self.target())
            wanted = self.random.choice([0, 0, 100, 30_000])
            # The response may be shorter than that.
            c.sock.settimeout(0.5)
            try:
                while len(c.buffer) < wanted and c._more():
                    pass
            except OSError:
                pass
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            self.judge.count('left')


class Garbage(Kind):
    """Sends invalid requests. The proxy must send an error response or close the connection, and must not pass them to a worker."""

    def turn(self):
        what = self.random.choice([
            self.random.randbytes(200) + b'\r\n\r\n', b'GET / HTTP/9.9\r\n\r\n', b'GET /get/length/5/x HTTP/1.1\r\nHost\r\n\r\n',
            b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + self.random.randbytes(500),
            b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + self.random.randbytes(100),
            b'POST /post/length/5/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n',
            b'POST /post/length/5/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
            b'GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 6\r\n\r\nhello',
            b'GET / HTTP/1.1\r\nX: ' + b'y' * 100_000 + b'\r\n\r\n'])
        with self.open() as c:
            try:
                c.send_raw(what)
                c.sock.shutdown(socket.SHUT_WR)
                while c._more():
                    pass
            except ConnectionError:
                pass
            except socket.timeout:
                self.judge.fault('garbage that was not rejected', what[:80])
            if c.buffer.startswith(b'HTTP/1.1 2'):
                self.judge.fault('garbage that got a response', what[:80], bytes(c.buffer[:200]))
            self.judge.count('garbage')


class Posts(Kind):
    def turn(self):
        self.client = self.client or self.open()
        target = self.target('post', 100_000)
        body = body_of(target)
        if self.random.random() < 0.3:
            half = len(body) // 2
            parts = [p for p in (body[:half], body[half:]) if p]
            kw = {'headers': [('Transfer-Encoding', 'chunked')],
                  'body': b''.join(b'%x\r\n%s\r\n' % (len(p), p) for p in parts) + b'0\r\n\r\n'}
        else:
            kw = {'body': body}
        if not self.take(self.client, target, self.ask(self.client, target, 'POST', **kw), 'POST'):
            self.forget()


class Http2(Kind):
    """
    Several concurrent streams on a persistent connection; some are reset. After GOAWAY the streams up to the last processed one
    must still get a response; later ones were not processed and may be retried on another connection.
    """

    def open(self):
        self.raw, self.leaving = b'', False
        sock = self.load.context(['h2']).wrap_socket(connect(self.load.tls_address), server_hostname='test.example')
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding='utf-8'))
        self.h2.initiate_connection()
        sock.sendall(self.h2.data_to_send())
        return sock

    def turn(self):
        self.client = self.client or self.open()
        self.open_streams = {}
        for _ in range(self.random.randrange(1, 5)):
            self.start_stream()
        reset = [s for s in self.open_streams if self.random.random() < 0.1]
        for s in reset:
            self.h2.reset_stream(s, h2.errors.ErrorCodes.CANCEL)
            del self.open_streams[s]
            self.judge.count('left')
        self.send()
        try:
            while self.open_streams:
                self.events()
        except (OSError, CutShort) as e:
            for s in self.open_streams.values():
                self.judge.none(self.kind, s['method'], s['target'], e)
            self.leaving = True
        if self.leaving:
            self.forget()

    def send(self):
        try:
            self.client.sendall(self.h2.data_to_send())
        except OSError:
            pass    # Reading afterwards yields the reason of the close, or the end of the connection.

    def start_stream(self):
        method = self.random.choice(['GET', 'GET', 'GET', 'POST'])
        # The body of a POST fits into the initial window.
        target = self.target(method.lower(), 1_000_000 if method == 'GET' else 8000)
        number = self.h2.get_next_available_stream_id()
        self.h2.send_headers(number, [(':method', method), (':path', target), (':scheme', 'https'),
                                      (':authority', self.host())], end_stream=method == 'GET')
        if method == 'POST':
            self.h2.send_data(number, body_of(target), end_stream=True)
        self.open_streams[number] = {'method': method, 'target': target, 'body': bytearray(), 'headers': None,
                                     'began': time.monotonic()}

    def events(self):
        data = self.client.recv(1 << 16)
        if not data:
            raise CutShort('the connection')
        for e in self.h2.receive_data(self.without_goaway(data)):
            s = self.open_streams.get(getattr(e, 'stream_id', None))
            if isinstance(e, h2.events.DataReceived):
                self.h2.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
                if s:
                    s['body'] += e.data
            elif isinstance(e, h2.events.ResponseReceived) and s:
                s['headers'] = dict(e.headers)
            elif isinstance(e, h2.events.StreamEnded) and s:
                del self.open_streams[e.stream_id]
                self.judge.whole(self.kind, s['method'], s['target'], int(s['headers'][':status']), s['headers'],
                                 bytes(s['body']))
            elif isinstance(e, h2.events.StreamReset) and s:
                del self.open_streams[e.stream_id]
                if s['headers'] is None:
                    self.judge.none(self.kind, s['method'], s['target'], e)
                else:
                    self.judge.cut(self.kind, s['method'], s['target'], s['headers'], s['began'], e)
        self.send()

    def without_goaway(self, data):
        """
        Returns the complete frames received so far, without GOAWAY frames: after one, h2 accepts no further frames, not even the
        remaining responses.
        """
        self.raw += data
        frames = b''
        while len(self.raw) >= 9 and len(self.raw) >= (end := 9 + int.from_bytes(self.raw[:3], 'big')):
            frame, self.raw = self.raw[:end], self.raw[end:]
            if frame[3] == GOAWAY:
                self.on_goaway(*struct.unpack('>II', frame[9:17]))
            else:
                frames += frame
        return frames

    def on_goaway(self, last_stream, error):
        if error != 0:
            raise CutShort('GOAWAY with error %d' % error)
        self.leaving = True
        for number in [n for n in self.open_streams if n > last_stream]:
            del self.open_streams[number]
            self.judge.count('not taken any more, Http2')


KINDS = [Kept, Kept, Tls, Fresh, Old, Pipelined, Slow, Leaving, Garbage, Posts, Posts, Http2, Http2]


class Load:
    """Runs one client of each of KINDS until stop()."""

    def __init__(self, lb, tls_address, certificate, seed):
        self.lb, self.tls_address, self.certificate, self.seed = lb, tls_address, certificate, seed
        self.judge, self.stopping = Judge(), threading.Event()
        Kind.numbers = itertools.count()
        self.clients = [kind(self) for kind in KINDS]
        for c in self.clients:
            c.start()

    def context(self, alpn):
        context = ssl.create_default_context(cafile=str(self.certificate))
        if alpn:
            context.set_alpn_protocols(alpn)
        return context

    def stop(self):
        self.stopping.set()
        for c in self.clients:
            c.join(2 * LIMIT)
        assert not [c.name for c in self.clients if c.is_alive()], 'clients that never end'


def executed(path):
    """Returns {target of a POST: number of executions}, and the targets that were executed with a body different from the one sent."""
    if not os.path.exists(path):
        return collections.Counter(), []
    lines = [line.split(' ') for line in open(path).read().splitlines()]
    return collections.Counter(t for t, _ in lines), [t for t, sound in lines if sound != 'sound']
