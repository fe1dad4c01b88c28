# SPDX-License-Identifier: Apache-2.0
"""Several pool counter daemons, two load balancers that share them, and load without pause on keys of each daemon."""
import threading
import time

from counted_support import Counted, most_at_once
from limit_support import Poolcounterd
from poolcounter_support import ORIGINAL, OURS
from support.base import LIMIT, wait_until
from support.http import Client

PROGRAMS = [ORIGINAL, OURS]

WORKERS = 2             # of a key
CLIENTS_PER_KEY = 4     # half of them at each load balancer
DB_S = 0.1
# Of one key: twice as many as may be at work always want to be. So where somebody is let through uncounted, the limit is
# passed at once, and where it has not been passed for this long, nobody is.
SETTLED_S = 2.0


class Load:
    """For each key its clients, which GET without pause; every failure is remembered."""

    def __init__(self, addresses, hosts):
        self.stopping, self.lock, self.failures, self.done = threading.Event(), threading.Lock(), [], 0
        self.threads = [threading.Thread(target=self._run, args=(addresses[i % len(addresses)], host), daemon=True)
                        for host in hosts for i in range(CLIENTS_PER_KEY)]
        for t in self.threads:
            t.start()

    def _run(self, address, host):
        client = None
        while not self.stopping.is_set():
            try:
                client = client or Client(address, 60)
                r = client.request('GET', '/page?db=%g' % DB_S, host)
                wrong = None if r.status == 200 else (r.status, r.text[:200])
            except Exception as e:
                wrong, client = (0, repr(e)), None
            with self.lock:
                self.done += 1
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
                  'pool_counter_connect_timeout': '5s', 'pool_counter_answer_timeout': '60s',
                  'pool_counters': {'sites': {'where': 'daemon', 'workers': WORKERS, 'maxqueue': 1000, 'timeout': '60s'}}}
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
        return Load([lb.address for lb in self.balancers], [h for hosts in self.hosts for h in hosts])

    def most(self, at, since=0.0, until=float('inf')):
        """The most at once of any key of daemon AT."""
        return max(most_at_once(self.app.requests(host=h), since, until) for h in self.hosts[at])

    def kill(self, at):
        o = Outage(at, time.monotonic())
        self.outages.append(o)
        self.daemons[at].stop()
        return o

    def wait_passed(self, o):
        """Until more than the limit of one of its keys have been at work."""
        wait_until(lambda: self.most(o.at, o.began) > WORKERS, 'limits of a dead daemon to be passed')

    def restart(self, o):
        self.daemons[o.at].start()
        o.back = time.monotonic()

    def _settled(self, o):
        since = time.monotonic() - SETTLED_S
        if since < o.back or self.most(o.at, since) > WORKERS:
            return False
        counted = sum(e > since for h in self.hosts[o.at] for _, e in self.app.requests(host=h))
        return counted > WORKERS and int(self.daemons[o.at].stats()['total_acquired']) > 0

    def wait_settled(self, o):
        wait_until(lambda: self._settled(o), 'the limits to hold again')
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
