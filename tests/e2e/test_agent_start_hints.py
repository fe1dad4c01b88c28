# SPDX-License-Identifier: Apache-2.0
"""The log says why a process does not get ready, where the process itself says nothing."""
import sys

import pytest

from agent_support import TinyAgent
from support.base import free_port, wait_until

LISTEN = """
import socket, sys, time
family, host, port = getattr(socket, sys.argv[1]), sys.argv[2], int(sys.argv[3])
s = socket.socket(family)
s.bind((host, port))
s.listen()
time.sleep(3600)
"""
DAEMON = 'import os; os.fork() and os._exit(0); os.setsid(); os.execlp("sleep", "sleep", "3600")'


def line_of(world, event, command, **settings):
    """The first line of EVENT of an agent with this command."""
    agent = TinyAgent(world, start_timeout='2s', **settings)
    agent.process.kill()
    agent.process.wait()
    agent.config['applications']['app']['command'] = command
    agent.start()
    return wait_until(lambda: next((x for x in agent.process.output().split('\n') if ' %s ' % event in x), None), event)


def test_a_process_that_listens_at_the_loopback_address_of_ipv6_only(world):
    line = line_of(world, 'process-start-timeout', [sys.executable, '-c', LISTEN, 'AF_INET6', '::1', '{port}'])
    at = line.partition('hint="it listens at [::1]:')[2].partition(' ')[0]
    assert at and line.endswith('it listens at [::1]:%s and must listen at 127.0.0.1:%s"' % (at, at)), line


@pytest.mark.parametrize('further', [['{port}'], []])
def test_a_process_that_listens_at_another_port(world, further):
    """With {port}, and with an inherited socket that it does not use."""
    port = free_port()
    line = line_of(world, 'process-start-timeout', [sys.executable, '-c', LISTEN, 'AF_INET', '0.0.0.0', str(port), *further])
    assert 'hint="it listens at 0.0.0.0:%d and must listen at ' % port in line, line


def test_a_process_that_does_not_listen(world):
    line = line_of(world, 'process-start-timeout', [sys.executable, '-c', 'import time; time.sleep(3600)', '{port}'])
    assert 'hint="it does not listen yet; it must listen at 127.0.0.1:' in line, line


def test_a_process_that_becomes_a_daemon(world):
    line = line_of(world, 'process-died', [sys.executable, '-c', DAEMON])
    assert line.endswith('hint="let it run in the foreground, not as a daemon"'), line
