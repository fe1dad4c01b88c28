#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Make the newspapers' database: many sites, each with articles, pictures and sections.

The same options give the same database. The text is meaningless, of realistic size and structure: what matters
is that an object costs a query, a decompression, a parse and some rendering, as in a real application.
"""
import argparse
import fcntl
import json
import os
import pathlib
import random
import sqlite3
import sys
import time
import zlib

SECTIONS = ['Local', 'World', 'Business', 'Sport', 'Culture', 'Science', 'Travel', 'Opinion']
TOWNS = ['Harbour', 'Valley', 'Lakeside', 'Summit', 'River', 'Prairie', 'Island', 'Forest', 'Canyon', 'Meadow',
         'Northern', 'Southern', 'Eastern', 'Western', 'Central', 'Coastal', 'Highland', 'Garden', 'Mill', 'Castle']
PAPERS = ['Herald', 'Courier', 'Gazette', 'Tribune', 'Observer', 'Chronicle', 'Post', 'Times', 'Mirror', 'Sentinel',
          'Dispatch', 'Beacon', 'Examiner', 'Ledger', 'Record', 'Echo', 'Star', 'Journal', 'Argus', 'Bulletin']
DESKS = ['City', 'Foreign', 'Markets', 'Sports', 'Arts', 'Science', 'Travel', 'Letters', 'Night', 'Weekend', 'Data', 'Picture']
WORDS = ('council bridge market river school harvest budget train mayor festival museum harbour election storm garden '
         'theatre library hospital road factory coach season player record village valley winter summer visitor ticket '
         'price water energy forest island ferry concert orchestra painter writer reader student teacher engineer old '
         'new bright quiet sudden long early late local open final public common rare warm cold grand small large plans '
         'opens closes wins loses finds builds sells buys keeps moves shows tells asks after before during without with '
         'near under over against for and but while as the a this that every many few most last next first').split()
# Per site, beside its site object and its layout: sections; the rest is articles and pictures, about half and half.
FIXED = 2 + len(SECTIONS)
SCHEMA = 2


def parse(argv=None):
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--db', type=pathlib.Path, default=default_path())
    add_options(p)
    p.add_argument('--force', action='store_true', help='make it again even if it exists')
    return p.parse_args(argv)


def add_options(p):
    p.add_argument('--sites', type=int, default=int(os.environ.get('NEWSPAPERS_SITES', 200)))
    p.add_argument('--objects', type=int, default=int(os.environ.get('NEWSPAPERS_OBJECTS', 120)), help='per site')
    p.add_argument('--seed', type=int, default=int(os.environ.get('NEWSPAPERS_SEED', 1)))


def default_path():
    """Where the database is unless NEWSPAPERS_DB says otherwise: one file per size and seed."""
    if 'NEWSPAPERS_DB' in os.environ:
        return pathlib.Path(os.environ['NEWSPAPERS_DB'])
    name = 'newspapers-%s-%s-%s.sqlite' % tuple(
        os.environ.get('NEWSPAPERS_' + k, v) for k, v in (('SITES', '200'), ('OBJECTS', '120'), ('SEED', '1')))
    return pathlib.Path(__file__).resolve().parents[2] / 'run' / name


def site_names(n):
    """Slug and title of each site; when all pairs of words are used, they are numbered."""
    for i in range(n):
        town, paper = TOWNS[i % len(TOWNS)], PAPERS[(i // len(TOWNS) + i) % len(PAPERS)]
        round_ = i // (len(TOWNS) * len(PAPERS))
        suffix = ' %d' % (round_ + 1) if round_ else ''
        title = 'The %s %s%s' % (town, paper, suffix)
        yield title[4:].lower().replace(' ', '-'), title


class Writer:
    """Makes the objects of sites from a set of sentences: fast, and no two articles are alike."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        r = self.random
        self.sentences = [' '.join(r.choices(WORDS, k=r.randint(7, 16))).capitalize() + '.' for _ in range(3000)]
        self.desks = ['the %s desk, %s' % (d.lower(), t) for d in DESKS for t in TOWNS]

    def text(self, low, high):
        return ' '.join(self.random.choices(self.sentences, k=self.random.randint(low, high)))

    def title(self):
        return ' '.join(self.random.choices(WORDS, k=self.random.randint(4, 8))).capitalize()

    def site(self, slug, title, articles):
        return {'slug': slug, 'title': title, 'motto': self.title(), 'sections': SECTIONS,
                'top': self.random.sample(range(articles), min(8, articles)),
                'editor': self.random.choice(self.desks),
                'imprint': self.text(4, 8)}

    def layout(self):
        hue = self.random.randrange(360)
        return {'hue': hue, 'accent': 'hsl(%d 60%% 32%%)' % hue, 'paper': 'hsl(%d 30%% 97%%)' % hue,
                'serif': self.random.random() < 0.6,
                'slots': [{'name': 'slot-%d' % i, 'width': self.random.choice([1, 2, 3]),
                           'rules': {k: self.random.randint(0, 40) for k in ('top', 'left', 'gap', 'pad')}}
                          for i in range(24)]}

    def section(self, number, articles):
        mine = [a for a in range(articles) if a % len(SECTIONS) == number] or [0]
        return {'title': SECTIONS[number], 'about': self.text(2, 4), 'articles': mine[:8],
                'desk': self.random.sample(self.desks, 5)}

    def article(self, number, articles, pictures):
        r = self.random
        paragraphs = []
        for _ in range(r.randint(9, 15)):
            spans = [{'style': r.choice(('plain', 'plain', 'plain', 'strong', 'em')), 'text': s}
                     for s in r.choices(self.sentences, k=r.randint(2, 5))]
            paragraphs.append({'kind': 'p', 'spans': spans})
        return {'title': self.title(), 'section': number % len(SECTIONS), 'by': r.choice(self.desks),
                'date': '2024-%02d-%02d' % (r.randint(1, 12), r.randint(1, 28)),
                'teaser': self.text(1, 2), 'body': paragraphs,
                'pictures': [(number + i) % pictures for i in range(3)],
                'related': [a for a in r.sample(range(articles), min(6, articles)) if a != number][:5],
                'tags': r.sample(WORDS[:50], 6),
                'comments': [{'by': r.choice(self.desks), 'text': r.choice(self.sentences), 'likes': r.randint(0, 99)}
                             for _ in range(r.randint(4, 10))]}

    def picture(self, number):
        r = self.random
        return {'caption': r.choice(self.sentences), 'credit': r.choice(self.desks),
                'corners': [[r.randrange(256) for _ in range(3)] for _ in range(4)],
                'sizes': [{'width': w, 'height': w * 2 // 3, 'bytes': r.randint(w * 20, w * 90),
                           'url': '/pictures/%d-%d.jpg' % (number, w), 'sha': '%064x' % r.getrandbits(256)}
                          for w in (160, 240, 320, 480, 640, 800, 1024, 1280, 1600, 1920, 2560)],
                'camera': {k: r.randint(1, 4000) for k in ('iso', 'shutter', 'focal', 'aperture', 'bias', 'lens')},
                'faces': [{'x': r.random(), 'y': r.random(), 'w': r.random(), 'h': r.random(), 'who': r.choice(
                    self.desks)} for _ in range(r.randint(3, 9))]}

    def objects(self, slug, title, count):
        """Yields the COUNT objects of a site: (kind, number, value)."""
        articles = max(1, (count - FIXED + 1) // 2)
        pictures = max(1, count - FIXED - articles)
        yield 'site', 0, self.site(slug, title, articles)
        yield 'layout', 0, self.layout()
        for n in range(len(SECTIONS)):
            yield 'section', n, self.section(n, articles)
        for n in range(articles):
            yield 'article', n, self.article(n, articles, pictures)
        for n in range(pictures):
            yield 'picture', n, self.picture(n)


def rows(sites, objects, seed):
    writer = Writer(seed)
    dumps = json.JSONEncoder(separators=(',', ':'), check_circular=False).encode
    for site, (slug, title) in enumerate(site_names(sites)):
        for kind, number, value in writer.objects(slug, title, objects):
            yield site, kind, number, zlib.compress(dumps(value).encode(), 1)


def write(db, sites, objects, seed):
    c = sqlite3.connect(db, isolation_level=None)
    # A file that is renamed when it is complete needs no journal.
    c.executescript('''pragma journal_mode = off; pragma synchronous = off; pragma page_size = 8192;
        create table about (sites integer, objects integer, seed integer, schema integer);
        create table site (id integer primary key, slug text unique, title text);
        create table object (site integer, kind text, number integer, data blob, primary key (site, kind, number))
            without rowid;
        begin;''')
    c.executemany('insert into site values (?, ?, ?)', ((i, s, t) for i, (s, t) in enumerate(site_names(sites))))
    c.executemany('insert into object values (?, ?, ?, ?)', rows(sites, objects, seed))
    total = c.execute('select count(*) from object').fetchone()[0]
    c.execute('insert into about values (?, ?, ?, ?)', (sites, total, seed, SCHEMA))
    c.execute('commit')
    c.close()


def is_good(db):
    try:
        c = sqlite3.connect('file:%s?mode=ro' % db, uri=True)
        try:
            return c.execute('select schema from about').fetchone() == (SCHEMA,)
        finally:
            c.close()
    except sqlite3.Error:
        return False


def ensure(db, sites, objects, seed, force=False, say=lambda text: None):
    """Makes DB unless it exists. Several processes may call this at once: one makes it, the others wait."""
    db = pathlib.Path(db)
    if is_good(db) and not force:
        return
    db.parent.mkdir(parents=True, exist_ok=True)
    with open('%s.lock' % db, 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_good(db) and not force:
            return
        start = time.monotonic()
        fresh = db.with_name('%s.new' % db.name)
        fresh.unlink(missing_ok=True)
        write(fresh, sites, objects, seed)
        fresh.rename(db)
        say('made %s: %d sites, %.0f MB, in %.1f s' % (
            db, sites, db.stat().st_size / 1e6, time.monotonic() - start))


def main():
    o = parse()
    if o.sites < 1 or o.objects < FIXED + 2:
        sys.exit('generate.py: needs at least 1 site and %d objects a site' % (FIXED + 2))
    ensure(o.db, o.sites, o.objects, o.seed, o.force, say=print)


if __name__ == '__main__':
    main()
