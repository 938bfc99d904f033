"""The parser: the same events whole, byte by byte and cut anywhere, and the right verdict at the first wrong byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.parsing.recording import RecordingParser

UNKNOWN = "Unknown Protocol Operation"
CLOSED = ""

GOOD = [
    (b"PING\r\n", [("ping",)]),
    (b"ping junk of any kind\n", [("ping",)]),
    (b"PINGPONG\r\n", [("ping",)]),
    (b"PONG\r\n", [("pong",)]),
    (b"+OK\r\n", []),
    (b"PING" + b"x" * 5000 + b"\r\n", [("ping",)]),
    (b"CONNECT {}\r\n", [("connect", b"{}")]),
    (b"connect{}\r\n", [("connect", b"{}")]),
    (b"INFO {}\r\n", [("info", b"{}")]),
    (b"PUB foo 5\r\nhello\r\n", [("publish", b"foo", None, b"", b"hello", b"5")]),
    (b"PUB foo 5\nhello\r\n", [("publish", b"foo", None, b"", b"hello", b"5")]),
    (b"pUb \t foo\tbar 05 \t\r\nhello\r\n", [("publish", b"foo", b"bar", b"", b"hello", b"05")]),
    (b"PUB foo 0\r\n\r\n", [("publish", b"foo", None, b"", b"", b"0")]),
    (b"PUB a.* .. 000000001\r\nx\r\n", [("publish", b"a.*", b"..", b"", b"x", b"000000001")]),
    (b"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", [("publish", b"foo", None, b"NATS/1.0\r\n\r\n", b"hi", b"14")]),
    (b"HPUB foo r 0 2\r\nhi\r\n", [("publish", b"foo", b"r", b"", b"hi", b"2")]),
    (b"SUB foo 1\r\n", [("subscribe", b"foo", None, b"1")]),
    (b"SUB foo q 1\r\n", [("subscribe", b"foo", b"q", b"1")]),
    (b"UNSUB 1\r\n", [("unsubscribe", b"1", 0)]),
    (b"UNSUB 1 5\r\n", [("unsubscribe", b"1", 5)]),
    (b"UNSUB 1 0000000005\r\n", [("unsubscribe", b"1", 0)]),
    (b"UNSUB 1 -1\r\n", [("unsubscribe", b"1", 0)]),
    (b"-ERR 'x'\r\n", [("error", b"'x'")]),
]

BAD = [
    (b"X", UNKNOWN),
    (b"PON\r", UNKNOWN),
    (b"QUIT", UNKNOWN),
    (b"SUBSCRIBE", UNKNOWN),
    (b"M", UNKNOWN),
    (b" PING\r\n", UNKNOWN),
    (b"\r\n", UNKNOWN),
    (b"\0", UNKNOWN),
    (b"\x16\x03\x01", UNKNOWN),
    (b"PUB\r\n", UNKNOWN),
    (b"SUB\r\n", UNKNOWN),
    (b"HPUB\r\n", UNKNOWN),
    (b"UNSUB\r\n", UNKNOWN),
    (b"-ERR\r\n", UNKNOWN),
    (b"HMSG foo 1 0 0\r\n", UNKNOWN),
    (b"PUB \r\n", CLOSED),
    (b"PUB \nfoo 2\r\n", CLOSED),
    (b"SUB \nfoo 1\r\n", CLOSED),
    (b"SUB \r\n", CLOSED),
    (b"SUB a b c d\r\n", CLOSED),
    (b"UNSUB 1 2 3\r\n", CLOSED),
    (b"PUB foo\r\n", CLOSED),
    (b"PUB a b 1 2\r\n", CLOSED),
    (b"PUB foo -1\r\n", CLOSED),
    (b"PUB foo +5\r\n", CLOSED),
    (b"PUB foo 5x\r\n", CLOSED),
    (b"PUB foo 0000000005\r\n", CLOSED),
    (b"PUB foo 2147483648\r\n", CLOSED),
    (b"HPUB foo 5 2\r\n", CLOSED),
    (b"HPUB foo x 2\r\n", CLOSED),
    (b"PUB foo 1048577\r\n", "Maximum Payload Violation"),
    (b"PUB foo 2\r\nabc", UNKNOWN),
    (b"PUB foo 2\r\nab\rx", UNKNOWN),
    (b"PUB foo 2\r\nab\n", UNKNOWN),
    (b"SUB " + b"a" * 4097, "maximum control line exceeded"),
    (b"CONNECT " + b" " + b"{" * 4097, "maximum control line exceeded"),
    (b"PUB " + b"a" * 4095 + b" 1\r\n", "maximum control line exceeded"),
    (b"PUB" + b" " * 4097, "maximum control line exceeded"),
    (b"UNSUB" + b"\t" * 4097 + b"1\r\n", "maximum control line exceeded"),
]


def play(pieces: list[bytes], **options) -> tuple[list, str | None]:
    parser = RecordingParser(**options)
    for piece in pieces:
        parser.feed(piece)
    return parser.events, parser.error


def ways(data: bytes) -> list[list[bytes]]:
    """Whole, byte by byte, and cut in two at every place (short inputs) or at some (long ones)."""
    places = range(1, len(data), max(1, len(data) // 60))
    return [[data], [data[i : i + 1] for i in range(len(data))], *([data[:i], data[i:]] for i in places)]


@pytest.mark.parametrize(("data", "events"), GOOD, ids=lambda value: repr(value)[:40])
def test_a_command_is_recognised_however_it_arrives(data, events):
    for pieces in ways(data + b"PING\r\n"):
        assert play(pieces) == ([*events, ("ping",)], None)


@pytest.mark.parametrize(("data", "text"), BAD, ids=lambda value: repr(value)[:40])
def test_bad_input_is_refused_however_it_arrives(data, text):
    for pieces in ways(data):
        assert play(pieces) == ([], text)


@pytest.mark.parametrize("length", [4096, 4095, 1])
def test_a_control_line_may_be_as_long_as_the_limit(length):
    subject = b"a" * (length - 2) if length > 2 else b"a"
    line = b"SUB " + subject + b" 1\r\n"
    assert play([line]) == ([("subscribe", subject, None, b"1")], None)


def test_as_many_blanks_may_stand_behind_a_verb():
    assert play([b"SUB" + b" " * 4096 + b"a 1\r\n"]) == ([("subscribe", b"a", None, b"1")], None)


def test_hpub_without_agreed_headers_closes_silently():
    assert play([b"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"], headers=False) == ([], CLOSED)


def test_before_a_login_anything_but_connect_is_a_violation():
    for first in (b"PING\r\n", b"\n", b"X", b"PUB a 1\r\n"):
        assert play([first], login_due=True) == ([], "Authorization Violation")
    assert play([b"connect {}\r\nPING\r\n"], login_due=True) == ([("connect", b"{}"), ("ping",)], None)


commands = st.sampled_from([data for data, _ in GOOD])


@given(st.lists(commands, max_size=6), st.lists(st.integers(0, 400), max_size=5))
def test_any_cut_of_any_sequence_gives_the_same_events(parts, cuts):
    data = b"".join(parts)
    places = sorted({min(cut, len(data)) for cut in cuts})
    pieces = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
    assert play(pieces) == play([data])


@given(st.lists(st.binary(max_size=40) | commands, max_size=6), st.integers(0, 200))
def test_arbitrary_bytes_never_do_more_than_end_the_connection(parts, cut):
    data = b"".join(parts)
    whole = play([data])
    split = play([data[:cut], data[cut:]])
    assert whole == split


@given(st.binary(max_size=200))
def test_payload_bytes_are_never_read_as_commands(payload):
    events, error = play([b"PUB a %d\r\n%b\r\nPING\r\n" % (len(payload), payload)])
    assert error is None
    assert events == [("publish", b"a", None, b"", payload, b"%d" % len(payload)), ("ping",)]
