# SPDX-License-Identifier: Apache-2.0
"""Several load balancers in front of workers without agents: they read each other's homes and requests in flight."""
import json
import threading

import pytest
from support.base import free_ports, wait_until
from support.http import Client, get
from support.scripted import serve

SITES = ['site%d.example' % i for i in range(16)]


def respond(c, head, body):
    if b'X-Slow' in head:
        c.server.gate.wait()
    c.respond(c.server.address.encode())


@pytest.fixture
def workers(world):
    found = [world.scripted(serve(respond)) for _ in range(4)]
    for w in found:
        w.gate = threading.Event()
    world.closers.insert(0, lambda: [w.gate.set() for w in found])
    return found


def balancer(world, workers, name, port, peers, token=None):
    admin = {'address': '127.0.0.1:%d' % port, **({'token': token} if token else {})}
    lb = world.resumelb({'workers': [w.address for w in workers], 'pool': {'policy': 'adaptive'}, 'peers': peers, 'admin': admin},
                        name=name, wait=False)
    lb.admin = admin['address']
    return lb


def connected(lb):
    return [p['connected'] for p in lb.json()['peers']]


@pytest.fixture
def pair(world, workers):
    first = free_ports(2)
    admins = ['127.0.0.1:%d' % (first + i) for i in range(2)]
    # Each has its own address in the list, too, as it would if they had the same configuration.
    lbs = [balancer(world, workers, 'lb%d' % i, first + i, admins) for i in range(2)]
    for lb in lbs:
        wait_until(lb.ready, 'the load balancer')
    wait_until(lambda: [connected(lb) for lb in lbs] == [[False, True], [True, False]], 'the two to be connected')
    return lbs


def explain(lb, site):
    return json.loads(get(lb.admin, '/explain?class=' + site, host=lb.admin).text)


def homes(lb, site):
    found = explain(lb, site)
    return sorted(c['worker'] for c in found['candidates'][:found['steps'][0]['after']])


def ask(lb, site):
    r = lb.get(host=site)
    assert r.status == 200
    return r.text


def test_a_first_home_given_by_one_is_used_by_the_other(pair):
    first = {s: ask(pair[i % 2], s) for i, s in enumerate(SITES)}
    assert len(set(first.values())) > 1
    wait_until(lambda: all(homes(lb, s) == [first[s]] for lb in pair for s in SITES), 'the homes to be the same for both')


def test_requests_in_flight_of_one_count_at_the_other(pair, workers):
    slow = Client(pair[0].address)
    slow.send(host='slow.example', headers=[('X-Slow', '1')])
    at = wait_until(lambda: [n for n, w in pair[0].workers().items() if w['backlog'] == 1], 'the request')[0]
    wait_until(lambda: pair[1].workers()[at]['backlog_others'] == 1, 'the other load balancer to know')
    assert pair[1].workers()[at]['backlog'] == 0
    for w in workers:
        w.gate.set()
    assert slow.receive().status == 200
    wait_until(lambda: pair[1].workers()[at]['backlog_others'] == 0, 'none to be in flight')


def test_a_killed_load_balancer_continues_with_the_homes_that_the_other_uses(pair):
    for s in SITES:
        ask(pair[1], s)
    wait_until(lambda: all(homes(pair[0], s) for s in SITES), 'the other to know')
    pair[1].kill()
    wait_until(lambda: not any(connected(pair[0])), 'the loss to be noticed')
    for s in SITES:
        ask(pair[0], s)
    used = {s: homes(pair[0], s) for s in SITES}
    pair[1].start(wait=False)
    wait_until(pair[1].ready, 'the return')
    # It has had no request yet.
    wait_until(lambda: all(set(used[s]) <= set(homes(pair[1], s)) for s in SITES), 'the same homes')
    wait_until(lambda: [connected(lb) for lb in pair] == [[False, True], [True, False]], 'the two to be connected')


def test_a_peer_with_another_token_is_not_read_and_changes_nothing_for_requests(world, workers):
    first = free_ports(2)
    admins = ['127.0.0.1:%d' % (first + i) for i in range(2)]
    lbs = [balancer(world, workers, 'lb%d' % i, first + i, [admins[1 - i]], token='token%d' % i) for i in range(2)]
    for lb in lbs:
        lb.process.wait_logged('status 401: it has another token')
    for lb in lbs:
        for s in SITES:
            ask(lb, s)
    for i, lb in enumerate(lbs):
        r = get(lb.admin, '/peers/stream', host=lb.admin)
        assert r.status == 401
        r = get(lb.admin, '/status.json', host=lb.admin, headers=[('Authorization', 'Bearer token%d' % i)])
        assert [p['connected'] for p in json.loads(r.text)['peers']] == [False]


def test_without_peers_nothing_is_published(world, workers):
    lb = world.resumelb({'workers': [w.address for w in workers]})
    assert get(lb.admin, '/peers/stream', host=lb.admin).status == 404


FIRST = b'{"v":1,"balancer":"%s","applications":{"default":"%s"}}\n'
HOSTILE = [
    b'no JSON\n', b'[]\n', b'{"v":2}\n', b'{"v":1,"balancer":"x","applications":{}}\n', b'{"v":1,"homes":{}}\n',
    FIRST % (b'z' * 32, b'0' * 16), b'x' * (1 << 20) + b'x\n',
    (b'0', b'{"v":1,"application":"default","in_flight":{"%(worker)s":-1}}\n'),
    (b'1', b'{"v":1,"application":"default","in_flight":{"%(worker)s":99999999999}}\n'),
    (b'2', b'{"v":1,"application":"default","worker":"%(worker)s"}\n{"v":1,"homes":{"a":[1,2,"new","",0]}}\n'),
    (b'3', b'{"v":1,"application":"default","worker":"%(worker)s"}\n{"v":1,"homes":{"a":[2,1,"reassign","",1e999]}}\n'),
    (b'4', b'{"v":1,"application":"default","worker":"' + b'w' * 300 + b'"}\n'),
    (b'5', b'{"v":1,"application":"default","worker":"10.0.0.1:1"}\n{"v":1,"homes":{"a":[2,1,"new","",0.1]}}\n'
           b'{"v":1,"application":"other","in_flight":{"%(worker)s":7}}\n{"v":1,"homes":{"a":[2,1,"new","",0.1]}}\nend\n'),
]


def test_lines_that_are_not_valid_end_the_stream_and_change_nothing_for_requests(world, workers):
    sent = []

    def peer(c, head, body):
        line = HOSTILE[min(len(sent), len(HOSTILE) - 1)]
        if isinstance(line, tuple):
            line = FIRST % (line[0] * 32, fingerprint) + line[1].replace(b'%(worker)s', workers[0].address.encode())
        sent.append(line)
        c.write(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % (len(line) + 1) + line)
        c.read_request()

    ready = threading.Event()
    fingerprint = b''

    def waiting(c, head, body):
        ready.wait()
        peer(c, head, body)

    liar = world.scripted(serve(waiting))
    world.closers.insert(0, ready.set)
    lb = balancer(world, workers, 'lb', free_ports(1), [liar.address])
    wait_until(lb.listening, 'the load balancer')
    fingerprint = lb.app()['fingerprint'].encode()
    ready.set()
    wait_until(lambda: len(sent) > len(HOSTILE), 'each to be sent')
    for s in SITES:
        ask(lb, s)
    assert all(w['backlog_others'] == 0 for w in lb.workers().values())
    assert homes(lb, 'a') == []
