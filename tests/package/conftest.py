# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from machine import ROOT, Machine, why_not  # noqa: E402

FENCE = re.compile(r'^```sh\n(.*?)^```$', re.M | re.S)


class Page:
    """docs/install.md: the commands of each heading, and which of them were run."""

    def __init__(self):
        parts = re.split(r'^#+ (.*)$', (ROOT / 'docs' / 'install.md').read_text(), flags=re.M)
        self.blocks = {name: FENCE.findall(text) for name, text in zip(parts[1::2], parts[2::2])}
        self.left = {(name, i) for name, blocks in self.blocks.items() for i in range(len(blocks))}

    def take(self, heading, i):
        self.left.discard((heading, i))
        return self.blocks[heading][i]

    def left_of(self, heading):
        return {block for block in self.left if block[0] == heading}


@pytest.fixture(scope='session')
def page():
    return Page()


@pytest.fixture
def machine():
    assert why_not() is None, why_not()
    m = Machine()
    yield m
    m.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Show the machine's journal with a failure."""
    outcome = yield
    report = outcome.get_result()
    m = getattr(item, 'funcargs', {}).get('machine')
    if report.failed and m is not None and report.when == 'call':
        report.sections.append(('journal', m.journal()))
