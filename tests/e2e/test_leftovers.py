# SPDX-License-Identifier: Apache-2.0
"""A run of tests that is killed leaves no process behind, and one that cannot see to that fails with the cause."""
import os
import pathlib
import signal
import subprocess
import sys

from support.base import LIMIT, wait_until

HERE = pathlib.Path(__file__).resolve().parent
# The process is in a session of its own, as each program that a test starts.
TEST = '''
import pathlib
from support.base import Process

def test(tmp_path):
    p = Process(['sleep', '%d'], 'sleep', tmp_path)
    pathlib.Path(%r).write_text(str(p.pid))
    p.popen.wait()
'''

KILLS = '''
import os, signal
from support import leftovers

def test():
    (pid, _), = leftovers.below()
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
'''


def begin(tmp_path, test, **output):
    """A run of its own of the text TEST, with the conftest.py of these tests."""
    (tmp_path / 'conftest.py').write_text('import sys\nsys.path.insert(0, %r)\nfrom conftest_of_e2e import *\n' % str(tmp_path))
    (tmp_path / 'conftest_of_e2e.py').write_text((HERE / 'conftest.py').read_text().replace(
        'pathlib.Path(__file__).resolve().parent', 'pathlib.Path(%r)' % str(HERE), 1))
    (tmp_path / 'test_it.py').write_text(test)
    return subprocess.Popen([sys.executable, '-B', '-m', 'pytest', '-q', '-p', 'no:cacheprovider', tmp_path / 'test_it.py'], **output)


def test_a_killed_run_ends_with_all_that_it_started(tmp_path):
    started = tmp_path / 'pid'
    run = begin(tmp_path, TEST % (10 * LIMIT, str(started)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pid = int(wait_until(lambda: started.exists() and started.read_text(), 'the process of the test'))
    assert pathlib.Path('/proc/%d/environ' % pid).exists()
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    # Of those that this run adopts: it is a zombie until it is waited for.
    assert wait_until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, 'the process to be killed')


def test_a_run_whose_shell_was_killed_fails_with_the_cause(tmp_path):
    run = begin(tmp_path, KILLS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    out = run.communicate()[0]
    assert run.returncode == 1 and '1 passed' in out
    assert 'ChildProcessError: the shell that waits for the end of this run has exited: -9' in out
