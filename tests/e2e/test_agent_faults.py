# SPDX-License-Identifier: Apache-2.0
"""Faults of application processes, with real servers: none affects the other application of the agent."""
import os
import random
import signal

import pytest

from agent_support import Background, alive
from faulty_support import DEAF_SERVERS, SERVERS, Two, below
from load_support import Load
from support.base import wait_until

# Number of processes to kill at random; many in the soak run.
KILLS = 60 if int(os.environ.get('RLB_SOAK_ROUNDS', '1')) > 1 else 6

both = pytest.mark.parametrize('server', sorted(SERVERS))


def short(server):
    """Tests with SERVER in `make test`, and with all servers in the soak run."""
    return pytest.mark.parametrize('server', [pytest.param(s, marks=[] if s == server else pytest.mark.soak) for s in sorted(SERVERS)])


# ---- starts that fail ----

@short('uwsgi')
def test_a_command_that_is_not_there(world, server):
    agent = Two(world, server, command=['/no/such/server', '--port={port}'])
    agent.output_has('/no/such/server: No such file')
    wait_until(lambda: agent.start_failures() >= 3, 'some tries')
    r = agent.ask()
    assert (r.status, r['Resumelb-Unprocessed']) == (503, '1')
    agent.unharmed()
    agent.end()


@short('uwsgi')
def test_a_server_that_exits_at_once(world, server):
    # gunicorn may lose the exception that is to end it, and stays without a worker
    agent = Two(world, server, fault='exits at once', respawn_delay='200ms', start_timeout='60s', stop_timeout='300ms')
    agent.output_has('cannot continue: no database')
    wait_until(lambda: agent.start_failures() >= 2, 'another try')
    r = agent.ask()
    assert (r.status, r['Resumelb-Unprocessed']) == (503, '1')
    agent.unharmed()
    agent.end()


@short('uwsgi')
def test_a_server_that_never_gets_ready(world, server):
    agent = Two(world, server, fault='never ready', start_timeout='10s', stop_timeout='300ms')
    agent.output_has('waiting for a database')
    waiting = Background(agent.addresses[0], 'POST', '/post', body=b'x')
    agent.output_has('process-start-timeout')
    assert (waiting.result().status, waiting.result()['Resumelb-Unprocessed']) == (503, '1')
    wait_until(lambda: agent.figures()['spawn_failures'] >= 1, 'the failure to be counted')
    assert not agent.executed.exists()
    agent.unharmed()
    agent.end()


# ---- requests that do harm ----

@short('gunicorn')
def test_a_request_that_hangs(world, server):
    agent = Two(world, server, first_byte_timeout='10s', stop_timeout='300ms').wait_ready()
    pid = agent.pid()
    family = below([pid])
    assert len(family) > 1
    hanging = Background(agent.addresses[0], target='/hang')
    waiting = Background(agent.addresses[0], 'POST', '/waiting', body=b'x')
    assert hanging.result().status == 504
    # the request queued behind it was not sent to a process, or is executed by the next one
    assert waiting.result().status in (200, 503)
    agent.output_has('line="hanging')
    wait_until(lambda: agent.pid() not in (None, pid), 'another process')
    agent.wait_ready()
    assert agent.ask().status == 200
    wait_until(lambda: not [p for p in family if alive(p)], 'the end of its whole family')
    agent.unharmed()
    agent.end()


@short('uwsgi')
def test_a_process_that_leaks_memory(world, server):
    agent = Two(world, server, top={'usage_interval': '200ms'}, max_memory='100MiB', stop_timeout='300ms').wait_ready()
    pid = agent.pid()
    family = below([pid])
    # replaced gracefully: no request fails in the meantime
    load = Load(agent.addresses[:1])
    assert [agent.ask('/leak').status for _ in range(6)] == [200] * 6
    wait_until(lambda: agent.pid() not in (None, pid), 'its successor')
    load.go_on()
    load.stop()
    wait_until(lambda: not [p for p in family if alive(p)], 'its end')
    assert agent.figures()['over_max_memory'] >= 1
    agent.unharmed()
    agent.end()


@short('gunicorn')
def test_children_die_with_their_process(world, server):
    agent = Two(world, server).wait_ready()
    pid = agent.pid()
    assert agent.ask('/children').status == 200
    children = [int(line) for line in agent.children.read_text().split()]
    assert len(children) == 2 and all(alive(c) for c in children)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: agent.pid() not in (None, pid), 'another process')
    wait_until(lambda: not alive(children[0]), 'the child of its group to end')
    agent.wait_ready()
    assert agent.ask().status == 200
    # a child that has left the process group is not ended while the supervisor is running
    agent.unharmed(but=[children[1]] if alive(children[1]) else ())
    agent.end()
    assert not alive(children[1])


@both
def test_a_process_that_ignores_sigterm(world, server):
    agent = Two(world, server, command=DEAF_SERVERS[server], stop_timeout='500ms').wait_ready()
    pid = agent.pid()
    family = below([pid])
    (world.directory / 'tmp').mkdir()
    (world.directory / 'tmp' / 'restart.txt').write_text('')
    wait_until(lambda: agent.pid() not in (None, pid), 'its successor')
    wait_until(lambda: not [p for p in family if alive(p)], 'its end')
    agent.wait_ready()
    assert agent.ask().status == 200
    agent.load.go_on()
    agent.nothing_left_over()
    agent.end()


# ---- deaths ----

@short('uwsgi')
def test_a_process_that_dies_under_100_queued_requests(world, server):
    agent = Two(world, server, max_queue=100).wait_ready()
    pid = agent.pid()
    running = Background(agent.addresses[0], 'POST', '/hang', body=b'x')
    wait_until(lambda: agent.executed.exists(), 'the first to run')
    queued = [Background(agent.addresses[0], 'POST', '/queued-%d' % i, body=b'x') for i in range(100)]
    wait_until(lambda: agent.app()['slots'][0]['waiting'] == 100, 'the others to wait')
    os.kill(pid, signal.SIGKILL)
    r = running.result()
    assert (r.status, r['Resumelb-Unprocessed']) == (502, None)
    # each is either rejected unprocessed, or served once by the next process
    served = 0
    for i, q in enumerate(queued):
        r = q.result()
        assert (r.status, r['Resumelb-Unprocessed']) in ((503, '1'), (200, None)), (i, r.status, r.text)
        served += r.status == 200
    agent.wait_ready()
    executed = agent.executed.read_text().split()
    assert len(executed) == len(set(executed)) == served + 1
    agent.output_has('how="signal 9')
    agent.unharmed()
    agent.end()


@short('uwsgi')
def test_processes_killed_at_random_under_load(world, server):
    seed = int(os.environ.get('RLB_SEED', '7'))
    chance = random.Random(seed)
    print('seed %d' % seed)
    agent = Two(world, server, slots=3, max_queue=100).wait_ready()
    lb = world.resumelb({'workers': agent.addresses, 'resume': 'stream', 'retries': 5}, wait=False)
    wait_until(lambda: lb.listening() and all(w['state'] == 'ready' for w in lb.workers().values()), 'the workers')
    clients = Load([lb.address], clients=4, posts=4, target='/slow', lossy=True)
    kills, seen = 0, set()
    while kills < KILLS:
        # kill only while all three are ready, so that at least two can respond
        wait_until(lambda: all(s['state'] == 'ready' for s in agent.app()['slots']), 'all to be ready')
        family = below([s['process']['pid'] for s in agent.app()['slots'] if s.get('process')])
        seen |= family
        victim = chance.choice(sorted(family))
        try:
            os.kill(victim, signal.SIGKILL)
            kills += 1
        except ProcessLookupError:
            continue
        clients.go_on(5)
    clients.stop()
    wait_until(lambda: len(clients.cut_short) <= agent.process.output().count('response_begun=yes'), 'the log to have all of %s' % clients.cut_short)
    agent.wait_ready()
    executed = agent.executed.read_text().split()
    assert len(executed) == len(set(executed))
    # requests that got 200 were executed
    assert set(clients.posts) - {target for target, _ in clients.lost} <= set(executed)
    assert agent.figures()['deaths'] >= 1
    agent.unharmed()
    seen -= below([s['process']['pid'] for s in agent.app()['slots'] if s.get('process')])
    assert not [p for p in seen if alive(p)]
    agent.end()
