# SPDX-License-Identifier: Apache-2.0
"""What is asked of an installation, wherever it came from: a worker behind it, load, a successor, what it leaves behind."""
import json
import subprocess

from machine import PATIENCE, ROOT

# All places where something of ours could be; the project's own directory is none.
OURS = r"find /etc /home /opt /run /srv /usr /var -path '%s' -prune -o -iname '*resumelb*' -print" % ROOT

APPLICATION = '''
import os
def wsgi(environ, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain'), ('X-Pid', str(os.getpid()))])
    return [b'hello ' + environ['HTTP_HOST'].encode()]
'''
# Asks until /run/stop is there; then says how many responds to it had, and what was wrong.
CLIENT = '''
import http.client, json, os
asked, wrong = 0, []
while not os.path.exists('/run/stop') or asked == 0:
    asked += 1
    try:
        c = http.client.HTTPConnection('127.0.0.1', 8080, timeout=PATIENCE)
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


def respond(machine, host='a.example'):
    return machine.run('curl -sf -H "Host: %s" http://127.0.0.1:8080/' % host)


def wait_running(machine, unit):
    machine.wait('systemctl is-active --quiet %s' % unit)
    assert machine.run('systemctl show -P NRestarts %s' % unit).strip() == '0'


def take_over(machine, unit, command):
    """COMMAND, by which another process is the unit's, and the one before ends."""
    pid = main_pid(machine, unit)
    machine.run(command)
    wait_for_replacement(machine, unit, pid)


def wait_for_replacement(machine, unit, pid):
    machine.wait('p=$(systemctl show -P MainPID %s); [ "$p" != %s ] && [ "$p" != 0 ]' % (unit, pid), 'another %s' % unit)
    machine.wait('! kill -0 %s' % pid, 'the end of the %s before' % unit)
    wait_running(machine, unit)


def begin_load(machine):
    machine.write('/run/client.py', CLIENT.replace('PATIENCE', str(PATIENCE)))
    load = machine.popen('/usr/bin/python3 /run/client.py', stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    machine.wait('test -e /run/asking')
    return load


def end_load(machine, load):
    """At least as many requests again as before, all of them good."""
    machine.run('touch /run/stop')
    out, _ = load.communicate(timeout=PATIENCE)
    told = json.loads(out)
    assert told['wrong'] == [] and told['asked'] > 20, told
