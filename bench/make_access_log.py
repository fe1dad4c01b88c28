#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a synthetic access log of one day, for replay (resumelbctl simulate, bench/run-peers affinity -s replay).

Combined format, virtual host first, pages only (as of an application behind a cache of static files). Its distributions
follow publications on real logs; it has no data of real users:

  sites     shares by Zipf's law with 0.9; pages of a site lognormal, few of them many (Arlitt and Williamson 1996)
  pages     within a site by Zipf's law with 0.8 (Breslau et al. 1999 found 0.64 to 0.83)
  people    arrive at random (Poisson), most in the evening and fewest before dawn; a visit begins at the site's first
            page or a popular one, its number of pages is inverse Gaussian (Huberman et al. 1998), its pauses lognormal
  crawlers  request all pages of a site in order, one in 20 seconds to 3 minutes: a fifth of all requests
  pollers   request a site's feed every quarter of an hour
  a crowd   many people request one page of an ordinary site in the afternoon, fewer every hour

    bench/make_access_log.py >day.log             # 60,000 requests, 250 sites; --seed, --requests, --sites
    resumelbctl simulate day.log
"""
import argparse
import heapq
import itertools
import math
import random
import sys
import time

DAY = 86400
BEGIN = 1767225600  # midnight, UTC
CRAWLED, POLLED, CROWD = 0.2, 0.03, 0.05
CROWD_AT, CROWD_MEAN = 15 * 3600, 3600
CRAWL_PACES = 20, 60, 180
POLL_EVERY = 900
PAGES_MAX = 2000


class Popular:
    """Draws ranks by Zipf's law."""

    def __init__(self, n, exponent):
        self.sums = list(itertools.accumulate((i + 1) ** -exponent for i in range(n)))

    def draw(self, rnd):
        return rnd.choices(range(len(self.sums)), cum_weights=self.sums)[0]


class Site:
    def __init__(self, rnd, number):
        self.host = 'site%d.example' % number
        self.npages = min(PAGES_MAX, 3 + int(rnd.lognormvariate(math.log(18), 1.1)))
        self.pages = Popular(self.npages, 0.8)

    def path(self, page):
        return '/' if page == 0 else '/%s/%d.html' % (('news', 'shop', 'help')[page % 3], page)


def busy(t):
    """The relative load of the hour: the mean of the day is 1, the peak at 20, the minimum at 4."""
    hour = t / 3600
    return 1 + .55 * math.cos((hour - 20) / 24 * 2 * math.pi) + .15 * math.cos((hour - 13) / 12 * 2 * math.pi)


def arrivals(rnd, mean_gap):
    """Times of a day, by thinning."""
    most, t = 1.7, 0.0
    while (t := t + rnd.expovariate(most / mean_gap)) < DAY:
        if rnd.random() * most < busy(t):
            yield t


def visit_length(rnd, mean=5.0, shape=4.0):
    """Inverse Gaussian (Michael, Schucany and Haas 1976), at least one page."""
    y = rnd.gauss(0, 1) ** 2
    x = mean + mean * mean * y / (2 * shape) - mean / (2 * shape) * math.sqrt(4 * mean * shape * y + (mean * y) ** 2)
    return max(1, round(x if rnd.random() <= mean / (mean + x) else mean * mean / x))


def people(rnd, sites, shares, n):
    for at in arrivals(rnd, DAY / (n / 5.0)):
        site = sites[shares.draw(rnd)]
        who = '10.%d.%d.%d' % (rnd.randrange(64), rnd.randrange(256), rnd.randrange(256))
        page = 0 if rnd.random() < .4 else site.pages.draw(rnd)
        for _ in range(visit_length(rnd)):
            yield at, site.host, who, site.path(page), 'browser'
            page = site.pages.draw(rnd)
            at += rnd.lognormvariate(math.log(15), 1.0)


def crawlers(rnd, sites, n):
    done = 0
    while done < n:
        site = rnd.choices(sites, [s.npages for s in sites])[0]
        at, pace = (rnd.random() - .1) * DAY, rnd.choice(CRAWL_PACES)
        who = '10.200.0.%d' % rnd.randrange(8)
        for page in range(site.npages):
            yield at, site.host, who, site.path(page), 'crawler'
            at += pace
        done += site.npages


def pollers(rnd, sites, n):
    for k in range(max(1, n * POLL_EVERY // DAY)):
        site = rnd.choice(sites)
        for i in range(DAY // POLL_EVERY):
            yield i * POLL_EVERY + k * 7 % POLL_EVERY, site.host, '10.201.0.%d' % (k % 256), '/feed', 'poller'


def crowd(rnd, sites, n):
    site = sites[len(sites) // 10]
    for _ in range(n):
        who = '10.%d.%d.%d' % (64 + rnd.randrange(64), rnd.randrange(256), rnd.randrange(256))
        yield CROWD_AT + rnd.expovariate(1 / CROWD_MEAN), site.host, who, site.path(min(7, site.npages - 1)), 'browser'


def log(seed, requests, nsites):
    """The lines, in the order of time; about as many as REQUESTS."""
    rnd = random.Random(seed)
    numbers = list(range(nsites))
    rnd.shuffle(numbers)
    sites = [Site(rnd, i) for i in numbers]
    parts = (people(rnd, sites, Popular(nsites, 0.9), requests * (1 - CRAWLED - POLLED - CROWD)),
             crawlers(rnd, sites, int(requests * CRAWLED)), pollers(rnd, sites, int(requests * POLLED)),
             crowd(rnd, sites, int(requests * CROWD)))
    # Each part is drawn completely before the next: they share the random generator.
    for at, host, who, path, agent in heapq.merge(*(sorted(p) for p in parts)):
        if 0 <= at < DAY:
            yield '%s %s - - [%s] "GET %s HTTP/1.1" 200 %d "-" "%s"' % (
                host, who, time.strftime('%d/%b/%Y:%H:%M:%S +0000', time.gmtime(BEGIN + int(at))), path,
                2000 + len(path) * 97 % 9000, agent)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--requests', type=int, default=60000)
    p.add_argument('--sites', type=int, default=250)
    o = p.parse_args()
    if o.requests < 1 or o.sites < 1:
        p.error('at least one request and one site are required')
    sys.stdout.writelines(line + '\n' for line in log(o.seed, o.requests, o.sites))


if __name__ == '__main__':
    main()
