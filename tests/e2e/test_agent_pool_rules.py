# SPDX-License-Identifier: Apache-2.0
"""
The rules of the agent's pool: current code for each request, fair shares, enforced limits. The first and the last are tested
with real gunicorns, the others with the tiny server, as each test starts some dozens of processes.
"""
import collections
import json

import pytest

from agent_support import Background
from support.base import free_port, wait_until
from support.http import get
from test_agent_pool import add_application, processes_of, restart
from test_agent_restart import MARKED, MarkedAgent, load_of


def write_version(agent, version):
    """Writes the code of the program with a version, which its responses contain."""
    agent.program.write_text('import os\nos.environ["APP_NAME"] = "%s"\n' % version + agent.code)


def respond(response):
    assert response.status == 200, (response.status, response.text)
    return json.loads(response.body)


@pytest.mark.parametrize('slots', [pytest.param(1, marks=pytest.mark.soak), 2])
def test_with_always_restart_each_request_is_served_by_the_newest_code(world, slots):
    agent = MarkedAgent(world, slots=slots, gunicorn=slots == 1, top={'max_processes': slots}).wait_ready()
    for n in range(2 * slots):
        respond(agent.get(n=n % slots))
    write_version(agent, 'first')
    (agent.tmp / 'always_restart.txt').touch()
    wait_until(lambda: 'application-one-request-per-process' in agent.process.output(), 'the file to be seen')
    seen = []
    for i in range(3 * slots):
        write_version(agent, 'version %d' % i)
        seen.append(respond(agent.get(n=i % slots)))
    assert [a.get('port') or a['env']['APP_NAME'] for a in seen] == ['version %d' % i for i in range(3 * slots)]
    # All concurrent requests are served.
    together = [Background(agent.addresses[i % slots], 'GET', '/together') for i in range(6)]
    assert {r.result().status for r in together} == {200}
    assert len({json.loads(r.result().body)['pid'] for r in together}) == len(together)
    figures = agent.figures()
    assert figures['queue_timeouts'] == 0 and figures['failures'] == 0
    assert get(agent.admin, '/readyz', host=agent.admin).status == 200


class FrontAgent(MarkedAgent):
    """An agent with an application that also has its own listening address."""

    def __init__(self, world, **settings):
        self.front = '127.0.0.1:%d' % free_port()
        super().__init__(world, listen=[self.front], **settings)


def test_an_application_without_a_process_is_served_in_the_order_of_asking(world):
    agent = FrontAgent(world, min_processes=0, max_processes=1, top={'max_processes': 1})
    other = add_application(agent, 'other', max_processes=1)
    restart(agent)
    paths = lambda: [row[1] for row in agent.seen() if row[1] != '/']
    waiting = lambda name: agent.json()['applications'][name]['figures']['requests_waiting']
    go = world.directory / 'go'
    first = Background(agent.front, target='/first', headers=[('X-Until', str(go))])
    wait_until(lambda: agent.seen_path.exists() and '/first' in paths(), 'the first to run')
    second = Background(agent.front, target='/second')
    wait_until(lambda: waiting('app') == 1, 'the second to wait')
    third = Background(other, target='/third')
    wait_until(lambda: waiting('other') == 1, 'the third to wait')
    later = [Background(agent.front, target='/later') for _ in range(5)]
    wait_until(lambda: waiting('app') == 6, 'the later ones to wait')
    go.write_text('')
    assert {r.result().status for r in [first, second, third, *later]} == {200}
    assert paths() == ['/first', '/second', '/third'] + ['/later'] * 5


def test_a_third_application_is_served_while_two_keep_the_processes_busy(world):
    agent = FrontAgent(world, min_processes=0, max_processes=1, top={'max_processes': 2})
    fronts = [agent.front] + [add_application(agent, 'app%d' % i, max_processes=1) for i in range(2)]
    restart(agent)
    with load_of(fronts[:2], clients=3) as load:
        load.go_on(10)
        for _ in range(5):
            assert get(fronts[2], '/third').status == 200


def test_under_light_load_the_processes_that_are_too_many_idle_and_end(world):
    agent = FrontAgent(world, slots=3, min_processes=1)
    agent.wait_ready()
    together = [Background(agent.addresses[n], 'GET', '/together') for n in range(3)]
    assert {r.result().status for r in together} == {200}
    assert processes_of(agent, 'app') == 3
    agent.change(max_idle_time='3s')
    pids = set()

    def one_is_left():
        pids.add(respond(get(agent.front, '/light'))['pid'])
        return processes_of(agent, 'app') == 1

    wait_until(one_is_left, 'the others to end')
    assert len(pids) == 1


def test_in_a_burst_no_process_gets_more_than_max_requests(world):
    agent = FrontAgent(world, slots=2, max_requests=5).wait_ready()
    burst = [Background(agent.addresses[0] if i % 2 else agent.front, 'GET', '/burst') for i in range(40)]
    assert {r.result().status for r in burst} == {200}
    counts = collections.Counter(row[0] for row in agent.seen() if row[1] == '/burst')
    assert sum(counts.values()) == 40 and max(counts.values()) <= 5, counts


# Makes the whole gunicorn exit with status 0 when its worker has served some requests.
LIMITED = '''
import signal
counted = application
def application(environ, start_response):
    if environ["PATH_INFO"] == "/counted" and served >= 3:
        os.kill(os.getppid(), signal.SIGTERM)
    return counted(environ, start_response)
'''


def test_a_server_that_exits_after_its_own_number_of_requests_is_followed_at_once(world):
    agent = MarkedAgent(world, gunicorn=True, respawn_delay='10m', respawn_delay_max='10m')
    agent.wait_ready()
    agent.process.stop()
    agent.program.write_text(MARKED + LIMITED)
    agent.start()
    agent.wait_ready()
    pids = set()

    def several_have_served():
        r = agent.get('/counted')
        if r.status == 200:
            pids.add(json.loads(r.body)['pid'])
        return len(pids) >= 4

    wait_until(several_have_served, 'four processes, each after the one before')
    figures = agent.figures()
    assert figures['deaths'] == 0 and figures['spawns'] >= 4
    agent.process.wait_logged('process-exited')
    # A process that fails before it has served a request is restarted with a delay.
    agent.program.write_text('syntax error')
    wait_until(lambda: agent.get('/counted').status == 503, 'a process that does not start')
    assert agent.slot()['start_failures'] == 1
