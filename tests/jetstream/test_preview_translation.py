"""Requests of the technical preview in today's terms, whatever they say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetbroker.jetstream.api.preview import BadRequest, translated

WORDS = "STREAM CREATE INFO CONSUMER CONSUMERS EPHEMERAL MSG BYSEQ DELETE PURGE LIST ENABLED X".split()
VALUES = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers(), max_size=2)
KEYS = st.sampled_from("deliver_all deliver_last deliver_new stream_seq start_time delivery_subject ack_policy".split())
REQUESTS = st.dictionaries(st.sampled_from(["config", "stream_name"]), st.dictionaries(KEYS, VALUES) | VALUES)
BODIES = st.binary() | REQUESTS.map(lambda value: json.dumps(value).encode()) | st.integers().map(b"%d".__mod__)
REFUSED = {"error": {"description": "x"}}


@given(st.lists(st.sampled_from(WORDS), max_size=5), BODIES)
def test_any_request_is_translated_or_refused(tokens: list[str], body: bytes) -> None:
    try:
        found = translated(["STREAM", "S", *tokens], body)
    except BadRequest:
        return
    assert found is None or found.render(REFUSED) in (b"-ERR 'x'", json.dumps(REFUSED, separators=(",", ":")).encode())


@pytest.mark.parametrize(("old", "new"), [
    ({"deliver_all": True}, {"deliver_policy": "all"}),
    ({"deliver_last": True, "deliver_all": False}, {"deliver_policy": "last"}),
    ({"deliver_new": True}, {"deliver_policy": "new"}),
    ({"stream_seq": 7}, {"deliver_policy": "by_start_sequence", "opt_start_seq": 7}),
    ({"stream_seq": 0, "deliver_all": True}, {"deliver_policy": "all"}),
    ({"start_time": "2020-01-01T00:00:00Z"},
     {"deliver_policy": "by_start_time", "opt_start_time": "2020-01-01T00:00:00Z"}),
    ({"start_time": "0001-01-01T00:00:00Z"}, {}),
    ({"delivery_subject": "d", "ack_policy": "none"}, {"deliver_subject": "d", "ack_policy": "none"}),
    ({"deliver_policy": "new", "filter_subject": "x"}, {"deliver_policy": "new", "filter_subject": "x"}),
])  # fmt: skip
def test_where_a_consumer_begins(old: dict[str, Any], new: dict[str, Any]) -> None:
    body = json.dumps({"stream_name": "S", "config": old}).encode()
    found = translated(["STREAM", "S", "CONSUMER", "C", "CREATE"], body)
    assert found is not None
    assert found.subject == "CONSUMER.DURABLE.CREATE.S.C"
    assert json.loads(found.body) == {"stream_name": "S", "config": new}
