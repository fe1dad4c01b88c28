#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the access log costs per request: instructions of a data loop, CPU time of the loop and of the program.

    bench/access_log.py BUILD [ROUNDS]     needs nginx (the worker), wrk and valgrind

Instructions: callgrind by thread, 1,200 requests less 200. CPU time: the run time of threads by the scheduler
(schedstat), of the loop and of all threads, including the log's writer. Subjects are interleaved over ROUNDS
(default 7), in rotating order; each result is divided by `off` of the same round; printed are the median and the quartiles.
"""
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SUBJECTS = {
    'off': '',
    'combined': 'access_log: LOG\n',
    'json': 'access_log: LOG\naccess_log_format: json\n',
    'combined, one in a hundred': 'access_log: LOG\naccess_log_sample: 0.01\n',
}
REQUEST = (b'GET /some/path?query=1 HTTP/1.1\r\nHost: www.example.com\r\n'
           b'User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0\r\n'
           b'Referer: http://www.example.com/another/path\r\nAccept: text/html\r\nCookie: session=0123456789abcdef\r\n\r\n')
FIELDS = ['-H', 'User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0',
          '-H', 'Referer: http://www.example.com/another/path', '-H', 'Cookie: session=0123456789abcdef']


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def connect(port):
    for _ in range(600):
        try:
            return socket.create_connection(('127.0.0.1', port))
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(port)


class Worker:
    def __init__(self, directory):
        self.port = free_port()
        (directory / 'nginx.conf').write_text(
            'daemon off; master_process off; pid %s/pid; error_log %s/error;\nevents {}\nhttp { access_log off; '
            'keepalive_requests 100000000; client_body_temp_path %s/b; proxy_temp_path %s/p; fastcgi_temp_path %s/f; '
            'uwsgi_temp_path %s/u; scgi_temp_path %s/s;\nserver { listen 127.0.0.1:%d; return 200 "hello"; } }\n'
            % ((directory,) * 7 + (self.port,)))
        self.process = subprocess.Popen(['nginx', '-c', str(directory / 'nginx.conf')], stderr=subprocess.DEVNULL)
        connect(self.port).close()


def start(build, directory, subject, worker, before=()):
    port = free_port()
    file = directory / 'resumelb.yaml'
    file.write_text('listen: [{address: 127.0.0.1:%d}]\nworkers: [127.0.0.1:%d]\nthreads: "1"\nlog_level: error\n%s'
                    % (port, worker.port, SUBJECTS[subject].replace('LOG', str(directory / 'access.log'))))
    p = subprocess.Popen([*before, build / 'bin' / 'resumelb', '-c', file], stderr=subprocess.DEVNULL)
    return p, port, connect(port)


def stop(p):
    p.send_signal(signal.SIGTERM)
    p.wait(60)


def counted(build, directory, subject, worker, n):
    """Instructions of the data loop."""
    for old in directory.glob('callgrind*'):
        old.unlink()
    p, _, c = start(build, directory, subject, worker, [
        'valgrind', '-q', '--tool=callgrind', '--separate-threads=yes', '--callgrind-out-file=%s' % (directory / 'callgrind')])
    for _ in range(n):
        c.sendall(REQUEST)
        got = b''
        while not got.endswith(b'hello'):
            got += c.recv(65536)
    c.close()
    stop(p)
    threads = [f.read_text() for f in directory.glob('callgrind-*')]
    (loop,) = [t for t in threads if ' exchange_create\n' in t]
    return int(re.search(r'^totals: (\d+)', loop, re.M)[1])


def thread_times(pid):
    return {t: int(Path('/proc/%d/task/%s/schedstat' % (pid, t)).read_text().split()[0])
            for t in os.listdir('/proc/%d/task' % pid)}


def timed(build, directory, subject, worker, seconds=3):
    """Nanoseconds per request: of the data loop's thread, of all threads."""
    p, port, c = start(build, directory, subject, worker)
    c.close()
    run = ['wrk', '-t1', '-c16', '-d%ds' % seconds, *FIELDS, 'http://127.0.0.1:%d/some/path?query=1' % port]
    subprocess.run([w if w != '-d%ds' % seconds else '-d1s' for w in run], check=True, stdout=subprocess.DEVNULL)
    before = thread_times(p.pid)
    out = subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True).stdout
    after = thread_times(p.pid)
    stop(p)
    (directory / 'access.log').unlink(missing_ok=True)
    # The thread of the data loop is the one started last.
    loop = max(before, key=int)
    requests = int(re.search(r'(\d+) requests in', out)[1])
    return (after[loop] - before[loop]) / requests, sum(after[t] - before.get(t, 0) for t in after) / requests


def main():
    build = Path(sys.argv[1]).resolve()
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        worker = Worker(directory)
        try:
            few = {s: counted(build, directory, s, worker, 200) for s in SUBJECTS}
            many = {s: counted(build, directory, s, worker, 1200) for s in SUBJECTS}
            per = {s: (many[s] - few[s]) / 1000 for s in SUBJECTS}
            runs = []
            for r in range(rounds):
                order = list(SUBJECTS)[r % len(SUBJECTS):] + list(SUBJECTS)[:r % len(SUBJECTS)]
                runs.append({s: timed(build, directory, s, worker) for s in order})
        finally:
            worker.process.terminate()
            worker.process.wait()
    print('| access log | instructions of the loop | more than off | loop, us | times off | program, us | times off |')
    print('| --- | --- | --- | --- | --- | --- | --- |')
    for s in SUBJECTS:
        columns = []
        for which in (0, 1):
            low, middle, high = statistics.quantiles((r[s][which] / r['off'][which] for r in runs), n=4)
            columns += ['%.2f' % (statistics.median(r[s][which] for r in runs) / 1000),
                        '%.3f (%.3f to %.3f)' % (middle, low, high)]
        print('| %s | %.0f | %.0f | %s |' % (s, per[s], per[s] - per['off'], ' | '.join(columns)))


if __name__ == '__main__':
    main()
