"""Where the rules hold although nats-server lets messages through: see docs/PERMISSIONS.md."""

from __future__ import annotations

from pathlib import Path

from jetbroker.config.options import PermissionsOptions, SubjectPermissions
from tests.support.daemon import Daemon
from tests.support.inprocess import World

IMPORTS = """
accounts {
  A { users = [ { user: a, password: p } ], exports = [ { stream: "out.>" } ] }
  B { users = [ { user: b, password: p, permissions { subscribe: { deny: "got.secret" } } } ]
      imports = [ { stream: { account: A, subject: "out.>" }, to: "got.>" } ] }
}
"""


ACCOUNTS = """
accounts { A { users = [ { user: a, password: p } ] }, B { users = [ { user: b, password: p } ] } }
"""


def login(name: str) -> bytes:
    return b'CONNECT {"verbose":false,"pedantic":false,"user":"%b","pass":"p"}\r\n' % name.encode()


def test_a_wider_subscription_gets_what_is_allowed_only() -> None:
    world = World()
    reader = world.client(PermissionsOptions(subscribe=SubjectPermissions(allow=["foo.*", "bar.* q"])))
    writer = world.client()
    assert reader.say(b"SUB foo.> 1\r\nSUB bar.> q 2\r\n") == b""
    writer.say(b"PUB foo.a 0\r\n\r\nPUB foo.a.b 0\r\n\r\nPUB bar.a 0\r\n\r\nPUB bar.a.b 0\r\n\r\n")
    assert reader.heard() == b"MSG foo.a 1 0\r\n\r\nMSG bar.a 2 0\r\n\r\n"


def test_queue_subscriptions_to_imported_streams_are_filtered(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(IMPORTS)
    with Daemon("-c", str(tmp_path / "conf")) as daemon, daemon.open() as reader, daemon.open() as writer:
        reader.exchange(login("b") + b"SUB got.* q 1\r\n")
        writer.exchange(login("a") + b"PUB out.secret 1\r\nx\r\nPUB out.x 1\r\ny\r\n")
        assert reader.exchange(b"") == b"MSG got.x 1 1\r\ny\r\nPONG\r\n"


def test_a_wider_subscription_to_an_imported_stream_gets_what_is_allowed_only(tmp_path: Path) -> None:
    """By the importer's name of it."""
    (tmp_path / "conf").write_text(IMPORTS.replace('deny: "got.secret"', 'allow: "got.*"'))
    with Daemon("-c", str(tmp_path / "conf")) as daemon, daemon.open() as reader, daemon.open() as writer:
        reader.exchange(login("b") + b"SUB got.> 1\r\nSUB got.> q 2\r\n")
        for _ in range(2):  # an unknown route, then one that is remembered
            writer.exchange(login("a") + b"PUB out.a.b 0\r\n\r\nPUB out.a 0\r\n\r\n")
            received = reader.exchange(b"").removesuffix(b"PONG\r\n").split(b"\r\n\r\n")
            assert sorted(received) == [b"", b"MSG got.a 1 0", b"MSG got.a 2 0"]


def test_who_goes_to_another_account_leaves_the_old_one(tmp_path: Path) -> None:
    """Both accounts have seen as many changes of interest: nats-server then delivers in the account of before."""
    (tmp_path / "conf").write_text(ACCOUNTS)
    with Daemon("-c", str(tmp_path / "conf")) as daemon, daemon.open() as old, daemon.open() as new:
        old.exchange(login("a") + b"SUB x 1\r\n")
        new.exchange(login("b"))
        with daemon.open() as mover:
            mover.exchange(login("a") + b"PUB x 1\r\na\r\n")
            assert old.exchange(b"") == b"MSG x 1 1\r\na\r\nPONG\r\n"
            new.exchange(b"SUB x 1\r\n")
            mover.exchange(login("b") + b"PUB x 1\r\nb\r\n")
        assert old.exchange(b"") == b"PONG\r\n"
        assert new.exchange(b"") == b"MSG x 1 1\r\nb\r\nPONG\r\n"
