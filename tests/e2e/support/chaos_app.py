# SPDX-License-Identifier: Apache-2.0
"""The application of the chaos run, for any WSGI server: bodies by target, POSTs recorded before they are answered."""
import os
import time

from chaos_bodies import TARGET, body_of, framing_of, pieces, record


def application(environ, start_response):
    target = environ['PATH_INFO']
    if TARGET.fullmatch(target) is None:
        start_response('200 OK', [('Content-Length', '0')])
        return []
    headers = [('Content-Type', 'application/octet-stream'), ('X-Worker', os.environ['APP_NAME'])]
    if environ['REQUEST_METHOD'] == 'POST':
        record(os.environ['EXECUTED'], target, environ['wsgi.input'].read())
    body = body_of(target)
    framing = framing_of(target)
    # The end of a killed process's connection looks like that of a body, which only the framing can tell apart:
    # here nothing is delimited by the connection's end.
    if framing == 'length':
        start_response('200 OK', [*headers, ('Content-Length', str(len(body)))])
        return [body]
    start_response('200 OK', headers)
    return dribble(body) if framing == 'slow' else iter(pieces(body))


def dribble(body):
    """Slow enough for something to happen in the middle."""
    for piece in pieces(body):
        time.sleep(0.01)
        yield piece
