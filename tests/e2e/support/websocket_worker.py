# SPDX-License-Identifier: Apache-2.0
"""A worker for WebSockets and ordinary GETs at one address: the server of Python's `websockets`, with its own thread and event loop."""
import asyncio
import contextlib
import hashlib
import http
import threading

import websockets.legacy.server        # which all releases have; their other interfaces differ
from websockets.exceptions import ConnectionClosed

from .base import LIMIT, free_port

PUSHED = 20             # number of messages of one /push
REJECTED = {'/403': http.HTTPStatus.FORBIDDEN, '/401': http.HTTPStatus.UNAUTHORIZED, '/503': http.HTTPStatus.SERVICE_UNAVAILABLE}


class WebSocketWorker:
    """The worker. `closes`: (path, code, reason) of the WebSockets that have ended; `gets`: number of ordinary requests."""

    def __init__(self, world, **options):
        self.port, self.closes, self.gets, self.errors = free_port(), [], 0, []
        self.address = '127.0.0.1:%d' % self.port
        self.loop = asyncio.new_event_loop()
        self.options = dict(ping_interval=None, max_size=None, backlog=1024, process_request=self.on_request, **options)
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        world.closers.append(self.close)
        self.server = self.run(self.start())

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(LIMIT)

    async def start(self):
        return await websockets.legacy.server.serve(self.on_websocket, '127.0.0.1', self.port, **self.options)

    async def stop(self):
        for ws in list(self.server.websockets):     # WebSockets that a test has left open
            ws.transport.abort()
        self.server.close()
        await self.server.wait_closed()

    def close(self):
        self.run(self.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(LIMIT)
        self.loop.close()
        assert not self.errors, self.errors

    async def on_request(self, path, headers):
        """The response to send instead of an upgrade, or None to accept the upgrade."""
        if 'upgrade' not in headers.get('Connection', '').lower():
            self.gets += 1
            return http.HTTPStatus.OK, [('Content-Type', 'text/plain')], b'ordinary'
        if path in REJECTED:
            return REJECTED[path], [('X-Reason', 'not here'), ('WWW-Authenticate', 'Basic realm="x"')], b'rejected by the worker'
        return None

    async def on_websocket(self, ws):
        try:
            await self.talk(ws)
            await ws.wait_closed()
        except ConnectionClosed:
            pass
        except Exception as e:
            self.errors.append(e)
        finally:
            self.closes.append((ws.path, ws.close_code, ws.close_reason))

    async def talk(self, ws):
        kind, _, argument = ws.path[1:].partition('/')
        if kind == 'push':              # unsolicited messages, of the size in the path
            for i in range(PUSHED):
                await ws.send(bytes([i]) * int(argument))
        elif kind == 'digest':          # one digest of all messages received
            digest = hashlib.sha256()
            while (message := await ws.recv()) != 'end':
                digest.update(message)
            await ws.send(digest.hexdigest())
        elif kind == 'ping':            # pings sent by the worker, each with a payload
            for i in range(PUSHED):
                await (await ws.ping(b'%d' % i))
            await ws.send('all pongs came')
        elif kind == 'close':           # closes with the code in the path, after the first message
            await ws.recv()
            await ws.close(int(argument), 'because')
        elif kind == 'abort':           # closes the connection without a close frame
            await ws.recv()
            ws.transport.abort()
        else:
            with contextlib.suppress(ConnectionClosed):
                async for message in ws:
                    await ws.send(message)
