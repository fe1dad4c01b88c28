# SPDX-License-Identifier: Apache-2.0
"""The life cycle of the agent: its crash and restart, its clean shutdown, its files, its settings."""
import fcntl
import itertools
import json
import os
import signal
import threading
import time

import pytest

from agent_support import STREAM, Background, TinyAgent, alive
from support.base import BIN, PACE, Process, freeze, wait_until
from support.http import Client, CutShort, get

FINGERPRINT = '0123456789abcdef'
HELD_S = 5.0


def classified(name, fingerprint=FINGERPRINT):
    return [('Resumelb-Class', name), ('Resumelb-Classifier', fingerprint)]


# ---- death and adoption ----

def test_the_next_agent_takes_the_processes_over(world):
    agent = TinyAgent(world, slots=2).wait_ready()
    pids = [agent.pid(n) for n in range(2)]
    instances = [agent.slot(n)['instance'] for n in range(2)]
    agent.process.kill()
    agent.process.wait()
    agent.start()
    agent.wait_ready()
    assert [agent.pid(n) for n in range(2)] == pids
    assert [agent.slot(n)['instance'] for n in range(2)] == instances
    assert agent.figures()['adopted'] == 2 and agent.figures()['spawns'] == 0
    for n in range(2):
        assert json.loads(agent.get(n=n).body)['pid'] == pids[n]
    # and it is notified of their exits, like those of processes that it has started
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: agent.figures()['deaths'] == 1, 'the death of an adopted process')
    agent.wait_ready()
    assert agent.get().status == 200
    agent.process.stop()
    assert not [p for p in pids if alive(p)]


def test_an_adopted_process_keeps_what_it_wrote_since(world):
    flag = world.directory / 'late'
    agent = TinyAgent(world).wait_ready()
    agent.process.kill()
    agent.process.wait()
    agent.start()
    agent.wait_ready()
    assert agent.get(headers=[('X-Until', '/'), ('X-Die', '1')]).status == 502
    wait_until(lambda: 'how="exit 7"' in agent.process.output(), 'its death in the successor\'s log')
    assert not flag.exists()


def test_a_process_that_died_without_an_agent_is_started_again(world):
    agent = TinyAgent(world).wait_ready()
    pid = agent.pid()
    supervisor = agent.json()['supervisor_pid']
    agent.process.kill()
    agent.process.wait()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(pid), 'the supervisor to reap it')
    agent.start()
    agent.wait_ready()
    assert agent.pid() != pid
    assert agent.json()['supervisor_pid'] == supervisor


def test_a_process_of_another_command_is_not_taken_over(world):
    agent = TinyAgent(world).wait_ready()
    pid = agent.pid()
    agent.process.kill()
    agent.process.wait()
    agent.config['applications']['app']['environment']['NEW'] = '1'
    agent.start()
    agent.wait_ready()
    assert agent.pid() != pid
    wait_until(lambda: not alive(pid), 'the old process to end')
    assert json.loads(agent.get().body)['env']['NEW'] == '1'


def test_without_a_replacement_all_processes_end(world):
    agent = TinyAgent(world, slots=2, top={'adopt_timeout': '200ms'}).wait_ready()
    pids = [agent.pid(n) for n in range(2)]
    supervisor = agent.json()['supervisor_pid']
    agent.process.kill()
    agent.process.wait()
    wait_until(lambda: not [p for p in [*pids, supervisor] if alive(p)], 'processes and supervisor to end')


def test_sigterm_ends_a_supervisor_that_has_just_lost_its_agent(world):
    agent = TinyAgent(world, slots=2, top={'adopt_timeout': '10m'}).wait_ready()
    pids = [agent.pid(n) for n in range(2)]
    supervisor = agent.json()['supervisor_pid']
    freeze(supervisor)    # so that it finds both at once
    agent.process.kill()
    agent.process.wait()
    os.kill(supervisor, signal.SIGTERM)
    os.kill(supervisor, signal.SIGCONT)
    wait_until(lambda: not [p for p in [*pids, supervisor] if alive(p)], 'processes and supervisor to end')


def test_when_the_supervisor_dies_so_do_processes_and_agent(world):
    agent = TinyAgent(world, slots=2).wait_ready()
    pids = [agent.pid(n) for n in range(2)]
    os.kill(agent.json()['supervisor_pid'], signal.SIGKILL)
    assert agent.process.wait() == 1
    wait_until(lambda: not [p for p in pids if alive(p)], 'processes to end')
    agent.start()
    agent.wait_ready()
    assert agent.get().status == 200


def test_one_agent_per_state_dir(world):
    agent = TinyAgent(world).wait_ready()
    second = Process([BIN / 'resumelb-agent', '-c', agent.path], 'second', world.directory)
    assert second.wait() == 1
    second.wait_logged('state-dir-lock-failed')
    assert agent.get().status == 200


# ---- the orderly end ----

def test_sigterm_finishes_what_runs_and_waits(world):
    agent = TinyAgent(world).wait_ready()
    stream = agent.stream()
    pid = agent.pid()
    go = world.directory / 'go'
    requests = [Background(agent.address, 'POST', '/%d' % i, [('X-Until', str(go))], b'x') for i in range(3)]
    wait_until(lambda: agent.slot()['waiting'] == 2, 'two to wait')
    agent.process.popen.terminate()
    stream.wait(lambda x: x.get('state') == 'draining')
    go.write_text('')
    assert [r.result().status for r in requests] == [200, 200, 200]
    assert agent.process.wait() == 0
    wait_until(lambda: stream.ended, 'the stream to end')
    assert stream.last() == {'end': 'stop'}
    assert agent.provider() is None
    assert not alive(pid)


def test_sigterm_under_load_loses_no_request(world):
    agent = TinyAgent(world, slots=2).wait_ready()
    stop = threading.Event()
    outcomes, lost, unheard = [], [], []

    def load(k):
        for i in itertools.count():
            if stop.wait(PACE):
                return
            try:
                c = Client(agent.addresses[k % 2])
            except OSError:
                outcomes.append('rejected')
                return
            with c:
                target = '/%d-%d' % (k, i)
                try:
                    c.send('POST', target, body=b'y' * 100)
                    responded = c._more()
                except (ConnectionResetError, BrokenPipeError):
                    responded = False
                if not responded:
                    unheard.append(target)
                    return
                try:
                    r = c.receive()
                except OSError as e:
                    lost.append(repr(e))
                    return
                outcomes.append((r.status, r['Resumelb-Unprocessed']))
                if r.status == 503:
                    return

    threads = [threading.Thread(target=load, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    wait_until(lambda: len(outcomes) > 200, 'load')
    agent.process.popen.terminate()
    assert agent.process.wait() == 0
    stop.set()
    for t in threads:
        t.join()
    assert not lost
    assert set(outcomes) <= {(200, None), (503, '1'), 'rejected'}
    # A connection that is in the queue of the socket when that closes is reset, and one that is idle is closed, whether or
    # not a request is in flight on it. No process has received such a request.
    assert not [line for line in agent.served() if line.split()[1] in unheard]
    assert outcomes.count((200, None)) == len([s for s in agent.served() if s.startswith('done')])


def test_the_drain_is_bounded(world):
    agent = TinyAgent(world, top={'drain_timeout': '200ms'}).wait_ready()
    pid = agent.pid()
    held = Background(agent.address, headers=[('X-Until', '/nonexistent')])
    wait_until(lambda: agent.slot()['running'] == 1, 'it to run')
    agent.process.popen.terminate()
    assert agent.process.wait() == 0
    with pytest.raises((OSError, CutShort)):
        if held.result().status != 200:
            raise OSError
    assert not alive(pid)


def test_a_process_that_ignores_sigterm_is_killed(world):
    agent = TinyAgent(world, stop_timeout='100ms')
    script = world.directory / 'tinyserver.py'
    script.write_text('import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n' + script.read_text())
    agent.process.stop()
    agent.start()
    agent.wait_ready()
    pid = agent.pid()
    agent.process.popen.terminate()
    assert agent.process.wait() == 0
    assert not alive(pid)


def test_sigint_stops_at_once(world):
    agent = TinyAgent(world).wait_ready()
    pid = agent.pid()
    held = Background(agent.address, headers=[('X-Until', '/nonexistent')])
    wait_until(lambda: agent.slot()['running'] == 1, 'it to run')
    agent.process.kill(signal.SIGINT)
    assert agent.process.wait() == 0
    with pytest.raises((OSError, CutShort)):
        if held.result().status != 200:
            raise OSError
    assert not alive(pid)


# ---- resumes ----

def resume_file(agent, n=0):
    return agent.state_dir / 'app' / ('slot-%d.json' % n)


def test_the_resume_is_made_of_what_was_served_sent_and_kept(world):
    agent = TinyAgent(world, history=4).wait_ready()
    stream = agent.stream()
    assert stream.headers and ('content-type', 'application/x-resumelb-resume+jsonl') in [
        (k.lower(), v) for k, v in stream.headers]
    asked = {'slow': [], 'fast': []}
    for name, delay in (('slow', '0.05'), ('fast', '0'), ('slow', '0.05'), ('fast', '0')):
        began = time.monotonic()
        assert agent.get(headers=[*classified(name), ('X-Delay', delay)]).status == 200
        asked[name].append(time.monotonic() - began)
    line = stream.wait(lambda x: x['skills'])
    assert set(line['skills']) == {'slow', 'fast'}
    # Requests per second of service time, which is between the delay in the process and the time measured by the client.
    assert 1 / max(asked['slow']) <= line['skills']['slow'] <= 20 * 1.001
    assert 1 / max(asked['fast']) <= line['skills']['fast']
    assert (line['v'], line['application'], line['state'], line['fingerprint'], line['generation']) == (
        1, 'app', 'ready', FINGERPRINT, 1)
    wait_until(resume_file(agent).exists, 'the file')
    agent.process.stop()
    agent.start()
    agent.wait_ready()
    assert agent.stream().wait(lambda x: x['skills'])['skills'] == line['skills']


def test_a_new_stream_begins_with_all_that_is_measured_and_publications_stay_when_they_were(world):
    agent = TinyAgent(world, history=4).wait_ready()
    early = agent.stream()
    names = 'abacddde'
    for served, name in enumerate(names, 1):
        assert agent.get(headers=classified(name)).status == 200
        wait_until(lambda: agent.slot()['meters'] and agent.slot()['meters'][0]['requests'] == served, 'it to be counted')
        line = agent.stream().wait(lambda x: True)
        assert (sorted(line['skills']), line['generation']) == (sorted(set(names[:served])), served // 4)
        of_the_moment, = json.loads(get(agent.admin, '/resumes.json', host=agent.admin).text)
        assert of_the_moment['skills'] == line['skills']
    early.wait(lambda x: x['generation'] == 2)
    assert [(x['generation'], sorted(x['skills'])) for x in early.lines] == [(0, []), (1, ['a', 'b', 'c']), (2, list('abcde'))]


def test_waiting_is_not_service(world):
    agent = TinyAgent(world, history=3).wait_ready()
    stream = agent.stream()
    go = world.directory / 'go'
    first = Background(agent.address, headers=[*classified('first'), ('X-Until', str(go))])
    wait_until(lambda: agent.slot()['running'] == 1, 'the first to run')
    waiting = [Background(agent.address, headers=classified('second')) for _ in range(2)]
    wait_until(lambda: agent.slot()['waiting'] == 2, 'two to wait')
    # much longer than two requests take
    since = time.monotonic()
    wait_until(lambda: time.monotonic() - since > HELD_S, 'them to have waited')
    go.write_text('')
    for r in [first, *waiting]:
        assert r.result().status == 200
    skills = stream.wait(lambda x: x['skills'])['skills']
    assert skills['first'] < 1 / HELD_S < skills['second'], skills


def test_each_fingerprint_has_its_own_scores(world):
    agent = TinyAgent(world, history=2).wait_ready()
    other = 'fedcba9876543210'
    for _ in range(2):
        agent.get(headers=classified('a'))
    for _ in range(2):
        agent.get(headers=classified('b', other))
    mine = agent.stream(headers=[('Resumelb-Classifier', FINGERPRINT)])
    assert set(mine.wait(lambda x: True)['skills']) == {'a'}
    latest = agent.stream()
    line = latest.wait(lambda x: True)
    assert (line['fingerprint'], set(line['skills'])) == (other, {'b'})
    agent.process.stop()
    agent.start()
    agent.wait_ready()
    assert agent.stream().wait(lambda x: True)['fingerprint'] == other
    again = agent.stream(headers=[('Resumelb-Classifier', FINGERPRINT)]).wait(lambda x: True)
    assert (again['fingerprint'], set(again['skills'])) == (FINGERPRINT, {'a'})


def test_errors_do_not_raise_a_score(world):
    agent = TinyAgent(world, history=2).wait_ready()
    stream = agent.stream()
    agent.get(headers=[*classified('a'), ('X-Delay', '0.1')])
    agent.get(headers=[*classified('a'), ('X-Status', '500 Oops')])
    skills = stream.wait(lambda x: x['generation'] == 1)['skills']
    assert skills['a'] < 11


@pytest.mark.parametrize('content', ['', '{"v":1,', 'not json\n', '{"v":1,"skills":{"a":-1}}\n', '\x00\xff' * 1000,
                                     '{"end":"stop"}\n'])
def test_a_corrupt_resume_file_is_kept_aside(world, content):
    agent = TinyAgent(world, history=1).wait_ready()
    agent.get(headers=classified('a'))
    wait_until(resume_file(agent).exists, 'the file')
    agent.process.stop()
    resume_file(agent).write_text(content)
    agent.start()
    agent.wait_ready()
    agent.process.wait_logged('resume-file-invalid')
    assert (agent.state_dir / 'app' / 'slot-0.json.bad').read_text() == content
    assert agent.stream().wait(lambda x: True)['skills'] == {}
    assert agent.figures()['resume_file_errors'] == 1
    # and it continues to work
    agent.get(headers=classified('b'))
    wait_until(resume_file(agent).exists, 'a new file')


def test_skills_that_are_not_persistent_go_with_the_process(world):
    agent = TinyAgent(world, history=1, persistent=False).wait_ready()
    stream = agent.stream()
    agent.get(headers=classified('a'))
    stream.wait(lambda x: x['skills'])
    instance = stream.last()['instance']
    os.kill(agent.pid(), signal.SIGKILL)
    line = stream.wait(lambda x: x['instance'] != instance and x['state'] == 'ready')
    assert line['skills'] == {}
    assert not resume_file(agent).exists()


def test_persistent_skills_survive_the_process(world):
    agent = TinyAgent(world, history=1).wait_ready()
    stream = agent.stream()
    agent.get(headers=classified('a'))
    before = stream.wait(lambda x: x['skills'])
    os.kill(agent.pid(), signal.SIGKILL)
    after = stream.wait(lambda x: x['instance'] != before['instance'] and x['state'] == 'ready')
    assert after['skills'] == before['skills']


def test_a_stream_is_for_load_balancers_and_kept_alive(world):
    agent = TinyAgent(world).wait_ready()
    assert agent.get(STREAM).status == 404
    assert agent.get(STREAM, headers=[('Resumelb-Feed', '2')]).status == 404
    assert agent.get(STREAM, method='POST', headers=[('Resumelb-Feed', '1')]).status == 404
    assert agent.served() == []
    stream = agent.stream()
    wait_until(lambda: stream.keep_alives >= 1, 'an empty line')
    assert agent.slot()['streams'] == 1
    stream.close()
    wait_until(lambda: agent.slot()['streams'] == 0, 'the stream to be closed')


# ---- registration ----

def test_slots_are_registered_while_the_agent_runs(world):
    agent = TinyAgent(world, version='1.4', description='a shop', history=1).wait_ready()
    wait_until(lambda: (agent.provider() or {}).get('state') == 'ready', 'the registration')
    p = agent.provider()
    assert (p['application'], p['version'], p['description']) == ('app', '1.4', 'a shop')
    assert p['pid'] == agent.pid() and p['instance'] == agent.slot()['instance']
    assert p['admin'] and 'classifier_fingerprint' not in p
    agent.get(headers=classified('a'))
    wait_until(lambda: agent.provider().get('classifier_fingerprint') == FINGERPRINT, 'what its skills are of')
    path = agent.tree / 'app' / 'workers' / 'providers' / agent.address
    with open(path, 'r+') as f:
        with pytest.raises(OSError):
            fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    agent.process.kill()
    agent.process.wait()
    with open(path, 'r+') as f:
        fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)


# ---- settings ----

def setting(agent, name):
    return agent.app()['settings'][name]


def test_live_settings_come_from_the_tree(world):
    agent = TinyAgent(world, history=100).wait_ready()
    agent.write_node({'history': 2, 'concurrency': '3', 'strange': 1})
    wait_until(lambda: setting(agent, 'history') == {'value': '2', 'origin': 'tree'}, 'the setting')
    assert setting(agent, 'concurrency')['value'] == '3'
    wait_until(lambda: agent.process.output().count('setting-unknown') == 1, 'setting-unknown')
    stream = agent.stream()
    for _ in range(2):
        agent.get(headers=classified('a'))
    stream.wait(lambda x: x['skills'])
    agent.write_node({})
    wait_until(lambda: setting(agent, 'history') == {'value': '100', 'origin': 'yaml'}, 'the file\'s value')
    assert setting(agent, 'concurrency') == {'value': '1', 'origin': 'default'}


def test_a_bad_or_local_setting_in_the_tree_is_rejected_alone(world):
    agent = TinyAgent(world, history=100).wait_ready()
    agent.write_node({'history': 7, 'max_queue': 5})
    wait_until(lambda: setting(agent, 'history')['value'] == '7', 'the setting')
    agent.write_node({'history': -1, 'max_queue': 6, 'command': '/bin/evil', 'user': 'root', 'address': '0.0.0.0:1'})
    wait_until(lambda: setting(agent, 'max_queue')['value'] == '6', 'the good one')
    assert setting(agent, 'history')['value'] == '7' and 'rejected' in setting(agent, 'history')
    for name in ('command', 'user', 'address'):
        assert setting(agent, name)['origin'] != 'tree' and 'rejected' in setting(agent, name)
    assert agent.figures()['settings_rejected'] == 4


def test_a_check_across_fields_rejects_all_that_changed(world):
    agent = TinyAgent(world, respawn_delay='100ms').wait_ready()
    agent.write_node({'respawn_delay_max': '50ms', 'max_queue': 5})
    wait_until(lambda: 'rejected' in setting(agent, 'respawn_delay_max'), 'the rejection')
    assert setting(agent, 'max_queue')['value'] == '100'


def test_a_node_that_breaks_keeps_what_it_reported_for_a_while(world):
    agent = TinyAgent(world, history=100).wait_ready()
    agent.change(history='7')
    agent.write_node('{"history": 8')
    wait_until(lambda: agent.app()['held'], 'it to be held')
    assert setting(agent, 'history')['value'] == '7'
    # and only for a short time
    agent.write_node({'history': 7})
    wait_until(lambda: not agent.app()['held'], 'it to be mended')
    agent.config['settings_hold'] = '1ms'
    rewrite(agent)
    wait_until(lambda: 'config-reloaded' in agent.process.output(), 'the new file')
    agent.write_node('{"history": 8')
    wait_until(lambda: setting(agent, 'history')['value'] == '100', 'the hold to be over')


def rewrite(agent):
    agent.path.write_text(''.join('%s: %s\n' % (k, json.dumps(v)) for k, v in agent.config.items()))
    agent.process.kill(signal.SIGHUP)


def test_sighup_reads_the_file_whole_or_not_at_all(world):
    agent = TinyAgent(world, history=100).wait_ready()
    pid = agent.pid()
    app = agent.config['applications']['app']
    app.update(history=50, max_queue=-1)
    rewrite(agent)
    wait_until(lambda: 'config-reload-failed' in agent.process.output(), 'the rejection')
    assert setting(agent, 'history')['value'] == '100'
    app.update(history=50, max_queue=7)
    rewrite(agent)
    wait_until(lambda: setting(agent, 'history')['value'] == '50', 'the new file')
    assert setting(agent, 'max_queue')['value'] == '7'
    assert agent.pid() == pid and agent.get().status == 200
    # no setting of the old file is effective any more
    app.update(history=1, ready_probe='/probe?again', version='2')
    rewrite(agent)
    wait_until(lambda: setting(agent, 'history')['value'] == '1', 'the third file')
    agent.get(headers=classified('a'))
    wait_until(resume_file(agent).exists, 'the resume')
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: agent.stream().wait(lambda x: True)['version'] == '2', 'the new version of the next process')
    agent.wait_ready()


def test_every_mistake_in_the_file_is_reported_with_its_place(world):
    path = world.directory / 'bad.yaml'
    path.write_text('\n'.join([
        'state_dir: relative', 'allow: [10.0.0.1/8, nonsense]', 'max_processes: 1', 'colour: red',
        'admin: {address: 10.0.0.1:80}',
        'applications:', '  shop:', '    command: gunicorn shop.wsgi', '    address: 0.0.0.0:9000+',
        '    min_processes: 2', '  "no/name":', '    address: 127.0.0.1:9000', '    min_processes: 3',
        '    command: ["a", "{port}", "{socket}"]', '    environment: {LISTEN_FDS: "2", "a b": c}', '']))
    p = Process([BIN / 'resumelb-agent', '-t', '-c', path], 'test', world.directory)
    assert p.wait() == 1
    out = p.output()
    for place, text in [('1:12', 'absolute'), ('2:8', '10.0.0.1/8'), ('2:8', 'nonsense'), ('4:1', 'colour'),
                        ('5:18', 'token'), ('8:14', 'list'), ('9:14', 'could not connect'), ('11:3', 'name'),
                        ('12:14', 'several slots'), ('14:14', 'both'), ('15:19', 'that the agent sets'), ('15:36', 'variable')]:
        assert any(line.startswith('%s:%s:' % (path, place)) and text in line for line in out.splitlines()), (
            place, text, out)


def test_metrics_and_health(world):
    agent = TinyAgent(world).wait_ready()
    agent.get()
    text = get(agent.admin, '/metrics', host=agent.admin).text
    assert 'resumelb_agent_requests_total{application="app"} 1' in text
    assert 'resumelb_agent_service_seconds_count{application="app"} 1' in text
    assert get(agent.admin, '/healthz', host=agent.admin).status == 200
    os.kill(agent.pid(), signal.SIGKILL)
    wait_until(lambda: agent.figures()['deaths'] == 1 and agent.ready(), 'it to be ready again')
