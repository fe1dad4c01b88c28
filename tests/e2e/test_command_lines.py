# SPDX-License-Identifier: Apache-2.0
"""What all programs print on request, and what they do with arguments that they do not take."""
import subprocess

import pytest
from support.base import BIN, LIMIT

PAGES = [('resumelb', 'settings'), ('resumelb', 'stats'), ('resumelb', 'outcomes'), ('resumelb-agent', 'settings'),
         ('resumelb-agent', 'stats'), ('resumelb-poolcounter', 'settings'), ('resumelb-poolcounter', 'stats')]
PROGRAMS = ['resumelb', 'resumelb-agent', 'resumelb-poolcounter', 'resumelbctl']
PRINTED = ([(p, option) for p in PROGRAMS for option in ('-v', '--version', '-h', '--help')] +
           [(p, '--describe', page) for p, page in PAGES] +
           [('resumelbctl', 'tree', '--help'), ('resumelbctl', 'completion', 'bash')])


@pytest.mark.parametrize('command', PRINTED, ids=' '.join)
def test_output_that_cannot_be_written_is_a_failure(command):
    with open('/dev/full', 'w') as full:
        done = subprocess.run([BIN / command[0], *command[1:]], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=LIMIT)
    assert done.returncode == 1 and 'No space left on device' in done.stderr
    done = subprocess.run([BIN / command[0], *command[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0 and done.stdout and not done.stderr


@pytest.mark.parametrize('program', PROGRAMS)
def test_an_argument_that_a_program_does_not_take_is_an_error(program):
    extra = ['status'] if program == 'resumelbctl' else []
    done = subprocess.run([BIN / program, *extra, 'a', 'b'], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == (1 if program == 'resumelb-poolcounter' else 2)
    assert 'unexpected argument' in done.stderr


def test_an_export_to_a_device_or_a_link_writes_to_it(tmp_path):
    tree = tmp_path / 'tree'
    (tree / 'a').mkdir(parents=True)
    (tree / 'a' / 'properties.json').write_text('{"x": 1}')
    target, link = tmp_path / 'target', tmp_path / 'link'
    target.write_text('before')
    link.symlink_to(target)

    def export(path):
        return subprocess.run([BIN / 'resumelbctl', 'tree', 'export', '--tree', 'directory:%s' % tree, '-o', path],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
    done = export(link)
    assert done.returncode == 0, done.stderr
    assert link.is_symlink() and 'x' in target.read_text() and 'before' not in target.read_text()
    link.unlink()
    link.symlink_to('/dev/stdout')
    done = export(link)
    assert done.returncode == 0 and done.stdout == target.read_text() and link.is_symlink()
    link.unlink()
    link.symlink_to('/dev/full')
    done = export(link)
    assert done.returncode == 1 and 'No space left on device' in done.stderr and link.is_symlink()
