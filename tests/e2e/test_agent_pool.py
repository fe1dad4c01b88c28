# SPDX-License-Identifier: Apache-2.0
"""The agent's pool: processes on demand, within a budget, replaced without losing a request."""
import json
import os
import random
import signal

import pytest

from agent_support import Background, Stream, TinyAgent, alive
from load_support import Load
from support.base import free_port, wait_until
from support.http import Client, get
from test_agent_life import classified, rewrite, setting

# The soak run takes longer.
ROUNDS = int(os.environ.get('RLB_SOAK_ROUNDS', '1'))
KILLS, SPAWNS = (8 * ROUNDS, 15) if ROUNDS > 1 else (5, 10)

# Serves many requests concurrently, upgrades connections, and can be made to stop accepting connections.
THREADED = r'''
import json, os, socket, sys, threading
if len(sys.argv) > 1:
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
else:
    listener = socket.socket(fileno=3)
def serve(conn):
    with conn, conn.makefile("rwb") as stream:
        head = []
        while True:
            line = stream.readline().strip().lower()
            if not line:
                break
            head.append(line)
        if b"upgrade: websocket" in head:
            stream.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            stream.flush()
            while data := conn.recv(1000):
                conn.sendall(data)
            return
        if head and head[0].startswith(b"get /deaf"):
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        body = json.dumps({"pid": os.getpid()}).encode()
        stream.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        stream.flush()
while True:
    try:
        conn, _ = listener.accept()
    except OSError:
        break
    threading.Thread(target=serve, args=(conn,)).start()
threading.Event().wait()
'''


class PoolAgent(TinyAgent):
    """An agent with an application that also has its own listening address."""

    def __init__(self, world, **settings):
        self.front = '127.0.0.1:%d' % free_port()
        settings.setdefault('listen', [self.front])
        super().__init__(world, **settings)

    def ask(self, target='/', **kw):
        return get(self.front, target, **kw)

    def pids(self):
        return [s['process']['pid'] if s.get('process') else None for s in self.app()['slots']]

    def states(self):
        return [s['state'] for s in self.app()['slots']]

    def processes(self):
        return self.json()['processes']


class Threaded(PoolAgent):
    def __init__(self, world, server=(), **settings):
        script = world.directory / 'threaded.py'
        script.write_text(THREADED)
        self.argv = ['/usr/bin/python3', '-S', '-E', str(script), *server]
        super().__init__(world, ready_probe='/', **settings)

    def start(self):
        self.config['applications']['app']['command'] = self.argv
        super().start()


def add_application(agent, name, **settings):
    """Adds an application of the same kind that has only its own listening address. Effective after a restart of the agent."""
    front = '127.0.0.1:%d' % free_port()
    app = dict(agent.config['applications']['app'])
    app.pop('address')
    app.update(listen=[front], min_processes=0, max_processes=2)
    app.update(settings)
    agent.config['applications'][name] = app
    return front


def restart(agent):
    agent.process.stop()
    agent.start()
    return agent.wait_listening()


def processes_of(agent, name):
    return agent.json()['applications'][name]['figures']['processes']


def hold(agent, go, n=1, address=None):
    """Sends N requests that run until the file GO exists."""
    return [Background(address or agent.front, target='/held', headers=[('X-Until', str(go))]) for _ in range(n)]


# ---- on demand ----

def test_processes_start_when_they_are_asked_for_and_end_when_they_idle(world):
    agent = PoolAgent(world, slots=3, min_processes=0, max_processes=3, max_idle_time='1s').wait_ready()
    assert agent.processes() == 0 and agent.states() == ['dormant'] * 3
    assert agent.ask().status == 200
    wait_until(lambda: agent.processes() == 0, 'all idle processes to end')
    # one process, or two if the first took long to start
    figures = agent.figures()
    assert figures['ended_idle'] == figures['spawns'] >= 1 and figures['deaths'] == 0
    assert agent.states() == ['dormant'] * 3
    assert agent.ask().status == 200


def test_the_last_min_processes_do_not_end_for_idling(world):
    agent = PoolAgent(world, slots=2, min_processes=1, max_processes=2, max_idle_time='1s').wait_ready()
    go = world.directory / 'go'
    requests = hold(agent, go, 2)
    wait_until(lambda: agent.app()['figures']['requests_running'] == 2, 'a second process for the second request')
    go.write_text('')
    assert [r.result().status for r in requests] == [200, 200]
    wait_until(lambda: agent.processes() == 1, 'one of them to end')
    assert agent.figures()['ended_idle'] == 1
    assert agent.figures()['deaths'] == 0 and agent.ask().status == 200


def test_the_least_number_of_processes_is_kept_whichever_is_killed(world):
    agent = PoolAgent(world, slots=3, min_processes=2, max_processes=3).wait_ready()
    for _ in range(5):
        victim = next(p for p in agent.pids() if p)
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: not alive(victim), 'it to be gone')
        wait_until(lambda: agent.ready() and victim not in agent.pids(), 'another')
    assert agent.processes() == 2


# ---- the budget ----

def test_an_idle_process_gives_way_to_another_applications_request(world):
    agent = PoolAgent(world, min_processes=0, max_processes=1, top={'max_processes': 2})
    fronts = [agent.front] + [add_application(agent, 'app%d' % i) for i in range(2)]
    restart(agent)
    assert get(fronts[0], '/').status == 200
    for _ in range(5):
        assert get(fronts[1], '/').status == 200
    assert [processes_of(agent, n) for n in ('app', 'app0', 'app1')] == [1, 1, 0]
    # the process with the longest idle time and the least traffic is ended
    assert get(fronts[2], '/').status == 200
    assert [processes_of(agent, n) for n in ('app', 'app0', 'app1')] == [0, 1, 1]
    assert agent.figures()['gave_way'] == 1 and agent.processes() == 2


def test_applications_above_their_minimum_give_way_first(world):
    agent = PoolAgent(world, min_processes=1, max_processes=1, top={'max_processes': 2})
    fronts = [agent.front] + [add_application(agent, 'app%d' % i) for i in range(2)]
    restart(agent).wait_ready()
    for _ in range(3):
        assert get(fronts[1], '/').status == 200
    assert get(fronts[2], '/').status == 200
    assert [processes_of(agent, n) for n in ('app', 'app0', 'app1')] == [1, 0, 1]


def test_an_application_without_room_in_the_budget_waits_until_a_process_is_free(world):
    go = world.directory / 'go'
    agent = PoolAgent(world, min_processes=0, max_processes=1, top={'max_processes': 1})
    other = add_application(agent, 'other', address='127.0.0.1:0+')
    restart(agent)
    held = hold(agent, go)
    wait_until(lambda: agent.figures()['requests_running'] == 1, 'the first to run')
    waiting = Background(other)
    wait_until(lambda: agent.json()['applications']['other']['figures']['requests_waiting'] == 1, 'the other to wait')
    assert agent.processes() == 1
    # no process is being started: the slot waits for room in the budget
    shown = agent.json()['applications']['other']
    assert (shown['slots'][0]['state'], shown['counts']['starting']) == ('waiting', 0)
    # load balancers know only four states, which is sufficient
    stream = Stream(shown['slots'][0]['address'])
    assert stream.wait(lambda x: True)['state'] == 'starting'
    stream.close()
    go.write_text('')
    assert held[0].result().status == 200
    assert waiting.result().status == 200
    assert [processes_of(agent, n) for n in ('app', 'other')] == [0, 1]


def test_maxima_are_lowered_and_raised_while_running(world):
    agent = PoolAgent(world, slots=4, most=5, min_processes=1, max_processes=4).wait_ready()
    streams = [agent.stream(n) for n in range(4)]
    agent.write_node({'min_processes': 4})
    wait_until(lambda: agent.states() == ['ready'] * 4, 'four processes')
    # the maximum of an application, set in the tree
    agent.write_node({'min_processes': 1, 'max_processes': 3})
    wait_until(lambda: agent.processes() == 3, 'the process that is too many to end')
    wait_until(lambda: streams[3].ended, 'its slot to go')
    assert streams[3].last() == {'end': 'stop'} and not streams[0].ended
    wait_until(lambda: agent.provider(3) is None, 'its registration to go')
    # the maximum of the host, set in the configuration file
    agent.config['max_processes'] = 2
    rewrite(agent)
    wait_until(lambda: agent.processes() == 2, 'another to end')
    assert agent.figures()['ended_over_max'] == 2
    # more processes than before
    free = int(agent.addresses[-1].split(':')[1]) + 1
    agent.config['max_processes'] = 8
    rewrite(agent)
    agent.write_node({'min_processes': 5, 'max_processes': 5})
    wait_until(lambda: agent.processes() == 5, 'all five')
    agent.wait_ready()
    assert get('127.0.0.1:%d' % free, '/').status == 200
    wait_until(lambda: (agent.provider(3) or {}).get('state') == 'ready', 'the fourth to be registered again')


def test_more_slots_than_the_address_has_room_for_are_rejected(world):
    agent = PoolAgent(world)
    agent.config['applications']['app']['address'] = agent.addresses[0]
    restart(agent).wait_ready()
    agent.write_node({'max_processes': 2, 'min_processes': 1})
    wait_until(lambda: 'rejected' in setting(agent, 'max_processes'), 'the rejection')
    assert 'room for 1' in json.dumps(setting(agent, 'max_processes'))
    assert len(agent.app()['slots']) == 1


def test_a_process_finishes_its_requests_before_it_ends(world):
    go = world.directory / 'go'
    agent = PoolAgent(world, slots=2, min_processes=1, max_processes=2).wait_ready()
    assert agent.get(n=1).status == 200
    pid = agent.pid(1)
    held = Background(agent.addresses[1], 'POST', '/held', [('X-Until', str(go))], b'x')
    wait_until(lambda: agent.slot(1)['running'] == 1, 'it to run')
    agent.write_node({'max_processes': 1})
    wait_until(lambda: agent.slot(1)['state'] == 'draining', 'the slot to be taken out')
    assert alive(pid) and agent.get(n=1).status == 503
    go.write_text('')
    assert held.result().status == 200
    wait_until(lambda: not alive(pid), 'it to end')
    assert agent.figures()['deaths'] == 0


def test_requests_of_a_process_that_ends_get_shutdown_timeout_at_most(world):
    agent = PoolAgent(world, slots=2, min_processes=1, max_processes=2, shutdown_timeout='200ms').wait_ready()
    assert agent.get(n=1).status == 200
    pid = agent.pid(1)
    held = Background(agent.addresses[1], headers=[('X-Until', '/nonexistent')])
    wait_until(lambda: agent.slot(1)['running'] == 1, 'it to run')
    agent.write_node({'max_processes': 1})
    assert held.result().status == 502
    wait_until(lambda: not alive(pid), 'it to end')
    agent.process.wait_logged('process-shutdown-timeout')


# ---- replacement ----

def load_of(address):
    return Load([address], clients=4, posts=2, keep=False)


def posts_of(agent):
    """The targets of the executed POST requests."""
    return sorted(line.split()[1] for line in agent.served() if line.startswith('POST'))


@pytest.mark.parametrize('overlap', [True, False])
def test_processes_are_replaced_under_load_without_losing_a_request(world, overlap):
    agent = PoolAgent(world, slots=2, min_processes=2, max_processes=2, max_requests=10,
                      top={'max_processes': 2, 'replace_overlap': overlap}).wait_ready()
    with load_of(agent.front) as load:
        wait_until(lambda: load.failures or agent.figures()['spawns'] >= SPAWNS, 'enough replacements')
    figures = agent.figures()
    assert figures['deaths'] == 0 and figures['failures'] == 0
    assert (figures['replaced'] > SPAWNS // 3) == overlap
    assert posts_of(agent) == sorted(load.posts), 'each once'
    wait_until(lambda: agent.processes() == 2, 'the last replacement to be over')


def test_a_load_balancer_notices_nothing_of_replacements(world):
    agent = PoolAgent(world, slots=2, min_processes=2, max_processes=2, max_requests=10)
    lb = world.resumelb({'applications': {'app': {'tree': 'directory:%s' % (agent.tree / 'app')}}}, wait=False)
    wait_until(lb.listening, 'the load balancer')
    wait_until(lambda: len([w for w in lb.workers('app').values() if w['state'] == 'ready']) == 2, 'two workers')
    with load_of(lb.address) as load:
        wait_until(lambda: load.failures or agent.figures()['replaced'] >= 10, 'enough replacements')
    assert posts_of(agent) == sorted(load.posts), 'each once'


def test_replacements_and_deaths_together_lose_no_get_and_repeat_no_post(world):
    agent = PoolAgent(world, slots=3, min_processes=3, max_processes=3, max_requests=50, respawn_delay_max='100ms')
    lb = world.resumelb({'applications': {'app': {'tree': 'directory:%s' % (agent.tree / 'app')}}}, wait=False)
    wait_until(lb.listening, 'the load balancer')
    wait_until(lambda: len([w for w in lb.workers('app').values() if w['state'] == 'ready']) == 3, 'three workers')
    kills = 0
    with Load([lb.address], clients=4, posts=2, sites=3, keep=False, lossy=True) as load:
        while kills < KILLS or agent.figures()['replaced'] < KILLS:
            load.go_on(25)
            pids = [slot['process']['pid'] for slot in agent.app()['slots'] if (slot.get('process') or {}).get('pid')]
            if pids:
                os.kill(random.choice(pids), signal.SIGKILL)
                kills += 1
    # A POST that a killed process had received is lost, and not retried.
    assert {outcome for _, outcome in load.lost} <= {502}
    wait_until(lambda: len(load.cut_short) <= agent.process.output().count('response_begun=yes'), 'the log to have all of %s' % load.cut_short)
    executed = posts_of(agent)
    assert len(executed) == len(set(executed)), 'none twice'
    assert set(executed) <= set(load.posts)
    agent.wait_ready()


def test_when_the_new_one_fails_the_old_one_stays_and_gets_no_more_than_it_may(world):
    flag = world.directory / 'fail'
    agent = PoolAgent(world, max_requests=3, env={'BOOT_FAIL': str(flag)}, respawn_delay_max='200ms',
                      queue_timeout='200ms').wait_ready()
    pid = agent.pid()
    flag.write_text('')
    assert [agent.ask().status for _ in range(5)] == [200] * 3 + [503] * 2
    wait_until(lambda: agent.figures()['replace_failures'] >= 3, 'some tries')
    assert agent.pid() == pid
    assert agent.slot()['state'] == 'ready'
    flag.unlink()
    wait_until(lambda: agent.pid() != pid and not alive(pid), 'the replacement')
    assert agent.figures()['replaced'] == 1 and agent.figures()['deaths'] >= 3


def test_without_a_probe_the_new_one_shows_itself_by_a_get(world):
    agent = PoolAgent(world, ready_probe=None, max_requests=2).wait_ready()
    assert [agent.ask().status for _ in range(2)] == [200, 200]
    pid = agent.pid()
    wait_until(lambda: agent.figures()['spawns'] == 2, 'the successor')
    # the old process has served max_requests requests, and exists until the new one is ready
    assert agent.slot()['process']['pid'] == pid

    def asked():
        return json.loads(agent.ask().body)['pid'] != pid
    wait_until(asked, 'a request to go to the successor')
    wait_until(lambda: not alive(pid), 'the old one to end')


@pytest.mark.parametrize('persistent', [True, False])
def test_the_new_one_inherits_skills_where_they_are_persistent(world, persistent):
    agent = PoolAgent(world, history=1, persistent=persistent, max_requests=2).wait_ready()
    stream = agent.stream()
    first = stream.wait(lambda x: x['state'] == 'ready')
    assert agent.get(headers=classified('a')).status == 200
    skills = stream.wait(lambda x: x['skills'])['skills']
    assert agent.get(headers=classified('a')).status == 200
    second = stream.wait(lambda x: x['instance'] != first['instance'])
    assert second['state'] == 'ready', 'no moment without a process'
    assert ('a' in second['skills']) == persistent and 'a' in skills


# ---- an application's own address ----

def test_requests_wait_in_one_line_or_each_for_a_process(world):
    go = world.directory / 'go'
    agent = PoolAgent(world, slots=2, min_processes=2, max_processes=2).wait_ready()
    held = hold(agent, go, 2)
    wait_until(lambda: agent.figures()['requests_running'] == 2, 'both to be busy')
    waiting = hold(agent, go, 2)
    wait_until(lambda: agent.figures()['requests_waiting'] == 2, 'two to wait')
    assert [s['waiting'] for s in agent.app()['slots']] == [0, 0]
    agent.write_node({'queue': 'private'})
    wait_until(lambda: setting(agent, 'queue')['value'] == 'private', 'the setting')
    private = hold(agent, go, 2)
    wait_until(lambda: agent.figures()['requests_waiting'] == 4, 'two more')
    assert [s['waiting'] for s in agent.app()['slots']] == [1, 1]
    go.write_text('')
    assert {r.result().status for r in held + waiting + private} == {200}


def test_a_full_line_gets_a_response_503_with_when_to_come_again(world):
    go = world.directory / 'go'
    agent = PoolAgent(world, max_queue=1).wait_ready()
    held = hold(agent, go)
    wait_until(lambda: agent.figures()['requests_running'] == 1, 'it to run')
    held += hold(agent, go)
    wait_until(lambda: agent.figures()['requests_waiting'] == 1, 'another to wait')
    r = agent.ask()
    assert (r.status, r['Retry-After']) == (503, '1')
    assert not [k for k, _ in r.headers if k.lower().startswith('resumelb')]
    go.write_text('')
    assert [r.result().status for r in held] == [200, 200]


def test_a_process_is_notified_of_the_client(world):
    agent = PoolAgent(world, top={'allow': ['10.0.0.0/8']}).wait_ready()
    sent = [('X-Forwarded-For', '1.2.3.4'), ('X-Forwarded-Proto', 'https'), ('Forwarded', 'for=1.2.3.4'),
            ('Resumelb-Class', 'a'), ('Connection', 'X-Hop'), ('X-Hop', 'y'), ('X-Other', 'z')]
    told = json.loads(agent.ask(headers=sent, host='shop.example').body)['headers']
    names = dict(told)
    assert names['host'] == 'shop.example' and names['x-other'] == 'z'
    assert (names['x-forwarded-for'], names['x-forwarded-proto'], names['x-forwarded-host']) == (
        '127.0.0.1', 'http', 'shop.example')
    assert not {'forwarded', 'resumelb-class', 'x-hop', 'connection'} & set(names)
    # a peer that may connect to slots is also trusted
    agent.config['allow'] = ['loopback']
    rewrite(agent)
    believed = lambda: dict(json.loads(agent.ask(headers=sent, host='shop.example').body)['headers'])
    wait_until(lambda: believed()['x-forwarded-for'] == '1.2.3.4, 127.0.0.1', 'the new file')
    assert believed()['x-forwarded-proto'] == 'https' and 'resumelb-class' not in believed()


def test_only_a_trusted_peer_states_a_certificate_or_a_request_id(world):
    agent = PoolAgent(world, top={'allow': ['10.0.0.0/8']}).wait_ready()
    sent = [('X-SSL-Client-Verify', 'SUCCESS'), ('X_Ssl_Client_S_DN', 'CN=forged'), ('X-Request-ID', 'theirs-7'),
            ('Proxy', 'http://192.0.2.9:3128')]
    passed = lambda: {name.replace('_', '-'): value for name, value in json.loads(agent.ask(headers=sent).body)['headers']}
    untrusted = passed()
    assert not {'x-ssl-client-verify', 'x-ssl-client-s-dn', 'x-request-id', 'proxy'} & set(untrusted)
    agent.config['allow'] = ['loopback']
    rewrite(agent)
    wait_until(lambda: 'x-request-id' in passed(), 'the new file')
    trusted = passed()
    assert (trusted['x-ssl-client-verify'], trusted['x-ssl-client-s-dn'], trusted['x-request-id']) == (
        'SUCCESS', 'CN=forged', 'theirs-7')
    assert 'proxy' not in trusted
    # From a load balancer at a slot they are accepted, except Proxy.
    by_slot = dict(json.loads(agent.get(headers=sent).body)['headers'])
    assert by_slot['x-ssl-client-verify'] == 'SUCCESS' and by_slot['x-request-id'] == 'theirs-7'
    assert 'proxy' not in by_slot


def test_slots_need_no_addresses(world):
    agent = PoolAgent(world, slots=2, min_processes=1, max_processes=2)
    agent.config['applications']['app'].pop('address')
    restart(agent).wait_ready()
    go = world.directory / 'go'
    requests = hold(agent, go, 2)
    wait_until(lambda: agent.figures()['requests_running'] == 2, 'both to run')
    go.write_text('')
    assert [r.result().status for r in requests] == [200, 200]


def test_a_process_that_cannot_be_connected_to_is_detached_and_another_tried(world):
    agent = Threaded(world, server=('{port}',), slots=2, min_processes=2, max_processes=2, concurrency=4,
                     respawn_delay='10s').wait_ready()
    deaf = json.loads(agent.get('/deaf', n=0).body)['pid']
    for _ in range(4):
        r = agent.ask()
        assert r.status == 200 and json.loads(r.body)['pid'] != deaf
    assert agent.figures()['tries_elsewhere'] == 1
    wait_until(lambda: not alive(deaf), 'the deaf one to be ended')


def test_an_upgraded_connection_takes_no_place_but_is_counted(world):
    agent = Threaded(world, upgrade_concurrency=1, shutdown_timeout='0s').wait_ready()
    upgrade = [('Connection', 'Upgrade'), ('Upgrade', 'websocket')]
    with Client(agent.front) as first:
        assert first.request('GET', '/ws', headers=upgrade).status == 101
        # the tunnel does not count against the concurrency of 1
        assert agent.ask().status == 200
        with Client(agent.front) as second:
            assert second.request('GET', '/ws', headers=upgrade).status == 503
        assert agent.figures()['upgrades_rejected'] == 1
        # the tunnel keeps its process from being ended
        pid = agent.pid()
        agent.write_node({'max_requests': 1})
        assert agent.ask().status == 200
        wait_until(lambda: agent.pid() != pid, 'the replacement')
        first.send_raw(b'still there')
        assert first._need(11) == b'still there' and alive(pid)
    wait_until(lambda: not alive(pid), 'it to end with its last connection')
