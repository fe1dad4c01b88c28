# SPDX-License-Identifier: Apache-2.0
"""docs/install.md on a machine with a systemd: packages are installed, used, upgraded under load and removed."""
import pathlib
import re
import shlex

from installed import (respond, begin_load, end_load, files_of_ours, main_pid, start_worker, take_over, wait_for_replacement,
                       wait_running)
from machine import ROOT

DEBS = ROOT / 'build' / 'deb'
VERSION = re.search(r'^project\(resumelb VERSION (\S+)', (ROOT / 'CMakeLists.txt').read_text(), re.M)[1]
UNITS = ('resumelb', 'resumelb-agent', 'resumelb-poolcounter')


def newer_packages(machine):
    """The same packages under a higher version, in the place of the others."""
    machine.run('''
        mkdir /root/newer
        for deb in build/deb/*.deb; do
            case $deb in *dbgsym*) continue ;; esac
            dpkg-deb -R "$deb" /root/tree
            sed -i -E 's/(^|[^0-9.])%s\\b/\\1%s+1/' /root/tree/DEBIAN/control
            dpkg-deb --root-owner-group -Znone -b /root/tree /root/newer >/dev/null
            rm -r /root/tree
        done
        rm build/deb/*.deb
        mv /root/newer/*.deb build/deb/
        rmdir /root/newer''' % (re.escape(VERSION), VERSION))


def owner_and_mode(machine, name):
    return machine.run('stat -c "%%U:%%G %%a" /etc/resumelb/%s.yaml' % name).strip()


def reload(machine, unit):
    log = 'journalctl --no-pager -o cat -u %s' % unit
    before = machine.run(log).count(' config-reloaded ')
    machine.run('systemctl reload %s' % unit)
    machine.wait('[ $(%s | grep -c " config-reloaded ") -gt %d ]' % (log, before), 'the configuration of %s read again' % unit)
    assert 'secret-file-exposed' not in machine.run(log)


def application_processes(machine):
    return set(machine.run('pgrep -f [s]hop.wsgi').split())


def lines_of(deb):
    return sorted(p.name for p in DEBS.glob(deb))


def test_packages_are_installed_used_upgraded_under_load_removed_and_purged(machine, page):
    assert [p for p in ('resumelb', 'resumelb-agent', 'resumelb-common', 'resumelb-dev', 'resumelb-poolcounter', 'resumelb-tools')
            if not lines_of('%s_*.deb' % p)] == [], 'make deb first'
    assert page.take('Debian packages', 0).strip() == 'make deb'      # what has made them, before this machine was there
    before = files_of_ours(machine)
    start_worker(machine)

    # The load balancer: runs at once.
    machine.run(page.take('Debian packages', 1))
    wait_running(machine, 'resumelb')
    machine.wait('curl -sf http://127.0.0.1:8081/healthz')
    machine.run(page.take('Debian packages', 2))
    assert respond(machine) == 'hello a.example'
    pid = main_pid(machine, 'resumelb')
    assert machine.run('ps -o user= -p %s' % pid).strip() == 'resumelb'
    assert machine.run('stat -c "%U:%G %a" /var/lib/resumelb /var/log/resumelb /run/resumelb /run/resumelb/tree').split('\n')[:4] == [
        'resumelb:resumelb 750', 'resumelb:resumelb 750', 'resumelb:resumelb 750', 'resumelb:resumelb 2770']
    assert owner_and_mode(machine, 'resumelb') == 'root:resumelb 640'
    machine.wait('grep -q a.example /var/log/resumelb/access.log')

    # Its log is rotated: what comes after is in a new file.
    machine.run('logrotate --force /etc/logrotate.d/resumelb')
    machine.wait('test -e /var/log/resumelb/access.log')
    respond(machine, 'after.example')
    machine.wait('grep -q after.example /var/log/resumelb/access.log')
    assert 'after.example' not in machine.read('/var/log/resumelb/access.log.1')

    # The agent: not started by itself; with an application, and the load balancer in front of it.
    machine.run(page.take('The agent', 0))
    assert owner_and_mode(machine, 'resumelb-agent') == 'root:root 640'
    assert not machine.good('systemctl is-active --quiet resumelb-agent || systemctl is-enabled --quiet resumelb-agent')
    machine.run(page.take('The agent', 1))
    wait_running(machine, 'resumelb-agent')
    machine.run("sed -i -E -e 's/^ +(workers|max_connections):/#&/' -e 's/#tree:/tree:/' /etc/resumelb/resumelb.yaml")
    machine.run(page.take('Debian packages', 3))
    take_over(machine, 'resumelb', page.take('Debian packages', 4))
    machine.wait('resumelbctl status | grep -q 127.0.0.1:9001')
    machine.wait('curl -sf http://127.0.0.1:8080/')
    process = machine.run('curl -si http://127.0.0.1:8080/ | sed -n "s/^x-pid: //ip"').strip()
    assert machine.run('ps -o user= -p %s' % process).strip() == 'www-data'

    # The pool counter daemon: a user of its own, which can read the configuration again.
    machine.run(page.take('The pool counter daemon', 0))
    wait_running(machine, 'resumelb-poolcounter')
    assert owner_and_mode(machine, 'resumelb-poolcounter') == 'root:resumelb-poolcounter 640'
    for unit in UNITS:
        reload(machine, unit)

    # Newer ones: other processes, no request that fails, the same application processes.
    newer_packages(machine)
    pids = {unit: main_pid(machine, unit) for unit in UNITS}
    processes = application_processes(machine)
    load = begin_load(machine)
    machine.run(page.take('Upgrade', 0))
    for unit in UNITS:
        wait_for_replacement(machine, unit, pids[unit])
    end_load(machine, load)
    # Load may have activated slots that were dormant: more processes, but those from before are there.
    assert processes and processes - application_processes(machine) == set()
    assert machine.run("dpkg-query -W -f '${Version}' resumelb") == VERSION + '+1'
    assert 'tree: directory' in machine.read('/etc/resumelb/resumelb.yaml')
    assert [owner_and_mode(machine, unit) for unit in UNITS] == ['root:resumelb 640', 'root:root 640', 'root:resumelb-poolcounter 640']
    for unit in UNITS:
        reload(machine, unit)

    # Removed: nothing runs, configuration and state stay. Purged: nothing is left.
    machine.run('rm -f /run/client.py')
    machine.run(page.take('Removal', 0))
    # The agent's supervisor ends by itself, after it (KillMode=process).
    machine.wait('! pgrep -x "resumelb|resumelb-agent|resumelb-poolco"')
    journal = machine.run('journalctl --no-pager -o cat')
    assert 'signal SIGKILL' not in journal
    # In order: the load balancer twice for a successor, and at its end; the agent with its processes.
    assert journal.count(' stopped exit=0') == 3, journal
    assert 'agent-phase-changed from=stopping to=closing' in journal
    # Every process that was started ended on request; none ended by itself.
    assert journal.count('process-stopped application=shop') == journal.count('process-spawned application=shop') >= 2, journal
    assert 'process-died' not in journal, journal
    machine.run('test -e /etc/resumelb/resumelb.yaml && test -d /var/lib/resumelb && test -e /var/log/resumelb/access.log')
    machine.run(page.take('Removal', 1))
    machine.run('apt-get purge -y resumelb-dev')
    assert files_of_ours(machine) - before == set()
    assert not machine.good('getent passwd resumelb || getent group resumelb || '
                            'getent passwd resumelb-poolcounter || getent group resumelb-poolcounter')


def test_the_header_package_builds_a_classifier_that_the_load_balancer_takes(machine):
    machine.run('apt-get install -y ./build/deb/resumelb_*.deb ./build/deb/resumelb-common_*.deb ./build/deb/resumelb-dev_*.deb')
    wait_running(machine, 'resumelb')
    start_worker(machine)
    machine.run('cp /usr/share/doc/resumelb-dev/examples/my_classifier.c /root/ && cd /root && '
                'cc -O2 -shared -fPIC -o /usr/local/lib/my_classifier.so my_classifier.c')
    machine.run("sed -i 's,classifier: host,classifier: {plugin: {path: /usr/local/lib/my_classifier.so}},' /etc/resumelb/resumelb.yaml")
    machine.run('resumelb -t -c /etc/resumelb/resumelb.yaml')
    take_over(machine, 'resumelb', 'systemctl kill --kill-whom=main -s USR2 resumelb')
    machine.wait('curl -sf http://127.0.0.1:8080/de/shop && curl -s http://127.0.0.1:8081/status.json | grep -q \'"de"\'')


def test_units_are_good_and_their_exposure_is_bounded(machine):
    machine.run('apt-get install -y ./build/deb/resumelb_*.deb ./build/deb/resumelb-common_*.deb ./build/deb/resumelb-agent_*.deb '
                './build/deb/resumelb-poolcounter_*.deb')
    bounds = {'resumelb': 20, 'resumelb-poolcounter': 16, 'resumelb-agent': 52}
    for unit in UNITS:
        assert machine.run('systemd-analyze verify %s.service' % unit) == ''
        machine.run('systemd-analyze security --no-pager --threshold=%d %s.service' % (bounds[unit], unit))


def test_manual_pages_are_there_for_every_program_and_without_a_warning(machine):
    machine.run('apt-get install -y ./build/deb/resumelb*_0*.deb')
    listed = machine.run('dpkg -L resumelb resumelb-agent resumelb-poolcounter resumelb-tools')
    pages = re.findall(r'^/usr/share/man/\S+\.gz$', listed, re.M)
    programs = [pathlib.Path(p).name for p in re.findall(r'^/usr/bin/\S+$', listed, re.M)]
    assert len(programs) == 4
    for program in programs:
        assert any(re.search(r'/%s\.[18]\.gz$' % program, p) for p in pages), program
    for name in ('resumelb.yaml', 'resumelb-agent.yaml', 'resumelb-poolcounter.yaml'):
        assert any(p.endswith('/man5/%s.5.gz' % name) for p in pages), name
    for p in pages:
        assert machine.run('mandoc -Tlint -Wwarning %s' % p) == ''
        assert machine.run('man --warnings -E UTF-8 -l -Tutf8 -Z %s 2>&1 >/dev/null' % p) == ''
    # Each program's page has a setting of its tables.
    for page, setting in (('resumelb', 'retry_budget'), ('resumelb-agent', 'adopt_timeout'), ('resumelb-poolcounter', 'upgrade_timeout')):
        assert setting in machine.run('man -P cat %s.yaml' % page)


def test_every_command_of_the_page_was_run_but_those_from_source(page):
    assert page.left - page.left_of('From source') == set()
    container = (ROOT / 'docs' / 'install.md').read_text().split('\n## Container\n')[1]
    targets = re.findall(r'--target (\S+)', container)
    stages = re.findall(r'^FROM \S+ AS (\S+)$', (ROOT / 'Dockerfile').read_text(), re.M)
    assert targets and set(targets) < set(stages) and stages[-1] == 'resumelb'
    assert all(shlex.split(line) for line in re.findall(r'^    (docker .*)$', container, re.M))
