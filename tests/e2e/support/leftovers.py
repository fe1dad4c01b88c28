# SPDX-License-Identifier: Apache-2.0
"""
Whether a test ends what it starts, whoever's child that is by now: the run adopts every orphan below it, so that all
that a test has started, however often it forked, stays in the tree of processes below the run.
"""
import ctypes
import os
import pathlib
import re
import signal
import time

from .base import LIMIT

PR_SET_CHILD_SUBREAPER = 36
# How long after a test's end what it has told to end may take.


def adopt_orphans():
    """From now on those below us whose parent ends are ours."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), 'PR_SET_CHILD_SUBREAPER')


def _children(pid):
    """What all its threads have started, and what it has adopted."""
    found = set()
    try:
        for task in os.listdir('/proc/%d/task' % pid):
            with open('/proc/%d/task/%s/children' % (pid, task)) as f:
                found.update(map(int, f.read().split()))
    except OSError:     # it ends
        pass
    return found


def _state(pid):
    """(state, start); None: it is gone."""
    try:
        with open('/proc/%d/stat' % pid) as f:
            fields = f.read().rpartition(')')[2].split()
    except OSError:
        return None
    return fields[0], int(fields[19])


def _tree(known):
    """The processes below this one, but for KNOWN ones and what is below them."""
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
    {(pid, start): state} of all processes below this one; a number that is used again is another process. Without KNOWN ones
    and what is below them: that is theirs, not the test's.
    """
    # A list that changes while it is read may lack some: as often as it takes to find the same twice.
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


def dismiss_keepers(outputs):
    """
    Tell the keepers to end whose agents a test has killed: they would wait for another agent, for adopt_timeout.
    OUTPUTS: what agents have logged.
    """
    ours = {pid for pid, _ in below()}
    for output in outputs:
        for pid in map(int, re.findall(r'agent-started .* keeper=(\d+)', output)):
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
    Those that have come since BEFORE (of below()) and do not end by themselves, as texts. They are killed, so that
    the next test does not meet them.
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
