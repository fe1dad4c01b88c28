# SPDX-License-Identifier: Apache-2.0
"""Several applications of one load balancer; classifiers; the learning of the pool, as observed by clients."""
import json

from support.base import BIN, wait_until
from support.scripted import serve


def named(world, name):
    return world.scripted(serve(lambda c, h, b: c.respond(name.encode() + b' ' + h.split(b' ')[1])))


def test_hosts_and_paths_choose_the_application(world):
    w = {n: named(world, n) for n in ('shop', 'wiki', 'wild', 'deep')}
    lb = world.resumelb({'applications': {
        'shop': {'hosts': ['shop.example'], 'workers': [{'address': w['shop'].address}]},
        'wiki': {'hosts': ['shop.example'], 'path': '/w', 'strip_prefix': True, 'workers': [{'address': w['wiki'].address}]},
        'deep': {'hosts': ['shop.example'], 'path': '/w/deep', 'workers': [{'address': w['deep'].address}]},
        'wild': {'hosts': ['*.shop.example'], 'workers': [{'address': w['wild'].address}]}}})
    body = lambda target, host: lb.get(target, host=host).text
    assert body('/', 'shop.example') == 'shop /'
    assert body('/wonder', 'SHOP.example:8080') == 'shop /wonder'
    assert body('/w', 'shop.example') == 'wiki /'
    assert body('/w/page?x=1', 'shop.example') == 'wiki /page?x=1'
    assert body('/w/deep/er', 'shop.example.') == 'deep /w/deep/er'
    assert body('/w', 'a.b.shop.example') == 'wild /w'
    assert lb.get('/', host='other.example').status == 404
    wait_until(lambda: lb.json()['applications']['shop']['stats']['requests'] == 2, 'the count')


def test_a_default_application_takes_unknown_hosts(world):
    a, b = named(world, 'a'), named(world, 'b')
    lb = world.resumelb({'applications': {
        'a': {'hosts': ['a.example'], 'workers': [a.address]},
        'b': {'hosts': ['b.example'], 'default': True, 'workers': [b.address]}}})
    assert lb.get('/', host='a.example').text == 'a /'
    assert lb.get('/', host='unknown.example').text == 'b /'
    assert lb.get('/', host=None, version='1.0').text == 'b /'


def classes(lb, app='default'):
    return {c for skills in lb.json('/resumes.json')['applications'][app].values() for c in skills}


def test_the_regex_classifier_and_percent_encoding(world):
    w = named(world, 'w')
    lb = world.resumelb({'classifier': {'regex': {'variable': 'PATH_INFO', 'pattern': '^/(?<class>[^/]+)'}},
                         'workers': [w.address], 'history': 1})
    for target in ('/plain', '/a%20b', '/100%25', '/caf%C3%A9', '/%00%0d%0aX:%20y', '/%22quoted%22', '/' + 'x' * 300):
        assert lb.get(target).status == 200, target
    wait_until(lambda: len(classes(lb)) >= 6, 'the classes')
    assert classes(lb) == {'plain', 'a%20b', '100%25', 'caf%C3%A9', '%00%0D%0AX:%20y', '"quoted"', ''}
    sent = [h for h, _ in w.requests]
    assert any(b'\r\nResumelb-Class: %00%0D%0AX:%20y\r\n' in h or b'resumelb-class: %00%0D%0AX:%20y' in h for h in sent)


def test_the_example_plugin_classifies(world):
    w = named(world, 'w')
    so = BIN.parent / 'lib' / 'example_path.so'
    lb = world.resumelb({'classifier': {'plugin': {'path': str(so)}}, 'workers': [w.address], 'history': 1})
    for target in ('/news/1', '/news/2', '/sport/1'):
        lb.get(target)
    wait_until(lambda: classes(lb) >= {'news', 'sport'}, 'the classes')


def test_each_class_stays_with_its_worker(world):
    workers = [named(world, 'w%d' % i) for i in range(4)]
    lb = world.resumelb({'workers': [w.address for w in workers], 'history': 50})
    where = {}
    for turn in range(10):
        for site in range(8):
            where.setdefault(site, set()).add(lb.get('/', host='site%d.example' % site).text)
    assert all(len(s) == 1 for s in where.values()), where
    assert len({next(iter(s)) for s in where.values()}) == 4, 'all workers have some'
    assert all(7 <= len(w.requests) for w in workers)
    # Each class is learned once and then stays; the reasons in the statistics depend on the policy.
    picks = {reason: n for reason, n in lb.app()['picks'].items() if n}
    assert picks == {'new': 8, 'home': 72}


def test_hostile_class_names_harm_nothing(world):
    w = named(world, 'w')
    lb = world.resumelb({'workers': [w.address], 'access_log': str(world.directory / 'access.log')})
    for host in ('a"b', "it's", '<script>', 'x' * 10_000, 'a{b}', 'host\\with\\slashes', 'a;b', '%', 'xn--caf-dma'):
        assert lb.get('/', host=host).status in (200, 400), host
    from support.http import Client
    for raw in (b'\xff\xfe\x80', b'a\xc3(', b'a\tb', b'\x7f', b'a\x00b', b'\x01'):
        with Client(lb.address) as c:
            c.send_raw(b'GET / HTTP/1.1\r\nHost: ' + raw + b'\r\n\r\n')
            assert c.receive().status in (200, 400)
    status = lb.json()
    json.dumps(status)
    assert lb.get('/').status == 200
    log = wait_until(lambda: (world.directory / 'access.log').read_bytes(), 'the access log')
    assert all(0x20 <= b < 0x7f or b == 0x0a for b in log)
