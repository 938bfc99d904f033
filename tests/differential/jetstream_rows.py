"""Conversations of the JetStream API: requests in order, from an empty account to an empty account."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

Config = dict[str, Any]
Body = bytes | str | Config | list[Any]
# The tables are laid out by hand.
# ruff: noqa: E501
S: dict[str, Any] = {"name": "S", "subjects": ["s.>"]}
SECOND = 1_000_000_000
DURABLE: dict[str, Any] = {"durable_name": "C"}
PUSH: dict[str, Any] = {"deliver_subject": "d"}
EXPLICIT: dict[str, Any] = {"ack_policy": "explicit"}
TIME = "2020-01-01T00:00:00Z"


@dataclass(frozen=True)
class Call:
    """One request; `subject` is below `$JS.API.` unless it starts with a dollar sign."""

    subject: str
    body: Body = b""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def payload(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()

    @property
    def full_subject(self) -> str:
        return self.subject if self.subject.startswith("$") else f"$JS.API.{self.subject}"


@dataclass(frozen=True)
class Publish:
    """A publish that waits for its ack."""

    subject: str
    payload: bytes = b"x"
    headers: dict[str, str] = field(default_factory=dict)


Step = Call | Publish


@dataclass(frozen=True)
class Conversation:
    """Steps that build on each other. `name` is shown when the servers differ."""

    name: str
    steps: tuple[Step, ...]


def create(config: dict[str, Any], **more: Any) -> Call:
    """STREAM.CREATE of a configuration whose name is in the subject."""
    return Call(f"STREAM.CREATE.{config.get('name', 'S')}", config | more)


def update(config: dict[str, Any], **more: Any) -> Call:
    """STREAM.UPDATE."""
    return Call(f"STREAM.UPDATE.{config.get('name', 'S')}", config | more)


def consumer(config: dict[str, Any], stream: str = "S", **more: Any) -> Call:
    """CONSUMER.CREATE in the form that fits the configuration."""
    name = config.get("durable_name") or config.get("name")
    tail = f".{name}" if name else ""
    return Call(f"CONSUMER.CREATE.{stream}{tail}", {"stream_name": stream, "config": config} | more)


# fmt: off
def _short(value: object) -> str:
    text = json.dumps(value) if not isinstance(value, bytes) else repr(value)
    return text if len(text) <= 90 else f"{text[:80]}...{len(text)}"


def _stream_configs() -> list[dict[str, Any]]:
    wildcards = ["*", "*.*", "*.x", "*.>", "a>", "a*", "a.>.b", "a..b", "", "a b", "a\tb", ".a", "a.", "é", "a\u0000b"]
    reserved = ["$JS", "$JS.x", "$JS.EVENT", "$JS.EVENT.>", "$JS.EVENT.ADVISORY.x", "$JS.API.>", "$JS.*.x", "$JSC",
                "$JSC.a", "$NRG.a", "$SYS", "$SYS.a", "$SYS.>", "$SYS.ACCOUNT.x", "$SYS.ACCOUNT.>", "$KV.x.>", ">"]
    lists = [[], ["a", "a"], ["a.*", "a.b"], ["a.b", "a.*"], ["a.>", "a.b"], ["x", "a.b", "a.>"], ["a", "b", "b"]]
    numbers = ("max_consumers", "max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size")
    async_mode = {"persist_mode": "async"}
    per_subject = {"discard_new_per_subject": True}
    return [
        {},
        *({"subjects": [text]} for text in wildcards + reserved),
        *({"subjects": [text], "no_ack": True} for text in (">", "*.>", "$JS.>", "$SYS.>", "$JS.API.>", "a..b")),
        *({"subjects": names} for names in lists),
        {"subjects": [">", "a"], "no_ack": True},
        *({"subjects": names} for names in (
            ["a.>", "a.b", "$JS.x"], ["a", "b", "b", "a"], ["a.b", "c.*", "c.d", "a.*"], ["a", "$JS.x", "b", "b"],
            ["$JS.x", "a", "a"], ["a", "b", "a..c", "b"], ["a.*", "a..c", "a.b", "a.c"])),
        *({name: value} | extra for name in numbers for value in (0, -5, 7) for extra in ({}, {"pedantic": True})),
        *({"max_age": age} for age in (-1, 1, 99_999_999, 100_000_000, SECOND, 200 * SECOND)),
        *({"duplicate_window": window} for window in (-1, 1, 100_000_000, 1000 * SECOND)),
        {"duplicate_window": 1000 * SECOND, "max_age": 10 * SECOND},
        {"duplicate_window": SECOND, "max_age": 100_000_000, "pedantic": True},
        *({"num_replicas": count} for count in (-1, 0, 1, 2, 3, 5, 6)),
        per_subject,
        per_subject | {"discard": "new"},
        per_subject | {"max_msgs_per_subject": 1},
        per_subject | {"discard": "new", "max_msgs_per_subject": 5, "max_msgs": 5},
        {"allow_rollup_hdrs": True},
        {"allow_rollup_hdrs": True, "deny_purge": True},
        {"sealed": True},
        {"mirror_direct": True},
        async_mode,
        async_mode | {"storage": "memory"},
        async_mode | {"allow_atomic": True},
        async_mode | {"num_replicas": 3},
    ]


def _stream_features() -> list[dict[str, Any]]:
    numbers = ("max_consumers", "max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size")
    marker = {"subject_delete_marker_ttl": SECOND}
    return [
        *({"subject_delete_marker_ttl": ttl} for ttl in (-1, 1, SECOND, 1_500_000_000)),
        marker | {"deny_purge": True},
        marker | {"deny_purge": True, "allow_rollup_hdrs": True},
        marker | {"allow_msg_counter": True},
        *(marker | {"pedantic": True} | more for more in (
            {}, {"allow_msg_ttl": True}, {"allow_msg_ttl": True, "allow_rollup_hdrs": True},
            {"allow_msg_ttl": True, "allow_rollup_hdrs": True, "deny_purge": True})),
        *({"allow_msg_counter": True} | more for more in (
            {}, {"discard": "new"}, {"allow_msg_ttl": True}, {"allow_msg_schedules": True},
            {"retention": "interest"})),
        *({"allow_msg_schedules": True} | more for more in (
            {}, {"discard": "new"}, {"pedantic": True}, {"deny_purge": True}, {"sources": [{"name": "A"}]},
            {"deny_purge": True, "allow_rollup_hdrs": True})),
        *({"mirror": {"name": name}} for name in ("A", "", "a.b", "S")),
        *({"mirror": {"name": "A"}} | more for more in (
            {"subjects": ["x"]}, {"sources": [{"name": "B"}]}, {"first_seq": 5}, {"allow_atomic": True},
            {"allow_batched": True}, {"allow_msg_counter": True}, {"allow_msg_schedules": True}, marker)),
        # two faults: the first that is looked for is told
        *({"mirror": {"name": "A"}, "allow_msg_schedules": True} | more for more in (
            {"subjects": ["x"]}, {"sources": [{"name": "B"}]}, {"discard": "new"}, {"pedantic": True})),
        {"sources": [{"name": "A"}], "allow_msg_schedules": True, "discard": "new"},
        *({"mirror": {"name": "A"}, "subjects": ["x"]} | more for more in (
            marker, marker | {"pedantic": True}, {"placement": {"preferred": "x"}})),
        {"subjects": ["a..b"], "placement": {"preferred": "x"}},
        {"republish": {"src": "a", "dest": "a..b"}, "placement": {"preferred": "x"}},
        {"placement": {"preferred": "x"}, "num_replicas": 3},
        *({"pedantic": True, name: -5, "num_replicas": 6} for name in numbers),
        *({"sources": sources} for sources in (
            [{"name": "A"}], [{"name": "S"}], [{"name": ""}], [{"name": "a.b"}], [{"name": "A"}, {"name": "A"}],
            [{"name": "A", "external": {"api": "a.*"}}],
            [{"name": "A", "filter_subject": "x", "subject_transforms": [{"src": "a", "dest": "b"}]}])),
        *({"subject_transform": {"src": src, "dest": dest}} for src, dest in (
            ("", ""), ("a..", "b"), ("a.*", "b.{{wildcard(1)}}"), ("a.*", "b.{{wildcard(2)}}"),
            ("a.*", "b.{{nope(1)}}"))),
        *({"republish": how} for how in (
            {}, {"dest": "S"}, {"src": "S", "dest": "R"}, {"src": ">", "dest": ">"}, {"dest": "r.>"},
            {"src": "a..b", "dest": "r.>"}, {"src": "a.*", "dest": "b.{{wildcard(3)}}"},
            {"src": "y", "dest": "rr.>"}, {"src": "S", "dest": "a\r\nPUB b 0\r\n\r\n"}, {"src": "a b", "dest": "r s"},
            {"src": "a..b", "dest": ""}, {"src": "a.*", "dest": "{{left(1,3)}}"},
            {"src": "a.*", "dest": "b.{{right(1,3)}}"}, {"src": "a.*", "dest": "b.{{left(2,3)}}"})),
        *({"placement": where} for where in ({}, {"preferred": "x"}, {"cluster": "x"}, {"tags": ["a"]})),
        {"description": "x" * 4096},
        {"description": "x" * 4097},
        {"description": "é" * 2049},
        {"metadata": {"a": "x" * 131_000}},
        {"metadata": {"a": "x" * 131_071}},
        {"metadata": {"_nats.ver": "5", "_nats.foo": "b", "_nats.req.level": "9", "z": "<&>", "a": "é"}},
        {"consumer_limits": {"max_ack_pending": -5, "inactive_threshold": -5}},
        {"max_bytes": 2**63 - 1},
        {"max_bytes": 2**63 - 1, "storage": "memory"},
        {"first_seq": 5},
        {"storage": "memory", "first_seq": 9},
        *({name: True} for name in (
            "allow_direct", "allow_msg_ttl", "allow_atomic", "allow_batched", "deny_delete", "deny_purge", "no_ack")),
        *({"compression": text} for text in ("s2", "none", "", "x")),
        *({"retention": text} for text in ("limits", "interest", "workqueue", "", "x", None, 5)),
        *({"storage": text} for text in ("file", "memory", "", "x")),
        *({"discard": text} for text in ("old", "new", "", "x")),
        {"max_msg_size": 2**31 - 1},
        {"max_msg_size": 2**31},
        {"max_msgs": 2**63},
        {"color": 1},
        {"name": "T"},
        {"name": ""},
        {"Max_Msgs": 5, "SUBJECTS": ["q"]},
    ]


def _stream_updates() -> list[tuple[dict[str, Any], Body]]:
    sealed = {"sealed": True, "deny_delete": True, "deny_purge": True}
    changes: list[Config] = [
        {"storage": "memory"},
        {"retention": "interest"},
        {"retention": "workqueue"},
        {"num_replicas": 3},
        {"num_replicas": 6},
        {"num_replicas": -1},
        {"sealed": True},
        sealed,
        {"deny_purge": True},
        {"allow_msg_ttl": True},
        {"allow_msg_counter": True},
        {"persist_mode": "async"},
        {"mirror_direct": True},
        {"max_consumers": 5},
        {"first_seq": 9},
        {"duplicate_window": 0},
        {"duplicate_window": 1000 * SECOND},
        {"max_age": SECOND},
        {"discard": "new"},
        {"metadata": {"a": "b"}},
        {"allow_direct": True},
        {"subjects": ["$JS.x"]},
        {"subjects": ["x", "x"]},
        {"subjects": []},
        {"subjects": ["t.>", "s.a"]},
        {"max_msgs": -5, "pedantic": True},
        {"placement": {"cluster": "x"}},
        {"max_bytes": 2**63 - 1},
        {"color": 1},
        {"no_ack": True},
        {"subjects": [">"], "no_ack": True},
        {"description": "new"},
        {"max_msgs": 5, "max_bytes": 5000, "max_msgs_per_subject": 2, "max_msg_size": 100},
        {"compression": "s2"},
        {"sources": [{"name": "A"}]},
        {"allow_atomic": True},
        {"mirror": {"name": "A"}},
        {"storage": "memory", "retention": "workqueue"},
        *({"mirror": {"name": "A"}, "subjects": []} | more for more in (
            {"allow_msg_counter": True}, {"persist_mode": "async"}, {"deny_delete": True})),
    ]
    all_allowed = {"allow_msg_ttl": True, "allow_msg_schedules": True, "deny_delete": True}
    return [
        *((S | all_allowed, S | change) for change in (
            {}, {"deny_delete": True}, {"deny_delete": True, "mirror": {"name": "A"}, "subjects": []},
            {"deny_delete": True, "allow_msg_ttl": True, "persist_mode": "async"},
            {"deny_delete": True, "persist_mode": "async"})),
        (S, {"name": "S"}),
        (S, {"name": "T"}),
        (S, ""),
        (S, "{}"),
        (S, {"name": ""}),
        *((S, S | change) for change in changes),
        (S | {"retention": "interest"}, S | {"retention": "workqueue"}),
        (S | {"retention": "interest"}, S),
        (S | {"retention": "workqueue"}, S),
        (S | {"deny_delete": True}, S),
        (S | {"deny_purge": True}, S),
        (S | {"max_age": SECOND}, S),
        (S | {"duplicate_window": SECOND}, S),
        (S | {"metadata": {"a": "b"}}, S),
    ]


def _bodies() -> list[bytes]:
    """For STREAM.CREATE.S: what is no JSON, not the right JSON, or odd."""
    texts = [
        "", " ", "{", "[", "]", "x", "5", '"x"', "null", "true", "[]", "[{}]", "nul", "{1:2}", "[1,2", "[1 2]", '{"name":}',
        '{"name" "S"}', '{"a":1,}', '{"name":"S"', '{"name":"S"}x', '{"name":"S"} {"x":1}', '{"name":"S"}}', "{'a':1}",
        '{"name":nulx}', '{"name":"S\n"}', '{"name":"\\x"}', '{"name":"\\u12"}', '{"name":-}', '{"name":01}',
        '{"name":1.}', '{"name":1e}', '{"name":NaN}', '{"name":5}', '{"name":"S","max_msgs":"x"}',
        '{"name":"S","max_msgs":1.5}', '{"name":"S","max_msgs":1e3}', '{"name":"S","max_msgs":9223372036854775808}',
        '{"name":"S","max_msgs":99999999999999999999999999}', '{"name":"S","max_msg_size":2147483648}',
        '{"name":"S","max_msgs":true}', '{"name":"S","max_msgs":[]}', '{"name":"S","max_msgs":{}}',
        '{"name":"S","max_msgs":-0}', '{"name":"S","max_msgs":null}', '{"name":"S","subjects":"x"}',
        '{"name":"S","subjects":[1]}', '{"name":"S","subjects":{}}', '{"name":"S","subjects":["a",null]}',
        '{"name":"S","max_age":"1s"}', '{"name":"S","sealed":1}', '{"name":"S","mirror":5}',
        '{"name":"S","mirror":{"name":5}}', '{"name":"S","mirror":{"foo":1}}',
        '{"name":"S","mirror":{"opt_start_time":"x"}}', '{"name":"S","mirror":{"opt_start_time":5}}',
        '{"name":"S","mirror":{"opt_start_seq":-1}}', '{"name":"S","sources":[{"name":5}]}',
        '{"name":"S","sources":[5]}', '{"name":"S","sources":{}}', '{"name":"S","sources":[{"external":{"api":5}}]}',
        '{"name":"S","metadata":{"a":5}}', '{"name":"S","metadata":[]}', '{"name":"S","consumer_limits":[]}',
        '{"name":"S","consumer_limits":{"max_ack_pending":"x"}}', '{"name":"S","placement":{"tags":"x"}}',
        '{"name":"S","first_seq":-1}', '{"name":"S","foo":1}', '{"name":"S","foo":1,"max_msgs":"x"}',
        '{"name":"S","max_msgs":"x","foo":1}', '{"name":"S","pedantic":5}', '{"name":"S","description":"\\ud800x"}',
        '{"name":"S","na\\u006de":5}', '{"name":"S","created":"2020-01-01T00:00:00Z"}', '{"":1}',
        '{"name":"S","persist_mode":""}', '{"name":"S","subjects":["a"],"subjects":["b"]}', "\ufeff{}", "é",
        '{"name":"S","republish":[]}', '{"name":"S","subject_transform":5}', '{"name":"a\tb"}',
        '{"name":"S","discard":"x"}', '{"name":"S","persist_mode":"x"}', '{"name":"S","compression":5}',
    ]
    return [text.encode() for text in texts] + [b'{"name":"S","description":"\xff"}', b'{"\xff":1}', b"[" * 10_001]


def _consumer_configs() -> list[dict[str, Any]]:
    backoff = DURABLE | EXPLICIT
    return [
        {},
        DURABLE,
        DURABLE | EXPLICIT,
        DURABLE | PUSH,
        DURABLE | PUSH | EXPLICIT,
        {"name": "N"},
        *(DURABLE | {"ack_policy": text} for text in ("all", "x", "", None, 5)),
        *(DURABLE | {"deliver_policy": text} for text in ("undefined", "last", "new", "x", "last_per_subject")),
        *(DURABLE | {"replay_policy": text} for text in ("original", "x")),
        *(DURABLE | EXPLICIT | {"max_deliver": count} for count in (0, -5, 5)),
        *(DURABLE | EXPLICIT | {"ack_wait": wait} for wait in (-1, 1, 5)),
        *(backoff | {"backoff": waits} for waits in ([SECOND, 2 * SECOND], [-1], [SECOND, -1], [])),
        backoff | {"backoff": [SECOND], "ack_wait": 5 * SECOND},
        backoff | {"backoff": [SECOND] * 3, "max_deliver": 2},
        backoff | {"backoff": [SECOND] * 3, "max_deliver": 3},
        DURABLE | {"backoff": [SECOND]},
        DURABLE | {"filter_subject": "s.a", "filter_subjects": ["s.b"]},
        *(
            DURABLE | {"filter_subjects": texts}
            for texts in (
                [""],
                ["s.a"],
                ["s.a", "s.a"],
                ["s.>", "s.a"],
                ["s.a", "s.>"],
                ["s.*.a", "s.a.*"],
                [],
                ["s..1"],
                ["s.a", "s.a", "s..b"],
                ["s..b", "s.a", "s.a"],
            )
        ),
        *(DURABLE | {"filter_subject": text} for text in ("s..1", "x", "s 1", ">", "s.*")),
        DURABLE | {"rate_limit_bps": 5},
        DURABLE | PUSH | {"rate_limit_bps": 5},
        *(
            DURABLE | {"sample_freq": text}
            for text in ("x", "-1", "50", "50%", "500%", "%", "5 %", " 5", "5.5", "9" * 20, "5%%", "+5")
        ),
        *(DURABLE | how | {"max_waiting": count} for how in ({}, PUSH) for count in (-5, 5)),
        *(DURABLE | how | {"max_ack_pending": count} for how in ({}, PUSH, EXPLICIT) for count in (-5, -1, 5)),
        *(DURABLE | how | {"flow_control": True} for how in ({}, PUSH, PUSH | {"idle_heartbeat": SECOND})),
        *(DURABLE | how | {"idle_heartbeat": wait} for how in ({}, PUSH) for wait in (-5, 5, 100_000_000)),
        *(DURABLE | how | {"max_batch": count} for how in ({}, PUSH) for count in (-1, 5)),
        *(DURABLE | how | {"max_expires": wait} for how in ({}, PUSH) for wait in (-1, 1, 1_000_000)),
        *(DURABLE | how | {"max_bytes": size} for how in ({}, PUSH) for size in (-1, 9)),
    ]


def _consumer_features() -> list[dict[str, Any]]:
    overflow = DURABLE | {"priority_policy": "overflow"}
    return [
        *(DURABLE | {"deliver_subject": text} for text in ("d e", "d.*", "d..e", "s.x", "w.x", "$JS.API.X", "d..*", "d.>.e")),
        *(DURABLE | how | {"deliver_group": text} for how in ({}, PUSH) for text in ("g", "g h")),
        *(DURABLE | {"inactive_threshold": wait} for wait in (-1, SECOND)),
        {"inactive_threshold": 60 * SECOND},
        *(DURABLE | {"num_replicas": count} for count in (-1, 1, 3, 6)),
        DURABLE | {"mem_storage": True},
        DURABLE | {"headers_only": True},
        *(how | {"direct": True} for how in (DURABLE, DURABLE | PUSH, PUSH, PUSH | EXPLICIT, PUSH | {"name": "N"})),
        DURABLE | {"sourcing": True},
        *(
            DURABLE | {"metadata": pairs}
            for pairs in ({"a": "b"}, {"a": "x" * 131_072}, {"_nats.ver": "1", "_nats.zz": "b", "_nats.req.level": "7"})
        ),
        DURABLE | {"pause_until": "2050-01-01T00:00:00Z"},
        DURABLE | {"description": "x" * 4097},
        DURABLE | {"priority_groups": ["g"]},
        overflow,
        *(overflow | {"priority_groups": groups} for groups in (["g"], [""], ["a b"], ["x" * 17], ["g", "h"])),
        *(overflow | {"priority_groups": groups} for groups in (["g", "g"], ["g", ""], ["a/b=c_d-E"], ["a+b"], ["g)"])),
        *(
            DURABLE | {"priority_policy": policy, "priority_groups": ["g"]} | more
            for policy in ("overflow", "pinned_client", "prioritized")
            for more in ({}, {"priority_timeout": SECOND}, {"priority_timeout": -1})
        ),
        *(DURABLE | {"priority_policy": policy} for policy in ("pinned_client", "prioritized", "Overflow", "", 1, None)),
        DURABLE | {"priority_timeout": -1},
        overflow | {"priority_groups": "g"},
        overflow | {"priority_groups": [1]},
        overflow | {"priority_groups": None},
        overflow | PUSH | {"priority_groups": ["g"]},
        DURABLE | PUSH | {"priority_groups": ["g"]},
        DURABLE | {"priority_timeout": SECOND},
        DURABLE | {"priority_policy": "none", "priority_groups": ["g"]},
        DURABLE | {"priority_policy": "none"},
        DURABLE | {"priority_policy": "x"},
    ]


def _consumer_starts() -> list[dict[str, Any]]:
    fc = DURABLE | PUSH | {"ack_policy": "flow_control"}
    start = {"opt_start_seq": 5}
    at = {"opt_start_time": TIME}
    return [
        DURABLE | {"ack_policy": "flow_control"},
        *(
            fc | more
            for more in ({}, {"max_ack_pending": -1}, {"ack_wait": SECOND}, {"max_deliver": 5}, {"backoff": [SECOND]})
        ),
        *(
            DURABLE | how
            for how in (
                start,
                at,
                start | {"deliver_policy": "by_start_sequence"},
                {"deliver_policy": "by_start_sequence"},
                start | at | {"deliver_policy": "by_start_sequence"},
                {"deliver_policy": "by_start_time"},
                start | {"deliver_policy": "by_start_time"},
                at | {"deliver_policy": "by_start_sequence"},
                start | {"deliver_policy": "last_per_subject"},
                at | {"deliver_policy": "by_start_time"},
                start | at | {"deliver_policy": "by_start_time"},
                start | {"deliver_policy": "last"},
                at | {"deliver_policy": "last"},
                start | {"deliver_policy": "new"},
                at | {"deliver_policy": "new"},
                {"deliver_policy": "last_per_subject", "filter_subject": "s.a"},
                {"deliver_policy": "last_per_subject", "filter_subjects": ["s.a", "s.b"]},
                start | {"deliver_policy": "last_per_subject", "filter_subject": "s.a"},
                {"opt_start_time": "2020-01-01T00:00:00.5+01:30", "deliver_policy": "by_start_time"},
                {"opt_start_time": "2020-13-01T00:00:00Z"},
                {"opt_start_time": "x"},
            )
        ),
        DURABLE | {"color": 1},
    ]


def _pedantic_consumers() -> list[dict[str, Any]]:
    negative = ("max_deliver", "max_ack_pending", "max_waiting", "max_batch", "max_expires", "max_bytes",
                "idle_heartbeat", "inactive_threshold", "priority_timeout")
    waits = DURABLE | EXPLICIT | {"backoff": [SECOND]}
    fc = DURABLE | PUSH | {"ack_policy": "flow_control", "max_ack_pending": 5}
    return [
        *(DURABLE | {name: -5} for name in negative),
        DURABLE,
        waits,
        *(waits | more for more in ({"ack_wait": SECOND}, {"backoff": [30 * SECOND]}, {"max_waiting": -5})),
        fc,
        *(fc | {"flow_control": True, "idle_heartbeat": wait} for wait in (0, SECOND, 2 * SECOND)),
        fc | {"idle_heartbeat": SECOND},
        fc | {"flow_control": True, "max_ack_pending": -1},
    ]


def _faulty_consumers() -> list[dict[str, Any]]:
    """Two faults each: which one is told."""
    fc = {"ack_policy": "flow_control"}
    pairs: tuple[tuple[Config, Config], ...] = (
        (EXPLICIT | {"ack_wait": -1}, {"description": "x" * 4097}),
        ({"description": "x" * 4097}, {"deliver_subject": "d.*"}),
        (fc | PUSH | {"backoff": [SECOND, SECOND]}, {"max_deliver": 1}),
        (fc | PUSH | {"max_deliver": 5}, {"deliver_subject": "d.*"}),
        (fc, {"rate_limit_bps": 5}),
        (fc, {"idle_heartbeat": SECOND}),
        (EXPLICIT | {"backoff": [SECOND, SECOND], "max_deliver": 1}, {"description": "x" * 4097}),
        (PUSH | {"name": "D"}, {"filter_subjects": [""]}),
        ({"name": "D"}, {"metadata": {"a": "x" * 131_072}}),
        ({"priority_groups": ["g"]}, {"metadata": {"a": "x" * 131_072}}),
    )
    return [DURABLE | one | other for one, other in pairs]


def _consumer_updates() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    base = DURABLE | EXPLICIT | {"filter_subject": "s.a"}
    push = base | PUSH
    beat = push | {"idle_heartbeat": SECOND}
    by_seq = DURABLE | {"deliver_policy": "by_start_sequence", "opt_start_seq": 5}
    by_time = DURABLE | {"deliver_policy": "by_start_time", "opt_start_time": TIME}
    return [
        *(
            (base, base | change)
            for change in (
                {},
                {"deliver_policy": "new"},
                {"mem_storage": True},
                {"direct": True},
                {"ack_policy": "none"},
                {"replay_policy": "original"},
                {"max_waiting": 5},
                PUSH,
                {"filter_subject": "s.b"},
                {"num_replicas": 1},
                {"num_replicas": 3},
                {"pause_until": "2050-01-01T00:00:00Z"},
                {"metadata": {"q": "r"}},
                {
                    "ack_wait": 5 * SECOND,
                    "max_deliver": 7,
                    "sample_freq": "5",
                    "max_ack_pending": 7,
                    "headers_only": True,
                },
                {"max_batch": 7, "max_bytes": 7, "max_expires": SECOND, "description": "z", "backoff": [SECOND]},
                {"inactive_threshold": 70 * SECOND},
                {"deliver_policy": "new", "mem_storage": True, "ack_policy": "all"},
            )
        ),
        (base, DURABLE | EXPLICIT | {"filter_subjects": ["s.a", "s.b"]}),
        (base | {"metadata": {"a": "b"}}, base),
        (base | {"inactive_threshold": 70 * SECOND}, base),
        (by_seq, by_seq | {"opt_start_seq": 6}),
        (by_time, by_time | {"opt_start_time": "2021-01-01T00:00:00Z"}),
        (by_time | {"opt_start_time": "2020-01-01T00:00:00Z"}, by_time | {"opt_start_time": "2020-01-01T01:00:00+01:00"}),
        (beat, beat | {"idle_heartbeat": 2 * SECOND}),
        (beat, beat | {"flow_control": True}),
        (push, base),
        (push, push | {"deliver_subject": "e"}),
        (push, push | {"deliver_group": "g"}),
        (push, push | {"rate_limit_bps": 7}),
        (DURABLE, {"name": "C"}),
        ({"name": "C"}, DURABLE),
        ({"name": "C"}, {"name": "C", "inactive_threshold": 90 * SECOND}),
    ]


def _consumer_forms() -> list[Conversation]:
    subjects = ("CREATE.S", "CREATE.S.C", "CREATE.S.C.s.a", "CREATE.S.C.s.*", "DURABLE.CREATE.S.C", "CREATE.S.a*",
                "CREATE.S.a/b", "CREATE.S.a\\b", "CREATE.S.C.x")
    configs: tuple[Config, ...] = ({}, {"durable_name": "C"}, {"durable_name": "D"}, {"name": "C"}, {"name": "D"},
               {"name": "D", "durable_name": "C"}, {"filter_subject": "s.a"},
               {"filter_subject": "s.a", "durable_name": "C"}, {"filter_subjects": ["s.a"], "durable_name": "C"},
               {"durable_name": "a.b"}, {"name": "a.b"}, {"name": "a/b"}, {"durable_name": "a*"})
    found = [
        Conversation(
            f"CONSUMER.{subject} {_short(config)}",
            (create(S), Call(f"CONSUMER.{subject}", {"stream_name": "S", "config": config})),
        )
        for subject in subjects
        for config in configs
    ]
    for name in ("x" * 255, "x" * 256):
        for key in ("name", "durable_name"):
            call = Call(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": {key: name}})
            found.append(Conversation(f"consumer {key} of {len(name)} bytes", (create(S), call)))
    return found


def _consumer_rows() -> list[Conversation]:
    rows = [
        Conversation(f"consumer {_short(config)}", (create(S), Publish("s.a"), Publish("s.b"), consumer(config)))
        for config in _consumer_configs() + _consumer_features() + _consumer_starts() + _faulty_consumers()
    ]
    for config in _pedantic_consumers():
        rows.append(Conversation(f"pedantic consumer {_short(config)}", (create(S), consumer(config, pedantic=True))))
    for before, after in _consumer_updates():
        steps = (create(S), Publish("s.a"), consumer(before), consumer(after), Call("CONSUMER.INFO.S.C"))
        rows.append(Conversation(f"consumer {_short(before)} becomes {_short(after)}", steps))
    limited = S | {"consumer_limits": {"max_ack_pending": 50, "inactive_threshold": 10 * SECOND}}
    capped: tuple[Config, ...] = ({}, DURABLE, DURABLE | EXPLICIT, DURABLE | EXPLICIT | {"max_ack_pending": 100}, DURABLE | EXPLICIT |
              {"max_ack_pending": -1}, DURABLE | {"inactive_threshold": 20 * SECOND}, DURABLE | {"inactive_threshold":
              5 * SECOND}, DURABLE | PUSH)
    for config in capped:
        pedantic: tuple[Config, ...] = ({}, {"pedantic": True})
        for more in pedantic:
            rows.append(
                Conversation(f"capped consumer {_short(config | more)}", (create(limited), consumer(config, **more)))
            )
    queue = {"name": "W", "subjects": ["w.>"], "retention": "workqueue"}
    for config in (DURABLE, DURABLE | EXPLICIT, DURABLE | {"ack_policy": "all"}, DURABLE | PUSH,
                   DURABLE | EXPLICIT | {"deliver_policy": "last"}, DURABLE | EXPLICIT | {"filter_subject": "x"},
                   DURABLE | PUSH | EXPLICIT, PUSH | {"direct": True}, DURABLE | {"rate_limit_bps": 5}):
        rows.append(Conversation(f"work queue consumer {_short(config)}", (create(queue), consumer(config, "W"))))
    for first in ({}, {"filter_subject": "w.a"}):
        for second in ({}, {"filter_subject": "w.a"}, {"filter_subject": "w.*"}, {"filter_subject": "w.b"},
                       {"filter_subjects": ["w.b", "w.a"]}):
            pair: tuple[Step, ...] = (create(queue), consumer(DURABLE | EXPLICIT | first, "W"),
                     consumer({"durable_name": "E"} | EXPLICIT | second, "W"))
            rows.append(Conversation(f"work queue consumers {_short(first)} {_short(second)}", pair))
    first, other = DURABLE | EXPLICIT | {"filter_subject": "w.a"}, {"durable_name": "E"} | EXPLICIT
    for made, what, asked, more in (
        ({"max_consumers": 1}, "one too many", other, {}),
        ({}, "an update of none", other | {"filter_subject": "w.*"}, {"action": "update"}),
        ({}, "made anew with others' subjects", first | {"filter_subject": "w.b"}, {"action": "create"}),
        ({}, "other subjects", first | {"filter_subject": "w.b"}, {}),
        ({}, "another deliver policy", first | {"deliver_policy": "new"}, {}),
        ({}, "another ack policy", first | {"ack_policy": "all"}, {}),
    ):
        beside: tuple[Step, ...] = (consumer(other | {"filter_subject": "w.b"}, "W"),) if "subjects" in what else ()
        played: tuple[Step, ...] = (create(queue | made), consumer(first, "W"), *beside, consumer(asked, "W", **more))
        rows.append(Conversation(f"work queue, {what}", played))
    return rows + _consumer_forms()


def _stream_rows() -> list[Conversation]:
    rows = [
        Conversation(
            f"stream {_short(config)}", (Call("STREAM.CREATE.S", {"name": "S"} | config), Call("STREAM.INFO.S"))
        )
        for config in _stream_configs() + _stream_features()
    ]
    for before, body in _stream_updates():
        steps = (create(before), Call("STREAM.UPDATE.S", body), Call("STREAM.INFO.S"))
        rows.append(Conversation(f"stream {_short(before)} becomes {_short(body)}", steps))
    rows += [Conversation(f"stream body {_short(body)}", (Call("STREAM.CREATE.S", body),)) for body in _bodies()]
    for config in (S, S | {"max_msgs": 5}, S | {"subjects": ["a..b"]}, S | {"num_replicas": 3}, S | {"description": "x"},
                   S | {"metadata": {"a": "b"}}, S | {"sealed": True}, S | {"pedantic": True}):
        rows.append(Conversation(f"stream exists, create {_short(config)}", (create(S), create(config))))
    other = {"name": "O", "subjects": ["o.>"]}
    for subjects in (["o.a"], ["o"], ["*.a"], [">"], ["x", "o.>"], ["o.a.b.c"]):
        wanted = S | {"subjects": subjects, "no_ack": True}
        rows.append(Conversation(f"overlap {subjects}", (create(other), create(wanted), create(S), update(wanted))))
    sealed = S | {"sealed": True, "deny_delete": True, "deny_purge": True}
    rows.append(
        Conversation(
            "sealed stream",
            (
                create(S),
                Publish("s.a"),
                update(S, sealed=True),
                Call("STREAM.PURGE.S"),
                Call("STREAM.MSG.DELETE.S", {"seq": 1}),
                update(S),
                update(S, sealed=True),
                update(sealed),
                update(sealed | {"max_msgs": 5}),
            ),
        )
    )
    rows += [Conversation(f"{name} is created as another stream", (Call(f"STREAM.CREATE.{name}", S),))
             for name in ("T", "S/x", "S\\x")]
    for name in ("a_b", "S/x", "S\\x", "a*", "x" * 256, "x" * 255, "é"):
        named: tuple[Step, ...] = (create({"name": name}), Call(f"STREAM.INFO.{name}"), update({"name": name}),
                 Call(f"CONSUMER.NAMES.{name}"), Call(f"STREAM.DELETE.{name}"))
        rows.append(Conversation(f"stream name {_short(name)}", named))
    return rows


def _request_rows() -> list[Conversation]:
    filled: tuple[Step, ...] = (create(S), *(Publish(f"s.{name}", b"x" * size) for name, size in zip("abab", (1, 2, 3, 4), strict=True)))
    empty_bodies: tuple[Body, ...] = ("x", "[]", "[1]", '{"a":1}', " ", "{}", "{ }", "null", '{"offset":5}')
    per_request: dict[str, tuple[Body, ...]] = {
        "STREAM.NAMES": ("", "x", "[]", {"offset": "x"}, {"offset": -1}, {"offset": 5}, {"subject": 5}, {"subject":
                         "a..b"}, {"subject": "s.x"}, {"subject": ">"}, {"subject": "t"}, {"foo": 1}, "{", " [", "5",
                         {"OFFSET": 1}, {"limit": 5}, "null"),
        "STREAM.LIST": ("", {"offset": "x"}, {"foo": 1}, {"subject": "t"}, "x"),
        "STREAM.INFO.S": ({"deleted_details": True}, {"deleted_details": 5}, {"foo": 1}, {"subjects_filter": "s.*"},
                          {"subjects_filter": "s.a"}, {"subjects_filter": "t"}, {"subjects_filter": ">", "offset": 1},
                          {"subjects_filter": ">", "offset": -5}, {"subjects_filter": ">", "offset": 9}, "x", "[]",
                          {"subjects_filter": "s..x"}),
        "STREAM.PURGE.S": ("", "{}", "x", {"filter": 5}, {"seq": -1}, {"foo": 1}, {"keep": 1, "seq": 1}, {"keep": 1},
                           {"seq": 3}, {"seq": 1}, {"filter": "s.a"}, {"filter": "s.a", "keep": 1}, {"filter": "s..x"},
                           {"filter": ">"}, {"seq": 100}, {"keep": 100}, {"filter": "s.b", "seq": 3}, "[", "[]"),
        "STREAM.MSG.DELETE.S": ("", "{}", "x", {"seq": 0}, {"seq": 1}, {"seq": 2}, {"seq": 4}, {"seq": 100}, {"seq":
                                -1}, {"seq": "1"}, {"foo": 1}, {"seq": 2, "no_erase": True}, "null", "[]"),
        "STREAM.MSG.GET.S": ("", "{}", "x", {"seq": 0}, {"seq": 2}, {"seq": 100}, {"seq": -1}, {"last_by_subj": "s.a"},
                             {"last_by_subj": "s.*"}, {"last_by_subj": "t"}, {"last_by_subj": "s..*"}, {"next_by_subj":
                             "s.b"}, {"next_by_subj": "s.a", "seq": 2}, {"next_by_subj": "s.>", "seq": 99},
                             {"start_time": TIME}, {"start_time": "2050-01-01T00:00:00Z"}, {"start_time": "x"},
                             {"start_time": TIME, "next_by_subj": "s.b"}, {"start_time": TIME, "seq": 1}, {"batch": 0},
                             {"batch": 1, "seq": 1}, {"max_bytes": 1, "seq": 1}, {"batch": -1, "seq": 1}, {"max_bytes":
                             -1, "seq": 1}, {"multi_last": ["a"], "seq": 1}, {"multi_last": ["a"]}, {"multi_last":
                             [], "seq": 1}, {"up_to_seq": 1, "seq": 1}, {"no_hdr": True, "seq": 1}, {"no_hdr": True},
                             {"foo": 1}, "null", {"seq": 1, "last_by_subj": "s.a"}, {"seq": 0, "last_by_subj": "s.a"},
                             {"last_by_subj": "s.a", "next_by_subj": "s.a"}),
        "STREAM.DELETE.S": empty_bodies,
        "CONSUMER.NAMES.S": ("", "x", "[]", {"offset": 5}, {"offset": -5}, {"foo": 1}),
        "CONSUMER.LIST.S": ("", "x", "[]", {"offset": 5}, {"offset": -5}),
        "CONSUMER.INFO.S.C": empty_bodies,
        "CONSUMER.DELETE.S.C": empty_bodies,
        "CONSUMER.PAUSE.S.X": ("", "x", "[]", {"a": 1}, {"pause_until": 5}, {"pause_until": "x"}, {}),
    }
    rows = []
    for subject, bodies in per_request.items():
        for body in bodies:
            long: tuple[Step, ...] = (*filled, consumer(DURABLE | EXPLICIT), Call(subject, body), Call("STREAM.INFO.S"))
            rows.append(Conversation(f"{subject} {_short(body)}", long))
    for subject in ("STREAM.INFO.T", "STREAM.DELETE.T", "STREAM.PURGE.T", "STREAM.MSG.GET.T", "STREAM.MSG.DELETE.T",
                    "STREAM.SNAPSHOT.T", "CONSUMER.NAMES.T", "CONSUMER.LIST.T", "CONSUMER.INFO.T.C",
                    "CONSUMER.DELETE.T.C", "CONSUMER.INFO.S.X", "CONSUMER.DELETE.S.X", "CONSUMER.PAUSE.S.X",
                    "CONSUMER.PAUSE.T.X", "STREAM.LEADER.STEPDOWN.S", "STREAM.PEER.REMOVE.S",
                    "CONSUMER.LEADER.STEPDOWN.S.C", "STREAM.UPDATE.T"):
        asked: Body = {"seq": 1} if ".MSG." in subject else {"name": "T"} if "UPDATE" in subject else ""
        rows.append(Conversation(f"{subject} unknown", (create(S), Call(subject, asked))))
    return rows


def _other_rows() -> list[Conversation]:
    memory = S | {"storage": "memory"}
    one = S | {"max_consumers": 1}
    x = DURABLE | {"description": "x"}
    level = "Nats-Required-Api-Level"
    return [
        Conversation("empty account", (Call("INFO"), Call("STREAM.NAMES"), Call("STREAM.LIST"))),
        Conversation("account with a stream", (create(S, max_bytes=5000), consumer(DURABLE), Call("INFO"))),
        *(Conversation(f"api level {text}", (Call("STREAM.CREATE.S", S, {level: text}),
                       Call("STREAM.NAMES", "", {level: text}), Call("CONSUMER.NAMES.S", "", {level: text})))
          for text in ("0", "4", "5", "x", "-1", "99999999999999999999")),
        Conversation("memory stream", (create(memory), Publish("s.a", b"hello"), Publish("s.b", b""), Call(
            "STREAM.INFO.S"), Call("STREAM.MSG.DELETE.S", {"seq": 9}), Call("STREAM.MSG.DELETE.S", {"seq": 1}),
            Call("STREAM.MSG.DELETE.S", {"seq": 1}), Call("STREAM.MSG.GET.S", {"seq": 1}), Call("STREAM.INFO.S"))),
        Conversation("deletes", (create(S), *(Publish(f"s.{i}") for i in range(5)), Call("STREAM.MSG.DELETE.S", {"seq":
            3}), Call("STREAM.MSG.DELETE.S", {"seq": 3}), Call("STREAM.MSG.GET.S", {"seq": 3}), Call("STREAM.INFO.S",
            {"deleted_details": True}), Call("STREAM.MSG.DELETE.S", {"seq": 1}), Call("STREAM.MSG.DELETE.S", {"seq":
            1}), Call("STREAM.MSG.DELETE.S", {"seq": 5}), Call("STREAM.INFO.S", {"deleted_details": True}))),
        Conversation("deny delete and purge", (create(S, deny_delete=True, deny_purge=True), Publish("s.a"), Call(
            "STREAM.MSG.DELETE.S", {"seq": 1}), Call("STREAM.PURGE.S"), Call("STREAM.INFO.S"))),
        Conversation("message with headers", (create(S), Publish("s.a", b"hello", {"A": "b", "Nats-Msg-Id": "1"}), Call(
            "STREAM.MSG.GET.S", {"seq": 1}), Call("STREAM.MSG.GET.S", {"seq": 1, "no_hdr": True}), Call(
            "STREAM.INFO.S"))),
        Conversation("first_seq", (create(S, first_seq=5), Publish("s.a"), Call("STREAM.INFO.S"), Call(
            "STREAM.PURGE.S"), Call("STREAM.INFO.S"))),
        Conversation("stricter limits", (create(S), *(Publish("s.a") for _ in range(5)), update(S, max_msgs=2), Call(
            "STREAM.INFO.S"), update(S, max_msgs_per_subject=1), Call("STREAM.INFO.S"))),
        Conversation("create, delete, create", (create(S), Publish("s.a"), Call("STREAM.DELETE.S"), Call(
            "STREAM.INFO.S"))),
        Conversation("consumer actions", (create(S), consumer(DURABLE, action="update"), consumer(DURABLE, action=
            "create"), consumer(DURABLE, action="create"), consumer(x, action="create"), consumer(x, action="update"),
            consumer(DURABLE), consumer(DURABLE, action="x"), Call("CONSUMER.DELETE.S.C"), Call(
            "CONSUMER.INFO.S.C"))),
        *(Conversation(f"created twice {_short(config)}", (create(S), consumer(config, action="create"), consumer(
            config, action="create"), consumer(config), consumer(config, action="update"))) for config in (
            {"name": "E"}, {"name": "E", "inactive_threshold": 5_000_000_000}, {"name": "E", "max_deliver": 5},
            {"durable_name": "E"}, {"durable_name": "E", "inactive_threshold": 7_000_000_000})),
        Conversation("max_consumers", (create(one), consumer(DURABLE), consumer({"durable_name": "E"}), consumer(
            DURABLE), consumer({"durable_name": "E", "filter_subject": "a..b"}), consumer({"durable_name": "E"}, action=
            "update"))),
        Conversation("several consumers", (create(S), *(consumer({"durable_name": name}) for name in "BAC"), Call(
            "CONSUMER.NAMES.S"), Call("CONSUMER.LIST.S"), Call("CONSUMER.NAMES.S", {"offset": 1}), Call(
            "STREAM.INFO.S"))),
        Conversation("lower consumer limits", (create(S), consumer(DURABLE | EXPLICIT | {"max_ack_pending": 100}),
            update(S, consumer_limits={"max_ack_pending": 50}), create({"name": "T", "subjects": ["t"]}),
            update(S, consumer_limits={"max_ack_pending": 50}, subjects=["t"]))),
        Conversation("several streams", (*(create({"name": name, "subjects": [f"{name}.>"]}) for name in "CAB"), Call(
            "STREAM.NAMES"), Call("STREAM.LIST"), Call("STREAM.NAMES", {"subject": "A.x"}), Call("STREAM.NAMES",
            {"offset": 2}), Call("STREAM.LIST", {"subject": "*.>"}))),
        Conversation("consumer bodies", (create(S), *(Call("CONSUMER.CREATE.S", body) for body in (
            "", "{}", "null", "[]", {"config": 5}, {"stream_name": "S", "foo": 1}, {"stream_name": 5}, {"stream_name":
            "S", "config": {"max_deliver": "x"}}, {"stream_name": "S", "config": {"backoff": ["x"]}}, {"stream_name":
            "S", "config": {"rate_limit_bps": -1}}, {"stream_name": "S", "action": 5}, {"stream_name": "X"})))),
        Conversation("not known", tuple(Call(subject) for subject in (
            "NOPE", "STREAM.INFO", "STREAM.INFO.S.T", "CONSUMER.DURABLE.CREATE.S", "META.LEADER.STEPDOWN",
            "SERVER.REMOVE"))),
        Conversation("nobody there", tuple(Call(subject) for subject in (
            "CONSUMER.MSG.NEXT.S.C", "DIRECT.GET.S", "DIRECT.GET.S.a", "$JS.other.API.INFO"))),
    ]


def conversations() -> list[Conversation]:
    """All of them, with names of their own."""
    found: dict[str, Conversation] = {}
    for row in _stream_rows() + _consumer_rows() + _request_rows() + _other_rows():
        found.setdefault(row.name, row)
    return list(found.values())
