# SPDX-License-Identifier: Apache-2.0
"""Active checks: a worker that fails them gets no requests until it passes."""
import subprocess
import threading

from support.base import BIN, LIMIT, free_port, wait_until
from support.http import get
from support.scripted import serve


class Checked:
    """A worker with a /healthz; the test sets its response. All other requests get a response with the name of the worker."""

    def __init__(self, world, name, **kw):
        self.status, self.name = '200 OK', name
        self.gate = threading.Event()
        self.gate.set()
        self.lock, self.now, self.most = threading.Lock(), 0, 0
        self.server = world.scripted(serve(self.respond), **kw)
        self.address = self.server.address

    def respond(self, c, head, body):
        if not head.startswith(b'GET /healthz'):
            c.respond(self.name)
            return
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.gate.wait(LIMIT)
        with self.lock:
            self.now -= 1
        c.respond(b'x', status=self.status)

    def checks(self):
        return [h for h, _ in self.server.requests if h.startswith(b'GET /healthz')]


def start(world, *workers, **settings):
    return world.resumelb({'workers': [w if isinstance(w, str) else w.address for w in workers], 'pool': {'policy': 'classless'},
                           'health_check_path': '/healthz', 'health_check_interval': '100ms',
                           'health_check_unhealthy_after': 2, 'health_check_healthy_after': 2, **settings})


def state(lb, worker):
    return lb.workers()[worker if isinstance(worker, str) else worker.address]['state']


def becomes(lb, worker, wanted):
    wait_until(lambda: state(lb, worker) == wanted, '%s to be %s' % (worker, wanted))


class Choosy(Checked):
    """A worker that rejects hosts other than its own, as Django does."""

    def respond(self, c, head, body):
        if b'\r\nHost: shop.example\r\n' in head:
            super().respond(c, head, body)
        else:
            c.respond(b'DisallowedHost', status='400 Bad Request')


def test_checks_request_the_first_exact_host_of_the_application_or_the_one_that_is_set(world):
    a = Choosy(world, b'a')
    hosts = {'hosts': ['*.shop.example', 'shop.example', 'other.example']}
    lb = start(world, a, **hosts)
    wait_until(lambda: lb.app()['stats']['health_checks'] >= 3, 'checks')
    assert lb.app()['stats']['health_check_failures'] == 0
    lb.process.stop()
    other = start(world, a, hosts=['other.example'], health_check_host='shop.example')
    wait_until(lambda: other.app()['stats']['health_checks'] >= 3, 'checks')
    assert other.app()['stats']['health_check_failures'] == 0


def test_the_log_says_so_if_all_workers_reject_their_checks(world):
    a, b = Choosy(world, b'a'), Choosy(world, b'b')
    lb = start(world, a, b, hosts=['*.example'])
    wait_until(lambda: 'health-checks-rejected application=default status=400 host=127.0.0.1:' in lb.process.output(), 'the log')
    lb.reload({'health_check_host': 'shop.example'})
    becomes(lb, a, 'ready')
    becomes(lb, b, 'ready')


def test_a_worker_that_fails_its_checks_gets_no_requests_until_it_passes(world):
    a, b = Checked(world, b'a'), Checked(world, b'b')
    lb = start(world, a, b)
    assert {lb.get('/').body for _ in range(10)} == {b'a', b'b'}
    a.status = '500 Oops'
    becomes(lb, a, 'unhealthy')
    w = lb.workers()[a.address]
    assert (w['available'], w['check']['failing'], w['check']['why']) == (False, True, 'status 500')
    assert w['check']['failures'] >= 2
    assert {lb.get('/').body for _ in range(10)} == {b'b'}
    assert lb.app()['stats']['workers_unhealthy'] == 1
    a.status = '200 OK'
    becomes(lb, a, 'ready')
    assert {lb.get('/').body for _ in range(10)} == {b'a', b'b'}
    assert lb.app()['stats']['workers_unhealthy'] == 0
    assert lb.app()['stats']['health_checks'] >= lb.app()['stats']['health_check_failures'] >= 2
    head = a.checks()[0].split(b'\r\n')
    assert head[0] == b'GET /healthz HTTP/1.1' and b'Host: ' + a.address.encode() in head


def test_a_check_that_hangs_fails_and_there_is_never_a_second_one(world):
    a, b = Checked(world, b'a'), Checked(world, b'b')
    lb = start(world, a, b, health_check_timeout='150ms')
    a.gate.clear()
    becomes(lb, a, 'unhealthy')
    assert lb.workers()[a.address]['check']['why'] == 'no response in time'
    lb.change(health_check_timeout='10m')
    a.gate.set()
    becomes(lb, a, 'ready')
    assert b.most == 1


def test_while_one_check_is_in_progress_there_is_no_other(world):
    a = Checked(world, b'a')
    b = Checked(world, b'b')
    lb = start(world, a, b)
    a.gate.clear()
    wait_until(lambda: a.now == 1, 'a check to hang')
    # in the meantime the other worker is checked repeatedly
    before = len(b.checks())
    wait_until(lambda: len(b.checks()) >= before + 5, 'five checks of the other')
    assert a.most == 1
    a.gate.set()
    assert state(lb, a) == 'ready'


def test_a_worker_that_is_not_there_is_found_so_without_a_request(world):
    port = free_port()
    dead = '127.0.0.1:%d' % port
    a = Checked(world, b'a')
    lb = start(world, dead, a)
    becomes(lb, dead, 'unhealthy')
    assert lb.workers()[dead]['check']['why'] == 'connection refused'
    assert lb.app()['stats']['connect_failures'] == 0
    Checked(world, b'late', port=port)
    becomes(lb, dead, 'ready')
    assert {lb.get('/').body for _ in range(10)} == {b'a', b'late'}


def test_only_the_status_that_is_wanted_passes(world):
    a, b = Checked(world, b'a'), Checked(world, b'b')
    a.status = '204 No Content'
    b.status = '200 OK'
    lb = start(world, a, b, health_check_status=200)
    becomes(lb, a, 'unhealthy')
    assert state(lb, b) == 'ready'


def test_requests_wait_for_a_worker_when_all_are_unhealthy(world):
    a = Checked(world, b'a')
    a.status = '500 Oops'
    lb = start(world, a)
    becomes(lb, a, 'unhealthy')
    responses = []
    t = threading.Thread(target=lambda: responses.append(lb.get('/')))
    t.start()
    wait_until(lambda: lb.app()['stats']['requests_waiting'] == 1, 'the request to wait')
    a.status = '200 OK'
    t.join(LIMIT)
    assert [r.body for r in responses] == [b'a']


def test_without_a_path_no_more_checks_are_made_and_all_are_healthy(world):
    a, b = Checked(world, b'a'), Checked(world, b'b')
    a.status = '500 Oops'
    lb = start(world, a, b)
    becomes(lb, a, 'unhealthy')
    lb.reload({'health_check_path': None})
    becomes(lb, a, 'ready')
    assert lb.workers()[a.address]['available']
    made = lb.app()['stats']['health_checks']
    for _ in range(10):
        lb.get('/')
    assert lb.app()['stats']['health_checks'] == made
    lb.reload({'health_check_path': '/healthz'})
    becomes(lb, a, 'unhealthy')


def test_unhealthy_workers_are_reported(world):
    a, b = Checked(world, b'a'), Checked(world, b'b')
    a.status = '503 No'
    lb = start(world, a, b)
    becomes(lb, a, 'unhealthy')
    metrics = get(lb.admin, '/metrics', host=lb.admin).text
    assert 'resumelb_workers_unhealthy{application="default"} 1' in metrics
    lb.process.wait_logged('reason="status 503"')
    shown = subprocess.run([BIN / 'resumelbctl', '-a', lb.admin, 'status'], capture_output=True, text=True, timeout=LIMIT).stdout
    assert 'unhealthy (status 503)' in shown


def test_a_path_that_cannot_stand_in_a_request_is_rejected(world):
    path = world.directory / 'bad.yaml'
    path.write_text('listen: [{address: "127.0.0.1:0"}]\nworkers: ["127.0.0.1:1"]\nhealth_check_path: "/a b"\n')
    done = subprocess.run([BIN / 'resumelb', '-t', '-c', path], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode != 0 and 'health_check_path' in done.stderr
