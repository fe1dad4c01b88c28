# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 from the client's side, frame by frame: what RFC 9113 allows is served, and nothing else reaches a worker."""
import re
import struct
import threading

import pytest
from http2_cases import CASES, right, run
from support.base import free_port, wait_until
from support.certificates import Pair
from support.http2 import (CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PREFACE, RST_STREAM,
                           SETTINGS, WINDOW_UPDATE, Http2, block, frame, literal, request)
from support.scripted import serve


def echo(c, head, body):
    c.answer(head.split(b' ')[1] + b' ' + body)


class Front:
    """Ours with HTTP/2 before one scripted worker."""

    def __init__(self, world, script=echo, **settings):
        self.worker = world.scripted(serve(script))
        self.port = free_port()
        self.pair = Pair(world.folder, 'front-%d' % self.port, ['test.example'])
        self.lb = world.resumelb({'workers': [self.worker.address], **settings}, listen=[
            {'address': '127.0.0.1:%d' % self.port, 'tls': self.pair.entry, 'http2': True}])

    def connect(self, *args, **kw):
        return Http2(self.port, *args, **kw)

    def lives(self):
        with self.connect() as c:
            return c.get(1).status == '200' and self.lb.process.alive()


LINE = re.compile(rb'[A-Z]+ (/[!-~]*|\*) HTTP/1\.1$')
FIELD = re.compile(rb'[!#$%&\'*+.^_`|~0-9A-Za-z-]+: ?[\t -~\x80-\xff]*$')


def check_heads(requests):
    """What reached the worker is HTTP/1.1 that nobody can read in two ways."""
    for head, body in requests:
        first, *fields = head.split(b'\r\n')
        assert LINE.match(first), head
        names = [f.split(b':')[0].lower() for f in fields]
        assert all(FIELD.match(f) for f in fields), head
        assert names.count(b'host') == 1 and names.count(b'content-length') <= 1, head
        assert b'transfer-encoding' not in names and b'te' not in names and b'upgrade' not in names, head
        assert not any(n.startswith(b':') for n in names), head


def test_every_case_of_the_table_comes_out_as_the_standard_allows(world):
    front = Front(world)
    wrong = []
    for case in CASES:
        group, name, _, _, allowed = case
        # What the case before has sent may be on its way to the worker yet.
        wait_until(lambda: front.lb.app()['stats']['requests_active'] == 0, 'the case before to be over')
        before = len(front.worker.requests)
        verdict = run(front.port, case)
        if not right(verdict, allowed):
            wrong.append((group, name, verdict, allowed))
        reached = len(front.worker.requests) - before
        if '2' not in allowed and group in ('malformed', 'lengths', 'hpack', 'sizes', 'blocks') and reached:
            if name != 'CONTINUATION after the end':
                wrong.append((group, name, 'reached the worker', front.worker.requests[-reached:]))
        if not front.lives():
            wrong.append((group, name, 'nobody is served any more', front.lb.process.output()[-300:]))
            break
    check_heads(front.worker.requests)
    assert not wrong, '\n'.join(map(str, wrong))
