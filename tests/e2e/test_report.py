# SPDX-License-Identifier: Apache-2.0
"""resumelbctl report: one file about a program that runs, or does not, without secrets."""
import itertools
import os
import stat

from agent_support import TinyAgent
from ctl_support import ctl
from poolcounter_support import Daemon
from support.base import free_port, wait_until
from support.scripted import hello, serve

SECRET = 'not-for-others'


def report(world, *words, code=0):
    """The report and what the command has printed. Only the owner may read the file."""
    file = world.directory / 'report.txt'
    response = ctl('report', '-o', file, *words, code=code)
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    return file.read_text(), response.out


def section(text, title):
    _, _, rest = text.partition('\n== %s\n' % title)
    if not rest:
        raise LookupError('no section %s in: %s' % (title, text))
    return rest.partition('\n== ')[0]


def test_a_report_on_a_load_balancer_has_version_configuration_status_and_events_but_no_secret(world):
    worker, later = world.scripted(serve(hello)), world.scripted(serve(hello))
    admin = {'address': '127.0.0.1:%d' % free_port(), 'token': SECRET, 'actions_token': SECRET}
    lb = world.resumelb({'workers': [worker.address], 'admin': admin, 'description': SECRET, 'history': 7,
                         'headers': {'request': {'set': {'X-Api-Key': SECRET}, 'add': {'X-More': SECRET}}},
                         'health_check_path': '/ok?key=' + SECRET}, wait=False)
    token = world.directory / 'token'
    token.write_text(SECRET)
    words = ('-a', admin['address'], '-T', token, lb.path)
    lists = itertools.cycle([[worker.address, later.address], [worker.address]])

    def event():
        """Workers are compared once a second: which list each comparison sees does not matter."""
        lb.reload({'workers': next(lists)})
        return 'joined default ' + later.address in section(report(world, *words)[0], 'last events')

    wait_until(lambda: worker.address in section(report(world, *words)[0], 'status'), 'the worker')
    wait_until(event, 'the event')
    (world.directory / 'report.txt').chmod(0o644)
    text, printed = report(world, *words)
    assert SECRET not in text and SECRET not in printed
    version = ctl('--version').out.split()[1]
    assert 'resumelbctl %s\n' % version in text and 'Linux' in section(text, 'system')
    written = section(text, lb.path)
    assert worker.address in written and 'history: 7' in written and 'actions_token: ***' in written
    assert 'X-Api-Key: ***' in written and 'X-More: ***' in written and 'health_check_path: ***' in written
    status = section(text, 'status')
    assert status.startswith('resumelb %s, ' % version) and worker.address in status
    assert '  history = 7 (yaml)\n' in section(text, 'settings other than the default')
    assert printed == '%s: written; read it before you pass it on\n' % (world.directory / 'report.txt')


def test_a_report_on_an_agent_has_its_processes_but_not_their_command_environment_and_output(world):
    agent = TinyAgent(world, env={'PASSWORD': SECRET}, description=SECRET).wait_ready()
    text, _ = report(world, '-a', agent.admin, agent.path)
    assert SECRET not in text
    assert 'PASSWORD: ***' in section(text, agent.path)
    assert section(text, 'status').startswith('resumelb-agent ') and 'ready' in section(text, 'status')


def test_a_report_on_a_pool_counter_daemon_has_no_keys(world):
    address = '127.0.0.1:%d' % free_port()
    daemon = Daemon(world, config={'admin': {'address': address, 'token': SECRET}, 'types': {'page': {'workers': 1}}})
    token = world.directory / 'token'
    token.write_text(SECRET)
    words = ('-a', address, '-T', token, daemon.config_path)
    wait_until(lambda: '\nresumelb-poolcounter ' in report(world, *words)[0], 'the daemon')
    text, _ = report(world, *words)
    assert SECRET not in text and 'workers: 1' in section(text, daemon.config_path)


def test_a_report_without_a_running_program_states_that_and_has_the_configuration(world):
    config = world.directory / 'lb.yaml'
    config.write_text('listen: [{address: "127.0.0.1:1"}]\nadmin: {address: "127.0.0.1:2", token: %s}\n' % SECRET)
    address = '127.0.0.1:%d' % free_port()
    text, printed = report(world, '-a', address, config)
    assert SECRET not in text and 'token: ***' in section(text, config)
    assert section(text, 'status') == '%s: connection refused\n' % address
    assert 'without a status: no response from ' + address in printed


def test_a_report_on_an_invalid_or_absent_configuration_states_the_problem(world):
    config = world.directory / 'lb.yaml'
    config.write_text('token: %s\n  a: [\n' % SECRET)
    absent = world.directory / 'absent.yaml'
    text, _ = report(world, '-a', '127.0.0.1:%d' % free_port(), config, absent)
    assert SECRET not in text
    assert section(text, config).startswith('%s:2:' % config)
    assert 'not found' in section(text, absent)


def test_a_section_of_a_report_is_cut_at_256_kib(world):
    config = world.directory / 'lb.yaml'
    config.write_text('hosts:\n' + ''.join('  - host-%06d.example\n' % i for i in range(50000)))
    text, _ = report(world, '-a', '127.0.0.1:%d' % free_port(), config)
    assert 256 * 1024 < len(text) < 260 * 1024
    assert 'host-000000.example' in text and 'host-049999.example' not in text and ' bytes left out)\n' in text
    assert 'connection refused' in section(text, 'status')


def test_a_report_on_a_file_that_is_no_configuration_shows_nothing_of_it(world):
    other = world.directory / 'passwords'
    other.write_text('root:%s:19000:0:::\nlp:*:\n%s: 1\n' % (SECRET, SECRET))
    text, _ = report(world, '-a', '127.0.0.1:%d' % free_port(), other)
    assert SECRET not in text and section(text, other).count('***:') == 3


def test_a_report_written_to_a_device_or_a_symbolic_link_does_not_replace_it(world):
    target, link = world.directory / 'target', world.directory / 'link'
    link.symlink_to(target)
    address = '127.0.0.1:%d' % free_port()
    ctl('report', '-o', link, '-a', address)
    assert link.is_symlink() and '== status' in target.read_text()
    assert '== status' in ctl('report', '-o', '/dev/stdout', '-a', address).out
    assert os.path.islink('/dev/stdout')


def test_a_report_that_cannot_be_written_is_an_error(world):
    response = ctl('report', '-o', world.directory / 'absent' / 'report.txt', '-a', '127.0.0.1:%d' % free_port(), code=1)
    assert 'absent/report.txt: No such file or directory' in response.error and response.out == ''
