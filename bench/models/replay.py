# SPDX-License-Identifier: Apache-2.0
"""Sends turns to a load balancer, or by a rule to the servers themselves. A turn is sent when the one before it has been served."""
import http.client
import json
import queue
import re
import threading
import time

import workloads

LIMIT_S = 300
ROUTE = re.compile(r'reason=([\w-]+)')


class Player:
    """Plays turns to the ports of SERVERS by RULE, or, without one, to the only port in it. `records` has one entry per turn."""

    def __init__(self, turns, servers, rule=None):
        self.turns, self.servers, self.rule = turns, servers, rule
        self.lock = threading.Lock()
        self.served = {id(turn): threading.Event() for turn in turns}
        self.records = []

    def play(self, clients=None):
        """A closed loop of CLIENTS, or an open one, in which turns are sent at their times. Returns the records."""
        self.began = time.perf_counter()
        if clients:
            waiting = queue.SimpleQueue()
            for turn in self.turns:
                waiting.put(turn)
            threads = [self.start_client(waiting) for _ in range(clients)]
        else:
            threads = []
            for turn in self.turns:
                waiting = queue.SimpleQueue()
                waiting.put(turn)
                time.sleep(max(0, self.began + turn.at - time.perf_counter()))
                threads.append(self.start_client(waiting))
        for thread in threads:
            thread.join(LIMIT_S)
        if len(self.records) != len(self.turns):
            raise SystemExit('models: %d of %d turns were not served' % (len(self.turns) - len(self.records), len(self.turns)))
        return self.records

    def start_client(self, waiting):
        thread = threading.Thread(target=self.client, args=(waiting,), daemon=True)
        thread.start()
        return thread

    def client(self, waiting):
        """Serves the turns in WAITING, one after the other."""
        connections = {}
        while True:
            try:
                turn = waiting.get_nowait()
            except queue.Empty:
                break
            self.serve(turn, connections)
        for connection in connections.values():
            connection.close()

    def serve(self, turn, connections):
        """Waits until TURN may be sent, sends it by one of CONNECTIONS, {port: connection}, and records the result."""
        if turn.previous:
            self.served[id(turn.previous)].wait(LIMIT_S)
        port = self.servers[0]
        if self.rule:
            with self.lock:
                worker, seconds = self.rule.pick(turn, workloads.prompt_of(turn))
            port = self.servers[worker]
        record = {'session': turn.session, 'turn': turn.number, 'tenant': turn.tenant}
        try:
            connection = connections.setdefault(port, http.client.HTTPConnection('127.0.0.1', port, timeout=LIMIT_S))
            record.update(self.request(connection, turn))
        except (OSError, http.client.HTTPException, ValueError) as e:
            record['error'] = repr(e)
            connections.pop(port).close()
        # The next turn has a prompt of the same length, whatever happened to this one.
        turn.response = turn.response or 'x' * turn.max_tokens
        with self.lock:
            if self.rule:
                self.rule.done(turn, worker, seconds, record.get('cached', 0))
            self.records.append({**record, 'ended': time.perf_counter() - self.began})
        self.served[id(turn)].set()

    @staticmethod
    def request(connection, turn):
        """Sends TURN, reads the stream of events, and returns tokens, times [s], the worker, and resumelb's reason."""
        body = {'model': 'llmbench-tiny', 'max_tokens': turn.max_tokens, 'stream': True, 'temperature': 0,
                'user': turn.tenant or turn.session, 'prompt_cache_key': turn.session}
        path = '/v1/chat/completions' if turn.chat else '/v1/completions'
        body.update({'messages': workloads.messages(turn)} if turn.chat else {'prompt': turn.text})
        began = time.perf_counter()
        connection.request('POST', path, json.dumps(body), {
            'Content-Type': 'application/json', 'X-Session-ID': turn.session, 'X-Tenant': turn.tenant or turn.session})
        response = connection.getresponse()
        if response.status != 200:
            raise ValueError('%d %s' % (response.status, response.read(200)))
        first, texts, last = None, [], {}
        for line in response:
            if not line.startswith(b'data: '):
                continue
            first = first or time.perf_counter() - began
            if line.startswith(b'data: [DONE]'):
                continue
            last = json.loads(line[6:])
            (choice,) = last['choices']
            texts.append(choice.get('text') or choice.get('delta', {}).get('content') or '')
        if 'usage' not in last:
            raise ValueError('the stream ended early')
        turn.response = ''.join(texts)
        route = ROUTE.search(response.getheader('Resumelb-Route', ''))
        return {'ttft': first, 'total': time.perf_counter() - began, 'prompt': last['usage']['prompt_tokens'],
                'cached': last['usage']['prompt_tokens_details']['cached_tokens'], 'output': last['usage']['completion_tokens'],
                'worker': last['timings']['worker'], 'queued': last['timings']['queue_ms'] / 1000,
                'reason': route and route[1]}
