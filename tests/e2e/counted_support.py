# SPDX-License-Identifier: Apache-2.0
"""Real gunicorns with one process each; their application logs the start and the end of each request."""
import pathlib

from support.base import free_port, wait_until
from support.http import get
from support.servers import GUNICORN

# ?cpu=S uses S seconds of processor time, ?db=S waits S seconds as for a database. While the file APP_HANG exists, requests of
# the class hot.example hang for APP_HANG_S seconds. /up is the probe of the tests. The log has a line for each request: its
# start and end (of the monotonic clock, which all processes share), its Host and path.
APP = '''
import os, time
from urllib.parse import parse_qs
LOG = os.open(os.environ["APP_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
HANG, HANG_S = os.environ["APP_HANG"], float(os.environ["APP_HANG_S"])

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))

def hang():
    end = time.monotonic() + HANG_S
    while os.path.exists(HANG) and time.monotonic() < end:
        time.sleep(0.02)

def application(environ, start_response):
    began = time.monotonic()
    path, host = environ["PATH_INFO"], environ.get("HTTP_HOST", "")
    wanted = parse_qs(environ.get("QUERY_STRING", ""))
    burn(float(wanted.get("cpu", ["0"])[0]))
    if host == "hot.example":
        hang()
    time.sleep(float(wanted.get("db", ["0"])[0]))
    if path != "/up":
        os.write(LOG, ("%.6f %.6f %s %s\\n" % (began, time.monotonic(), host, path)).encode())
    body = ("%s %.6f %d\\n" % (path, began, os.getpid())).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
'''


class Counted:
    """N gunicorns with one process each, which serves up to THREADS requests concurrently."""

    def __init__(self, world, n, threads=1, hang_s=10):
        self.log = pathlib.Path(world.directory) / 'requests.log'
        self.hang_path = pathlib.Path(world.directory) / 'hang'
        self.log.touch()
        (pathlib.Path(world.directory) / 'counted_app.py').write_text(APP)
        self.addresses = ['127.0.0.1:%d' % free_port() for _ in range(n)]
        env = {'APP_LOG': str(self.log), 'APP_HANG': str(self.hang_path), 'APP_HANG_S': str(hang_s),
               'PYTHONDONTWRITEBYTECODE': '1'}
        kind = ['--worker-class=gthread', '--threads=%d' % threads, '--keep-alive=60'] if threads > 1 else []
        self.processes = [world.process(
            [*GUNICORN, '--bind', a, '--graceful-timeout=1', *kind, 'counted_app:application'], 'counted%d' % i, env=env, cwd=world.directory) for i, a in enumerate(self.addresses)]
        for a, p in zip(self.addresses, self.processes):
            wait_until(lambda: self._up(a, p), 'gunicorn at %s' % a)

    @staticmethod
    def _up(address, process):
        assert process.alive(), process.output()[-3000:]
        try:
            return get(address, '/up').status == 200
        except OSError:
            return False

    def requests(self, host=None, path=None):
        """(start, end) of each completed request, in the order of their ends."""
        found = []
        for line in self.log.read_text().splitlines():
            began, ended, h, p = line.split(' ')
            if host in (None, h) and path in (None, p):
                found.append((float(began), float(ended)))
        return found

    def forget(self):
        """Clears the log, so that the requests of this test do not count in the next one."""
        self.hang_no_more()
        self.log.write_text('')

    def hang(self):
        self.hang_path.touch()

    def hang_no_more(self):
        self.hang_path.unlink(missing_ok=True)


def most_at_once(spans, since=0.0, until=float('inf')):
    """The maximum number of SPANS, as (start, end), that overlap at any time between SINCE and UNTIL."""
    steps = sorted([(max(b, since), 1) for b, e in spans if e > since and b < until] +
                   [(min(e, until), -1) for b, e in spans if e > since and b < until])
    most = now = 0
    for _, step in steps:           # at equal times an end sorts before a start
        now += step
        most = max(most, now)
    return most
