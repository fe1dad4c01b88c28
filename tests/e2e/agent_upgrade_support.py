# SPDX-License-Identifier: Apache-2.0
"""Upgrades of an agent (SIGUSR2)."""
import signal

from support.base import wait_until
from upgrade_support import Successor


def agent_pid(agent):
    try:
        return agent.json()['pid']
    except (OSError, AssertionError, ValueError):
        return None


def begin_upgrade(agent):
    """Sends SIGUSR2 and waits until the new process serves. Returns the old process, which may still have requests."""
    old = agent.process
    old_pid = old.pid
    old.kill(signal.SIGUSR2)
    follow(agent, wait_until(lambda: (pid := agent_pid(agent)) not in (None, old_pid) and pid, 'a new agent'))
    return old


def upgrade(agent):
    """Sends SIGUSR2 and waits until only the new process serves. Returns its pid."""
    old = begin_upgrade(agent)
    if isinstance(old, Successor):
        old.wait()
    else:
        assert old.wait() == 0, agent.process.output()[-4000:]
    return agent.process.pid


def follow(agent, pid):
    agent.process = Successor(pid, agent.process)
    agent.process.at_the_end = agent.process.before.at_the_end
    agent.world.processes[:] = [p for p in agent.world.processes if p is not agent.process.before]
    agent.world.processes.append(agent.process)
