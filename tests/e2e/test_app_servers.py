# SPDX-License-Identifier: Apache-2.0
"""
Applications behind the load balancer: Flask with gunicorn and uWSGI, Express, PHP's own server and Puma. Each is behind an agent
or listed in `workers`, with HTTP/1.1 or HTTP/2 clients; each of the four combinations is tested with one server at least. The soak
run tests each server behind an agent and listed in `workers`.
"""
import functools
import hashlib
import random
import subprocess
from urllib.parse import unquote_plus

import pytest

import apps_support
from apps_support import CLIENT, DOWNLOAD, PROTOCOLS
from support.base import LIMIT

pytestmark = pytest.mark.soak

# The program and the option that print a version; the server's response to an unknown path and to an exception.
SERVERS = {
    'Flask': (['gunicorn', '--version'], 'The requested URL was not found on the server.', 'The server encountered an internal error'),
    'uWSGI': (['uwsgi', '--version'], 'The requested URL was not found on the server.', 'The server encountered an internal error'),
    'Node': (['node', '--version'], 'Cannot GET /missing.txt', '<pre>Internal Server Error</pre>'),
    'PHP': (['php', '--version'], '<h1>Not Found</h1><p>The requested resource <code class="url">/missing.txt</code>', ''),
    'Puma': (['puma', '--version'], 'nothing at /missing.txt\n', 'An unhandled lowlevel error occurred'),
}
PACKAGES = {'Flask': 'python3-flask', 'uWSGI': 'python3-flask', 'Node': 'node-express', 'PHP': 'php-cli', 'Puma': 'ruby-rack'}
WITH_RANGES = ('Flask', 'uWSGI', 'Node', 'Puma')
WITH_FORM_FILES = ('Flask', 'uWSGI', 'PHP', 'Puma')
IN_SHORT = {'Flask': 'agent', 'uWSGI': 'workers', 'Node': 'workers', 'PHP': 'agent', 'Puma': 'agent'}
SITES = [pytest.param((server, behind, PROTOCOLS[(n + m) % 2]), marks=[] if IN_SHORT[server] == behind else pytest.mark.soak)
         for n, server in enumerate(SERVERS) for m, behind in enumerate(('agent', 'workers'))]
UPLOAD, STREAMED = random.Random(5).randbytes(5_000_000), random.Random(6).randbytes(3_000_000)


@functools.cache
def print_versions(name):
    said = subprocess.run(SERVERS[name][0], check=True, capture_output=True, text=True, timeout=LIMIT).stdout.splitlines()[0]
    package = subprocess.run(['dpkg-query', '--show', PACKAGES[name]], check=True, capture_output=True, text=True, timeout=LIMIT).stdout
    print(said, '/', package.strip())


@pytest.fixture(scope='module', params=SITES, ids='-'.join)
def site(request):
    server, behind, protocol = request.param
    print_versions(server)
    with apps_support.site(server, behind) as found:
        found.server, found.protocol = server, protocol
        yield found


@pytest.fixture
def protocol(site):
    return site.protocol


@functools.cache
def digest(data):
    return {'length': len(data), 'sha256': hashlib.sha256(data).hexdigest()}


def test_pages_and_their_heads(site, protocol):
    page = site.curl(protocol, '/hello')
    assert (page.status, page.text) == (200, 'hello\n') and page['Content-Type'].startswith('text/plain')
    head = site.curl(protocol, '/hello', '--head')
    assert head.status == 200 and head['Content-Type'] == page['Content-Type']
    # With --head, curl prints the header fields, and fails if a body follows them.
    assert head.body.decode().replace('\r', '').rstrip() == head.head.rstrip()
    # The Content-Length of the body that is not sent is passed on.
    assert head['Content-Length'] in ('6', None)


def test_forms_and_json_arrive_as_they_were_sent(site, protocol):
    fields = {'name': 'Jörg & Söhne', 'empty': '', 'sign': '100 % + 1 = ?', 'lines': 'a\r\nb'}
    words = [word for key, value in fields.items() for word in ('--data-urlencode', '%s=%s' % (key, value))]
    assert site.curl(protocol, '/form', *words).json == fields
    text = '{"list": [1, 2.5, null, true], "text": "Jörg \\u00fc \\"quoted\\"", "nested": {"a": {"b": []}}}'
    response = site.curl(protocol, '/json', '-H', 'Content-Type: application/json', '--data-binary', '@-', data=text.encode())
    assert response.status == 200
    assert response.json == {'list': [1, 2.5, None, True], 'text': 'Jörg ü "quoted"', 'nested': {'a': {'b': []}}}


def test_cookies_and_redirects(site, protocol):
    """A redirect to an absolute URL names the scheme, host and port that the client used."""
    jar = site.world.directory / 'jar'
    jar.unlink(missing_ok=True)
    entered = site.curl(protocol, '/enter', '-c', jar)
    assert entered.status == 302 and entered['Location'] == site.base(protocol) + '/cookies'
    assert entered.head.lower().count('\nset-cookie:') == 2
    seen = site.curl(protocol, '/enter', '-b', jar, '-c', jar, '-L')
    assert seen.status == 200 and set(seen.json) == {'session', 'theme'}
    assert unquote_plus(seen.json['session']) == 'a=b c' and seen.json['theme'] == 'dark'
    left = site.curl(protocol, '/leave')
    assert left.status == 302 and left['Location'] == '/hello'
    assert site.curl(protocol, '/leave', '-L').text == 'hello\n'


def test_uploads(site, protocol):
    file = site.world.directory / 'upload.bin'
    file.write_bytes(UPLOAD)
    binary = ['-H', 'Content-Type: application/octet-stream']
    assert site.curl(protocol, '/upload', *binary, '--data-binary', '@%s' % file).json == digest(UPLOAD)
    if site.server in WITH_FORM_FILES:
        assert site.curl(protocol, '/upload', '-F', 'file=@%s' % file).json == digest(UPLOAD)


def test_an_upload_of_unknown_length(site, protocol):
    """A body of unknown length, in HTTP/1.1 chunks or HTTP/2 frames, is sent to the process with a Content-Length."""
    response = site.curl(protocol, '/upload', '-X', 'POST', '-H', 'Content-Type: application/octet-stream', '-T', '-', data=STREAMED)
    assert response.json == digest(STREAMED)


def test_the_first_piece_of_a_stream_arrives_before_the_last_is_made(site, protocol):
    site.stream(protocol)


def test_files_and_ranges(site, protocol):
    target = '/download.bin' if site.server == 'PHP' else '/file'
    whole = site.curl(protocol, target)
    assert (whole.status, whole.body) == (200, DOWNLOAD) and whole['Content-Length'] == str(len(DOWNLOAD))
    part = site.curl(protocol, target, '-r', '1000-1999')
    if site.server in WITH_RANGES:
        assert (part.status, part.body) == (206, DOWNLOAD[1000:2000])
        assert part['Content-Range'] == 'bytes 1000-1999/%d' % len(DOWNLOAD)
        assert site.curl(protocol, target, '-r', '%d-' % len(DOWNLOAD)).status == 416
    else:
        assert (part.status, part.body) == (200, DOWNLOAD)


def test_the_application_gets_the_true_address_scheme_and_host(site, protocol):
    base = site.base(protocol)
    scheme = base.partition('://')[0]
    lies = ['-H', 'X-Forwarded-For: 192.0.2.1', '-H', 'X-Forwarded-Proto: ' + ('http' if scheme == 'https' else 'https'),
            '-H', 'X-Forwarded-Host: elsewhere.example', '-H', 'X-Forwarded-Port: 1', '-H', 'X-Forwarded-Ssl: on',
            '-H', 'X-Forwarded-Scheme: ftp', '-H', 'Forwarded: for=192.0.2.1;proto=ftp;host=elsewhere.example']
    for options in ([], lies):
        assert site.curl(protocol, '/environment', *options).json == {
            'address': CLIENT, 'scheme': scheme, 'host': base.partition('://')[2], 'url': base + '/environment',
            'for': CLIENT, 'proto': scheme}


def test_error_pages_are_the_servers_own(site, protocol):
    _, not_found, defect = SERVERS[site.server]
    missing, broken = site.curl(protocol, '/missing.txt'), site.curl(protocol, '/broken')
    assert missing.status == 404 and not_found in missing.text
    assert broken.status == 500 and defect in broken.text
    if site.behind == 'workers':
        for response, target in ((missing, '/missing.txt'), (broken, '/broken')):
            direct = site.direct(site.addresses[0], target)
            assert (response.status, response.body, response['Content-Type']) == (direct.status, direct.body, direct['Content-Type'])


def test_requests_on_many_connections_reach_both_processes(site, protocol):
    """Each of many concurrent requests gets its own response, independent of the process."""
    out = site.world.directory / 'many'
    out.mkdir(exist_ok=True)
    base = site.base(protocol)
    urls = [word for i in range(1, 60) for word in (base + '/environment?%d' % i, '-o', out / str(i))]
    argv = site.argv(protocol, '/environment?0', '--parallel', '--parallel-max', '20', '-w', '%{http_code}\n', '-o', out / '0', *urls)
    told = subprocess.run(argv, capture_output=True, text=True, timeout=2 * LIMIT, check=True).stdout
    assert told.split() == ['200'] * 60
    assert all('"%s' % CLIENT in (out / str(i)).read_text().replace(' ', '') for i in range(60))
