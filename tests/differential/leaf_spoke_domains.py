"""What of JetStream crosses a link to a hub, by the domains of both sides."""

from __future__ import annotations

from tests.differential.leaf_steps import client, first, hub, published, second
from tests.support.leaf_conversations import Conversation, Step

API = (
    b"$JS.API.x $KV.x $OBJ.x $O.x $JS.leaf.API.x $JS.hub.API.x $JS.leaf.API.STREAM.x"
    b" $JS.hub.API.STREAM.x $JS.leaf.API.$KV.x $JS.ACK.x $JSC.x $JS.FC.x $JS.EVENT.x"
).split()
HUBS: list[dict[str, object]] = [{}, {"domain": "hub", "jetstream": True}, {"domain": "leaf", "jetstream": True}]


def crossing(fields: dict[str, object]) -> list[Step]:
    """What of JetStream's subjects crosses a link: told, from a client to the hub, from the hub to a client."""
    return [
        first(fields),
        second(fields),
        hub("LS+ >"),
        client(published(API)),
        client("SUB > 1", "SUB $KV.> 2", "SUB $JS.API.> 3", "SUB $KV.x 4", "SUB $JS.leaf.API.> 5"),
        hub(published(API).replace(b"PUB", b"LMSG")),
        hub("LS+ $JS.leaf.API.x", "LS+ $KV.x"),
        hub("LS+ r"),
    ]


DOMAINS = [
    Conversation(
        f"an account with{wanted}, a hub of {fields}, {remote}", crossing(fields), account=account, remote=remote
    )
    for wanted, account in [(" JetStream", "jetstream: enabled"), ("out", "")]
    for fields in HUBS
    for remote in ("hub: false", "hub: true")
]
