# SPDX-License-Identifier: Apache-2.0
"""The example as `make run` starts it: an agent with real processes, the load balancer, one tree."""
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile

import pytest
from support.base import BIN, LIMIT, ROOT, Process, free_ports, reap_all, wait_until
from support.http import get

EXAMPLE = ROOT / 'examples' / 'newspapers'
sys.path.insert(0, str(EXAMPLE))
import generate  # noqa: E402
import stack  # noqa: E402

SITES, OBJECTS, PROCESSES = 21, 120, 3
HOSTS = ['%s.localhost' % slug for slug, _ in generate.site_names(SITES)]
# Hosts that only one test requests.
COLD_HOSTS = HOSTS[5:]
REQUESTS = 200


@pytest.fixture(scope='module')
def corpus(tmp_path_factory):
    """The environment for a small corpus; the cache of a process holds less than half of it."""
    directory = tmp_path_factory.mktemp('corpus')
    env = {'NEWSPAPERS_DB': str(directory / 'db.sqlite'), 'NEWSPAPERS_SITES': str(SITES),
           'NEWSPAPERS_OBJECTS': str(OBJECTS), 'NEWSPAPERS_CACHE': str(SITES * OBJECTS * 45 // 100)}
    generate.ensure(env['NEWSPAPERS_DB'], SITES, OBJECTS, 1)
    return env


def check_log(path):
    text = path.read_text(errors='replace')
    for sign in ('ERROR: AddressSanitizer', 'runtime error:', 'ThreadSanitizer', 'LeakSanitizer', 'assertion failed'):
        assert sign not in text, text[-6000:]


@contextlib.contextmanager
def running(directory, corpus):
    port = free_ports(2)
    s = stack.Stack(directory, processes=PROCESSES, ports=(port, port + 1), binaries=BIN, environment=corpus, history=20)
    s.start(LIMIT)
    s.address = '127.0.0.1:%d' % s.port
    yield s
    s.stop(LIMIT)
    codes = {name: child.returncode for name, child in s.children.items()}
    for name in codes:
        check_log(s.directory / (name + '.log'))
    assert codes == {'resumelb-agent': 0, 'resumelb': 0}, s.logs()


@pytest.fixture(scope='module')
def newspapers(corpus):
    """
    Shared by the tests that do not depend on the requests of other tests. The path of its directory is short enough for Unix
    sockets.
    """
    with tempfile.TemporaryDirectory(prefix='rlb-e2e-') as directory, running(directory, corpus) as s:
        yield s


@pytest.fixture
def cold_newspapers(tmp_path, corpus):
    with running(tmp_path / 's', corpus) as s:
        yield s


def page(s, host, path='/'):
    """(pid, loads, hits) of one page."""
    r = get(s.address, path, host=host)
    assert r.status == 200, (r.status, r.text[:500])
    return int(r['X-Worker-Pid']), int(r['X-Database-Loads']), int(r['X-Cache-Hits'])


def test_a_page_is_made_of_many_objects_and_reports_what_it_cost(newspapers):
    for path in ('/', '/section/0', '/article/3'):
        pid, loads, hits = page(newspapers, HOSTS[0], path)
        assert 17 <= loads + hits <= 20, path
        r = get(newspapers.address, path, host=HOSTS[0])
        assert 'The Harbour Herald' in r.text
        assert 'served by pid <b>%s</b>' % r['X-Worker-Pid'] in r.text
        assert r['X-Database-Loads'] == '0', 'everything is cached at the second request'
        assert '{cost}' not in r.text


def test_a_site_stays_with_a_process_that_knows_it(newspapers):
    first_pid, loads, _ = page(newspapers, HOSTS[1])
    assert loads > 0
    for _ in range(20):
        assert page(newspapers, HOSTS[1])[:2] == (first_pid, 0)


def test_loads_fall_as_caches_warm_and_sites_are_spread_over_the_processes(newspapers):
    def one_round():
        return [(host, *page(newspapers, host)) for host in COLD_HOSTS]

    cold = sum(loads for _, _, loads, _ in one_round())
    assert cold >= len(COLD_HOSTS) * 15

    def warm():
        # A process that is slow on a busy machine may lose a site to another process, which then has to load it.
        last = one_round()
        pids = [pid for _, pid, _, _ in last]
        # No process has more sites than fit in its cache.
        return (sum(loads for _, _, loads, _ in last) <= cold / 20 and len(set(pids)) == PROCESSES
                and max(pids.count(p) for p in set(pids)) <= len(COLD_HOSTS) * 0.7)
    for _ in range(3):
        one_round()
    wait_until(warm, 'all to be cached, and spread over the processes')


def test_under_load_every_request_gets_a_response_and_most_loads_are_saved(cold_newspapers):
    def traffic(seed):
        done = subprocess.run(
            ['/usr/bin/python3', '-B', str(EXAMPLE / 'traffic.py'), '--url', 'http://' + cold_newspapers.address, '--json',
             '--requests', str(REQUESTS), '--concurrency', '4', '--seed', str(seed)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT)
        assert done.returncode == 0, done.stderr
        summary = json.loads(done.stdout)
        assert (summary['requests'], summary['errors']) == (REQUESTS, 0)
        return summary
    seeds = itertools.count(1)
    cold = traffic(next(seeds))
    for _ in range(2):
        traffic(next(seeds))

    def saved():
        # With classes; without them each process would miss more than half of its requests.
        warm = traffic(next(seeds))
        return warm['hit_rate'] > 0.8 and warm['loads_per_request'] < cold['loads_per_request'] / 2
    wait_until(saved, 'most loads to be saved')


def test_a_process_that_is_killed_is_replaced_and_no_get_fails(newspapers):
    pid, _, _ = page(newspapers, HOSTS[2])
    os.kill(pid, signal.SIGKILL)
    for _ in range(10):
        assert page(newspapers, HOSTS[2])[0] != pid

    def all_back():
        return len(newspapers.ready_workers()) == PROCESSES
    wait_until(all_back, 'the process to be replaced')


def test_other_hosts_and_pages(newspapers):
    index = get(newspapers.address, '/', host='127.0.0.1:%d' % newspapers.port)
    assert index.status == 200
    assert 'http://%s:%d/' % (HOSTS[0], newspapers.port) in index.text
    assert get(newspapers.address, '/x', host='nowhere.example').status == 404
    for path in ('/article/99999', '/article/x', '/section/', '/section/99999999999999999999999', '/a/b/c'):
        assert get(newspapers.address, path, host=HOSTS[0]).status == 404, path
    assert get(newspapers.address, '/', host=HOSTS[0], method='POST').status == 405
    page(newspapers, HOSTS[3])
    stats = json.loads(get(newspapers.address, '/_stats.json', host=HOSTS[3]).body)
    assert stats['objects_in_all'] == SITES * OBJECTS
    assert 'Process' in get(newspapers.address, '/_stats', host=HOSTS[3]).text
    sites = json.loads(get(newspapers.address, '/_sites.json', host='localhost').body)
    assert ['%s.localhost' % s for s in sites] == HOSTS


def test_resumelbctl_shows_workers_and_what_they_are_good_at(newspapers):
    def ctl(*args):
        done = subprocess.run([BIN / 'resumelbctl', '-a', '127.0.0.1:%d' % newspapers.admin_port, *args],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    # More than `history` requests, so that a resume of the process was published.
    for _ in range(30):
        page(newspapers, HOSTS[4])
    code, out, _ = ctl('status')
    assert code == 0
    assert out.count(' ready ') == PROCESSES
    assert 'newspapers: policy adaptive' in out

    def skilled():
        code, out, _ = ctl('resumes', '--class', HOSTS[4], 'newspapers')
        return code == 0 and '1 of %d workers skilled' % PROCESSES in out
    wait_until(skilled, 'a resume with the class')
    code, out, _ = ctl('--json', 'status')
    assert json.loads(out)['applications']['newspapers']['policy'] == 'adaptive'
    code, _, err = ctl('status', 'nothing')
    assert (code, "no application 'nothing'" in err) == (1, True)


def test_run_starts_everything_and_ends_it_on_interrupt(tmp_path, corpus):
    taken = free_ports(4)       # and the alternative ports that it uses instead
    env = {**corpus, 'PORT': str(taken), 'PROCESSES': '2', 'TRAFFIC': '20', 'RUN_DIR': str(tmp_path / 'r'),
           'RLB_BIN': str(BIN)}
    blocker = subprocess.Popen([sys.executable, '-m', 'http.server', '--bind', '127.0.0.1', str(taken)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def is_taken():
            return not stack.port_is_free(taken)
        wait_until(is_taken, 'the port to be taken')
        run = Process([EXAMPLE / 'run'], 'run', tmp_path, env=env)
        try:
            wait_until(lambda: 'requests/s' in run.output() or not run.alive(), 'traffic')
            output = run.output()
            assert run.alive(), output
            assert 'is taken: using' in output
            assert 'curl -si' in output
            directory = next((tmp_path / 'r').iterdir())
            assert directory.name == str(taken + 2)
            port = int(directory.name)
            assert get('127.0.0.1:%d' % port, '/', host=HOSTS[0]).status == 200
            pid = int(get('127.0.0.1:%d' % port, '/', host=HOSTS[0])['X-Worker-Pid'])
            run.kill(signal.SIGINT)
            assert run.wait() == 0, run.output()
            assert stack.port_is_free(port)
            assert not os.path.exists('/proc/%d' % pid)
            for name in ('resumelb', 'resumelb-agent'):
                check_log(directory / (name + '.log'))
        finally:
            reap_all([run])
    finally:
        blocker.kill()
        blocker.wait()
