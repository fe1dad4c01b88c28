# SPDX-License-Identifier: Apache-2.0
"""Standard error is a full pipe of which the reader has stopped, from the start: nothing may wait for it."""
import os
import re
import shlex
import signal

import pytest
from agent_support import TinyAgent
from poolcounter_support import Stream
from support.base import BIN, Process, free_port, wait_until
from support.http import connect, get
from support.scripted import serve
from test_http2_behaviour import metric

# Prints lines, then responses.
CHATTY = r'''
import socket, sys
listener = socket.socket(fileno=3)
served = 0
while True:
    c, _ = listener.accept()
    with c:
        if c.recv(65536):
            sys.stderr.write(''.join('line %d of request %d, %s\n' % (i, served, 'x' * 500) for i in range(100)))
            sys.stderr.flush()
            served += 1
            c.sendall(b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nfine')
'''


class StuckReader:
    """A full named pipe. The programs of `world` get it as standard error until the test reads it."""

    def __init__(self, world):
        self.path = world.directory / 'stderr'
        os.mkfifo(self.path)
        self.fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        try:
            while os.write(self.fd, b'#' * 4095 + b'\n'):
                pass
        except BlockingIOError:
            pass
        self.seen = b''
        programs = world.directory / 'programs'
        programs.mkdir()
        for name in ('resumelb', 'resumelb-agent', 'resumelb-poolcounter'):
            program = programs / name
            program.write_text('#!/bin/sh\nexec %s "$@" 2>%s\n' % (shlex.quote(str(BIN.resolve() / name)),
                                                                  shlex.quote(str(self.path))))
            program.chmod(0o755)
        world.bin = programs

    def read(self):
        """The text so far, without what filled the pipe."""
        try:
            while part := os.read(self.fd, 65536):
                self.seen += part
        except BlockingIOError:
            pass
        return re.sub(r'^#+\n', '', self.seen.decode(), flags=re.M)


@pytest.fixture
def reader(world):
    r = StuckReader(world)
    yield r
    r.read()
    os.close(r.fd)


def bad_responses(world):
    """A load balancer of which each loop has logged, and the number of failed responses."""
    def respond(c, head, body):
        if 'bad' in str(head):
            c.write(b'HTTP/1.1 200 OK\r\nnot a field\r\n\r\n')
        else:
            c.respond(b'fine')
    w = world.scripted(serve(respond))
    lb = world.resumelb({'workers': [{'address': w.address}], 'eject_after': 0, 'poison_deaths': 0})
    for _ in range(20):
        assert get(lb.address, '/bad').status == 502
        assert get(lb.address, '/').status == 200
    return lb


def test_the_load_balancer_serves_reloads_and_ends(world, reader):
    lb = bad_responses(world)
    lb.process.kill(signal.SIGHUP)
    os.unlink(lb.path)
    lb.process.kill(signal.SIGHUP)
    assert get(lb.address, '/').status == 200
    assert metric(lb, 'resumelb_log_lines_dropped_total') >= 0
    lb.process.kill(signal.SIGTERM)
    assert lb.process.wait() == 0


def test_the_lines_of_the_load_balancer_are_there_when_the_reader_reads_again(world, reader):
    lb = bad_responses(world)
    wait_until(lambda: ' warn worker-failed ' in reader.read(), 'the lines')
    lb.process.kill(signal.SIGTERM)
    assert lb.process.wait() == 0
    lines = reader.read().splitlines()
    assert all(re.match(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (error|warn|info) [a-z-]+ ', line) for line in lines), lines
    assert sum(' info stopped ' in line for line in lines) == 1


class Chatty(TinyAgent):
    """An agent of which the application prints much, and which serves it."""

    def start(self):
        script = self.world.directory / 'chatty.py'
        script.write_text(CHATTY)
        app = self.config['applications']['app']
        app['command'] = ['/usr/bin/python3', '-S', '-E', str(script)]
        app.setdefault('listen', ['127.0.0.1:%d' % free_port()])
        app.pop('ready_probe', None)
        super().start()
        wait_until(self.listening, 'the agent')

    def fetch(self):
        with connect(self.config['applications']['app']['listen'][0]) as s:
            s.sendall(b'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
            data = b''
            while part := s.recv(65536):
                data += part
        return data


def test_the_agent_serves_applications_that_print_and_ends(world, reader):
    agent = Chatty(world)
    for _ in range(20):
        assert agent.fetch().endswith(b'fine')
    assert agent.json()['applications']['app']['slots']
    agent.process.kill(signal.SIGTERM)
    assert agent.process.wait() == 0


def test_the_supervisor_is_there_for_the_next_agent(world, reader):
    agent = Chatty(world)
    assert agent.fetch().endswith(b'fine')
    pid = agent.slot()['process']['pid']
    agent.kill()
    agent.start()
    wait_until(agent.listening, 'the next agent')
    assert agent.slot()['process']['pid'] == pid
    assert agent.fetch().endswith(b'fine')
    agent.process.kill(signal.SIGTERM)
    assert agent.process.wait() == 0


def test_lines_of_processes_are_whole_and_in_order_when_the_reader_reads_again(world, reader):
    agent = Chatty(world)
    for _ in range(3):
        assert agent.fetch().endswith(b'fine')
    wait_until(lambda: 'line 99 of request 2' in reader.read() or 'process-output-dropped' in reader.read(), 'the last line')
    numbers = [(int(b), int(a)) for a, b in re.findall(r'line="line (\d+) of request (\d+), x{500}"\n', reader.read())]
    assert len(numbers) >= 300 and numbers == sorted(numbers)


def test_the_pool_counter_daemon_serves_and_ends(world, reader):
    port = free_port()
    config = world.directory / 'poolcounter.yaml'
    config.write_text('listen: ["127.0.0.1:%d"]\n' % port)
    daemon = Process([world.bin / 'resumelb-poolcounter', '-c', config], 'poolcounter', world.directory)
    world.processes.append(daemon)

    def acquired():
        try:
            with connect('127.0.0.1:%d' % port) as s:
                return Stream(s).ask('ACQ4ME a 1 1 1') == 'LOCKED'
        except ConnectionRefusedError:
            return False
    wait_until(acquired, 'the daemon')
    for _ in range(20):
        daemon.kill(signal.SIGHUP)
        assert acquired()
    daemon.kill(signal.SIGTERM)
    assert daemon.wait() == 0


def test_closed_standard_output_and_error_do_not_print_into_another_file(world):
    """The next file that is opened would get the number of one that is closed."""
    programs = world.directory / 'programs'
    programs.mkdir()
    program = programs / 'resumelb'
    program.write_text('#!/bin/sh\nexec %s "$@" <&- >&- 2>&-\n' % shlex.quote(str(BIN.resolve() / 'resumelb')))
    program.chmod(0o755)
    w = world.scripted(serve(lambda c, head, body: c.respond(b'fine')))
    state = world.directory / 'state'
    world.bin = programs
    lb = world.resumelb({'workers': [{'address': w.address}], 'access_log': '-', 'state_dir': str(state)})
    for _ in range(20):
        assert get(lb.address, '/').status == 200
    lb.process.kill(signal.SIGTERM)
    assert lb.process.wait() == 0
    assert not [f for f in state.rglob('*') if f.is_file() and b'GET ' in f.read_bytes()]
    assert not (state / 'lock').read_bytes()
