# SPDX-License-Identifier: Apache-2.0
"""Header fields that the configuration sets, adds and removes."""
import subprocess

import pytest
from support.base import BIN, LIMIT, wait_until
from support.http import Client
from support.scripted import hello, serve

HSTS = 'max-age=31536000; includeSubDomains'


def start(world, headers, response=hello, **settings):
    w = world.scripted(serve(response))
    return w, world.resumelb(dict({'workers': [{'address': w.address}], 'headers': headers}, **settings))


def lines(head):
    return head.decode().split('\r\n')[1:]


def test_fields_of_requests_are_set_added_and_removed(world):
    w, lb = start(world, {'request': {'set': {'X-Class': '{class}', 'X-Client': '{REMOTE_ADDR}', 'X-Gone': '{HTTP_X_NONE}'},
                                      'add': {'X-More': 'ours; {REQUEST_METHOD}'}, 'remove': ['X-Secret', 'Referer']}})
    r = lb.get('/', headers=[('X-CLIENT', 'forged'), ('x_client', 'forged'), ('X-Gone', 'forged'), ('X-More', 'theirs'),
                             ('X-Secret', '1'), ('x_secret', '2'), ('Referer', 'z'), ('X-Kept', 'k')])
    assert r.status == 200
    seen = lines(w.requests[-1][0])
    low = [line.lower() for line in seen]
    assert 'X-Class: test.example' in seen and 'X-Client: 127.0.0.1' in seen and 'X-Kept: k' in seen
    assert [line for line in seen if line.startswith('X-More')] == ['X-More: theirs', 'X-More: ours; GET']
    assert not [line for line in low if 'forged' in line or 'secret' in line or line.startswith(('referer', 'x-gone'))]


@pytest.mark.parametrize('value', [None, ''])
def test_a_field_without_a_value_is_rejected(world, value):
    lb = world.resumelb({'workers': ['127.0.0.1:1'], 'headers': {'request': {'set': {'X-None': value}}}}, wait=False)
    assert lb.process.wait() == 1
    assert 'headers: set: X-None: has no value; use remove to remove a field' in lb.process.output()


def test_fields_of_responses_are_set_added_and_removed(world):
    def respond(c, head, body):
        c.respond(b'x', headers=[('Server', 'w'), ('X-Powered-By', 'p'), ('Strict-Transport-Security', 'max-age=0'),
                                ('Link', '<a>'), ('X-Kept', 'k')])
    _, lb = start(world, {'response': {'set': {'Strict-Transport-Security': HSTS, 'X-Path': '{PATH_INFO}'}, 'add': {'Link': '<b>'},
                                       'remove': ['server', 'X-Powered-By']}}, respond)
    with Client(lb.address) as c:
        c.send_raw(b'GET /a%0d%0aSet-Cookie:x HTTP/1.1\r\nHost: a\r\n\r\n')
        r = c.receive()
    fields = sorted((n.lower(), v) for n, v in r.headers)
    assert ('strict-transport-security', HSTS) in fields
    assert [v for n, v in fields if n == 'strict-transport-security'] == [HSTS]
    assert [v for n, v in fields if n == 'link'] == ['<a>', '<b>']
    assert ('x-path', '/a%0D%0ASet-Cookie:x') in fields and ('x-kept', 'k') in fields
    assert not {'server', 'x-powered-by', 'set-cookie'} & {n for n, _ in fields}


def test_responses_of_our_own_have_them_too_but_for_what_describes_a_body(world):
    _, lb = start(world, {'response': {'set': {'Strict-Transport-Security': HSTS, 'Cache-Control': 'public',
                                               'Content-Type': 'x/y', 'X-Frame-Options': 'DENY'}}})
    r = lb.get('/', method='PROPFIND')
    assert r.status == 405 and r['Strict-Transport-Security'] == HSTS and r['X-Frame-Options'] == 'DENY'
    assert r['Content-Type'].startswith('text/html') and r['Cache-Control'] == 'no-store'
    r = lb.get('/', method='OPTIONS', headers=[('Max-Forwards', '0')])
    assert r.status == 200 and r['Strict-Transport-Security'] == HSTS


def test_keys_see_requests_as_they_were_changed(world):
    _, lb = start(world, {'request': {'set': {'X-Tenant': 'one'}}},
                  limits={'tenant': {'key': '{HTTP_X_TENANT}', 'mode': 'any'}})
    assert lb.get('/', headers=[('X-Tenant', 'two')]).status == 200


def test_sighup_changes_them(world):
    w, lb = start(world, {'response': {'set': {'X-Version': '1'}}})
    assert lb.get('/')['X-Version'] == '1'
    lb.reload({'headers': {'response': {'set': {'X-Version': '2'}}}})
    wait_until(lambda: lb.get('/')['X-Version'] == '2', 'the new rules')
    lb.reload({'headers': None})
    wait_until(lambda: lb.get('/')['X-Version'] is None, 'no rules')


@pytest.mark.parametrize('headers, says', [
    ('{request: {set: {Host: x}}}', 'Host'), ('{request: {set: {Content-Length: 1}}}', 'framing'),
    ('{response: {set: {Resumelb-Class: x}}}', 'agent'), ('{response: {remove: [Connection]}}', 'Connection'),
    ('{request: {set: {X-Forwarded-For: x}}}', 'forwarded_for'), ('{response: {set: {X: "{colour}"}}}', 'VARIABLE'),
    ('{response: {set: {X: "a\\nb"}}}', 'ASCII'), ('{response: {set: {"X Y": a}}}', 'field name'),
    ('{requests: {}}', 'did you mean "request"'), ('{request: {sets: {}}}', 'did you mean "set"'),
    ('{request: {set: [X]}}', 'NAME: VALUE'), ('[]', 'expected'), ('{request: {set: {X: {a: b}}}}', 'one value')])
def test_rules_that_cannot_be_are_rejected_with_their_place(tmp_path, headers, says):
    path = tmp_path / 'bad.yaml'
    path.write_text('listen: [{address: "127.0.0.1:1"}]\nworkers: ["127.0.0.1:2"]\nheaders: %s\n' % headers)
    r = subprocess.run([BIN / 'resumelb', '-t', '-c', path], capture_output=True, text=True, timeout=LIMIT)
    assert r.returncode == 1 and 'bad.yaml:3:' in r.stderr and says in r.stderr, r.stderr
