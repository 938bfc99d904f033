"""A server at the other end that takes nothing is cut off, and dialled again."""

from __future__ import annotations

from pathlib import Path

from tests.support.daemon import CONNECT, Daemon
from tests.support.leaf_peer import Listener, Peer

INFO = (
    b'INFO {"server_id":"hub","server_name":"hub","version":"2.14.5","proto":3,"headers":true,"client_id":1,'
    b'"max_payload":1048576,"leafnode_urls":["127.0.0.1:1"],"info_on_connect":true%b}\r\n'
)
PAYLOAD = b"x" * 65_536


def linked(listener: Listener) -> Peer:
    """The hub's side of a link that stands."""
    peer = Peer(listener.accept(), {listener.port: "HUB"})
    peer.say(INFO % b"")
    peer.until("CONNECT")
    peer.say(INFO % b',"connect_info":true' + b"LS+ flood\r\n")
    peer.until_pong()
    return peer


def test_a_hub_that_takes_nothing_is_left_and_dialled_again(tmp_path: Path) -> None:
    listener = Listener()
    config = tmp_path / "spoke.conf"
    url = f"nats-leaf://127.0.0.1:{listener.port}"
    config.write_text(f'leafnodes {{ write_deadline: "200ms", reconnect: "50ms", remotes: [ {{url: "{url}"}} ] }}\n')
    with Daemon("-c", str(config)) as spoke, spoke.open() as client:
        peer = linked(listener)
        client.send(CONNECT)
        lines = len(spoke.log)
        while not any("Slow Consumer Detected: WriteDeadline of 200ms" in line for line in spoke.log[lines:]):
            client.exchange(b"PUB flood %d\r\n%b\r\n" % (len(PAYLOAD), PAYLOAD))
        spoke.wait_for("Leafnode connection closed: Slow Consumer (Write Deadline)", lines)
        again = linked(listener)
        client.send(b"PUB flood 2\r\nhi\r\n")
        assert again.until("LMSG") == ["LMSG flood 2|hi"]
        for one in (peer.connection, again.connection):
            one.close()
    listener.close()
