"""What comes over a link: the same events however it is cut, and nats-server's words for what is wrong."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.parsing.recording import RecordingParser
from jetbroker.errors import ProtocolError

UNKNOWN = "Unknown Protocol Operation"
BLOCK = b"NATS/1.0\r\n\r\n"

GOOD = [
    (b"LMSG a 2\r\nhi\r\n", [("message", b"a", None, None, b"", b"hi", b"2\r\nhi\r\n")]),
    (b"lmsg a r 2\r\nhi\r\n", [("message", b"a", b"r", None, b"", b"hi", b"r 2\r\nhi\r\n")]),
    (b"RMSG a 0\r\n\r\n", [("message", b"a", None, None, b"", b"", b"0\r\n\r\n")]),
    (b"LMSG qq + re.ply g 1\r\nx\r\n", [("message", b"qq", b"re.ply", [b"g"], b"", b"x", None)]),
    (b"LMSG qq + r 1\r\nx\r\n", [("message", b"qq", b"r", None, b"", b"x", None)]),
    (b"LMSG qq | g h 1\r\nx\r\n", [("message", b"qq", None, [b"g", b"h"], b"", b"x", b"1\r\nx\r\n")]),
    # two words behind the subject are a reply and a size, whatever the reply looks like
    (b"LMSG qq | 1\r\nx\r\n", [("message", b"qq", b"|", None, b"", b"x", b"| 1\r\nx\r\n")]),
    (b"HMSG a 12 14\r\n%bhi\r\n" % BLOCK, [("message", b"a", None, None, BLOCK, b"hi", b"12 14\r\n%bhi\r\n" % BLOCK)]),
    (b"HMSG a r 12 12\r\n%b\r\n" % BLOCK, [("message", b"a", b"r", None, BLOCK, b"", b"r 12 12\r\n%b\r\n" % BLOCK)]),
    (b"HMSG a + r g 12 12\r\n%b\r\n" % BLOCK, [("message", b"a", b"r", [b"g"], BLOCK, b"", None)]),
    (b"HMSG a | g 12 12\r\n%b\r\n" % BLOCK, [("message", b"a", None, [b"g"], BLOCK, b"", b"12 12\r\n%b\r\n" % BLOCK)]),
    (b"HMSG a 0 2\r\nhi\r\n", [("message", b"a", None, None, b"", b"hi", None)]),
    (b"LMSG a  2\r\nhi\r\n", [("message", b"a", None, None, b"", b"hi", None)]),
    (b"LMSG a 2\nhi\r\n", [("message", b"a", None, None, b"", b"hi", None)]),
    (b"LMSG a\r2\r\nhi\r\n", [("message", b"a", None, None, b"", b"hi", None)]),
    (b"LS+ foo\r\n", [("subscribe", b"foo", None, 1)]),
    (b"LS+ foo q 7\r\n", [("subscribe", b"foo", b"q", 7)]),
    (b"LS+ foo q 0\r\n", [("subscribe", b"foo", b"q", 1)]),
    (b"LS+ foo q x\r\n", [("subscribe", b"foo", b"q", 1)]),
    (b"ls- foo\r\n", [("unsubscribe", b"foo", None)]),
    (b"LS- foo q\r\n", [("unsubscribe", b"foo", b"q")]),
    (b"LS- foo q 1\r\n", []),
    (b"RS+ foo\r\nRS- foo\r\n", [("subscribe", b"foo", None, 1), ("unsubscribe", b"foo", None)]),
    (b"SUB foo\r\nUNSUB foo\r\n", [("subscribe", b"foo", None, 1), ("unsubscribe", b"foo", None)]),
    (b"PUB foo r 2\r\nhi\r\n", [("publish", b"foo", b"r", b"", b"hi", b"2")]),
    (b"HPUB foo 12 14\r\n%bhi\r\n" % BLOCK, [("publish", b"foo", None, BLOCK, b"hi", b"14")]),
    (b"A+ x\r\nA- x\r\nPING\r\n", [("ping",)]),
    (b"INFO {}\r\nPONG\r\n+OK\r\n-ERR 'x'\r\n", [("info", b"{}"), ("pong",), ("error", b"'x'")]),
]

BAD = [
    (b"X", UNKNOWN, "Leafnode parser ERROR, state=0, i=0: proto='\"\"...'"),
    (b"LX foo", UNKNOWN, "Leafnode parser ERROR, state=55, i=1: proto='\"X fo\"...'"),
    (b"LS* foo", UNKNOWN, "Leafnode parser ERROR, state=56, i=2: proto='\"* fo\"...'"),
    (b"LMSG\r\n", UNKNOWN, "Leafnode parser ERROR, state=68, i=4: proto='\"\\r\"...'"),
    (b"MSG a 1\r\n", UNKNOWN, "Leafnode parser ERROR, state=0, i=0: proto='\"MSG a 1\\r\"...'"),
    (b"LMSG a 2\r\nhiX", UNKNOWN, "Leafnode parser ERROR, state=41, i=12: proto='\"\"...'"),
    (b"LMSG a\r\n", "", "processLeafMsgArgs Parse Error: '[a]'"),
    (b"LMSG a b c 1\r\n", "", "processLeafMsgArgs Bad or Missing Reply Indicator: 'b'"),
    (b"LMSG a ++ b 1\r\n", "", "processLeafMsgArgs Bad or Missing Reply Indicator: '++'"),
    (b"LMSG a x\r\n", "", "processLeafMsgArgs Bad or Missing Size: '[a x]'"),
    (b"LMSG a 1234567890\r\n", "", "processLeafMsgArgs Bad or Missing Size: '[a 1234567890]'"),
    (b"HMSG a 1\r\n", "", "processLeafHeaderMsgArgs Parse Error: '[a 1]'"),
    (b"HMSG a x 1\r\n", "", "processLeafHeaderMsgArgs Bad or Missing Header Size: 'a x 1'"),
    (b"HMSG a 1 x\r\n", "", "processLeafHeaderMsgArgs Bad or Missing Size: '[a 1 x]'"),
    (b"HMSG a 3 2\r\n", "", "processLeafHeaderMsgArgs Header Size larger then TotalSize: 'a 3 2'"),
    (b"HMSG a r s 1 2\r\n", "", "processLeafHeaderMsgArgs Bad or Missing Reply Indicator: 'r'"),
    (b"LS+ a b\r\n", "", "processLeafSub Parse Error: 'a b'"),
    (b"LS+ a b 1 c\r\n", "", "processLeafSub Parse Error: 'a b 1 c'"),
    (b"PUB a\r\n", "", 'processPub Parse Error: "a"'),
    (b"LMSG a 1048577\r\n", "Maximum Payload Violation", "maximum payload exceeded: 1048577 vs 1048576"),
    (b"LS+ " + b"a" * 4097, "maximum control line exceeded", "maximum control line exceeded"),
    (b"LMSG " + b"a" * 4097 + b" 1\r\n", "maximum control line exceeded", "maximum control line exceeded"),
    (b"LMSG" + b" " * 4097, "maximum control line exceeded", "maximum control line exceeded"),
]


def read(data: bytes, pieces: list[int] | None = None, **settings: bool) -> RecordingParser:
    parser = RecordingParser(leaf=True, **settings)
    for size in pieces or ():
        parser.feed(data[:size])
        data = data[size:]
    parser.feed(data)
    return parser


@pytest.mark.parametrize(("data", "events"), GOOD)
def test_what_is_right_is_told_however_it_is_cut(data: bytes, events: list[tuple[object, ...]]) -> None:
    for parser in (read(data), read(data, [1] * len(data)), *(read(data, [at]) for at in range(1, len(data)))):
        assert (parser.events, parser.error, parser.unfinished) == (events, None, 0)


@pytest.mark.parametrize(("data", "text", "detail"), BAD)
def test_what_is_wrong_is_told_in_nats_servers_words(data: bytes, text: str, detail: str) -> None:
    parser = RecordingParser(leaf=True)
    parser.feed(data)
    assert parser.error == text
    fault = parser.fault
    assert isinstance(fault, ProtocolError)
    assert fault.detail == detail


def test_headers_need_the_other_sides_consent_only_in_what_clients_say() -> None:
    assert read(b"HMSG a 12 12\r\n%b\r\n" % BLOCK, headers=False).events
    assert read(b"HPUB a 12 12\r\n%b\r\n" % BLOCK, headers=False).error == ""


def test_who_has_to_log_in_says_nothing_before_connect() -> None:
    parser = read(b"LS+ foo\r\n", login_due=True)
    assert (parser.events, parser.error) == ([], "Authorization Violation")


def test_names_of_queue_groups_are_those_of_each_message() -> None:
    events = read(b"LMSG a | q 0\r\n\r\nLMSG a | p 0\r\n\r\nLMSG a 0\r\n\r\nLMSG a | p 0\r\n\r\n").events
    assert [event[3] for event in events] == [[b"q"], [b"p"], None, [b"p"]]


class Sent(NamedTuple):
    """A message as it is meant."""

    subject: bytes
    reply: bytes | None
    queues: list[bytes]
    headers: bytes
    payload: bytes

    def written(self) -> bytes:
        """In the words of the protocol, put together in the plainest way."""
        words = [b"HMSG" if self.headers else b"LMSG", self.subject]
        if self.queues:
            words.append(b"|" if self.reply is None else b"+")
        if self.reply is not None:
            words.append(self.reply)
        words += self.queues
        if self.headers:
            words.append(b"%d" % len(self.headers))
        words.append(b"%d" % len(self.headers + self.payload))
        return b" ".join(words) + b"\r\n" + self.headers + self.payload + b"\r\n"


TOKENS = st.binary(min_size=1, max_size=12).filter(lambda word: not set(word) & set(b" \t\r\n"))
PAYLOADS = st.binary(max_size=40)
MESSAGES = st.builds(
    Sent,
    TOKENS,
    st.none() | TOKENS,
    st.lists(TOKENS, max_size=3),
    st.binary(max_size=20).map(lambda text: b"NATS/1.0\r\nA: " + text.hex().encode() + b"\r\n\r\n") | st.just(b""),
    PAYLOADS,
)


@given(st.lists(MESSAGES, min_size=1, max_size=5), st.lists(st.integers(1, 20), max_size=20))
def test_messages_come_out_as_they_were_meant(messages: list[Sent], pieces: list[int]) -> None:
    parser = read(b"".join(message.written() for message in messages), pieces)
    assert parser.error is None
    assert [event[1:6] for event in parser.events] == [
        (sent.subject, sent.reply, sent.queues or None, sent.headers, sent.payload) for sent in messages
    ]


@given(MESSAGES)
def test_the_tail_is_what_stands_behind_subject_and_groups(sent: Sent) -> None:
    written = sent.written()
    tail = read(written).events[0][6]
    if sent.queues and sent.reply is not None:
        assert tail is None
    else:
        assert written.endswith(tail)
        assert tail.startswith(
            b"%b " % sent.reply if sent.reply is not None else b"%d" % len(sent.headers or sent.payload)
        )


@given(
    st.lists(st.tuples(st.booleans(), TOKENS, st.none() | TOKENS, st.integers(1, 999_999_999)), max_size=6),
    st.lists(st.integers(1, 9), max_size=20),
)
def test_interest_comes_out_as_it_was_meant(
    changes: list[tuple[bool, bytes, bytes | None, int]], pieces: list[int]
) -> None:
    data = b""
    expected: list[tuple[object, ...]] = []
    for wanted, subject, queue, weight in changes:
        words = [b"LS+" if wanted else b"LS-", subject, *([queue] if queue is not None else [])]
        if wanted and queue is not None:
            words.append(b"%d" % weight)
        data += b" ".join(words) + b"\r\n"
        if wanted:
            expected.append(("subscribe", subject, queue, weight if queue is not None else 1))
        else:
            expected.append(("unsubscribe", subject, queue))
    parser = read(data, pieces)
    assert (parser.events, parser.error, parser.unfinished) == (expected, None, 0)
