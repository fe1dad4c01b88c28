# SPDX-License-Identifier: Apache-2.0
"""Support for the tests of the agent, beyond support/: a tiny application server, resume streams, trees."""
import json
import pathlib
import threading
import time

from support.base import LIMIT, wait_until
from support.http import Client, get
from support.servers import Agent

STREAM = '/.well-known/resumelb/resume'

# Serves one request at a time, on an inherited socket, a port or a path. Request headers control its behavior. It supports
# persistent connections, has no hidden behavior, and starts fast, as it imports few modules.
SERVER = r'''
import os, select, sys, time
from _json import encode_basestring_ascii as quote
from _socket import AF_INET, AF_UNIX, SO_REUSEADDR, SOL_SOCKET, socket
if os.environ.get("BOOT_DELAY"):
    time.sleep(float(os.environ["BOOT_DELAY"]))
if os.environ.get("BOOT_FAIL") and os.path.exists(os.environ["BOOT_FAIL"]):
    print("cannot start: " + os.environ["BOOT_FAIL"], flush=True)
    sys.exit(3)
if len(sys.argv) > 1 and sys.argv[1].startswith("/"):
    listener = socket(AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen(64)
elif len(sys.argv) > 1:
    listener = socket(AF_INET)
    listener.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[1])))
    listener.listen(64)
else:
    assert os.environ["LISTEN_FDS"] == "1" and os.environ["LISTEN_PID"] == str(os.getpid()), os.environ
    listener = socket(fileno=3)
if os.environ.get("CHILD"):
    child = os.fork()
    if child == 0:
        os.setsid() if os.environ["CHILD"] == "escape" else None
        time.sleep(3600)
    open(os.environ["CHILD_PID"], "w").write(str(child))
served, leaked = 0, []
def log(text):
    with open(os.environ["SERVER_LOG"], "a") as f:
        f.write(text + "\n")
def json(value):
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (quote(k), json(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(map(json, value))
    return quote(value) if isinstance(value, str) else str(value)
def serve(conn, stream):
    """One request. True: the connection may have another."""
    global served
    line = stream.readline()
    if not line:
        return False
    method, target, _ = line.decode("latin-1").split(" ", 2)
    headers = []
    while True:
        line = stream.readline().strip()
        if not line:
            break
        name, _, value = line.decode("latin-1").partition(":")
        headers.append((name.lower(), value.strip()))
    h = dict(headers)
    body = stream.read(int(h.get("content-length", 0)))
    served += 1
    warm_up = h.get("resumelb-warm-up", "-")
    if "SEEN" in os.environ:
        with open(os.environ["SEEN"], "a") as f:
            print(os.getpid(), target, warm_up, h.get("host"), h.get("resumelb-class", "-"), file=f)
    leaked.append(bytearray(int(os.environ.get("LEAK", "0"))))
    if target == "/hangs" and warm_up != "-":
        conn.recv(1)            # until the agent has given it up
        return False
    if target != "/probe":
        log("%s %s" % (method, target))
    if "x-delay" in h:
        time.sleep(float(h["x-delay"]))
    if "x-die" in h:
        os._exit(7)
    if "x-fork" in h and os.fork() == 0:    # the child holds the connection beyond the end of the process
        os.setsid()
        while not os.path.exists(h["x-until"]):
            time.sleep(0.005)
        os._exit(0)
    while "x-until" in h and not os.path.exists(h["x-until"]):
        time.sleep(0.005)
    if h.get("upgrade"):
        conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n" % h["upgrade"].encode())
        while True:
            data = conn.recv(1000)
            if not data:
                return False
            conn.sendall(data.upper())
    status = "500 While Cold" if target == "/breaks" and warm_up != "-" else h.get("x-status", "200 OK")
    if target == "/probe" and os.environ.get("PROBE_STATUS_FILE"):
        try:
            status = open(os.environ["PROBE_STATUS_FILE"]).read().strip()
        except OSError:
            status = "503 Not Yet"
    out = {"pid": os.getpid(), "served": served, "method": method, "target": target, "headers": headers,
           "body": len(body), "env": dict(os.environ), "cwd": os.getcwd(), "uid": os.getuid(),
           "gid": os.getgid(), "groups": os.getgroups(), "pgid": os.getpgid(0), "ppid": os.getppid(),
           "fds": sorted(int(f) for f in os.listdir("/proc/self/fd")), "stdin": os.readlink("/proc/self/fd/0")}
    data = json(out).encode() + b"x" * int(h.get("x-bytes", 0))
    keep = h.get("x-close") is None
    head = ("HTTP/1.1 %s\r\nContent-Length: %d\r\nX-Pid: %d\r\n%s%s\r\n" % (
        status, len(data), os.getpid(), "" if keep else "Connection: close\r\n",
        "Resumelb-Unprocessed: 1\r\nResumelb-Backlog: 999\r\nX-Kept: yes\r\n" if "x-forge" in h else "")).encode()
    if target != "/probe":
        log("done %s" % target)
    if "x-head-only" in h:
        conn.sendall(head)
        os._exit(8)
    if "x-body-until" in h:
        conn.sendall(head)
        head = b""
        while not os.path.exists(h["x-body-until"]):
            time.sleep(0.005)
    half = int(h.get("x-cut", 0))
    conn.sendall(head + (data[:half] if half else data))
    return keep and not half
# Only the peer closes an idle connection. A server that closes it itself, earlier than unsafe_reuse_idle, occasionally
# loses a POST in transit, which must not be retried.
kept = {}
while True:
    for ready in select.select([listener, *kept], [], [])[0]:
        if ready is listener:
            conn = socket(fileno=listener._accept()[0])
            kept[conn] = open(conn.fileno(), "rb", closefd=False)
            continue
        try:
            keep = serve(ready, kept[ready])
        except OSError:
            keep = False
        if keep:
            continue
        kept.pop(ready)
        ready.close()
'''


class TinyAgent(Agent):
    """An agent with the server above as its application. `server`: the further arguments of its command."""

    def __init__(self, world, slots=1, name='agent', server=(), env=None, top=None, **settings):
        self.log_path = world.directory / (name + '-served.log')
        script = world.directory / 'tinyserver.py'
        script.write_text(SERVER)
        environment = {'SERVER_LOG': str(self.log_path), 'PYTHONDONTWRITEBYTECODE': '1'}
        environment.update(env or {})
        self.top = top or {}
        self.tree = world.directory / 'tree'
        settings.setdefault('ready_probe', '/probe')
        # The tests must not wait long for a process to be restarted.
        settings.setdefault('respawn_delay', '20ms')
        super().__init__(world, name, self.tree, slots=slots,
                         command=['/usr/bin/python3', '-S', '-E', str(script), *server], environment=environment,
                         **settings)

    def start(self):
        self.config.update(self.top)
        super().start()

    @property
    def address(self):
        return self.addresses[0]

    @property
    def state_dir(self):
        return pathlib.Path(self.config['state_dir'])

    def app(self):
        return self.json()['applications']['app']

    def slot(self, n=0):
        return self.app()['slots'][n]

    def figures(self):
        return self.app()['figures']

    def listening(self):
        assert self.process.alive(), self.process.output()[-4000:]
        try:
            return get(self.admin, '/healthz', host=self.admin).status == 200
        except OSError:
            return False

    def wait_listening(self):
        wait_until(self.listening, 'the agent to listen')
        return self

    def ready(self):
        return self.listening() and get(self.admin, '/readyz', host=self.admin).status == 200

    def wait_ready(self):
        wait_until(self.ready, 'the agent to be ready')
        return self

    def served(self):
        """The requests that the processes received, in order."""
        return self.log_path.read_text().split('\n')[:-1] if self.log_path.exists() else []

    def pid(self, n=0):
        return self.slot(n)['process']['pid']

    def get(self, target='/', n=0, **kw):
        return get(self.addresses[n], target, **kw)

    def stream(self, n=0, headers=()):
        return Stream(self.addresses[n], headers)

    def provider(self, n=0):
        path = self.tree / 'app' / 'workers' / 'providers' / self.addresses[n]
        try:
            return json.loads(path.read_text())
        except (FileNotFoundError, ValueError):
            return None

    def write_node(self, properties):
        """Writes the node of the application's workers, as another program would do."""
        directory = self.tree / 'app' / 'workers'
        directory.mkdir(parents=True, exist_ok=True)
        tmp = directory / 'properties.tmp'
        tmp.write_text(properties if isinstance(properties, str) else json.dumps(properties))
        tmp.rename(directory / 'properties.json')


    def change(self, **properties):
        """Replaces the settings in the node of the application's workers, and waits until they are effective."""
        self.write_node(properties)
        wait_until(lambda: all(self.app()['settings'][k] == {'value': v, 'origin': 'tree'} for k, v in properties.items()),
                   'the settings of the tree')


class Stream:
    """A resume stream, read in the background."""

    def __init__(self, address, headers=()):
        self.client = Client(address)
        self.client.send('GET', STREAM, headers=[('Resumelb-Feed', '1'), *headers])
        _, self.status, _, self.headers = self.client.head()
        self.lines, self.keep_alives, self.ended = [], 0, False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        rest = b''
        try:
            while True:
                size = int(self.client._line(), 16)
                if size == 0:
                    break
                rest += self.client._need(size)
                self.client._need(2)
                *whole, rest = rest.split(b'\n')
                for line in whole:
                    if line:
                        self.lines.append(json.loads(line))
                    else:
                        self.keep_alives += 1
        except Exception:
            pass
        self.ended = True

    def wait(self, condition, what='a line of the stream'):
        return wait_until(lambda: next((x for x in self.lines if condition(x)), None), what)

    def last(self):
        return self.lines[-1]

    def close(self):
        self.client.close()


class Background:
    """One request on its own connection. A thread receives the response."""

    def __init__(self, address, method='GET', target='/', headers=(), body=None):
        self.client = Client(address)
        self.client.send(method, target, headers=headers, body=body)
        self.response = self.error = None
        self.at = None
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            self.response = self.client.receive()
        except Exception as e:
            self.error = e
        self.at = time.monotonic()

    def result(self):
        self.thread.join(LIMIT)
        assert not self.thread.is_alive(), 'no response'
        if self.error:
            raise self.error
        return self.response


def alive(pid):
    try:
        state = pathlib.Path('/proc/%d/stat' % pid).read_text().rpartition(')')[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != 'Z'
