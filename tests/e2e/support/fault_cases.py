# SPDX-License-Identifier: Apache-2.0
"""
Retries of requests that a worker fails: the tests check which requests are retried, on which worker, and how often each is
sent. There are two workers. A request fails on the worker that receives it first; any later attempt gets a response.
"""
import threading

from .http import Client, CutShort

GROUP = 'tried again'
SAFE, IDEMPOTENT, ONCE = ('GET', 'HEAD'), ('PUT', 'DELETE'), ('POST', 'PATCH')
METHODS = (*SAFE, *IDEMPOTENT, *ONCE)
REJECTIONS = ('responds 502', 'responds 503', 'pretends to be an agent')
SILENT = 'is silent'
FAULTS = ('resets', 'closes', 'half a head', 'garbage', SILENT, *REJECTIONS)
RESPONSES = {'responds 502': (502, '502 Theirs', ()), 'responds 503': (503, '503 Theirs', ()),
           'pretends to be an agent': (503, '503 Theirs', (('Resumelb-Unprocessed', '1'),))}


class Faulty:
    """Workers that fail requests for targets of the form /MARK?FAULT and respond to all others."""

    def __init__(self, world, count=2):
        self.lock = threading.Lock()
        self.tries = {}             # mark: [(worker, connection, requests before on it)]
        self.done = {}
        self.workers = [world.scripted(lambda c, n=n: self.run(n, c)) for n in range(count)]
        self.addresses = [w.address for w in self.workers]

    def run(self, n, c):
        before = 0
        while True:
            request = c.read_request()
            if request is None:
                return
            mark, _, fault = request[0].split(b' ')[1].decode().replace('%20', ' ').partition('?')
            with self.lock:
                tries = self.tries.setdefault(mark, [])
                tries.append((n, c.number, before))
            # A fault "reused ..." occurs only on reused connections, any other on the first attempt. Faults that close a reused
            # connection occur on every reused connection.
            reused, fault = fault.startswith('reused '), fault.removeprefix('reused ')
            first = all(t[2] == 0 for t in tries[:-1]) if reused else len(tries) == 1
            fails = (first or fault in ('resets', 'closes') and reused) and (before > 0 or not reused)
            if fault and fails:
                self.fail(c, fault, request[0].startswith(b'HEAD'))
                if fault not in REJECTIONS:
                    return
            else:
                c.respond(b'' if request[0].startswith(b'HEAD') else b'fine')
            before += 1

    @staticmethod
    def fail(c, fault, is_head):
        if fault == 'resets':
            c.reset()
        elif fault == 'half a head':
            c.write(b'HTTP/1.1 200 OK\r\nContent-Le')
        elif fault == 'garbage':
            c.write(b'garbage\r\n\r\n')
        elif fault == SILENT:
            while c.sock.recv(65536):
                pass
        elif fault in RESPONSES:
            _, status, headers = RESPONSES[fault]
            c.respond(b'' if is_head else b'no', status, headers)


def expected(method, fault):
    """The correct results: {status: maximum number of attempts}."""
    plain = fault.removeprefix('reused ')
    if plain in RESPONSES:
        return {RESPONSES[plain][0]: 1}
    if plain == SILENT:
        return {504: 1}
    if method in SAFE:
        return {200: 3}
    once = {502: 1}
    # RFC 9110 section 9.2.2 permits executing these twice.
    return once | {200: 2} if method in IDEMPOTENT else once


def ask(address, method, target):
    """Returns the status of the response, or 0 if the response is not valid HTTP."""
    with Client(address) as c:
        try:
            return c.request(method, target, body=b'data' if method in ('POST', 'PUT', 'PATCH') else None).status
        except (CutShort, OSError, ValueError):
            return 0


def judge(faulty, address, method, fault, number):
    mark = '/%d' % number
    status = ask(address, method, mark + '?' + fault.replace(' ', '%20'))
    tries = faulty.tries.get(mark, [])
    right = expected(method, fault)
    # The request may not have used an idle connection; then nothing failed. With the short time-out of the silent worker any
    # response may be late.
    if fault.startswith('reused ') and not any(t[2] for t in tries):
        right = {200: 1} | ({504: 1} if fault.endswith(SILENT) else {})
    if status not in right or len(tries) > right[status]:
        return ['%d, sent %d times: %s' % (status, len(tries), tries)]
    failed = [t[0] for t in tries]
    if fault in ('half a head', 'garbage') and len(set(failed)) != len(failed):
        return ['again to the worker that failed it: %s' % tries]
    return []


def run_faults(faulty, patient, hasty=None):
    """
    Returns [(method, fault, what is wrong)] of the proxy at the address PATIENT. HASTY, if given, is the address of a proxy
    with short time-outs: it is used for the fault that only a time-out detects.
    """
    results = []
    for fault in FAULTS:
        address = hasty or patient if fault == SILENT else patient
        for method in METHODS:
            for reused in (False, True):
                if reused:
                    for _ in range(4):      # each worker then has an idle connection
                        ask(address, 'GET', '/warm')
                name = 'reused ' + fault if reused else fault
                results.append((method, name, judge(faulty, address, method, name, len(results))))
    return results
