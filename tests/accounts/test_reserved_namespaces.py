"""What is out of reach: the system account's services, others' JetStream, and files outside of the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, Raw

ODD_NAMES = ["../../out", "/out", ".", "..", "a/b", "a\\b", "x" * 300, "ü", "%2e%2e", "$JS", "*"]
NO_RESPONDERS = b"NATS/1.0 503\r\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reserved")
    (path / "deep" / "store").mkdir(parents=True)
    return path


@pytest.fixture(scope="module")
def daemon(folder: Path) -> Iterator[Daemon]:
    names = [json.dumps(name, ensure_ascii=False) for name in ODD_NAMES]
    odd = "\n".join(
        f"  {name} {{ users: [ {{user: u{number}, password: p}} ], jetstream: enabled }}"
        for number, name in enumerate(names)
    )
    config = f"""
    accounts {{
      A {{ users: [ {{user: a, password: p}}, {{user: few, password: p, permissions: {{ publish: "x" }} }} ] }}
      S {{ users: [ {{user: s, password: p}} ] }}
    {odd}
    }}
    system_account: S
    jetstream {{ store_dir: "{folder}/deep/store" }}
    """
    (folder / "conf").write_text(config)
    with Daemon("-c", str(folder / "conf")) as running:
        yield running


def login(daemon: Daemon, user: str) -> Raw:
    client = daemon.open()
    said = {"user": user, "pass": "p", "verbose": False, "pedantic": False, "headers": True, "no_responders": True}
    client.exchange(b"CONNECT " + json.dumps(said).encode() + b"\r\nSUB in 1\r\n")
    return client


def ask(client: Raw, subject: str, body: bytes = b"") -> bytes:
    """The answer's headers and payload; what was said instead when there is none."""
    client.send(b"PUB %b in %d\r\n%b\r\n" % (subject.encode(), len(body), body))
    line = client.line()
    if not line.startswith((b"MSG", b"HMSG")):
        return line
    size = int(line.split()[-1])
    found = b""
    while len(found) < size + 2:
        found += client.until(b"\r\n")
    return found.removesuffix(b"\r\n")


SYSTEM = [
    *(f"$SYS.REQ.SERVER.PING.{name}" for name in ("VARZ", "SUBSZ", "STATSZ", "IDZ", "HEALTHZ", "JSZ", "KICK", "LDM")),
    "$SYS.REQ.SERVER.PING",
    "$SYS.REQ.ACCOUNT.S.CONNZ",
    "$SYS.REQ.ACCOUNT.S.CLAIMS.UPDATE",
    "$SYS.REQ.CLAIMS.UPDATE",
    "$SYS.REQ.USER.S.INFO",
    "$SYS.ACCOUNT.S.CLAIMS.UPDATE",
    "$SYS.DEBUG.SUBSCRIBERS",
]


@pytest.mark.parametrize("subject", SYSTEM)
def test_services_of_the_system_account_are_its_own(daemon: Daemon, subject: str) -> None:
    with login(daemon, "a") as client:
        assert ask(client, subject).startswith(NO_RESPONDERS)


def test_nothing_of_the_system_account_is_heard_elsewhere(daemon: Daemon) -> None:
    with login(daemon, "a") as spy, login(daemon, "s") as system:
        spy.exchange(b"SUB $SYS.> 2\r\nSUB > 3\r\nSUB _R_.> 4\r\nSUB $JS.> 5\r\n")
        for subject in SYSTEM:
            ask(system, subject, b"{}")
        system.exchange(b"PUB $SYS.x 1\r\nx\r\n")
        login(daemon, "u0").close()
        assert spy.exchange(b"") == b"PONG\r\n"


@pytest.mark.parametrize(
    "subject",
    ["$JS.API.INFO", "$JS.API.STREAM.CREATE.S", "$JS.API.STREAM.DELETE.S", "$JS.API.STREAM.PURGE.S", "$JS.API.>"],
)
def test_who_has_no_right_asks_nothing(daemon: Daemon, subject: str) -> None:
    with login(daemon, "few") as client:
        assert ask(client, subject) == b"-ERR 'Permissions Violation for Publish to \"%b\"'" % subject.encode()


def test_names_are_no_paths(daemon: Daemon, folder: Path) -> None:
    """Whatever an account is called, and however streams and consumers would like to be called."""
    store = folder / "deep" / "store"
    for number in range(len(ODD_NAMES)):
        with login(daemon, f"u{number}") as client:
            made = json.loads(ask(client, "$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"]}'))
            assert made["config"]["name"] == "S"
            for name in ("../x", "..", ".", "a/b", "a\\b", "/x"):
                called = name if "." not in name else "N"  # a dot ends a token of the subject
                body = json.dumps({"name": name, "subjects": ["y"]}).encode()
                assert b'"error"' in ask(client, f"$JS.API.STREAM.CREATE.{called}", body)
                config = {"stream_name": "S", "config": {"durable_name": name, "ack_policy": "explicit"}}
                subject = f"$JS.API.CONSUMER.DURABLE.CREATE.S.{called}"
                assert b'"error"' in ask(client, subject, json.dumps(config).encode())
    outside = [path for path in folder.rglob("*") if store not in path.parents]
    assert sorted(path.name for path in outside) == ["conf", "deep", "store"]
    assert len(list(store.glob("jetstream/*/S/stream.json"))) == len(ODD_NAMES)
