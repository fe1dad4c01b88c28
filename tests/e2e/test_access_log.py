# SPDX-License-Identifier: Apache-2.0
"""The access log: fields, sampling, rotation; and route traces for clients (route_trace)."""
import json
import re
import signal
import subprocess
from pathlib import Path

from support.base import BIN, wait_until
from support.http import get
from support.scripted import hello, serve

DOCS = Path(__file__).parents[2] / 'docs' / 'reference' / 'logs.md'

def balancer(world, **settings):
    w = world.scripted(serve(hello))
    path = world.directory / 'access.log'
    lb = world.resumelb(dict({'workers': [w.address], 'access_log': str(path), 'access_log_format': 'json'}, **settings))
    lb.worker = w
    lb.log = path
    return lb


def lines(lb, n):
    wait_until(lambda: lb.log.exists() and lb.log.read_text().count('\n') >= n, '%d lines' % n)
    return [json.loads(line) for line in lb.log.read_text().splitlines()]


def figure(lb, name):
    """The value of a metric."""
    text = get(lb.admin, '/metrics', host=lb.admin).body.decode()
    return float(re.search(r'^%s (\S+)$' % re.escape(name), text, re.M)[1])


def test_a_line_has_every_field_that_the_documentation_has_and_no_other(world):
    lb = balancer(world)
    lb.get('/x?y', host='a.example')
    (line,) = lines(lb, 1)
    documented = re.findall(r'^\| `(\w+)` \| (?:text|number|bytes|microseconds) \|', DOCS.read_text(), re.M)
    assert list(line) == ['time'] + documented
    assert line['class'] == 'a.example' and line['worker'] == lb.worker.address and line['reason'] == 'new'
    assert line['backlog'] == 0 and line['tries'] == 1 and line['outcome'] == 'responded'
    parts = ['limit_wait_us', 'worker_wait_us', 'connection_wait_us', 'service_us', 'deliver_us']
    assert sum(line[p] for p in parts) <= line['total_us'] and line['first_byte_us'] <= line['service_us']


def test_fields_and_the_sample_follow_sighup_and_errors_have_their_line(world):
    w = world.scripted(serve(lambda c, head, body: c.respond(status='500 Oops' if b'GET /broken' in head else '200 OK')))
    path = world.directory / 'access.log'
    config = {'workers': [w.address], 'access_log': str(path), 'access_log_format': 'json',
              'access_log_fields': ['target', 'status']}
    lb = world.resumelb(dict(config, access_log_sample=0))
    lb.log = path
    for _ in range(20):
        assert lb.get('/fine').status == 200
    assert lb.get('/broken').status == 500
    assert [{k: v for k, v in line.items() if k != 'time'} for line in lines(lb, 1)] == [
        {'target': '/broken', 'status': 500}]
    assert figure(lb, 'resumelb_access_log_lines_total{fate="left-out"}') == 20
    lb.reload(dict(config, access_log_fields=['class'], access_log_sample=1))

    def has_class():
        lb.get('/again')
        return 'class' in lines(lb, 1)[-1]
    wait_until(has_class, 'the new fields')
    assert figure(lb, 'resumelb_access_log_lines_total{fate="dropped"}') == 0


def test_sigusr1_opens_the_file_again_and_reads_no_configuration(world):
    lb = balancer(world)
    lb.get('/before')
    assert lines(lb, 1)[0]['target'] == '/before'
    old = lb.log.rename(world.directory / 'access.log.1')
    lb.process.kill(signal.SIGUSR1)
    wait_until(lb.log.exists, 'the new file')
    lb.get('/after')
    assert [line['target'] for line in lines(lb, 1)] == ['/after']
    assert old.read_text().count('\n') == 1
    assert 'config-reloaded' not in lb.process.output()


def test_a_field_that_is_none_is_rejected_with_its_place(world):
    path = world.directory / 'bad.yaml'
    path.write_text('listen: [{address: "127.0.0.1:0"}]\naccess_log_fields: [class, klass]\n')
    r = subprocess.run([BIN / 'resumelb', '-t', '-c', path], capture_output=True, text=True)
    assert r.returncode == 1 and ':2:28: access_log_fields: unknown field klass' in r.stderr


def test_a_permitted_client_gets_the_route_trace(world):
    w = world.scripted(serve(lambda c, head, body: c.respond(headers=[('Resumelb-Route', 'class="forged"')])))
    config = {'workers': [w.address], 'route_trace': ['127.0.0.2', '192.0.2.0/24'], 'trusted_proxies': ['127.0.0.1'],
              'classifier': {'regex': {'variable': 'HTTP_X_CLASS', 'pattern': '^(?<class>.*)$'}}}
    lb = world.resumelb(config)
    told = lb.get('/', headers=[('X-Forwarded-For', '192.0.2.9'), ('X-Class', 'a"b')])
    assert re.fullmatch(r'class="a\\"b"; worker="%s"; reason=new; backlog=0; tries=1; limit_us=0; '
                        r'worker_us=\d+; connection_us=\d+' % re.escape(w.address), told['Resumelb-Route'])
    assert lb.get('/')['Resumelb-Route'] is None
    lb.reload(dict(config, route_trace=[]))
    wait_until(lambda: lb.get('/', headers=[('X-Forwarded-For', '192.0.2.9')])['Resumelb-Route'] is None,
               'no route trace')
    lb.reload(dict(config, route_trace=['loopback', 'nonsense']))
    wait_until(lambda: 'route_trace: nonsense' in lb.process.output(), 'the rejection')


def test_a_rejected_request_has_a_route_trace_without_a_worker(world):
    (world.directory / 'tree').mkdir(mode=0o770)
    lb = world.resumelb({'tree': 'directory:%s' % (world.directory / 'tree'), 'route_trace': ['loopback'],
                         'worker_wait_timeout': '1ms'}, wait=False)
    wait_until(lambda: lb.listening() and 'listening addresses' in lb.process.output(), 'listeners')
    r = lb.get('/', host='a.example')
    assert r.status == 503
    assert re.fullmatch(r'class="a\.example"; limit_us=0; worker_us=\d+; connection_us=0', r['Resumelb-Route'])
