# SPDX-License-Identifier: Apache-2.0
"""Certificates made by openssl, and clients that look at which one they are shown."""
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


# The pairs of this run, by what they are for, as bytes. In each folder the same ones serve in turn: no two in it are the same.
_made, _used = collections.defaultdict(list), collections.Counter()
# Those of other runs with the same programs are good for half a day.
CACHE, FRESH_S = BIN.resolve().parent / 'certificates', 12 * 3600


def _kept(what):
    """Where the (certificate, key) made for WHAT is kept."""
    return CACHE / (hashlib.sha256(repr(what).encode()).hexdigest()[:32] + '.pem')


def _recall(what):
    """(certificate, key); None: there is none, or only an old one."""
    try:
        path = _kept(what)
        if time.time() - path.stat().st_mtime < FRESH_S:
            cert, _, key = path.read_bytes().partition(b'----\n\n')
            return cert + b'----\n', key
    except OSError:
        pass
    return None


def _keep(what, cert, key):
    """For other runs, where the programs lie in a build of theirs."""
    if (CACHE.parent / 'CMakeCache.txt').exists():
        CACHE.mkdir(mode=0o700, exist_ok=True)
        part = _kept(what).with_suffix('.%d' % os.getpid())
        part.write_bytes(cert + b'\n' + key)
        part.replace(_kept(what))


def make_once(cert, key, what, make):
    """The files CERT and KEY, as make() writes them, or wrote them for the same WHAT."""
    found = _recall(what)
    if found is None:
        make()
        _keep(what, cert.read_bytes(), key.read_bytes())
    else:
        cert.write_bytes(found[0])
        key.touch(0o600)
        key.write_bytes(found[1])


class Pair:
    """A certificate and its key, self-signed: `names` are its DNS names, the first also the common name."""

    def __init__(self, folder, name, names, kind='ec', more=()):
        self.cert, self.key, self.names = folder / (name + '.pem'), folder / (name + '-key.pem'), names
        what = (kind, *names, '', *map(str, more))
        made, number = _made[what], _used[folder, what]
        _used[folder, what] += 1
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
        """As other's files, with their names."""
        other.cert.write_bytes(self.cert.read_bytes())
        other.key.write_bytes(self.key.read_bytes())


def blind_context(version=None, **options):
    """A client that takes any certificate: what it is shown is the test's to judge."""
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
    """The fingerprint of the certificate that a client of this server name (None: it sends none) is shown."""
    with dial(address, name, context) as s:
        return hashlib.sha256(s.getpeercert(True)).hexdigest()


def refused(address, name=None, context=None):
    """Whether the handshake fails."""
    try:
        dial(address, name, context).close()
    except (ssl.SSLError, ConnectionError, socket.timeout):
        return True
    return False


class Authority:
    """A certificate authority of its own, and what it signs."""

    def __init__(self, folder, name='authority'):
        self.folder, self.name = folder, name
        self.cert, self.key = folder / (name + '.pem'), folder / (name + '-key.pem')
        make_once(self.cert, self.key, ('authority', name), lambda: openssl(
            'req', '-x509', *key_options('ec'), '-nodes', '-keyout', self.key, '-out', self.cert, '-days', '2',
            '-subj', '/CN=' + name, '-addext', 'basicConstraints=critical,CA:TRUE',
            '-addext', 'keyUsage=critical,keyCertSign,cRLSign'))

    def sign(self, name, alternatives=(), days=2, usage='serverAuth'):
        """A Signed for e.g. ['DNS:a.example', 'IP:127.0.0.1']; of -1 days it is over already."""
        out = Signed(self.folder / (name + '.pem'), self.folder / (name + '-key.pem'))
        make_once(out.cert, out.key, (self.cert.read_bytes(), name, *alternatives, days, usage),
                  lambda: self._sign(out, name, alternatives, days, usage))
        return out

    def _sign(self, out, name, alternatives, days, usage):
        request, extensions = self.folder / (name + '.csr'), self.folder / (name + '.ext')
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
