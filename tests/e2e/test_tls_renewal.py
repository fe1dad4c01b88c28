# SPDX-License-Identifier: Apache-2.0
"""Certificates are replaced while connections are open: by SIGHUP, and automatically when their files change."""
import os

import pytest
from support.base import free_port, wait_until
from support.certificates import Pair, dial, shown
from support.http import Client
from support.scripted import hello, serve


@pytest.fixture
def pairs(world):
    return {name: Pair(world.directory, name, [name + '.example']) for name in ('live', 'other', 'new')}


def start(world, pairs):
    w = world.scripted(serve(hello))
    address = '127.0.0.1:%d' % free_port()
    lb = world.resumelb({'workers': [w.address]}, threads=3, listen=[
        {'address': address, 'tls': {'certificates': [pairs['other'].entry, pairs['live'].entry]}}])
    return lb, address


def test_changed_files_are_served_and_connections_continue(world, pairs):
    lb, address = start(world, pairs)
    new = Pair(world.directory, 'renewed', ['live.example'])
    with Client(None, sock=dial(address, 'live.example')) as c:
        assert c.request(host='live.example').status == 200
        new.copy_to(pairs['live'])
        wait_until(lambda: shown(address, 'live.example') == new.fingerprint, 'the new certificate')
        assert all(shown(address, 'live.example') == new.fingerprint for _ in range(20)), 'on every loop'
        assert shown(address, 'other.example') == pairs['other'].fingerprint
        # for an existing connection the old certificate still decides which requests are misdirected
        assert c.request(host='live.example').status == 200
        assert c.request(host='other.example').status == 421
    lb.process.wait_logged('certificates-reloaded address=' + address)


def test_a_replaced_file_is_noticed_by_its_identity(world, pairs):
    lb, address = start(world, pairs)
    new = Pair(world.directory, 'renewed', ['live.example'])
    # with the same size and time, as far as possible
    for source, target in ((new.key, pairs['live'].key), (new.cert, pairs['live'].cert)):
        old = os.stat(target)
        os.utime(source, ns=(old.st_atime_ns, old.st_mtime_ns))
        os.rename(source, target)
    wait_until(lambda: shown(address, 'live.example') == pairs['live'].fingerprint, 'the new certificate')


def test_half_a_pair_keeps_the_old_one_until_the_other_half_comes(world, pairs):
    lb, address = start(world, pairs)
    old = pairs['live'].fingerprint
    new = Pair(world.directory, 'renewed', ['live.example'])
    text = new.cert.read_bytes()
    pairs['live'].cert.write_bytes(text)
    wait_until(lambda: 'certificates-reload-failed' in lb.process.output(), 'it to be noticed')
    assert shown(address, 'live.example') == old
    # a second invalid change is not logged again; the failure ends when a usable pair is found
    pairs['live'].cert.write_bytes(text[:200])
    pairs['live'].key.write_bytes(new.key.read_bytes())
    pairs['live'].cert.unlink()
    pairs['live'].cert.write_bytes(text)
    wait_until(lambda: shown(address, 'live.example') == new.fingerprint, 'the new certificate')
    wait_until(lambda: lb.process.output().count('certificates-reload-failed') == 1, 'certificates-reload-failed')
    # the next failure is logged again
    pairs['live'].key.unlink()
    wait_until(lambda: lb.process.output().count('certificates-reload-failed') == 2, 'it to be noticed')
    assert shown(address, 'live.example') == new.fingerprint


def test_a_bad_pair_rejects_the_whole_reload(world, pairs):
    lb, address = start(world, pairs)
    retries = lambda: lb.app()['settings']['retries']['value']
    with Client(None, sock=dial(address, 'live.example')) as c:
        assert c.request(host='live.example').status == 200
        lb.config['listen'][0]['tls'] = {'certificates': [
            pairs['new'].entry, {'certificate': str(pairs['live'].cert), 'key': str(pairs['new'].key)}]}
        lb.reload({'retries': 7})
        wait_until(lambda: 'config-reload-failed' in lb.process.output(), 'the rejection')
        lb.process.wait_logged('%s:1:' % lb.path)
        lb.process.wait_logged(str(pairs['new'].key))
        assert retries() == '2' and shown(address, None) == pairs['other'].fingerprint
        # a valid configuration with another list of certificates: the connection stays open
        lb.config['listen'][0]['tls'] = pairs['new'].entry
        lb.reload()
        wait_until(lambda: retries() == '7', 'the reload')
        assert all(shown(address, 'live.example') == pairs['new'].fingerprint for _ in range(20))
        assert c.request(host='live.example').status == 200
    # the new files are watched
    other = Pair(world.directory, 'later', ['new.example'])
    other.copy_to(pairs['new'])
    wait_until(lambda: shown(address, None) == other.fingerprint, 'the changed file')


def test_certificates_change_under_many_handshakes_without_a_failure(world, pairs):
    lb, address = start(world, pairs)
    choices = [pairs['live'].entry, pairs['new'].entry]
    for turn in range(10):
        lb.config['listen'][0]['tls'] = choices[turn % 2]
        lb.reload()
        for _ in range(10):
            with Client(None, sock=dial(address, None)) as c:
                assert c.request().status == 200
    lb.process.wait_logged('config-reloaded')
