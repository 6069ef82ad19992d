#!/usr/bin/env python3
"""A peer for redlock-chaos: a lock on one instance, done right.

SET NX PX with a value of its own, compare before every change, a validity that counts from before
the command was sent. It depends on its one server, the first node: on that one being up, keeping
its data and its clock. Speaks the line protocol that docs/harness.md describes. Standard library
only.
"""

import os
import random
import sys
import time

from resp import Connection, RedisError

EXTEND = (
    "if redis.call('GET', KEYS[1]) == ARGV[1] then "
    "return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0"
)
RELEASE = (
    "if redis.call('GET', KEYS[1]) == ARGV[1] then "
    "return redis.call('DEL', KEYS[1]) end return 0"
)
PAUSE_S = 0.01


def validity(ttl_ms):
    """Less 1 %, rounded up, and 2 ms: clocks differ."""
    return ttl_ms - (ttl_ms + 99) // 100 - 2


class Single:
    def __init__(self, uri):
        self.connection = Connection(uri)
        self.locks = {}  # by number: name, owner

    def acquire(self, number, name, ttl_ms, wait_ms):
        ttl_ms = int(ttl_ms)
        arrived = time.monotonic()
        while True:
            begin = time.monotonic()
            owner = os.urandom(16).hex()
            self.locks[number] = (name, owner)
            try:
                done = self.connection.command("SET", name, owner, "NX", "PX", ttl_ms) == "OK"
            except OSError:
                self.release(number)  # it may have arrived all the same
                raise
            # Counted from when the harness asked, though the ttl began only now.
            valid_ms = int((begin - arrived) * 1000) + validity(ttl_ms)
            if done and (time.monotonic() - arrived) * 1000 < valid_ms:
                return f"ok {number} {valid_ms} {owner}"
            if done:
                self.release(number)
            self.locks.pop(number, None)
            if time.monotonic() + PAUSE_S > arrived + int(wait_ms) / 1000:
                return f"busy {number}"
            time.sleep(PAUSE_S * (0.5 + random.random()))

    def extend(self, number, ttl_ms):
        name, owner = self.locks[number]
        if self.connection.command("EVAL", EXTEND, 1, name, owner, ttl_ms) != 1:
            return f"lost {number}"
        return f"ok {number} {validity(int(ttl_ms))}"

    def release(self, number):
        name, owner = self.locks.pop(number)
        gone = self.connection.command("EVAL", RELEASE, 1, name, owner) == 1
        return f"ok {number}" if gone else f"lost {number}"


def perform(lock, words):
    commands = {"acquire": lock.acquire, "extend": lock.extend, "release": lock.release}
    try:
        return commands[words[0]](*words[1:])
    except KeyError:
        return f"error {words[1]} unknown command or lock"
    except (OSError, RedisError) as error:
        return f"error {words[1]} {error}"


def main():
    lock = None
    for line in sys.stdin:
        words = line.split()
        if not words or words[0] == "quit":
            break
        if words[0] == "nodes":
            lock = Single(words[1])
            print("ok 0", flush=True)
        else:
            print(perform(lock, words), flush=True)


if __name__ == "__main__":
    main()
