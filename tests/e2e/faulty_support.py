# SPDX-License-Identifier: Apache-2.0
"""Two applications on one agent: one with a real server that is made to fail, and one that must not be affected."""
import glob
import os
import pathlib

from agent_support import SERVER
from load_support import Load
from support.base import free_port, wait_until
from support.http import get
from support.servers import GUNICORN, Agent

# The application of both servers. The environment or the path of the request selects the fault.
APPLICATION = r'''
import os, time
fault = os.environ.get("FAULT", "")
if fault == "exits at once":
    print("cannot continue: no database", flush=True)
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
        import subprocess       # here, as each start would pay for it
        for new_group in (False, True):
            child = subprocess.Popen(["/bin/sleep", "3600"], start_new_session=new_group)
            with open(os.environ["CHILDREN"], "a") as f:
                f.write("%d\n" % child.pid)
    data = b"%d" % os.getpid()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(data)))])
    return [data]
'''

# Makes gunicorn's master, which is the process that the agent has started, ignore SIGTERM.
DEAF = r'''
import signal
def when_ready(server):
    print("deaf from now on", flush=True)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
'''

SERVERS = {
    'gunicorn': [*GUNICORN, 'faulty:application'],
    'uwsgi': ['/usr/bin/uwsgi', '--plugin=python3', '--http-socket={socket}', '--wsgi-file=faulty.py', '--master',
              '--processes=1', '--need-app', '--die-on-term', '--disable-logging', '--no-site'],
}
# Commands with which each server ignores SIGTERM: uWSGI reloads on SIGTERM without --die-on-term.
DEAF_SERVERS = {
    'gunicorn': [*SERVERS['gunicorn'][:-1], '--config=deaf.py', 'faulty:application'],
    'uwsgi': [w for w in SERVERS['uwsgi'] if w != '--die-on-term'],
}


def state_of(pid):
    """The state of PID as in /proc. None if it does not exist, or is only a zombie that the test run has adopted."""
    try:
        state, parent = pathlib.Path('/proc/%d/stat' % pid).read_text().rpartition(')')[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if (state, int(parent)) == ('Z', os.getpid()) else state


def below(roots):
    """The processes of ROOTS that exist, and their descendants."""
    family, line = set(), list(roots)
    while line:
        pid = line.pop()
        if pid in family or state_of(pid) is None:
            continue
        family.add(pid)
        for children in glob.glob('/proc/%d/task/*/children' % pid):
            try:
                line += map(int, pathlib.Path(children).read_text().split())
            except (FileNotFoundError, ProcessLookupError):
                pass
    return family


class Two(Agent):
    """An agent with two applications: `app` is the faulty one; `good` receives requests continuously."""

    def __init__(self, world, server, command=None, slots=1, fault='', top=None, **settings):
        self.top = top or {}
        (world.directory / 'faulty.py').write_text(APPLICATION)
        (world.directory / 'deaf.py').write_text(DEAF)
        (world.directory / 'tinyserver.py').write_text(SERVER)
        self.executed, self.children = world.directory / 'executed', world.directory / 'children'
        environment = {'PYTHONDONTWRITEBYTECODE': '1', 'EXECUTED': str(self.executed), 'CHILDREN': str(self.children)}
        self.good = '127.0.0.1:%d' % free_port()
        self.good_config = {
            'root': str(world.directory), 'command': ['/usr/bin/python3', '-S', '-E', 'tinyserver.py'],
            'environment': {'SERVER_LOG': str(world.directory / 'good.log')}, 'ready_probe': '/', 'address': '%s+' % self.good, 'min_processes': 1, 'max_processes': 1}
        settings.setdefault('respawn_delay', '20ms')
        super().__init__(world, 'agent', world.directory / 'tree', slots=slots, command=command or SERVERS[server],
                         environment=dict(environment, FAULT=fault), **settings)

    def start(self):
        self.config['applications']['good'] = self.good_config
        self.config.update(self.top)
        super().start()
        wait_until(lambda: self.state_of('good') == 'ready', 'the good application')
        self.good_pid = self.good_process()['pid']
        self.supervisor = self.json()['supervisor_pid']
        self.load = Load([self.good])

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
        """
        Waits until the supervisor has no descendants except the processes of the slots, the descendants of those, and BUT, and until
        none of them is a zombie.
        """
        def clean():
            slots = [s for a in self.json()['applications'].values() for s in a['slots']]
            pids = {s['process']['pid'] for s in slots if s.get('process')}
            under = below([self.supervisor]) - {self.supervisor}
            expected = below(pids) | set(but)
            return under == expected and not [p for p in under if state_of(p) == 'Z']
        wait_until(clean, 'no zombie and no orphan')

    def unharmed(self, but=()):
        """
        Checks that the other application has the same process, no failed request and no counted exit of a process; then
        nothing_left_over().
        """
        self.load.go_on()
        assert self.good_process()['pid'] == self.good_pid
        figures = self.app('good')['figures']
        assert (figures['deaths'], figures['spawn_failures'], figures['spawns']) == (0, 0, 1), figures
        self.nothing_left_over(but)

    def end(self):
        """Stops the agent and waits until none of its processes exists."""
        everybody = below([self.supervisor])
        self.load.stop()
        assert self.process.stop() == 0
        wait_until(lambda: not any(map(state_of, everybody)), 'all to be gone')
