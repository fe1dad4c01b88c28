# SPDX-License-Identifier: Apache-2.0
"""What every end-to-end test needs: binaries, free ports, waiting on conditions, processes that end."""
import fcntl
import os
import pathlib
import random
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = pathlib.Path(os.environ.get('RLB_BIN', ROOT / 'build' / 'bin'))
# How much slower than others these programs are: 1, or what sanitizers make of it.
SLOWNESS = float(os.environ.get('RLB_PATIENCE', '1'))
# Seconds that any wait may take. Only what never comes reaches it: a busy machine is no failure.
LIMIT = 600 * SLOWNESS
# Seconds between two requests of a client that asks all the time: the processor is for what is tested, too.
PACE = 0.005


def wait_until(condition, what='condition', seconds=LIMIT):
    """
    The first true value that condition() gives; AssertionError after the deadline. An entry that is missing from what the
    condition looks at may only not be there yet.
    """
    began = time.monotonic()
    pause = 0.002
    while True:
        value, missing = None, None
        try:
            value = condition()
        except LookupError as e:
            missing = e
        if value:
            return value
        waited = time.monotonic() - began
        if waited > seconds:
            raise AssertionError('timed out waiting for %s' % what) from missing
        time.sleep(pause)
        # What takes long may take a little longer: a look takes from what is waited for.
        pause = min(pause * 1.5, max(0.05, waited / 20), 0.25)


def freeze(pid):
    """SIGSTOP, until it holds: what runs on another core goes on for a while. SIGCONT undoes it."""
    os.kill(pid, signal.SIGSTOP)

    def stands():
        tasks = pathlib.Path('/proc/%d/task' % pid).glob('*/stat')
        try:
            return all(t.read_text().rpartition(')')[2].split()[0] == 'T' for t in tasks)
        except OSError:     # a thread has ended meanwhile
            return False
    wait_until(stands, 'process %d to stop' % pid)


class Ports:
    """
    Ports given out by any run of tests on this machine, until it ends: a byte of a file is locked for each. Between the
    choice of a port and the moment when a program listens there, no other run chooses it.
    """

    def __init__(self):
        self.given = set()
        path = '%s/rlb-ports-%d' % (tempfile.gettempdir(), os.getuid())
        # Never opened a second time: closing it once would give all locks of this process back.
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def take(self, port):
        """Whether it is ours now, and was nobody's."""
        if port in self.given:
            return False
        try:
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        self.given.add(port)
        return True


_ports = Ports()


def _first_of_the_kernel():
    """The first port that the kernel gives out by itself, to whoever connects for instance."""
    return int(pathlib.Path('/proc/sys/net/ipv4/ip_local_port_range').read_text().split()[0])


def _nobody_listens(host, port):
    with socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET) as s:
        try:
            s.bind((host, port))
        except OSError:
            return False
    return True


def free_ports(count, host='127.0.0.1'):
    """
    The first of COUNT ports in a row that nobody listens on, below those that the kernel gives out by itself; each once per
    run. Who listens on a port that was neither asked for here nor given by the kernel at that moment may meet somebody there.
    """
    below = min(32000, _first_of_the_kernel())
    for _ in range(1000):
        first = random.randrange(min(10000, below // 2), below - count)
        if all(_ports.take(port) and _nobody_listens(host, port) for port in range(first, first + count)):
            return first
    raise AssertionError('no free port')


def low_port(host='127.0.0.1'):
    """One that only root may listen on, in the same way. As root."""
    for port in range(1023, 600, -1):
        if _ports.take(port) and _nobody_listens(host, port):
            return port
    raise AssertionError('no free port below 1024')


def free_port(host='127.0.0.1'):
    return free_ports(1, host)


class Process:
    """
    A child with its output in a file; ended by pid, and by the kernel if the test run dies. `at_the_end`: what ends it
    in order and soonest, when the test is over.
    """
    at_the_end = signal.SIGTERM

    def __init__(self, argv, name, folder, env=None, cwd=None):
        self.name = name
        self.log_path = pathlib.Path(folder) / (name + '.log')
        self.log = open(self.log_path, 'ab')
        full = dict(os.environ)
        full.update(env or {})
        self.popen = subprocess.Popen(
            [str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            env=full, cwd=cwd, start_new_session=True)

    @property
    def pid(self):
        return self.popen.pid

    def alive(self):
        return self.popen.poll() is None

    def kill(self, sig=signal.SIGKILL):
        if self.alive():
            self.popen.send_signal(sig)

    def wait(self):
        return self.popen.wait(LIMIT)

    def stop(self):
        """SIGTERM, wait; SIGKILL when that does not help. Returns the exit code."""
        if self.alive():
            self.popen.terminate()
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
        self.log.close()
        return self.popen.returncode

    def output(self):
        return self.log_path.read_text(errors='replace')


def reap_all(processes):
    """Stop in reverse order; a process that a sanitizer stopped fails the test."""
    for p in reversed(processes):
        if p.at_the_end != signal.SIGTERM and p.alive():
            p.kill(p.at_the_end)
            p.wait()
        p.stop()
    for p in processes:
        text = p.output()
        assert 'ERROR: AddressSanitizer' not in text, text[-6000:]
        assert 'runtime error:' not in text, text[-6000:]
        assert 'ThreadSanitizer' not in text, text[-6000:]
        assert 'LeakSanitizer' not in text, text[-6000:]
        assert 'assertion failed' not in text, text[-6000:]


def scratch(tmp_path_factory=None):
    return pathlib.Path(tempfile.mkdtemp(prefix='rlb-e2e-'))
