# SPDX-License-Identifier: Apache-2.0
"""
bench/models/run compares load balancers in front of llama.cpp servers. The tests check that it measures, not its results; that a
server's cache saves work and changes no output; and how conversations of a trace are found.
"""
import gzip
import http.client
import json
import pathlib
import subprocess
import sys
import threading

import pytest
from support.base import BIN, LIMIT

MODELS = pathlib.Path(__file__).parents[2] / 'bench/models'
sys.path.insert(0, str(MODELS))
import make_gguf  # noqa: E402
import rules  # noqa: E402
import subjects  # noqa: E402
import workloads  # noqa: E402

SUBJECTS = ('nginx-round-robin', 'haproxy-stick', 'resumelb-adaptive', 'names', 'oracle')


def run(program, *options):
    # A whole run may take some minutes.
    return subprocess.run([MODELS / program, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=4 * LIMIT)


def write_trace(path, conversations, turns):
    """Conversations of TURNS requests each; each request has the blocks of the one before it, without its last, and two more."""
    lines = []
    for turn in range(turns):
        for c in range(conversations):
            blocks = [0, *(1000 * (c + 1) + i for i in range(turn + 2)), 1000 * (c + 1) + 500 + turn]
            lines.append({'timestamp': 1000 * len(lines), 'input_length': 512 * len(blocks) - 100, 'output_length': 300, 'hash_ids': blocks})
    with gzip.open(path, 'wt') as f:
        f.writelines(json.dumps(line) + '\n' for line in lines)


def complete(port, prompt, max_tokens=12):
    """(text, cached tokens, tokens of the prompt)"""
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=LIMIT)
    connection.request('POST', '/v1/completions', json.dumps({'prompt': prompt, 'max_tokens': max_tokens}))
    response = json.loads(connection.getresponse().read())
    connection.close()
    usage = response['usage']
    return response['choices'][0]['text'], usage['prompt_tokens_details']['cached_tokens'], usage['prompt_tokens']


def test_conversations_of_a_trace_are_found_by_their_blocks(tmp_path):
    write_trace(tmp_path / 'trace.gz', conversations=3, turns=4)
    turns = workloads.turns_of('mooncake', 12, 1, tmp_path / 'trace.gz', rate=10)
    by_session = {}
    for turn in turns:
        by_session.setdefault(turn.session, []).append(turn)
    assert sorted(len(of) for of in by_session.values()) == [4, 4, 4]
    for first, *later in by_session.values():
        assert first.previous is None
        for before, turn in zip([first, *later], later):
            assert turn.previous is before and turn.number == before.number + 1
            # All of its blocks but the last, each of 32 tokens.
            assert rules.common_length(before.text, turn.text) == 32 * (before.number + 3)
    # Twelve turns at 10 a second, in the order of the trace.
    assert turns[0].at == 0 and turns[-1].at == pytest.approx(1.2)
    assert [turn.at for turn in turns] == sorted(turn.at for turn in turns)


def test_names_are_worth_more_than_sticky_sessions_in_virtual_time():
    r = run('simulate.py', '--turns', '240', '--runs', '2', '--base', 'sticky', '--rules', 'round-robin,sticky,names')
    assert r.returncode == 0, r.stderr
    cells = {row[0]: row for row in ([c.strip() for c in line.split('|')[1:-1]] for line in r.stdout.splitlines())}
    cached, per_second = 3, 10
    assert float(cells['round-robin'][cached]) < float(cells['sticky'][cached]) < float(cells['names'][cached])
    assert float(cells['round-robin'][per_second]) < float(cells['sticky'][per_second]) == 1 < float(cells['names'][per_second])


def test_unknown_names_are_rejected():
    for options, word in ((('--subjects', 'apache'), 'apache'), (('--scenarios', 'batch'), 'batch'), (('--scenarios', 'mooncake'), '--trace'),
                          (('--runs', '0'), 'runs')):
        r = run('run', *options)
        assert r.returncode == 2
        assert word in r.stderr


@pytest.mark.soak
def test_a_cached_prefix_changes_no_output(tmp_path):
    make_gguf.write(tmp_path / 'model', 'tiny')
    system = workloads.text_of('system', 1000)
    prompts = [system + workloads.text_of('question %d' % i, 400) for i in range(6)]
    with subjects.Servers(tmp_path, tmp_path / 'model', rules.Engine(prefill_s=0, decode_s=0), count=1) as servers:
        (port,) = servers.ports
        cold = []
        for prompt in prompts:
            servers.reset()
            cold.append(complete(port, prompt))
        assert [cached for _, cached, _ in cold] == [0] * 6
        servers.reset()
        # The first is cold, the others get copies of its prefix.
        copied = [complete(port, prompt) for prompt in prompts]
        assert [text for text, *_ in copied] == [text for text, *_ in cold]
        assert copied[0][1] == 0 and all(cached > len(system) for _, cached, _ in copied[1:])
        again = [complete(port, prompt) for prompt in prompts]
        assert [text for text, *_ in again] == [text for text, *_ in cold]
        assert all(cached == size - 1 for _, cached, size in again)
        servers.reset()
        at_once = {}
        threads = [threading.Thread(target=lambda p=prompt: at_once.update({p: complete(port, p)})) for prompt in prompts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [at_once[prompt][0] for prompt in prompts] == [text for text, *_ in cold]
        # An output in two requests is that of one: no token is missing in the cache, and none is stale.
        servers.reset()
        for prompt in prompts:
            text, *_ = complete(port, prompt)
            more, cached, size = complete(port, prompt + text)
            assert cached == size - 1
            assert complete(port, prompt, 24)[0] == text + more
        assert servers.total('llmbench:errors_total') == 0


@pytest.mark.soak
def test_each_subject_gets_figures_for_each_scenario(tmp_path):
    write_trace(tmp_path / 'trace.gz', conversations=4, turns=3)
    r = run('run', '--bin', BIN / 'resumelb', '--subjects', ','.join(SUBJECTS), '--scenarios', 'small-caches,mooncake', '--runs', '1',
            '--turns', '12', '--trace', tmp_path / 'trace.gz', '--prefill-us', '0', '--decode-us', '0', '--out', tmp_path / 'out')
    assert r.returncode == 0, r.stderr
    for scenario in ('small-caches', 'mooncake'):
        for subject in SUBJECTS:
            result = json.loads((tmp_path / 'out' / scenario / (subject + '.0') / 'result.json').read_text())
            assert result['requests'] == 12 and result['errors'] == 0
            assert result['per_second'] > 0 and result['ttft_p99'] >= result['ttft_p50'] > 0
    for subject in SUBJECTS:
        assert r.stdout.count('| %s | 1 | 0 |' % subject) == 2
    assert run('figures.py', tmp_path / 'out').stdout.count('| names | 1 | 0 |') == 2
    reasons = run('figures.py', tmp_path / 'out', '--reasons').stdout
    # A new class gets its home with its first turn.
    (block,) = [b for b in reasons.split('\n\n') if b.strip().startswith('mooncake/resumelb-adaptive.0: ')]
    (line,) = [line for line in block.splitlines() if line.split()[0] == 'new']
    assert line.split()[1:5] == ['4,', 'first', 'turns', '4,']


@pytest.mark.soak
def test_a_program_that_cannot_be_measured_is_an_error(tmp_path):
    r = run('run', '--subjects', 'resumelb-adaptive', '--scenarios', 'agent', '--bin', '/bin/false', '--out', tmp_path)
    assert r.returncode == 1
    assert 'resumelb does not start' in r.stderr
