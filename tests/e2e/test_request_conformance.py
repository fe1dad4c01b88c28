# SPDX-License-Identifier: Apache-2.0
"""
Each request of the tables in support/request_cases.py and support/forward_cases.py is passed on completely or rejected. The test
checks the response, the bytes that the worker receives, the state of the connection, and the counted reason of a rejection.
"""
import itertools
import random
import re

import pytest
from support import forward_cases, request_cases
from support.base import LIMIT, wait_until
from support.conformance import Case, Worker, run, wrong
from support.http import get
from support.request_mutations import mutation, read
from test_agent import attached

CASES = [*request_cases.cases(), *forward_cases.cases()]
GROUPS = list(dict.fromkeys(c.group for c in CASES))
# Groups that do not apply to the agent or have other results there, as it is not a load balancer.
NOT_AGENT = {'hop by hop', 'upgrade', 'claims', 'limits', 'method'}
SECONDS = LIMIT
MUTATIONS = 3000


@pytest.fixture
def recorder(world):
    w = Worker()
    world.closers.append(w.close)
    return w


class Counts:
    """
    The rejections that LB has counted. A metrics page that is slow to generate is cached for up to half a second. Therefore each
    page is checked for the number of opened connections: a page that includes all of them is newer than those.
    """

    def __init__(self, lb):
        self.lb, self.opened = lb, 0

    def page(self):
        page = get(self.lb.admin, '/metrics', host=self.lb.admin).text
        accepted = int(re.search(r'^resumelb_client_connections_total (\d+)$', page, re.M)[1])
        return page if accepted == self.opened else None

    def rejections(self):
        page = wait_until(self.page, 'a page that has all connections')
        found = re.findall(r'^resumelb_client_rejected_total\{reason="(.+)"\} (\d+)$', page, re.M)
        return {reason: int(n) for reason, n in found}

    def run(self, case, worker):
        """Runs CASE on its own connection."""
        self.opened += 1
        return run(case, self.lb.address, worker, SECONDS)


def problem(case, counts, worker):
    """Runs CASE. Returns what is wrong, or None."""
    before = counts.rejections() if case.ours == 'reject' else {}
    out = counts.run(case, worker)
    why = wrong(case, out, ours=True)
    if why is None and case.reason:
        after = counts.rejections()
        counted = {r: n - before[r] for r, n in after.items() if n != before[r]}
        if counted != {case.reason: 1}:
            why = 'counted: %r' % counted
    return why


def test_the_tables_name_each_case_once():
    names = [(c.group, c.name) for c in CASES]
    assert len(names) == len(set(names)), [n for n in names if names.count(n) > 1]
    assert len(CASES) >= 1690


@pytest.mark.parametrize('group', GROUPS)
def test_each_request_passes_whole_or_is_rejected(world, recorder, group):
    lb = world.resumelb({'workers': [recorder.address]})
    counts, problems = Counts(lb), []
    for case in (c for c in CASES if c.group == group):
        why = problem(case, counts, recorder)
        if why is not None:
            problems.append('%s: %s' % (case.name, why))
    assert not problems, '\n'.join(problems)
    assert not recorder.malformed


@pytest.mark.parametrize('group', [g for g in GROUPS if g not in NOT_AGENT])
def test_the_agents_address_alone_reads_requests_as_strictly(world, recorder, group):
    agent = attached(world, recorder.address)
    problems = []
    for case in (c for c in CASES if c.group == group and c.only is None):
        why = wrong(case, run(case, agent.addresses[0], recorder, SECONDS), ours=True)
        if why is not None:
            problems.append('%s: %s' % (case.name, why))
    assert not problems, '\n'.join(problems)
    assert not recorder.malformed


def test_requests_put_together_at_random_are_read_as_a_strict_reader_does(world, recorder):
    lb = world.resumelb({'workers': [recorder.address]})
    dice = random.Random(9112)
    seen = {'whole': 0, 'incomplete': 0, 'rejected': 0}
    counts = Counts(lb)
    for n in range(MUTATIONS):
        data = mutation(dice, n)
        requests, end = read(data)
        if any(method != 'POST' for method, _, _ in requests):
            continue        # a part of a body was read as a method: it is unknown, and the connection stays open
        seen[end] += 1
        # Incomplete data is ended by closing: a response is optional, but the worker must not receive the request.
        if end == 'rejected':
            data += b'\r\n\r\n'      # some heads are rejected only when they are complete
        case = Case('mutations', str(n), data, 'pass' if end == 'whole' else 'reject', requests=requests,
                    fin=end == 'incomplete', after={'whole': 'open', 'rejected': 'closed'}.get(end))
        why = wrong(case, counts.run(case, recorder), ours=True)
        assert why is None, '%r: %s, expected %r, %s' % (data, why, requests, end)
    assert min(seen.values()) > MUTATIONS / 30, seen
    assert not recorder.malformed
    assert sum(counts.rejections().values()) >= seen['rejected']


def test_two_cut_anywhere_are_still_two(world, recorder):
    lb = world.resumelb({'workers': [recorder.address]})
    data = request_cases.chunked(b'3;a="b"\r\nabc\r\n0\r\nA: b\r\n\r\n') + request_cases.NEXT
    for i, j in itertools.combinations(range(1, len(data), 5), 2):
        case = Case('cuts', '%d %d' % (i, j), [data[:i], data[i:j], data[j:]],
                    requests=[request_cases.POST, ('GET', '/next', b'')])
        why = wrong(case, run(case, lb.address, recorder, SECONDS), ours=True)
        assert why is None, '%d, %d: %s' % (i, j, why)
