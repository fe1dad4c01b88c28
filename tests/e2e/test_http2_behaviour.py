# SPDX-License-Identifier: Apache-2.0
"""
HTTP/2 between a client and a worker: fields that are joined or dropped, limits, information passed to the worker, and input that
made an earlier version fail.
"""
import json
import re
import signal
import socket
import struct
import threading
import urllib.request

import pytest
from support.base import LIMIT, SLOWNESS, freeze, wait_until
from support.http2 import (DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, block,
                           frame, literal, request)
from test_http2 import Front, check_heads, echo

WHOLE = END_STREAM | END_HEADERS
LARGE = b'x' * 1_000_000


def window(n, stream=0):
    return frame(WINDOW_UPDATE, struct.pack('>I', n), 0, stream)


def initial_window(n):
    return struct.pack('>HI', 4, n)


def metric(lb, name):
    with urllib.request.urlopen('http://%s/metrics' % lb.admin, timeout=LIMIT) as r:
        found = re.search(r'^%s (\d+)$' % re.escape(name), r.read().decode(), re.M)
    return int(found[1]) if found else 0


def test_cookies_are_joined_and_trailers_dropped(world):
    front = Front(world)
    with front.connect() as c:
        c.send(frame(HEADERS, request(('cookie', 'a=1'), ('cookie', 'b=2'), ('te', 'trailers'), method='POST'),
                     END_HEADERS, 1) + frame(DATA, b'abc', 0, 1) +
               frame(HEADERS, block([('x-late', '1'), ('x-forwarded-for', '6.6.6.6')]), WHOLE, 1))
        assert c.until_over(1).stream(1).body == b'/ abc'
    head, body = front.worker.requests[0]
    assert b'cookie: a=1; b=2' in head.lower() and body == b'abc'
    assert b'x-late' not in head.lower() and b'6.6.6.6' not in head
    check_heads(front.worker.requests)


def test_host_stands_for_a_missing_authority(world):
    front = Front(world)
    with front.connect() as c:
        assert c.get(1, request(('host', 'b.example:81'), authority=None)).status == '200'
    assert b'host: b.example:81' in front.worker.requests[0][0].lower()


def test_an_expectation_is_met_by_100_continue_and_kept_from_the_worker(world):
    front = Front(world)
    expecting = request(('expect', '100-continue'), method='POST')
    with front.connect() as c:
        c.send(frame(HEADERS, expecting, END_HEADERS, 1)).ping()
        assert c.stream(1).heads == [[(':status', '100')]] and not c.stream(1).over
        s = c.send(frame(DATA, b'abc', END_STREAM, 1)).until_over(1).stream(1)
        assert s.body == b'/ abc' and len(s.heads) == 2 and s.status == '200'
        c.send(frame(HEADERS, request(('expect', 'more'), method='POST'), END_HEADERS, 3) + frame(DATA, b'', END_STREAM, 3))
        assert c.until_over(3).stream(3).status == '417'
    (head, _), = front.worker.requests
    assert b'expect' not in head.lower()


def test_fields_of_the_workers_connection_go_no_further(world):
    def script(c, head, body):
        c.write(b'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n')
        c.write(b'HTTP/1.1 200 OK\r\nConnection: x-hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n'
                b'X-Kept: 1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n')
    front = Front(world, script)
    with front.connect() as c:
        s = c.get(1)
        assert s.status == '200' and s.body == b'abc' and s.ended and s['x-kept'] == '1'
        assert len(s.heads) == 1       # neither the early hints before it nor the trailers after it
        names = [n for n, _ in s.heads[-1]]
        assert not set(names) & {'connection', 'keep-alive', 'transfer-encoding', 'x-hop', 'upgrade'}, names
        assert all(n == n.lower() for n in names) and names.count(':status') == 1 and names[0] == ':status'


@pytest.mark.parametrize('head', [b'Content-Length: 20\r\n', b'Transfer-Encoding: chunked\r\n'])
def test_a_response_that_is_cut_short_is_reset(world, head):
    def script(c, *_):
        c.write(b'HTTP/1.1 200 OK\r\n' + head + b'\r\n' + b'5\r\nabcde\r\n')
        c.reset()
    front = Front(world, script, retries=0)
    with front.connect() as c:
        s = c.get(1)
        assert not s.ended and s.reset or s.status == '502', (s.heads, s.body, s.reset)
    assert front.lb.process.alive()


@pytest.mark.parametrize('method, status', [('HEAD', '200 OK'), ('GET', '204 No Content'), ('GET', '304 Not Modified')])
def test_responses_without_a_body_end_at_once(world, method, status):
    def script(c, *_):
        c.write(b'HTTP/1.1 %s\r\n%s\r\n' % (status.encode(), b'' if status[:3] == '204' else b'Content-Length: 9\r\n'))
    front = Front(world, script)
    with front.connect() as c:
        for number in (1, 3):
            s = c.get(number, request(method=method))
            assert s.status == status[:3] and s.ended and s.body == b''


@pytest.mark.parametrize('size', [0, 4, len(LARGE)])
def test_the_bytes_that_were_sent_are_counted_and_logged(world, size):
    log = world.directory / 'access.log'
    front = Front(world, lambda c, *_: c.respond(b'x' * size), access_log=str(log), access_log_format='json',
                  access_log_fields=['sent_bytes'])
    with front.connect(initial_window(2 * size + 1)) as c:
        assert len(c.send(window(2 * size + 1)).get(1).body) == size
    wait_until(lambda: log.exists() and log.read_text().endswith('\n'), 'the line')
    assert json.loads(log.read_text())['sent_bytes'] == size
    wait_until(lambda: metric(front.lb, 'resumelb_client_sent_bytes_total{application="default"}') == size, 'the bytes to be counted')


def test_the_sent_part_of_a_reset_response_is_logged(world):
    log = world.directory / 'access.log'
    front = Front(world, lambda c, head, body: c.respond(LARGE), access_log=str(log), access_log_format='json',
                  access_log_fields=['sent_bytes', 'outcome'])
    with front.connect() as c:
        c.send(frame(HEADERS, request(), WHOLE, 1))
        c.until(lambda: len(c.stream(1).body) == 65535)
        c.send(frame(RST_STREAM, struct.pack('>I', 8), 0, 1))
        wait_until(lambda: log.exists() and log.read_text().endswith('\n'), 'the line')
    line = json.loads(log.read_text())
    assert (line['sent_bytes'], line['outcome']) == (65535, 'client-gone')


def test_windows_are_obeyed_in_both_directions(world):
    def script(c, head, body):
        c.respond(LARGE if head.startswith(b'GET') else b'%d' % len(body))
    front = Front(world, script)
    with front.connect(initial_window(1000)) as c:
        c.send(frame(HEADERS, request(), WHOLE, 1)).until(lambda: len(c.stream(1).body) == 1000)
        c.ping(b'only1000')
        assert len(c.stream(1).body) == 1000
        c.send(window(500, 1)).until(lambda: len(c.stream(1).body) == 1500)
        c.ping(b'now 1500')
        assert len(c.stream(1).body) == 1500 and not c.stream(1).over
        # the window of the connection is exhausted before that of the stream
        c.send(window(1 << 20, 1)).until(lambda: len(c.stream(1).body) == 65535)
        c.ping(b'now 64Ki')
        assert len(c.stream(1).body) == 65535
        c.send(window(1 << 20)).until_over(1)
        assert c.stream(1).body == LARGE
    with front.connect() as c:
        c.send(frame(HEADERS, request(method='POST'), END_HEADERS, 1))
        for i in range(200):
            c.send(frame(DATA, bytes(16384), END_STREAM if i == 199 else 0, 1))
        c.until_over(1)
        assert c.stream(1).body == b'%d' % (200 * 16384)
        assert c.windows.get(0, 0) >= 200 * 16384 - 65535


def bodyless(c, head, body):
    """Responds to known paths without a body, and others with a body that fills all windows."""
    responses = {b'/empty': b'200 OK\r\nContent-Length: 0', b'/none': b'204 No Content', b'/same': b'304 Not Modified',
               b'/unsized': b'200 OK\r\nTransfer-Encoding: chunked'}
    what = responses.get(head.split(b' ')[1])
    if what is None:
        c.respond(LARGE)
    else:
        c.write(b'HTTP/1.1 ' + what + b'\r\n\r\n' + (b'0\r\n\r\n' if b'chunked' in what else b''))


WITHOUT_BYTES = [('GET', '/empty', '200'), ('GET', '/none', '204'), ('GET', '/same', '304'), ('HEAD', '/', '200'),
                 ('GET', '/unsized', '200')]


@pytest.mark.parametrize('method, path, status', WITHOUT_BYTES)
def test_a_response_without_bytes_needs_no_window(world, method, path, status):
    front = Front(world, bodyless)
    ask = request(method=method, path=path)
    with front.connect(initial_window(0)) as c:
        for number in (1, 5):
            s = c.get(number, ask)
            assert s.status == status and s.ended and s.body == b'' and len(s.heads) == 1
            # frames that a client may send for a stream that has just ended
            c.send(window(0x7fffffff, number))
            assert c.ping(b'%08d' % number).goaway is None and s.reset is None
        # a response with a body waits, and is sent when the window is opened later
        c.send(frame(HEADERS, request(), WHOLE, 7)).until(lambda: c.stream(7).heads)
        assert c.get(9, ask).ended and not c.stream(7).over and c.stream(7).body == b''
        c.send(frame(SETTINGS, initial_window(1 << 20)) + window(1 << 20)).until_over(7)
        assert c.stream(7).body == LARGE and c.get(11, ask).ended
    with front.connect(initial_window(1 << 20)) as c:
        # another stream exhausts the window of the connection
        c.send(frame(HEADERS, request(), WHOLE, 1)).until(lambda: len(c.stream(1).body) == 65535)
        assert c.get(3, ask).ended and not c.stream(1).over
        c.send(window(1 << 20)).until_over(1)
        assert c.stream(1).body == LARGE
    assert front.lb.process.alive()


@pytest.mark.parametrize('by_stream', [True, False])
@pytest.mark.parametrize('complete', [True, False])
def test_the_end_after_the_last_byte_that_the_window_had_room_for_is_reported(world, by_stream, complete):
    size, go_on = (1000 if by_stream else 65535), threading.Event()

    def script(c, *_):
        c.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n' % (size, b'x' * size))
        assert go_on.wait(LIMIT)
        if complete:
            c.write(b'0\r\n\r\n')
        else:
            c.reset()
    front = Front(world, script)
    with front.connect(initial_window(size)) as c:
        c.send(frame(HEADERS, request(), WHOLE, 1)).until(lambda: len(c.stream(1).body) == size)
        assert not c.stream(1).over
        go_on.set()
        s = c.until_over(1).stream(1)
        assert s.body == b'x' * size and s.ended == complete and (s.reset is None) == complete
        c.ping()
        assert c.goaway is None


def test_streams_that_end_without_a_window_leave_the_connection_its_places(world):
    log = world.directory / 'access.log'
    front = Front(world, bodyless, access_log=str(log), access_log_format='json',
                  access_log_fields=['sent_bytes', 'outcome', 'status'])
    numbers = range(1, 1201, 2)
    with front.connect(initial_window(0)) as c:
        for first in range(0, len(numbers), 30):
            some = numbers[first:first + 30]
            c.send(b''.join(frame(HEADERS, request(path='/none'), WHOLE, n) for n in some)).until_over(*some)
        assert all(c.stream(n).ended and c.stream(n).status == '204' for n in numbers)
        wait_until(lambda: log.read_text().count('\n') == len(numbers), 'all lines')
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {(line['sent_bytes'], line['outcome'], line['status']) for line in lines} == {(0, 'responded', 204)}


def test_more_streams_than_announced_are_rejected(world):
    front = Front(world)
    with front.connect() as c:
        c.until(lambda: 3 in c.settings)
        limit = c.settings[3]
        numbers = [1 + 2 * i for i in range(limit + 5)]
        c.send(b''.join(frame(HEADERS, request(method='POST'), END_HEADERS, n) for n in numbers)).ping()
        resets = [c.stream(n).reset for n in numbers]
        assert resets == [None] * limit + ['REFUSED_STREAM'] * 5
        c.send(b''.join(frame(DATA, b'a', END_STREAM, n) for n in numbers[:limit])).until_over(*numbers[:limit])
        assert all(c.stream(n).status == '200' for n in numbers[:limit])


def test_after_so_many_requests_a_connection_states_goaway_and_responses_what_it_has(world):
    front = Front(world, http2_requests=5)
    with front.connect() as c:
        c.send(frame(HEADERS, request(method='POST'), END_HEADERS, 1))
        c.send(b''.join(frame(HEADERS, request(), WHOLE, n) for n in (3, 5, 7, 9, 11, 13)))
        c.until(lambda: c.goaway is not None)
        assert c.goaway == 'NO_ERROR' and c.last_stream == 9
        c.until(lambda: all(c.stream(n).over for n in (3, 5, 7, 9)))
        # the upload in progress is accepted
        c.send(frame(DATA, b'late', END_STREAM, 1)).until(lambda: c.stream(1).over or c.closed)
        assert c.stream(1).body == b'/ late' and c.stream(1).ended
        c.until(lambda: False)
        assert c.goaway == 'NO_ERROR' and not c.stream(11).heads
    assert len(front.worker.requests) == 5 and front.lives()


def test_a_drain_states_goaway_twice_and_takes_what_is_in_progress(world):
    front = Front(world)
    with front.connect() as c:
        assert c.get(1).status == '200'
        c.send(frame(HEADERS, request(method='POST'), END_HEADERS, 3) + frame(DATA, b'a', 0, 3)).ping()
        # While the process is stopped, a request and the signal are sent to it.
        freeze(front.lb.process.pid)
        c.send(frame(HEADERS, request(), WHOLE, 5))
        front.lb.process.popen.terminate()
        front.lb.process.kill(signal.SIGCONT)
        c.until(lambda: c.goaway is not None)
        assert c.goaway == 'NO_ERROR' and c.last_stream == 0x7fffffff
        assert c.until_over(5).stream(5).status == '200'
        c.until(lambda: c.last_stream != 0x7fffffff or c.closed)
        assert c.last_stream == 5
        c.send(frame(DATA, b'b', END_STREAM, 3)).until_over(3)
        assert c.stream(3).body == b'/ ab'
        c.until(lambda: False)
        assert c.goaway == 'NO_ERROR'
    assert front.lb.process.wait() == 0


MADE_RESETS = [
    ('DATA after the end', lambda n: frame(DATA, b'x', 0, n)),
    ('a window of 0', lambda n: window(0, n)),
    ('a window too large', lambda n: window(0x7fffffff, n)),
    ('HEADERS again', lambda n: frame(HEADERS, request(), WHOLE, n)),
    ('reset by the client', lambda n: frame(RST_STREAM, b'\0\0\0\x08', 0, n)),
]


@pytest.mark.parametrize('name, what', MADE_RESETS, ids=[n for n, _ in MADE_RESETS])
def test_requests_that_are_reset_by_either_side_end_the_connection_early(world, name, what):
    def script(c, *_):
        c.sock.recv(1)
    front = Front(world, script)
    with front.connect() as c:
        c.send(b''.join(frame(HEADERS, request(), WHOLE, n) + what(n) for n in range(1, 4001, 2)))
        c.until(lambda: False)
        assert c.closed
    assert len(front.worker.requests) <= 300
    assert front.lb.process.alive()


def test_a_stream_that_has_been_sent_may_be_given_more_window(world):
    """Its last bytes are still buffered for the socket: it must not be processed like an open stream."""
    def script(c, head, body):
        c.respond(LARGE * 40 if b'/large' in head else b'x' * 1000)
    front = Front(world, script)
    # A large response keeps the socket full, so that small ones, which fill their windows exactly, wait in it.
    with front.connect(initial_window(1000), receive_bytes=4096) as c:
        c.send(window(1 << 30) + frame(HEADERS, request(path='/large'), WHOLE, 1) + window(1 << 30, 1))
        c.until(lambda: len(c.stream(1).body) > 100_000)
        number, small = 3, []
        while not c.stream(1).over and len(small) < 1500:
            fresh = list(range(number, number + 20, 2))
            number, small = number + 20, small + fresh
            c.send(b''.join(frame(HEADERS, request(), WHOLE, n) for n in fresh))
            for _ in range(3):
                c.send(b''.join(window(1, n) for n in small[-60:]))
                c.more()
        c.send(window(1, number - 2)).until_over(*small)
        assert not c.closed and any(c.stream(n).ended for n in small)
        assert all(len(c.stream(n).body) == 1000 or c.stream(n).reset == 'REFUSED_STREAM' for n in small)
    assert front.lives()


def test_a_connection_that_breaks_with_requests_waiting_harms_no_other(world):
    """Some of the requests are at workers, some wait, and some are rejected immediately."""
    def script(c, head, body):
        c.respond(LARGE if b'/large' in head else b'small')
    front = Front(world, script)
    for _ in range(5):
        c = front.connect(initial_window(1 << 30), receive_bytes=4096)
        c.send(window(1 << 30))
        before = len(front.worker.requests)
        c.send(b''.join(frame(HEADERS, request(path='/large'), WHOLE, n) for n in range(1, 64, 2)))
        wait_until(lambda: len(front.worker.requests) > before, 'the first')
        # This number of malformed requests ends the connection, which breaks at the same time.
        c.send(b''.join(frame(HEADERS, request(path='bad'), WHOLE, n) for n in range(65, 180, 2)))
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        c.sock.close()
        assert front.lives()
    assert front.lb.process.alive()


def test_small_blocks_do_not_become_large(world):
    front = Front(world)

    def resident():
        return int(re.search(r'VmRSS:\s+(\d+)', open('/proc/%d/status' % front.lb.process.pid).read())[1])
    assert front.lives()
    before = resident()
    seed = literal('x', 'y' * 3900, 0x40)
    clients = []
    for _ in range(30):
        c = front.connect()
        clients.append(c)
        c.send(frame(HEADERS, request() + seed + b'\xbe' * 12000, END_STREAM, 1))
        c.send(frame(9, b'\xbe' * 16000, 0, 1) * 2 + frame(9, b'\xbe' * 16000, END_HEADERS, 1))
        c.until(lambda: c.closed or c.goaway)
        assert c.goaway in ('ENHANCE_YOUR_CALM', None)
    # Sanitizers hold freed memory for a while; the growth must be far below 30 times 40 MB.
    assert resident() - before < (32 if SLOWNESS == 1 else 256) * 1024
    wait_until(lambda: metric(front.lb, 'resumelb_client_rejected_total{reason="header fields too large"}') == 30, 'the rejections to be counted')
    for c in clients:
        c.sock.close()
    assert len(front.worker.requests) == 1 and front.lives()


# ---- how many malformed requests ----

TOLERATED = 10
FAR_TOO_MANY = 58


@pytest.mark.parametrize('malformed, verdict', [
    pytest.param({'more': ('X-A', 'b')}, 'stream PROTOCOL_ERROR', id='an upper-case name'),
    pytest.param({'path': 'bad'}, '400', id='a path without a slash')])
def test_ten_malformed_requests_leave_their_connection_alone(world, malformed, verdict):
    front = Front(world)
    with front.connect() as c:
        last = 2 * TOLERATED + 1
        c.send(b''.join(malformed_request(malformed, n) for n in range(1, last, 2)) + frame(HEADERS, request(), WHOLE, last))
        c.until_over(*range(1, last + 2, 2))
        assert {c.verdict(n) for n in range(1, last, 2)} == {verdict}
        assert c.stream(last).status == '200' and c.goaway is None
    assert len(front.worker.requests) == 1


@pytest.mark.parametrize('count', [TOLERATED + 1, FAR_TOO_MANY])
@pytest.mark.parametrize('malformed', [
    pytest.param({'more': ('X-A', 'b')}, id='an upper-case name'),
    pytest.param({'path': 'bad'}, id='a path without a slash')])
def test_more_malformed_requests_end_their_connection_with_goaway(world, malformed, count):
    """Requests in the same bytes are dropped, too: those above the last stream of GOAWAY have reached no worker."""
    front = Front(world)
    with front.connect() as other, front.connect() as c:
        last = 9 + 2 * count
        c.send(b''.join(frame(HEADERS, request(path='/%d' % n), WHOLE, n) for n in range(1, 9, 2)) +
               b''.join(malformed_request(malformed, n) for n in range(9, last, 2)) + frame(HEADERS, request(path='/%d' % last), WHOLE, last))
        c.until(lambda: False)
        assert c.goaway == 'ENHANCE_YOUR_CALM' and c.last_stream < last
        assert other.get().status == '200'
    front.lb.process.stop()
    front.worker.heard_all()
    targets = [head.split(b' ')[1].decode() for head, _ in front.worker.requests]
    assert set(targets) <= {'/'} | {'/%d' % n for n in range(1, c.last_stream + 1, 2)}, targets


def malformed_request(malformed, n):
    fields = request(malformed['more']) if 'more' in malformed else request(**malformed)
    return frame(HEADERS, fields, WHOLE, n)
