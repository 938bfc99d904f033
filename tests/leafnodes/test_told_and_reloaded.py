"""What a peer tells and what a reload changes: links go on, and those that begin later follow."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from tests.support import jwts
from tests.support.daemon import CONNECT, Daemon, Raw
from tests.support.pairs import JETBROKER, NATS_SERVER, server

HUB = 'leafnodes { listen: "127.0.0.1:-1" }\n'
SPOKE = 'max_payload: %d\nleafnodes { reconnect: "100ms", remotes: [ {url: "nats-leaf://127.0.0.1:%d"} ] }\n'
LOGIN = b'CONNECT {"name":"l","version":"2.14.5"%b}\r\n'
SECONDS = 20


def leaf_port(hub: Daemon) -> int:
    return int(hub.wait_for("Listening for leafnode connections").rpartition(":")[2])


def test_a_blank_subject_among_a_peers_permissions_is_none(tmp_path: Path) -> None:
    (tmp_path / "hub").write_text(HUB)
    with Daemon("-c", str(tmp_path / "hub")) as hub, hub.open() as client:
        client.exchange(CONNECT)
        with Raw(leaf_port(hub)) as leaf:
            leaf.send(LOGIN % b',"deny_pub":[" ","x"],"deny_sub":[""]')
            leaf.exchange(b"LS+ a\r\n")
            client.send(b"PUB a 1\r\n1\r\n")
            assert leaf.until(b"LMSG a 1\r\n1\r\n")
        assert not [line for line in hub.log if "Error" in line]


def test_links_that_begin_after_a_reload_take_larger_messages(tmp_path: Path) -> None:
    (tmp_path / "hub").write_text(HUB)
    with Daemon("-c", str(tmp_path / "hub")) as hub, hub.open() as giver:
        config = tmp_path / "spoke"
        config.write_text(SPOKE % (1024, leaf_port(hub)))
        giver.exchange(CONNECT)
        with Daemon("-c", str(config)) as spoke, spoke.open() as taker:
            taker.exchange(CONNECT + b"SUB large 1\r\n")
            config.write_text(SPOKE % (65536, leaf_port(hub)))
            spoke.send(signal.SIGHUP)
            spoke.wait_for("Reloaded server configuration")
            heard, until = b"", time.monotonic() + SECONDS
            while b"MSG large 1 5000\r\n" not in heard and time.monotonic() < until:
                giver.exchange(b"PUB large 5000\r\n" + bytes(5000) + b"\r\n")
                heard += taker.exchange(b"")
            assert b"MSG large 1 5000\r\n" in heard


def told_of_credentials(kind: str, folder: Path, files: dict[str, str]) -> list[str]:
    """What the log says when a start, then a reload finds a remote with each of these files."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    remotes = [
        f'{{ url: "nats-leaf://127.0.0.1:{number}", account: {account}, credentials: "{folder / name}" }}'
        for number, (name, account) in enumerate([(name, "A") for name in (*files, "nofile")] + [("limited", "SYS")], 1)
    ]
    config = folder / "conf"
    text = "accounts {{ A {{}}, SYS {{}} }}\nsystem_account: SYS\nleafnodes {{ remotes: [ {} ] }}\n"
    config.write_text(text.format(", ".join(remotes)))
    with server(kind, config) as spoke:
        spoke.wait_for("Server is ready")
        config.write_text(text.format(", ".join([*remotes, remotes[-1].replace("127.0.0.1", "127.0.0.2")])))
        spoke.send(signal.SIGHUP)
        spoke.wait_for("Reloaded server configuration")
        lines = [line.partition("] ")[2] for line in spoke.log if "LeafNode Remote " in line]
    return [line[line.index("[") :].replace(str(folder), "FOLDER") for line in lines]


def test_the_credentials_of_remotes_are_looked_at_as_by_nats_server(tmp_path: Path) -> None:
    account = jwts.Account("A")
    good, limited = account.user().creds(), account.user(nats={"pub": {"deny": ["a"]}}).creds()
    token, _, seed = good.partition("\n\n")
    files = {
        "good": good,
        "limited": limited,
        "answers": account.user(nats={"resp": {"max": 1}}).creds(),
        "half": token,
        "seed": token + "\n\n" + seed.replace("\nSU", "\nSX"),
        "token": good.replace("\ney", "\nxy", 1),
    }
    ours, theirs = (told_of_credentials(kind, tmp_path / kind, files) for kind in (JETBROKER, NATS_SERVER))
    assert ours == theirs
    assert len(ours) == 8
