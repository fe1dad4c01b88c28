# SPDX-License-Identifier: Apache-2.0
"""Runs response_cases.py: a worker that executes the current case, clients of each protocol, and the verdict."""
import dataclasses
import socket
import ssl
import threading

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from .base import LIMIT, wait_until
from .certificates import blind_context
from .http import connect
from .response_cases import ALL, BAD, CUT, FIN, HANG, LATE, PASS, RST
from .scripted import Scripted

# Responses with these statuses, and responses to HEAD, have no body.
BODYLESS = (204, 304)
HOPS = ('keep-alive', 'proxy-connection', 'te', 'trailer')
# Maximum number of attempts for a case with pauses.
PACED_ATTEMPTS = 20


class Player:
    """The worker. A target selects a case, or, as /plain-..., gets a response with its own name."""

    def __init__(self, world):
        self.cases = {c.path: c for c in ALL}
        self.lock = threading.Lock()
        self.seen = {}              # target: numbers of the connections that it was received on
        self.played = {}            # target: event that is set when all its bytes are written
        self.wrong = []             # requests on a connection that must not be reused
        self.server = world.scripted(self.run) if world else Scripted(self.run)
        self.address = self.server.address

    def run(self, c):
        c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        closed_by = None
        while True:
            request = c.read_request()
            if request is None:
                return
            target = request[0].split(b' ')[1].decode('latin-1').partition('?')
            with self.lock:
                self.seen.setdefault(target[2], []).append(c.number)
                if closed_by:
                    self.wrong.append((closed_by, target[2]))
            case = self.cases.get(target[0])
            if case is None:
                c.respond(target[0].encode(), headers=[('X-Conn', c.number)])
                continue
            try:
                ended = self.play(c, case)
            finally:
                self.event(target[2]).set()
            if ended:
                return
            if case.again is False:
                closed_by = case

    def event(self, mark):
        with self.lock:
            return self.played.setdefault(mark, threading.Event())

    @staticmethod
    def play(c, case):
        """Executes the steps of CASE. Returns whether the connection has ended."""
        for step in case.wire:
            if isinstance(step, bytes):
                try:
                    c.write(step)
                except OSError:
                    return True     # the proxy has closed the connection, which is permitted
            elif step == FIN:
                # Unread data from the proxy would turn the close into a reset.
                c.sock.shutdown(socket.SHUT_WR)
                while c.sock.recv(65536):
                    pass
                return True
            elif step == RST:
                c.reset()
                return True
            elif step == HANG:
                while c.sock.recv(65536):
                    pass
                return True
            else:
                threading.Event().wait(step)
        return False


@dataclasses.dataclass
class Seen:
    status: int = 0
    fields: list = dataclasses.field(default_factory=list)
    body: bytes = b''
    cut: bool = False
    hung: bool = False
    kept: bool = False              # the client may send another request
    wrong: list = dataclasses.field(default_factory=list)

    def values(self, name):
        return [v for k, v in self.fields if k == name]

    def short(self):
        return '%d %s%r%s%s %s' % (self.status, self.values('content-length') + self.values('transfer-encoding'), self.body[:60],
                                   ' cut' if self.cut else '', ' hung' if self.hung else '', self.wrong or '')


class Http1:
    """One connection of a strict HTTP/1 client."""

    def __init__(self, subject, kind):
        self.version, _, self.wish = kind.partition(' ')
        self.sock = connect(subject.plain)
        self.buffer = bytearray()

    def close(self):
        self.sock.close()

    def more(self):
        data = self.sock.recv(1 << 16)
        self.buffer += data
        return bool(data)

    def line(self, seen):
        while b'\n' not in self.buffer:
            if not self.more():
                raise EOFError
        end = self.buffer.index(b'\n')
        line = bytes(self.buffer[:end])
        del self.buffer[:end + 1]
        if not line.endswith(b'\r'):
            seen.wrong.append('a bare LF')
        line = line[:-1]
        if b'\r' in line or b'\0' in line:
            seen.wrong.append('CR or NUL in a line')
        return line.decode('latin-1')

    def need(self, n, seen):
        while len(self.buffer) < n:
            if not self.more():
                seen.body += bytes(self.buffer)
                raise EOFError
        data = bytes(self.buffer[:n])
        del self.buffer[:n]
        return data

    def ask(self, method, target, body):
        lines = ['%s %s HTTP/%s' % (method, target, self.version), 'Host: test.example']
        if self.wish:
            lines.append('Connection: ' + {'keep': 'keep-alive', 'close': 'close'}[self.wish])
        if body or method in ('POST', 'PUT', 'PATCH'):
            lines.append('Content-Length: %d' % len(body))
        seen = Seen()
        try:
            self.sock.sendall('\r\n'.join(lines).encode() + b'\r\n\r\n' + body)
            self.head(seen)
            self.body(seen, method)
        except (EOFError, ConnectionResetError, BrokenPipeError):
            seen.cut, seen.kept = True, False
        except socket.timeout:
            seen.hung, seen.kept = True, False
        except ValueError as e:
            seen.wrong.append('not HTTP: %s' % e)
            seen.kept = False
        return seen

    def head(self, seen):
        while True:
            status_line = self.line(seen)
            version, code = status_line.split(' ')[:2]
            seen.status, seen.fields = int(code), []
            while True:
                line = self.line(seen)
                if not line:
                    break
                name, colon, value = line.partition(':')
                if not colon or not name or name != name.strip() or ' ' in name:
                    seen.wrong.append('field %r' % line[:60])
                seen.fields.append((name.lower(), value.strip(' \t')))
            if seen.status >= 200:
                break
            if self.version == '1.0':
                seen.wrong.append('%d to an HTTP/1.0 client' % seen.status)
            if seen.status == 101:
                seen.wrong.append('101')
                return
        options = [o.strip().lower() for v in seen.values('connection') for o in v.split(',')]
        seen.kept = 'close' not in options and (self.version == '1.1' and version == 'HTTP/1.1' or 'keep-alive' in options)

    def body(self, seen, method):
        lengths, codings = seen.values('content-length'), seen.values('transfer-encoding')
        if len(lengths) > 1 or len(codings) > 1 or lengths and codings:
            seen.wrong.append('framing %s %s' % (lengths, codings))
        if codings and self.version == '1.0':
            seen.wrong.append('chunked to an HTTP/1.0 client')
        if method == 'HEAD' or seen.status in BODYLESS:
            if seen.status == 204 and (lengths or codings):
                seen.wrong.append('framing of a 204')
        elif codings:
            while True:
                size = int(self.line(seen).split(';')[0], 16)
                if size == 0:
                    break
                seen.body += self.need(size, seen)
                if self.need(2, seen) != b'\r\n':
                    raise ValueError('chunk')
            while self.line(seen):
                pass
        elif lengths:
            seen.body = self.need(int(lengths[0]), seen)
        else:
            if seen.kept:
                seen.wrong.append('kept, with no end of the body')
            seen.kept = False
            while self.more():
                pass
            seen.body = bytes(self.buffer)
            self.buffer.clear()
        if not seen.kept:
            try:
                while self.more():
                    pass
            except ConnectionResetError:
                pass
            if self.buffer:
                seen.wrong.append('%d bytes behind the end' % len(self.buffer))


class Http2:
    """One HTTP/2 connection, one request at a time."""

    def __init__(self, subject, kind):
        context = blind_context()
        context.set_alpn_protocols(['h2'])
        raw = connect(subject.tls)
        self.sock = context.wrap_socket(raw, server_hostname='test.example')
        assert self.sock.selected_alpn_protocol() == 'h2'
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding='latin-1'))
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(1 << 24)
        self.sock.sendall(self.h2.data_to_send())

    def close(self):
        self.sock.close()

    def send_body(self, stream, body, seen):
        while body and not seen.cut and not seen.status:
            n = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(body))
            if n == 0:
                self.take(stream, seen)
                continue
            self.h2.send_data(stream, body[:n], end_stream=n == len(body))
            body = body[n:]
            self.sock.sendall(self.h2.data_to_send())

    def ask(self, method, target, body):
        seen = Seen(kept=True)
        self.ended = False
        stream = self.h2.get_next_available_stream_id()
        try:
            self.h2.send_headers(stream, [(':method', method), (':path', target), (':scheme', 'https'), (':authority', 'test.example')]
                                 + ([('content-length', str(len(body)))] if body else []), end_stream=not body)
            self.sock.sendall(self.h2.data_to_send())
            self.send_body(stream, body, seen)
            while not self.ended and not seen.cut:
                self.take(stream, seen)
        except (EOFError, ConnectionResetError, BrokenPipeError, ssl.SSLError):
            seen.cut, seen.kept = True, False
        except socket.timeout:
            seen.hung, seen.kept = True, False
        except h2.exceptions.InvalidBodyLengthError:
            # The library does not know that the Content-Length of a 304 is that of a body that is not sent.
            seen.cut, seen.kept = seen.status != 304, False
        except h2.exceptions.ProtocolError as e:
            seen.wrong.append('not HTTP/2: %r' % e)
            seen.kept = False
        return seen

    def take(self, stream, seen):
        data = self.sock.recv(1 << 16)
        if not data:
            raise EOFError
        for e in self.h2.receive_data(data):
            if isinstance(e, h2.events.ConnectionTerminated):
                seen.kept = False
            if getattr(e, 'stream_id', None) != stream:
                continue
            if isinstance(e, h2.events.ResponseReceived):
                fields = [(k if isinstance(k, str) else k.decode('latin-1'), v if isinstance(v, str) else v.decode('latin-1'))
                          for k, v in e.headers]
                seen.status, seen.fields = int(dict(fields)[':status']), [f for f in fields if f[0][0] != ':']
                self.check(seen)
            elif isinstance(e, h2.events.DataReceived):
                seen.body += e.data
                self.h2.acknowledge_received_data(e.flow_controlled_length, stream)
            elif isinstance(e, h2.events.StreamReset):
                seen.cut = True
            elif isinstance(e, h2.events.StreamEnded):
                self.ended = True
        self.sock.sendall(self.h2.data_to_send())

    @staticmethod
    def check(seen):
        for name, value in seen.fields:
            if name != name.lower() or name in ('connection', 'transfer-encoding', 'upgrade') or set(value) & set('\r\n\0'):
                seen.wrong.append('field %s' % name)


def open_client(subject, kind):
    return (Http2 if kind == '2' else Http1)(subject, kind)


def has_field(seen, name, values):
    """Returns whether NAME has VALUES, in this order. For Via they may be parts of the values."""
    rest = iter(seen.values(name))
    return all(any(value == v or (name == 'via' and value in v) for v in rest) for value in values)


def is_pass(case, method, seen):
    bodyless = method == 'HEAD' or seen.status in BODYLESS
    return (seen.status == case.status and not seen.cut and not seen.hung and seen.body == (b'' if bodyless else case.body)
            and all(has_field(seen, n, [v for k, v in case.has if k == n]) for n, _ in case.has)
            and not any(seen.values(n) for n in case.lacks))


def is_kind(kind, case, method, seen):
    if kind == PASS:
        return is_pass(case, method, seen)
    if seen.hung:
        return False
    if kind == BAD:
        return seen.status == 502 and not seen.cut
    if kind == LATE:
        return seen.status == 504 and not seen.cut
    assert kind == CUT
    return seen.cut if seen.status != 502 else not seen.cut


def general(case, seen, strict):
    """Checks that are independent of the case. Returns what is wrong."""
    wrong = list(seen.wrong)
    wrong += ['%s came through' % n for n in HOPS if seen.values(n)]
    if len(seen.values('date')) > 1:
        wrong.append('several dates')
    if seen.values('x-poison') or b'POISON' in seen.body and case.body != seen.body:
        wrong.append('poisoned')
    if any('evil' in v for v in seen.values('set-cookie')):
        wrong.append('a field was slipped in')
    if strict and seen.status and len(seen.values('date')) != 1:
        wrong.append('no date')
    if strict and [k for k, _ in seen.fields if k.startswith('resumelb-')]:
        wrong.append('our own fields came through')
    return wrong


class Subject:
    """
    The addresses of the tested program. `strict`: it is resumelb, and is also checked for guarantees beyond the RFCs. `hasty`: its
    time-outs are so short that the worker may be late unintentionally.
    """

    def __init__(self, player, plain, tls, strict=False, hasty=True):
        self.player, self.plain, self.tls, self.strict, self.hasty = player, plain, tls, strict, hasty
        self.asked = 0
        self.revive = None          # function that restarts it, if it may die

    def follow(self, client, kind, seen, case):
        """
        Sends another request after that of the case, on the same connection if that is still open. Returns what is wrong with
        the response.
        """
        target, kept = '/plain-%d' % self.asked, seen.kept

        def respond():
            """Returns None if the worker was late, which does not indicate a fault that the case has caused."""
            nonlocal client, kept
            if not kept:
                client.close()
                client = open_client(self, kind)
            got = client.ask('GET', target + '?plain-%d' % self.asked, b'')
            kept = got.kept
            return None if self.hasty and got.status == 504 and not got.wrong else got
        try:
            got = wait_until(respond, 'a response')
        finally:
            client.close()
        if (got.status, got.body) != (200, target.encode()) or got.wrong:
            return ['the next: ' + got.short()]
        return []

    def ask(self, case, kind, method):
        """
        Sends the request of CASE. Returns (client, mark of the request, result). A paced case has to pass in one of several
        attempts: in the others a slow machine may have extended its pauses.
        """
        attempts = PACED_ATTEMPTS if case.paced else 1
        while True:
            self.asked += 1
            attempts -= 1
            mark = '%d' % self.asked
            client = open_client(self, kind)
            seen = client.ask(method, case.path + '?' + mark, case.request_body)
            if attempts == 0 or is_pass(case, method, seen):
                return client, mark, seen
            client.close()

    def run(self, case, kind, method):
        """Runs CASE. Returns a list of what is wrong."""
        try:
            return self.judge(case, kind, method)
        except (ConnectionError, ssl.SSLError) as e:
            if self.revive is None:
                raise
            self.revive()
            return ['it died: %r' % e]

    def judge(self, case, kind, method):
        client, mark, seen = self.ask(case, kind, method)
        wanted = (PASS,) if case.strict and self.strict else case.want
        wrong = general(case, seen, self.strict)
        if not any(is_kind(k, case, method, seen) for k in wanted):
            wrong.append('not %s but %s' % ('/'.join(wanted), seen.short()))
        if self.player.seen.get(mark) and HANG not in case.wire:
            self.player.event(mark).wait(LIMIT)
        wrong += self.follow(client, kind, seen, case)
        times = len(self.player.seen.get(mark, ()))
        if method not in ('GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS') and times > 1:
            wrong.append('sent %d times' % times)
        bad = [b for b in self.player.wrong if b[0] is case]
        if bad:
            wrong.append('its connection was used again')
            self.player.wrong.clear()
        return wrong

    def run_group(self, group, clients=None, timed=None):
        """Runs a group. Returns [(case, client, method, what is wrong)]. TIMED selects only the timed cases, or only the others."""
        return [(case, kind, method, self.run(case, kind, method))
                for case in ALL if case.group == group and timed in (None, case.timed)
                for kind in case.clients if clients is None or kind in clients
                for method in case.methods]
