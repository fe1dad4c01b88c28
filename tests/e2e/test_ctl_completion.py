# SPDX-License-Identifier: Apache-2.0
"""What shells complete: the scripts parse, and complete in a real bash and zsh; each --help has what they offer."""
import functools
import re
import subprocess

import pytest
from ctl_support import ctl


@pytest.fixture(scope='module')
def scripts(tmp_path_factory):
    """Of each shell, in a file."""
    directory = tmp_path_factory.mktemp('completion')
    files = {}
    for shell in ('bash', 'zsh'):
        files[shell] = directory / shell
        files[shell].write_text(ctl('completion', shell).out)
    return files


def words():
    """The commands that --help lists."""
    listed = ctl('--help').out.partition('\ncommands:\n')[2].partition('\n\n')[0]
    return [line.split()[0] for line in listed.splitlines()]


@pytest.mark.parametrize('shell', ['bash', 'zsh'])
def test_the_scripts_parse(shell, scripts):
    done = subprocess.run([shell, '-n', str(scripts[shell])], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr


def complete_with(bash, line, cwd=None):
    """What bash offers for the last word of LINE."""
    script = '''
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        _resumelbctl
        printf '%s\\n' "${COMPREPLY[@]}"
    '''
    done = subprocess.run(['bash', '--norc', '-c', script, 'bash', str(bash), *line], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return [w for w in done.stdout.splitlines() if w]


@pytest.fixture
def complete(scripts):
    return functools.partial(complete_with, scripts['bash'])


def test_bash_completes_words_options_and_values(tmp_path, complete):
    (tmp_path / 'access.log').write_text('')
    assert complete(['resumelbctl', '']) == words()
    assert complete(['resumelbctl', 'exp']) == ['explain']
    assert complete(['resumelbctl', '-a', '127.0.0.1:1', 'und']) == ['undrain']
    assert complete(['resumelbctl', 'check', '--worker-max-']) == ['--worker-max-backlog-warn', '--worker-max-backlog-error']
    assert complete(['resumelbctl', 'top', '--sort', '']) == list('nbmorfsk')
    assert complete(['resumelbctl', 'classify', '-c', 's']) == ['segment']
    assert complete(['resumelbctl', 'classify', 'acc'], tmp_path) == ['access.log']
    assert complete(['resumelbctl', 'drain', '--token-file', 'acc'], tmp_path) == ['access.log']
    assert complete(['resumelbctl', 'tree', 'im']) == ['import']
    assert complete(['resumelbctl', 'completion', '']) == ['bash', 'zsh']
    assert complete(['resumelbctl', 'nonsense', '']) == []


def test_bash_runs_nothing_that_stands_on_the_line(tmp_path, complete):
    complete(['resumelbctl', 'classify', '$(touch %s/ran)' % tmp_path, '`touch %s/ran`' % tmp_path])
    assert not (tmp_path / 'ran').exists()


def test_every_word_has_its_help_and_what_is_completed_is_in_it(complete):
    assert len(words()) == len(set(words())) >= 15
    for word in words():
        text = ctl(word, '--help').out
        assert text.startswith('usage: resumelbctl ' + word), text
        offered = {w for w in complete(['resumelbctl', word, '--']) if w.startswith('--')}
        helped = set(re.findall(r'(?<![\w-])--[a-z][a-z-]*', text))
        listed = set(re.findall(r'^ +(?:-\w, )?(--[a-z][a-z-]*)', text, re.M))
        assert listed <= offered, (word, listed - offered)
        assert offered - {'--help'} <= helped, (word, offered - helped)


def test_zsh_completes_the_words(scripts):
    script = '''
        autoload -Uz compinit && compinit -u -D
        _arguments() { print -rl -- "$@" }
        _describe() { print -rl -- "${(P@)4}" }
        words=(resumelbctl ""); CURRENT=2
        source "$1"
    '''
    done = subprocess.run(['zsh', '-f', '-c', script, 'zsh', str(scripts['zsh'])], capture_output=True, text=True)
    assert [line.partition(':')[0] for line in done.stdout.splitlines()] == words(), (done.stdout, done.stderr)
