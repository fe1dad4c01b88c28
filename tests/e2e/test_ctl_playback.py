# SPDX-License-Identifier: Apache-2.0
"""resumelbctl playback: a log against real gunicorns, and against servers that fail."""
import re
import signal
import subprocess
import threading
import time

from ctl_support import ctl
from support.base import BIN, LIMIT, free_port, wait_until
from support.scripted import serve


def a_log(path, lines):
    """Writes LINES, as (second, host, method, target), in the combined log format with the virtual host first."""
    path.write_text(''.join('%s 10.0.0.1 - - [22/Nov/2026:06:25:%02d +0000] "%s %s HTTP/1.1" 200 5 "-" "x"\n' % (h, s, m, t)
                            for s, h, m, t in lines))
    return path


def loads(n, status='200 OK'):
    return lambda c, head, body: c.respond(b'ok', status=status, headers=[('X-Database-Loads', str(n))])


def targets(server):
    return sorted(str(r) for r in server.requests)


def test_the_gets_of_a_log_are_asked_of_a_gunicorn(world, tmp_path):
    app = world.gunicorn()
    log = a_log(tmp_path / 'log', [(i % 3, 'h%d.example' % (i % 2), 'GET', '/p%d?q=%d' % (i, i)) for i in range(30)]
                + [(3, 'h0.example', 'POST', '/post'), (3, 'h0.example', 'HEAD', '/head')])
    told = ctl('playback', '--json', log, 'http://' + app.address).json()
    (one,) = told['servers']
    assert told['left_out'] == 2 and not told['interrupted']
    assert one['requests'] == 30 and one['errors'] == 0
    assert {c['class']: c['requests'] for c in one['classes']} == {'h0.example': 15, 'h1.example': 15}
    assert 0 < one['p50_ms'] <= one['p90_ms'] <= one['p99_ms'] <= one['max_ms']


def test_hosts_and_targets_arrive_as_they_stand_in_the_log(world, tmp_path):
    seen = []
    server = world.scripted(serve(lambda c, head, body: (seen.append(head), c.respond(b'ok'))))
    urls = tmp_path / 'urls'
    urls.write_text('http://a.example/x?y=%20z\n/only/path\n')
    ctl('playback', '--clients', '1', urls, 'http://' + server.address)
    first, second = (h if isinstance(h, str) else bytes(h).decode() for h in map(head_text, seen))
    assert first.startswith('GET /x?y=%20z HTTP/1.1') and re.search('(?i)host: a.example', first)
    assert second.startswith('GET /only/path HTTP/1.1') and server.address in second


def head_text(head):
    return head if isinstance(head, (str, bytes)) else str(head)


def test_two_servers_are_asked_the_same_and_compared(world, tmp_path):
    first, second = world.scripted(serve(loads(8))), world.scripted(serve(loads(2)))
    log = a_log(tmp_path / 'log', [(0, 'a.example', 'GET', '/%d' % i) for i in range(20)])
    told = ctl('playback', '-j', log, 'http://' + first.address, 'http://' + second.address).json()
    assert [s['loads_per_request'] for s in told['servers']] == [8, 2]
    assert [s['requests'] for s in told['servers']] == [20, 20]
    out = ctl('playback', log, 'http://' + first.address, 'http://' + second.address).out
    row = next(line for line in out.splitlines() if line.split()[:1] == ['a.example'])
    assert row.split()[6] == '8.00' and row.split()[12] == '2.00' and row.split()[-1] == '%'
    other = ctl('playback', '-j', '--loads-header', 'X-Other', log, 'http://' + first.address).json()
    assert other['servers'][0]['loads_per_request'] is None


def test_errors_are_counted_and_reported(world, tmp_path):
    log = a_log(tmp_path / 'log', [(0, 'a.example', 'GET', '/%d' % i) for i in range(10)])
    failing = world.scripted(serve(loads(0, status='503 No')))
    assert ctl('playback', '-j', log, 'http://' + failing.address).json()['servers'][0]['errors'] == 10
    resetting = world.scripted(lambda c: (c.read_request(), c.reset()))
    assert ctl('playback', '-j', log, 'http://' + resetting.address).json()['servers'][0]['errors'] == 10
    nobody = ctl('playback', log, 'http://127.0.0.1:%d' % free_port()).out
    assert '10 without a response: connection refused' in nobody


def test_a_server_that_ends_idle_connections_is_asked_again(world, tmp_path):
    def one_each(c):
        c.response_after = c.read_request()
        c.respond(b'ok')
    server = world.scripted(one_each)
    log = a_log(tmp_path / 'log', [(0, 'a.example', 'GET', '/%d' % i) for i in range(40)])
    told = ctl('playback', '-j', '--clients', '2', log, 'http://' + server.address).json()
    assert told['servers'][0]['requests'] == 40 and told['servers'][0]['errors'] == 0


def test_a_time_out_is_an_error_and_not_the_end(world, tmp_path):
    go = threading.Event()
    server = world.scripted(serve(lambda c, head, body: (go.wait(LIMIT), c.respond(b'late'))))
    log = a_log(tmp_path / 'log', [(0, 'a.example', 'GET', '/')])
    out = ctl('playback', '-t', '1', log, 'http://' + server.address).out
    go.set()
    assert '1 without a response' in out


def test_paced_requests_come_in_the_times_of_the_log(world, tmp_path):
    when = []
    server = world.scripted(serve(lambda c, head, body: (when.append(time.monotonic()), c.respond(b'ok'))))
    log = a_log(tmp_path / 'log', [(0, 'a.example', 'GET', '/0'), (40, 'a.example', 'GET', '/1')])
    began = time.monotonic()
    told = ctl('playback', '-j', '--speed', '40', log, 'http://' + server.address).json()
    assert len(when) == 2 and when[1] - began >= 1, 'not before it is due'
    assert told['servers'][0]['seconds'] >= 0.95


def test_paced_latency_counts_from_when_a_request_was_due(world, tmp_path):
    server = world.scripted(serve(lambda c, head, body: (threading.Event().wait(0.2), c.respond(b'ok'))))
    log = a_log(tmp_path / 'log', [(0, 'a.example', 'GET', '/%d' % i) for i in range(5)])
    told = ctl('playback', '-j', '--speed', '1000', '--clients', '1', log, 'http://' + server.address).json()
    assert told['servers'][0]['max_ms'] >= 900, 'the fifth request waited for four others'


def test_an_interrupted_playback_reports_what_there_was(world, tmp_path):
    server = world.scripted(serve(loads(1)))
    log = a_log(tmp_path / 'log', [(0, 'a.example', 'GET', '/0'), (59, 'a.example', 'GET', '/1')])
    p = subprocess.Popen([str(BIN / 'resumelbctl'), 'playback', '--speed', '1', str(log), 'http://' + server.address],
                         stdout=subprocess.PIPE, text=True)
    wait_until(lambda: len(server.requests) == 1, 'the first request')
    p.send_signal(signal.SIGINT)
    out = p.communicate(timeout=LIMIT)[0]
    assert p.returncode == 0 and 'interrupted' in out and ': 1 requests in' in out


def test_invalid_logs_and_servers_are_rejected(tmp_path):
    log = a_log(tmp_path / 'log', [(0, 'a.example', 'GET', '/')])
    for url in ('https://a.example', 'a.example:80', 'http://a.example/path', 'http://', '/x'):
        assert 'expected a server as' in ctl('playback', log, url, code=2).error
    assert 'expected a log and a server' in ctl('playback', log, code=2).error
    assert 'No such file' in ctl('playback', tmp_path / 'none', 'http://127.0.0.1:1', code=1).error
    posts = a_log(tmp_path / 'posts', [(0, 'a.example', 'POST', '/')])
    assert 'no GETs' in ctl('playback', posts, 'http://127.0.0.1:1', code=1).error
    ctl('playback', '--clients', '0', log, 'http://127.0.0.1:1', code=2)
    ctl('playback', '--speed', '0', log, 'http://127.0.0.1:1', code=2)
