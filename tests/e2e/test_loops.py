# SPDX-License-Identifier: Apache-2.0
"""Several data loops: the distribution of clients among them, and their CPUs."""
import concurrent.futures
import json
import os
import re
import signal
import subprocess

import pytest
from support.base import BIN, LIMIT, free_port, freeze, wait_until
from support.http import Client, get
from support.scripted import hello, serve


def start(world, threads, **settings):
    w = world.scripted(serve(hello))
    lb = world.resumelb(dict({'threads': threads, 'workers': [{'address': w.address}]}, **settings))
    lb.worker = w
    return lb


def loops(lb):
    return json.loads(get(lb.admin, '/status.json', host=lb.admin).text)['loops']


def shares(lb):
    """The number of connections that each loop has served so far."""
    return [one['accepted'] - one['given'] + one['taken'] for one in loops(lb)]


def dial(lb):
    """Opens a connection and sends a request. Returns the connection, and the loop that serves it."""
    before = shares(lb)
    c = Client(lb.address)
    assert c.request().status == 200
    # A program that is slow repeats its last status for a moment.
    after = wait_until(lambda: sum(found := shares(lb)) > sum(before) and found, 'the connection to be counted')
    grown = [b - a for a, b in zip(before, after)]
    assert sorted(grown) == [0] * (len(grown) - 1) + [1]
    return c, grown.index(1)


def in_flight(lb):
    return [one['in_hand'] for one in loops(lb)]


def test_clients_that_stay_are_spread_evenly(world):
    lb = start(world, 4)
    held = [dial(lb)[0] for _ in range(60)]
    wait_until(lambda: sum(in_flight(lb)) == 60, 'no request in flight')
    assert max(in_flight(lb)) - min(in_flight(lb)) <= 8, 'four, an eighth, and the request of the last connection'
    assert all(c.request().status == 200 for c in held), 'in any loop'


def test_a_loop_that_has_more_in_flight_is_given_no_more(world):
    lb = start(world, 2)
    held = [dial(lb) for _ in range(60)]
    for c, loop in held:
        if loop == 1:
            c.close()
    kept = [c for c, loop in held if loop == 0]
    wait_until(lambda: in_flight(lb) == [len(kept), 0], 'those of the other loop are gone')
    assert len(kept) >= 20
    later = [dial(lb) for _ in range(12)]
    assert [loop for _, loop in later] == [1] * 12
    assert loops(lb)[0]['given'] == loops(lb)[1]['taken']
    assert all(c.request().status == 200 for c in kept + [c for c, _ in later])
    assert {line for head, _ in lb.worker.requests for line in head.split(b'\r\n') if b'X-Forwarded-For' in line} == {
        b'X-Forwarded-For: 127.0.0.1'}, 'the same for all accepting loops'


def test_a_drain_serves_connected_clients_on_every_loop(world):
    lb = start(world, 4)
    held = [dial(lb)[0] for _ in range(20)]
    for c in held:
        c.send()
    assert all(c.receive().status == 200 for c in held)
    assert lb.process.stop() == 0


@pytest.mark.parametrize('defer', [True, False])
def test_a_silent_client_is_accepted_in_the_end_and_served(world, defer):
    w = world.scripted(serve(hello))
    address = '127.0.0.1:%d' % free_port()
    lb = world.resumelb({'threads': 2, 'workers': [{'address': w.address}]},
                        listen=[{'address': address, 'defer_accept': defer}])
    silent = Client(address)
    wait_until(lambda: sum(in_flight(lb)) == 1, 'to be accepted')
    assert silent.request().status == 200
    assert sum(shares(lb)) == 1


def cpus_of_threads(pid):
    out = []
    for task in os.listdir('/proc/%d/task' % pid):
        with open('/proc/%d/task/%s/status' % (pid, task)) as f:
            out += [line.split()[1] for line in f if line.startswith('Cpus_allowed_list:')]
    return out


@pytest.mark.parametrize('form', ['auto', 'list'])
def test_loops_stay_on_their_cpus(world, form):
    allowed = sorted(os.sched_getaffinity(0))
    wanted = allowed[:2] if form == 'auto' else allowed[1::-1]
    lb = start(world, 3, cpu_affinity='auto' if form == 'auto' else '%d,%d' % tuple(wanted))
    cpus = (allowed if form == 'auto' else wanted) * 3
    assert [one['cpu'] for one in loops(lb)] == cpus[:3]
    pinned = [text for text in cpus_of_threads(lb.process.pid) if text.isdigit()]
    assert sorted(pinned) == sorted(str(cpu) for cpu in cpus[:3])


def test_by_default_loops_run_where_they_like(world):
    lb = start(world, 2)
    assert [one['cpu'] for one in loops(lb)] == [None, None]


def test_a_list_of_cpus_states_how_many_loops_there_are(world):
    cpu = min(os.sched_getaffinity(0))
    lb = start(world, 'auto', cpu_affinity=str(cpu))
    assert [one['cpu'] for one in loops(lb)] == [cpu]


def test_a_list_of_cpus_that_cannot_be_is_rejected_with_its_place(tmp_path):
    path = tmp_path / 'bad.yaml'
    for text, why in [('0,0', 'duplicate CPU'), ('1000', 'names a CPU that this process may not use'), ('first', 'expected off, auto')]:
        path.write_text('listen: [{address: "127.0.0.1:1"}]\nworkers: [{address: "127.0.0.1:2"}]\ncpu_affinity: "%s"\n' % text)
        r = subprocess.run([BIN / 'resumelb', '-t', '-c', path], capture_output=True, text=True, timeout=LIMIT)
        assert r.returncode == 1
        assert '%s:3:' % path in r.stderr and why in r.stderr


def test_with_few_descriptors_one_that_waits_at_any_loop_is_served_in_the_end(world):
    lb = start(world, 4)
    pid = lb.process.pid
    dial(lb)[0].close()
    used = len(os.listdir('/proc/%d/fd' % pid))
    subprocess.run(['prlimit', '--pid', str(pid), '--nofile=%d:%d' % (used + 24, used + 24)], check=True)

    def ask(first):
        # Each is served only when earlier ones have closed: there are far more connections than file descriptors.
        with first:
            assert first.receive().status == 200
        for _ in range(3):
            with Client(lb.address) as c:
                assert c.request().status == 200
        return 4

    # When it continues, all 80 are waiting.
    freeze(pid)
    try:
        waiting = [Client(lb.address) for _ in range(80)]
        for c in waiting:
            c.send()
    finally:
        os.kill(pid, signal.SIGCONT)
    with concurrent.futures.ThreadPoolExecutor(80) as pool:
        assert sum(pool.map(ask, waiting)) == 320
    wait_until(lambda: sum(in_flight(lb)) == 0, 'all to be gone')
    assert sum(one['accepted'] for one in loops(lb)) >= 320
    pauses, = re.findall(r'^resumelb_accept_pauses_total (\d+)', get(lb.admin, '/metrics', host=lb.admin).text, re.M)
    assert int(pauses) > 0, 'there were not enough file descriptors'
