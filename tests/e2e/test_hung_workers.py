# SPDX-License-Identifier: Apache-2.0
"""
Worker processes that hang: their connections are accepted by the kernel, and nothing gets a response until they continue. One that is
killed, and started again.
"""
import os
import select
import signal
import socket
import sys

import pytest
from load_support import Load

from support.base import free_port, freeze, wait_until


class Worker:
    """A process that serves files; HEALTHZ is one of them."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        directory = world.directory / name
        directory.mkdir()
        (directory / 'name').write_text(name)
        (directory / 'healthz').write_text('ok')
        self.port = free_port()
        self.address = '127.0.0.1:%d' % self.port
        self.start()

    def start(self):
        self.process = self.world.process([sys.executable, '-m', 'http.server', str(self.port), '--bind', '127.0.0.1',
                                           '--directory', str(self.world.directory / self.name)], self.name)

        def accepts():
            with socket.socket() as s:
                return s.connect_ex(('127.0.0.1', self.port)) == 0
        wait_until(accepts, 'the worker to accept connections')

    def requests(self, target):
        return self.process.output().count('"GET %s ' % target)


def start(world, *workers, **settings):
    """Nothing but a probe readmits a worker. None is slow before hang()."""
    return world.resumelb({'workers': [w.address for w in workers], 'first_byte_timeout': '10m', 'eject_after': 2,
                           'eject_time': '10m', 'eject_time_max': '1h', **settings})


def ejected(lb, worker):
    return lb.workers()[worker.address]['ejected']


def hang(lb, a, b, method='GET'):
    """Freezes the worker that gets requests, and sends more until it is ejected. Returns it, and the other."""
    hung, other = (a, b) if lb.get('/name').body == b'a' else (b, a)
    freeze(hung.process.pid)
    lb.change(first_byte_timeout='1s')

    def asked():
        lb.get('/name', method=method, body=b'x' if method == 'POST' else None)
        return ejected(lb, hung)
    wait_until(asked, 'the ejection', 60)
    assert lb.workers()[hung.address]['ejected_why'] == 'first-byte-timeout'
    return hung, other


@pytest.mark.parametrize('policy', ['adaptive', 'resume', 'round_robin'])
def test_a_worker_that_hung_is_back_when_it_responds_the_request_that_probes_it(world, policy):
    a, b = Worker(world, 'a'), Worker(world, 'b')
    lb = start(world, a, b, eject_probe='20ms', pool={'policy': policy})
    hung, other = hang(lb, a, b)
    # it is probed while it hangs; no request that probes it fails
    before = lb.app()['picks']['probe']

    def probed():
        r = lb.get('/name')
        assert (r.status, r.text) == (200, other.name)
        return lb.app()['picks']['probe'] >= before + 3
    wait_until(probed, 'probes')
    assert ejected(lb, hung)
    os.kill(hung.process.pid, signal.SIGCONT)

    def is_back():
        assert lb.get('/name').status == 200
        return not ejected(lb, hung)
    wait_until(is_back, 'the worker to be back')
    wait_until(lambda: 'worker-readmitted' in lb.process.output(), 'the log')
    assert lb.app()['stats']['ejections'] == 1


def test_a_worker_with_health_checks_is_back_when_it_passes_one_and_no_request_probes_it(world):
    a, b = Worker(world, 'a'), Worker(world, 'b')
    lb = start(world, a, b, eject_probe='20ms', health_check_path='/healthz', health_check_interval='1h', health_check_timeout='300ms')
    hung, other = hang(lb, a, b)
    for _ in range(20):
        assert lb.get('/name').text == other.name
    os.kill(hung.process.pid, signal.SIGCONT)
    wait_until(lambda: not ejected(lb, hung), 'the worker to be back')
    assert hung.requests('/healthz') >= 1
    assert lb.app()['picks']['probe'] == 0


def test_requests_that_must_not_run_twice_probe_no_worker(world):
    a, b = Worker(world, 'a'), Worker(world, 'b')
    lb = start(world, a, b, eject_probe='1ms')
    hung, _ = hang(lb, a, b, method='POST')
    for _ in range(30):
        assert lb.get('/name', method='POST', body=b'x').status == 501      # what the other worker responds
    assert lb.app()['picks']['probe'] == 0
    assert ejected(lb, hung)
    os.kill(hung.process.pid, signal.SIGCONT)


def test_without_requests_that_can_probe_it_the_ejection_ends_after_its_time(world):
    a, b = Worker(world, 'a'), Worker(world, 'b')
    lb = start(world, a, b, eject_probe='1ms', eject_time='1s', eject_time_max='1s')
    hung, _ = hang(lb, a, b, method='POST')
    os.kill(hung.process.pid, signal.SIGCONT)
    wait_until(lambda: not ejected(lb, hung), 'the worker to be back')


def test_a_request_that_probes_and_is_aborted_leaves_the_probe_to_the_next(world):
    a, b = Worker(world, 'a'), Worker(world, 'b')
    lb = start(world, a, b, eject_probe='1ms')
    hung, _ = hang(lb, a, b)
    lb.change(first_byte_timeout='10m')
    before = lb.app()['picks']['probe']

    def held():
        """A client sends a request that probes, and closes its connection while that waits."""
        with socket.create_connection(('127.0.0.1', lb.port)) as s:
            s.sendall(b'GET /name HTTP/1.1\r\nHost: test.example\r\n\r\n')
            wait_until(lambda: lb.app()['picks']['probe'] > before or select.select([s], [], [], 0)[0], 'the probe or the response')
        return lb.app()['picks']['probe'] > before
    wait_until(held, 'a request that probes')
    wait_until(lambda: lb.workers()[hung.address]['backlog'] == 0, 'the request to be given up')
    os.kill(hung.process.pid, signal.SIGCONT)

    def is_back():
        assert lb.get('/name').status == 200
        return not ejected(lb, hung)
    wait_until(is_back, 'the worker to be back')


def test_a_worker_that_was_killed_and_is_started_again_gets_its_share(world):
    workers = [Worker(world, name) for name in 'abcd']
    lb = world.resumelb({'workers': [w.address for w in workers]})
    # Of 8 classes a single one would be exactly the half of a fair share that is expected.
    load = Load([lb.address], clients=8, sites=7, target='/name')
    killed = workers[0]
    requests = lambda: lb.workers()[killed.address]['requests']
    try:
        wait_until(requests, 'its first request')
        load.go_on(100)
        killed.process.kill()
        killed.process.wait()
        wait_until(lambda: ejected(lb, killed), 'the ejection')
        load.go_on(100)
        killed.start()
        wait_until(lambda: not ejected(lb, killed), 'the worker to be back')

        def has_its_share():
            before, so_far = requests(), load.done
            wait_until(lambda: load.done >= so_far + 1000, 'more load')
            return requests() - before >= (load.done - so_far) / len(workers) / 2
        # How soon classes come to it depends on how busy the others are.
        wait_until(has_its_share, 'half of a fair share')
    finally:
        load.end()
    load.assert_none_failed()
