# SPDX-License-Identifier: Apache-2.0
"""The admin address, resumelbctl, and the access log."""
import json
import re
import subprocess

import pytest
from support.base import BIN, LIMIT, wait_until
from support.http import get
from support.scripted import hello, serve


@pytest.fixture
def lb(world):
    w = world.scripted(serve(hello))
    lb = world.resumelb({'workers': [w.address], 'access_log': str(world.directory / 'access.log'), 'history': 3})
    lb.worker = w
    for i in range(6):
        lb.get('/page?%d' % i, host='a.example', headers=[('User-Agent', 'quo"te'), ('Referer', 'http://r/')])
    # an outcome is counted just after the client has the last byte
    wait_until(lambda: lb.app()['outcomes']['responded'] == 6, 'six responses to be counted')
    return lb


def test_status_json_has_the_pool_and_its_workers(lb):
    status = lb.json()
    app = status['applications']['default']
    assert status['version'] and status['pid'] == lb.process.pid
    assert app['backlog'] == 0 and 0 < app['mean_backlog'] <= 1 and app['policy'] == 'adaptive'
    (w,) = app['workers']
    assert w['name'] == lb.worker.address and w['requests'] == 6 and w['backlog'] == 0
    assert 0 < w['mean_backlog'] <= 1 and w['oldest_s'] is None and w['skills'] == 1
    assert app['outcomes']['responded'] == 6
    assert app['stats']['connections_reused'] >= 4
    assert list(lb.json('/resumes.json')['applications']['default'][lb.worker.address]) == ['a.example']


def test_the_page_is_self_contained_and_strict(lb):
    r = get(lb.admin, '/', host=lb.admin)
    assert r.status == 200 and r['Content-Type'].startswith('text/html')
    csp = r['Content-Security-Policy']
    assert "default-src 'none'" in csp and 'unsafe' not in csp
    for link in re.findall(r'(?:src|href)="([^"#]+)"', r.text):
        assert link.startswith('/') and not link.startswith('//'), link
        assert get(lb.admin, link, host=lb.admin).status == 200, link


def test_health_readiness_and_hosts(lb, world):
    assert get(lb.admin, '/healthz', host=lb.admin).status == 200
    assert get(lb.admin, '/readyz', host=lb.admin).status == 200
    assert get(lb.admin, '/nothing', host=lb.admin).status == 404
    assert get(lb.admin, '/status.json', host=lb.admin, method='POST', body=b'').status == 405
    assert get(lb.admin, '/status.json', host='evil.example').status in (403, 421), 'DNS rebinding'
    assert get(lb.admin, '/healthz', host='localhost:1').status == 200
    dead = world.resumelb({'workers': [], 'tree': 'directory:%s' % (world.directory / 't'), 'start_wait': '50ms'},
                          name='dead', wait=False)
    wait_until(dead.listening, 'it to listen')
    assert get(dead.admin, '/readyz', host=dead.admin).status == 503


def test_metrics_are_prometheus_text(lb):
    r = get(lb.admin, '/metrics', host=lb.admin)
    assert r.status == 200 and r['Content-Type'].startswith('text/plain; version=0.0.4')
    seen, families = {}, set()
    for line in r.text.strip().split('\n'):
        if line.startswith('# TYPE '):
            name = line.split(' ')[2]
            assert name not in families, 'one TYPE each: ' + name
            families.add(name)
            continue
        if line.startswith('#'):
            continue
        m = re.fullmatch(r'([a-z0-9_]+)(\{[^}]*\})? (-?[0-9.e+-]+|NaN|\+Inf)', line)
        assert m, line
        assert (m[1], m[2]) not in seen, line
        seen[m[1], m[2]] = float(m[3])
    assert seen['resumelb_requests_total', '{application="default"}'] == 6
    assert seen['resumelb_total_seconds_count', '{application="default"}'] == 6
    assert seen['resumelb_total_seconds_bucket', '{application="default",le="+Inf"}'] == 6
    assert seen['resumelb_client_connections_total', None] >= 1
    assert seen['resumelb_client_rejected_total', '{reason="no Host"}'] == 0
    manual = subprocess.run([BIN / 'resumelb', '--describe', 'stats'], capture_output=True, text=True, timeout=LIMIT)
    assert families == set(re.findall(r'^\| `(\w+)`', manual.stdout, re.M)), 'the manual has each'


def test_resumelbctl_shows_status_and_resumes(lb):
    run = lambda *a: subprocess.run([BIN / 'resumelbctl', *a], capture_output=True, text=True, timeout=LIMIT)
    r = run('status', '-a', lb.admin)
    assert r.returncode == 0 and lb.worker.address in r.stdout and 'default' in r.stdout, r.stderr
    r = run('resumes', '-a', lb.admin)
    assert r.returncode == 0 and 'a.example' in r.stdout
    assert json.loads(run('status', '-a', lb.admin, '--json').stdout)['pid'] == lb.process.pid
    assert run('status', '-a', '127.0.0.1:1').returncode == 1
    assert run('dance').returncode == 2


LINE = re.compile(r'127\.0\.0\.1 - - \[[^]]+\] "GET /page\?(\d) HTTP/1\.1" 200 5 "http://r/" "quo\\x22te" (.*)')


def test_the_access_log_has_the_combined_format_and_ours(lb, world):
    path = world.directory / 'access.log'
    wait_until(lambda: len(path.read_text().splitlines()) == 6, 'six lines')
    # loops write on their own: the order of lines is that of requests only within one
    for i, line in enumerate(sorted(path.read_text().splitlines(), key=lambda l: LINE.fullmatch(l)[1])):
        m = LINE.fullmatch(line)
        assert m and m[1] == str(i), line
        assert 'class="a.example"' in m[2] and 'worker="%s"' % lb.worker.address in m[2]
        assert 'reason="%s"' % ('new' if i == 0 else 'home') in m[2] and 'tries=1' in m[2]
    # rotated: the new file is made at SIGHUP
    path.rename(world.directory / 'access.log.1')
    lb.reload()
    wait_until(path.exists, 'a new file')
    lb.get('/after')
    wait_until(lambda: '/after' in path.read_text(), 'its line')


def test_the_access_log_as_json(world):
    w = world.scripted(serve(hello))
    path = world.directory / 'json.log'
    lb = world.resumelb({'workers': [w.address], 'access_log': str(path), 'access_log_format': 'json'})
    lb.get('/x\\y', host='b.example', method='POST', body=b'abc')
    line = json.loads(wait_until(lambda: path.exists() and path.read_text(), 'a line').splitlines()[0])
    assert line['status'] == 200 and line['class'] == 'b.example' and line['worker'] == w.address
    assert line['method'] == 'POST' and line['outcome'] == 'responded' and line['tries'] == 1
