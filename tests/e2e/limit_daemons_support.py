# SPDX-License-Identifier: Apache-2.0
"""Several pool counter daemons, two load balancers that share them, and continuous load on keys of each daemon."""
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
    """The clients of each key. They send GET requests continuously, and record every failure."""

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
        """Waits until each client has started and completed a request from now on."""
        targets = [n + 2 for n in self.by_client]
        wait_until(lambda: all(n >= t for n, t in zip(self.by_client, targets)), 'each client to get a response')

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
    """
    An outage of daemon `at`: it starts at `began`, the daemon serves again at `back`, and its limits are known to hold again
    at `over`.
    """

    def __init__(self, at, began):
        self.at, self.began, self.back, self.over = at, began, None, None


class Shared:
    """The daemons, the load balancers and the application. `hosts`: the keys of each daemon."""

    def __init__(self, world, program, keys=4, ndaemons=3):
        self.daemons = [Poolcounterd(program) for _ in range(ndaemons)]
        world.closers += [d.stop for d in self.daemons]
        self.app = Counted(world, 3, threads=20)
        config = {'workers': self.app.addresses, 'resume': 'measure', 'retries': 0,
                  'pool_counter_servers': [d.address for d in self.daemons],
                  # Long time-outs: a daemon that is slow on a busy machine must not count as hanging or unreachable.
                  'pool_counter_connect_timeout': '60s', 'pool_counter_response_timeout': '60s',
                  'limits': {'sites': {'where': 'daemon', 'workers': WORKERS, 'maxqueue': 1000, 'timeout': '10m'}}}
        self.balancers = [world.resumelb(config, name='lb%d' % i) for i in range(2)]
        self.hosts = self._find_hosts(keys)
        self.outages = []

    def _acquired(self):
        return [int(d.stats()['total_acquired']) for d in self.daemons]

    def _find_hosts(self, keys):
        """Finds KEYS keys for each daemon: the statistics of the daemons show which one counts a key."""
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
        """The maximum number of concurrent requests of any key of daemon AT."""
        return max(most_at_once(self.app.requests(host=h), since, until) for h in self.hosts[at])

    def kill(self, at):
        o = Outage(at, time.monotonic())
        self.outages.append(o)
        self.daemons[at].stop()
        return o

    def wait_passed(self, o):
        """Waits until requests of a key of the dead daemon exceed the limit, and all load balancers back off from the daemon."""
        wait_until(lambda: self.most(o.at, o.began) > WORKERS, 'limits of a dead daemon to be passed')
        self._wait_suspended(o)
        # After each thread has processed the end of its connections, no earlier response of the daemon can end the back-off.
        self.clients.go_round()
        self._wait_suspended(o)

    def _wait_suspended(self, o):
        wait_until(lambda: all(self._server(lb, o.at)['suspended'] for lb in self.balancers), 'the daemon to be suspended')

    def restart(self, o):
        self.daemons[o.at].start()
        o.back = time.monotonic()

    def _server(self, lb, at):
        (server,) = [s for s in lb.app()['pool_counter_servers'] if s['name'] == self.daemons[at].address]
        return server

    def _in_use(self, lb, at):
        server = self._server(lb, at)
        return not server['suspended'] and server['connections'] > 0

    def wait_settled(self, o):
        """Waits until both load balancers use the daemon again, and the requests that were admitted uncounted have been served."""
        wait_until(lambda: all(self._in_use(lb, o.at) for lb in self.balancers), 'the daemon to be asked again')
        self.clients.go_round()
        o.over = time.monotonic()

    def passed_for_s(self, o):
        """For how many seconds after the restart of the daemon more requests than the limit were in progress."""
        last = o.back
        for h in self.hosts[o.at]:
            spans = [s for s in self.app.requests(host=h) if s[1] > o.back and s[0] < o.over]
            for began, _ in spans:
                # Later requests are counted by the daemon again.
                if began > last and most_at_once([s for s in spans if s[0] <= began < s[1]]) > WORKERS:
                    last = began
        return last - o.back

    def most_while_counted(self):
        """For each daemon, the maximum number of concurrent requests of any of its keys outside its outages."""
        result = []
        for at in range(len(self.daemons)):
            since, most = 0.0, 0
            for o in [o for o in self.outages if o.at == at]:
                most = max(most, self.most(at, since, o.began))
                since = o.over
            result.append(max(most, self.most(at, since)))
        return result
