# SPDX-License-Identifier: Apache-2.0
"""Limits with real application servers: gunicorns with one process and one request at a time each."""
import pytest
from counted_support import Counted, most_at_once
from limit_support import Asked, outcome, waits
from support.base import wait_until
from support.servers import World

CLIENTS = 200
HOT = 'hot.example'


@pytest.fixture(scope='module')
def started(tmp_path_factory):
    """The gunicorns that all tests share."""
    w = World(tmp_path_factory.mktemp('gunicorns'))
    yield Counted(w, 4, hang_s=600)
    w.close()


@pytest.fixture
def app(started):
    started.forget()
    return started


def balancer(world, app, limits, **more):
    return world.resumelb({'workers': app.addresses, 'resume': 'measure', 'max_connections': 1, 'limits': limits,
                           **more})


def test_a_page_that_200_clients_request_at_once_is_rendered_once(world, app):
    lb = balancer(world, app, {'page': {'mode': 'any', 'maxqueue': 1000, 'timeout': '10m'}})
    for wave in (1, 2):
        app.hang()
        asked = [Asked(lb.address, '/page?cpu=0.05', HOT) for _ in range(CLIENTS)]
        waits(lb, CLIENTS - 1)
        app.hang_no_more()
        assert [a.wait().status for a in asked] == [200] * CLIENTS
        assert len({a.wait().text for a in asked}) == 1
        assert len(app.requests(path='/page')) == wave
    # A response is counted after the client has received all of it.
    wait_until(lambda: outcome(lb, 'coalesced') == 2 * (CLIENTS - 1), 'all others to share')


def test_a_page_that_many_request_at_once_is_rendered_at_most_workers_times_at_once(world, app):
    # Not a policy with skills, as both requests would be queued at the process with a score for the page.
    lb = balancer(world, app, {'page': {'workers': 2, 'maxqueue': 1000, 'timeout': '10m'}}, pool={'policy': 'classless'})
    app.hang()
    asked = [Asked(lb.address, '/page?db=0.02', HOT) for _ in range(40)]
    waits(lb, 38)
    app.hang_no_more()
    assert [a.wait().status for a in asked] == [200] * 40
    assert len(app.requests(path='/page')) == 40
    assert most_at_once(app.requests(path='/page')) == 2


def test_while_the_database_of_one_class_hangs_the_others_are_served(world, app):
    limits = {'sites': {'workers': 2, 'maxqueue': 6, 'timeout': '100ms'}}
    lb = balancer(world, app, limits, connection_wait_timeout='300ms')
    app.hang()
    asked = [Asked(lb.address, '/page', HOT) for _ in range(2)]
    wait_until(lambda: sum(w['backlog'] for w in lb.workers().values()) == 2, 'two to be stuck')
    more = [Asked(lb.address, '/page', HOT) for _ in range(20)]
    assert [a.wait().status for a in more] == [503] * 20
    wait_until(lambda: outcome(lb, 'limit-full') + outcome(lb, 'limit-timeout') == 20, 'all to be counted')
    others = ['site%d.example' % (i % 5) for i in range(40)]
    assert [lb.get('/page', host).status for host in others] == [200] * 40
    assert not any(a.responded() for a in asked)
    app.hang_no_more()
    assert [a.wait().status for a in asked] == [200] * 2
    assert len(app.requests(host=HOT)) == 2
