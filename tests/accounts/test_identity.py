"""What one connection has shown for itself, and what of it counts later."""

from __future__ import annotations

import asyncio

from jetbroker.auth.authenticator import NOBODY, Login
from jetbroker.connections.handshake import ConnectOptions
from jetbroker.connections.identity import REDACTED, Given, Identity


def connect(**said: str) -> ConnectOptions:
    options = ConnectOptions()
    for name, value in said.items():
        setattr(options, name, value)
    return options


def test_cookies_count_where_connect_says_nothing() -> None:
    identity = Identity()
    identity.show_cookies(Given("cook", "secret"))
    options = connect(user="hal")
    identity.add_cookies(options)
    assert (options.user, options.password, options.auth_token) == ("hal", "secret", "")


def test_credentials_that_nobody_asked_for_are_kept_until_somebody_does() -> None:
    identity = Identity()
    identity.enter(NOBODY, connect(user="hal", password="open"))
    assert (identity.user, identity.login, identity.label()) == ("hal", None, "user:hal")
    later = ConnectOptions()
    identity.add_said_before(later)
    assert (later.user, later.password) == ("hal", "open")
    identity.renew(Login(user="hal", secret="open"))
    later = ConnectOptions()
    identity.add_given(later)
    assert (later.user, later.password) == ("", "")


def test_a_hashed_password_is_not_said_again() -> None:
    identity = Identity()
    hashed = "$2a$04$" + "a" * 53
    identity.enter(Login(user="hal", secret=hashed), connect(user="hal", password="open", sig="signed"))
    later = ConnectOptions()
    identity.add_said_before(later)
    assert (later.user, later.password, later.sig) == ("hal", "", "signed")


def test_a_token_is_never_shown() -> None:
    identity = Identity()
    identity.enter(Login(secret="s3cr3t", by_token=True), connect(auth_token="s3cr3t"))
    assert (identity.user, identity.label(), identity.accused().auth_token) == (REDACTED, "token", REDACTED)
    identity.enter(NOBODY, connect(auth_token="s3cr3t"))
    assert identity.accused().auth_token == REDACTED


def test_an_nkey_names_itself() -> None:
    identity = Identity()
    identity.enter(NOBODY, connect(nkey="UABC"))
    assert (identity.label(), identity.accused().nkey) == ("nkey:UABC", "UABC")
    identity.enter(Login(nkey="UDEF"), connect(nkey="UDEF"))
    assert identity.label() == "nkey:UDEF"


async def test_who_leaves_leaves_no_timer() -> None:
    loop = asyncio.get_running_loop()
    fired: list[str] = []
    identity = Identity()
    identity.await_until(loop.call_later(0, fired.append, "clock"))
    identity.end_with(loop.call_later(0, fired.append, "replaced"))
    identity.end_with(loop.call_later(0, fired.append, "end"))
    assert identity.is_awaited
    assert identity.ends_at is not None
    identity.leave()
    assert not identity.is_awaited
    assert identity.ends_at is None
    done = loop.create_future()
    loop.call_later(0, done.set_result, None)  # behind those that were due
    await done
    assert fired == []
