"""Configurations made of known keys and any values: what nats-server refuses we refuse, what it takes we take."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jetbroker.config import keys
from jetbroker.daemon import cli
from jetbroker.errors import ConfigError
from tests.support.process import find_nats_server

NATS_SERVER = find_nats_server()
pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(NATS_SERVER is None, reason="nats-server is neither on the PATH nor in ~/go/bin"),
]

SCALARS = st.sampled_from(
    ["5", "-1", "0", "101", "1.5", "true", "false", "x", "a.b", "a.*", '"a.>"', '"a..b"', '""', '"5s"', '"50%"', '"$1"',
     "A", "B", '"{{wildcard(1)}}"', "stream", "127.0.0.1:5"]
)  # fmt: skip
UNSUPPORTED = keys.EXPORT_UNSUPPORTED | keys.AUTHORIZATION_UNSUPPORTED
# Their verdict depends on the order of a map's keys, or ours is better on purpose: see docs/CONFIG.md, "Differences".
LEFT_OUT = re.compile(
    r"but already saw a|on non-service|on a non-stream|Duplicate (user|response)|'prefix' and a 'to'|is not valid UTF-8"
    r"|Can not have a|Cannot have a|not supported yet|store_dir"
)


def block(names: list[str], values: st.SearchStrategy[str], most: int = 3) -> st.SearchStrategy[str]:
    """A map with some of these keys."""
    entries = st.dictionaries(st.sampled_from(names), values, max_size=most)
    return entries.map(lambda chosen: "{\n" + "\n".join(f"{key}: {value}" for key, value in chosen.items()) + "\n}")


def listed(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, max_size=3).map(lambda chosen: "[\n" + "\n".join(chosen) + "\n]")


def odd(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Mostly what belongs there, now and then something else."""
    return st.one_of(values, values, values, values, SCALARS, listed(SCALARS))


SUBJECTS = odd(st.one_of(SCALARS, listed(SCALARS), block(["allow", "deny"], st.one_of(SCALARS, listed(SCALARS)))))
RESPONSES = odd(block(["max", "expires", "ttl", "foo"], SCALARS))
PERMISSIONS = odd(block(["publish", "subscribe"], SUBJECTS) | block(["allow_responses"], RESPONSES))
TYPES = odd(listed(st.sampled_from(["STANDARD", "websocket", "nope"])))
USER = (
    block(["user", "password", "nkey"], SCALARS)
    | block(["user", "permissions"], PERMISSIONS)
    | block(["user", "clients"], TYPES)
)
USERS = odd(listed(odd(USER)))
DESTINATION = block(["dest", "weight", "cluster", "foo"], SCALARS)
TARGET = odd(st.one_of(SCALARS, DESTINATION, listed(odd(DESTINATION))))
MAPPINGS = odd(block(["a", '"a.*"', '"a.>"', '"b..c"'], TARGET, most=2))
EXPORT = block(["stream", "service", "response_type", "threshold", "account_token_position"], SCALARS, most=2)
EXPORTS = odd(listed(odd(EXPORT | block(["stream", "accounts"], listed(SCALARS)))))
REMOTE = odd(block(["account", "subject"], SCALARS))
IMPORTS = odd(listed(odd(block(["stream", "service"], REMOTE, most=1) | block(["stream", "to"], REMOTE | SCALARS))))
LIMITS = odd(block(["max_connections", "max_payload", "max_subs", "foo"], SCALARS))
ACCOUNT = block(["users"], USERS) | block(["mappings"], MAPPINGS) | block(["exports"], EXPORTS) | block(
    ["imports"], IMPORTS
) | block(["limits"], LIMITS) | block(["default_permissions"], PERMISSIONS)  # fmt: skip
ACCOUNTS = odd(block(["A", "B"], odd(ACCOUNT)))
TLS = odd(
    block(
        ["verify", "insecure", "timeout", "min_version", "handshake_first", "connection_rate_limit", "pinned_certs"],
        SCALARS,
    )
)
WEBSOCKET = odd(block([*keys.WEBSOCKET, "listen", "origin", "headers", "authorization", "tls"], SCALARS))
AUTHORIZATION = odd(block(["users"], USERS) | block(["user", "password", "timeout"], SCALARS) | block(
    ["permissions"], PERMISSIONS
))  # fmt: skip
URLS = st.sampled_from(['"nats://a:5"', '"nats://u:p@[::1]"', '"a:b"', '"ws://c/d"'])
COMPRESSION = odd(SCALARS | block(["mode", "rtt", "foo"], SCALARS | listed(st.sampled_from(['"5ms"', '"2s"', "x"]))))
REMOTES = odd(
    listed(
        odd(
            block(["url", *sorted(keys.LEAF_REMOTE)], SCALARS)
            | block(["urls", "account"], odd(listed(URLS)))
            | block(["deny_imports", "compression"], COMPRESSION)
            | block(["tls"], TLS)
        )
    )
)
LEAF_LOGINS = odd(
    block([*keys.LEAF_AUTHORIZATION, "timeout"], SCALARS)
    | block(["users"], odd(listed(odd(block(sorted(keys.LEAF_USER), SCALARS)))))
)
LEAFNODES = odd(
    block([*keys.LEAFNODES, "listen", "compression", "tls"], SCALARS)
    | block(["authorization"], LEAF_LOGINS)
    | block(["remotes"], REMOTES)
    | block(["compression"], COMPRESSION)
)
SERVER = block(sorted(keys.TOP), SCALARS)

TREES = st.one_of(
    SERVER.map(lambda text: text[1:-1]),
    AUTHORIZATION.map(lambda text: f"authorization: {text}"),
    ACCOUNTS.map(lambda text: f"accounts: {text}"),
    MAPPINGS.map(lambda text: f"mappings: {text}"),
    TLS.map(lambda text: f"tls: {text}"),
    WEBSOCKET.map(lambda text: f"websocket: {text}"),
    LEAFNODES.map(lambda text: f"leafnodes: {text}"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with contextlib.chdir(tmp_path):
        yield tmp_path


def ours() -> str:
    try:
        cli.check_file("conf")
    except ConfigError as error:
        return str(error)
    return ""


def theirs() -> str:
    command: list[Any] = [NATS_SERVER, "-t", "-c", "conf"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return result.stderr if result.returncode else ""


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=TREES)
def test_same_verdict(text: str, folder: Path) -> None:
    (folder / "conf").write_text(text)
    mine, reference = ours(), theirs()
    if LEFT_OUT.search(mine) or LEFT_OUT.search(reference):
        return
    assert bool(mine) == bool(reference), (mine, reference)
