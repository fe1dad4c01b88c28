# SPDX-License-Identifier: Apache-2.0
"""What every end-to-end test needs: binaries, free ports, waiting on conditions, processes that end."""
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
# Sanitized builds and loaded machines are slow: every deadline is multiplied by this.
PATIENCE = float(os.environ.get('RLB_PATIENCE', '1'))


def wait_until(condition, what='condition', seconds=10.0):
    """The first true value that condition() gives; AssertionError after the deadline."""
    deadline = time.monotonic() + seconds * PATIENCE
    pause = 0.002
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError('timed out waiting for %s' % what)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


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


_given = set()


def free_port(host='127.0.0.1'):
    """A port that nobody listens on, below those that the kernel gives out by itself; each once per run."""
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    for _ in range(1000):
        port = random.randrange(10000, 32000)
        if port in _given:
            continue
        with socket.socket(family) as s:
            try:
                s.bind((host, port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise AssertionError('no free port')


class Process:
    """A child with its output in a file; ended by pid, and by the kernel if the test run dies."""

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

    def wait(self, seconds=20):
        return self.popen.wait(seconds * PATIENCE)

    def stop(self, seconds=20):
        """SIGTERM, wait; SIGKILL when that does not help. Returns the exit code."""
        if self.alive():
            self.popen.terminate()
            try:
                self.wait(seconds)
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
