# SPDX-License-Identifier: Apache-2.0
"""
A Django site with gunicorn: its admin pages, sessions, uploads, streams and files through the load balancer, over HTTP/1.1 and
HTTP/2, behind an agent and listed in `workers`. Two of the four combinations are tested; all four in the soak run.
"""
import functools
import hashlib
import os
import random
import re
import shutil
import subprocess

import pytest

import apps_support
from apps_support import CLIENT, DOWNLOAD
from support.base import LIMIT

pytestmark = pytest.mark.soak

PASSWORD = 'correct horse'


def manage(root, *words):
    """Runs a command of Django's manage.py."""
    env = {**os.environ, 'DJANGO_SETTINGS_MODULE': 'mysite.settings', 'DJANGO_SUPERUSER_PASSWORD': PASSWORD, 'PYTHONDONTWRITEBYTECODE': '1'}
    return subprocess.run(['/usr/bin/python3', '-m', 'django', *words], cwd=root, env={**env, 'PYTHONPATH': str(root)}, check=True,
                          capture_output=True, text=True, timeout=LIMIT).stdout


@functools.cache
def versions():
    return '%s %s' % tuple(subprocess.run(words, check=True, capture_output=True, text=True, timeout=LIMIT).stdout.strip()
                           for words in (['/usr/bin/python3', '-m', 'django', 'version'], ['gunicorn', '--version']))


@pytest.fixture(scope='module')
def prepare(tmp_path_factory):
    """Returns a function that creates the database of a site: the first site creates it and the others copy it."""
    kept, names = tmp_path_factory.mktemp('django') / 'db.sqlite3', []

    def prepare(site):
        print('Django', versions())
        database = site.root / 'db.sqlite3'
        if kept.exists():
            shutil.copyfile(kept, database)
        else:
            manage(site.root, 'migrate', '--verbosity=0')
            manage(site.root, 'createsuperuser', '--noinput', '--username=root', '--email=root@django.example')
            names.extend(line.strip() for line in manage(site.root, 'findstatic', 'admin/css/base.css', '--verbosity=0').splitlines())
            shutil.copyfile(database, kept)
        site.names = names
    return prepare


@pytest.fixture(scope='module', ids='-'.join, params=[
    ('agent', 'http2'), ('workers', 'http1'),
    pytest.param(('agent', 'http1'), marks=pytest.mark.soak), pytest.param(('workers', 'http2'), marks=pytest.mark.soak)])
def site(request, prepare):
    behind, protocol = request.param
    with apps_support.site('Django', behind, prepare) as found:
        found.protocol = protocol
        yield found


class Browser:
    """curl with a cookie jar. It sends forms with their tokens, like a browser."""

    def __init__(self, site, protocol, directory):
        self.site, self.protocol, self.jar = site, protocol, directory / 'jar'
        self.jar.touch()

    def get(self, target, *options):
        return self.site.curl(self.protocol, target, '-b', self.jar, '-c', self.jar, *options)

    def token(self, page):
        return re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)[1]

    def post(self, target, page, **fields):
        """Sends the form of PAGE, with Referer and Origin like a browser."""
        fields['csrfmiddlewaretoken'] = self.token(page)
        base = self.site.base(self.protocol)
        data = [word for key, value in fields.items() for word in ('--data-urlencode', '%s=%s' % (key, value))]
        return self.get(target, '-H', 'Origin: ' + base, '-H', 'Referer: ' + base + target, *data)

    def log_in(self):
        page = self.get('/admin/login/?next=/admin/')
        response = self.post('/admin/login/?next=/admin/', page, username='root', password=PASSWORD)
        assert response.status == 302 and response['Location'] == '/admin/', response.text
        return self


@pytest.fixture
def browser(site, tmp_path):
    return Browser(site, site.protocol, tmp_path)


def test_the_admin_is_used_from_log_in_to_log_out(browser):
    response = browser.get('/admin/')
    assert response.status == 302 and response['Location'] == '/admin/login/?next=/admin/'
    wrong = browser.post('/admin/login/', browser.get('/admin/login/'), username='root', password='wrong')
    assert wrong.status == 200 and 'errornote' in wrong.text
    browser.log_in()
    assert 'Site administration' in browser.get('/admin/').text
    # A name with characters that forms and pages must encode.
    name = 'Editörs & Söhne <%s>' % browser.protocol
    response = browser.post('/admin/auth/group/add/', browser.get('/admin/auth/group/add/'), name=name)
    assert response.status == 302 and response['Location'] == '/admin/auth/group/'
    listed = browser.get('/admin/auth/group/').text
    assert name.replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;') in listed
    response = browser.post('/admin/auth/user/add/', browser.get('/admin/auth/user/add/'), username='reader-' + browser.protocol,
                          password1='a long pass phrase', password2='a long pass phrase')
    assert re.fullmatch(r'/admin/auth/user/\d+/change/', response['Location'])
    assert 'reader-' + browser.protocol in browser.get('/admin/auth/user/').text
    assert 'Logged out' in browser.get('/admin/logout/').text
    assert browser.get('/admin/')['Location'] == '/admin/login/?next=/admin/'


def test_a_post_without_the_token_is_forbidden(browser):
    page = browser.get('/admin/login/')
    fields = ['-d', 'username=root', '-d', 'password=' + PASSWORD.replace(' ', '+')]
    base = browser.site.base(browser.protocol)
    response = browser.get('/admin/login/', '-H', 'Referer: %s/admin/login/' % base, *fields)
    assert response.status == 403 and 'CSRF verification failed' in response.text
    fields += ['-d', 'csrfmiddlewaretoken=' + browser.token(page)]
    if browser.protocol == 'http2':
        # Django checks the Referer only of HTTPS requests: it must detect that this is one.
        response = browser.get('/admin/login/', '-H', 'Referer: https://elsewhere.example/', *fields)
        assert response.status == 403 and 'CSRF verification failed' in response.text
    assert browser.get('/admin/login/', '-H', 'Referer: %s/admin/login/' % base, *fields).status == 302


def test_a_session_continues_in_another_process(browser):
    """Each of the two workers is drained once, so that the session continues in the other one."""
    browser.log_in()
    site = browser.site
    numbers = set()
    for worker in site.lb.workers(site.application):
        site.act('drain', worker)
        page = browser.get('/admin/password_change/')
        assert page.status == 200 and 'Password change' in page.text
        numbers.add(page['X-Pid'])
        # The form of one process is sent to the other.
        response = browser.post('/admin/auth/group/add/', browser.get('/admin/auth/group/add/'), name='%s %s' % (browser.protocol, worker))
        assert response.status == 302
        site.act('undrain', worker)
    assert len(numbers) == 2


@functools.cache
def upload_of(size):
    return random.Random(size).randbytes(size)


def test_an_upload_arrives_unchanged(browser):
    """50 megabytes in the two combinations of the normal run, 5 megabytes in the others."""
    large = (browser.site.behind, browser.protocol) in (('agent', 'http2'), ('workers', 'http1'))
    data = upload_of(50_000_000 if large else 5_000_000)
    file = browser.site.world.directory / 'upload.bin'
    file.write_bytes(data)
    token = browser.get('/upload').text
    base = browser.site.base(browser.protocol)
    response = browser.get('/upload', '-H', 'Referer: %s/' % base, '-H', 'X-CSRFToken: ' + token, '-F', 'file=@%s;filename=a b.bin' % file)
    assert response.json == {'length': len(data), 'sha256': hashlib.sha256(data).hexdigest(), 'name': 'a b.bin'}
    file.unlink()


def test_the_first_piece_of_a_stream_arrives_before_the_last_is_made(browser):
    browser.site.stream(browser.protocol)


def test_a_download_and_its_range(browser):
    """Django's FileResponse does not support ranges: a range request gets the whole file with status 200."""
    whole = browser.get('/file')
    assert (whole.status, whole.body) == (200, DOWNLOAD)
    assert whole['Content-Length'] == str(len(DOWNLOAD)) and whole['Content-Disposition'] == 'attachment; filename="download.bin"'
    part = browser.get('/file', '-r', '1000-1999')
    assert (part.status, part.body) == (200, DOWNLOAD)
    head = browser.get('/file', '-I')
    assert (head.status, head['Content-Length']) == (200, str(len(DOWNLOAD)))


def test_static_files_of_the_admin(browser):
    response = browser.get('/static/admin/css/base.css')
    with open(browser.site.names[0], 'rb') as file:
        assert response.body == file.read()
    assert response['Content-Type'] == 'text/css'
    assert browser.get('/static/admin/css/base.css', '-H', 'If-Modified-Since: ' + response['Last-Modified']).status == 304
    assert browser.get('/static/admin/nothing.css').status == 404


def test_the_site_gets_the_true_address_scheme_and_host(browser):
    site, protocol = browser.site, browser.protocol
    scheme, base = ('https' if protocol == 'http2' else 'http'), site.base(protocol)
    lies = ['-H', 'X-Forwarded-For: 192.0.2.1', '-H', 'X-Forwarded-Proto: ' + ('http' if scheme == 'https' else 'https'),
            '-H', 'X-Forwarded-Host: elsewhere.example']
    for options in ([], lies):
        assert browser.get('/environment', *options).json == {
            'address': CLIENT, 'scheme': scheme, 'host': base.partition('://')[2], 'url': base + '/environment',
            'for': CLIENT, 'proto': scheme}


def test_error_pages_are_the_sites_own(browser):
    missing, broken = browser.get('/missing'), browser.get('/broken')
    assert missing.status == 404 and 'The requested resource was not found on this server.' in missing.text
    assert broken.status == 500 and '<h1>Server Error (500)</h1>' in broken.text
    if browser.site.behind == 'workers':
        for response, target in ((missing, '/missing'), (broken, '/broken')):
            direct = browser.site.direct(browser.site.addresses[0], target)
            assert (response.status, response.body, response['Content-Type']) == (direct.status, direct.body, direct['Content-Type'])
