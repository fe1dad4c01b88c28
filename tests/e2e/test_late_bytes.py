# SPDX-License-Identifier: Apache-2.0
"""Workers that send more than they announced: excess bytes are never part of another response, with any number of clients."""
import fcntl
import termios
import threading

import pytest

from support.base import LIMIT, wait_until
from support.http import Client
from support.scripted import serve

CLIENTS = 8
ROUNDS = 30
POISON = b'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison'
# More than the first read returns: the rest is read to its announced end, and the excess bytes stay in the socket.
LARGE = 20000


def config(w, **settings):
    return dict({'workers': [{'address': w.address}], 'pool': {'policy': 'classless'}}, **settings)


def echo(size):
    """A response that starts with the path of the request."""
    def respond(c, head, body):
        path = head.split(b' ')[1]
        c.respond(path + b' ' * (size - len(path)))
    return respond


def echo_and_more(c, head, body):
    """The same response, with excess bytes in the same write."""
    path = head.split(b' ')[1]
    c.write(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % LARGE + path + b' ' * (LARGE - len(path)) + POISON)


def has_arrived(sock):
    """Returns whether all written data was delivered. Under load not even loopback delivers immediately."""
    try:
        return fcntl.ioctl(sock, termios.TIOCOUTQ, b'\0' * 4) == b'\0' * 4
    except (OSError, ValueError):
        return True             # the connection is closed


def ask_at_once(lb, rounds, between=None):
    """
    CLIENTS clients send ROUNDS requests each. Returns the wrong responses. BETWEEN is called after each round, while no request
    is in progress.
    """
    wrong = []
    barrier = threading.Barrier(CLIENTS, action=between)

    def run(number):
        try:
            with Client(lb.address) as c:
                for i in range(rounds):
                    path = b'/%d/%d' % (number, i)
                    got = c.request(target=path.decode())
                    if got.status != 200 or got.body.strip() != path:
                        wrong.append((path, got.status, got.body[:20]))
                    if between is not None:
                        barrier.wait(LIMIT)
        except Exception as e:
            wrong.append((number, e))
            barrier.abort()
    threads = [threading.Thread(target=run, args=(i,)) for i in range(CLIENTS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return wrong


@pytest.mark.parametrize('most, threads', [(1, 1), (3, 1), (64, 1), (1, 4), (3, 4), (64, 4)])
def test_bytes_behind_a_response_are_not_the_next_one(world, most, threads):
    """At the limit a connection passes from a completed request to a waiting one, also of another loop."""
    w = world.scripted(serve(echo_and_more))
    lb = world.resumelb(config(w, max_connections=most), threads=threads)
    assert ask_at_once(lb, ROUNDS) == []
    # A connection with excess bytes was not reused.
    assert len(w.requests) == len(w.connections) == CLIENTS * ROUNDS


@pytest.mark.parametrize('most, threads', [(1, 1), (3, 1), (64, 1), (1, 4), (3, 4)])
def test_connections_of_a_worker_that_sends_what_it_announced_are_kept(world, most, threads):
    w = world.scripted(serve(echo(LARGE)))
    lb = world.resumelb(config(w, max_connections=most), threads=threads)
    assert ask_at_once(lb, ROUNDS) == []
    assert len(w.requests) == CLIENTS * ROUNDS
    assert len(w.connections) <= min(most, CLIENTS)


@pytest.mark.parametrize('size', [40, LARGE])
def test_bytes_that_come_while_connections_idle_are_not_the_next_responses(world, size):
    w = world.scripted(serve(echo(size)))
    lb = world.resumelb(config(w), threads=1)

    def poison():
        sent = []
        for c in w.connections:
            try:
                c.write(POISON)
                sent.append(c.sock)
            except OSError:
                pass            # closed because of the excess bytes of the previous round
        wait_until(lambda: all(has_arrived(s) for s in sent), 'the bytes to arrive')
    assert ask_at_once(lb, ROUNDS, between=poison) == []
    # All idle connections had to be closed in each round.
    assert len(w.connections) >= ROUNDS
