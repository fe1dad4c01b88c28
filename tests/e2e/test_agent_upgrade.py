# SPDX-License-Identifier: Apache-2.0
"""
SIGUSR2: a new agent takes over sockets and processes without a failed request. The tests behind a load balancer, those with
ZooKeeper and those that kill the old agent while it finishes use gunicorns; the others use the tiny server, which is ten times
faster.
"""
import json
import os
import pathlib
import shutil
import signal
import socket

import pytest

from agent_support import Background, TinyAgent, alive
from agent_upgrade_support import agent_pid, begin_upgrade, follow, upgrade
from load_support import Load
from support.base import BIN, LIMIT, free_port, wait_until
from support.http import Client, get
from zookeeper_support import SESSION, Place

ROUNDS = int(os.environ.get('RLB_SOAK_ROUNDS', '1'))
UPGRADES = 5 * ROUNDS if ROUNDS > 1 else 2


def test_a_new_agent_serves_with_the_same_processes(world):
    agent = TinyAgent(world, slots=2).wait_ready()
    pids = [agent.pid(n) for n in range(2)]
    instances = [agent.slot(n)['instance'] for n in range(2)]
    stream = agent.stream()
    supervisor = agent.json()['supervisor_pid']
    for _ in range(3):
        upgrade(agent)
        agent.wait_ready()
        assert [agent.pid(n) for n in range(2)] == pids
        assert [agent.slot(n)['instance'] for n in range(2)] == instances
        assert agent.figures()['adopted'] == 2 and agent.figures()['spawns'] == 0
        assert [json.loads(agent.get(n=n).body)['pid'] for n in range(2)] == pids
        wait_until(lambda: agent.provider() and agent.provider()['instance'] == instances[0]
                   and str(agent.process.pid) in agent.provider()['agent'], 'its registration')
    assert agent.json()['supervisor_pid'] == supervisor
    wait_until(lambda: stream.ended, 'the stream to end')
    assert stream.last() == {'end': 'upgrade'}
    # it works like any agent: it is notified of exits, starts processes, and ends all of them
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: agent.figures()['deaths'] == 1, 'the death of a process')
    agent.wait_ready()
    last = [agent.pid(n) for n in range(2)]
    agent.process.stop()
    assert not [p for p in [*last, supervisor] if alive(p)]


# ---- under load ----

def loads(lb, agent):
    """Loads through the load balancer and directly at the agent, with persistent connections and with one for each request."""
    return [Load([lb.address, *agent.addresses], posts=2, keep=keep, name='kept%d' % keep) for keep in (True, False)]


def go_on(all_loads, n):
    """Waits until each client has completed N more requests."""
    for x in all_loads:
        x.go_on(n)


def stop(all_loads):
    for x in all_loads:
        x.stopping.set()
    for x in all_loads:
        x.stop()


def behind_a_load_balancer(world):
    lb = world.resumelb({'applications': {'app': {'tree': 'directory:%s' % (world.directory / 'tree' / 'app')}}}, wait=False)
    wait_until(lb.listening, 'the load balancer')
    wait_until(lambda: len([w for w in lb.workers('app').values() if w['state'] == 'ready']) == 2, 'two workers')
    return lb


def sent_by(all_loads):
    return sorted(target for x in all_loads for target in x.posts)


def process_pids(agent):
    return [s['process']['pid'] for s in agent.json()['applications']['app']['slots']]


def executed(world, name='executed.log'):
    path = world.directory / name
    return path.read_text().split() if path.exists() else []


def test_no_request_is_lost_and_none_comes_twice(world):
    agent = world.agent('agent', world.directory / 'tree', slots=2, max_queue=100)
    lb = behind_a_load_balancer(world)
    pids = process_pids(agent)
    instances = {w['instance'] for w in lb.workers('app').values()}
    all_loads = loads(lb, agent)
    go_on(all_loads, 20)
    for _ in range(UPGRADES):
        upgrade(agent)
        go_on(all_loads, 15)
    stop(all_loads)
    assert process_pids(agent) == pids
    assert {w['instance'] for w in lb.workers('app').values()} == instances
    sent = sent_by(all_loads)
    assert sorted(executed(world)) == sent
    done = sum(x.done for x in all_loads)
    print('%d requests over %d upgrades, %d of them POSTs' % (done, UPGRADES, len(sent)))
    assert done >= 6 * (20 + 15 * UPGRADES)


def test_a_request_in_progress_is_finished_by_the_old_one(world):
    agent = TinyAgent(world).wait_ready()
    pid = agent.pid()
    go = world.directory / 'go'
    running = Background(agent.address, 'POST', '/running', [('X-Until', str(go))], b'x')
    wait_until(lambda: agent.slot()['running'] == 1, 'it to run')
    waiting = Background(agent.address, 'POST', '/waiting', (), b'x')
    wait_until(lambda: agent.slot()['waiting'] == 1, 'one to wait')
    old = begin_upgrade(agent)
    # the new agent knows that the process is busy, and queues its own request
    later = Background(agent.address, 'POST', '/later', (), b'x')
    wait_until(lambda: agent.slot()['waiting'] == 1, 'the new one\'s to wait')
    assert old.alive() and agent.slot()['running'] == 0
    go.write_text('')
    assert [json.loads(x.result().body)['pid'] for x in (running, waiting, later)] == [pid] * 3
    assert old.wait() == 0
    assert [x for x in agent.served() if x.startswith('POST')] == ['POST /running', 'POST /waiting', 'POST /later']


def test_the_old_one_ends_though_a_connection_outlives_its_process_and_its_client(world):
    agent = TinyAgent(world).wait_ready()
    go = world.directory / 'go'
    with Client(agent.address) as client:
        client.send('POST', '/running', headers=[('X-Until', str(go)), ('X-Fork', '1'), ('Content-Length', '1')], body=b'x')
        wait_until(lambda: agent.slot()['running'] == 1, 'it to run')
        pid = agent.pid()
        old = begin_upgrade(agent)
    os.kill(pid, signal.SIGKILL)
    assert old.wait() == 0, old.output()[-4000:]
    go.write_text('')
    wait_until(lambda: agent.pid() not in (None, pid), 'another process')
    assert agent.get().status == 200


def test_measured_skills_pass_to_the_new_agent(world):
    agent = TinyAgent(world, history=1000, persistent=False).wait_ready()
    fingerprint = '0123456789abcdef'
    named = [('Resumelb-Class', 'a.example'), ('Resumelb-Classifier', fingerprint)]
    for _ in range(5):
        assert agent.get(headers=named).status == 200
    upgrade(agent)
    agent.wait_ready()
    stream = agent.stream(headers=[('Resumelb-Classifier', fingerprint)])
    # no file contains it, and no resume was published yet
    assert list(stream.wait(lambda x: x.get('skills'))['skills']) == ['a.example']


def test_a_process_to_be_stopped_first_finishes_what_the_old_one_sent(world):
    agent = TinyAgent(world).wait_ready()
    go = world.directory / 'go'
    running = Background(agent.address, 'POST', '/running', [('X-Until', str(go))], b'x')
    wait_until(lambda: agent.slot()['running'] == 1, 'it to run')
    old = begin_upgrade(agent)
    agent.process.kill(signal.SIGTERM)
    wait_until(lambda: 'to=stopping' in agent.process.output(), 'the new one to end its processes')
    go.write_text('')
    assert running.result().status == 200
    agent.process.wait()
    assert old.wait() == 0


def test_processes_are_replaced_meanwhile(world):
    agent = TinyAgent(world, slots=2, max_queue=100, max_requests=40)
    lb = behind_a_load_balancer(world)
    all_loads = loads(lb, agent)
    go_on(all_loads, 10)
    for _ in range(UPGRADES):
        upgrade(agent)
        go_on(all_loads, 15)
    stop(all_loads)
    wait_until(lambda: agent.process.output().count('process-spawned') > 2, 'process-spawned')
    assert sorted(x.split()[1] for x in agent.served() if x.startswith('POST')) == sent_by(all_loads)


def test_an_applications_own_address_and_sockets_with_names_go_over(world):
    own = '127.0.0.1:%d' % free_port()
    path = 'unix:%s/slot-+.sock' % world.directory
    agent = TinyAgent(world, slots=2, address=path, listen=[own], queue='global', max_queue=100).wait_ready()
    pids = [agent.pid(n) for n in range(2)]
    all_loads = [Load([own, own, path.replace('+', '0'), path.replace('+', '1')], posts=1, keep=False)]
    go_on(all_loads, 10)
    for _ in range(2):
        upgrade(agent)
        go_on(all_loads, 10)
    stop(all_loads)
    assert [agent.pid(n) for n in range(2)] == pids
    agent.process.stop()
    assert not list(world.directory.glob('slot-*.sock'))


def test_ports_that_the_system_chose_stay(world):
    agent = TinyAgent(world, slots=2, address='127.0.0.1:0+').wait_ready()
    addresses = [agent.slot(n)['address'] for n in range(2)]
    upgrade(agent)
    agent.wait_ready()
    assert [agent.slot(n)['address'] for n in range(2)] == addresses
    assert [get(a, '/').status for a in addresses] == [200, 200]


def test_another_configuration_goes_over_with_it(world):
    agent = TinyAgent(world, slots=2).wait_ready()
    pids = [agent.pid(n) for n in range(2)]
    first, second = agent.addresses
    agent.config['applications']['app']['version'] = '2'
    agent.config['applications']['app'].update(min_processes=1, max_processes=1)
    agent.path.write_text(''.join('%s: %s\n' % (k, json.dumps(v)) for k, v in agent.config.items()))
    upgrade(agent)
    wait_until(lambda: agent.ready() and agent.slot()['process']['version'] == '2', 'a process of the new version')
    wait_until(lambda: not [p for p in pids if alive(p)], 'the old ones to end')
    assert get(first, '/').status == 200
    with pytest.raises(ConnectionRefusedError):
        get(second, '/')


def test_in_a_zookeeper_no_request_is_lost(world):
    place = Place(world, root='/app')
    agent = TinyAgent(world, slots=2, max_queue=100, top={'tree': place.url(''), 'zookeeper_session_timeout': SESSION})
    lb = place.balancer(resume='auto')
    wait_until(lambda: len([w for w in lb.workers('app').values() if w['state'] == 'ready']) == 2, 'two workers')
    all_loads = loads(lb, agent)
    go_on(all_loads, 10)
    for _ in range(2):
        pid = upgrade(agent)
        go_on(all_loads, 10)
        wait_until(lambda: all(str(pid) in place.tree.properties('/workers/providers/' + a).get('agent', '')
                               for a in agent.addresses if a in place.tree.providers('/workers'))
                   and place.tree.providers('/workers') == sorted(agent.addresses), 'its registrations')
    stop(all_loads)
    assert sorted(line.split()[1] for line in agent.served() if line.startswith('POST ')) == sent_by(all_loads)


# ---- what goes wrong ----

def test_a_bad_configuration_leaves_all_as_it_was(world):
    agent = TinyAgent(world).wait_ready()
    pid = agent.process.pid
    agent.path.write_text(agent.path.read_text() + 'no_such_setting: 1\n')
    agent.process.kill(signal.SIGUSR2)
    wait_until(lambda: 'upgrade-failed' in agent.process.output(), 'the failure')
    agent.process.wait_logged('no_such_setting')
    assert agent.get().status == 200 and agent_pid(agent) == pid
    # with a valid file the next upgrade succeeds
    agent.path.write_text(agent.path.read_text().replace('no_such_setting: 1\n', ''))
    upgrade(agent)
    assert agent.get().status == 200


class Installed(TinyAgent):
    """An agent that runs from a copy of the program, which the test can replace."""

    def start(self):
        self.binary = self.world.directory / 'resumelb-agent'
        shutil.copy(BIN / 'resumelb-agent', self.binary)
        self.config.update(self.top)
        self.path.write_text(''.join('%s: %s\n' % (k, json.dumps(v)) for k, v in self.config.items()))
        self.process = self.world.process([self.binary, '-c', self.path], self.name)

    def install(self, script):
        """Installs a program like a package manager: renames a new file over the old one."""
        new = self.world.directory / 'new'
        new.write_text(script)
        new.chmod(0o755)
        new.rename(self.binary)

    def install_true_one(self):
        new = self.world.directory / 'new'
        shutil.copy(BIN / 'resumelb-agent', new)
        new.rename(self.binary)


@pytest.mark.parametrize('script, said', [
    ('#!/bin/sh\nkill -SEGV $$\n', 'how="signal 11"'),
    ('#!/bin/sh\nexit 0\n', 'how="exit 0"'),
    ('#!/bin/sh\nexec sleep 3600\n', 'reason="not ready in time"'),
    ('#!/bin/sh\nexec 3>&-; exec sleep 3600\n', 'stage="starting"'),
    ('not a program\n', 'how="exit 127"'),
])
def test_a_program_that_does_not_come_up_leaves_all_as_it_was(world, script, said):
    hangs = 'in time' in said
    agent = Installed(world, top={'upgrade_timeout': '1s'} if hangs else None).wait_ready()
    pid, process = agent.process.pid, agent.pid()
    load = Load([agent.address], posts=1)
    agent.install(script)
    agent.process.kill(signal.SIGUSR2)
    wait_until(lambda: 'upgrade-failed' in agent.process.output(), 'the failure')
    agent.process.wait_logged(said)
    go_on([load], 10)
    assert agent_pid(agent) == pid and agent.pid() == process
    agent.install_true_one()
    if hangs:
        agent.path.write_text(agent.path.read_text().replace('upgrade_timeout: "1s"', 'upgrade_timeout: "10m"'))
        agent.process.kill(signal.SIGHUP)
        wait_until(lambda: 'config-reloaded' in agent.process.output(), 'the longer time-out')
    upgrade(agent)
    go_on([load], 10)
    stop([load])
    assert agent.pid() == process


def test_a_second_signal_is_ignored(world):
    agent = TinyAgent(world).wait_ready()
    go = world.directory / 'go'
    running = Background(agent.address, 'GET', '/', [('X-Until', str(go))])
    wait_until(lambda: agent.slot()['running'] == 1, 'it to run')
    old = agent.process
    old.kill(signal.SIGUSR2)
    old.kill(signal.SIGUSR2)
    follow(agent, wait_until(lambda: agent_pid(agent) not in (None, old.pid) and agent_pid(agent), 'a new agent'))
    old.kill(signal.SIGUSR2)
    wait_until(lambda: old.output().count('reason="an upgrade is in progress"') >= 1, 'the rejection of the old one')
    agent.process.kill(signal.SIGUSR2)
    wait_until(lambda: 'reason="the previous upgrade has not finished"' in agent.process.output(), 'that of the new one')
    go.write_text('')
    assert running.result().status == 200
    assert old.wait() == 0
    upgrade(agent)


def slow_start(world, **kw):
    """An agent with a new process that does not start before a file exists. Returns the agent and the path of that file."""
    flag = world.directory / 'may-start'
    agent = Installed(world, **kw).wait_ready()
    agent.install('#!/bin/sh\nwhile [ ! -e %s ]; do sleep 0.02; done\nexec %s "$@"\n' % (flag, BIN / 'resumelb-agent'))
    return agent, flag


def children(pid):
    return [int(x) for x in pathlib.Path('/proc/%d/task/%d/children' % (pid, pid)).read_text().split()]


def starting(agent):
    """The process that is being started."""
    wait_until(lambda: 'stage="starting"' in agent.process.output(), 'the start')
    return [p for p in children(agent.process.pid) if p != agent.json()['supervisor_pid']][-1]


def test_kill_9_of_the_new_one_before_it_serves(world):
    agent, _ = slow_start(world)
    load = Load([agent.address], posts=1)
    agent.process.kill(signal.SIGUSR2)
    os.kill(starting(agent), signal.SIGKILL)
    wait_until(lambda: 'upgrade-failed' in agent.process.output(), 'the failure')
    agent.process.wait_logged('how="signal 9"')
    go_on([load], 10)
    stop([load])


def test_kill_9_of_the_old_one_before_the_new_one_serves(world):
    agent, flag = slow_start(world)
    process = agent.pid()
    old = agent.process
    old.kill(signal.SIGUSR2)
    new = starting(agent)
    old.kill()
    old.wait()
    flag.write_text('')
    follow(agent, new)
    agent.wait_ready()
    assert agent_pid(agent) == new
    assert agent.pid() == process and agent.figures()['adopted'] == 1
    assert agent.get().status == 200


def test_kill_9_of_the_old_one_while_it_finishes(world):
    agent = world.agent('agent', world.directory / 'tree', slots=1)
    slot = lambda: agent.json()['applications']['app']['slots'][0]
    wait_until(lambda: agent_pid(agent) and slot()['state'] == 'ready', 'the agent')
    process = process_pids(agent)
    go = world.directory / 'go'
    running = Background(agent.addresses[0], 'POST', '/', [('X-Until', str(go)), ('X-Once', 'running')], b'x')
    wait_until(lambda: slot()['running'] == 1, 'it to run')
    old = begin_upgrade(agent)
    later = Background(agent.addresses[0], 'POST', '/', [('X-Once', 'later')], b'x')
    wait_until(lambda: slot()['waiting'] == 1, 'one to wait for the old one')
    old.kill()
    old.wait()
    with pytest.raises(Exception):
        running.result()
    go.write_text('')
    assert later.result().status == 200
    assert process_pids(agent) == process
    wait_until(lambda: sorted(executed(world)) == ['later', 'running'], 'both to be executed, once')


def test_kill_9_of_the_new_one_while_the_old_one_finishes(world):
    agent = TinyAgent(world, slots=2).wait_ready()
    processes = [agent.pid(n) for n in range(2)]
    go = world.directory / 'go'
    running = Background(agent.address, 'GET', '/', [('X-Until', str(go))])
    wait_until(lambda: agent.slot()['running'] == 1, 'it to run')
    old, old_pid = agent.process, agent.process.pid
    old.kill(signal.SIGUSR2)
    new = wait_until(lambda: agent_pid(agent) not in (None, old_pid) and agent_pid(agent), 'a new agent')
    # processes that the new agent starts then belong to the old one, too
    os.kill(processes[1], signal.SIGKILL)
    def another():
        process = agent.slot(1).get('process') or {}
        return process.get('state') == 'ready' and process['pid'] not in (None, processes[1]) and process['pid']
    started = wait_until(another, 'another process')
    os.kill(new, signal.SIGKILL)
    wait_until(lambda: agent_pid(agent) == old_pid, 'the old one to serve again')
    old.wait_logged('upgrade-failed')
    agent.wait_ready()
    assert [agent.pid(n) for n in range(2)] == [processes[0], started]
    go.write_text('')
    assert running.result().status == 200
    assert [agent.get(n=n).status for n in range(2)] == [200, 200]
    wait_until(lambda: agent.provider() and str(old_pid) in agent.provider()['agent'], 'its registration')
    upgrade(agent)
    assert agent.pid() == processes[0]


def test_the_service_manager_is_notified_of_the_new_main_process(world, monkeypatch):
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(str(world.directory / 'notify'))
    notify.settimeout(LIMIT)
    monkeypatch.setenv('NOTIFY_SOCKET', str(world.directory / 'notify'))
    agent = TinyAgent(world).wait_ready()
    assert notify.recv(1000) == b'READY=1'
    pid = upgrade(agent)
    said = notify.recv(1000).split(b'\n')
    while b'MAINPID=%d' % pid not in said:
        said = notify.recv(1000).split(b'\n')
    assert b'READY=1' in said
