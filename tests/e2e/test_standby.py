# SPDX-License-Identifier: Apache-2.0
"""The standby address of a worker: it replaces the primary address while that one fails, and not longer."""
import subprocess
import threading

import pytest

from support.base import BIN, LIMIT, PACE, free_port, wait_until
from support.http import Client, CutShort, get
from support.scripted import Scripted, serve
from worker_tls_support import Pki, tls_script


def load(lb, seconds_done, failed, threads=4):
    """
    Starts THREADS clients that send GETs until seconds_done is set, and append failures to FAILED. Returns the threads, and the
    number of responses of each.
    """
    good = [0] * threads

    def run(i):
        while not seconds_done.is_set():
            try:
                with Client(lb.address) as c:
                    for n in range(50):
                        r = c.request('GET', '/%d' % n, host='site%d.example' % (n % 7))
                        if r.status != 200:
                            failed.append((r.status, r.body[:200]))
                        good[i] += 1
                        if seconds_done.wait(PACE):
                            return
            except (OSError, CutShort) as e:
                failed.append(repr(e))
    ts = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
    for t in ts:
        t.start()
    return ts, good


def on_standby(lb, name):
    return lb.workers()[name]['on_standby']


def by_name(name):
    return serve(lambda c, h, b: c.respond(name))


def test_a_killed_worker_s_standby_serves_under_load_and_it_comes_back_with_its_skills(world):
    one, standby = world.gunicorn('one'), world.gunicorn('standby')
    lb = world.resumelb({'workers': [{'address': one.address, 'standby': standby.address}], 'classifier': 'host',
                         'history': 20, 'eject_time': '200ms', 'eject_time_max': '400ms'})
    done, failed = threading.Event(), []
    ts, good = load(lb, done, failed)
    try:
        wait_until(lambda: sum(good) > 200, 'some load')
        before = lb.workers()[one.address]
        assert (before['on_standby'], before['standby'], before['skills']) == (False, standby.address, 7)
        one.kill()
        wait_until(lambda: on_standby(lb, one.address), 'the standby')
        w = lb.workers()[one.address]
        assert (w['name'], w['skills'] >= 7, w['instance'] != before['instance']) == (one.address, True, True)
        at = sum(good)
        wait_until(lambda: sum(good) > at + 100, 'the standby to serve')
        one.start()
        wait_until(lambda: not on_standby(lb, one.address), 'the worker to be back')
        assert lb.workers()[one.address]['skills'] >= 7
        at = sum(good)
        wait_until(lambda: sum(good) > at + 100, 'the worker to serve')
    finally:
        done.set()
        for t in ts:
            t.join()
    assert failed == []
    assert b'"port": "one"' in lb.get('/').body
    assert lb.app()['stats']['workers_on_standby'] == 0


def test_operators_see_where_a_worker_is(world):
    standby = world.scripted(by_name(b'standby'))
    own = '127.0.0.1:%d' % free_port()
    lb = world.resumelb({'workers': [{'address': own, 'standby': standby.address}], 'eject_time': '100ms', 'eject_time_max': '100ms'})

    def shown():
        r = subprocess.run([BIN / 'resumelbctl', 'status', '-a', lb.admin], capture_output=True, text=True, timeout=LIMIT)
        assert r.returncode == 0, r.stderr
        return r.stdout
    assert 'standby ' + standby.address in shown()
    wait_until(lambda: lb.get('/').body == b'standby', 'the standby')
    assert 'at its standby ' + standby.address in shown()
    assert lb.workers()[own]['on_standby'] is True
    back = world.scripted(by_name(b'own'), port=int(own.rpartition(':')[2]))
    wait_until(lambda: lb.get('/').body == b'own', 'the worker to be back')
    assert 'at its standby' not in shown() and 'standby ' + standby.address in shown() and back.requests


def test_a_single_request_that_kills_its_worker_gets_a_response_by_the_standby(world):
    listening = []

    def dies(c):
        c.read_request()
        listening[0].close()          # first the listener is closed, then this connection
        c.reset()
    first = Scripted(dies)
    listening.append(first)
    standby = world.scripted(by_name(b'standby'))
    lb = world.resumelb({'workers': [{'address': first.address, 'standby': standby.address}]})
    r = lb.get('/')
    assert (r.status, r.body) == (200, b'standby')
    assert on_standby(lb, first.address)


def test_a_worker_whose_checks_fail_is_replaced_and_goes_back_only_when_they_pass(world):
    state = {'status': '200 OK'}

    def respond(c, head, body):
        if head.startswith(b'GET /healthz'):
            c.respond(b'x', status=state['status'])
        else:
            c.respond(b'own')
    own, standby = world.scripted(serve(respond)), world.scripted(by_name(b'standby'))
    lb = world.resumelb({'workers': [{'address': own.address, 'standby': standby.address}], 'health_check_path': '/healthz',
                         'health_check_interval': '100ms', 'health_check_unhealthy_after': 2, 'health_check_healthy_after': 2,
                         'eject_time': '100ms', 'eject_time_max': '100ms'})
    assert lb.get('/').body == b'own'
    state['status'] = '500 Oops'
    wait_until(lambda: on_standby(lb, own.address), 'the standby')
    assert lb.get('/').body == b'standby'
    checks = len(own.requests)
    wait_until(lambda: len(own.requests) > checks + 4, 'more checks of its own address, which fail')
    assert on_standby(lb, own.address)
    state['status'] = '200 OK'
    wait_until(lambda: not on_standby(lb, own.address), 'the worker to be back')
    assert lb.get('/').body == b'own'


def test_a_standby_that_is_dead_too_harms_no_other_and_the_first_to_respond_serves(world):
    own_port, standby_port = free_port(), free_port()
    own, standby = '127.0.0.1:%d' % own_port, '127.0.0.1:%d' % standby_port
    lb = world.resumelb({'workers': [{'address': own, 'standby': standby}], 'eject_time': '100ms', 'eject_time_max': '100ms',
                         'worker_wait_timeout': '100ms'})
    for _ in range(5):
        assert lb.get('/').status in (502, 503)
    s = world.scripted(by_name(b'standby'), port=standby_port)
    wait_until(lambda: lb.get('/').body == b'standby', 'the standby')
    w = world.scripted(by_name(b'own'), port=own_port)
    wait_until(lambda: lb.get('/').body == b'own', 'the worker')
    assert s.requests and w.requests


def test_a_standby_speaks_tls_as_its_worker_does(world, tmp_path):
    pki = Pki(tmp_path)
    standby = world.scripted(tls_script(pki.worker.server_context(), by_name(b'standby')))
    own_port = free_port()
    own = '127.0.0.1:%d' % own_port
    # This time-out ends a handshake that the impostor does not respond.
    lb = world.resumelb({'workers': [{'address': own, 'standby': standby.address}], 'worker_tls': {'ca': pki.ca},
                         'connect_timeout': '3s', 'eject_time': '100ms', 'eject_time_max': '100ms'})
    wait_until(lambda: lb.get('/').body == b'standby', 'the standby')
    # Another server at the primary address, without a valid certificate: the traffic stays at the standby.
    impostor = world.scripted(by_name(b'impostor'), port=own_port)
    wait_until(lambda: len(impostor.connections) > 2, 'tries of its own address')
    assert lb.get('/').body == b'standby' and impostor.requests == []


def test_a_reload_may_take_the_standby_away_and_give_another(world):
    a, b = world.scripted(by_name(b'a')), world.scripted(by_name(b'b'))
    own = '127.0.0.1:%d' % free_port()
    lb = world.resumelb({'workers': [{'address': own, 'standby': a.address}]})
    wait_until(lambda: lb.get('/').body == b'a', 'the standby')
    lb.reload({'workers': [{'address': own, 'standby': b.address}]})
    wait_until(lambda: lb.get('/').body == b'b', 'the other standby')
    lb.reload({'workers': [own]})
    wait_until(lambda: lb.get('/').status in (502, 503), 'no standby')
    assert 'on_standby' not in lb.workers()[own]


@pytest.mark.parametrize('worker, want', [
    ('{address: "127.0.0.1:9", standby: "127.0.0.1:9"}', 'is the worker itself'),
    ('{address: "127.0.0.1:9", standby: nonsense}', 'expected'),
    ('{address: "localhost:9", standby: "127.0.0.1:10"}', 'not by host name'),
    ('{address: "127.0.0.1:9", resume: stream, standby: "127.0.0.1:10"}', 'measured')])
def test_a_standby_that_makes_no_sense_is_a_mistake_of_the_configuration(tmp_path, worker, want):
    path = tmp_path / 'bad.yaml'
    path.write_text('listen: [{address: "127.0.0.1:9"}]\nworkers: [%s]\n' % worker)
    r = subprocess.run([BIN / 'resumelb', '-t', '-c', path], capture_output=True, text=True, timeout=LIMIT)
    assert r.returncode == 1 and want in r.stderr, r.stderr
