# SPDX-License-Identifier: Apache-2.0
"""
Health checks of a Django site with ALLOWED_HOSTS = ['django.example'], by gunicorn: Django responses 400 to every other Host. An
agent's probes too.
"""
import shutil
import subprocess

import pytest

import apps_support
from support.base import BIN, free_port, wait_until
from support.http import get
from support.servers import World

HOST = 'django.example'


def run_ctl(admin, *words):
    return subprocess.run([BIN / 'resumelbctl', '-a', admin, *words], capture_output=True, text=True, timeout=60).stdout


def install(world):
    """Copies the site to a directory, with the module that the documentation of applications has."""
    page = apps_support.Written(world, 'Django')
    root = page.path('/srv/django')
    shutil.copytree(apps_support.SOURCES / 'django', root, dirs_exist_ok=True, ignore=shutil.ignore_patterns('__pycache__'))
    return root


@pytest.fixture(scope='module')
def addresses(tmp_path_factory):
    """Two gunicorns with the site, each with one process."""
    world = World(tmp_path_factory.mktemp('django'))
    root = install(world)
    found = ['127.0.0.1:%d' % free_port() for _ in range(2)]
    for i, address in enumerate(found):
        process = world.process(['gunicorn', '--workers=1', '--bind=' + address, 'mysite.wsgi'], 'site%d' % i, cwd=root)

        def responds():
            assert process.alive(), process.output()[-2000:]
            try:
                return get(address, '/healthz', host=HOST).status == 200
            except OSError:
                return False
        wait_until(responds, 'the site at ' + address)
        assert get(address, '/healthz', host=address).status == 400
    yield found
    world.close()


def start(world, addresses, **settings):
    return world.resumelb({'workers': addresses, 'health_check_path': '/healthz', 'health_check_interval': '100ms',
                           'health_check_unhealthy_after': 2, 'health_check_healthy_after': 1, **settings})


def states(lb):
    return [w['state'] for w in lb.app()['workers']]


@pytest.mark.parametrize('settings', [{'hosts': ['*.example', HOST]}, {'health_check_host': HOST},
                                      {'hosts': ['other.example', HOST], 'health_check_host': HOST}],
                         ids=['hosts', 'health_check_host', 'both'])
def test_django_passes_checks_with_a_host_that_it_allows(world, addresses, settings):
    lb = start(world, addresses, **settings)
    wait_until(lambda: lb.app()['stats']['health_checks'] >= 6, 'checks')
    app = lb.app()
    assert app['stats']['health_check_failures'] == 0 and app['checks_rejected'] is None
    assert states(lb) == ['ready', 'ready']
    assert lb.get('/healthz', host=HOST).text == 'ok\n'


def test_if_django_rejects_all_checks_log_status_and_page_have_the_reason_until_the_host_is_set(world, addresses, browser):
    lb = start(world, addresses, worker_wait_timeout='100ms')
    wait_until(lambda: states(lb) == ['unhealthy', 'unhealthy'], 'the pool to be empty')
    assert lb.get('/healthz', host=HOST).status == 503
    rejected = lb.app()['checks_rejected']
    assert rejected['status'] == 400 and rejected['host'] in addresses
    assert lb.process.wait_logged('health-checks-rejected application=default status=400 host=')
    shown = run_ctl(lb.admin, 'status')
    assert 'all workers reject their health checks: status 400, Host %s; ' % rejected['host'] in shown, shown
    browser.open_status(lb.admin)
    notice = lambda: browser.js('[...document.querySelectorAll(".notice")].map(n => n.textContent)')
    (line,) = wait_until(notice, 'the notice')
    assert line.startswith('All workers reject their health checks: status 400, Host 127.0.0.1:') and 'health_check_host' in line
    lb.reload({'health_check_host': HOST})
    wait_until(lambda: states(lb) == ['ready', 'ready'], 'the workers to be healthy')
    assert lb.app()['checks_rejected'] is None
    wait_until(lambda: notice() == [], 'the notice to disappear')
    assert 'reject' not in run_ctl(lb.admin, 'status')
    assert lb.get('/healthz', host=HOST).text == 'ok\n'


NOTED = """
from mysite.wsgi import application as site


def application(environ, start_response):
    def noted(status, *rest):
        print('responded', environ['PATH_INFO'], environ['HTTP_HOST'], status, flush=True)
        return start_response(status, *rest)
    return site(environ, noted)
"""


@pytest.mark.parametrize('settings, responded', [({'ready_probe_host': HOST}, HOST + ' 200 OK'), ({}, 'localhost 400 Bad Request')],
                         ids=['set', 'default'])
def test_an_agent_probes_django_with_the_host_that_is_set(world, settings, responded):
    """Without one, the 400 is a response too, and the process is ready."""
    root = install(world)
    (root / 'noted.py').write_text(NOTED)
    (world.directory / 'tree').mkdir(exist_ok=True)
    agent = world.agent('one', world.directory / 'tree', slots=1, root=str(root), ready_probe='/healthz',
                        command=['gunicorn', '--workers=1', 'noted:application'], **settings)
    agent.process.wait_logged('process-ready')
    agent.process.wait_logged('line="responded /healthz %s"' % responded)
