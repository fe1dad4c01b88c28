# SPDX-License-Identifier: Apache-2.0
"""How gunicorn runs one newspapers process: one worker, one thread, persistent connections.

The listening socket is inherited from the process that starts it (LISTEN_FDS), or opened by --bind.
"""
wsgi_app = 'newspapers:application'
workers = 1
# The default worker closes each connection; this one does not, and still serves one request at a time.
worker_class = 'gthread'
threads = 1
keepalive = 75
graceful_timeout = 5
worker_tmp_dir = '/dev/shm'
loglevel = 'warning'
