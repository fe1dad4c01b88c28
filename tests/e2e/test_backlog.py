# SPDX-License-Identifier: Apache-2.0
"""Several load balancers with the same workers: a worker's responses report its requests in flight from all of them."""
import os
import signal

import pytest
from agent_support import Background, TinyAgent
from support.base import wait_until
from support.http import Client, connect
from test_agent_pool import Threaded
from support.scripted import serve
from test_feeds import Agent
from test_waiting import Tree


def balancer(world, name, addresses, wait=True, **settings):
    """
    A load balancer with these workers and their resume streams. It has the policy resume, where a single report affects the next
    request; adaptive smooths reports, and weighs them against the cost of a cold cache.
    """
    pool = {'policy': 'resume', 'backlog_max_age': '60s'}
    pool.update(settings.pop('pool', {}))
    config = {'workers': addresses, 'resume': 'stream', 'start_wait': '50ms', 'via': False, 'pool': pool}
    config.update(settings)
    lb = world.resumelb(config, wait=False, name=name)
    wait_until(lb.listening, 'the load balancer')
    if wait:
        wait_until(lambda: all(lb.workers()[a]['state'] == 'ready' for a in addresses), 'the workers')
    return lb


def others(lb, address):
    return lb.workers()[address]['backlog_others']


# ---- what an agent says ----

def test_an_agent_reports_what_waits_and_runs_with_the_request_that_it_responds(world):
    agent = TinyAgent(world).wait_ready()
    assert agent.get()['Resumelb-Backlog'] == '1'
    go = world.directory / 'go'
    requests = []
    for n in range(3):
        requests.append(Background(agent.address, headers=[('X-Until', str(go))]))
        wait_until(lambda: agent.slot()['backlog'] == n + 1, 'request %d' % n)
    go.write_text('')
    assert [r.result()['Resumelb-Backlog'] for r in requests] == ['3', '2', '1']
    assert agent.get(method='HEAD')['Resumelb-Backlog'] == '1'


def test_an_agent_reports_when_it_rejects_or_fails_a_request_and_when_it_becomes_a_tunnel(world):
    agent = TinyAgent(world, max_queue=2).wait_ready()
    with Client(agent.address) as c:
        c.send(headers=[('Connection', 'upgrade'), ('Upgrade', 'websocket')])
        r = c.receive()
        assert (r.status, r['Resumelb-Backlog']) == (101, '1')
    wait_until(lambda: agent.slot()['backlog'] == 0, 'the tunnel to end')
    r = agent.get(headers=[('X-Die', '1')])
    assert (r.status, r['Resumelb-Failed'], r['Resumelb-Backlog']) == (502, '1', '1')
    agent.wait_ready()
    wait_until(lambda: agent.get().status == 200, 'the next process')
    go = world.directory / 'go'
    requests = [Background(agent.address, headers=[('X-Until', str(go))]) for _ in range(3)]
    wait_until(lambda: agent.slot()['waiting'] == 2, 'the queue to fill')
    r = agent.get()
    assert (r.status, r['Resumelb-Unprocessed'], r['Resumelb-Backlog']) == (503, '1', '4')
    go.write_text('')
    assert [q.result().status for q in requests] == [200, 200, 200]


def test_a_process_cannot_report_a_backlog(world):
    agent = TinyAgent(world).wait_ready()
    r = agent.get(headers=[('X-Forge', '1')])
    assert (r['Resumelb-Backlog'], r['X-Kept']) == ('1', 'yes')


# ---- load balancers before an agent ----

class Stage:
    """An agent with two slots, and a load balancer that has only the first one and can fill it."""

    def __init__(self, world):
        self.agent = TinyAgent(world, slots=2, history=9999).wait_ready()
        self.busy = self.agent.addresses[0]
        self.pids = [self.agent.pid(0), self.agent.pid(1)]
        self.gates = [world.directory / 'gate0', world.directory / 'gate1']
        self.filling = balancer(world, 'filling', [self.busy])
        self.hosts = {}

    def home(self, lb):
        """Finds a class that LB sends to the first slot from now on, as long as the slot is not busier than the other one."""
        host = next(h for h in ('h0', 'h1', 'h2', 'h3') if int(lb.get(host=h)['X-Pid']) == self.pids[0])
        assert int(lb.get(host=host)['X-Pid']) == self.pids[0]
        self.hosts[lb] = host

    def ask(self, lb, gate=None):
        """Sends a request and returns when the first slot has received it."""
        before = self.agent.slot(0)['backlog']
        c = Client(lb.address)
        c.send(host=self.hosts.get(lb, 'x'), headers=[('X-Until', str(gate))] if gate else [])
        wait_until(lambda: self.agent.slot(0)['backlog'] == before + 1, 'the request at the busy slot')
        return c

    def fill(self, lbs, n=4):
        """Leaves N requests waiting at the first slot. Each of LBS is notified by a response from the slot."""
        first = self.ask(self.filling, self.gates[0])
        asked = [self.ask(lb) for lb in lbs]
        filled = [self.ask(self.filling, self.gates[1]) for _ in range(n)]
        self.gates[0].write_text('')
        assert [c.receive().status for c in [first, *asked]] == [200] * (1 + len(asked))
        wait_until(lambda: self.agent.slot(0)['backlog'] == n, 'the rest to stay')
        return filled

    def empty(self, clients):
        self.gates[1].write_text('')
        assert [c.receive().status for c in clients] == [200] * len(clients)

    def slot_of(self, lb):
        return self.pids.index(int(lb.get(host=self.hosts[lb])['X-Pid']))


def test_a_worker_that_another_load_balancer_has_filled_is_avoided(world):
    stage = Stage(world)
    seeing = balancer(world, 'seeing', stage.agent.addresses)
    blind = balancer(world, 'blind', stage.agent.addresses, pool={'backlog_shared': False})
    stage.home(seeing), stage.home(blind)
    filled = stage.fill([blind, seeing], 4)
    assert others(seeing, stage.busy) == 4
    assert others(blind, stage.busy) == 0
    w = seeing.workers()[stage.busy]
    assert w['backlog'] == 0 and w['mean_backlog'] < 1
    assert [stage.slot_of(seeing) for _ in range(5)] == [1] * 5
    # The other load balancer, without shared backlogs, continues to use the first slot, and its request is queued.
    waits = stage.ask(blind)
    stage.empty([*filled, waits])


def test_under_classless_too(world):
    stage = Stage(world)
    seeing = balancer(world, 'seeing', stage.agent.addresses, pool={'policy': 'classless'})
    stage.hosts[seeing] = 'x'
    # One of its two requests in flight is sent to the first slot, independent of the order of workers.
    first = stage.ask(stage.filling, stage.gates[0])
    pair = []
    for _ in range(2):
        pair.append(Client(seeing.address))
        pair[-1].send(headers=[('X-Until', str(stage.gates[0]))])
        wait_until(lambda: seeing.app()['backlog'] == len(pair), 'the request to be routed')
    wait_until(lambda: stage.agent.slot(0)['backlog'] == 2, 'one of them at the first slot')
    filled = [stage.ask(stage.filling, stage.gates[1]) for _ in range(3)]
    stage.gates[0].write_text('')
    assert [c.receive().status for c in [first, *pair]] == [200] * 3
    assert others(seeing, stage.busy) == 3
    assert [stage.slot_of(seeing) for _ in range(5)] == [1] * 5
    stage.empty(filled)


def test_a_report_is_forgotten_after_backlog_max_age(world):
    stage = Stage(world)
    lasting = balancer(world, 'lasting', stage.agent.addresses)
    short = balancer(world, 'short', stage.agent.addresses, pool={'backlog_max_age': '200ms'})
    stage.home(lasting), stage.home(short)
    filled = stage.fill([short, lasting], 4)
    wait_until(lambda: others(short, stage.busy) == 0, 'the report to grow old')
    assert others(lasting, stage.busy) == 4
    # It uses the first slot again, although that is as busy as before.
    waits = stage.ask(short)
    assert [stage.slot_of(lasting) for _ in range(2)] == [1] * 2
    stage.empty([*filled, waits])


def test_the_next_life_of_a_worker_starts_with_nothing_in_flight(world):
    stage = Stage(world)
    seeing = balancer(world, 'seeing', stage.agent.addresses)
    stage.home(seeing)
    filled = stage.fill([seeing], 3)
    assert others(seeing, stage.busy) == 3
    before = seeing.workers()[stage.busy]['instance']
    os.kill(stage.pids[0], signal.SIGKILL)
    wait_until(lambda: (w := seeing.workers()[stage.busy])['instance'] != before and w['state'] == 'ready', 'the next process')
    assert others(seeing, stage.busy) == 0
    stage.gates[1].write_text('')
    for c in filled:
        assert c.receive().status in (200, 502, 503)


# ---- what a load balancer takes, and what it never passes on ----

class Reporter(Agent):
    """A worker with a resume stream; the test defines its responses byte by byte."""

    def __init__(self, world):
        self.response = b''
        super().__init__(world)

    def respond(self, c):
        c.write(self.response)


def raw(address, response_to=b'GET', version=b'1.1'):
    """All bytes that a client receives."""
    with connect(address) as s:
        s.sendall(response_to + b' / HTTP/' + version + b'\r\nHost: x\r\nConnection: close\r\n\r\n')
        got = b''
        while data := s.recv(65536):
            got += data
    return got


CHUNKED = (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Resumelb-Backlog\r\nresumelb-backlog: 5\r\n\r\n'
           b'2\r\nok\r\n0\r\nResumelb-Backlog: 9\r\nX-Trailer: 1\r\n\r\n')
RESPONSES = {
    'length': (b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nResumelb-Backlog: 5\r\n\r\nok', b'GET'),
    'chunked, with trailers': (CHUNKED, b'GET'),
    'no content': (b'HTTP/1.1 204 No Content\r\nRESUMELB-BACKLOG: 5\r\n\r\n', b'DELETE'),
    'head': (b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nResumelb-Backlog: 5\r\n\r\n', b'HEAD'),
    'error': (b'HTTP/1.1 500 Oops\r\nContent-Length: 0\r\nResumelb-Backlog: 5\r\n\r\n', b'GET'),
    'rejection': (b'HTTP/1.1 503 x\r\nContent-Length: 0\r\nResumelb-Unprocessed: 1\r\nResumelb-Backlog: 5\r\n\r\n', b'GET'),
}


@pytest.mark.parametrize('kind', RESPONSES)
def test_a_report_is_taken_and_no_client_sees_it(world, kind):
    w = Reporter(world)
    w.first = [w.line('one')]
    w.response, method = RESPONSES[kind]
    # a rejected request waits for another worker, which does not exist
    lb = balancer(world, 'on', [w.address], worker_wait_timeout='1s')
    off = balancer(world, 'off', [w.address], pool={'backlog_shared': False}, worker_wait_timeout='1s')
    for version in (b'1.1', b'1.0'):
        for each in (lb, off):
            got = raw(each.address, method, version)
            assert got.startswith(b'HTTP/1.1 ') and b'resumelb' not in got.lower(), got
            assert b'Trailer' not in got
    # 5 in total, one of them of this load balancer
    assert others(lb, w.address) == 4
    assert others(off, w.address) == 0
    assert lb.app()['stats']['backlog_reports_bad'] == 0


def test_a_backlog_report_that_is_not_a_number_is_ignored_and_counted(world):
    w = Reporter(world)
    w.first = [w.line('one')]
    lb = balancer(world, 'lb', [w.address])

    def ask(*values):
        fields = b''.join(b'Resumelb-Backlog: %s\r\n' % v for v in values)
        w.response = b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n' + fields + b'\r\nok'
        got = raw(lb.address)
        assert got.endswith(b'ok') and b'resumelb' not in got.lower()
    bad = [[b''], [b'-3'], [b'0x10'], [b'1.5'], [b'many'], [b'3, 4'], [b'16777216'], [b'9' * 4000], [b'3', b'3']]
    ask(b'8')
    assert others(lb, w.address) == 7
    for values in bad:
        ask(*values)
    assert others(lb, w.address) == 7
    assert lb.app()['stats']['backlog_reports_bad'] == len(bad)
    # The number of other requests is never negative; a response without the field does not change it.
    ask()
    assert others(lb, w.address) == 7
    ask(b'0')
    assert others(lb, w.address) == 0
    ask(b'16777215')
    assert others(lb, w.address) == 16777214
    assert lb.app()['stats']['backlog_reports_bad'] == len(bad)


def test_a_worker_without_an_agent_reports_nothing(world):
    def respond(c, head, body):
        if b'Upgrade' in head:
            c.write(b'HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nResumelb-Backlog: 50\r\n\r\n')
            c.read_request()        # until the client leaves
        else:
            c.respond(headers=[('Resumelb-Backlog', '50'), ('X-Kept', 'yes')])
    w = world.scripted(serve(respond))
    lb = world.resumelb({'workers': [w.address], 'via': False})
    got = raw(lb.address)
    assert b'resumelb' not in got.lower() and b'X-Kept: yes' in got
    assert others(lb, w.address) == 0
    with connect(lb.address) as s:
        s.sendall(b'GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n'
                  b'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n')
        assert s.recv(4096).startswith(b'HTTP/1.1 101 ')
        assert others(lb, w.address) == 0
    assert lb.app()['stats']['backlog_reports_bad'] == 0


def test_the_tree_turns_it_off_and_on(world):
    w = Reporter(world)
    w.first = [w.line('one')]
    w.response = RESPONSES['length'][0]
    tree = Tree(world.directory / 'tree')
    tree.set(backlog_max_age=60)
    lb = balancer(world, 'lb', [w.address], tree='directory:%s' % (world.directory / 'tree'))
    assert lb.get().status == 200 and others(lb, w.address) == 4
    tree.set(backlog_max_age=60, backlog_shared=False)
    wait_until(lambda: others(lb, w.address) == 0, 'it to be off')
    assert lb.get().status == 200 and others(lb, w.address) == 0
    tree.set(backlog_max_age=60)
    wait_until(lambda: lb.get().status == 200 and others(lb, w.address) == 4, 'it to be on')


# ---- tunnels ----

def websockets(lb, n):
    """Opens N WebSockets, which are idle."""
    clients = [Client(lb.address) for _ in range(n)]
    for c in clients:
        assert c.request('GET', '/ws', headers=[('Connection', 'Upgrade'), ('Upgrade', 'websocket')]).status == 101
    wait_until(lambda: lb.app()['stats']['tunnels'] == n, 'the tunnels')
    return clients


def test_a_tunnel_is_in_no_backlog_but_holds_its_connection_and_its_process(world):
    agent = Threaded(world, concurrency=1).wait_ready()
    lb = balancer(world, 'lb', [agent.address])
    clients = websockets(lb, 4)
    slot, worker = agent.slot(), lb.workers()[agent.address]
    assert (slot['backlog'], slot['running'], slot['process']['sessions']) == (0, 4, 4)
    assert (worker['backlog'], worker['backlog_others']) == (0, 0)
    assert worker['connections']['opening'] == 4
    # The backlog in a response in the meantime does not include them either.
    assert lb.get().status == 200
    assert agent.get()['Resumelb-Backlog'] == '1'
    assert others(lb, agent.address) == 0
    for c in clients:
        c.send_raw(b'still there')
        assert c._need(11) == b'still there'
        c.close()
    wait_until(lambda: agent.slot()['running'] == 0, 'the tunnels to end')
    wait_until(lambda: lb.workers()[agent.address]['connections']['opening'] == 0, 'their connections to be given back')
    assert lb.get().status == 200


def test_idle_tunnels_fill_max_connections_until_one_ends(world):
    agent = Threaded(world, concurrency=1).wait_ready()
    lb = balancer(world, 'lb', [agent.address], max_connections=2, connection_wait_timeout='100ms', worker_wait_timeout='1s')
    clients = websockets(lb, 2)
    assert lb.workers()[agent.address]['backlog'] == 0
    assert lb.get().status == 503
    wait_until(lambda: lb.app()['outcomes'].get('workers-busy') == 1, 'the outcome')
    clients[0].close()
    wait_until(lambda: lb.app()['stats']['tunnels'] == 1, 'a tunnel to end')
    assert lb.get().status == 200
    clients[1].close()
