# SPDX-License-Identifier: Apache-2.0
import os

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.wsgi import get_wsgi_application

os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'mysite.settings')
application = StaticFilesHandler(get_wsgi_application())
