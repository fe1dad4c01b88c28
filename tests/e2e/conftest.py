# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import shutil
import stat
import sys
import tempfile
import threading

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
# Compiling imported modules takes a third of the start of a test file. The bytecode is cached in the build directory, not in the
# source tree.
BUILD = pathlib.Path(os.environ.get('RLB_BIN', HERE.parents[1] / 'build' / 'bin')).resolve().parent
if (BUILD / 'CMakeCache.txt').exists():
    sys.pycache_prefix, sys.dont_write_bytecode = str(BUILD / 'bytecode'), False
from support import leftovers  # noqa: E402
from support.base import BIN, raise_descriptor_limit  # noqa: E402
from support.servers import World  # noqa: E402

# glibc caches the stacks of ended threads for new ones, up to 40 MB, which are only five stacks of the default size.
threading.stack_size(512 << 10)
SOAK = int(os.environ.get('RLB_SOAK_ROUNDS', '1')) > 1
# Only the tests marked `soak`, in their short form: what `make test` leaves out.
ONLY_MARKED = bool(os.environ.get('RLB_ONLY_MARKED'))


def pytest_configure(config):
    config.addinivalue_line('markers', 'soak: a long form, or one of many combinations: run by `make soak` only')
    raise_descriptor_limit()
    leftovers.adopt_orphans()
    config.add_cleanup(leftovers.end_with_this_run())


def pytest_collection_modifyitems(config, items):
    """Selects tests by their mark `soak`; the last line of the run counts the others as deselected."""
    if SOAK:
        return
    others = [item for item in items if bool(item.get_closest_marker('soak')) != ONLY_MARKED]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def pytest_sessionfinish(session, exitstatus):
    """A file passes if all its tests are deselected, and fails if it cannot be imported."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.testsfailed == 0:
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture(autouse=True)
def nothing_is_left_running():
    """Checks that each test ends all processes that it has started. Set up before `world`, so that it runs after its teardown."""
    before = leftovers.below()
    yield
    survivors = leftovers.end(before)
    assert not survivors, 'processes that outlived the test:\n' + '\n'.join(survivors)


@pytest.fixture
def world(tmp_path):
    w = World(tmp_path)
    yield w
    w.close()


@pytest.fixture(scope='session')
def zookeeper_of_the_run(tmp_path_factory):
    """One ZooKeeper server for all tests of a run that do not disturb it: starting one takes longer than most tests."""
    from support.zookeeper import Shared    # imported here, as most files do not need it
    shared = Shared(tmp_path_factory.mktemp('zookeeper'))
    yield shared
    shared.stop()


@pytest.fixture
def zookeeper_server(zookeeper_of_the_run):
    """The shared server, empty. A test must not kill, stop or freeze it."""
    zookeeper_of_the_run.empty()
    return zookeeper_of_the_run.server


@pytest.fixture(scope='session')
def chromium():
    from support.browser import Browser
    b = Browser()
    yield b
    b.close()


@pytest.fixture
def browser(chromium):
    """An empty page of the one Chromium of the run."""
    yield chromium
    chromium.renew()


@pytest.fixture
def open_world():
    """A world with a directory and programs that other users may access, unlike those of pytest and of a private home directory."""
    with tempfile.TemporaryDirectory(prefix='rlb-e2e-') as directory:
        directory = pathlib.Path(directory)
        os.chmod(directory, 0o777)
        public = BIN.resolve()
        if not all(d.stat().st_mode & stat.S_IXOTH for d in (public, *public.parents)):
            public = shutil.copytree(public, directory / 'bin')
        w = World(directory, public)
        yield w
        w.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds the logs of all processes to the report of a failure, as these usually contain its cause."""
    outcome = yield
    report = outcome.get_result()
    w = getattr(item, 'funcargs', {}).get('world')
    if report.failed and isinstance(w, World):
        for p in w.processes:
            report.sections.append(('log of %s' % p.name, p.output()[-5000:]))
    if report.failed and 'zookeeper_server' in item.funcargs:
        report.sections.append(('log of the ZooKeeper', item.funcargs['zookeeper_server'].process.output()[-5000:]))
