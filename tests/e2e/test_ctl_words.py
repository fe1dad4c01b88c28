# SPDX-License-Identifier: Apache-2.0
"""resumelbctl with real programs: explain, check, drain, forget, repeated status, classify; help and completion."""
import json
import re
import subprocess
import threading

import pytest
from agent_support import TinyAgent
from ctl_support import TOKEN, ctl
from support.base import BIN, LIMIT, free_port, wait_until
from support.http import Client, get
from support.scripted import hello, serve

class Site:
    """A load balancer with an actions token, and two workers."""

    def __init__(self, world, **config):
        self.world = world
        self.workers = [world.scripted(serve(hello)) for _ in range(2)]
        self.names = [w.address for w in self.workers]
        admin = {'address': '127.0.0.1:%d' % free_port(), 'actions_token': TOKEN}
        self.lb = world.resumelb({'workers': self.names, 'admin': admin, 'history': 1, 'state_dir': str(world.directory / 'state'),
                                  **config}, wait=False)
        self.lb.admin = admin['address']
        wait_until(self.lb.ready, 'it to be ready')
        self.token = world.directory / 'token'
        self.token.write_text(TOKEN + '\n')

    def ctl(self, word, *words, **kw):
        return ctl(word, '--address', self.lb.admin, *words, **kw)

    def order(self, word, *words, **kw):
        return self.ctl(word, '--token-file', self.token, *words, **kw)

    def visit(self, n=6):
        for i in range(n):
            assert self.lb.get(host='h%d.example' % i).status == 200
        wait_until(lambda: self.lb.app()['backlog'] == 0, 'nothing in flight')

    def skills(self):
        return self.lb.json('/resumes.json')['applications']['default']


@pytest.fixture
def site(world):
    return Site(world)


# ---- explain ----

def test_explain_names_the_worker_that_then_gets_the_request(site):
    site.visit()
    for i in range(6):
        host = 'h%d.example' % i
        told = site.ctl('explain', '--json', 'http://%s/page?x=1' % host).json()
        assert told['class'] == host and told['policy'] == 'adaptive' and told['reason'] == 'home'
        before = {w: len(x.requests) for w, x in zip(site.names, site.workers)}
        site.lb.get(host=host)
        grown = [w for w, x in zip(site.names, site.workers) if len(x.requests) > before[w]]
        assert grown == [told['worker']]
        wait_until(lambda: site.lb.app()['backlog'] == 0, 'nothing in flight')


def test_explain_reports_class_candidates_steps_and_values(site):
    site.visit(1)
    out = site.ctl('explain', '--class', 'h0.example').out
    assert 'class h0.example, policy adaptive, 2 workers' in out
    assert re.search(r"^127\.0\.0\.1:\d+ would be selected: home\n  Policy adaptive: the class's home with the least work in flight\.$",
                     out, re.M), out
    assert 'homes_max' in out and '1. homes of the class: 1 of 2' in out
    assert 'no home, and no less work in flight than the home' in out
    assert re.search(r'^  >  127\.0\.0\.1:\d+ +\d', out, re.M) and 'gets it' in out
    assert '\033' not in out


def test_explain_follows_paths_to_applications_and_their_classifiers(world):
    worker = world.scripted(serve(hello))
    by_segment = {'regex': {'variable': 'PATH_INFO', 'pattern': '^/(?P<class>[^/]+)'}}
    lb = world.resumelb({'applications': {
        'one': {'hosts': ['one.example'], 'path': '/app', 'strip_prefix': True, 'classifier': by_segment,
                'workers': [worker.address]},
        'two': {'hosts': ['two.example'], 'workers': [worker.address]}}})
    told = ctl('explain', '-a', lb.admin, '-j', 'https://ONE.example:444/app/books/7?x').json()
    assert (told['application'], told['class']) == ('one', 'books')
    assert ctl('explain', '-a', lb.admin, '-j', 'http://www.two.example/app/x', '-p', 'two').json()['class'] == 'two.example'
    assert ctl('explain', '-a', lb.admin, '-j', '--class', 'x', '-p', 'two').json()['application'] == 'two'
    assert 'no application for this host' in ctl('explain', '-a', lb.admin, 'http://three.example/', code=1).error
    assert 'application is missing' in ctl('explain', '-a', lb.admin, '--class', 'x', code=1).error
    assert 'no such application' in ctl('explain', '-a', lb.admin, '-c', 'x', '-p', 'three', code=1).error
    assert 'url: expected' in ctl('explain', '-a', lb.admin, 'ftp://x/', code=1).error
    ctl('explain', '-a', lb.admin, code=2)
    ctl('explain', '-a', lb.admin, '-c', 'x', '/y', code=2)
    ctl('explain', '-a', lb.admin, '/' + 'y' * 700, code=2)


# ---- check ----

def test_check_speaks_as_rlb_nagios_did(site):
    assert ctl('check', site.lb.admin, code=3).out == 'You need to request metrics and/or alert settings\n'
    assert ctl('check', site.lb.admin, '-b3', '-B9', '-x9', '-X19', '-a1', '-A2', '-w1', '-W0').out == 'OK 2 0 0 0\n'
    assert ctl('check', site.lb.admin, '-w2', '-W1', code=1).out == 'too few workers (2)\n'
    assert ctl('check', site.lb.admin, '-w8', '-W2', code=2).out == 'too few workers (2)\n'
    out = ctl('check', '-w8', '-W2', '-m', site.lb.admin, code=2).out
    assert out == 'too few workers (2)|workers=2;@~:8;@~:2;0 mean_backlog=0;;;0 max_backlog=0;;;0 max_age=0.0s;;;0\n'
    told = ctl('check', '-w', '3:', '-j', site.lb.admin, code=1).json()
    assert told == {'state': 'WARNING', 'code': 1, 'text': 'too few workers (2)', 'performance_data': ''}


def test_check_sees_what_a_worker_has_in_flight(world):
    go = threading.Event()
    worker = world.scripted(serve(lambda c, head, body: (go.wait(LIMIT), c.respond(b'late'))))
    lb = world.resumelb({'workers': [worker.address]})
    waiting = Client(lb.address)
    waiting.send()
    wait_until(lambda: lb.app()['backlog'] == 1, 'the request to be there')
    out = ctl('check', lb.admin, '-X1', code=2).out
    assert out == 'max backlog high (1)\n'
    wait_until(lambda: ctl_text(lb, '-a0.1').startswith('max age too high'), 'it to be old')
    go.set()
    waiting.close()


def ctl_text(lb, *words):
    return subprocess.run([str(BIN / 'resumelbctl'), 'check', lb.admin, *words], capture_output=True, text=True).stdout


def test_check_is_critical_without_any_and_unknown_without_sense(world, site):
    assert ctl('check', '127.0.0.1:%d' % free_port(), '-b1', code=2).out.startswith('CRITICAL: ')
    assert ctl('check', site.lb.address, '-b1', code=3).out.startswith('UNKNOWN: ')
    assert ctl('check', site.lb.admin, '-b1', '-p', 'nobody', code=3).out == 'UNKNOWN: no such application\n'
    for bad in ('x', '5:1', '', '1:2:3'):
        assert '--worker-mean-backlog-warn: expected' in ctl('check', site.lb.admin, '-b', bad, code=3).error
    ctl('check', site.lb.admin, '--nonsense', code=3)


# ---- drain, undrain, forget, reload ----

def test_a_drained_worker_gets_nothing_until_it_is_undrained(site):
    first = site.names[0]
    assert site.order('drain', first).out == '%s: default %s is now drained\n' % (site.lb.admin, first)
    assert 'was already drained' in site.order('drain', first, '--application', 'default').out
    assert re.search(re.escape(first) + r' +drained', site.ctl('status').out)
    site.visit()
    assert not site.workers[0].requests and len(site.workers[1].requests) == 6
    assert 'is now ready' in site.order('undrain', first).out
    assert site.order('drain', '--json', site.names[1]).json()['state'] == 'drained'
    site.visit(1)
    assert len(site.workers[0].requests) == 1


def test_forget_clears_a_class_a_worker_or_all(site):
    site.visit()
    assert site.order('forget', '--class', 'h3.example').out.endswith('deleted 1 scores of 2 workers\n')
    mine = site.names[0]
    known = len(site.skills()[mine])
    assert site.order('forget', '--worker', mine, '--json').json() == {'action': 'forget', 'workers': 1, 'scores': known}
    assert site.skills()[mine] == {} and len(site.skills()[site.names[1]]) == 5 - known
    site.order('forget', '--all')
    assert site.skills() == {mine: {}, site.names[1]: {}}


def test_orders_are_rejected_with_a_reason(site, tmp_path):
    assert 'no such worker' in site.order('drain', 'nobody:1', code=1).error
    assert 'no such application' in site.order('forget', '--all', '-p', 'x', code=1).error
    assert '--token-file' in site.ctl('drain', site.names[0], code=2).error
    wrong = tmp_path / 'wrong'
    wrong.write_text('guess')
    assert 'actions_token' in site.ctl('drain', '-T', wrong, site.names[0], code=1).error
    site.order('forget', code=2)
    site.order('forget', '--all', '--class', 'x', code=2)
    site.order('drain', code=2)
    assert site.lb.workers()[site.names[0]]['state'] == 'ready'


def test_reload_states_what_is_rejected(site):
    site.lb.config['retries'] = 1
    site.lb.write_config()
    assert site.order('reload').out.endswith('reloaded\n')
    assert site.lb.app()['settings']['retries']['value'] == '1'
    site.lb.config['retries'] = 'many'
    site.lb.config['thraeds'] = '1'
    site.lb.write_config()
    lines = site.order('reload', code=1).error.splitlines()
    assert len(lines) == 2 and all(site.lb.admin + ': ' in line for line in lines), lines
    assert 'unknown setting "thraeds" (did you mean "threads"?)' in lines[0] + lines[1]
    assert 'retries: expected a whole number, not "many"' in lines[0] + lines[1]


class Ordered(TinyAgent):
    """An agent with an actions token."""

    def start(self):
        self.config['admin']['actions_token'] = TOKEN
        super().start()

    def kept(self):
        """The skills in its file, or None if the file does not exist yet."""
        file = self.state_dir / 'app' / 'slot-0.json'
        return json.loads(file.read_text().splitlines()[-1])['skills'] if file.exists() else None


def test_an_agent_forgets_in_its_file_and_reports_its_load_balancers(world):
    agent = Ordered(world, history=1).wait_ready()
    token = world.directory / 'token'
    token.write_text(TOKEN)
    stream = agent.stream()
    for name in ('a', 'b'):
        agent.get(headers=[('Resumelb-Class', name), ('Resumelb-Classifier', 'f' * 16)])
    stream.wait(lambda x: set(x['skills']) == {'a', 'b'})
    wait_until(lambda: set(agent.kept() or ()) == {'a', 'b'}, 'the file to be written')
    done = ctl('forget', '--class', 'a', '-a', agent.admin, '-T', token, '-j').json()
    assert done == {'action': 'forget', 'workers': 1, 'scores': 1}
    wait_until(lambda: set(stream.last()['skills']) == {'b'}, 'load balancers to be notified')
    wait_until(lambda: set(agent.kept() or ()) == {'b'}, 'the file to forget')
    assert 'no such worker' in ctl('forget', '-w', '127.0.0.1:1', '-a', agent.admin, '-T', token, code=1).error
    ctl('forget', '-w', agent.address, '-a', agent.admin, '-T', token)
    wait_until(lambda: stream.last()['skills'] == {}, 'load balancers to be notified')
    wait_until(lambda: agent.kept() == {}, 'the file to be empty')
    # It continues to learn.
    agent.get(headers=[('Resumelb-Class', 'c'), ('Resumelb-Classifier', 'f' * 16)])
    wait_until(lambda: set(stream.last()['skills']) == {'c'}, 'it to learn again')


@pytest.mark.parametrize('order, status', [
    ('[]', 400), ('{', 400), ('{"class": 1}', 400), ('{"klass": "a"}', 400), ('{"class": "a", "class": "b"}', 400),
    ('{"application": "other"}', 404), ('{"worker": "127.0.0.1:1"}', 404), pytest.param('x' * 5000, 413, id='long')])
def test_an_agent_rejects_orders_that_make_no_sense(world, order, status):
    agent = Ordered(world, history=1).wait_ready()
    agent.get(headers=[('Resumelb-Class', 'a'), ('Resumelb-Classifier', 'f' * 16)])
    ask = lambda **kw: get(agent.admin, '/actions/forget', host=agent.admin, method='POST', body=order.encode(), **kw)
    assert ask(headers=[('Authorization', 'Bearer ' + TOKEN)]).status == status
    assert ask().status == (413 if status == 413 else 401)
    wait_until(lambda: set(agent.kept() or ()) == {'a'}, 'all to be as it was')


def test_without_a_token_an_agent_takes_no_orders(world):
    agent = TinyAgent(world).wait_ready()
    token = world.directory / 'token'
    token.write_text(TOKEN)
    assert 'actions_token' in ctl('forget', '--all', '-a', agent.admin, '-T', token, code=1).error


# ---- status, again and again ----

@pytest.mark.parametrize('address', ['nonsense', '127.0.0.1', '127.0.0.1:', ':::'])
def test_an_address_that_is_none_is_rejected_with_what_is_wanted(address):
    done = ctl('status', '-a', address, code=1)
    assert (done.out, done.error) == ('', 'resumelbctl: %s: no address: expected HOST:PORT or unix:/PATH\n' % address)


def test_status_is_shown_again_until_the_count_is_full(site):
    out = site.ctl('status', '--watch', '1', '--count', '2').out
    assert out.count('default: policy adaptive') == 2 and '\033' not in out
    told = [json.loads(line) for line in site.ctl('status', '-j', '-w', '1', '--count', '2').out.splitlines()]
    assert len(told) == 2 and told[1]['uptime_s'] > told[0]['uptime_s']
    site.ctl('status', '--count', '2', code=2)
    site.ctl('status', '--watch', '0', code=2)


def test_watching_outlives_a_restart_and_ends_by_a_signal(site):
    watching = subprocess.Popen([str(BIN / 'resumelbctl'), 'status', '-a', site.lb.admin, '-w', '1'],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = []
    while not any('default: policy' in line for line in lines):
        lines.append(watching.stdout.readline())
        assert lines[-1], watching.stderr.read()
    site.lb.kill()
    assert 'refused' in watching.stderr.readline()
    watching.terminate()
    assert watching.wait(LIMIT) in (0, 1)
    watching.stdout.close()
    watching.stderr.close()


# ---- classify ----

LINE = '%s - - [22/Nov/2026:06:25:%02d +0000] "GET %s HTTP/1.1" 200 5 "-" "x"\n'


def a_log(hosts):
    return ''.join('%s ' % h + LINE % ('10.0.0.1', i % 60, '/p/%d' % (i % 7)) for i, h in enumerate(hosts))


def test_classify_counts_a_log_and_warns_of_one_class_with_half_the_traffic():
    log = a_log(['a.example'] * 30 + ['b.example'] * 20 + ['c.example'] * 10)
    out = ctl('classify', '-', text=log).out
    assert out.startswith('60 requests\nhost: 3 classes')
    assert re.search(r'^  a\.example +30 +50\.00 % +50\.0 %$', out, re.M), out
    assert 'warning: one class has 50 % of the traffic (a.example)' in out
    told = ctl('classify', '-', '-j', '-c', 'host', '-c', 'path', text=log).json()
    host, path = told['classifiers']
    assert told['requests'] == 60 and [c['requests'] for c in host['largest']] == [30, 20, 10]
    assert path['classes'] == 7 and path['warnings'] == []


def test_classify_takes_urls_and_states_what_it_left_out(tmp_path):
    urls = tmp_path / 'urls'
    urls.write_text('# a list\n' + ''.join('http://x%d.example:8080/a/%d?q#f\n' % (i % 4, i) for i in range(40))
                    + '\nftp://no/\nhttp://\n/only/path\n')
    told = ctl('classify', '-j', urls).json()
    assert told['requests'] == 41 and told['bad_lines'] == 2
    assert {c['class'] for c in told['classifiers'][0]['largest']} == {'', 'x0.example', 'x1.example', 'x2.example', 'x3.example'}
    out = ctl('classify', urls, '-c', 'path').out
    assert '2 of 45 lines skipped; the first, line 43' in out
    assert '100 % of the requests are the first of their class' in out


def test_classify_has_the_classifier_of_a_configuration(tmp_path):
    conf = tmp_path / 'lb.yaml'
    conf.write_text('applications:\n  shop:\n    classifier: {regex: {variable: PATH_INFO, pattern: "^/(?P<class>[a-z]+)"}}\n'
                    '  blog: {}\n')
    text = '/books/1\n/books/2\n/music/1\n'
    told = ctl('classify', '-j', '--config', conf, '--application', 'shop', '-', text=text).json()
    assert [(c['class'], c['requests']) for c in told['classifiers'][0]['largest']] == [('books', 2), ('music', 1)]
    assert 'no `classifier`' in ctl('classify', '--config', conf, '-A', 'blog', '-', text=text, code=2).error
    assert "unknown application 'x'" in ctl('classify', '--config', conf, '-A', 'x', '-', text=text, code=2).error
    assert '--application?' in ctl('classify', '--config', conf, '-', text=text, code=2).error


def test_classify_rejects_what_it_cannot_read(tmp_path):
    assert 'No such file' in ctl('classify', tmp_path / 'nothing', code=1).error
    assert 'no requests' in ctl('classify', '-', text='', code=1).error
    assert 'no requests: not CLIENT' in ctl('classify', '-', text='nonsense\n', code=1).error
    assert 'expected a file' in ctl('classify', code=2).error
    assert 'expected host, segment' in ctl('classify', '-c', 'nonsense', '-', text='', code=2).error
