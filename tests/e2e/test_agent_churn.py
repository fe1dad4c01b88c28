# SPDX-License-Identifier: Apache-2.0
"""Real gunicorns that are spent, restarted and killed all the time, behind a load balancer: nobody notices."""
import contextlib
import itertools
import os
import random
import signal
import threading

from support.base import PACE, wait_until
from support.http import BodyCutShort, CutShort, get
from test_agent_restart import GunicornAgent

# How many are killed; more in `make soak`.
KILLS = 60 if int(os.environ.get('RLB_SOAK_ROUNDS', '1')) > 1 else 12
# So many are answered between one death and the next.
GETS = 20


class Clients:
    """GETs and POSTs, each POST of its own, without pause until stopped."""

    def __init__(self, address, n):
        self.address = address
        self.counts = {'GET': 0, 'POST': 0}
        self.failed, self.lost_posts, self.cut_short, self.posts = [], [], [], []
        self.lock, self.stopping = threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(k,)) for k in range(n)]
        for t in self.threads:
            t.start()

    def _run(self, k):
        for i in itertools.count():
            if self.stopping.wait(PACE):
                return
            method = 'POST' if (i + k) % 4 == 0 else 'GET'
            target = '/%s/%d/%d' % (method, k, i)
            cut_short = False
            try:
                status = get(self.address, target, method=method, host='site%d.example' % (i % 7),
                             body=b'x' if method == 'POST' else None).status
            except CutShort as e:
                status, cut_short = repr(e), isinstance(e, BodyCutShort) or method == 'POST'
            except Exception as e:
                status = repr(e)
            with self.lock:
                self.counts[method] += 1
                if method == 'POST':
                    self.posts.append(target)
                # one that a killed process had got is lost, and not repeated
                if method == 'POST' and (status == 502 or cut_short):
                    self.lost_posts.append(target)
                elif cut_short:
                    self.cut_short.append(target)
                elif status != 200:
                    self.failed.append((target, status))

    def stop(self):
        self.stopping.set()
        for t in self.threads:
            t.join()


def churn(agent, clients):
    """Kill KILLS processes, whichever, and restart all with every second one; in between GETs are answered."""
    for n in range(1, KILLS + 1):
        before = clients.counts['GET']
        wait_until(lambda: clients.counts['GET'] > before + GETS, 'GETs')
        if n % 2 == 0:
            (agent.tmp / 'restart.txt').touch()
        # Of those that serve there is one left, or nobody could answer.
        slots = wait_until(lambda: len(ready := [s for s in agent.app()['slots'] if s['state'] == 'ready']) > 1 and ready, 'two to serve')
        with contextlib.suppress(ProcessLookupError):
            os.kill(random.choice(slots)['process']['pid'], signal.SIGKILL)


def test_spent_restarted_and_killed_at_once_no_get_fails_and_no_post_runs_twice(world):
    agent = GunicornAgent(world, slots=3, min_processes=3, max_processes=3, max_requests=50, ready_probe='/', respawn_delay_max='200ms')
    lb = world.resumelb({'applications': {'app': {'tree': 'directory:%s' % (agent.tree / 'app')}}}, wait=False)
    wait_until(lb.listening, 'the load balancer')
    wait_until(lambda: len([w for w in lb.workers('app').values() if w['state'] == 'ready']) == 3, 'three workers')
    clients = Clients(lb.address, 4)
    churn(agent, clients)
    wait_until(lambda: agent.figures()['replaced'] >= 2, 'replacements')
    clients.stop()
    figures = agent.figures()
    print('%s, %d POSTs lost to a killed process, %d died, %d replaced, %d spawned' % (
        clients.counts, len(clients.lost_posts), figures['deaths'], figures['replaced'], figures['spawns']))
    assert clients.failed == []
    # A response that had begun when its process was killed cannot be had from another one.
    assert len(clients.cut_short) <= agent.process.output().count('response_begun=yes'), clients.cut_short
    executed = [path for _, path, *_ in agent.seen() if path.startswith('/POST/')]
    assert len(executed) == len(set(executed)), 'none twice'
    assert set(clients.posts) - set(clients.lost_posts) <= set(executed) <= set(clients.posts)
    assert figures['deaths'] >= 3
