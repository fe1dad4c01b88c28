# SPDX-License-Identifier: Apache-2.0
"""SIGUSR2 of an agent, and the new one in its place."""
import signal

from support.base import wait_until
from upgrade_support import Successor


def agent_pid(agent):
    try:
        return agent.json()['pid']
    except (OSError, AssertionError, ValueError):
        return None


def upgrade(agent):
    """SIGUSR2, and wait until the new one serves alone."""
    old = agent.process
    old_pid = old.pid
    old.kill(signal.SIGUSR2)
    pid = wait_until(lambda: agent_pid(agent) not in (None, old_pid) and agent_pid(agent), 'a new agent')
    follow(agent, pid)
    if isinstance(old, Successor):
        old.wait()
    else:
        assert old.wait() == 0, agent.process.output()[-4000:]
    return pid


def follow(agent, pid):
    agent.process = Successor(pid, agent.process)
    agent.world.processes[:] = [p for p in agent.world.processes if p is not agent.process.before]
    agent.world.processes.append(agent.process)
