# SPDX-License-Identifier: Apache-2.0
"""The ensemble of conf/zookeeper as documented, except ports, directories and host names: plain, and with TLS tunnels."""
import re
import socket
import ssl
import subprocess

import pytest
from support.base import LIMIT, ROOT, free_port, wait_until
from support.certificates import key_options
from support.zookeeper import Server, Tree, connect
from zookeeper_support import Load, in_force, knows, tree_of, workers

CONF = ROOT / 'conf' / 'zookeeper'
COUNT = 3


def substitute(text, replacements):
    """Replaces all REPLACEMENTS in TEXT, each of which must occur."""
    for old, new in replacements.items():
        assert old in text, old
        text = text.replace(old, str(new))
    return text


class Documented:
    """The three servers of zoo.cfg."""

    def __init__(self, world):
        self.world, self.servers = world, []
        names = {'zk%d.example:2888:3888' % i: '127.0.0.1:%d:%d' % (free_port(), free_port())
                 for i in range(1, COUNT + 1)}
        for i in range(1, COUNT + 1):
            data = world.directory / ('zk%d' % i)
            data.mkdir()
            (data / 'myid').write_text('%d\n' % i)
            port = free_port()
            file = world.directory / ('zoo%d.cfg' % i)
            file.write_text(substitute((CONF / 'zoo.cfg').read_text(), {
                **names, '\nclientPort=2181\n': '\nclientPort=%d\n' % port,
                'dataDir=/var/lib/zookeeper\n': 'dataDir=%s\n' % data}))
            self.servers.append(Server(world.directory, 'zookeeper%d' % i, port=port, owner=world.processes,
                                       argv=[ROOT / 'dev' / 'zookeeper', '-c', file]))
        self.hosts = ','.join(s.address for s in self.servers)
        for s in self.servers:
            s.start(wait=False)
        for s in self.servers:
            s.wait_serving()

    def tree(self):
        client = connect(self.hosts)

        def close():
            client.stop()
            client.close()
        self.world.closers.append(close)
        return Tree(client, '/site')


def balancer(world, hosts):
    lb = world.resumelb({'applications': {'app': {
        'tree': 'zookeeper://%s/site' % hosts, 'provider_networks': ['loopback'], 'resume': 'measure'}}}, wait=False)
    wait_until(lambda: lb.listening() and tree_of(lb)['connected'], 'the load balancer')
    return lb


def test_the_documented_ensemble_serves_and_survives_a_server(world):
    servers = Documented(world)
    assert sorted(s.mode() for s in servers.servers) == ['follower', 'follower', 'leader']
    tree = servers.tree()
    w, = workers(world, 1)
    tree.register('/workers', w)
    lb = balancer(world, servers.hosts)
    wait_until(knows(lb, [w]), 'the worker')
    load = Load([lb])
    next(s for s in servers.servers if s.mode() == 'leader').kill()
    tree.set('', variance=2.5)
    wait_until(in_force(lb, 'variance', '2.5'), 'the setting')
    load.go_on(20)
    load.stop()
    # commands of the monitoring get a response, others are not
    alive = next(s for s in servers.servers if s.process.alive())
    assert 'zk_znode_count' in alive.figures()
    assert 'not in the whitelist' in alive.words('dump')


def test_the_environment_is_what_a_shell_and_java_take():
    text = subprocess.run(['sh', '-c', '. "%s" && exec java $JAVA_OPTS -version' % (CONF / 'environment')],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert text.returncode == 0, text.stdout
    assert 'openjdk' in text.stdout


def authority(directory):
    """Creates a CA, a certificate of it for the servers, and one for clients."""
    def run(*words):
        subprocess.run(['openssl', *map(str, words)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    run('req', '-x509', *key_options('ec'), '-nodes', '-keyout', directory / 'ca.key', '-out', directory / 'ca.pem', '-days',
        2, '-subj', '/CN=test authority')
    for name, more in (('zookeeper', 'subjectAltName=' + ','.join('DNS:zk%d.example' % i for i in (1, 2, 3))),
                       ('client', 'subjectAltName=DNS:lb.example')):
        run('req', *key_options('ec'), '-nodes', '-keyout', directory / (name + '.key'), '-out', directory / (name + '.csr'),
            '-subj', '/CN=' + name)
        (directory / 'extensions').write_text(more + '\n')
        run('x509', '-req', '-in', directory / (name + '.csr'), '-CA', directory / 'ca.pem', '-CAkey', directory / 'ca.key',
            '-CAcreateserial', '-days', 2, '-extfile', directory / 'extensions', '-out', directory / (name + '.pem'))


def stunnel(world, name, text, replacements):
    text = substitute(text, {'/etc/stunnel/': '%s/' % world.directory,
                             'pid = /run/stunnel-zookeeper.pid': 'foreground = yes\nsyslog = no\npid =', **replacements})
    file = world.directory / (name + '.conf')
    file.write_text(text)
    return world.process(['stunnel', file], name)


def tunnels(world, servers):
    """Starts a tunnel for each server, and that of the clients. Returns (secure ports, hosts for the URL of the tree)."""
    authority(world.directory)
    secure, plain = [free_port() for _ in servers], [free_port() for _ in servers]
    for i, s in enumerate(servers):
        stunnel(world, 'tunnel-of-zk%d' % (i + 1), (CONF / 'stunnel-server.conf').read_text(), {
            'accept = 2281': 'accept = 127.0.0.1:%d' % secure[i], 'connect = 127.0.0.1:2181': 'connect = ' + s.address})
    ours = {}
    for i in range(COUNT):
        ours['accept = 127.0.0.1:%d' % (2291 + i)] = 'accept = 127.0.0.1:%d' % plain[i]
        ours['connect = zk%d.example:2281' % (i + 1)] = 'connect = 127.0.0.1:%d' % secure[i]
    stunnel(world, 'tunnel-of-ours', (CONF / 'stunnel-client.conf').read_text(), ours)
    return secure, ','.join('127.0.0.1:%d' % p for p in plain)


def tls_version(world, port, certificate):
    """The TLS version for a client with or without a certificate, or None if it is rejected."""
    context = ssl.create_default_context(cafile=str(world.directory / 'ca.pem'))
    if certificate:
        context.load_cert_chain(world.directory / 'client.pem', world.directory / 'client.key')
    try:
        with socket.create_connection(('127.0.0.1', port), timeout=LIMIT) as s:
            with context.wrap_socket(s, server_hostname='zk1.example') as t:
                t.sendall(b'srvr')
                return t.version() if b'Mode' in t.recv(4096) else None
    except OSError:
        return None


@pytest.mark.soak
def test_through_the_documented_tunnels(world):
    servers = Documented(world)
    secure, hosts = tunnels(world, servers.servers)
    version = wait_until(lambda: tls_version(world, secure[0], certificate=True), 'the tunnel')
    assert re.fullmatch(r'TLSv1\.[23]', version)
    assert tls_version(world, secure[0], certificate=False) is None, 'clients without a certificate are rejected'
    tree = servers.tree()
    a, b = workers(world, 2)
    tree.register('/workers', a)
    lb = balancer(world, hosts)
    wait_until(knows(lb, [a]), 'the worker')
    load = Load([lb])
    load.go_on(20)
    tree.register('/workers', b)
    wait_until(knows(lb, [a, b]), 'the other worker')
    # the tunnels keep running while the servers are stopped one by one
    for s in servers.servers:
        s.kill()
        tree.set('', variance=2 + servers.servers.index(s))
        wait_until(in_force(lb, 'variance', '%d' % (2 + servers.servers.index(s))), 'the setting')
        s.start(wait=False)
        s.wait_serving()
    wait_until(lambda: tree_of(lb)['connected'] and tree_of(lb)['registered'], 'the tree')
    load.stop()
