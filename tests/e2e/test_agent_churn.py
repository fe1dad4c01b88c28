# SPDX-License-Identifier: Apache-2.0
"""Real gunicorns behind a load balancer that are replaced, restarted and killed continuously: no request fails."""
import contextlib
import os
import random
import signal

import pytest
from load_support import Load
from support.base import wait_until
from support.http import CutShort
from test_agent_restart import MarkedAgent

pytestmark = pytest.mark.soak

# Number of processes to kill; more in `make soak`.
KILLS = 60 if int(os.environ.get('RLB_SOAK_ROUNDS', '1')) > 1 else 6


def churn(agent, clients):
    """Kills KILLS random processes, and restarts all processes with every second one. Requests get a response in between."""
    for n in range(1, KILLS + 1):
        clients.go_on(7)
        if n % 2 == 0:
            (agent.tmp / 'restart.txt').touch()
        # Kill a process only while another one serves, as otherwise no process could respond.
        slots = wait_until(lambda: len(ready := [s for s in agent.app()['slots'] if s['state'] == 'ready']) > 1 and ready, 'two to serve')
        with contextlib.suppress(ProcessLookupError):
            os.kill(random.choice(slots)['process']['pid'], signal.SIGKILL)


def test_spent_restarted_and_killed_at_once_no_get_fails_and_no_post_runs_twice(world):
    agent = MarkedAgent(world, gunicorn=True, slots=3, min_processes=3, max_processes=3, max_requests=50, respawn_delay_max='200ms')
    lb = world.resumelb({'applications': {'app': {'tree': 'directory:%s' % (agent.tree / 'app')}}}, wait=False)
    wait_until(lb.listening, 'the load balancer')
    wait_until(lambda: len([w for w in lb.workers('app').values() if w['state'] == 'ready']) == 3, 'three workers')
    clients = Load([lb.address], clients=4, posts=4, keep=False, lossy=True)
    churn(agent, clients)
    wait_until(lambda: agent.figures()['replaced'] >= 2, 'replacements')
    clients.stop()
    figures = agent.figures()
    print('%d requests, %d POSTs lost to a killed process, %d died, %d replaced, %d spawned' % (
        clients.done, len(clients.lost), figures['deaths'], figures['replaced'], figures['spawns']))
    # A POST that a killed process had received is lost, and not retried.
    assert not [x for x in clients.lost if x[1] != 502 and not isinstance(x[1], CutShort)]
    # A response that had begun when its process was killed cannot be completed by another one.
    wait_until(lambda: len(clients.cut_short) <= agent.process.output().count('response_begun=yes'), 'the log to have all of %s' % clients.cut_short)
    executed = [path for _, path, *_ in agent.seen() if path.startswith('/load-')]
    assert len(executed) == len(set(executed)), 'none twice'
    assert set(clients.posts) - {target for target, _ in clients.lost} <= set(executed) <= set(clients.posts)
    assert figures['deaths'] >= 3
