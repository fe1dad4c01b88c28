# SPDX-License-Identifier: Apache-2.0
"""A site with Django's own admin, as `startproject` makes it, in production mode. `proxy` is written from docs/guide/applications.md."""
import pathlib

from .proxy import SECURE_PROXY_SSL_HEADER  # noqa: F401

BASE_DIR = pathlib.Path(__file__).resolve().parent.parent
SECRET_KEY = 'only for tests, public'
DEBUG = False
ALLOWED_HOSTS = ['django.example']
INSTALLED_APPS = ['django.contrib.admin', 'django.contrib.auth', 'django.contrib.contenttypes', 'django.contrib.sessions',
                  'django.contrib.messages', 'django.contrib.staticfiles']
MIDDLEWARE = ['mysite.proxy.client_address', 'mysite.views.process_number', 'django.middleware.security.SecurityMiddleware',
              'django.contrib.sessions.middleware.SessionMiddleware', 'django.middleware.common.CommonMiddleware',
              'django.middleware.csrf.CsrfViewMiddleware', 'django.contrib.auth.middleware.AuthenticationMiddleware',
              'django.contrib.messages.middleware.MessageMiddleware', 'django.middleware.clickjacking.XFrameOptionsMiddleware']
ROOT_URLCONF = 'mysite.urls'
TEMPLATES = [{'BACKEND': 'django.template.backends.django.DjangoTemplates', 'APP_DIRS': True, 'OPTIONS': {'context_processors': [
    'django.template.context_processors.request', 'django.contrib.auth.context_processors.auth',
    'django.contrib.messages.context_processors.messages']}}]
DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': BASE_DIR / 'db.sqlite3', 'OPTIONS': {'timeout': 600}}}
DEFAULT_AUTO_FIELD = 'django.db.models.BigAutoField'
# The passwords of tests are not worth 260,000 rounds.
PASSWORD_HASHERS = ['django.contrib.auth.hashers.MD5PasswordHasher']
STATIC_URL = '/static/'
FILE_UPLOAD_TEMP_DIR = BASE_DIR
