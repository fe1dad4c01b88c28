# SPDX-License-Identifier: Apache-2.0
"""Resumes: measured by the load balancer or by the agent, and retained over restarts of the load balancer."""
import json
import subprocess
import time

import pytest
from agent_support import TinyAgent
from support.base import BIN, LIMIT, wait_until
from support.http import get
from support.scripted import serve
from upgrade_support import upgrade


def worker(world, name, slow=()):
    def respond(c, head, body):
        host = [line for line in head.split(b'\r\n') if line.lower().startswith(b'host:')][0][5:].strip().decode()
        failing = b'/fail' in head
        began = time.monotonic()
        time.sleep(0.1 if host in slow and not failing else 0.001)      # its service time
        s.served.setdefault(host, []).append(time.monotonic() - began)
        c.respond(name.encode(), '500 Oops' if failing else '200 OK')
    s = world.scripted(serve(respond))
    s.served = {}       # host: seconds of each request
    return s


def resumes(lb):
    return lb.json('/resumes.json')['applications']['default']


def test_scores_are_requests_per_second_of_service(world):
    w = worker(world, 'w', slow={'slow.example'})
    lb = world.resumelb({'workers': [w.address], 'history': 10})
    asked = {'slow.example': [], 'quick.example': []}
    for _ in range(10):
        for host, seconds in asked.items():
            began = time.monotonic()
            lb.get(host=host)
            seconds.append(time.monotonic() - began)
    scores = wait_until(lambda: set(resumes(lb).get(w.address, {})) == set(asked) and resumes(lb)[w.address], 'the resume')
    # The measured time is between the times of the worker and of the client: 1 and 100 ms, plus the delays of the machine.
    for host, seconds in asked.items():
        assert 1 / max(seconds) <= scores[host] <= 1 / min(w.served[host]), host


def test_errors_responded_fast_never_raise_a_score(world):
    w = worker(world, 'w', slow={'a.example'})
    lb = world.resumelb({'workers': [w.address], 'history': 5})
    for _ in range(10):
        lb.get(host='a.example')
    before = wait_until(lambda: resumes(lb)[w.address].get('a.example'), 'a score')
    for _ in range(40):
        assert lb.get('/fail', host='a.example').status == 500
    # The score is at most that of the successful requests.
    assert resumes(lb)[w.address]['a.example'] <= max(before, 1 / min(w.served['a.example'][:10]))


def test_skills_survive_a_kill_and_are_back_before_the_first_request(world):
    workers = [worker(world, 'w%d' % i) for i in range(3)]
    lb = world.resumelb({'workers': [w.address for w in workers], 'history': 20, 'state_dir': str(world.directory / 'state')})
    for _ in range(12):
        for site in range(9):
            lb.get(host='site%d' % site)
    sites = {'site%d' % s for s in range(9)}

    def on_disk():
        """The skills of each worker in the state files, which are written with a delay."""
        files = [p for p in (world.directory / 'state' / 'default').glob('*') if '.tmp.' not in p.name]
        return sorted((sorted(json.loads(p.read_text())['skills'].items()) for p in files))
    wait_until(lambda: {site for skills in on_disk() for site, _ in skills} == sites, 'all classes on disk')
    lb.kill()
    before = on_disk()
    lb.start()
    known = resumes(lb)
    assert sorted(sorted(skills.items()) for skills in known.values()) == before
    for site in sites:
        skilled = {'w%d' % i for i, w in enumerate(workers) if site in known.get(w.address, {})}
        assert lb.get(host=site).text in skilled
    picks = lb.app()['picks']
    assert picks['new'] == 0 and picks['warm'] == 9


def agent_resumes(agent):
    """The skills of each address, under the fingerprint used last."""
    return {row['address']: row['skills'] for row in json.loads(get(agent.admin, '/resumes.json', host=agent.admin).text)}


@pytest.mark.parametrize('by', ['load balancer', 'agent'])
def test_any_age_of_skills_counts_in_requests_and_0_keeps_only_the_last_class(world, by):
    ages = {'history': 4, 'max_skill_age': 0}
    if by == 'agent':
        agent = TinyAgent(world, **ages).wait_ready()
        lb = world.resumelb({'workers': [{'address': agent.address, 'resume': 'stream'}]})
        known = lambda: agent_resumes(agent).get(agent.address)
    else:
        lb = world.resumelb({'workers': [worker(world, 'w').address], **ages})
        known = lambda: list(resumes(lb).values())[0]
    for host in 'abcd':
        assert lb.get(host=host).status == 200
    wait_until(lambda: list(known() or ()) == ['d'], 'the resume')


def test_load_balancers_with_different_classifiers_have_each_the_skills_of_its_own(world):
    agent = TinyAgent(world, history=3).wait_ready()
    listed = {'workers': [{'address': agent.address, 'resume': 'stream'}], 'pool': {'policy': 'resume'}}
    by_host = world.resumelb(listed, name='by-host')
    by_path = world.resumelb({**listed, 'classifier': {'regex': {'variable': 'PATH_INFO', 'pattern': '^/(?P<class>[a-z]+)'}}},
                             name='by-path')

    def publish(lb, host, path, generation):
        for _ in range(3):
            assert lb.get(path, host=host).status == 200
        wait_until(lambda: generation in [m['generation'] for m in agent.slot()['meters']
                                          if m['requests'] == 3 * generation], 'the publication')

    def known(lb):
        return set(resumes(lb).get(agent.address, {}))

    for n in range(1, 4):
        publish(by_host, 'a.example', '/', n)
        publish(by_path, 'test.example', '/shop', n)
        # The classes of one load balancer do not replace those of the other.
        wait_until(lambda: (known(by_host), known(by_path)) == ({'a.example'}, {'shop'}), 'the resumes')
    meters = {m['fingerprint']: (m['requests'], m['skills']) for m in agent.slot()['meters']}
    assert sorted(meters.values()) == [(9, 1), (9, 1)]
    for lb, host, path in ((by_host, 'a.example', '/'), (by_path, 'test.example', '/shop')):
        before = lb.app()['picks']['skilled']
        assert lb.get(path, host=host).status == 200
        assert lb.app()['picks']['skilled'] == before + 1


def stop_and_start(lb):
    assert lb.process.stop() == 0
    lb.start()


def kill_and_start(lb):
    lb.kill()
    lb.start()


@pytest.mark.parametrize('restart', [stop_and_start, kill_and_start, upgrade])
@pytest.mark.parametrize('policy, reason', [('adaptive', 'home'), ('resume', 'skilled')])
def test_a_restarted_load_balancer_knows_where_classes_live_long_before_a_resume_is_published(world, restart, policy, reason):
    agent = TinyAgent(world, slots=4, history=9999).wait_ready()
    lb = world.resumelb({'applications': {'app': {'tree': 'directory:%s' % agent.tree, 'tree_path': '/app',
                                                  'pool': {'policy': policy}}}})
    sites = ['site%d.example' % i for i in range(24)]

    def ask(site):
        r = lb.get(host=site, headers=[('X-Delay', '0.01')])
        assert r.status == 200
        return json.loads(r.text)['pid']

    def all_there():
        return [w['state'] for w in lb.workers('app').values()] == ['ready'] * 4

    wait_until(all_there, 'the workers')
    for _ in range(6):
        before = {site: ask(site) for site in sites}
    assert len(set(before.values())) == 4
    picks = lb.app('app')['picks']
    assert sum(picks.values()) == 6 * len(sites)
    restart(lb)
    # It has received all known resumes before it starts to listen.
    after = {site: ask(site) for site in sites}
    picks = {why: n for why, n in lb.app('app')['picks'].items() if n}
    # The policy adaptive may still rebalance: a worker with long service times, on a busy machine, may lose a class to another one.
    rebalanced = picks.pop('rebalance', 0)
    assert picks == {reason: len(sites) - rebalanced} and rebalanced <= 2
    assert len([site for site in sites if after[site] != before[site]]) == rebalanced
    assert all_there() and {m['generation'] for n in range(4) for m in agent.slot(n)['meters']} == {0}


def test_a_torn_state_file_is_set_aside_and_reported(world):
    w = worker(world, 'w')
    config = {'workers': [w.address], 'history': 2, 'state_dir': str(world.directory / 'state')}
    lb = world.resumelb(config)
    for _ in range(4):
        lb.get(host='a')
    path = wait_until(lambda: [p for p in (world.directory / 'state').rglob('*')
                               if p.is_file() and '.tmp.' not in p.name and '"a"' in p.read_text()], 'the file')[0]
    lb.kill()
    path.write_text(path.read_text()[:-20])
    lb.start()
    assert lb.get(host='a').status == 200
    assert [p for p in (world.directory / 'state').rglob('*.bad')]
    lb.process.wait_logged('resume-file-renamed')


def test_a_second_process_on_the_same_state_rejects_to_start(world):
    w = worker(world, 'w')
    lb = world.resumelb({'workers': [w.address], 'state_dir': str(world.directory / 'state')})
    other = world.resumelb({'workers': [w.address], 'state_dir': str(world.directory / 'state')}, name='other', wait=False)
    assert other.process.wait() == 1
    other.process.wait_logged(str(world.directory / 'state'))
    assert lb.get().status == 200


def test_policy_classless_spreads_every_class(world):
    workers = [worker(world, 'w%d' % i) for i in range(4)]
    lb = world.resumelb({'workers': [w.address for w in workers], 'pool': {'policy': 'classless'}})
    assert len({lb.get(host='one.example').text for _ in range(8)}) == 4


def test_replay_tool_is_built_and_speaks(world):
    r = subprocess.run([BIN / 'resumelb-replay'], input='{"kind": "pool", "settings": {}}\n{"op": "get", "class": "a"}\n',
                       capture_output=True, text=True, timeout=LIMIT)
    assert r.returncode == 0 and r.stdout.splitlines()[0].replace(' ', '') == '{"ok":true}'
    assert '"pick":null' in r.stdout.replace(' ', '')
