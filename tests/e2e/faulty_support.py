# SPDX-License-Identifier: Apache-2.0
"""Two applications on one agent, each of a real server: one that is made to fail, and one that must not notice."""
import os
import pathlib
import threading

from support.base import LIMIT, PACE, free_port, wait_until
from support.http import Client, get
from support.servers import Agent

# What both serve. What is wrong is in the environment, or in the request's path.
APPLICATION = r'''
import os, subprocess, time
fault = os.environ.get("FAULT", "")
if fault == "exits at once":
    print("cannot go on: no database", flush=True)
    os._exit(3)
if fault == "never ready":
    print("waiting for a database", flush=True)
    time.sleep(3600)
leaked = []
def application(environ, start_response):
    path = environ["PATH_INFO"]
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if length:
        environ["wsgi.input"].read(length)
    if environ["REQUEST_METHOD"] == "POST":
        with open(os.environ["EXECUTED"], "a") as f:
            f.write(path + "\n")
    if path == "/hang":
        print("hanging", flush=True)
        time.sleep(3600)
    if path == "/leak":
        leaked.append(b"x" * (20 << 20))
    if path == "/slow":
        time.sleep(0.01)
    if path == "/children":
        for new_group in (False, True):
            child = subprocess.Popen(["/bin/sleep", "3600"], start_new_session=new_group)
            with open(os.environ["CHILDREN"], "a") as f:
                f.write("%d\n" % child.pid)
    data = b"%d" % os.getpid()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(data)))])
    return [data]
'''

# gunicorn's master, which is the process that the agent knows, will not hear of ending.
DEAF = r'''
import signal
def when_ready(server):
    print("deaf from now on", flush=True)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
'''

SERVERS = {
    'gunicorn': ['/usr/bin/python3', '-m', 'gunicorn', '--workers=1', '--log-level=warning', '--worker-tmp-dir=/dev/shm',
                 '--timeout=600', 'faulty:application'],
    'uwsgi': ['/usr/bin/uwsgi', '--plugin=python3', '--http-socket={socket}', '--wsgi-file=faulty.py', '--master',
              '--processes=1', '--need-app', '--die-on-term', '--disable-logging'],
}
# How each is made to ignore SIGTERM: uWSGI takes it for a reload unless it is told otherwise.
DEAF_SERVERS = {
    'gunicorn': [*SERVERS['gunicorn'][:-1], '--config=deaf.py', 'faulty:application'],
    'uwsgi': [w for w in SERVERS['uwsgi'] if w != '--die-on-term'],
}


def processes():
    """{pid: (parent, state)} of all there are, but for orphans that the run has adopted and that are dead."""
    found = {}
    for entry in os.listdir('/proc'):
        if not entry.isdigit():
            continue
        try:
            fields = pathlib.Path('/proc/%s/stat' % entry).read_text().rpartition(')')[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if (fields[0], fields[1]) != ('Z', str(os.getpid())):
            found[int(entry)] = (int(fields[1]), fields[0])
    return found


def below(roots, found):
    """ROOTS and their descendants."""
    family = set(roots)
    grown = True
    while grown:
        more = {p for p, (parent, _) in found.items() if parent in family} - family
        family |= more
        grown = bool(more)
    return family


class Load:
    """One client that asks without pause; whatever is not 200 is a failure."""

    def __init__(self, address, target='/'):
        self.address, self.target = address, target
        self.stopping, self.failures, self.done = threading.Event(), [], 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        client, n = None, 0
        while not self.stopping.wait(PACE):
            n += 1
            try:
                client = client or Client(self.address)
                r = client.request(target=self.target, host='site%d' % (n % 5))
                if r.status != 200:
                    self.failures.append((n, r.status, r.text[:200]))
            except Exception as e:
                self.failures.append((n, repr(e)))
                client = None
            self.done += 1

    def go_on(self, n=20):
        target = self.done + n
        wait_until(lambda: self.done >= target or self.failures, '%d more requests' % n)
        assert not self.failures, self.failures[:5]

    def stop(self):
        self.stopping.set()
        self.thread.join(LIMIT)
        assert not self.failures, self.failures[:5]


class Two(Agent):
    """`app` is the faulty application, `good` the other one, which is asked all the time."""

    def __init__(self, world, server, command=None, slots=1, fault='', **settings):
        (world.folder / 'faulty.py').write_text(APPLICATION)
        (world.folder / 'deaf.py').write_text(DEAF)
        self.executed, self.children = world.folder / 'executed', world.folder / 'children'
        environment = {'PYTHONDONTWRITEBYTECODE': '1', 'EXECUTED': str(self.executed), 'CHILDREN': str(self.children)}
        self.good = '127.0.0.1:%d' % free_port()
        self.good_config = {
            'root': str(world.folder), 'command': SERVERS[server], 'environment': environment, 'ready_probe': '/',
            'address': '%s+' % self.good, 'min_processes': 1, 'max_processes': 1}
        settings.setdefault('respawn_delay', '20ms')
        super().__init__(world, 'agent', world.folder / 'tree', slots=slots, command=command or SERVERS[server],
                         environment=dict(environment, FAULT=fault), **settings)

    def start(self):
        self.config['applications']['good'] = self.good_config
        super().start()
        wait_until(lambda: self.state_of('good') == 'ready', 'the good application')
        self.good_pid = self.good_process()['pid']
        self.keeper = self.json()['keeper_pid']
        self.load = Load(self.good)

    def app(self, name='app'):
        return self.json()['applications'][name]

    def state_of(self, name):
        assert self.process.alive(), self.process.output()[-4000:]
        try:
            return self.app(name)['slots'][0]['state']
        except OSError:
            return None

    def wait_ready(self):
        wait_until(lambda: all(s['state'] == 'ready' for s in self.app()['slots']), 'the faulty application')
        return self

    def good_process(self):
        return self.app('good')['slots'][0]['process']

    def pid(self, n=0):
        return (self.app()['slots'][n].get('process') or {}).get('pid')

    def figures(self):
        return self.app()['figures']

    def start_failures(self):
        return self.app()['slots'][0]['start_failures']

    def ask(self, target='/', n=0, **kw):
        return get(self.addresses[n], target, **kw)

    def output_has(self, text, what=None):
        return wait_until(lambda: text in self.process.output(), what or '"%s" in the log' % text)

    def nothing_left_over(self, but=()):
        """Below the keeper is nothing but the processes of the slots, theirs (and BUT), and nobody unreaped."""
        def clean():
            slots = [s for a in self.json()['applications'].values() for s in a['slots']]
            pids = {s['process']['pid'] for s in slots if s.get('process')}
            found = processes()
            under = below([self.keeper], found) - {self.keeper}
            expected = below(pids & set(found), found) | set(but)
            return under == expected and not [p for p in under if found[p][1] == 'Z']
        wait_until(clean, 'no zombie and no orphan')

    def unharmed(self, but=()):
        """The other application: the same process, no request failed, no death counted. And nothing_left_over."""
        self.load.go_on()
        assert self.good_process()['pid'] == self.good_pid
        figures = self.app('good')['figures']
        assert (figures['deaths'], figures['spawn_failures'], figures['spawns']) == (0, 0, 1), figures
        self.nothing_left_over(but)

    def end(self):
        """Stop; nobody outlives it."""
        everybody = below([self.keeper], processes())
        self.load.stop()
        assert self.process.stop() == 0
        wait_until(lambda: not everybody & set(processes()), 'all to be gone')
