# SPDX-License-Identifier: Apache-2.0
"""SIGUSR2 while requests wait for a process that only the new agent can start: none is lost."""
import json
import os
import signal

from agent_support import Background, TinyAgent
from agent_upgrade_support import begin_upgrade
from support.base import free_port, wait_until
from support.http import Client


class Crowded:
    """An agent with a budget of one process, which a busy application has; requests of the other application must wait for it."""

    def __init__(self, world, **settings):
        self.world, self.own = world, '127.0.0.1:%d' % free_port()
        self.agent = TinyAgent(world, slots=2, min_processes=0, listen=[self.own], top={'max_processes': 1}, **settings)
        self.agent.wait_listening()
        self.agent.process.stop()
        busy = dict(self.agent.config['applications']['app'], address='127.0.0.1:0+', listen=[], min_processes=1,
                    max_processes=1)
        self.agent.config['applications']['busy'] = busy
        self.agent.start()
        self.agent.wait_ready()
        self.go = world.directory / 'go'
        address = self.slots('busy')[0]['address']
        self.running = Background(address, 'POST', '/running', [('X-Until', str(self.go))], b'x')
        wait_until(lambda: self.slots('busy')[0]['running'] == 1, 'the other application to be busy')

    def slots(self, name):
        return self.agent.json()['applications'][name]['slots']

    def waiting(self):
        return self.agent.app()['queue']['waiting']

    def upgrade(self):
        return begin_upgrade(self.agent)

    def end(self):
        """Completes the requests of the busy application, so that its process is ended."""
        self.go.write_text('')
        assert self.running.result().status == 200

    def posts(self):
        return sorted(x.split()[1] for x in self.agent.served() if x.startswith('POST'))


def test_requests_at_an_applications_own_address_are_passed_on_to_the_agent_that_may_start_a_process(world):
    crowded = Crowded(world)
    asked = [Background(crowded.own, 'POST', '/%d' % i, (), b'x') for i in range(5)]
    wait_until(lambda: crowded.waiting() == 5, 'them to wait')
    old = crowded.upgrade()
    # they wait in the new agent now
    wait_until(lambda: crowded.waiting() == 5, 'them to wait at the new one')
    assert old.alive() and old.output().count('request-relayed') >= 1
    crowded.end()
    responses = [json.loads(x.result().body) for x in asked]
    assert [(x['method'], x['target'], x['body']) for x in responses] == [('POST', '/%d' % i, 1) for i in range(5)]
    assert all(dict(x['headers'])['x-forwarded-for'] == '127.0.0.1, 127.0.0.1' for x in responses)
    assert all(dict(x['headers'])['host'] == dict(x['headers'])['x-forwarded-host'] != '' for x in responses)
    assert old.wait() == 0
    assert crowded.posts() == ['/0', '/1', '/2', '/3', '/4', '/running']


def test_fields_of_load_balancers_pass_through_the_old_agent_both_ways(world):
    crowded = Crowded(world, max_queue=1)
    address = crowded.agent.addresses[0]
    fingerprint = '0123456789abcdef'
    asked = Background(address, 'POST', '/0', [('Resumelb-Class', 'a'), ('Resumelb-Classifier', fingerprint)], b'x')
    wait_until(lambda: crowded.waiting() == 1, 'it to wait')
    old = crowded.upgrade()
    wait_until(lambda: crowded.waiting() == 1, 'it to wait at the new one')
    # the queue of the new agent is full now, and its response to the load balancer says so
    r = Client(address).request('POST', '/1', body=b'x')
    assert (r.status, r['Resumelb-Unprocessed']) == (503, '1')
    crowded.end()
    r = asked.result()
    assert (r.status, r['Resumelb-Backlog']) == (200, '1')
    names = dict(json.loads(r.body)['headers'])
    assert names['resumelb-class'] == 'a' and 'resumelb-classifier' not in names
    meters = crowded.slots('app')[0]['meters']
    assert [(m['fingerprint'], m['requests']) for m in meters] == [(fingerprint, 1)]
    assert old.wait() == 0


def test_a_request_whose_only_process_dies_after_the_upgrade_is_passed_on(world):
    own = '127.0.0.1:%d' % free_port()
    agent = TinyAgent(world, slots=1, listen=[own]).wait_ready()
    pid, go = agent.pid(), world.directory / 'go'
    running = Background(own, 'POST', '/running', [('X-Until', str(go))], b'x')
    wait_until(lambda: agent.slot()['running'] == 1, 'it to run')
    waiting = [Background(own, 'POST', '/waiting%d' % i, (), b'x') for i in range(3)]
    wait_until(lambda: agent.app()['queue']['waiting'] == 3, 'the others to wait')
    old = begin_upgrade(agent)
    os.kill(pid, signal.SIGKILL)
    assert running.result().status == 502
    assert [x.result().status for x in waiting] == [200] * 3
    assert old.wait() == 0
    assert agent.pid() not in (None, pid)
    assert sorted(x for x in agent.served() if x.startswith('POST')) == [
        'POST /running', *('POST /waiting%d' % i for i in range(3))]


def test_requests_that_wait_at_a_dormant_slot_need_no_retry_of_the_load_balancer(world):
    """Each request is completed by the first worker that it is sent to, without a retry."""
    crowded = Crowded(world)
    lb = world.resumelb({'workers': crowded.agent.addresses, 'resume': 'stream'}, wait=False)
    wait_until(lb.listening, 'the load balancer')
    wait_until(lambda: [w['state'] for w in lb.workers().values()] == ['dormant', 'dormant'], 'two dormant slots')
    asked = [Background(lb.address, 'POST', '/%d' % i, (), b'x') for i in range(4)]
    wait_until(lambda: crowded.waiting() > 0, 'one to wait at its slot')
    old = crowded.upgrade()
    wait_until(lambda: crowded.waiting() > 0, 'one to wait at the new one')
    crowded.end()
    assert [x.result().status for x in asked] == [200] * 4
    assert old.wait() == 0
    stats = lb.app()['stats']
    assert (stats['unprocessed'], stats['retries'], stats['responses_5xx']) == (0, 0, 0)
    wait_until(lambda: old.output().count('request-relayed') >= 1, 'request-relayed')
    assert crowded.posts() == ['/0', '/1', '/2', '/3', '/running']
