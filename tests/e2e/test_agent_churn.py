# SPDX-License-Identifier: Apache-2.0
"""Real gunicorns that are spent, restarted and killed all the time, behind a load balancer: nobody notices."""
import itertools
import os
import random
import signal
import threading
import time

from support.base import LIMIT, wait_until
from support.http import get
from test_agent_restart import GunicornAgent

# A minute in `make soak`.
SECONDS = 60 if int(os.environ.get('RLB_SOAK_ROUNDS', '1')) > 1 else 12


class Clients:
    """GETs and POSTs, each POST of its own, without pause until stopped."""

    def __init__(self, address, n):
        self.address = address
        self.counts = {'GET': 0, 'POST': 0}
        self.failed, self.lost_posts, self.posts = [], [], []
        self.lock, self.stopping = threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(k,)) for k in range(n)]
        for t in self.threads:
            t.start()

    def _run(self, k):
        for i in itertools.count():
            if self.stopping.is_set():
                return
            method = 'POST' if (i + k) % 4 == 0 else 'GET'
            target = '/%s/%d/%d' % (method, k, i)
            try:
                status = get(self.address, target, method=method, host='site%d.example' % (i % 7),
                             body=b'x' if method == 'POST' else None).status
            except Exception as e:
                status = repr(e)
            with self.lock:
                self.counts[method] += 1
                if method == 'POST':
                    self.posts.append(target)
                # one that a killed process had got is lost, and not repeated; its answer may be cut short
                if method == 'POST' and (status == 502 or 'CutShort' in str(status)):
                    self.lost_posts.append(target)
                elif status != 200:
                    self.failed.append((target, status))

    def stop(self):
        self.stopping.set()
        for t in self.threads:
            t.join()


def churn(agent, seconds, enough):
    """Kill a process a second, whichever, and restart all every two, for so long and until ENOUGH(); how many were killed."""
    restart, kills = agent.tmp / 'restart.txt', 0
    end = time.monotonic() + seconds
    for second in itertools.count(1):
        time.sleep(1)       # the rate of the deaths
        if time.monotonic() >= end and (enough() or time.monotonic() >= end + LIMIT):
            return kills
        if second % 2 == 0:
            restart.touch()
        pids = [slot['process']['pid'] for slot in agent.app()['slots'] if (slot.get('process') or {}).get('pid')]
        if pids:
            os.kill(random.choice(pids), signal.SIGKILL)
            kills += 1


def test_spent_restarted_and_killed_at_once_no_get_fails_and_no_post_runs_twice(world):
    agent = GunicornAgent(world, slots=3, min_processes=3, max_processes=3, max_requests=50, ready_probe='/', respawn_delay_max='200ms')
    lb = world.resumelb({'applications': {'app': {'tree': 'directory:%s' % (agent.tree / 'app')}}}, wait=False)
    wait_until(lb.listening, 'the load balancer')
    wait_until(lambda: len([w for w in lb.workers('app').values() if w['state'] == 'ready']) == 3, 'three workers')
    clients = Clients(lb.address, 4)
    kills = churn(agent, SECONDS, lambda: clients.counts['GET'] > 20 * SECONDS and agent.figures()['replaced'] >= 2)
    clients.stop()
    figures = agent.figures()
    print('%d s: %s, %d POSTs lost to a killed process, %d killed, %d replaced, %d spawned' % (
        SECONDS, clients.counts, len(clients.lost_posts), kills, figures['replaced'], figures['spawns']))
    assert clients.failed == []
    executed = [path for _, path, *_ in agent.seen() if path.startswith('/POST/')]
    assert len(executed) == len(set(executed)), 'none twice'
    assert set(clients.posts) - set(clients.lost_posts) <= set(executed) <= set(clients.posts)
    assert clients.counts['GET'] > 20 * SECONDS and kills >= 3 and figures['replaced'] >= 2
