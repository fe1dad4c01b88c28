#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
The effect of an operator's changes on requests: SIGHUP with other settings, a renewed certificate, a redeployment of the
workers (restart.txt), a new program (SIGUSR2).

    bench/edge_changes.py [--seconds 60] [--rate 2000] [--every 2] [--agent-rate 50] [--json FILE]

--rate requests per second are sent in an open loop; half of them are POSTs with a unique name. Nine in ten use persistent
connections, of which one in five is TLS; the others use a connection each. A client stops using a connection when the
server closes it or asks to, and retries nothing: every request without a 200, and every POST that reached a worker twice,
is counted. --agent-rate of them go to two processes of a gunicorn behind an agent, the others to four listed workers. The
next change follows every --every seconds. RLB_BIN: directory of the programs (default build/bin).
"""
import argparse
import asyncio
import collections
import itertools
import json
import random
import ssl
import time

from agent_support import number, table
from limit_load import fresh_world, go_first, percentile_ms
from support.base import free_port, wait_until
from support.certificates import Pair
from upgrade_support import upgrade

PATIENCE_S = 30.0


class Worker(asyncio.Protocol):
    """Responds in 1 ms, and records each POST."""

    def __init__(self, seen):
        self.seen, self.buffer = seen, bytearray()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        while True:
            end = self.buffer.find(b'\r\n\r\n')
            if end < 0:
                return
            fields = dict(line.lower().split(b': ', 1) for line in bytes(self.buffer[:end]).split(b'\r\n')[1:])
            whole = end + 4 + int(fields.get(b'content-length', 0))
            if len(self.buffer) < whole:
                return
            if b'x-once' in fields:
                self.seen[fields[b'x-once']] += 1
            del self.buffer[:whole]
            asyncio.get_running_loop().call_later(0.001, self.respond)

    def respond(self):
        if not self.transport.is_closing():
            self.transport.write(b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello')


class Response:
    def __init__(self, status, took_s, what):
        self.status, self.took_s, self.what = status, took_s, what


class Clients:
    """Persistent connections by address, and requests on them."""

    def __init__(self, plain, tls):
        self.plain, self.tls, self.idle, self.responses = plain, tls, collections.defaultdict(list), []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE

    async def _connect(self, address):
        host, _, port = address.rpartition(':')
        return await asyncio.open_connection(host, int(port), ssl=self.context if address == self.tls else None)

    async def _converse(self, address, head, body, keep_alive):
        reader, writer = self.idle[address].pop() if keep_alive and self.idle[address] else await self._connect(address)
        good = False
        try:
            writer.write(head + body)
            top = await reader.readuntil(b'\r\n\r\n')
            lines = top.lower().split(b'\r\n')
            length = next(int(x.split(b':')[1]) for x in lines if x.startswith(b'content-length:'))
            await reader.readexactly(length)
            good = keep_alive and b'connection: close' not in lines
            return int(top.split(b' ', 2)[1])
        finally:
            if good:
                self.idle[address].append((reader, writer))
            else:
                writer.close()

    async def ask(self, due, address, host, once, keep_alive):
        body = b'x' * 100 if once else b''
        head = ('%s / HTTP/1.1\r\nHost: %s\r\n%s%s\r\n' % (
            'POST' if once else 'GET', host, 'Content-Length: 100\r\nX-Once: %s\r\n' % once if once else '',
            '' if keep_alive else 'Connection: close\r\n')).encode()
        what = (address == self.tls, bool(once), keep_alive, host)
        try:
            status = await asyncio.wait_for(self._converse(address, head, body, keep_alive), PATIENCE_S)
        except (OSError, ValueError, asyncio.TimeoutError, asyncio.IncompleteReadError) as e:
            status = type(e).__name__
        self.responses.append(Response(status, time.monotonic() - due, what))

    def close(self):
        for reader, writer in itertools.chain(*self.idle.values()):
            writer.close()


async def come(clients, rate, agent_share, until):
    """Sends requests at random times until the end; waits for those in flight."""
    rng, tasks, due, n = random.Random(1), set(), time.monotonic(), 0
    while due < until:
        due += rng.expovariate(rate)
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        n += 1
        keep_alive = rng.random() < 0.9
        address = clients.tls if keep_alive and rng.random() < 0.2 else clients.plain
        host = 'app.example' if rng.random() < agent_share else 'site%d.example' % rng.randrange(100)
        t = asyncio.create_task(clients.ask(due, address, host, 'n%d' % n if rng.random() < 0.5 else '', keep_alive))
        tasks.add(t)
        t.add_done_callback(tasks.discard)
    while tasks:
        await asyncio.wait(set(tasks))


class Site:
    """The load balancer, its workers, and the changes to them."""

    def __init__(self, world, workers):
        self.world, self.turn, self.done = world, 0, collections.Counter()
        tree = world.directory / 'tree'
        self.agent = world.agent('agent', tree, slots=2, max_queue=200)
        self.live = Pair(world.directory, 'live', ['site.example'])
        self.others = [Pair(world.directory, 'other%d' % i, ['site.example']) for i in range(2)]
        self.plain, self.tls = ('127.0.0.1:%d' % free_port() for _ in range(2))
        self.lb = world.resumelb({'state_dir': str(world.directory / 'state'), 'applications': {
            'app': {'tree': 'directory:%s' % (tree / 'app'), 'hosts': ['app.example']},
            'site': {'workers': workers, 'hosts': ['*.example']}}},
            listen=[{'address': self.plain}, {'address': self.tls, 'tls': self.live.entry}], wait=False)
        wait_until(lambda: self.lb.listening() and len(
            [w for w in self.lb.workers('app').values() if w['state'] == 'ready']) == 2, 'the agent\'s workers', 30)

    def settings(self):
        self.lb.config['applications']['site']['retries'] = 2 + self.turn % 3
        self.lb.reload()

    def certificate(self):
        self.others[self.turn // 4 % 2].copy_to(self.live)
        self.lb.reload()

    def deploy(self):
        directory = self.world.directory / 'tmp'
        directory.mkdir(exist_ok=True)
        (directory / 'restart.txt').write_text(str(self.turn))

    def program(self):
        upgrade(self.lb, 60)

    def change(self):
        what = (self.settings, self.certificate, self.deploy, self.program)[self.turn % 4]
        what()
        self.turn += 1
        self.done[what.__name__] += 1


async def measure(world, args):
    loop, seen = asyncio.get_running_loop(), collections.Counter()
    servers = [await loop.create_server(lambda: Worker(seen), '127.0.0.1', 0, backlog=1000) for _ in range(4)]
    workers = ['127.0.0.1:%d' % s.sockets[0].getsockname()[1] for s in servers]
    site = await loop.run_in_executor(None, Site, world, workers)
    clients, until = Clients(site.plain, site.tls), time.monotonic() + args.seconds
    coming = asyncio.create_task(come(clients, args.rate, args.agent_rate / args.rate, until))
    while time.monotonic() + args.every < until:
        await asyncio.sleep(args.every)
        await loop.run_in_executor(None, site.change)
    await coming
    clients.close()
    executed = world.directory / 'executed.log'
    seen.update(executed.read_text().split() if executed.exists() else [])
    for s in servers:
        s.close()
    return clients.responses, seen, site


def report(responses, seen, site, args):
    bad = collections.Counter((a.status, a.what) for a in responses if a.status != 200)
    twice = sum(n > 1 for n in seen.values())
    changes = ', '.join('%d %s' % (n, name) for name, n in site.done.items())
    table(['requests', 'a second', 'changes', 'failed', 'POSTs twice', 'p50 ms', 'p99 ms'], [[
        str(len(responses)), number(len(responses) / args.seconds), changes, str(sum(bad.values())), str(twice),
        number(percentile_ms(responses, 50)), number(percentile_ms(responses, 99))]])
    for (status, what), n in bad.most_common(10):
        print('%6d  %s  tls, POST, keep-alive, host: %s' % (n, status, what))
    if args.json:
        with open(args.json, 'w') as f:
            json.dump({'requests': len(responses), 'changes': dict(site.done), 'failed': sum(bad.values()), 'twice': twice}, f)
    return 1 if bad or twice else 0


def main():
    p = argparse.ArgumentParser(description=__doc__.strip().split('\n')[0])
    p.add_argument('--seconds', type=float, default=60)
    p.add_argument('--rate', type=float, default=2000)
    p.add_argument('--agent-rate', type=float, default=50)
    p.add_argument('--every', type=float, default=2)
    p.add_argument('--json')
    args = p.parse_args()
    go_first()
    with fresh_world() as world:
        responses, seen, site = asyncio.run(measure(world, args))
        site.lb.process.stop()
    raise SystemExit(report(responses, seen, site, args))


if __name__ == '__main__':
    main()
