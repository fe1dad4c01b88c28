# SPDX-License-Identifier: Apache-2.0
"""
gunicorn, started and ended at half of the cost, for tests that start many: run as a script by `python3 -S`.

What gunicorn imports and these tests do not use is an empty module, and its processes end without tearing the interpreter down, for
which a forked worker would copy most of its memory. test_applications, test_app_servers, test_django and test_agent have gunicorn as
it is installed.
"""
import gc
import logging
import os
import sys
import time
import types


def replace(name, **attributes):
    module = sys.modules[name] = types.ModuleType(name)
    vars(module).update(attributes)
    parent, _, child = name.rpartition('.')
    if parent:
        setattr(sys.modules[parent], child, module)


def http_date(seconds=None, localtime=False, usegmt=True):
    return time.strftime('%a, %d %b %Y %H:%M:%S GMT', time.gmtime(seconds))


def leave(status=0):
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)


sys.path[0] = ''        # that of this file has a module `http`
sys.path.append('/usr/lib/python3/dist-packages')
replace('pkg_resources')
replace('logging.config', dictConfig=None, fileConfig=None)
replace('email')
replace('email.utils', formatdate=http_date)
if '--certfile' not in sys.argv:
    replace('ssl', PROTOCOL_TLS=2, PROTOCOL_SSLv23=2, CERT_NONE=0, SSLError=type('SSLError', (OSError,), {}))
gc.disable()
from gunicorn.app import wsgiapp  # noqa: E402
gc.freeze()
gc.enable()
sys.exit = leave
wsgiapp.run()
