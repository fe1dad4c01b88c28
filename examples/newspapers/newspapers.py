# SPDX-License-Identifier: Apache-2.0
"""A WSGI application that serves many newspapers from one database, and is fast only with a warm cache.

    GET /              of a newspaper's host: its front page
    GET /section/N     one section
    GET /article/N     one article
    GET /_stats        this process's counters (/_stats.json for programs)
    GET /_sites.json   the list of newspapers
    GET /healthz       "ok"

The first label of the Host names the newspaper: harbour-herald.localhost, harbour-herald.example. Each page is
made of 17 to 20 objects of one newspaper. They are stored in a cache with room for a quarter of all
newspapers (NEWSPAPERS_CACHE objects); any other object costs a query and some unpacking. Every response reports
its cost: X-Database-Loads, X-Cache-Hits, X-Worker-Pid.

Settings are environment variables: NEWSPAPERS_DB, NEWSPAPERS_CACHE, NEWSPAPERS_LOAD_DELAY_MS (the latency of a
remote database), and those of generate.py, which makes the database at the first start.
"""
import base64
import collections
import json
import os
import re
import sqlite3
import struct
import threading
import time
import zlib
from html import escape

import generate
import pages

WORD = re.compile(r'[a-z]{4,}')


class Cache:
    """The newspapers' objects by (site, kind, number); the least recently used ones are evicted."""

    def __init__(self, load, room):
        self.load, self.room = load, room
        self.objects = collections.OrderedDict()
        self.loads = self.hits = self.evictions = 0

    def get(self, key):
        found = self.objects.get(key)
        if found is not None:
            self.hits += 1
            self.objects.move_to_end(key)
            return found
        self.loads += 1
        found = self.objects[key] = self.load(key)
        if len(self.objects) > self.room:
            self.objects.popitem(last=False)
            self.evictions += 1
        return found


class Database:
    """Loads objects: a query, then unpacking and preparing them for pages."""

    def __init__(self, path, delay_s):
        self.connection = sqlite3.connect('file:%s?mode=ro' % path, uri=True, check_same_thread=False)
        # Small: the example needs a database that does not fit into each process's memory.
        self.connection.execute('pragma cache_size = -512')
        self.delay_s = delay_s
        self.sites = {slug: (number, title) for number, slug, title in
                      self.connection.execute('select id, slug, title from site order by id')}
        self.total = self.connection.execute('select objects from about').fetchone()[0]
        self.seconds = 0.0

    def load(self, key):
        start = time.perf_counter()
        if self.delay_s:
            time.sleep(self.delay_s)
        row = self.connection.execute(
            'select data from object where site = ? and kind = ? and number = ?', key).fetchone()
        if row is None:
            raise KeyError(key)
        prepared = PREPARE[key[1]](json.loads(zlib.decompress(row[0])))
        self.seconds += time.perf_counter() - start
        return prepared


def prepare_plain(value):
    return value


def prepare_article(value):
    """The body as HTML, and the words it uses most."""
    tags = {'strong': ('<strong>', '</strong>'), 'em': ('<em>', '</em>'), 'plain': ('', '')}
    out = []
    words = collections.Counter()
    for paragraph in value.pop('body'):
        out.append('<p>')
        for span in paragraph['spans']:
            before, after = tags[span['style']]
            out.append(before + escape(span['text']) + after + ' ')
            words.update(WORD.findall(span['text'].lower()))
        out.append('</p>')
    value['html'] = ''.join(out)
    value['words'] = sum(words.values())
    value['keywords'] = [w for w, _ in words.most_common(5)]
    value['comments'] = [(c['by'], c['text'], c['likes']) for c in value['comments']]
    return value


def prepare_picture(value):
    """A thumbnail, drawn from its corner colors, as a data: URL, and only the size for the page."""
    width, height = 36, 24
    a, b, c, d = value['corners']
    lines = []
    for y in range(height):
        v = y / (height - 1)
        left = [p + (q - p) * v for p, q in zip(a, c)]
        step = [(p + (q - p) * v - k) / (width - 1) for p, q, k in zip(b, d, left)]
        lines.append(b'\0' + bytes([int(k + s * x) for x in range(width) for k, s in zip(left, step)]))
    return {'caption': value['caption'], 'credit': value['credit'], 'file': value['sizes'][2]['url'],
            'url': 'data:image/png;base64,' + base64.b64encode(png(width, height, b''.join(lines))).decode()}


def png(width, height, raw):
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)) +
            chunk(b'IDAT', zlib.compress(raw, 6)) + chunk(b'IEND', b''))


PREPARE = {'site': prepare_plain, 'layout': prepare_plain, 'section': prepare_plain, 'article': prepare_article,
           'picture': prepare_picture}


class Site:
    """The objects of one newspaper, read through the cache."""

    def __init__(self, cache, number):
        self.cache, self.number = cache, number

    def get(self, kind, number=0):
        return self.cache.get((self.number, kind, number))

    def teasers(self, numbers):
        """(number, article, its first picture) of each."""
        for n in numbers:
            article = self.get('article', n)
            yield n, article, self.get('picture', article['pictures'][0])


class Newspapers:
    """The application. A process serves one request at a time."""

    def __init__(self, database, room):
        self.database = database
        self.cache = Cache(database.load, room)
        self.requests = 0
        self.by_site = collections.Counter()
        self.started = time.time()
        self.lock = threading.Lock()

    def __call__(self, environ, start_response):
        with self.lock:
            before = self.cache.loads, self.cache.hits
            status, kind, body = self.respond(environ)
            loads, hits = self.cache.loads - before[0], self.cache.hits - before[1]
        body = body.replace('{cost}', pages.cost(os.getpid(), loads, hits)).encode()
        start_response(status, [('Content-Type', kind), ('Content-Length', str(len(body))),
                                ('Cache-Control', 'no-store'),
                                ('X-Worker-Pid', str(os.getpid())),
                                ('X-Database-Loads', str(loads)), ('X-Cache-Hits', str(hits))])
        return [b'' if environ['REQUEST_METHOD'] == 'HEAD' else body]

    def respond(self, environ):
        """(status, content type, text)."""
        path = environ.get('PATH_INFO') or '/'
        if environ['REQUEST_METHOD'] not in ('GET', 'HEAD'):
            return '405 Method Not Allowed', 'text/plain', 'GET or HEAD\n'
        if path == '/healthz':
            return '200 OK', 'text/plain', 'ok\n'
        if path == '/_stats.json':
            return '200 OK', 'application/json', json.dumps(self.stats(), indent=1) + '\n'
        if path == '/_stats':
            return '200 OK', 'text/html; charset=utf-8', pages.stats(self.stats())
        if path == '/_sites.json':
            return '200 OK', 'application/json', json.dumps(list(self.database.sites)) + '\n'
        host = environ.get('HTTP_HOST', '').lower()
        slug = host.split(':')[0].removeprefix('www.').split('.')[0]
        if slug in self.database.sites:
            return self.newspaper(slug, path)
        if path == '/':
            port = host.rpartition(':')[2] if ':' in host else ''
            return '200 OK', 'text/html; charset=utf-8', pages.index(self.database.sites, port)
        return '404 Not Found', 'text/plain', 'no such newspaper\n'

    def newspaper(self, slug, path):
        self.requests += 1
        self.by_site[slug] += 1
        site = Site(self.cache, self.database.sites[slug][0])
        kind, _, number = path.lstrip('/').partition('/')
        try:
            if path == '/':
                text = self.front(site)
            elif kind == 'section' and number.isdecimal():
                text = self.section(site, int(number))
            elif kind == 'article' and number.isdecimal():
                text = self.article(site, int(number))
            else:
                raise KeyError(path)
        except (KeyError, OverflowError):
            return '404 Not Found', 'text/plain', 'no such page\n'
        return '200 OK', 'text/html; charset=utf-8', text

    def front(self, site):
        about, layout = site.get('site'), site.get('layout')
        return pages.front(about, layout, list(site.teasers(about['top'])))

    def section(self, site, number):
        about, layout, section = site.get('site'), site.get('layout'), site.get('section', number)
        return pages.section(about, layout, number, section, list(site.teasers(section['articles'])))

    def article(self, site, number):
        about, layout, article = site.get('site'), site.get('layout'), site.get('article', number)
        return pages.article(about, layout, article, site.get('section', article['section']),
                             [site.get('picture', n) for n in article['pictures']],
                             list(site.teasers(article['related'])))

    def stats(self):
        cache = self.cache
        asked = cache.loads + cache.hits
        return {'pid': os.getpid(), 'up_s': round(time.time() - self.started, 1), 'requests': self.requests,
                'database_loads': cache.loads, 'cache_hits': cache.hits,
                'hit_rate': round(cache.hits / asked, 4) if asked else 0.0,
                'loads_per_request': round(cache.loads / self.requests, 3) if self.requests else 0.0,
                'load_ms': round(self.database.seconds * 1000 / cache.loads, 3) if cache.loads else 0.0,
                'cached': len(cache.objects), 'cache_room': cache.room, 'evictions': cache.evictions,
                'objects_in_all': self.database.total, 'sites': len(self.by_site),
                'busiest': self.by_site.most_common(12)}


def create():
    o = generate.parse([])
    generate.ensure(o.db, o.sites, o.objects, o.seed)
    database = Database(o.db, float(os.environ.get('NEWSPAPERS_LOAD_DELAY_MS', 0)) / 1000)
    return Newspapers(database, int(os.environ.get('NEWSPAPERS_CACHE', 0)) or database.total // 4)


_made = None


def application(environ, start_response):
    """The entry point for gunicorn. The application is created at the first request, so that each process has its own."""
    global _made
    if _made is None:
        _made = create()
    return _made(environ, start_response)
