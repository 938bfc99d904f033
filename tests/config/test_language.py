"""The configuration language: what each text says, what is wrong with it and where."""

from __future__ import annotations

import math
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jetbroker import limits
from jetbroker.config.loader import load_file
from jetbroker.config.parser import parse_file, parse_text, plain
from jetbroker.errors import ConfigError


def read(text: str, **env: str) -> Any:
    return plain(parse_text(text, "conf", env))


VALUES: list[tuple[str, Any]] = [
    ("text", "text"),
    ('"in quotes"', "in quotes"),
    ("'raw \\n $x'", "raw \\n $x"),
    ('"a\\x41\\t\\n\\r\\"\\\\b"', 'aA\t\n\r"\\b'),
    ('"\\xc3\\xa9"', "é"),
    ("a\\tb", "a\tb"),
    ('"two\nlines"', "two\nlines"),
    ("(\nabc\n  def\n)\n", "\nabc\n  def\n"),
    ("True", True),
    ("YES", True),
    ("on", True),
    ("off", False),
    ("no", False),
    ("yes1", "yes1"),
    ('"true"', "true"),
    ("007", 7),
    ("-5", -5),
    ("1k", 1000),
    ("1KB", 1024),
    ("1kib", 1024),
    ("1ki", 1024),
    ("-5m", -5_000_000),
    ("2GiB", 2 << 30),
    ("1eb", 1 << 60),
    ("9223372036854775807", 2**63 - 1),
    ("1.5", 1.5),
    ("-0.25", -0.25),
    ("1.2.3", "1.2.3"),
    ("127.0.0.1:4222", "127.0.0.1:4222"),
    ("5'x", "5'x"),
    ("x'", "x"),
    ('a"b"', 'a"b"'),
    ("10s", "10s"),
    ("1h30m", "1h30m"),
    ("5ms", "5ms"),
    ("2m", 2_000_000),
    ("3xyz", "3xyz"),
    ("0x10", "0x10"),
    ("1_000", "1_000"),
    ("+5", "+5"),
    ("5:6", "5:6"),
    ("2016-05-04T18:53:41Z", datetime(2016, 5, 4, 18, 53, 41, tzinfo=UTC)),
    ("a#b", "a#b"),
    ("a//b", "a//b"),
    ("#x", "#x"),
    ("a{b", "a{b"),
    ("a:b=c", "a:b=c"),
    ("[]", []),
    ("[a,b]", ["a", "b"]),
    ("[a\n\nb]", ["a", "b"]),
    ("[a,\n b, # one\n c // two\n]", ["a", "b", "c"]),
    ("[1,[2],{a:3}]", [1, [2], {"a": 3}]),
    ("{a: 1, b = 2; c 3\n d: [x]}", {"a": 1, "b": 2, "c": 3, "d": ["x"]}),
    ("{a: {b: {c: d}}}", {"a": {"b": {"c": "d"}}}),
    ("{}", {}),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_value(text: str, value: Any) -> None:
    found = read(f"key: {text}")["key"]
    assert found == value
    assert type(found) is type(value)


FILES: list[tuple[str, dict[str, Any]]] = [
    ("", {}),
    ("# nothing\n// here", {}),
    ("a:1\nb=2\nc 3", {"a": 1, "b": 2, "c": 3}),
    ("a: 1; b: 2, c: 3", {"a": 1, "b": 2, "c": 3}),
    ("{a: 1}", {"a": 1}),
    ("{a: 1\n", {"a": 1}),
    ("a: 1}\nb: 2", {"a": 1, "b": 2}),
    ("\"a b\": 1\n'c:d' = 2", {"a b": 1, "c:d": 2}),
    ("a\n\n= 1", {"a": 1}),
    ("a {b: 1}\r\nc: 2\r\n", {"a": {"b": 1}, "c": 2}),
    ("a: 1\na: 2", {"a": 2}),
    ("a:", {"a": ""}),
    ("a: x # comment\nb: y // comment", {"a": "x", "b": "y"}),
    ("a\x0b1", {"a": 1}),
    ("a\xa05", {"a": 5}),
    ("include: x", {"include": "x"}),
]


@pytest.mark.parametrize(("text", "tree"), FILES)
def test_file(text: str, tree: dict[str, Any]) -> None:
    assert read(text) == tree


ERRORS = [
    ("a: b c", "Parse error on line 1: 'Expected a top-level value to end with a new line, comment or EOF, "
               "but got 'c' instead.'"),
    ("{a: b", "Parse error on line 1: 'Expected a block-level value to end with a new line, comment or EOF, "
              "but got ' ' instead.'"),
    ("a: {b: c d: e}", "Parse error on line 1: 'Expected a map value terminator \",\" or a map terminator \"}\", "
                       "but got 'd' instead.'"),
    ("a: [b c]", "Parse error on line 1: 'Expected an array value terminator \",\" or an array terminator \"]\", "
                 "but got 'c' instead.'"),
    ("a: [b,,c]", "Parse error on line 1: 'Unexpected array value terminator ','.'"),
    ("\n= 5", "Parse error on line 2: 'Unexpected key separator '=''"),
    ("a:\n5", "Parse error on line 2: 'Expected value but found new line'"),
    ('a: "x', "Parse error on line 1: 'Unexpected EOF.'"),
    ("a: 'x\n", "Parse error on line 2: 'Unexpected EOF.'"),
    ("a: (\nx\n", "Parse error on line 3: 'Unexpected EOF processing block.'"),
    ("a: {\n", "Parse error on line 2: 'Unexpected EOF processing map.'"),
    ("a: {b", "Parse error on line 1: 'Unexpected EOF processing map key.'"),
    ("a: {]}", "Parse error on line 1: 'Unexpected array end ']' processing map.'"),
    ('a: "\\q"', "Parse error on line 1: 'Invalid escape character 'q'. Only the following escape characters are "
                 "allowed: \\xXX, \\t, \\n, \\r, \\\", \\\\.'"),
    ('a: "\\xzz"', "Parse error on line 1: 'Expected two hexadecimal digits after '\\x', but got 'zz''"),
    ("a: -x", "Parse error on line 1: 'Expected a digit but got 'x'.'"),
    ("a: 5.x", "Parse error on line 1: 'Floats must have a digit after the '.', but got 'x' instead.'"),
    ("a: .5", "Parse error on line 1: 'Floats must start with a digit'"),
    ("a: 12-34", "Parse error on line 1: 'All ISO8601 dates must be in full Zulu form.'"),
    ("a: 2021-1-01T00:00:00Z", "Parse error on line 1: 'Expected digit in ISO8601 datetime, but found '-' instead.'"),
    ("a: 2021-13-01T00:00:00Z", "expected Zulu formatted DateTime, but got '2021-13-01T00:00:00Z'"),
    ("a: 9223372036854775808", "integer '9223372036854775808' is out of the range"),
    ("a: 100e", "integer '100e' is out of the range"),
    ("a\n", "config is invalid (conf:2:1)"),
    ("a: $b", "variable reference for 'b' on line 1 can not be found"),
    ("a: 1\x00b", "Parse error on line 1: 'Unexpected NUL.'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_error(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert str(caught.value) == message


def test_places_of_keys_and_values() -> None:
    tree = parse_text('one: 1\n  two {\n\t"three": x, four: [a, b]\n}\n', "conf")
    assert str(tree["one"].place) == "conf:1:0"  # the first line counts its columns from 0
    assert str(tree["one"].value_place) == "conf:1:5"
    assert str(tree["two"].place) == "conf:2:3"
    inner: Any = tree["two"].value
    assert str(inner["three"].place) == "conf:3:3"  # of the name, not of its quote
    assert str(inner["four"].place) == "conf:3:14"
    assert str(inner["four"].value[1].place) == "conf:3:24"


def test_variables() -> None:
    assert read("x: 5\ny: $x") == {"x": 5, "y": 5}
    assert read("x: 1\ny {x: 2, z: $x}\nw: $x") == {"x": 1, "y": {"x": 2, "z": 2}, "w": 1}
    assert read("x: [a]\ny: $x\nz: [$x]")["z"] == [["a"]]
    assert read("a: $X", X="1GB") == {"a": 1 << 30}
    assert read("a: $X", X='"in quotes"') == {"a": "in quotes"}
    assert read("a: $X", X="{b: [1]}") == {"a": {"b": [1]}}
    assert read("a: $X", X="$Y", Y="5") == {"a": 5}
    assert read("a: $2a$11$hash") == {"a": "$2a$11$hash"}
    assert read('a: "$x"') == {"a": "$x"}


@pytest.mark.parametrize(
    ("text", "env", "message"),
    [
        ("a: $x\nx: 1", {}, "variable reference for 'x' on line 1 can not be found"),
        ("x {y: $x}", {}, "variable reference for 'x' on line 1 can not be found"),
        ("\na: $X", {"X": "b c"}, "variable reference for 'X' on line 2 could not be parsed: Parse error on line 1: "
         "'Expected a top-level value to end with a new line, comment or EOF, but got 'c' instead.'"),
        ("a: $X", {"X": "$Y", "Y": "$X"}, "variable reference for 'X' on line 1 could not be parsed: variable "
         "reference for 'Y' on line 1 could not be parsed: variable reference cycle for 'X'"),
    ],
)  # fmt: skip
def test_variable_errors(text: str, env: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text, **env)
    assert message.rsplit(": ", 1)[-1] in str(caught.value)
    assert str(caught.value).startswith(message.split(":")[0])


def write(folder: Path, **files: str) -> str:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return str(folder / "main")


def test_includes(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        main="a: 1\ninclude sub/one\nb {include 'three'; y: 2}\nd: $c",
        sub__one="a: 2\ninclude two",
        sub__two="{c: 3}",
        three="x: 1",
    )
    tree = parse_file(path)
    assert plain(tree) == {"a": 2, "c": 3, "b": {"x": 1, "y": 2}, "d": 3}
    assert tree["c"].place.file.endswith("sub/two")


def told(path: str) -> list[str]:
    """The lines of what is wrong with a file, without its folder."""
    with pytest.raises(ConfigError) as caught:
        load_file(path, {"BROKEN": "$NOWHERE"})
    return str(caught.value).replace(f"{Path(path).parent}/", "").splitlines()


def test_missing_variables_are_told_with_all_else_that_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    included = "error parsing include file 'other', variable reference for 'Q' on line 1 can not be found"
    path = write(tmp_path, main="include other\nport: $P\nmax_paylod: 1\nserver_tags: [$R, 2]", other="debug: $Q")
    assert told(path) == [
        "other:1:7: variable reference for 'Q' on line 1 can not be found",
        "main:2:7: variable reference for 'P' on line 2 can not be found",
        "main:4:15: variable reference for 'R' on line 4 can not be found",
        'main:3:1: unknown field "max_paylod"',
        "main:4:1: error parsing tags: unsupported type *conf.token where string is expected",
    ]
    monkeypatch.setattr(sys, "argv", ["/usr/bin/nats-server"])
    assert told(path) == [included]  # which reads no further
    monkeypatch.undo()
    assert told(write(tmp_path, main="include other", other="debug: $Q")) == [included]
    assert told(write(tmp_path, main="port: $P\nlisten: {")) == [
        "main:1:6: variable reference for 'P' on line 1 can not be found",
        "Parse error on line 2: 'Unexpected EOF processing map.'",
    ]
    assert told(write(tmp_path, main="port: $BROKEN")) == [
        "variable reference for 'BROKEN' on line 1 could not be parsed: "
        "variable reference for 'NOWHERE' on line 1 can not be found"
    ]
    many = told(write(tmp_path, main="port: $P\n" * (2 * limits.CONFIG_MAX_MISSING)))
    assert len(many) == limits.CONFIG_MAX_MISSING + 1


def test_includes_that_do_not_end(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="include cycle"):
        parse_file(write(tmp_path, main="include other", other="include main"))
    doubling = {f"f{n}": f"include f{n + 1}\ninclude f{n + 1}" for n in range(40)}
    with pytest.raises(ConfigError, match="more than 1000 included files"):
        parse_file(write(tmp_path, main="include f0", **doubling, f40="a: 1"))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^open .*nothing: no such file or directory$"):
        parse_file(str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match=r"^read .*: is a directory$"):
        parse_file(str(tmp_path))
    with pytest.raises(ConfigError, match=r"^error parsing include file 'nothing', open .*nothing: no such file"):
        parse_file(write(tmp_path, main="include nothing"))


def test_nesting_is_bounded() -> None:
    depth = limits.CONFIG_MAX_NESTING
    assert read("a: " + "[" * depth + "]" * depth)["a"]
    with pytest.raises(ConfigError, match="Nested deeper"):
        read("a: " + "[" * 100_000)


def test_variables_do_not_multiply_without_bound() -> None:
    doubling = "a0: [1, 2]\n" + "".join(f"a{n}: [$a{n - 1}, $a{n - 1}]\n" for n in range(1, 60))
    with pytest.raises(ConfigError, match="more than 4000000 values"):
        read(doubling)
    deeper = "a0: {x: 1}\n" + "".join(f"a{n}: {{x: $a{n - 1}}}\n" for n in range(1, 3000))
    with pytest.raises(ConfigError, match="nested deeper than 200"):
        read(deeper)
    read("a0: [1, 2]\n" + "".join(f"a{n}: [$a{n - 1}, $a{n - 1}]\n" for n in range(1, 10)))


def test_time_is_linear() -> None:
    def seconds(count: int) -> float:
        text = "".join(f"key{n}: {{a: [x, 'y', 1k], b: \"z\\t\"}} # c\n" for n in range(count))
        start = time.thread_time()  # a busy machine changes little
        parse_text(text)
        return time.thread_time() - start

    small = min(seconds(500) for _ in range(3))
    assert seconds(5000) < 40 * small
    # One long line, one long array, many braces: nothing looks back to the start.
    parse_text("a: [" + "b," * 200_000 + "]")
    parse_text("a: 1}" * 2 + "\n" * 200_000 + "}" * 1)


BARE = st.text("abcXYZ_./-0123456789", min_size=1).map(lambda text: f"k{text}")
SCALARS = st.one_of(
    st.text(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: float(f"{value:.6f}")),
)
TREES = st.dictionaries(
    st.text("abc_é :=#'", min_size=1).filter(lambda key: '"' not in key),
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(BARE, inner, max_size=4),
        max_leaves=15,
    ),
    max_size=5,
)


def printed(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + "\n".join(f'"{key}": {printed(item)}' for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(printed, value)) + " ]"
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, int):
        return str(value)
    raw = value.encode()
    return (
        '"' + "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in raw) + '"'
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TREES)
def test_what_is_printed_is_read_back(tree: dict[str, Any]) -> None:
    text = "\n".join(f'"{key}" = {printed(value)}' for key, value in tree.items())
    found = read(text)
    assert found == tree
    assert not any(isinstance(value, float) and math.isnan(value) for value in found.values())


@settings(deadline=None)
@given(st.text() | st.text("a1-.:={}[]()\"'\\#/$,; \n\r\tTZkm\0", max_size=60))
def test_any_text_is_a_tree_or_a_config_error(text: str) -> None:
    try:
        tree = parse_text(text, "conf", {})
    except ConfigError:
        return
    plain_tree = plain(tree)
    assert isinstance(plain_tree, dict)


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_any_file_is_a_tree_or_a_config_error(data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        try:
            parse_file(file.name, {})
        except ConfigError:
            return
