# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the measurements of limits: open-loop requests, simultaneous requests, and their results."""
import asyncio
import contextlib
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time

from agent_support import cpu_seconds, descendants, set_nice
from support.servers import World

PATIENCE_S = 30.0       # of a client; a request that takes longer has failed


class Response:
    """The result of one request: `took_s` counts from when it was due. `status` 0: no response, for reason `error`."""

    def __init__(self, due, host, status, took_s, body=b'', error=''):
        self.due, self.host, self.status, self.took_s, self.body, self.error = due, host, status, took_s, body, error

    @property
    def good(self):
        return self.status == 200


def head(host, target):
    return ('GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' % (target, host)).encode()


async def receive(reader):
    """(status, body); an incomplete response is an error."""
    data = await reader.read(-1)
    top, sep, body = data.partition(b'\r\n\r\n')
    if not sep:
        raise ConnectionError('no response')
    for line in top.split(b'\r\n')[1:]:
        name, _, value = line.partition(b':')
        if name.lower() == b'content-length' and int(value) != len(body):
            raise ConnectionError('cut short')
    return int(top.split(b' ', 2)[1]), body


async def connect(address):
    host, _, port = address.rpartition(':')
    return await asyncio.open_connection(host, int(port))


async def converse(address, host, target, due, opened=None):
    writer = None
    try:
        reader, writer = opened or await connect(address)
        writer.write(head(host, target))
        status, body = await receive(reader)
        return Response(due, host, status, time.monotonic() - due, body)
    finally:
        if writer is not None:
            writer.close()


async def ask(address, host, target, due, opened=None, patience_s=PATIENCE_S):
    try:
        return await asyncio.wait_for(converse(address, host, target, due, opened), patience_s)
    except (OSError, ValueError, asyncio.TimeoutError) as e:
        return Response(due, host, 0, time.monotonic() - due, error=type(e).__name__)


class OpenLoop:
    """Requests at random times, independent of responses: RATE a second on average. pick() returns (host, target) of
    each."""

    def __init__(self, address, rate, pick, seed=1):
        self.address, self.rate, self.pick = address, rate, pick
        self.random = random.Random(seed)
        self.responses, self.tasks, self.ending = [], set(), False
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _one(self, due):
        host, target = self.pick(self.random)
        self.responses.append(await ask(self.address, host, target, due))

    async def _run(self):
        due = time.monotonic()
        while not self.ending:
            due += self.random.expovariate(self.rate)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            t = asyncio.create_task(self._one(due))
            self.tasks.add(t)
            t.add_done_callback(self.tasks.discard)

    async def stop(self):
        """Stops, and waits for requests in flight."""
        self.ending = True
        await self.task
        while self.tasks:
            await asyncio.wait(set(self.tasks))
        return self.responses


async def wave(address, n, host, target, patience_s):
    """N connected clients send a request at the same time: (time, results)."""
    opened = [await connect(address) for _ in range(n)]
    began = time.monotonic()
    return began, await asyncio.gather(*[ask(address, host, target, began, o, patience_s) for o in opened])


def percentile_ms(responses, p):
    """Requests without a response count with the time they waited for it. None if RESPONSES is empty."""
    took = sorted(a.took_s for a in responses)
    return took[min(len(took) - 1, int(len(took) * p / 100))] * 1000 if took else None


def application_cpu(workers):
    pids = [p.pid for p in workers.processes]
    return cpu_seconds(pids + [d for p in pids for d in descendants(p)])


def go_first():
    """Sets a priority above other processes, if root."""
    if os.getuid() == 0:
        set_nice()


@contextlib.contextmanager
def fresh_world():
    """A directory and the processes started in it, which are ended with it."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix='rlb-limits-'))
    world = World(directory)
    try:
        yield world
    except BaseException:
        print('logs: %s' % directory, file=sys.stderr)
        world.close()
        raise
    world.close()
    shutil.rmtree(directory)
