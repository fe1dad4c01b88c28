# SPDX-License-Identifier: Apache-2.0
"""No program has an admin address beyond loopback without a token, however it is written."""
import json
import socket
import subprocess

import pytest

from support.base import BIN, LIMIT, free_port, wait_until
from support.http import get

TOKEN = 'a long random text'


def configuration(program, directory, admin):
    if program == 'resumelb':
        c = {'listen': [{'address': '127.0.0.1:%d' % free_port()}], 'workers': ['127.0.0.1:9']}
    elif program == 'resumelb-agent':
        c = {'state_dir': str(directory / 'state'),
             'applications': {'app': {'address': '127.0.0.1:%d+' % free_port(), 'command': ['/bin/cat'], 'min_processes': 0,
                                      'max_processes': 1}}}
    else:
        c = {'listen': ['127.0.0.1:%d' % free_port()], 'types': {'A': {'slots': 1, 'workers': 1}}}
    path = directory / 'config.yaml'
    path.write_text(''.join('%s: %s\n' % (k, json.dumps(v)) for k, v in {**c, 'admin': admin}.items()))
    return path


def run(program, *args):
    return subprocess.run([BIN / program, *map(str, args)], capture_output=True, text=True, timeout=LIMIT)


PROGRAMS = ['resumelb', 'resumelb-agent', 'resumelb-poolcounter']
BEYOND = ['0.0.0.0:%d', '[::]:%d', '[::ffff:0.0.0.0]:%d', '[::ffff:10.0.0.1]:%d', '10.0.0.1:%d', '[fd00::1]:%d',
          '128.0.0.1:%d', '126.255.255.255:%d']


@pytest.mark.parametrize('program', PROGRAMS)
def test_beyond_loopback_a_token_is_a_must(tmp_path, program):
    port = free_port()
    for address in BEYOND:
        address %= port
        for admin in ({'address': address}, {'address': ['127.0.0.1:%d' % free_port(), address]},
                      {'address': address, 'token': ''}, {'address': address, 'hosts': ['a.example']}):
            path = configuration(program, tmp_path, admin)
            r = run(program, '-t', '-c', path)
            assert r.returncode == 1 and 'token' in r.stderr, (admin, r.stderr)
        r = run(program, '-c', path)               # and it does not start either
        assert r.returncode == 1, r.stderr
    with pytest.raises(OSError):
        socket.create_connection(('127.0.0.1', port), timeout=LIMIT)


@pytest.mark.parametrize('program', PROGRAMS)
def test_loopback_and_unix_sockets_need_none(tmp_path, program):
    for address in ('127.0.0.1:%d' % free_port(), '[::1]:%d' % free_port(), '127.8.9.10:%d' % free_port(),
                    'unix:%s/admin.sock' % tmp_path):
        r = run(program, '-t', '-c', configuration(program, tmp_path, {'address': address}))
        assert r.returncode == 0, r.stderr


def test_names_of_the_agents_own_files_are_no_applications(tmp_path):
    for name in ('agent.lock', 'supervisor.lock', 'supervisor.sock', 'run', 'tree.json', 'tree.json.bad', 'tree.json.tmp.1'):
        path = tmp_path / 'config.yaml'
        path.write_text('state_dir: %s\napplications:\n  %s: {command: [/bin/cat], address: "127.0.0.1:1"}\n'
                        % (tmp_path / 'state', name))
        r = run('resumelb-agent', '-t', '-c', path)
        assert r.returncode == 1 and '%s:3:3: applications: %s is the name of a file' % (path, name) in r.stderr, r.stderr


def test_an_address_of_the_agents_own_slots_is_rejected(tmp_path):
    port = free_port()
    slots = {'app': {'address': '127.0.0.1:%d+' % port, 'command': ['/bin/cat'], 'min_processes': 0, 'max_processes': 2}}
    path = tmp_path / 'config.yaml'
    rows = {'state_dir': str(tmp_path / 'state'), 'applications': slots, 'admin': {'address': '127.0.0.1:%d' % (port + 1)}}
    path.write_text(''.join('%s: %s\n' % (k, json.dumps(v)) for k, v in rows.items()))
    r = run('resumelb-agent', '-t', '-c', path)
    assert r.returncode == 1 and '%s:3:' % path in r.stderr and 'is in use by app' in r.stderr, r.stderr


@pytest.mark.parametrize('program', PROGRAMS)
def test_with_a_token_only_health_is_reported_without_it(world, program):
    port = free_port()
    path = configuration(program, world.directory, {'address': '0.0.0.0:%d' % port, 'token': TOKEN})
    world.process([BIN / program, '-c', path], program)
    here = '127.0.0.1:%d' % port

    def responds():
        try:
            return get(here, '/metrics', host=here)
        except OSError:
            return None
    wait_until(responds, 'the admin address')
    for target in ('/', '/metrics', '/status.json'):
        assert get(here, target, host=here).status == 401
        assert get(here, target, host=here, headers=[('Authorization', 'Bearer x' + TOKEN)]).status == 401
        assert get(here, target, host=here, headers=[('Authorization', 'Bearer')]).status == 401
    assert (get(here, '/healthz', host=here).status, get(here, '/healthz', host=here).body) == (200, b'')
    assert get(here, '/readyz', host=here).status in (200, 503)
    assert get(here, '/metrics', host=here, headers=[('Authorization', 'Bearer ' + TOKEN)]).status == 200
