# SPDX-License-Identifier: Apache-2.0
"""Resume streams: which workers are in the pool, and the handling of streams that report a change, or nothing."""
import contextlib
import json
import socket
import threading

import pytest
from support.base import LIMIT, wait_until
from support.http import Client
from support.scripted import hello, serve
from test_waiting import Tree


class Agent:
    """A worker with a resume stream that the test writes line by line."""

    def __init__(self, world, response=b'hello'):
        self.response = response
        self.streams = []
        self.reject = None      # if set, the response sent instead of a stream
        self.first = []         # the first lines of every new stream
        self.over = threading.Event()
        world.closers.insert(0, self.over.set)
        self.server = world.scripted(self.script)
        self.address = self.server.address
        self.requests = 0

    def script(self, c):
        while True:
            got = c.read_request()
            if got is None:
                return
            if not got[0].startswith(b'GET /.well-known/resumelb/resume '):
                self.requests += 1
                self.respond(c)
                continue
            if self.reject:
                c.write(self.reject)
                return
            c.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/x-resumelb-resume+jsonl\r\n'
                    b'Transfer-Encoding: chunked\r\n\r\n')
            for line in self.first:
                self.chunk(c, line)
            self.streams.append(c)
            self.over.wait(LIMIT)
            return

    def respond(self, c):
        c.respond(self.response)

    @staticmethod
    def chunk(c, data):
        c.write(b'%x\r\n%s\r\n' % (len(data), data))

    def say(self, instance, state='ready', skills=None, **more):
        self.raw(self.line(instance, state, skills, **more))

    @staticmethod
    def line(instance, state='ready', skills=None, **more):
        line = dict({'v': 1, 'instance': instance, 'application': 'default', 'version': '1', 'fingerprint': '',
                     'state': state, 'generation': 0, 'skills': skills or {}}, **more)
        return json.dumps(line).encode() + b'\n'

    def raw(self, data):
        self.chunk(self.streams[-1], data)

    def end(self, how):
        self.raw(json.dumps({'end': how}).encode() + b'\n')

    def opened(self, n):
        wait_until(lambda: len(self.streams) >= n, 'stream %d' % n)


def pool(world, agents, **settings):
    config = {'workers': [a.address for a in agents], 'resume': 'stream', 'start_wait': '50ms'}
    config.update(settings)
    lb = world.resumelb(config, wait=False)
    wait_until(lb.listening, 'the load balancer')
    for a in agents:
        a.opened(1)
    return lb


def state(lb, agent):
    w = lb.workers().get(agent.address)
    return w['state'] if w else 'unknown'


def becomes(lb, agent, wanted):
    wait_until(lambda: state(lb, agent) == wanted, '%s, not %s' % (wanted, state(lb, agent)))


def in_pool(lb):
    return set(lb.json('/resumes.json')['applications']['default'])


def test_the_first_resume_brings_a_worker_in(world):
    a = Agent(world)
    lb = pool(world, [a])
    assert in_pool(lb) == set()
    with Client(lb.address) as c:
        c.send()
        wait_until(lambda: lb.app()['waiting'] == 1, 'the request to wait')
        a.say('one', version='7.1', skills={'x': 3.5})
        assert c.receive().body == b'hello'
    w = lb.workers()[a.address]
    assert (w['instance'], w['version'], w['state']) == ('one', '7.1', 'ready')
    wait_until(lambda: lb.app()['stats']['feeds_open'] == 1, 'the count')


def test_a_draining_worker_gets_no_new_requests_and_comes_back(world):
    a, b = Agent(world, b'a'), Agent(world, b'b')
    lb = pool(world, [a, b])
    skills = {'x': 99.0, 'y': 99.0}
    a.say('a', skills=skills)
    b.say('b')
    wait_until(lambda: len(in_pool(lb)) == 2, 'both')
    assert lb.get(host='x').body == b'a'
    a.say('a', 'draining', skills=skills)
    becomes(lb, a, 'draining')
    assert {lb.get(host='x').body for _ in range(5)} == {b'b'}
    a.say('a', 'ready', skills=skills)
    becomes(lb, a, 'ready')
    # The requests of the classes that it is skilled at and that no other worker has acquired in the meantime.
    assert {lb.get(host='y').body for _ in range(5)} == {b'a'}


def test_dormant_and_starting_processes_stay_out_while_there_is_a_warm_one(world):
    warm, dormant, starting = Agent(world), Agent(world), Agent(world)
    lb = pool(world, [warm, dormant, starting])
    warm.say('w')
    becomes(lb, warm, 'ready')
    dormant.say('c', 'dormant')
    starting.say('s', 'starting')
    becomes(lb, dormant, 'dormant')
    becomes(lb, starting, 'starting')
    assert in_pool(lb) == {warm.address}
    # the warm one leaves: one of the others becomes eligible, preferably the one that is starting
    warm.end('stop')
    wait_until(lambda: in_pool(lb) == {starting.address}, 'the starting one')
    starting.end('stop')
    wait_until(lambda: in_pool(lb) == {dormant.address}, 'the dormant one')
    assert lb.get().body == b'hello'
    # it becomes ineligible again when a warm one is available
    warm.opened(2)
    warm.say('w2')
    wait_until(lambda: in_pool(lb) == {warm.address}, 'the warm one again')


def test_a_broken_stream_is_opened_again_and_the_same_instance_keeps_its_skills(world):
    a, b = Agent(world, b'a'), Agent(world, b'b')
    lb = pool(world, [a, b])
    skills = {'x': 99.0, 'y': 99.0}
    a.say('a', skills=skills)
    b.say('b')
    wait_until(lambda: len(in_pool(lb)) == 2, 'both')
    before = lb.workers()[a.address]['requests']
    a.streams[0].reset()
    a.opened(2)
    becomes(lb, a, 'silent')
    # it is not selected until its stream has sent a line
    assert lb.get(host='x').body == b'b'
    a.say('a', skills=skills)
    becomes(lb, a, 'ready')
    assert {lb.get(host='y').body for _ in range(5)} == {b'a'}
    assert lb.workers()[a.address]['requests'] > before
    wait_until(lambda: lb.app()['stats']['feeds_open'] == 2, 'the count')


def test_a_silent_stream_is_taken_for_broken(world):
    a = Agent(world)
    lb = pool(world, [a])
    a.say('a')
    becomes(lb, a, 'ready')
    lb.change(feed_silence='1s')
    a.say('a')      # from now on
    a.opened(2)     # reconnected
    # silent again: it is removed, and the stream is opened again
    becomes(lb, a, 'absent')
    lb.change(feed_silence='10m')

    def comes_back():
        # The last stream may already have been abandoned.
        with contextlib.suppress(OSError):
            a.say('a')
        return state(lb, a) == 'ready'
    wait_until(comes_back, 'it to be back')


def test_keep_alive_lines_count_as_signs_of_life(world):
    a, silent = Agent(world), Agent(world)
    # much longer than the interval between its lines
    lb = pool(world, [a, silent], feed_silence='10s')
    a.say('a')
    becomes(lb, a, 'ready')

    def given_up():
        a.raw(b'\n')
        return len(silent.streams) > 1
    wait_until(given_up, 'the one that says nothing to be taken for broken')
    assert len(a.streams) == 1 and state(lb, a) == 'ready'


def test_another_instance_is_a_new_worker(world):
    a = Agent(world)
    lb = pool(world, [a])
    a.say('first', skills={'x': 9.0})
    becomes(lb, a, 'ready')
    lb.get()
    connections = len(a.server.connections)
    a.say('second')
    wait_until(lambda: lb.workers()[a.address]['instance'] == 'second', 'the new one')
    w = lb.workers()[a.address]
    assert w['requests'] == 0 and w['skills'] == 0
    assert lb.get().body == b'hello'
    assert len(a.server.connections) == connections + 1, 'no old connection is used for a new instance'


@pytest.mark.parametrize('how', ['drain', 'upgrade', 'stop'])
def test_an_orderly_end_takes_the_worker_out_at_once(world, how):
    a, b = Agent(world, b'a'), Agent(world, b'b')
    lb = pool(world, [a, b])
    a.say('a')
    b.say('b')
    wait_until(lambda: len(in_pool(lb)) == 2, 'both')
    a.reject = b'HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n'
    a.end(how)
    wait_until(lambda: in_pool(lb) == {b.address}, 'it to leave')
    assert {lb.get(host='h%d' % i).body for i in range(4)} == {b'b'}
    # the next process at the same address is found
    a.reject = None
    a.first = [a.line('next')]
    wait_until(lambda: len(in_pool(lb)) == 2, 'the next one')


def test_bad_lines_are_rejected_and_the_last_good_resume_stays(world):
    a = Agent(world)
    lb = pool(world, [a], max_skills=10)
    a.say('a', skills={'x': 5.0})
    becomes(lb, a, 'ready')
    many = {'c%d' % i: 1.0 for i in range(11)}
    bad = [b'nonsense\n', b'{"v":2}\n', a.line(''), a.line('a', 'dancing'), a.line('a', skills={'x': -1}),
           a.line('a', skills=many), a.line('a', skills={'a b': 1}), b'\xff\xfe\n', b'[' * 100000 + b'\n', b'{}\n']
    for line in bad:
        a.raw(line)
    wait_until(lambda: lb.app()['stats']['feed_bad_lines'] == len(bad), 'them to be counted')
    # a line above the limit of length is dropped, and the next one is read
    for _ in range(20):
        a.raw(b'x' * 65536)
    a.raw(b'\n' + a.line('a', skills={'x': 6.0}))
    wait_until(lambda: lb.json('/resumes.json')['applications']['default'][a.address] == {'x': 6.0}, 'the good line')
    assert lb.app()['stats']['feed_bad_lines'] == len(bad) + 1
    assert len(a.streams) == 1 and lb.get().body == b'hello'


def test_a_line_may_come_in_any_pieces(world):
    a = Agent(world)
    lb = pool(world, [a])
    line = a.line('a', skills={'piece': 2.0}) + a.line('a', skills={'by': 3.0})
    for i in range(0, len(line), 7):
        a.raw(line[i:i + 7])
    wait_until(lambda: lb.json('/resumes.json')['applications']['default'].get(a.address) == {'by': 3.0}, 'the second line')


def test_listeners_wait_for_the_resumes_of_known_workers_but_not_for_long(world):
    quick, mute = Agent(world), Agent(world)
    quick.first = [quick.line('q', skills={'x': 1.0})]
    lb = world.resumelb({'workers': [quick.address], 'resume': 'stream', 'start_wait': '60s'})
    assert in_pool(lb) == {quick.address}
    lb = world.resumelb({'workers': [quick.address, mute.address], 'resume': 'stream', 'start_wait': '300ms'}, name='second')
    assert in_pool(lb) == {quick.address}


def test_a_worker_without_a_stream_is_asked_again(world):
    a = Agent(world)
    a.reject = b'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n'
    lb = world.resumelb({'workers': [a.address], 'resume': 'stream', 'start_wait': '60s'}, wait=False)
    wait_until(lb.listening, 'it: a rejection is a response')
    assert state(lb, a) == 'absent'
    lb.process.wait_logged('status 404')
    a.first = [a.line('a')]
    a.reject = None
    becomes(lb, a, 'ready')


def measured_in_tree(world, n, **settings):
    """N registered workers without streams, each with an idle connection."""
    tree = Tree(world.directory / 'tree')
    workers = [world.scripted(serve(hello)) for _ in range(n)]
    for w in workers:
        tree.register(w.address)
    lb = world.resumelb({'tree': 'directory:%s' % tree.path, 'resume': 'measure', 'pool': {'policy': 'classless'},
                         **settings})
    wait_until(lambda: len(in_pool(lb)) == n, 'all workers')
    for _ in range(n):
        lb.get()
    wait_until(lambda: all(w['connections']['idle'] == 1 for w in lb.workers().values()), 'a connection to each')
    return tree, workers, lb


def test_a_measured_worker_leaves_when_its_registration_ends(world):
    tree, workers, lb = measured_in_tree(world, 4)
    tree.end(workers[0].address)
    wait_until(lambda: in_pool(lb) == {w.address for w in workers[1:]}, 'it to leave')
    tree.register(workers[0].address)
    wait_until(lambda: len(in_pool(lb)) == 4, 'it to be back')


def test_when_most_registrations_vanish_at_once_one_that_shows_signs_of_life_stays(world):
    tree, workers, lb = measured_in_tree(world, 4, providers_hold='500ms')
    for w in workers[:3]:
        tree.end(w.address)
    wait_until(lambda: 'registrations-held' in lb.process.output(), 'the decision')
    assert len(in_pool(lb)) == 4
    assert lb.get().status == 200
    for c in workers[0].connections:
        c.sock.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: in_pool(lb) == {w.address for w in workers[1:]}, 'the one without connections to leave')
    # registered again: nothing has changed
    tree.register(workers[1].address)
    tree.register(workers[2].address)
    wait_until(lambda: lb.app()['tree']['held'] == 0, 'it to be noticed')
    assert len(in_pool(lb)) == 3


def test_a_list_that_shrinks_at_once_takes_away_only_one_that_refuses_connections(world):
    tree, workers, lb = measured_in_tree(world, 4)
    dead = workers[0]
    dead.close()
    for w in workers:
        tree.end(w.address)
    wait_until(lambda: lb.app()['tree']['held'] == 4, 'all to be held')
    assert set(lb.app()['tree']['held_workers']) == {w.address for w in workers}

    def tried():
        assert lb.get().status == 200
        return in_pool(lb) == {w.address for w in workers[1:]}
    wait_until(tried, 'the dead one to be found out')
    assert lb.app()['tree']['providers'] == 0 and lb.app()['tree']['held'] == 3
