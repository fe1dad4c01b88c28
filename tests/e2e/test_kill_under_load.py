# SPDX-License-Identifier: Apache-2.0
"""
Processes are killed under load, one after the other; no GET fails while another worker is running. The application processes are
gunicorns.
"""
import json
import os
import signal

from agent_support import TinyAgent, alive
from load_support import Load
from support.base import wait_until
from support.http import Client, get
from support.servers import Agent

# The soak run has more rounds.
ROUNDS = int(os.environ.get('RLB_SOAK_ROUNDS', '1'))


def parent_of(pid):
    return int(open('/proc/%d/stat' % pid).read().rpartition(')')[2].split()[1])


def pids(lb, sites=12):
    """{site: pid of the application process that serves it}."""
    return {s: json.loads(lb.get(host='site%d.example' % s).body)['pid'] for s in range(sites)}


def all_ready(lb, n):
    return lambda: len([w for w in lb.workers('app').values() if w['state'] == 'ready']) == n


def start(world, kind=TinyAgent):
    tree = world.directory / 'tree'
    agents = [kind(world, name='agent%d' % i, slots=2, **({'tree': tree} if kind is Agent else {})) for i in range(2)]
    lb = world.resumelb({'applications': {'app': {'tree': 'directory:%s' % (tree / 'app')}},
                         'state_dir': str(world.directory / 'lb-state')}, wait=False)
    wait_until(lb.listening, 'the load balancer')
    wait_until(all_ready(lb, 4), 'four workers')
    return agents, lb


def test_no_get_fails_while_another_worker_lives(world):
    agents, lb = start(world, Agent)
    load = Load([lb.address], clients=6, sites=12)
    load.go_on(30)
    for turn in range(ROUNDS):
        # application processes, one after the other
        for i in range(4):
            victim = json.loads(lb.get(host='site%d.example' % (turn % 12)).body)['pid']
            # kill gunicorn's worker, or its master, which is the process that the agent started
            os.kill(victim if i % 2 == 0 else parent_of(victim), signal.SIGKILL)
            load.go_on(20)
        wait_until(all_ready(lb, 4), 'all workers again')
        # kill an agent; the next agent adopts its processes
        agents[turn % 2].kill()
        load.go_on(30)
        agents[turn % 2].start()
        wait_until(all_ready(lb, 4), 'all workers again')
        load.go_on(30)
    # the clean shutdown of an agent
    agents[1].process.popen.terminate()
    assert agents[1].process.wait() == 0
    load.go_on(30)
    load.stop()
    wait_until(lambda: lb.app('app')['stats']['requests'] >= load.done, 'the count')


def test_after_its_own_death_the_skills_are_back_before_the_first_request(world):
    agents, lb = start(world)
    with Load([lb.address], clients=6, sites=12) as load:
        load.go_on(60)
    known = lb.json('/resumes.json')['applications']['app']
    lb.kill()
    lb.start(wait=False)
    wait_until(lb.listening, 'the load balancer')
    wait_until(all_ready(lb, len(known)), 'the workers')
    for s in range(12):
        site = 'site%d.example' % s
        told = json.loads(get(lb.admin, '/explain?application=app&class=' + site, host=lb.admin).text)
        # The class must be served by its previous worker, which has a score for it.
        scores = {w: skills[site] for w, skills in lb.json('/resumes.json')['applications']['app'].items() if site in skills}
        assert told['reason'] == 'home' and told['worker'] in scores, (told, scores)
    pids(lb)
    picks = lb.app('app')['picks']
    assert picks['new'] == 0 and picks['home'] >= 12


def order_all(world, lb, go):
    """Sends eight POSTs to the only worker: one is executed until the file GO exists, the others wait. Returns their clients."""
    clients = []
    for i in range(8):
        c = Client(lb.address)
        c.send('POST', body=b'order', headers=[('X-Once', 'order-%d' % i), ('X-Until', str(go))])
        clients.append(c)
    log = world.directory / 'executed.log'
    wait_until(lambda: log.exists() and log.read_text().count('\n') >= 1, 'the first to be executed')
    wait_until(lambda: lb.app('app')['backlog'] == 8, 'all to be handed on')
    assert log.read_text().count('\n') == 1
    return clients


def statuses_of(clients):
    statuses = []
    for c in clients:
        statuses.append(c.receive().status)
        c.close()
    return statuses


def check_orders(world, statuses):
    """Checks that failed POSTs are not executed, except the one that was in progress, and that none is executed twice."""
    executed = (world.directory / 'executed.log').read_text().split()
    assert len(executed) == len(set(executed)), 'never twice: %s' % executed
    responded = {'order-%d' % i for i, s in enumerate(statuses) if s == 200}
    given_up = {'order-%d' % i for i, s in enumerate(statuses) if s in (502, 503)}
    assert len(responded) + len(given_up) == 8, statuses
    assert responded <= set(executed)
    assert given_up & set(executed) == {executed[0]}, (statuses, executed)


def test_posts_that_wait_for_a_process_that_is_killed_are_not_executed_by_its_replacement(world):
    tree = world.directory / 'tree'
    agent = world.agent('agent', tree, slots=1)
    lb = world.resumelb({'applications': {'app': {'tree': 'directory:%s' % (tree / 'app'), 'worker_wait_timeout': '300ms'}}}, wait=False)
    wait_until(lb.listening, 'the load balancer')
    wait_until(all_ready(lb, 1), 'the worker')
    # gunicorn's master: all its processes are ended with it
    process = lambda: agent.json()['applications']['app']['slots'][0].get('process') or {'pid': None}
    victim, pid = process()['pid'], json.loads(lb.get().body)['pid']
    go = world.directory / 'go'
    clients = order_all(world, lb, go)
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not alive(pid), 'the one that executes to be gone')
    go.write_text('')
    statuses = statuses_of(clients)
    # the new process is running: the requests that it executes have not failed
    wait_until(lambda: process()['pid'] not in (None, victim), 'the successor')
    wait_until(all_ready(lb, 1), 'the successor')
    assert json.loads(lb.get().body)['pid'] != pid
    wait_until(lambda: lb.app('app')['backlog'] == 0, 'everything to be over')
    check_orders(world, statuses)


def test_posts_that_wait_for_a_worker_without_agent_are_not_executed_by_its_replacement(world):
    """They wait in the load balancer (max_connections 1): those not sent yet may be sent to the next process, once."""
    worker = world.gunicorn(extra=['--keep-alive=5', '--worker-class=gthread', '--threads=1'],
                            env={'APP_LOG': str(world.directory / 'executed.log')})
    lb = world.resumelb({'applications': {'app': {
        'hosts': ['test.example'], 'workers': [{'address': worker.address}], 'resume': 'measure',
        'max_connections': 1}}})
    go = world.directory / 'go'
    clients = order_all(world, lb, go)
    worker.kill()
    go.write_text('')
    worker.start()
    statuses = statuses_of(clients)
    wait_until(lambda: lb.app('app')['backlog'] == 0, 'everything to be over')
    assert lb.get().status == 200
    check_orders(world, statuses)


def test_the_whole_way_is_learned(world):
    """Class → worker → resume: the measurements of the agent are in the resumes of the load balancer."""
    agents, lb = start(world)
    for _ in range(8):
        for s in range(12):
            assert lb.get(host='site%d.example' % s).status == 200
    where = pids(lb)
    assert len(set(where.values())) == 4
    resumes = lambda: lb.json('/resumes.json')['applications']['app']

    def all_known():
        # A resume is published after a number of requests; the number that each worker has had so far is random.
        pids(lb)
        return len({c for skills in resumes().values() for c in skills}) == 12
    wait_until(all_known, 'all classes in resumes')
    assert where == pids(lb), 'each class stays with its worker'
    status = agents[0].json()
    assert status['applications']['app']['slots'] if isinstance(status['applications'], dict) else status
    r = get(agents[0].addresses[0], '/.well-known/resumelb/resume', host='x')
    assert r.status == 404, 'the stream requires the request header of a load balancer'
