"""Messages to and from leafs, and lines that no leaf should send."""

from __future__ import annotations

from tests.differential.leaf_steps import HELLO, OTHER, client, connect, leaf, says
from tests.support.leaf_conversations import END, NOTHING, Conversation

MESSAGES = [
    Conversation(
        "to a leaf",
        [
            HELLO,
            leaf("LS+ foo"),
            client("PUB foo 2", "hi"),
            client("PUB foo re.ply 2", "hi"),
            client("PUB foo 0", ""),
            client("HPUB foo 12 14", "NATS/1.0", "", "hi"),
            client("HPUB foo re 12 14", "NATS/1.0", "", "hi"),
            client("PUB bar 2", "hi"),
        ],
    ),
    Conversation(
        "to a queue of a leaf",
        [
            HELLO,
            leaf("LS+ foo q 1"),
            client("PUB foo 2", "hi"),
            client("PUB foo re.ply 2", "hi"),
            client("HPUB foo 12 14", "NATS/1.0", "", "hi"),
            client("HPUB foo re 12 14", "NATS/1.0", "", "hi"),
        ],
    ),
    Conversation(
        "to two queues and plain interest of a leaf",
        [
            HELLO,
            leaf("LS+ foo q 1", "LS+ foo r 1", "LS+ foo", "LS+ fo* q 1", "LS+ *"),
            client("PUB foo 2", "hi"),
            client("PUB foo re.ply 2", "hi"),
        ],
    ),
    Conversation(
        "a plain one twice on one link", [HELLO, leaf("LS+ foo", "LS+ *", "LS+ >"), client("PUB foo 2", "hi")]
    ),
    Conversation(
        "local members of a queue first",
        [
            HELLO,
            leaf("LS+ foo q 1", "LS+ foo r 1"),
            client("SUB foo q 1"),
            client("PUB foo 2", "hi", who="client2"),
            client("PUB foo 2", "hi"),
        ],
    ),
    Conversation(
        "headers to a leaf that does not know them",
        [
            leaf(connect(headers=None)),
            leaf("LS+ foo"),
            client("HPUB foo 18 20", "NATS/1.0", "a: b", "", "hi"),
            client("PUB foo 2", "hi"),
        ],
    ),
    Conversation(
        "from a leaf",
        [
            HELLO,
            client("SUB foo 1", "SUB fo* 2"),
            leaf("LMSG foo 2", "hi"),
            leaf("LMSG foo re.ply 2", "hi"),
            leaf("lmsg foo 0", ""),
            leaf("HMSG foo 12 14", "NATS/1.0", "", "hi"),
            leaf("HMSG foo re 12 14", "NATS/1.0", "", "hi"),
            leaf("HMSG foo 12 12", "NATS/1.0", "", ""),
            leaf("HMSG foo 0 2", "hi"),
        ],
    ),
    Conversation(
        "from a leaf to a client without headers",
        [
            HELLO,
            says("raw", 'CONNECT {"verbose":false,"user":"USER","pass":"p"}', "SUB foo 1"),
            leaf("HMSG foo 12 14", "NATS/1.0", "", "hi"),
        ],
    ),
    Conversation(
        "headers from a leaf that did not say so",
        [leaf(connect(headers=None)), client("SUB foo 1"), leaf("HMSG foo 12 14", "NATS/1.0", "", "hi"), leaf()],
    ),
    Conversation(
        "from a leaf to queues",
        [
            HELLO,
            client("SUB foo q 1", "SUB foo r 2", "SUB foo 3"),
            leaf("LMSG foo 2", "hi"),
            leaf("LMSG foo | q 2", "hi"),
            leaf("LMSG foo + re.ply q r 2", "hi"),
            leaf("LMSG foo | nobody 2", "hi"),
            leaf("LMSG foo | q q 2", "hi"),
            leaf("HMSG foo | r 12 14", "NATS/1.0", "", "hi"),
            leaf("HMSG foo + re.ply q r 12 14", "NATS/1.0", "", "hi"),
        ],
    ),
    Conversation(
        "from a leaf to queues of wildcards",
        [HELLO, client("SUB foo q 1", "SUB fo* q 2"), leaf("LMSG foo | q 2", "hi"), leaf("LMSG foo 2", "hi")],
    ),
    Conversation(
        "from a leaf to another",
        [
            HELLO,
            OTHER,
            leaf("LS+ foo", "LS+ bar q 1"),
            leaf("LMSG foo 2", "hi", who="leaf2"),
            leaf("LMSG foo re.ply 2", "hi", who="leaf2"),
            leaf("LMSG bar 2", "hi", who="leaf2"),
            leaf("LMSG bar | q 2", "hi", who="leaf2"),
            leaf("LMSG foo 2", "hi"),
            leaf("HMSG foo 12 14", "NATS/1.0", "", "hi", who="leaf2"),
        ],
    ),
    Conversation(
        "a queue at a leaf, asked for by another leaf, and a local one",
        [HELLO, OTHER, leaf("LS+ foo q 1"), client("SUB foo q 1"), leaf("LMSG foo | q 2", "hi", who="leaf2")],
    ),
    Conversation(
        "from a leaf to one of the same cluster",
        [
            leaf(connect(cluster="c")),
            leaf(connect(name="two", cluster="c"), who="leaf2"),
            leaf("LS+ foo"),
            leaf("LMSG foo 2", "hi", who="leaf2"),
        ],
    ),
    Conversation(
        "never subscribed",
        [
            HELLO,
            leaf("LMSG nobody 2", "hi"),
            leaf("LMSG nobody re.ply 2", "hi"),
            leaf("HMSG nobody 12 12", "NATS/1.0", "", ""),
        ],
    ),
    Conversation(
        "nobody answers a client",
        [
            HELLO,
            says(
                "raw",
                'CONNECT {"verbose":false,"user":"USER","pass":"p","headers":true,"no_responders":true}',
                "SUB re.ply 1",
            ),
            says("raw", "PUB foo re.ply 2", "hi"),
            leaf("LS+ foo"),
            says("raw", "PUB foo re.ply 2", "hi"),
        ],
    ),
    *(
        Conversation(
            f"message with arguments {arguments!r}",
            [HELLO, client("SUB foo 1", "SUB > 2"), leaf(b"LMSG %b\r\nhi\r\n" % arguments), leaf()],
        )
        for arguments in (
            b";foo;foo x;foo -1;foo 02;foo  2;foo\t2;foo re ply 2;foo + 2;foo | 2;foo + re 2;foo x q 2;"
            b"foo xx q 2;foo.* 2;> 2;foo..bar 2;.foo 2;foo. 2;foo.>.x 2;$SYS.REQ.SERVER.PING 2;_R_.x 2;"
            b"$LDS.x 2;foo 3;foo 99999999999999999999;foo 1048577;foo 2 ;\xff 2;foo | 2 2;foo + 2 2;+ 2;"
            b"foo re.* 2;foo re.> 2"
        ).split(b";")
    ),
    *(
        Conversation(
            f"headers with arguments {arguments!r}",
            [HELLO, client("SUB foo 1", "SUB > 2"), leaf(b"HMSG %b\r\nNATS/1.0\r\n\r\nhi\r\n" % arguments), leaf()],
        )
        for arguments in (
            b"|foo|foo 14|foo 12 14|foo 15 14|foo x 14|foo 12 x|foo -1 14|foo + re 12 14|foo x q 12 14|"
            b"foo 5 14|foo 12 1048577"
        ).split(b"|")
    ),
    Conversation("a message cut off", [HELLO, client("SUB foo 1"), leaf(b"LMSG foo 10\r\nhi", until=NOTHING)]),
    Conversation("payload without its end", [HELLO, client("SUB foo 1"), leaf("LMSG foo 2", "hixx")]),
    Conversation("a long line", [HELLO, leaf(b"LS+ " + b"x" * 4096 * 16 + b"\r\n")]),
    Conversation("a line that does not end", [HELLO, leaf(b"LS+ " + b"x" * 4096 * 17, until=END)]),
    Conversation("PUB of a client", [HELLO, client("SUB foo 1"), leaf("PUB foo 2", "hi")]),
    Conversation("SUB of a client", [HELLO, leaf("SUB foo 1", until=END)]),
    Conversation("UNSUB of a client", [HELLO, leaf("UNSUB 1")]),
    Conversation("HPUB of a client", [HELLO, client("SUB foo 1"), leaf("HPUB foo 12 12", "NATS/1.0", "", "")]),
    Conversation("MSG of a client", [HELLO, leaf("MSG foo 1 2", "hi", until=END)]),
    Conversation("commands of routes", [HELLO, leaf("RS+ A foo", until=END)]),
    Conversation("RMSG of a route", [HELLO, client("SUB foo 1"), leaf("RMSG A foo 2", "hi")]),
    Conversation("A+ of a route", [HELLO, leaf("A+ X")]),
    Conversation("LS+ of a leaf on the client port", [client("LS+ foo")]),
    Conversation("LMSG of a leaf on the client port", [client("LMSG foo 2", "hi")]),
    Conversation("+OK", [HELLO, leaf("+OK")]),
    Conversation("PONG", [HELLO, leaf("PONG", "PONG")]),
    Conversation("errors of a leaf", [HELLO, leaf("-ERR 'hello'"), leaf()]),
    Conversation(
        "a loop seen by a leaf",
        [HELLO, leaf("-ERR 'Loop detected for leafnode account=\"A\". Delaying attempt to reconnect for 30s'"), leaf()],
    ),
    Conversation(
        "a leaf tells of its cluster name", [HELLO, leaf("-ERR 'remote leafnode has same cluster name'"), leaf()]
    ),
    Conversation(
        "a leaf sees permissions violated", [HELLO, leaf("-ERR 'Permissions Violation for Publish to \"foo\"'"), leaf()]
    ),
    Conversation(
        "INFO of a leaf",
        [
            HELLO,
            leaf('INFO {"server_id":"peer","leafnode_urls":["127.0.0.1:1"]}'),
            leaf('INFO {"server_id":"peer","remote_account":"Y","connect_info":true}'),
            leaf(),
        ],
    ),
    Conversation("INFO of broken JSON", [HELLO, leaf("INFO {"), leaf()]),
]
