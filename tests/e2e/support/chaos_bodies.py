# SPDX-License-Identifier: Apache-2.0
"""What is said in the chaos run: every target has a body of its own, which both ends can work out."""
import hashlib
import random
import re

# /get/FRAMING/LENGTH/ID or /post/FRAMING/LENGTH/ID; FRAMING is how the response is to be delimited.
TARGET = re.compile(r'/(get|post)/(length|chunked|close|slow)/(\d{1,7})/([0-9a-z-]{1,64})')


def body_of(target):
    """LENGTH bytes that no other target has (but for the shortest)."""
    length = int(TARGET.fullmatch(target)[3])
    return random.Random(hashlib.sha256(target.encode()).digest()).randbytes(length)


def framing_of(target):
    return TARGET.fullmatch(target)[2]


def digest(body):
    return hashlib.sha256(body).hexdigest()


def pieces(body, n=8):
    """BODY in at most N pieces."""
    size = max(1, -(-len(body) // n))
    return [body[i:i + size] for i in range(0, len(body), size)]


def record(path, target, body):
    """A POST is executed: a line in the file at PATH, whole or not at all, before it is answered."""
    sound = digest(body) == digest(body_of(target))
    with open(path, 'ab', buffering=0) as f:
        f.write(b'%s %s\n' % (target.encode(), b'sound' if sound else b'corrupt'))
