"""What a hub tells in its first INFO: where other servers find its port for links."""

from __future__ import annotations

import errno
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from jetbroker.leafnodes import interfaces
from tests.support.daemon import Raw
from tests.support.pairs import JETBROKER, NATS_SERVER, server

KINDS = [JETBROKER, NATS_SERVER]


def greeted(kind: str, config: Path) -> tuple[dict[str, Any], list[str]]:
    """Its INFO, with PORT in the place of the port, and what the log says of addresses."""
    with server(kind, config) as hub:
        port = hub.wait_for("Listening for leafnode connections").rpartition(":")[2]
        with Raw(int(port)) as leaf:
            info = leaf.info.removeprefix(b"INFO ").replace(port.encode(), b"PORT").replace(b":PORT,", b':"PORT",')
        hub.wait_for("Server is ready")
        return json.loads(info), [line.partition("[ERR] ")[2] for line in hub.log if "non-local IP" in line]


@pytest.mark.parametrize("kind", KINDS)
def test_its_address_is_told_whatever_is_advertised(kind: str, tmp_path: Path) -> None:
    config = tmp_path / "hub.conf"
    config.write_text(
        'listen: "127.0.0.1:-1"\nwebsocket { listen: "127.0.0.1:-1", no_tls: true }\n'
        'leafnodes { listen: "127.0.0.1:-1", no_advertise: true }\n'
    )
    info, _ = greeted(kind, config)
    assert info["leafnode_urls"] == ["127.0.0.1:PORT"]
    assert "ws_connect_urls" not in info


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_who_listens_everywhere_tells_the_same_address_as_nats_server(host: str, tmp_path: Path) -> None:
    config = tmp_path / "hub.conf"
    config.write_text(f'listen: "127.0.0.1:-1"\nleafnodes {{ host: "{host}", port: -1 }}\n')
    (ours, told), (theirs, expected) = (greeted(kind, config) for kind in KINDS)
    for name in ("host", "ip", "leafnode_urls"):
        assert ours[name] == theirs[name]
    assert told == expected


def test_a_sandbox_that_hides_the_interfaces_has_no_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse() -> list[tuple[int, str]]:
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))

    monkeypatch.setattr(socket, "if_nameindex", refuse)
    monkeypatch.setattr(interfaces, "_IPV6_ADDRESSES", tmp_path / "none")
    assert interfaces.own_address() is None
