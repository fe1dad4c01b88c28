# SPDX-License-Identifier: Apache-2.0
"""Commands in the documentation outside of tutorials: each is run here, or there is a reference to the test that runs it."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import pytest
from agent_support import TinyAgent
from ctl_support import TOKEN
from support.base import BIN, LIMIT, ROOT, free_port, wait_until
from support.commands import all_commands
from support.scripted import hello, serve
from support.servers import World

COMMANDS = all_commands()
# `resumelbctl drain`, `resumelbctl tree export`: the name of a command, not a complete command line.
NAME = re.compile(r'resumelbctl (?:tree (?P<verb>[a-z]+)|(?P<word>[a-z]+))$')
# {command that is not run here: reason}
ELSEWHERE = {
    r'make( .*)?': 'their targets are looked up below; .ci/run makes all that test, tests/package what install.md has made',
    r'dev/[\w.-]+( .*)?': 'looked up below; .ci/run does them',
    r'(systemctl|journalctl) .*': 'by tests/package, on a machine with a systemd; their units are looked up below',
    r'docker .*': 'test machines have no docker; tests/package compares stages with the Dockerfile',
    r"curl -H 'Host: a\.example' http://localhost:8080/": 'asks what docker has started; test_deploy_examples.py has the same configuration',
    r'(cmake --workflow|ctest|/usr/bin/python3 -m pytest|git (config|status|log|tag))( .*)?': 'a developer\'s tools; presets, tests and hooks are looked up below',
    r'\./(measure|traffic)\.py( .*)?|curl -si -H \'Host: harbour-herald.*': 'by test_newspapers.py, on a running example',
    r'/usr/share/zookeeper/bin/zkCli\.sh .*': 'ZooKeeper\'s own shell; test_zookeeper_trees.py executes its commands',
    r'kill -\w+': 'not a complete command',
    r'resumelb-agent [0-9.]+, pid .*': 'the output of a command',
    r'resumelbctl simulate access\.log -p \.\.\.': 'not a complete command',
}
# Commands that run in the foreground.
FOREGROUND = re.compile(r'resumelb-poolcounter|resumelbctl tree watch')
DETACH = 'resumelbctl -a ADDRESS -T token-file detach ID'


def is_elsewhere(command):
    return [p for p in ELSEWHERE if re.fullmatch(p, command)]


HERE = [c for c in COMMANDS if not is_elsewhere(c) and not NAME.match(c) and not FOREGROUND.match(c) and c not in ('resumelb -t', DETACH)]


class Place:
    """A load balancer, an agent and a pool counter daemon with everything that the commands need, in their own directory."""

    def __init__(self, directory):
        self.directory, self.world = directory, World(directory)
        (directory / 'token').write_text(TOKEN + '\n')
        worker = self.world.scripted(serve(hello)).address
        admin = '127.0.0.1:%d' % free_port()
        shop = {'default': True, 'workers': [worker], 'history': 1, 'limits': {'sites': {'workers': 4}}}
        app = {'hosts': ['app.example'], 'tree': 'directory:%s' % (directory / 'tree/app')}
        self.lb = self.world.resumelb({'admin': {'address': admin, 'actions_token': TOKEN}, 'applications': {'shop': shop, 'app': app},
                                       'state_dir': str(directory / 'state')}, wait=False)
        self.lb.admin = admin
        self.agent = TinyAgent(self.world, app='app', history=1, top={
            'trace_log': str(directory / 'trace.log'), 'admin': {'address': '127.0.0.1:%d' % free_port(), 'actions_token': TOKEN}})
        self.agent.admin = self.agent.config['admin']['address']
        self.daemon = '127.0.0.1:%d' % free_port()
        (directory / 'pool.yaml').write_text('listen: 127.0.0.1:%d\nadmin: {address: "%s"}\n' % (free_port(), self.daemon))
        self.world.process([BIN / 'resumelb-poolcounter', '-c', directory / 'pool.yaml'], 'daemon')
        wait_until(self.lb.ready, 'the load balancer to be ready')
        self.agent.wait_ready()
        for host in ('a.example', 'shop.example'):
            assert self.lb.get(host=host).status == 200
        wait_until(lambda: self.agent.address in str(self.lb.json()['applications']['app']), 'the load balancer to see the agent')
        assert self.lb.get(host='app.example').status == 200
        self.files()
        self.env = {**os.environ, 'PATH': '%s:/usr/bin:/bin' % BIN, 'RESUMELB_TREE': 'directory:%s' % (directory / 'named')}
        self.shell('resumelbctl tree import conf/example.tree /; resumelbctl tree set /shop/workers --create; '
                   'resumelbctl tree set /hosts/app1 --create; resumelbctl tree set /shop variance=3 retries=1 --create')

    def files(self):
        shutil.copytree(ROOT / 'conf', self.directory / 'conf', dirs_exist_ok=True)
        shutil.copytree(ROOT / 'classifiers', self.directory / 'classifiers')
        shutil.copytree(ROOT / 'examples/classifier', self.directory / 'examples/classifier')
        shutil.copy(ROOT / 'examples/classifier/example_path.c', self.directory / 'my_classifier.c')
        line = '%s - - [22/Nov/2026:10:%02d:%02d +0000] "GET /%s/%d HTTP/1.1" 200 512 "-" "-"\n'
        (self.directory / 'access.log').write_text(''.join(
            line % ('a%d.example:80 127.0.0.1' % (i % 7), i // 60, i % 60, 'xyz'[i % 3], i % 11) for i in range(300)))

        shutil.copy(self.directory / 'access.log', self.directory / 'day.log')

    def here(self, command):
        """Adapts COMMAND to the addresses and paths of this place."""
        told = [('unix:/path/admin.sock', self.lb.admin), ('unix:/run/resumelb/admin.sock', self.lb.admin), ('AGENT-ADMIN', self.agent.admin),
                ('127.0.0.1:8082', self.agent.admin), ('127.0.0.1:8081', self.lb.admin), ('ADDRESS', self.daemon), ('ADMIN', self.lb.admin),
                ('WORKER', self.agent.address), ('--token-file FILE', '--token-file token'), ('-T token-file', '-T token'),
                ('-c FILE', '-c resumelb.yaml'), ('/etc/resumelb/', ''), ('URL', 'http://a.example/'), ('--class CLASS', '--class a.example'),
                ('/var/log/apache2/access.log', 'access.log'), ('/var/log/resumelb/', ''), ('/path/to/resumelb/classifiers', '.')]
        if ' forget ' in command and '--agent' in command:
            command += ' -a %s' % self.lb.admin
        for words, ours in told:
            command = command.replace(words, ours)
        # Without an address the command uses the default one.
        asks = re.match(r'resumelbctl (?:--json )?(status|resumes|limits|explain|forget|check|worker)\b', command)
        if asks and not re.search(r' (-a|--address) |:\d+$', command):
            command = command.replace(' ' + asks[1], ' %s --address %s' % (asks[1], self.lb.admin), 1)
        # There are several applications.
        if re.match(r'resumelbctl worker .*(add|remove) ', command):
            command += ' --application shop'
        # Fewer runs execute the same code.
        if re.match(r'resumelbctl simulate', command):
            command = command.replace('--random 20', '--random 2') + ' --requests 100'
        return command

    def shell(self, command):
        done = subprocess.run(['/bin/bash', '-o', 'pipefail', '-c', command], cwd=self.directory, env=self.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT)
        assert done.returncode == 0, (command, done.returncode, done.stdout)
        return done.stdout

    def start(self, command):
        return subprocess.Popen(['/bin/bash', '-c', 'exec ' + command], cwd=self.directory, env=self.env, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.fixture(scope='module')
def place(tmp_path_factory):
    p = Place(tmp_path_factory.mktemp('words'))
    yield p
    p.world.close()


# Commands without output on success.
SILENT = re.compile(r'cc |cp |export |printf |resumelbctl tree (set|export -o|import)')


@pytest.mark.parametrize('command', HERE)
def test_a_command_works_as_it_stands(place, command):
    # Files that other commands have created.
    if 'site.tree' in command and 'export' not in command:
        place.shell('resumelbctl tree export -o site.tree')
    printed = place.shell(place.here(command))
    assert printed.strip() or SILENT.match(command), command
    if ' -o ' in command or '--plot' in command:
        file = re.search(r'(?:-o|--plot) (\S+)', command)[1]
        assert (place.directory / file).stat().st_size > 0


def test_a_command_that_watches_states_what_changes(place):
    [command] = [c for c in COMMANDS if c.startswith('resumelbctl tree watch')]
    p = place.start(command)
    try:
        assert p.stdout.readline()
        place.shell('resumelbctl tree set /site/shop/workers history=77')
        assert any('77' in line for line in iter(p.stdout.readline, ''))
    finally:
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=LIMIT)


@pytest.mark.parametrize('command', [c for c in COMMANDS if c.startswith('resumelb-poolcounter')])
def test_a_daemon_serves_as_it_is_started(place, command):
    port = free_port()
    (place.directory / 'conf/resumelb-poolcounter.yaml').write_text('listen: 127.0.0.1:%d\n' % port)
    ours = command.replace('7531', str(port))
    if ours == 'resumelb-poolcounter':
        ours += ' -p %d' % port         # the default port may be in use
    p = place.start(ours)
    try:
        wait_until(lambda: listens(port), ours)
    finally:
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=LIMIT)


def test_a_process_is_taken_out_where_all_that_is_asked_carries_the_token(world):
    assert DETACH in COMMANDS
    (world.directory / 'token').write_text(TOKEN + '\n')
    admin = '127.0.0.1:%d' % free_port()
    TinyAgent(world, top={'admin': {'address': admin, 'token': TOKEN}})
    ask = [str(BIN / 'resumelbctl'), '-a', admin, '-T', str(world.directory / 'token')]

    def process():
        done = subprocess.run([*ask, '-j', 'status'], capture_output=True, text=True, timeout=LIMIT)
        slot = json.loads(done.stdout)['applications']['app']['slots'][0] if done.returncode == 0 else {'process': None}
        return slot['process']['id'] if slot['process'] and slot['process']['state'] == 'ready' else None
    first = wait_until(process, 'a process')
    command = DETACH.split()
    assert command[:5] == ['resumelbctl', '-a', 'ADDRESS', '-T', 'token-file']
    done = subprocess.run([*ask, command[5], first], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0 and first in done.stdout, done
    wait_until(lambda: process() not in (None, first), 'another process in its place')


def listens(port):
    try:
        socket.create_connection(('127.0.0.1', port), timeout=LIMIT).close()
        return True
    except OSError:
        return False


@pytest.mark.parametrize('name', [c for c in COMMANDS if NAME.match(c)])
def test_a_word_that_is_spoken_of_is_one(name):
    word, verb = NAME.match(name).group('word', 'verb')
    word = word or 'tree'
    done = subprocess.run([BIN / 'resumelbctl', word, '--help'], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0 and 'usage: resumelbctl %s' % word in done.stdout
    assert verb is None or re.search(r'^  %s\b' % verb, done.stdout, re.M), done.stdout


def test_manual_pages_carry_the_date_and_the_version_of_the_release():
    project = (ROOT / 'CMakeLists.txt').read_text()
    date = re.search(r'^set\(RLB_RELEASE_DATE (\d{4}-\d\d-\d\d)\)$', project, re.M)[1]
    version = re.search(r'^project\(resumelb VERSION ([\d.]+) ', project, re.M)[1]
    sources = sorted(p.name for p in (ROOT / 'docs' / 'man').iterdir())
    assert sources
    for name in sources:
        title, section = name.rsplit('.', 1)
        made = (BIN.parent / 'man' / name).read_text()
        assert re.findall(r'^\.TH .*', made, re.M)[0].startswith(
            '.TH %s %s "%s" "resumelb %s" ' % (title.upper(), section, date, version))


def test_commands_that_are_not_run_here_exist():
    for pattern in ELSEWHERE:
        assert any(re.fullmatch(pattern, c) for c in COMMANDS), '%s: no such command any more' % pattern
    for command in (c for c in COMMANDS if is_elsewhere(c)):
        words = command.split()
        if words[0] == 'make':
            done = subprocess.run(['make', '-n', '-C', ROOT, *words[1:]], capture_output=True, text=True, timeout=LIMIT)
            assert done.returncode == 0, (command, done.stderr)
        elif words[0].startswith('dev/'):
            assert os.access(ROOT / words[0], os.X_OK), command
        elif words[0] == 'systemctl' and words[-1].startswith('resumelb'):
            assert (ROOT / 'conf/systemd' / (words[-1] + '.service')).exists() or \
                list((ROOT / 'conf/systemd').glob(words[-1] + '.service*')), command
        elif words[0] == 'cmake':
            presets = pathlib.Path(ROOT / 'CMakePresets.json').read_text().split('"workflowPresets"')[1]
            assert '{"name": "%s"' % words[-1] in presets
        elif words[0].startswith('./'):
            assert (ROOT / 'examples/newspapers' / words[0]).exists()
        elif 'pytest' in command:
            assert (ROOT / words[3]).exists()
            assert words[-1] in (ROOT / words[3]).read_text()


def test_commands_are_found_wherever_they_stand(tmp_path, monkeypatch):
    monkeypatch.setattr('support.commands.ROOT', tmp_path)
    (tmp_path / 'page.md').write_text('Say `resumelbctl status\nshop`, or `resumelbctl`:\n\n    $ odd --thing     # why\n    make a\n    makes = 1\n\n'
                                      '```sh\ncurl x\n```\n<!-- run -->\n```console\n$ curl y\n```\n`resumelb_total{x="a b"}`\n')
    (tmp_path / 'page.1').write_text('.SH EXAMPLES\n.nf\nresumelb \\-t \\-c x\n.fi\n.SH FILES\n')
    from support import commands
    assert sorted(commands.of_page('page.md')) == ['make a', 'odd --thing', 'resumelbctl status shop']
    assert commands.of_blocks('page.md') == ['curl x']
    assert commands.of_manual('page.1') == ['resumelb -t -c x']


