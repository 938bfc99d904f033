"""HTTP by hand and by the standard library, against a server's monitoring port."""

from __future__ import annotations

import http.client
import json
import re
import socket
from typing import Any, NamedTuple

from tests.support.process import ServerProcess

TIMEOUT_S = 30.0


class Reply(NamedTuple):
    status: int
    content_type: str
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def monitor_port(server: ServerProcess) -> int:
    """The port a server says it monitors on."""
    for line in server.log:
        match = re.search(r"Starting http monitor on \S+:(\d+)$", line)
        if match:
            return int(match[1])
    raise AssertionError("no monitoring port in:\n" + "\n".join(server.log))


def get(port: int, target: str, method: str = "GET") -> Reply:
    """One request on a connection of its own; redirects are not followed."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request(method, target)
        response = connection.getresponse()
        return _of_any_go(Reply(response.status, response.getheader("Content-Type", ""), response.read()))
    finally:
        connection.close()


def _of_any_go(reply: Reply) -> Reply:
    """Go before 1.26 calls the place of a path moved for good where later releases call it so for now."""
    if reply.status != 301:
        return reply
    return reply._replace(status=307, body=reply.body.replace(b"Moved Permanently", b"Temporary Redirect"))


def get_json(port: int, target: str) -> Any:
    """The body of a request that must succeed."""
    reply = get(port, target)
    assert (reply.status, reply.content_type) == (200, "application/json"), reply
    return reply.json()


def raw(port: int, data: bytes, end: bytes = b"") -> bytes:
    """What comes back to these bytes up to `end`, or until the server closes."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
        connection.settimeout(TIMEOUT_S)
        try:
            connection.sendall(data)
            while not (end and end in received):
                chunk = connection.recv(65536)
                if not chunk:
                    break
                received += chunk
        except (ConnectionResetError, BrokenPipeError):
            return received
    return received
