# SPDX-License-Identifier: Apache-2.0
"""Limits of client connections: per address, and in total."""
import socket
import threading

import pytest
from support.base import LIMIT, free_port, wait_until
from support.http import Client, CutShort, connect, get
from support.scripted import hello, serve

REASON = 'resumelb_client_rejected_total{reason="too many connections from one address"}'


def start(world, listen=None, **settings):
    w = world.scripted(serve(hello))
    return world.resumelb(dict({'workers': [{'address': w.address}]}, **settings), listen=listen)


def rejected(lb):
    for line in get(lb.admin, '/metrics', host=lb.admin).text.splitlines():
        if line.startswith(REASON):
            return int(line.split()[-1])
    raise AssertionError('no such series')


def dial(address, source='127.0.0.1', first=b''):
    """Returns a connection after one served request, or None if it was closed without a response."""
    host, _, port = address.rpartition(':')
    c = Client(None, sock=socket.create_connection((host, int(port)), LIMIT, source_address=(source, 0)))
    try:
        c.send_raw(first + b'GET / HTTP/1.1\r\nHost: test.example\r\n\r\n')
        assert c.receive().status == 200
    except (OSError, CutShort):
        assert not c.buffer
        c.close()
        return None
    return c


def fill(n, *args, **kw):
    held = [dial(*args, **kw) for _ in range(n)]
    assert all(held)
    return held


def test_an_address_has_its_number_of_connections_over_all_loops(world):
    lb = start(world, max_connections_per_address=5)
    held = fill(5, lb.address)
    for i in range(3):
        assert dial(lb.address) is None
    assert rejected(lb) == 3
    others = fill(5, lb.address, source='127.0.0.2')
    assert all(c.request().status == 200 for c in held + others), 'existing connections continue to work'
    held.pop().close()
    wait_until(lambda: dial(lb.address), 'the place that has become free')


def test_rejected_connections_are_logged_once_a_second(world):
    lb = start(world, max_connections_per_address=1)
    held = fill(1, lb.address)
    for _ in range(200):
        assert dial(lb.address) is None
    assert rejected(lb) == 200
    lines = lb.process.wait_logged('address-over-limit')
    assert 1 <= len(lines) == len({line[:19] for line in lines}) and 'client=127.0.0.1' in lines[0]
    assert held[0].request().status == 200


def test_trusted_proxies_may_have_more(world):
    lb = start(world, max_connections_per_address=2, trusted_proxies=['127.0.0.9'])
    assert len(fill(6, lb.address, source='127.0.0.9')) == 6
    held = fill(2, lb.address)
    assert dial(lb.address) is None and held


def test_behind_a_proxy_header_the_client_counts_and_not_the_proxy(world):
    address = '127.0.0.1:%d' % free_port()
    lb = start(world, listen=[{'address': address, 'proxy_protocol': True}], max_connections_per_address=2)
    line = 'PROXY TCP%d %s %s 1 2\r\n'
    held = [fill(2, address, first=(line % (4, '192.0.2.%d' % i, '192.0.2.200')).encode()) for i in range(1, 4)]
    assert dial(address, first=(line % (4, '192.0.2.1', '192.0.2.200')).encode()) is None
    held += [fill(1, address, first=(line % (6, client, '::1')).encode()) for client in ('2001:db8::1', '2001:db8::2')]
    assert dial(address, first=(line % (6, '2001:db8::3', '::1')).encode()) is None, 'of the same /64'
    assert dial(address, first=(line % (6, '2001:db8:0:1::3', '::1')).encode())
    assert rejected(lb) == 2 and len(held) == 5


def test_sighup_sets_the_limit_and_takes_it_away(world):
    lb = start(world)
    held = fill(4, lb.address)
    lb.reload({'max_connections_per_address': 2})
    wait_until(lambda: dial_many(lb.address, 3) == 2, 'the limit')
    lb.reload({'max_connections_per_address': 0})
    wait_until(lambda: dial_many(lb.address, 6) == 6, 'no limit')
    assert all(c.request().status == 200 for c in held)


def dial_many(address, n):
    """Opens N connections. Returns how many of them are served, after all are closed."""
    got = [dial(address) for _ in range(n)]
    for c in got:
        if c:
            c.sock.shutdown(socket.SHUT_WR)
            assert c.sock.recv(1) == b''
            c.close()
    return sum(1 for c in got if c)


def test_over_all_connections_those_with_requests_continue_and_others_wait(world):
    gate = threading.Event()
    w = world.scripted(serve(lambda c, head, body: gate.wait(LIMIT) and c.respond(b'hello')))
    lb = world.resumelb({'workers': [{'address': w.address}], 'max_client_connections': 3}, threads='2')
    held = [Client(lb.address) for _ in range(3)]
    for c in held:
        c.send()
    wait_until(lambda: len(w.requests) == 3, 'the requests')
    with connect(lb.address) as late:
        late.sendall(b'GET / HTTP/1.1\r\nHost: test.example\r\n\r\n')
        wait_until(lambda: 'resumelb_accept_pauses_total 0\n' not in get(lb.admin, '/metrics', host=lb.admin).text, 'the pause')
        assert len(w.requests) == 3
        gate.set()
        assert [c.receive().status for c in held] == [200] * 3
        assert Client(None, sock=late).receive().status == 200, 'an idle connection is closed to make room'
    for c in held:
        c.close()


@pytest.mark.parametrize('threads', ['1', '4'])
def test_new_clients_are_served_when_idle_connections_take_all_the_room(world, threads):
    """Whichever loop accepts them, and whichever has the idle ones."""
    w = world.scripted(serve(lambda c, head, body: c.respond(b'hello')))
    lb = world.resumelb({'workers': [{'address': w.address}], 'max_client_connections': 8, 'keep_alive_timeout': '1h'}, threads=threads)
    idle = fill(8, lb.address)
    late = fill(1, lb.address)
    if threads == '1':
        assert idle[0].sock.recv(1) == b'', 'the one that was idle for longest'
    late += fill(11, lb.address)
    for c in idle + late:
        c.close()
