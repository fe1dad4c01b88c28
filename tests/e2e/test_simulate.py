# SPDX-License-Identifier: Apache-2.0
"""resumelbctl simulate: its output for synthetic workloads and access logs, as a table, as JSON and as a picture."""
import json
import os
import random
import re
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from support.base import BIN, LIMIT

SMALL = ('--requests', '4000')


def simulate(*words, code=0, text=None):
    done = subprocess.run([str(BIN / 'resumelbctl'), 'simulate', *map(str, words)], input=text, capture_output=True,
                          timeout=LIMIT, text=True)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    assert 'Sanitizer' not in done.stderr and 'assertion failed' not in done.stderr, done.stderr
    return done


def figures(*words, **kw):
    return json.loads(simulate('--json', *words, **kw).stdout)


def variants(story):
    return {(v['policy'], v['classifier']): v for v in story['variants']}


def log_lines(n, with_host, seed=1):
    """A combined log in which a few sites and a few pages are requested often."""
    draw = random.Random(seed)
    sites, pages = range(40), range(30)
    at = 1331280000.0
    for _ in range(n):
        at += draw.expovariate(50)
        host = 'h%d.example ' % draw.choices(sites, [1 / (i + 1) for i in sites])[0]
        page = draw.choices(pages, [1 / (i + 1) for i in pages])[0]
        yield '%s10.0.0.%d - - [%s] "GET /news/%d.html?x=%d HTTP/1.1" 200 %d "-" "a browser"' % (
            host if with_host else '', draw.randrange(256), time.strftime('%d/%b/%Y:%H:%M:%S +0000', time.gmtime(at)),
            page, draw.randrange(9), draw.randrange(50000))


def test_a_table_has_a_line_for_each_policy_that_the_setting_knows():
    out = simulate(*SMALL).stdout
    described = subprocess.run([str(BIN / 'resumelb'), '--describe', 'settings'], capture_output=True, text=True,
                               timeout=LIMIT).stdout
    row = re.search(r'^\| `policy` \| ([^|]*) \|', described, re.M)
    names = re.findall(r'^  ([a-z0-9_]+) +[\d.]+ +\d+ +\d+ +\d+ +\d+ +[\d.]+ ', out, re.M)
    assert names == re.findall(r'`([a-z0-9_]+)`', row[1])
    assert re.search(r'With \S+ rather than \S+: [\d.]+ loads per request rather than', out)


def test_resumes_load_less_than_no_classes():
    story = figures('--policy', 'resume,classless')['scenarios'][0]
    resume, classless = (variants(story)[name, 'host'] for name in ('resume', 'classless'))
    assert story['scenario'] == 'steady' and story['model']['workers'] == 16
    assert resume['loads'] < 2 < 9 < classless['loads']
    assert resume['rate'] > 1.5 * classless['rate']
    assert resume['in_several_caches'] < .1 * resume['distinct'] < .3 * classless['distinct']
    assert abs(sum(resume['worker_shares']) - 1) < 1e-6 and len(resume['worker_shares']) == 16


def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not():
    first, again, other = (simulate('--json', *SMALL, '--seed', seed).stdout for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_sites_may_be_nearly_even():
    skewed, even = (figures('--policy', 'round_robin', *SMALL, *words)['scenarios'][0]['variants'][0]['loads']
                    for words in ((), ('--zipf', 'simul')))
    assert even > 1.2 * skewed


def test_every_scenario_runs_with_its_own_figures():
    stories = figures('--scenario', 'all', '--policy', 'resume,classless', *SMALL)['scenarios']
    assert [s['scenario'] for s in stories] == ['steady', 'light', 'flash', 'crawl', 'newworkers', 'crash', 'drain', 'rolling', 'hetero', 'shift',
                                                'shareddb', 'sessions', 'streams']
    of = {s['scenario']: variants(s)['resume', 'host']['of_scenario'] for s in stories}
    assert 'open_p99_ms' in of['steady'] and 'hot_workers' in of['flash'] and 'new_share' in of['crash']
    assert all(v['failed'] == 0 for s in stories for v in s['variants'])


def test_a_settings_value_follows_its_policy():
    story = figures('--policy', 'resume,resume:variance=0.1', *SMALL)['scenarios'][0]
    assert [v['policy'] for v in story['variants']] == ['resume', 'resume:variance=0.1']
    assert story['variants'][0]['loads'] != story['variants'][1]['loads']


def test_a_log_is_replayed_and_its_bad_lines_are_reported(tmp_path):
    log = tmp_path / 'access.log'
    lines = list(log_lines(3000, with_host=True))
    lines[99] = 'garbage'
    lines[199] = lines[199].replace('"GET', '"')
    log.write_text('\n'.join(lines) + '\n' + 'x' * 70000 + '\n')
    page = figures(log, '--policy', 'resume,classless', '--cache', 500)
    assert page['log']['lines'] == 3001 and page['log']['requests'] == 2998
    assert page['log']['bad_lines'] == 3 and page['log']['first_bad_line'] == 100
    seen = variants(page['scenarios'][0])
    assert seen['resume', 'host']['classes'] == len({line.split()[0] for i, line in enumerate(lines) if i not in (99, 199)})
    assert seen['resume', 'host']['loads'] < .7 * seen['classless', 'host']['loads']
    out = simulate(log, '--policy', 'resume').stdout
    assert '3 of 3001 lines cannot be used, the first is line 100' in out
    assert '1  longer than 64 KiB' in out


def test_a_made_up_log_is_one_of_a_day_and_the_same_each_time(tmp_path):
    def made(*words):
        script = Path(__file__).parents[2] / 'bench' / 'make_access_log.py'
        return subprocess.run(['/usr/bin/python3', '-B', str(script), '--requests', '4000', '--sites', '40', *words], capture_output=True,
                              timeout=LIMIT, check=True).stdout
    first = made()
    assert first == made() != made('--seed', '2')
    log = tmp_path / 'day.log'
    log.write_bytes(first)
    page = figures(log, '--policy', 'resume')
    assert page['log']['bad_lines'] == 0 and 2000 < page['log']['requests'] == first.count(b'\n') < 8000
    assert 80000 < page['log']['span_s'] < 86400
    assert {line.rsplit(b'"', 2)[1] for line in first.splitlines()} == {b'browser', b'crawler', b'poller'}


def test_a_log_without_hosts_is_read_from_standard_input_and_sorted_by_path():
    page = figures('-', '-c', 'host', '-c', 'path', '-c', 'regex:PATH_INFO:^/news/(?P<class>[0-9])', '-p', 'resume',
                   text='\n'.join(log_lines(2000, with_host=False)))
    classes = {v['classifier']: v['classes'] for v in page['scenarios'][0]['variants']}
    assert classes == {'host': 1, 'path': 30, 'regex:PATH_INFO:^/news/(?P<class>[0-9])': 10}


def test_a_log_of_our_own_is_replayed_at_its_times():
    lines = [json.dumps({'time': '2026-11-22T06:25:%02d.%03dZ' % (i // 50, i % 50 * 20), 'client': '::1', 'method': 'GET',
                         'target': '/%d' % (i % 7), 'protocol': 'HTTP/1.1', 'status': 200, 'host': 'a.example'})
             for i in range(1000)]
    page = figures('-', '--speed', 1, '-p', 'classless', text='\n'.join(lines))
    assert page['log']['span_s'] == 19.98
    assert abs(page['scenarios'][0]['variants'][0]['rate'] - 50) < 1


def test_the_picture_is_well_formed_and_names_what_was_compared(tmp_path):
    svg = tmp_path / 'p.svg'
    simulate(*SMALL, '--policy', 'resume,classless,resume:variance=1', '--plot', svg)
    root = ElementTree.parse(svg).getroot()
    assert root.tag == '{http://www.w3.org/2000/svg}svg'
    texts = [e.text for e in root.iter('{http://www.w3.org/2000/svg}text')]
    assert {'resume', 'classless', 'resume:variance=1', 'Loads per request'} <= set(texts)
    assert len(list(root.iter('{http://www.w3.org/2000/svg}polyline'))) == 3 * 3
    width, height = float(root.get('width')), float(root.get('height'))
    for e in root.iter('{http://www.w3.org/2000/svg}polyline'):
        for point in e.get('points').split():
            x, y = map(float, point.split(','))
            assert 0 <= x <= width and 0 <= y <= height


def test_a_name_from_a_log_cannot_break_the_picture(tmp_path):
    svg, log = tmp_path / 'p.svg', tmp_path / 'a<b>&".log'
    log.write_text('\n'.join(log_lines(200, with_host=True)))
    simulate(log, '--policy', 'resume', '--plot', svg)
    assert any(e.text and '<b>&"' in e.text for e in ElementTree.parse(svg).getroot().iter())


def test_random_workloads_are_counted_for_each_policy():
    out = simulate('--random', 2, '--seed', 5, '--policy', 'resume,classless').stdout
    assert 'Of 2 workloads' in out
    table = re.findall(r'^  (resume|classless) +((?:\d+ +){6}\d+)$', out, re.M)
    assert len(table) == 2
    best = [int(row[1].split()[0]) for row in table]
    assert sum(best) >= 2
    kept = re.findall(r'^  (resume|classless) +((?:\d+ +){4}\d+)$', out, re.M)
    assert len(kept) == 2
    # In each workload exactly one of the policies that keep up has the fewest loads; those that do not keep up are not counted.
    rows = [list(map(int, row[1].split())) for row in kept]
    assert sum(row[1] for row in rows) == 2 and sum(row[3] for row in rows) == 2
    assert all(max(row[1:]) <= row[0] <= 2 for row in rows)
    assert re.findall(r'^ +(5|6) +\d+ +\d+ +\d+ +\d+ +[\d.]+ +\d+', out, re.M) == ['5', '6']


def test_tuning_names_a_policy_a_classifier_and_a_number_of_workers():
    out = simulate('--tune', *SMALL, '--policy', 'resume,classless').stdout
    assert re.search(r'^policy: resume(:\w+=[\d.]+)*\nclassifier: host$', out, re.M)
    assert re.search(r'\d+ workers do what 16 do today, in requests a second', out)


def test_tuning_searches_what_each_policy_goes_by():
    out = simulate('--tune', *SMALL, '--policy', 'hash,adaptive,p2c', '--clients', 200).stdout
    rows = re.findall(r'^  ([a-z0-9_]+)((?::\w+=[\d.]+)*) by (\w+) ', out[out.index('2. Settings'):], re.M)
    tried = {policy: {s.split('=')[0] for p, settings, _ in rows for s in settings.split(':')[1:] if p == policy}
             for policy in ('hash', 'adaptive', 'p2c', 'least_backlog')}
    assert tried == {'hash': {'hash_balance_factor'}, 'adaptive': {'max_share'}, 'p2c': set(), 'least_backlog': set()}
    # The winner is a row of that table, and its request rate is at most one percent below the maximum.
    rates = {label: float(rate) for label, rate in re.findall(r'^  (\S+) by \w+ +[\d.]+ +(\d+) ', out[out.index('2. Settings'):], re.M)}
    best = re.search(r'^policy: (\S+)$', out, re.M)[1]
    assert rates[best] >= .98 * max(rates.values())


def test_tuning_one_policy_holds_it_against_what_most_people_have():
    out = simulate('--tune', *SMALL, '--policy', 'adaptive').stdout
    assert 'With adaptive by host rather than least_backlog by host' in out
    today, rows = re.search(r'^  today +([\d.]+ +\d+) ', out, re.M)[1], re.findall(r'^  least_backlog by (\w+) +([\d.]+ +\d+) ', out, re.M)
    assert ('host', today) in rows
    # ... which is not the optimization goal, even if it is the best.
    worse = simulate('--tune', *SMALL, '--policy', 'hash', '--load-ms', 0, '--hit-us', 0).stdout
    assert re.search(r'^policy: hash', worse, re.M)


def test_a_setting_that_the_policy_does_not_go_by_is_rejected_with_those_that_it_has():
    described = subprocess.run([str(BIN / 'resumelb'), '--describe', 'settings'], capture_output=True, text=True, timeout=LIMIT).stdout
    # Parameters documented for a single policy: a new row of the table must be listed here as well.
    of = dict(re.findall(r'^\| `(\w+)` \|[^\n]*\| Policy (\w+): ', described, re.M))
    assert of['variance'] == 'resume' and of['max_share'] == 'adaptive' and of['hash_balance_factor'] == 'hash'
    names = re.search(r'there are ([a-z0-9_, ]+)', simulate('--help').stdout)[1].split(', ')
    for setting, owner in of.items():
        value = 'true' if setting == 'max_share_always' else 110 if owner == 'hash' else .5
        for policy in names:
            words = ('--policy', '%s:%s=%s' % (policy, setting, value), '--requests', 100)
            if policy == owner:
                assert policy in simulate(*words).stdout
                continue
            said = simulate(*words, code=2).stderr
            had = re.search(r"%s has no setting '%s' here: it has (.*)" % (policy, setting), said)[1].split(', ')
            assert set(had) & set(of) == {s for s in of if of[s] == policy}, said
    # A shadow policy uses its own parameters.
    shadow = figures('--policy', 'hash:max_share=0.2:shadow_policy=adaptive', *SMALL)['scenarios'][0]['variants'][0]['shadow']
    assert shadow['requests'] > 0


def test_policy_words_without_effect_or_given_twice_are_rejected(tmp_path):
    log = tmp_path / 'access.log'
    log.write_text('\n'.join(log_lines(100, with_host=True)))
    for words, why in (
            (('--policy', ''), "'' does not name a policy"),
            (('--policy', 'resume,'), 'does not name a policy after its last comma'),
            (('--policy', 'resume,,hash'), '"" is not one of resume'),
            (('--policy', 'resume,hash', '--policy', 'resume'), 'duplicate resume'),
            (('--policy', 'resume:variance=1:variance=2'), 'duplicate variance'),
            (('--policy', 'adaptive:'), 'expected SETTING=VALUE'),
            (('--policy', 'adaptive::max_share=0.2'), "no setting ''"),
            (('--policy', 'adaptive:policy=resume'), "no setting 'policy'"),
            (('--policy', 'adaptive:max_share'), 'max_share: expected a number'),
            (('--policy', 'adaptive:max_share=2'), 'must be at most 1'),
            (('--policy', 'hash:hash_balance_factor=50'), 'must be above 100, or 0 for no bound'),
            (('--policy', 'resume:single_version=true'), "no setting 'single_version'"),
            (('--policy', 'resume:spawn_backlog=1'), "no setting 'spawn_backlog'"),
            (('--clients', 9, '--rate', 50), '--clients changes nothing here'),
            (('--scenario', 'light', '--clients', 9), 'scenario light has 8 clients'),
            ((log, '--zipf', 'simul'), '--zipf changes nothing here: a log has its own'),
            ((log, '--sites', 3), '--sites changes nothing here'),
            (('--random', 1, '--workers', 3), '--workers changes nothing here: --random chooses it')):
        done = simulate(*words, code=2)
        assert why in done.stderr and not done.stdout, (words, done.stderr)
    assert 'light' in simulate('-s', 'all', '--clients', 9, '-p', 'classless', '--requests', 100).stdout


def test_tuning_a_policy_that_is_given_a_setting_tries_others_of_it():
    out = simulate('--tune', *SMALL, '--policy', 'resume:variance=5').stdout
    labels = re.findall(r'^  (resume\S*) by ', out, re.M)
    assert 'resume:variance=1' in labels and 'resume:variance=5' in labels
    assert all(label.count('variance=') == 1 for label in labels), labels


def test_a_bad_command_line_is_rejected_with_what_is_wrong_with_it():
    for words, why in (
            (('--policy', 'nope'), 'is not one of resume'),
            (('--policy', 'resume:nope=1'), "resume has no setting 'nope' here: it has variance, backlog_history, unskilled_score, "
                                            "shadow_policy, max_classes, backlog_shared, backlog_max_age"),
            (('--policy', 'resume:variance=nope'), 'variance'),
            (('--classifier', 'regex:PATH_INFO:('), 'pattern'),
            (('--classifier', 'nope'), 'expected host, segment, path'),
            (('--scenario', 'nope'), 'no such scenario'),
            (('--workers', '0'), '--workers: expected a whole number from 1 to 4096'),
            (('--workers', '4096', '--cache', '16777216'), 'too much'),
            (('--zipf', 'even'), '--zipf: expected a number from 0 to 10 or simul, not: even'),
            (('--speed', '1'), '--speed is for a log'),
            (('--scenario', 'all', '--plot', 'x.svg'), 'one scenario'),
            (('--requests', '0'), '--requests: expected a whole number from 2 to 4194304, not: 0'),
            (('--seed', '-1'), '--seed: expected a whole number from 0 to 4294967295, not: -1'),
            (('a.log', 'b.log'), 'unexpected argument')):
        assert why in simulate(*words, code=2).stderr, words
    assert 'No such file' in simulate('/nonexistent/access.log', code=1).stderr
    assert 'fewer than two requests' in simulate('-', code=1, text='garbage\n').stderr
    assert 'workers come and go' in simulate('--tune', '--scenario', 'crash', *SMALL, code=1).stderr


# ---- bench/adaptive_ablation ----

ABLATION = BIN.parent / 'bench' / 'homes_ablation'


def ablated(factors, code=0):
    done = subprocess.run([str(ABLATION), 'simulate', '--json', '-p', 'adaptive', *SMALL], capture_output=True, timeout=LIMIT, text=True,
                          env={**os.environ, 'RLB_HOMES_FACTORS': factors})
    assert done.returncode == code, done.stderr
    return done.stdout


def test_without_factors_the_program_for_ablation_is_the_simulator():
    usual = simulate('--json', '-p', 'adaptive', *SMALL).stdout
    assert ablated('') == ablated('PER_SHARE=1,COST_STEP=1') == usual
    assert ablated('PER_SHARE=0.2') != usual
    ablated('PER_SHARES=0.2', code=2)


def test_an_ablation_lists_each_constant_and_continues_where_it_stopped(tmp_path):
    script = Path(__file__).parents[2] / 'bench' / 'adaptive_ablation'
    (tmp_path / 'bench').symlink_to(ABLATION.parent)

    def tables():
        return subprocess.run([str(script), 'constants', 'parts', '--seeds', '1-2', '--only', 'PER_SHARE,OTHERS_ROOM', '--work', 'nearly one class'],
                              stdout=subprocess.PIPE, timeout=4 * LIMIT, text=True, check=True, env={**os.environ, 'RLB_BUILD': str(tmp_path)}).stdout
    first = tables()
    runs = (tmp_path / 'ablation.jsonl').read_text().splitlines()
    # Nine placebos; two constants halved and doubled; a part: each with two seeds.
    assert len(runs) == 2 * (9 + 4 + 1)
    assert re.search(r'^\| `OTHERS_ROOM` \S+ \| .* \| .* \|$', first, re.M)
    assert re.search(r'^\| replication \| [1-9]\d* \| nearly one class: \w+ ', first, re.M)
    assert tables() == first
    assert (tmp_path / 'ablation.jsonl').read_text().splitlines() == runs
