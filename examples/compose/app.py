# SPDX-License-Identifier: Apache-2.0
"""A small application: responds with its host name. At SIGTERM it finishes the requests in flight."""
import http.server
import os
import signal
import socket
import threading
import time

requests = threading.Semaphore(64)
stopping = threading.Event()


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True

    def do_GET(self):
        with requests:
            self.rfile.read(int(self.headers.get('Content-Length') or 0))
            body = ('%s %s %s\n' % (socket.gethostname(), self.command, self.path)).encode()
            self.send_response(200)
            self.send_header('Content-Length', str(len(body)))
            if stopping.is_set():
                self.send_header('Connection', 'close')
            self.end_headers()
            self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


def stop(*_):
    stopping.set()
    threading.Thread(target=server.shutdown).start()


server = Server((os.environ.get('POD_IP', ''), int(os.environ.get('PORT', '8000'))), Page)
signal.signal(signal.SIGTERM, stop)
server.serve_forever()
server.socket.close()
time.sleep(0.5)
for _ in range(64):
    requests.acquire()
