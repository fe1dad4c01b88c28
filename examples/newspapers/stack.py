# SPDX-License-Identifier: Apache-2.0
"""
Starts the programs of the example: resumelb-agent with some processes, resumelb in front of them, and one tree for
both: a directory; or a real ZooKeeper with two of each program, as on a site of more than one machine.
"""
import ctypes
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# The path of a unix socket has at most 107 bytes, including what the agent appends to its directory.
SOCKET_DIRECTORY_MAX = 60


class Failed(Exception):
    """A program did not start, or exited unexpectedly."""


def port_is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(('127.0.0.1', port))
        except OSError:
            return False
        return True


def free_pair(wanted):
    """WANTED and the port after it, or the next two that are free; 0: any two."""
    # Any: below the ephemeral ports, which the kernel assigns, for instance to slots of the agent.
    first = wanted or random.randrange(10000, 30000)
    for port in range(first, min(first + 200, 65534), 2):
        if port_is_free(port) and port_is_free(port + 1):
            return port, port + 1
    raise Failed('no free ports from %d on' % first)


def end_with_parent():
    """Called in the child: the kernel sends it SIGTERM when its parent process exits."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def fetch(port, path, host=None, timeout=60):
    """(status, headers, body) of one GET."""
    c = http.client.HTTPConnection('127.0.0.1', port, timeout=timeout)
    try:
        c.request('GET', path, headers={'Host': host} if host else {})
        r = c.getresponse()
        return r.status, r.headers, r.read()
    finally:
        c.close()


def zookeeper_serves(port):
    """Whether a ZooKeeper server responds at PORT and has finished starting."""
    try:
        # A server that has only just begun to listen may never respond: the caller retries instead of waiting.
        with socket.create_connection(('127.0.0.1', port), timeout=0.3) as s:
            s.sendall(b'srvr')
            return b'Mode: ' in s.makefile('rb').read()
    except OSError:
        return False


def as_yaml(settings):
    """One top-level key a line; values as JSON, which is YAML too."""
    return ''.join('%s: %s\n' % (k, json.dumps(v)) for k, v in settings.items())


class Stack:
    """
    The running example. Everything it writes is in DIRECTORY. zookeeper: starts a ZooKeeper for the tree, and two load
    balancers and two agents, which share the processes. ports: of the first load balancer.
    """

    def __init__(self, directory, processes=4, policy='adaptive', ports=None, binaries=None, environment=None, history=100,
                 pool=None, zookeeper=False):
        self.directory = pathlib.Path(directory).resolve()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.binaries = pathlib.Path(binaries or os.environ.get('RLB_BIN', ROOT / 'build' / 'bin'))
        self.pairs = [ports or free_pair(0)]
        self.zookeeper_port = None
        if zookeeper:
            self.pairs.append(free_pair(self.pairs[0][1] + 1))
            self.zookeeper_port = free_pair(self.pairs[1][1] + 1)[0]
        self.port, self.admin_port = self.pairs[0]
        self.processes, self.policy, self.history = processes, policy, history
        self.pool = pool or {}
        self.environment = {k: v for k, v in os.environ.items() if k.startswith('NEWSPAPERS_')}
        self.environment.update(environment or {})
        self.children = {}

    # ---- configuration ----

    @property
    def tree(self):
        """The URL of the root of the tree."""
        if self.zookeeper_port is None:
            return 'directory:%s' % (self.directory / 'tree')
        return 'zookeeper://127.0.0.1:%d/example' % self.zookeeper_port

    def names(self, program):
        """The names of the instances of PROGRAM; the first has its name."""
        return [program] + ['%s%d' % (program, i + 2) for i in range(len(self.pairs) - 1)]

    def shares(self):
        """The number of processes of each agent."""
        n = len(self.pairs)
        return [self.processes // n + (i < self.processes % n) for i in range(n)]

    def agent_settings(self, name, processes):
        return {
            'tree': self.tree,
            'state_dir': str(self.directory / name.replace('resumelb-', '')),
            'max_processes': processes,
            'applications': {'newspapers': {
                'root': str(HERE),
                'command': ['/usr/bin/python3', '-m', 'gunicorn'],
                'environment': {**self.environment, 'PYTHONDONTWRITEBYTECODE': '1'},
                'address': '127.0.0.1:0+',
                'socket': 'unix' if len(str(self.directory)) <= SOCKET_DIRECTORY_MAX else 'tcp',
                'min_processes': processes,
                'max_processes': processes,
                # Small, so that learning is visible; with real traffic the default is better.
                'history': self.history,
                'max_skill_age': self.history * 100,
                'ready_probe': '/healthz',
            }},
        }

    def balancer_settings(self, port, admin_port):
        return {
            'listen': [{'address': '127.0.0.1:%d' % port}],
            'admin': {'address': '127.0.0.1:%d' % admin_port},
            'applications': {'newspapers': {
                'tree': self.tree + '/newspapers',
                # With a ZooKeeper, workers on loopback, as on this one machine, must be permitted.
                'provider_networks': ['loopback'],
                'classifier': 'host',
                'pool': {'policy': self.policy, **self.pool},
            }},
        }

    def programs(self):
        """(name, binary, settings) in the order in which they start."""
        for name, processes in zip(self.names('resumelb-agent'), self.shares()):
            yield name, 'resumelb-agent', self.agent_settings(name, processes)
        for name, pair in zip(self.names('resumelb'), self.pairs):
            yield name, 'resumelb', self.balancer_settings(*pair)

    # ---- processes ----

    def spawn(self, name, argv):
        log = open(self.directory / (name + '.log'), 'ab')
        with log:
            self.children[name] = subprocess.Popen(
                [str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                preexec_fn=end_with_parent)

    def start(self, seconds=60):
        try:
            if self.zookeeper_port is not None:
                self.spawn('zookeeper', [ROOT / 'dev' / 'zookeeper', self.directory / 'zookeeper', self.zookeeper_port])
                self.wait(lambda: zookeeper_serves(self.zookeeper_port), seconds, 'ZooKeeper')
            for name, binary, settings in self.programs():
                config = self.directory / (name + '.yaml')
                config.write_text(as_yaml(settings))
                self.spawn(name, [self.binaries / binary, '-c', config])
            self.wait(self.is_ready, seconds, 'all %d processes to be ready' % self.processes)
        except BaseException:
            self.stop()
            raise

    def wait(self, condition, seconds, what):
        deadline = time.monotonic() + seconds
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise Failed('timed out waiting for %s\n%s' % (what, self.logs()))
            time.sleep(0.05)

    def is_ready(self):
        try:
            return all(len(self.ready_workers(admin)) == self.processes and fetch(port, '/healthz')[0] == 200
                       for port, admin in self.pairs)
        except (OSError, http.client.HTTPException):
            return False

    def status(self, admin_port=None):
        """The status of one load balancer; the first by default."""
        status, _, body = fetch(admin_port or self.admin_port, '/status.json')
        if status != 200:
            raise OSError('status page: %d' % status)
        return json.loads(body)

    def ready_workers(self, admin_port=None):
        workers = self.status(admin_port)['applications']['newspapers']['workers']
        return [w for w in workers if w.get('state') == 'ready']

    def check(self):
        """Raises Failed if one of the programs has exited."""
        for name, child in self.children.items():
            if child.poll() is not None:
                raise Failed('%s ended with %d\n%s' % (name, child.returncode, self.logs()))

    def logs(self):
        parts = []
        for name in self.children:
            text = (self.directory / (name + '.log')).read_text(errors='replace')
            parts.append('--- %s.log ---\n%s' % (name, text[-2000:]))
        return '\n'.join(parts)

    def stop(self, seconds=20):
        """Stops the load balancers, then the agents, then ZooKeeper; kills those that do not exit."""
        for child in reversed(list(self.children.values())):
            if child.poll() is None:
                child.terminate()
            try:
                child.wait(seconds)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
