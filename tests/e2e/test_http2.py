# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 frame by frame from the client's side: valid requests according to RFC 9113 are served, others reach no worker."""
import re

from http2_cases import CASES, right, run
from support.base import free_port
from support.certificates import Pair
from support.http2 import Http2
from support.scripted import serve


def echo(c, head, body):
    c.respond(head.split(b' ')[1] + b' ' + body)


class Front:
    """A load balancer with HTTP/2 and one scripted worker."""

    def __init__(self, world, script=echo, **settings):
        self.worker = world.scripted(serve(script))
        self.port = free_port()
        self.pair = Pair(world.directory, 'front-%d' % self.port, ['test.example'])
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
    """Checks that the requests at the worker are unambiguous HTTP/1.1."""
    for head, body in requests:
        first, *fields = head.split(b'\r\n')
        assert LINE.match(first), head
        names = [f.split(b':')[0].lower() for f in fields]
        assert all(FIELD.match(f) for f in fields), head
        assert names.count(b'host') == 1 and names.count(b'content-length') <= 1, head
        assert b'transfer-encoding' not in names and b'te' not in names and b'upgrade' not in names, head
        assert not any(n.startswith(b':') for n in names), head


def client_of(head):
    """The client address in the X-Forwarded-For field that the worker receives."""
    (field,) = [f for f in head.split(b'\r\n') if f.lower().startswith(b'x-forwarded-for:')]
    return field.partition(b':')[2].strip().decode()


def test_every_case_of_the_table_comes_out_as_the_standard_allows(world):
    front = Front(world)
    wrong, sent = [], {}
    for number, case in enumerate(CASES):
        group, name, _, _, allowed = case
        # A request may reach the worker long after the end of its case: the client's address identifies the case.
        source = '127.0.1.%d' % (number + 1)
        verdict = run(front.port, case, source)
        if not right(verdict, allowed):
            wrong.append((group, name, verdict, allowed))
        if '2' not in allowed and group in ('malformed', 'lengths', 'hpack', 'sizes', 'blocks'):
            if name != 'CONTINUATION after the end':
                sent[source] = (group, name)
        if not front.lives():
            wrong.append((group, name, 'the front no longer serves', front.lb.process.output()[-300:]))
            break
    front.lb.process.stop()
    front.worker.heard_all()
    check_heads(front.worker.requests)
    asked = [(client_of(head), head) for head, _ in front.worker.requests]
    assert {'127.0.0.1', '127.0.1.1'} <= {source for source, _ in asked}
    wrong += [(*sent[source], 'reached the worker', head) for source, head in asked if source in sent]
    assert not wrong, '\n'.join(map(str, wrong))
