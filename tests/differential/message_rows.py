"""Conversations of the core protocol, by hand: publishing, subscribing, no responders."""

from __future__ import annotations

from tests.support.wire import LENIENT, PEDANTIC, PING, PLAIN, QUIET, Row


def _publish() -> list[Row]:
    rows = []
    for subject in (b"foo..a", b".foo", b"foo.", b"foo.*", b"foo.>", b"foo.a*", b"foo.>.a", b"foo"):
        send = b"PUB " + subject + b" 1\r\nx\r\nPING\r\n"
        rows.append(Row(f"publish to {subject!r}", LENIENT + b"SUB foo.> 1\r\n" + send))
        rows.append(
            Row(f"pedantic publish to {subject!r}", PEDANTIC + b"SUB foo.> 1\r\n" + send, cut=subject == b"foo")
        )
    for subject in (
        b"_GR_.foo",
        b"$NRG.foo",
        b"$GNR.foo",
        b"$GR.foo",
        b"$NRG",
        b"_R_.foo",
        b"$JS.ACK.foo",
        b"$SYS.foo",
    ):
        rows.append(
            Row(
                f"reserved subject {subject!r}",
                LENIENT + b"PUB " + subject + b" 1\r\nx\r\nPING\r\n",
                watch=subject,
                cut=b"foo" in subject,
            )
        )
    for reply in (
        b"_R_.foo",
        b"_GR_.foo",
        b"$JS.ACK.foo",
        b"_R_",
        b"$JS.ACK",
        b"$GR.a",
        b".",
        b">",
        b"a..b",
        b"5",
        b"*",
        b"a b",
    ):
        rows.append(Row(f"reply {reply!r}", LENIENT + b"PUB foo " + reply + b" 1\r\nx\r\nPING\r\n", watch=b"foo"))
    for body in (b"NATS/1.0\r\nA: b\r\n\r\n", b"hello world\r\n", b"NATS/1.0\n\n", b"xx", b"NATS/1.0 503\r\n\r\n"):
        size = b"%d %d" % (len(body), len(body) + 3)
        send = LENIENT + b"HPUB foo " + size + b"\r\n" + body + b"end\r\nPING\r\n"
        rows.append(Row(f"headers {body!r}", send, watch=b"foo"))
        rows.append(Row(f"headers {body!r} to one without", send, watch=b"foo", watch_connect=b'{"verbose":false}'))
    for subject in (b"_INBOX.foo..1", b"_INBOX..foo.1", b"_INBOX.foo.1.", b"$JS.ACK.foo..a.1", b"foo..", b".foo.a"):
        send = LENIENT + b"SUB _INBOX.> 1\r\nSUB foo.> 2\r\nPUB " + subject + b" 1\r\nx\r\nPING\r\n"
        rows.append(Row(f"an empty token in {subject!r} reaches nobody", send, watch=b">", cut=False))
    rows.append(
        Row(
            "as large as allowed",
            QUIET + b"PUB foo 1048576\r\n" + b"x" * 1048576 + b"\r\nPING\r\n",
            watch=b"foo",
            cut=False,
        )
    )
    rows.append(
        Row("a payload that looks like commands", QUIET + b"SUB foo 1\r\nPUB foo 11\r\nPUB foo 0\r\n\r\nPING\r\n")
    )
    rows.append(Row("HPUB with reply", LENIENT + b"HPUB foo re 12 14\r\nNATS/1.0\r\n\r\nhi\r\nPING\r\n", watch=b"foo"))
    rows.append(Row("HPUB header size 0", LENIENT + b"HPUB foo 0 2\r\nhi\r\nPING\r\n", watch=b"foo"))
    return rows


def _headers() -> list[Row]:
    """HPUB in every form, for clients with and without headers."""
    rows = []
    body = b"NATS/1.0\r\nA: b\r\n\r\nhi\r\nPING\r\n"
    for text in (
        b"HPUB  foo  re  18  20 ",
        b"HPUB\tfoo\tre\t18\t20",
        b"HPUB foo 20 20",
        b"HPUB foo 018 020",
        b"HPUB foo re 18",
        b"HPUB foo 0000000018 20",
        b"HPUB foo 18 0000000020",
        b"HPUB foo 18 1048577",
        b"HPUB foo 1048577 1048577",
        b"HPUB foo re re2 18 20",
        b"HPUB foo 18 20 x",
        b"HPUB foo. 18 20",
        b"HPUB foo _R_.x 18 20",
        b"HPUB $NRG.foo 18 20",
    ):
        for options in (LENIENT, PEDANTIC.replace(b"}", b',"headers":true}'), PLAIN):
            pedantic, headers = b'pedantic":true' in options, b"headers" in options
            name = f"{text!r}, pedantic {pedantic}, headers {headers}"
            rows.append(Row(name, options + text + b"\r\n" + body, watch=b"foo", cut=False))
    return rows


def _subscribe() -> list[Row]:
    one = b"PUB foo 1\r\nx\r\n"
    rows = [
        Row("sid in use", LENIENT + b"SUB foo 1\r\nSUB foo.b 1\r\n" + one + b"PUB foo.b 1\r\ny\r\nPING\r\n"),
        Row("odd sids", QUIET + b"SUB foo a-\xff\r\nSUB foo 007\r\nUNSUB 7\r\nUNSUB 007\r\n" + one + b"PING\r\n"),
        Row("queue named _sys_", LENIENT + b"SUB foo _sys_ 1\r\n" + one + b"PING\r\n"),
        Row("queue names with wildcards", QUIET + b"SUB foo a..b 1\r\nUNSUB 1\r\nSUB foo > 2\r\n" + one + b"PING\r\n"),
        Row(
            "one queue on overlapping subjects",
            QUIET + b"SUB foo.* q 1\r\nSUB foo.* q 1\r\nPUB foo.a 1\r\nx\r\nPING\r\n",
        ),
        Row(
            "plain overlap: a copy each",
            QUIET + b"SUB foo.a 1\r\nPUB foo.a 1\r\nx\r\nUNSUB 1\r\nSUB foo.> 2\r\nPUB foo.a 1\r\ny\r\nPING\r\n",
        ),
        Row("UNSUB of unknown sid", LENIENT + b"UNSUB 1\r\nUNSUB 1 5\r\nPING\r\n"),
        Row("UNSUB max", LENIENT + b"SUB foo 1\r\nUNSUB 1 2\r\n" + one * 3 + b"UNSUB 1\r\nPING\r\n"),
        Row("UNSUB larger max", QUIET + b"SUB foo 1\r\nUNSUB 1 1\r\nUNSUB 1 3\r\n" + one * 4 + b"PING\r\n"),
        Row("UNSUB smaller max", QUIET + b"SUB foo 1\r\nUNSUB 1 3\r\nUNSUB 1 1\r\n" + one * 3 + b"PING\r\n"),
        Row("UNSUB max already reached", QUIET + b"SUB foo 1\r\n" + one * 2 + b"UNSUB 1 2\r\n" + one + b"PING\r\n"),
        Row("UNSUB max 0", QUIET + b"SUB foo 1\r\nUNSUB 1 0\r\n" + one + b"PING\r\n"),
        Row(
            "the sid of a finished one",
            LENIENT + b"SUB foo 1\r\nUNSUB 1 1\r\n" + one + b"SUB foo 1\r\n" + one * 2 + PING,
        ),
        Row(
            "the sid of one that will end",
            QUIET + b"SUB foo 1\r\nUNSUB 1 2\r\n" + one + b"SUB foo 1\r\n" + one * 3 + PING,
        ),
        Row(
            "UNSUB max of a finished one", LENIENT + b"SUB foo 1\r\nUNSUB 1 1\r\n" + one + b"UNSUB 1 5\r\n" + one + PING
        ),
        Row("UNSUB max in a queue", QUIET + b"SUB foo q 1\r\nUNSUB 1 2\r\n" + one * 4 + PING),
        Row(
            "UNSUB max and a second CONNECT",
            LENIENT + b"SUB foo 1\r\nUNSUB 1 2\r\n" + one + LENIENT + b"SUB foo 1\r\n" + one * 3 + PING,
        ),
        Row("two queues and none", QUIET + b"SUB foo q 1\r\nSUB foo Q 1\r\nSUB foo q 2\r\nUNSUB 1\r\n" + one + PING),
        Row(
            "echo off in a queue",
            b'CONNECT {"verbose":false,"echo":false}\r\nSUB foo q 1\r\n' + one + PING,
            watch=b"foo",
        ),
        Row("many tokens", QUIET + b"SUB foo%b 1\r\nPUB foo%b 0\r\n\r\nPING\r\n" % (b".*" * 300, b".a" * 300)),
        Row("wildcard in a token is literal", QUIET + b"SUB foo* 1\r\nPUB foo* 1\r\nx\r\nPUB fooa 1\r\ny\r\nPING\r\n"),
    ]
    for subject in (b"foo..a", b".foo", b"foo.", b"foo.>.a", b".", b"..", b"foo.*", b"foo.>", b"foo.a*b.>"):
        rows.append(Row(f"subscribe {subject!r}", LENIENT + b"SUB " + subject + b" 1\r\nPUB foo.a 1\r\nx\r\nPING\r\n"))
    return rows


def _names() -> list[Row]:
    """Subjects, queues and sids of any kind."""
    one = b"PUB foo 1\r\nx\r\n"
    rows = []
    for prefix in b"$SYS $JS.API $JS.ACK $JS.FC $NRG $GNR $GR $SRV $KV $O $MQTT $G _R_ _GR_ _INBOX _sys_".split():
        subject = prefix + b".foo"
        send = b"SUB " + subject + b" 1\r\nPUB " + subject + b" 1\r\nx\r\nPING\r\n"
        rows.append(Row(f"subscribe and publish to {subject!r}", LENIENT + send, cut=False))
        rows.append(Row(f"pedantic, to {subject!r}", PEDANTIC + send.replace(b" 1\r\nPUB", b" q 1\r\nPUB"), cut=False))
    for queue in (b"_SYS_", b"_sys_x", b".", b"a.", b"\xff", b"$q"):
        rows.append(Row(f"queue {queue!r}", LENIENT + b"SUB foo " + queue + b" 1\r\n" + one + PING, cut=False))
    for sid in (b"-1", b"'", b'"', b"foo", b"*", b">", b"x" * 300, b"0" * 20):
        send = b"SUB foo " + sid + b"\r\n" + one + b"UNSUB " + sid + b" 2\r\n" + one * 2 + PING
        rows.append(Row(f"sid {sid[:9]!r}", LENIENT + send, cut=False))
    return rows


def _no_responders() -> list[Row]:
    ask = b"PUB foo re.foo 1\r\nx\r\n"
    no_echo = b'CONNECT {"verbose":false,"headers":true,"no_responders":true,"echo":false}\r\n'
    return [
        Row("503", QUIET + b"SUB re.foo 1\r\n" + ask + b"PING\r\n"),
        Row("503 to a wildcard", QUIET + b"SUB re.* 1\r\n" + ask + b"PING\r\n"),
        Row("503 not to a queue", QUIET + b"SUB re.foo q 1\r\n" + ask + b"PING\r\n"),
        Row("503 needs a subscription", QUIET + ask + b"PING\r\n"),
        Row("503 only when asked for", LENIENT + b"SUB re.foo 1\r\n" + ask + b"PING\r\n"),
        Row("503 does not count for UNSUB max", QUIET + b"SUB re.foo 1\r\nUNSUB 1 1\r\n" + ask * 2 + b"PING\r\n"),
        Row(
            "503 with headers in the request",
            QUIET + b"SUB re.foo 1\r\nHPUB foo re.foo 12 13\r\nNATS/1.0\r\n\r\nx\r\nPING\r\n",
        ),
        Row(
            "503 when only the publisher listens, echo off",
            no_echo + b"SUB foo 2\r\nSUB re.foo 1\r\n" + ask + b"PING\r\n",
        ),
        Row("503 not to a reply with an empty token", QUIET + b"SUB re.> 1\r\nPUB foo re..foo 1\r\nx\r\nPING\r\n"),
        Row("503 not to one that is gone", QUIET + b"SUB re.foo 1\r\nUNSUB 1\r\nSUB re.> 2\r\n" + ask + PING),
        Row("503 not to a finished one", QUIET + b"SUB re.foo 1\r\nUNSUB 1 1\r\nPUB re.foo 0\r\n\r\n" + ask + PING),
        Row("503 not to others", QUIET + ask + PING, watch=b"re.foo"),
        Row("503 beside a queue", QUIET + b"SUB re.foo q 1\r\nSUB re.* 2\r\n" + ask + PING),
        Row("no 503 when a queue listens", QUIET + b"SUB re.foo 1\r\nSUB foo q 2\r\n" + ask + PING),
        Row("503 when only the own queue listens, echo off", no_echo + b"SUB re.foo 1\r\nSUB foo q 2\r\n" + ask + PING),
        Row("503 for a reply that is the subject", QUIET + b"PUB foo foo 1\r\nx\r\nPING\r\n"),
        Row(
            "no 503 when refused", QUIET + b"SUB re.foo 1\r\nPUB $NRG.a re.foo 0\r\n\r\nPUB foo _R_.a 0\r\n\r\nPING\r\n"
        ),
        Row(
            "503 for odd subjects",
            QUIET.replace(b"{", b'{"pedantic":false,')
            + b"SUB re.foo 1\r\n"
            + b"".join(
                b"PUB %b re.foo 0\r\n\r\n" % subject for subject in (b"foo..a", b"foo.>", b"foo.\xff", b"_INBOX.a")
            )
            + PING,
        ),
        Row("no 503 when somebody is there", QUIET + b"SUB re.foo 1\r\n" + ask + b"PING\r\n", watch=b"foo"),
    ]


ROWS = [*_publish(), *_headers(), *_subscribe(), *_names(), *_no_responders()]
