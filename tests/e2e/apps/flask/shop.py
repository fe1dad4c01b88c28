# SPDX-License-Identifier: Apache-2.0
"""The common test application in Flask, for gunicorn and uWSGI."""
import hashlib
import os
import time

from flask import Flask, Response, jsonify, redirect, request, send_file, url_for

app = Flask(__name__)


@app.after_request
def process_number(response):
    response.headers['X-Pid'] = str(os.getpid())
    return response


@app.route('/healthz')
@app.route('/hello')
def hello():
    return Response('hello\n', content_type='text/plain')


@app.route('/form', methods=['POST'])
def form():
    return jsonify(request.form.to_dict())


@app.route('/json', methods=['POST'])
def json():
    return jsonify(request.get_json())


@app.route('/enter')
def enter():
    """Sets two cookies and redirects to an absolute URL."""
    response = redirect(url_for('cookies', _external=True))
    response.set_cookie('session', 'a=b c', httponly=True)
    response.set_cookie('theme', 'dark', path='/')
    return response


@app.route('/leave')
def leave():
    return redirect(url_for('hello'))


@app.route('/cookies')
def cookies():
    return jsonify(dict(request.cookies))


@app.route('/upload', methods=['POST'])
def upload():
    data = request.files['file'].read() if request.files else request.get_data()
    return jsonify(length=len(data), sha256=hashlib.sha256(data).hexdigest())


@app.route('/stream')
def stream():
    """Sends a first piece immediately, and the last one when the file `until` exists."""
    until = request.args['until']

    def pieces():
        yield 'first\n'
        while not os.path.exists(until):
            time.sleep(0.01)
        yield 'last\n'
    return Response(pieces(), content_type='text/plain')


@app.route('/file')
def file():
    return send_file(os.path.abspath('download.bin'), conditional=True)


@app.route('/environment')
def environment():
    return jsonify({'address': request.remote_addr, 'scheme': request.scheme, 'host': request.host,
                    'url': url_for('environment', _external=True),
                    'for': request.headers.get('X-Forwarded-For'), 'proto': request.headers.get('X-Forwarded-Proto')})


@app.route('/broken')
def broken():
    raise RuntimeError('made for a test')
