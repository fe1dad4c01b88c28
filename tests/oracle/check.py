#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Replay recorded traces against a program and compare its answers (README.md beside this file).

    check.py [--shared] PROGRAM TRACE...

The program gets the next line only when it has answered the last one, so a missing flush hangs the
test instead of passing by luck. Every recorded number is compared, within 1e-9 relative. Exit status:
0 all as recorded, 1 a difference, 2 usage. --shared turns the pool's setting backlog_shared on.
"""
import gzip
import json
import subprocess
import sys

TOLERANCE = 1e-9

# What a line has besides what the original answered.
GIVEN = {"op", "class", "worker", "version", "resume", "settings", "elapsed"}
# Remarks for people, and freedom of choice that we do not make use of.
REMARKS = {"note", "acceptable", "version_tie"}
HEADER = ("kind", "settings", "single_version", "initial_resume")
# Objects with workers or classes as member names: extra members are an error.
NAMED = {"workers", "detached", "inactive", "classes", "resume", "published", "skills"}


class Difference(Exception):
    """What the program answered, and what it should have."""


def answers_of(row):
    """The members of a line that are answers. A resume is one, unless it is what came in."""
    given = GIVEN - ({"resume"} if row["op"] in ("connect", "restart", "state") else set())
    return {k: v for k, v in row.items() if k not in given | REMARKS}


def inputs_of(row):
    return {k: row[k] for k in row if k == "op" or k not in answers_of(row).keys() | REMARKS}


def compare_numbers(path, want, got):
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        raise Difference(f"{path}: {got!r} is not a number, recorded {want!r}")
    if isinstance(want, int):
        if got != want:
            raise Difference(f"{path}: {got!r}, recorded {want!r}")
    elif abs(want - got) > TOLERANCE * max(abs(want), abs(got)):
        raise Difference(f"{path}: {got!r}, recorded {want!r}")


def compare(path, want, got, exact):
    """EXACT: members in excess are a difference, too."""
    if isinstance(want, dict):
        if not isinstance(got, dict):
            raise Difference(f"{path}: {got!r} is not an object")
        missing = want.keys() - got.keys()
        excess = got.keys() - want.keys() if exact else ()
        if missing or excess:
            raise Difference(f"{path}: missing {sorted(missing)}, in excess {sorted(excess)}")
        for key, value in want.items():
            compare(f"{path}.{key}", value, got[key], exact)
    elif isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            raise Difference(f"{path}: {got!r}, recorded {want!r}")
        for i, value in enumerate(want):
            compare(f"{path}[{i}]", value, got[i], exact)
    elif isinstance(want, (int, float)) and not isinstance(want, bool):
        compare_numbers(path, want, got)
    elif got is not want and got != want:
        raise Difference(f"{path}: {got!r}, recorded {want!r}")


def by_worker(classes):
    """{class: [[worker, score], ...]} without the order of entries, which is not an answer."""
    return {c: {worker: score for worker, score in entries} for c, entries in classes.items() if entries}


def check_answer(row, got):
    if "error" in got:
        raise Difference(f"error: {got['error']}")
    for name, want in answers_of(row).items():
        # Of a worker that has left and finished, nothing is known any more.
        if name not in got and row.get("detached") is True and name in ("backlog", "mean_backlog"):
            continue
        if name not in got:
            raise Difference(f"{name} is missing")
        have = got[name]
        if name == "classes":
            want, have = by_worker(want), by_worker(have)
        elif name == "deactivated":
            want, have = sorted(want), sorted(have)
        exact = name in NAMED and not isinstance(want, bool)
        compare(name, want, have, exact)


def replay(program, path, more):
    """MORE: further members of the header."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    header = {k: rows[0][k] for k in HEADER if k in rows[0]} | more
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

        def ask(line):
            process.stdin.write(json.dumps(line).encode() + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                raise Difference("the program ended")
            return json.loads(answer)

        number = 1
        try:
            if ask(header) != {"ok": True}:
                raise Difference("the header is rejected")
            for number, row in enumerate(rows[1:], 2):
                check_answer(row, ask(inputs_of(row)))
            process.stdin.close()
            if process.stdout.read():
                raise Difference("answers after the last operation")
            if process.wait() != 0:
                raise Difference(f"exit status {process.returncode}")
        except Difference as difference:
            process.kill()
            raise Difference(f"{path}:{number}: {difference}\n  {json.dumps(rows[number - 1])[:300]}")
    return len(rows) - 1


def main(args):
    more = {"backlog_shared": True} if args[:1] == ["--shared"] else {}
    args = args[len(more):]
    if len(args) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    status = 0
    for path in args[1:]:
        try:
            print(f"{path}: {replay(args[0], path, more)} operations as recorded")
        except Difference as difference:
            print(difference)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
