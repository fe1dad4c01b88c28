# SPDX-License-Identifier: Apache-2.0
"""The requests of a benchmark: conversations of several turns, each turn with all text before it as its prompt.

agent: tenants (zipf), each with a system prompt of its own, and conversations of one to ten turns.
mooncake: conversations from a published trace of a chat service (github.com/kvcache-ai/Mooncake, conversation_trace.jsonl), of which
it has times, lengths, and the identities of blocks of 512 tokens. Blocks are scaled to 32 tokens, and prompts and outputs with them.
"""
import collections
import dataclasses
import gzip
import hashlib
import json
import random

PROMPT_MAX = 2000       # tokens of the longest prompt
OUTPUT_MAX = 48         # tokens
TENANTS, SYSTEM_TOKENS = 8, 1000
TRACE_BLOCK, BLOCK = 512, 32
BLOCKS_MAX = 60         # of a prompt


@dataclasses.dataclass
class Turn:
    """One request. `response` is filled in when it has been served: the next turn's prompt contains it."""
    session: str
    tenant: str
    number: int         # within the session, from 0
    at: float           # time of arrival in an open loop [s]
    max_tokens: int
    text: str           # of the user; without `chat` the whole prompt
    system: str = ''
    chat: bool = True
    previous: 'Turn' = None
    response: str = ''


def text_of(key, size):
    """Text of SIZE letters and digits that depends on KEY only."""
    out = ''
    while len(out) < size:
        out += hashlib.sha256(('%s/%d' % (key, len(out))).encode()).hexdigest()
    return out[:size]


def agent(count, seed, tenants=TENANTS):
    rng = random.Random(seed)
    weights = [1 / (i + 1) ** 0.9 for i in range(tenants)]
    turns, sessions, start = [], 0, 0.0
    while len(turns) < count:
        (tenant,) = rng.choices(range(tenants), weights)
        session, at, size = 'a%d' % sessions, start, SYSTEM_TOKENS
        for number in range(min(10, 1 + int(rng.expovariate(1 / 4)))):
            # Questions and results of tools.
            text = text_of('%s/%d' % (session, number), rng.randint(30, 90) if number % 2 == 0 else rng.randint(60, 220))
            max_tokens = min(OUTPUT_MAX, 4 + int(rng.expovariate(1 / 12)))
            size += len(text) + max_tokens + 8
            if size > PROMPT_MAX:
                break
            turns.append(Turn(session, 't%d' % tenant, number, at, max_tokens, text, text_of('tenant %d' % tenant, SYSTEM_TOKENS)))
            at += rng.uniform(2, 14)
        sessions += 1
        start += rng.expovariate(1 / 2.6)
    return sorted(turns, key=lambda t: t.at)[:count]


def sessions_of(lines):
    """
    The requests of a trace, as lists, one for each conversation: a request belongs to that of an earlier one if the blocks of
    that one, without its last, are the longest known prefix of its own. The first block is common to all.
    """
    node_after, session_of, sessions = {}, {}, []
    for line in lines:
        request = json.loads(line)
        path, node = [], 0
        for block in request['hash_ids']:
            node = node_after.setdefault((node, block), len(node_after) + 1)
            path.append(node)
        known = [session_of[node] for node in path if node in session_of]
        if not known:
            sessions.append([])
        session = known[-1] if known else len(sessions) - 1
        sessions[session].append(request)
        if len(path) > 2:
            session_of[path[-2]] = session
    return sessions


def mooncake(count, seed, trace):
    with gzip.open(trace, 'rt') as lines:
        sessions = list(enumerate(sessions_of(lines)))
    random.Random(seed).shuffle(sessions)
    turns = []
    for session, requests in sessions:
        fitting = next((i for i, r in enumerate(requests) if len(r['hash_ids']) > BLOCKS_MAX), len(requests))
        for number, r in enumerate(requests[:fitting]):
            *whole, last = r['hash_ids']
            rest = max(1, (r['input_length'] - TRACE_BLOCK * len(whole)) * BLOCK // TRACE_BLOCK)
            text = ''.join(text_of(block, BLOCK) for block in whole) + text_of(last, min(rest, BLOCK))
            max_tokens = max(1, min(OUTPUT_MAX, r['output_length'] * BLOCK // TRACE_BLOCK))
            turns.append(Turn('s%d' % session, '', number, r['timestamp'] / 1000, max_tokens, text, chat=False))
        if len(turns) >= count:
            break
    return sorted(turns, key=lambda t: t.at)


def turns_of(workload, count, seed, trace=None, rate=None, tenants=TENANTS):
    """COUNT turns in their order, each linked with the one before it in its session. `rate`: they arrive RATE a second on average."""
    turns = agent(count, seed, tenants) if workload == 'agent' else mooncake(count, seed, trace)
    begin = turns[0].at
    speed = rate * (turns[-1].at - begin) / len(turns) if rate else 1
    last = collections.defaultdict(lambda: None)
    for turn in turns:
        turn.at = (turn.at - begin) / speed
        turn.previous, last[turn.session] = last[turn.session], turn
    return turns


def messages(turn):
    """The messages of a chat up to TURN."""
    before = [{'role': 'system', 'content': turn.system}]
    if turn.previous:
        before = [*messages(turn.previous), {'role': 'assistant', 'content': turn.previous.response}]
    return [*before, {'role': 'user', 'content': turn.text}]


def prompt_of(turn):
    """The text that a server evaluates: a token per byte, after one that begins it."""
    if not turn.chat:
        return turn.text
    return ''.join('%s:%s\n' % (m['role'][0], m['content']) for m in messages(turn)) + 'a:'
