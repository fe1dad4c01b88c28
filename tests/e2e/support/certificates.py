# SPDX-License-Identifier: Apache-2.0
"""Certificates created with openssl, and clients that check which one a server sends."""
import collections
import hashlib
import os
import socket
import ssl
import subprocess
import time

from .base import BIN, LIMIT
from .http import connect


def openssl(*args, **kw):
    return subprocess.run(['openssl', *map(str, args)], check=True, capture_output=True, timeout=LIMIT, **kw)


def key_options(kind):
    return ['-newkey', 'rsa:2048'] if kind == 'rsa' else ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1']


# The pairs of this run as bytes, by their parameters. Each directory uses them in the same order, so that no two in it are equal.
_made, _used = collections.defaultdict(list), collections.Counter()
# Pairs of other runs with the same build are reused for half a day.
CACHE, FRESH_S = BIN.resolve().parent / 'certificates', 12 * 3600


def _kept(what):
    """The path of the cached certificate and key for WHAT."""
    return CACHE / (hashlib.sha256(repr(what).encode()).hexdigest()[:32] + '.pem')


def _recall(what):
    """The cached (certificate, key) for WHAT, or None if there is none or it is too old."""
    try:
        path = _kept(what)
        if time.time() - path.stat().st_mtime < FRESH_S:
            cert, _, key = path.read_bytes().partition(b'----\n\n')
            return cert + b'----\n', key
    except OSError:
        pass
    return None


def _keep(what, cert, key):
    """Caches a pair for other runs, if the programs are in a build directory."""
    if (CACHE.parent / 'CMakeCache.txt').exists():
        CACHE.mkdir(mode=0o700, exist_ok=True)
        part = _kept(what).with_suffix('.%d' % os.getpid())
        part.write_bytes(cert + b'\n' + key)
        part.replace(_kept(what))


def make_once(cert, key, what, make):
    """Writes the files CERT and KEY from the cache for WHAT, or else calls make() to create them."""
    found = _recall(what)
    if found is None:
        make()
        _keep(what, cert.read_bytes(), key.read_bytes())
    else:
        cert.write_bytes(found[0])
        key.touch(0o600)
        key.write_bytes(found[1])


class Pair:
    """A self-signed certificate and its key. `names`: its DNS names; the first one is also the common name."""

    def __init__(self, directory, name, names, kind='ec', more=()):
        self.cert, self.key, self.names = directory / (name + '.pem'), directory / (name + '-key.pem'), names
        what = (kind, *names, '', *map(str, more))
        made, number = _made[what], _used[directory, what]
        _used[directory, what] += 1
        if number == len(made):
            make_once(self.cert, self.key, (*what, number), lambda: self._make(kind, more))
            made.append((self.cert.read_bytes(), self.key.read_bytes()))
        else:
            cert, key = made[number]
            self.cert.write_bytes(cert)
            self.key.touch(0o600)
            self.key.write_bytes(key)

    def _make(self, kind, more):
        openssl('req', '-x509', *key_options(kind), '-nodes', '-keyout', self.key, '-out', self.cert, '-days', '2',
                '-subj', '/CN=' + self.names[0], '-addext', 'subjectAltName=' + ','.join('DNS:' + n for n in self.names), *more)

    @property
    def entry(self):
        return {'certificate': str(self.cert), 'key': str(self.key)}

    @property
    def fingerprint(self):
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(self.cert.read_text())).hexdigest()

    def copy_to(self, other):
        """Copies the certificate and the key to the files of OTHER."""
        other.cert.write_bytes(self.cert.read_bytes())
        other.key.write_bytes(self.key.read_bytes())


def blind_context(version=None, **options):
    """The context of a client that accepts any certificate, which the test checks itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if version is not None:
        context.minimum_version = context.maximum_version = version
    if 'ciphers' in options:
        context.set_ciphers(options['ciphers'])
    return context


def dial(address, name, context=None):
    raw = connect(address)
    try:
        return (context or blind_context()).wrap_socket(raw, server_hostname=name)
    except (OSError, ssl.SSLError):
        raw.close()
        raise


def shown(address, name, context=None):
    """The fingerprint of the certificate that the server sends to a client with this server name (None: without one)."""
    with dial(address, name, context) as s:
        return hashlib.sha256(s.getpeercert(True)).hexdigest()


def rejected(address, name=None, context=None):
    """Returns whether the handshake fails."""
    try:
        dial(address, name, context).close()
    except (ssl.SSLError, ConnectionError, socket.timeout):
        return True
    return False


class Authority:
    """A certificate authority, which signs certificates."""

    def __init__(self, directory, name='authority'):
        self.directory, self.name = directory, name
        self.cert, self.key = directory / (name + '.pem'), directory / (name + '-key.pem')
        make_once(self.cert, self.key, ('authority', name), lambda: openssl(
            'req', '-x509', *key_options('ec'), '-nodes', '-keyout', self.key, '-out', self.cert, '-days', '2',
            '-subj', '/CN=' + name, '-addext', 'basicConstraints=critical,CA:TRUE',
            '-addext', 'keyUsage=critical,keyCertSign,cRLSign'))

    def sign(self, name, alternatives=(), days=2, usage='serverAuth'):
        """A Signed with alternative names such as ['DNS:a.example', 'IP:127.0.0.1']. With DAYS 0 it expires within a second."""
        out = Signed(self.directory / (name + '.pem'), self.directory / (name + '-key.pem'))
        make_once(out.cert, out.key, (self.cert.read_bytes(), name, *alternatives, days, usage),
                  lambda: self._sign(out, name, alternatives, days, usage))
        return out

    def _sign(self, out, name, alternatives, days, usage):
        request, extensions = self.directory / (name + '.csr'), self.directory / (name + '.ext')
        openssl('req', *key_options('ec'), '-new', '-nodes', '-keyout', out.key, '-out', request, '-subj', '/CN=' + name)
        extensions.write_text('extendedKeyUsage=%s\n' % usage +
                              ('subjectAltName=%s\n' % ','.join(alternatives) if alternatives else ''))
        openssl('x509', '-req', '-in', request, '-CA', self.cert, '-CAkey', self.key, '-CAcreateserial', '-out', out.cert,
                '-days', days, '-extfile', extensions)


class Signed:
    def __init__(self, cert, key):
        self.cert, self.key = cert, key

    @property
    def entry(self):
        return {'certificate': str(self.cert), 'key': str(self.key)}

    def server_context(self, version=None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        if version is not None:
            context.minimum_version = context.maximum_version = version
        return context
