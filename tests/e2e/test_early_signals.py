# SPDX-License-Identifier: Apache-2.0
"""Signals that arrive before a program handles them, and an agent that starts before the supervisor of the last one listens."""
import json
import os
import signal

import pytest

from agent_support import TinyAgent, alive
from support.base import LIMIT, free_port, wait_until


@pytest.mark.parametrize('program', ['resumelb', 'resumelb-agent', 'resumelb-poolcounter'])
def test_a_program_that_is_terminated_as_it_starts_ends_in_order(world, program):
    """The configuration is a FIFO: once it is open for reading, the program is in the first steps of its start."""
    fifo = world.directory / 'fifo.yaml'
    os.mkfifo(fifo)
    application = {'command': ['/usr/bin/sleep', '3600'], 'root': '/', 'address': '127.0.0.1:%d' % free_port()}
    text = json.dumps({
        'resumelb': {'listen': ['127.0.0.1:%d' % free_port()], 'workers': ['127.0.0.1:%d' % free_port()]},
        'resumelb-agent': {'state_dir': str(world.directory / 'state'), 'applications': {'app': application}},
        'resumelb-poolcounter': {'listen': ['127.0.0.1:%d' % free_port()]}}[program])
    p = world.process([world.bin / program, '-c', fifo], program)
    with open(fifo, 'w') as f:
        p.kill(signal.SIGTERM)
        f.write(text)
    assert p.wait() == 0, p.output()


def start_to_wait(agent):
    agent.start()

    def waits():
        assert agent.process.alive(), agent.process.output()
        return 'supervisor-awaited' in agent.process.output()
    wait_until(waits, 'the agent to wait')


def test_an_agent_waits_for_the_socket_of_a_supervisor_that_is_starting(world):
    """The socket is moved away, as if it was not bound yet; the supervisor holds its lock."""
    agent = TinyAgent(world).wait_ready()
    pid, supervisor = agent.pid(), agent.json()['supervisor_pid']
    agent.process.kill()
    agent.process.wait()
    path = agent.state_dir / 'supervisor.sock'
    away = path.rename(agent.state_dir / 'away')
    start_to_wait(agent)
    away.rename(path)
    agent.wait_ready()
    assert (agent.pid(), agent.json()['supervisor_pid']) == (pid, supervisor)
    assert alive(supervisor)


def test_an_agent_that_waits_for_a_supervisor_can_be_terminated(world):
    agent = TinyAgent(world).wait_ready()
    agent.process.kill()
    agent.process.wait()
    path = agent.state_dir / 'supervisor.sock'
    away = path.rename(agent.state_dir / 'away')
    start_to_wait(agent)
    agent.process.kill(signal.SIGTERM)
    assert agent.process.popen.wait(LIMIT) == -signal.SIGTERM
    away.rename(path)
    agent.start()
    agent.wait_ready()
