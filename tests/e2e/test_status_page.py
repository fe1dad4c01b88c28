# SPDX-License-Identifier: Apache-2.0
"""The status page in Debian's Chromium: live updates, keyboard use, hostile names, too many listeners."""
import http.client
import json
import os
import select
import signal
import socket
import threading

import pytest
from support.base import LIMIT, freeze, wait_until
from support.http import get
from support.scripted import hello, serve

HOSTILE = '"><script>document.title=1</script><img/src=x>'


@pytest.fixture
def lb(world):
    workers = [world.scripted(serve(hello)) for _ in range(3)]
    lb = world.resumelb({'workers': [w.address for w in workers], 'history': 5, 'pool': {'variance': 7.5},
                         'tree': 'directory:%s' % (world.directory / 'tree')})
    lb.names = [w.address for w in workers]
    for i in range(30):
        assert lb.get(host='class-%d.example' % (i % 3)).status == 200
    wait_until(lambda: (app := lb.app())['now']['requests_per_s'] > 0 and len(app['map']['classes']) == 3, 'all requests to be noted')
    return lb


def the_page_shows_what_there_is_and_loads_only_what_is_ours(lb, b):
    b.open_status(lb.admin)
    shown = b.text()
    for name in lb.names + ['class-0.example', 'Workers by class', 'to skilled workers', 'Workers', 'Classes', 'Events',
                            'Settings of the application', 'Settings of the program']:
        assert name in shown, name
    assert b.js('[...document.querySelectorAll(".settings tr")].map(r => [...r.cells].map(c => c.textContent).join(" ")).find(t => t.startsWith("variance"))'
                ).split() == ['variance', '7.5', 'yaml']
    assert b.js('document.querySelectorAll("table.map tbody tr").length') == 6, 'traffic and skills'
    assert b.js('document.querySelectorAll("table.map tbody td.m8").length') >= 1, 'a class that has one worker'
    assert b.complaints == []
    base = 'http://%s/' % lb.admin
    assert b.requests and all(r.startswith(base) for r in b.requests), b.requests
    for link in b.js('[...document.querySelectorAll("nav a")].map(a => a.getAttribute("href"))'):
        assert get(lb.admin, link, host=lb.admin).status == 200, link


def the_page_is_live_and_can_be_paused_sorted_and_searched_by_keyboard(lb, b):
    b.renew()
    b.open_status(lb.admin)
    assert lb.get(host='fresh.example').status == 200
    wait_until(lambda: 'fresh.example' in b.text(), 'the new class to be shown')
    # pause, by keyboard
    b.js('document.getElementById("pause").focus()')
    b.press('Enter')
    wait_until(lambda: b.js('document.getElementById("live").textContent') == 'paused', 'it to be paused')
    assert lb.get(host='fresher.example').status == 200
    wait_until(lambda: any(c['name'] == 'fresher.example' for c in lb.app()['classes_now']), 'it to be known')
    assert 'fresher.example' not in b.text()
    b.press('Enter')
    wait_until(lambda: 'fresher.example' in b.text(), 'it to continue')
    # sort by name; the order is kept over updates
    b.js('document.querySelector("[aria-label=Classes] th button").focus()')
    b.press('Enter')
    names = lambda: b.js('[...document.querySelectorAll("[aria-label=Classes] tbody th")].map(t => t.innerText)')
    assert names() == sorted(names()) and len(names()) == 5
    assert lb.get(host='a-first.example').status == 200
    wait_until(lambda: names()[0] == 'a-first.example', 'the new one to be sorted in')
    assert b.js('document.activeElement.textContent') == 'class', 'the focus stays'
    assert b.js('document.activeElement.closest("th").getAttribute("aria-sort")') == 'ascending'
    # search
    b.js('document.getElementById("q").focus()')
    b.type('fresh')
    wait_until(lambda: names() == ['fresh.example', 'fresher.example'], 'the search')
    assert b.js('location.search') == '?q=fresh'
    assert b.complaints == []


def every_control_is_reached_by_the_tab_key(lb, b):
    b.renew()
    b.open_status(lb.admin)
    seen = []
    for _ in range(12):
        b.press('Tab')
        seen.append(b.js('document.activeElement.id || document.activeElement.textContent.trim()'))
    assert seen[0] == 'Skip to content', 'the first link skips the header'
    assert seen[1:3] == ['q', 'pause'] and seen[3:8] == ['status', 'resumes', 'settings', 'events', 'metrics'], seen


def the_page_follows_the_scheme_and_fits_a_phone(lb, b, dark):
    b.renew(width=390, height=844, dark=dark, mobile=True)
    b.open_status(lb.admin)
    ground = [int(x) for x in b.js('getComputedStyle(document.body).backgroundColor')[4:-1].split(',')]
    assert (sum(ground) < 200) == dark, ground
    assert b.js('document.documentElement.scrollWidth') <= 390, 'no sideways scrolling of the page'
    assert b.picture()[:4] == b'\x89PNG'


def without_scripts_the_page_names_the_tool(lb, b):
    b.renew(scripts=False)
    b.call('Page.navigate', url='http://%s/' % lb.admin)
    wait_until(lambda: 'resumelbctl status' in b.html(), 'the page')
    assert b.complaints == [] and all('page.js' not in r for r in b.requests)


def an_explanation_is_a_click_away(lb, b):
    b.renew()
    b.open_status(lb.admin)
    (link,) = b.js('[...document.querySelectorAll("[aria-label=Classes] th a")].filter(a => a.textContent === "class-1.example")'
                   '.map(a => a.getAttribute("href"))')
    found = json.loads(get(lb.admin, link, host=lb.admin).text)
    assert found['class'] == 'class-1.example' and found['worker'] in lb.names


def test_the_page_in_a_browser(lb, browser):
    """Runs the checks one after the other, each on a new page."""
    the_page_shows_what_there_is_and_loads_only_what_is_ours(lb, browser)
    every_control_is_reached_by_the_tab_key(lb, browser)
    for dark in (False, True):
        the_page_follows_the_scheme_and_fits_a_phone(lb, browser, dark)
    without_scripts_the_page_names_the_tool(lb, browser)
    an_explanation_is_a_click_away(lb, browser)
    the_page_is_live_and_can_be_paused_sorted_and_searched_by_keyboard(lb, browser)


def test_a_page_whose_server_sends_nothing_shows_for_how_long(lb, browser):
    browser.open_status(lb.admin)
    label = lambda: browser.js('document.getElementById("live").textContent')
    wait_until(lambda: label() == 'live', 'the stream')
    freeze(lb.process.pid)
    try:
        wait_until(lambda: label() == 'no data for 5 s', 'the label')
        wait_until(lambda: label() == 'no data for 10 s', 'the label')
    finally:
        os.kill(lb.process.pid, signal.SIGCONT)
    wait_until(lambda: label() == 'live', 'the stream to continue')


class Relay:
    """
    A tunnel to ADDRESS. After `die()` its connections with a stream stay open and carry nothing more, and new ones work. Idle
    ones are closed, as they are in a browser that has shown the page for long.
    """

    def __init__(self, address):
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.address = '127.0.0.1:%d' % self.listener.getsockname()[1]
        self.to, self.pairs, self.streaming, self.dead = address.split(':'), {}, set(), []
        self.stopped, self.wake = socket.socketpair()
        self.died = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while True:
            for s in select.select([self.listener, self.stopped, *self.pairs], [], [])[0]:
                if s is self.stopped:
                    if not s.recv(1):
                        return
                    for x in [x for x in self.pairs if x not in self.streaming and self.pairs[x] not in self.streaming]:
                        x.close()
                    self.dead += [x for x in self.pairs if x.fileno() >= 0]
                    self.pairs.clear()
                    self.died.set()
                    break
                if s is self.listener:
                    client, server = s.accept()[0], socket.create_connection((self.to[0], int(self.to[1])))
                    self.pairs.update({client: server, server: client})
                elif s in self.pairs:
                    self.move(s)

    def move(self, s):
        """Bytes, or the end of both directions."""
        try:
            data = s.recv(65536)
            if data.startswith(b'GET /live'):
                self.streaming.add(s)
            self.pairs[s].sendall(data)
        except OSError:
            data = b''
        if not data:
            for x in (s, self.pairs[s]):
                del self.pairs[x]
                x.close()

    def die(self):
        self.wake.send(b'x')
        assert self.died.wait(LIMIT)

    def close(self):
        self.wake.close()
        self.thread.join(LIMIT)
        for s in (self.listener, self.stopped, *self.pairs, *self.dead):
            s.close()


def test_a_page_whose_tunnel_is_dead_connects_again(world, lb, browser):
    relay = Relay(lb.admin)
    world.closers.append(relay.close)
    browser.open_status(relay.address)
    label = lambda: browser.js('document.getElementById("live").textContent')
    wait_until(lambda: label() == 'live', 'the stream')
    relay.die()
    assert relay.dead
    wait_until(lambda: label() == 'no data for 25 s', 'the label')
    wait_until(lambda: label() == 'live', 'a stream by another connection')
    assert lb.get(host='after.example').status == 200
    wait_until(lambda: 'after.example' in browser.text(), 'the new class to be shown')


def test_hostile_names_are_text(world, browser):
    worker = world.scripted(serve(hello))
    absent = 'unix:/nowhere/"><img src=x>'
    lb = world.resumelb({'workers': [worker.address, absent],
                         'classifier': {'regex': {'variable': 'HTTP_X_CLASS', 'pattern': '^(?<class>.*)$'}}})
    assert lb.get('/', headers=[('X-Class', HOSTILE)]).status == 200
    wait_until(lambda: any(c['name'] == HOSTILE for c in lb.app()['classes_now']), 'the class')
    browser.open_status(lb.admin)
    cells = lambda label: browser.js('[...document.querySelectorAll("[aria-label=%s] tbody th")].map(t => t.textContent)' % label)
    assert cells('Classes') == [HOSTILE]
    assert absent in cells('Workers'), cells('Workers')
    assert browser.js('document.title') == 'resumelb' and browser.js('document.querySelectorAll("main script, img").length') == 0
    browser.js('document.getElementById("q").focus()')
    browser.type(HOSTILE)
    wait_until(lambda: browser.js('new URLSearchParams(location.search).get("q")') == HOSTILE, 'the search')
    wait_until(lambda: cells('Workers') == [], 'no worker to be found')
    assert cells('Classes') == [HOSTILE] and browser.complaints == []


def test_the_page_is_strict_and_takes_any_query(lb):
    r = get(lb.admin, '/', host=lb.admin)
    csp = r['Content-Security-Policy']
    assert "default-src 'none'" in csp and 'unsafe' not in csp and "frame-ancestors 'none'" in csp
    assert r.text.count('<script') == 1 and ' style="' not in r.text and ' onload' not in r.text
    for query in ('?q=%', '?q=%zz%00', '?q=' + 'a' * 5000, '?x=1', '?'):
        assert get(lb.admin, '/' + query, host=lb.admin).status == 200, query
        x = Listener(lb.admin, query)
        assert x.event()['status']['program'] == 'resumelb', query
        x.close()


class Listener:
    """A client of the stream that reads on demand."""

    def __init__(self, admin, query=''):
        host, port = admin.split(':')
        self.sock = socket.create_connection((host, int(port)), LIMIT)
        self.sock.sendall(('GET /live%s HTTP/1.1\r\nHost: %s\r\n\r\n' % (query, admin)).encode())
        self.response = http.client.HTTPResponse(self.sock, method='GET')
        self.response.begin()

    def event(self):
        """Receives the next event and returns the current state. `kind` is the kind of the event: 'whole' or 'delta'."""
        lines, self.kind = [], 'whole'
        while True:
            line = self.response.readline()
            assert line, 'the stream has ended'
            if line == b'\n':
                self.pieces = b'\n'.join(lines).split(b',') if self.kind == 'whole' else list(self.changed(lines))
                return json.loads(b','.join(self.pieces))
            if line.startswith(b'event: '):
                self.kind = line[7:].decode().rstrip('\n')
                continue
            assert line.startswith(b'data: '), line
            lines.append(line[6:].rstrip(b'\n'))

    def changed(self, steps):
        for step in steps:
            if step[:1] == b'+':
                yield step[1:]
            else:
                start, count = map(int, step[1:].split(b','))
                assert step[:1] == b'=' and count > 0 and start + count <= len(self.pieces), step
                yield from self.pieces[start:start + count]

    def close(self):
        self.response.close()
        self.sock.close()


def status_of_one_more(lb):
    x = Listener(lb.admin)
    x.close()
    return x.response.status


def test_listeners_are_bounded_and_each_has_its_own_search(lb):
    listeners = [Listener(lb.admin, '?q=class-%d' % (i % 2)) for i in range(16)]
    assert all(x.response.status == 200 and x.response.getheader('Content-Type') == 'text/event-stream' for x in listeners)
    for i, x in enumerate(listeners[:4]):
        event = x.event()
        assert set(event) == {'status', 'settings', 'events'}
        assert [c['name'] for c in event['status']['applications']['default']['classes_now']] == ['class-%d.example' % (i % 2)]
    one_more = Listener(lb.admin)
    assert one_more.response.status == 503
    one_more.close()
    listeners[0].close()
    wait_until(lambda: status_of_one_more(lb) == 200, 'room again')
    assert get(lb.admin, '/live', host='evil.example').status == 421
    for x in listeners[1:]:
        x.close()


def test_a_listener_gets_what_has_changed_and_then_has_what_a_new_one_gets_whole(lb):
    first = Listener(lb.admin)
    first.event()
    assert first.kind == 'whole'
    second = Listener(lb.admin)
    whole = second.event()
    assert second.kind == 'whole'
    seen = [first.event() for _ in range(3)]
    assert first.kind == 'delta'
    assert whole in seen, 'both have the same text of one tick'
    lb.get(host='quite-another.example')

    def told():
        classes = first.event()['status']['applications']['default']['classes_now']
        return any(c['name'] == 'quite-another.example' for c in classes) and first.kind
    assert wait_until(told, 'the news') == 'delta'
    first.close()
    second.close()


def test_a_listener_does_not_keep_the_load_balancer_from_stopping(lb):
    x = Listener(lb.admin)
    x.event()
    lb.process.kill(signal.SIGTERM)
    assert lb.process.wait() == 0
    x.close()


def test_settings_state_where_each_value_is_from_and_what_was_rejected(lb, world, browser):
    wait_until(lambda: lb.json()['uptime_s'] > 1.5, 'a first look')
    settings = lb.json('/settings.json')
    app = settings['applications']['default']
    assert app['settings']['variance'] == {'value': '7.5', 'origin': 'yaml'}
    assert settings['program']['settings']['threads'] == {'value': '2', 'origin': 'yaml', 'when': 'boot'}
    assert settings['program']['settings']['log_level']['origin'] == 'default'
    tree = world.directory / 'tree'
    tree.mkdir(exist_ok=True)
    (tree / 'properties.json').write_text(json.dumps({'variance': 0.0001, 'backlog_history': 33}))
    wait_until(lambda: lb.json('/settings.json')['applications']['default']['rejected'], 'the rejection')
    browser.open_status(lb.admin)
    assert 'Setting variance = 0.0001 of the tree is rejected: ' in browser.text()
    events = wait_until(lambda: [e for e in lb.json('/events')['events'] if e['kind'] == 'rejected'], 'the event')
    assert events[0]['subject'] == 'variance' and events[0]['bad'] is True
    changed = wait_until(lambda: [e for e in lb.json('/events')['events'] if e['subject'] == 'backlog_history'], 'it')
    assert '-> 33 (tree)' in changed[0]['text'], changed
    last = lb.json('/events')['events'][-1]['id']
    assert lb.json('/events?after=%d' % last)['events'] == []


def test_events_reports_workers_that_come_and_go(lb, world):
    fourth = world.scripted(serve(hello))
    wait_until(lambda: lb.json('/status.json')['uptime_s'] > 1.5, 'a first look')
    lb.reload({'workers': lb.names[:2] + [fourth.address]})
    kinds = lambda: {(e['kind'], e['subject']) for e in lb.json('/events')['events']}
    wait_until(lambda: {('joined', fourth.address), ('left', lb.names[2])} <= kinds(), 'both events')
    assert ('joined', lb.names[0]) not in kinds(), 'no event for a worker that was there from the start'


def test_status_json_has_what_the_original_reported(lb):
    app = lb.app()
    assert app['backlog'] == 0 and app['mean_backlog'] > 0
    for w in app['workers']:
        assert w['name'] and w['backlog'] == 0 and w['mean_backlog'] >= 0 and w['oldest_time'] is None
    now = app['now']
    assert now['p50_s'] > 0 and now['p99_s'] >= now['p50_s'] and 0 <= now['skilled_share'] <= 1
    wait_until(lambda: sum(w.get('requests_per_s', 0) for w in lb.app()['workers']) > 0, 'the rates of the workers')
    shares = {c['class']: sum(c['share']) for c in app['map']['classes']}
    assert set(shares) == {'class-%d.example' % i for i in range(3)}
    assert all(0.98 < s < 1.02 for s in shares.values()), shares
