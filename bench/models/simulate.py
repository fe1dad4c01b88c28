#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The same conversations and servers in virtual time: what knowing names, prompts or caches is worth, undisturbed by a busy machine.

    bench/models/simulate.py                                            all rules, as bench/models/run has the real servers
    bench/models/simulate.py --workers 16 --tenants 40 --clients 64 --turns 1000
    bench/models/simulate.py --clients 1 --workers 1 --slots 1000000    what could be cached at most

A server has a queue, first in, first out, prefill of one turn at a time, decoding of up to --parallel turns beside it at a fixed rate,
and the cache of rules.py. The rules are those of rules.py; load balancers have their own simulator (resumelbctl simulate).
"""
import argparse
import collections
import heapq
import itertools
import pathlib

import figures
import rules
import workloads


class Server:
    def __init__(self, slots):
        self.cache, self.queue = rules.Cache(slots), collections.deque()
        self.running, self.prefilling = 0, False


class Simulation:
    """Plays turns by a rule; `records` then has an entry per turn, as of replay.Player."""

    def __init__(self, turns, rule, engine):
        self.turns, self.rule, self.engine = turns, rule, engine
        self.servers = [Server(engine.slots) for _ in rule.workers]
        self.events, self.order = [], itertools.count()
        self.served, self.blocked, self.records = set(), {}, []

    def at(self, time, function, *arguments):
        heapq.heappush(self.events, (time, next(self.order), function, arguments))

    def play(self, clients=None):
        """A closed loop of CLIENTS, or an open one."""
        self.waiting = iter(self.turns) if clients else iter(())
        for turn in [] if clients else self.turns:
            self.at(turn.at, self.offer, turn)
        for _ in range(clients or 0):
            self.at(0, self.next_turn)
        while self.events:
            time, _, function, arguments = heapq.heappop(self.events)
            function(time, *arguments)
        return self.records

    def next_turn(self, time):
        turn = next(self.waiting, None)
        if turn:
            self.offer(time, turn)

    def offer(self, time, turn):
        """Sends TURN, as soon as the one before it has been served."""
        if turn.previous and id(turn.previous) not in self.served:
            self.blocked[id(turn.previous)] = turn
            return
        prompt = workloads.prompt_of(turn)
        worker, seconds = self.rule.pick(turn, prompt)
        self.servers[worker].queue.append((turn, prompt, worker, seconds, time))
        self.serve_next(time, self.servers[worker])

    def serve_next(self, time, server):
        if server.prefilling or not server.queue or server.running >= self.engine.parallel:
            return
        turn, prompt, worker, seconds, sent = server.queue.popleft()
        server.prefilling = True
        server.running += 1
        turn.response = 'x' * turn.max_tokens
        cached = server.cache.use(prompt, turn.response)
        first = time + (len(prompt) - cached) * self.engine.prefill_s + self.engine.decode_s
        last = first + (turn.max_tokens - 1) * self.engine.decode_s
        self.records.append({'session': turn.session, 'turn': turn.number, 'prompt': len(prompt), 'cached': cached, 'worker': worker,
                             'ttft': first - sent, 'ended': last})
        self.at(first, self.end_prefill, server)
        self.at(last, self.end, server, turn, worker, seconds, cached)

    def end_prefill(self, time, server):
        server.prefilling = False
        self.serve_next(time, server)

    def end(self, time, server, turn, worker, seconds, cached):
        server.running -= 1
        self.rule.done(turn, worker, seconds, cached)
        self.served.add(id(turn))
        self.serve_next(time, server)
        if id(turn) in self.blocked:
            self.offer(time, self.blocked.pop(id(turn)))
        self.next_turn(time)


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--rules', default=','.join(rules.RULES), help='of %(default)s')
    p.add_argument('--trace', type=pathlib.Path, help='mooncake instead of agents: bench/models/run --help')
    p.add_argument('--turns', type=int, default=1000)
    p.add_argument('--runs', type=int, default=3)
    p.add_argument('--seed', type=int, default=1, help='of the first run')
    p.add_argument('--clients', type=int, default=16, help='of a closed loop')
    p.add_argument('--rate', type=float, help='turns per second of an open loop, instead')
    p.add_argument('--workers', type=int, default=4)
    p.add_argument('--tenants', type=int, default=workloads.TENANTS)
    p.add_argument('--slots', type=int, default=rules.Engine.slots)
    p.add_argument('--parallel', type=int, default=rules.Engine.parallel)
    p.add_argument('--base', default='round-robin', help='the rule of ratios')
    o = p.parse_args()
    o.rules = o.rules.split(',')
    if unknown := [name for name in o.rules if name not in rules.RULES]:
        p.error('no such rule: ' + ', '.join(unknown))
    return o


def main():
    o = parse()
    engine = rules.Engine(o.slots, o.parallel)
    workload = 'mooncake' if o.trace else 'agent'
    runs = {name: {} for name in o.rules}
    for run in range(o.runs):
        for name in o.rules:
            turns = workloads.turns_of(workload, o.turns, o.seed + run, o.trace, o.rate, o.tenants)
            records = Simulation(turns, rules.RULES[name](o.workers, engine), engine).play(None if o.rate else o.clients)
            runs[name][run] = figures.summary(records, o.workers)
    print(figures.table(workload, runs, o.base))


if __name__ == '__main__':
    main()
