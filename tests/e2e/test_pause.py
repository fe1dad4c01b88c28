# SPDX-License-Identifier: Apache-2.0
"""All programs are stopped for longer than a time-out, as when a machine is suspended: the requests in flight do not notice."""
import os
import signal
import threading
import time

from poolcounter_support import Daemon
from support.base import LIMIT, freeze, wait_until
from support.http import get
from support.scripted import serve

# The loops notice a pause of more than five seconds.
TIMEOUT_S, PAUSED_S = 9, 12
TIMEOUT = '%ds' % TIMEOUT_S


def pause(*pids):
    for pid in pids:
        freeze(pid)
    try:
        wait_until(lambda since=time.monotonic(): time.monotonic() - since > PAUSED_S, 'the pause')
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)


class Request(threading.Thread):
    def __init__(self, address, target, **kw):
        super().__init__()
        self.address, self.target, self.kw, self.response = address, target, kw, None
        self.start()

    def run(self):
        self.response = get(self.address, self.target, **self.kw)

    def status(self):
        self.join(LIMIT)
        return self.response.status


def test_a_pause_of_the_load_balancer_is_not_the_time_of_a_request(world):
    gate = threading.Event()
    world.closers.insert(0, gate.set)

    def respond(c, head, body):
        if b'/held' in head:
            gate.wait(LIMIT)
        c.respond(b'hello')
    w = world.scripted(serve(respond))
    lb = world.resumelb({'workers': [w.address], 'first_byte_timeout': TIMEOUT, 'total_timeout': TIMEOUT}, threads=1)
    held = Request(lb.address, '/held')
    wait_until(lambda: w.requests, 'the request')
    pause(lb.process.pid)
    # timers that are due have expired when these get a response
    for _ in range(3):
        assert lb.get('/').body == b'hello'
    gate.set()
    assert held.status() == 200
    assert 'process-paused' in lb.process.output()


def test_a_pause_of_a_pool_counter_daemon_is_not_the_time_of_those_that_wait(world):
    pool = Daemon(world)
    (holder,) = pool.holders('ACQ4ME k 1 10 0')
    waiter, other = pool.waiter('ACQ4ME k 1 10 %d' % TIMEOUT_S), pool.waiter('ACQ4ANY k 1 10 %d' % TIMEOUT_S)
    pause(pool.process.pid)
    # timers that are due have expired when these get a response
    for _ in range(3):
        assert pool.counters()['waiting_workers'] == 2
    assert waiter.is_silent() and other.is_silent()
    assert holder.ask('RELEASE') == 'RELEASED'
    assert (waiter.line(), other.line()) == ('LOCKED', 'DONE')
    # their time continues where it stopped, and ends
    waiter.send('RELEASE\n')
    assert waiter.line() == 'RELEASED'
    assert holder.ask('ACQ4ME k 1 10 0') == 'LOCKED'
    assert waiter.ask('ACQ4ME k 1 10 1') == 'TIMEOUT'


def test_a_pause_of_all_programs_kills_no_process_of_an_agent(world):
    (world.directory / 'tree').mkdir()
    gate = world.directory / 'gate'
    agent = world.agent('one', world.directory / 'tree', slots=1, first_byte_timeout=TIMEOUT, start_timeout='10m')
    lb = world.resumelb({'workers': agent.addresses, 'first_byte_timeout': TIMEOUT})
    first = wait_until(lambda: (r := lb.get('/')).status == 200 and r, 'the process')
    held = Request(lb.address, '/held', headers=[('X-Until', str(gate))])
    wait_until(lambda: agent.json()['applications']['app']['slots'][0]['running'] == 1, 'the request')
    pause(lb.process.pid, agent.process.pid, int(first['X-Pid']))
    for _ in range(3):
        agent.json()
    gate.write_text('')
    assert held.status() == 200
    assert held.response['X-Pid'] == first['X-Pid']
    assert lb.get('/')['X-Pid'] == first['X-Pid']
