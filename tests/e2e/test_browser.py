# SPDX-License-Identifier: Apache-2.0
"""Chromium opens a page over HTTP/2 that requests everything concurrently: 200 parts, an event stream and a WebSocket."""
import base64
import hashlib
import struct
import subprocess
import threading

import pytest

from support.base import LIMIT, free_port, wait_until
from support.browser import PROGRAM
from support.certificates import Pair
from support.scripted import serve

SCRIPTS, STYLES, IMAGES, FETCHES = 60, 40, 60, 40
EVENTS, MESSAGES = 20, 20
# Large parts fill the windows. Held parts get a response only after the event stream and the WebSocket are established.
SIZES = [10, 1000, 20_000, 300_000]
HELD = 10

PAGE = ('''<!DOCTYPE html><title>loading</title>
<script>
var loaded = {script: 0, style: 0, image: 0, fetch: 0}, failed = [], events = 0, echoes = [];
addEventListener("error", e => failed.push(e.target.src || e.target.href || e.message), true);
var source = new EventSource("/events");
source.onmessage = () => { if (++events == %(events)d) source.close(); };
source.onerror = () => { if (events < %(events)d) failed.push("events"); };
var socket = new WebSocket("wss://" + location.host + "/socket");
socket.onopen = () => { for (let i = 0; i < %(messages)d; ++i) socket.send("message " + i); };
socket.onmessage = m => echoes.push(m.data);
socket.onerror = () => failed.push("socket");
for (let i = 0; i < %(fetches)d; ++i)
    fetch("/fetch/" + i).then(r => r.text()).then(t => { if (t.length) ++loaded.fetch; }).catch(() => failed.push("fetch " + i));
</script>
''' % {'events': EVENTS, 'messages': MESSAGES, 'fetches': FETCHES}
    + ''.join('<link rel="stylesheet" href="/style/%d" onload="++loaded.style">\n' % i for i in range(STYLES))
    + ''.join('<script async src="/script/%d"></script>\n' % i for i in range(SCRIPTS))
    + ''.join('<img src="/image/%d" onload="++loaded.image">\n' % i for i in range(IMAGES))).encode()


def padded(text, number):
    return (text + '/*' + 'x' * SIZES[number % len(SIZES)] + '*/').encode()


KINDS = {
    'script': ('text/javascript', lambda n: padded('++loaded.script;', n)),
    'style': ('text/css', lambda n: padded('.c%d { color: red }' % n, n)),
    'fetch': ('text/plain', lambda n: padded('text', n)),
    'image': ('image/svg+xml', lambda n: b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><!--%s--></svg>'
                               % (b'x' * SIZES[n % len(SIZES)])),
}


class Worker:
    """Serves the page and all its parts."""

    def __init__(self, world):
        self.both = {'/events': threading.Event(), '/socket': threading.Event()}
        self.scripted = world.scripted(serve(self.respond))
        self.address = self.scripted.address

    def respond(self, c, head, body):
        path = head.split(b' ')[1].decode()
        _, kind, number = (path + '/').split('/', 2)
        if path == '/':
            c.respond(PAGE, headers=[('Content-Type', 'text/html')])
        elif path == '/events':
            self.events(c)
        elif path == '/socket':
            self.echo(c, head)
        elif kind in KINDS:
            number = int(number.strip('/'))
            if number < HELD:
                for event in self.both.values():
                    assert event.wait(LIMIT)
            c.respond(KINDS[kind][1](number), headers=[('Content-Type', KINDS[kind][0])])
        else:
            c.respond(b'', '404 Not Found')

    def events(self, c):
        c.write(b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n')
        self.both['/events'].set()
        for i in range(EVENTS):
            c.write(b'data: %d\n\n' % i)
        # The page closes it.
        c.sock.recv(1)
        c.sock.close()

    def echo(self, c, head):
        """Echoes WebSocket messages (RFC 6455) of one short frame."""
        key = [line.split(b':', 1)[1].strip() for line in head.split(b'\r\n') if line.lower().startswith(b'sec-websocket-key')][0]
        accept = base64.b64encode(hashlib.sha1(key + b'258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest())
        c.write(b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n' % accept)
        self.both['/socket'].set()
        stream = c.sock.makefile('rb')
        while len(start := stream.read(2)) == 2:
            opcode, length = start[0] & 15, start[1] & 127
            assert length < 126
            mask, data = stream.read(4), stream.read(length)
            if opcode == 8:
                return
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
            c.write(struct.pack('BB', 0x81, length) + data)


@pytest.fixture(scope='module', autouse=True)
def version():
    print(subprocess.run([PROGRAM, '--version'], capture_output=True, text=True, check=True, timeout=LIMIT).stdout.strip())


@pytest.fixture
def trusting(browser):
    browser.call('Security.setIgnoreCertificateErrors', ignore=True)
    yield browser
    browser.call('Security.setIgnoreCertificateErrors', ignore=False)


def test_a_page_with_200_parts_events_and_a_websocket(world, trusting):
    worker, port, browser = Worker(world), free_port(), trusting
    pair = Pair(world.directory, 'front', ['localhost'])
    lb = world.resumelb({'workers': [worker.address]},
                        listen=[{'address': '127.0.0.1:%d' % port, 'tls': pair.entry, 'http2': True}])
    browser.open('https://127.0.0.1:%d/' % port)
    wanted = {'script': SCRIPTS, 'style': STYLES, 'image': IMAGES, 'fetch': FETCHES}
    assert sum(wanted.values()) == 200

    def complete():
        assert browser.js('failed') == []
        return browser.js('loaded') == wanted and browser.js('events') == EVENTS and len(browser.js('echoes')) == MESSAGES
    wait_until(complete, 'all of the page')
    assert browser.js('echoes') == ['message %d' % i for i in range(MESSAGES)]
    protocols = browser.js('performance.getEntriesByType("resource").filter(e => /\\/(script|style|image|fetch)\\//.test(e.name))'
                           '.map(e => e.nextHopProtocol)')
    assert protocols == ['h2'] * 200
    assert [c for c in browser.complaints if 'favicon' not in c] == []
    assert worker.scripted.errors == []
    assert lb.process.alive()
