# SPDX-License-Identifier: Apache-2.0
"""The client's address: which peers may state it in header fields, and the handling of these fields from other peers."""
import json

import pytest
from support.base import free_port, wait_until
from support.http import Client
from support.scripted import hello, serve

CLAIMS = [('X-Forwarded-For', '1.1.1.1, 192.0.2.9, 127.0.0.3'), ('X-Forwarded-Proto', 'https'),
          ('X-Forwarded-Host', 'front.example'), ('Forwarded', 'for=192.0.2.9'), ('X-Request-ID', 'theirs-7')]
# The class shows the client address that classifiers use.
BY_ADDRESS = {'regex': {'variable': 'REMOTE_ADDR', 'pattern': '^(?<class>.*)$'}}


def fields(head):
    """The fields of the head of a request; values of the same name are joined."""
    out = {}
    for line in head.decode().split('\r\n')[1:]:
        name, _, value = line.partition(':')
        out.setdefault(name.strip().lower(), []).append(value.strip())
    return {name: ' + '.join(values) for name, values in out.items()}


def ask(world, headers=CLAIMS, **settings):
    """Sends a request with HEADERS. Returns the fields at the worker, and the response."""
    w = world.scripted(serve(hello))
    lb = world.resumelb(dict({'workers': [{'address': w.address}], 'classifier': BY_ADDRESS}, **settings))
    r = lb.get('/', headers=headers)
    assert r.status == 200
    return fields(w.requests[-1][0]), r, lb


@pytest.mark.parametrize('mode', ['set', 'append'])
@pytest.mark.parametrize('trusted', [[], ['10.0.0.0/8', '::1', 'unix']])
def test_forwarded_fields_of_an_untrusted_client_are_replaced_by_ours(world, mode, trusted):
    seen, r, _ = ask(world, forwarded_for=mode, trusted_proxies=trusted)
    assert seen['x-forwarded-for'] == '127.0.0.1'
    assert seen['x-forwarded-proto'] == 'http'
    assert seen['x-forwarded-host'] == 'test.example'
    assert 'forwarded' not in seen
    assert seen['x-request-id'] == r['X-Request-ID'] != 'theirs-7'
    assert seen['resumelb-class'] == '127.0.0.1'


def test_without_fields_of_ours_those_of_strangers_do_not_pass_either(world):
    seen, _, _ = ask(world, forwarded_for='off', request_id=False)
    assert not {'x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host', 'forwarded', 'x-request-id'} & set(seen)


def test_a_trusted_proxy_is_believed_up_to_the_first_address_that_is_none(world):
    seen, r, _ = ask(world, trusted_proxies=['127.0.0.0/8'])
    assert seen['x-forwarded-for'] == '192.0.2.9'
    assert seen['x-forwarded-proto'] == 'https'
    assert seen['x-forwarded-host'] == 'front.example'
    assert 'forwarded' not in seen
    assert seen['x-request-id'] == r['X-Request-ID'] == 'theirs-7'
    assert seen['resumelb-class'] == '192.0.2.9'


@pytest.mark.parametrize('trusted', [[], ['loopback']])
def test_a_certificate_is_stated_by_trusted_proxies_alone_and_proxy_by_no_client(world, trusted):
    sent = [('X-SSL-Client-Verify', 'SUCCESS'), ('X_SSL_Client_S_DN', 'CN=forged'), ('Proxy', 'http://192.0.2.9:3128')]
    seen, _, _ = ask(world, headers=sent, trusted_proxies=trusted)
    told = [name for name in seen if name.replace('_', '-').startswith('x-ssl-client')]
    assert sorted(told) == (['x-ssl-client-verify', 'x_ssl_client_s_dn'] if trusted else [])
    assert 'proxy' not in seen


def test_behind_a_trusted_proxy_append_keeps_its_list_and_adds_it(world):
    seen, _, _ = ask(world, forwarded_for='append', trusted_proxies=['loopback'])
    assert seen['x-forwarded-for'] == '1.1.1.1, 192.0.2.9, 127.0.0.3, 127.0.0.1'
    assert seen['x-forwarded-proto'] == 'https'
    assert seen['x-forwarded-host'] == 'front.example'
    assert seen['forwarded'] == 'for=192.0.2.9'
    assert seen['resumelb-class'] == '192.0.2.9'


def test_several_fields_are_one_list_and_nonsense_ends_it(world):
    several = [('X-Forwarded-For', '192.0.2.8'), ('X-Forwarded-For', 'unknown, 127.0.0.4'), ('X-Forwarded-Host', 'a b')]
    seen, _, _ = ask(world, headers=several, trusted_proxies=['loopback'])
    assert seen['x-forwarded-for'] == '127.0.0.4'
    assert seen['x-forwarded-host'] == 'test.example', 'an invalid host is not passed on'
    assert seen['x-forwarded-proto'] == 'http'


def test_a_unix_peer_is_trusted_where_the_list_reports_it(world, tmp_path):
    w = world.scripted(serve(hello))
    path, port = 'unix:' + str(tmp_path / 'front.sock'), '127.0.0.1:%d' % free_port()
    world.resumelb({'workers': [{'address': w.address}], 'trusted_proxies': ['unix']},
                   listen=[{'address': path}, {'address': port}])
    for address, client in ((path, '192.0.2.9'), (port, '127.0.0.1')):
        with Client(address) as c:
            assert c.request(headers=[('X-Forwarded-For', '192.0.2.9')]).status == 200
        assert fields(w.requests[-1][0])['x-forwarded-for'] == client


def test_the_access_log_and_keys_have_the_client_behind_the_proxy(world, tmp_path):
    log = tmp_path / 'access.log'
    _, _, lb = ask(world, trusted_proxies=['127.0.0.1'], access_log=str(log), access_log_format='json',
                   limits={'each': {'key': '{REMOTE_ADDR}', 'workers': 9}},
                   headers=[('X-Forwarded-For', '2001:db8::7')])
    wait_until(lambda: log.exists() and log.read_text().count('\n') == 1, 'the line')
    assert json.loads(log.read_text())['client'] == '2001:db8::7'
    assert lb.get('/', headers=[('X-Forwarded-For', '10.1.2.3:88')]).status == 200
    wait_until(lambda: log.read_text().count('\n') == 2, 'the second line')
    assert json.loads(log.read_text().split('\n')[1])['client'] == '10.1.2.3'


def test_sighup_changes_which_peers_are_trusted(world):
    w = world.scripted(serve(hello))
    config = {'workers': [{'address': w.address}], 'trusted_proxies': ['127.0.0.1']}
    lb = world.resumelb(config)

    def passed():
        assert lb.get('/', headers=CLAIMS).status == 200
        return fields(w.requests[-1][0])['x-forwarded-for']
    assert passed() == '127.0.0.3'
    lb.reload(dict(config, trusted_proxies=['127.0.0.0/8']))
    wait_until(lambda: passed() == '192.0.2.9', 'the new list')
    lb.reload(dict(config, trusted_proxies=[]))
    wait_until(lambda: passed() == '127.0.0.1', 'no list')
