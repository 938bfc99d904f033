"""Defaults and refusals of stream and consumer configurations, and the index of subjects."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetbroker import limits
from jetbroker.jetstream.models import errors, subject_index
from jetbroker.jetstream.models.config import ConsumerConfig, StreamConfig
from jetbroker.jetstream.models.consumer_config import (
    check_consumer_config,
    check_consumer_update,
    check_workqueue,
    check_workqueue_policies,
    default_consumer_config,
)
from jetbroker.jetstream.models.contracts import AccountLimits, ServerLimits
from jetbroker.jetstream.models.errors import ApiError, api_error
from jetbroker.jetstream.models.metadata import shown_metadata
from jetbroker.jetstream.models.stream_config import (
    check_creation,
    check_stream_config,
    check_stream_update,
)
from jetbroker.jetstream.models.subject_index import SubjectIndex
from jetbroker.turns import at_once
from jetbroker.wire.subjects import collide, subset

SECOND = 1_000_000_000
FREE = AccountLimits()


def stream(**fields: Any) -> StreamConfig:
    return at_once(check_stream_config(StreamConfig.from_json({"name": "S", "subjects": ["s.>"]} | fields), FREE))


def refused(error: pytest.ExceptionInfo[ApiError]) -> tuple[int, str]:
    return error.value.err_code, error.value.description


STREAMS: list[tuple[dict[str, Any], int, str]] = [
    ({"name": ""}, 10052, "stream name is required and can not contain '.', '*', '>', '\\', '/'"),
    ({"name": "x" * 256}, 10052, "stream name is too long, maximum allowed is 255"),
    ({"description": "x" * 4097}, 10052, "stream description is too long, maximum allowed is 4096"),
    ({"metadata": {"a": "x" * 131_072}}, 10052, "stream metadata exceeds maximum size of 131072 bytes"),
    ({"subjects": ["a", "a"]}, 10052, 'subject "a" overlaps with "a"'),
    ({"subjects": ["a.b", "a.*"]}, 10052, 'subject "a.b" overlaps with "a.*"'),
    ({"subjects": ["a..b"]}, 10052, "invalid subject"),
    ({"subjects": [".".join(["a"] * 8193)]}, 10052, "invalid subject"),
    ({"subjects": [">"]}, 10052, "capturing all subjects requires no-ack to be true"),
    ({"subjects": ["$JS.x"]}, 10052, "subjects that overlap with jetstream api require no-ack to be true"),
    ({"subjects": ["*.x"]}, 10052, "subjects that overlap with jetstream api require no-ack to be true"),
    ({"subjects": ["$SYS.>"]}, 10052, "subjects that overlap with system api require no-ack to be true"),
    ({"max_age": -1}, 10052, "max age can not be negative"),
    ({"max_age": 1}, 10052, "max age needs to be >= 100ms"),
    ({"duplicate_window": -1}, 10052, "duplicates window can not be negative"),
    ({"duplicate_window": 1}, 10052, "duplicates window needs to be >= 100ms"),
    ({"duplicate_window": 2 * SECOND, "max_age": SECOND}, 10052, "duplicates window can not be larger then max age"),
    ({"num_replicas": -1}, 10133, "replicas count cannot be negative"),
    ({"num_replicas": 3}, 10074, "replicas > 1 not supported in non-clustered mode"),
    ({"num_replicas": 6}, 10052, "maximum replicas is 5"),
    ({"allow_rollup_hdrs": True, "deny_purge": True}, 10052, "roll-ups require the purge permission"),
    ({"placement": {"preferred": "x"}}, 10052, "preferred server not permitted in placement"),
    ({"republish": {"dest": "s.a"}}, 10052, "stream configuration for republish destination forms a cycle"),
]


@pytest.mark.parametrize(("fields", "code", "text"), STREAMS, ids=lambda value: str(value)[:50])
def test_streams_are_refused(fields: dict[str, Any], code: int, text: str) -> None:
    with pytest.raises(ApiError) as caught:
        stream(**fields)
    assert refused(caught) == (code, text)


@pytest.mark.parametrize(("field", "text"), [
    ("sealed", "stream configuration for create can not be sealed"),
    ("mirror_direct", "stream has no mirror but does have mirror direct"),
])  # fmt: skip
def test_new_streams_are_refused(field: str, text: str) -> None:
    with pytest.raises(ApiError) as caught:
        check_creation(StreamConfig.from_json({"name": "a.b", field: True}))
    assert refused(caught) == (10052, text)


def test_defaults_of_a_stream() -> None:
    config = at_once(check_stream_config(StreamConfig(name="S"), FREE))
    assert config.subjects == ["S"]
    assert (config.max_msgs, config.max_bytes, config.max_msg_size, config.num_replicas) == (-1, -1, -1, 1)
    assert config.duplicate_window == 120 * SECOND
    assert config.metadata == {"_nats.req.level": "0"}
    assert stream(max_age=SECOND).duplicate_window == SECOND


def test_the_given_configuration_is_left_alone() -> None:
    given_config = StreamConfig(name="S")
    at_once(check_stream_config(given_config, FREE))
    assert given_config == StreamConfig(name="S")


def test_server_and_account_limits_of_a_stream() -> None:
    for account, fields, code in (
        (AccountLimits(max_bytes_required=True), {}, 10113),
        (AccountLimits(storage_max_stream_bytes=100), {"max_bytes": 101}, 10122),
        (AccountLimits(memory_max_stream_bytes=100), {"max_bytes": 101, "storage": "memory"}, 10122),
        (AccountLimits(server=ServerLimits(duplicate_window=60 * SECOND)), {"duplicate_window": 61 * SECOND}, 10052),
    ):
        with pytest.raises(ApiError) as caught:
            at_once(check_stream_config(StreamConfig.from_json({"name": "S"} | fields), account))
        assert caught.value.err_code == code


def test_metadata_of_the_server_cannot_be_forged() -> None:
    config = stream(metadata={"_nats.ver": "9", "_nats.level": "9", "_nats.req.level": "9", "_nats.x": "kept"})
    assert config.metadata == {"_nats.x": "kept", "_nats.req.level": "0"}
    assert list(shown_metadata(config.metadata, "2.14.5")) == ["_nats.level", "_nats.req.level", "_nats.ver", "_nats.x"]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ({}, {"storage": "memory"}, "stream configuration update can not change storage type"),
        (
            {},
            {"retention": "workqueue"},
            "stream configuration update can not change retention policy to/from workqueue",
        ),
        ({"deny_delete": True}, {}, "stream configuration update can not cancel deny message deletes"),
        ({"deny_purge": True}, {}, "stream configuration update can not cancel deny purge"),
        ({}, {"persist_mode": "async"}, "stream configuration update can not change persist mode"),
        ({"allow_msg_ttl": True}, {}, "message TTL status can not be disabled"),
        ({}, {"retention": "interest"}, ""),
    ],
)
def test_updates_of_a_stream(old: dict[str, Any], new: dict[str, Any], text: str) -> None:
    if not text:
        check_stream_update(stream(**old), stream(**new))
        return
    with pytest.raises(ApiError) as caught:
        check_stream_update(stream(**old), stream(**new))
    assert refused(caught) == (10052, text)


def test_sealing_fixes_the_rest() -> None:
    sealed = at_once(
        check_stream_config(
            StreamConfig.from_json({"name": "S", "sealed": True, "max_age": SECOND, "allow_rollup_hdrs": True}),
            FREE,
            creating=False,
        )
    )
    check_stream_update(at_once(check_stream_config(StreamConfig(name="S"), FREE)), sealed)
    assert (sealed.max_age, sealed.discard, sealed.deny_delete, sealed.deny_purge) == (0, "new", True, True)
    assert not sealed.allow_rollup_hdrs


# --- consumers ---


def consumer(parent: StreamConfig | None = None, limits: AccountLimits = FREE, **fields: Any) -> ConsumerConfig:
    parent = parent or stream()
    config = default_consumer_config(ConsumerConfig.from_json(fields), parent, limits)
    at_once(check_consumer_config(config, parent, limits))
    if parent.retention == "workqueue":
        check_workqueue_policies(config)
    return config


CONSUMERS: list[tuple[dict[str, Any], int]] = [
    ({"durable_name": "C", "name": "D"}, 10132), ({"durable_name": "x" * 256}, 10102), ({"name": "a.b"}, 10052),
    ({"description": "x" * 4097}, 10107), ({"ack_wait": -1}, 10183), ({"backoff": [-1]}, 10184),
    ({"backoff": [1, 1], "max_deliver": 1}, 10116), ({"filter_subject": "a", "filter_subjects": ["b"]}, 10136),
    ({"filter_subjects": [""]}, 10139), ({"filter_subjects": ["a", ">"]}, 10138), ({"filter_subject": "a..b"}, 10052),
    ({"rate_limit_bps": 1}, 10086), ({"sample_freq": "x"}, 10095), ({"idle_heartbeat": SECOND}, 10088),
    ({"flow_control": True}, 10089), ({"max_expires": 1}, 10115), ({"direct": True}, 10090),
    ({"opt_start_seq": 5}, 10094), ({"deliver_policy": "by_start_time"}, 10094),
    ({"deliver_policy": "last_per_subject"}, 10094), ({"metadata": {"a": "x" * 131_072}}, 10135),
    ({"priority_groups": ["g"]}, 10196), ({"priority_policy": "overflow"}, 10159), ({"priority_timeout": 1}, 10197),
    ({"deliver_subject": "d", "max_waiting": 5}, 10080), ({"deliver_subject": "d.*"}, 10079),
    ({"deliver_subject": "d e"}, 10112), ({"deliver_subject": "s.x"}, 10081),
    ({"deliver_subject": "d", "max_ack_pending": 5}, 10082), ({"deliver_subject": "d", "idle_heartbeat": 5}, 10083),
    ({"deliver_subject": "d", "flow_control": True}, 10108), ({"ack_policy": "flow_control"}, 10218),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "code"), CONSUMERS, ids=lambda value: str(value)[:60])
def test_consumers_are_refused(fields: dict[str, Any], code: int) -> None:
    with pytest.raises(ApiError) as caught:
        consumer(**fields)
    assert caught.value.err_code == code


def test_defaults_of_a_consumer() -> None:
    pull = consumer(ack_policy="explicit")
    assert (pull.ack_wait, pull.max_deliver, pull.max_ack_pending, pull.max_waiting) == (30 * SECOND, -1, 1000, 512)
    push = consumer(deliver_subject="d")
    assert (push.ack_wait, push.max_ack_pending, push.max_waiting) == (0, 0, 0)
    assert consumer(ack_policy="explicit", backoff=[5, 6]).ack_wait == 5


def test_caps_of_the_stream() -> None:
    parent = stream(consumer_limits={"max_ack_pending": 50, "inactive_threshold": 10 * SECOND})
    config = consumer(parent, ack_policy="explicit")
    assert (config.max_ack_pending, config.inactive_threshold) == (50, 10 * SECOND)
    excess: list[tuple[dict[str, Any], int]] = [
        ({"max_ack_pending": 51}, 10121),
        ({"inactive_threshold": 11 * SECOND}, 10153),
    ]
    for fields, code in excess:
        with pytest.raises(ApiError) as caught:
            consumer(parent, ack_policy="explicit", **fields)
        assert caught.value.err_code == code


@pytest.mark.parametrize(
    ("fields", "code"),
    [({}, 10084), ({"ack_policy": "all"}, 10098), ({"ack_policy": "explicit", "deliver_policy": "new"}, 10101)],
)
def test_consumers_of_a_work_queue(fields: dict[str, Any], code: int) -> None:
    with pytest.raises(ApiError) as caught:
        consumer(stream(retention="workqueue"), **fields)
    assert caught.value.err_code == code


def test_work_queue_consumers_do_not_share() -> None:
    first = ConsumerConfig(filter_subject="w.a")
    at_once(check_workqueue(ConsumerConfig(filter_subject="w.b"), [first]))
    at_once(check_workqueue(ConsumerConfig(), []))
    for other, code in ((ConsumerConfig(), 10099), (ConsumerConfig(filter_subjects=["w.*"]), 10100)):
        with pytest.raises(ApiError) as caught:
            at_once(check_workqueue(other, [first]))
        assert caught.value.err_code == code


def test_updates_of_a_consumer() -> None:
    old = consumer(durable_name="C", ack_policy="explicit")
    for fields, text in (
        ({"deliver_policy": "new"}, "deliver policy can not be updated"),
        ({"ack_policy": "none"}, "ack policy can not be updated"),
        ({"max_waiting": 5}, "max waiting can not be updated"),
        ({"deliver_subject": "d"}, "can not update pull consumer to push based"),
    ):
        with pytest.raises(ApiError) as caught:
            check_consumer_update(
                old, consumer(**{"durable_name": "C", "ack_policy": "explicit"} | fields), has_interest=False
            )
        assert refused(caught) == (10012, text)
    push, moved = consumer(deliver_subject="d"), consumer(deliver_subject="e")
    check_consumer_update(push, moved, has_interest=False)
    with pytest.raises(ApiError) as caught:
        check_consumer_update(push, moved, has_interest=True)
    assert caught.value.err_code == 10013


# --- errors ---


def test_error_numbers_are_unique() -> None:
    numbers = [number for _, number, _ in errors.ERRORS.values()]
    assert len(set(numbers)) == len(numbers)


def test_errors_are_filled_and_ordered() -> None:
    error = api_error("stream_wrong_last_sequence", seq=7)
    assert list(error.to_json().items()) == [
        ("code", 400),
        ("err_code", 10071),
        ("description", "wrong last sequence: 7"),
    ]
    assert str(error) == "wrong last sequence: 7 (10071)"
    assert api_error("stream_invalid_config", err="{seq}").description == "{seq}"
    assert errors.wrap_error("stream_create", error) is error
    assert errors.wrap_error("stream_create", OSError("disk")).err_code == 10049


# --- overlaps ---

SUBJECTS = st.lists(st.sampled_from(["a", "b", "c", "*"]), min_size=1, max_size=3).flatmap(
    lambda tokens: st.sampled_from([".".join(tokens), ".".join([*tokens, ">"])])
)


@given(st.lists(SUBJECTS, min_size=1, max_size=8), SUBJECTS, st.integers(0, 7), st.integers(1, 4))
def test_overlaps_are_those_of_a_pairwise_look(known: list[str], asked: str, removed: int, depth: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subject_index, "DEPTH", depth)
        check_overlaps(known, asked, removed)


def check_overlaps(known: list[str], asked: str, removed: int) -> None:
    index = SubjectIndex()
    configs = [StreamConfig(name=str(number), subjects=[text]) for number, text in enumerate(known)]
    for config in configs:
        at_once(index.add(config.name, config.subjects))
    if removed < len(configs):
        gone = configs.pop(removed)
        at_once(index.remove(gone.name, gone.subjects))
    expected = {config.name for config in configs if collide(config.subjects[0].encode(), asked.encode())}
    assert at_once(index.overlapping(asked.encode())) == expected


def tokens_collide(left: list[str], right: list[str]) -> bool:
    if not left or not right:
        return not left and not right
    if ">" in (left[0], right[0]):
        return True
    return (left[0] == right[0] or "*" in (left[0], right[0])) and tokens_collide(left[1:], right[1:])


def tokens_contained(left: list[str], right: list[str]) -> bool:
    if not left or not right:
        return not left and not right
    if right[0] == ">":
        return True
    return left[0] != ">" and right[0] in ("*", left[0]) and tokens_contained(left[1:], right[1:])


@given(SUBJECTS, SUBJECTS)
def test_patterns_are_compared_token_by_token(left: str, right: str) -> None:
    tokens = left.split("."), right.split(".")
    assert collide(left.encode(), right.encode()) == tokens_collide(*tokens)
    assert subset(left.encode(), right.encode()) == tokens_contained(*tokens)


def test_an_index_is_cleared_in_steps() -> None:
    index = SubjectIndex()
    at_once(index.add("S", [f"s.{number}.x" for number in range(10_000)]))
    assert sum(1 for _ in index.clear()) >= 20_000 // 64
    assert not at_once(index.overlapping(b">"))


def test_a_subject_costs_no_more_nodes_than_its_first_tokens() -> None:
    index = SubjectIndex(step_limit=200)
    long = ".".join(["x"] * 100_000)
    assert sum(1 for _ in index.add("long", [long])) == 0
    for asked in (long, long + ".>", long[:-1] + "*", "*" + long[1:]):
        expected = collide(asked.encode(), long.encode())
        assert at_once(index.overlapping(asked.encode())) == ({"long"} if expected else set())


def test_overlaps_stay_fast_with_many_streams_and_long_subjects() -> None:
    index = SubjectIndex()
    for number in range(20_000):
        at_once(index.add(str(number), [f"orders.{number}.>", f"events.{number}"]))
    long = ".".join(["x"] * 2_000)
    at_once(index.add("long", [long]))
    begin = time.thread_time()
    for number in range(1_000):
        assert at_once(index.overlapping(f"orders.{number}.new".encode())) == {str(number)}
        assert not at_once(index.overlapping(f"other.{number}".encode()))
    assert at_once(index.overlapping(long.encode())) == {"long"}
    assert time.thread_time() - begin < 20
    at_once(index.remove("long", [long]))
    assert not at_once(index.overlapping(long.encode()))


def test_comparing_subjects_takes_bounded_time() -> None:
    begin = time.thread_time()
    at_once(check_stream_config(StreamConfig(name="S", subjects=[f"a.{number}.b" for number in range(10_000)]), FREE))
    entangled = [f"x.a{number}.b.c" for number in range(5_000)] + [f"x.*.b.d{number}" for number in range(5_000)]
    with pytest.raises(ApiError, match="too many subjects to compare"):
        at_once(check_stream_config(StreamConfig(name="S", subjects=entangled), FREE))
    queries = [f"x.*.b.d{number}" for number in range(10_000)]
    with pytest.raises(ApiError, match="too many filter subjects to compare"):
        at_once(
            check_workqueue(
                ConsumerConfig(filter_subjects=queries), [ConsumerConfig(filter_subjects=entangled[:5_000])]
            )
        )
    consumer(filter_subjects=[f"s.{number}" for number in range(10_000)])
    assert time.thread_time() - begin < 30


def test_subjects_and_filters_beyond_a_number_are_refused() -> None:
    subjects = [f"s.{number}" for number in range(limits.JS_SUBJECTS + 1)]
    assert at_once(check_stream_config(StreamConfig(name="S", subjects=subjects[1:]), FREE)).subjects == subjects[1:]
    with pytest.raises(ApiError, match=r"too many subjects \(10052\)"):
        at_once(check_stream_config(StreamConfig(name="S", subjects=subjects), FREE))
    consumer(filter_subjects=subjects[1:])
    with pytest.raises(ApiError, match=r"too many filter subjects \(10052\)"):
        consumer(filter_subjects=subjects)


@given(st.lists(SUBJECTS, min_size=2, max_size=6, unique=True))
def test_filters_that_contain_each_other_are_refused(filters: list[str]) -> None:
    pairs = itertools.permutations([text.encode() for text in filters], 2)
    contained = any(subset(one, other) for one, other in pairs)
    try:
        consumer(filter_subjects=filters)
    except ApiError as error:
        assert (error.err_code, contained) == (10138, True)
    else:
        assert not contained


def test_a_stored_configuration_may_be_longer_than_a_request() -> None:
    metadata = {"a": ":" * 60_000}
    assert StreamConfig.from_json({"name": "S", "metadata": metadata}).metadata == metadata
    assert ConsumerConfig.from_json({"name": "c", "metadata": metadata}).metadata == metadata
