# SPDX-License-Identifier: Apache-2.0
"""Chromium, controlled with the DevTools protocol over a pipe: the content, console messages, requests and picture of a page."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from .base import LIMIT, wait_until

PROGRAM = shutil.which('chromium')
FLAGS = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--no-proxy-server',
         '--disable-background-networking', '--disable-component-update', '--disable-extensions', '--disable-sync',
         '--disable-breakpad', '--disable-features=SpareRendererForSitePerProcess', '--in-process-gpu', '--hide-scrollbars',
         '--force-device-scale-factor=1', '--lang=en', '--remote-debugging-pipe']


def place(to_read, to_write):
    """Called in the child: moves the ends of the pipe to the descriptors 3 and 4, where Chromium expects them."""
    ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_read, to_write)]
    for wanted, fd in zip((3, 4), ends):
        os.dup2(fd, wanted)


class Browser:
    """One page. `requests`: the URLs that it requested; `complaints`: the errors, warnings and exceptions of its console."""

    def __init__(self, width=1280, height=900, dark=False, scripts=True, mobile=False):
        self.profile = tempfile.mkdtemp(prefix='chromium-')
        to_read, self.out = os.pipe()
        self.inp, to_write = os.pipe()
        self.process = subprocess.Popen(
            [PROGRAM, *FLAGS, '--user-data-dir=' + self.profile, 'about:blank'], pass_fds=(3, 4),
            preexec_fn=lambda: place(to_read, to_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.serial, self.session, self.requests, self.complaints, self.responses = b'', 0, None, [], [], {}
        context = self.call('Target.createBrowserContext')['browserContextId']
        target = self.call('Target.createTarget', url='about:blank', browserContextId=context)['targetId']
        self.session = self.call('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Network', 'Log'):
            self.call(domain + '.enable')
        self.emulate(width, height, dark, scripts, mobile)

    def emulate(self, width=1280, height=900, dark=False, scripts=True, mobile=False):
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.call('Emulation.setEmulatedMedia',
                  features=[{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])
        self.call('Emulation.setScriptExecutionDisabled', value=not scripts)

    def renew(self, **what):
        """
        Replaces the page by an empty one without any state. Starting a new program would take seconds of processor time, and a
        new process for the page one more second.
        """
        self.emulate()
        self.open('about:blank')
        self.call('Network.clearBrowserCookies')
        self.call('Network.clearBrowserCache')
        self.call('Storage.clearDataForOrigin', origin='*', storageTypes='all')
        self.requests, self.complaints = [], []
        self.emulate(**what)

    def call(self, method, **params):
        self.serial += 1
        message = {'id': self.serial, 'method': method, 'params': params}
        if self.session:
            message['sessionId'] = self.session
        os.write(self.out, json.dumps(message).encode() + b'\0')
        number, deadline = self.serial, time.monotonic() + LIMIT
        while number not in self.responses:
            self.read(deadline - time.monotonic())
        response = self.responses.pop(number)
        assert 'error' not in response, (method, response)
        return response['result']

    def read(self, seconds):
        """Processes received messages. Waits at most SECONDS for one."""
        assert seconds > 0 and select.select([self.inp], [], [], seconds)[0], 'Chromium does not respond'
        data = os.read(self.inp, 1 << 20)
        assert data, 'Chromium has ended'
        self.buffer += data
        *messages, self.buffer = self.buffer.split(b'\0')
        for m in map(json.loads, messages):
            if 'id' in m:
                self.responses[m['id']] = m
            elif m.get('sessionId') == self.session:
                self.on_event(m['method'], m['params'])

    def on_event(self, method, p):
        if method == 'Network.requestWillBeSent':
            self.requests.append(p['request']['url'])
        elif method == 'Runtime.exceptionThrown':
            self.complaints.append(str(p['exceptionDetails']))
        elif method == 'Runtime.consoleAPICalled' and p['type'] in ('error', 'warning', 'assert'):
            self.complaints.append(str(p['args']))
        elif method == 'Log.entryAdded' and p['entry']['level'] in ('error', 'warning'):
            self.complaints.append(p['entry']['text'] + ' ' + p['entry'].get('url', ''))

    def open(self, url):
        self.call('Page.navigate', url=url)
        wait_until(lambda: self.js('document.readyState') == 'complete', url)

    def js(self, expression):
        r = self.call('Runtime.evaluate', expression=expression, returnByValue=True, awaitPromise=True)
        assert 'exceptionDetails' not in r, r
        return r['result'].get('value')

    def open_status(self, admin):
        """Opens the status page at ADMIN and waits for its live data."""
        self.open('http://%s/' % admin)
        wait_until(lambda: self.js('document.getElementById("live").textContent') == 'live', 'it to be live')

    def text(self):
        """The visible text of the status page."""
        return self.js('document.getElementById("main").innerText')

    def html(self):
        """The document, also with scripts disabled."""
        def told():
            try:
                root = self.call('DOM.getDocument', depth=-1)['root']['nodeId']
                return self.call('DOM.getOuterHTML', nodeId=root)['outerHTML']
            except AssertionError as e:     # the document was replaced in the meantime
                if 'Could not find node' not in str(e):
                    raise
        return wait_until(told, 'a document')

    def press(self, key, code=None, text=None):
        for kind in ('keyDown', 'keyUp'):
            event = {'type': kind, 'key': key, 'code': code or key,
                     'windowsVirtualKeyCode': {'Tab': 9, 'Enter': 13, ' ': 32}.get(key, ord(key[0].upper()))}
            if kind == 'keyDown' and (text or key == 'Enter'):
                event['text'] = text or '\r'
            self.call('Input.dispatchKeyEvent', **event)

    def type(self, text):
        self.call('Input.insertText', text=text)

    def picture(self, path=None, width=None, height=None):
        """A PNG of the window, or of WIDTH by HEIGHT pixels from the top of the page."""
        clip = {'clip': {'x': 0, 'y': 0, 'width': width, 'height': height, 'scale': 1}} if width else {}
        png = base64.b64decode(self.call('Page.captureScreenshot', format='png', captureBeyondViewport=bool(width),
                                         **clip)['data'])
        if path:
            path.write_bytes(png)
        return png

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.inp)
        shutil.rmtree(self.profile, ignore_errors=True)
