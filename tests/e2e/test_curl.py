# SPDX-License-Identifier: Apache-2.0
"""curl with each protocol that it supports, over plain TCP and over TLS, with the usual uploads and downloads."""
import hashlib
import re
import subprocess

import pytest

from support.base import LIMIT, free_port
from support.certificates import Pair
from support.scripted import serve

FILE = bytes(range(256)) * 4096      # 1 MiB
# The options of curl for each protocol version; a mode is (version, options, version of TLS or None).
PLAIN = {'1.0': ['--http1.0'], '1.1': ['--http1.1']}
TLS = {'1.0': ['--http1.0'], '1.1': ['--http1.1'], '2': ['--http2']}
MODES = [(version, options, None) for version, options in PLAIN.items()]
MODES += [(version, [*options, '--tlsv1.' + tls, '--tls-max', '1.' + tls], tls) for version, options in TLS.items() for tls in '23']
# HTTP/1.0 and 1.1 are tested with one version of TLS each; all combinations are in the soak run.
LATER = (('1.0', '2'), ('1.1', '3'))


@pytest.fixture(scope='module', autouse=True)
def versions():
    print(subprocess.run(['curl', '--version'], capture_output=True, text=True, check=True, timeout=LIMIT).stdout.splitlines()[0])


def field(head, name):
    found = re.search(rb'^%s: *(.*?)\r?$' % name, head, re.I | re.M)
    return found and found[1].decode()


def worker(c, head, body):
    """Responds to a GET with a file, with ranges; responds to an upload with its length, digest and range."""
    if not head.startswith((b'GET', b'HEAD')):
        c.respond(('%d %s %s' % (len(body), hashlib.sha256(body).hexdigest(), field(head, b'content-range'))).encode())
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
        c.respond(part, status, more)


class Curl:
    """A load balancer with a plain and a TLS listener, and curl as the client with one protocol."""

    def __init__(self, world, version, options, tls):
        self.worker = world.scripted(serve(worker))
        pair, port = Pair(world.directory, 'front', ['test.example']), free_port()
        self.lb = world.resumelb({'workers': [self.worker.address]}, listen=[
            {'address': '127.0.0.1:%d' % port, **({'tls': pair.entry, 'http2': True} if tls else {})}])
        self.version, self.directory = version, world.directory
        self.url = '%s://test.example:%d' % ('https' if tls else 'http', port)
        self.options = [*options, '--cacert', pair.cert, '--resolve', 'test.example:%d:127.0.0.1' % port]
        (world.directory / 'file').write_bytes(FILE)

    def __call__(self, *args, data=None):
        """Runs curl and checks the status and the version. Returns its output."""
        out = subprocess.run(['curl', '-sS', '--max-time', str(LIMIT), '-w', '\n%{http_code} %{http_version}',
                              *self.options, *map(str, args)], input=data, capture_output=True, timeout=2 * LIMIT, check=False)
        assert out.returncode == 0, out.stderr
        body, _, told = out.stdout.rpartition(b'\n')
        status, version = told.split()
        # A response to an HTTP/1.0 client may have the version of the server.
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
    # The second half of an interrupted download.
    part = curl.directory / 'part'
    part.write_bytes(FILE[:5000])
    assert curl('-C', '-', '-o', part, curl.url + '/') == (206, b'')
    assert part.read_bytes() == FILE


def test_uploads(curl):
    url = curl.url + '/'
    assert curl('-d', 'a=1&b=2', url) == received(b'a=1&b=2')
    assert curl('--data-binary', '@%s' % (curl.directory / 'file'), url) == received(FILE)
    assert curl('-T', curl.directory / 'file', url) == received(FILE)
    # The rest of an interrupted upload.
    rest = 'bytes 1000-%d/%d' % (len(FILE) - 1, len(FILE))
    assert curl('-C', '1000', '-T', curl.directory / 'file', url) == received(FILE[1000:], rest)
    assert curl('-X', 'POST', '-H', 'Expect: 100-continue', '--data-binary', '@%s' % (curl.directory / 'file'), url) == received(FILE)


def test_an_upload_of_unknown_length(curl):
    if curl.version == '1.0':
        # HTTP/1.0 cannot mark the end of a request body of unknown length: curl itself rejects it.
        out = subprocess.run(['curl', '-sS', *curl.options, '-T', '-', curl.url + '/'], input=b'x', capture_output=True, timeout=LIMIT)
        assert out.returncode != 0 and len(curl.worker.requests) == 0
        return
    assert curl('-T', '-', curl.url + '/', data=FILE) == received(FILE)
    assert curl('-H', 'Transfer-Encoding: chunked' if curl.version == '1.1' else 'X-None: 1', '--data-binary',
                '@%s' % (curl.directory / 'file'), curl.url + '/') == received(FILE)


def test_many_at_once(curl):
    """Concurrent downloads of 100,000 bytes each: each must get its own data, in any number of reads. Whole files are tested above."""
    out = [word for i in range(100) for word in (curl.url + '/%d' % i, '-o', curl.directory / ('out%d' % i))]
    told = subprocess.run(['curl', '-sS', '--max-time', str(LIMIT), '--parallel', '--parallel-max', '50', '-w', '%{http_code}\n', '-r', '0-99999',
                           *curl.options, *map(str, out)], capture_output=True, text=True, timeout=2 * LIMIT, check=True).stdout
    assert told.split() == ['206'] * 100
    assert all((curl.directory / ('out%d' % i)).read_bytes() == FILE[:100_000] for i in range(100))
    assert len(curl.worker.requests) == 100


def test_prior_knowledge_on_a_plain_port(world):
    """HTTP/2 without TLS is not supported: prior knowledge is rejected with a status, and an upgrade to it is ignored."""
    curl = Curl(world, '1.1', [], None)
    out = subprocess.run(['curl', '-sS', '--max-time', str(LIMIT), '--http2-prior-knowledge', *curl.options, curl.url + '/'],
                         capture_output=True, timeout=2 * LIMIT)
    assert out.returncode != 0 and len(curl.worker.requests) == 0
    assert curl('--http2', curl.url + '/') == (200, FILE)
