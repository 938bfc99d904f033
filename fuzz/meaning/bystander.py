"""A client that only pings, in a process of its own: how long did it wait, and how long did the broker compute then?

    python bystander.py PORT PID USER PASSWORD

Each line on stdin is answered by one with the worst ping since the last one, in nanoseconds: of time, and of the
processor time that the broker's event loop used meanwhile. Of these the smaller one is the broker's doing, whatever
else the machine had to do. A connection that breaks is made again.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import sys
import time

PAUSE_SECONDS = 0.001
ANSWER_SECONDS = 60.0


def processor_ns(pid: int) -> int:
    """Of the broker's first thread, which runs the event loop."""
    with open(f"/proc/{pid}/task/{pid}/schedstat") as file:
        return int(file.read().split()[0])


def connect(port: int, user: str, password: str) -> socket.socket:
    """A connection that is logged in."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    login = json.dumps({"user": user, "pass": password, "verbose": False, "lang": "bystander"})
    connection.sendall(f"CONNECT {login}\r\n".encode())
    return connection


def ping(connection: socket.socket) -> None:
    """One PING and its PONG; the broker's own PINGs are answered."""
    connection.sendall(b"PING\r\n")
    seen = b""
    while b"PONG\r\n" not in seen:
        data = connection.recv(65536)
        if not data:
            raise ConnectionError("closed")
        seen = seen[-8:] + data
        if b"PING\r\n" in data:
            connection.sendall(b"PONG\r\n")


def main() -> None:
    """Ping until stdin ends."""
    port, pid = int(sys.argv[1]), int(sys.argv[2])
    with contextlib.suppress(OSError):  # without the right to it, waiting for a processor counts, too
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    connection: socket.socket | None = None
    worst, longest = (0, 0), 0
    while True:
        if select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
            if not sys.stdin.readline():
                return
            print(*worst, longest, flush=True)
            worst, longest = (0, 0), 0
        try:
            if connection is None:
                connection = connect(port, *sys.argv[3:5])
                ping(connection)
            began, used = time.monotonic_ns(), processor_ns(pid)
            ping(connection)
            waited, computed = time.monotonic_ns() - began, processor_ns(pid) - used
        except OSError:
            connection = None
            continue
        worst = max(worst, (waited, computed), key=min)
        longest = max(longest, waited)


if __name__ == "__main__":
    main()
