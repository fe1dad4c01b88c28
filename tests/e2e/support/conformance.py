# SPDX-License-Identifier: Apache-2.0
"""
Request conformance tests for any proxy. A case sends raw bytes; the test checks the response to the client, the requests
that arrive at the worker, and whether the client's connection stays open.
"""
import collections
import contextlib
import socket

from .http import Client, CutShort, connect
from .scripted import Scripted

PROBE = b'GET /probe HTTP/1.1\r\nHost: a.example\r\n\r\n'
RESPONSE = b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n'

# A complete request as the worker received it, with the bytes of its head.
Arrived = collections.namedtuple('Arrived', 'method target body head')


class Case:
    """
    DATA is sent over one connection, all at once or as a list of pieces. WANT: 'pass', 'reject', or 'either' where RFC 9112
    leaves the choice; OURS is then the behavior of resumelb, and REASON the rejection reason that it counts. REQUESTS are the
    requests that must arrive, as (method, target, body). AFTER is the state of the connection afterwards: 'open', 'closed', or
    None if any is correct. HAS and LACKS are header fields of the first request: {name: [values in order]}, [names].
    """

    def __init__(self, group, name, data, want='pass', ours=None, reason=None, requests=None, after='unset',
                 has=None, lacks=(), status=None, fin=False, check=None, only=None, passed_after='open'):
        self.group, self.name, self.want, self.ours, self.reason = group, name, want, ours or want, reason
        assert self.ours in ('pass', 'reject'), name
        self.pieces = [data] if isinstance(data, bytes) else list(data)
        self.given = requests
        self.requests = requests if requests is not None else [('GET', '/c', b'')] if want != 'reject' else []
        self.after = after if after != 'unset' else 'closed' if self.ours == 'reject' else 'open'
        self.passed_after = passed_after
        self.has, self.lacks, self.status = has or {}, lacks, status
        self.fin, self.check, self.only = fin, check, only

    def expected(self, rejected):
        """
        The expected state of the connection after the case. PASSED_AFTER applies to a proxy that accepts a request that
        resumelb rejects.
        """
        passed = self.want == 'either' and self.ours == 'reject' and not rejected
        return self.passed_after if passed and self.after == 'closed' else self.after

    @property
    def data(self):
        return b''.join(self.pieces)


class Outcome:
    """responses: (status, {name: value}) in order; after: open, closed, or hung if neither was observed within the time limit."""

    def __init__(self):
        self.responses, self.interim, self.arrived, self.after = [], [], [], None


class Worker:
    """A worker that parses requests as strictly as possible and records the complete ones."""

    def __init__(self):
        self.arrived, self.malformed = [], []
        self.server = Scripted(self.script)
        self.address = self.server.address

    def script(self, c):
        client = Client(None, sock=c.sock)
        while True:
            try:
                head = []
                while not head or head[-1]:
                    head.append(client._line())
            except CutShort:
                return
            request = self.whole(client, b'\r\n'.join(head[:-1]))
            if request is None:
                return
            self.arrived.append(request)
            if b'websocket' in fields(request.head).get(b'upgrade', [b''])[0].lower():
                c.write(b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
                        b'Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n')
                return
            c.write(RESPONSE + (b'' if request.method == 'HEAD' else b'ok'))

    def whole(self, client, head):
        line, found = head.split(b'\r\n')[0], fields(head)
        try:
            method, target, _ = line.decode('latin-1').split(' ')
            body = take_body(client, found)
        except CutShort:
            return None
        except ValueError:
            self.malformed.append(head)
            return None
        return Arrived(method, target, body, head)

    def close(self):
        self.server.close()


def fields(head):
    """{lower-case name: [values]} of a head without its first line."""
    out = {}
    for line in head.split(b'\r\n')[1:]:
        name, _, value = line.partition(b':')
        out.setdefault(name.lower(), []).append(value[1:] if value[:1] == b' ' else value)
    return out


def take_body(client, found):
    lengths, codings = found.get(b'content-length', []), found.get(b'transfer-encoding', [])
    if len(lengths) + len(codings) > 1 or any(c.lower() != b'chunked' for c in codings):
        raise ValueError('framing')
    if lengths:
        return client._need(int(lengths[0]))
    body = b''
    while codings:
        size = int(client._line().partition(b';')[0], 16)
        if size == 0:
            while client._line():
                pass
            return body
        body += client._need(size)
        if client._need(2) != b'\r\n':
            raise ValueError('chunk')
    return body


class Run:
    """Runs one case against one proxy."""

    def __init__(self, case, address, worker, seconds):
        self.case, self.worker = case, worker
        self.out = Outcome()
        del worker.arrived[:]
        self.client = Client(None, sock=connect(address, seconds))
        self.client.sock.settimeout(seconds)
        self.client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, pieces):
        try:
            for piece in pieces:
                self.client.sock.sendall(piece)
            # A case with valid requests closes its sending side only after the responses: a proxy may drop the requests of a
            # client that has closed.
            if self.case.fin and not self.case.requests:
                self.client.sock.shutdown(socket.SHUT_WR)
        except OSError:             # rejected before all of it was sent
            pass

    def take(self):
        """Receives the next response. Returns None at the end of the connection."""
        n = len(self.out.responses)
        is_head = n < len(self.case.requests) and self.case.requests[n][0] == 'HEAD'
        try:
            r = self.client.receive(is_head=is_head)
        except (CutShort, ConnectionError):
            self.out.after = 'closed'
            return None
        except ValueError:
            self.out.after = 'closed'
            self.out.responses.append((-1, {}))
            return None
        self.out.responses.append((r.status, {k.lower(): v for k, v in r.headers}))
        return r

    def wait_for_end(self):
        """Waits for the end of the connection. Responses that arrive before it were not expected; they are recorded."""
        while self.take() is not None:
            pass

    def run(self):
        self.send(self.case.pieces)
        try:
            while len(self.out.responses) < len(self.case.requests) or not self.out.responses:
                r = self.take()
                if r is None or r.status >= 400 or r.status == 101:
                    break
            if self.out.after is None:
                self.see_what_is_left()
        except socket.timeout:
            self.out.after = 'hung'
        self.client.sock.close()
        self.out.interim = self.client.interim
        self.out.arrived = [a for a in self.worker.arrived if a.target != '/probe']
        return self.out

    def see_what_is_left(self):
        rejected = self.out.responses[-1][0] >= 400
        if self.case.fin:
            with contextlib.suppress(OSError):
                self.client.sock.shutdown(socket.SHUT_WR)
            self.wait_for_end()
            return
        if self.case.expected(rejected) == 'closed' or (rejected and self.case.after == 'open'):
            self.wait_for_end()
            return
        self.send([PROBE])
        if self.take() is None:
            return
        self.out.after = 'open' if self.out.responses.pop()[0] == 200 else 'closed'


def wrong_pass(case, out):
    if [(a.method, a.target, a.body) for a in out.arrived] != case.requests:
        return 'arrived: %r' % [(a.method, a.target, a.body[:80]) for a in out.arrived][:8]
    if any(status not in (200, 101) for status, _ in out.responses) or len(out.responses) != len(case.requests):
        return 'responses: %r' % [status for status, _ in out.responses]
    found = fields(out.arrived[0].head) if out.arrived else {}
    for name, values in case.has.items():
        if found.get(name.encode()) != values:
            return '%s: %r' % (name, found.get(name.encode()))
    for name in case.lacks:
        if name.encode() in found:
            return '%s arrived: %r' % (name, found[name.encode()])
    if case.expected(rejected=False) not in (None, out.after) and not case.fin:
        return 'connection ' + str(out.after)
    return case.check(out) if case.check else None


def wrong_rejection(case, out, before):
    """Checks a rejection. BEFORE: requests that may have arrived, as they were complete before the rejected one."""
    if [(a.method, a.target, a.body) for a in out.arrived] != before:
        return 'arrived: %r' % [(a.method, a.target, a.body[:80]) for a in out.arrived][:8]
    statuses = [status for status, _ in out.responses]
    if statuses[:len(before)] != [200] * len(before):
        return 'responses: %r' % statuses
    rest = statuses[len(before):]
    if len(rest) > 1 or any(not 400 <= s <= 505 or s in (500, 502, 503, 504) for s in rest):
        return 'responses: %r' % statuses
    if case.status and rest and rest[0] not in case.status:
        return 'status %d' % rest[0]
    if case.after == 'closed' and out.after != 'closed':
        return 'connection ' + str(out.after)
    return None


def wrong(case, out, ours):
    """The reason why OUT is wrong for any proxy, or for resumelb if OURS. None if it is correct."""
    before = case.given if case.want == 'reject' and case.given else []
    wanted = case.ours if ours else case.want
    if wanted == 'pass':
        return wrong_pass(case, out)
    why = wrong_rejection(case, out, before)
    if wanted == 'reject':
        if why is None and ours and not case.fin and len(out.responses) == len(before):
            return 'rejected without a response'
        return why
    return None if why is None else wrong_pass(case, out)


def run(case, address, worker, seconds):
    return Run(case, address, worker, seconds).run()
