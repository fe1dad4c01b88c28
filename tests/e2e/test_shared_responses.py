# SPDX-License-Identifier: Apache-2.0
"""Responses shared by coalescing or as stale responses: a user never gets a response that was generated for another user."""
import itertools
import socket

import pytest
from limit_support import HeldApp, balancer, outcome, waits
from support.base import LIMIT, free_port, wait_until
from support.certificates import Pair, blind_context, dial
from support.http import Client
from test_tls_clients import issue, with_certificate

STALE = {'pages': {'workers': 1, 'key': 'x', 'maxqueue': 1, 'on_full': 'stale'}}
ANY = {'pages': {'mode': 'any', 'workers': 1, 'maxqueue': 1000, 'key': 'x'}}
# A new page for each request, so that no stored response can respond to it.
PAGES = ('/page?%d' % n for n in itertools.count())


@pytest.fixture
def app():
    a = HeldApp()
    yield a
    a.let_all_go()
    a.server.close()


class Visitor:
    """A client with its connection to the load balancer, and the header fields of its requests."""

    def __init__(self, address, headers=(), context=None, source=None):
        self.address, self.headers, self.context, self.source = address, list(headers), context, source

    def send(self, lb, target):
        before = lb.app()['stats']['requests']
        if self.source is not None:
            host, port = self.address.split(':')
            client = Client(None, sock=socket.create_connection((host, int(port)), LIMIT, (self.source, 0)))
        elif self.context is not None:
            client = Client(None, sock=dial(self.address, None, self.context))
        else:
            client = Client(self.address)
        client.send('GET', target, 'a.example', self.headers)
        wait_until(lambda: lb.app()['stats']['requests'] == before + 1, 'the request to arrive')
        return client


def receive(client):
    r = client.receive()
    client.close()
    return r


def gets_stale(lb, app, maker, other):
    """Returns whether OTHER, with a request that exceeds the limit, gets the stored response to MAKER."""
    target = next(PAGES)
    first = maker.send(lb, target)
    app.let_go()
    page = receive(first)
    assert page.status == 200 and page['cache-status'] is None
    busy = Visitor(lb.address).send(lb, '/busy')
    app.under_way(1)
    r = receive(other.send(lb, target))
    app.let_go()
    assert receive(busy).status == 200
    assert r.status in (200, 503)
    assert r.status == 503 or (r.text == page.text and 'hit' in r['cache-status'])
    return r.status == 200


def coalesces(lb, app, maker, other):
    """Returns whether OTHER, with a request during that of MAKER, gets the same response."""
    target = next(PAGES)
    first = maker.send(lb, target)
    app.under_way(1)
    second = other.send(lb, target)
    waits(lb, 1)
    before = outcome(lb, 'coalesced')
    app.let_go()
    page = receive(first)
    wait_until(lambda: app.waiting or outcome(lb, 'coalesced') > before, 'its turn')
    if app.waiting:
        app.let_go()
    r = receive(second)
    assert r.status == 200 and (r.text == page.text) == (r['cache-status'] is not None)
    return r['cache-status'] is not None


WAYS = pytest.mark.parametrize('counters, shares', [(STALE, gets_stale), (ANY, coalesces)], ids=['stale', 'coalescing'])
IDENTIFY = [('Cookie', 'session=ann'), ('Authorization', 'Basic eDp5'), ('X-API-Key', 'secret'), ('x_api_key', 'secret'),
            ('X-Remote-User', 'ann'), ('X-Auth-Request-Email', 'ann@a.example')]


@WAYS
@pytest.mark.parametrize('field', IDENTIFY, ids=[name for name, _ in IDENTIFY])
def test_a_request_that_identifies_a_user_shares_no_response(world, app, counters, shares, field):
    lb = balancer(world, app, counters)
    user, anybody = Visitor(lb.address, [field]), Visitor(lb.address)
    assert not shares(lb, app, user, anybody)
    assert shares(lb, app, anybody, anybody)
    assert not shares(lb, app, anybody, user)
    assert not shares(lb, app, user, user)


@WAYS
def test_the_configuration_states_what_identifies_a_user(world, app, counters, shares):
    lb = balancer(world, app, counters, stored_with_cookies=True, private_headers=['X-Tenant'])
    anybody = Visitor(lb.address)
    assert shares(lb, app, Visitor(lb.address, [('Cookie', 'a=1'), ('X-API-Key', 'k')]), anybody)
    assert not shares(lb, app, Visitor(lb.address, [('X_Tenant', 'a')]), anybody)
    assert not shares(lb, app, anybody, Visitor(lb.address, [('X-Tenant', '')]))


@WAYS
def test_a_header_rule_that_renames_a_private_field_does_not_make_it_public(world, app, counters, shares):
    rules = {'request': {'set': {'X-Caller': '{HTTP_X_API_KEY}'}, 'remove': ['X-API-Key']}}
    lb = balancer(world, app, counters, headers=rules)
    user, anybody = Visitor(lb.address, [('X-API-Key', 'secret')]), Visitor(lb.address)
    assert not shares(lb, app, user, anybody)
    assert not shares(lb, app, anybody, user)
    assert shares(lb, app, anybody, anybody)


class Certified:
    """A listener that verifies certificates, and visitors with one, with another and without."""

    def __init__(self, world, app, counters, **settings):
        authority, server = (Pair(world.directory, name, [name + '.example']) for name in ('authority', 'server'))
        address, plain = ('127.0.0.1:%d' % free_port() for _ in range(2))
        tls = {**server.entry, 'client_ca': str(authority.cert), 'client_verify': 'optional'}
        self.lb = balancer(world, app, counters, listen=[
            {'address': plain}, {'address': address, 'tls': tls}], **settings)
        self.lb.address = plain
        self.ann, self.bob = (Visitor(address, context=with_certificate(issue(world.directory, authority, name, '/CN=' + name)))
                              for name in ('ann', 'bob'))
        self.without = Visitor(address, context=blind_context())


@WAYS
@pytest.mark.parametrize('vary', [(), [('Vary', 'X-SSL-Client-S-DN')]], ids=['plain', 'vary'])
def test_a_page_made_for_one_certificate_is_for_no_other_user(world, app, counters, shares, vary):
    app.responses['/page'] = lambda c, n: c.respond(b'number %d' % n, headers=vary)
    site = Certified(world, app, counters)
    assert not shares(site.lb, app, site.ann, site.without)
    assert not shares(site.lb, app, site.ann, site.bob)
    assert shares(site.lb, app, site.without, site.without)
    assert not shares(site.lb, app, site.without, site.ann)


@WAYS
def test_certificates_share_where_the_configuration_reports_it_by_what_we_state_of_them(world, app, counters, shares):
    app.responses['/page'] = lambda c, n: c.respond(b'number %d' % n, headers=[('Vary', 'X-SSL-Client-S-DN')])
    site = Certified(world, app, counters, stored_with_certificates=True)
    assert shares(site.lb, app, site.ann, site.ann)
    assert not shares(site.lb, app, site.bob, site.without)
    # A forged field does not select the variant.
    forger = Visitor(site.without.address, [('X-SSL-Client-S-DN', 'CN=bob')], site.without.context)
    assert not shares(site.lb, app, site.bob, forger)


@WAYS
def test_a_certificate_that_a_trusted_proxy_has_verified_counts_as_one(world, app, counters, shares):
    lb = balancer(world, app, counters, trusted_proxies=['loopback'])
    certified = Visitor(lb.address, [('X-SSL-Client-Verify', 'SUCCESS'), ('X-SSL-Client-S-DN', 'CN=ann')])
    without, anybody = Visitor(lb.address, [('X-SSL-Client-Verify', 'NONE')]), Visitor(lb.address)
    assert not shares(lb, app, certified, anybody)
    assert not shares(lb, app, anybody, certified)
    assert shares(lb, app, without, anybody)


@WAYS
@pytest.mark.parametrize('vary, forged', [('X-Forwarded-For', '127.0.0.1'), ('x_forwarded_for', '127.0.0.1')])
def test_vary_by_what_we_set_is_judged_by_our_values(world, app, counters, shares, vary, forged):
    app.responses['/page'] = lambda c, n: c.respond(b'number %d' % n, headers=[('Vary', vary)])
    lb = balancer(world, app, counters)
    here = Visitor(lb.address)
    elsewhere = Visitor(lb.address, [('X-Forwarded-For', forged)], source='127.0.0.2')
    assert shares(lb, app, here, Visitor(lb.address, [('X-Forwarded-For', '192.0.2.7')]))
    assert not shares(lb, app, here, elsewhere)


def test_waiters_of_another_variant_get_the_first_response_of_theirs(world, app):
    app.responses['/page'] = lambda c, n: c.respond(b'number %d' % n, headers=[('Vary', 'Accept-Encoding')])
    lb = balancer(world, app, ANY)
    first = Visitor(lb.address, [('Accept-Encoding', 'gzip')]).send(lb, '/page')
    app.under_way(1)
    wanted = ['br', 'br', 'zstd', 'br', 'zstd', 'br']
    others = [Visitor(lb.address, [('Accept-Encoding', e)]).send(lb, '/page') for e in wanted]
    waits(lb, len(others))
    app.let_go()
    pages = {('gzip', receive(first).text)}
    for _ in range(2):
        app.under_way(1)
        app.let_go()
    wait_until(lambda: app.waiting or outcome(lb, 'coalesced') == len(others) - 2, 'the others to get theirs')
    assert not app.waiting
    for encoding, client in zip(wanted, others):
        r = receive(client)
        assert r.status == 200
        pages.add((encoding, r.text))
    assert len(pages) == 3 and outcome(lb, 'coalesced') == len(others) - 2


@WAYS
def test_vary_by_what_is_different_for_each_request_is_not_shared(world, app, counters, shares):
    app.responses['/page'] = lambda c, n: c.respond(b'number %d' % n, headers=[('Vary', 'X-Request-ID')])
    lb = balancer(world, app, counters, trusted_proxies=['loopback'])
    same = Visitor(lb.address, [('X-Request-ID', 'one')])
    assert not shares(lb, app, same, same)


def test_responses_stored_under_other_rules_go_with_them(world, app):
    lb = balancer(world, app, STALE, stored_with_cookies=True)
    user, anybody = Visitor(lb.address, [('Cookie', 'a=1')]), Visitor(lb.address)
    first = user.send(lb, '/page')
    app.let_go()
    assert receive(first).status == 200
    lb.reload(dict(lb.config, stored_with_cookies=False))
    wait_until(lambda: 'config-reloaded' in lb.process.output(), 'the new file')
    busy = anybody.send(lb, '/busy')
    app.under_way(1)
    assert receive(anybody.send(lb, '/page')).status == 503
    app.let_go()
    assert receive(busy).status == 200
