# SPDX-License-Identifier: Apache-2.0
"""Privileges of the load balancer with the setting `user`. Without root the tests check that it reports the error."""
import os
import signal
import stat
import subprocess

import pytest

from support.base import BIN, LIMIT, free_port, low_port, wait_until
from support.certificates import Pair, shown
from support.http import Client, get
from support.scripted import hello, serve
from rights_support import NOBODY, ORDINARY, ROOT, assert_is_none
from upgrade_support import upgrade


def settings_of(world, **more):
    w = world.scripted(serve(hello))
    return {'workers': [w.address], 'user': 'nobody', 'state_dir': str(world.directory / 'state'),
            'access_log': str(world.directory / 'access.log'), **more}


def rejected_without_root(world):
    lb = world.resumelb(settings_of(world), wait=False, wrapper=ORDINARY, name='ordinary')
    # the program does not run as root: it must not become another user than its own
    user = 'daemon' if ROOT else 'nobody'
    lb.process.stop()
    lb = world.resumelb(settings_of(world, user=user), wait=False, wrapper=ORDINARY, name='rejected')
    assert lb.process.wait() == 1
    lb.process.wait_logged('only root can become another user')


def test_a_process_that_is_not_roots_cannot_become_another_user(open_world):
    rejected_without_root(open_world)


def test_root_becomes_the_user_for_good_and_everything_continues_working(open_world):
    if not ROOT:
        rejected_without_root(open_world)
        return
    directory = open_world.directory
    pair = Pair(directory, 'site', ['test.example'])
    # readable only by root: it is read before the privileges are dropped
    os.chmod(pair.key, 0o600)
    tls, unix = '127.0.0.1:%d' % free_port(), directory / 'front.sock'
    low = low_port()
    listen = [{'address': '127.0.0.1:%d' % low}, {'address': tls, 'tls': pair.entry},
              {'address': 'unix:%s' % unix, 'mode': 660}]
    lb = open_world.resumelb(settings_of(open_world), listen=listen)
    assert_is_none(lb.process.pid, threads=3)
    assert get('127.0.0.1:%d' % low).status == 200
    assert shown(tls, 'test.example') == pair.fingerprint
    assert (unix.stat().st_uid, stat.S_IMODE(unix.stat().st_mode)) == (NOBODY, 0o660)
    with Client('unix:%s' % unix) as c:
        assert c.request().status == 200
    log = directory / 'access.log'
    wait_until(lambda: log.exists() and log.read_text().count('\n') == 2, 'the access log')
    assert log.stat().st_uid == NOBODY and (directory / 'state').stat().st_uid == NOBODY
    # logs are reopened as the user, and a key that it may not read is reported; nothing else changes
    log.rename(directory / 'rotated.log')
    lb.reload()
    wait_until(lambda: 'config-reload-failed' in lb.process.output(), 'the rejection')
    assert str(pair.key) in lb.process.output() and 'Permission denied' in lb.process.output()
    wait_until(log.exists, 'the new log')
    assert shown(tls, 'test.example') == pair.fingerprint
    # a key that it may read is used
    os.chown(pair.key, NOBODY, NOBODY)
    renewed = Pair(directory, 'renewed', ['test.example'])
    renewed.copy_to(pair)
    lb.reload()
    wait_until(lambda: shown(tls, 'test.example') == renewed.fingerprint, 'the new certificate')
    # a new process needs no root privileges: it inherits the socket of the low port
    upgrade(lb)
    assert_is_none(lb.process.pid, threads=3)
    assert get('127.0.0.1:%d' % low).status == 200
    assert lb.process.stop() == 0
    assert not unix.exists()


def test_an_ordinary_user_can_do_everything(open_world):
    settings = settings_of(open_world)
    del settings['user']
    lb = open_world.resumelb(settings, wrapper=ORDINARY)
    assert lb.get().status == 200
    lb.reload({'retries': 3})
    wait_until(lambda: lb.app()['settings']['retries']['value'] == '3', 'the reload')
    assert 'running-as-root' not in lb.process.output()
    upgrade(lb)
    assert lb.get().status == 200


def test_root_without_a_user_is_warned_about_once(world):
    w = world.scripted(serve(hello))
    lb = world.resumelb({'workers': [w.address]})
    lb.process.kill(signal.SIGHUP)
    wait_until(lambda: 'config-reloaded' in lb.process.output(), 'the reload')
    wait_until(lambda: lb.process.output().count('running-as-root') == (1 if ROOT else 0), 'running-as-root')


@pytest.mark.parametrize('settings, words', [
    ({'user': 'no-such-user'}, 'user no-such-user: unknown user'),
    ({'user': 'nobody', 'group': 'no-such-group'}, 'unknown group'),
    ({'group': 'nogroup'}, 'group nogroup: requires user'),
])
def test_a_user_that_is_not_there_is_a_bad_configuration(world, settings, words):
    path = world.directory / 'bad.yaml'
    path.write_text('listen: [{address: "127.0.0.1:1"}]\nworkers: ["127.0.0.1:2"]\n'
                    + ''.join('%s: %s\n' % x for x in settings.items()))
    out = subprocess.run([BIN / 'resumelb', '-c', path, '-t'], capture_output=True, text=True, timeout=LIMIT)
    assert out.returncode == 1 and words in out.stderr
