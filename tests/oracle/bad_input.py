#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The replay tool reports invalid lines and continues with the next, and accepts limits of valid ones: bad_input.py PROGRAM."""
import json
import subprocess
import sys

POOL = '{"kind": "pool", "settings": {}}'
WORKER = '{"kind": "worker_resume", "settings": {"history": 2}}'

# (lines, what each is answered with: None = an error, else members of the answer)
CASES = [
    ([POOL, "", "[]", "nonsense", '{"op": "fly"}', '{"op": "get"}', '{"op": "get", "class": "a"}'],
     [{"ok": True}, None, None, None, None, None, {"pick": None}]),
    (['{"kind": "unheard-of"}', '{"op": "state"}', POOL, '{"op": "state"}'],
     [None, None, {"ok": True}, {"nworkers": 0, "line": [], "classes": {}, "pool_decay": None}]),
    ([POOL, '{"op": "put", "worker": "w"}', '{"op": "remove", "worker": "w"}',
      '{"op": "resume", "worker": "w", "resume": {"a": "fast"}}',
      '{"op": "resume", "worker": "w", "resume": {"a": NaN}}',
      '{"op": "resume", "worker": "w", "resume": {"a": 1e999}}',
      '{"op": "resume", "worker": "w", "resume": {"a": 3}, "colour": "red"}',
      '{"op": "put", "worker": "w"}',
      '{"op": "settings", "settings": {"backlog_history": 0.5}}',
      '{"op": "settings", "settings": {"variance": "2"}}',
      '{"class": "a", "op": "get"}', '{"op": "put", "worker": "w"}', '{"op": "remove", "worker": "w"}',
      '{"op": "remove", "worker": "w"}', '{"op": "resume", "worker": "w", "resume": {}}'],
     [{"ok": True}, None, None, None, None, None, {"nworkers": 1}, None, None, None,
      {"pick": "w", "via": "skilled", "backlog": {"w": 1}}, {"backlog": {"w": 0}}, {"nworkers": 0}, None, None]),
    ([POOL, json.dumps({"op": "resume", "worker": "w\u0001\"\\\U0001F600", "resume": {"x" * 1000: 2}}),
      '{"op": "get", "class": "\\ud83d\\ude00"}', '{"op": "get", "class": "' + "x" * 1000 + '"}',
      '{"op": "get", "class": "\\ud83d"}'],
     [{"ok": True}, {"nworkers": 1}, {"pick": "w\u0001\"\\\U0001F600", "via": "lru"}, {"via": "skilled"}, None]),
    (['{"kind": "classless", "settings": {}, "single_version": true}',
      '{"op": "resume", "worker": "w1", "version": "1", "resume": {}}', '{"op": "get", "class": "a"}',
      '{"op": "resume", "worker": "w2", "version": "2", "resume": {}}',
      '{"op": "resume", "worker": "w3", "version": "2", "resume": {}}',
      '{"op": "put", "worker": "w1"}', '{"op": "remove", "worker": "w2"}', '{"op": "remove", "worker": "w3"}',
      '{"op": "get", "class": "a"}', '{"op": "put", "worker": "w1"}'],
     [{"ok": True}, {"active_version": "1"}, {"pick": "w1"}, {"active_version": "1", "nworkers": 1},
      {"active_version": "2", "nworkers": 2}, {"backlog": {"w1": 0}}, {"active_version": "2"},
      {"active_version": "1"}, {"pick": "w1", "backlog": {"w1": 1}}, {"pool_backlog": 0}]),
    ([WORKER, '{"op": "request", "class": "a"}', '{"op": "request", "class": "a", "elapsed": -5}',
      '{"op": "settings", "settings": {"history": 0}}', '{"op": "request", "class": "a", "elapsed": 1}',
      '{"op": "connect"}', '{"op": "restart"}', '{"op": "state"}'],
     [{"ok": True}, None, {"generation": 1}, None, {"generation": 2}, {}, {"effective": {"history": 9999, "max_skill_age": 99990}},
      {"generation": 0}]),
    # max_skill_age: 0 is permitted, and retains the class of the latest request only.
    ([WORKER, '{"op": "settings", "settings": {"history": 2, "max_skill_age": -1}}',
      '{"op": "settings", "settings": {"history": 2, "max_skill_age": 0}}',
      '{"op": "request", "class": "a", "elapsed": 0.5}', '{"op": "request", "class": "b", "elapsed": 0.5}'],
     [{"ok": True}, None, {"effective": {"history": 2, "max_skill_age": 0}}, {"published": None}, {"published": {"b": 2.0}}]),
]


def main(program):
    status = 0
    for lines, expected in CASES:
        run = subprocess.run([program], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
        answers = [json.loads(line) for line in run.stdout.splitlines()]
        if run.returncode != 0 or len(answers) != len(expected):
            print(f"status {run.returncode}, {len(answers)} answers to {len(expected)} lines: {run.stderr}")
            status = 1
        for line, want, got in zip(lines, expected, answers):
            good = "error" in got if want is None else want.items() <= got.items()
            if not good:
                print(f"{line[:100]}: {got}, expected {'an error' if want is None else want}")
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
