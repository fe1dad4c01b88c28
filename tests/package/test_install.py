# SPDX-License-Identifier: Apache-2.0
"""docs/install.md on a machine with a systemd: packages and source are installed, used, upgraded under load and removed."""
import json
import pathlib
import re
import shlex
import subprocess

from machine import ROOT

DEBS = ROOT / 'build' / 'deb'
UNITS = ('resumelb', 'resumelb-agent', 'resumelb-poolcounter')
# All places where something of ours could be; the project's own folder is none.
OURS = r"find / -xdev \( -path '%s' -o -path /proc -o -path /tmp -o -path /work -o -path /root/.cache \) -prune -o -iname '*resumelb*' -print" % ROOT

APPLICATION = '''
import os
def wsgi(environ, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain'), ('X-Pid', str(os.getpid()))])
    return [b'hello ' + environ['HTTP_HOST'].encode()]
'''
# Asks until /run/stop is there; then says how many answers it had, and what was wrong.
CLIENT = '''
import http.client, json, os
asked, wrong = 0, []
while not os.path.exists('/run/stop') or asked == 0:
    asked += 1
    try:
        c = http.client.HTTPConnection('127.0.0.1', 8080, timeout=20)
        c.request('GET', '/', headers={'Host': 'site%d.example' % (asked % 7)})
        r = c.getresponse()
        body = r.read()
        if r.status != 200 or body != b'hello site%d.example' % (asked % 7):
            wrong.append('%d %r' % (r.status, body))
        c.close()
    except OSError as e:
        wrong.append(repr(e))
    if asked == 20:
        open('/run/asking', 'w').close()
print(json.dumps({'asked': asked, 'wrong': wrong[:5]}))
'''


def files_of_ours(machine):
    return set(machine.run(OURS, status=None).split('\n')) - {''}


def start_worker(machine):
    """gunicorn at 127.0.0.1:9101, as a service of its own."""
    machine.run('mkdir -p /srv/shop/shop')
    machine.write('/srv/shop/shop/__init__.py', '')
    machine.write('/srv/shop/shop/wsgi.py', APPLICATION.replace('wsgi(', 'application('))
    machine.run('systemd-run --unit=worker --property=WorkingDirectory=/srv/shop '
                'gunicorn --workers=1 --bind 127.0.0.1:9101 shop.wsgi')
    machine.wait('curl -sf http://127.0.0.1:9101/')


def main_pid(machine, unit):
    return machine.run('systemctl show -P MainPID %s' % unit).strip()


def answer(machine, host='a.example'):
    return machine.run('curl -sf -H "Host: %s" http://127.0.0.1:8080/' % host)


def wait_running(machine, unit):
    machine.wait('systemctl is-active --quiet %s' % unit)
    assert machine.run('systemctl show -P NRestarts %s' % unit).strip() == '0'


def take_over(machine, unit, command):
    """COMMAND, by which another process is the unit's, and the one before ends."""
    pid = main_pid(machine, unit)
    machine.run(command)
    wait_for_successor(machine, unit, pid)


def wait_for_successor(machine, unit, pid):
    machine.wait('p=$(systemctl show -P MainPID %s); [ "$p" != %s ] && [ "$p" != 0 ]' % (unit, pid), 'another %s' % unit)
    machine.wait('! kill -0 %s' % pid, 'the end of the %s before' % unit)
    wait_running(machine, unit)


def newer_packages(machine):
    """The same packages under a higher version, in the place of the others."""
    machine.run('''
        mkdir /root/newer
        for deb in build/deb/*.deb; do
            case $deb in *dbgsym*) continue ;; esac
            dpkg-deb -R "$deb" /root/tree
            sed -i -E 's/0\\.1\\.0\\b/0.1.0+1/' /root/tree/DEBIAN/control
            dpkg-deb --root-owner-group -Znone -b /root/tree /root/newer >/dev/null
            rm -r /root/tree
        done
        rm build/deb/*.deb
        mv /root/newer/*.deb build/deb/
        rmdir /root/newer''')


def begin_load(machine):
    machine.write('/run/client.py', CLIENT)
    load = machine.popen('/usr/bin/python3 /run/client.py', stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    machine.wait('test -e /run/asking')
    return load


def end_load(machine, load):
    """At least as many requests again as before, all of them good."""
    machine.run('touch /run/stop')
    out, _ = load.communicate(timeout=60)
    told = json.loads(out)
    assert told['wrong'] == [] and told['asked'] > 20, told


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
    assert answer(machine) == 'hello a.example'
    pid = main_pid(machine, 'resumelb')
    assert machine.run('ps -o user= -p %s' % pid).strip() == 'resumelb'
    assert machine.run('stat -c "%U:%G %a" /var/lib/resumelb /var/log/resumelb /run/resumelb /run/resumelb/tree').split('\n')[:4] == [
        'resumelb:resumelb 750', 'resumelb:resumelb 750', 'resumelb:resumelb 750', 'resumelb:resumelb 2770']
    machine.wait('grep -q a.example /var/log/resumelb/access.log')

    # Its log is rotated: what comes after is in a new file.
    machine.run('logrotate --force /etc/logrotate.d/resumelb')
    machine.wait('test -e /var/log/resumelb/access.log')
    answer(machine, 'after.example')
    machine.wait('grep -q after.example /var/log/resumelb/access.log')
    assert 'after.example' not in machine.read('/var/log/resumelb/access.log.1')

    # The agent: not started by itself; with an application, and the load balancer in front of it.
    machine.run(page.take('The agent', 0))
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

    # The pool counter daemon: nobody's user.
    machine.run(page.take('The pool counter daemon', 0).replace('resumelbctl', 'sleep 0; resumelbctl'))
    wait_running(machine, 'resumelb-poolcounter')

    # Newer ones: other processes, no request that fails, the same application processes.
    newer_packages(machine)
    pids = {unit: main_pid(machine, unit) for unit in UNITS}
    processes = machine.run('pgrep -f [s]hop.wsgi | sort').split()
    load = begin_load(machine)
    machine.run(page.take('Upgrade', 0))
    for unit in UNITS:
        wait_for_successor(machine, unit, pids[unit])
    end_load(machine, load)
    assert machine.run('pgrep -f [s]hop.wsgi | sort').split() == processes
    assert machine.run("dpkg-query -W -f '${Version}' resumelb") == '0.1.0+1'
    assert 'tree: directory' in machine.read('/etc/resumelb/resumelb.yaml')

    # Removed: nothing runs, configuration and state stay. Purged: nothing is left.
    machine.run('rm -f /run/client.py')
    machine.run(page.take('Removal', 0))
    # The agent's keeper ends by itself, after it (KillMode=process).
    machine.wait('! pgrep -x "resumelb|resumelb-agent|resumelb-poolco"')
    journal = machine.run('journalctl --no-pager -o cat')
    assert 'signal SIGKILL' not in journal
    # In order: the load balancer twice for a successor, and at its end; the agent with its processes.
    assert journal.count(' stopped exit=0') == 3, journal
    assert 'agent-phase from=stopping to=closing' in journal and journal.count('process-ended application=shop') == 2, journal
    machine.run('test -e /etc/resumelb/resumelb.yaml && test -d /var/lib/resumelb && test -e /var/log/resumelb/access.log')
    machine.run(page.take('Removal', 1))
    machine.run('apt-get purge -y resumelb-dev')
    assert files_of_ours(machine) - before == set()
    assert not machine.good('getent passwd resumelb || getent group resumelb')


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


def test_from_source_it_is_installed_upgraded_under_load_and_removed(machine, page):
    before = files_of_ours(machine)
    start_worker(machine)
    machine.run(page.take('From source', 0))
    machine.run(page.take('From source', 1))
    wait_running(machine, 'resumelb')
    assert answer(machine) == 'hello a.example'
    machine.run('man --where resumelb.yaml')
    machine.run("sed -i 's/classifier: host/&  # of mine/' /usr/local/etc/resumelb/resumelb.yaml")

    load = begin_load(machine)
    take_over(machine, 'resumelb', page.take('From source', 2))
    end_load(machine, load)
    assert '# of mine' in machine.read('/usr/local/etc/resumelb/resumelb.yaml')

    machine.run('rm -f /run/client.py')
    machine.run(page.take('From source', 3))
    left = files_of_ours(machine) - before
    assert {f for f in left if not re.match(r'/usr/local/etc/|/var/(lib|log)/|/run/|/etc/systemd/', f)} - {
        # Folders, which may have been there before.
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
    # A setting of each program's tables stands in its page.
    for page, setting in (('resumelb', 'retry_budget'), ('resumelb-agent', 'adopt_timeout'), ('resumelb-poolcounter', 'handover_timeout')):
        assert setting in machine.run('man -P cat %s.yaml' % page)


def test_every_command_of_the_page_was_run(page):
    assert page.left == set()
    container = (ROOT / 'docs' / 'install.md').read_text().split('\n## Container\n')[1]
    targets = re.findall(r'--target (\S+)', container)
    stages = re.findall(r'^FROM \S+ AS (\S+)$', (ROOT / 'Dockerfile').read_text(), re.M)
    assert targets and set(targets) < set(stages) and stages[-1] == 'resumelb'
    assert all(shlex.split(line) for line in re.findall(r'^    (docker .*)$', container, re.M))
