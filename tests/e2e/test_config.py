# SPDX-License-Identifier: Apache-2.0
"""All errors of a configuration are reported with their positions, and nothing is started partially."""
import os
import re
import signal
import socket
import subprocess
import time

import pytest
from support.base import BIN, LIMIT, free_port, wait_until
from support.certificates import Pair
from support.scripted import hello, serve

BAD = '''\
listen:
  - adress: 127.0.0.1:8080
  - address: nonsense
  - {address: "127.0.0.1:1", tls: {certificate: /nowhere/c.pem, key: /nowhere/k.pem}}
threads: many
admin: {address: 10.1.2.3:80}
max_headers: 5000
applications:
  shop:
    hosts: [shop.example, SHOP.example]
    classifier: {regex: {variable: PATH_INFO, pattern: "(unclosed"}}
    workers: [{address: "127.0.0.1:9101"}, {address: "127.0.0.1:99999"}]
    pool: {varience: 4, policy: clever}
    connect_timeout: 1 fortnight
    trusted_proxies: [10.0.0.0/8, 10.0.0.1/8]
    methods: [GET, CONNECT]
'''


def check(path, program='resumelb'):
    return subprocess.run([BIN / program, '-t', '-c', path], capture_output=True, text=True, timeout=LIMIT)


def test_every_mistake_is_reported_with_file_line_and_column(tmp_path):
    path = tmp_path / 'bad.yaml'
    path.write_text(BAD)
    r = check(path)
    assert r.returncode == 1
    *lines, summary = r.stderr.strip().split('\n')
    assert 'bad' in summary and str(len(lines)) in summary
    assert all(re.match(re.escape(str(path)) + r':\d+:\d+: .+', line) for line in lines), r.stderr
    where = {int(line.split(':')[1]) for line in lines}
    assert where >= {2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16}, (sorted(where), r.stderr)
    assert 'did you mean "address"' in r.stderr and 'did you mean "variance"' in r.stderr
    assert 'resume' in [line for line in lines if 'clever' in line][0]


@pytest.mark.parametrize('text, says', [
    ('listen: [', 'bad.yaml:'), ('a: &x 1\nb: *x\n', 'anchor'), ('\x00', ''), ('[1, 2]', 'name: value'), ('{', ''),
    ('listen: [{address: "127.0.0.1:1"}]\nlisten: []\n', 'listen'), ('', 'listen'),
    ('x: ' + '[' * 200 + ']' * 200, 'deep'),
])
def test_broken_files_are_rejected(tmp_path, text, says):
    path = tmp_path / 'bad.yaml'
    path.write_text(text)
    r = check(path)
    assert r.returncode == 1 and says in r.stderr, r.stderr


@pytest.mark.parametrize('address', [':8080', '*:8080', '8080'])
def test_a_port_without_an_address_is_reported_with_the_remedy(tmp_path, address):
    path = tmp_path / 'bad.yaml'
    texts = {
        'resumelb': ['listen: ["%s"]\nworkers: ["127.0.0.1:1"]\n', 'listen:\n  - address: "%s"\nworkers: ["127.0.0.1:1"]\n',
                     'admin: {address: "%s"}\nlisten: ["127.0.0.1:1"]\nworkers: ["127.0.0.1:1"]\n'],
        'resumelb-poolcounter': ['listen: ["%s"]\n', 'listen: ["127.0.0.1:1"]\nadmin: {address: ["%s"]}\n'],
        'resumelb-agent': ['applications: {x: {command: "x", listen: ["%s"]}}\n', 'admin: {address: "%s"}\napplications: {x: {command: "x"}}\n'],
    }
    for program, ways in texts.items():
        for text in ways:
            path.write_text(text % address)
            r = check(path, program)
            says = ': %s: address is missing: 0.0.0.0:8080 is all of IPv4, [::]:8080 all of IPv6' % address
            assert r.returncode == 1 and says in r.stderr, (text, r.stderr)


def test_the_commented_configurations_are_good(tmp_path):
    from support.base import ROOT
    for program in ('resumelb', 'resumelb-agent'):
        r = check(ROOT / 'conf' / (program + '.yaml'), program)
        assert r.returncode == 0, r.stderr


SECRETS = {
    'resumelb': 'listen: ["127.0.0.1:%d"]\nworkers: [{address: "127.0.0.1:1"}]\nadmin: {address: "127.0.0.1:%d", token: t}\n',
    'resumelb-agent': 'state_dir: DIRECTORY\nadmin: {address: "127.0.0.1:%.0s%d", actions_token: t}\n'
                      'applications: {x: {command: [/bin/true], root: /, address: "127.0.0.1:0", min_processes: 0, max_processes: 1}}\n',
    'resumelb-poolcounter': 'listen: "127.0.0.1:%d"\nadmin: {address: "127.0.0.1:%d", token: t}\n',
}


def exposed(path, output):
    return re.findall(r' secret-file-exposed file=%s mode=(\d+) hint="chmod o-r"' % re.escape(str(path)), output)


@pytest.mark.parametrize('program', SECRETS)
def test_a_secret_that_others_may_read_is_warned_of_at_test_start_and_sighup(world, program):
    path, admin = world.directory / 'secret.yaml', free_port()
    path.write_text(SECRETS[program].replace('DIRECTORY', str(world.directory / 'state')) % (free_port(), admin))
    path.chmod(0o640)
    good = check(path, program)
    assert good.returncode == 0 and 'secret-file-exposed' not in good.stderr, good.stderr
    path.chmod(0o644)
    assert exposed(path, check(path, program).stderr) == ['0644']
    p = world.process([BIN / program, '-c', path], program)
    wait_until(lambda: responds(admin), 'the admin address')
    wait_until(lambda: exposed(path, p.output()) == ['0644'], 'the warning')
    # Re-read without a warning after the repair, and with a warning when the fault is back.
    for read, (mode, modes) in enumerate([(0o640, ['0644']), (0o646, ['0644', '0646'])], 1):
        path.chmod(mode)
        p.kill(signal.SIGHUP)
        wait_until(lambda n=read: p.output().count(' config-reloaded ') == n, 'the configuration read again')
        assert exposed(path, p.output()) == modes


def test_private_keys_that_others_may_read_are_warned_of_and_a_file_without_secrets_is_not(world):
    pairs = {'resumelb': ('listen: [{address: "127.0.0.1:1", %s}]\nworkers: [{address: "127.0.0.1:1"}]\n',
                          'listen: [{address: "127.0.0.1:1", tls: {certificates: [%s]}}]\nworkers: [{address: "127.0.0.1:1"}]\n',
                          'listen: ["127.0.0.1:1"]\nworkers: [{address: "127.0.0.1:1"}]\nworker_%s\n'),
             'resumelb-agent': ('state_dir: %s\napplications: {x: {command: [/bin/true], root: /, address: "127.0.0.1:0"}}\n%%s\n'
                                % (world.directory / 'state'),)}
    path, pair = world.directory / 'tls.yaml', Pair(world.directory, 'pair', ['a.example'])
    key = pair.key
    for program, texts in pairs.items():
        for text in texts:
            entry = '{certificate: %s, key: %s}' % (pair.cert, key)
            path.write_text(text % (entry if 'certificates' in text else 'tls: ' + entry))
            path.chmod(0o644)
            key.chmod(0o640)
            good = check(path, program)
            assert good.returncode == 0 and 'exposed' not in good.stderr, good.stderr
            key.chmod(0o644)
            assert exposed(key, check(path, program).stderr) == ['0644']
            assert good.stderr.count('\n') == 1, good.stderr


def responds(port):
    try:
        socket.create_connection(('127.0.0.1', port)).close()
        return True
    except OSError:
        return False


def test_usage_is_exit_2_version_and_help_are_0(tmp_path):
    for program in ('resumelb', 'resumelb-agent'):
        run = lambda *a: subprocess.run([BIN / program, *a], capture_output=True, text=True, timeout=LIMIT)
        assert run('--nonsense').returncode == 2
        assert run('-t').returncode == 2
        assert run('--describe', 'nothing').returncode == 2
        assert run('-v').returncode == 0 and re.search(r'\d+\.\d+\.\d+', run('--version').stdout)
        assert run('-h').returncode == 0 and '-t' in run('--help').stdout
        assert run('-t', '-c', str(tmp_path / 'missing.yaml')).returncode == 1
        for what in ('settings', 'stats', 'outcomes'):
            described = run('--describe', what)
            assert described.returncode == 0 and '| --- |' in described.stdout


def test_an_address_in_use_stops_the_start_with_a_clear_message(world):
    w = world.scripted(serve(hello))
    taken = world.scripted(serve(hello))
    config = {'workers': [{'address': w.address}]}
    lb = world.resumelb(config, listen=[{'address': '127.0.0.1:%d' % free_port()}, {'address': taken.address}], wait=False)
    assert lb.process.wait() == 1
    lb.process.wait_logged(taken.address)
    assert not w.requests


def test_a_client_that_connects_during_the_start_is_served_or_rejected_never_reset(world):
    w = world.scripted(serve(hello))
    # Each listen() is delayed, so that a client would meet a socket that listens only for a check. The tracer is not the parent (-D),
    # and LeakSanitizer does not work in a traced process.
    slowly = ['strace', '-D', '-f', '-q', '--seccomp-bpf', '-o', world.directory / 'listens', '-e', 'trace=listen', '-e', 'inject=listen:delay_exit=100000']
    lb = world.resumelb({'workers': [{'address': w.address}]}, wait=False, wrapper=slowly,
                        env={'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '') + ':detect_leaks=0'})
    served = 0
    while served < 20:
        assert lb.process.alive(), lb.process.output()
        try:
            assert lb.get().body == b'hello'
            served += 1
        except ConnectionRefusedError:
            time.sleep(0.002)
    assert len((world.directory / 'listens').read_text().splitlines()) >= 3, 'the admin address and a listener for each loop'


def test_a_bad_configuration_at_sighup_changes_nothing(world):
    a, b = world.scripted(serve(hello)), world.scripted(serve(hello))
    lb = world.resumelb({'workers': [{'address': a.address}]})
    assert lb.get().body == b'hello'
    lb.reload({'workers': [{'address': b.address}, {'address': 'rubbish'}]})
    wait_until(lambda: 'rubbish' in lb.process.output(), 'the rejection in the log')
    assert set(lb.workers()) == {a.address}
    lb.reload({'workers': [{'address': b.address}]})
    wait_until(lambda: set(lb.workers()) == {b.address}, 'the new worker')
    assert lb.get().body == b'hello' and b.requests


def test_sigterm_finishes_what_is_in_progress_and_exits_0(world):
    import threading
    from support.http import Client
    gate = threading.Event()

    def respond(c, head, body):
        gate.wait(LIMIT)
        c.respond(b'done')
    w = world.scripted(serve(respond))
    lb = world.resumelb({'workers': [{'address': w.address}]})
    with Client(lb.address) as c, Client(lb.address) as idle:
        c.send()
        wait_until(lambda: w.requests, 'the request at the worker')
        lb.process.popen.terminate()
        wait_until(lambda: not idle._more(), 'the idle connection to be closed')
        gate.set()
        assert c.receive().body == b'done'
    assert lb.process.wait() == 0
