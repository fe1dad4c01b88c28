# SPDX-License-Identifier: Apache-2.0
"""W3C Trace Context: the trace of a request, and its fields in the request to the worker and in the access log."""
import json
import re

import pytest
from support.base import wait_until
from support.scripted import hello, serve

TRACE, SPAN = '0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'
PARENT = '00-%s-%s-01' % (TRACE, SPAN)


def passed(world, headers, **settings):
    """Sends a request. Returns traceparent and tracestate at the worker, and the line of the access log."""
    w = world.scripted(serve(hello))
    log = world.directory / 'access.log'
    lb = world.resumelb(dict({'workers': [w.address], 'access_log': str(log), 'access_log_format': 'json'}, **settings))
    assert lb.get('/', headers=headers).status == 200
    line = json.loads(wait_until(lambda: log.exists() and log.read_text(), 'the line'))
    head = w.requests[-1][0].decode()
    parents = re.findall(r'^traceparent: (.*)\r$', head, re.M | re.I)
    return parents, re.findall(r'^tracestate: (.*)\r$', head, re.M | re.I), line


def test_by_default_the_fields_pass_as_they_are(world):
    parents, states, line = passed(world, [('traceparent', 'what'), ('tracestate', 'ever!')])
    assert (parents, states, line['trace_id'], line['span_id']) == (['what'], ['ever!'], '', '')


def test_a_trace_is_joined_with_a_span_of_our_own(world):
    parents, states, line = passed(world, [('Traceparent', PARENT), ('Tracestate', 'a=1'), ('tracestate', 'b=2')],
                                   trace_context='join')
    assert parents == ['00-%s-%s-01' % (TRACE, line['span_id'])] and states == ['a=1', 'b=2']
    assert line['trace_id'] == TRACE and re.fullmatch('[0-9a-f]{16}', line['span_id']) and line['span_id'] != SPAN


@pytest.mark.parametrize('headers', [
    [], [('traceparent', PARENT.upper()), ('tracestate', 'a=1')], [('traceparent', PARENT), ('traceparent', PARENT)],
    [('tracestate', 'a=1')]])
def test_without_one_good_parent_a_trace_begins_and_no_state_passes(world, headers):
    parents, states, line = passed(world, headers, trace_context='join')
    assert len(parents) == 1 and states == []
    version, trace, span, flags = parents[0].split('-')
    assert (version, trace, span, flags) == ('00', line['trace_id'], line['span_id'], '01')
    assert trace != TRACE and int(trace, 16) != 0 and int(span, 16) != 0


def test_a_state_beyond_its_bounds_goes_alone(world):
    parents, states, line = passed(world, [('traceparent', PARENT), ('tracestate', 'a=1'), ('tracestate', 'NONE')],
                                   trace_context='join')
    assert line['trace_id'] == TRACE and parents and states == []


def test_a_trace_of_an_untrusted_client_is_not_joined(world):
    assert passed(world, [('traceparent', PARENT)], trace_context='trusted')[2]['trace_id'] != TRACE


def test_a_trace_of_a_trusted_proxy_is_joined(world):
    assert passed(world, [('traceparent', PARENT)], trace_context='trusted', trusted_proxies=['loopback'])[2]['trace_id'] == TRACE


def test_traces_that_begin_here_differ_and_are_sampled_as_configured(world):
    w = world.scripted(serve(hello))
    lb = world.resumelb({'workers': [w.address], 'trace_context': 'join', 'trace_sample': 0})
    for _ in range(20):
        lb.get('/')
    parents = [re.search(r'^traceparent: 00-(\w+)-(\w+)-(\w\w)\r$', head.decode(), re.M).groups() for head, _ in w.requests]
    assert len({p[0] for p in parents}) == len({p[1] for p in parents}) == 20 and {p[2] for p in parents} == {'00'}
