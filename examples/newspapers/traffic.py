#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Send realistic traffic to the newspapers: most to few sites (Zipf), over persistent connections.

Prints a line every few seconds: requests a second, database loads per request, hit rate, processes that serve
a site. The same seed gives the same requests.
"""
import argparse
import asyncio
import collections
import itertools
import json
import random
import signal
import sys
import time
import urllib.parse

HEAD_MAX = 64 * 1024
# Percentage of requests for a front page, and for a section; the rest are for articles.
FRONT, SECTION = 30, 20
ARTICLES, SECTIONS = 50, 8
# A site with at least this many requests in a period counts in "processes per site".
SITE_REQUESTS_MIN = 4


def parse(argv=None):
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--url', default='http://127.0.0.1:8080', help='address of the load balancer')
    p.add_argument('--rate', type=float, default=0, help='requests a second; 0: as many as the connections allow')
    p.add_argument('--concurrency', type=int, default=8, help='connections, each with one request at a time')
    p.add_argument('--requests', type=int, default=0, help='end after this number; 0: until interrupted')
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--zipf', type=float, default=0.9, help='exponent of the distribution of sites; 0: uniform')
    p.add_argument('--every', type=float, default=5, help='seconds between lines')
    p.add_argument('--json', action='store_true', help='no lines; the summary as JSON at the end')
    o = p.parse_args(argv)
    if o.concurrency < 1 or o.rate < 0 or o.every <= 0:
        p.error('--concurrency must be at least 1, --rate not negative, --every above 0')
    url = urllib.parse.urlsplit(o.url)
    if url.scheme != 'http' or not url.hostname:
        p.error('--url must be http://HOST:PORT')
    o.host, o.port = url.hostname, url.port or 80
    return o


class Broken(Exception):
    """The connection ended, or the response was not valid HTTP."""


class Connection:
    """One persistent connection, opened again when it was closed."""

    def __init__(self, host, port):
        self.host, self.port = host, port
        self.reader = self.writer = None

    async def get(self, host, path):
        """(status, headers, body). A persistent connection that proves closed is replaced once."""
        if self.writer is not None:
            try:
                return await self.exchange(host, path)
            except (Broken, OSError):
                self.close()
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port, limit=HEAD_MAX)
        try:
            return await self.exchange(host, path)
        except BaseException:
            self.close()
            raise

    async def exchange(self, host, path):
        self.writer.write(('GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: newspapers-traffic\r\n\r\n' %
                           (path, host)).encode())
        try:
            head = await self.reader.readuntil(b'\r\n\r\n')
            status, headers = parse_head(head)
            body = await self.body(headers)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as e:
            raise Broken(str(e)) from e
        if headers.get('connection', '').lower() == 'close':
            self.close()
        return status, headers, body

    async def body(self, headers):
        if 'chunked' not in headers.get('transfer-encoding', ''):
            return await self.reader.readexactly(int(headers['content-length']))
        parts = []
        while True:
            size = int((await self.reader.readuntil(b'\r\n')).split(b';')[0], 16)
            parts.append((await self.reader.readexactly(size + 2))[:-2])
            if size == 0:
                return b''.join(parts)

    def close(self):
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


def parse_head(head):
    lines = head.decode('latin-1').split('\r\n')
    status = int(lines[0].split(' ')[1])
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(':')
        headers[name.lower()] = value.strip()
    if status >= 200 and 'transfer-encoding' not in headers and 'content-length' not in headers:
        raise ValueError('response without a length')
    return status, headers


class Counts:
    """Counts of the requests in a period."""

    def __init__(self):
        self.start = time.monotonic()
        self.requests = self.errors = self.loads = self.hits = 0
        self.latencies = []
        self.statuses = collections.Counter()
        self.processes = collections.defaultdict(set)
        self.by_site = collections.Counter()

    def add(self, site, seconds, status, headers):
        self.requests += 1
        self.latencies.append(seconds)
        if status != 200:
            self.errors += 1
            self.statuses[status] += 1
            return
        self.loads += int(headers.get('x-database-loads', 0))
        self.hits += int(headers.get('x-cache-hits', 0))
        self.by_site[site] += 1
        self.processes[site].add(headers.get('x-worker-pid'))

    def percentile(self, share):
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 if ordered else 0.0

    def summary(self):
        seconds = time.monotonic() - self.start
        served = sum(self.by_site.values())
        asked = self.loads + self.hits
        many = [len(self.processes[s]) for s, n in self.by_site.items() if n >= SITE_REQUESTS_MIN]
        return {'requests': self.requests, 'errors': self.errors, 'seconds': round(seconds, 3),
                'requests_per_second': round(self.requests / seconds, 1) if seconds else 0.0,
                'loads_per_request': round(self.loads / served, 3) if served else 0.0,
                'hit_rate': round(self.hits / asked, 4) if asked else 0.0,
                'p50_ms': round(self.percentile(0.5), 2), 'p99_ms': round(self.percentile(0.99), 2),
                'sites': len(self.by_site),
                'processes_per_site': round(sum(many) / len(many), 2) if many else 0.0,
                'statuses': dict(self.statuses)}


class Plan:
    """The requests: an endless, seeded sequence of (site, path)."""

    def __init__(self, sites, o):
        self.random = random.Random(o.seed)
        self.sites = sites
        order = list(range(len(sites)))
        self.random.shuffle(order)
        self.sites = [sites[i] for i in order]
        self.weights = list(itertools.accumulate(1 / (rank ** o.zipf) for rank in range(1, len(sites) + 1)))
        self.left = o.requests or None

    def next(self):
        if self.left is not None:
            if self.left == 0:
                return None
            self.left -= 1
        site = self.random.choices(self.sites, cum_weights=self.weights)[0]
        kind = self.random.randrange(100)
        if kind < FRONT:
            return site, '/'
        if kind < FRONT + SECTION:
            return site, '/section/%d' % self.random.randrange(SECTIONS)
        return site, '/article/%d' % self.random.randrange(ARTICLES)


class Pace:
    """Spaces requests evenly if a rate is set."""

    def __init__(self, rate):
        self.step = 1 / rate if rate else 0
        self.due = time.monotonic()

    async def wait(self):
        if not self.step:
            return
        now = time.monotonic()
        # Requests that are more than a second late are not made up for.
        self.due = max(self.due, now - 1)
        pause = self.due - now
        self.due += self.step
        if pause > 0:
            await asyncio.sleep(pause)


class Traffic:
    def __init__(self, o, sites):
        self.o = o
        self.plan = Plan(sites, o)
        self.pace = Pace(o.rate)
        self.total, self.period = Counts(), Counts()
        self.last_error = ''

    async def client(self):
        connection = Connection(self.o.host, self.o.port)
        while True:
            await self.pace.wait()
            request = self.plan.next()
            if request is None:
                connection.close()
                return
            site, path = request
            start = time.monotonic()
            try:
                status, headers, _ = await connection.get(site + '.localhost', path)
            except (Broken, OSError) as e:
                self.last_error = str(e) or type(e).__name__
                status, headers = 0, {}
                # No server: wait before the next attempt.
                await asyncio.sleep(0.2)
            for counts in (self.total, self.period):
                counts.add(site, time.monotonic() - start, status, headers)

    async def lines(self):
        while True:
            await asyncio.sleep(self.o.every)
            s, self.period = self.period.summary(), Counts()
            errors = ', %d errors (%s)' % (s['errors'], s['statuses'] or self.last_error) if s['errors'] else ''
            print('%7.1f requests/s, %6.2f loads a request, %5.1f %% hits, %4.2f processes a site, p99 %.0f ms%s' % (
                s['requests_per_second'], s['loads_per_request'], s['hit_rate'] * 100, s['processes_per_site'],
                s['p99_ms'], errors), flush=True)

    async def run(self):
        clients = [asyncio.create_task(self.client()) for _ in range(self.o.concurrency)]
        lines = None if self.o.json else asyncio.create_task(self.lines())
        try:
            await asyncio.gather(*clients)
        finally:
            for task in clients + [lines] * (lines is not None):
                task.cancel()


async def sites_of(o):
    status, _, body = await Connection(o.host, o.port).get('localhost', '/_sites.json')
    if status != 200:
        raise Broken('status %d for the list of newspapers' % status)
    return json.loads(body)


async def send(o):
    traffic = Traffic(o, await sites_of(o))
    task = asyncio.create_task(traffic.run())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        pass
    return traffic.total.summary()


def main():
    o = parse()
    try:
        summary = asyncio.run(send(o))
    except (Broken, OSError) as e:
        sys.exit('traffic.py: %s:%d: %s' % (o.host, o.port, e))
    if o.json:
        print(json.dumps(summary))
    else:
        print('total: %(requests)d requests, %(errors)d errors, %(loads_per_request)s loads a request, '
              'hit rate %(hit_rate)s' % summary)
    sys.exit(0 if summary['errors'] == 0 else 1)


if __name__ == '__main__':
    main()
