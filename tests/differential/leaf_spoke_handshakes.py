"""How links to hubs begin: greetings, errors, what changes later."""

from __future__ import annotations

import json

from tests.differential.leaf_steps import UP, client, first, hub, second
from tests.support import jwts
from tests.support.leaf_conversations import END, NOTHING, Conversation
from tests.support.nkeys import UserKey

OTHER_HUBS: dict[str, list[object]] = {
    "version": ["", "x", "1.0.0", "v2.10.0", 5, None],
    "proto": [-1, 0, 1, 2, 4, 2**31],
    "api_lvl": [-1, 0, 1, 99, "x", None],
}
HANDSHAKES = [
    Conversation("right", UP),
    Conversation("a user in the URL", UP, login="USER:p%40@"),
    Conversation("a name alone in the URL", UP, login="token@"),
    Conversation("denies of the remote", UP, remote='deny_imports: [a.b, "c.>"], deny_exports: ["d.*"]'),
    Conversation("hub of its own", UP, remote="hub: true"),
    Conversation("isolated", UP, remote="request_isolation: true"),
    Conversation("isolated here", UP, remote="isolate: true"),
    Conversation("compression on", UP, remote="compression: s2_fast"),
    Conversation("compression accept", UP, remote="compression: accept"),
    Conversation("a hub that tells nothing of compression", [first(compression=None), second()]),
    Conversation("a hub that cannot compress", [first(compression="not supported"), second()]),
    Conversation("a hub that accepts compression", [first(compression="accept"), second()]),
    Conversation(
        "a hub with compression, a remote without", [first(compression="s2_fast"), second()], remote="compression: off"
    ),
    Conversation("a hub with unknown compression", [first(compression="zip"), second()], remote="compression: off"),
    Conversation(
        "a hub without headers",
        [
            first(headers=None),
            second(headers=None),
            client("HPUB foo 12 14", "NATS/1.0", "", "hi"),
            hub("LS+ foo"),
            client("HPUB foo 18 20", "NATS/1.0", "a: b", "", "hi"),
        ],
    ),
    Conversation("a hub of the past", [first(proto=None, info_on_connect=None, api_lvl=None, compression=None), hub()]),
    Conversation(
        "a hub of the future",
        [
            first(version="99.1.0", proto=9, api_lvl=99, features={"more": [1]}),
            second(version="99.1.0", proto=9, api_lvl=99, features={"more": [1]}),
            client("SUB foo 1"),
            hub("LMSG foo 2", "hi"),
        ],
    ),
    *(
        Conversation(
            f"a hub whose {key} is {value!r}",
            [first({key: value}), second({key: value}), client("SUB foo 1"), hub("LMSG foo 2", "hi")],
        )
        for key, values in OTHER_HUBS.items()
        for value in values
    ),
    Conversation("a hub with a domain", [first(domain="d", jetstream=True), second(domain="d", jetstream=True)]),
    Conversation("a hub with a cluster", [first(cluster="c"), second(cluster="c")]),
    Conversation("a hub with our own name as cluster", [first(cluster="same"), second(cluster="same")]),
    Conversation("a hub whose cluster has blanks", [first(until=END, cluster="a b")]),
    Conversation("no client id: another port", [first(until=END, client_id=None)]),
    Conversation("no leafnode URLs: another port", [first(until=END, leafnode_urls=None)]),
    Conversation("empty leafnode URLs", [first(leafnode_urls=[]), second()]),
    Conversation("a client port", [first(until=END, proto=1, leafnode_urls=None, nonce=None, info_on_connect=None)]),
    Conversation("silence", [hub(until=END)], patience="1s"),
    Conversation("half an INFO", [hub(b'INFO {"server_id":', until=END)], patience="1s"),
    Conversation("silence after CONNECT", [first(), hub(until=END)]),
    Conversation("PONGs alone after CONNECT", [first(), hub("PONG"), hub(until=END)]),
    Conversation("garbage", [hub("HTTP/1.1 400 Bad Request", "", until=END)]),
    Conversation("garbage after INFO", [first(), hub("HTTP/1.1 400 Bad Request", "", until=END)]),
    Conversation("broken JSON", [hub("INFO {", until=END)]),
    Conversation("an array", [hub("INFO []", until=END)]),
    Conversation("an empty INFO", [hub("INFO {}", until=END)]),
    *(
        Conversation(f"INFO with {more}", [first(json.loads(f"{{{more}}}")), hub()])
        for more in (
            '"server_id":1 "server_name":1 "headers":"yes" "client_id":-1 "client_id":"5" "client_id":0'
            ' "leafnode_urls":"x" "leafnode_urls":[1] "nonce":1 "compression":1'
            ' "domain":1 "cluster":1 "info_on_connect":1 "connect_info":true "remote_account":"X" "proto":"1"'
            ' "tls_required":"x" "unknown":[1] "max_payload":10 "import":{"allow":["a"]} "import":"x"'
            ' "export":{"deny":[1]} "gateway":"g" "acc_is_sys":true'
        ).split()
    ),
    Conversation("CONNECT of the hub", [*UP, hub('CONNECT {"server_id":"x"}')]),
    Conversation("subscriptions before the second INFO", [client("SUB foo 1"), first(), client("SUB bar 2"), second()]),
    Conversation("a second INFO twice", [*UP, second()]),
    Conversation(
        "wrong credentials", [first(), hub("-ERR 'Authorization Violation'", until=NOTHING), hub(until="end")]
    ),
]

ERRORS = [
    Conversation(f"the hub says {text}", [*UP, hub(b"-ERR '%b'\r\n" % text.encode()), hub()])
    for text in (
        "hello|Authorization Violation|Authentication Timeout|User Authentication Expired|User Authentication Revoked"
        "|Stale Connection|maximum account active connections exceeded|maximum connections exceeded"
        "|remote leafnode has same cluster name|Loop detected"
        '|Loop detected for leafnode account="A". Delaying attempt to reconnect for 30s'
        '|connection rejected since minimum version required is "2.10.0"'
        '|Permissions Violation for Publish to "foo"|Permissions Violation for Subscription to "foo"'
        "|Duplicate Remote LeafNode Connection|cluster name cannot contain spaces"
        "|attempted to connect to leaf node port|Server Shutdown|maximum subscriptions exceeded|Invalid Subscription"
    ).split("|")
]

LOOPS = [
    Conversation("its own subject comes back", [*UP, hub("LS+ OWN_LOOP", until=END)]),
    Conversation(
        "its own subject comes back with another delay",
        [*UP, hub("-ERR 'Loop detected for leafnode account=\"H\". Delaying attempt to reconnect for 30s'", until=END)],
    ),
    Conversation("a subject of the hub", [*UP, hub("LS+ $LDS.hub")]),
    Conversation("no leafs allowed", [first(), second(until=END)], account="limits { max_leafnodes: 0 }"),
]

UPDATES = [
    Conversation("new URLs", [*UP, second(leafnode_urls=["127.0.0.1:1", "127.0.0.1:PEER"])]),
    Conversation("no URLs", [*UP, second(leafnode_urls=None)]),
    Conversation("INFO without anything", [*UP, hub("INFO {}")]),
    Conversation("another server", [*UP, second(server_id="OTHER", server_name="other", cluster="x")]),
    Conversation("lame duck", [*UP, second(ldm=True)]),
    Conversation("another cluster with blanks", [*UP, second(cluster="a b")]),
    Conversation(
        "the cut, then again",
        [*UP, client("SUB foo 1"), hub("FOO", until=END), first(who="hub2"), second(who="hub2")],
    ),
]

KEY = UserKey()
LOGINS = [
    Conversation("an nkey", UP, remote=f"nkey: {KEY.seed}"),
    Conversation("a login", UP, login="USER:p@"),
    Conversation("credentials", UP, credentials=jwts.Account("A").user().creds()),
    Conversation("credentials and a login", UP, login="USER:p@", credentials=jwts.Account("A").user().creds()),
    Conversation(
        "credentials with permissions",
        UP,
        credentials=jwts.Account("A").user(nats={"pub": {"allow": ["a"]}, "sub": {"allow": ["b"]}}).creds(),
    ),
]
