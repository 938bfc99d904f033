"""Requests to a running server, one after the other."""

from __future__ import annotations

import secrets
import time
from typing import Any, Self

import orjson

from jetbroker.client.connection import NO_RESPONDERS, Connection, json_object, publish
from jetbroker.client.server import ClientError, Server


class Requester:
    """One connection, as a context manager; `timeout` seconds for each answer. All errors are ClientErrors."""

    def __init__(self, server: Server, timeout: float = 10.0) -> None:
        self.timeout = timeout
        self._inbox = b"_INBOX.jetbroker." + secrets.token_hex(8).encode()
        self._asked = 0
        self._connection = Connection(server, server.urls[0], self._inbox, "jetbroker command")

    def request(self, subject: str, body: bytes, headers: bytes = b"") -> dict[str, Any]:
        """The answer, an object of JSON. One without responders has an `error`."""
        self._asked += 1
        url = self._connection.url
        try:
            self._connection.send(publish(subject, b"%s.%d" % (self._inbox, self._asked), headers, body))
            return self._answer(subject)
        except OSError as error:
            raise ClientError(f"{url}: {error}") from None

    def _answer(self, subject: str) -> dict[str, Any]:
        until = time.monotonic() + self.timeout
        while (left := until - time.monotonic()) > 0:
            for number, status, body in self._connection.replies(left):
                if number != self._asked:
                    continue
                if status:
                    told = "nobody listens" if status == NO_RESPONDERS else status
                    return {"error": {"description": f"{subject}: {told}"}}
                answer = json_object(body)
                if not answer:
                    raise ClientError(f"{subject}: the answer is no JSON object")
                return answer
        raise ClientError(f"{subject}: no answer within {self.timeout:g} s")

    def ask(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer of the JetStream API, an error, too."""
        return self.request(f"$JS.API.{subject}", orjson.dumps(body))

    def api(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer of the JetStream API; an error is raised."""
        return self.checked(self.ask(subject, body))

    @staticmethod
    def checked(answer: dict[str, Any]) -> dict[str, Any]:
        """The answer, if it is no error."""
        error = answer.get("error")
        if error is not None:
            raise ClientError(str(error.get("description", error) if isinstance(error, dict) else error))
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
