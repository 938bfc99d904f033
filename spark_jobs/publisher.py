"""Publishes into streams and waits for the acks: what a Spark task needs, and nothing else.

At most `in_flight` messages wait for their ack, and at most IN_FLIGHT_BYTES. When the connection is lost, or acks stay
away, what is unacked goes out once more over a new connection. The Nats-Msg-Id keeps that from storing anything twice.
"""

from __future__ import annotations

import secrets
import time

from jetbroker.client.connection import NO_RESPONDERS, Connection, Reply, json_object, publish
from jetbroker.client.server import ClientError, Server

IN_FLIGHT_BYTES = 16 * 1024 * 1024
SEND_BYTES = 128 * 1024
RETRY_SECONDS = 0.25


class PublishError(ClientError):
    """Rows cannot be published. The text is one sentence that says why."""


class Publisher:
    """Publishes and waits for acks; a context manager. `stored` and `repeated` count what the acks say."""

    def __init__(self, server: Server, in_flight: int, ack_seconds: float) -> None:
        self.server = server
        self.in_flight = in_flight
        self.ack_seconds = ack_seconds
        self.inbox = b"_INBOX." + secrets.token_hex(11).encode()
        self.stored = self.repeated = 0
        self._unacked: dict[int, tuple[str, bytes]] = {}
        self._unacked_bytes = 0
        self._number = 0
        self._unsent = bytearray()
        self._connection: Connection | None = self._connected()

    @property
    def max_payload(self) -> int:
        return self._connection.max_payload if self._connection is not None else 0

    def _connected(self) -> Connection:
        """To the first of the servers that answers. Raises ClientError with what the last one said."""
        reason: ClientError | None = None
        for url in self.server.urls:
            try:
                return Connection(self.server, url, self.inbox, "jetbroker spark")
            except ClientError as error:
                reason = error
        raise reason or PublishError("the option url is missing")

    def publish(self, subject: str, headers: bytes, payload: bytes) -> None:
        """Takes one message over; `headers` is a whole header block. Raises PublishError for what was refused."""
        self._number += 1
        frame = publish(subject, b"%s.%d" % (self.inbox, self._number), headers, payload)
        self._unacked[self._number] = (subject, frame)
        self._unacked_bytes += len(frame)
        self._unsent += frame
        if len(self._unsent) >= SEND_BYTES:
            self._exchange(0.0)
        if len(self._unacked) >= self.in_flight or self._unacked_bytes >= IN_FLIGHT_BYTES:
            self._wait(self.in_flight // 2, IN_FLIGHT_BYTES // 2)

    def flush(self) -> None:
        """Waits until everything is acked."""
        self._wait(0, 0)

    def _wait(self, most: int, most_bytes: int) -> None:
        """Until no more than so many, and so many bytes, are unacked."""
        heard = time.monotonic()
        while len(self._unacked) > most or self._unacked_bytes > most_bytes:
            before = len(self._unacked)
            self._exchange(self.ack_seconds)
            if len(self._unacked) < before:
                heard = time.monotonic()
            elif time.monotonic() - heard >= self.ack_seconds:
                subject = next(iter(self._unacked.values()))[0]
                raise PublishError(f"no ack for a message to {subject!r} within {self.ack_seconds:g} s")

    def _exchange(self, seconds: float) -> None:
        """Sends what is unsent, takes the acks that are there; waits so long for the first. Survives a lost link."""
        try:
            if self._connection is None:
                raise ConnectionResetError("no connection")
            unsent, self._unsent = self._unsent, bytearray()
            self._connection.send(bytes(unsent))
            for reply in self._connection.replies(seconds):
                self._acked(reply)
        except OSError:
            self._reconnect()

    def _reconnect(self) -> None:
        """A new connection, and everything unacked over it once more."""
        self.close()
        until = time.monotonic() + self.ack_seconds
        while self._connection is None:
            try:
                self._connection = self._connected()
            except ClientError:
                if time.monotonic() >= until:
                    raise
                time.sleep(RETRY_SECONDS)
        self._unsent = bytearray(b"".join(frame for _, frame in self._unacked.values()))

    def _acked(self, reply: Reply) -> None:
        subject, frame = self._unacked.pop(reply.number, ("", b""))
        if not frame:
            return  # the second ack of one that went out twice
        self._unacked_bytes -= len(frame)
        if reply.status == NO_RESPONDERS:
            raise PublishError(f"no stream takes the subject {subject!r}, or JetStream is off for this account")
        ack = json_object(reply.body)
        error = ack.get("error")
        if isinstance(error, dict):
            raise PublishError(
                f"a message to {subject!r} was refused: {error.get('description')} (error {error.get('err_code')})"
            )
        if "seq" not in ack:
            raise PublishError(f"what answers on {subject!r} is no stream")
        if ack.get("duplicate"):
            self.repeated += 1
        else:
            self.stored += 1

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
