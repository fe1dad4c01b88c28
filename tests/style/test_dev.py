# SPDX-License-Identifier: Apache-2.0
"""For developers: the hook that checks commit messages, the comparison of versions, and templates."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def hook(tmp_path, message):
    """What the hook has printed: nothing for a message that it accepts."""
    file = tmp_path / 'message'
    file.write_text(message)
    done = subprocess.run([ROOT / 'dev/hooks/commit-msg', file], capture_output=True, text=True)
    assert done.returncode == (1 if done.stderr else 0), done
    return done.stderr


@pytest.mark.parametrize('message', [
    'net: close the socket at a reset\n',
    'lb, agent: send the Host of health checks\n\nA body.\n',
    'worker-agent/pool: count a process once\n',
    'net: fix use after free at a close\n\nA crash.\n\nFixes: a crash at a close of the peer\nRisk: low\n',
    '# a comment\nnet: close the socket at a reset\n# a comment that is longer than a subject may be: fix, fixed, and so on and so on\n',
    'Merge branch \'x\' of somewhere with a name that is longer than all that a subject may have\n',
    'fixup! net: fix a thing\n',
    'net: ' + 'ä' * 67 + '\n',
    'net: prefix the names of peers\n',
    'net: close it\n# ------------------------ >8 ------------------------\nnet: fixed\n',
])
def test_the_hook_accepts_a_message_by_the_rules(tmp_path, message):
    assert hook(tmp_path, message) == ''


@pytest.mark.parametrize('message, problem', [
    ('net: ' + 'a' * 68 + '\n', 'has 73 characters'),
    ('close the socket\n', "'area: imperative'"),
    ('Net: close the socket\n', "'area: imperative'"),
    ('net: close the socket.\n', "'area: imperative'"),
    ('net:close the socket\n', "'area: imperative'"),
    ('net: fixes the socket\n\nFixes: it\n', 'not an imperative'),
    ('net: added a socket\n', 'not an imperative'),
    ('net: fix the socket\n', "'Fixes: WHAT'"),
    ('net: correct the size of a window\n\nFixes:\n', "'Fixes: WHAT'"),
    ('net: fix the socket\n# Fixes: a comment\n', "'Fixes: WHAT'"),
])
def test_the_hook_rejects_a_message_and_names_the_rule(tmp_path, message, problem):
    assert problem in hook(tmp_path, message)


def test_git_rejects_a_commit_by_the_hook(tmp_path):
    def git(*words):
        return subprocess.run(['git', '-C', tmp_path, '-c', 'user.name=a', '-c', 'user.email=a@example', *words], capture_output=True,
                              text=True)

    assert git('init', '-q').returncode == 0
    hooks = '-c', 'core.hooksPath=%s' % (tmp_path / 'hooks')
    (tmp_path / 'hooks').mkdir()
    (tmp_path / 'hooks' / 'commit-msg').symlink_to(ROOT / 'dev/hooks/commit-msg')
    rejected = git(*hooks, 'commit', '--allow-empty', '-m', 'base: fix it')
    assert rejected.returncode != 0 and 'Fixes: WHAT' in rejected.stderr
    assert git(*hooks, 'commit', '--allow-empty', '-m', 'base: fix it', '-m', 'Fixes: a crash').returncode == 0
    assert git('log', '--format=%s').stdout == 'base: fix it\n'


def versions(tmp_path, cmake=('1.2.3', '2026-02-03'), debian=('1.2.3', '03 Feb 2026'), changelog='1.2.3 (2026-02-03)'):
    """The exit status of check-version in a tree with these versions."""
    (tmp_path / 'debian').mkdir()
    (tmp_path / 'CMakeLists.txt').write_text('project(resumelb VERSION %s LANGUAGES C)\nset(RLB_RELEASE_DATE %s)\n' % cmake)
    (tmp_path / 'debian' / 'changelog').write_text(
        'resumelb (%s) unstable; urgency=medium\n\n  * A change.\n\n -- a <a@example>  Tue, %s 00:00:00 +0000\n' % debian)
    (tmp_path / 'CHANGELOG.md').write_text('# Changes\n\n## %s\n\n## 0.1.0 (2026-01-01)\n' % changelog)
    return subprocess.run([ROOT / 'dev/check-version', tmp_path], capture_output=True).returncode


def test_check_version_accepts_the_same_version_and_date_in_all_places(tmp_path):
    assert versions(tmp_path) == 0


def test_check_version_accepts_a_first_section_of_changes_that_are_not_released(tmp_path):
    assert versions(tmp_path, changelog='Unreleased\n\nA change.\n\n## 1.2.3 (2026-02-03)') == 0


@pytest.mark.parametrize('places', [{'cmake': ('1.2.4', '2026-02-03')}, {'cmake': ('1.2.3', '2026-02-04')},
                                    {'debian': ('1.2.4', '03 Feb 2026')}, {'debian': ('1.2.3', '04 Feb 2026')},
                                    {'changelog': '1.2.4 (2026-02-03)'}, {'changelog': '1.2.3 (2026-02-04)'},
                                    {'changelog': '1.2.3'}, {'changelog': 'Next'}, {'changelog': 'Unreleased'},
                                    {'changelog': 'Unreleased\n\n## 1.2.4 (2026-02-03)'},
                                    {'changelog': 'Unreleased\n\n## Unreleased\n\n## 1.2.3 (2026-02-03)'},
                                    {'changelog': 'Unreleased changes\n\n## 1.2.3 (2026-02-03)'}])
def test_check_version_rejects_another_version_or_date_in_one_place(tmp_path, places):
    assert versions(tmp_path, **places) == 1


@pytest.mark.parametrize('one, other', [('.gitlab/issue_templates/Default.md', '.github/ISSUE_TEMPLATE.md'),
                                        ('.gitlab/merge_request_templates/Default.md', '.github/PULL_REQUEST_TEMPLATE.md')])
def test_the_templates_of_both_hosting_platforms_are_the_same(one, other):
    assert (ROOT / one).read_text() == (ROOT / other).read_text()


def test_make_deb_does_not_empty_a_directory_with_other_files(tmp_path):
    (tmp_path / 'log').write_text('mine')
    done = subprocess.run([ROOT / 'dev/make-deb', tmp_path], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr == 'make-deb: %s has other files: name a new or empty directory\n' % tmp_path
    assert (tmp_path / 'log').read_text() == 'mine'


def test_check_conf_expects_the_text_of_the_part_that_a_setting_is_in():
    loader = importlib.machinery.SourceFileLoader('check_conf', str(ROOT / 'dev/check-conf'))
    check = importlib.util.module_from_spec(importlib.util.spec_from_loader('check_conf', loader))
    loader.exec_module(check)
    known = {'listen': ['top'], 'limits': ['top'], 'key': ['tls', 'limit'], 'certificate': ['tls'], 'timeout': ['top', 'limit']}
    lines = ['listen:', '  - certificate: a', '    key: b', '#limits:', '  # A comment.', '  #key: c', '  #timeout: 1s', 'timeout: 1s']
    found = check.scopes(lines, known)
    assert [found[n] for n in (2, 3, 6, 7)] == [{'tls'}, {'tls'}, {'limit'}, {'limit'}]
    assert 'top' in found[8]
