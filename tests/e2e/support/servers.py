# SPDX-License-Identifier: Apache-2.0
"""The programs under test and their real application servers."""
import json
import os
import signal
import time

from . import leftovers
from .base import BIN, LIMIT, Process, free_port, free_ports, wait_until
from .http import get


def yaml(value):
    """A Python value as flow YAML: JSON is practically a subset of it, which the configuration parser accepts."""
    return json.dumps(value)


# Time limits that a busy machine might reach. Each is as long as possible, unless a test sets it: the effect of a limit is
# tested only by tests that set it.
TOP_PATIENCE = {
    'drain_timeout': '10m', 'upgrade_timeout': '10m', 'header_timeout': '1h', 'body_timeout': '1h', 'send_timeout': '1h',
    'keep_alive_timeout': '1h', 'min_body_rate_grace': '1h', 'min_send_rate_grace': '1h'}
PATIENCE = {
    'connect_timeout': '60s', 'first_byte_timeout': '10m', 'between_bytes_timeout': '10m', 'connection_wait_timeout': '2m',
    'worker_wait_timeout': '2m', 'unsafe_reuse_idle': '60s', 'idle_connection_timeout': '1h', 'feed_silence': '10m',
    'health_check_timeout': '10m', 'settings_hold': '1h', 'poison_window': '1h'}
AGENT_TOP_PATIENCE = {
    'drain_timeout': '10m', 'upgrade_timeout': '10m', 'adopt_timeout': '10m', 'settings_hold': '1h', 'header_timeout': '1h',
    'body_timeout': '1h', 'send_timeout': '1h', 'keep_alive_timeout': '1h'}
AGENT_PATIENCE = {
    'start_timeout': '10m', 'queue_timeout': '10m', 'shutdown_timeout': '10m', 'connect_timeout': '60s', 'first_byte_timeout': '10m',
    'between_bytes_timeout': '10m', 'unsafe_reuse_idle': '60s', 'idle_connection_timeout': '1h'}


class Resumelb:
    """A running load balancer. `config` is the configuration as a dict, without listen and admin."""

    def __init__(self, world, config, listen=None, wait=True, name='resumelb', threads=2, env=None,
                 wrapper=()):
        self.world, self.wrapper = world, wrapper
        self.port = free_port()
        self.admin_port = free_port()
        self.address = '127.0.0.1:%d' % self.port
        self.admin = '127.0.0.1:%d' % self.admin_port
        full = {'listen': listen or [{'address': self.address}], 'admin': {'address': self.admin},
                'threads': str(threads)}
        full.update(config)
        self.config = full
        self.name = name
        self.seen_uptime_s = None
        self.path = world.directory / (name + '.yaml')
        self.env = env
        self.start(wait)

    def patient(self):
        """The configuration, with long time limits for those that it does not set."""
        if 'applications' in self.config:
            applications = {name: {**app, **{k: v for k, v in PATIENCE.items() if k not in app}}
                            for name, app in self.config['applications'].items()}
            full = {**self.config, 'applications': applications}
        else:
            full = {**self.config, **{k: v for k, v in PATIENCE.items() if k not in self.config}}
        return {**full, **{k: v for k, v in TOP_PATIENCE.items() if k not in full}}

    def write_config(self):
        self.path.write_text(''.join('%s: %s\n' % (k, yaml(v)) for k, v in self.patient().items()))

    def start(self, wait=True):
        self.write_config()
        self.process = self.world.process([*self.wrapper, self.world.bin / 'resumelb', '-c', self.path], self.name, env=self.env)
        if wait:
            wait_until(self.ready, '%s to be ready: %s' % (self.name, self.process.output()[-2000:]))

    def listening(self):
        assert self.process.alive(), self.process.output()[-4000:]
        try:
            return get(self.admin, '/healthz', host=self.admin).status == 200
        except OSError:
            return False

    def ready(self):
        if not self.listening():
            return False
        return get(self.admin, '/readyz', host=self.admin).status == 200

    def json(self, path='/status.json'):
        """
        The JSON document at PATH. A status document is newer than the last one seen: a program for which generating it is
        expensive caches it for a short time.
        """
        while True:
            r = get(self.admin, path, host=self.admin)
            assert r.status == 200, (r.status, r.text)
            found = json.loads(r.body)
            if path != '/status.json' or found['uptime_s'] != self.seen_uptime_s:
                break
            time.sleep(0.001)
        self.seen_uptime_s = found.get('uptime_s')
        return found

    def app(self, name='default'):
        return self.json()['applications'][name]

    def workers(self, name='default'):
        return {w['name']: w for w in self.app(name)['workers']}

    def reload(self, config=None):
        if config:
            self.config.update(config)
        self.write_config()
        self.process.kill(signal.SIGHUP)

    def change(self, **settings):
        """Changes settings of the only application, and waits until they apply to new requests."""
        self.reload(settings)
        wait_until(lambda: all(self.app()['settings'][k]['value'] == v for k, v in settings.items()), 'the other settings')

    def kill(self):
        self.process.kill()
        self.process.wait()

    def get(self, target='/', host='test.example', **kw):
        return get(self.address, target, host, **kw)


# gunicorn spends half of its start on the import of pkg_resources, which it needs only for applications in eggs. Therefore most
# tests replace that module; test_applications, test_app_servers, test_django and test_agent use gunicorn as installed.
RUN_GUNICORN = ['/usr/bin/python3', '-S', '-c', 'import sys, types; sys.path.append("/usr/lib/python3/dist-packages"); '
                'sys.modules["pkg_resources"] = types.ModuleType("pkg_resources"); import gunicorn.app.wsgiapp as app; app.run()']
# With one worker process. The application has to be appended.
GUNICORN = [*RUN_GUNICORN, '--workers=1', '--log-level=warning', '--worker-tmp-dir=/dev/shm', '--timeout=600']

APP = '''
import json, os, sys, time
served = 0
log = os.environ.get("APP_LOG")
def application(environ, start_response):
    global served
    served += 1
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(length) if length else b""
    path = environ["PATH_INFO"]
    if log and environ["REQUEST_METHOD"] == "POST":
        with open(log, "a") as f:
            f.write("%s\\n" % environ.get("HTTP_X_ONCE", path))
    delay = environ.get("HTTP_X_DELAY")
    if delay:
        time.sleep(float(delay))
    gate = environ.get("HTTP_X_UNTIL")
    while gate and not os.path.exists(gate):
        time.sleep(0.005)
    status = environ.get("HTTP_X_STATUS", "200 OK")
    out = {"pid": os.getpid(), "served": served, "path": path, "host": environ.get("HTTP_HOST"),
           "method": environ["REQUEST_METHOD"], "body": len(body),
           "headers": {k: v for k, v in environ.items() if k.startswith("HTTP_")},
           "query": environ.get("QUERY_STRING", ""), "port": os.environ.get("APP_NAME", "")}
    data = json.dumps(out).encode()
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(data))),
                            ("X-Pid", str(os.getpid()))])
    return [data]
'''


class Gunicorn:
    """A real gunicorn with one worker process serving the small application above."""

    def __init__(self, world, name, bind=None, extra=(), env=None):
        self.port = None
        if bind is None:
            self.port = free_port()
            bind = '127.0.0.1:%d' % self.port
        self.address = bind
        self.world, self.name, self.extra, self.env = world, name, extra, env
        (world.directory / 'smallapp.py').write_text(APP)
        self.start()

    def start(self):
        env = {'APP_NAME': self.name, 'PYTHONDONTWRITEBYTECODE': '1'}
        env.update(self.env or {})
        self.process = self.world.process(
            [*GUNICORN, '--bind', self.address, '--graceful-timeout=3', *self.extra, 'smallapp:application'],
            self.name, env=env, cwd=self.world.directory)
        wait_until(self.up, 'gunicorn %s' % self.name)

    def up(self):
        assert self.process.alive(), self.process.output()[-3000:]
        try:
            return get(self.address, '/').status == 200
        except OSError:
            return False

    def kill(self):
        """Kills the master and its worker together, like a crash of the machine."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Agent:
    """A running agent with one application of small gunicorn processes."""

    def __init__(self, world, name, tree, slots=2, app='app', most=0, **settings):
        """MOST: the maximum number of slots that the test may set later."""
        self.world, self.name, self.slots = world, name, slots
        (world.directory / 'smallapp.py').write_text(APP)
        self.admin_port = free_port()
        self.admin = '127.0.0.1:%d' % self.admin_port
        base = free_ports(max(slots, most, settings.get('max_processes', 0)))   # slot i listens on port base + i
        self.addresses = ['127.0.0.1:%d' % (base + i) for i in range(slots)]
        application = {
            'root': str(world.directory),
            'command': [*GUNICORN, 'smallapp:application'],
            'environment': {'PYTHONDONTWRITEBYTECODE': '1', 'APP_NAME': name,
                            'APP_LOG': str(world.directory / 'executed.log')},
            'address': '127.0.0.1:%d+' % base, 'min_processes': slots, 'max_processes': slots,
            'ready_probe': '/', 'history': 20, **AGENT_PATIENCE}
        application.update(settings)
        self.config = {'tree': 'directory:%s' % tree, 'state_dir': str(world.directory / (name + '-state')),
                       'max_processes': 32, 'admin': {'address': self.admin}, 'applications': {app: application},
                       **AGENT_TOP_PATIENCE}
        self.path = world.directory / (name + '.yaml')
        self.start()

    def start(self):
        self.path.write_text(''.join('%s: %s\n' % (k, yaml(v)) for k, v in self.config.items()))
        self.process = self.world.process([self.world.bin / 'resumelb-agent', '-c', self.path], self.name)
        # No drain at the end of a test: it would wait 0.6 seconds for load balancers that no longer exist.
        self.process.at_the_end = signal.SIGINT

    def json(self):
        r = get(self.admin, '/status.json', host=self.admin)
        assert r.status == 200, r.text
        return json.loads(r.body)

    def kill(self):
        self.process.kill()
        self.process.wait()


class World:
    """
    All processes that one test starts, with their files in one directory. They are ended with the test. The programs under test are
    those of BIN, or of `bin`.
    """

    def __init__(self, directory, bin=BIN):
        self.directory, self.bin = directory, bin
        self.processes = []
        self.closers = []

    def process(self, argv, name, env=None, cwd=None):
        p = Process(argv, name, self.directory, env, cwd)
        self.processes.append(p)
        return p

    def resumelb(self, config, **kw):
        return Resumelb(self, config, **kw)

    def agent(self, name, tree, **kw):
        return Agent(self, name, tree, **kw)

    def gunicorn(self, name='app', **kw):
        return Gunicorn(self, name, **kw)

    def scripted(self, script, **kw):
        from .scripted import Scripted
        s = Scripted(script, **kw)
        self.closers.append(s.close)
        return s

    def close(self):
        from .base import reap_all
        for close in self.closers:
            close()
        try:
            reap_all(self.processes)
        finally:
            leftovers.dismiss_supervisors(p.output() for p in self.processes)


__all__ = ['World', 'Resumelb', 'Gunicorn', 'LIMIT']
