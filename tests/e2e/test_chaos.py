# SPDX-License-Identifier: Apache-2.0
"""
The chaos run: under load from clients of every kind, processes, agents, connections, settings and ZooKeeper are killed, stopped,
reset and garbled at random, and every response is checked by the hash of its content. RLB_CHAOS_DEEDS is the number of
interventions (2000 in the soak run), RLB_SEED repeats the same random choices.

A response that is complete according to its framing has the correct content. Each GET gets 200, as two correct workers
are always available. A response may be cut short, detectably, only by a faulty worker, or by an agent after an intervention. No
POST is executed twice, and one that got 200 was executed.
"""
import json
import os
import random
import statistics
import time

from chaos_clients import Load, executed
from chaos_support import Chaos, Stage, resident_kib
from support.base import wait_until

DEEDS = int(os.environ.get('RLB_CHAOS_DEEDS', '16'))
SEED = int(os.environ.get('RLB_SEED', random.randrange(1 << 30)))
# Maximum number of responses, and maximum time [s], between two interventions: all clients may wait for a stopped process.
PAUSE, PAUSE_S = 60, 2
# Permitted growth of memory from the third to the last quarter, for momentary buffers and the rounding of the allocator.
FLAT_SHARE, FLAT_KIB = 0.10, 4096


class Memory:
    """The resident memory of some processes, over time."""

    def __init__(self, **pids):
        self.pids, self.samples = pids, {name: [] for name in pids}

    def look(self):
        for name, pid in self.pids.items():
            self.samples[name].append(resident_kib(pid))

    def quarters(self):
        """For each process: its name, and the medians of the third and the last quarter."""
        for name, all_of_it in self.samples.items():
            quarter = len(all_of_it) // 4
            yield name, *(statistics.median(all_of_it[i * quarter:(i + 1) * quarter]) for i in (2, 3))

    def show(self):
        if all(len(s) >= 4 and None not in s for s in self.samples.values()):
            for figures in self.quarters():
                print('%s: %d KiB in the third quarter, %d in the last' % figures)

    def check(self):
        for name, third, last in self.quarters():
            assert last <= third * (1 + FLAT_SHARE) + FLAT_KIB, (name, self.samples[name])


def run(stage, chaos, load, memory):
    for _ in range(DEEDS):
        chaos.step()
        until = load.judge.counts['whole'] + chaos.random.randrange(PAUSE)
        due = time.monotonic() + PAUSE_S
        wait_until(lambda: load.judge.counts['whole'] >= until or time.monotonic() >= due)
        memory.look()
        for p in (stage.lb.process, stage.steady.process):
            assert p.alive(), p.output()[-6000:]


def check_posts(judge, path):
    times, corrupt = executed(path)
    assert not corrupt, corrupt[:5]
    assert not [t for t, n in times.items() if n > 1], 'executed twice'
    assert not [t for t in judge.responded if times[t] != 1], 'responded and not executed'
    assert not [t for t, n in judge.responded.items() if n > 1], 'responded twice'
    assert set(times) <= judge.sent, 'executed and never sent'
    assert judge.responded, 'no POST got a response'


def everything_is_given_back(lb):
    app = lb.app('app')
    s = app['stats']
    return (app['backlog'] == 0 and app['waiting'] == 0 and all(s[name] == 0 for name in (
        'requests_active', 'requests_waiting', 'connection_waiting', 'buffered_bytes', 'spilled_bytes'))
        and not any(w['connections'][x] for w in app['workers'] for x in ('in_use', 'waiting', 'opening')))


def check_the_end(stage):
    lb = stage.lb
    wait_until(lambda: everything_is_given_back(lb), 'everything to be given back: %s' % lb.app('app')['stats'])
    app = lb.app('app')
    assert app['stats']['requests'] == sum(app['outcomes'].values()), app['outcomes']
    for agent in stage.agents:
        wait_until(lambda: all(s['backlog'] == 0 for s in agent.json()['applications']['app']['slots']), "the agent's backlog")
    return app


def test_chaos_corrupts_loses_and_repeats_no_request(world):
    print('RLB_SEED=%d' % SEED)
    stage = Stage(world, SEED)
    load = Load(stage.lb, stage.tls_address, stage.certificate, SEED)
    judge = load.judge
    chaos = Chaos(stage, judge)
    memory = Memory(resumelb=stage.lb.process.pid, agent=stage.steady.process.pid)
    try:
        run(stage, chaos, load, memory)
        print(time.strftime('%H:%M:%S'), 'over')
        chaos.quiet()
        kinds = {c.kind for c in load.clients} - {'Leaving', 'Garbage'}
        wait_until(lambda: judge.wrong or all(judge.counts['whole, ' + kind] for kind in kinds), 'a response to clients of each kind')
        print(time.strftime('%H:%M:%S'), 'quiet')
    finally:
        # Print all results, also if the run itself failed: earlier faults show what led to the failure.
        print('\n'.join(chaos.log))
        memory.show()
        try:
            load.stop()
        finally:
            print(dict(judge.counts))
            print('%d wrong: %s' % (len(judge.wrong), judge.wrong[:20]))
            targets = {wrong[3] for wrong in judge.wrong}
            for line in (stage.world.directory / 'access.log').read_text().splitlines() if targets else ():
                if json.loads(line)['target'] in targets:
                    print(line)
    assert not judge.wrong, (len(judge.wrong), judge.wrong[:20])
    check_posts(judge, stage.executed)
    app = check_the_end(stage)
    print({k: v for k, v in app['outcomes'].items() if v}, {k: v for k, v in app['stats'].items() if v and isinstance(v, int)})
    memory.check()
