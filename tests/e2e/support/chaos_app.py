# SPDX-License-Identifier: Apache-2.0
"""The WSGI application of the chaos run: the target defines the body; a POST is recorded before it gets a response."""
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
    # The end of the connection of a killed process cannot be distinguished from the end of a body without framing: therefore no
    # body here is delimited by the end of the connection.
    if framing == 'length':
        start_response('200 OK', [*headers, ('Content-Length', str(len(body)))])
        return [body]
    start_response('200 OK', headers)
    return dribble(body) if framing == 'slow' else iter(pieces(body))


def dribble(body):
    """Sends the body so slowly that interventions can happen in the middle."""
    for piece in pieces(body):
        time.sleep(0.01)
        yield piece
