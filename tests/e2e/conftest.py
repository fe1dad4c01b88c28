# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from support import leftovers  # noqa: E402
from support.servers import World  # noqa: E402


def pytest_configure(config):
    leftovers.adopt_orphans()


@pytest.fixture(autouse=True)
def nothing_is_left_running():
    """Each test ends all that it has started. Before `world`, so that it looks after that has closed."""
    before = leftovers.below()
    yield
    survivors = leftovers.end(before)
    assert not survivors, 'processes that outlived the test:\n' + '\n'.join(survivors)


@pytest.fixture
def world(tmp_path):
    w = World(tmp_path)
    yield w
    w.close()


@pytest.fixture
def open_world():
    """A world that other users may enter, which pytest's own folders do not let them."""
    with tempfile.TemporaryDirectory(prefix='rlb-e2e-') as folder:
        os.chmod(folder, 0o777)
        w = World(pathlib.Path(folder))
        yield w
        w.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Show the logs of every process with a failure: most end-to-end failures explain themselves there."""
    outcome = yield
    report = outcome.get_result()
    w = getattr(item, 'funcargs', {}).get('world')
    if report.failed and isinstance(w, World):
        for p in w.processes:
            report.sections.append(('log of %s' % p.name, p.output()[-5000:]))
