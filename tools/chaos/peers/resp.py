"""As much of the Redis protocol as the example peers need."""

import socket
from urllib.parse import urlparse

TIMEOUT_S = 0.5


class RedisError(Exception):
    """The server answered with an error."""


class Connection:
    """One connection, made again when it broke. No answer in time breaks it: what would come later
    belongs to another command."""

    def __init__(self, uri):
        place = urlparse(uri)
        self.address = (place.hostname, place.port or 6379)
        self.socket = None
        self.file = None

    def command(self, *words):
        try:
            if self.socket is None:
                self.socket = socket.create_connection(self.address, TIMEOUT_S)
                self.file = self.socket.makefile("rb")
            parts = [str(word).encode() for word in words]
            request = b"*%d\r\n" % len(parts)
            request += b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
            self.socket.sendall(request)
            return self.reply()
        except OSError:
            self.close()
            raise

    def close(self):
        if self.socket is not None:
            self.file.close()
            self.socket.close()
        self.socket = None

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("closed by the server")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RedisError(rest.decode())
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2].decode()
        raise RedisError(f"unexpected answer {line!r}")
