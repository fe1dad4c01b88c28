# SPDX-License-Identifier: Apache-2.0
"""Runs resumelbctl; a load balancer with an agent and gunicorn for it."""
import contextlib
import fcntl
import json
import os
import struct
import subprocess

from support.base import BIN, LIMIT

TOKEN = 'a-word-that-cannot-be-guessed'


class Response:
    def __init__(self, done):
        self.code, self.out, self.error = done.returncode, done.stdout, done.stderr

    def json(self):
        return json.loads(self.out)


def ctl(*words, code=0, text=None, env=None, timeout=LIMIT):
    """Runs resumelbctl and checks its exit code, and that it did not crash."""
    done = subprocess.run([str(BIN / 'resumelbctl'), *map(str, words)], input=text, text=True, capture_output=True,
                          timeout=timeout, env={**os.environ, **(env or {})})
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    assert 'Sanitizer' not in done.stderr and 'assertion failed' not in done.stderr, done.stderr
    return Response(done)


@contextlib.contextmanager
def provider_file(directory, name, properties):
    """Creates the file of a provider in a directory tree, as a program does that registers itself: with a lock on the open file."""
    directory.mkdir(parents=True, exist_ok=True)
    # It is renamed into place after it is locked: an unlocked file counts as left by a dead program, and is removed.
    new = directory / ('.new-' + name)
    with open(new, 'w') as f:
        fcntl.fcntl(f, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))    # F_OFD_SETLK
        f.write(json.dumps(properties))
        f.flush()
        os.rename(new, directory / name)
        yield
