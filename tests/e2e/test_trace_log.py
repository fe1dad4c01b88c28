# SPDX-License-Identifier: Apache-2.0
"""The agent's trace log: a record for each stage of a request, with real gunicorns, and the output of `resumelbctl trace`."""
import contextlib
import os
import re
import signal
import threading

from agent_support import Background, TinyAgent
from ctl_support import ctl
from support.base import PACE, wait_until
from support.http import get
from support.servers import GUNICORN, Agent

APP = r'''
import os, time
def application(environ, start_response):
    if environ["PATH_INFO"] == "/hangs":
        open(os.environ["HANGS"], "w").write(str(os.getpid()))
        time.sleep(3600)
    body = environ["wsgi.input"].read()
    start_response("404 Not Found" if environ["PATH_INFO"] == "/none" else "200 OK", [("Content-Length", "5")])
    return [b"hello"]
'''
RECORD = re.compile(r'^([SBICAEX-]) (\S+) (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6})(?: (.*))?$')


class TracedAgent(TinyAgent):
    """An agent with gunicorn that writes a trace log."""

    def __init__(self, world, **settings):
        self.trace = world.directory / 'trace.log'
        self.hangs = world.directory / 'hangs.pid'
        self.tree = world.directory / 'tree'
        self.top = {'trace_log': str(self.trace)}
        (world.directory / 'traced.py').write_text(APP)
        Agent.__init__(self, world, 'agent', self.tree,
                       command=[*GUNICORN, 'traced:application'],
                       environment={'PYTHONDONTWRITEBYTECODE': '1', 'HANGS': str(self.hangs)}, respawn_delay='20ms',
                       **settings)

    def records(self, *files):
        """(stage, id, time, rest) of each line. Fails if a line is not a valid record."""
        lines = ''.join(f.read_text() for f in files or (self.trace,) if f.exists()).split('\n')[:-1]
        return [RECORD.match(line).groups() for line in lines]

    def wait_records(self, stage, n):
        wait_until(lambda: sum(r[0] == stage for r in self.records()) >= n, '%d records %s' % (n, stage))


def test_a_request_leaves_its_records_in_order(world):
    agent = TracedAgent(world).wait_ready()
    assert get(agent.address, '/a?secret=1', method='POST', body=b'1234567').status == 200
    assert get(agent.address, '/none').status == 404
    agent.wait_records('E', 2)
    records = agent.records()
    assert records[0][:2] == ('S', '0')
    ids = [r[1] for r in records if r[0] == 'B']
    assert len(set(ids)) == 2, records
    first, second = ([(r[0], r[3]) for r in records if r[1] == i] for i in ids)
    assert first == [('B', 'POST /a'), ('I', '7'), ('C', None), ('A', '200 5'), ('E', None)]
    assert second == [('B', 'GET /none'), ('I', '0'), ('C', None), ('A', '404 5'), ('E', None)]
    times = [r[2] for r in records]
    assert times == sorted(times)
    metrics = get(agent.admin, '/metrics', host=agent.admin).body.decode()
    assert 'resumelb_agent_trace_log_dropped_total 0' in metrics
    agent.process.stop()
    assert agent.records()[-1][:2] == ('X', '0')

    report = ctl('trace', '--json', agent.trace).json()
    assert (report['requests'], report['finished'], report['unfinished_requests'], report['bad_lines']) == (2, 2, 0, 0)
    by_url = {u['url']: u for u in report['urls']}
    assert by_url['/a']['statuses']['2xx'] == 1 and by_url['/none']['statuses']['4xx'] == 1
    assert 0 < by_url['/a']['median_s'] == by_url['/a']['max_s'] <= report['to'] - report['from']


def test_a_request_whose_process_is_killed_is_reported_as_unfinished(world):
    agent = TracedAgent(world).wait_ready()
    waiting = Background(agent.address, target='/hangs')
    wait_until(lambda: agent.hangs.exists() and agent.hangs.read_text(), 'the request to be there')
    agent.wait_records('C', 1)
    running = ctl('trace', '--json', agent.trace).json()
    assert [u['state'] for u in running['unfinished']] == ['application']
    assert running['unfinished'][0]['why'] == 'in progress at the end of the log'
    # Kill gunicorn's worker, and its master, which would start another one.
    pid = int(agent.hangs.read_text())
    os.kill(agent.pid(), signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):       # the agent ends the processes that a dead master leaves behind
        os.kill(pid, signal.SIGKILL)
    assert waiting.result().status == 502
    wait_until(lambda: any(r[0] == '-' for r in agent.records()), 'the record of its end')
    report = ctl('trace', '--json', agent.trace).json()
    assert [(u['method'], u['url'], u['state'], u['why']) for u in report['unfinished']] == [
        ('GET', '/hangs', 'application', 'failed: 502 the application failed')]
    assert report['finished'] == 0
    text = ctl('trace', agent.trace).out
    assert '1 unfinished' in text and 'GET /hangs' in text


def test_rotation_loses_no_record(world):
    agent = TracedAgent(world).wait_ready()
    done, files = threading.Event(), []
    served = []

    def ask():
        while not done.wait(PACE):
            assert get(agent.address, '/').status == 200
            served.append(1)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for n, which in enumerate((signal.SIGUSR1, signal.SIGHUP, signal.SIGUSR1)):
            before = len(served)
            wait_until(lambda: len(served) > before + 5, 'requests')
            files.append(agent.trace.with_suffix('.%d' % n))
            agent.trace.rename(files[-1])
            os.kill(agent.process.pid, which)
            wait_until(agent.trace.exists, 'the file to be reopened')
    finally:
        done.set()
        asking.join()
    agent.process.stop()
    records = agent.records(*files, agent.trace)
    for stage in 'BICAE':
        assert sum(r[0] == stage for r in records) == len(served), stage
    assert [r[0] for r in records if r[0] in 'SX'] == ['S', 'X']


def test_unreadable_logs_are_reported(world):
    assert 'No such file' in ctl('trace', world.directory / 'none', code=1).error
    (world.directory / 'other').write_text('127.0.0.1 - - GET /\n')
    assert 'not a record' in ctl('trace', world.directory / 'other', code=1).error
    assert 'expected a file' in ctl('trace', code=2).error
    mixed = 'nonsense\nB 1 2007-04-27T20:16:55.582940 GET /x\n'
    report = ctl('trace', '--json', '-', text=mixed).json()
    assert (report['bad_lines'], report['unfinished_requests']) == (1, 1)
