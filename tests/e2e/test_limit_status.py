# SPDX-License-Identifier: Apache-2.0
"""The status of limits: /status.json, /metrics, resumelbctl limits, the status page."""
import json
import re
import signal
import subprocess

import pytest
from limit_support import Asked, HeldApp, Poolcounterd, balancer, waits
from poolcounter_support import Daemon
from support.base import BIN, LIMIT, free_port, wait_until
from support.http import get
from test_limits import all_ok, ask
from test_status_page import Listener

HOSTILE = "/%22%3E%3Cscript%3Ealert(1)%3C/script%3E'%5C%25%7F%0A"
DASH = '\N{EN DASH}'
HOSTILE_KEY = 'pages:/"><script>alert(1)</script>\'\\%25%7F%0A'


@pytest.fixture
def app():
    a = HeldApp()
    yield a
    a.let_all_go()
    a.server.close()


def limits(lb):
    return {limit['name']: limit for limit in lb.app()['limits']}


def figures(lb, name='pages'):
    return limits(lb)[name]['figures']


def metrics(lb):
    """{(name, labels): value} of the metrics of limits, servers and stored responses."""
    found = {}
    for line in get(lb.admin, '/metrics', host=lb.admin).text.splitlines():
        m = re.fullmatch(r'resumelb_((?:limit|pool_counter|stored)\w*)\{(.*)\} (\S+)', line)
        if m:
            assert (m[1], m[2]) not in found, line
            found[m[1], m[2]] = float(m[3])
    return found


def of(limit='pages', application='default'):
    return 'application="%s",limit="%s"' % (application, limit)


def ctl(*arguments):
    return subprocess.run([BIN / 'resumelbctl', *arguments], capture_output=True, text=True, timeout=LIMIT)


def table(lb, *arguments):
    """The rows of resumelbctl limits, by their first column."""
    r = ctl('limits', '-a', lb.admin, *arguments)
    assert r.returncode == 0, r.stderr
    return {line.split()[0]: line.split() for line in r.stdout.splitlines() if line.startswith('  ')}


def one_holds_one_waits_one_is_rejected(lb, target):
    asked = ask(lb, 2, target)
    waits(lb, 1)
    assert lb.get(target, 'a.example').status == 503
    return asked


PAGES = {'key': '{PATH_INFO}', 'workers': 1, 'maxqueue': 2, 'timeout': '10m', 'slots': 7}


def test_a_counter_shows_holders_waiters_and_rejections(world, app):
    lb = balancer(world, app, {'pages': PAGES})
    asked = one_holds_one_waits_one_is_rejected(lb, '/slow')
    limit = limits(lb)['pages']
    assert limit['in_force'] is True and limit['origin'] == 'yaml'
    assert limit['settings']['workers'] == {'value': '1', 'origin': 'yaml'}
    f = limit['figures']
    assert (f['where'], f['mode'], f['shadow']) == ('local', 'each', False)
    assert (f['workers'], f['maxqueue'], f['timeout_s'], f['slots']) == (1, 2, 600, 7)
    assert (f['held'], f['waiting'], f['keys'], f['acquired']) == (1, 1, 1, 1)
    assert (f['rejected_full'], f['rejected_timeout'], f['waited_s'], f['top']) == (1, 0, 0, [])
    assert f['longest']['key'] == 'pages:/slow' and f['longest']['for_s'] >= 0
    seen = metrics(lb)
    assert seen['limit_held', of()] == 1 and seen['limit_waiting', of()] == 1
    assert seen['limit_rejected_full_total', of()] == 1 and seen['limit_slots', of()] == 7
    assert seen['limit_longest_holder_seconds', of()] >= f['longest']['for_s']
    app.let_all_go()
    all_ok(asked)
    wait_until(lambda: figures(lb)['held'] == 0, 'both to be over')
    f = figures(lb)
    assert (f['waiting'], f['keys'], f['acquired'], f['longest']) == (0, 0, 2, None)
    (top,) = f['top']
    assert top['key'] == 'pages:/slow' and top['waits'] == 1 and 0 < top['waited_s'] == f['waited_s']
    assert f['waited_acquired_s'] > 0 and f['waited_timeout_s'] == 0
    assert metrics(lb)['limit_waited_seconds_total', of()] == pytest.approx(f['waited_s'])


def test_a_time_out_and_a_client_that_left_are_distinguished(world, app):
    lb = balancer(world, app, {'pages': dict(PAGES, timeout='200ms', maxqueue=100)})
    ask(lb, 1, '/slow')
    app.under_way(1)
    assert lb.get('/slow', 'a.example').status == 503
    lb.reload({'limits': {'pages': dict(PAGES, maxqueue=100)}})
    wait_until(lambda: figures(lb)['timeout_s'] == 600, 'the longer time-out')
    assert figures(lb)['held'] == 1, 'a counter outlives a change of its limit'
    leaver = Asked(lb.address, '/slow')
    waits(lb, 1)
    leaver.leave()
    waits(lb, 0)
    wait_until(lambda: figures(lb)['abandoned'] == 1, 'it to be counted')
    f = figures(lb)
    assert (f['rejected_timeout'], f['rejected_full'], f['waiting']) == (1, 0, 0)
    assert f['waited_timeout_s'] > 0 and f['top'][0]['waits'] == 2
    seen = metrics(lb)
    assert seen['limit_rejected_timeout_total', of()] == 1 and seen['limit_abandoned_total', of()] == 1


def test_coalesced_and_stale_responses_and_stored_responses_are_counted(world):
    app = HeldApp({'/page': lambda c, number: c.respond(b'x' * 1000, headers=[('Cache-Control', 'max-age=60')])})
    try:
        lb = balancer(world, app, {'once': {'mode': 'any', 'workers': 1, 'maxqueue': 3, 'timeout': '10m', 'on_full': 'stale'}})
        asked = ask(lb, 3, '/page')
        waits(lb, 2)
        app.let_go()
        all_ok(asked)
        asked = ask(lb, 3, '/page')
        waits(lb, 2)
        assert lb.get('/page', 'a.example').status == 200
        app.let_all_go()
        all_ok(asked)
        # counted shortly after the response was sent
        wait_until(lambda: [figures(lb, 'once')[k] for k in ('held', 'coalesced', 'stale')] == [0, 4, 1], 'all to be counted')
        f, stored = figures(lb, 'once'), lb.app()['stored_responses']
        assert (f['waiting'], f['rejected_full'], f['mode']) == (0, 0, 'any')
        assert f['waited_done_s'] > 0
        assert (stored['responses'], stored['stored'], stored['hits_coalesced'], stored['hits_stale']) == (1, 2, 4, 1)
        assert stored['bytes'] > 1000
        seen = metrics(lb)
        assert seen['limit_coalesced_total', of('once')] == 4
        assert seen['stored_bytes', 'application="default"'] == stored['bytes']
        out = ctl('limits', '-a', lb.admin).stdout
        assert 'responses: 4 coalesced, 1 stale' in out
    finally:
        app.let_all_go()
        app.server.close()


def test_a_shadow_states_what_it_would_have_done(world, app):
    lb = balancer(world, app, {'trial': {'key': '{PATH_INFO}', 'workers': 1, 'maxqueue': 2, 'shadow': True}})
    asked = ask(lb, 3, '/slow')
    app.under_way(3)
    f = figures(lb, 'trial')
    assert (f['shadow'], f['held'], f['waiting'], f['shadow_busy'], f['shadow_full']) == (True, 3, 0, 1, 1)
    out = ctl('limits', '-a', lb.admin).stdout
    assert 'trial: 1 would have been rejected (shadow)' in out and 'trial: 1 would have waited (shadow)' in out
    app.let_all_go()
    all_ok(asked)


def test_a_counter_whose_rule_is_gone_is_not_shown(world, app):
    lb = balancer(world, app, {'pages': PAGES, 'other': PAGES})
    asked = ask(lb, 1, '/slow')
    assert set(limits(lb)) == {'pages', 'other'}
    lb.reload({'limits': {'other': PAGES}})
    wait_until(lambda: set(limits(lb)) == {'other'}, 'one of them')
    assert ('limit_held', of()) not in metrics(lb)
    assert metrics(lb)['limit_held', of('other')] == 1
    app.let_all_go()
    all_ok(asked)


def test_a_node_of_the_tree_that_counts_nothing_is_shown_with_the_reason(world, app):
    tree = world.directory / 'tree'
    (tree / 'limits' / 'lame').mkdir(parents=True)
    (tree / 'limits' / 'lame' / 'properties.json').write_text('{"maxqueue": 5}')
    lb = balancer(world, app, {'pages': PAGES}, tree='directory:%s' % tree)
    lame = wait_until(lambda: limits(lb).get('lame'), 'the node to be seen')
    assert lame['in_force'] is False and lame['figures'] is None and lame['why']
    assert 'lame: not effective: ' + lame['why'] in ctl('limits', '-a', lb.admin).stdout
    assert ('limit_held', of('lame')) not in metrics(lb)


# ---- daemons ----

def daemons(lb):
    return {d['name']: d for d in lb.app()['pool_counter_servers']}


def test_a_daemon_shows_its_connections_over_all_loops(world, app):
    d = Poolcounterd()
    try:
        lb = balancer(world, app, {'pages': dict(PAGES, where='daemon')}, pool_counter_servers=[d.address])
        assert daemons(lb) == {d.address: {
            'name': d.address, 'address': d.address, 'suspended': False, 'connections': 0, 'idle': 0}}
        asked = ask(lb, 2, '/slow')
        wait_until(lambda: (f := figures(lb))['held'] == 1 and f['waiting'] == 1, 'the daemon to say so')
        assert (figures(lb)['where'], figures(lb)['longest'], figures(lb)['acquired']) == ('daemon', None, 1)
        # A probe may have left an idle connection.
        wait_until(lambda: (s := daemons(lb)[d.address])['connections'] - s['idle'] == 2, 'a connection for each of them')
        app.let_all_go()
        all_ok(asked)
        wait_until(lambda: [figures(lb)[k] for k in ('held', 'waiting', 'acquired')] == [0, 0, 2], 'both to be over')
        wait_until(lambda: daemons(lb)[d.address]['idle'] >= 1, 'an idle one')
        assert figures(lb)['waited_s'] > 0
        server = 'application="default",server="%s"' % d.address
        assert metrics(lb)['pool_counter_server_idle', server] >= 1
    finally:
        d.stop()


def test_a_daemon_that_is_not_there_is_left_alone_and_what_passes_is_counted(world, app):
    app.let_all_go()
    nobody = '127.0.0.1:%d' % free_port()
    lb = balancer(world, app, {
        'open': {'where': 'daemon', 'match': {'path': 'prefix:/open'}},
        'closed': {'where': 'daemon', 'on_unreachable': 'closed', 'match': {'path': 'prefix:/closed'}}},
        pool_counter_servers=[nobody])

    def suspended():
        lb.get('/open', 'a.example')
        return daemons(lb)[nobody]['suspended']
    wait_until(suspended, 'it to be left alone')
    assert lb.get('/closed', 'a.example').status == 503
    assert figures(lb, 'open')['unreachable_open'] > 0 and figures(lb, 'closed')['unreachable_closed'] == 1
    assert 'closed: 1 rejected, daemon unreachable' in ctl('limits', '-a', lb.admin).stdout
    # The load balancer backs off repeatedly; after a back-off the tool prints another text.
    wait_until(lambda: suspended() and re.search(re.escape(nobody) + r' +suspended', ctl('limits', '-a', lb.admin).stdout),
               'the tool to say so')
    wait_until(lambda: suspended() and metrics(lb)['pool_counter_server_suspended', 'application="default",server="%s"' % nobody] == 1,
               'the figure')


# ---- resumelbctl ----

def test_resumelbctl_prints_a_row_for_each_counter(world, app):
    lb = balancer(world, app, {'pages': PAGES, 'quiet': {'workers': 3, 'mode': 'any'}})
    asked = one_holds_one_waits_one_is_rejected(lb, '/slow')
    rows = table(lb)
    assert rows['limit'][:7] == ['limit', 'where', 'mode', 'held', 'workers', 'slots', 'waiting']
    assert rows['pages'][1:9] == ['local', 'each', '1', '1', '7', '1', '1', '1']
    assert rows['pages'][-1] == 'pages:/slow'
    assert rows['quiet'][1:9] == ['local', 'any', '1', '3', '-', '0', '1', '0'], 'the waiting request has not reached this limit yet'
    app.let_all_go()
    all_ok(asked)
    wait_until(lambda: figures(lb)['top'], 'the wait to be over')
    assert table(lb)['pages:/slow'][-1] == '1'
    r = ctl('limits', '-a', lb.admin, 'default')
    assert r.returncode == 0 and r.stdout.startswith('default:\n')


def test_resumelbctl_gives_the_page_as_json_and_clear_errors(world, app):
    lb = balancer(world, app, {'pages': PAGES})
    page = json.loads(ctl('limits', '-a', lb.admin, '--json').stdout)
    assert [limit['name'] for limit in page['applications']['default']['limits']] == ['pages']
    r = ctl('limits', '-a', lb.admin, 'nowhere')
    assert r.returncode == 1 and "has no application 'nowhere'" in r.stderr and not r.stdout
    r = ctl('limits', '-a', '127.0.0.1:%d' % free_port())
    assert r.returncode == 1 and r.stderr and not r.stdout
    r = ctl('limits', '-a', lb.admin, 'default', 'more')
    assert r.returncode == 2 and 'more' in r.stderr


def test_an_application_without_counters_reports_it_and_has_no_series(world, app):
    lb = world.resumelb({'workers': [app.address]})
    assert lb.app()['limits'] == [] and lb.app()['pool_counter_servers'] == []
    assert ctl('limits', '-a', lb.admin).stdout == 'default: no limits\n'
    assert not [name for name, _ in metrics(lb) if name.startswith(('limit_', 'pool_counter_'))]


def accepts(admin):
    try:
        return get(admin, '/healthz', host=admin).status == 200
    except OSError:
        return False


def test_resumelbctl_shows_the_types_and_keys_of_a_pool_counter_daemon(world):
    admin = '127.0.0.1:%d' % free_port()
    d = Daemon(world, config={'admin': {'address': admin}})
    holder, = d.holders('ACQ4ME pages:%22a 1 9 60')
    waiter = d.waiter('ACQ4ME pages:%22a 1 9 60')
    wait_until(lambda: accepts(admin), 'its admin')     # which starts after the daemon itself
    r = ctl('limits', '-a', admin)
    assert r.returncode == 0 and r.stdout.startswith('resumelb-poolcounter '), r.stderr
    rows = {line.split()[0]: line.split()[1:4] for line in r.stdout.splitlines()}
    assert rows['pages'] == ['1', '1', '1']
    assert re.search(r'^  longest holder: pages:%22a by 127\.0\.0\.1:\d+ for [0-9.]+ s$', r.stdout, re.M), r.stdout
    assert holder.ask('RELEASE') == 'RELEASED' and waiter.line() == 'LOCKED'
    assert re.search(r'^  pages:%22a +[0-9.]+ s +1$', ctl('limits', '-a', admin).stdout, re.M)
    r = ctl('limits', '-a', admin, 'shop')
    assert r.returncode == 1 and "has no application 'shop'" in r.stderr


# ---- hostile keys ----

def test_hostile_bytes_of_a_key_stay_text_everywhere(world, app):
    lb = balancer(world, app, {'pages': PAGES})
    asked = one_holds_one_waits_one_is_rejected(lb, HOSTILE)
    assert figures(lb)['longest']['key'] == HOSTILE_KEY
    shown = 'pages:/\\x22><script>alert(1)</script>\'\\x5c%25%7F%0A'
    assert table(lb)['pages'][-1] == shown
    app.let_all_go()
    all_ok(asked)
    wait_until(lambda: figures(lb)['top'], 'the wait to be over')
    assert figures(lb)['top'][0]['key'] == HOSTILE_KEY
    assert shown in table(lb)
    text = get(lb.admin, '/metrics', host=lb.admin).text
    assert '<script' not in text and 'limit_held' in text, 'keys are not labels'


TABLE = 'Array.from(document.querySelectorAll(\'[aria-label="%s"] tbody tr\'), r => Array.from(r.cells, c => c.textContent))'


def test_the_page_shows_holders_waiters_and_rejections_with_hostile_keys_as_text(world, app, browser):
    daemon = Poolcounterd()
    lb = balancer(world, app, {'pages': PAGES, 'afar': {'match': {'path': '/afar'}, 'where': 'daemon', 'workers': 3},
                               'seen': {'match': {'path': '/seen'}, 'workers': 1, 'shadow': True}},
                  pool_counter_servers=[daemon.address])
    try:
        asked = one_holds_one_waits_one_is_rejected(lb, HOSTILE)
        page = get(lb.admin, '/', host=lb.admin)
        assert "default-src 'none'" in page['Content-Security-Policy'] and '<script>alert' not in page.text
        assert re.findall(r'<script[^>]*>', page.text) == ['<script type="module" src="/page.js">']
        browser.open_status(lb.admin)
        rows = wait_until(lambda: {r[0]: r[1:] for r in browser.js(TABLE % 'Limits') or ()}, 'the table')
        assert rows['pages'][:9] == ['each', '1', '1 a key, 7 in all', '1', '1', '0', '0', '0', '0']
        assert rows['pages'][10].endswith(' ' + HOSTILE_KEY)
        assert rows['afar'][0] == 'each, at a daemon' and rows['afar'][10] == DASH and rows['seen'][0] == 'each, shadow'
        assert browser.js(TABLE % 'Pool counter daemons')[0][:2] == [daemon.address, 'in use']
        app.let_all_go()
        all_ok(asked)
        key, waited, waits_n = wait_until(lambda: (browser.js(TABLE % 'Keys most waited for') or [None])[0], 'the key, live')
        assert key == HOSTILE_KEY and waited != DASH and waits_n == '1'
        assert browser.complaints == []
    finally:
        daemon.stop()
    script = get(lb.admin, '/page.js', host=lb.admin).text + get(lb.admin, '/status.js', host=lb.admin).text
    for way in ('innerHTML', 'outerHTML', 'insertAdjacentHTML', 'document.write', 'DOMParser', 'eval('):
        assert way not in script, way


def test_the_page_of_a_pool_counter_daemon_shows_types_and_keys_as_text(world, browser):
    admin = '127.0.0.1:%d' % free_port()
    d = Daemon(world, config={'admin': {'address': admin}, 'max_types': 2})
    holder, = d.holders('ACQ4ME <b>:1 1 9 0')
    d.holders('ACQ4ME two:1 1 9 0', 'ACQ4ME three:1 1 9 0', 'ACQ4ME four:1 1 9 0')
    waiter = d.waiter('ACQ4ME <b>:1 1 9 9999')
    wait_until(lambda: accepts(admin), 'its admin')
    browser.open_status(admin)
    rows = {r[0]: r[1:] for r in browser.js(TABLE % 'Types of keys')}
    assert rows['<b>'][:3] == ['1', '1', '1'] and rows['two'][:2] == ['1', '0'] and rows['all others'][0] == '2'
    assert re.search(r'^<b>:1, for [0-9.]+ m?s, by 127\.0\.0\.1:%d$' % holder.sock.getsockname()[1], browser.text(), re.M), browser.text()
    assert holder.ask('RELEASE') == 'RELEASED' and waiter.line() == 'LOCKED'
    key, waited, _, waits_n = wait_until(lambda: (browser.js(TABLE % 'Keys most waited for') or [None])[0], 'the key, live')
    assert key == '<b>:1' and waited != DASH and waits_n == '1'
    assert browser.js('document.querySelectorAll("main b").length') == 0
    assert browser.complaints == []
    for link in browser.js('[...document.querySelectorAll("nav a")].map(a => a.getAttribute("href"))'):
        assert get(admin, link, host=admin).status == 200, link


def test_a_listener_of_the_page_does_not_keep_the_daemon_from_stopping(world):
    admin = '127.0.0.1:%d' % free_port()
    d = Daemon(world, config={'admin': {'address': admin}})
    wait_until(lambda: accepts(admin), 'its admin')
    x = Listener(admin)
    assert x.event()['counters']['held'] == 0
    holder, = d.holders('ACQ4ME a:b 1 1 0')
    wait_until(lambda: x.event()['counters']['held'] == 1, 'the holder')
    assert x.kind == 'delta'
    d.process.kill(signal.SIGTERM)
    assert d.process.wait() == 0
    x.close()
