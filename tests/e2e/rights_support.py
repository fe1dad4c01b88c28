# SPDX-License-Identifier: Apache-2.0
"""Privileges of a program started as root, with and without the setting `user`."""
import os
import pathlib
import pwd

ROOT = os.geteuid() == 0
NOBODY = 65534
DAEMON = 1
# Prefix of a command that runs as an unprivileged user, also if the tests run as root; and the name of that user.
ORDINARY = ('setpriv', '--reuid=%d' % NOBODY, '--regid=%d' % NOBODY, '--clear-groups') if ROOT else ()
ORDINARY_NAME = pwd.getpwuid(NOBODY if ROOT else os.geteuid()).pw_name


def threads_of(pid):
    """Uid, Gid, Groups, NoNewPrivs, CapEff and CapPrm of each thread of PID."""
    found = []
    for task in pathlib.Path('/proc/%d/task' % pid).iterdir():
        lines = dict(line.split(':', 1) for line in (task / 'status').read_text().splitlines())
        found.append({k: lines[k].split() for k in ('Uid', 'Gid', 'Groups', 'NoNewPrivs', 'CapEff', 'CapPrm')})
    return found


def assert_is(pid, user, threads=1):
    """
    Checks that PID has at least THREADS threads, and that each runs only as USER and the group with the same number, without
    capabilities.
    """
    found = threads_of(pid)
    assert len(found) >= threads
    for t in found:
        assert t == {'Uid': [str(user)] * 4, 'Gid': [str(user)] * 4, 'Groups': [str(user)], 'NoNewPrivs': ['1'],
                     'CapEff': ['0000000000000000'], 'CapPrm': ['0000000000000000']}, t


def assert_is_none(pid, threads=1):
    assert_is(pid, NOBODY, threads)
