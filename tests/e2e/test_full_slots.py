# SPDX-License-Identifier: Apache-2.0
"""A slot with a full queue: requests that it rejects are served by another one immediately, with any method, without a failure."""
import contextlib
import os
import signal
import threading
import time

from agent_support import TinyAgent
from support.base import LIMIT, PACE, freeze, wait_until
from support.http import Client


# Time for which a worker gets no requests after a rejection [s].
REJECTION_S = 0.25


class Load:
    """Clients that send requests without a pause, every third one a POST. All must get 200. `may_send`: cleared to pause."""

    def __init__(self, address, n, hosts=8):
        self.address, self.hosts, self.stopping, self.may_send = address, hosts, threading.Event(), threading.Event()
        self.may_send.set()
        self.failures, self.done, self.posts, self.lock = [], 0, 0, threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(n)]
        for t in self.threads:
            t.start()

    def run(self, n):
        with Client(self.address) as c:
            i = n
            while not self.stopping.wait(PACE):
                self.may_send.wait()
                i += 1
                post = i % 3 == 0
                r = c.request('POST' if post else 'GET', '/load-%d-%d' % (n, i), 'site%d' % (i % self.hosts),
                              body=b'x' if post else None)
                with self.lock:
                    self.done += 1
                    self.posts += post
                if r.status != 200:
                    self.failures.append((r.status, r.text[:200]))

    def go_on(self, n):
        target = self.done + n
        wait_until(lambda: self.done >= target or self.failures, '%d more requests' % n)
        assert not self.failures, self.failures[:5]

    def rejected_in(self, n, lb):
        """
        N more requests, and how many a worker has rejected meanwhile; as many as it may reject: when it is asked again, each
        client may have been sent to it before the first of them is rejected.
        """
        began, before = time.monotonic(), lb.app()['stats']['unprocessed']
        self.go_on(n)
        rejected = lb.app()['stats']['unprocessed'] - before
        return rejected, len(self.threads) * (1 + (time.monotonic() - began) / REJECTION_S)

    def stop(self):
        self.stopping.set()
        for t in self.threads:
            t.join(LIMIT)
        assert not self.failures, self.failures[:5]


def balancer(world, agents, name):
    lb = world.resumelb({'workers': [a.address for a in agents], 'resume': 'stream', 'start_wait': '50ms'}, wait=False,
                        name=name)
    wait_until(lb.listening, 'the load balancer')
    wait_until(lambda: all(w['state'] == 'ready' for w in lb.workers().values()), 'both workers')
    return lb


def stage(world, balancers=1):
    """Two agents with one slot each, and load balancers. Load from these has made both slots skilled at classes."""
    agents = [TinyAgent(world, name='stuck', max_queue=2, history=20).wait_ready(),
              TinyAgent(world, name='other', history=20).wait_ready()]
    lbs = [balancer(world, agents, 'lb%d' % i) for i in range(balancers)]
    loads = [Load(lb.address, 8) for lb in lbs]
    for lb in lbs:
        wait_until(lambda: all(w['skills'] > 1 for w in lb.workers().values()), 'both to be good at something')
    return agents, lbs, loads


@contextlib.contextmanager
def stuck_with_a_full_queue(agent, loads):
    """
    The process of AGENT does not respond, and the loads fill its queue. It is idle when it is stopped: one that responded to a last
    request while it is being stopped would take another one from its queue, which might never be full again.
    """
    pid = agent.pid()
    for load in loads:
        load.may_send.clear()
    wait_until(lambda: (agent.slot()['running'], agent.slot()['waiting']) == (0, 0), 'the process to be idle')
    freeze(pid)
    for load in loads:
        load.may_send.set()
    try:
        wait_until(lambda: (agent.slot()['running'], agent.slot()['waiting']) == (1, 2), 'the queue to fill')
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def no_failures(lb, agent, before):
    """Checks that no failure was counted for any worker."""
    after, w = lb.app()['stats'], lb.workers()[agent.address]
    for name in ('retries', 'ejections', 'connect_failures', 'responses_5xx'):
        assert after[name] == before[name], name
    assert (w['failures'], w['ejected'], w['available']) == (0, False, True)


def test_requests_that_a_stuck_slot_rejects_are_served_by_the_other_without_a_failure(world):
    (stuck, other), (lb,), (load,) = stage(world)
    before = lb.app()['stats']
    with stuck_with_a_full_queue(stuck, [load]):
        # three of the eight clients wait for it; the others are served
        wait_until(lambda: lb.app()['stats']['unprocessed'] > before['unprocessed'], 'a rejection')
        wait_until(lambda: lb.workers()[stuck.address]['backlog'] == 3, 'what it rejects not to count as its own')
        # it is tried a few times per second, not for each request of a class that it is skilled at
        rejected, most = load.rejected_in(500, lb)
        assert rejected <= most
    load.go_on(100)
    load.stop()
    no_failures(lb, stuck, before)
    # each POST was executed once
    posts = [line for a in (stuck, other) for line in a.served() if line.startswith('POST')]
    assert len(posts) == len(set(posts)) == load.posts


def test_a_load_balancer_spares_a_slot_that_another_one_has_filled(world):
    (stuck, other), lbs, loads = stage(world, 2)
    before = [lb.app()['stats'] for lb in lbs]
    with stuck_with_a_full_queue(stuck, loads):
        for lb, load in zip(lbs, loads):
            rejected, most = load.rejected_in(300, lb)
            assert rejected <= most
    for load in loads:
        load.stop()
    for lb, b in zip(lbs, before):
        no_failures(lb, stuck, b)


class Asked:
    """One request on its own connection. `status` is set when the response was received."""

    def __init__(self, address, method, target):
        self.target, self.status, self.outcome = target, None, None
        self.thread = threading.Thread(target=self.run, args=(address, method, target), daemon=True)
        self.thread.start()

    def run(self, address, method, target):
        with Client(address) as c:
            self.status = c.request(method, target, 'site', body=b'x' if method == 'POST' else None).status

    def wait(self):
        self.thread.join(LIMIT)
        return self.status


def alone(world, **settings):
    """One slot that serves one request and queues two, and a load balancer without other workers."""
    agent = TinyAgent(world, name='alone', max_queue=2).wait_ready()
    lb = world.resumelb(dict({'workers': [agent.address], 'resume': 'stream', 'start_wait': '50ms'}, **settings), wait=False)
    wait_until(lb.listening, 'the load balancer')
    wait_until(lambda: all(w['state'] == 'ready' for w in lb.workers().values()), 'the worker')
    return agent, lb


@contextlib.contextmanager
def stuck(agent, lb, method='GET'):
    """The process of AGENT does not respond: it has one request, and two are queued for it."""
    pid = agent.pid()
    freeze(pid)
    try:
        asked = [Asked(lb.address, method, '/first-%d' % i) for i in range(3)]
        wait_until(lambda: (agent.slot()['running'], agent.slot()['waiting']) == (1, 2), 'the queue to fill')
        yield asked
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_request_that_all_slots_reject_waits_and_is_served_once(world):
    agent, lb = alone(world)
    with stuck(agent, lb) as asked:
        for i in range(6):
            asked.append(Asked(lb.address, 'POST' if i % 2 else 'GET', '/more-%d' % i))
        # Each of them is retried from time to time.
        wait_until(lambda: (s := lb.app()['stats'])['unprocessed'] >= 6 and s['requests_active'] == 9, 'six to be rejected')
    assert [a.wait() for a in asked] == [200] * 9
    wait_until(lambda: lb.app()['stats']['requests_waiting'] == 0, 'no request to wait')
    served = [line for line in agent.served() if line.startswith('done')]
    assert len(served) == len(set(served)) == 9, served


def test_a_request_that_all_slots_reject_for_too_long_gets_503(world):
    agent, lb = alone(world, worker_wait_timeout='200ms')
    with stuck(agent, lb) as asked:
        late = Asked(lb.address, 'GET', '/late')
        assert late.wait() == 503
        wait_until(lambda: lb.app()['outcomes']['workers-busy'] == 1, 'the count')
    assert [a.wait() for a in asked] == [200] * 3


def test_more_than_may_wait_of_those_rejected_by_all_get_503_at_once(world):
    agent, lb = alone(world, worker_wait_max=2)
    with stuck(agent, lb) as asked:
        asked += [Asked(lb.address, 'GET', '/waits-%d' % i) for i in range(2)]
        wait_until(lambda: lb.app()['stats']['requests_waiting'] == 2, 'two to wait')
        # While one of them is retried another one may take its place in the queue: a few of the further requests wait as well.
        more = [Asked(lb.address, 'GET', '/more-%d' % i) for i in range(12)]
        wait_until(lambda: any(a.status == 503 for a in more), 'an excess request to be rejected')
        wait_until(lambda: lb.app()['stats']['requests_active'] == 5 + sum(a.status is None for a in more), 'each to be rejected or wait')
    assert [a.wait() for a in asked] == [200] * 5
    told = [a.wait() for a in more]
    assert set(told) <= {200, 503}
    wait_until(lambda: lb.app()['outcomes']['wait-queue-full'] == told.count(503), 'the count')


def test_a_request_that_leaves_while_all_slots_reject_is_never_sent(world):
    agent, lb = alone(world)
    with stuck(agent, lb) as asked:
        with Client(lb.address) as c:
            c.send('GET', '/leaves', 'site')
            wait_until(lambda: lb.app()['stats']['requests_waiting'] == 1, 'it to wait')
        wait_until(lambda: lb.app()['stats']['requests_waiting'] == 0, 'it to be gone')
    assert [a.wait() for a in asked] == [200] * 3
    assert not [line for line in agent.served() if 'leaves' in line]


def test_a_get_whose_only_process_is_killed_is_served_by_the_next_one(world):
    agent, lb = alone(world)
    pid = agent.pid()
    with contextlib.suppress(ProcessLookupError), stuck(agent, lb) as asked:
        os.kill(pid, signal.SIGKILL)
        assert [a.wait() for a in asked] == [200] * 3
