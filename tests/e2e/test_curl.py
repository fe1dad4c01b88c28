# SPDX-License-Identifier: Apache-2.0
"""curl in its modes: each protocol that it speaks, over plain TCP and over TLS, with the uploads and downloads that its users make."""
import hashlib
import re
import subprocess

import pytest

from support.base import LIMIT, free_port
from support.certificates import Pair
from support.scripted import serve

FILE = bytes(range(256)) * 4096      # 1 MiB
# What curl calls it, what the connection has to turn out to be, and what is between.
PLAIN = {'1.0': ['--http1.0'], '1.1': ['--http1.1']}
TLS = {'1.0': ['--http1.0'], '1.1': ['--http1.1'], '2': ['--http2']}
MODES = [(version, options, None) for version, options in PLAIN.items()]
MODES += [(version, [*options, '--tlsv1.' + tls, '--tls-max', '1.' + tls], tls) for version, options in TLS.items() for tls in '23']
# With HTTP/1.0 and 1.1, one version of TLS each; all in the soak run.
LATER = (('1.0', '2'), ('1.1', '3'))


@pytest.fixture(scope='module', autouse=True)
def versions():
    print(subprocess.run(['curl', '--version'], capture_output=True, text=True, check=True, timeout=LIMIT).stdout.splitlines()[0])


def field(head, name):
    found = re.search(rb'^%s: *(.*?)\r?$' % name, head, re.I | re.M)
    return found and found[1].decode()


def worker(c, head, body):
    """A file with ranges for a GET; of what is sent, its length, digest and range."""
    if not head.startswith((b'GET', b'HEAD')):
        c.answer(('%d %s %s' % (len(body), hashlib.sha256(body).hexdigest(), field(head, b'content-range'))).encode())
        return
    part, status, more = FILE, '200 OK', []
    wanted = re.fullmatch(r'bytes=(\d*)-(\d*)', field(head, b'range') or '')
    if wanted:
        first = int(wanted[1]) if wanted[1] else len(FILE) - int(wanted[2])
        last = int(wanted[2]) if wanted[1] and wanted[2] else len(FILE) - 1
        part, status = FILE[first:last + 1], '206 Partial Content'
        more = [('Content-Range', 'bytes %d-%d/%d' % (first, last, len(FILE)))]
    if head.startswith(b'HEAD'):
        c.write(('HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n' % (status, len(part))).encode())
    else:
        c.answer(part, status, more)


class Curl:
    """A load balancer with a plain and a TLS listener, and curl that asks it in one mode."""

    def __init__(self, world, version, options, tls):
        self.worker = world.scripted(serve(worker))
        pair, port = Pair(world.folder, 'front', ['test.example']), free_port()
        self.lb = world.resumelb({'workers': [self.worker.address]}, listen=[
            {'address': '127.0.0.1:%d' % port, **({'tls': pair.entry, 'http2': True} if tls else {})}])
        self.version, self.folder = version, world.folder
        self.url = '%s://test.example:%d' % ('https' if tls else 'http', port)
        self.options = [*options, '--cacert', pair.cert, '--resolve', 'test.example:%d:127.0.0.1' % port]
        (world.folder / 'file').write_bytes(FILE)

    def __call__(self, *args, data=None):
        """What curl wrote; status and version are checked here."""
        out = subprocess.run(['curl', '-sS', '--max-time', str(LIMIT), '-w', '\n%{http_code} %{http_version}',
                              *self.options, *map(str, args)], input=data, capture_output=True, timeout=2 * LIMIT, check=False)
        assert out.returncode == 0, out.stderr
        body, _, told = out.stdout.rpartition(b'\n')
        status, version = told.split()
        # An answer to a client of HTTP/1.0 may name the version that the server speaks.
        assert version.decode() in ((self.version, '1.1') if self.version == '1.0' else (self.version,))
        return int(status), body


@pytest.fixture(params=[pytest.param(m, marks=pytest.mark.soak if (m[0], m[2]) in LATER else []) for m in MODES],
                ids=lambda m: 'http%s%s' % (m[0], '-tls1.' + m[2] if m[2] else ''))
def curl(request, world):
    return Curl(world, *request.param)


def received(body, content_range=None):
    return 200, ('%d %s %s' % (len(body), hashlib.sha256(body).hexdigest(), content_range)).encode()


def test_downloads(curl):
    assert curl(curl.url + '/') == (200, FILE)
    assert curl('-r', '0-99', curl.url + '/') == (206, FILE[:100])
    assert curl('-r', '1000-', curl.url + '/') == (206, FILE[1000:])
    assert curl('-r', '-7', curl.url + '/') == (206, FILE[-7:])
    status, head = curl('-I', curl.url + '/')
    assert status == 200 and field(head, b'content-length') == str(len(FILE))
    # The second half of what an earlier download has left.
    part = curl.folder / 'part'
    part.write_bytes(FILE[:5000])
    assert curl('-C', '-', '-o', part, curl.url + '/') == (206, b'')
    assert part.read_bytes() == FILE


def test_uploads(curl):
    url = curl.url + '/'
    assert curl('-d', 'a=1&b=2', url) == received(b'a=1&b=2')
    assert curl('--data-binary', '@%s' % (curl.folder / 'file'), url) == received(FILE)
    assert curl('-T', curl.folder / 'file', url) == received(FILE)
    # The rest of an upload.
    rest = 'bytes 1000-%d/%d' % (len(FILE) - 1, len(FILE))
    assert curl('-C', '1000', '-T', curl.folder / 'file', url) == received(FILE[1000:], rest)
    assert curl('-X', 'POST', '-H', 'Expect: 100-continue', '--data-binary', '@%s' % (curl.folder / 'file'), url) == received(FILE)


def test_an_upload_of_unknown_length(curl):
    if curl.version == '1.0':
        # HTTP/1.0 has no way to say where such a body ends: curl itself refuses.
        out = subprocess.run(['curl', '-sS', *curl.options, '-T', '-', curl.url + '/'], input=b'x', capture_output=True, timeout=LIMIT)
        assert out.returncode != 0 and len(curl.worker.requests) == 0
        return
    assert curl('-T', '-', curl.url + '/', data=FILE) == received(FILE)
    assert curl('-H', 'Transfer-Encoding: chunked' if curl.version == '1.1' else 'X-None: 1', '--data-binary',
                '@%s' % (curl.folder / 'file'), curl.url + '/') == received(FILE)


def test_many_at_once(curl):
    """Of 100,000 bytes each: what counts is that each has its own, in whatever number of reads; whole files are read above."""
    out = [word for i in range(100) for word in (curl.url + '/%d' % i, '-o', curl.folder / ('out%d' % i))]
    told = subprocess.run(['curl', '-sS', '--max-time', str(LIMIT), '--parallel', '--parallel-max', '50', '-w', '%{http_code}\n', '-r', '0-99999',
                           *curl.options, *map(str, out)], capture_output=True, text=True, timeout=2 * LIMIT, check=True).stdout
    assert told.split() == ['206'] * 100
    assert all((curl.folder / ('out%d' % i)).read_bytes() == FILE[:100_000] for i in range(100))
    assert len(curl.worker.requests) == 100


def test_prior_knowledge_on_a_plain_port(world):
    """HTTP/2 without TLS is not offered: it is refused with a status, and an upgrade to it is not taken."""
    curl = Curl(world, '1.1', [], None)
    out = subprocess.run(['curl', '-sS', '--max-time', str(LIMIT), '--http2-prior-knowledge', *curl.options, curl.url + '/'],
                         capture_output=True, timeout=2 * LIMIT)
    assert out.returncode != 0 and len(curl.worker.requests) == 0
    assert curl('--http2', curl.url + '/') == (200, FILE)
