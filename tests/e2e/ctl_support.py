# SPDX-License-Identifier: Apache-2.0
"""resumelbctl, run; and a load balancer with agent and gunicorn that it looks at."""
import json
import os
import subprocess

from support.base import BIN, PATIENCE

TOKEN = 'a-word-that-nobody-guesses'


class Answer:
    def __init__(self, done):
        self.code, self.out, self.error = done.returncode, done.stdout, done.stderr

    def json(self):
        return json.loads(self.out)


def ctl(*words, code=0, text=None, env=None, timeout=60):
    """Run it; its exit code is checked, and that it ended well."""
    done = subprocess.run([str(BIN / 'resumelbctl'), *map(str, words)], input=text, text=True, capture_output=True,
                          timeout=timeout * PATIENCE, env={**os.environ, **(env or {})})
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    assert 'Sanitizer' not in done.stderr and 'assertion failed' not in done.stderr, done.stderr
    return Answer(done)
