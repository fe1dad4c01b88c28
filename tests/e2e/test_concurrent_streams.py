# SPDX-License-Identifier: Apache-2.0
"""
The maximum number of concurrent streams, each of which needs many WINDOW_UPDATE frames, on some hundred connections, and in the soak
run (RLB_SOAK_ROUNDS) on some thousand.
"""
import os
import random
import re
import struct
import subprocess
import threading

import pytest

from limit_support import waits
from support.base import LIMIT, free_port, wait_until
from support.certificates import Pair
from support.http import Client, get
from support.http2 import (END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, WINDOW_UPDATE, Http2, frame, request)
from support.scripted import serve
from test_http2 import Front

WHOLE = END_STREAM | END_HEADERS
STREAMS = 100           # as many as SETTINGS announces
SOAK = int(os.environ.get('RLB_SOAK_ROUNDS', '1'))
CONNECTIONS = 50 if SOAK > 1 else 20        # concurrent connections
ROUNDS = 12 * SOAK      # each pair of windows once
BODY = b'x' * 2000
NUMBERS = range(1, 2 * STREAMS, 2)
PATIENT = {'connection_wait_timeout': '10m'}        # thousands of requests wait for 64 connections


def updates(increment, *streams):
    """WINDOW_UPDATE frames for STREAMS, or for the connection if there are none."""
    return b''.join(frame(WINDOW_UPDATE, struct.pack('>I', increment), 0, n) for n in streams or (0,))


def initial_window(n):
    return struct.pack('>HI', 4, n)


def settled(front, sent):
    """Checks that SENT requests arrived, all got 2xx, and the metrics show nothing else."""
    wait_until(lambda: front.lb.app()['outcomes'].get('responded', 0) == sent, '%d requests to be counted' % sent)
    app, stats = front.lb.app(), front.lb.app()['stats']
    assert {name: n for name, n in app['outcomes'].items() if n} == {'responded': sent} and not any(front.lb.json()['unrouted'].values())
    assert (stats['requests'], stats['responses_2xx'], stats['requests_active'], stats['requests_waiting']) == (sent, sent, 0, 0)
    assert (stats['retries'], stats['connect_failures'], stats['ejections']) == (0, 0, 0)
    page = get(front.lb.admin, '/metrics', host=front.lb.admin).text
    for name in ('rejected_total', 'resets_total', 'abandoned_total', 'send_timeouts_total', 'slow_readers_total', 'header_timeouts_total'):
        found = re.findall(r'^resumelb_client_%s(?:\{.*\})? (\d+)$' % name, page, re.M)
        assert found and set(found) == {'0'}, (name, found)
    assert front.lb.process.alive()


def test_many_connections_with_all_their_streams_in_use(world):
    """Each stream has a window of 2^BITS - 1 bytes: with 127 bytes a response needs 16 WINDOW_UPDATE frames, with 4095 none."""
    arrived = [0]
    lock = threading.Lock()

    def respond(c, head, body):
        with lock:
            arrived[0] += 1
        c.respond(BODY)
    front = Front(world, respond, **PATIENT)
    front.worker.remembers = False
    for n in range(ROUNDS):
        bits, all_bits = (7, 9, 10, 12)[n % 4], (16, 18, 30)[n % 3]
        out = subprocess.run(
            ['h2load', '-n', str(CONNECTIONS * STREAMS), '-c', str(CONNECTIONS), '-m', str(STREAMS), '-w', str(bits), '-W', str(all_bits),
             'https://127.0.0.1:%d/' % front.port], capture_output=True, text=True, timeout=LIMIT).stdout
        sent = CONNECTIONS * STREAMS
        assert 'requests: %d total, %d started, %d done, %d succeeded, 0 failed, 0 errored, 0 timeout' % ((sent,) * 4) in out, out
        assert 'status codes: %d 2xx, 0 3xx, 0 4xx, 0 5xx' % sent in out, out
    assert arrived[0] == ROUNDS * CONNECTIONS * STREAMS
    settled(front, arrived[0])


class ByPath:
    """A different body for each path."""

    def __init__(self):
        self.bodies = {'/%d' % n: random.Random(n).randbytes(1500 + 7 * n) for n in NUMBERS}

    def __call__(self, c, head, body):
        c.respond(self.bodies[head.split(b' ')[1].decode()])


def write_in_pieces(c, data, dice):
    """Writes DATA in pieces of random sizes, so that frames are split at any byte."""
    while data:
        n = dice.randint(1, 400)
        c.send(data[:n])
        data = data[n:]


@pytest.mark.parametrize('seed', range(6))
def test_windows_are_opened_in_any_order(world, seed):
    """Small windows are opened in small steps and random order, before, between and after the requests."""
    dice, pages = random.Random(seed), ByPath()
    front = Front(world, pages, http2_window_updates=1000000, http2_pings=1000000, **PATIENT)
    with front.connect(initial_window(dice.choice((0, 1, 100)))) as c:
        begin = [[frame(HEADERS, request(path='/%d' % n), WHOLE, n), updates(dice.randint(1, 50), n)] for n in NUMBERS]
        if dice.random() < 0.5:         # each update right behind its request, or all of them after the last one
            begin = [[b''.join(pair)] for pair in begin]
        first = b''.join(pair[0] for pair in begin) + b''.join(p for pair in begin for p in pair[1:])
        c.send(first) if seed % 2 else write_in_pieces(c, first, dice)
        given = 0
        while c.goaway is None and not c.closed and not all(c.stream(n).over for n in NUMBERS):
            unfinished = [n for n in NUMBERS if not c.stream(n).over]
            dice.shuffle(unfinished)
            step = dice.choice((13, 100, 600))
            more = b''.join(updates(step, n) for n in unfinished)
            # The window of the connection is also opened: it is smaller than all bodies together.
            given += step * len(unfinished)
            c.send(more + updates(step * len(unfinished))).ping(struct.pack('>Q', given))
        assert c.goaway is None and not c.closed
        for n in NUMBERS:
            assert c.stream(n).status == '200' and c.stream(n).body == pages.bodies['/%d' % n], n
    settled(front, STREAMS)


def test_settings_that_change_all_windows_while_all_streams_are_in_use(world):
    """RFC 9113, section 6.9.2: the windows of open streams change by the difference, also to negative values."""
    pages = ByPath()
    front = Front(world, pages, **PATIENT)
    with front.connect(initial_window(100)) as c:
        c.send(updates(1 << 20) + b''.join(frame(HEADERS, request(path='/%d' % n), WHOLE, n) for n in NUMBERS))
        c.until(lambda: all(len(c.stream(n).body) == 100 for n in NUMBERS))
        c.send(frame(SETTINGS, initial_window(0)) + updates(50, *NUMBERS)).ping()
        assert {len(c.stream(n).body) for n in NUMBERS} == {100}
        c.send(frame(SETTINGS, initial_window(200))).until(lambda: all(len(c.stream(n).body) == 250 for n in NUMBERS))
        c.send(frame(SETTINGS, initial_window(65535))).until_over(*NUMBERS)
        assert [c.stream(n).body for n in NUMBERS] == [pages.bodies['/%d' % n] for n in NUMBERS]
    settled(front, STREAMS)


def test_streams_whose_windows_stay_closed_do_not_hold_up_the_last_one(world):
    pages = ByPath()
    front = Front(world, pages, **PATIENT)
    with front.connect(initial_window(0)) as c:
        c.send(b''.join(frame(HEADERS, request(path='/%d' % n), WHOLE, n) for n in NUMBERS))
        c.until(lambda: all(c.stream(n).status == '200' for n in NUMBERS))
        for n in (NUMBERS[-1], NUMBERS[0]):
            c.send(updates(65535, n)).until_over(n)
            assert c.stream(n).body == pages.bodies['/%d' % n]
        assert not [n for n in NUMBERS[1:-1] if c.stream(n).body or c.stream(n).over]
        c.send(updates(1 << 20) + updates(65535, *NUMBERS[1:-1])).until_over(*NUMBERS)
        assert [c.stream(n).body for n in NUMBERS] == [pages.bodies['/%d' % n] for n in NUMBERS]
    settled(front, STREAMS)


# ---- what waits ----

class Held:
    """A worker that holds requests for a.example until `gate` is set. `most`: the maximum number of concurrent requests."""

    def __init__(self, world):
        self.gate, self.lock, self.here, self.most = threading.Event(), threading.Lock(), 0, 0
        self.server = world.scripted(serve(self.respond))
        world.closers.insert(0, self.gate.set)

    def respond(self, c, head, body):
        with self.lock:
            self.here += 1
            self.most = max(self.most, self.here)
        if b'\r\nhost: a.example' in head.lower():
            assert self.gate.wait(LIMIT)
        with self.lock:
            self.here -= 1
        c.respond(b'here')


def all_but_the_last_wait(world, held, config, wait_for):
    """Sends STREAMS - 1 requests for a.example, then one for b.example, which gets a response while the others wait."""
    port = free_port()
    pair = Pair(world.directory, 'front', ['a.example', 'b.example'])
    lb = world.resumelb(config, listen=[{'address': '127.0.0.1:%d' % port, 'tls': pair.entry, 'http2': True}])
    with Http2(port) as c:
        c.send(b''.join(frame(HEADERS, request(authority='a.example'), WHOLE, n) for n in NUMBERS[:-1]))
        wait_for(lb)
        c.send(frame(HEADERS, request(authority='b.example'), WHOLE, NUMBERS[-1])).until_over(NUMBERS[-1])
        last = c.stream(NUMBERS[-1])
        assert (last.status, last.body) == ('200', b'here')
        assert not [n for n in NUMBERS[:-1] if c.stream(n).over]
        held.gate.set()
        c.until_over(*NUMBERS)
        assert {c.stream(n).status for n in NUMBERS} == {'200'}


def test_requests_that_wait_in_a_limit_do_not_hold_up_another_of_their_connection(world):
    held = Held(world)
    all_but_the_last_wait(world, held, {'workers': [held.server.address], 'limits': {'sites': {'workers': 1, 'timeout': '10m'}}, **PATIENT},
                          lambda lb: waits(lb, STREAMS - 2))
    assert held.most <= 2


def test_requests_that_wait_for_a_worker_do_not_hold_up_another_of_their_connection(world):
    held = Held(world)
    config = {'applications': {
        'a': {'hosts': ['a.example'], 'workers': [{'address': held.server.address, 'max_connections': 1}], **PATIENT},
        'b': {'hosts': ['b.example'], 'workers': [held.server.address]}}}
    all_but_the_last_wait(world, held, config,
                          lambda lb: wait_until(lambda: lb.json()['applications']['a']['stats']['requests'] == STREAMS - 1))
    assert held.most <= 2


# ---- without TLS ----

def test_http2_without_tls_is_rejected_whatever_streams_follow(world):
    """A plain listener does not support HTTP/2 (listen.http2); it serves 100 HTTP/1 requests on each of as many connections."""
    worker = world.scripted(serve(lambda c, *_: c.respond(BODY)), remembers=False)
    lb = world.resumelb({'workers': [worker.address], **PATIENT})
    for _ in range(10):
        with Client(lb.address) as c:
            c.send_raw(PREFACE + frame(SETTINGS, initial_window(100)) +
                       b''.join(frame(HEADERS, request(), WHOLE, n) + updates(100, n) for n in NUMBERS))
            assert c.receive().status in (400, 505)
    out = subprocess.run(['h2load', '--h1', '-n', str(CONNECTIONS * STREAMS), '-c', str(CONNECTIONS), '-m', str(STREAMS),
                          'http://%s/' % lb.address], capture_output=True, text=True, timeout=LIMIT).stdout
    assert 'status codes: %d 2xx, 0 3xx, 0 4xx, 0 5xx' % (CONNECTIONS * STREAMS) in out, out
    assert lb.process.alive()
