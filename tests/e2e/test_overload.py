# SPDX-License-Identifier: Apache-2.0
"""Overload: the process has no file descriptors left, or dies under load."""
import os
import re
import signal
import subprocess
import threading
import time

from agent_support import TinyAgent
from support.base import BIN, LIMIT, wait_until
from support.http import Client, get
from support.scripted import hello, serve
from upgrade_support import Loads, pid_of

TICKS = os.sysconf('SC_CLK_TCK')
# From http_server.c: how long no connection is accepted after the process has run out of file descriptors [s].
ACCEPT_AGAIN_S = 0.1


def cpu_ticks(pid):
    with open('/proc/%d/stat' % pid) as f:
        fields = f.read().rpartition(')')[2].split()
    return int(fields[11]) + int(fields[12])


def pauses(page):
    return int(re.search(r'^resumelb_accept_pauses_total (\d+)', page, re.M).group(1))


def test_without_descriptors_accepting_pauses_and_nothing_spins(world):
    w = world.scripted(serve(hello))
    lb = world.resumelb({'workers': [w.address]}, threads=1)
    pid = lb.process.pid
    # a connection to the admin address that exists already, for the metrics
    operator = Client(lb.admin)

    def metrics():
        return operator.request(target='/metrics', host=lb.admin).text
    before = pauses(metrics())
    used = len(os.listdir('/proc/%d/fd' % pid))
    subprocess.run(['prlimit', '--pid', str(pid), '--nofile=%d:%d' % (used + 20, used + 20)], check=True)
    clients = [Client(lb.address) for _ in range(100)]
    wait_until(lambda: pauses(metrics()) > before, 'accepting to pause')
    # during these pauses the process only retries to accept; a busy loop would use all of a core
    start, ticks, rounds = pauses(metrics()), cpu_ticks(pid), 15
    wait_until(lambda: time.sleep(ACCEPT_AGAIN_S) or pauses(metrics()) >= start + rounds, 'more pauses')
    assert cpu_ticks(pid) - ticks < rounds * ACCEPT_AGAIN_S * TICKS / 2
    assert len(os.listdir('/proc/%d/fd' % pid)) <= used + 20
    # closed clients free their descriptors once they have been accepted; then all waiting clients are served
    for c in clients[:95]:
        c.close()
    wait_until(lambda: get(lb.address).status == 200, 'room for a connection to the worker')
    for c in clients[95:]:
        assert c.request().status == 200
        c.close()
    assert lb.process.pid == pid and lb.process.alive()
    operator.close()


class Supervisor:
    """Restarts the load balancer immediately when it has ended, like its systemd unit (Restart=always)."""

    def __init__(self, world, lb):
        self.world, self.lb, self.codes, self.ending = world, lb, [], False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while True:
            code = self.lb.process.popen.wait()
            if self.ending:
                return
            self.codes.append(code)
            self.lb.process = self.world.process([BIN / 'resumelb', '-c', self.lb.path], 'life%d' % len(self.codes))

    def end(self):
        self.ending = True
        self.lb.process.kill(signal.SIGTERM)
        self.thread.join(LIMIT)
        assert not self.thread.is_alive()


def test_an_abort_under_load_is_contained(world):
    tree = world.directory / 'tree'
    agent = TinyAgent(world, slots=2)
    plain = world.scripted(serve(hello))
    lb = world.resumelb({'state_dir': str(world.directory / 'state'), 'applications': {
        'app': {'tree': 'directory:%s' % (tree / 'app'), 'hosts': ['app.example']},
        'plain': {'workers': [plain.address], 'resume': 'measure', 'history': 5, 'max_skill_age': 10000000,
                  'hosts': ['*.plain.example', 'test.example']},
    }}, wait=False)
    wait_until(lambda: lb.listening() and len([w for w in lb.workers('app').values() if w['state'] == 'ready']) == 2,
               'two workers')
    for _ in range(10):
        assert get(lb.address, host='a.plain.example').status == 200
    kept = world.directory / 'state' / 'plain'
    wait_until(lambda: any('a.plain.example' in f.read_text() for f in kept.glob('*')), 'the resume in its file')
    instances = {w['instance'] for w in lb.workers('app').values()}
    pids = [s['process']['pid'] for s in agent.json()['applications']['app']['slots']]
    supervisor = Supervisor(world, lb)
    loads = Loads([(lb.address, 'plain', posts, keep) for posts in (False, True) for keep in (False, True)], pause=0.001)
    for n in range(1, 4):
        loads.go_on(5)
        before = lb.process.pid
        os.kill(before, signal.SIGABRT)
        wait_until(lambda: pid_of(lb) not in (None, before), 'the next life')
        # requests at the time of the abort may have failed; no later one may fail
        wait_until(lambda: get(lb.address, host='test.example').status == 200, 'the service')
        last = [x.done for x in loads.all]
        wait_until(lambda: all(x.done > d + 1 for x, d in zip(loads.all, last)), 'each to have met it')
        for x in loads.all:
            x.failures.clear()
        loads.go_on(5)
        assert supervisor.codes == [-signal.SIGABRT] * n
        assert 'a.plain.example' in str(lb.json('/resumes.json'))
        wait_until(lambda: {w['instance'] for w in lb.workers('app').values()} == instances, 'the workers')
        wait_until(lambda: get(lb.address, host='app.example').status == 200, 'a response of the agent\'s')
    loads.stop()
    assert [s['process']['pid'] for s in agent.json()['applications']['app']['slots']] == pids
    supervisor.end()
