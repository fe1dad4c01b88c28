# SPDX-License-Identifier: Apache-2.0
"""Several pool counter daemons, two load balancers that share them, and load without pause on keys of each daemon."""
import threading
import time

from counted_support import Counted, most_at_once
from limit_support import Poolcounterd
from poolcounter_support import ORIGINAL, OURS
from support.base import LIMIT, PACE, wait_until
from support.http import Client

PROGRAMS = [ORIGINAL, OURS]

WORKERS = 2             # of a key
CLIENTS_PER_KEY = 4     # half of them at each load balancer
DB_S = 0.1


class Load:
    """For each key its clients, which GET without pause; every failure is remembered."""

    def __init__(self, addresses, hosts):
        self.stopping, self.lock, self.failures = threading.Event(), threading.Lock(), []
        clients = [(addresses[i % len(addresses)], host) for host in hosts for i in range(CLIENTS_PER_KEY)]
        self.by_client = [0] * len(clients)
        self.threads = [threading.Thread(target=self._run, args=(n, *client), daemon=True) for n, client in enumerate(clients)]
        for t in self.threads:
            t.start()

    @property
    def done(self):
        return sum(self.by_client)

    def go_round(self):
        """Each client has begun and ended a request from now on."""
        targets = [n + 2 for n in self.by_client]
        wait_until(lambda: all(n >= t for n, t in zip(self.by_client, targets)), 'each client to be answered')

    def _run(self, n, address, host):
        client = None
        while not self.stopping.wait(PACE):
            try:
                client = client or Client(address)
                r = client.request('GET', '/page?db=%g' % DB_S, host)
                wrong = None if r.status == 200 else (r.status, r.text[:200])
            except Exception as e:
                wrong, client = (0, repr(e)), None
            with self.lock:
                self.by_client[n] += 1
                if wrong:
                    self.failures.append((time.monotonic(), host, *wrong))

    def stop(self):
        self.stopping.set()
        for t in self.threads:
            t.join(LIMIT)


class Outage:
    """Of daemon `at`: from `began`; `back` when it was there again, `over` when its limits were known to hold again."""

    def __init__(self, at, began):
        self.at, self.began, self.back, self.over = at, began, None, None


class Shared:
    """Daemons, load balancers and the application; `hosts` are the keys of each daemon."""

    def __init__(self, world, program, keys=4, ndaemons=3):
        self.daemons = [Poolcounterd(program) for _ in range(ndaemons)]
        world.closers += [d.stop for d in self.daemons]
        self.app = Counted(world, 3, threads=20)
        config = {'workers': self.app.addresses, 'resume': 'measure', 'retries': 0,
                  'pool_counter_servers': [d.address for d in self.daemons],
                  # A daemon for which the machine has no time is not one that hangs, or has no connection.
                  'pool_counter_connect_timeout': '60s', 'pool_counter_answer_timeout': '60s',
                  'pool_counters': {'sites': {'where': 'daemon', 'workers': WORKERS, 'maxqueue': 1000, 'timeout': '10m'}}}
        self.balancers = [world.resumelb(config, name='lb%d' % i) for i in range(2)]
        self.hosts = self._find_hosts(keys)
        self.outages = []

    def _acquired(self):
        return [int(d.stats()['total_acquired']) for d in self.daemons]

    def _find_hosts(self, keys):
        """Which daemon a key is counted at is seen there."""
        found = [[] for _ in self.daemons]
        for n in range(100 * keys):
            host, before = 'site%d.example' % n, self._acquired()
            assert self.balancers[n % 2].get('/', host).status == 200
            risen = [i for i, (b, a) in enumerate(zip(before, self._acquired())) if a != b]
            assert len(risen) == 1, risen
            if len(found[risen[0]]) < keys:
                found[risen[0]].append(host)
            if all(len(f) == keys for f in found):
                return found
        raise AssertionError('too few keys: %r' % found)

    def load(self):
        self.clients = Load([lb.address for lb in self.balancers], [h for hosts in self.hosts for h in hosts])
        return self.clients

    def most(self, at, since=0.0, until=float('inf')):
        """The most at once of any key of daemon AT."""
        return max(most_at_once(self.app.requests(host=h), since, until) for h in self.hosts[at])

    def kill(self, at):
        o = Outage(at, time.monotonic())
        self.outages.append(o)
        self.daemons[at].stop()
        return o

    def wait_passed(self, o):
        """Until more than the limit of one of its keys have been at work, and no load balancer asks the daemon."""
        wait_until(lambda: self.most(o.at, o.began) > WORKERS, 'limits of a dead daemon to be passed')
        self._wait_rests(o)
        # Once each thread has seen the ends of its connections, nothing that the daemon had said ends its rest.
        self.clients.go_round()
        self._wait_rests(o)

    def _wait_rests(self, o):
        wait_until(lambda: all(self._server(lb, o.at)['resting'] for lb in self.balancers), 'the daemon to rest')

    def restart(self, o):
        self.daemons[o.at].start()
        o.back = time.monotonic()

    def _server(self, lb, at):
        (server,) = [s for s in lb.app()['pool_counter_servers'] if s['name'] == self.daemons[at].address]
        return server

    def _in_use(self, lb, at):
        server = self._server(lb, at)
        return not server['resting'] and server['connections'] > 0

    def wait_settled(self, o):
        """Until both load balancers ask the daemon again, and those that were let through uncounted have been served."""
        wait_until(lambda: all(self._in_use(lb, o.at) for lb in self.balancers), 'the daemon to be asked again')
        self.clients.go_round()
        o.over = time.monotonic()

    def passed_for_s(self, o):
        """How long after the daemon was back more than the limit were at work."""
        last = o.back
        for h in self.hosts[o.at]:
            spans = [s for s in self.app.requests(host=h) if s[1] > o.back and s[0] < o.over]
            for began, _ in spans:
                # Whoever begins is counted from then on.
                if began > last and most_at_once([s for s in spans if s[0] <= began < s[1]]) > WORKERS:
                    last = began
        return last - o.back

    def most_while_counted(self):
        """Of each daemon, the most at once of any of its keys, but for its outages."""
        result = []
        for at in range(len(self.daemons)):
            since, most = 0.0, 0
            for o in [o for o in self.outages if o.at == at]:
                most = max(most, self.most(at, since, o.began))
                since = o.over
            result.append(max(most, self.most(at, since)))
        return result
