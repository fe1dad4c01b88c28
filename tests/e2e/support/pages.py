# SPDX-License-Identifier: Apache-2.0
"""
Executes the instructions of documentation pages: writes files, starts programs, runs commands, and compares their output.

A comment before a fenced block defines its kind, some with a detail:

    <!-- file: NAME -->       the text of a file; NAME is absolute or below the directory of the page
    <!-- append: NAME -->     text to append to a file of an earlier block
    <!-- start -->            `$ ` lines are programs that run in the foreground, each in its own terminal
    <!-- run -->              `$ ` lines are run once and must exit with 0; the lines after each must occur in its output, in
                              order; `...` matches any text within a line
    <!-- until -->            like run, repeated until the output matches
    <!-- start: MACHINE -->   and likewise run and until: only there; the page's test defines the machines
    <!-- make -->             `make` commands, which have their own test
    <!-- not run: REASON -->  not executed

A page is isolated from the machine: ports and absolute paths are replaced. test_tutorial.py executes a page as it is.
"""
import os
import pathlib
import re
import subprocess
import time

from .base import BIN, LIMIT, ROOT, free_ports, wait_until

FENCE = re.compile(r'^(?:<!-- (?P<mark>[^\n]*?) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$', re.M | re.S)
MARKS = ('start', 'run', 'until', 'make')
ADDRESS = re.compile(r'\b(?:127\.0\.0\.1|0\.0\.0\.0|localhost):(\d{4,5})\b')
DEV = re.compile(r'(?<![\w./-])dev/')
PATHS = re.compile(r'(?<![\w./-])/(?:var/lib|var/log|run|srv|etc)(?=/)')


class Block:
    def __init__(self, page, match):
        self.mark, self.language, self.text = match['mark'], match['language'], match['text']
        self.kind, _, self.detail = (self.mark or '').partition(': ')
        self.where = '%s:%d' % (page, match.string.count('\n', 0, match.start('text')))
        heading = match.string.rfind('\n## ', 0, match.start())
        self.section = match.string[heading + 4:].split('\n')[0] if heading >= 0 else None

    @property
    def known(self):
        return self.kind in MARKS or (self.kind in ('file', 'append', 'not run') and self.detail != '')

    def commands(self):
        """[(command, [expected line of its output])]"""
        found = []
        for line in self.text.replace('\\\n', ' ').split('\n'):
            if line.startswith('$ '):
                found.append((line[2:], []))
            elif line.strip():
                assert found, '%s: %r comes before any command' % (self.where, line)
                found[-1][1].append(line)
        assert found, '%s: no command' % self.where
        return found


def blocks(page):
    return [Block(page, m) for m in FENCE.finditer((ROOT / page).read_text())]


def missing(expected, printed):
    """The first of the EXPECTED lines that PRINTED does not have, in order. None if it has all."""
    lines = iter(printed.split('\n'))
    for want in expected:
        pattern = re.compile(r'\s+'.join('.*'.join(map(re.escape, w.split('...'))) for w in want.split()))
        if not any(pattern.search(line) for line in lines):
            return want
    return None


class Page:
    """One page, which is executed from start to end in the directory of WORLD."""

    def __init__(self, world, page):
        self.world, self.directory, self.blocks = world, pathlib.Path(world.directory), blocks(page)
        self.started = []
        self.ports = {}
        bases = {}
        for block in self.blocks:
            for port in map(int, ADDRESS.findall(block.text)):
                # Ports with the same tens stay adjacent, as required for the slots of an agent.
                base = bases.setdefault(port // 10, None) or free_ports(10)
                bases[port // 10] = base
                self.ports[str(port)] = str(base + port % 10)
        self.env = {**os.environ, 'PATH': '%s:/usr/bin:/bin' % BIN, 'NO_PROXY': '*', 'PYTHONDONTWRITEBYTECODE': '1'}

    def here(self, text):
        """Adapts TEXT to the ports and paths of this run."""
        text = PATHS.sub(lambda m: str(self.directory) + m[0], text).replace('build/bin/', '%s/' % BIN)
        text = text.replace('0.0.0.0:', '127.0.0.1:')
        if self.ports:
            text = re.sub(r'\b(%s)\b' % '|'.join(self.ports), lambda m: self.ports[m[1]], text)
        return text

    def argv(self, command, machine):
        """The program that executes COMMAND."""
        return ['/bin/bash', '-c', self.here(DEV.sub('%s/dev/' % ROOT, command))]

    def shell(self, command, machine=''):
        done = subprocess.run(self.argv(command, machine), cwd=self.directory, env=self.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT)
        return done.returncode, done.stdout

    def write(self, name, text):
        path = self.directory / self.here(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.here(text))

    def append(self, name, text):
        path = self.directory / self.here(name)
        path.write_text(path.read_text() + self.here(text))

    def write_block(self, block):
        """Writes BLOCK if it is the text of a file or an addition to it. Returns whether it is."""
        if block.kind == 'file':
            self.write(block.detail, block.text)
        elif block.kind == 'append':
            self.append(block.detail, block.text)
        return block.kind in ('file', 'append')

    def start(self, block, command, _):
        argv = self.argv('exec ' + command, block.detail)
        self.started.append(self.world.process(argv, 'started%d' % len(self.started), env=self.env, cwd=self.directory))

    def run(self, block, command, expected):
        code, printed = self.shell(command, block.detail)
        assert code == 0, (block.where, command, code, printed, self.logs())
        assert missing(list(map(self.here, expected)), printed) is None, (block.where, command, printed)

    def until(self, block, command, expected):
        last = []

        def holds():
            self.check_alive()
            if last:
                time.sleep(0.2)     # a command is more expensive than most conditions, and takes processor time from the tested programs
            last[:] = self.shell(command, block.detail)
            return last[0] == 0 and missing(list(map(self.here, expected)), last[1]) is None
        try:
            wait_until(holds, '%s: %s' % (block.where, command))
        except AssertionError as e:
            raise AssertionError('%s\n%s\n%s' % (e, last, self.logs()))

    def executes(self, block):
        return block.kind in ('start', 'run', 'until')

    def check_alive(self):
        for p in self.started:
            assert p.alive(), (p.name, p.output()[-3000:])

    def logs(self):
        return '\n'.join('%s: %s' % (p.name, p.output()[-2000:]) for p in self.started)

    def do(self):
        """Executes the page. Returns the number of commands run."""
        count = 0
        for block in self.blocks:
            if not self.write_block(block) and self.executes(block):
                for command, expected in block.commands():
                    count += 1
                    getattr(self, block.kind)(block, command, expected)
        self.check_alive()
        return count
