# SPDX-License-Identifier: Apache-2.0
import hashlib
import os
import time

from django.http import FileResponse, HttpResponse, JsonResponse, StreamingHttpResponse
from django.middleware.csrf import get_token
from django.urls import reverse


def process_number(get_response):
    """Middleware: each response states the process that made it."""
    def middleware(request):
        response = get_response(request)
        response['X-Pid'] = str(os.getpid())
        return response
    return middleware


def healthz(request):
    return HttpResponse('ok\n', content_type='text/plain')


def upload(request):
    """GET: the form's CSRF token. POST: length and digest of the uploaded file."""
    if request.method != 'POST':
        return HttpResponse(get_token(request), content_type='text/plain')
    digest, length = hashlib.sha256(), 0
    for piece in request.FILES['file'].chunks():
        digest.update(piece)
        length += len(piece)
    return JsonResponse({'length': length, 'sha256': digest.hexdigest(), 'name': request.FILES['file'].name})


def stream(request):
    """Sends a first piece immediately, and the last one when the file `until` exists."""
    def pieces():
        yield 'first\n'
        while not os.path.exists(request.GET['until']):
            time.sleep(0.01)
        yield 'last\n'
    return StreamingHttpResponse(pieces(), content_type='text/plain')


def file(request):
    return FileResponse(open(os.path.abspath('download.bin'), 'rb'), as_attachment=True)


def environment(request):
    return JsonResponse({'address': request.META['REMOTE_ADDR'], 'scheme': request.scheme, 'host': request.get_host(),
                         'url': request.build_absolute_uri(reverse('environment')),
                         'for': request.META.get('HTTP_X_FORWARDED_FOR'), 'proto': request.META.get('HTTP_X_FORWARDED_PROTO')})


def broken(request):
    raise RuntimeError('made for a test')
