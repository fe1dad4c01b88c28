# SPDX-License-Identifier: Apache-2.0
"""
docs/tutorial.md, executed as it is: its addresses, ports and paths are not replaced. The machines are network namespaces without
any other address, with a /tmp that has at most a clone.
"""
import os
import pathlib
import signal
import subprocess

import pytest

from support.base import BIN, ROOT
from support.pages import Page

PAGE = 'docs/tutorial.md'
USER = [] if os.geteuid() == 0 else ['--user']
# Programs of a clone that is in /tmp remain available.
PREPARE = '''
set -eu
mount --rbind /tmp /mnt
mount -t tmpfs tmpfs /tmp
for directory; do
    case $directory in /tmp/*) mkdir -p "$directory"; mount --rbind "/mnt/${directory#/tmp/}" "$directory";; esac
done
umount -l /mnt
'''
HOLD = '''
ip link set lo up
echo ready
exec sleep infinity
'''


class Machine:
    """A network namespace. FILES: the machine with the same /tmp; None: its own, which is empty."""

    def __init__(self, world, name, files=None):
        if files is None:
            argv = ['unshare', *USER, *(['--map-root-user'] if USER else []), '--mount', '--net', 'sh', '-c', PREPARE + HOLD, name, ROOT, BIN]
        else:
            argv = [*files.enter('--mount'), 'unshare', '--net', 'sh', '-euc', HOLD]
        self.process = world.process(argv, name)
        self.process.wait_logged('ready')

    def enter(self, *namespaces):
        return ['nsenter', '--target', str(self.process.pid), *(USER and [*USER, '--preserve-credentials']), *namespaces]

    def shell(self, command):
        return [*self.enter('--mount', '--net'), '/bin/bash', '-c', 'cd %s && %s' % (ROOT, command)]

    def run(self, command):
        done = subprocess.run(self.shell(command), capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def path(self, name):
        return pathlib.Path('/proc/%d/root%s' % (self.process.pid, name))


def connect(first, second):
    """A network of two machines, which have the addresses of the page."""
    first.run('ip link add net0 type veth peer name net0 netns %d' % second.process.pid)
    for number, machine in enumerate((first, second), 1):
        machine.run('ip addr add 10.0.0.%d/24 dev net0 && ip link set net0 up' % number)


class Literal(Page):
    """The page without any replacement. MACHINES: {detail of a block's mark: where it is executed}; '' for blocks without one."""

    def __init__(self, world, machines):
        super().__init__(world, PAGE)
        self.machines = machines
        self.env['PATH'] += ':/usr/sbin:/sbin'

    def here(self, text):
        return text

    def write(self, name, text):
        self.machines[''].path(name).write_text(text)

    def argv(self, command, machine):
        return self.machines[machine].shell(command)

    def executes(self, block):
        return super().executes(block) and block.detail in self.machines

    def end(self):
        """Ctrl-C in each terminal. Programs that read the tree end before it."""
        for p in reversed(self.started):
            p.kill(signal.SIGINT)
            p.wait()


@pytest.fixture
def machine(world):
    return Machine(world, 'first')


def test_the_tutorial_works_on_one_machine(world, machine):
    before = machine.run('ls /tmp')
    names = {b.detail for b in Literal(world, {}).blocks if b.kind in ('start', 'run', 'until')}
    assert names == {'', 'one machine', 'second machine'}
    page = Literal(world, dict.fromkeys(names, machine))
    assert page.do() > 30
    page.end()
    assert machine.run('rm -r /tmp/tutorial && ls /tmp') == before


def test_the_tutorial_works_on_two_machines(world, machine):
    second = Machine(world, 'second', machine)
    connect(machine, second)
    page = Literal(world, {'': machine, 'second machine': second})
    assert page.do() > 30
    assert 0 < len([b for b in page.blocks if b.detail == 'second machine'])
