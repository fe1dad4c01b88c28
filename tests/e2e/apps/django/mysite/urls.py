# SPDX-License-Identifier: Apache-2.0
from django.contrib import admin
from django.urls import path

from . import views

urlpatterns = [
    path('admin/', admin.site.urls),
    path('healthz', views.healthz),
    path('upload', views.upload),
    path('stream', views.stream),
    path('file', views.file),
    path('environment', views.environment, name='environment'),
    path('broken', views.broken),
]
