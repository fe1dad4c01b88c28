# SPDX-License-Identifier: Apache-2.0
"""
Routers that know more than a load balancer, or less: two of them route at the client of the real servers (names, oracle), and all of
them in virtual time (simulate.py). And the cache of a server, as server.mjs has it.
"""
import bisect
import collections
import dataclasses
import hashlib


@dataclasses.dataclass
class Engine:
    """What a server is: slots, requests served at once, and the time of a prefilled and of a generated token [s]."""
    slots: int = 8
    parallel: int = 4
    prefill_s: float = 800e-6
    decode_s: float = 15e-3


def common_length(a, b):
    return bisect.bisect_left(range(min(len(a), len(b))), True, key=lambda i: a[:i + 1] != b[:i + 1])


def hash_of(text):
    return int(hashlib.md5(text.encode()).hexdigest(), 16)


class Cache:
    """The slots of a server: texts, the least recently used first."""
    LOSS, LOSS_SHARE = 96, 0.1      # as in server.mjs

    def __init__(self, slots):
        self.slots, self.texts = slots, []

    def match(self, prompt):
        return max((common_length(prompt, text) for text in self.texts), default=0)

    def use(self, prompt, response):
        """Returns how much of PROMPT is cached; then it is, with RESPONSE, in the slot that had it or in the oldest one."""
        best = max(reversed(self.texts), key=lambda text: common_length(prompt, text), default='')
        cached = min(common_length(prompt, best), len(prompt) - 1)
        if best and len(best) - cached <= max(self.LOSS, self.LOSS_SHARE * cached):
            self.texts.remove(best)
        elif len(self.texts) >= self.slots:
            del self.texts[0]
        self.texts.append(prompt + response[:-1])
        return cached


class Rule:
    """Selects a worker for each turn, and counts what it has sent there and is not served yet: turns and seconds of work."""

    def __init__(self, workers, engine):
        self.engine, self.workers = engine, range(workers)
        self.flight, self.work = [0] * workers, [0.0] * workers
        self.last = -1      # worker that least() has selected

    def choose(self, turn, prompt):
        raise NotImplementedError

    def cost(self, turn, prompt, worker):
        """The seconds of work that TURN is expected to be there."""
        return self.seconds(len(prompt), turn.max_tokens)

    def seconds(self, tokens, output):
        return max(1, tokens) * self.engine.prefill_s + output * self.engine.decode_s / self.engine.parallel

    def pick(self, turn, prompt):
        """Returns (worker, seconds); call done() with both when the turn has been served."""
        worker = self.choose(turn, prompt)
        seconds = self.cost(turn, prompt, worker)
        self.flight[worker] += 1
        self.work[worker] += seconds
        return worker, seconds

    def done(self, turn, worker, seconds, cached):
        self.flight[worker] -= 1
        self.work[worker] -= seconds

    def least(self, figure, workers=None):
        """The worker with the least FIGURE; the first one after that of the last call, if several have it."""
        self.last = min(workers or self.workers, key=lambda w: (figure[w], (w - self.last - 1) % len(self.workers)))
        return self.last


class RoundRobin(Rule):
    def choose(self, turn, prompt):
        return self.least([0] * len(self.workers))


class LeastConnections(Rule):
    def choose(self, turn, prompt):
        return self.least(self.flight)


class Hash(Rule):
    def choose(self, turn, prompt):
        return hash_of(turn.session) % len(self.workers)


class BoundedHash(Rule):
    """The next worker if that of the hash has more than 150 % of the mean in flight."""

    def choose(self, turn, prompt):
        first, count = hash_of(turn.session), len(self.workers)
        bound = -(-1.5 * (sum(self.flight) + 1) // count)
        return next(w for w in ((first + i) % count for i in self.workers) if self.flight[w] < bound)


class Sticky(Rule):
    """A session stays where its first turn had the fewest in flight."""

    def __init__(self, *args):
        super().__init__(*args)
        self.home = {}

    def candidates(self, turn):
        return self.workers

    def choose(self, turn, prompt):
        if turn.session not in self.home:
            self.home[turn.session] = self.least(self.flight, self.candidates(turn))
        return self.home[turn.session]


class TenantThenSticky(Sticky):
    """The same, among the two workers of the tenant, or a quarter of all."""

    def candidates(self, turn):
        order = sorted(self.workers, key=lambda w: hash_of('%s/%d' % (turn.tenant or turn.session, w)))
        return order[:max(2, len(order) // 4)]


class Believer(Rule):
    """Selects where work in flight and the turn's own prefill are least, by how much of the prompt it believes to be cached there."""
    weight = 1      # of own prefill: it also displaces what others have cached

    def believed(self, turn, prompt, worker):
        """Tokens."""
        raise NotImplementedError

    def choose(self, turn, prompt):
        return self.least([self.work[w] + self.weight * self.engine.prefill_s * max(1, len(prompt) - self.believed(turn, prompt, w))
                           for w in self.workers])

    def cost(self, turn, prompt, worker):
        return self.seconds(len(prompt) - self.believed(turn, prompt, worker), turn.max_tokens)


class Names(Believer):
    """
    Knows names and lengths only: the last sessions that it sent to each worker, as many as there are slots, their tenants, and how
    much sessions of a tenant share, learned from the cached tokens of first turns; until that is known, as much as those of other
    tenants. The length of the output is unknown.
    """
    weight = 2
    OUTPUT = 16         # mean
    SHARED_MIN = 32

    def __init__(self, *args):
        super().__init__(*args)
        self.recent = [collections.OrderedDict() for _ in self.workers]
        self.shared = {}

    def believed(self, turn, prompt, worker):
        recent = self.recent[worker]
        if turn.session in recent:
            return min(len(prompt), recent[turn.session][1])
        if not any(tenant == turn.tenant for tenant, _ in recent.values()):
            return 0
        return self.shared.get(turn.tenant, sum(self.shared.values()) / max(1, len(self.shared)))

    def cost(self, turn, prompt, worker):
        seconds = self.seconds(len(prompt) - self.believed(turn, prompt, worker), self.OUTPUT)
        recent = self.recent[worker]
        recent[turn.session] = turn.tenant, len(prompt)
        recent.move_to_end(turn.session)
        if len(recent) > self.engine.slots:
            recent.popitem(last=False)
        return seconds

    def done(self, turn, worker, seconds, cached):
        super().done(turn, worker, seconds, cached)
        if turn.tenant and turn.number == 0 and cached > self.SHARED_MIN:
            self.shared[turn.tenant] = max(self.shared.get(turn.tenant, 0), cached)


class Oracle(Believer):
    """Knows prompts, the length of outputs, and each cache as it will be when the turn is served. Greedy, so it is not a bound."""

    def __init__(self, *args):
        super().__init__(*args)
        self.caches = [Cache(self.engine.slots) for _ in self.workers]

    def believed(self, turn, prompt, worker):
        return self.caches[worker].match(prompt)

    def cost(self, turn, prompt, worker):
        return self.seconds(len(prompt) - self.caches[worker].use(prompt, 'x' * turn.max_tokens), turn.max_tokens)


class LongestPrefix(Oracle):
    """The longest cached prefix, whatever the load."""

    def choose(self, turn, prompt):
        return self.least([-self.believed(turn, prompt, w) for w in self.workers])


RULES = {'round-robin': RoundRobin, 'least-connections': LeastConnections, 'hash': Hash, 'hash-150': BoundedHash, 'sticky': Sticky,
         'tenant-then-sticky': TenantThenSticky, 'names': Names, 'oracle': Oracle, 'longest-prefix': LongestPrefix}
