# SPDX-License-Identifier: Apache-2.0
"""Sessions are resumed with tickets: on every loop, after reloads, and only with the same certificates."""
import ssl

import pytest
from support.base import free_port, wait_until
from support.certificates import Pair, blind_context
from support.http import Client, connect, get
from support.scripted import hello, serve

VERSIONS = pytest.mark.parametrize('version', [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=['1.2', '1.3'])


class Visitor:
    """A client that stores its last session."""

    def __init__(self, address, name, version):
        self.address, self.name, self.context, self.session = address, name, blind_context(version), None

    def visit(self, name=None):
        """Sends a request. Returns whether the session was resumed."""
        s = self.context.wrap_socket(connect(self.address), server_hostname=name or self.name, session=self.session)
        with Client(None, sock=s) as c:
            assert c.request(host=name or self.name).status == 200
            # in TLS 1.3 the ticket arrives after the handshake and before the response
            resumed, self.session = s.session_reused, s.session
        return resumed


@pytest.fixture
def pairs(world):
    return [Pair(world.directory, name, [name + '.example']) for name in ('one', 'two')]


def start(world, pairs, **tls):
    w = world.scripted(serve(hello))
    address = '127.0.0.1:%d' % free_port()
    lb = world.resumelb({'workers': [w.address]}, threads=3, listen=[
        {'address': address, 'tls': {'certificates': [p.entry for p in pairs], **tls}}])
    return lb, address


def reload(lb, pairs, **tls):
    before = lb.process.output().count('config-reloaded')
    lb.config['listen'][0]['tls'] = {'certificates': [p.entry for p in pairs], **tls}
    lb.reload()
    wait_until(lambda: lb.process.output().count('config-reloaded') > before, 'the reload')


@VERSIONS
def test_a_session_is_resumed_on_every_loop(world, pairs, version):
    lb, address = start(world, pairs)
    visitor = Visitor(address, 'one.example', version)
    assert not visitor.visit()
    assert all(visitor.visit() for _ in range(20))
    assert 'resumelb_tls_resumed_total 20' in get(lb.admin, '/metrics', host=lb.admin).text


@VERSIONS
def test_a_session_is_not_resumed_at_another_certificate(world, pairs, version):
    lb, address = start(world, pairs)
    visitor = Visitor(address, 'one.example', version)
    assert not visitor.visit() and visitor.visit()
    assert not visitor.visit('two.example')
    assert visitor.visit('two.example')


@VERSIONS
def test_a_session_outlives_a_reload_with_the_same_certificate(world, pairs, version):
    lb, address = start(world, pairs)
    visitor = Visitor(address, 'one.example', version)
    assert not visitor.visit() and visitor.visit()
    reload(lb, pairs[::-1])
    assert visitor.visit()
    # but not a session with another certificate
    kept = visitor.session
    new = Pair(world.directory, 'new', ['one.example'])
    reload(lb, [new, pairs[1]])
    assert not visitor.visit() and visitor.visit()
    visitor.session = kept
    assert not visitor.visit()


@VERSIONS
def test_a_session_ends_when_its_key_has_been_rotated_away(world, pairs, version):
    lb, address = start(world, pairs, ticket_rotation='1s')
    visitor = Visitor(address, 'one.example', version)
    assert not visitor.visit()
    kept = visitor.session

    def forgotten():
        visitor.session = kept
        return not visitor.visit()
    wait_until(forgotten, 'the key to go')
    # a client that returns in time, which a busy machine may prevent, has a ticket of the newest key each time
    wait_until(visitor.visit, 'it to come back in time')
