# SPDX-License-Identifier: Apache-2.0
"""Common support for the end-to-end tests: paths of the binaries, free ports, waiting for conditions, child processes."""
import fcntl
import os
import pathlib
import random
import resource
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = pathlib.Path(os.environ.get('RLB_BIN', ROOT / 'build' / 'bin'))
# Slowdown factor of the tested programs: 1, or more for builds with sanitizers.
SLOWNESS = float(os.environ.get('RLB_PATIENCE', '1'))
# Maximum duration of any wait [s]. It is long enough that only an event that never occurs reaches it, not one that a busy machine delays.
LIMIT = 120 * SLOWNESS
# Maximum number of descriptors of a test run and of the servers that tests start, if the hard limit permits it: some tests have both
# ends of some thousand connections.
DESCRIPTORS = 20000
# Pause between two requests of a client that sends requests continuously [s], so that it leaves processor time to the tested programs.
PACE = 0.005


def wait_until(condition, what='condition', seconds=LIMIT):
    """
    Polls condition() and returns its first true value. Raises AssertionError if there is none within SECONDS. A LookupError in
    condition() counts as false: the entry may not exist yet.
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
        # The interval grows with the time waited, as polling takes processor time from the tested programs.
        pause = min(pause * 1.5, max(0.05, waited / 20), 0.25)


def raise_descriptor_limit():
    """
    Sets the limit of descriptors of this process, and of the processes that it starts, independent of the shell: often it is 1,024.
    The tested programs raise theirs to the hard limit.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard), hard))


def limit_descriptors(process, count=None):
    """Sets the limit of descriptors of PROCESS, or its hard limit again."""
    _, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (hard if count is None else count, hard))


def freeze(pid):
    """
    Sends SIGSTOP to PID and waits until all its threads are stopped: a thread on another core continues to run for a short
    time after the signal. SIGCONT resumes the process.
    """
    os.kill(pid, signal.SIGSTOP)

    def stands():
        tasks = pathlib.Path('/proc/%d/task' % pid).glob('*/stat')
        try:
            return all(t.read_text().rpartition(')')[2].split()[0] == 'T' for t in tasks)
        except OSError:     # a thread has ended in the meantime
            return False
    wait_until(stands, 'process %d to stop' % pid)


class Ports:
    """
    Reserves ports among all test runs on this machine: one byte of a common file is locked for each port until the run ends.
    No other run can choose a port between its selection here and the time when a program listens on it.
    """

    def __init__(self):
        self.given = set()
        path = '%s/rlb-ports-%d' % (tempfile.gettempdir(), os.getuid())
        # The file must not be opened a second time: closing any descriptor of it releases all locks of this process.
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def take(self, port):
        """Reserves PORT. Returns false if this run or another one has already reserved it."""
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
    """The first ephemeral port: the kernel assigns ports from there, for instance to outgoing connections."""
    return int(pathlib.Path('/proc/sys/net/ipv4/ip_local_port_range').read_text().split()[0])


def _none_listens(host, port):
    with socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET) as s:
        try:
            s.bind((host, port))
        except OSError:
            return False
    return True


def free_ports(count, host='127.0.0.1'):
    """
    Returns the first of COUNT consecutive ports without a listener, below the ephemeral ports; each port is returned once per
    run. A program must listen only on ports from here or on one that the kernel assigned to it: any other may be in use.
    """
    below = min(32000, _first_of_the_kernel())
    for _ in range(1000):
        first = random.randrange(min(10000, below // 2), below - count)
        if all(_ports.take(port) and _none_listens(host, port) for port in range(first, first + count)):
            return first
    raise AssertionError('no free port')


def low_port(host='127.0.0.1'):
    """Like free_ports(), but returns one port below 1024. Requires root."""
    for port in range(1023, 600, -1):
        if _ports.take(port) and _none_listens(host, port):
            return port
    raise AssertionError('no free port below 1024')


def free_port(host='127.0.0.1'):
    return free_ports(1, host)


class Process:
    """
    A child process with its output in a file. It is ended by its pid, or with the run (support/leftovers.py). `at_the_end`: the
    signal that ends it cleanly and most quickly after the test.
    """
    at_the_end = signal.SIGTERM

    def __init__(self, argv, name, directory, env=None, cwd=None):
        self.name = name
        self.log_path = pathlib.Path(directory) / (name + '.log')
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
        """Sends SIGTERM and waits for the end of the process; sends SIGKILL if it does not end. Returns the exit code."""
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

    def wait_logged(self, text):
        """
        Waits until TEXT is in the output, and returns the lines with it: a thread of the program writes its log, a moment after
        what it reports.
        """
        return wait_until(lambda: [line for line in self.output().splitlines() if text in line],
                          '%r in the output of %s' % (text, self.name))


def reap_all(processes):
    """Stops PROCESSES in reverse order. Fails the test if one of them logged a sanitizer report or a failed assertion."""
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
