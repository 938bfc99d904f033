"""How leafs begin: greetings, logins, who is one too many."""

from __future__ import annotations

import json

from tests.differential.leaf_steps import HELLO, OTHER, client, connect, leaf
from tests.support.leaf_conversations import END, Conversation, Step

HANDSHAKES = [
    Conversation("right login", [HELLO]),
    Conversation(
        "more than the right login",
        [leaf(connect(cluster="c", domain="d", jetstream=True, protocol=1, unknown={"a": [1]}))],
    ),
    Conversation(
        "a leaf of the future",
        [
            leaf(connect(version="99.1.0", protocol=9, features={"more": [1]})),
            leaf("LS+ foo"),
            client("PUB foo 2", "hi"),
        ],
    ),
    Conversation("no server name", [leaf(connect(name=None))]),
    Conversation("nothing but a login", [leaf('CONNECT {"user":"USER","pass":"p"}')]),
    Conversation("wrong password", [leaf(connect(**{"pass": "x"}), until=END)]),
    Conversation("unknown user", [leaf(connect(user="nobody"), until=END)]),
    Conversation("no login", [leaf(connect(user=None, **{"pass": None}), until=END)]),
    Conversation("empty CONNECT", [leaf("CONNECT {}", until=END)]),
    Conversation("CONNECT without JSON", [leaf("CONNECT", until=END)]),
    Conversation("CONNECT of broken JSON", [leaf('CONNECT {"user":', until=END)]),
    Conversation("CONNECT of an array", [leaf("CONNECT []", until=END)]),
    Conversation("interest before CONNECT", [leaf("LS+ foo", until=END)]),
    Conversation("a message before CONNECT", [leaf("LMSG foo 2", "hi", until=END)]),
    Conversation("PING before CONNECT", [leaf("PING", until=END)]),
    Conversation("INFO before CONNECT", [leaf('INFO {"server_id":"x"}', until=END)]),
    Conversation(
        "INFO with compression before CONNECT", [leaf('INFO {"server_id":"x","compression":"s2_fast"}', until=END)]
    ),
    Conversation(
        "a client on the leaf port", [leaf('CONNECT {"user":"USER","pass":"p","lang":"go","version":"1"}', until=END)]
    ),
    Conversation(
        "a client with wrong login on the leaf port",
        [leaf('CONNECT {"user":"nobody","pass":"p","lang":"go"}', until=END)],
    ),
    Conversation("a leaf on the client port", [Step("raw", connect())]),
    Conversation("garbage", [leaf("GET / HTTP/1.1", "", until=END)]),
    Conversation("garbage that begins with C", [leaf("COPY x", until=END)]),
    Conversation("garbage after CONNECT", [HELLO, leaf("GET / HTTP/1.1", "", until=END)]),
    Conversation("cluster with blanks", [leaf(connect(cluster="a b"), until=END)]),
    Conversation("cluster with a tab", [leaf(connect(cluster="a\tb"))]),
    Conversation("gateway", [leaf(connect(gateway="g"), until=END)]),
    Conversation("an account, as clients once could", [leaf(connect(account="x"), until=END)]),
    Conversation("hub on the other side", [leaf(connect(is_hub=True))]),
    Conversation("isolated", [leaf(connect(isolate=True))]),
    Conversation("old version", [leaf(connect(version="2.0.0"))]),
    Conversation("no version", [leaf(connect(version=None))]),
    Conversation("silence", [leaf(until=END)]),
    Conversation("half a CONNECT, then silence", [leaf(b'CONNECT {"user":"USER"', until=END)]),
    *(
        Conversation(f"CONNECT with {more}", [leaf(connect(**json.loads(f"{{{more}}}")), until="INFO"), leaf()])
        for more in (
            '"name":1 "cluster":1 "domain":true "is_hub":"yes" "headers":"yes" "deny_pub":"a" "deny_pub":[1]'
            ' "jetstream":1 "isolate":1 "compress_mode":true "compress_mode":"s2_fast" "gateway":1 "remote_account":1'
            ' "protocol":"1" "protocol":-1 "version":2 "server_id":1 "verbose":true "pedantic":true "user":1 "lang":1'
            ' "lang":"" "echo":false "no_responders":true'
        ).split()
    ),
]

PLAIN = [
    Conversation("right login", [HELLO]),
    Conversation("no login", [leaf(connect(user=None, **{"pass": None}))]),
    Conversation("a user nobody asked for", [leaf(connect(user="x"))]),
    Conversation("interest before CONNECT", [leaf("LS+ foo", until=END)]),
    Conversation("no more interest before CONNECT", [leaf("LS- foo", until=END)]),
    Conversation("a message before CONNECT", [leaf("LMSG foo 2", "hi"), HELLO]),
    Conversation("PING before CONNECT", [leaf("PING"), HELLO]),
    Conversation("INFO before CONNECT", [leaf('INFO {"server_id":"x","compression":"off"}'), HELLO]),
    Conversation("INFO without compression before CONNECT", [leaf('INFO {"server_id":"x"}'), HELLO]),
    Conversation(
        "INFO twice before CONNECT",
        [leaf('INFO {"server_id":"x","compression":"off"}'), leaf('INFO {"server_id":"x","compression":"off"}'), HELLO],
    ),
    Conversation(
        "INFO with unknown compression before CONNECT", [leaf('INFO {"server_id":"x","compression":"zip"}', until=END)]
    ),
    Conversation("garbage", [leaf("FOO", until=END)]),
    Conversation("silence", [leaf(until=END)]),
    Conversation("too old", [leaf(connect(version="2.9.0"))]),
    Conversation("no version", [leaf(connect(version=None))]),
    *(
        Conversation(f"version {version!r}", [leaf(connect(version=version), until="INFO"), leaf()])
        for version in (
            *"x 2.9.9 2.10 2.10.0-RC.1 2.10.0+b v2.10.0 2.10.0.1 2.10.x 02.10.0 2.10.0- 3 3.0.0 -1.2.3".split(),
            "99999999999999999999.1.1",
            "2.10.0 ",
            "",
        )
    ),
    Conversation("same cluster", [leaf(connect(cluster="same"))]),
]

DUPLICATES = [
    Conversation("the same server twice", [HELLO, leaf(connect(), who="leaf2"), leaf()]),
    Conversation("the same server, another cluster", [HELLO, leaf(connect(cluster="x"), who="leaf2"), leaf()]),
    Conversation(
        "the same server, another account of its own", [HELLO, leaf(connect(remote_account="S"), who="leaf2"), leaf()]
    ),
    Conversation(
        "the same server, no account of its own",
        [leaf(connect(remote_account=None)), leaf(connect(remote_account=None), who="leaf2"), leaf()],
    ),
    Conversation("without name twice", [leaf(connect(name=None)), leaf(connect(name=None), who="leaf2"), leaf()]),
    Conversation("another id", [HELLO, leaf(connect(server_id="OTHER"), who="leaf2"), leaf()]),
]

LIMITS = [
    Conversation("no leafs allowed", [leaf(connect(), until=END)], account="limits { max_leafnodes: 0 }", logged=False),
    Conversation(
        "one leaf allowed",
        [HELLO, leaf(connect(name="two"), until=END, who="leaf2"), leaf()],
        account="limits { max_leafnodes: 1 }",
        logged=False,  # nats-server goes on for a while with a link that it has refused
    ),
    Conversation("no clients allowed", [HELLO, client("SUB foo 1")], account="limits { max_connections: 0 }"),
    Conversation(
        "subscriptions of an account",
        [HELLO, leaf("LS+ a", "LS+ b", "LS+ c"), leaf("LS+ d")],
        account="limits { max_subscriptions: 2 }",
    ),
    Conversation(
        "payload of an account",
        [HELLO, client("SUB foo 1"), leaf("LMSG foo 4", "1234"), leaf("LMSG foo 5", "12345"), leaf()],
        account="limits { max_payload: 4 }",
    ),
]

LOOPS = [
    Conversation("its own subject comes back", [HELLO, leaf("LS+ OWN_LOOP", until=END)]),
    Conversation("its own subject as a queue", [HELLO, leaf("LS+ OWN_LOOP q 1", until=END)]),
    Conversation(
        "a subject is passed on",
        [HELLO, OTHER, leaf("LS+ $LDS.peer"), leaf("LS+ $LDS.two", who="leaf2"), leaf("LS- $LDS.peer")],
    ),
    Conversation(
        "the same subject twice",
        [HELLO, OTHER, leaf("LS+ $LDS.peer"), leaf("LS+ $LDS.peer"), leaf("LS+ $LDS.peer", who="leaf2")],
    ),
    Conversation(
        "two leafs of one account share the subject",
        [HELLO, OTHER, leaf("LS+ OWN_LOOP", until=END, who="leaf2"), leaf()],
    ),
]
