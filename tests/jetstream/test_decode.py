"""Request bodies: what Go's encoding/json accepts, what it refuses, and with which words."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetbroker.forms import gojson
from jetbroker.forms.gojson import JsonError
from jetbroker.forms.gotext import (
    ZERO_TIME,
    ZERO_TIME_TEXT,
    Timestamp,
    duration_text,
    format_time,
    parse_time,
    quoted,
)
from jetbroker.jetstream.models.config import ConsumerConfig, CreateConsumerRequest, StreamConfig, StreamConfigRequest
from jetbroker.jetstream.models.decode import DecodeError, decode

FIELD = "json: cannot unmarshal {} into Go struct field {} of type {}"
CONFIG = "StreamConfigRequest.StreamConfig."
LAYOUT = '"2006-01-02T15:04:05Z07:00"'

REFUSED: list[tuple[str, str]] = [
    ("{", "unexpected EOF"),
    ("[1,2", "unexpected EOF"),
    ("nul", "unexpected EOF"),
    ('{"a":"\\u123', "unexpected EOF"),
    ("]", "invalid character ']' looking for beginning of value at offset 1"),
    ('{"name":}', "invalid character '}' looking for beginning of value at offset 9"),
    ('{"name" "a"}', "invalid character '\"' after object key at offset 9"),
    ('{"a":1,}', "invalid character '}' looking for beginning of object key string at offset 8"),
    ('{"name":"S"}x', "invalid character 'x' looking for beginning of value at offset 13"),
    ('{"name":nulx}', "invalid character 'x' in literal null (expecting 'l') at offset 12"),
    ('{"name":"S\n"}', "invalid character '\\n' in string literal at offset 11"),
    ('{"name":"\\x"}', "invalid character 'x' in string escape code at offset 11"),
    ('{"name":"\\u12"}', "invalid character '\"' in \\u hexadecimal character escape at offset 14"),
    ('{"name":-}', "invalid character '}' in numeric literal at offset 10"),
    ('{"name":01}', "invalid character '1' after object key:value pair at offset 10"),
    ('{"name":1.}', "invalid character '}' after decimal point in numeric literal at offset 11"),
    ('{"name":1e}', "invalid character '}' in exponent of numeric literal at offset 11"),
    ("[1 2]", "invalid character '2' after array element at offset 4"),
    ("{1:2}", "invalid character '1' looking for beginning of object key string at offset 2"),
    ('{"name":NaN}', "invalid character 'N' looking for beginning of value at offset 9"),
    ("é", "invalid character 'Ã' looking for beginning of value at offset 1"),
    ("\x0b{}", "invalid character '\\v' looking for beginning of value at offset 1"),
    ("[" * 10_001, "invalid character '[' exceeded max depth at offset 10001"),
    ('"x"', "json: cannot unmarshal string into Go value of type server.StreamConfigRequest"),
    ("5", "json: cannot unmarshal number into Go value of type server.StreamConfigRequest"),
    ("[{}]", "json: cannot unmarshal array into Go value of type server.StreamConfigRequest"),
    ("true", "json: cannot unmarshal bool into Go value of type server.StreamConfigRequest"),
    ('{"name":5}', FIELD.format("number", CONFIG + "name", "string")),
    ('{"max_msgs":"x"}', FIELD.format("string", CONFIG + "max_msgs", "int64")),
    ('{"Max_Msgs":"x"}', FIELD.format("string", CONFIG + "max_msgs", "int64")),
    ('{"max_msgs":1.5}', FIELD.format("number 1.5", CONFIG + "max_msgs", "int64")),
    ('{"max_msgs":1e3}', FIELD.format("number 1e3", CONFIG + "max_msgs", "int64")),
    ('{"max_msgs":1e999}', FIELD.format("number 1e999", CONFIG + "max_msgs", "int64")),
    ('{"max_msgs":9223372036854775808}', FIELD.format("number 9223372036854775808", CONFIG + "max_msgs", "int64")),
    ('{"max_msg_size":2147483648}', FIELD.format("number 2147483648", CONFIG + "max_msg_size", "int32")),
    ('{"first_seq":-1}', FIELD.format("number -1", CONFIG + "first_seq", "uint64")),
    ('{"max_msgs":true}', FIELD.format("bool", CONFIG + "max_msgs", "int64")),
    ('{"max_age":"1s"}', FIELD.format("string", CONFIG + "max_age", "time.Duration")),
    ('{"sealed":1}', FIELD.format("number", CONFIG + "sealed", "bool")),
    ('{"subjects":"x"}', FIELD.format("string", CONFIG + "subjects", "[]string")),
    ('{"subjects":[1]}', FIELD.format("number", CONFIG + "subjects", "string")),
    ('{"metadata":{"a":5}}', FIELD.format("number", CONFIG + "metadata", "string")),
    ('{"metadata":[]}', FIELD.format("array", CONFIG + "metadata", "map[string]string")),
    ('{"mirror":5}', FIELD.format("number", CONFIG + "mirror", "server.StreamSource")),
    ('{"mirror":{"name":5}}', FIELD.format("number", "StreamSource.StreamConfig.mirror.name", "string")),
    ('{"sources":{}}', FIELD.format("object", CONFIG + "sources", "[]*server.StreamSource")),
    ('{"sources":[5]}', FIELD.format("number", CONFIG + "sources", "server.StreamSource")),
    ('{"pedantic":5}', FIELD.format("number", "StreamConfigRequest.pedantic", "bool")),
    ('{"retention":"x"}', 'can not unmarshal "\\"x\\""'),
    ('{"retention":5}', 'can not unmarshal "5"'),
    ('{"retention":null}', 'can not unmarshal "null"'),
    ('{"compression":"x"}', "unknown compression algorithm"),
    ('{"compression":5}', FIELD.format("number", CONFIG + "compression", "string")),
    ('{"mirror":{"opt_start_time":5}}', "Time.UnmarshalJSON: input is not a JSON string"),
    ('{"mirror":{"opt_start_time":"x"}}', f'parsing time "x" as {LAYOUT}: cannot parse "x" as "2006"'),
    ('{"foo":1}', 'json: unknown field "foo"'),
    ('{"":1}', 'json: unknown field ""'),
    ('{"foo":1,"max_msgs":"x"}', 'json: unknown field "foo"'),
    ('{"max_msgs":"x","foo":1}', FIELD.format("string", CONFIG + "max_msgs", "int64")),
    ('{"name":"S"} {"x":1}', 'json: unknown field "x"'),
]

TIMES: list[tuple[str, str]] = [
    ("2020-01-01T00:00:00", f'parsing time "2020-01-01T00:00:00" as {LAYOUT}: cannot parse "" as "Z07:00"'),
    ("2020-01-01", f'parsing time "2020-01-01" as {LAYOUT}: cannot parse "" as "T"'),
    ("2020-13-01T00:00:00Z", 'parsing time "2020-13-01T00:00:00Z": month out of range'),
    ("2020-02-30T00:00:00Z", 'parsing time "2020-02-30T00:00:00Z": day out of range'),
    ("2020-01-01T24:00:00Z", 'parsing time "2020-01-01T24:00:00Z": hour out of range'),
    ("2020-01-01T00:00:00+25:00", 'parsing time "2020-01-01T00:00:00+25:00": time zone offset hour out of range'),
    ("2020-01-01T00:00:00Zx", 'parsing time "2020-01-01T00:00:00Zx": extra text: "x"'),
    ("é", f'parsing time "\\xc3\\xa9" as {LAYOUT}: cannot parse "\\xc3\\xa9" as "2006"'),
]


def refusal(body: bytes) -> str:
    with pytest.raises(DecodeError) as caught:
        decode(StreamConfigRequest, "StreamConfigRequest", body)
    return str(caught.value)


@pytest.mark.parametrize(("body", "text"), REFUSED, ids=lambda value: value[:60])
def test_refusals_have_the_words_of_go(body: str, text: str) -> None:
    assert refusal(body.encode()) == text


@pytest.mark.parametrize(("text", "fault"), TIMES)
def test_times_are_refused_as_go_does(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match="parsing time") as caught:
        parse_time(text)
    assert str(caught.value) == fault


def read(body: str | bytes) -> StreamConfig:
    data = body.encode() if isinstance(body, str) else body
    return decode(StreamConfigRequest, "StreamConfigRequest", data).config


def test_keys_match_without_regard_to_case() -> None:
    assert read('{"NAME":"S","Max_Msgs":5,"\u017fubjects":["a"]}') == read('{"name":"S","max_msgs":5,"subjects":["a"]}')


def test_null_leaves_a_value_alone() -> None:
    assert read('{"name":null,"max_msgs":null,"subjects":null,"mirror":null,"metadata":null}') == StreamConfig()


def test_later_values_go_over_earlier_ones() -> None:
    assert read('{"name":"S","max_msgs":5} {"max_msgs":6}').max_msgs == 6
    assert read('{"subjects":["a"],"subjects":["b"]}').subjects == ["b"]


def test_empty_bodies_give_empty_values() -> None:
    assert read("") == read(" ") == read("null") == read("{}") == StreamConfig()


def test_bad_unicode_is_replaced() -> None:
    assert read('{"description":"\\ud800x"}').description == "\ufffdx"
    assert read(b'{"description":"\xff"}').description == "\ufffd"
    assert read('{"description":"\\ud83d\\ude00\\ude00"}').description == "\U0001f600\ufffd"


def test_unknown_fields_pass_when_not_strict() -> None:
    body = b'{"name":"S","colour":{"deep":[1]}}'
    assert decode(StreamConfigRequest, "StreamConfigRequest", body, strict=False).config.name == "S"


def test_undefined_is_deliver_all() -> None:
    body = b'{"config":{"deliver_policy":"undefined"}}'
    assert decode(CreateConsumerRequest, "CreateConsumerRequest", body).config.deliver_policy == "all"


def test_consumer_enums_are_refused_in_their_own_words() -> None:
    for body, text in (
        (b'{"action":"x"}', 'unknown consumer action: "x"'),
        (b'{"action":5}', "unknown consumer action: 5"),
        (b'{"config":{"priority_policy":"x"}}', 'unknown priority policy: "x"'),
        (b'{"config":{"ack_policy":"x"}}', 'can not unmarshal "\\"x\\""'),
    ):
        with pytest.raises(DecodeError) as caught:
            decode(CreateConsumerRequest, "CreateConsumerRequest", body)
        assert str(caught.value) == text


def test_replies_are_escaped_as_go_does() -> None:
    assert gojson.dumps({"a": "<&>\u2028\u2029é\b\f\x00\x7f"}) == (
        b'{"a":"\\u003c\\u0026\\u003e\\u2028\\u2029\xc3\xa9\\b\\f\\u0000\x7f"}'
    )


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"), (1, "1ns"), (1500, "1.5µs"), (1_000_000, "1ms"), (1_500_000_000, "1.5s"), (60_000_000_000, "1m0s"),
        (5_400_000_000_000, "1h30m0s"), (-90_000_000_000, "-1m30s"), (2**63 - 1, "2562047h47m16.854775807s"),
    ],
)  # fmt: skip
def test_durations_are_written_as_go_does(ns: int, text: str) -> None:
    assert duration_text(ns) == text


def test_the_zero_time() -> None:
    assert str(ZERO_TIME) == ZERO_TIME_TEXT == format_time(ZERO_TIME.written_ns)
    assert parse_time(ZERO_TIME_TEXT) == ZERO_TIME


def test_offsets_and_fractions_are_kept() -> None:
    for text in ("2020-01-01T00:00:00.5+01:30", "2024-02-29T23:59:59.123456789Z", "0000-01-01T00:00:00Z"):
        assert str(parse_time(text)) == text
    assert parse_time("2020-01-01T00:00:00.1234567899Z").ns % 1_000_000_000 == 123_456_789


def test_quotes() -> None:
    assert quoted('a"\\\n\x01\u200bé\U000e0000') == '"a\\"\\\\\\n\\x01\\u200bé\\U000e0000"'


@given(st.integers(-62_135_596_800 * 10**9, 253_402_300_799 * 10**9), st.integers(-23, 23))
def test_times_come_back(ns: int, hours: int) -> None:
    stamp = Timestamp(ns, hours * 3600)
    assert parse_time(str(Timestamp(ns))) == Timestamp(ns)
    if 0 < int(str(stamp)[:4]) < 9999 and len(str(stamp).split("-")[0]) == 4:
        assert parse_time(str(stamp)) == stamp


# --- any input ---

KEYS = st.sampled_from(
    ["name", "subjects", "max_msgs", "mirror", "sources", "external", "api", "metadata", "retention", "config",
     "backoff", "opt_start_time", "placement", "tags", "Name", "x", "", "stream_name", "action", "consumer_limits"]
)  # fmt: skip
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)


def outcome(cls: type[Any], body: bytes) -> str:
    """What became of a body; anything but a value or a DecodeError is a fault."""
    try:
        return repr(decode(cls, cls.__name__, body))
    except DecodeError as error:
        return f"refused: {error}"


@given(VALUES)
def test_any_json_decodes_or_is_refused(value: Any) -> None:
    body = json.dumps(value).encode()
    assert outcome(StreamConfigRequest, body)
    assert outcome(CreateConsumerRequest, body)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\ue-+.0123456789tfn \n', max_size=40).map(str.encode))
def test_any_bytes_decode_or_are_refused(body: bytes) -> None:
    assert outcome(StreamConfigRequest, body)


@given(VALUES, st.integers(0, 400), st.binary(max_size=3))
def test_damaged_json_decodes_or_is_refused(value: Any, at: int, junk: bytes) -> None:
    body = json.dumps(value).encode()
    assert outcome(StreamConfigRequest, body[:at] + junk + body[at + 1 :])


@given(VALUES)
def test_both_readers_agree(value: Any) -> None:
    body = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS) if not _too_large(value) else b"null"
    exact = list(gojson.values(body))
    assert len(exact) == 1
    assert _plain(exact[0]) == _plain(orjson.loads(body))


def _too_large(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(_too_large(entry) for entry in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and not -(2**63) <= value < 2**64


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, gojson.Number | int | float) and not isinstance(value, bool):
        return float(value)
    return value


def test_depth_costs_no_recursion() -> None:
    deep = b'{"metadata":' * 4_000 + b"1" + b"}" * 4_000
    assert refusal(deep).startswith("json: cannot unmarshal object into Go struct field")
    assert refusal(b"[" * 1_000_000)
    assert refusal(b'{"retention":' + b"[" * 4_000 + b"]" * 4_000 + b"}") == 'can not unmarshal "..."'
    with pytest.raises(JsonError, match="exceeded max depth"):
        list(gojson.values(b"[" * 60_000))


def test_what_is_too_long_to_be_read_again_is_refused_by_the_first_reader() -> None:
    body = b'{"name":1.5,"subjects":[%s]}' % (b'"",' * 30_000 + b'""')
    with pytest.raises(gojson.TooLong):
        gojson.values(body)
    assert refusal(body).startswith("json: cannot unmarshal number into Go struct field")


@pytest.mark.parametrize(
    ("body", "size"),
    [(b'{"sources":[%s]}', b"{}"), (b'{"sources":[[%s]]}', b"[]"), (b'{"metadata":{%s}}', b'"a":"b"')],
    ids=["objects", "lists", "keys"],
)
def test_more_values_than_are_read_in_one_piece_are_refused(body: bytes, size: bytes) -> None:
    few, many = (body % b",".join([size] * count) for count in (5_000, 60_000))
    assert refusal(many) == "json: too many values"
    assert gojson.fast_value(few)


@pytest.mark.parametrize("digits", [100, 5_000, 60_000, 900_000])
def test_long_numbers_are_refused(digits: int) -> None:
    assert "number" in refusal(b'{"max_msgs":' + b"9" * digits + b"}")


# --- round trips ---

COUNTS = st.integers(-(2**63), 2**63 - 1)
UNSIGNED = st.integers(0, 2**64 - 1)
WORDS = st.text(max_size=20)


@given(
    st.builds(
        StreamConfig,
        name=WORDS,
        description=WORDS,
        subjects=st.lists(WORDS, max_size=3),
        retention=st.sampled_from(["limits", "interest", "workqueue"]),
        max_msgs=COUNTS,
        max_age=COUNTS,
        first_seq=UNSIGNED,
        sealed=st.booleans(),
        compression=st.sampled_from(["none", "s2"]),
        persist_mode=st.sampled_from(["default", "async"]),
        metadata=st.dictionaries(WORDS, WORDS, max_size=3),
    )
)
def test_stream_configs_come_back(config: StreamConfig) -> None:
    assert StreamConfig.from_json(config.to_json()) == config
    assert read(gojson.dumps(config.to_json())) == config


@given(
    st.builds(
        ConsumerConfig,
        durable_name=WORDS,
        deliver_policy=st.sampled_from(["all", "last", "new", "by_start_time"]),
        opt_start_seq=UNSIGNED,
        opt_start_time=st.none() | st.integers(0, 2**60).map(Timestamp),
        backoff=st.lists(COUNTS, max_size=3),
        ack_wait=COUNTS,
        filter_subjects=st.lists(WORDS, max_size=3),
        headers_only=st.booleans(),
        priority_policy=st.sampled_from(["none", "overflow"]),
    )
)
def test_consumer_configs_come_back(config: ConsumerConfig) -> None:
    assert ConsumerConfig.from_json(config.to_json()) == config
