"""Operator mode: accounts get other tokens by messages to the system account."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from jetbroker.config.tokens.claims import read_account
from jetbroker.config.tokens.fields import TokenError
from jetbroker.logs.logger import Logger

_OK, _FAILED = 200, 500

ClaimsUpdate = Callable[[list[str], bytes], Awaitable[dict[str, Any]]]
"""From the tokens of a request's subject and its body to what the answer holds."""


class Accounts(Protocol):
    """Where accounts are known."""

    def update(self, name: str, token: str) -> bool:
        """Give an account another token; False when it is not in use. Raises TokenError."""
        ...


def update(accounts: Accounts, log: Logger, tokens: list[str], body: bytes) -> dict[str, Any]:
    """Follow a request: what the answer holds beside the server."""
    name = tokens[-3]
    text = body.decode("utf-8", "replace")
    message = "jwt update resulted in error"
    try:
        if not text:
            message = "jwt update error"
            raise TokenError("request body is empty")
        if read_account(text).subject != name:
            raise TokenError("subject does not match jwt content")
        done = "jwt updated" if accounts.update(name, text) else "jwt update skipped"
    except TokenError as error:
        log.error(f"{message} - {name} - {error}")
        return {"error": {"account": name, "code": _FAILED, "description": f"{message} - {error}"}}
    log.debug(f"{done} - {name}")
    return {"data": {"account": name, "code": _OK, "message": done}}
