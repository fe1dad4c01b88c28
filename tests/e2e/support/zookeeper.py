# SPDX-License-Identifier: Apache-2.0
"""Real ZooKeeper servers, one or three, a client for them, and fault injection."""
import base64
import hashlib
import json
import signal
import socket
import threading

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from .base import LIMIT, Process, ROOT, free_port, freeze, wait_until


def four_letters(port, word, seconds=LIMIT):
    """The response to one of the server's four-letter commands, or '' if there is none."""
    try:
        with socket.create_connection(('127.0.0.1', port), timeout=seconds) as s:
            s.sendall(word.encode())
            parts = []
            while True:
                data = s.recv(1 << 16)
                if not data:
                    return b''.join(parts).decode('utf-8', 'replace')
                parts.append(data)
    except OSError:
        return ''


class Server:
    """
    One server: standalone, or one of an ensemble (MORE: further arguments for dev/zookeeper). It must be started and restarted only
    by the main thread, as it ends with the thread that started it. OWNER, the list of processes of a World, is ended in reverse
    order: the server is inserted at its start.
    """

    def __init__(self, directory, name='zookeeper', port=None, more=(), argv=None, owner=None):
        self.directory, self.name, self.owner = directory, name, owner
        self.port = port or free_port()
        self.argv = argv or [ROOT / 'dev' / 'zookeeper', directory / name, self.port, *more]
        self.address = '127.0.0.1:%d' % self.port
        self.process = None

    def start(self, wait=True):
        last, self.process = self.process, Process(self.argv, self.name, self.directory)
        if self.owner is not None:
            if last in self.owner:
                self.owner.remove(last)
            self.owner.insert(0, self.process)
        if wait:
            self.wait_serving()
        return self

    @property
    def pid(self):
        return self.process.pid

    def words(self, word, seconds=LIMIT):
        return four_letters(self.port, word, seconds)

    def mode(self):
        """'standalone', 'leader' or 'follower'; None while the server does not serve."""
        # A server that has just started to listen may never respond: retry instead of waiting longer.
        for line in self.words('srvr', 0.3).split('\n'):
            if line.startswith('Mode: '):
                return line[6:].strip()
        return None

    def serving(self):
        assert self.process.alive(), self.process.output()[-4000:]
        return self.mode() is not None

    def wait_serving(self):
        wait_until(self.serving, '%s to serve' % self.name)

    def figures(self):
        """The output of mntr as a dict of strings."""
        return dict(line.split('\t', 1) for line in self.words('mntr').split('\n') if '\t' in line)

    def sessions(self):
        """{session id: [ephemeral nodes]} of all sessions, from the output of dump."""
        found, current = {}, None
        for line in self.words('dump').split('\n'):
            text = line.strip()
            if text.startswith('0x'):
                # 'id' or 'id:' before its nodes; the first part lists ids below their times.
                current = int(text.rstrip(':').split()[0], 16)
                found.setdefault(current, [])
            elif text.startswith('/') and current is not None:
                found[current].append(text)
        return found

    def kill(self):
        """Ends the server as a crash of its machine would."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Stops the server cleanly, also if it was frozen, and closes its log, also if it was killed."""
        if self.process is not None:
            if self.process.alive():
                self.process.kill(signal.SIGCONT)
            self.process.stop()

    def freeze(self):
        freeze(self.process.pid)

    def thaw(self):
        self.process.kill(signal.SIGCONT)

    def restart(self, wait=True):
        """Stops the process, if it is running, and starts another one with the same data."""
        self.stop()
        self.start(wait)


class Shared:
    """A server that tests use exclusively, one after the other, and a client of it with all permissions."""

    def __init__(self, directory):
        identity = 'super:tests'
        digest = base64.b64encode(hashlib.sha1(identity.encode()).digest()).decode()
        self.server = Server(directory, more=['DigestAuthenticationProvider.superDigest=super:' + digest]).start()
        self.client = connect(self.server.address, timeout=60.0, auth_data=[('digest', identity)])

    def empty(self):
        assert self.server.process.alive(), 'the ZooKeeper has ended:\n' + self.server.process.output()[-4000:]
        tree = Tree(self.client)
        for name in self.client.get_children('/'):
            if name != 'zookeeper':
                tree.remove('/' + name)

    def stop(self):
        self.client.stop()
        self.client.close()
        self.server.stop()


class Ensemble:
    """Three servers. `hosts`: the list of addresses for clients."""

    def __init__(self, directory, count=3, owner=None):
        peers = ['server.%d=127.0.0.1:%d:%d' % (i + 1, free_port(), free_port()) for i in range(count)]
        self.servers = []
        for i in range(count):
            s = Server(directory, 'zookeeper%d' % (i + 1), more=peers, owner=owner)
            data = directory / s.name / 'data'
            data.mkdir(parents=True, exist_ok=True)
            (data / 'myid').write_text('%d\n' % (i + 1))
            self.servers.append(s)
        self.hosts = ','.join(s.address for s in self.servers)

    def start(self):
        for s in self.servers:
            s.start(wait=False)
        self.wait_serving()
        return self

    def wait_serving(self):
        for s in self.servers:
            s.wait_serving()

    def leader(self):
        return wait_until(lambda: next((s for s in self.servers if s.process.alive() and s.mode() == 'leader'), None),
                          'a leader')

    def stop(self):
        for s in self.servers:
            s.stop()


class Proxy:
    """
    A TCP proxy in front of one server. refuse() makes the system refuse connections, blackhole() makes it drop all data, and cut()
    closes all connections; pass_on() restores normal operation.
    """

    def __init__(self, target_port, host='127.0.0.1', port=None):
        self.target_port, self.host = target_port, host
        self.lock = threading.Lock()
        self.pairs = []
        self.silent = threading.Event()    # data is received and dropped
        self.silent.clear()
        self.port = port
        self.accepted = 0
        self._listen()
        self.port = self.listener.getsockname()[1]
        self.address = '%s:%d' % (host, self.port)

    def _listen(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((self.host, self.port or free_port()))
        self.listener.listen(64)
        self.refusing = False
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                server = socket.create_connection(('127.0.0.1', self.target_port), timeout=LIMIT)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self.lock:
                self.pairs.append((client, server))
            for a, b in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(a, b), daemon=True).start()

    def _pump(self, source, sink):
        holed = False
        try:
            while True:
                data = source.recv(1 << 16)
                if not data:
                    break
                if self.silent.is_set():
                    holed = True
                elif holed:
                    break   # data of this stream was dropped: it cannot be continued
                else:
                    sink.sendall(data)
        except OSError:
            pass
        # While silent, the end of a connection is not passed on either.
        if not self.silent.is_set():
            for s in (source, sink):
                _shut(s)

    def cut(self):
        """Closes all connections; new ones are accepted as before."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for s in pair:
                _shut(s)

    def refuse(self):
        self.refusing = True
        _shut(self.listener)
        self.listener.close()
        self.cut()

    def blackhole(self):
        """From now on connections and data are accepted and nothing is passed on."""
        self.silent.set()

    def pass_on(self):
        if self.silent.is_set():
            self.silent.clear()
            self.cut()
        if self.refusing:
            self._listen()

    def close(self):
        _shut(self.listener)
        self.listener.close()
        self.cut()


def _shut(s):
    try:
        s.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def connect(hosts, timeout=20.0, **kw):
    """A connected kazoo client. TIMEOUT: of its session [s], which also determines how soon it leaves a dead server."""
    # The commands of a Tree are retried during an election.
    kw.setdefault('command_retry', {'max_tries': -1, 'delay': 0.02, 'max_delay': 0.2})
    client = KazooClient(hosts=hosts, timeout=timeout, **kw)
    try:
        client.start(timeout=LIMIT)
    except KazooTimeoutError:
        client.close()
        raise AssertionError('kazoo cannot connect to %s' % hosts)
    return client


def end_session(hosts, client):
    """Ends the session of CLIENT: a second client takes it over and closes it. CLIENT then starts a new session."""
    lost = threading.Event()
    client.add_listener(lambda state: lost.set() if state == KazooState.LOST else None)
    session = wait_until(lambda: client.client_id, 'its session')    # None while it changes the server

    def ended():
        # CLIENT may have taken its session back before the second client closed it.
        if not lost.is_set():
            second = connect(hosts, client_id=session)
            second.stop()
            second.close()
        return lost.wait(0.5)
    wait_until(ended, 'the session to end')


class Tree:
    """The nodes below one path, as another program reads and writes them. Requests are retried after a lost connection."""

    def __init__(self, client, root=''):
        self.client, self.root = client, root

    def path(self, path):
        return (self.root + path) or '/'

    def ask(self, what, *words, **kw):
        return self.client.retry(what, *words, **kw)

    def exists(self, path):
        return self.ask(self.client.exists, self.path(path)) is not None

    def set(self, path, **properties):
        """Creates or replaces a node with exactly these properties, and creates its parents."""
        self.set_raw(path, json.dumps(properties).encode())

    def set_raw(self, path, data):
        path = self.path(path)
        try:
            self.ask(self.client.set, path, data)
        except NoNodeError:
            self.ask(self.client.ensure_path, path, acl=OPEN_ACL_UNSAFE)
            self.ask(self.client.set, path, data)

    def properties(self, path):
        data, _ = self.ask(self.client.get, self.path(path))
        return json.loads(data) if data else {}

    def remove(self, path):
        """Deletes PATH and all nodes below it, even while other clients create nodes there."""
        while True:
            try:
                return self.ask(self.client.delete, self.path(path), recursive=True)
            except NotEmptyError:
                pass

    def register(self, path, name, **properties):
        """Creates an ephemeral provider below PATH/providers, as another program would register itself."""
        self.ask(self.client.ensure_path, self.path(path + '/providers'), acl=OPEN_ACL_UNSAFE)
        path = self.path('%s/providers/%s' % (path, name))
        while True:
            try:
                self.ask(self.client.create, path, json.dumps({'pid': 1, **properties}).encode(), acl=READ_ACL_UNSAFE,
                         ephemeral=True)
                return
            except NodeExistsError:
                # Either an earlier attempt succeeded without a response, or the node is left from the previous session.
                stat = self.ask(self.client.exists, path)
                if stat and stat.ephemeralOwner == self.client.client_id[0]:
                    return
                self._delete(path)

    def _delete(self, path):
        try:
            self.ask(self.client.delete, path)
        except NoNodeError:
            pass

    def unregister(self, path, name):
        self._delete(self.path('%s/providers/%s' % (path, name)))

    def providers(self, path):
        """The sorted names of the providers below PATH, or None if the node does not exist."""
        try:
            return sorted(self.ask(self.client.get_children, self.path(path + '/providers')))
        except NoNodeError:
            return None
