# SPDX-License-Identifier: Apache-2.0
"""bench/peers/run compares the cost of a request with nginx. The test checks that it measures, not its results."""
import json
import os
import pathlib
import subprocess

import pytest
from support.base import BIN, LIMIT

pytestmark = pytest.mark.soak

RUN = pathlib.Path(__file__).parents[2] / 'bench/peers/run'
SOAK = int(os.environ.get('RLB_SOAK_ROUNDS', '1')) > 1
# The others are in the soak run; there also those with h2load, which may never end if it gets no processor time for a second.
WORKLOADS = ('get-1k', 'post-1k', 'tls-1k', 'http2-1k', 'light-1k') if SOAK else ('post-1k', 'tls-1k')


def run(*options):
    # A whole run may take some minutes.
    return subprocess.run([RUN, '--bin', BIN / 'resumelb', *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=4 * LIMIT)


def test_each_subject_gets_figures_for_each_workload(tmp_path):
    kept = tmp_path / 'samples.json'
    for seconds in ('0.2', '0.5', '1', '5', '30'):
        r = run('--subjects', 'nginx,resumelb', '--workloads', ','.join((*WORKLOADS, 'idle')), '--json', kept, '--seconds', seconds)
        # On a busy machine the short time may not be sufficient.
        if 'responded nothing' not in r.stderr:
            break
    assert r.returncode == 0, r.stderr
    samples = json.loads(kept.read_text())['samples']
    for workload in WORKLOADS:
        for subject in ('nginx', 'resumelb'):
            (s,) = samples[workload][subject]
            assert s['requests'] > 0 and s['errors'] == 0
            assert s['cpu_us'] > 0 and s['per_second'] > 0
        row = next(line for line in r.stdout.splitlines() if line.startswith('| %s |' % workload))
        assert row.count('(') == 2 and '(1.00)' in row
    for subject in ('nginx', 'resumelb'):
        (s,) = samples['idle'][subject]
        assert s['idle_bytes'] > 0


def test_unknown_names_are_rejected():
    for options, word in ((('--workloads', 'get-1g'), 'get-1g'), (('--subjects', 'apache'), 'apache'), (('--rounds', '0'), 'rounds')):
        r = run(*options)
        assert r.returncode == 2
        assert word in r.stderr


def test_a_program_that_cannot_be_measured_is_an_error(tmp_path):
    r = run('--subjects', 'nginx', '--add', 'other=/bin/false', '--workloads', 'get-1k')
    assert r.returncode == 1
    assert 'other does not start' in r.stderr
