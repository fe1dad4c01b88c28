# SPDX-License-Identifier: Apache-2.0
"""Support for the tests with ZooKeeper, beyond support/: a ZooKeeper server with a client, and a load that records failures."""
import collections
import threading
import time

from support import many_workers
from support.base import LIMIT, free_port, wait_until
from support.http import Client
from support.zookeeper import Ensemble, Proxy, Server, Tree, connect

# Session time-out of the test's own client: so long that it does not expire on a busy machine; short in tests of expiry.
SESSION = '20s'
SHORT_SESSION_SECONDS = 5
SHORT_SESSION = '%ds' % SHORT_SESSION_SECONDS


class Place:
    """
    A ZooKeeper (one server, or three) and a client of the test. TREE: the node of the application. SERVER: a running server that
    is not ended with the test. SESSION: further parameters of the client.
    """

    def __init__(self, world, count=1, client=True, root='/app', server=None, **session):
        self.world, self.root = world, root
        if server is not None:
            self.server, self.servers, self.hosts = server, [server], server.address
        elif count == 1:
            self.server = Server(world.directory, owner=world.processes).start()
            self.servers, self.hosts = [self.server], self.server.address
        else:
            self.ensemble = Ensemble(world.directory, count, owner=world.processes).start()
            self.servers, self.hosts = self.ensemble.servers, self.ensemble.hosts
        self.tree = self.client = None
        if client:
            self.client = self.connect(**session)
            self.tree = Tree(self.client, root)

    def connect(self, **kw):
        client = connect(self.hosts, **kw)

        def close():
            client.stop()
            client.close()
        self.world.closers.append(close)
        return client

    def url(self, path=None, hosts=None):
        return 'zookeeper://%s%s' % (hosts or self.hosts, self.root if path is None else path)

    def proxy(self, server=None):
        p = Proxy((server or self.servers[0]).port)
        self.world.closers.append(p.close)
        return p

    def balancer(self, name='resumelb', url=None, wait=True, top=None, **application):
        """A load balancer with one application, `app`, in this tree. WAIT: wait until the tree is connected."""
        settings = {'tree': url or self.url(), 'provider_networks': ['loopback'], 'resume': 'measure',
                    'zookeeper_session_timeout': SESSION}
        settings.update(application)
        lb = self.world.resumelb({'applications': {'app': settings}, **(top or {})}, name=name, wait=False)
        wait_until(lb.listening, 'the load balancer')
        if wait:
            wait_until(lambda: tree_of(lb)['connected'], 'the tree')
        return lb


def workers(world, count):
    """Starts COUNT scripted workers. Returns their addresses."""
    port = free_port()
    child = many_workers.start(port, count)

    def end():
        child.kill()
        child.wait()
        child.stdout.close()
    world.closers.append(end)
    return [many_workers.address(i, port) for i in range(count)]


def tree_of(lb):
    return lb.app('app')['tree']


def setting(lb, name):
    """A setting as {'value': ..., 'origin': ...}, with 'rejected' if a value was rejected."""
    return lb.app('app')['settings'][name]


def in_force(lb, name, value):
    return lambda: setting(lb, name)['value'] == value and setting(lb, name)['origin'] == 'tree'


def picked(lb):
    """The names of the eligible workers."""
    return {name for name, w in lb.workers('app').items() if w['state'] == 'ready'}


def knows(lb, addresses):
    wanted = set(addresses)
    return lambda: picked(lb) == wanted


def remembered(directory, texts):
    """Returns whether a cached snapshot of a tree contains all TEXTS."""
    return any(all(t in f.read_text(errors='replace') for t in texts) for f in directory.rglob('tree.json'))


class Load:
    """A steady load of GETs through load balancers, and a record of its failures."""

    def __init__(self, balancers, rate=100, clients=4, sites=20):
        self.stopping, self.lock = threading.Event(), threading.Lock()
        self.failures, self.by, self.by_client = [], collections.Counter(), [0] * clients
        self.slowest = 0.0
        self.threads = [
            threading.Thread(target=self._run, args=(balancers[i % len(balancers)].address, i, sites, clients / rate),
                             daemon=True) for i in range(clients)]
        for t in self.threads:
            t.start()

    @property
    def done(self):
        return sum(self.by_client)

    def _run(self, address, i, sites, interval):
        c, n, due = None, i, time.monotonic()
        while not self.stopping.wait(max(0.0, due - time.monotonic())):
            due += interval
            n += 1
            began = time.monotonic()
            try:
                c = c or Client(address)
                r = c.request(host='site%d.example' % (n % sites))
                problem = None if r.status == 200 else (r.status, r.text[:200])
            except Exception as e:
                problem, r, c = repr(e), None, None
            with self.lock:
                self.by_client[i] += 1
                self.slowest = max(self.slowest, time.monotonic() - began)
                if problem is not None:
                    self.failures.append((time.strftime('%H:%M:%S'), address, problem))
                else:
                    self.by[r['X-Worker']] += 1

    def go_on(self, n=50):
        """Waits for N more requests, none of which may fail."""
        target = self.done + n
        wait_until(lambda: self.done >= target or self.failures, '%d more requests' % n)
        assert not self.failures, self.failures[:5]

    def go_round(self):
        """Waits until each client has completed a request sent from now on, without a failure: earlier ones are completed then."""
        targets = [n + 2 for n in self.by_client]
        wait_until(lambda: all(n >= t for n, t in zip(self.by_client, targets)) or self.failures, 'each client')
        assert not self.failures, self.failures[:5]

    def stop(self):
        self.stopping.set()
        for t in self.threads:
            t.join(LIMIT)
        assert not self.failures, (len(self.failures), self.failures[:5])
        return self.done


def pause(seconds):
    """Waits for a fixed time, in tests in which the passing of time is the condition."""
    time.sleep(seconds)
