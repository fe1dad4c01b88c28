# SPDX-License-Identifier: Apache-2.0
"""
A minimal server of a WSGI application: one process, one request at a time, persistent connections. It is only for
measuring the cost of a proxy in front of it, which the cost of gunicorn would hide.

    bare_wsgi.py MODULE:CALLABLE          on the inherited socket (LISTEN_FDS)
    bare_wsgi.py MODULE:CALLABLE PORT     on 127.0.0.1:PORT
"""
import importlib
import io
import os
import selectors
import signal
import socket
import sys


def listener():
    if len(sys.argv) > 2:
        return socket.create_server(('127.0.0.1', int(sys.argv[2])), backlog=1000)
    if os.environ.get('LISTEN_FDS') != '1':
        raise SystemExit('no port and no inherited socket')
    return socket.socket(fileno=3)


def environ(head, body):
    first, *lines = head.decode('latin-1').split('\r\n')
    method, target, version = first.split(' ')
    path, _, query = target.partition('?')
    env = {'REQUEST_METHOD': method, 'PATH_INFO': path, 'QUERY_STRING': query, 'SERVER_PROTOCOL': version,
           'SCRIPT_NAME': '', 'SERVER_NAME': '127.0.0.1', 'SERVER_PORT': '0', 'wsgi.version': (1, 0),
           'wsgi.url_scheme': 'http', 'wsgi.input': io.BytesIO(body), 'wsgi.errors': sys.stderr,
           'wsgi.multithread': False, 'wsgi.multiprocess': True, 'wsgi.run_once': False}
    for line in lines:
        name, _, value = line.partition(':')
        env['HTTP_' + name.upper().replace('-', '_')] = value.strip()
    env['CONTENT_LENGTH'] = env.pop('HTTP_CONTENT_LENGTH', '')
    return env


def respond(application, head, body):
    """The response's bytes, and whether the connection stays open."""
    started = []
    env = environ(head, body)
    parts = application(env, lambda status, headers, exc_info=None: started.append((status, headers)))
    data = b''.join(parts)
    if hasattr(parts, 'close'):
        parts.close()
    status, headers = started[-1]
    kept = env.get('HTTP_CONNECTION', '').lower() != 'close'
    lines = ['HTTP/1.1 ' + status, *('%s: %s' % h for h in headers if h[0].lower() != 'content-length'),
             'Content-Length: %d' % len(data), *([] if kept else ['Connection: close'])]
    return '\r\n'.join(lines).encode('latin-1') + b'\r\n\r\n' + data, kept


def body_bytes(head):
    for line in head.split(b'\r\n')[1:]:
        name, _, value = line.partition(b':')
        if name.lower() == b'content-length':
            return int(value)
    return 0


def serve(application, sock, buffer):
    """Serves the received requests of one connection. Returns False if it must be closed."""
    data = sock.recv(65536)
    buffer += data
    while b'\r\n\r\n' in buffer:
        head, _, rest = bytes(buffer).partition(b'\r\n\r\n')
        size = body_bytes(head)
        if len(rest) < size:
            break
        del buffer[:len(head) + 4 + size]
        response, kept = respond(application, head, rest[:size])
        sock.sendall(response)
        if not kept:
            return False
    return bool(data)


def main():
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    # Modules are found in the current directory, as with other servers.
    sys.path.insert(0, os.getcwd())
    module, _, name = sys.argv[1].partition(':')
    application = getattr(importlib.import_module(module), name)
    listening = listener()
    select = selectors.DefaultSelector()
    select.register(listening, selectors.EVENT_READ)
    while True:
        for key, _ in select.select():
            if key.fileobj is listening:
                sock, _ = listening.accept()
                select.register(sock, selectors.EVENT_READ, bytearray())
                continue
            try:
                stays = serve(application, key.fileobj, key.data)
            except OSError:
                stays = False
            if not stays:
                select.unregister(key.fileobj)
                key.fileobj.close()


if __name__ == '__main__':
    main()
