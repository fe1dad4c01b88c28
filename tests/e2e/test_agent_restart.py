# SPDX-License-Identifier: Apache-2.0
"""
Replacement of processes: because of a restart file, because of their memory usage, and with a warm-up of the new process.
One test of each of these has real gunicorns; the others use the tiny server, which starts ten times faster.
"""
import json
import os
import re
import signal

from agent_support import SERVER, TinyAgent, alive
from load_support import Load
from support.base import freeze, wait_until
from support.http import get
from support.servers import APP, GUNICORN, Agent
from test_agent_life import rewrite

# APP with a log of the requests received. It leaks memory if LEAK is set, and has pages that a cold process cannot serve.
MARKED = APP + '''
kept = []
seen = os.environ["SEEN"]
small = application
def application(environ, start_response):
    with open(seen, "a") as f:
        f.write("%d %s %s %s %s\\n" % (os.getpid(), environ["PATH_INFO"], environ.get("HTTP_RESUMELB_WARM_UP", "-"),
                                      environ.get("HTTP_HOST"), environ.get("HTTP_RESUMELB_CLASS", "-")))
    kept.append(bytearray(int(os.environ.get("LEAK", "0"))))
    if environ.get("HTTP_RESUMELB_WARM_UP") and environ["PATH_INFO"] == "/breaks":
        raise RuntimeError("while cold")
    if environ.get("HTTP_RESUMELB_WARM_UP") and environ["PATH_INFO"] == "/hangs":
        try:                    # until the agent has given it up
            environ["gunicorn.socket"].recv(1)
        except OSError:
            pass
    return small(environ, start_response)
'''


class MarkedAgent(TinyAgent):
    """An agent with an application that logs the requests received: the tiny server or, if GUNICORN, a gunicorn with one worker."""

    def __init__(self, world, slots=1, top=None, env=None, gunicorn=False, **settings):
        self.seen_path, self.tmp = world.directory / 'seen.log', world.directory / 'tmp'
        self.tmp.mkdir(mode=0o755)
        top = {'usage_interval': '100ms', **(top or {})}
        env = {'SEEN': str(self.seen_path), 'PYTHONDONTWRITEBYTECODE': '1', **(env or {})}
        settings = {'respawn_delay': '20ms', 'ready_probe': '/', **settings}
        if gunicorn:
            self.tree, self.top = world.directory / 'tree', top
            self.program, self.code = world.directory / 'marked.py', MARKED
            self.program.write_text(MARKED)
            Agent.__init__(self, world, 'agent', self.tree, slots=slots, command=[*GUNICORN, 'marked:application'],
                           environment=env, **settings)
        else:
            self.program, self.code = world.directory / 'tinyserver.py', SERVER
            super().__init__(world, slots=slots, env=env, top=top, **settings)

    def seen(self, pid=None):
        """(pid, path, warm-up, host, class) of each request, in order."""
        rows = [line.split() for line in self.seen_path.read_text().split('\n')[:-1]]
        return [row for row in rows if pid is None or int(row[0]) == pid]

    def worker(self, n=0):
        """The process that serves requests: gunicorn's worker, which is a child of the slot's process."""
        return json.loads(self.get(n=n).body)['pid']

    def pids(self):
        return [(slot.get('process') or {}).get('pid') for slot in self.app()['slots']]


def load_of(addresses, **kw):
    """Load with a cookie: its requests are not used for the warm-up."""
    return Load(addresses, keep=False, target='/load', headers=[('Cookie', 'load=1')], **kw)


def replaced(agent, old):
    now = agent.pids()
    return all(p and p not in old for p in now) and not any(alive(p) for p in old)


# ---- restart.txt ----

def test_a_touched_file_replaces_one_process_after_the_other_and_loses_no_request(world):
    agent = MarkedAgent(world, slots=3, gunicorn=True).wait_ready()
    old = agent.pids()
    with load_of(agent.addresses, clients=2) as load:
        load.go_on(8)
        (agent.tmp / 'restart.txt').touch()
        wait_until(lambda: replaced(agent, old), 'new processes in all slots')
    figures = agent.figures()
    assert figures['restarts'] == 1 and figures['replaced'] == 3 and figures['deaths'] == 0
    assert figures['failures'] == 0 and figures['queue_timeouts'] == 0
    # The process of the next slot is started after the new process of the previous slot is ready.
    text = agent.process.output()
    text = text[text.index('application-restarting'):]
    order = re.findall(r'(process-spawned|process-ready) application=app slot=(\d)', text)
    assert [what for what, _ in order] == ['process-spawned', 'process-ready'] * 3, order
    assert all(order[i][1] == order[i + 1][1] for i in (0, 2, 4)), order


def test_many_touches_are_one_restart_and_a_later_one_is_another(world):
    agent = MarkedAgent(world).wait_ready()
    old = agent.pids()
    # The agent is frozen: it sees all touches at once when it continues, however long they take, and combines them.
    freeze(agent.process.pid)
    for _ in range(20):
        (agent.tmp / 'restart.txt').touch()
    agent.process.kill(signal.SIGCONT)
    wait_until(lambda: replaced(agent, old), 'a new process')
    assert agent.figures()['restarts'] == 1
    old = agent.pids()
    (agent.tmp / 'restart.txt').touch()
    wait_until(lambda: replaced(agent, old), 'another one')
    assert agent.figures()['restarts'] == 2 and agent.figures()['spawns'] == 3


def test_a_file_from_before_does_nothing_but_for_processes_that_are_older(world):
    (world.directory / 'elsewhere').mkdir(mode=0o755)
    file = world.directory / 'elsewhere' / 'restart.txt'
    file.touch()
    agent = MarkedAgent(world, restart_dir=str(file.parent)).wait_ready()
    pids = agent.pids()
    # A restarted agent adopts the process: the file is older than the process.
    agent.process.kill()
    agent.process.wait()
    agent.start()
    agent.wait_ready()
    assert agent.pids() == pids
    # The file is touched while no agent is running.
    agent.process.kill()
    agent.process.wait()
    file.touch()
    agent.start()
    agent.wait_ready()
    wait_until(lambda: replaced(agent, pids), 'a process that is newer than the file')
    assert agent.figures()['restarts'] == 1


def test_a_restart_that_fails_leaves_the_old_process(world):
    agent = MarkedAgent(world).wait_ready()
    old = agent.pids()
    agent.program.write_text('syntax error')
    with load_of(agent.addresses, clients=2):
        (agent.tmp / 'restart.txt').touch()
        wait_until(lambda: agent.figures()['replace_failures'] >= 2, 'two tries')
        assert agent.pids() == old
        agent.program.write_text(agent.code)
        wait_until(lambda: replaced(agent, old), 'a process of the good program')


def test_while_a_file_reports_it_each_process_serves_one_request(world):
    agent = MarkedAgent(world).wait_ready()
    always = agent.tmp / 'always_restart.txt'
    always.touch()
    wait_until(lambda: 'application-one-request-per-process' in agent.process.output(), 'the file to be seen')
    workers = [agent.worker() for _ in range(5)]
    assert len(set(workers[1:])) == 4, workers
    always.unlink()
    wait_until(lambda: 'on=no' in agent.process.output(), 'its end to be seen')
    wait_until(lambda: agent.worker() == agent.worker(), 'a process that stays')
    assert agent.figures()['failures'] == 0


def test_a_new_command_is_for_new_processes_until_restart_txt_is_touched(world):
    agent = MarkedAgent(world, slots=2, env={'APP_NAME': 'old'}).wait_ready()
    old = agent.pids()
    names = lambda: [json.loads(agent.get(n=n).body)['env']['APP_NAME'] for n in range(2)]
    assert names() == ['old', 'old']
    agent.config['applications']['app']['environment']['APP_NAME'] = 'new'
    rewrite(agent)
    wait_until(lambda: 'config-reloaded' in agent.process.output(), 'the new file')
    line = agent.process.wait_logged('config-change-deferred')[-1]
    assert 'old_processes=2' in line and 'touch %s/restart.txt' % agent.tmp in line
    assert (agent.pids(), names()) == (old, ['old', 'old'])
    # a process that dies is replaced by one with the new configuration
    os.kill(old[0], signal.SIGKILL)
    wait_until(lambda: agent.ready() and agent.pids()[0] not in (None, 0, old[0]), 'another process')
    assert names() == ['new', 'old']
    (agent.tmp / 'restart.txt').touch()
    wait_until(lambda: replaced(agent, old), 'new processes')
    assert names() == ['new', 'new']


# ---- max_memory ----

def test_a_process_that_leaks_is_replaced_and_no_request_is_lost(world):
    agent = MarkedAgent(world, slots=2, env={'LEAK': str(4 << 20)}, max_memory='80MiB').wait_ready()
    old = agent.pids()
    with load_of(agent.addresses, clients=2):
        wait_until(lambda: replaced(agent, old), 'new processes')
        wait_until(lambda: agent.figures()['over_max_memory'] >= 3, 'further ones')
    agent.process.wait_logged('process-over-max-memory')
    assert agent.figures()['deaths'] == 0


def test_a_limit_that_none_can_keep_restarts_none_that_has_served_nothing(world):
    agent = MarkedAgent(world, max_memory='1MiB').wait_ready()
    pids = agent.pids()
    wait_until(lambda: agent.slot()['process'].get('memory_bytes', 0) > 1 << 20, 'a sample')
    assert agent.pids() == pids and agent.figures()['over_max_memory'] == 0
    assert agent.get().status == 200
    wait_until(lambda: replaced(agent, pids), 'a new process')
    assert agent.figures()['over_max_memory'] == 1


def over_memory(agent):
    """After how long the next may be replaced, as logged at each replacement."""
    return [int(ms) for ms in re.findall(r'process-over-max-memory .*next_in_ms=(\d+)', agent.process.output())]


def test_a_limit_that_is_too_low_replaces_processes_more_and_more_seldom(world):
    agent = MarkedAgent(world, max_memory='1MiB').wait_ready()
    with load_of(agent.addresses, pace=0.1):
        wait_until(lambda: len(over_memory(agent)) >= 4, 'the fourth to be replaced')
        assert over_memory(agent)[:4] == [1000, 2000, 4000, 8000]
        shown = agent.app()['over_memory']
        assert (shown['max_bytes'], shown['too_low']) == (1 << 20, True)
        # On a busy machine the fifth replacement may have happened.
        wait_until(lambda: shown['interval_s'] * 1000 in over_memory(agent)[3:], 'the interval in the log')
        assert 0 <= shown['next_s'] <= shown['interval_s']
        # logged only once
        told = agent.process.wait_logged('max-memory-too-low')
        assert len(told) == 1 and 'hint="raise max_memory"' in told[0]
        # a new limit resets the state
        agent.write_node({'max_memory': '1GiB'})
        wait_until(lambda: agent.app()['over_memory'] == {'max_bytes': 1 << 30, 'too_low': False, 'interval_s': 0,
                                                          'next_s': 0}, 'the new limit')
    assert agent.figures()['deaths'] == 0


def test_usage_of_processes_includes_their_children(world):
    agent = MarkedAgent(world, gunicorn=True).wait_ready()
    # gunicorn's master and its worker
    wait_until(lambda: agent.slot()['process'].get('host_processes') == 2, 'a sample with the worker')
    process = agent.slot()['process']
    assert 5 << 20 < process['memory_bytes'] < 500 << 20
    assert process['cpu_s'] > 0


# ---- warm_up ----

def test_a_new_process_has_seen_the_frequent_pages_before_its_first_request(world):
    agent = MarkedAgent(world, gunicorn=True, warm_up=2).wait_ready()
    old = agent.pids()
    classified = [('Resumelb-Class', 'news'), ('Resumelb-Classifier', '0123456789abcdef')]
    for target, times, headers in [('/often', 9, classified), ('/seldom', 5, ()), ('/rarely', 2, ()),
                                   ('/mine', 12, [('Cookie', 'a=b')]), ('/secret', 12, [('Authorization', 'Basic x')]),
                                   ('/broken', 12, [('X-Status', '404 No')]),
                                   ('/forged', 1, [('Resumelb-Warm-Up', '1')])]:
        for _ in range(times):
            agent.get(target, headers=headers)
    for _ in range(12):
        get(agent.address, '/posted', method='POST', body=b'x')
    assert {row[2] for row in agent.seen()} == {'-'}
    before = agent.slot()['served']
    agent.tmp.joinpath('restart.txt').touch()
    wait_until(lambda: replaced(agent, old), 'a new process')
    worker = json.loads(agent.get('/first').body)['pid']
    rows = [row[1:] for row in agent.seen(worker)]
    # The ready_probe is sent before the warm-up.
    assert [row for row in rows if row[0] != '/'] == [
        ['/often', '1', 'test.example', 'news'], ['/seldom', '1', 'test.example', '-'],
        ['/first', '-', 'test.example', '-']], rows
    figures = agent.figures()
    assert figures['warm_up_requests'] == 2 and figures['warm_up_failures'] == 0
    # Warm-up requests are neither measured nor counted.
    assert agent.slot()['served'] == before + 1
    assert agent.slot()['process']['processed'] == 1


def warmed_up(agent, targets):
    """Sends a number of requests for each of TARGETS and replaces a process under load. Returns the metrics afterwards."""
    old = agent.pids()
    for target, times in targets:
        for _ in range(times):
            assert agent.get(target).status == 200
    with load_of(agent.addresses, pace=0.1):
        (agent.tmp / 'restart.txt').touch()
        wait_until(lambda: replaced(agent, old), 'a new process')
    figures = agent.figures()
    assert figures['failures'] == 0 and figures['replaced'] == 1
    return figures


def test_a_page_that_fails_does_not_delay_the_next(world):
    agent = MarkedAgent(world, warm_up=2, warm_up_timeout='10m').wait_ready()
    figures = warmed_up(agent, [('/breaks', 9), ('/well', 7)])
    assert figures['warm_up_requests'] == 2 and figures['warm_up_failures'] == 1
    # Only a process that is to replace another one is warmed up, as no request waits for that.
    os.kill(agent.pid(), signal.SIGKILL)
    wait_until(lambda: agent.figures()['deaths'] == 1, 'its death')
    assert agent.wait_ready().get('/c').status == 200
    assert agent.figures()['warm_up_requests'] == 2


def test_a_page_that_hangs_ends_with_warm_up_timeout(world):
    agent = MarkedAgent(world, warm_up=3, warm_up_timeout='50ms').wait_ready()
    # The page that hangs is the first one, so that the limit is always reached there.
    figures = warmed_up(agent, [('/hangs', 9), ('/well', 7), ('/breaks', 5)])
    assert figures['warm_up_requests'] == 1 and figures['warm_up_failures'] == 1
