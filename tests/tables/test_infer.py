"""Typed columns by a sample of payloads: what is inferred takes what it was inferred from."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from jetbroker.tables.infer import model_of, sample, text_of
from jetbroker.tables.typed import TypedPayloads

pa = pytest.importorskip("pyarrow")


def inferred(documents: list[Any]) -> tuple[type[BaseModel] | None, str, list[bytes]]:
    payloads = [json.dumps(document).encode() for document in documents]
    shape = sample(payloads, orjson.loads).shape
    namespace: dict[str, Any] = {}
    exec(compile(model_of(shape, "ORDERS"), "pasted", "exec", dont_inherit=True), namespace)
    made = [each for each in namespace.values() if isinstance(each, type) and issubclass(each, BaseModel)]
    return (made[-1] if made[-1].model_fields else None), text_of(shape), payloads


def corrupt(payloads: list[bytes], **what: Any) -> list[bytes]:
    typed = TypedPayloads(**what)
    batch = pa.record_batch({"data": pa.array(payloads, pa.binary())})
    column = typed.decode(batch, typed.schema).column("_corrupt")
    return [payload for payload in column.to_pylist() if payload is not None]


def test_a_model_and_a_text_name_what_was_seen() -> None:
    documents = [
        {
            "id": 1,
            "amount": 2,
            "item": {"name": "cup", "since": "2026-01-31"},
            "tags": ["a"],
            "at": "2026-01-31T12:00:00Z",
        },
        {
            "id": 2,
            "amount": 2.5,
            "item": {"name": "jug", "since": "2026-02-01"},
            "tags": [],
            "class": None,
            "odd key": True,
        },
        {"id": "three", "amount": None, "item": {"name": "cup", "since": "2026-02-01"}, "tags": []},
    ]
    payloads = [json.dumps(document).encode() for document in [*documents[:2], [1], documents[2]]]
    found = sample(payloads, orjson.loads)
    assert found.others == 1
    assert model_of(found.shape, "shop-orders") == SOURCE
    assert text_of(found.shape) == (
        "amount double, item.name string, item.since date, tags array<string>, at timestamp, class string, "
        "`odd key` boolean"
    )


SOURCE = """\
from datetime import date, datetime

from pydantic import BaseModel, Field


class Item(BaseModel):
    name: str
    since: date


class ShopOrders(BaseModel):
    # 'id': values of several types, which no column can hold
    amount: float | None = None
    item: Item
    tags: list[str]
    at: datetime | None = None
    field_class: str | None = Field(default=None, alias='class')
    field_odd_key: bool | None = Field(default=None, alias='odd key')"""

names = st.sampled_from(
    ["a", "a_b", "b", "item", "Item", "list", "date", "class", "_x", "copy", "model_x", "é", "x`y", "x'\n", ""]
)
values: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4) | st.sampled_from(["2026-01-31", "2026-01-31T12:00:00Z", "2026-02-30"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.dictionaries(names, values, max_size=4), min_size=1, max_size=4))
def test_what_is_inferred_takes_what_it_was_inferred_from(documents: list[dict[str, Any]]) -> None:
    model, text, payloads = inferred(documents)
    if model is not None:
        assert corrupt(payloads, model=model) == []
    if text:
        assert corrupt(payloads, json=text) == []


def test_deep_and_wide_objects_are_left_out() -> None:
    deep: Any = 1
    for _ in range(50):
        deep = {"x": deep}
    wide = {f"k{number}": 1 for number in range(1001)}
    model, text, payloads = inferred([{"deep": deep, "wide": wide, "n": 1}])
    assert text == "n long" and corrupt(payloads, json=text) == []
    assert model is not None and list(model.model_fields) == ["n"]
