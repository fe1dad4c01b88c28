# SPDX-License-Identifier: Apache-2.0
"""The proxies that are measured, and the worker behind them: started on free ports, ended by process id."""
import os
import pathlib
import signal
import socket
import string
import subprocess
import time

from processes import cpu_ns, family, free_port

HERE = pathlib.Path(__file__).resolve().parent
START_S = 20
FILES = {'1k': 1024, '64k': 64 * 1024, '1m': 1024 * 1024}
CONFIGS = {'nginx': 'nginx.conf', 'haproxy': 'haproxy.cfg', 'h2o': 'h2o.conf', 'resumelb': 'resumelb.yaml', 'origin': 'origin.conf'}
COMMANDS = {
    'nginx': lambda program, conf: [program, '-c', conf],
    'haproxy': lambda program, conf: [program, '-db', '-f', conf],
    'h2o': lambda program, conf: [program, '-m', 'worker', '-c', conf],
    'resumelb': lambda program, conf: [program, '-c', conf],
    'origin': lambda program, conf: [program, '-c', conf],
}
VERSION_FLAGS = {'nginx': '-v', 'haproxy': '-v', 'h2o': '-v', 'resumelb': '--version'}


def cores(one):
    """The cores of load and worker, and of the proxy."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[-1] if one else allowed[0], allowed[-1]


def make_files(directory):
    """Makes the files that the worker serves, and the certificate."""
    (directory / 'files').mkdir()
    for name, size in FILES.items():
        (directory / 'files' / name).write_bytes(bytes(ord('a') + i * i % 26 for i in range(size)))
    (directory / 'files/post').write_bytes(b'')     # nginx rejects a POST to a file; origin.conf sets the response
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '30', '-subj', '/CN=localhost',
                    '-keyout', 'key.pem', '-out', 'cert.pem'], cwd=directory, check=True, stderr=subprocess.DEVNULL)
    (directory / 'both.pem').write_text((directory / 'cert.pem').read_text() + (directory / 'key.pem').read_text())
    return [directory / 'files' / name for name in FILES]


class Program:
    """One program with its configuration, in a directory of its own below DIRECTORY, bound to CORE."""

    def __init__(self, name, kind, program, directory, core, **ports):
        self.name = name
        mine = directory / name
        mine.mkdir()
        for shared in ('cert.pem', 'key.pem', 'both.pem', 'files'):
            (mine / shared).symlink_to(directory / shared)
        conf = mine / CONFIGS[kind]
        as_root = {'nginx': 'user root;', 'origin': 'user root;', 'h2o': 'user: root'}.get(kind, '') if os.geteuid() == 0 else ''
        conf.write_text(string.Template((HERE / CONFIGS[kind]).read_text()).substitute(directory=mine, as_root=as_root, **ports))
        with open(mine / 'output', 'wb') as out:
            self.process = subprocess.Popen(['taskset', '-c', str(core), *COMMANDS[kind](program, str(conf))], stdout=out,
                                            stderr=out)
        try:
            self.await_port(ports.get('plain', ports['worker']))
        except BaseException:
            self.close()
            raise

    def await_port(self, port):
        until = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(('127.0.0.1', port)).close()
                return
            except ConnectionRefusedError:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise SystemExit('peers: %s does not start' % self.name)
                time.sleep(0.02)

    def cpu_ns(self):
        return cpu_ns(self.process.pid)

    def anonymous_bytes(self):
        """Anonymous memory of all its processes."""
        kib = 0
        for p in family(self.process.pid):
            status = pathlib.Path('/proc/%d/status' % p).read_text()
            kib += int(status.partition('RssAnon:')[2].split()[0])
        return kib * 1024

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(START_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class Origin(Program):
    """The worker: nginx."""

    def __init__(self, directory, core):
        self.port = free_port()
        super().__init__('worker', 'origin', '/usr/sbin/nginx', directory, core, worker=self.port)


class Subject(Program):
    def __init__(self, name, kind, program, directory, worker, core):
        self.plain, self.tls = free_port(), free_port()
        self.url, self.tls_url = 'http://127.0.0.1:%d' % self.plain, 'https://127.0.0.1:%d' % self.tls
        said = subprocess.run([program, VERSION_FLAGS[kind]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        self.version = (said.strip().splitlines() or ['unknown'])[0]
        self.again = (kind, program, directory, worker, core)
        super().__init__(name, kind, program, directory, core, plain=self.plain, tls=self.tls, worker=worker)

    def fresh(self):
        """A new instance of the same subject that has served no request yet."""
        return Subject(self.name + '.fresh.%d' % time.monotonic_ns(), *self.again)
