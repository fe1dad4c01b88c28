# SPDX-License-Identifier: Apache-2.0
"""
Requests whose worker fails: which are tried again, where, and how often each was sent. Two workers, of which
one fails a request that nobody has failed before, and either answers it when it comes again.
"""
import threading

from .http import Client, CutShort

GROUP = 'tried again'
SAFE, IDEMPOTENT, ONCE = ('GET', 'HEAD'), ('PUT', 'DELETE'), ('POST', 'PATCH')
METHODS = (*SAFE, *IDEMPOTENT, *ONCE)
REFUSALS = ('answers 502', 'answers 503', 'pretends to be an agent')
SILENT = 'is silent'
FAULTS = ('resets', 'closes', 'half a head', 'garbage', SILENT, *REFUSALS)
ANSWERS = {'answers 502': (502, '502 Theirs', ()), 'answers 503': (503, '503 Theirs', ()),
           'pretends to be an agent': (503, '503 Theirs', (('Resumelb-Unprocessed', '1'),))}


class Faulty:
    """Targets are /MARK?FAULT, or anything else for an answer."""

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
            # On a kept connection only, or on the first at all. What closes those, closes all.
            kept, fault = fault.startswith('kept '), fault.removeprefix('kept ')
            first = all(t[2] == 0 for t in tries[:-1]) if kept else len(tries) == 1
            fails = (first or fault in ('resets', 'closes') and kept) and (before > 0 or not kept)
            if fault and fails:
                self.fail(c, fault, request[0].startswith(b'HEAD'))
                if fault not in REFUSALS:
                    return
            else:
                c.answer(b'' if request[0].startswith(b'HEAD') else b'fine')
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
        elif fault in ANSWERS:
            _, status, headers = ANSWERS[fault]
            c.answer(b'' if is_head else b'no', status, headers)


def expected(method, fault):
    """{(status, how often it is sent at most)} that are right."""
    plain = fault.removeprefix('kept ')
    if plain in ANSWERS:
        return {ANSWERS[plain][0]: 1}
    if plain == SILENT:
        return {504: 1}
    if method in SAFE:
        return {200: 3}
    once = {502: 1}
    # RFC 9110 section 9.2.2 lets these run twice.
    return once | {200: 2} if method in IDEMPOTENT else once


def ask(address, method, target):
    """The status; 0 when what comes is no HTTP."""
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
    # A kept connection may not have been taken: then nothing failed. Where silence is told by a time-out, any may be late.
    if fault.startswith('kept ') and not any(t[2] for t in tries):
        right = {200: 1} | ({504: 1} if fault.endswith(SILENT) else {})
    if status not in right or len(tries) > right[status]:
        return ['%d, sent %d times: %s' % (status, len(tries), tries)]
    failed = [t[0] for t in tries]
    if fault in ('half a head', 'garbage') and len(set(failed)) != len(failed):
        return ['again to the worker that failed it: %s' % tries]
    return []


def run_faults(faulty, patient, hasty=None):
    """[(method, fault, what is wrong)] of who listens at PATIENT; at HASTY, where given, of the faults that only a time-out tells."""
    results = []
    for fault in FAULTS:
        address = hasty or patient if fault == SILENT else patient
        for method in METHODS:
            for kept in (False, True):
                if kept:
                    for _ in range(4):      # there is one to be had, at each of them
                        ask(address, 'GET', '/warm')
                name = 'kept ' + fault if kept else fault
                results.append((method, name, judge(faulty, address, method, name, len(results))))
    return results
