# SPDX-License-Identifier: Apache-2.0
"""docs/install.md, from source: installed on a machine with a systemd, upgraded under load and removed."""
import re

from installed import respond, begin_load, end_load, files_of_ours, start_worker, take_over, wait_running


def test_from_source_it_is_installed_upgraded_under_load_and_removed(machine, page):
    before = files_of_ours(machine)
    start_worker(machine)
    machine.run(page.take('From source', 0))
    machine.run(page.take('From source', 1))
    wait_running(machine, 'resumelb')
    assert respond(machine) == 'hello a.example'
    machine.run('man --where resumelb.yaml')
    assert machine.run('stat -c "%G %a" /usr/local/etc/resumelb/*.yaml').split('\n')[:3] == ['root 640', 'resumelb-poolcounter 640', 'resumelb 640']
    machine.run("sed -i 's/classifier: host/&  # of mine/' /usr/local/etc/resumelb/resumelb.yaml")

    load = begin_load(machine)
    take_over(machine, 'resumelb', page.take('From source', 2))
    end_load(machine, load)
    assert '# of mine' in machine.read('/usr/local/etc/resumelb/resumelb.yaml')

    machine.run('rm -f /run/client.py')
    machine.run(page.take('From source', 3))
    left = files_of_ours(machine) - before
    assert {f for f in left if not re.match(r'/usr/local/etc/|/var/(lib|log)/|/run/|/etc/systemd/', f)} - {
        # Directories, which may have been there before.
        '/usr/local/include/resumelb', '/usr/local/share/doc/resumelb'} == set()


def test_destdir_and_prefix_hold_every_file(machine):
    machine.run('make install DESTDIR=/root/stage PREFIX=/usr')
    found = machine.run('cd /root/stage && find . -type f | sort').split()
    tops = {'/'.join(f.split('/')[1:3]) for f in found}
    assert tops == {'etc/logrotate.d', 'etc/resumelb', 'usr/bin', 'usr/include', 'usr/lib', 'usr/share'}
    unit = machine.read('/root/stage/usr/lib/systemd/system/resumelb.service')
    assert 'ExecStart=/usr/bin/resumelb -c /etc/resumelb/resumelb.yaml' in unit
    machine.run('make install DESTDIR=/root/stage2 PREFIX=/srv/balancer')
    assert machine.run('find /root/stage2 -maxdepth 2').split() == ['/root/stage2', '/root/stage2/srv', '/root/stage2/srv/balancer']
    assert 'ExecStart=/srv/balancer/bin/resumelb -c /srv/balancer/etc/resumelb/resumelb.yaml' in machine.read(
        '/root/stage2/srv/balancer/lib/systemd/system/resumelb.service')


def test_every_command_from_source_was_run(page):
    assert page.left_of('From source') == set()
