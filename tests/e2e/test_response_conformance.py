# SPDX-License-Identifier: Apache-2.0
"""Every case of response_cases.py: what a worker may answer, and what clients of each protocol see of it."""
import concurrent.futures

import pytest

from support.certificates import Pair
from support.base import free_port
from test_agent import attached
from support.fault_cases import Faulty, run_faults
from support.response_cases import GROUPS, TIMEOUT
from support.response_run import Player, Subject

CLIENTS = ('1.0', '1.0 keep', '1.1', '1.1 close')
WAIT = '%dms' % (TIMEOUT * 1000)


def balanced(world, kind):
    """A load balancer and its worker, for clients of one kind."""
    player = Player(world)
    plain, tls = ('127.0.0.1:%d' % free_port() for _ in range(2))
    name = 'resumelb-' + kind.replace(' ', '-')
    pair = Pair(world.folder, name, ['test.example'])
    # What one case does must not tell on the next: nobody is left alone, no class refused.
    lb = world.resumelb({'workers': [{'address': player.address}], 'first_byte_timeout': WAIT, 'between_bytes_timeout': WAIT,
                         'eject_after': 0, 'eject_after_refused': 0, 'poison_deaths': 0},
                        listen=[{'address': plain}, {'address': tls, 'tls': pair.entry, 'http2': True}], threads=1, name=name)
    s = Subject(player, plain, tls, strict=True)
    s.lb = lb
    return s


def side_by_side(subjects, group):
    """{kind of client: its own subject}: what is wrong, of all that was looked at. Most of the time goes by waiting."""
    with concurrent.futures.ThreadPoolExecutor(len(subjects)) as pool:
        runs = [pool.submit(s.run_group, group, clients=(kind,)) for kind, s in subjects.items()]
        results = [r for run in runs for r in run.result()]
    wrong = ['%s, HTTP/%s %s: %s' % (case.name, kind, method, what) for case, kind, method, what in results if what]
    assert results and not wrong, '%d of %d:\n%s' % (len(wrong), len(results), '\n'.join(wrong))


@pytest.mark.parametrize('group', GROUPS)
def test_every_client_sees_what_the_worker_meant_or_that_it_went_wrong(world, group):
    subjects = {kind: balanced(world, kind) for kind in CLIENTS + ('2',)}
    side_by_side(subjects, group)
    for s in subjects.values():
        assert s.lb.process.alive()
        assert s.lb.app()['backlog'] == 0


def test_what_a_worker_fails_is_tried_again_where_it_may_be_and_sent_twice_where_it_may_not_never(world):
    faulty = Faulty(world)
    lb = world.resumelb({'workers': faulty.addresses, 'first_byte_timeout': WAIT, 'eject_after': 0, 'poison_deaths': 0,
                         'retry_budget': 1}, threads=1)
    results = run_faults(faulty, lb.address)
    wrong = [r for r in results if r[-1]]
    assert not wrong, '%d of %d:\n%s' % (len(wrong), len(results), '\n'.join(map(str, wrong)))


@pytest.mark.parametrize('group', ['over and short', 'chunks cut', 'by close', '1xx', 'faults'])
def test_the_agents_front_passes_on_what_a_process_means_or_says_that_it_failed(world, group):
    """HTTP/1 only: it has no TLS."""
    subjects = {}
    for kind in CLIENTS:
        player = Player(world)
        agent = attached(world, player.address, 'a%d' % len(subjects), first_byte_timeout=WAIT,
                         between_bytes_timeout=WAIT)
        subjects[kind] = Subject(player, agent.addresses[0], None)
    side_by_side(subjects, group)
