# SPDX-License-Identifier: Apache-2.0
"""A pool counter daemon, of this project or the original one, on a listening socket that the test opens; and its clients."""
import json
import os
import re
import select
import signal
import socket
import subprocess

from support.base import BIN, LIMIT, Process, wait_until
from support.http import get

OURS = BIN / 'resumelb-poolcounter'
ORIGINAL = '/usr/bin/poolcounterd'

# In the order of STATS FULL.
TIMES = ['total processing time', 'average processing time', 'gained time', 'waiting time', 'waiting time for me',
         'waiting time for anyone', 'waiting time for good', 'wasted timeout time']
COUNTERS = ['total_acquired', 'total_releases', 'hashtable_entries', 'processing_workers', 'waiting_workers',
            'connect_errors', 'failed_sends', 'full_queues', 'lock_mismatch', 'lock_while_waiting',
            'release_mismatch', 'processed_count']


class DaemonProcess(Process):
    """Like Process, with a given standard input."""

    def __init__(self, argv, name, directory, stdin, env=None):
        self.name = name
        self.log_path = directory / (name + '.log')
        self.log = open(self.log_path, 'ab')
        full = dict(os.environ)
        full.update(env or {})
        self.popen = subprocess.Popen([str(a) for a in argv], stdin=stdin, stdout=self.log, stderr=self.log,
                                      env=full, start_new_session=True)


class Stream:
    """One connection that is read line by line."""

    def __init__(self, sock):
        self.sock = sock
        self.sock.settimeout(LIMIT)
        self.rest = b''

    def send(self, text):
        self.sock.sendall(text if isinstance(text, bytes) else text.encode())

    def line(self):
        """The next line without its newline; '' at the end of the stream."""
        while b'\n' not in self.rest:
            data = self.sock.recv(65536)
            if not data:
                assert self.rest == b'', self.rest
                return ''
            self.rest += data
        line, _, self.rest = self.rest.partition(b'\n')
        return line.decode('latin-1')

    def ask(self, text):
        self.send(text + '\n')
        return self.line()

    def ask_or_none(self, text):
        """Sends TEXT and returns the response, or None if the connection was closed."""
        try:
            return self.ask(text) or None
        except OSError:
            return None

    def block(self):
        """The lines up to an empty one."""
        lines = []
        while True:
            line = self.line()
            if not line:
                return lines
            lines.append(line)

    def ended(self):
        """Waits for the peer to close the connection. Returns whether it did."""
        try:
            return self.sock.recv(65536) == b''
        except ConnectionResetError:
            return True

    def is_silent(self):
        return not self.rest and not select.select([self.sock], [], [], 0)[0]

    def close(self):
        self.sock.close()

    def reset(self):
        """Closes the connection with a reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
        self.sock.close()


class Daemon:
    """A daemon that listens on the inherited descriptor 0, or opens its own socket if ARGS has an address."""

    def __init__(self, world, name='pool', binary=OURS, config=None, args=(), own_socket=True, env=None):
        self.world, self.name = world, name
        self.streams = []
        self.address = None
        argv = [binary, *args]
        if config is not None:
            self.config_path = world.directory / (name + '.yaml')
            self.configure(config)
            argv += ['-c', self.config_path]
        listener = None
        if own_socket:
            listener = socket.socket()
            listener.bind(('127.0.0.1', 0))
            listener.listen(4096)
            self.address = listener.getsockname()
        self.process = DaemonProcess(argv, name, world.directory, listener or subprocess.DEVNULL, env)
        world.processes.append(self.process)
        world.closers.append(self.close)
        if listener:
            listener.close()

    def configure(self, config):
        # JSON is a subset of YAML.
        self.config_path.write_text(config if isinstance(config, str) else json.dumps(config))

    def reload(self, config):
        before = self.process.output().count('config-reloaded') + self.process.output().count('config-reload-failed')
        self.configure(config)
        self.process.kill(signal.SIGHUP)
        wait_until(lambda: self.process.output().count('config-reloaded') +
                   self.process.output().count('config-reload-failed') > before, 'the configuration to be read')

    def connect(self, address=None):
        where = address or self.address
        if isinstance(where, str):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(where)
        else:
            sock = socket.create_connection(where, timeout=LIMIT)
        stream = Stream(sock)
        self.streams.append(stream)
        return stream

    def ask(self, line):
        """Sends the request on a new connection."""
        c = self.connect()
        response = c.ask(line)
        c.close()
        return response

    def full(self):
        c = self.connect()
        c.send('STATS FULL\n')
        lines = c.block()
        c.close()
        return lines

    def counters(self):
        return {k: int(v) for k, v in (line.split(': ') for line in self.full()) if k in COUNTERS}

    def times(self):
        """{name: value in seconds} of the times, which must be below one minute."""
        return {k: float(v.rstrip('s')) for k, v in (line.split(': ') for line in self.full()) if k in TIMES}

    def uptime(self):
        """The uptime in seconds, which must be below one hour."""
        minutes, seconds = re.fullmatch(r'uptime: 0 days, 0h (\d+)m (\d+)s', self.ask('STATS uptime')).groups()
        return 60 * int(minutes) + int(seconds)

    def wait_for(self, **figures):
        """Waits until the counters have the given values."""
        def same():
            now = self.counters()
            return all(now[k] == v for k, v in figures.items())
        wait_until(same, '%s in %s' % (figures, self.full()))

    def holders(self, *lines):
        """Returns a client for each of LINES, after each has received LOCKED."""
        out = []
        for line in lines:
            c = self.connect()
            assert c.ask(line) == 'LOCKED'
            out.append(c)
        return out

    def waiter(self, line):
        """Returns a client that has sent LINE, after its request has entered a queue of the daemon."""
        before = self.counters()['waiting_workers']
        c = self.connect()
        c.send(line + '\n')
        self.wait_for(waiting_workers=before + 1)
        return c

    def close(self):
        for s in self.streams:
            s.close()


def page(port, path):
    def listens():
        with socket.socket() as s:
            return s.connect_ex(('127.0.0.1', port)) == 0
    wait_until(listens, 'the admin address')
    return get(('127.0.0.1', port), path, host='127.0.0.1:%d' % port)


def status(port):
    return json.loads(page(port, '/status.json').body)


def alive(pid):
    """Returns true if the process exists and is not a zombie."""
    try:
        with open('/proc/%d/stat' % pid) as f:
            return f.read().rpartition(')')[2].split()[0] != 'Z'
    except OSError:
        return False
