"""Subject transforms against a naive model, and mappings."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetbroker.routing.mapping import Mappings
from jetbroker.routing.placeholders import TransformError
from jetbroker.routing.transform import Transform


def fnv1a(key: bytes) -> int:
    value = 2166136261
    for byte in key:
        value = (value ^ byte) * 16777619 % 2**32
    return value


def sliced(token: str, size: int, *, from_left: bool) -> list[str]:
    if not 0 < size < len(token):
        return [token]
    if from_left:
        return re.findall(f".{{1,{size}}}", token)
    return [piece[::-1] for piece in re.findall(f".{{1,{size}}}", token[::-1])][::-1]


def cut(token: str, place: int) -> str:
    return f"{token[:place]}.{token[place:]}" if 0 < place < len(token) else token


def model(name: str, token: str, number: int, subject: str) -> str:
    """What `{{name(1,number)}}` makes of the first wildcard's token."""
    whole = not 0 < number < len(token)
    return {
        "wildcard": lambda: token,
        "partition": lambda: str(fnv1a(token.encode()) % number if number else 0),
        "partition of all": lambda: str(fnv1a(subject.encode()) % number if number else 0),
        "SplitFromLeft": lambda: cut(token, number),
        "SplitFromRight": lambda: token if whole else cut(token, len(token) - number),
        "SliceFromLeft": lambda: ".".join(sliced(token, number, from_left=True)),
        "SliceFromRight": lambda: ".".join(sliced(token, number, from_left=False)),
        "left": lambda: token if whole else token[:number],
        "right": lambda: token if whole else token[-number:],
    }[name]()


ARGUMENTS = {"wildcard": "1", "partition": "{n},1", "partition of all": "{n}"}
NAMES = [
    "wildcard", "partition", "partition of all", "SplitFromLeft", "SplitFromRight", "SliceFromLeft", "SliceFromRight",
    "left", "right",
]  # fmt: skip
TOKEN = st.text("ab-*>", min_size=1, max_size=12).filter(lambda token: token != ">")


@given(
    tokens=st.lists(TOKEN, min_size=1, max_size=4),
    rest=st.lists(TOKEN, max_size=3),
    steps=st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 14), st.integers(1, 4)), min_size=1, max_size=5),
    large=st.booleans(),
)
def test_a_transform_does_what_the_model_does(
    tokens: list[str], rest: list[str], steps: list[tuple[str, int, int]], large: bool
) -> None:
    subject = ".".join(["src", *tokens, *rest])
    source = ".".join(["src", *("*" for _ in tokens), *([">"] if rest else [])])
    destination, expected = ["to"], ["to"]
    for name, number, index in steps:
        index = min(index, len(tokens))
        arguments = ARGUMENTS.get(name, f"1, {number}").format(n=number).replace("1", str(index), 1)
        if name == "partition of all":
            arguments = str(number)
        elif name == "partition":
            arguments = f"{number},{index}"
        function = name.split()[0]
        function = function[0].upper() + function[1:] if large else function
        destination.append(f"{{{{{function}({arguments})}}}}")
        expected.append(model(name, tokens[index - 1], number, subject))
    transform = Transform(source.encode(), ".".join([*destination, *([">"] if rest else [])]).encode())
    assert transform.transform(subject.encode()) == ".".join([*expected, *rest]).encode()


@pytest.mark.parametrize(
    ("destination", "subject", "expected"),
    [
        ("{{split(1,-)}}", "-a--b-", "a.b"),
        ("{{split(1,-)}}", "-", ""),
        ("x.{{Split(1,--)}}", "a--b", "x.a.b"),
        ("$1.{{wildcard(1)}}.$1", "q", "q.q.q"),
        ("{{partition(10,1,1)}}", "ab", str(fnv1a(b"abab") % 10)),
        ("$0.$-1", "q", "q.q"),
        ("{{random(1)}}", "q", "0"),
        ("{{random(0)}}", "q", "0"),
    ],
)
def test_odd_destinations(destination: str, subject: str, expected: str) -> None:
    assert Transform(b"*", destination.encode()).transform(subject.encode()) == expected.encode()


def test_what_does_not_fit_is_left() -> None:
    transform = Transform(b"w.*", b"x.$1")
    assert transform.transform(b"w.*") == b"x.*"
    for subject in (b"w.>", b"w", b"w.", b"w.a.b", b"v.a", b""):
        assert transform.transform(subject) is None


@pytest.mark.parametrize(
    ("source", "destination", "there", "back"),
    [
        (b"a.*.*", b"b.$2.$1", b"a.1.2", b"b.2.1"),
        (b"a.*.>", b"b.{{wildcard(1)}}.>", b"a.1.2.3", b"b.1.2.3"),
        (b"a", b"b", b"a", b"b"),
        (b"a.>", b"p.a.>", b"a.x", b"p.a.x"),
    ],
)
def test_strict_transforms_can_be_undone(source: bytes, destination: bytes, there: bytes, back: bytes) -> None:
    transform = Transform(source, destination, strict=True)
    undo = transform.reversed()
    assert undo is not None
    assert (transform.transform(there), undo.transform(back)) == (back, there)


@pytest.mark.parametrize(
    ("destination", "text"),
    [
        ("b.{{partition(5,1)}}.$1",
         "the only mapping function allowed for import transforms is {{Wildcard()}} in {{partition(5,1)}}"),
        ("b.c", "not using all of the token wildcard(s) in b.c"),
    ],
)  # fmt: skip
def test_strict_transforms_refuse_what_cannot_be_undone(destination: str, text: str) -> None:
    with pytest.raises(TransformError, match=re.escape(f"invalid mapping destination: {text}")):
        Transform(b"a.*", destination.encode(), strict=True)


def mappings(**sources: list[tuple[bytes, int, str]]) -> Mappings:
    return Mappings([(source.encode(), targets) for source, targets in sources.items()])


def test_weights_and_loss() -> None:
    table = mappings(
        split=[(b"a", 70, ""), (b"b", 10, "")], loss=[(b"loss", 40, ""), (b"x", 10, "")], none=[(b"y", 0, "")],
        all_lost=[(b"all_lost", 0, "")],
    )  # fmt: skip
    counts = Counter(table.mapped(b"split") for _ in range(20_000))
    assert counts.keys() == {b"a", b"b", b"split"}
    assert 13_300 < counts[b"a"] < 14_700
    assert 1_600 < counts[b"b"] < 2_400
    lost = Counter(table.mapped(b"loss") for _ in range(20_000))
    assert lost.keys() == {b"loss", b"x", b""}
    assert 9_300 < lost[b""] < 10_700
    assert table.mapped(b"none") == b"none"
    assert table.mapped(b"all_lost") == b""


def test_the_rest_of_a_wildcard_mapping_goes_to_the_original() -> None:
    table = Mappings([(b"a.*", [(b"b.$1", 50, "")]), (b"c.>", [(b"d.>", 50, ""), (b"c.>", 20, "")])])
    assert {table.mapped(b"a.x") for _ in range(200)} == {b"a.x", b"b.x"}
    assert {table.mapped(b"c.x.y") for _ in range(500)} == {b"c.x.y", b"d.x.y", b""}


def test_destinations_of_a_cluster() -> None:
    sources = [(b"a", [(b"here", 100, "east"), (b"there", 100, "")]), (b"b", [(b"here", 100, "east")])]
    assert [Mappings(sources).mapped(subject) for subject in (b"a", b"b")] == [b"there", b"b"]
    assert [Mappings(sources, "east").mapped(subject) for subject in (b"a", b"b")] == [b"here", b"here"]


def test_literal_sources_come_first_then_the_order_of_the_file() -> None:
    table = Mappings([(b"w.*", [(b"first", 100, "")]), (b"w.>", [(b"2.>", 100, "")]), (b"w.l", [(b"lit", 100, "")])])
    assert [table.mapped(subject) for subject in (b"w.l", b"w.m", b"w.m.n", b"v")] == [b"lit", b"first", b"2.m.n", None]
    assert table.sources() == [b"w.l", b"w.*", b"w.>"]


def test_the_servers_own_subjects_are_mapped_only_when_named() -> None:
    table = Mappings(
        [(b">", [(b"x.>", 100, "")]), (b"$JS.API.INFO", [(b"y", 100, "")]), (b"$SYS.>", [(b"z.>", 100, "")])]
    )
    subjects = (
        b"$JS.API.STREAM.NAMES",
        b"$JS.ACK.a",
        b"_R_.abcdef.ghijkl",
        b"$JS.API.INFO",
        b"$SYS.a",
        b"$KV.a",
        b"_INBOX.a",
    )
    assert [table.mapped(subject) for subject in subjects] == [
        None,
        None,
        None,
        b"y",
        b"z.a",
        b"x.$KV.a",
        b"x._INBOX.a",
    ]


def test_what_a_subject_becomes_is_remembered_within_bounds() -> None:
    table = Mappings([(b"a.*", [(b"b.$1", 100, "")])])
    for _ in range(3):
        assert table.mapped(b"a.1") == b"b.1"
    assert table.builds == 1
    for number in range(20_000):
        assert table.mapped(b"a.%d" % number) == b"b.%d" % number


@pytest.mark.parametrize(
    ("targets", "text"),
    [
        ([(b"b", 101, "")], "individual weights need to be <= 100"),
        ([(b"b", 60, ""), (b"c", 60, "")], "total weight needs to be <= 100"),
        ([(b"b", 60, ""), (b"b", 10, "")], 'duplicate entry for "b"'),
    ],
)
def test_bad_weights(targets: list[tuple[bytes, int, str]], text: str) -> None:
    with pytest.raises(TransformError, match=re.escape(text)):
        Mappings([(b"a", targets)])


def test_a_subject_of_many_tokens_is_mapped() -> None:
    subject = b".".join([b"t"] * 2000)
    assert Transform(b"t.*.>", b"u.$1.>").transform(subject) == b"u" + subject[1:]
    assert Mappings([(b">", [(b"x.>", 100, "")])]).mapped(subject) == b"x." + subject
