# SPDX-License-Identifier: Apache-2.0
"""The processor time for a head grows in proportion to its bytes, whatever is in it: instructions are counted, nothing is timed."""
import re
import signal

import pytest
from agent_support import TinyAgent
from support.base import free_port
from support.http import Client
from support.scripted import serve

# Instructions per byte of a head, in all that a program does for its exchange. Most heads below take 5 to 30, lists of elements of
# one byte up to 115. What is quadratic takes more than a thousand.
PER_BYTE_MAX = 300
HEAD_BYTES = 60000
HEADS = 10
NAMES = ['x-%02d' % i for i in range(80)]
CALLGRIND = ['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null', '--child-silent-after-fork=yes']
# All that reads fields of a request is on.
SETTINGS = {
    'threads': '1', 'trusted_proxies': ['127.0.0.0/8'], 'forwarded_for': 'append', 'trace_context': 'trusted', 'request_id': True,
    'classifier': {'regex': {'variable': 'QUERY_STRING', 'pattern': '(?<class>[a-c]+)'}},
    'headers': {'request': {'set': {'X-A%d' % i: 'v' for i in range(30)}, 'remove': ['X-R%d' % i for i in range(30)]},
                'response': {'set': {'X-B%d' % i: 'v' for i in range(30)}, 'remove': ['X-S%d' % i for i in range(30)]}},
    'limits': {'pages': {'mode': 'any', 'workers': 10, 'maxqueue': 10, 'key': '{HTTP_COOKIE}{HTTP_X_FORWARDED_FOR}{QUERY_STRING}'}},
    'rates': {'r': {'rate': '1000000/s', 'burst': 1000000, 'key': '{HTTP_USER_AGENT}{REMOTE_ADDR}'}},
}


def of(text, size=HEAD_BYTES):
    return (text * (size // len(text) + 1))[:size]


def each(value, names=NAMES):
    """Fields with NAMES and the value VALUE, of HEAD_BYTES in all."""
    return [(n, of(value, HEAD_BYTES // len(names) - len(n) - 4)) for n in names]


SMALL = [(n, 'y') for n in NAMES]
# Sixteen options, none of which is the name of a field: each name is compared with all of them, to the last byte.
LONG_NAMES = ['x' * 700 + '%02d' % i for i in range(80)]
OPTIONS = ', '.join('x' * 700 + 'y%x' % i for i in range(16))
KINDS = {
    'one long value': [('x-one', of('y'))],
    'options of Connection': SMALL + [('Connection', of('a,'))],
    'empty options of Connection': SMALL + [('Connection', of(','))],
    'names that resemble options': [('Connection', OPTIONS)] + [(n, 'y') for n in LONG_NAMES[:65]],
    'many fields of Connection': each('keep-alive, ', ['Connection'] * 90),
    'TE': SMALL + [('TE', of('trailers, '))],
    'Trailer': each('a, ', ['Trailer'] * 90),
    'Via': each('1.1 a, ', ['Via'] * 90),
    'X-Forwarded-For': each('127.0.0.2, ', ['X-Forwarded-For'] * 90),
    'Forwarded': each('for=127.0.0.2, ', ['Forwarded'] * 90),
    'Cookie': each('a=b; ', ['Cookie'] * 90),
    'Accept-Encoding': each('gzip;q=0, ', ['Accept-Encoding'] * 90),
    'Cache-Control': each('max-age=1, ', ['Cache-Control'] * 90),
    'tracestate': [('traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01')] + each('a=1,', ['tracestate'] * 90),
    'tabs': each('a\t', NAMES),
}


def request(fields=(), target='/'):
    return ('GET %s HTTP/1.1\r\nHost: test.example\r\n' % target + ''.join('%s: %s\r\n' % f for f in fields) + '\r\n').encode()


def response(fields=()):
    return ('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n' + ''.join('%s: %s\r\n' % f for f in fields) + '\r\nok').encode()


def instructions(process):
    """Ends PROCESS and returns the number of instructions that it has executed."""
    process.kill(signal.SIGTERM)
    process.wait()
    return int(re.findall(r'Collected : (\d+)', process.output())[-1])


def ask(address, data, heads):
    """Sends the request DATA as often as HEADS says, on a connection of its own each."""
    for _ in range(heads):
        with Client(address) as c:
            c.send_raw(data)
            c.receive()


def per_byte(run, data, heads=HEADS, idle={}):
    """Instructions for each byte of DATA. run(N) returns those of a program that receives it N times; IDLE caches those of its start."""
    if run.__name__ not in idle:
        idle[run.__name__] = run(0)
    return (run(heads) - idle[run.__name__]) / (heads * len(data))


def of_balancer(world, data, given=response()):
    w = world.scripted(serve(lambda c, head, body: c.write(given)), remembers=False)

    def balancer(heads):
        lb = world.resumelb({**SETTINGS, 'workers': [{'address': w.address}]}, wrapper=CALLGRIND, name='with-%d' % heads)
        ask(lb.address, data, heads)
        return instructions(lb.process)
    return balancer


def of_agent(world, data, monkeypatch):
    start = world.process
    monkeypatch.setattr(world, 'process', lambda argv, *rest: start([*CALLGRIND, *argv], *rest))

    def agent(heads):
        address = '127.0.0.1:%d' % free_port()
        a = TinyAgent(world, name='with-%d' % heads, listen=[address]).wait_ready()
        ask(address, data, heads)
        return instructions(a.process)
    return agent


@pytest.mark.parametrize('kind', KINDS)
def test_the_cost_of_a_request_head_is_proportional_to_its_bytes(world, kind):
    data = request(KINDS[kind])
    assert per_byte(of_balancer(world, data), data) < PER_BYTE_MAX


def test_the_cost_of_a_query_is_proportional_to_its_bytes(world):
    data = request(target='/?' + of('a=b&'))
    assert per_byte(of_balancer(world, data), data) < PER_BYTE_MAX


@pytest.mark.parametrize('kind', KINDS)
def test_the_cost_of_a_response_head_is_proportional_to_its_bytes(world, kind):
    data = response(KINDS[kind])
    assert per_byte(of_balancer(world, request(), data), data) < PER_BYTE_MAX


@pytest.mark.parametrize('kind', KINDS)
def test_the_cost_of_a_head_at_the_agent_is_proportional_to_its_bytes(world, kind, monkeypatch):
    data = request(KINDS[kind])
    assert per_byte(of_agent(world, data, monkeypatch), data) < PER_BYTE_MAX
