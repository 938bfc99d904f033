"""What of JetStream crosses a link, by the domains of both sides."""

from __future__ import annotations

from tests.differential.leaf_steps import HELLO, client, connect, leaf, published, request, says
from tests.support.leaf_conversations import Conversation, Step

API = (
    b"$JS.API.x $KV.x $OBJ.x $O.x $JS.leaf.API.x $JS.hub.API.x $JS.hub.API.STREAM.x $JS.hub.API.$KV.x"
    b" $JS.ACK.x $JSC.x $NRG.x $JS.FC.x $JS.EVENT.x"
).split()
PEERS: list[dict[str, object]] = [
    {},
    {"domain": "leaf", "jetstream": True},
    {"domain": "hub", "jetstream": True},
    {"is_hub": True, "domain": "leaf"},
]


def crossing(peer: dict[str, object]) -> list[Step]:
    """What of JetStream's subjects crosses a link: told, from a client to the leaf, from the leaf to a client."""
    return [
        leaf(connect(**peer)),
        leaf("LS+ >"),
        client(published(API)),
        client("SUB > 1", "SUB $KV.> 2", "SUB $JS.API.> 3", "SUB $KV.x 4", "SUB $JS.hub.API.> 5"),
        leaf(published(API).replace(b"PUB", b"LMSG")),
        leaf("LS+ $JS.hub.API.x", "LS+ $O.x", "LS+ $JS.ACK.x"),
        leaf("LS+ $KV.x"),
    ]


DOMAINS = [
    *(
        Conversation(f"an account with JetStream, a peer of {peer}", crossing(peer), account="jetstream: enabled")
        for peer in PEERS
    ),
    *(Conversation(f"an account without JetStream, a peer of {peer}", crossing(peer)) for peer in PEERS),
]

SYSTEM_API = [subject for subject in API if not subject.startswith(b"$JS.EVENT")]
SYSTEM = [
    Conversation(
        f"a peer of {peer}",
        [
            leaf(connect(user="sys", name=f"peer{number}", **peer)),
            leaf(b"".join(b"LS+ %b.>\r\n" % subject[:-2] for subject in SYSTEM_API)),
            says("other", 'CONNECT {"verbose":false,"user":"sys","pass":"p"}', shown=False),
            Step("other", published(SYSTEM_API)),
            leaf("LS+ $NRG.x"),
        ],
    )
    for number, peer in enumerate(PEERS)
]
CONSUMER = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
DOMAIN_LIFE = [
    Conversation(
        "a stream and a consumer",
        [
            HELLO,
            client("SUB r 1"),
            Step("client", request(b"STREAM.CREATE.S", {"name": "S", "subjects": ["s.>", "t"]}), "MSG", shown=False),
            Step("client", request(b"CONSUMER.DURABLE.CREATE.S.C", CONSUMER), "MSG", shown=False),
            Step("client", request(b"STREAM.DELETE.S", {}), "MSG", shown=False),
        ],
        account="jetstream: enabled",
    ),
    Conversation(
        "requests of a leaf",
        [
            leaf(connect(domain="leaf")),
            leaf("LS+ _INBOX.>"),
            leaf("LMSG $JS.API.STREAM.NAMES _INBOX.x 0", "", until="LMSG"),
            leaf("LMSG $JS.hub.API.STREAM.NAMES _INBOX.y 0", "", until="LMSG"),
        ],
        account="jetstream: enabled",
    ),
]
