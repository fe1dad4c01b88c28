# SPDX-License-Identifier: Apache-2.0
"""
`make` as a newcomer meets it, in a copy of the project in a path with spaces: what is missing is named in one line that says what to
do, and what can work without it does. The PATH of each command has all programs of this machine but those that the test leaves out.
"""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import textwrap

import pytest
from rights_support import NOBODY, ORDINARY, ROOT as IS_ROOT
from support.base import LIMIT, ROOT, Process, free_ports, reap_all, wait_until
from support.http import get

ALL_INSTALLED = 'for p; do echo "ii $p"; done'
NOTHING_INSTALLED = 'exit 1'
# Words that make itself adds when a command fails.
OF_MAKE = re.compile(r'^make(\[\d+\])?: \*\*\* ')
BUILD_LIMIT = 10 * LIMIT


class Clone:
    """A copy of the project, and what its commands find on the machine."""

    def __init__(self, directory):
        self.place = pathlib.Path(directory)
        self.path = self.place / 'a clone'
        self.path.mkdir()
        files = subprocess.run(['git', '-C', ROOT, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                               capture_output=True, text=True, check=True).stdout
        for name in filter(None, files.split('\0')):
            if (ROOT / name).exists():
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.path / name, follow_symlinks=False)
        self.count = 0

    def replace(self, old, new):
        """Another path in dev/install-deps instead of one of this machine."""
        script = self.path / 'dev/install-deps'
        text = script.read_text()
        assert old in text
        script.write_text(text.replace(old, str(new)))

    def programs(self, *left_out, **scripts):
        """The PATH of a machine without the programs LEFT_OUT, and with SCRIPTS instead of the real programs of their names."""
        self.count += 1
        directory = self.place / ('bin%d' % self.count)
        directory.mkdir()
        for source in ('/usr/local/bin', '/usr/bin', '/bin', '/usr/sbin', '/sbin'):
            for file in pathlib.Path(source).iterdir():
                if not any(re.fullmatch(name, file.name) for name in left_out) and not (directory / file.name).is_symlink():
                    (directory / file.name).symlink_to(file)
        for name, text in scripts.items():
            file = directory / name.replace('_', '-')
            file.unlink(missing_ok=True)
            file.write_text('#!/bin/sh\n%s\n' % text)
            file.chmod(0o755)
        return str(directory)

    def run(self, command, path, user=True, **env):
        """(exit status, [line that is printed without make's own ones])"""
        done = subprocess.run([*(ORDINARY if user else ()), *command], cwd=self.path, stdin=subprocess.DEVNULL, text=True, timeout=BUILD_LIMIT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={'PATH': path, 'HOME': str(self.place), 'TMPDIR': str(self.place / 'tmp'), **env})
        return done.returncode, [line for line in done.stdout.splitlines() if not OF_MAKE.match(line)]


@pytest.fixture(scope='module')
def clone():
    with tempfile.TemporaryDirectory(prefix='rlb-first-minute-') as directory:
        os.chmod(directory, 0o755)
        made = Clone(directory)
        (made.place / 'tmp').mkdir()
        (made.place / 'tmp').chmod(0o777)
        made.replace('/usr/sbin/policy-rc.d', made.place / 'policy')
        shutil.copy('/etc/os-release', made.place / 'os-release')
        made.replace('/etc/os-release', made.place / 'os-release')
        yield made


@pytest.fixture
def writable(clone):
    """The clone belongs to the user that runs make."""
    if IS_ROOT:
        for p in (clone.place, clone.path):
            os.chown(p, NOBODY, NOBODY)
    yield clone
    if IS_ROOT:
        for p in (clone.place, clone.path):
            os.chown(p, 0, 0)


@pytest.mark.parametrize('sudo', ('not installed', 'not permitted'))
@pytest.mark.parametrize('target, named, not_named', (('run', 'cmake', 'cmocka|chromium|zookeeper '), ('test', 'libcmocka-dev', 'passenger')))
def test_without_packages_the_command_for_root_is_printed(writable, target, named, not_named, sudo):
    path = (writable.programs('sudo', dpkg_query=NOTHING_INSTALLED) if sudo == 'not installed' else
            writable.programs(dpkg_query=NOTHING_INSTALLED, sudo='echo "sudo: a password is required" >&2; exit 1'))
    status, lines = writable.run(['make', target], path)
    assert status != 0
    assert len(lines) == 1, lines
    command = 'install-deps: run as root: apt-get install -y --no-install-recommends '
    assert lines[0].startswith(command) and named in lines[0][len(command):].split(), lines
    assert not re.search(not_named, lines[0]), lines


@pytest.mark.parametrize('target, package', (('run', 'cmake'), ('test', 'cmake'), ('test', 'libcmocka-dev')))
def test_one_missing_package_is_the_only_one_named(writable, target, package):
    path = writable.programs('sudo', dpkg_query='for p; do [ "$p" = %s ] || echo "ii $p"; done' % package)
    status, lines = writable.run(['make', target], path)
    assert status != 0
    assert [line.rstrip() for line in lines] == ['install-deps: run as root: apt-get install -y --no-install-recommends ' + package]


@pytest.mark.parametrize('target', ('all', 'release'))
def test_a_build_without_cmake_names_the_script_that_installs_it(writable, target):
    status, lines = writable.run(['make', target], writable.programs('cmake'))
    assert status != 0
    assert lines == ['make: cmake not found: dev/install-deps installs it, and all else']


@pytest.mark.parametrize('target', ('all', 'run', 'test'))
def test_in_a_directory_that_cannot_be_written_a_copy_is_advised(clone, target):
    mode = clone.path.stat().st_mode
    clone.path.chmod(0o555)
    try:
        status, lines = clone.run(['make', target], clone.programs(dpkg_query=ALL_INSTALLED))
    finally:
        clone.path.chmod(mode)
    assert status != 0
    assert lines == ['make: cannot write to %s: copy it to a directory of your own, and build there' % clone.path]


def test_on_another_distribution_its_name_is_printed(writable):
    release = writable.place / 'os-release'
    before = release.read_text()
    release.write_text('PRETTY_NAME="Elsewhere 7"\nVERSION_CODENAME=seven\n')
    try:
        for target in ('run', 'test'):
            status, lines = writable.run(['make', target], writable.programs(dpkg_query=NOTHING_INSTALLED))
            assert status != 0
            assert lines == ['install-deps: needs Debian 12 or 13, this is Elsewhere 7: docs/install.md lists what to install elsewhere']
    finally:
        release.write_text(before)


def test_without_a_network_the_first_error_of_apt_is_printed(writable):
    apt = '''
        case "$*" in
            *update*) echo "W: Failed to fetch http://mirror.example/InRelease  Temporary failure resolving 'mirror.example'" >&2 ;;
            *) echo "E: Unable to locate package cmake" >&2; exit 100 ;;
        esac'''
    path = writable.programs(dpkg_query=NOTHING_INSTALLED, apt_get=textwrap.dedent(apt), sudo='exec "$@"')
    status, lines = writable.run(['make', 'run'], path)
    assert status != 0
    assert len(lines) == 2, lines
    assert lines[0] == 'install-deps: apt-get update'
    assert lines[1].startswith("install-deps: W: Failed to fetch http://mirror.example/InRelease  Temporary failure resolving 'mirror.example'; command: apt-get install ")
    assert not (writable.place / 'policy').exists()


def test_an_installation_shows_which_package_and_how_many(writable):
    status_lines = '''
        test -x %s || exit 1
        echo "0 upgraded, 20 newly installed, 0 to remove and 3 not upgraded."
        for n in $(seq 20); do echo "dlstatus:$n:$n.5:Retrieving file $n of 20"; done
        for n in $(seq 20); do echo "pmstatus:lib$n:amd64:$n.5:Unpacking lib$n (amd64)"; done
        for n in $(seq 20); do echo "pmstatus:lib$n:$n.5:Installed lib$n (amd64)"; done''' % (writable.place / 'policy')
    path = writable.programs(dpkg_query=NOTHING_INSTALLED, apt_get=textwrap.dedent(status_lines), sudo='exec "$@"')
    status, lines = writable.run(['dev/install-deps', 'run'], path)
    assert status == 0
    assert [line for line in lines if 'downloading' in line] == ['install-deps: downloading %d of 20' % n for n in (1, *range(2, 21, 2))]
    assert [line for line in lines if 'unpacking' in line] == ['install-deps: unpacking %d of 20: lib%d' % (n, n) for n in (1, *range(2, 21, 2))]
    assert lines[-1] == 'install-deps: configuring 20 of 20: lib20'
    assert not (writable.place / 'policy').exists()


@pytest.fixture(scope='module')
def built(clone):
    """The clone with all that is built without tests, on a machine without Python, cmocka and tools for manual pages."""
    clone.pkg_config = 'case "$LACKS $*" in cmocka\\ *cmocka*) exit 1;; esac; exec /usr/bin/pkg-config "$@"'
    path = clone.programs('python3.*', 'pytest.*', 'man', 'mandoc', 'groff', pkg_config=clone.pkg_config)
    for command in (['cmake', '--preset', 'run'], ['cmake', '--build', '--preset', 'dev', '-j2']):
        status, lines = clone.run(command, path, user=False, LACKS='cmocka')
        assert status == 0, '\n'.join(lines[-50:])
        assert not [line for line in lines if re.search('warning', line, re.I)], lines
    return clone


def test_without_tests_neither_python_nor_cmocka_is_needed(built):
    assert all((built.path / 'build/bin' / p).exists() for p in ('resumelb', 'resumelb-agent', 'resumelb-poolcounter', 'resumelbctl'))
    assert list((built.path / 'build/man').iterdir()) == []


def test_tests_are_added_to_a_build_without_compiling_it_again(built):
    path = built.programs(pkg_config=built.pkg_config)
    status, lines = built.run(['cmake', '--preset', 'dev'], path, user=False)
    assert status == 0, lines
    try:
        status, lines = built.run(['ninja', '-C', 'build', 'resumelb', 'resumelb-agent', 'resumelb-poolcounter', 'resumelbctl'], path, user=False)
        assert status == 0
        assert not [line for line in lines if 'Building' in line or 'Linking' in line], lines
        status, lines = built.run(['ninja', '-C', 'build', '-t', 'query', 'unit.base'], path, user=False)
        assert status == 0, lines
    finally:
        assert built.run(['cmake', '--preset', 'run'], path, user=False)[0] == 0


def test_the_example_runs_without_cmocka_and_beside_programs_that_have_its_ports(built):
    port = free_ports(4)
    env = {'PATH': built.programs(dpkg_query=ALL_INSTALLED, pkg_config=built.pkg_config), 'LACKS': 'cmocka', 'PORT': str(port), 'PROCESSES': '2',
           'NEWSPAPERS_DB': str(built.place / 'db.sqlite'), 'NEWSPAPERS_SITES': '4', 'NEWSPAPERS_OBJECTS': '60'}
    with socket.create_server(('127.0.0.1', port + 1)):
        run = Process(['make', 'run'], 'run', built.place, env=env, cwd=built.path)
        try:
            wait_until(lambda: 'Ctrl-C ends everything' in run.output() or not run.alive(), 'the start', BUILD_LIMIT)
            assert run.alive(), run.output()
            assert 'port %d or %d is taken: using %d and %d' % (port, port + 1, port + 2, port + 3) in run.output()
            assert get('127.0.0.1:%d' % (port + 2), '/', host='harbour-herald.localhost').status == 200
            os.killpg(run.pid, signal.SIGINT)
            run.wait()
            assert 'SIGINT: stopping' in run.output()
        finally:
            reap_all([run])


def test_a_build_without_a_type_is_optimized_and_configures_without_a_warning(clone):
    done = subprocess.run(['cmake', '-S', clone.path, '-B', clone.place / 'plain', '-DBUILD_TESTING=OFF'], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0 and done.stderr == '', done.stderr
    assert 'CMAKE_BUILD_TYPE:STRING=RelWithDebInfo' in (clone.place / 'plain/CMakeCache.txt').read_text()


def test_all_libraries_that_are_missing_are_named_at_once(clone):
    pkg_config = 'case "$*" in *yaml*|*pcre2*|*cmocka*) exit 1;; esac; exec /usr/bin/pkg-config "$@"'
    status, lines = clone.run(['cmake', '-S', '.', '-B', str(clone.place / 'less')], clone.programs(pkg_config=pkg_config), user=False)
    assert status != 0
    assert 'not found: yaml-0.1 libpcre2-8 cmocka; as root, `dev/install-deps` installs' in ' '.join(' '.join(lines).split())
