# SPDX-License-Identifier: Apache-2.0
"""Dormant slots, without a process: they are activated one after the other when the warm ones do not suffice, and leave again."""
import re
import threading
import time

from agent_support import TinyAgent
from support.base import LIMIT, PACE, wait_until
from support.http import Client
from test_feeds import Agent, becomes, in_pool, pool, state

REJECTION = b'HTTP/1.1 503 Service Unavailable\r\nResumelb-Unprocessed: 1\r\nContent-Length: 0\r\n\r\n'


class Slot(Agent):
    """An agent's slot that holds its requests until the test lets it respond, or rejects them."""

    def __init__(self, world, response=b'hello'):
        super().__init__(world, response)
        self.may_respond = threading.Event()
        self.rejects = False
        world.closers.insert(0, self.may_respond.set)

    def respond(self, c):
        if self.rejects:
            c.write(REJECTION)
            return
        self.may_respond.wait(LIMIT)
        c.respond(self.response)


class Clients:
    """Requests in progress, each on its own connection."""

    def __init__(self, lb):
        self.lb, self.all = lb, []

    def ask(self, n, method='GET', host='x'):
        for _ in range(n):
            c = Client(self.lb.address)
            c.send(method, host=host, body=b'x' if method == 'POST' else None)
            self.all.append(c)

    def statuses(self):
        return [c.receive().status for c in self.all]


def place(slot):
    """The position of SLOT in the order of activation, which is the same in all load balancers: a mixed FNV-1a hash of its name."""
    bits = (1 << 64) - 1
    h = 0xcbf29ce484222325
    for c in slot.address.encode():
        h = ((h ^ c) * 0x100000001b3) & bits
    h = ((h ^ (h >> 33)) * 0xff51afd7ed558ccd) & bits
    h = ((h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53) & bits
    return h ^ (h >> 33)


def stage(world, dormant=2, **settings):
    """A warm worker that holds its responses, and dormant slots in the order of their activation."""
    warm, rest = Slot(world), sorted((Slot(world) for _ in range(dormant)), key=place)
    settings = dict({'spawn_after': '200ms'}, **settings)
    lb = pool(world, [warm, *rest], pool=settings)
    warm.say('w')
    becomes(lb, warm, 'ready')
    for i, slot in enumerate(rest):
        slot.say('c%d' % i, 'dormant')
        becomes(lb, slot, 'dormant')
    return lb, warm, rest


def log_of(lb, event):
    return [line for line in lb.process.output().splitlines() if event in line]


def backlog(lb, slot):
    return lb.workers()[slot.address]['backlog']


def spawns(lb):
    return lb.app()['stats']['dormant_spawns']


def looks(lb):
    return lb.app()['stats']['dormant_checks']


def look_on(lb):
    """Waits for 15 more checks of the overload. There are ten per spawn_after: a lasting overload would activate a slot by then."""
    wanted = looks(lb) + 15
    wait_until(lambda: looks(lb) >= wanted, 'checks of the overload')


# ---- by the state in the streams ----

def test_a_dormant_slot_comes_in_when_the_warm_ones_stay_above_spawn_backlog(world):
    lb, warm, (first, second) = stage(world, spawn_after='1s')
    clients = Clients(lb)
    clients.ask(2)
    wait_until(lambda: backlog(lb, warm) == 2, 'two requests')
    since = time.monotonic()
    clients.ask(1)
    wait_until(lambda: first.address in in_pool(lb), 'the first in the order')
    assert time.monotonic() - since > 0.9
    assert in_pool(lb) == {warm.address, first.address}
    assert 'reason=overload' in lb.process.wait_logged('dormant-slot-activated')[0]
    # only one request is sent to it, which starts its process: no other one waits for the start
    clients.ask(1)
    wait_until(lambda: first.requests == 1, 'the request that wakes it')
    assert lb.app()['picks']['activated'] == 1
    clients.ask(3)
    wait_until(lambda: warm.requests == 6, 'the rest to go to the warm one')
    first.say('c0', 'starting')
    wait_until(lambda: in_pool(lb) == {warm.address}, 'it to be out while it starts')
    assert spawns(lb) == 1
    # in the meantime no further slot is activated, and no other request is sent to this one
    clients.ask(3)
    wait_until(lambda: warm.requests == 9, 'the rest to go to the warm one')
    look_on(lb)
    assert (in_pool(lb), first.requests, second.requests) == ({warm.address}, 1, 0)
    # when it is ready, it receives the overflow of the warm one, although it has no skills yet
    first.say('c0', 'ready')
    becomes(lb, first, 'ready')
    clients.ask(2)
    wait_until(lambda: first.requests == 3, 'what is too much for the warm one')
    first.may_respond.set()
    warm.may_respond.set()
    assert set(clients.statuses()) == {200}
    assert lb.app()['stats']['retries'] == 0


def test_sustained_overload_activates_one_after_the_other(world):
    lb, warm, (first, second) = stage(world, dormant=2)
    clients = Clients(lb)
    clients.ask(4)
    wait_until(lambda: first.address in in_pool(lb), 'the first')
    clients.ask(1)
    wait_until(lambda: first.requests == 1, 'its request')
    first.say('c0', 'starting')
    first.say('c0', 'ready')
    becomes(lb, first, 'ready')
    # it is not overloaded yet: no other slot is activated
    look_on(lb)
    assert second.address not in in_pool(lb)
    clients.ask(3)
    wait_until(lambda: backlog(lb, first) > 2, 'it to be overloaded as well')
    wait_until(lambda: second.address in in_pool(lb), 'the second')
    clients.ask(1)
    wait_until(lambda: second.requests == 1, 'its request')
    for slot in (warm, first, second):
        slot.may_respond.set()
    assert set(clients.statuses()) == {200}
    # its request gets a response but its state is not reported: after a while it is out again, and is not activated again
    wait_until(lambda: second.address not in in_pool(lb), 'it to be out')
    assert 'reason=rejected' in lb.process.wait_logged('dormant-slot-not-started')[0]


def test_an_activated_slot_leaves_when_the_overload_has_gone_before_its_request(world):
    lb, warm, (first, _) = stage(world)
    clients = Clients(lb)
    clients.ask(3)
    wait_until(lambda: first.address in in_pool(lb), 'the activation')
    warm.may_respond.set()
    assert clients.statuses() == [200] * 3
    wait_until(lambda: in_pool(lb) == {warm.address}, 'it to be out')
    assert first.requests == 0
    assert spawns(lb) == 0
    assert 'reason=overload-ended' in lb.process.wait_logged('dormant-slot-not-started')[0]


def test_new_classes_alone_bring_none_in(world):
    lb, warm, dormant = stage(world, dormant=3)
    warm.may_respond.set()
    for i in range(100):
        assert lb.get(host='new%d' % i).status == 200
    assert warm.requests == 100
    assert in_pool(lb) == {warm.address}
    assert [c.requests for c in dormant] == [0, 0, 0]


def test_a_slot_that_becomes_dormant_leaves_the_pool(world):
    lb, warm, (first, _) = stage(world)
    clients = Clients(lb)
    clients.ask(3)
    wait_until(lambda: first.address in in_pool(lb), 'the activation')
    clients.ask(1)
    wait_until(lambda: first.requests == 1, 'its request')
    first.say('c0', 'ready')
    becomes(lb, first, 'ready')
    assert spawns(lb) == 1
    first.may_respond.set()
    warm.may_respond.set()
    assert set(clients.statuses()) == {200}
    first.say('c0b', 'dormant')
    becomes(lb, first, 'dormant')
    wait_until(lambda: in_pool(lb) == {warm.address}, 'it to be out')


def test_a_slot_that_rejects_is_passed_over_and_the_next_is_activated(world):
    """The host of the slot has no room: the request that should start its process is served elsewhere, even a POST."""
    lb, warm, (first, second) = stage(world)
    first.rejects = True
    clients = Clients(lb)
    clients.ask(3)
    wait_until(lambda: first.address in in_pool(lb), 'the activation')
    clients.ask(1, 'POST')
    wait_until(lambda: first.requests == 1 and warm.requests == 4, 'it to be rejected, and to go to the warm one')
    # only one request, however long it takes
    clients.ask(3)
    wait_until(lambda: warm.requests == 7, 'the others to go to the warm one')
    assert first.requests == 1
    wait_until(lambda: second.address in in_pool(lb), 'the next to be activated')
    assert first.address not in in_pool(lb)
    warm.may_respond.set()
    second.may_respond.set()
    assert set(clients.statuses()) == {200}
    w = lb.workers()[first.address]
    assert (w['failures'], w['ejected']) == (0, False)
    stats = lb.app()['stats']
    assert (stats['unprocessed'], stats['retries'], stats['ejections'], stats['responses_5xx']) == (1, 0, 0, 0)


def test_a_slot_that_starts_anyway_is_awaited_before_another_is_activated(world):
    """The slot starts because another load balancer has activated it: the same process relieves both."""
    lb, warm, (first, second) = stage(world)
    second.say('c1', 'starting')
    becomes(lb, second, 'starting')
    clients = Clients(lb)
    clients.ask(5)
    wait_until(lambda: backlog(lb, warm) == 5, 'the requests')
    look_on(lb)
    assert in_pool(lb) == {warm.address}
    second.say('c1', 'ready')
    wait_until(lambda: second.address in in_pool(lb), 'it to come in')
    # it is used, activated or not
    clients.ask(3)
    wait_until(lambda: second.requests == 3, 'what is too much for the warm one')
    wait_until(lambda: first.address in in_pool(lb), 'now the other is activated')
    for slot in (warm, first, second):
        slot.may_respond.set()
    assert set(clients.statuses()) == {200}


def test_activation_can_be_switched_off_and_on(world):
    lb, warm, (first, _) = stage(world, spawn_backlog=0)
    clients = Clients(lb)
    clients.ask(9)
    wait_until(lambda: backlog(lb, warm) == 9, 'the requests')
    assert (in_pool(lb), looks(lb)) == ({warm.address}, 0), 'no checks of the overload'
    lb.reload({'pool': {'spawn_backlog': 8, 'spawn_after': '0s'}})
    wait_until(lambda: first.address in in_pool(lb), 'the activation')
    lb.reload({'pool': {'spawn_backlog': 0}})
    wait_until(lambda: in_pool(lb) == {warm.address}, 'it to be out')
    assert 'reason=switched-off' in lb.process.wait_logged('dormant-slot-not-started')[0]
    lb.reload({'pool': {'spawn_backlog': 9, 'spawn_after': '0s'}})
    look_on(lb)
    assert in_pool(lb) == {warm.address}
    warm.may_respond.set()
    assert set(clients.statuses()) == {200}


def test_without_a_warm_worker_one_comes_in_at_once(world):
    lb, warm, (first, second) = stage(world, spawn_after='1h')
    warm.end('stop')
    wait_until(lambda: len(in_pool(lb)) == 1, 'a dormant one')
    assert in_pool(lb) == {first.address}
    assert 'reason=no-warm-worker' in lb.process.wait_logged('dormant-slot-activated')[0]
    clients = Clients(lb)
    clients.ask(2)
    first.say('c0', 'starting')
    becomes(lb, first, 'starting')
    assert spawns(lb) == 1
    # the requests that wait for it continue to wait there, as it is the only worker
    clients.ask(1)
    wait_until(lambda: first.requests == 3, 'the requests')
    first.say('c0', 'ready')
    becomes(lb, first, 'ready')
    first.may_respond.set()
    assert clients.statuses() == [200] * 3
    assert (second.requests, state(lb, second)) == (0, 'dormant')


# ---- with an agent ----

class Load:
    """
    N clients that send requests without a pause; the process takes DELAY seconds for each. To activate a further process, N must be
    a multiple of what the processes in use may have in flight: on a busy machine many of the clients are between two requests.
    """

    def __init__(self, lb, n, delay, hosts=24):
        self.lb, self.delay, self.hosts = lb, delay, hosts
        self.stopping, self.failures, self.done = threading.Event(), [], 0
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(n)]
        for t in self.threads:
            t.start()

    def run(self, i):
        with Client(self.lb.address) as c:
            while not self.stopping.wait(PACE):
                i += 1
                r = c.request('POST' if i % 3 == 0 else 'GET', '/%d' % i, 'site%d' % (i % self.hosts),
                              [('X-Delay', str(self.delay))], b'x' if i % 3 == 0 else None)
                if r.status != 200:
                    self.failures.append(('POST' if i % 3 == 0 else 'GET', r.status, r.text[:200]))
                self.done += 1

    def stop(self):
        self.stopping.set()
        for t in self.threads:
            t.join(LIMIT)
        assert not self.failures, self.failures[:5]


def balancer(world, agent, name='resumelb', **settings):
    lb = world.resumelb({'workers': agent.addresses, 'resume': 'stream', 'pool': settings}, wait=False, name=name)
    wait_until(lb.listening, 'the load balancer')
    wait_until(lambda: sorted(w['state'] for w in lb.workers().values()) == ['dormant', 'dormant', 'dormant', 'ready'],
               'one warm and three dormant slots')
    return lb


def processes(agent):
    return [s['process']['pid'] for s in agent.app()['slots'] if s.get('process', {}).get('pid')]


def dormant_addresses(lb):
    return {w['name'] for w in lb.workers().values() if w['state'] == 'dormant'}


def seconds_of(line):
    """The time of a log line within its hour [s]."""
    minutes, seconds = re.search(r'T\d\d:(\d\d):(\d\d\.?\d*)', line).groups()
    return 60 * int(minutes) + float(seconds)


def activated_at(lb):
    return [seconds_of(line) for line in log_of(lb, 'dormant-slot-activated') if 'reason=overload' in line]


def test_an_agents_processes_are_started_one_after_the_other_as_the_load_calls_for_them(world):
    agent = TinyAgent(world, slots=4, min_processes=1, max_processes=4, env={'BOOT_DELAY': '0.3'}).wait_ready()
    lb = balancer(world, agent)
    # many new classes, no overload: one process is enough
    for i in range(60):
        assert lb.get(host='new%d' % i).status == 200
    assert len(processes(agent)) == 1
    load = Load(lb, 64, 0.05)
    wait_until(lambda: len(processes(agent)) == 4, 'all four processes')
    wait_until(lambda: len(in_pool(lb)) == 4, 'all four in the pool')
    wait_until(lambda: all(w['requests'] > 20 for w in lb.workers().values()), 'each to have its part')
    load.stop()
    activations = wait_until(lambda: len(activated_at(lb)) >= 3 and activated_at(lb), 'three activations in the log')
    assert len(activations) == 3
    # at least spawn_after and the start of the previous process
    assert all((b - a) % 3600 >= 1.2 for a, b in zip(activations, activations[1:])), activations
    assert spawns(lb) == 3
    stats = lb.app()['stats']
    assert (stats['unprocessed'], stats['connect_failures'], stats['responses_5xx']) == (0, 0, 0)


def test_dormant_slots_are_not_activated_repeatedly(world):
    """Two processes are sufficient for the load: the other two slots stay dormant, or at least are not activated any more."""
    agent = TinyAgent(world, slots=4, min_processes=1, max_processes=4).wait_ready()
    lb = balancer(world, agent, spawn_after='300ms')
    load = Load(lb, 4, 0.08, hosts=6)
    wait_until(lambda: spawns(lb) >= 1, 'the first activation')
    done = load.done
    wait_until(lambda: load.done > done + 60, 'some time')
    activations = len(activated_at(lb))
    before = len(processes(agent))
    done = load.done
    wait_until(lambda: load.done > done + 120, 'some more time')
    assert len(activated_at(lb)) <= activations + 1
    load.stop()
    assert before <= 3


def test_processes_that_idle_after_the_load_are_out_of_the_pool(world):
    agent = TinyAgent(world, slots=4, min_processes=1, max_processes=4, max_idle_time='1s').wait_ready()
    lb = balancer(world, agent, spawn_after='100ms')
    load = Load(lb, 32, 0.05)
    wait_until(lambda: len(in_pool(lb)) >= 3, 'more processes')
    load.stop()
    wait_until(lambda: len(dormant_addresses(lb)) == 3, 'the others to be dormant again')
    wait_until(lambda: in_pool(lb) == {w['name'] for w in lb.workers().values()} - dormant_addresses(lb), 'them to be out')
    activations = len(activated_at(lb))
    for i in range(30):
        assert lb.get(host='new%d' % i).status == 200
    assert len(processes(agent)) == 1
    assert len(activated_at(lb)) == activations


def test_two_load_balancers_in_the_same_need_start_one_process_at_a_time(world):
    agent = TinyAgent(world, slots=4, min_processes=1, max_processes=4, env={'BOOT_DELAY': '1'}).wait_ready()
    lbs = [balancer(world, agent, 'lb%d' % i) for i in range(2)]
    loads = [Load(lb, 32, 0.05) for lb in lbs]
    wait_until(lambda: len(processes(agent)) >= 3, 'three processes')
    # a process that one load balancer has activated serves both
    wait_until(lambda: all(len([w for w in lb.workers().values() if w['requests'] > 5]) >= 2 for lb in lbs), 'both to be served by two')
    for load in loads:
        load.stop()
    # each took a second to start, and the next slot was not activated before it was ready
    starts = [seconds_of(line) for line in agent.process.output().splitlines() if 'process-spawned' in line]
    assert all((b - a) % 3600 >= 1.5 for a, b in zip(starts, starts[1:])), starts
