# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks that start programs ask of them: a free port, and CPU time."""
import pathlib
import socket


def free_port():
    with socket.create_server(('127.0.0.1', 0)) as s:
        return s.getsockname()[1]


def family(pid):
    """The process with all that it has started."""
    pids = [pid]
    for p in pids:
        for task in pathlib.Path('/proc/%d/task' % p).iterdir():
            pids += [int(child) for child in (task / 'children').read_text().split()]
    return pids


def cpu_ns(pid):
    """CPU time so far, of all threads of its family."""
    return sum(int((task / 'schedstat').read_text().split()[0])
               for p in family(pid) for task in pathlib.Path('/proc/%d/task' % p).iterdir())
