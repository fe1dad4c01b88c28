# SPDX-License-Identifier: Apache-2.0
"""The agent: the life cycle of its processes, its slots, its resumes, its shutdown."""
import json
import os
import signal
import subprocess
import threading

import pytest

from agent_support import STREAM, Background, TinyAgent, alive
from support.base import LIMIT, wait_until
from support.http import BodyCutShort, Client, CutShort, connect, get

FINGERPRINT = '0123456789abcdef'


def classified(name, fingerprint=FINGERPRINT):
    return [('Resumelb-Class', name), ('Resumelb-Classifier', fingerprint)]


# ---- processes and their sockets ----

def test_gunicorn_serves_by_an_inherited_socket(world):
    agent = world.agent('agent', world.directory / 'tree')
    wait_until(lambda: _ready(agent), 'two gunicorns')
    pids = {json.loads(get(a).body)['pid'] for a in agent.addresses}
    assert len(pids) == 2


def test_gunicorn_serves_at_a_port_that_it_is_given(world):
    agent = world.agent('agent', world.directory / 'tree', slots=1, command=[
        '/usr/bin/python3', '-m', 'gunicorn', '--workers=1', '--bind=127.0.0.1:{port}', '--worker-tmp-dir=/dev/shm',
        'smallapp:application'])
    wait_until(lambda: _ready(agent), 'gunicorn')
    assert json.loads(get(agent.addresses[0]).body)['path'] == '/'


# Binds the port before the program that it is intended for, as any local user can. The process has its own session and is not a
# descendant of the agent. It responds like an application.
SQUATTER = """
import http.server, os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()
        http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
    os._exit(0)
os.wait()
os.execvp("gunicorn", ["gunicorn", "--workers=1", "--bind=127.0.0.1:" + sys.argv[1], "smallapp:application"])
"""


@pytest.mark.parametrize('probe', ['/', None])
def test_a_port_that_another_process_has_bound_makes_no_process_ready(world, probe):
    (world.directory / 'squatter.py').write_text(SQUATTER)
    agent = TinyAgent(world, min_processes=0, ready_probe=probe)
    agent.process.stop()
    agent.config['applications']['app']['command'] = [
        '/usr/bin/python3', '-S', '-E', str(world.directory / 'squatter.py'), '{port}']
    agent.start()
    agent.wait_listening()
    assert agent.get().status == 503
    agent.process.wait_logged('process-port-not-owned')
    assert 'does not own the listener on its port' in str(agent.slot()['last_failure'])
    assert agent.figures()['spawn_failures'] == 1


def _ready(agent):
    try:
        return get(agent.admin, '/readyz', host=agent.admin).status == 200
    except OSError:
        return False


@pytest.mark.parametrize('server,settings', [
    ((), {}), ((), {'socket': 'tcp'}), (('{port}',), {}), (('{socket}',), {}),
    ((), {'ready_probe': None}), (('{port}',), {'ready_probe': None})])
def test_each_way_to_a_listening_socket_serves(world, server, settings):
    agent = TinyAgent(world, server=server, **settings).wait_ready()
    for i in range(3):
        r = agent.get('/%d' % i)
        assert r.status == 200
        assert json.loads(r.body)['pid'] == agent.pid()
    assert agent.slot()['process']['state'] == 'ready'


def test_without_a_probe_the_first_request_is_the_probe(world):
    go = world.directory / 'go'
    agent = TinyAgent(world, ready_probe=None, concurrency=4).wait_ready()
    # it is ready for load balancers before its first request, as otherwise that request would never arrive
    assert agent.stream().wait(lambda x: True)['state'] == 'ready'
    assert agent.slot()['process']['state'] == 'starting'
    requests = [Background(agent.address, target='/%d' % i, headers=[('X-Until', str(go))]) for i in range(3)]
    wait_until(lambda: agent.slot()['waiting'] == 2, 'the others to wait for the first')
    go.write_text('')
    assert [r.result().status for r in requests] == [200, 200, 200]
    assert agent.slot()['process']['state'] == 'ready'


def test_a_first_request_that_gets_no_response_in_time_ends_the_process(world):
    agent = TinyAgent(world, ready_probe=None, start_timeout='200ms').wait_ready()
    pid = agent.pid()
    assert agent.get(headers=[('X-Until', '/nonexistent')]).status == 502
    wait_until(lambda: agent.figures()['spawn_failures'] == 1 and not alive(pid), 'its end')
    agent.change(start_timeout='10m')
    # the next process is not ready before it has responded to a request
    wait_until(lambda: agent.slot()['state'] == 'starting' and agent.slot().get('process', {}).get('pid') not in (None, pid, 0), 'another')
    assert agent.get().status == 200
    assert agent.slot()['state'] == 'ready'


def test_a_process_gets_a_clean_start(world):
    agent = TinyAgent(world, env={'MINE': 'yes'}, server=()).wait_ready()
    out = json.loads(agent.get().body)
    assert out['env']['MINE'] == 'yes'
    assert not [k for k in out['env'] if k.startswith('PYTEST') or k == 'NOTIFY_SOCKET']
    assert set(out['env']) <= {'MINE', 'SERVER_LOG', 'PYTHONDONTWRITEBYTECODE', 'PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ',
                               'LISTEN_FDS', 'LISTEN_PID', 'LC_CTYPE'}
    # descriptors 0 to 3, the connection, and the directory that the server lists
    assert out['fds'][:4] == [0, 1, 2, 3] and len(out['fds']) <= 7, out['fds']
    assert out['stdin'] == '/dev/null'
    assert out['pgid'] == out['pid']
    assert out['cwd'] == str(world.directory)
    assert out['ppid'] == agent.json()['supervisor_pid']


def test_a_process_runs_as_the_user_it_was_given_or_not_at_all(open_world):
    # an agent that does not run as root reports that it cannot
    config = open_world.directory / 'rejected.yaml'
    config.write_text('state_dir: %s\napplications: {app: {command: [/bin/true], root: /, user: daemon, '
                      'address: "127.0.0.1:0"}}\n' % (open_world.directory / 'rejected'))
    root = os.geteuid() == 0
    ordinary = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] if root else []
    out = subprocess.run([*ordinary, open_world.bin / 'resumelb-agent', '-c', config, '-t'], capture_output=True, text=True, timeout=LIMIT)
    assert out.returncode == 1 and 'needs an agent that runs as root' in out.stderr, out.stderr
    if not root:
        return
    for server in ((), ('{socket}',)):
        agent = TinyAgent(open_world, name='agent%d' % len(server), server=server, user='nobody', root='/').wait_ready()
        out = json.loads(agent.get().body)
        assert (out['uid'], out['groups']) == (65534, [65534])
        assert out['env']['USER'] == 'nobody'
        agent.process.stop()


def test_output_of_a_process_is_in_the_log(world):
    flag = world.directory / 'fail'
    flag.write_text('')
    agent = TinyAgent(world, env={'BOOT_FAIL': str(flag)}).wait_listening()
    wait_until(lambda: 'line="cannot start: %s"' % flag in agent.process.output(), 'its line in the log')
    wait_until(lambda: 'how="exit 3"' in agent.process.output(), 'its end in the log')


def test_a_command_that_is_not_there_is_reported_and_requests_are_rejected_unprocessed(world):
    agent = TinyAgent(world)
    agent.config['applications']['app']['command'] = ['/no/such/program']
    agent.process.stop()
    agent.start()
    agent.wait_listening()
    wait_until(lambda: '/no/such/program: No such file' in agent.process.output(), 'the reason in the log')
    wait_until(lambda: agent.slot()['start_failures'] >= 2, 'another try')
    r = agent.get()
    assert (r.status, r['Resumelb-Unprocessed']) == (503, '1')


# ---- death ----

def test_a_killed_process_is_replaced_by_another_instance(world):
    agent = TinyAgent(world).wait_ready()
    stream = agent.stream()
    first = stream.wait(lambda x: x['state'] == 'ready')
    pid = agent.pid()
    os.kill(pid, signal.SIGKILL)
    second = stream.wait(lambda x: x['state'] == 'ready' and x['instance'] != first['instance'])
    assert agent.pid() != pid
    assert wait_until(lambda: agent.provider()['instance'] == second['instance'], 'the tree')
    assert agent.get().status == 200
    assert agent.figures()['deaths'] == 1


def test_requests_that_wait_when_the_process_dies_get_unprocessed_and_the_running_one_502(world):
    agent = TinyAgent(world).wait_ready()
    running = Background(agent.address, 'POST', '/running', [('X-Until', '/nonexistent')], b'x')
    wait_until(lambda: 'POST /running' in agent.served(), 'the first to run')
    waiting = [Background(agent.address, 'POST', '/waiting', body=b'x') for _ in range(3)]
    wait_until(lambda: agent.slot()['waiting'] == 3, 'the others to wait')
    os.kill(agent.pid(), signal.SIGKILL)
    r = running.result()
    assert (r.status, r['Resumelb-Unprocessed']) == (502, None)
    for w in waiting:
        r = w.result()
        assert (r.status, r['Resumelb-Unprocessed']) == (503, '1')
    agent.wait_ready()
    assert agent.served() == ['POST /running']


@pytest.mark.parametrize('server,settings', [((), {}), ((), {'socket': 'tcp'}), (('{port}',), {}), (('{socket}',), {})])
def test_requests_in_the_backlog_of_a_dead_process_are_not_executed_by_its_replacement(world, server, settings):
    """The concurrency is set higher than that of the process: requests that it does not serve wait in the backlog of its socket."""
    agent = TinyAgent(world, server=server, concurrency=8, **settings).wait_ready()
    requests = [Background(agent.address, 'POST', '/%d' % i, [('X-Until', '/nonexistent')], b'x') for i in range(6)]
    wait_until(lambda: agent.slot()['running'] == 6 and len(agent.served()) == 1, 'one served, five in the backlog')
    os.kill(agent.pid(), signal.SIGKILL)
    assert {r.result().status for r in requests} <= {502, 503}
    wait_until(lambda: agent.figures()['deaths'] == 1, 'its death to be noticed')
    agent.wait_ready()
    assert agent.get('/after').status == 200
    assert [s for s in agent.served() if s.startswith('POST')] == agent.served()[:1]


@pytest.mark.parametrize('kind', ['group', 'escape'])
def test_children_of_a_process_do_not_outlive_it_or_get_its_requests(world, kind):
    pid_file = world.directory / 'child'
    agent = TinyAgent(world, env={'CHILD': kind, 'CHILD_PID': str(pid_file)}).wait_ready()
    child = int(pid_file.read_text())
    held = Background(agent.address, 'POST', '/held', [('X-Until', '/nonexistent')], b'x')
    wait_until(lambda: agent.served(), 'the request to run')
    os.kill(agent.pid(), signal.SIGKILL)
    assert held.result().status == 502
    wait_until(lambda: agent.figures()['deaths'] == 1, 'its death to be noticed')
    if kind == 'group':
        wait_until(lambda: not alive(child), 'the child to end')
    agent.wait_ready()
    assert agent.get().status == 200
    agent.process.stop()
    wait_until(lambda: not alive(child), 'the child to end with the supervisor')


def test_a_process_that_dies_again_and_again_is_started_at_growing_intervals(world):
    flag = world.directory / 'fail'
    flag.write_text('')
    agent = TinyAgent(world, env={'BOOT_FAIL': str(flag)}, respawn_delay_max='200ms').wait_listening()
    wait_until(lambda: agent.slot()['start_failures'] >= 4, 'some failures')
    r = agent.get()
    assert (r.status, r['Resumelb-Unprocessed']) == (503, '1')
    flag.unlink()
    agent.wait_ready()
    assert agent.get().status == 200
    assert agent.slot()['start_failures'] == 0


def test_a_process_that_is_not_ready_in_time_is_ended(world):
    agent = TinyAgent(world, env={'BOOT_DELAY': '3600'}, start_timeout='200ms').wait_listening()
    waiting = Background(agent.address)
    wait_until(lambda: agent.figures()['spawn_failures'] >= 1, 'a start that took too long')
    assert waiting.result()['Resumelb-Unprocessed'] == '1'
    agent.process.wait_logged('process-start-timeout')


def test_a_probe_responded_5xx_is_not_ready(world):
    status = world.directory / 'probe'
    agent = TinyAgent(world, env={'PROBE_STATUS_FILE': str(status)}).wait_listening()
    stream = agent.stream()
    stream.wait(lambda x: x['state'] == 'starting')
    waiting = Background(agent.address, target='/early')
    wait_until(lambda: agent.slot()['waiting'] == 1, 'the request to wait')
    assert agent.served() == []
    status.write_text('404 Not Found')
    stream.wait(lambda x: x['state'] == 'ready')
    assert waiting.result().status == 200


def test_a_process_that_does_not_respond_in_time_is_replaced(world):
    agent = TinyAgent(world, first_byte_timeout='200ms').wait_ready()
    pid = agent.pid()
    r = agent.get('/slow', headers=[('X-Until', '/nonexistent')])
    assert r.status == 504
    agent.process.wait_logged('response_begun=no repeatable=yes connection=new setting=first_byte_timeout')
    agent.process.wait_logged('setting=first_byte_timeout action="stop it, start another"')
    wait_until(lambda: not alive(pid), 'the stuck process to end')
    agent.change(first_byte_timeout='10m')
    agent.wait_ready()
    assert agent.get().status == 200
    assert 'GET /slow' in agent.served() and agent.served().count('GET /slow') == 1


# ---- the slot's queue ----

def test_one_at_a_time_and_in_order(world):
    agent = TinyAgent(world).wait_ready()
    go = world.directory / 'go'
    requests = []
    for i in range(6):
        requests.append(Background(agent.address, target='/%d' % i, headers=[('X-Until', str(go))]))
        wait_until(lambda: agent.slot()['waiting'] + agent.slot()['running'] == i + 1, 'it to queue')
    assert (agent.slot()['running'], agent.slot()['waiting']) == (1, 5)
    wait_until(lambda: agent.served(), 'the first to arrive')
    assert agent.served() == ['GET /0']
    go.write_text('')
    for r in requests:
        assert r.result().status == 200
    assert agent.served() == [line for i in range(6) for line in ('GET /%d' % i, 'done /%d' % i)]


def test_a_full_queue_responses_unprocessed(world):
    agent = TinyAgent(world, max_queue=2).wait_ready()
    go = world.directory / 'go'
    requests = [Background(agent.address, headers=[('X-Until', str(go))]) for _ in range(3)]
    wait_until(lambda: agent.slot()['waiting'] == 2, 'the queue to fill')
    r = agent.get(method='POST', body=b'x')
    assert (r.status, r['Resumelb-Unprocessed']) == (503, '1')
    go.write_text('')
    assert [q.result().status for q in requests] == [200, 200, 200]


def test_waiting_ends_after_queue_timeout(world):
    agent = TinyAgent(world, queue_timeout='100ms').wait_ready()
    go = world.directory / 'go'
    first = Background(agent.address, headers=[('X-Until', str(go))])
    wait_until(lambda: agent.slot()['running'] == 1, 'the first to run')
    r = agent.get()
    assert (r.status, r['Resumelb-Unprocessed']) == (503, '1')
    go.write_text('')
    assert first.result().status == 200


def test_a_process_is_busy_until_it_has_responded_even_when_the_client_has_left(world):
    agent = TinyAgent(world).wait_ready()
    go = world.directory / 'go'
    gone = Client(agent.address)
    gone.send('GET', '/gone', headers=[('X-Until', str(go))])
    wait_until(lambda: agent.served() == ['GET /gone'], 'the request to run')
    gone.close()
    wait_until(lambda: agent.figures()['clients_gone'] == 1, 'its leaving to be noticed')
    next_one = Background(agent.address, target='/next')
    wait_until(lambda: agent.slot()['waiting'] == 1, 'the next to wait')
    go.write_text('')
    assert next_one.result().status == 200
    assert agent.served() == ['GET /gone', 'done /gone', 'GET /next', 'done /next']


def test_a_request_that_leaves_the_queue_is_never_sent(world):
    agent = TinyAgent(world).wait_ready()
    go = world.directory / 'go'
    first = Background(agent.address, target='/first', headers=[('X-Until', str(go))])
    wait_until(lambda: agent.slot()['running'] == 1, 'the first to run')
    gone = Client(agent.address)
    gone.send('POST', '/gone', body=b'x')
    wait_until(lambda: agent.slot()['waiting'] == 1, 'the second to wait')
    gone.close()
    wait_until(lambda: agent.slot()['waiting'] == 0, 'it to leave the queue')
    go.write_text('')
    assert first.result().status == 200
    assert agent.get('/last').status == 200
    assert agent.served() == ['GET /first', 'done /first', 'GET /last', 'done /last']


def test_a_slow_client_does_not_hold_the_process(world):
    agent = TinyAgent(world, response_buffer='4MiB').wait_ready()
    slow = Client(agent.address)
    slow.send('GET', '/big', headers=[('X-Bytes', str(3 << 20))])
    wait_until(lambda: 'done /big' in agent.served(), 'the process to be free again')
    assert agent.get('/other').status == 200
    assert len(slow.receive().body) > 3 << 20


def test_a_process_that_dies_between_head_and_body_has_failed_the_request(world):
    agent = TinyAgent(world).wait_ready()

    def failed():
        """Returns None if the exit of the process took longer than the agent delays a head to wait for its body."""
        try:
            return agent.get(headers=[('X-Head-Only', '1')])
        except BodyCutShort:
            return None
    r = wait_until(failed, 'a process that dies soon enough')
    assert (r.status, r['Resumelb-Failed'], r['X-Pid']) == (502, '1', None)


def test_a_head_does_not_wait_long_for_its_body(world):
    agent = TinyAgent(world).wait_ready()
    go = world.directory / 'go'
    with Client(agent.address) as c:
        c.send('GET', '/', headers=[('X-Body-Until', str(go))])
        assert c.head()[1] == 200
        go.write_text('')


def test_a_response_cut_short_is_seen_to_be(world):
    agent = TinyAgent(world).wait_ready()
    with pytest.raises(CutShort):
        agent.get('/', headers=[('X-Bytes', '100000'), ('X-Cut', '50000')])
    assert agent.get().status == 200


# ---- dormant slots and the budget ----

def test_a_dormant_slot_starts_a_process_when_a_request_reaches_it(world):
    agent = TinyAgent(world, slots=2, min_processes=1, max_processes=2).wait_ready()
    stream = agent.stream(1)
    dormant = stream.wait(lambda x: x['state'] == 'dormant')
    assert agent.provider(1)['state'] == 'dormant' and 'pid' not in agent.provider(1)
    r = agent.get(n=1)
    assert r.status == 200
    warm = stream.wait(lambda x: x['state'] == 'ready')
    assert warm['instance'] == dormant['instance']
    os.kill(agent.pid(1), signal.SIGKILL)
    again = stream.wait(lambda x: x['state'] == 'dormant' and x['instance'] != dormant['instance'])
    assert again['instance'] != warm['instance']


def test_the_hosts_budget_is_kept(world):
    agent = TinyAgent(world, slots=2, min_processes=1, max_processes=2, queue_timeout='10s',
                      top={'max_processes': 1}).wait_ready()
    # another process of the application could serve the request; it is not ended to make room
    r = agent.get(n=1, method='POST', body=b'x')
    assert (r.status, r['Resumelb-Unprocessed']) == (503, '1')
    assert agent.json()['processes'] == 1 and agent.figures()['no_room'] == 1
    agent.config['max_processes'] = 2
    agent.path.write_text(''.join('%s: %s\n' % (k, json.dumps(v)) for k, v in agent.config.items()))
    agent.process.kill(signal.SIGHUP)
    wait_until(lambda: agent.json()['max_processes'] == 2, 'the new file')
    assert agent.get(n=1).status == 200


# ---- what the process and the load balancer see of one another ----

def test_only_the_class_of_our_headers_reaches_the_process(world):
    agent = TinyAgent(world).wait_ready()
    r = agent.get(headers=[*classified('a.example'), ('Resumelb-Feed', '1'), ('Resumelb-Secret', 'x'),
                           ('Connection', 'X-Hop'), ('X-Hop', 'y'), ('X-Other', 'z')])
    names = dict(json.loads(r.body)['headers'])
    assert names['resumelb-class'] == 'a.example'
    assert names['x-other'] == 'z'
    assert not {'resumelb-classifier', 'resumelb-feed', 'resumelb-secret', 'x-hop', 'connection'} & set(names)


def test_a_process_cannot_promise_that_it_did_not_get_a_request(world):
    agent = TinyAgent(world).wait_ready()
    r = agent.get(headers=[('X-Forge', '1'), ('X-Status', '503 Busy')])
    assert (r.status, r['Resumelb-Unprocessed'], r['X-Kept']) == (503, None, 'yes')


def test_bodies_pass_and_a_post_takes_a_connection_that_was_just_alive(world):
    agent = TinyAgent(world).wait_ready()
    for size in (0, 1, 70000):
        r = agent.get('/p', method='POST', body=b'x' * size)
        assert json.loads(r.body)['body'] == size


def test_an_upgraded_connection_passes(world):
    agent = TinyAgent(world).wait_ready()
    with Client(agent.address) as c:
        r = c.request('GET', '/ws', headers=[('Connection', 'Upgrade'), ('Upgrade', 'WebSocket')])
        assert (r.status, r['Upgrade']) == (101, 'websocket')
        c.send_raw(b'hello')
        assert c._need(5) == b'HELLO'
        assert agent.slot()['running'] == 1
    wait_until(lambda: agent.slot()['running'] == 0, 'the place to be given back')
    assert agent.get().status == 200


@pytest.mark.parametrize('protocol', ['h2c', 'echo', 'websocket, h2c', 'tls/1.0'])
def test_a_request_for_another_protocol_is_served_as_if_it_had_not_asked(world, protocol):
    agent = TinyAgent(world).wait_ready()
    sent = [('Connection', 'Upgrade, HTTP2-Settings'), ('Upgrade', protocol), ('HTTP2-Settings', 'AAMAAABkAAQAAP__')]
    r = agent.get('/plain', headers=sent)
    assert r.status == 200
    assert not {'upgrade', 'http2-settings', 'connection'} & {name for name, _ in json.loads(r.body)['headers']}
    assert agent.figures()['tunnels'] == 0


def _accepts(address):
    try:
        Client(address).close()
    except OSError:
        return False
    return True


def test_only_allowed_networks_are_served(world):
    agent = TinyAgent(world, top={'allow': ['10.0.0.0/8']}).wait_ready()
    with connect(agent.address) as silent:
        assert silent.recv(1) == b''          # closed without a response
    wait_until(lambda: agent.figures()['not_allowed'] == 1, 'the count')
    agent.config['allow'] = ['loopback']
    agent.top['allow'] = ['loopback']
    rewrite(agent)
    wait_until(lambda: responded(agent.address), 'the new file')
    with Client(agent.address) as kept:
        assert kept.request().status == 200
        agent.config['allow'] = ['10.0.0.0/8']
        rewrite(agent)
        wait_until(lambda: not responded(agent.address), 'the old networks')
        assert kept.request('GET', STREAM, headers=[('Resumelb-Feed', '1')]).status == 403
    assert not [line for line in agent.served() if STREAM in line]


def rewrite(agent):
    agent.path.write_text(''.join('%s: %s\n' % (k, json.dumps(v)) for k, v in agent.config.items()))
    agent.process.kill(signal.SIGHUP)


def responded(address):
    try:
        return get(address).status == 200
    except (OSError, CutShort):
        return False


def attached(world, address, name='agent', **settings):
    """An agent attached to a process that it has not started."""
    agent = TinyAgent(world, name=name)
    app = agent.config['applications']['app']
    agent.process.stop()
    for name in ('command', 'environment', 'ready_probe', 'min_processes', 'max_processes', 'root'):
        app.pop(name)
    app.update(attach=[address], **settings)
    agent.start()
    return agent.wait_ready()


def test_processes_of_another_program_are_measured_and_published(world):
    other = world.gunicorn('other')
    agent = attached(world, other.address, history=5)
    stream = agent.stream()
    for _ in range(5):
        assert json.loads(agent.get(headers=classified('a')).body)['port'] == 'other'
    line = stream.wait(lambda x: x['skills'])
    assert line['state'] == 'ready' and set(line['skills']) == {'a'}
    other.kill()
    wait_until(lambda: not _accepts(other.address), 'its socket to be gone')
    r = agent.get(method='POST', body=b'x')
    assert (r.status, r['Resumelb-Unprocessed']) == (503, '1')


def test_a_new_idle_timeout_applies_to_processes_of_another_program(world):
    ended = threading.Event()

    def script(c):
        if c.read_request():
            c.respond(b'hello')
        if not c.read_request():
            ended.set()
    agent = attached(world, world.scripted(script).address)
    assert agent.get().body == b'hello'
    agent.write_node({'idle_connection_timeout': '1s'})
    assert ended.wait(LIMIT)


@pytest.mark.parametrize('late, status', [
    (b'0\r\n\r\n', 502),
    (b'HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n', 408)], ids=['left-over bytes', '408'])
def test_stray_bytes_on_an_idle_connection_cost_a_get_nothing(world, late, status):
    def script(c):
        if c.read_request():
            c.write(b'HTTP/1.1 304 Not Modified\r\n\r\n')
        if c.read_request():
            c.write(late)
    process = world.scripted(script)
    agent = attached(world, process.address)
    assert agent.get('/first').status == 304
    assert agent.get('/order', method='POST', body=b'x').status == status       # not repeated
    assert agent.get('/second').status == agent.get('/again').status == 304
    assert agent.figures()['retries_fresh'] == 1
    assert [head.split()[1] for head, _ in process.requests] == [b'/first', b'/order', b'/second', b'/again', b'/again']


def test_an_idle_connection_that_the_process_closes_costs_a_get_nothing_and_a_post_once(world):
    """The process closes the connection when the next request arrives. It is unknown whether the process has read that request."""
    def script(c):
        if c.read_request():
            c.respond(b'hello')
        if c.read_request():
            c.reset()
    process = world.scripted(script)
    agent = attached(world, process.address)
    assert agent.get('/first').body == b'hello'
    r = agent.get('/order', method='POST', body=b'x')
    assert (r.status, r['Resumelb-Failed'], r['Resumelb-Unprocessed']) == (502, '1', None)
    line = agent.process.wait_logged('process-request-failed')[-1]
    assert 'response_begun=no repeatable=no connection=reused' in line
    assert agent.get('/second').body == agent.get('/again').body == b'hello'
    assert agent.figures()['retries_fresh'] == 1
    assert [head.split()[1] for head, _ in process.requests] == [b'/first', b'/order', b'/second', b'/again', b'/again']
    # on a new connection the request would not have failed: the next ones get one, and with this setting the first as well
    assert agent.get('/order', method='POST', body=b'x').body == b'hello'
    agent.process.stop()
    agent = attached(world, world.scripted(script).address)
    agent.write_node({'unsafe_reuse_idle': '0s'})
    wait_until(lambda: agent.figures()['settings_changes'] == 1, 'the setting')
    assert agent.get('/first').body == b'hello'
    assert agent.get('/order', method='POST', body=b'x').body == b'hello'
