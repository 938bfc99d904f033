"""An account that there is at one end of a link only."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.support import jwts
from tests.support.daemon import CONNECT, Daemon, Raw
from tests.support.leaf_peer import Listener
from tests.support.pairs import JETBROKER, NATS_SERVER, server

HUB = """
accounts { A { users: [{user: a, password: p}] }, B { users: [{user: b, password: p}] } }
leafnodes { listen: "127.0.0.1:-1" }
no_auth_user: a
"""
REMOTE = 'url: "nats-leaf://127.0.0.1:{port}"'
SPOKE = f"accounts {{ A {{}}, B {{}} }}\nleafnodes {{ remotes: [ {{ {REMOTE}, account: B }} ] }}\n"


@pytest.mark.parametrize("kind", [JETBROKER, NATS_SERVER])
def test_a_remote_for_an_account_that_there_is_not_ends_a_start(kind: str, tmp_path: Path) -> None:
    config = tmp_path / "conf"
    config.write_text("leafnodes { remotes: [ {url: 'nats-leaf://127.0.0.1:1', account: GONE} ] }\n")
    with pytest.raises(RuntimeError, match='cannot find local account "GONE" specified in leafnode remote'):
        server(kind, config).start()


def test_the_hub_removes_the_account_of_a_link(tmp_path: Path) -> None:
    """nats-server keeps the link."""
    config = tmp_path / "conf"
    config.write_text(HUB)
    with Daemon("-c", str(config)) as hub, hub.open() as client:
        port = int(hub.wait_for("Listening for leafnode connections").rpartition(":")[2])
        with Raw(port) as goes, Raw(port) as stays:
            for raw, user in ((goes, b"b"), (stays, b"a")):
                raw.send(b'CONNECT {"user":"%b","pass":"p","name":"%b","version":"2.14.5"}\r\n' % (user, user))
                raw.exchange(b"LS+ foo\r\n")
            seen = len(hub.log)
            config.write_text(HUB.replace(", B { users: [{user: b, password: p}] }", ""))
            hub.send(signal.SIGHUP)
            goes.to_end()
            hub.wait_for("Leafnode connection closed: Missing Account", seen)
            client.exchange(CONNECT + b"PUB foo 2\r\nhi\r\n")
            assert stays.until(b"hi\r\n").endswith(b"LMSG foo 2\r\nhi\r\n")
        assert not [line for line in hub.log[seen:] if "[ERR]" in line]


def test_the_spoke_cannot_remove_the_account_of_a_remote(tmp_path: Path) -> None:
    listener = Listener()
    config = tmp_path / "conf"
    text = SPOKE.replace("{port}", str(listener.port))
    config.write_text(text)
    with Daemon("-c", str(config)) as spoke:
        connection = listener.accept()
        seen = len(spoke.log)
        config.write_text(text.replace(", B {}", ""))
        spoke.send(signal.SIGHUP)
        refusal = spoke.wait_for("Failed to reload server configuration", seen)
        assert 'cannot find local account "B" specified in leafnode remote' in refusal
        connection.close()
        listener.accept().close()  # it is dialled again: nothing has changed
    listener.close()


@pytest.mark.parametrize("kind", [JETBROKER, NATS_SERVER])
def test_an_account_of_operator_mode_is_read_for_its_remote(kind: str, tmp_path: Path) -> None:
    listener, account = Listener(), jwts.Account("A")
    config = tmp_path / "conf"
    config.write_text(operated(listener.port, account, [account]))
    with server(kind, config) as spoke:
        connection = listener.accept()
        spoke.wait_for(f"Leafnode connection created for account: {account.key.public}/A")
        connection.close()
    listener.close()


@pytest.mark.parametrize("kind", [JETBROKER, NATS_SERVER])
def test_a_remote_asks_for_its_missing_account_again_and_again(kind: str, tmp_path: Path) -> None:
    listener, account = Listener(), jwts.Account("A")
    config = tmp_path / "conf"
    config.write_text(operated(listener.port, account, []))
    refusal = f"[ERR] Unable to lookup account {account.key.public} for solicited leafnode connection: account missing"
    with server(kind, config) as spoke:
        spoke.wait_until(lambda log: sum(refusal in line for line in log) >= 2, "two attempts")
    listener.close()


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("kind", [JETBROKER, NATS_SERVER])
def test_the_account_of_a_hubs_own_login_is_read_when_a_link_comes(kind: str, is_known: bool, tmp_path: Path) -> None:
    account = jwts.Account("A")
    key = account.key.public
    config = tmp_path / "conf"
    config.write_text(
        jwts.configuration(jwts.Operator(), [account] if is_known else [])
        + f'leafnodes {{ listen: "127.0.0.1:-1", authorization {{ user: a, password: p, account: "{key}" }} }}\n'
    )
    with server(kind, config) as hub:
        port = int(hub.wait_for("Listening for leafnode connections").rpartition(":")[2])
        with Raw(port) as leaf:
            leaf.send(b'CONNECT {"user":"a","pass":"p","name":"a","version":"2.14.5"}\r\n')
            if is_known:
                assert f'"remote_account":"{key}"'.encode() in leaf.exchange(b"")
            else:
                assert b"Authorization Violation" in leaf.to_end()
                why = f'authentication of user "a" failed, unable to lookup account "{key}": account missing'
                hub.wait_for(f"[ERR] {why}")


@pytest.mark.parametrize("kind", [JETBROKER, NATS_SERVER])
def test_links_are_counted_among_the_connections_of_an_account(kind: str, tmp_path: Path) -> None:
    config = tmp_path / "conf"
    config.write_text(
        jwts.configuration(jwts.Operator(), [account := jwts.Account("A", limits=jwts.account_limits(conn=1))])
        + 'leafnodes { listen: "127.0.0.1:-1" }\n'
    )
    with server(kind, config) as hub:
        port = int(hub.wait_for("Listening for leafnode connections").rpartition(":")[2])
        with Raw(port) as leaf, hub.open() as client:
            leaf.send(login(account.user(), leaf.info))
            leaf.exchange(b"")
            client.send(login(account.user(), client.info))
            assert b"maximum account active connections exceeded" in client.to_end()


def operated(port: int, of_remote: jwts.Account, known: list[jwts.Account]) -> str:
    """A spoke in operator mode."""
    remote = f'url: "nats-leaf://127.0.0.1:{port}", account: "{of_remote.key.public}"'
    return (
        jwts.configuration(jwts.Operator(), known) + f'leafnodes {{ reconnect: "50ms", remotes: [ {{ {remote} }} ] }}\n'
    )


def login(user: jwts.User, info: bytes) -> bytes:
    """A CONNECT of this user, who signs the nonce of an INFO."""
    nonce = json.loads(info.removeprefix(b"INFO "))["nonce"]
    said = {"jwt": user.token(), "sig": user.key.signature(nonce), "name": "l", "version": "2.14.5"}
    return b"CONNECT %b\r\n" % json.dumps(said).encode()


def test_an_account_without_a_right_to_links(tmp_path: Path) -> None:
    """A leaf cannot choose an account: its login has one."""
    config = tmp_path / "conf"
    config.write_text(HUB)
    with Daemon("-c", str(config)) as hub:
        port = int(hub.wait_for("Listening for leafnode connections").rpartition(":")[2])
        for more in (b'"account":"B"', b'"account":"$SYS","new_account":true'):
            with Raw(port) as leaf:
                leaf.send(b'CONNECT {"user":"a","pass":"p","name":"l","version":"2.14.5",%b}\r\n' % more)
                assert b"Authorization Violation" in leaf.to_end()
