# SPDX-License-Identifier: Apache-2.0
"""Requests that kill workers: the gunicorns have an application that kills its own process for one path."""
import subprocess
import threading

from support.base import BIN, LIMIT, free_port, wait_until
from support.http import Client, get
from support.scripted import serve
from support.servers import GUNICORN

APP = '''
import os, signal

def application(environ, start_response):
    with open(os.environ["APP_LOG"], "a") as log:
        log.write(environ["PATH_INFO"] + "\\n")
    if environ["PATH_INFO"] == "/kill":
        os.kill(os.getpid(), signal.SIGKILL)
    start_response("200 OK", [("Content-Length", "5")])
    return [b"hello"]
'''


class Fragile:
    """N gunicorns with one process each, which their masters restart."""

    def __init__(self, world, n):
        self.log = world.directory / 'asked.log'
        self.log.touch()
        (world.directory / 'fragile_app.py').write_text(APP)
        self.addresses = ['127.0.0.1:%d' % free_port() for _ in range(n)]
        env = {'APP_LOG': str(self.log), 'PYTHONDONTWRITEBYTECODE': '1'}
        for i, a in enumerate(self.addresses):
            world.process([*GUNICORN, '--bind', a, '--graceful-timeout=1', 'fragile_app:application'], 'fragile%d' % i, env=env, cwd=world.directory)
        for a in self.addresses:
            wait_until(lambda: self._up(a), 'gunicorn at %s' % a)

    @staticmethod
    def _up(address):
        try:
            return get(address, '/up').status == 200
        except OSError:
            return False

    def killed(self):
        return self.log.read_text().split().count('/kill')


def start(world, addresses, **settings):
    return world.resumelb({'workers': addresses, 'pool': {'policy': 'classless'}, 'max_connections': 1, **settings})


def test_a_path_that_kills_workers_is_held_and_all_others_are_served(world):
    app = Fragile(world, 4)
    lb = start(world, app.addresses, poison_deaths=3, poison_hold='10m')
    # one GET is tried on three workers, and kills all three
    assert lb.get('/kill').status == 503
    assert app.killed() == 3
    for i in range(20):
        r = lb.get('/kill?again=%d' % i)
        assert r.status == 503 and r['Retry-After']
    assert lb.get('/%6bill').status == 503, 'the same path in another encoding'
    assert lb.get('/kill', method='POST', body=b'x').status == 503
    assert app.killed() == 3
    assert [lb.get('/page%d' % i).status for i in range(20)] == [200] * 20
    wait_until(lambda: lb.app()['outcomes']['poisoned'] == 23, 'the count')
    page = lb.app()
    assert page['stats']['poison_holds'] == 1
    held, = page['poison']
    assert (held['path'], held['class']) == ('/kill', 'test.example')
    assert 0 < held['for_s'] <= 600
    lb.process.wait_logged('poison-blocked')
    assert 'resumelb_poison_holds_total{application="default"} 1' in get(lb.admin, '/metrics', host=lb.admin).text
    shown = subprocess.run([BIN / 'resumelbctl', '-a', lb.admin, 'status'], capture_output=True, text=True, timeout=LIMIT).stdout
    assert 'kills workers, blocked: class test.example, path /kill' in shown


def test_posts_that_are_not_tried_again_add_up(world):
    app = Fragile(world, 4)
    lb = start(world, app.addresses, poison_deaths=3, poison_hold='10m')

    def post():
        r = lb.get('/kill', method='POST', body=b'x')
        assert r.status in (502, 503)
        return r.status == 503
    wait_until(post, 'the path to be held')
    assert app.killed() == 3
    assert lb.get('/other', method='POST', body=b'x').status == 200


def test_after_its_time_a_held_path_is_tried_again(world):
    healed = []

    def respond(c, head, body):
        if not healed and b'/kill' in head:
            c.reset()
        else:
            c.respond(b'hello')
    workers = [world.scripted(serve(respond)) for _ in range(4)]
    lb = start(world, [w.address for w in workers], poison_hold='200ms')
    assert lb.get('/kill').status == 503
    healed.append(True)
    wait_until(lambda: lb.get('/kill').status == 200, 'the path to be served again')
    assert lb.app()['poison'] == []


def test_the_guard_can_be_switched_off(world):
    bad = [world.scripted(lambda c: c.read_request() and c.reset()) for _ in range(4)]
    lb = start(world, [w.address for w in bad], poison_deaths=0, eject_after=0)
    for _ in range(5):
        assert lb.get('/kill').status == 502
    assert sum(len(w.requests) for w in bad) == 15
    assert lb.app()['outcomes']['poisoned'] == 0


def test_requests_that_wait_for_a_connection_are_not_sent_once_their_path_is_blocked(world):
    gate = threading.Event()

    def script(c):
        while c.read_request():
            if b'/kill' in c.server.requests[-1][0]:
                gate.wait(LIMIT)
                c.reset()
                return
            c.respond(b'hello')
    w = world.scripted(script)
    lb = start(world, [w.address], poison_deaths=1, poison_hold='10m')
    clients = []
    for i in range(6):
        c = Client(lb.address)
        c.send(target='/kill', method='POST', body=b'x')
        clients.append(c)
    wait_until(lambda: len(w.requests) == 1 and lb.app()['stats']['connection_waiting'] == 5, 'five to wait')
    gate.set()
    assert sorted(c.receive().status for c in clients) == [502] + [503] * 5
    assert len(w.requests) == 1
    wait_until(lambda: lb.app()['outcomes']['poisoned'] == 5, 'the count')
    assert lb.get('/other').body == b'hello'
    for c in clients:
        c.close()
