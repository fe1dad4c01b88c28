# SPDX-License-Identifier: Apache-2.0
"""The four attacks of slowhttptest, with slow connections: other clients are served in the meantime, as by nginx."""
import contextlib
import pathlib
import re
import signal
import subprocess
import time

import pytest

from support.base import LIMIT, free_port, wait_until
from support.http import get
from support.scripted import serve

CONNECTIONS, AT_ONCE = 150, 100
ORDINARY = 40
LARGE = bytes(1 << 18)
MODES = {
    'slow headers': ['-H', '-i', '1', '-x', '24'],
    'slow body': ['-B', '-i', '1', '-s', '8192', '-x', '10'],
    'range': ['-R', '-a', '10', '-b', '3000', '-t', 'HEAD'],
    'slow read': ['-X', '-w', '512', '-y', '1024', '-n', '1', '-z', '32'],
}


def worker(c, head, body):
    c.respond(LARGE if b'/large' in head.split(b'\r\n')[0] else b'small')


def nginx(world, upstream):
    """Starts an nginx with the same worker. Returns its address."""
    port, directory = free_port(), world.directory / 'nginx'
    directory.mkdir()
    (directory / 'nginx.conf').write_text('''
        daemon off; pid nginx.pid; error_log stderr; user root;
        worker_processes 2;
        events { worker_connections 4096; }
        http {
            access_log off;
            client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
            server { listen 127.0.0.1:%d; location / { proxy_pass http://%s; } }
        }''' % (port, upstream))
    process = world.process(['/usr/sbin/nginx', '-p', directory, '-c', directory / 'nginx.conf'], 'nginx')
    address = '127.0.0.1:%d' % port

    def up():
        assert process.alive(), process.output()
        with contextlib.suppress(OSError):
            return get(address, '/').status == 200
    wait_until(up, 'nginx')
    return address


def established(port):
    """The number of connections to a port of 127.0.0.1."""
    local = '0100007F:%04X' % port
    rows = (row.split() for row in pathlib.Path('/proc/net/tcp').read_text().splitlines()[1:])
    return sum(1 for row in rows if row[1] == local and row[3] == '01')


def attacked(world, name, address, mode):
    """
    Sends ORDINARY requests while slowhttptest has its connections open. Returns how many get a response correctly, and the results of
    slowhttptest for the availability of the service.
    """
    path = '/large' if mode == 'slow read' else '/'
    attack = world.process(['slowhttptest', *MODES[mode], '-c', CONNECTIONS, '-r', '200', '-l', '3000', '-p', int(LIMIT),
                            '-u', 'http://%s%s' % (address, path)], 'slowhttptest-' + name)
    seen = set()

    def held():
        time.sleep(0.05)        # listing all connections of the machine is more expensive than most conditions
        seen.add(established(int(address.split(':')[1])) >= AT_ONCE)
        return True in seen or not attack.alive()
    wait_until(held, 'its connections')
    responded = sum(get(address, '/').body == b'small' for _ in range(ORDINARY))
    attack.kill(signal.SIGINT)
    attack.wait()
    told = re.sub(r'\x1b\[[0-9;]*[A-Za-z]', '', attack.output())
    # Range requests end as soon as they get a response.
    assert True in seen or mode == 'range', told[-2000:]
    return responded, re.findall(r'service available: *(\w+)', told)


@pytest.fixture(scope='module', autouse=True)
def versions():
    told = subprocess.run(['slowhttptest', '-h'], capture_output=True, text=True, timeout=LIMIT)
    print(re.search(r'version \S+', told.stdout + told.stderr, re.I)[0])


@pytest.mark.parametrize('mode', MODES)
def test_other_clients_are_served_during_the_attack(world, mode):
    w = world.scripted(serve(worker))
    lb = world.resumelb({'workers': [w.address]})
    ours = attacked(world, 'resumelb', lb.address, mode)
    theirs = attacked(world, 'nginx', nginx(world, w.address), mode)
    print('%s: resumelb %s, nginx %s' % (mode, ours, theirs))
    assert ours[0] == ORDINARY and ours[0] >= theirs[0]
    assert ours[1] and set(ours[1]) == {'YES'}
    assert lb.process.alive() and lb.get('/').body == b'small'
