# SPDX-License-Identifier: Apache-2.0
"""
Checks that a test ends all processes that it starts. The run is the subreaper of its descendants: it adopts orphaned ones,
so that every process that a test has started stays in the tree of processes below the run, however often it forked.
"""
import ctypes
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

from .base import LIMIT

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """Makes this process the subreaper: from now on it becomes the parent of orphaned descendants."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), 'PR_SET_CHILD_SUBREAPER')


def end_with_this_run():
    """
    If this process dies without its own end (SIGKILL, a crash), everything below it is killed. A shell waits for that; it recognizes
    the processes by their environment, which applications of an agent do not have: those end with their agent. Returns the
    function to be called at the ordinary end.
    """
    run = '%d-%d' % (os.getpid(), time.monotonic_ns())
    script = ('read end && exit; cd /proc; for pid in [0-9]*; do '
              'grep -qzxF "RLB_TEST_RUN=$1" $pid/environ 2>/dev/null && kill -9 $pid; done')
    ours, shells = socket.socketpair()
    shell = subprocess.Popen(['/bin/sh', '-c', script, 'sh', run], stdin=shells, stderr=subprocess.DEVNULL, start_new_session=True)
    shells.close()
    os.environ['RLB_TEST_RUN'] = run

    def end():
        try:
            ours.sendall(b'end\n')
        except BrokenPipeError:     # pytest would exit with 1 and print nothing
            raise ChildProcessError('the shell that waits for the end of this run has exited: %d' % shell.wait()) from None
        shell.wait()
    return end


def _children(pid):
    """The children of PID: those that any of its threads has started, and those that it has adopted."""
    found = set()
    try:
        for task in os.listdir('/proc/%d/task' % pid):
            with open('/proc/%d/task/%s/children' % (pid, task)) as f:
                found.update(map(int, f.read().split()))
    except OSError:     # the process has exited
        pass
    return found


def _state(pid):
    """(state, start time) of PID, or None if it no longer exists."""
    try:
        with open('/proc/%d/stat' % pid) as f:
            fields = f.read().rpartition(')')[2].split()
    except OSError:
        return None
    return fields[0], int(fields[19])


def _tree(known):
    """The descendants of this process, without KNOWN ones and the descendants of those."""
    numbers = {pid for pid, _ in known}

    def is_known(pid):
        state = _state(pid) if pid in numbers else None
        return state is not None and (pid, state[1]) in known
    found, line = set(), [os.getpid()]
    while line:
        fresh = {pid for pid in _children(line.pop()) - found if not is_known(pid)}
        found |= fresh
        line += fresh
    return found


def below(known=()):
    """
    {(pid, start time): state} of all descendants of this process. The start time distinguishes processes with a reused pid.
    KNOWN ones and their descendants, which do not belong to the test, are excluded.
    """
    # A list that changes while it is read may be incomplete: read until two consecutive results are equal.
    last, pids = None, _tree(known)
    while pids != last:
        last, pids = pids, _tree(known)
    states = {pid: _state(pid) for pid in pids}
    return {(pid, state[1]): state[0] for pid, state in states.items() if state}


def _reap(pid):
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def _living_since(before):
    found = below(before)
    for (pid, _), state in found.items():
        if state == 'Z':
            _reap(pid)
    return sorted(pid for (pid, _), state in found.items() if state not in 'ZX')


def dismiss_supervisors(outputs):
    """
    Ends the supervisors of agents that a test has killed: they would wait for a new agent for adopt_timeout.
    OUTPUTS: the logs of the agents.
    """
    ours = {pid for pid, _ in below()}
    for output in outputs:
        for pid in map(int, re.findall(r'agent-started .* supervisor=(\d+)', output)):
            if pid in ours:
                os.kill(pid, signal.SIGTERM)


def _describe(pid):
    try:
        words = pathlib.Path('/proc/%d/cmdline' % pid).read_bytes().replace(b'\0', b' ').decode(errors='replace')
        parent = pathlib.Path('/proc/%d/stat' % pid).read_text().rpartition(')')[2].split()[1]
    except OSError:
        return None
    return '%d (parent %s): %s' % (pid, parent, words.strip())


def end(before):
    """
    Waits for the end of the processes started since BEFORE (a result of below()). Kills those that do not end, so that they do
    not disturb the next test, and returns their descriptions.
    """
    deadline = time.monotonic() + LIMIT
    while _living_since(before) and time.monotonic() < deadline:
        time.sleep(0.02)
    told = {}
    left = _living_since(before)
    while left and time.monotonic() < deadline + LIMIT:
        for pid in left:
            text = _describe(pid)
            if text and pid not in told:
                told[pid] = text
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
        left = _living_since(before)
    return list(told.values())
