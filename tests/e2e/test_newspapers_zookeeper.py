# SPDX-License-Identifier: Apache-2.0
"""The example as `make run ZOOKEEPER=1` starts it, and the commands that it prints."""
import pathlib
import re
import signal
import subprocess
import sys

import pytest
from agent_support import alive
from support.base import BIN, LIMIT, ROOT, Process, free_ports, reap_all, wait_until
from support.http import get

EXAMPLE = ROOT / 'examples' / 'newspapers'
sys.path.insert(0, str(EXAMPLE))
import generate  # noqa: E402
import stack  # noqa: E402

pytestmark = pytest.mark.soak

SITES = 12
HOSTS = ['%s.localhost' % slug for slug, _ in generate.site_names(SITES)]


def children_of(pid):
    """All processes below PID."""
    found = []
    for task in pathlib.Path('/proc/%d/task' % pid).iterdir():
        for child in (task / 'children').read_text().split():
            found += [int(child), *children_of(int(child))]
    return found


def shell(command):
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=LIMIT)
    assert done.returncode == 0, (command, done.stdout)
    return done.stdout


def printed(output, what):
    """The command in the line of OUTPUT that contains WHAT, without the first word."""
    line = next(x for x in output.split('\n') if what in x)
    return re.sub(r'^ {2}\S* +', '', line)


def test_run_with_zookeeper_starts_two_of_each_and_ends_them(tmp_path):
    env = {'NEWSPAPERS_DB': str(tmp_path / 'db.sqlite'), 'NEWSPAPERS_SITES': str(SITES), 'NEWSPAPERS_OBJECTS': '60',
           'PORT': str(free_ports(6)), 'PROCESSES': '3', 'RUN_DIR': str(tmp_path / 'r'), 'RLB_BIN': str(BIN),
           'ZOOKEEPER': '1'}
    generate.ensure(env['NEWSPAPERS_DB'], SITES, 60, 1)
    run = Process([EXAMPLE / 'run'], 'run', tmp_path, env=env)
    try:
        wait_until(lambda: 'Ctrl-C ends everything' in run.output() or not run.alive(), 'the start')
        output = run.output()
        assert run.alive(), output
        balancers = re.findall(r'http://127\.0\.0\.1:(\d+)/ .*(?:all newspapers|same workers)', output)
        assert len(balancers) == 2
        # a newspaper is served by the same process through each load balancer
        pids = {port: get('127.0.0.1:' + port, '/', host=HOSTS[0])['X-Worker-Pid'] for port in balancers}
        assert len(pids) == 2
        tree = shell(printed(output, ' print'))
        assert '/newspapers' in tree and '/workers' in tree
        before = shell(printed(output, '"max_share"'))
        assert '"origin":"tree"' not in before
        shell(printed(output, ' set '))
        wait_until(lambda: '"value":"0.5","origin":"tree"' in shell(printed(output, '"max_share"')), 'the setting')
        pids = children_of(run.pid)
        assert len(pids) >= 1 + 2 + 2 + 3, pids
        directory = next((tmp_path / 'r').iterdir())
        run.kill(signal.SIGINT)
        assert run.wait() == 0, run.output()
        # the supervisor of an agent and its processes may end shortly after the agent
        wait_until(lambda: not [p for p in pids if alive(p)], 'all processes to be gone')
        assert all(stack.port_is_free(int(port)) for port in balancers)
        for name in ('zookeeper', 'resumelb', 'resumelb2', 'resumelb-agent', 'resumelb-agent2'):
            text = (directory / (name + '.log')).read_text(errors='replace')
            for sign in ('ERROR: AddressSanitizer', 'runtime error:', 'LeakSanitizer', 'assertion failed'):
                assert sign not in text, text[-6000:]
    finally:
        reap_all([run])
