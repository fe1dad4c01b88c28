# SPDX-License-Identifier: Apache-2.0
"""Python's `websockets` at both ends: a thousand idle WebSockets beside ordinary requests, and all features of the protocol."""
import asyncio
import hashlib
import os
import random

import pytest
import websockets.legacy.client        # which all releases have; their other interfaces differ
from support.base import LIMIT, free_port, wait_until
from support.certificates import Pair, blind_context, dial
from support.http import Client, get
from support.websocket_worker import PUSHED, REJECTED, WebSocketWorker
from test_http2_behaviour import metric
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, InvalidStatusCode

SOAK = int(os.environ.get('RLB_SOAK_ROUNDS', '1')) > 1
MANY = 1000
SOME = MANY if SOAK else 200
TUNNELS = 'resumelb_tunnels{application="default"}'
AT_ONCE = 50            # concurrent handshakes
ORDINARY = 50           # requests beside the WebSockets
SIZES = [0, 1, 125, 126, 65535, 65536, 1 << 20]


@pytest.fixture(scope='module', autouse=True)
def versions():
    print('websockets', websockets.__version__)


class Site:
    """A worker for WebSockets and requests, and a load balancer with a plain or a TLS listener."""

    def __init__(self, world, tls, worker=None, **settings):
        self.worker = WebSocketWorker(world, **(worker or {}))
        self.address = '127.0.0.1:%d' % free_port()
        more = {'tls': Pair(world.directory, 'site', ['test.example']).entry, 'http2': True} if tls else {}
        self.lb = world.resumelb({'workers': [self.worker.address], **settings}, listen=[{'address': self.address, **more}])
        self.url, self.tls, self.context = '%s://%s' % ('wss' if tls else 'ws', self.address), tls, blind_context()

    def connect(self, path='/echo', **options):
        if self.tls:
            options.update(ssl=self.context, server_hostname='test.example')
        options = {'ping_interval': None, 'max_size': None, 'open_timeout': LIMIT, 'close_timeout': LIMIT, **options}
        return websockets.legacy.client.connect(self.url + path, **options)

    def ordinary(self, path='/'):
        if not self.tls:
            return get(self.address, path)
        with Client(None, sock=dial(self.address, 'test.example', self.context)) as c:
            return c.request(target=path)

    def closed(self, count):
        wait_until(lambda: len(self.worker.closes) == count, '%d to be closed' % count)
        wait_until(lambda: metric(self.lb, TUNNELS) == 0, 'no tunnel to be left')
        return self.worker.closes


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, LIMIT))


@pytest.fixture(params=[False, True], ids=['plain', 'tls'])
def tls(request):
    return request.param


async def open_many(site, count):
    """Opens COUNT WebSockets, AT_ONCE concurrently. After the first failure, which is raised, no more are started."""
    room, opened, failures = asyncio.Semaphore(AT_ONCE), [], []

    async def one():
        async with room:
            try:
                if not failures:
                    opened.append(await site.connect(compression=None))     # compression would dominate the cost at both ends
            except InvalidStatusCode as e:
                failures.append(e)
    await asyncio.gather(*(one() for _ in range(count)))
    if failures:
        for ws in opened:
            ws.transport.abort()
        raise failures[0]
    return opened


async def idle_beside_ordinary_requests(site, many):
    loop = asyncio.get_running_loop()
    opened = await open_many(site, many)
    assert metric(site.lb, TUNNELS) == many
    worker = site.lb.workers()[site.worker.address]
    assert (worker['tunnels'], worker['connections']['opening'], worker['connections']['in_use']) == (many, 0, 0)
    for _ in range(ORDINARY):
        r = await loop.run_in_executor(None, site.ordinary)
        assert r.status == 200 and r.body == b'ordinary', r.status
    for i in range(0, many, AT_ONCE):
        part = opened[i:i + AT_ONCE]
        await asyncio.gather(*(ws.send('%d' % (i + n)) for n, ws in enumerate(part)))
        assert await asyncio.gather(*(ws.recv() for ws in part)) == ['%d' % (i + n) for n in range(len(part))]
    for i in range(0, many, AT_ONCE):
        await asyncio.gather(*(ws.close() for ws in opened[i:i + AT_ONCE]))


# Without limits; and with the default limits, except the time for which a request waits for a connection.
ROOM = {'no limits': {'max_connections': 0, 'max_tunnels': 0}, 'defaults': {'connection_wait_timeout': '1s'}}


@pytest.mark.parametrize('with_tls, room, many', [
    (False, 'defaults', MANY), (False, 'no limits', SOME), (True, 'defaults', SOME),
    pytest.param(True, 'no limits', SOME, marks=pytest.mark.soak)])
def test_many_idle_websockets_do_not_keep_a_worker_from_ordinary_requests(world, with_tls, room, many):
    site = Site(world, with_tls, **ROOM[room])
    run(idle_beside_ordinary_requests(site, many))
    assert site.worker.gets == ORDINARY
    assert {(code, path) for path, code, _ in site.closed(many)} == {(1000, '/echo')}


# ---- messages ----

COMPRESSION = pytest.mark.parametrize('compression', [None, 'deflate'], ids=['as it is', 'permessage-deflate'])


def messages(seed):
    """Incompressible binary messages and compressible text messages, alternating, of each size."""
    draw = random.Random(seed)
    for size in SIZES:
        yield draw.randbytes(size)
        yield ('caf\u00e9 ' * (size // 6 + 1))[:size]


@COMPRESSION
def test_messages_of_each_size_come_back_as_they_were(world, tls, compression):
    site = Site(world, tls, {'compression': compression})

    async def talk():
        async with site.connect(compression=compression) as ws:
            assert [e.name for e in ws.extensions] == (['permessage-deflate'] if compression else [])
            for message in messages(1):         # one at a time
                await ws.send(message)
                assert await ws.recv() == message
            everything = list(messages(2))      # then all without waiting, while the first ones are returned
            sending = asyncio.ensure_future(send_all(ws, everything))
            for message in everything:
                assert await ws.recv() == message
            await sending
    run(talk())
    assert site.closed(1) == [('/echo', 1000, '')]


async def send_all(ws, everything):
    for message in everything:
        await ws.send(message)


@COMPRESSION
def test_each_side_sends_without_a_response(world, tls, compression):
    site = Site(world, tls, {'compression': compression})

    async def talk():
        for size in (1, 1000, 1 << 18):
            async with site.connect('/push/%d' % size, compression=compression) as ws:
                for i in range(PUSHED):
                    assert await ws.recv() == bytes([i]) * size
            async with site.connect('/digest', compression=compression) as ws:
                sent = [random.Random(size + i).randbytes(size) for i in range(PUSHED)]
                await send_all(ws, [*sent, 'end'])
                assert await ws.recv() == hashlib.sha256(b''.join(sent)).hexdigest()
            async with site.connect(compression=compression) as ws:     # one message in pieces
                await ws.send([b'x' * size] * 5)
                assert await ws.recv() == b'x' * (5 * size)
    run(talk())
    assert {code for _, code, _ in site.closed(9)} == {1000}


def test_pings_and_pongs_of_both_sides(world, tls):
    site = Site(world, tls)

    async def talk():
        async with site.connect() as ws:
            for data in (b'', b'x', b'p' * 125):
                await (await ws.ping(data))
            await ws.pong(b'an unsolicited pong')
            await ws.send('after')
            assert await ws.recv() == 'after'
        async with site.connect('/ping') as ws:
            assert await ws.recv() == 'all pongs came'
    run(talk())
    site.closed(2)


# ---- ends ----

CODES = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999]


def test_close_codes_of_both_sides(world, tls):
    site = Site(world, tls)

    async def talk():
        for code in CODES:
            async with site.connect('/echo/%d' % code) as ws:
                await ws.close(code, 'reason %d' % code)
            async with site.connect('/close/%d' % code) as ws:
                await ws.send('now')
                with pytest.raises(ConnectionClosedOK if code in (1000, 1001) else ConnectionClosedError):
                    await ws.recv()
                assert (ws.close_code, ws.close_reason) == (code, 'because')
    run(talk())
    seen = site.closed(2 * len(CODES))
    assert sorted(c for c in seen if c[0].startswith('/echo')) == sorted(('/echo/%d' % c, c, 'reason %d' % c) for c in CODES)
    assert sorted(c for c in seen if c[0].startswith('/close')) == sorted(('/close/%d' % c, c, 'because') for c in CODES)


def test_an_end_without_a_close_frame_is_passed_on(world, tls):
    site = Site(world, tls)

    async def talk():
        async with site.connect('/abort') as ws:
            await ws.send('now')
            with pytest.raises(ConnectionClosedError):
                await ws.recv()
            assert ws.close_code == 1006
        ws = await site.connect()
        await ws.send('x')
        assert await ws.recv() == 'x'
        ws.transport.abort()
        await ws.wait_closed()
    run(talk())
    assert [code for _, code, _ in site.closed(2)] == [1006, 1006]


# ---- handshakes ----

def test_subprotocols_are_negotiated_with_the_worker(world, tls):
    site = Site(world, tls, {'subprotocols': ['chat.v2', 'chat.v1']})
    offers = {('chat.v1',): 'chat.v1', ('chat.v1', 'chat.v2'): None, ('other',): None, (): None}

    async def talk():
        for offer, chosen in offers.items():
            async with site.connect(subprotocols=list(offer) or None) as ws:
                if len(offer) == 2:         # the worker selects one of the two
                    assert ws.subprotocol in offer
                else:
                    assert ws.subprotocol == chosen
                await ws.send('x')
                assert await ws.recv() == 'x'
    run(talk())
    site.closed(len(offers))


def test_a_rejected_upgrade_is_passed_on_whole(world, tls):
    site = Site(world, tls)

    async def talk():
        for path, status in REJECTED.items():
            with pytest.raises(InvalidStatusCode) as rejected:
                await site.connect(path, close_timeout=1)       # the time-out expires, as the connection stays open for more requests
            assert rejected.value.status_code == status
            assert rejected.value.headers['X-Reason'] == 'not here'
        async with site.connect() as ws:            # the next one is accepted
            await ws.send('x')
            assert await ws.recv() == 'x'
    run(talk())
    handshake = [('Connection', 'Upgrade'), ('Upgrade', 'websocket'), ('Sec-WebSocket-Version', '13'),
                 ('Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ==')]
    with Client(None, sock=dial(site.address, 'test.example')) if tls else Client(site.address) as c:
        for _ in range(3):
            r = c.request(target='/403', headers=handshake)
            assert (r.status, r.body) == (403, b'rejected by the worker')
        assert c.request().body == b'ordinary'
    site.closed(1)
