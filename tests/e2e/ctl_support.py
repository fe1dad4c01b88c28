# SPDX-License-Identifier: Apache-2.0
"""resumelbctl, run; and a load balancer with agent and gunicorn that it looks at."""
import contextlib
import fcntl
import json
import os
import struct
import subprocess

from support.base import BIN, LIMIT

TOKEN = 'a-word-that-nobody-guesses'


class Answer:
    def __init__(self, done):
        self.code, self.out, self.error = done.returncode, done.stdout, done.stderr

    def json(self):
        return json.loads(self.out)


def ctl(*words, code=0, text=None, env=None, timeout=LIMIT):
    """Run it; its exit code is checked, and that it ended well."""
    done = subprocess.run([str(BIN / 'resumelbctl'), *map(str, words)], input=text, text=True, capture_output=True,
                          timeout=timeout, env={**os.environ, **(env or {})})
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    assert 'Sanitizer' not in done.stderr and 'assertion failed' not in done.stderr, done.stderr
    return Answer(done)


@contextlib.contextmanager
def provider_file(folder, name, properties):
    """In a directory tree, as a program registers itself: a file under a lock of its open file."""
    folder.mkdir(parents=True, exist_ok=True)
    # In place when it is locked: without a lock it is what a dead one has left behind, and is removed.
    new = folder / ('.new-' + name)
    with open(new, 'w') as f:
        fcntl.fcntl(f, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))    # F_OFD_SETLK
        f.write(json.dumps(properties))
        f.flush()
        os.rename(new, folder / name)
        yield
