# SPDX-License-Identifier: Apache-2.0
"""Policy adaptive over real processes: one that hangs, one that fails fast, and a class that floods."""
import json
import threading
from collections import Counter

import pytest
from agent_support import TinyAgent
from support.base import wait_until
from support.http import Client, get
from support.scripted import serve

SITES = ['site%d.example' % i for i in range(16)]


def explain(lb, site):
    return json.loads(get(lb.admin, '/explain?class=' + site, host=lb.admin).text)


def config(agent, **pool):
    return {'applications': {'app': {'tree': 'directory:%s' % agent.tree, 'tree_path': '/app', 'pool': pool}}}


def balancer(world, agent, **pool):
    lb = world.resumelb(config(agent, **pool), wait=False)
    wait_until(lb.listening, 'the load balancer')
    wait_until(lambda: [lb.workers('app').get(a, {}).get('state') for a in agent.addresses] == ['ready'] * len(agent.addresses),
               'the workers')
    return lb


def visit(lb, rounds=1, held=0):
    for _ in range(rounds):
        for site in SITES:
            assert lb.get(host=site).status == 200
    wait_until(lambda: lb.app('app')['backlog'] == held, 'nothing else in flight')


def test_a_worker_that_hangs_gets_no_more_work(world):
    agent = TinyAgent(world, slots=4).wait_ready()
    lb = balancer(world, agent)
    visit(lb, 3)
    home = {site: explain(lb, site)['worker'] for site in SITES}
    hung = home[SITES[0]]
    victims = [s for s in SITES[1:] if home[s] == hung]
    assert victims
    gate = world.directory / 'gate'
    hang = Client(lb.address)
    hang.send(host=SITES[0], headers=[('X-Until', str(gate))])
    # As the request remains without a response, all other classes of the worker move to other ones, and new classes avoid it.
    wait_until(lambda: all(explain(lb, s)['worker'] != hung for s in victims + ['new.example']), 'no class to be sent there')
    told = wait_until(lambda: (x := explain(lb, victims[0]))['reason'] in ('reassign', 'replicate') and x, 'a home elsewhere')
    (passed,) = [c for c in told['candidates'] if c['worker'] == hung]
    assert passed['work_s'] > 0 and passed['passed_over'].startswith('a home')
    visit_all_but_the_first(lb)
    assert lb.workers('app')[hung]['backlog'] == 1
    gate.write_text('')
    assert hang.receive().status == 200


def visit_all_but_the_first(lb):
    for site in SITES[1:] * 3:
        assert lb.get(host=site).status == 200


@pytest.mark.parametrize('eject_after', [0, 5])
def test_a_worker_that_fails_fast_gets_no_more_than_the_others(world, eject_after):
    """A worker that fails immediately has the fewest requests in flight; this must not attract classes to it."""
    def worker(failing):
        def respond(c, head, body):
            if not failing:
                threading.Event().wait(.004)
            c.respond(b'', '500 Oops' if failing else '200 OK')
        return world.scripted(serve(respond))

    workers = [worker(i == 0) for i in range(4)]
    lb = world.resumelb({'workers': [w.address for w in workers], 'eject_after': eject_after, 'history': 10})
    statuses = Counter()

    def client(k):
        for i in range(150):
            statuses[lb.get('/', host='c%d.example' % ((i * 5 + k) % 40)).status] += 1
    threads = [threading.Thread(target=client, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    served = [lb.workers()[w.address]['requests'] for w in workers]
    assert sum(served) == 600 and statuses[500] + statuses[200] == 600
    assert served[0] <= 600 / 4 * 1.5, served


def pids_of_a_flood(lb, clients=8, requests=40):
    """Sends concurrent requests of one class. Returns {pid: number of requests}."""
    pids = Counter()

    def client():
        for _ in range(requests):
            r = lb.get(host='flood.example', headers=[('X-Delay', '0.01')])
            assert r.status == 200
            pids[json.loads(r.text)['pid']] += 1
    threads = [threading.Thread(target=client) for _ in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sum(pids.values()) == clients * requests
    return pids


def test_a_class_that_floods_stays_within_its_share_of_the_workers(world):
    agent = TinyAgent(world, slots=4).wait_ready()
    lb = balancer(world, agent, max_share=0.25, max_share_always=True)
    visit(lb, 2)
    before = lb.app('app')['picks']['replicate']
    pids_of_a_flood(lb)
    # The class never had a second home. Its only home may have changed, if the first one was slow on a busy machine.
    assert lb.app('app')['picks']['replicate'] == before
    told = explain(lb, 'flood.example')
    assert told['values']['homes_max'] == 1 and told['steps'][0]['after'] == 1
    # The setting can be changed at run time.
    lb.reload(config(agent, max_share=1, max_share_always=True))
    wait_until(lambda: lb.app('app')['settings']['max_share']['value'] == '1', 'the setting')
    wait_until(lambda: len(pids_of_a_flood(lb)) > 1, 'further homes')


def test_a_class_that_is_all_there_is_may_have_all_workers(world):
    agent = TinyAgent(world, slots=4).wait_ready()
    lb = balancer(world, agent, max_share=0.25)
    pids = Counter()
    wait_until(lambda: pids.update(pids_of_a_flood(lb)) or len(pids) == 4, 'all to be its homes')
    assert explain(lb, 'flood.example')['values']['homes_max'] == 4


class SlowWorker:
    """A worker that serves one request at a time, each in 4 ms.

    While `go` is not set it holds each request until PATIENCE others have got a response, and then fails it. If it holds more than
    HELD requests it fails the oldest immediately, as otherwise it might hold the requests of all clients.
    """
    PATIENCE, HELD = 200, 8

    def __init__(self, world, done):
        self.free, self.served, self.done = threading.Lock(), 0, done
        self.held = []
        self.go = threading.Event()
        self.go.set()
        self.address = world.scripted(serve(self.respond)).address

    def respond(self, c, head, body):
        if not self.go.is_set():
            until = self.done() + self.PATIENCE
            self.held.append(c)
            wait_until(lambda: self.go.is_set() or self.done() >= until or c not in self.held[-self.HELD:], 'others to get a response')
            self.held.remove(c)
            c.reset()
            raise ConnectionResetError
        with self.free:
            threading.Event().wait(.004)
            self.served += 1
        c.respond()


@pytest.mark.parametrize('sites', [3, pytest.param(6, marks=pytest.mark.soak)])
def test_a_worker_that_has_recovered_gets_its_share(world, sites):
    """There are few classes, and all have homes elsewhere by then: some of them must be moved to the worker."""
    done, ended = Counter(dict.fromkeys(range(16), 0)), threading.Event()
    workers = [SlowWorker(world, lambda: sum(list(done.values()))) for _ in range(4)]
    # Its held requests end after a number of other requests, not after a time, so that a busy machine makes no other worker slow.
    lb = world.resumelb({'workers': [w.address for w in workers], 'eject_after': 1, 'eject_time': '1s', 'eject_time_max': '1s',
                         'poison_deaths': 0, 'retry_budget': 1})

    def client(k):
        i = k
        while not ended.is_set():
            i += 1
            try:
                lb.get('/', host='c%d.example' % (i * 7 % sites))
            except OSError:
                continue
            done[k] += 1
    threads = [threading.Thread(target=client, args=(k,)) for k in range(16)]
    for t in threads:
        t.start()
    try:
        back = workers[2]
        wait_until(lambda: sum(done.values()) > 1000, 'some load')
        back.go.clear()
        wait_until(lambda: lb.workers()[back.address]['ejected'], 'the worker to be ejected')
        so_far = sum(done.values())
        wait_until(lambda: sum(done.values()) > so_far + 1000, 'its classes to live elsewhere')
        wait_until(lambda: lb.workers()[back.address]['ejected'], 'it not to be on trial')
        back.go.set()
        wait_until(lambda: not lb.workers()[back.address]['ejected'], 'the worker to be back')
        before, so_far = back.served, sum(done.values())
        wait_until(lambda: sum(done.values()) > so_far + 4000, 'more load')
        # A quarter of a fair share.
        assert back.served - before >= 4000 / 16
    finally:
        ended.set()
        back.go.set()
        for t in threads:
            t.join()
