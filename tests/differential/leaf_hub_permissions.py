"""What a leaf may send and get."""

from __future__ import annotations

from tests.differential.leaf_steps import HELLO, OTHER, client, connect, leaf
from tests.support.leaf_conversations import END, Conversation

PERMISSIONS = [
    Conversation(
        "publish allowed",
        [
            HELLO,
            client("SUB > 1", "SUB foo 2"),
            leaf("LMSG a.b 2", "hi", "LMSG _R_.x 2", "hi", "LMSG $JS.ACK.x 2", "hi"),
            leaf("LMSG b 2", "hi", until=END),
        ],
        user='permissions: { publish: "a.>" }',
    ),
    Conversation(
        "publish denied",
        [HELLO, client("SUB > 1"), leaf("LMSG b 2", "hi"), leaf("LMSG a.b 2", "hi", until=END)],
        user='permissions: { publish: {deny: "a.>"} }',
    ),
    Conversation(
        "subscribe allowed",
        [
            HELLO,
            client("SUB x 1"),
            leaf("LS+ a.b", "LS+ a.*", "LS+ >", "LS+ a.b q 1"),
            client("PUB a.b 2", "hi", "PUB b 2", "hi", who="client2"),
            leaf("LS+ b", until=END),
        ],
        user='permissions: { subscribe: "a.>" }',
    ),
    Conversation(
        "subscribe denied",
        [
            HELLO,
            leaf("LS+ b", "LS+ a.*", "LS+ >"),
            client("PUB a.b 2", "hi", "PUB b 2", "hi"),
            leaf("LS+ a.b", until=END),
        ],
        user='permissions: { subscribe: {deny: "a.>"} }',
    ),
    Conversation(
        "a queue denied", [HELLO, leaf("LS+ a.b q 1", until=END)], user='permissions: { subscribe: {deny: "a.>"} }'
    ),
    Conversation(
        "denied to one queue group alone",
        [
            HELLO,
            leaf("LS+ broad.* workers 1", "LS+ broad.* auditors 1"),
            leaf("LS+ exact.secret workers 1", "LS+ exact.secret auditors 1", "LS+ alone workers 1"),
            client("PUB broad.secret 1", "a", "PUB broad.public 1", "b", "PUB exact.secret 1", "c", "PUB alone 1", "d"),
            leaf("LS+ exact.secret", "LS- exact.secret auditors"),
            client("PUB exact.secret 1", "e", "SUB r 1", "PUB alone r 1", "f"),
        ],
        user='permissions: { subscribe: {deny: ["broad.secret workers", "exact.secret workers", "alone *"]} }',
    ),
    Conversation(
        "a wildcard denied",
        [HELLO, leaf("LS+ a.>"), leaf("LS+ a.*.c"), client("PUB a.b 2", "hi")],
        user='permissions: { subscribe: {deny: "a.>"} }',
    ),
    Conversation(
        "loops whatever is permitted",
        [HELLO, OTHER, leaf("LS+ $LDS.peer")],
        user='permissions: { subscribe: "a.>", publish: "a.>" }',
    ),
    Conversation(
        "what a leaf may send is what it is told",
        [
            HELLO,
            client("SUB a.b 1", "SUB b 2", "SUB > 3", "SUB a.c q 4", "SUB *.* 5"),
            client("UNSUB 1"),
            client("UNSUB 2"),
        ],
        user='permissions: { publish: "a.>" }',
    ),
    Conversation(
        "what a leaf must not send",
        [HELLO, client("SUB a.b 1", "SUB b 2", "SUB > 3")],
        user='permissions: { publish: {deny: "a.>"} }',
    ),
    Conversation(
        "a mapping and the subject as received",
        [HELLO, client("SUB bar 1"), leaf("LMSG foo 2", "hi"), leaf("LMSG bar 2", "hi", until=END)],
        user="permissions: { publish: {deny: bar} }",
        account="mappings { foo: bar }",
    ),
    Conversation(
        "denied by the leaf",
        [
            leaf(connect(deny_pub=["foo", "a.>"])),
            leaf("LS+ foo", "LS+ >", "LS+ b"),
            client("SUB foo 1", "SUB a.b 2"),
            client("PUB foo 2", "hi", "PUB a.b 2", "hi", "PUB b 2", "hi"),
            leaf("LMSG foo 2", "hi"),
        ],
    ),
    Conversation(
        "denied by the leaf and by us",
        [leaf(connect(deny_pub=["b"])), leaf("LS+ >"), client("PUB foo 2", "hi", "PUB a 2", "hi", "PUB b 2", "hi")],
        user="permissions: { subscribe: {deny: a} }",
    ),
    Conversation(
        "denied by the leaf with what is no subject",
        [leaf(connect(deny_pub=["a..b", "", "x y"])), leaf("LS+ >"), client("PUB b 2", "hi")],
    ),
    Conversation("connection types", [leaf(connect(), until=END)], user="allowed_connection_types: [STANDARD]"),
    Conversation("the right connection type", [HELLO], user="allowed_connection_types: [leafnode]"),
    Conversation(
        "hub on the other side, permissions",
        [
            leaf(connect(is_hub=True)),
            leaf("LS+ foo", "LS+ a.b"),
            client("SUB > 1", "SUB a.b 2", "SUB b 3"),
            leaf("LMSG a.b 2", "hi", "LMSG b 2", "hi"),
            client("PUB a.b 2", "hi", "PUB foo 2", "hi", who="client2"),
        ],
        user='permissions: { publish: "a.>", subscribe: "a.>" }',
    ),
]
