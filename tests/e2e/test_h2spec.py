# SPDX-License-Identifier: Apache-2.0
"""All cases of h2spec, over TLS with ALPN h2. A plain listener has no HTTP/2."""
from h2spec_cases import CASES_OF_H2SPEC, SECTIONS, STRICT, check, sections
from test_http2 import Front, check_heads

ROWS = {case[0]: case for case in CASES_OF_H2SPEC}


def page(c, head, body):
    c.respond(b'a page of more than five bytes')


def test_the_table_has_each_case_once():
    assert sections() == SECTIONS and sum(SECTIONS.values()) == 146
    wanted = [f'{section}/{n}' for section, count in SECTIONS.items() for n in range(1, count + 1)]
    assert sorted(ROWS) == sorted(wanted + STRICT) and len(CASES_OF_H2SPEC) == 146 + len(STRICT)


def test_every_case_has_the_result_that_h2spec_requires(world):
    front = Front(world, page)
    wrong = {}
    for name, case in ROWS.items():
        problem = check(front.port, case)
        if problem:
            wrong[name] = case[1], problem
        if not front.lives():
            wrong[name] = case[1], 'no longer serves', front.lb.process.output()[-300:]
            break
    check_heads(front.worker.requests)
    assert not wrong, '\n'.join('%s: %s' % w for w in wrong.items())


def test_fields_in_all_representations_reach_the_worker(world):
    front = Front(world, page)
    for n in range(2, 14):
        assert check(front.port, ROWS['generic/5/%d' % n]) is None
        head = front.worker.requests[-1][0].lower()
        fields = {f.partition(b':')[0]: f.partition(b':')[2].strip() for f in head.split(b'\r\n')[1:]}
        assert fields[b'x-test'] == b'h2spec', n
        if ROWS['generic/5/%d' % n][1].startswith('a literal'):
            assert fields[b'user-agent'] == b'h2spec', n
