"""Interest, permissions and messages of links to hubs."""

from __future__ import annotations

from tests.differential.leaf_steps import SERVICES, STREAMS, UP, client, connect, first, hub, leaf, says, second
from tests.support.leaf_conversations import END, NOTHING, Conversation

INTEREST = [
    Conversation(
        "SUB and UNSUB", [*UP, client("SUB foo 1"), client("SUB foo 2"), client("UNSUB 1"), client("UNSUB 2")]
    ),
    Conversation("queues", [*UP, client("SUB foo q 1"), client("SUB foo q 2"), client("UNSUB 1"), client("UNSUB 2")]),
    Conversation(
        "interest that is there before",
        [client("SUB foo 1", "SUB foo 2", "SUB bar q 3", "SUB bar q 4", "SUB a.* 5", "SUB > 6"), *UP],
    ),
    Conversation("interest of the hub", [*UP, hub("LS+ foo", "LS+ bar q 3"), hub("LS- foo"), hub("LS+ bar q 1")]),
    Conversation("mappings", UP, account='mappings { foo: bar, "a.*": "b.$1" }'),
    Conversation(
        "services",
        UP,
        account=SERVICES,
    ),
    Conversation(
        "streams",
        [*UP, client("SUB str.a 1"), client("SUB p.tick.> 2")],
        account=STREAMS,
    ),
    Conversation(
        "what the hub does not import",
        [
            *UP[:1],
            second({"import": {"deny": ["foo", "a.>"]}}),
            client("SUB foo 1", "SUB a.b 2", "SUB a.* 3", "SUB > 4", "SUB b 5"),
            hub("LMSG foo 2", "hi", "LMSG a.b 2", "hi", "LMSG b 2", "hi"),
            client("UNSUB 1"),
        ],
    ),
    Conversation(
        "what the hub lets in",
        [
            *UP[:1],
            second({"import": {"allow": ["foo", "a.>"]}}),
            client("SUB foo 1", "SUB a.b 2", "SUB a.* 3", "SUB > 4", "SUB b 5", "SUB foo q 6"),
            hub("LMSG foo 2", "hi", "LMSG a.b 2", "hi", "LMSG b 2", "hi"),
        ],
    ),
    Conversation(
        "what the hub lets out",
        [
            *UP[:1],
            second(export={"allow": ["foo", "a.>"], "deny": ["a.no"]}),
            hub("LS+ >", "LS+ b"),
            client("PUB foo 2", "hi", "PUB a.no 2", "hi", "PUB a.yes 2", "hi", "PUB b 2", "hi"),
            client("PUB _R_.x 2", "hi", "PUB $JS.ACK.x 2", "hi"),
        ],
    ),
    Conversation(
        "permissions and a mapping",
        [*UP[:1], second({"import": {"deny": ["foo"]}})],
        account="mappings { foo: bar, baz: bar }",
    ),
    Conversation(
        "permissions and a service",
        [*UP[:1], second({"import": {"deny": ["svc.here"]}})],
        account=SERVICES,
    ),
    Conversation("permissions and a loop", [*UP[:1], second({"import": {"deny": ["$LDS.>"]}})]),
    Conversation(
        "denied imports",
        [
            *UP,
            client("SUB foo 1", "SUB a.b 2", "SUB a.* 3", "SUB > 4", "SUB b 5", "SUB foo q 6"),
            hub(
                "LMSG foo 2",
                "hi",
                "LMSG a.b 2",
                "hi",
                "LMSG b 2",
                "hi",
                "LMSG a.c re 2",
                "hi",
                "HMSG foo 12 14",
                "NATS/1.0",
                "",
                "hi",
            ),
            client("UNSUB 1"),
        ],
        remote='deny_imports: [foo, "a.*"]',
    ),
    Conversation(
        "denied exports",
        [
            *UP,
            hub("LS+ foo", "LS+ a.b", "LS+ >", "LS+ b", "LS+ a.b q 1"),
            client("PUB foo 2", "hi", "PUB a.b 2", "hi", "PUB b 2", "hi"),
        ],
        remote='deny_exports: [foo, "a.*"]',
    ),
    Conversation(
        "denied exports of a hub of its own",
        [*UP, client("SUB > 1"), hub("LMSG open 1", "x"), hub("LMSG shut 1", "y", until=END)],
        remote="hub: true, deny_exports: [shut]",
    ),
    Conversation(
        "denied exports of a hub of its own, told later",
        [*UP[:1], second(export={"deny": ["shut"]}), client("SUB > 1"), hub("LMSG shut 1", "y", until=END)],
        remote="hub: true",
    ),
    Conversation(
        "both denies and permissions",
        [
            *UP[:1],
            second({"import": {"allow": ["a.>", "b.>"]}, "export": {"deny": ["x"]}}),
            client("SUB a.b 1", "SUB b.b 2", "SUB c 3"),
            hub("LS+ *"),
            client("PUB x 2", "hi", "PUB y 2", "hi", "PUB z 2", "hi"),
        ],
        remote='deny_imports: ["a.>"], deny_exports: [y]',
    ),
]

MESSAGES = [
    Conversation(
        "to the hub",
        [
            *UP,
            hub("LS+ foo", "LS+ bar q 1"),
            client(
                "PUB foo 2",
                "hi",
                "PUB foo re 2",
                "hi",
                "PUB bar 2",
                "hi",
                "PUB bar re 2",
                "hi",
                "HPUB foo 12 14",
                "NATS/1.0",
                "",
                "hi",
            ),
        ],
    ),
    Conversation(
        "from the hub",
        [
            *UP,
            client("SUB foo 1", "SUB foo q 2", "SUB foo r 3"),
            hub("LMSG foo 2", "hi"),
            hub("LMSG foo | q 2", "hi"),
            hub("LMSG foo + re q r 2", "hi"),
            hub("HMSG foo + re q r 12 14", "NATS/1.0", "", "hi"),
        ],
    ),
    Conversation("never subscribed", [*UP, hub("LMSG nobody 2", "hi"), hub("LMSG nobody re 2", "hi")]),
    Conversation(
        "no responders",
        [
            *UP,
            says(
                "raw",
                'CONNECT {"verbose":false,"user":"USER","pass":"p","headers":true,"no_responders":true}',
                "SUB re.ply 1",
            ),
            says("raw", "PUB foo re.ply 2", "hi"),
            hub("LS+ foo"),
            says("raw", "PUB foo re.ply 2", "hi"),
        ],
    ),
    Conversation(
        "a request of the hub",
        [
            *UP,
            client("SUB foo 1"),
            hub("LMSG foo _INBOX.x 2", "hi"),
            hub("LS+ _INBOX.x"),
            client("PUB _INBOX.x 2", "ok"),
        ],
    ),
    Conversation(
        "the original subject in an ack reply",
        [
            *UP,
            client("SUB deliver 1"),
            hub("LMSG deliver $JS.ACK.s.c.1.1.1.1700000000000000000.0@orig.subject 2", "hi"),
            hub("LMSG deliver $JS.ACK.s.c.1.1.1.1700000000000000000.0 2", "hi"),
            hub("LMSG deliver re@ply 2", "hi"),
            hub("LMSG deliver $JS.ACK.d.h.s.c.1.1.1.1700000000000000000.0.x@orig.subject 2", "hi"),
            hub("LMSG deliver $JS.ACK.s.c.1.1.1.1700000000000000000.0@ 2", "hi"),
            hub("LMSG deliver $JS.ACK.s.c@x 2", "hi"),
        ],
    ),
    *(
        Conversation(f"{verb} with {arguments!r}", [*UP, client("SUB foo 1", "SUB > 2"), hub(line % arguments), hub()])
        for verb, line, cases in (
            ("LMSG", b"LMSG %b\r\nhi\r\n", b";foo;foo x;foo -1;foo re ply 2;foo xx q 2;foo.* 2;foo 3;foo 1048577"),
            (
                "HMSG",
                b"HMSG %b\r\nNATS/1.0\r\n\r\nhi\r\n",
                b";foo;foo 14;foo 12 14;foo 15 14;foo x 14;foo 12 x;foo -1 14;foo x q 12 14;foo 5 14;foo 12 1048577",
            ),
            ("LS-", b"LS- %b\r\n", b";nobody;nobody q;foo q 1;foo.."),
        )
        for arguments in cases.split(b";")
    ),
    Conversation("an unknown verb", [*UP, hub("FOO", until=END)]),
    Conversation("a message cut off", [*UP, hub(b"LMSG foo 10\r\nhi", until=NOTHING)]),
    Conversation("a line that does not end", [*UP, hub(b"LS+ " + b"x" * 4096 * 17, until=END)]),
    Conversation("a subject that is none", [*UP, hub("LS+ foo..bar"), hub("LS+ foo q", until=END)]),
    Conversation("too large", [*UP, hub("LMSG foo 1048577", until=END)]),
]

LEAF = leaf(connect(name="leaf", cluster="leaf"))
LEAF_AS_HUB = leaf(connect(name="leaf", cluster="leaf", is_hub=True))
LINKED = [*UP, LEAF, leaf("LS+ foo"), hub("LS+ up")]
CHAINS = [
    Conversation(
        "interest in a chain",
        [
            *UP,
            LEAF,
            leaf("LS+ foo", "LS+ bar q 2"),
            hub("LS+ up", "LS+ up q 3"),
            client("SUB here 1"),
            leaf("LS- foo", "LS- bar q"),
            hub("LS- up", "LS- up q"),
        ],
    ),
    Conversation(
        "interest that was there before a hub",
        [LEAF, leaf("LS+ foo", "LS+ bar q 2", "LS+ $LDS.leaf"), client("SUB here 1"), *UP],
    ),
    Conversation("interest that was there before a leaf", [*UP, hub("LS+ up", "LS+ up q 3", "LS+ $LDS.hub"), LEAF]),
    Conversation("loops in a chain", [*UP, LEAF, leaf("LS+ $LDS.leaf"), hub("LS+ $LDS.hub"), hub("LS+ $LDS.leaf")]),
    Conversation("a loop by a leaf", [*UP, LEAF, leaf("LS+ OWN_LOOP", until=END), hub()]),
    Conversation(
        "messages in a chain",
        [
            *UP,
            LEAF,
            leaf("LS+ foo"),
            hub("LS+ up"),
            hub("LMSG foo 2", "hi"),
            leaf("LMSG up re 2", "hi"),
            client("PUB foo 1", "x", "PUB up 1", "y"),
            leaf("LMSG foo 2", "hi"),
            hub("LMSG up 2", "hi"),
        ],
    ),
    Conversation(
        "queues in a chain",
        [
            *UP,
            LEAF,
            leaf("LS+ foo q 1"),
            hub("LS+ bar q 1"),
            hub("LMSG foo | q 2", "hi"),
            hub("LMSG foo 2", "hi"),
            leaf("LMSG foo | q 2", "hi"),
            leaf("LMSG bar + re q 2", "hi"),
            leaf("LMSG bar 2", "hi"),
        ],
    ),
    Conversation(
        "a hub goes, and its interest", [*UP, LEAF, hub("LS+ up"), hub("FOO", until=END), leaf(until="LS- up")]
    ),
    Conversation(
        "a leaf goes, and its interest", [*UP, LEAF, leaf("LS+ foo"), leaf("FOO", until=END), hub(until="LS- foo")]
    ),
    Conversation(
        "the hub of a hub",
        [
            *UP,
            LEAF_AS_HUB,
            leaf("LS+ foo"),
            hub("LS+ up"),
            client("SUB x 1"),
        ],
    ),
    Conversation(
        "a hub of its own, and a leaf",
        [*LINKED, client("SUB x 1")],
        remote="hub: true",
    ),
    Conversation(
        "a leaf named as the hub's cluster",
        [first(cluster="leaf"), second(cluster="leaf"), LEAF, leaf("LS+ foo"), hub("LS+ up"), client("SUB x 1")],
    ),
    Conversation("isolation asked of the hub", LINKED, remote="request_isolation: true"),
    Conversation("isolation here", LINKED, remote="isolate: true"),
]
