"""What leafs are told of interest, and what they tell."""

from __future__ import annotations

from tests.differential.leaf_steps import CONNECT_X, HELLO, OTHER, SERVICES, STREAMS, client, connect, leaf, says
from tests.support.leaf_conversations import END, Conversation

INTEREST = [
    Conversation("SUB and UNSUB", [HELLO, client("SUB foo 1"), client("UNSUB 1")]),
    Conversation(
        "two subscriptions on one subject",
        [HELLO, client("SUB foo 1"), client("SUB foo 2"), client("UNSUB 1"), client("UNSUB 2")],
    ),
    Conversation(
        "two clients on one subject",
        [
            HELLO,
            client("SUB foo 1"),
            client("SUB foo 1", who="client2"),
            client("UNSUB 1"),
            client("UNSUB 1", who="client2"),
        ],
    ),
    Conversation(
        "a queue and its weight",
        [
            HELLO,
            client("SUB foo q 1"),
            client("SUB foo q 2"),
            client("SUB foo q 3"),
            client("UNSUB 2"),
            client("UNSUB 1"),
            client("UNSUB 3"),
        ],
    ),
    Conversation(
        "two queues and a plain one",
        [
            HELLO,
            client("SUB foo q 1"),
            client("SUB foo r 2"),
            client("SUB foo 3"),
            client("UNSUB 1"),
            client("UNSUB 3"),
        ],
    ),
    Conversation(
        "interest that is there before",
        [
            client("SUB foo 1", "SUB foo 2", "SUB bar q 3", "SUB bar q 4", "SUB a.* 5", "SUB > 6"),
            HELLO,
            client("UNSUB 1"),
            client("UNSUB 3"),
            client("UNSUB 6"),
        ],
    ),
    Conversation("wildcards", [HELLO, client("SUB > 1"), client("SUB *.a.> 2"), client("SUB a.* q 3")]),
    Conversation(
        "UNSUB after messages",
        [HELLO, client("SUB foo 1", "UNSUB 1 2"), leaf("LMSG foo 2", "hi"), leaf("LMSG foo 2", "hi"), leaf()],
    ),
    Conversation(
        "inboxes and their like",
        [
            HELLO,
            client("SUB _INBOX.a 1", "SUB _R_.x 2", "SUB $JS.ACK.> 3", "SUB _GR_.x 4", "SUB $SYS.x 5", "SUB $LDS.x 6"),
            client("UNSUB 6"),
        ],
    ),
    Conversation(
        "a client leaves",
        [HELLO, client("SUB foo 1", "SUB foo q 2"), says("client", "FOO", until=END), leaf(until="LS- foo"), leaf()],
    ),
    Conversation("interest of a leaf stays with it", [HELLO, leaf("LS+ foo"), client("SUB foo 1"), client("UNSUB 1")]),
    Conversation(
        "interest of another leaf",
        [HELLO, OTHER, leaf("LS+ foo"), leaf("LS+ bar q 3"), leaf("LS+ bar q 1"), leaf("LS- foo"), leaf("LS- bar q")],
    ),
    Conversation("interest of another leaf that was there before", [HELLO, leaf("LS+ foo", "LS+ bar q 3"), OTHER]),
    Conversation(
        "interest of leaf and client",
        [
            HELLO,
            OTHER,
            leaf("LS+ foo", "LS+ bar q 3"),
            client("SUB foo 1", "SUB bar q 2"),
            leaf("LS- foo"),
            leaf("LS- bar q"),
            client("UNSUB 1"),
            client("UNSUB 2"),
        ],
    ),
    Conversation(
        "interest of a leaf of the same cluster",
        [
            leaf(connect(cluster="c")),
            leaf(connect(name="two", cluster="c"), who="leaf2"),
            leaf(connect(name="three", cluster="d"), who="leaf3"),
            leaf("LS+ foo", "LS+ bar q 2"),
            leaf("LS- foo"),
        ],
    ),
    Conversation(
        "a leaf of the same cluster, interest before",
        [
            leaf(connect(cluster="c")),
            leaf("LS+ foo", "LS+ $LDS.x"),
            leaf(connect(name="two", cluster="c"), who="leaf2"),
            leaf(connect(name="three", cluster="d"), who="leaf3"),
        ],
    ),
    Conversation(
        "leafs without cluster",
        [HELLO, leaf(connect(name="two"), who="leaf2"), leaf("LS+ foo", "LS+ $LDS.x"), leaf("LS- foo")],
    ),
    Conversation(
        "an isolated leaf",
        [
            HELLO,
            leaf("LS+ before"),
            leaf(connect(name="two", cluster="two", isolate=True), who="leaf2"),
            leaf("LS+ foo", "LS+ $LDS.x"),
            client("SUB bar 1"),
            leaf("LS+ from.isolated", who="leaf2"),
        ],
    ),
    Conversation(
        "a leaf goes, its interest with it",
        [HELLO, OTHER, leaf("LS+ foo", "LS+ bar q 3"), says("leaf", "FOO", until=END), leaf(who="leaf2")],
    ),
    Conversation(
        "interest in all forms",
        [
            HELLO,
            OTHER,
            leaf("ls+ foo"),
            leaf("LS+\tfoo2"),
            leaf("LS+   foo4   q   2"),
            leaf("LS+ foo"),
            leaf("LS- nobody"),
            leaf("ls- foo2"),
        ],
    ),
    Conversation(
        "weights",
        [
            HELLO,
            OTHER,
            leaf("LS+ foo q 5"),
            leaf("LS+ foo q 123456789"),
            leaf("LS- foo q"),
            leaf("LS+ bar q x"),
            leaf("LS+ baz q 99999999999"),
        ],
    ),
    *(
        Conversation(
            f"interest with arguments {arguments!r}", [HELLO, leaf(b"LS+ %b\r\n" % arguments), leaf("LMSG foo 2", "hi")]
        )
        for arguments in [
            *b"foo q|foo q 1 2|foo..bar|.foo|foo.|foo.>.bar|foo*|\xff|$LDS.|_GR_.x|$GNR.>|>".split(b"|"),
            b"x" * 2000,
        ]
    ),
    *(
        Conversation(
            f"no more interest with arguments {arguments!r}",
            [HELLO, leaf("LS+ foo"), leaf(b"LS- %b\r\n" % arguments), leaf("LMSG foo 2", "hi")],
        )
        for arguments in [b"", b"foo q", b"foo q 1", b"foo", b"foo.."]
    ),
    Conversation("mappings", [HELLO], account='mappings { foo: bar, "a.*": "b.$1" }'),
    Conversation(
        "a mapping and a subscription on its source",
        [HELLO, client("SUB foo 1"), client("UNSUB 1")],
        account="mappings { foo: bar }",
    ),
]

SERVER = says("other", CONNECT_X, "SUB svc.there 1", shown=False)
SHARING = [
    Conversation(
        "services",
        [HELLO, leaf("LS+ re.ply"), SERVER, leaf("LMSG svc.here 2", "hi"), leaf("LMSG svc.here re.ply 2", "hi")],
        account=SERVICES,
    ),
    Conversation(
        "a service that learns who asks",
        [HELLO, SERVER, leaf("LMSG svc.here 2", "hi"), leaf("HMSG svc.here 12 14", "NATS/1.0", "", "hi")],
        account="imports [ {service: {account: X, subject: svc.there}, to: svc.here, share: true} ]",
    ),
    Conversation(
        "streams",
        [HELLO, client("SUB str.a 1"), client("SUB p.tick.> 2"), client("UNSUB 1")],
        account=STREAMS,
    ),
    Conversation(
        "a leaf subscribes to a stream",
        [
            HELLO,
            leaf("LS+ str.a", "LS+ p.tick.one q 2"),
            says("other", CONNECT_X),
            says("other", "PUB str.a 2", "hi", "PUB tick.one 2", "hi"),
            leaf(),
        ],
        account=STREAMS,
    ),
    Conversation(
        "a service that a leaf answers",
        [
            HELLO,
            leaf("LS+ svc.ACCOUNT"),
            says("other", 'CONNECT {"verbose":false,"user":"y","pass":"p","headers":true}', "SUB re.ply 1"),
            says("other", "PUB svc.ACCOUNT re.ply 2", "hi"),
        ],
        account="exports [ {service: svc.ACCOUNT} ]",
        imports="{service: {account: ACCOUNT, subject: svc.ACCOUNT}}",
    ),
]
