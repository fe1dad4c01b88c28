# SPDX-License-Identifier: Apache-2.0
"""Metrics and alert rules with Prometheus: promtool checks every page and every rule, and a real server scrapes them."""
import json
import os
import re
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml
from agent_support import TinyAgent
from poolcounter_support import Daemon, page
from support.base import BIN, free_port, free_ports, wait_until
from support.http import Client, get
from support.scripted import serve

TOP = Path(__file__).parents[2]
RULES = TOP / 'conf' / 'prometheus' / 'resumelb-alerts.yml'
DASHBOARD = TOP / 'conf' / 'grafana' / 'resumelb.json'
OPEN = [('Accept', 'application/openmetrics-text; version=1.0.0')]


def balancer(world, **settings):
    w = world.scripted(serve(lambda c, head, body: c.respond(status='500 Oops' if b'GET /broken' in head else '200 OK')))
    lb = world.resumelb(dict({
        'workers': [w.address], 'access_log': str(world.directory / 'access.log'),
        'limits': {'each': {'key': '{REMOTE_ADDR}', 'workers': 9}}, 'rates': {'some': {'rate': '1000/s'}}}, **settings))
    assert lb.get('/').status == 200 and lb.get('/broken').status == 500
    wait_until(lambda: sum(lb.app()['outcomes'].values()) == 2, 'both to be counted')
    return lb


def page_of(world, program):
    """Returns a function that takes header fields and returns the metrics page of PROGRAM."""
    if program == 'resumelb':
        lb = balancer(world)
        return lambda headers=(): get(lb.admin, '/metrics', host=lb.admin, headers=headers)
    if program == 'resumelb-agent':
        agent = TinyAgent(world)
        agent.wait_listening()
        return lambda headers=(): get(agent.admin, '/metrics', host=agent.admin, headers=headers)
    port = free_port()
    pool = Daemon(world, config={'admin': {'address': '127.0.0.1:%d' % port}})
    assert pool.connect().ask('ACQ4ME a:b 1 1 0') == 'LOCKED'
    page(port, '/healthz')
    return lambda headers=(): get(('127.0.0.1', port), '/metrics', host='127.0.0.1:%d' % port, headers=headers)


def samples(text):
    """{name with labels: value} of a metrics page."""
    return dict(re.fullmatch(r'(.*) (\S+)', line).groups() for line in text.splitlines() if line[:1] != '#')


@pytest.mark.parametrize('program', ['resumelb', 'resumelb-agent', 'resumelb-poolcounter'])
def test_promtool_accepts_the_metrics(world, program):
    r = page_of(world, program)()
    assert r['Content-Type'] == 'text/plain; version=0.0.4; charset=utf-8' and len(samples(r.text)) > 20
    checked = subprocess.run(['promtool', 'check', 'metrics'], input=r.body, capture_output=True)
    assert (checked.returncode, checked.stderr.decode()) == (0, '')


@pytest.mark.parametrize('program', ['resumelb', 'resumelb-agent', 'resumelb-poolcounter'])
def test_openmetrics_has_the_same_samples_and_ends_with_its_mark(world, program):
    ask = page_of(world, program)
    plain, opened = ask(), ask(OPEN)
    assert opened['Content-Type'] == 'application/openmetrics-text; version=1.0.0; charset=utf-8'
    assert opened.text.endswith('\n# EOF\n') and opened.text.count('# EOF') == 1
    assert samples(opened.text).keys() == samples(plain.text).keys()
    counters = re.findall(r'^# TYPE (\S+) counter$', opened.text, re.M)
    assert counters and not [c for c in counters if c.endswith('_total')]


def test_every_phase_of_a_request_has_its_histogram(world):
    lb = balancer(world, threads='1')
    seen = samples(get(lb.admin, '/metrics', host=lb.admin).text)
    for phase in ('wait_limit', 'wait_worker', 'wait_connection', 'first_byte', 'service', 'deliver', 'response', 'total'):
        assert seen['resumelb_%s_seconds_count{application="default"}' % phase] == '2', phase
    # The second request reused the connection of the first.
    assert seen['resumelb_connect_seconds_count{application="default"}'] == '1'


def scraping(targets, rules=RULES):
    """A Prometheus configuration for {job: target}, as JSON, which is a subset of YAML."""
    return json.dumps({'global': {'scrape_interval': '1s', 'evaluation_interval': '1s'}, 'rule_files': [str(rules)],
                       'scrape_configs': [{'job_name': job, 'static_configs': [{'targets': [target]}]}
                                          for job, target in targets.items()]})


class Prometheus:
    def __init__(self, world, config):
        self.address = ('127.0.0.1', free_port())
        directory = world.directory / 'prometheus'
        directory.mkdir()
        (directory / 'prometheus.yml').write_text(config)
        self.process = world.process(
            ['prometheus', '--config.file=%s' % (directory / 'prometheus.yml'), '--storage.tsdb.path=%s' % (directory / 'data'),
             '--web.listen-address=%s:%d' % self.address], 'prometheus')

    def ask(self, path):
        try:
            r = get(self.address, '/api/v1/' + path)
        except OSError:
            return None
        return json.loads(r.body)['data'] if r.status == 200 else None

    def value(self, query):
        """The only value of QUERY, or None."""
        data = self.ask('query?query=' + quote(query))
        found = data['result'] if data else []
        return float(found[0]['value'][1]) if len(found) == 1 else None


def test_a_real_prometheus_scrapes_all_three_programs_and_loads_the_rules(world):
    lb = balancer(world)
    agent = TinyAgent(world)
    agent.wait_listening()
    port = free_port()
    pool = Daemon(world, config={'admin': {'address': '127.0.0.1:%d' % port}})
    assert pool.connect().ask('ACQ4ME a:b 1 1 0') == 'LOCKED'
    page(port, '/healthz')
    p = Prometheus(world, scraping({'resumelb': lb.admin, 'resumelb-agent': agent.admin,
                                    'resumelb-poolcounter': '127.0.0.1:%d' % port}))
    wait_until(lambda: p.value('resumelb_responses_5xx_total') == 1, 'the balancer\'s figures')
    assert p.value('resumelb_outcomes_total{outcome="responded"}') == 2
    assert p.value('resumelb_total_seconds_count') == 2
    wait_until(lambda: p.value('sum(resumelb_class_requests_total)') == 2, 'the figures of classes')
    wait_until(lambda: p.value('resumelb_class_requests_total{class!="other classes"}') is not None, 'those of the one class')
    wait_until(lambda: p.value('resumelb_agent_pool_processes') is not None, 'the agent\'s')
    wait_until(lambda: p.value('resumelb_poolcounter_held') == 1, 'the pool counter')
    targets = lambda: sorted((t['labels']['job'], t['health'], t['lastError']) for t in p.ask('targets')['activeTargets'])
    wait_until(lambda: targets() == [('resumelb', 'up', ''), ('resumelb-agent', 'up', ''), ('resumelb-poolcounter', 'up', '')],
               'all to be up')

    def evaluated():
        groups = (p.ask('rules') or {'groups': []})['groups']
        rules = [r for g in groups for r in g['rules']]
        return rules and all(r['health'] == 'ok' for r in rules) and len(rules)
    assert wait_until(evaluated, 'the rules to be evaluated') == RULES.read_text().count('- alert: ')


def shipped(name):
    return yaml.safe_load((TOP / 'conf' / 'etc' / name).read_text())


def open_ended(c, head, body):
    """A worker with WebSockets and event streams that last until the client closes them."""
    if b'GET /socket' in head:
        c.write(b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
    elif b'GET /events' in head:
        c.write(b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n')
    else:
        c.respond(b'ok')
        return
    c.sock.recv(1)


class Minutes:
    """Evaluates the shipped rules for pages that are scraped once per minute of a simulated time."""

    def __init__(self, admins):
        self.admins, self.n, self.series = admins, 0, {}

    def scrape(self):
        for job, admin in self.admins.items():
            found = {'up': '1', **samples(get(admin, '/metrics', host=admin).text)}
            for name, value in found.items():
                name, _, labels = name.partition('{')
                if name in RULES.read_text():
                    series = '%s{job="%s",instance="%s",%s' % (name, job, admin, labels or '}')
                    # One second of the programs is one minute of the simulated time.
                    value = str(60 * float(value)) if name.endswith('_oldest_request_seconds') else value
                    self.series.setdefault(series.replace(',}', '}'), ['_'] * self.n).append(value)
        self.n += 1

    def alerts(self, directory):
        """The output of promtool if an alert fires in any minute; '' if none does."""
        names = re.findall(r'- alert: (\w+)', RULES.read_text())
        checks = [{'eval_time': '%dm' % n, 'alertname': name, 'exp_alerts': []} for n in range(self.n) for name in names]
        series = [{'series': name, 'values': ' '.join(values)} for name, values in self.series.items()]
        (directory / 'minutes.yml').write_text(json.dumps({'rule_files': [str(RULES)], 'evaluation_interval': '1m', 'tests': [
            {'interval': '1m', 'input_series': series, 'alert_rule_test': checks}]}))
        done = subprocess.run(['promtool', 'test', 'rules', directory / 'minutes.yml'], capture_output=True, text=True)
        return '' if done.returncode == 0 else done.stdout + done.stderr


def test_shipped_monitoring_finds_the_shipped_programs_and_is_quiet_about_sockets_and_streams(world):
    # The targets are the admin addresses in the configuration files of the packages.
    scraped = yaml.safe_load((RULES.parent / 'prometheus.yml').read_text())['scrape_configs']
    targets = {s['job_name']: s['static_configs'][0]['targets'] for s in scraped}
    assert targets == {job: [shipped(job + '.yaml')['admin']['address']]
                       for job in ('resumelb', 'resumelb-agent', 'resumelb-poolcounter')}
    # The same configuration with the addresses and paths of this test.
    w = world.scripted(serve(open_ended))
    shop = shipped('resumelb.yaml')['applications']['shop']
    lb = world.resumelb({'applications': {'shop': dict(shop, workers=[w.address], max_connections=0)}})
    agent = TinyAgent(world)
    agent.wait_listening()
    port = free_port()
    Daemon(world, config=dict(shipped('resumelb-poolcounter.yaml'), listen='127.0.0.1:%d' % free_port(),
                              admin={'address': '127.0.0.1:%d' % port})).connect()
    admins = dict(zip(targets, (lb.admin, agent.admin, '127.0.0.1:%d' % port)))
    page(port, '/healthz')
    p = Prometheus(world, scraping(admins))
    clients = [Client(lb.address) for _ in range(6)]
    for i, c in enumerate(clients):
        c.send('GET', ('/socket', '/events')[i % 2], headers=[('Upgrade', 'websocket'), ('Connection', 'Upgrade'),
               ('Sec-WebSocket-Key', 'AAAAAAAAAAAAAAAAAAAAAA=='), ('Sec-WebSocket-Version', '13')][:0 if i % 2 else 4])
        c.sock.recv(1)
    minutes = Minutes(admins)

    def pass_minutes(n):
        for _ in range(n):
            assert lb.get('/').status == 200
            wait_until(lambda: lb.app('shop')['stats']['requests_active'] == (6 if open_ones else 0), 'it to be over')
            minutes.scrape()
    open_ones = True
    pass_minutes(1)
    begun = lb.json()['uptime_s']
    wait_until(lambda: lb.json()['uptime_s'] > begun + 3, 'the streams to be old')
    pass_minutes(7)
    wait_until(lambda: p.value('resumelb_tunnels') == 3, 'the tunnels')
    for c in clients:
        c.close()
    open_ones = False
    pass_minutes(5)
    up = lambda: {t['labels']['job']: (t['health'], t['lastError']) for t in p.ask('targets')['activeTargets']}
    wait_until(lambda: up() == dict.fromkeys(targets, ('up', '')), 'all to be up')
    assert len(minutes.series) > 20 and minutes.alerts(world.directory) == ''


def exchanged(directory):
    """{name: text} of the installed configurations and prometheus.yml, with the same ports and directories replaced in all of them."""
    texts = {p.name: p.read_text() for p in (TOP / 'conf' / 'etc').glob('*.yaml')}
    places = {a: '127.0.0.1:%d' % free_ports(8) for a in re.findall(r'127\.0\.0\.1:\d+', ''.join(texts.values()))}
    for path in ('/run/resumelb/tree', '/var/lib/resumelb-agent', '/var/lib/resumelb', '/var/log/resumelb', '/srv/shop'):
        places[path] = str(directory / path.rpartition('/')[0].rpartition('/')[2]) + '-' + path.rpartition('/')[2]
    texts['prometheus.yml'] = (RULES.parent / 'prometheus.yml').read_text().replace('rule_files: [', 'rule_files: [%s/' % RULES.parent)
    pattern = '|'.join(map(re.escape, sorted(places, key=len, reverse=True)))
    return {name: re.sub(pattern, lambda m: places[m[0]], text) for name, text in texts.items()}, places


def test_the_installed_configurations_start_and_the_shipped_prometheus_finds_every_job_up(open_world):
    texts, places = exchanged(open_world.directory)
    for path in [p for p in places if p[0] == '/']:
        Path(places[path]).mkdir()
    package = Path(places['/srv/shop']) / 'shop'
    package.mkdir()
    (package / 'wsgi.py').write_text('def application(environ, start_response):\n    start_response("200 OK", [])\n    return [b"ok"]\n')
    open_world.scripted(serve(lambda c, head, body: c.respond()), port=int(places['127.0.0.1:9101'].rpartition(':')[2]))
    for name in ('resumelb', 'resumelb-agent', 'resumelb-poolcounter'):
        path = open_world.directory / (name + '.yaml')
        path.write_text(texts[path.name] if os.geteuid() == 0 else texts[path.name].replace('user: www-data\n', '\n'))
        open_world.process([BIN / name, '-c', path], name)
    p = Prometheus(open_world, texts['prometheus.yml'].replace('_interval: 15s', '_interval: 1s'))
    health = lambda: {t['labels']['job']: t['health'] for t in (p.ask('targets') or {'activeTargets': []})['activeTargets']}
    wait_until(lambda: health() == dict.fromkeys(('resumelb', 'resumelb-agent', 'resumelb-poolcounter'), 'up'), 'all jobs to be up')
    for _ in range(20):
        assert get(places['127.0.0.1:8080'], '/').status == 200
    assert get(places['127.0.0.1:9000'], '/').body == b'ok'
    wait_until(lambda: p.value('resumelb_total_seconds_count') == 20, 'the figures')
    last = lambda: max(g['lastEvaluation'] for g in p.ask('rules')['groups'])
    before = last()
    wait_until(lambda: last() > before, 'the rules to be evaluated after that')
    # Pending alerts are listed, too: on a busy machine a scrape may have failed.
    wait_until(lambda: p.ask('alerts') == {'alerts': []}, 'no alert')


def test_promtool_takes_the_rules_and_each_fires_when_it_should_and_only_then():
    check = subprocess.run(['promtool', 'check', 'rules', RULES], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr
    config = subprocess.run(['promtool', 'check', 'config', RULES.parent / 'prometheus.yml'], capture_output=True, text=True)
    assert config.returncode == 0, config.stderr
    tests = TOP / 'tests' / 'prometheus' / 'alerts_test.yml'
    run = subprocess.run(['promtool', 'test', 'rules', tests], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    for alert in re.findall(r'- alert: (\w+)', RULES.read_text()):
        assert tests.read_text().count('alertname: %s\n' % alert) == 2, alert
        assert '\n### %s\n' % alert in (TOP / 'docs' / 'runbook.md').read_text(), alert


def test_dashboard_and_alerts_ask_only_for_what_there_is(world):
    lb = balancer(world, tree='directory:%s' % (world.directory / 'tree'))
    there = set(re.findall(r'^(resumelb_\w+)', get(lb.admin, '/metrics', host=lb.admin).text, re.M))
    there |= set(re.findall(r'^# TYPE (resumelb_\w+)', get(lb.admin, '/metrics', host=lb.admin).text, re.M))
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [t['expr'] for p in dashboard['panels'] for t in p['targets']]
    assert len(queries) > 12
    wanted = set(re.findall(r'\bresumelb_[a-z0-9_]+', ' '.join(queries + re.findall(r'expr: (.*)', RULES.read_text()))))
    assert wanted - there == set()
