# SPDX-License-Identifier: Apache-2.0
"""Every case of response_cases.py: responses of a worker, and the results for clients of each protocol."""
import concurrent.futures

import pytest

from support.certificates import Pair
from support.base import free_port
from test_agent import attached
from support.fault_cases import Faulty, run_faults
from support.response_cases import ALL, GROUPS, TIMEOUT
from support.response_run import Player, Subject
from support.servers import World

CLIENTS = ('1.0', '1.0 keep', '1.1', '1.1 close')


def waits(hasty):
    """The time-out for a subject. Without HASTY it is longer than any client waits, so that a slow machine does not reach it."""
    return '%dms' % (TIMEOUT * 1000) if hasty else '1h'



def balanced(world, kind, hasty):
    """A load balancer and its worker, for clients of one kind, and for cases that are timed or those that are not."""
    player = Player(world)
    plain, tls = ('127.0.0.1:%d' % free_port() for _ in range(2))
    name = 'resumelb-%s-%s' % (kind.replace(' ', '-'), 'timed' if hasty else 'all')
    pair = Pair(world.directory, name, ['test.example'])
    # A case must not affect the next one: no worker is ejected and no class is rejected.
    lb = world.resumelb({'workers': [{'address': player.address}], 'first_byte_timeout': waits(hasty),
                         'between_bytes_timeout': waits(hasty), 'eject_after': 0, 'eject_after_refused': 0, 'poison_deaths': 0},
                        listen=[{'address': plain}, {'address': tls, 'tls': pair.entry, 'http2': True}], threads=1, name=name)
    s = Subject(player, plain, tls, strict=True, hasty=hasty)
    s.lb = lb
    return s


def attached_to(world, kind, hasty):
    """The same with an agent. HTTP/1 only, as it has no TLS listener."""
    player = Player(world)
    agent = attached(world, player.address, 'a-%s-%d' % (kind.replace(' ', '-'), hasty), first_byte_timeout=waits(hasty),
                     between_bytes_timeout=waits(hasty))
    return Subject(player, agent.addresses[0], None, hasty=hasty)


def subjects_of(tmp_path_factory, start, kinds):
    """{(kind of client, hasty): subject created by START}, shared by all groups of cases."""
    world = World(tmp_path_factory.mktemp('subjects'))
    try:
        yield {(kind, hasty): start(world, kind, hasty) for kind in kinds for hasty in (False, True)}
    finally:
        world.close()


@pytest.fixture(scope='module')
def balancers(tmp_path_factory):
    yield from subjects_of(tmp_path_factory, balanced, CLIENTS + ('2',))


@pytest.fixture(scope='module')
def agents(tmp_path_factory):
    yield from subjects_of(tmp_path_factory, attached_to, CLIENTS)


def side_by_side(all_of_them, group):
    """
    Runs the cases of GROUP on all subjects in parallel, as most of the time is spent waiting. Fails if a result is wrong. Returns
    the subjects that the group needs.
    """
    needed = {c.timed for c in ALL if c.group == group}
    subjects = {(kind, hasty): s for (kind, hasty), s in all_of_them.items() if hasty in needed}
    with concurrent.futures.ThreadPoolExecutor(len(subjects)) as pool:
        runs = [pool.submit(s.run_group, group, (kind,), hasty) for (kind, hasty), s in subjects.items()]
        results = [r for run in runs for r in run.result()]
    wrong = ['%s, HTTP/%s %s: %s' % (case.name, kind, method, what) for case, kind, method, what in results if what]
    assert results and not wrong, '%d of %d:\n%s' % (len(wrong), len(results), '\n'.join(wrong))
    return list(subjects.values())


@pytest.mark.parametrize('group', GROUPS)
def test_every_client_sees_what_the_worker_meant_or_that_it_went_wrong(balancers, group):
    for s in side_by_side(balancers, group):
        assert s.lb.process.alive(), s.lb.process.output()[-5000:]
        assert s.lb.app()['backlog'] == 0


def test_failed_requests_are_retried_where_permitted_and_never_repeated_elsewhere(world):
    faulty = Faulty(world)
    patient, hasty = (world.resumelb({'workers': faulty.addresses, 'first_byte_timeout': waits(hasty), 'eject_after': 0,
                                      'poison_deaths': 0, 'retry_budget': 1}, threads=1, name='hasty' if hasty else 'patient')
                      for hasty in (False, True))
    results = run_faults(faulty, patient.address, hasty.address)
    wrong = [r for r in results if r[-1]]
    assert not wrong, '%d of %d:\n%s' % (len(wrong), len(results), '\n'.join(map(str, wrong)))


@pytest.mark.parametrize('group', ['over and short', 'chunks cut', 'by close', '1xx', 'faults'])
def test_the_agents_front_passes_on_what_a_process_means_or_reports_that_it_failed(agents, group):
    side_by_side(agents, group)
