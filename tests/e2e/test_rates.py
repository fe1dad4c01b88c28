# SPDX-License-Identifier: Apache-2.0
"""Rate limits of requests. The rates are so low that no test lasts until a second request is permitted."""
import subprocess

import pytest
from support.base import BIN, LIMIT, wait_until
from support.http import get
from support.scripted import hello, serve


def start(world, rates, **settings):
    w = world.scripted(serve(hello))
    return w, world.resumelb(dict({'workers': [{'address': w.address}], 'rates': rates}, **settings))


def rate(lb, name):
    return [r for r in lb.app()['rates'] if r['name'] == name][0]


def test_a_client_above_its_rate_is_rejected_early_with_retry_after(world):
    w, lb = start(world, {'each': {'rate': '2/d'}})
    assert [lb.get('/').status for _ in range(4)] == [200, 200, 429, 429]
    r = lb.get('/')
    assert r.status == 429 and 42000 < int(r['Retry-After']) <= 43200 and r['Cache-Control'] == 'no-store'
    assert len(w.requests) == 2
    wait_until(lambda: lb.app()['outcomes']['rate-limited'] == 3, 'the account')
    seen = rate(lb, 'each')
    assert (seen['passed'], seen['rejected'], seen['shadow_rejected'], seen['keys']) == (2, 3, 0, 1)
    page = get(lb.admin, '/metrics', host=lb.admin).text
    assert 'resumelb_rate_rejected_total{application="default",rate="each"} 3\n' in page
    assert 'resumelb_rate_passed_total{application="default",rate="each"} 2\n' in page


def test_keys_have_buckets_of_their_own_and_match_states_what_it_applies_to(world):
    _, lb = start(world, {'tenant': {'rate': '1/d', 'burst': 2, 'key': '{HTTP_X_TENANT}', 'match': {'path': 'prefix:/api/'},
                                     'status': 503}})

    def ask(target, tenant):
        return lb.get(target, headers=[('X-Tenant', tenant)]).status
    assert [ask('/api/x', 'a') for _ in range(3)] == [200, 200, 503]
    assert [ask('/api/x', 'b') for _ in range(3)] == [200, 200, 503]
    assert [ask('/other', 'a') for _ in range(5)] == [200] * 5
    assert rate(lb, 'tenant')['passed'] == 4


def test_clients_behind_a_trusted_proxy_are_distinguished(world):
    _, lb = start(world, {'each': {'rate': '1/d'}}, trusted_proxies=['loopback'])

    def ask(client):
        return lb.get('/', headers=[('X-Forwarded-For', client)]).status
    assert [ask('192.0.2.1'), ask('192.0.2.2'), ask('192.0.2.1'), ask('1.1.1.1, 192.0.2.2')] == [200, 200, 429, 429]


def test_a_forged_client_address_does_not_evade_a_rate(world):
    _, lb = start(world, {'each': {'rate': '1/d'}})
    assert [lb.get('/', headers=[('X-Forwarded-For', '192.0.2.%d' % i)]).status for i in range(3)] == [200, 429, 429]


def test_a_shadow_rejects_none_and_counts_all_the_same(world):
    _, lb = start(world, {'each': {'rate': '1/d', 'shadow': True}})
    assert [lb.get('/').status for _ in range(3)] == [200] * 3
    seen = rate(lb, 'each')
    assert (seen['passed'], seen['rejected'], seen['shadow_rejected']) == (1, 0, 2)


def test_without_retry_after_there_is_none(world):
    _, lb = start(world, {'each': {'rate': '1/d', 'retry_after': False, 'status': 403}})
    assert lb.get('/').status == 200
    r = lb.get('/')
    assert r.status == 403 and r['Retry-After'] is None


def test_the_key_used_least_recently_is_forgotten(world):
    _, lb = start(world, {'each': {'rate': '1/d', 'key': '{PATH_INFO}', 'max_keys': 2}})
    assert [lb.get(p).status for p in ('/a', '/b', '/a', '/c', '/a', '/b')] == [200, 200, 429, 200, 429, 200]
    seen = rate(lb, 'each')
    assert seen['keys'] == 2 and seen['evicted'] == 2


def test_sighup_changes_rates_and_keeps_what_was_counted(world):
    _, lb = start(world, {'each': {'rate': '1/d'}})
    assert [lb.get('/').status for _ in range(2)] == [200, 429]
    lb.reload({'rates': {'more': {'rate': '1000/s', 'shadow': True}, 'each': {'rate': '1/d', 'status': 503}}})
    wait_until(lambda: lb.get('/').status == 503, 'the new status, for the old key')
    assert rate(lb, 'each')['passed'] == 1
    lb.reload({'rates': None})
    wait_until(lambda: lb.get('/').status == 200, 'no rates')
    assert lb.app()['rates'] == []


@pytest.mark.parametrize('rates, says', [
    ('{a: {}}', 'rate'), ('{a: {rate: 5}}', '100/s'), ('{a: {rate: 0/s}}', '100/s'), ('{a: {rate: 5/week}}', '100/s'),
    ('{a: {rate: 1/d, burst: 31}}', '30 days'), ('{a: {rate: 1/s, key: "{colour}"}}', 'VARIABLE'),
    ('{a: {rate: 1/s, match: {path: "regex:("}}}', 'path'), ('{"a b": {rate: 1/s}}', 'a name consists of'),
    ('[]', 'NAME'), ('{a: 5}', 'expected'), ('{a: {rate: 1/s, bursts: 5}}', 'did you mean "burst"'),
    ('{a: {rate: 1/s, max_keys: 0}}', 'max_keys')])
def test_rates_that_cannot_be_are_rejected_with_their_place(tmp_path, rates, says):
    path = tmp_path / 'bad.yaml'
    path.write_text('listen: [{address: "127.0.0.1:1"}]\nworkers: ["127.0.0.1:2"]\nrates: %s\n' % rates)
    r = subprocess.run([BIN / 'resumelb', '-t', '-c', path], capture_output=True, text=True, timeout=LIMIT)
    assert r.returncode == 1 and 'bad.yaml:3:' in r.stderr and says in r.stderr, r.stderr
