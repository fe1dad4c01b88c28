# SPDX-License-Identifier: Apache-2.0
"""What Prometheus makes of us: its own tool reads every page and every rule, and a real one scrapes them."""
import json
import re
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest
from agent_support import TinyAgent
from poolcounter_support import Daemon, page
from support.base import free_port, wait_until
from support.http import get
from support.scripted import serve

TOP = Path(__file__).parents[2]
RULES = TOP / 'conf' / 'prometheus' / 'resumelb-alerts.yml'
DASHBOARD = TOP / 'conf' / 'grafana' / 'resumelb.json'
OPEN = [('Accept', 'application/openmetrics-text; version=1.0.0')]


def balancer(world, **settings):
    w = world.scripted(serve(lambda c, head, body: c.answer(status='500 Oops' if b'GET /broken' in head else '200 OK')))
    lb = world.resumelb(dict({
        'workers': [w.address], 'access_log': str(world.folder / 'access.log'),
        'pool_counters': {'each': {'key': '{REMOTE_ADDR}', 'workers': 9}}, 'rates': {'some': {'rate': '1000/s'}}}, **settings))
    assert lb.get('/').status == 200 and lb.get('/broken').status == 500
    wait_until(lambda: sum(lb.app()['outcomes'].values()) == 2, 'both to be counted')
    return lb


def page_of(world, program):
    """A function from header fields to the program's page of metrics."""
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
    """Names with labels to values."""
    return dict(re.fullmatch(r'(.*) (\S+)', line).groups() for line in text.splitlines() if line[:1] != '#')


@pytest.mark.parametrize('program', ['resumelb', 'resumelb-agent', 'resumelb-poolcounter'])
def test_promtool_has_nothing_to_say_against_the_metrics(world, program):
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
    for phase in ('wait_limit', 'wait_worker', 'wait_connection', 'first_byte', 'service', 'deliver', 'total'):
        assert seen['resumelb_%s_seconds_count{application="default"}' % phase] == '2', phase
    # The second request had the connection of the first.
    assert seen['resumelb_connect_seconds_count{application="default"}'] == '1'


class Prometheus:
    def __init__(self, world, targets):
        self.address = ('127.0.0.1', free_port())
        folder = world.folder / 'prometheus'
        folder.mkdir()
        config = {'global': {'scrape_interval': '1s', 'evaluation_interval': '1s'}, 'rule_files': [str(RULES)],
                  'scrape_configs': [{'job_name': job, 'static_configs': [{'targets': [target]}]}
                                     for job, target in targets.items()]}
        (folder / 'prometheus.yml').write_text(json.dumps(config))  # JSON is YAML
        self.process = world.process(
            ['prometheus', '--config.file=%s' % (folder / 'prometheus.yml'), '--storage.tsdb.path=%s' % (folder / 'data'),
             '--web.listen-address=%s:%d' % self.address], 'prometheus')

    def ask(self, path):
        try:
            r = get(self.address, '/api/v1/' + path)
        except OSError:
            return None
        return json.loads(r.body)['data'] if r.status == 200 else None

    def value(self, query):
        """The one value of QUERY, or None."""
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
    p = Prometheus(world, {'resumelb': lb.admin, 'resumelb-agent': agent.admin,
                           'resumelb-poolcounter': '127.0.0.1:%d' % port})
    wait_until(lambda: p.value('resumelb_responses_5xx_total') == 1, 'the balancer\'s figures', 30)
    assert p.value('resumelb_outcomes_total{outcome="answered"}') == 2
    assert p.value('resumelb_total_seconds_count') == 2
    wait_until(lambda: p.value('sum(resumelb_class_requests_total)') == 2, 'the figures of classes', 30)
    wait_until(lambda: p.value('resumelb_class_requests_total{class!="other classes"}') is not None, 'those of the one class', 30)
    wait_until(lambda: p.value('resumelb_agent_pool_processes') is not None, 'the agent\'s', 30)
    wait_until(lambda: p.value('resumelb_poolcounter_held') == 1, 'the pool counter\'s', 30)
    targets = p.ask('targets')['activeTargets']
    assert sorted((t['labels']['job'], t['health'], t['lastError']) for t in targets) == [
        ('resumelb', 'up', ''), ('resumelb-agent', 'up', ''), ('resumelb-poolcounter', 'up', '')]

    def evaluated():
        groups = (p.ask('rules') or {'groups': []})['groups']
        rules = [r for g in groups for r in g['rules']]
        return rules and all(r['health'] == 'ok' for r in rules) and len(rules)
    assert wait_until(evaluated, 'the rules to be evaluated', 30) == RULES.read_text().count('- alert: ')


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
        assert '\n### %s\n' % alert in (TOP / 'docs' / 'operations.md').read_text(), alert


def test_dashboard_and_alerts_ask_only_for_what_there_is(world):
    lb = balancer(world, tree='directory:%s' % (world.folder / 'tree'))
    there = set(re.findall(r'^(resumelb_\w+)', get(lb.admin, '/metrics', host=lb.admin).text, re.M))
    there |= set(re.findall(r'^# TYPE (resumelb_\w+)', get(lb.admin, '/metrics', host=lb.admin).text, re.M))
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [t['expr'] for p in dashboard['panels'] for t in p['targets']]
    assert len(queries) > 12
    wanted = set(re.findall(r'\bresumelb_[a-z0-9_]+', ' '.join(queries + re.findall(r'expr: (.*)', RULES.read_text()))))
    assert wanted - there == set()
