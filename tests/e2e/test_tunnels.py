# SPDX-License-Identifier: Apache-2.0
"""Upgraded WebSockets count against max_tunnels, and not against max_connections, the backlog or limits."""
import concurrent.futures
import threading

import pytest
from ctl_support import ctl
from limit_support import Asked, Poolcounterd, ends, outcome
from poolcounter_support import OURS
from support.base import free_port, wait_until
from support.http import Client, get
from support.scripted import Scripted, serve
from test_agent_pool import Threaded
from test_backlog import balancer

TOKEN = 'a-token-of-these-tests'
UPGRADE = [('Connection', 'Upgrade'), ('Upgrade', 'websocket')]


class Worker:
    """
    Echoes the data of a tunnel. /held gets a response once `go` is set, /rejected rejects the upgrade, /cut closes the connection without a
    response. Any other target gets a response immediately with the name of the worker.
    """

    def __init__(self, world, name='worker', port=0):
        self.name, self.go, self.lock, self.held = name.encode(), threading.Event(), threading.Lock(), 0
        self.server = Scripted(serve(self.respond), port=port)
        self.address = self.server.address
        world.closers.append(self.close)

    def close(self):
        self.go.set()
        self.server.close()

    def respond(self, c, head, body):
        target = head.split(b' ', 2)[1]
        if target == b'/rejected':
            c.respond(b'no', '403 Forbidden')
        elif target == b'/cut':
            c.sock.shutdown(2)
        elif b'\r\nupgrade: websocket' in head.lower():
            c.write(b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
            while data := c.sock.recv(65536):
                c.write(data.upper())
        else:
            if target == b'/held':
                with self.lock:
                    self.held += 1
                self.go.wait()
            c.respond(self.name)

    def handshakes(self):
        """The number of handshakes that it has received."""
        return sum(b'\r\nupgrade: websocket' in head.lower() for head, _ in self.server.requests)


def start(world, *workers, actions=False, **settings):
    if not actions:
        return world.resumelb({'workers': [w.address for w in workers], 'resume': 'measure', **settings})
    admin = {'address': '127.0.0.1:%d' % free_port(), 'actions_token': TOKEN}
    lb = world.resumelb({'workers': [w.address for w in workers], 'resume': 'measure', 'admin': admin, **settings}, wait=False)
    lb.admin = admin['address']
    wait_until(lb.ready, 'it to be ready')
    return lb


def shake(lb, target='/ws', host='test.example'):
    """Sends a handshake. Returns the connection, which the caller must close, and the response."""
    c = Client(lb.address)
    return c, c.request('GET', target, host, headers=UPGRADE)


def tunnels(lb, count, **kw):
    """Opens COUNT tunnels."""
    opened = []
    for _ in range(count):
        c, r = shake(lb, **kw)
        assert r.status == 101, r.status
        opened.append(c)
    return opened


def tunnels_work(opened):
    for c in opened:
        c.send_raw(b'abc')
        assert c._need(3) == b'ABC'


def row(lb, worker):
    return lb.workers()[worker.address]


def open_at(lb, worker, count):
    wait_until(lambda: row(lb, worker)['tunnels'] == count, '%d tunnels, not %d' % (count, row(lb, worker)['tunnels']))


def rejected(lb, count, **kw):
    """Checks that a handshake is rejected because of the limit, as the COUNTth one."""
    c, r = shake(lb, **kw)
    with c:
        assert (r.status, r['Retry-After']) == (503, '1')
        ends(lb, 'tunnels-full', count)
        assert c.request('GET', '/').status == 200      # on the same connection


# ---- connections and backlog ----

def test_idle_tunnels_take_no_connection_from_requests(world):
    worker = Worker(world)
    lb = start(world, worker, max_connections=4)
    opened = tunnels(lb, 20)
    found = row(lb, worker)
    assert (found['tunnels'], found['max_tunnels'], found['backlog']) == (20, 1000, 0)
    assert (found['connections']['in_use'], found['connections']['opening']) == (0, 0)
    held = [Asked(lb.address, '/held') for _ in range(5)]
    wait_until(lambda: worker.held == 4, 'as many requests at once as max_connections says')
    wait_until(lambda: lb.app()['stats']['connection_waiting'] == 1, 'one more to wait')
    assert row(lb, worker)['backlog'] == 5
    opened += tunnels_wait(lb, worker, 2)
    worker.go.set()
    assert [a.wait().status for a in held] == [200] * 5
    tunnels_work(opened)
    for c in opened:
        c.close()
    open_at(lb, worker, 0)
    assert lb.app()['stats']['tunnels'] == 0


def tunnels_wait(lb, worker, count):
    """Before its response a handshake counts as a request and waits for a connection; a tunnel does not use one."""
    asked = []
    for _ in range(count):
        c = Client(lb.address)
        c.send('GET', '/ws', headers=UPGRADE)
        asked.append(c)
    wait_until(lambda: lb.app()['stats']['connection_waiting'] == 1 + count, 'the handshakes to wait')
    worker.go.set()
    assert [c.head()[1] for c in asked] == [101] * count
    return asked


@pytest.mark.parametrize('limit', [{}, {'max_tunnels': 0}], ids=['default', 'none'])
def test_a_worker_that_takes_one_request_at_a_time_is_taken_by_a_tunnel(world, limit):
    worker = Worker(world)
    lb = start(world, worker, max_connections=1, connection_wait_timeout='100ms', worker_wait_timeout='0s', **limit)
    opened = tunnels(lb, 1)
    found = row(lb, worker)
    assert (found['tunnels'], found['backlog'], found['connections']['opening']) == (1, 0, 1)
    assert lb.get().status == 503
    ends(lb, 'workers-busy', 1)
    c, r = shake(lb)
    c.close()
    assert r.status == 503
    ends(lb, 'workers-busy', 2)
    tunnels_work(opened)
    opened[0].close()
    open_at(lb, worker, 0)
    assert lb.get().status == 200


# ---- the limit ----

def test_above_max_tunnels_a_handshake_is_rejected_unseen_until_a_tunnel_ends(world):
    worker = Worker(world)
    lb = start(world, worker, max_tunnels=3)
    opened = tunnels(lb, 3)
    for count in (1, 2, 3):
        rejected(lb, count)
    assert worker.handshakes() == 3
    opened.pop().close()
    open_at(lb, worker, 2)
    opened += tunnels(lb, 1)
    rejected(lb, 4)
    tunnels_work(opened)
    for c in opened:
        c.close()
    open_at(lb, worker, 0)
    tunnels_work(tunnels(lb, 3))


def test_as_many_of_many_handshakes_at_once_pass_as_there_is_room(world):
    worker = Worker(world)
    lb = start(world, worker, max_tunnels=10)
    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        shaken = list(pool.map(lambda _: shake(lb), range(40)))
    assert sorted(r.status for _, r in shaken) == [101] * 10 + [503] * 30
    ends(lb, 'tunnels-full', 30)
    assert worker.handshakes() == 10 and row(lb, worker)['tunnels'] == 10
    for c, _ in shaken:
        c.close()
    open_at(lb, worker, 0)


@pytest.mark.parametrize('target, status', [('/rejected', 403), ('/cut', 502)])
def test_a_handshake_that_is_not_upgraded_leaves_its_place(world, target, status):
    worker = Worker(world)
    lb = start(world, worker, max_tunnels=1, retries=0)
    for _ in range(5):
        c, r = shake(lb, target)
        c.close()
        assert r.status == status
    opened = tunnels(lb, 1)
    rejected(lb, 1)
    tunnels_work(opened)


def test_a_handshake_whose_client_leaves_leaves_its_place(world):
    worker = Worker(world)
    lb = start(world, worker, max_tunnels=1, max_connections=2)
    held = [Asked(lb.address, '/held') for _ in range(2)]
    wait_until(lambda: worker.held == 2, 'no connection to be left')
    with Client(lb.address) as c:
        c.send('GET', '/ws', headers=UPGRADE)
        wait_until(lambda: lb.app()['stats']['connection_waiting'] == 1, 'the handshake to wait')
        rejected_at_once(lb)
    wait_until(lambda: lb.app()['stats']['connection_waiting'] == 0, 'it to leave')
    worker.go.set()
    assert [a.wait().status for a in held] == [200] * 2
    tunnels_work(tunnels(lb, 1))


def rejected_at_once(lb):
    """A handshake in progress uses the only place: another one is rejected immediately."""
    c, r = shake(lb)
    c.close()
    assert r.status == 503
    ends(lb, 'tunnels-full', 1)


def test_a_limit_of_the_worker_comes_before_that_of_the_application(world):
    one, other = Worker(world, 'one'), Worker(world, 'other')
    lb = world.resumelb({'workers': [{'address': one.address, 'max_tunnels': 1}, other.address], 'resume': 'measure', 'max_tunnels': 3})
    assert [row(lb, w)['max_tunnels'] for w in (one, other)] == [1, 3]
    opened = tunnels(lb, 4)
    assert [row(lb, w)['tunnels'] for w in (one, other)] == [1, 3]
    rejected(lb, 1)
    tunnels_work(opened)


def test_a_limit_is_changed_while_there_are_tunnels(world):
    worker = Worker(world)
    lb = start(world, worker, max_tunnels=3)
    opened = tunnels(lb, 3)
    lb.change(max_tunnels='1')
    wait_until(lambda: row(lb, worker)['max_tunnels'] == 1, 'the lower limit')
    tunnels_work(opened)
    rejected(lb, 1)
    opened.pop().close()
    open_at(lb, worker, 2)
    rejected(lb, 2)
    lb.change(max_tunnels='4')
    wait_until(lambda: row(lb, worker)['max_tunnels'] == 4, 'the higher limit')
    opened += tunnels(lb, 2)
    rejected(lb, 3)
    lb.reload({'workers': [{'address': worker.address, 'max_tunnels': 5}]})
    wait_until(lambda: row(lb, worker)['max_tunnels'] == 5, 'that of its own')
    opened += tunnels(lb, 1)
    rejected(lb, 4)
    tunnels_work(opened)


# ---- other workers ----

POLICIES = ['adaptive', 'resume', 'round_robin', 'p2c', 'hash']


@pytest.mark.parametrize('policy', POLICIES)
def test_a_handshake_goes_to_a_worker_that_has_room(world, policy):
    # More workers than are tried for one request.
    workers = [Worker(world, 'worker %d' % n) for n in range(20)]
    lb = start(world, *workers, max_tunnels=1, pool={'policy': policy})
    opened = tunnels(lb, len(workers))
    assert [row(lb, w)['tunnels'] for w in workers] == [1] * len(workers)
    rejected(lb, 1)
    tunnels_work(opened)
    opened[7].close()
    wait_until(lambda: lb.app()['stats']['tunnels'] == len(workers) - 1, 'one to end')
    opened += tunnels(lb, 1)
    assert [row(lb, w)['tunnels'] for w in workers] == [1] * len(workers)


@pytest.mark.parametrize('policy', ['adaptive', 'resume'])
def test_tunnels_do_not_change_where_requests_go(world, policy):
    workers = [Worker(world, 'worker %d' % n) for n in range(3)]
    lb = start(world, *workers, max_tunnels=2, history=5, pool={'policy': policy})
    hosts = ['%s.example' % c for c in 'abc']
    # Enough requests of each class for a score at a worker.
    for _ in range(20):
        for host in hosts:
            assert lb.get('/', host).status == 200
    before = {host: lb.get('/', host).body for host in hosts}
    opened = [c for host in hosts for c in tunnels(lb, 2, host=host)]
    rejected(lb, 1, host=hosts[0])
    assert [row(lb, w)['backlog'] for w in workers] == [0] * 3
    for _ in range(20):
        assert {host: lb.get('/', host).body for host in hosts} == before
    tunnels_work(opened)


def test_a_worker_that_failed_is_not_taken_back_for_want_of_tunnels(world):
    worker, dead = Worker(world), '127.0.0.1:%d' % free_port()
    lb = world.resumelb({'workers': [worker.address, dead], 'resume': 'measure', 'max_tunnels': 1, 'eject_time': '10m',
                         'pool': {'policy': 'round_robin'}})
    wait_until(lambda: lb.get().status == 200 and lb.workers()[dead]['ejected'], 'the other one to be ejected')
    opened = tunnels(lb, 1)
    rejected(lb, 1)
    assert lb.workers()[dead]['ejected']
    assert lb.app()['stats']['ejections'] == 1
    tunnels_work(opened)


# ---- limits ----

@pytest.fixture(params=['local', 'daemon'])
def counted(request, world):
    """A load balancer with a limit that admits one request of a class at a time."""
    worker = Worker(world)
    config = {'max_tunnels': 2}
    if request.param == 'daemon':
        daemon = Poolcounterd(OURS)
        request.addfinalizer(daemon.stop)
        config.update(pool_counter_servers=[daemon.address], pool_counter_connect_timeout='60s', pool_counter_response_timeout='60s')

    def build(**rule):
        return start(world, worker, limits={'sites': {'where': request.param, 'workers': 1, 'maxqueue': 1, **rule}}, **config)
    return build


def in_use(lb):
    return lb.app()['limits'][0]['figures']['held']


def test_a_pool_counter_is_released_with_the_101(world, counted):
    lb = counted()
    opened = tunnels(lb, 2)
    assert in_use(lb) == 0
    assert lb.get().status == 200
    rejected(lb, 1)
    assert in_use(lb) == 0
    tunnels_work(opened)
    for c in opened:
        c.close()
    wait_until(lambda: lb.app()['stats']['tunnels'] == 0, 'them to end')
    assert lb.get().status == 200


def test_a_pool_counter_that_reports_it_is_held_until_the_tunnel_ends(world, counted):
    lb = counted(hold_tunnels=True)
    opened = tunnels(lb, 1)
    assert in_use(lb) == 1
    assert lb.get().status == 503
    ends(lb, 'limit-full', 1)
    assert lb.get('/', 'other.example').status == 200
    tunnels_work(opened)
    opened[0].close()
    wait_until(lambda: in_use(lb) == 0, 'it to be released')
    assert lb.get().status == 200 and outcome(lb, 'limit-full') == 1


# ---- membership ----

def test_a_drained_worker_keeps_its_tunnels_and_their_count(world):
    one, other = Worker(world, 'one'), Worker(world, 'other')
    lb = start(world, one, other, max_tunnels=2, pool={'policy': 'round_robin'}, actions=True)
    opened = tunnels(lb, 2)
    open_at(lb, one, 1)
    drain(lb, 'drain', one)
    assert {lb.get().body for _ in range(5)} == {b'other'}
    opened += tunnels(lb, 1)
    rejected(lb, 1)
    assert [row(lb, w)['tunnels'] for w in (one, other)] == [1, 2]
    tunnels_work(opened)
    drain(lb, 'undrain', one)
    opened += tunnels(lb, 1)
    assert [row(lb, w)['tunnels'] for w in (one, other)] == [2, 2]
    rejected(lb, 2)


def drain(lb, action, worker):
    r = get(lb.admin, '/actions/' + action, host=lb.admin, method='POST', headers=[('Authorization', 'Bearer ' + TOKEN)],
            body=b'{"worker": "%s"}' % worker.address.encode())
    assert r.status == 200, r.text


def test_tunnels_of_a_worker_that_left_count_no_more_when_it_comes_back(world):
    one, other = Worker(world, 'one'), Worker(world, 'other')
    lb = start(world, one, max_tunnels=2)
    before = tunnels(lb, 2)
    lb.reload({'workers': [other.address]})
    wait_until(lambda: set(lb.workers()) == {other.address}, 'it to be gone')
    lb.reload({'workers': [one.address]})
    wait_until(lambda: set(lb.workers()) == {one.address}, 'it to be back')
    assert row(lb, one)['tunnels'] == 0 and lb.app()['stats']['tunnels'] == 2
    after = tunnels(lb, 2)
    tunnels_work(before + after)
    for c in before:
        c.close()
    wait_until(lambda: lb.app()['stats']['tunnels'] == 2, 'those of before to end')
    assert row(lb, one)['tunnels'] == 2
    rejected(lb, 1)
    tunnels_work(after)


# ---- agents ----

def test_tunnels_leave_the_places_of_a_process_to_requests(world):
    agent = Threaded(world, concurrency=2).wait_ready()
    lb = balancer(world, 'lb', [agent.address], max_connections=2)
    opened = tunnels(lb, 6)
    slot, worker = agent.slot(), lb.workers()[agent.address]
    assert (slot['running'], slot['tunnels'], slot['backlog'], slot['process']['sessions'], slot['process']['tunnels']) == (6, 6, 0, 6, 6)
    assert (worker['tunnels'], worker['backlog'], worker['backlog_others'], worker['connections']['opening']) == (6, 0, 0, 0)
    assert agent.figures()['tunnels_open'] == 6
    page = get(agent.admin, '/metrics', host=agent.admin).text
    assert [line for line in page.splitlines() if line.startswith('resumelb_agent_slot_tunnels{')][0].endswith(' 6')
    assert lb.get().status == 200
    assert agent.get()['Resumelb-Backlog'] == '1'
    for c in opened:
        c.send_raw(b'still there')
        assert c._need(11) == b'still there'
        c.close()
    wait_until(lambda: agent.slot()['running'] == 0, 'the tunnels to end')
    assert agent.figures()['tunnels_open'] == agent.slot()['tunnels'] == 0
    wait_until(lambda: lb.workers()[agent.address]['tunnels'] == 0, 'the load balancer to know')


def test_the_concurrency_of_an_agent_is_followed(world):
    agent = Threaded(world, concurrency=1).wait_ready()
    lb = balancer(world, 'lb', [agent.address])

    def opening():
        return lb.workers()[agent.address]['connections']['opening']
    one = tunnels(lb, 1)
    assert opening() == 1
    agent.change(concurrency='4')
    more = tunnels_once(lb, lambda: opening() == 1)
    for c in one:
        c.close()
    wait_until(lambda: opening() == 0, 'the connection to be given back')
    assert lb.workers()[agent.address]['tunnels'] == len(more)


def tunnels_once(lb, condition):
    """Opens a tunnel after the load balancer has received the new concurrency (CONDITION); earlier tunnels are closed."""
    while True:
        opened = tunnels(lb, 1)
        if condition():
            return opened
        opened[0].close()


# ---- what is shown ----

def test_tunnels_are_shown(world):
    worker = Worker(world)
    lb = start(world, worker)
    opened = tunnels(lb, 3)
    with Client(lb.admin) as c:
        page = c.request('GET', '/metrics', lb.admin).text
        assert 'resumelb_tunnels{application="default"} 3' in page
        assert 'resumelb_worker_tunnels{application="default",worker="%s"} 3' % worker.address in page
    assert ', 3 tunnels' in ctl('status', '-a', lb.admin).out
    tunnels_work(opened)
