# SPDX-License-Identifier: Apache-2.0
"""The programs of the chaos run, and the interventions in them."""
import os
import pathlib
import random
import signal
import subprocess
import time

from faulty_support import below
from support.base import BIN, ROOT, free_port, wait_until
from support.certificates import Pair
from support.servers import RUN_GUNICORN, Agent, yaml
from zookeeper_support import SHORT_SESSION, Place, tree_of

SUPPORT = ROOT / 'tests' / 'e2e' / 'support'
# AddressSanitizer holds freed memory in a quarantine. It is limited here, as resident memory grows until the quarantine is full.
SANITIZER = {'ASAN_OPTIONS': 'quarantine_size_mb=4:thread_local_quarantine_size_kb=64'}
# Maximum number of steps for which a process is stopped.
STOP = 5
PROCESSES = 2    # of each agent


class ChaosAgent(Agent):
    """An agent with two gunicorns, registered in ZooKeeper. HOSTS: the address of a proxy in front of ZooKeeper, if it uses one."""

    def __init__(self, world, name, place, executed, hosts=None):
        self.place, self.hosts = place, hosts
        super().__init__(
            world, name, 'unused', slots=PROCESSES, ready_probe='/', respawn_delay='50ms', respawn_delay_max='1s',
            root=str(world.directory / name), history=200,
            command=[*RUN_GUNICORN, '--workers=1', '--worker-class=gthread', '--threads=1',
                     '--keep-alive=75', '--timeout=600', '--log-level=warning', '--worker-tmp-dir=/dev/shm', 'chaos_app:application'],
            environment={'PYTHONDONTWRITEBYTECODE': '1', 'PYTHONPATH': str(SUPPORT), 'APP_NAME': name,
                         'EXECUTED': str(executed)})

    def start(self):
        (self.world.directory / self.name / 'tmp').mkdir(parents=True, exist_ok=True)
        self.config.update(tree=self.place.url('', self.hosts), zookeeper_session_timeout=SHORT_SESSION)
        self.path.write_text(''.join('%s: %s\n' % (k, yaml(v)) for k, v in self.config.items()))
        self.process = self.world.process([BIN / 'resumelb-agent', '-c', self.path], self.name, env=SANITIZER)

    def pids(self):
        """The pids of all its application processes and their descendants. Empty if the agent does not respond."""
        try:
            slots = self.json()['applications']['app']['slots']
        except (OSError, AssertionError):
            return []
        roots = {s['process']['pid'] for s in slots if s.get('process')}
        return sorted(below(roots))


def resident_kib(pid):
    for line in pathlib.Path('/proc/%d/status' % pid).read_text().splitlines():
        if line.startswith('VmRSS:'):
            return int(line.split()[1])
    return None    # a zombie


class Stage:
    """
    A ZooKeeper server; a load balancer; two agents with two gunicorns each; two listed workers that work correctly and are never
    disturbed, and two faulty ones; one worker of either kind that is registered at times. The load balancer and one agent connect
    to ZooKeeper through a proxy.
    """

    def __init__(self, world, seed):
        self.world, self.seed = world, seed
        self.executed = world.directory / 'executed'
        self.place = Place(world)
        self.tree = self.place.tree
        self.proxy = self.place.proxy()
        # The first agent runs until the end, and its memory is measured. The second is killed at times and uses the proxy.
        self.steady = ChaosAgent(world, 'steady', self.place, self.executed)
        self.mortal = ChaosAgent(world, 'mortal', self.place, self.executed, self.proxy.address)
        self.agents = [self.steady, self.mortal]
        self.good = [self.worker('good%d' % i, 'good')[0] for i in range(2)]
        self.bad = [self.worker('bad%d' % i, 'bad') for i in range(2)]
        self.guests = [self.worker('guest', 'good'), self.worker('bad-guest', 'bad')]
        self.make_certificate()
        self.tls_address = '127.0.0.1:%d' % free_port()
        self.lb = self.balancer()
        wait_until(self.agents_are_ready, "the agents' processes")

    def worker(self, name, kind):
        port = free_port()
        child = subprocess.Popen(['/usr/bin/python3', '-B', SUPPORT / 'chaos_worker.py', str(port), name, kind, str(self.seed),
                                  self.executed], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)

        def end():
            child.kill()
            child.wait()
            child.stdout.close()
        self.world.closers.append(end)
        assert child.stdout.readline() == b'ready\n', '%s does not start' % name
        return '127.0.0.1:%d' % port, child.pid

    def make_certificate(self):
        pair = Pair(self.world.directory, 'site', ['test.example'])
        self.certificate, self.key = pair.cert, pair.key

    def balancer(self):
        port = free_port()
        lb = self.world.resumelb({
            'applications': {'app': {
                'tree': self.place.url(hosts=self.proxy.address), 'provider_networks': ['loopback'],
                'zookeeper_session_timeout': SHORT_SESSION,
                'workers': [{'address': a} for a in [*self.good, *(a for a, _ in self.bad)]],
                # enough retries for all workers that may fail a request, without a budget
                'retries': 8, 'retry_budget': 1,
                # A request may meet three faulty workers, one after the other.
                'poison_deaths': 0}},
            'state_dir': str(self.world.directory / 'lb-state'),
            'http2_requests': 200,      # so that connections reach their limit in a short run too
            'access_log': str(self.world.directory / 'access.log'), 'access_log_format': 'json'},
            listen=[{'address': '127.0.0.1:%d' % port},
                    {'address': self.tls_address, 'http2': True,
                     'tls': {'certificate': str(self.certificate), 'key': str(self.key)}}], env=SANITIZER, wait=False)
        lb.port, lb.address = port, '127.0.0.1:%d' % port
        wait_until(lb.listening, 'the load balancer')
        return lb

    def agents_are_ready(self):
        w = self.lb.workers('app')
        return all(w.get(a, {}).get('state') == 'ready' for agent in self.agents for a in agent.addresses)


class Chaos:
    """Performs the interventions, one after the other. quiet() reverts all of them."""

    def __init__(self, stage, judge):
        self.stage, self.judge, self.tree = stage, judge, stage.tree
        self.random = random.Random('chaos %s' % stage.seed)
        self.steps = 0
        self.stopped = {}       # pid: the step at which it is continued
        self.zookeeper_back = self.mortal_back = None
        self.listed_bad = 2
        self.deeds = []         # the next ones: a random permutation of DEEDS, so that a short run has all kinds too
        self.log = []

    # ---- processes ----

    def victim(self):
        """Returns a random agent and one of its processes, or None instead of the process if the agent cannot be asked for them."""
        agent = self.random.choice(self.stage.agents)
        stopped = agent.process.pid in self.stopped or not agent.process.alive()
        pids = [] if stopped else agent.pids()
        return agent, self.random.choice(pids) if pids else None

    def stop_a_process(self):
        candidates = [self.victim()[1], *(pid for _, pid in self.stage.bad + self.stage.guests)]
        self.stop(self.random.choice(candidates))

    def stop(self, pid):
        if pid is not None and send(pid, signal.SIGSTOP):
            self.stopped[pid] = self.steps + self.random.randint(1, STOP)

    def kill_a_process(self):
        agent, pid = self.victim()
        if pid is not None:
            self.judge.done_to(agent.name)
            send(pid, signal.SIGKILL)
            self.judge.done_to(agent.name)

    def ask_for_a_restart(self):
        agent = self.random.choice(self.stage.agents)
        path = self.stage.world.directory / agent.name / 'tmp' / 'restart.txt'
        path.touch()

    def stop_an_agent(self):
        agent = self.random.choice(self.stage.agents)
        if agent.process.alive():
            self.stop(agent.process.pid)

    def kill_the_agent(self):
        if self.mortal_back is None:
            self.judge.done_to('mortal')
            self.stage.mortal.kill()
            self.judge.done_to('mortal')
            self.mortal_back = self.steps + self.random.randint(1, 10)

    def hang_up(self):
        for p in (self.stage.steady.process, self.stage.lb.process):
            p.kill(signal.SIGHUP)

    # ---- the list of workers, and the settings ----

    def list_workers(self):
        """Changes the number of faulty workers in the configuration."""
        self.listed_bad = self.random.randrange(3)
        lb = self.stage.lb
        addresses = [*self.stage.good, *(a for a, _ in self.stage.bad[:self.listed_bad])]
        lb.config['applications']['app']['workers'] = [{'address': a} for a in addresses]
        whole = lb.path
        lb.path = whole.with_name('next.yaml')
        lb.write_config()
        lb.path.rename(whole)
        lb.path = whole
        lb.process.kill(signal.SIGHUP)

    def guest_comes_or_goes(self):
        if self.zookeeper_back is None:
            address, _ = self.random.choice(self.stage.guests)
            if address in (self.tree.providers('/workers') or []):
                self.tree.unregister('/workers', address)
            else:
                self.tree.register('/workers', address, application='app')

    def settings(self):
        if self.zookeeper_back is None:
            r = self.random
            self.tree.set('', variance=r.randrange(1, 9), backlog_history=r.randrange(2, 50), max_connections=r.choice([4, 16, 64]),
                          response_buffer=r.choice(['16KiB', '64KiB', '256KiB']), policy=r.choice(['adaptive', 'adaptive', 'resume', 'classless', 'hash', 'p2c']),
                          idle_connection_timeout=r.choice(['1s', '60s']))

    def garbled_settings(self):
        if self.zookeeper_back is None:
            self.tree.set_raw(self.random.choice(['', '/workers']), self.random.choice(
                [b'{"variance": ', b'[]', b'\xff', b'{"variance": "lots", "retries": 8}', b'', self.random.randbytes(200)]))

    # ---- ZooKeeper ----

    def zookeeper_goes(self):
        if self.zookeeper_back is None:
            server = self.stage.place.server
            self.random.choice([server.kill, server.freeze])()
            self.zookeeper_back = self.steps + self.random.randint(2, 20)

    def zookeeper_comes(self):
        server = self.stage.place.server
        if server.process.alive():
            server.thaw()
        else:
            server.start()
        self.zookeeper_back = None

    def connections_to_zookeeper(self):
        p = self.stage.proxy
        self.random.choice([p.cut, p.cut, p.refuse if not p.refusing else p.pass_on, p.blackhole, p.pass_on, p.pass_on])()

    # ---- sequence ----

    DEEDS = [stop_a_process, stop_a_process, stop_a_process, kill_a_process, kill_a_process, ask_for_a_restart, stop_an_agent,
             kill_the_agent, hang_up, list_workers, list_workers, guest_comes_or_goes, guest_comes_or_goes, settings, settings,
             garbled_settings, zookeeper_goes, connections_to_zookeeper, connections_to_zookeeper]

    def step(self):
        self.steps += 1
        self.undo(self.steps)
        if not self.deeds:
            self.deeds = self.random.sample(Chaos.DEEDS, len(Chaos.DEEDS))
        deed = self.deeds.pop()
        self.log.append('%s %s' % (time.strftime('%H:%M:%S'), deed.__name__))
        deed(self)

    def undo(self, now):
        """Reverts the interventions that end by step NOW."""
        for pid, until in list(self.stopped.items()):
            if now >= until:
                send(pid, signal.SIGCONT)
                del self.stopped[pid]
        if self.zookeeper_back is not None and now >= self.zookeeper_back:
            self.zookeeper_comes()
        if self.mortal_back is not None and now >= self.mortal_back:
            self.mortal_back = None
            self.stage.mortal.start()

    def quiet(self):
        self.undo(float('inf'))
        self.stage.proxy.pass_on()
        for address, _ in self.stage.guests:
            self.tree.unregister('/workers', address)
        self.tree.set('/workers')
        self.tree.set('', variance=9.5)
        wait_until(lambda: tree_of(self.stage.lb)['connected'], 'the tree')
        wait_until(self.stage.agents_are_ready, "the agents' processes")


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
