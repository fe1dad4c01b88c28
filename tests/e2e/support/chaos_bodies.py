# SPDX-License-Identifier: Apache-2.0
"""The bodies of the chaos run: every target has its own body, which both ends can compute."""
import hashlib
import random
import re

# /get/FRAMING/LENGTH/ID or /post/FRAMING/LENGTH/ID; FRAMING is the framing of the response.
TARGET = re.compile(r'/(get|post)/(length|chunked|close|slow)/(\d{1,7})/([0-9a-z-]{1,64})')


def body_of(target):
    """LENGTH bytes that are unique for the target (except very short ones)."""
    length = int(TARGET.fullmatch(target)[3])
    return random.Random(hashlib.sha256(target.encode()).digest()).randbytes(length)


def framing_of(target):
    return TARGET.fullmatch(target)[2]


def digest(body):
    return hashlib.sha256(body).hexdigest()


def pieces(body, n=8):
    """Divides BODY into at most N pieces."""
    size = max(1, -(-len(body) // n))
    return [body[i:i + size] for i in range(0, len(body), size)]


def record(path, target, body):
    """Records the execution of a POST before its response: atomically writes a line to the file at PATH."""
    sound = digest(body) == digest(body_of(target))
    with open(path, 'ab', buffering=0) as f:
        f.write(b'%s %s\n' % (target.encode(), b'sound' if sound else b'corrupt'))
