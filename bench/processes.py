# SPDX-License-Identifier: Apache-2.0
"""For benchmarks that start programs: free ports, processes, and the CPU time of these."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tests' / 'e2e'))
from support.base import Process, free_port, free_ports, wait_until  # noqa: E402,F401


def family(pid):
    """The process and all its descendants."""
    pids = [pid]
    for p in pids:
        for task in pathlib.Path('/proc/%d/task' % p).iterdir():
            pids += [int(child) for child in (task / 'children').read_text().split()]
    return pids


def cpu_ns(pid):
    """CPU time so far of all threads of the process and its descendants."""
    return sum(int((task / 'schedstat').read_text().split()[0])
               for p in family(pid) for task in pathlib.Path('/proc/%d/task' % p).iterdir())
