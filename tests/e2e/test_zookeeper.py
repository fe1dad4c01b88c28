# SPDX-License-Identifier: Apache-2.0
"""Workers and sessions in a real ZooKeeper: registered workers are found, and failures of ZooKeeper fail no request."""
import json
import signal
import time

from agent_support import TinyAgent
from support.base import free_port, freeze, wait_until
from support.zookeeper import READ_ACL_UNSAFE, Tree, end_session
from zookeeper_support import SHORT_SESSION, SHORT_SESSION_SECONDS, Load, Place, in_force, knows, pause, tree_of, workers

# A session may expire one tick after its time-out, and its client polls even less often.
LONGER_THAN_A_SESSION = SHORT_SESSION_SECONDS * 2.2


def owner(place, path):
    """The session that owns the node PATH, or None if the node does not exist."""
    stat = place.tree.ask(place.client.exists, place.tree.path(path))
    return stat.ephemeralOwner if stat else None


def provider_of(place, path=''):
    """The path of the only provider, once it is registered."""
    name, = wait_until(lambda: place.tree.providers(path), 'the registration')
    return '%s/providers/%s' % (path, name)


def registered_anew(place, path, before):
    return lambda: owner(place, path) not in (None, before)


def behind_a_proxy(world, zookeeper_server, **settings):
    """A load balancer that is connected to ZooKeeper through a proxy and has three workers."""
    place = Place(world, server=zookeeper_server)
    proxy = place.proxy()
    addresses = workers(world, 3)
    for w in addresses:
        place.tree.register('/workers', w)
    lb = place.balancer(url=place.url(hosts=proxy.address), **settings)
    wait_until(knows(lb, addresses), 'the workers')
    return place, proxy, addresses, lb


def test_workers_registered_by_another_program_are_found_and_it_finds_us(world, zookeeper_server):
    place = Place(world, server=zookeeper_server)
    a, b = workers(world, 2)
    place.tree.register('/workers', a)
    lb = place.balancer()
    wait_until(knows(lb, [a]), 'the first worker')
    assert lb.get()['X-Worker'] == a
    place.tree.register('/workers', b, version='7')
    wait_until(knows(lb, [a, b]), 'the second worker')
    seen = {lb.get(host='%d.example' % i)['X-Worker'] for i in range(20)}
    assert seen == {a, b}
    place.tree.unregister('/workers', a)
    wait_until(lambda: a not in lb.workers('app'), 'the first to be gone')
    assert {lb.get(host='%d.example' % i)['X-Worker'] for i in range(20)} == {b}
    # and the registration that other programs read
    ours = place.tree.properties(provider_of(place))
    assert ours['pid'] == lb.process.pid and ours['application'] == 'app' and ours['admin'] == lb.admin
    assert owner(place, provider_of(place)) != 0
    assert lb.app('app')['tree']['registered']
    assert lb.process.stop() == 0
    assert place.tree.providers('') == []


def test_self_measured_workers_get_skills_and_stay_with_their_sites(world, zookeeper_server):
    place = Place(world, server=zookeeper_server)
    addresses = workers(world, 4)
    place.tree.set('', history=20)
    for w in addresses:
        place.tree.register('/workers', w, resume='measure')
    lb = place.balancer()
    wait_until(knows(lb, addresses), 'the workers')
    first = {i: lb.get(host='%d.example' % i)['X-Worker'] for i in range(40)}
    again = {i: lb.get(host='%d.example' % i)['X-Worker'] for i in range(40)}
    assert len(set(first.values())) == 4
    # A worker that was slow by chance may give up a site or two.
    assert sum(first[i] == again[i] for i in first) >= 36


def test_an_agent_in_the_tree_serves_and_streams_its_resumes(world, zookeeper_server):
    place = Place(world, server=zookeeper_server, root='/site/app')
    agent = TinyAgent(world, slots=2, top={'tree': place.url('/site'), 'zookeeper_session_timeout': '10s'})
    lb = place.balancer(resume='auto')
    wait_until(knows(lb, agent.addresses), 'both slots')
    assert place.tree.providers('/workers') == sorted(agent.addresses)
    told = place.tree.properties('/workers/providers/' + agent.addresses[0])
    assert told['application'] == 'app' and told['pid'] > 0
    load = Load([lb])
    load.go_on(100)
    # its settings are in the node /workers
    place.tree.set('/workers', history=5)
    wait_until(lambda: agent.json()['applications']['app']['settings']['history'] == {'value': '5', 'origin': 'tree'},
               'the setting')
    load.stop()
    # a clean shutdown removes its nodes
    agent.process.popen.terminate()
    assert agent.process.wait() == 0
    assert place.tree.providers('/workers') == []
    # after SIGKILL they stay until its session has expired
    agent.start()
    wait_until(lambda: place.tree.providers('/workers') == sorted(agent.addresses), 'both slots')
    agent.kill()
    assert place.tree.providers('/workers') == sorted(agent.addresses)
    wait_until(lambda: place.tree.providers('/workers') == [], 'the nodes to go')


def test_a_lost_session_of_an_agent_takes_no_worker_out_of_use(world, zookeeper_server):
    place = Place(world, server=zookeeper_server, root='/site/app')
    proxy = place.proxy()
    agent = TinyAgent(world, slots=2, top={'tree': place.url('/site', hosts=proxy.address), 'zookeeper_session_timeout': SHORT_SESSION})
    lb = place.balancer(resume='auto')
    wait_until(knows(lb, agent.addresses), 'both slots')
    paths = ['/workers/providers/' + a for a in agent.addresses]
    before = [owner(place, p) for p in paths]
    load = Load([lb])
    proxy.blackhole()
    wait_until(lambda: place.tree.providers('/workers') == [], 'the session to be over')
    load.go_on(50)
    # their streams show that they are running
    assert knows(lb, agent.addresses)()
    proxy.pass_on()
    for path, session in zip(paths, before):
        wait_until(registered_anew(place, path, session), 'a new registration')
    load.go_on(50)
    assert knows(lb, agent.addresses)()
    load.stop()


def test_a_cut_connection_changes_nothing_and_loses_no_session(world, zookeeper_server):
    place, proxy, addresses, lb = behind_a_proxy(world, zookeeper_server)
    path = provider_of(place)
    before = owner(place, path)
    load = Load([lb])
    for _ in range(5):
        connections = proxy.accepted
        proxy.cut()
        wait_until(lambda: proxy.accepted > connections, 'another connection')
        wait_until(lambda: tree_of(lb)['connected'], 'the tree')
        load.go_on(20)
    proxy.refuse()
    wait_until(lambda: not tree_of(lb)['connected'], 'the loss to be seen')
    place.tree.set('', variance=2.5)
    load.go_on(20)
    proxy.pass_on()
    # a change during the interruption is detected afterwards
    wait_until(in_force(lb, 'variance', '2.5'), 'the setting')
    assert owner(place, path) == before
    assert knows(lb, addresses)()
    load.stop()


def test_a_lost_session_of_ours_is_begun_again_without_a_failed_request(world, zookeeper_server):
    place, proxy, addresses, lb = behind_a_proxy(world, zookeeper_server, zookeeper_session_timeout=SHORT_SESSION)
    path = provider_of(place)
    before = owner(place, path)
    load = Load([lb])
    proxy.blackhole()
    wait_until(lambda: owner(place, path) is None, 'the session to be over')
    place.tree.unregister('/workers', addresses[0])
    place.tree.set('', variance=3.5)
    load.go_on(20)
    # it was not notified, and continues with the last known workers and settings
    assert knows(lb, addresses)()
    proxy.pass_on()
    wait_until(registered_anew(place, path, before), 'a new registration')
    wait_until(in_force(lb, 'variance', '3.5'), 'the setting')
    wait_until(knows(lb, addresses[1:]), 'the workers that are left')
    # the watches of the new session work
    place.tree.set('', variance=5)
    wait_until(in_force(lb, 'variance', '5'), 'the setting')
    place.tree.register('/workers', addresses[0])
    wait_until(knows(lb, addresses), 'all workers')
    load.stop()


def test_after_a_pause_longer_than_its_session_it_continues(world, zookeeper_server):
    place = Place(world, server=zookeeper_server)
    addresses = workers(world, 2)
    place.tree.register('/workers', addresses[0])
    lb = place.balancer(zookeeper_session_timeout=SHORT_SESSION)
    wait_until(knows(lb, addresses[:1]), 'the worker')
    path = provider_of(place)
    before = owner(place, path)
    freeze(lb.process.pid)
    wait_until(lambda: owner(place, path) is None, 'the session to be over')
    place.tree.register('/workers', addresses[1])
    place.tree.set('', variance=2)
    lb.process.kill(signal.SIGCONT)
    assert lb.get().status == 200
    wait_until(registered_anew(place, path, before), 'a new registration')
    wait_until(knows(lb, addresses), 'both workers')
    wait_until(in_force(lb, 'variance', '2'), 'the setting')


def test_a_session_ended_by_another_is_begun_again(world, zookeeper_server):
    """Another client closes a session, with its id and password: here the session of a registered worker."""
    place = Place(world, server=zookeeper_server)
    addresses = workers(world, 3)
    other = place.connect()
    Tree(other, '/app').register('/workers', addresses[0])
    for w in addresses[1:]:
        place.tree.register('/workers', w)
    lb = place.balancer()
    wait_until(knows(lb, addresses), 'the workers')
    load = Load([lb])
    end_session(place.hosts, other)
    wait_until(knows(lb, addresses[1:]), 'one worker less')
    load.go_on(20)
    load.stop()


def test_a_registration_deleted_by_hand_comes_back(world, zookeeper_server):
    place = Place(world, server=zookeeper_server)
    w, = workers(world, 1)
    lb = place.balancer()
    path = provider_of(place)
    for _ in range(3):
        place.tree.remove(path)
        wait_until(lambda: owner(place, path) is not None, 'the registration')
    # the complete registration with all parent nodes; all other nodes were deleted
    place.tree.set('', variance=2)
    wait_until(in_force(lb, 'variance', '2'), 'the setting')
    place.tree.register('/workers', w)
    wait_until(knows(lb, [w]), 'the worker')
    place.tree.remove('')
    wait_until(lambda: owner(place, path) is not None, 'the registration')
    assert lb.get()['X-Worker'] == w
    place.tree.set('', variance=3)
    wait_until(in_force(lb, 'variance', '3'), 'the setting')


def test_a_frozen_server_longer_than_every_session(world):
    """No worker is removed while the tree is unreachable, and afterwards all registered workers are found."""
    place = Place(world)
    addresses = workers(world, 4)
    for w in addresses[:3]:
        place.tree.register('/workers', w)
    lb = place.balancer(zookeeper_session_timeout=SHORT_SESSION)
    wait_until(knows(lb, addresses[:3]), 'the workers')
    load = Load([lb])
    place.server.freeze()
    wait_until(lambda: not tree_of(lb)['connected'], 'the loss to be seen')
    pause(LONGER_THAN_A_SESSION)
    load.go_on(20)
    assert knows(lb, addresses[:3])()
    place.server.thaw()
    wait_until(lambda: tree_of(lb)['connected'] and tree_of(lb)['registered'], 'the tree')
    place.tree.register('/workers', addresses[3])
    # workers with a session that expired during the pause are registered again, as their programs would do
    for w in addresses[:3]:
        place.tree.register('/workers', w)
    wait_until(knows(lb, addresses), 'the workers')
    load.stop()


def test_a_server_restarted_with_its_data(world):
    place = Place(world)
    addresses = workers(world, 2)
    for w in addresses:
        place.tree.register('/workers', w)
    place.tree.set('', variance=2)
    lb = place.balancer()
    wait_until(knows(lb, addresses), 'the workers')
    wait_until(in_force(lb, 'variance', '2'), 'the setting')
    load = Load([lb])
    for end in (place.server.kill, place.server.stop):
        end()
        wait_until(lambda: not tree_of(lb)['connected'], 'the loss to be seen')
        load.go_on(20)
        place.server.start()
        wait_until(lambda: tree_of(lb)['connected'], 'the tree')
    place.tree.set('', variance=6)
    wait_until(in_force(lb, 'variance', '6'), 'the setting')
    assert knows(lb, addresses)()
    load.stop()


def test_five_hundred_workers_come_and_go(world, zookeeper_server):
    place = Place(world, server=zookeeper_server)
    addresses = workers(world, 500)
    lb = place.balancer()
    began = time.monotonic()
    place.client.ensure_path('/app/workers/providers')
    pending = [place.client.create_async('/app/workers/providers/' + w, json.dumps({'pid': 1}).encode(),
                                         acl=READ_ACL_UNSAFE, ephemeral=True) for w in addresses[:400]]
    for p in pending:
        p.get()
    second = place.connect()
    pending = [second.create_async('/app/workers/providers/' + w, b'{"pid": 2}', ephemeral=True)
               for w in addresses[400:]]
    for p in pending:
        p.get()
    wait_until(knows(lb, addresses), 'all workers')
    print('500 workers known after %.2f s' % (time.monotonic() - began))
    load = Load([lb], rate=300, sites=1000)
    load.go_on(1000)
    assert len(load.by) > 250
    # a hundred workers leave with one lost session, and another hundred one after the other
    second.stop()
    wait_until(knows(lb, addresses[:400]), 'a hundred less')
    for w in addresses[300:400]:
        place.client.delete_async('/app/workers/providers/' + w)
    wait_until(knows(lb, addresses[:300]), 'another hundred less')
    load.go_round()
    load.by.clear()
    load.go_on(300)
    assert not set(load.by) - set(addresses[:300]), 'requests to workers that have left'
    load.stop()


def test_without_any_server_it_starts_and_reports_it(world):
    port = free_port()
    w, = workers(world, 1)
    lb = world.resumelb({'applications': {'app': {'tree': 'zookeeper://127.0.0.1:%d/app' % port, 'workers': [w]}},
                         'start_wait': '200ms'}, wait=False)
    wait_until(lb.listening, 'the load balancer')
    wait_until(lambda: lb.get().status == 200, 'a response')
    assert not tree_of(lb)['connected']
    wait_until(lambda: 'tree-unreachable hosts=127.0.0.1:%d path=/app' % port in lb.process.output(), 'the log of the unreachable server')
    assert lb.process.stop() == 0


def test_an_orderly_exit_ends_registration_and_session(world, zookeeper_server):
    place = Place(world, server=zookeeper_server)
    lb = place.balancer()
    session = owner(place, provider_of(place))
    assert session in place.server.sessions()
    assert lb.process.stop() == 0
    assert place.tree.providers('') == []
    # nearly always immediately; but an event during the close of the library can suppress its close request
    wait_until(lambda: session not in place.server.sessions(), 'the session to be over')
