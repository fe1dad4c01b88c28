# SPDX-License-Identifier: Apache-2.0
"""Many HTTP/2 clients that do not read, or do not complete their bodies, leave other clients their part."""
import contextlib

import h2.config
import h2.connection
import h2.events
import h2.settings
from support.base import wait_until
from support.certificates import blind_context
from support.http import connect, get
from support.scripted import serve
from test_response_spill import Front, digest, read

STREAMS, CONNECTIONS = 100, 14
LENGTH = 80_000
PAGE = bytes(range(256)) * 400
BODY = b'0123456789abcdef' * 256 * 150


class Workers:
    """Two workers that serve one connection each."""

    def __init__(self, world):
        self.addresses = [world.scripted(serve(self.respond)).address for _ in range(2)]

    @staticmethod
    def respond(c, head, body):
        c.respond(PAGE if head.split(b' ')[1] == b'/page' else b'%d bytes' % len(body))


class Idle:
    """An HTTP/2 connection that never opens a window for what it requests."""

    def __init__(self, front):
        context = blind_context()
        context.set_alpn_protocols(['h2'])
        self.sock = context.wrap_socket(connect('127.0.0.1:%d' % front.tls), server_hostname='test.example')
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding='utf-8'))
        self.h2.initiate_connection()
        self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        self.flush()
        while self.h2.remote_settings.initial_window_size < LENGTH or self.h2.outbound_flow_control_window < LENGTH:
            self.h2.receive_data(self.sock.recv(65536))

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def request(self, method, path, length=None):
        """A body of LENGTH bytes is announced, not sent."""
        stream = self.h2.get_next_available_stream_id()
        fields = [(':method', method), (':scheme', 'https'), (':authority', 'test.example'), (':path', path)]
        if length is not None:
            fields.append(('content-length', str(length)))
        self.h2.send_headers(stream, fields, end_stream=length is None)
        return stream

    def close(self):
        self.sock.close()


def attack(stack, front, *what, connections=CONNECTIONS, streams=STREAMS):
    for _ in range(connections):
        c = stack.enter_context(contextlib.closing(Idle(front)))
        for _ in range(streams):
            c.request(*what)
        c.flush()


def metric(front, name):
    text = get(front.lb.admin, '/metrics', host=front.lb.admin).text
    return sum(float(line.rpartition(' ')[2]) for line in text.split('\n') if line.startswith('resumelb_' + name))


def test_connections_whose_windows_are_closed_delay_no_other_client(world):
    front = Front(world, Workers(world), response_buffer='16KiB', worker_hold_timeout='1h', connection_wait_timeout='30s')
    with contextlib.ExitStack() as stack:
        attack(stack, front, 'GET', '/page')
        wait_until(lambda: front.stats()['spill_failures'] != 0, 'the files to be used up')
        # Worker_hold_timeout is an hour: a worker that waits for these clients would stay lost.
        assert [get(front.address, '/small').status for _ in range(20)] == [200] * 20
        # A client that is slow itself gets files.
        slow = [stack.enter_context(front.slow()) for _ in range(3)]
        for c in slow:
            c.send(target='/page')
        assert [get(front.address, '/small').status for _ in range(20)] == [200] * 20
        assert [digest(read(c)) == digest(PAGE) for c in slow] == [True] * 3
    front.all_given_back()
    assert metric(front, 'body_files') == 0
    assert 'slow-response-cut' in front.process.output()
    assert {line['outcome'] for line in front.lines()} <= {'responded', 'slow-client', 'client-gone'}


def test_bodies_that_are_never_complete_leave_room_for_those_of_others(world):
    front = Front(world, Workers(world), body_spill='64KiB')
    with contextlib.ExitStack() as stack:
        attack(stack, front, 'POST', '/', LENGTH)
        wait_until(lambda: metric(front, 'client_rejected_total{reason="no room to keep the body"}') != 0, 'the files to be used up')
        for _ in range(5):
            assert get(front.address, method='POST', body=BODY).body == b'%d bytes' % len(BODY)
    wait_until(lambda: metric(front, 'body_files') == 0, 'the files to be given back')


def test_the_body_of_a_request_is_given_back_when_its_response_is_there(world):
    front = Front(world, Workers(world), body_spill='64KiB')
    with contextlib.closing(Idle(front)) as c:
        for _ in range(3):
            stream = c.request('POST', '/', LENGTH)
            for part in range(5):
                c.h2.send_data(stream, b'x' * (LENGTH // 5), end_stream=part == 4)
        c.flush()
        wait_until(lambda: front.stats()['requests'] == 3 and metric(front, 'body_files') == 0, 'the files to be given back')
        assert front.stats()['requests_active'] == 3


def test_requests_that_lack_room_for_their_bodies_leave_their_connection_open(world):
    files = world.directory / 'files'
    files.mkdir()
    front = Front(world, Workers(world), body_spill='64KiB', spill_dir=str(files))
    files.rmdir()
    with contextlib.closing(Idle(front)) as c:
        statuses = {}
        streams = [c.request('POST', '/', LENGTH) for _ in range(30)] + [c.request('GET', '/small')]
        c.flush()
        while len(statuses) != len(streams):
            received = c.sock.recv(65536)
            assert received, 'the connection was closed after %d responses' % len(statuses)
            for event in c.h2.receive_data(received):
                if isinstance(event, h2.events.ResponseReceived):
                    statuses[event.stream_id] = dict(event.headers)[':status']
        assert [statuses[stream] for stream in streams] == ['503'] * 30 + ['200']
