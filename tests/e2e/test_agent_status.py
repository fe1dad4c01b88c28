# SPDX-License-Identifier: Apache-2.0
"""The status of an agent's pool: JSON, page, metrics and tool; the action detach; the output of failed processes."""
import json
import os
import re
import signal
import subprocess
import threading
import time

import pytest
from agent_support import Background, TinyAgent, alive
from support.base import BIN, LIMIT, PACE, wait_until
from support.http import Client, get
from test_status_page import Listener

TOKEN = 'a-word-that-cannot-be-guessed'

# Writes the content of a file to stderr, then exits or serves. Files that the test creates control its behavior.
TALKER = r'''
import os, sys, time
said = os.environ["SAYS"]
if os.path.exists(said):
    os.write(2, open(said, "rb").read())
if os.path.exists(said + ".exit"):
    sys.exit(int(open(said + ".exit").read()))
'''

HOSTILE = (b'</pre></section><script>document.title="owned"</script><img src=x onerror=alert(1)>\n'
           b'\x1b[2J\x1b]0;owned\x07 \x00 \xff\xfe \xc2\x9b \xe2\x80\xae backwards \r\n'
           b'"quoted" \\back\\slash {{template}} %s%n \xc3\xa4\xe2\x82\xac\n'
           + b'm' * (1 << 20) + b'\nthe very last line\n')


class Guarded(TinyAgent):
    """An agent with an admin token, which every request of the test has."""

    def start(self):
        self.config['admin']['token'] = TOKEN
        (self.world.directory / 'token').write_text(TOKEN + '\n')
        super().start()

    def ask(self, path, **kw):
        headers = [('Authorization', 'Bearer ' + TOKEN), *kw.pop('headers', ())]
        return get(self.admin, path, host=self.admin, headers=headers, **kw)

    def json(self):
        return json.loads(self.ask('/status.json').body)

    def listening(self):
        assert self.process.alive(), self.process.output()[-4000:]
        try:
            return self.ask('/healthz').status == 200
        except OSError:
            return False

    def ready(self):
        return self.listening() and self.ask('/readyz').status == 200


class Talker(TinyAgent):
    """An agent with a process that writes the content of `says`, and exits with the code in `says.exit` if that file exists."""

    def __init__(self, world, says=HOSTILE, code='3', **settings):
        (world.directory / 'says').write_bytes(says)
        if code:
            (world.directory / 'says.exit').write_text(code)
        (world.directory / 'talker.py').write_text(TALKER)
        super().__init__(world, min_processes=0, max_processes=1, env={'SAYS': str(world.directory / 'says')}, **settings)

    def start(self):
        python = '/usr/bin/python3 -S -E '
        self.config['applications']['app']['command'] = [
            '/bin/sh', '-c', python + '%s && exec ' % (self.world.directory / 'talker.py') + python
            + str(self.world.directory / 'tinyserver.py')]
        super().start()


class Nobody(TinyAgent):
    """An agent with a command that does not exist."""

    def start(self):
        self.config['applications']['app']['command'] = ['/nonexistent/server']
        super().start()


# The rows of all tables: {heading: cell}.
ROWS = """[...document.querySelectorAll('main table')].flatMap(t => {
    const heads = [...t.tHead.rows[0].cells].map(c => c.textContent);
    return [...t.tBodies[0].rows].map(r => Object.fromEntries([...r.cells].map((c, i) => [heads[i], c.textContent])));
})"""


def rows(browser, heading):
    """The rows of the tables that have a column HEADING."""
    return [r for r in browser.js(ROWS) if heading in r]


def resumelbctl(agent, *words):
    return subprocess.run([BIN / 'resumelbctl', '-a', agent.admin, *words], capture_output=True, text=True, timeout=LIMIT)


def parent_of(pid):
    return int(open('/proc/%d/stat' % pid).read().rpartition(')')[2].split()[1])


def test_the_status_is_right_under_load(world):
    """Real gunicorns and four clients: pids, requests, queues, times and memory in the status are correct."""
    agent = world.agent('loaded', world.directory / 'tree', slots=2, version='1.4')
    wait_until(lambda: _ready(agent), 'the agent')
    before = time.monotonic()
    counts, pids, stop = [0, 0], [set(), set()], threading.Event()

    def load(n):
        with Client(agent.addresses[n]) as c:
            while not stop.wait(PACE):
                r = c.request(target='/x', headers=[('X-Delay', '0.002')])
                assert r.status == 200
                pids[n].add(int(r['X-Pid']))
                counts[n] += 1

    threads = [threading.Thread(target=load, args=(n,)) for n in (0, 1)]
    for t in threads:
        t.start()
    wait_until(lambda: min(counts) > 100, 'a hundred requests')
    busy = agent.json()
    stop.set()
    for t in threads:
        t.join()
    assert busy['processes'] == 2 and busy['applications']['app']['counts']['processes'] == 2
    app = wait_until(lambda: _is_idle(agent), 'it to be idle')
    assert app['counts'] == {'processes': 2, 'starting': 0, 'busy': 0, 'idle': 2, 'leaving': 0}
    ids = set()
    for n, slot in enumerate(app['slots']):
        p = slot['process']
        assert p['state'] == 'ready' and p['slot'] == n and p['version'] == '1.4' and p['going'] is None
        assert p['processed'] == counts[n] and p['sessions'] == 0
        assert {parent_of(x) for x in pids[n]} == {p['pid']} or pids[n] == {p['pid']}
        assert 0 <= p['last_used_s'] < 60 and 0 < p['uptime_s']
        assert re.fullmatch('[0-9a-f]{32}', p['id']) and p['id'] == slot['instance']
        ids.add(p['id'])
    assert len(ids) == 2
    assert agent.json()['uptime_s'] >= time.monotonic() - before
    # A sample may be older than the child of the process.
    p = wait_until(lambda: _with_usage(agent), 'a sample of the usage of a process and its child')
    pid = p['pid']
    resident = sum(_rss(x) for x in [pid, *_children(pid)])
    assert 0.5 * resident < p['memory_bytes'] < 1.5 * resident + (1 << 22)
    assert p['cpu_s'] > 0 and p['cpu_percent'] >= 0


def _is_idle(agent):
    app = agent.json()['applications']['app']
    return app if app['counts']['busy'] == 0 else None


def _with_usage(agent):
    p = agent.json()['applications']['app']['slots'][0]['process']
    return p if p.get('host_processes') == 1 + len(_children(p['pid'])) else None


def _children(pid):
    return [int(x) for x in open('/proc/%d/task/%d/children' % (pid, pid)).read().split()]


def _rss(pid):
    return int(open('/proc/%d/statm' % pid).read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


def _ready(agent):
    try:
        return get(agent.admin, '/readyz', host=agent.admin).status == 200
    except OSError:
        return False


def test_queues_are_seen_where_requests_wait(world, browser):
    agent = TinyAgent(world, max_queue=10).wait_ready()
    go = world.directory / 'go'
    requests = [Background(agent.address, target='/%d' % i, headers=[('X-Until', str(go))]) for i in range(4)]
    wait_until(lambda: agent.slot()['waiting'] == 3, 'three to wait')
    status = agent.json()
    app = status['applications']['app']
    assert status['waiting'] == 3 and status['active_processes'] == 1
    assert app['queue']['waiting'] == 3 and app['queue']['waiting_any'] == 0 and app['queue']['max'] == 10
    assert app['counts']['busy'] == 1 and app['slots'][0]['process']['sessions'] == 1
    assert app['slots'][0]['process']['last_used_s'] == 0
    browser.open_status(agent.admin)
    (row,) = rows(browser, 'pid')
    assert row['sessions'] == '1' and row['queue'] == '3'
    shown = resumelbctl(agent, 'status').stdout
    assert 'active   = 1' in shown and 'waiting  = 3' in shown, shown
    go.write_text('')
    assert [r.result().status for r in requests] == [200] * 4
    wait_until(lambda: agent.json()['waiting'] == 0, 'no request to wait')


def test_the_page_the_tool_and_the_figures_state_what_the_json_states(world, browser):
    agent = TinyAgent(world, slots=3, min_processes=2, version='<2>', max_queue=7).wait_ready()
    agent.write_node({'max_queue': 9, 'command': 'rm -rf /', 'concurrency': -1})
    wait_until(lambda: agent.app()['settings']['max_queue']['origin'] == 'tree', 'the setting')
    for _ in range(5):
        assert agent.get().status == 200
    app = wait_until(lambda: _is_idle(agent), 'it to be idle')
    browser.open_status(agent.admin)
    processes = rows(browser, 'pid')
    assert [r['slot'] for r in processes] == ['0', '1', '2']
    for row, slot in zip(processes[:2], app['slots']):
        p = slot['process']
        assert row['pid'] == str(p['pid']) and row['state'] == p['state'] == 'ready' and row['id'] == p['id']
        assert row['processed'] == str(p['processed']) and row['version'] == '<2>' == p['version']
        assert row['address'] == slot['address']
    assert app['slots'][0]['process']['processed'] == 5
    assert processes[2]['state'] == 'dormant' and app['slots'][2]['state'] == 'dormant'
    settings = {r['setting']: (r['value'], r['origin']) for r in rows(browser, 'setting')}
    assert settings['max_queue'] == ('9', 'tree') and settings['version'] == ('<2>', 'yaml')
    assert settings['persistent'] == ('true', 'default')
    text = browser.text()
    assert 'Setting command = rm -rf / of the tree is rejected: ' in text and 'Setting concurrency = -1 of the tree' in text
    assert browser.complaints == []
    shown = resumelbctl(agent, 'status')
    assert shown.returncode == 0, shown.stderr
    for p in (s['process'] for s in app['slots'][:2]):
        assert re.search(r'^ +\d+ +%d +ready .* %s$' % (p['pid'], p['id']), shown.stdout, re.M), shown.stdout
    assert 'app: 2 processes (min 2, max 3): 0 busy, 2 idle' in shown.stdout
    assert 'settings: max_queue = 9 (from the tree)' in shown.stdout
    assert json.loads(resumelbctl(agent, '--json', 'status').stdout)['program'] == 'resumelb-agent'
    assert resumelbctl(agent, 'status', 'nowhere').returncode == 1
    figures = get(agent.admin, '/metrics', host=agent.admin).text
    for line in ('resumelb_agent_pool_processes 2', 'resumelb_agent_processes_min{application="app"} 2',
                 'resumelb_agent_processes_by_state{application="app",state="idle"} 2',
                 'resumelb_agent_slot_waiting{application="app",slot="2"} 0'):
        assert line + '\n' in figures, line
    assert figures.count('# TYPE resumelb_agent_slot_sessions gauge\n') == 1
    assert app['slots'][0]['process']['id'] not in figures, 'labels must not grow with processes'


def test_the_page_loads_nothing_from_elsewhere(world, browser):
    agent = TinyAgent(world).wait_ready()
    r = get(agent.admin, '/', host=agent.admin)
    assert r.status == 200 and r['Content-Type'] == 'text/html; charset=utf-8'
    assert "default-src 'none'" in r['Content-Security-Policy'] and 'unsafe' not in r['Content-Security-Policy']
    assert r.text.count('<script') == 1 and 'resumelbctl status' in re.search('<noscript>(.*)</noscript>', r.text, re.S)[1]
    browser.open_status(agent.admin)
    base = 'http://%s/' % agent.admin
    assert browser.requests and all(url.startswith(base) for url in browser.requests), browser.requests
    for link in browser.js('[...document.querySelectorAll("[href], [src]")].map(e => e.getAttribute("href") || e.getAttribute("src"))'):
        if not link.startswith('#'):
            assert link.startswith('/') and get(agent.admin, link, host=agent.admin).status == 200, link
    assert get(agent.admin, '/', host='evil.example').status == 421
    assert get(agent.admin, '/', host=agent.admin, method='POST', body=b'').status == 405


def test_a_listener_of_the_page_does_not_keep_the_agent_from_stopping(world):
    agent = TinyAgent(world).wait_ready()
    x = Listener(agent.admin)
    assert x.event()['program'] == 'resumelb-agent'
    assert set(x.event()['applications']) == {'app'} and x.kind == 'delta'
    agent.process.kill(signal.SIGTERM)
    assert agent.process.wait() == 0
    x.close()


# ---- detach ----

def test_a_detached_process_finishes_what_it_has_and_is_replaced(world):
    agent = Guarded(world).wait_ready()
    old = agent.slot()['process']
    go = world.directory / 'go'
    request = Background(agent.address, target='/long', headers=[('X-Until', str(go))])
    wait_until(lambda: agent.slot()['process']['sessions'] == 1, 'it to be busy')
    r = agent.ask('/processes/%s/detach' % old['id'], method='POST', body=b'')
    assert r.status == 200 and old['id'] in r.text and '1 requests' in r.text
    new = wait_until(lambda: _replaced(agent, old), 'another one')
    assert new['pid'] != old['pid']
    (leaving,) = agent.app()['leaving']
    assert leaving['id'] == old['id'] and leaving['sessions'] == 1 and leaving['going'] == 'replaced'
    assert alive(old['pid'])
    for i in range(3):
        assert json.loads(agent.get('/%d' % i).body)['pid'] == new['pid'], 'detaching is permanent'
    again = agent.ask('/processes/%s/detach' % old['id'], method='POST', body=b'')
    assert again.status == 200 and 'already' in again.text
    go.write_text('')
    r = request.result()
    assert r.status == 200 and json.loads(r.body)['pid'] == old['pid']
    wait_until(lambda: not alive(old['pid']), 'it to end')
    wait_until(lambda: agent.app()['leaving'] == [], 'it to be forgotten')
    assert agent.ask('/processes/%s/detach' % old['id'], method='POST', body=b'').status == 404


def _replaced(agent, old):
    p = agent.slot().get('process')
    return p if p and p['id'] != old['id'] and p['state'] == 'ready' else None


def test_detach_is_rejected_to_one_that_has_not_the_token(world):
    agent = Guarded(world).wait_ready()
    p = agent.slot()['process']
    path = '/processes/%s/detach' % p['id']
    bearer = ('Authorization', 'Bearer ' + TOKEN)
    tries = [('POST', agent.admin, [], 401), ('POST', agent.admin, [('Authorization', 'Bearer guess')], 401),
             ('POST', agent.admin, [('Cookie', 'token=' + TOKEN)], 401), ('POST', 'evil.example', [bearer], 421),
             ('GET', agent.admin, [bearer], 405), ('HEAD', agent.admin, [bearer], 405),
             ('OPTIONS', agent.admin, [bearer], 405), ('POST', agent.admin, [bearer, bearer], 401)]
    for method, host, headers, status in tries:
        body = b'' if method == 'POST' else None
        r = get(agent.admin, path, host=host, method=method, headers=headers, body=body)
        assert r.status == status, (method, host, headers)
        assert r['Access-Control-Allow-Origin'] is None
    for other in ('0' * 32, 'x', '..', 'a' * 65):
        assert agent.ask('/processes/%s/detach' % other, method='POST', body=b'').status == 404
    assert agent.slot()['process']['id'] == p['id'] and alive(p['pid'])


def test_without_a_token_actions_are_off(world):
    agent = TinyAgent(world).wait_ready()
    p = agent.slot()['process']
    r = get(agent.admin, '/processes/%s/detach' % p['id'], host=agent.admin, method='POST', body=b'')
    assert r.status == 403 and 'token' in r.text
    done = resumelbctl(agent, 'detach', p['id'])
    assert done.returncode == 1 and '403' in done.stderr, done.stderr
    assert agent.slot()['process']['id'] == p['id']


def test_the_tool_detaches(world):
    agent = Guarded(world).wait_ready()
    old = agent.slot()['process']
    token = str(world.directory / 'token')
    assert resumelbctl(agent, 'detach', old['id']).returncode == 1
    done = resumelbctl(agent, '-T', token, 'detach', old['id'])
    assert done.returncode == 0 and old['id'] in done.stdout, done.stderr
    wait_until(lambda: _replaced(agent, old), 'another one')
    wait_until(lambda: not alive(old['pid']), 'the old one to end')
    done = resumelbctl(agent, '-T', token, 'detach', old['id'])
    assert done.returncode == 1 and 'no such process' in done.stderr
    assert resumelbctl(agent, '-T', token, 'status').returncode == 0


# ---- failures ----

def _failure(agent):
    return agent.app()['last_failure']


def test_a_failed_start_leaves_its_last_lines(world, browser):
    agent = Talker(world, says=b'one\nTraceback:\n  File "shop.py"\nImportError: no shop\n').wait_listening()
    assert agent.app()['last_failure'] is None
    assert agent.get().status == 503
    f = _failure(agent)
    assert f['what'] == 'died before it was ready' and '3' in f['how'] and f['slot'] == 0 and f['pid'] > 0
    assert f['lines'] == ['one', 'Traceback:', '  File "shop.py"', 'ImportError: no shop'] and f['ago_s'] < 60
    assert f['at'].endswith('Z') and 'died before it was ready' in agent.slot()['last_failure']
    browser.open_status(agent.admin)
    assert 'File "shop.py"\nImportError: no shop' in browser.text()
    shown = resumelbctl(agent, 'status').stdout
    assert '    |   File "shop.py"\n    | ImportError: no shop\n' in shown, shown
    agent.process.wait_logged('process-last-output')


def test_a_command_that_is_not_there_is_reported(world, browser):
    agent = Nobody(world, min_processes=0, max_processes=1).wait_listening()
    assert agent.get().status == 503
    f = _failure(agent)
    assert '/nonexistent/server: No such file' in f['how'], f
    browser.open_status(agent.admin)
    assert '/nonexistent/server: No such file' in browser.text()


@pytest.mark.parametrize('accept', [None, 'text/html,application/xhtml+xml'])
def test_hostile_output_is_shown_harmlessly(world, browser, accept):
    agent = Talker(world, show_errors=True).wait_listening()
    r = agent.get(headers=[('Accept', accept)] if accept else [])
    assert r.status == 503 and b'the very last line' in r.body and len(r.body) < 10000
    assert not re.search(rb'[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae', r.body), r.body[:2000]
    assert '\\x1b[2J' in r.text and 'ä€' in r.text and 'mmmm' in r.text
    r.body.decode('utf-8', 'strict')
    if accept:
        assert r['Content-Type'].startswith('text/html') and "default-src 'none'" in r['Content-Security-Policy']
        assert set(re.findall(r'<([a-z]\w*)', r.text)) <= {'html', 'meta', 'title', 'h1', 'pre'}
        assert '&lt;script&gt;' in r.text
    else:
        assert r['Content-Type'].startswith('text/plain') and r['X-Content-Type-Options'] == 'nosniff'
    f = _failure(agent)
    assert len(f['lines']) == 5 and f['lines'][-1] == 'the very last line' and len(f['lines'][3]) < 600
    assert f['lines'][3].endswith(' ...')
    browser.open_status(agent.admin)
    assert browser.js('document.title') == 'resumelb-agent' and browser.js('document.querySelectorAll("main script, img").length') == 0
    assert '<script>document.title="owned"</script>' in browser.text()
    assert browser.complaints == []
    for text in (resumelbctl(agent, 'status').stdout, agent.process.output()):
        assert not re.search('[\x00-\x08\x0b-\x1f\x7f-\x9f]', text)


def test_errors_are_shown_where_that_is_on_and_nowhere_else(world):
    agent = Talker(world, says=b'secret-of-the-house\n').wait_listening()
    r = agent.get()
    assert r.status == 503 and b'secret' not in r.body
    agent.write_node({'show_errors': True})
    wait_until(lambda: agent.app()['settings']['show_errors']['value'] == 'true', 'the setting')
    r = agent.get()
    assert r.status == 503 and b'secret-of-the-house' in r.body and r['Content-Type'].startswith('text/plain')
    assert r['Resumelb-Unprocessed'] == '1'
    agent.write_node({})
    wait_until(lambda: agent.app()['settings']['show_errors']['value'] == 'false', 'the setting')
    assert b'secret' not in agent.get().body


def test_a_process_that_dies_in_a_request_shows_what_it_wrote(world):
    agent = Talker(world, says=b'began\n', code=None, show_errors=True).wait_listening()
    assert agent.get().status == 200
    r = agent.get('/die', headers=[('X-Die', '1')])
    assert r.status == 502 and b'began' in r.body, r.body
    f = wait_until(lambda: _failure(agent), 'the failure')
    assert f['what'] == 'died' and '7' in f['how']
