# SPDX-License-Identifier: Apache-2.0
"""
Real applications (tests/e2e/apps) as docs/guide/applications.md configures them: behind an agent, which has that page's file, or
started here and listed as `workers`. curl is the client.
"""
import contextlib
import hashlib
import json
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import yaml

from support import leftovers
from support.base import BIN, LIMIT, free_port, wait_until
from support.certificates import Pair
from support.http import Client, get
from support.pages import Page
from support.servers import World

PAGE = 'docs/guide/applications.md'
SOURCES = pathlib.Path(__file__).resolve().parent / 'apps'
CLIENT = '127.0.0.77'     # the client's address, different from those of the load balancer
PROTOCOLS = ('http1', 'http2')
TOKEN = 'a-token-for-actions'
DOWNLOAD = b''.join(hashlib.sha256(b'%d' % i).digest() for i in range(20_000))     # 640 KB


class Written(Page):
    """The page's files for this machine; the agent's has the application of one section only."""

    def __init__(self, world, section):
        super().__init__(world, PAGE)
        for block in self.blocks:
            if not (block.mark or '').startswith('append: ') or block.section == section:
                self.write_block(block)
        self.shell('mkdir -p /run/resumelb/tree /var/lib/resumelb /var/lib/resumelb-agent')

    def path(self, name):
        return self.directory / self.here(name)

    def read(self, name):
        return yaml.safe_load(self.path(name).read_text())


class Response:
    def __init__(self, status, head, body, version):
        self.status, self.head, self.body, self.version = status, head, body, version

    def __getitem__(self, name):
        """The header field of the last response, or None."""
        found = re.findall(r'^%s: *(.*?)\r?$' % name, self.head, re.I | re.M)
        return ', '.join(found) if found else None

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)


class Site:
    """The application of one section behind a load balancer with a plain and a TLS listener."""

    def __init__(self, world, section, behind, prepare=None):
        self.world, self.behind = world, behind
        self.name = name = section.lower()
        self.host = name + '.example'
        self.page = Written(world, section)
        self.settings = self.page.read('/etc/resumelb/resumelb-agent.yaml')['applications'][name]
        self.root = pathlib.Path(self.settings['root'])
        shutil.copytree(SOURCES / self.root.name, self.root, dirs_exist_ok=True, ignore=shutil.ignore_patterns('__pycache__'))
        for directory in (self.root, self.root / 'public'):
            if directory.is_dir():
                (directory / 'download.bin').write_bytes(DOWNLOAD)
        if prepare:
            prepare(self)
        getattr(self, 'start_' + behind)()

    def listen(self, config):
        pair, ports = Pair(self.world.directory, 'front', [self.host]), {'http': free_port(), 'https': free_port()}
        self.cert = pair.cert
        self.bases = {scheme: '%s://%s:%d' % (scheme, self.host, port) for scheme, port in ports.items()}
        self.resolve = [word for port in ports.values() for word in ('--resolve', '%s:%d:127.0.0.1' % (self.host, port))]
        admin = '127.0.0.1:%d' % free_port()
        self.lb = self.world.resumelb({**config, 'admin': {'address': admin, 'actions_token': TOKEN}}, listen=[
            {'address': '127.0.0.1:%d' % ports['http']},
            {'address': '127.0.0.1:%d' % ports['https'], 'tls': pair.entry, 'http2': True}], wait=False)
        self.lb.admin = admin
        wait_until(self.all_ready, 'two workers of %s' % self.name)

    def all_ready(self):
        assert all(p.alive() for p in self.world.processes), [p.output()[-2000:] for p in self.world.processes]
        try:
            found = self.lb.workers(self.application)
        except OSError:
            return False
        return [w['state'] for w in found.values()] == ['ready', 'ready']

    def start_agent(self):
        """The agent has the page's file as it is; the load balancer has the page's entry of the application."""
        agent = self.world.process([BIN / 'resumelb-agent', '-c', self.page.path('/etc/resumelb/resumelb-agent.yaml')], 'agent')
        agent.at_the_end = signal.SIGINT
        config = self.page.read('/etc/resumelb/resumelb.yaml')
        self.application = self.name
        self.listen({'applications': {self.name: config['applications'][self.name]}, 'state_dir': config['state_dir']})

    def start_workers(self):
        """The page's command, twice; the load balancer has the addresses in `workers`."""
        self.application = 'default'
        self.addresses = []
        for n in range(2):
            port, path = str(free_port()), str(self.world.directory / ('app%d.sock' % n))
            command, environment = self.settings['command'], self.settings.get('environment', {})
            fill = lambda word: word.replace('{port}', port).replace('{socket}', path)
            words = ' '.join([*command, *environment.values()])
            if '{port}' not in words and '{socket}' not in words:
                command = [*command, '--bind=127.0.0.1:{port}']
            address = 'unix:' + path if '{socket}' in words else '127.0.0.1:' + port
            self.world.process(list(map(fill, command)), 'app%d' % n, cwd=self.root,
                               env={key: fill(value) for key, value in environment.items()})
            wait_until(lambda: self.responds(address), '%s at %s' % (self.name, address))
            self.addresses.append(address)
        self.listen({'workers': self.addresses, 'max_connections': self.settings.get('concurrency', 1)})

    def responds(self, address):
        assert all(p.alive() for p in self.world.processes), [p.output()[-2000:] for p in self.world.processes]
        try:
            return self.direct(address, self.settings['ready_probe']).status == 200
        except OSError:
            return False

    def direct(self, address, target):
        """A process's response without anything in between."""
        return get(address, target, host=self.host)

    def act(self, action, worker):
        """Performs an action at the admin address, which is loopback. It is complete when this returns."""
        with Client(self.lb.admin) as c:
            response = c.request('POST', '/actions/' + action, host=self.lb.admin, body=json.dumps(
                {'worker': worker, 'application': self.application}).encode(),
                headers=[('Content-Type', 'application/json'), ('Authorization', 'Bearer ' + TOKEN)])
        assert response.status == 200, response.text

    def base(self, protocol):
        return self.bases['https' if protocol == 'http2' else 'http']

    def argv(self, protocol, target, *options):
        url = target if '://' in target else self.base(protocol) + target
        return ['curl', '-sS', '--max-time', str(LIMIT), '--interface', CLIENT, '--http1.1' if protocol == 'http1' else '--http2',
                '--cacert', str(self.cert), *self.resolve, *map(str, options), url]

    def curl(self, protocol, target, *options, data=None):
        head, body = self.world.directory / 'curl-head', self.world.directory / 'curl-body'
        head.unlink(missing_ok=True)
        body.write_bytes(b'')
        out = subprocess.run(self.argv(protocol, target, '-D', head, '-o', body, '-w', '%{http_code} %{http_version}', *options),
                             input=data, capture_output=True, timeout=2 * LIMIT, check=False)
        assert out.returncode == 0, (out.stderr, head.read_text() if head.exists() else None)
        status, version = out.stdout.decode().split()
        assert version == ('2' if protocol == 'http2' else '1.1')
        return Response(int(status), head.read_text().rstrip().split('\r\n\r\n')[-1] + '\r\n', body.read_bytes(), version)

    def stream(self, protocol, target='/stream'):
        """
        Asserts that the first part of a response arrives before the application generates the last one. The application waits
        for a file, which is created after the first part.
        """
        until = self.world.directory / 'until'
        until.unlink(missing_ok=True)
        client = subprocess.Popen(self.argv(protocol, '%s?until=%s' % (target, until), '-N', '-f'), stdout=subprocess.PIPE)
        try:
            assert client.stdout.readline() == b'first\n'
            until.write_text('')
            assert client.stdout.read() == b'last\n'
            assert client.wait(LIMIT) == 0
        finally:
            until.write_text('')
            client.kill()
            client.wait()
            client.stdout.close()


@contextlib.contextmanager
def site(section, behind, prepare=None):
    """
    A site that several tests share. The site ends the processes that it has started: the check for left-over processes ignores
    those that were running before a test.
    """
    before = leftovers.below()
    with tempfile.TemporaryDirectory(prefix='rlb-apps-') as directory:
        world = World(pathlib.Path(directory))
        try:
            yield Site(world, section, behind, prepare)
        finally:
            world.close()
    survivors = leftovers.end(before)
    assert not survivors, 'processes that outlived the tests:\n' + '\n'.join(survivors)
