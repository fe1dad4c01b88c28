# SPDX-License-Identifier: Apache-2.0
"""Clients that send requests continuously while a test disturbs the processes that serve them."""
import os
import threading

from support.base import LIMIT, PACE, wait_until
from support.http import BodyCutShort, Client

# Pause between two requests of a client [s], so that it leaves processor time to the tested programs.
EASY_PACE = PACE if int(os.environ.get('RLB_SOAK_ROUNDS', '1')) > 1 else 0.02


class Load:
    """
    CLIENTS clients of each of ADDRESSES, until stop(). One request in POSTS is a POST (0: none) with a unique target below NAME.
    KEEP: each client reuses its connection; otherwise each request has its own. Any response other than 200 is a failure.
    LOSSY: as processes are killed, a POST may be lost, and the body of a response to a GET may be cut short.
    """

    def __init__(self, addresses, clients=1, posts=0, keep=True, sites=7, target='/', headers=(), lossy=False, name='load',
                 pace=EASY_PACE):
        self.posts_in, self.keep, self.sites, self.target, self.headers = posts, keep, sites, target, list(headers)
        self.lossy, self.name, self.pace = lossy, name, pace
        self.posts, self.lost, self.cut_short, self.failures = [], [], [], []
        self.stopping, self.counts = threading.Event(), [0] * (len(addresses) * clients)
        self.threads = [threading.Thread(target=self._run, args=(address, i * clients + j), daemon=True)
                        for i, address in enumerate(addresses) for j in range(clients)]
        for t in self.threads:
            t.start()

    def _run(self, address, k):
        client, n = None, k
        while not self.stopping.wait(self.pace):
            n += 1
            post = self.posts_in and n % self.posts_in == 0
            target = '/%s-%d-%d' % (self.name, k, n) if post else self.target
            if post:
                self.posts.append(target)
            try:
                client = client or Client(address)
                r = client.request('POST' if post else 'GET', target, 'site%d.example' % (n % self.sites), self.headers,
                                   b'x' * 100 if post else None)
                outcome, closed = r.status, not self.keep or (r['Connection'] or '').lower() == 'close'
            except Exception as e:
                outcome, closed = e, True
            if client and closed:
                client.close()
                client = None
            if outcome != 200:
                self._note(post, target, outcome, '' if isinstance(outcome, Exception) else r.text[:200])
            self.counts[k] += 1
        if client:
            client.close()

    def _note(self, post, target, outcome, text):
        if self.lossy and post:
            self.lost.append((target, outcome))
        elif self.lossy and isinstance(outcome, BodyCutShort):
            self.cut_short.append(target)
        else:
            self.failures.append((target, repr(outcome), text))

    @property
    def done(self):
        return sum(self.counts)

    def go_on(self, n=20):
        """Waits until each client has completed N more requests."""
        targets = [c + n for c in self.counts]
        wait_until(lambda: self.failures or all(c >= t for c, t in zip(self.counts, targets)), '%d more requests of each' % n)
        self.assert_none_failed()

    def stop(self):
        self.end()
        self.assert_none_failed()

    def end(self):
        self.stopping.set()
        for t in self.threads:
            t.join(LIMIT)
        assert not any(t.is_alive() for t in self.threads)

    def assert_none_failed(self):
        assert not self.failures, self.failures[:5]

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.end()
        if kind is None:
            self.assert_none_failed()
