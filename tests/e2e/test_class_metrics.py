# SPDX-License-Identifier: Apache-2.0
"""Metrics by class on /metrics: bounded for any classes that clients choose, and valid for Prometheus with any names of classes."""
import re
import subprocess
import threading
import time

import pytest

from support.base import LIMIT, wait_until
from support.http import Client, CutShort, get
from support.scripted import serve

BY_HEADER = {'regex': {'variable': 'HTTP_X_CLASS', 'pattern': '^(?<class>.*)$'}}
# The characters of a class are visible ASCII (0x21-0x7E), including quotes and backslashes; others are percent-encoded.
SENT = {'a"b': 'a"b', 'a\\b': 'a\\b', 'a\\n': 'a\\n', 'x"} 1\\': 'x"}%201\\', '{le="+Inf"}': '{le="+Inf"}', '#': '#', 'other classes': 'other%20classes',
        'e\xe9': 'e%E9', 'y' * 255: 'y' * 255, 'y' * 254 + 'z': 'y' * 254 + 'z', '': 'no class'}


def balancer(world, **settings):
    def respond(c, head, body):
        if b'GET /cut' in head:
            c.write(b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx')
            c.reset()
        else:
            c.respond(status='500 Oops' if b'GET /broken' in head else '200 OK')
    w = world.scripted(serve(respond))
    return world.resumelb(dict({'workers': [w.address], 'classifier': BY_HEADER}, **settings))


def ask(lb, cls, times=1, path='/'):
    for _ in range(times):
        lb.get(path, headers=[('X-Class', cls)] if cls else [])


def page(lb):
    return get(lb.admin, '/metrics', host=lb.admin).text


def figures(lb, name):
    """{class: value} of the metric resumelb_class_NAME."""
    line = re.compile(r'resumelb_class_%s{application="default",class="((?:[^"\\]|\\.)*)"} (\S+)' % name)
    unescape = {'\\\\': '\\', '\\"': '"', '\\n': '\n'}
    return {re.sub(r'\\.', lambda m: unescape[m[0]], m[1]): float(m[2]) for m in map(line.fullmatch, page(lb).splitlines()) if m}


def noted(lb, n):
    wait_until(lambda: sum(figures(lb, 'requests_total').values()) == n, '%d requests to be counted' % n)


def test_each_class_has_its_requests_failures_times_and_workers(world):
    lb = balancer(world)
    ask(lb, 'warm')  # has series from the next check on, and counts as one of the others before
    wait_until(lambda: 'warm' in figures(lb, 'requests_total'), 'the class to have series')
    ask(lb, 'warm', 3)
    ask(lb, 'warm', 2, '/broken')
    with pytest.raises(CutShort):
        ask(lb, 'warm', 1, '/cut')
    noted(lb, 7)
    assert figures(lb, 'requests_total') == {'warm': 6, 'other classes': 1}
    assert figures(lb, 'failures_total') == {'warm': 3, 'other classes': 0}
    placed = [figures(lb, '%s_total' % how)['warm'] for how in ('skilled', 'overflow', 'unskilled')]
    assert sum(placed) == 6 and placed[0] >= 4, 'the worker has a score since the first'
    assert 0 < figures(lb, 'seconds_total')['warm'] < 60
    assert figures(lb, 'workers') == {'warm': 1}


def test_time_that_a_class_waits_is_its_own(world):
    """One connection: the second request waits for as long as the first one is held."""
    gate = threading.Event()

    def script(c, head, body):
        if b'GET /held' in head:
            gate.wait(LIMIT)
        c.respond()
    w = world.scripted(serve(script))
    lb = world.resumelb({'workers': [w.address], 'classifier': BY_HEADER, 'max_connections': 1})
    ask(lb, 'held')
    ask(lb, 'waits')
    wait_until(lambda: {'held', 'waits'} <= set(figures(lb, 'requests_total')), 'the classes to have series')
    with Client(lb.address) as first, Client(lb.address) as second:
        first.send('GET', '/held', headers=[('X-Class', 'held')])
        wait_until(lambda: lb.app()['backlog'] == 1, 'the first to be at the worker')
        second.send('GET', '/', headers=[('X-Class', 'waits')])
        began = time.monotonic()
        wait_until(lambda: lb.app()['backlog'] == 2, 'the second to wait')
        # Long in comparison with the delay that a busy machine may add to the first request.
        wait_until(lambda: time.monotonic() - began > 2, 'it to have waited for a while')
        gate.set()
        assert first.receive().status == second.receive().status == 200
    noted(lb, 4)
    assert figures(lb, 'wait_seconds_total')['waits'] > 1
    assert figures(lb, 'wait_seconds_total')['waits'] <= figures(lb, 'seconds_total')['waits'] < 60
    assert figures(lb, 'wait_seconds_total')['held'] < figures(lb, 'wait_seconds_total')['waits']


def test_whatever_a_class_is_called_promtool_and_prometheus_syntax_have_it_whole(world):
    lb = balancer(world)
    for name in SENT:
        ask(lb, name)
    noted(lb, len(SENT))
    wait_until(lambda: set(figures(lb, 'requests_total')) == set(SENT.values()) | {'other classes'}, 'all to have series')
    checked = subprocess.run(['promtool', 'check', 'metrics'], input=page(lb).encode(), capture_output=True)
    assert (checked.returncode, checked.stderr.decode()) == (0, '')
    series = [line.rpartition(' ')[0] for line in page(lb).splitlines() if line.startswith('resumelb_class_')]
    assert len(series) == len(set(series)), 'a duplicate series invalidates the whole page'


def test_metrics_classes_limits_the_series_and_other_classes_are_counted_together(world):
    lb = balancer(world, metrics_classes=2)
    for i in range(40):
        ask(lb, 'class-%d' % i)
    noted(lb, 40)
    wait_until(lambda: len(figures(lb, 'workers')) == 2, 'two to have series')
    kept = set(figures(lb, 'workers'))
    for name in kept:
        ask(lb, name, 3)
    ask(lb, 'one-more', 5)
    noted(lb, 51)
    found = figures(lb, 'requests_total')
    assert set(found) == kept | {'other classes'}, 'the first classes keep their series: no class has ten requests'
    assert found['other classes'] >= 43 and sum(found.values()) == 51


def test_a_class_that_outgrows_another_takes_its_series_and_no_counter_falls(world):
    lb = balancer(world, metrics_classes=1)
    ask(lb, 'small')
    wait_until(lambda: 'small' in figures(lb, 'requests_total'), 'it to have series')
    ask(lb, 'small', 2)
    ask(lb, 'large', 30)
    last = {}

    def moved():
        found = figures(lb, 'requests_total')
        for name, n in found.items():
            assert n >= last.get(name, 0), name
        last.update(found)
        return 'large' in found

    wait_until(moved, 'the larger one to have series')
    assert 'small' not in figures(lb, 'requests_total')
    ask(lb, 'large', 4)
    wait_until(lambda: figures(lb, 'requests_total')['large'] == 4, 'it to be counted from then on')
    assert figures(lb, 'requests_total')['other classes'] >= 30


def test_with_none_wanted_there_are_none(world):
    lb = balancer(world, metrics_classes=0)
    ask(lb, 'any', 3)
    wait_until(lambda: lb.app()['now']['classes'] == 1, 'the class to be known')
    assert 'resumelb_class_requests_total{' not in page(lb)
