# SPDX-License-Identifier: Apache-2.0
"""Workers with TLS."""
import ssl

from support.base import free_port, wait_until
from support.certificates import Authority, dial
from support.scripted import serve
from support.servers import Gunicorn

NAME = 'worker.example'


class Pki:
    """A CA, and the certificate of a worker for NAME and 127.0.0.1."""

    def __init__(self, directory):
        self.authority = Authority(directory)
        self.ca = str(self.authority.cert)
        self.worker = self.authority.sign('worker', ['DNS:' + NAME, 'IP:127.0.0.1'])


class TlsGunicorn(Gunicorn):
    def __init__(self, world, name, signed, extra=(), **kw):
        super().__init__(world, name, extra=['--certfile', str(signed.cert), '--keyfile', str(signed.key), *extra], **kw)

    def up(self):
        assert self.process.alive(), self.process.output()[-3000:]
        try:
            dial(self.address, NAME).close()
        except OSError:
            return False
        return True


class Nginx:
    """An nginx that responds to requests itself over TLS. `location`: the directives of its only location."""

    def __init__(self, world, signed, location='return 200 "nginx\\n";', server='', name='nginx'):
        self.port = free_port()
        self.address = '127.0.0.1:%d' % self.port
        self.directory = world.directory / name
        self.directory.mkdir()
        (self.directory / 'nginx.conf').write_text('''
daemon off; master_process off; pid %(directory)s/pid; error_log stderr warn;
events { worker_connections 256; }
http {
    access_log off; client_body_temp_path %(directory)s/body; proxy_temp_path %(directory)s/proxy;
    fastcgi_temp_path %(directory)s/f; uwsgi_temp_path %(directory)s/u; scgi_temp_path %(directory)s/s;
    keepalive_requests 100000; client_max_body_size 0;
    server {
        listen %(address)s ssl; ssl_certificate %(cert)s; ssl_certificate_key %(key)s; %(server)s
        location / { %(location)s }
    }
}
''' % {'directory': self.directory, 'address': self.address, 'cert': signed.cert, 'key': signed.key, 'server': server,
            'location': location})
        self.process = world.process(['/usr/sbin/nginx', '-p', self.directory, '-c', self.directory / 'nginx.conf'], name)
        wait_until(self.up, name)

    def up(self):
        assert self.process.alive(), self.process.output()[-3000:]
        try:
            dial(self.address, NAME).close()
        except OSError:
            return False
        return True


def tls_script(context, script, seen=None):
    """Returns a script that runs SCRIPT after a TLS handshake, if that succeeds."""
    def run(c):
        try:
            c.sock = context.wrap_socket(c.sock, server_side=True)
        except (ssl.SSLError, OSError):
            return
        if seen is not None:
            seen.append(c)
        script(c)
    return run


def tls_server(world, signed, response=None, version=None, seen=None, context=None):
    def named(c, head, body):
        c.respond(b'scripted')
    context = context or signed.server_context(version)
    return world.scripted(tls_script(context, serve(response or named), seen))


def balancer(world, *workers, **config):
    return world.resumelb({'workers': list(workers), 'pool': {'policy': 'classless'}, **config})


def stats(lb):
    return lb.app()['stats']


def reasons(lb):
    """The reasons of failures in the log."""
    out = []
    for line in lb.process.output().splitlines():
        if ' worker-tls-failed ' in line and ' folded=' not in line:
            out.append(line.split('reason="', 1)[1].rsplit('"', 1)[0])
    return out


