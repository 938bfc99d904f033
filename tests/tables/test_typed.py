"""Payloads as typed columns: texts and models that name them, values that fit and values that do not."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, RootModel
from pydantic import Field as ModelField

from jetbroker.errors import StoreReadError
from jetbroker.tables import ddl
from jetbroker.tables.typed import TypedPayloads

pa = pytest.importorskip("pyarrow")

INT64 = 2**63


def decoded(payloads: list[bytes], **what: Any) -> list[dict[str, Any]]:
    """The typed columns of these payloads, as rows."""
    typed = TypedPayloads(**what)
    batch = pa.record_batch({"seq": pa.array(range(1, len(payloads) + 1)), "data": pa.array(payloads, pa.binary())})
    rows: list[dict[str, Any]] = typed.decode(batch, typed.schema, "ORDERS").to_pylist()
    return rows


def value(text: str, payload: object) -> Any:
    """What one value becomes in a column of the type `text`; the payload where it does not validate."""
    raw = json.dumps({"x": payload}).encode()
    (row,) = decoded([raw], json=f"x {text}")
    return row["x"] if row["_corrupt"] is None else row["_corrupt"]


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("string", "größe", "größe"),
        ("boolean", True, True),
        ("byte", -128, -128),
        ("short", 32767, 32767),
        ("int", 2**31 - 1, 2**31 - 1),
        ("long", -INT64, -INT64),
        ("float", 0.5, 0.5),
        ("double", 2**60 + 1, float(2**60)),
        ("double", 1.1, 1.1),
        ("timestamp", "2026-01-31T12:00:00.000001Z", datetime(2026, 1, 31, 12, 0, 0, 1, UTC)),
        ("timestamp", "2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("timestamp", "2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("date", "2026-01-31", date(2026, 1, 31)),
        ("decimal(20,3)", "12345678901234567.125", Decimal("12345678901234567.125")),
        ("decimal(4,2)", 1.5, Decimal("1.50")),
        ("decimal(4,2)", 7, Decimal("7.00")),
        ("binary", "aGk=", b"hi"),
        ("array<long>", [1, None, 3], [1, None, 3]),
        ("array<array<date>>", [["2026-01-31"], []], [[date(2026, 1, 31)], []]),
        ("string", None, None),
    ],
)
def test_values_become_those_of_their_column(text: str, given: object, expected: object) -> None:
    assert value(text, given) == expected


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("string", 1),
        ("string", "\ud800"),
        ("boolean", 1),
        ("byte", 128),
        ("int", 2**31),
        ("long", INT64),
        ("long", 1.0),
        ("long", True),
        ("double", "1"),
        ("double", True),
        ("float", 1e300),
        ("timestamp", 1_700_000_000),
        ("timestamp", "yesterday"),
        ("date", "2026-02-30"),
        ("decimal(4,2)", 1.125),
        ("decimal(4,2)", "100.00"),
        ("decimal(4,2)", "NaN"),
        ("decimal(4,2)", True),
        ("decimal(4,2)", "1" * 5000),
        ("binary", "no base64"),
        ("array<long>", [1, "2"]),
        ("array<string>", "ab"),
        ("array<string>", {"a": 1}),
    ],
)
def test_values_of_another_type_do_not_validate(text: str, given: object) -> None:
    raw = json.dumps({"x": given}).encode()
    assert value(text, given) == raw


def test_a_decimal_keeps_digits_that_a_float_would_lose() -> None:
    (row,) = decoded([b'{"price": 12345678901234567890.123456789, "n": 1}'], json="price decimal(38,9), n long")
    assert row == {"price": Decimal("12345678901234567890.123456789"), "n": 1, "_corrupt": None}


def test_dotted_names_reach_into_objects_and_absent_values_are_null() -> None:
    payloads = [b'{"item": {"name": "cup", "odd key": 7}}', b'{"item": {}}', b'{"item": null}', b"{}", b'{"item": 5}']
    rows = decoded(payloads, json="item.name string, item.`odd key` long")
    assert [(row["item_name"], row["item_odd key"], row["_corrupt"]) for row in rows] == [
        ("cup", 7, None),
        (None, None, None),
        (None, None, None),
        (None, None, None),
        (None, None, payloads[4]),
    ]


HOSTILE = [b"", b"{", b"null", b"[1]", b'"x"', b"\xff", b"NaN", b"[" * 100_000, b'{"n": NaN}', b'\xef\xbb\xbf{"n": 1}']


@pytest.mark.parametrize("text", ["n double", "n decimal(5,1)"])  # each has a parser of its own
@pytest.mark.parametrize("payload", HOSTILE, ids=lambda payload: repr(payload[:12]))
def test_what_is_no_object_does_not_validate(text: str, payload: bytes) -> None:
    assert decoded([b'{"n": 1}', payload], json=text) == [{"n": 1, "_corrupt": None}, {"n": None, "_corrupt": payload}]


def test_a_payload_is_wrong_as_a_whole_or_not_at_all() -> None:
    rows = decoded([b'{"a": 1, "b": "x"}', b'{"a": 2, "b": 2}'], json="a long, b long")
    assert rows == [
        {"a": None, "b": None, "_corrupt": b'{"a": 1, "b": "x"}'},
        {"a": 2, "b": 2, "_corrupt": None},
    ]


def test_dropping_leaves_out_what_does_not_validate() -> None:
    assert decoded([b'{"a": 1}', b"{", b'{"a": 3}'], json="a long", mode="dropping") == [{"a": 1}, {"a": 3}]


def test_failing_names_stream_sequence_and_reason() -> None:
    with pytest.raises(StoreReadError, match=r"stream 'ORDERS', sequence 2: .* a: 'x' is no long"):
        decoded([b'{"a": 1}', b'{"a": "x"}', b"{"], json="a long", mode="failing")


def test_msgpack_payloads() -> None:
    good = msgpack.packb({"a": 2**40, "raw": b"\x00\xff", "at": datetime(2026, 1, 1, tzinfo=UTC)}, datetime=True)
    bad = [b"", b"\xc1", good + b"\x00", msgpack.packb([1]), msgpack.packb({1: 2}), b"\x91" * 3000]
    rows = decoded([good, *bad], msgpack="a long, raw binary, at timestamp")
    assert rows[0] == {"a": 2**40, "raw": b"\x00\xff", "at": datetime(2026, 1, 1, tzinfo=UTC), "_corrupt": None}
    assert [row["_corrupt"] for row in rows[1:]] == bad


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("amount dubble", r"character 8 \('dubble'\): 'dubble' is no type"),
        ("a int, b", r"at the end: expected a type"),
        ("a int,, b int", r"character 7"),
        ("a int b int", r"character 7 .*expected a comma, not 'b'"),
        ("a int)", r"character 6 .*expected a comma"),
        ("a decimal(39,2)", r"character 10 .*1 to 38 digits"),
        ("a decimal(3,4)", r"character 10 .*behind the point"),
        ("a decimal(x)", r"character 11 .*expected a number"),
        ("a array<int", r"at the end: expected '>'"),
        ("a array<text>", r"character 9 .*'text' is no type"),
        ("a " + "array<" * 9 + "int" + ">" * 9, r"arrays nest at most 8 deep"),
        ("a.b int, a_b int", r"'a.b' and 'a_b' would both be column 'a_b'"),
        ("", r"exactly one of"),
        (" ", r"at the end: expected the name of a column"),
        (", ".join(f"c{i} int" for i in range(1001)), r"more than 1000 columns"),
        ("x" * 70_000, r"at most 65536"),
    ],
)
def test_a_wrong_text_names_the_place(text: str, place: str) -> None:
    with pytest.raises(StoreReadError, match=place):
        TypedPayloads(json=text)


@given(st.text(alphabet="ab.,:<>()` ;arrayintdecimal0123456789é\n", max_size=40))
def test_any_text_is_understood_or_refused_in_one_sentence(text: str) -> None:
    try:
        fields = ddl.parse(text, "json")
    except StoreReadError as error:
        assert str(error).startswith("json: ")
        return
    assert ddl.parse(ddl.text_of(fields), "json") == fields


def test_names_of_the_streams_own_columns_get_a_prefix() -> None:
    assert TypedPayloads(json="time timestamp, size int, other int").schema.names == [
        "data_time",
        "data_size",
        "other",
        "_corrupt",
    ]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"json": "a int", "msgpack": "a int"}, "exactly one"),
        ({"json": "a int", "mode": "strict"}, "'strict' is none of permissive, dropping, failing"),
        ({"model": "no.such.module:X"}, "cannot be imported"),
        ({"model": "json"}, "package.module:Class"),
        ({"model": "json:Nothing"}, "has no 'Nothing'"),
        ({"model": "json:JSONDecoder"}, "no pydantic model"),
        ({"model": 5}, "no pydantic model"),
    ],
)
def test_wrong_settings_are_one_sentence(what: dict[str, Any], said: str) -> None:
    with pytest.raises(StoreReadError, match=said):
        TypedPayloads(**what)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    name: str
    count: int = 1


class Order(BaseModel):
    id: UUID
    amount: Annotated[Decimal, ModelField(max_digits=6, decimal_places=2)]
    item: Item
    colour: Colour | None = None
    kind: Literal["new", "paid"] = "new"
    tags: list[str] = []
    prices: dict[str, float] = {}
    at: datetime
    day: date | None = ModelField(default=None, alias="d")


ORDER = {
    "id": "12345678-1234-5678-1234-567812345678",
    "amount": "12.5",
    "item": {"name": "cup"},
    "colour": "red",
    "tags": ["a"],
    "prices": {"eur": 1},
    "at": "2026-01-31T12:00:00Z",
    "d": "2026-01-31",
}
ROW = {
    "id": "12345678-1234-5678-1234-567812345678",
    "amount": Decimal("12.50"),
    "item": {"name": "cup", "count": 1},
    "colour": "red",
    "kind": "new",
    "tags": ["a"],
    "prices": [("eur", 1.0)],
    "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "day": date(2026, 1, 31),
    "_corrupt": None,
}


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_a_model_is_the_schema_and_says_what_validates(form: str) -> None:
    pack = msgpack.packb if form == "msgpack" else lambda each: json.dumps(each).encode()
    wrong = pack({**ORDER, "amount": "12345.67"})
    rows = decoded([pack(ORDER), wrong, b"{"], model=Order, form=form)
    assert rows[0] == ROW
    assert [row["_corrupt"] for row in rows[1:]] == [wrong, b"{"]


def test_a_model_that_fails_says_which_field() -> None:
    with pytest.raises(StoreReadError, match=r"sequence 1: .*item.name: Field required"):
        decoded([json.dumps({**ORDER, "item": {}}).encode()], model=Order, mode="failing")


class Tree(BaseModel):
    children: list[Tree]


class Either(BaseModel):
    value: int | str


class Untyped(BaseModel):
    value: Any


class Bare(BaseModel):
    value: list


class Empty(BaseModel):
    pass


Names = RootModel[list[str]]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Tree, "nested more than 8 deep"),
        (Either, r"Either\.value is int \| str"),
        (Untyped, r"Untyped\.value is typing\.Any"),
        (Bare, r"Bare\.value is <class 'list'>"),
        (Empty, "has 0 fields"),
        (Names, "RootModel"),
    ],
)
def test_a_model_that_fits_no_columns_names_the_field(model: type[BaseModel], said: str) -> None:
    with pytest.raises(StoreReadError, match=said):
        TypedPayloads(model=model)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module with a model, as a user has it; and one that cannot be imported."""
    (tmp_path / "shop_of_this_test.py").write_text(
        "from pydantic import BaseModel\n\nclass Order(BaseModel):\n    n: int\n"
    )
    (tmp_path / "broken_of_this_test.py").write_text("raise RuntimeError('no database')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "shop_of_this_test"
    sys.modules.pop("shop_of_this_test", None)


def test_a_model_by_name_travels_to_other_processes(shop: str) -> None:
    typed = pickle.loads(pickle.dumps(TypedPayloads(model=f"{shop}:Order")))
    batch = pa.record_batch({"data": pa.array([b'{"n": 4}'])})
    assert typed.decode(batch, typed.schema).to_pylist() == [{"n": 4, "_corrupt": None}]
    with pytest.raises(StoreReadError, match=r"RuntimeError: no database"):
        TypedPayloads(model="broken_of_this_test:Order")


documents = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(-(2**64), 2**64)
        | st.booleans()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.none(),
        "s": st.text(max_size=8) | st.integers() | st.none(),
        "o": st.fixed_dictionaries({}, optional={"f": st.floats(allow_nan=False, allow_infinity=False)}) | st.text(),
    },
)


def expected_row(document: dict[str, Any], raw: bytes) -> dict[str, Any]:
    """The rules of docs/TABLES.md, one by one."""
    n, s, o = document.get("n"), document.get("s"), document.get("o")
    fits = (
        (n is None or (type(n) is int and -INT64 <= n < INT64))
        and (s is None or isinstance(s, str))
        and (o is None or isinstance(o, dict))
    )
    if not fits:
        return {"n": None, "s": None, "o_f": None, "_corrupt": raw}
    return {"n": n, "s": s, "o_f": (o or {}).get("f"), "_corrupt": None}


@given(st.lists(documents, max_size=8), st.integers(0, 3))
def test_batches_hold_what_their_payloads_say(found: list[dict[str, Any]], start: int) -> None:
    """Also from the middle of a batch: a slice shares the buffers of the whole."""
    raws = [json.dumps(document).encode() for document in found]
    typed = TypedPayloads(json="n long, s string, o.f double")
    batch = pa.record_batch({"data": pa.array([*[b"x"] * start, *raws], pa.binary())}).slice(start)
    rows = typed.decode(batch, typed.schema).to_pylist()
    assert rows == [expected_row(document, raw) for document, raw in zip(found, raws, strict=True)]
