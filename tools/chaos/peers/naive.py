#!/usr/bin/env python3
"""A peer for redlock-chaos that is wrong on purpose.

One SET NX PX to the first node only, and a release that deletes whatever is there: what people
write first. Speaks the line protocol that docs/harness.md describes. Standard library only.
"""

import os
import sys
import time

from resp import Connection, RedisError

PAUSE_S = 0.02


def main():
    connection = None
    names = {}
    for line in sys.stdin:
        words = line.split()
        if not words or words[0] == "quit":
            break
        number = words[1] if words[0] != "nodes" else "0"
        try:
            if words[0] == "nodes":
                connection = Connection(words[1])
                answer = "ok 0"
            elif words[0] == "acquire":
                answer = acquire(connection, names, *words[1:])
            elif words[0] == "extend":
                connection.command("PEXPIRE", names[number], words[2])
                answer = f"ok {number} {words[2]}"
            elif words[0] == "release":
                connection.command("DEL", names.pop(number))
                answer = f"ok {number}"
            else:
                answer = f"error {number} unknown command"
        except (OSError, RedisError) as error:
            answer = f"error {number} {error}"
        print(answer, flush=True)


def acquire(connection, names, number, name, ttl_ms, wait_ms):
    owner = os.urandom(16).hex()
    give_up = time.monotonic() + int(wait_ms) / 1000
    while True:
        if connection.command("SET", name, owner, "NX", "PX", ttl_ms) == "OK":
            names[number] = name
            return f"ok {number} {ttl_ms} {owner}"
        if time.monotonic() + PAUSE_S > give_up:
            return f"busy {number}"
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
