# SPDX-License-Identifier: Apache-2.0
"""The step-by-step pages of the documentation: every command is run, and its output must be the documented one."""
import pathlib
import re
import subprocess
import tempfile

import pytest
from support.base import BIN, LIMIT, ROOT
from support.pages import ADDRESS, Page, blocks, missing
from support.servers import World

EXECUTED = ('README.md', 'docs/migrating.md', 'docs/faq.md', 'docs/guide/applications.md')
PAGES = (*EXECUTED, 'docs/tutorial.md')     # test_tutorial.py executes the latter


@pytest.fixture
def short_world():
    """A world in a directory with a short name, as the path of a Unix socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix='rlb-docs-') as directory:
        w = World(pathlib.Path(directory))
        yield w
        w.close()


@pytest.mark.parametrize('page', EXECUTED)
def test_all_commands_of_the_page_work_and_print_what_it_states(page, short_world):
    assert Page(short_world, page).do() > 0


@pytest.mark.parametrize('page', PAGES)
def test_every_block_with_commands_states_how_it_is_tested(page):
    found = blocks(page)
    assert found
    for block in found:
        assert block.mark is None or block.known, (block.where, block.mark)
        if block.language in ('console', 'sh', 'shell', 'bash'):
            assert block.known, '%s: no mark before commands' % block.where
    text = (ROOT / page).read_text()
    assert text.count('\n```') == 2 * len(found), 'a fenced block that is not read'
    outside = re.sub(r'^```.*?^```$', '', text, flags=re.M | re.S)
    assert not re.search(r'^    \$? ?(?:make|build|resumelb|curl)', outside, re.M), 'commands outside of fenced blocks'


@pytest.mark.parametrize('page', ('README.md', 'docs/tutorial.md'))
def test_make_targets_of_pages_exist(page):
    """Checks the meaning of the `make` arguments. `make run` itself is run by test_newspapers_zookeeper.py."""
    made = [c for b in blocks(page) if b.mark == 'make' for c, _ in b.commands()]
    assert made
    for command in made:
        words = command.split('#')[0].split()
        assert words[0] == 'make', command
        done = subprocess.run(['make', '-n', '-C', ROOT, *words[1:]], capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, (command, done.stderr)
        if 'run' in words:
            assert 'examples/newspapers/run' in done.stdout


def test_the_first_configuration_can_run_beside_make_run_and_as_any_user():
    text = next(b.text for b in blocks('README.md') if b.detail == 'resumelb.yaml')
    default = int(re.search(r"os.environ.get\('PORT'\) or (\d+)", (ROOT / 'examples/newspapers/run').read_text())[1])
    ports = set(map(int, ADDRESS.findall(text)))
    # Two load balancers, their status pages, ZooKeeper, and the next ones if some of them are in use.
    assert len(ports) == 5 and not ports & set(range(default, default + 20)), ports
    assert not re.search(r'^\w+: /', text, re.M), 'an absolute path, which only root can create'


def test_classifiers_in_tables_are_ones(tmp_path):
    cells = re.findall(r'^\|.*?`(classifier: [^`]+)`', (ROOT / 'docs/migrating.md').read_text(), re.M)
    assert len(cells) >= 5
    for cell in cells:
        file = tmp_path / 'resumelb.yaml'
        first = cell.replace('\\|', '|').split('`')[0]
        file.write_text('listen: [{address: 127.0.0.1:8080}]\nworkers: [127.0.0.1:9001]\n%s\n' % first)
        done = subprocess.run([BIN / 'resumelb', '-t', '-c', file], capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, (cell, done.stderr)


@pytest.mark.parametrize('page', ('docs/guide/proxying.md', 'docs/guide/limits.md', 'docs/guide/plugins.md', 'docs/guide/agent.md', 'docs/security.md'))
def test_fragments_of_configuration_are_valid(page, short_world):
    """Tests the fragments that need neither a certificate nor a plugin."""
    fragments = [f for f in re.findall(r'^```yaml\n(.*?)^```', (ROOT / page).read_text(), re.M | re.S) if not re.search(r'\.pem|plugin', f)]
    assert fragments
    directory = pathlib.Path(short_world.directory)
    for fragment in fragments:
        program = 'resumelb-agent' if 'command:' in fragment else 'resumelb'
        file = directory / 'fragment.yaml'
        if program == 'resumelb':
            fragment = 'listen: [{address: 127.0.0.1:8080}]\nworkers: [127.0.0.1:9001]\n' + fragment
        for path in ('/srv/shop', '/var/lib/resumelb-agent'):
            (directory / path[1:]).mkdir(parents=True, exist_ok=True)
            fragment = fragment.replace(path, '%s%s' % (directory, path))
        file.write_text(fragment)
        done = subprocess.run([BIN / program, '-t', '-c', file], capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, (page, fragment, done.stderr)


def test_every_outcome_has_its_runbook():
    said = subprocess.run([BIN / 'resumelb', '--describe', 'outcomes'], capture_output=True, text=True, timeout=LIMIT).stdout
    outcomes = re.findall(r'^\| `([a-z-]+)` \|', said.split('## Why')[0], re.M)
    assert len(outcomes) > 20
    guide = (ROOT / 'docs/runbook.md').read_text().split('## Runbooks by outcome\n')[1].split('\n## ')[0]
    rows = set(re.findall(r'`([a-z-]+)`', '\n'.join(line.split('|')[1] for line in guide.split('\n') if line.startswith('| `'))))
    assert rows == set(outcomes)


def test_the_comparison_finds_promised_lines_that_are_not_printed():
    printed = 'application shop\n  127.0.0.1:9000   ready  -\n  127.0.0.1:9001   dormant\n'
    assert missing(['127.0.0.1:9000 ready ...', '127.0.0.1:9001 ...'], printed) is None
    assert missing(['127.0.0.1:9001 ready'], printed) == '127.0.0.1:9001 ready'
    assert missing(['127.0.0.1:9001 ...', '127.0.0.1:9000 ...'], printed) == '127.0.0.1:9000 ...', 'the order matters'
    assert missing(['ready'], '') == 'ready'
