"""What can be said to the broker: endpoints with the fields of their bodies, headers, services.

The fields come from the broker's own declarations, so that a new one has its extremes at once; what has no
declaration (headers, options of services) stands here by hand, and `tests/fuzz` compares it with the sources.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from fuzz.meaning import extremes
from jetbroker.jetstream.api import consumers as api_consumer
from jetbroker.jetstream.api import streams as api_stream
from jetbroker.jetstream.api.dispatch import ENDPOINTS
from jetbroker.jetstream.consumers.pull_request import PullRequest
from jetbroker.jetstream.models.config import CreateConsumerRequest, StreamConfigRequest
from jetbroker.jetstream.models.decode import Kind, ListKind, StructKind

STREAMS = ("S0", "S1", "S2", "S3", "M0", "Q0")
CONSUMERS = ("C0", "C1", "C2")

Tree = bytes | dict[str, Any] | list[Any]  # leaves are JSON
Path = tuple[str | int, ...]

# The body of each endpoint, None: it takes none. Keys are those of the API's own table.
BODIES: dict[str, type[Any] | None] = {
    "INFO": None,
    "STREAM.CREATE": StreamConfigRequest,
    "STREAM.UPDATE": StreamConfigRequest,
    "STREAM.NAMES": api_stream.StreamListRequest,
    "STREAM.LIST": api_stream.StreamListRequest,
    "STREAM.INFO": api_stream.StreamInfoRequest,
    "STREAM.DELETE": None,
    "STREAM.PURGE": api_stream.PurgeRequest,
    "STREAM.MSG.GET": api_stream.MessageGetRequest,
    "STREAM.MSG.DELETE": api_stream.MessageDeleteRequest,
    "STREAM.SNAPSHOT": None,
    "STREAM.RESTORE": StreamConfigRequest,
    "STREAM.LEADER.STEPDOWN": None,
    "STREAM.PEER.REMOVE": None,
    "CONSUMER.CREATE": CreateConsumerRequest,
    "CONSUMER.DURABLE.CREATE": CreateConsumerRequest,
    "CONSUMER.NAMES": api_consumer.ConsumerListRequest,
    "CONSUMER.LIST": api_consumer.ConsumerListRequest,
    "CONSUMER.INFO": None,
    "CONSUMER.DELETE": None,
    "CONSUMER.PAUSE": api_consumer.PauseRequest,
    "CONSUMER.UNPIN": api_consumer.UnpinRequest,
    "CONSUMER.RESET": api_consumer.ResetRequest,
    "CONSUMER.LEADER.STEPDOWN": None,
}
SILENT = frozenset(("CONSUMER.RESET",))  # an unknown consumer is met with silence
DIRECT = api_stream.MessageGetRequest  # a direct get has the same fields
PULL = PullRequest

# What a struct holds when one of its fields is to be set.
_PARENTS: dict[str, Tree] = {
    "mirror": {"name": b'"S0"'},
    "sources": [{"name": b'"S0"'}],
    "external": {"api": b'"JS.A.API"', "deliver": b'"d.origin"'},
    "consumer": {"name": b'"C0"', "deliver_subject": b'"d.source"'},
    "subject_transforms": [{"src": b'">"', "dest": b'"t.>"'}],
    "subject_transform": {"src": b'">"', "dest": b'"t.>"'},
    "republish": {"src": b'">"', "dest": b'"r.>"'},
    "placement": {},
    "consumer_limits": {},
    "config": {},
}

# What else has to be set for a field to mean anything.
COMPANIONS: dict[str, dict[str, bytes]] = {
    "opt_start_time": {"deliver_policy": b'"by_start_time"'},
    "opt_start_seq": {"deliver_policy": b'"by_start_sequence"'},
    "backoff": {"max_deliver": b"1100"},
    "idle_heartbeat": {"deliver_subject": b'"d.x"'},
    "flow_control": {"deliver_subject": b'"d.x"', "idle_heartbeat": b"1000000000"},
    "rate_limit_bps": {"deliver_subject": b'"d.x"'},
    "priority_timeout": {"priority_policy": b'"pinned_client"', "priority_groups": b'["g"]'},
    "priority_policy": {"priority_groups": b'["g"]'},
    "priority_groups": {"priority_policy": b'"overflow"'},
    "discard_new_per_subject": {"discard": b'"new"', "max_msgs_per_subject": b"2"},
    "subject_delete_marker_ttl": {"allow_msg_ttl": b"true", "allow_rollup_hdrs": b"true"},
}

# Publish headers, each with the type of its value.
HEADERS: dict[bytes, tuple[str, ...]] = {
    b"Nats-Msg-Id": (*extremes.TEXTS, "1", "2", "3"),
    b"Nats-Rollup": ("sub", "all", "SUB", "ALL", "x", ""),
    b"Nats-TTL": (*extremes.GO_DURATIONS, *extremes.INTEGERS),
    b"Nats-Incr": (*extremes.INTEGERS, "+1", "-1", "9" * 5000),
    b"Nats-Counter-Sources": ('{"S0":{"s0.a":"5"}}', '{"S0":null}', "{}", "[]", "{", *extremes.TEXTS),
    b"Nats-Expected-Stream": (*extremes.TEXTS, *STREAMS),
    b"Nats-Expected-Last-Msg-Id": (*extremes.TEXTS, "1", "2"),
    b"Nats-Expected-Last-Sequence": extremes.INTEGERS,
    b"Nats-Expected-Last-Subject-Sequence": extremes.INTEGERS,
    b"Nats-Expected-Last-Subject-Sequence-Subject": (*extremes.SUBJECTS, "s0.a", "s0.*"),
    b"Nats-Batch-Id": (*extremes.TEXTS, "b1", "b2", "b1"),
    b"Nats-Batch-Sequence": (*extremes.INTEGERS, "1", "2", "3"),
    b"Nats-Batch-Commit": ("1", "eob", "0", "", "x", "9" * 100),
    b"Nats-Required-Api-Level": extremes.INTEGERS,
    b"Nats-Request-Info": extremes.TEXTS,
    b"Nats-Schedule": extremes.PATTERNS,
    b"Nats-Schedule-Target": (*extremes.SUBJECTS, "s0.t", "s1.t", "s2.t"),
    b"Nats-Schedule-Source": (*extremes.SUBJECTS, "s0.a", "s1.a"),
    b"Nats-Schedule-TTL": (*extremes.GO_DURATIONS, *extremes.INTEGERS),
    b"Nats-Schedule-Rollup": ("sub", "all", "SUB", "", "x"),
    b"Nats-Schedule-Time-Zone": extremes.ZONES,
    b"Nats-Schedule-Next": (*extremes.TIMES, "purge", "PURGE", ""),
    b"Nats-Scheduler": (*extremes.SUBJECTS, "s0.a", "s1.a"),
    # what only the broker says, said by a publisher
    b"Nats-Stream-Source": ("S0 1", "S0:x 18446744073709551615 > > s0.a", "S0", " ", *extremes.TEXTS),
    b"Nats-Marker-Reason": ("MaxAge", "Purge", "Remove", "", "x"),
    b"Nats-Last-Consumer": extremes.INTEGERS,
    b"Nats-Last-Stream": extremes.INTEGERS,
    b"Nats-Consumer-Stalled": extremes.SUBJECTS,
    b"Nats-Stream": (*extremes.TEXTS, *STREAMS),
    b"Nats-Subject": extremes.SUBJECTS,
    b"Nats-Sequence": extremes.INTEGERS,
    b"Nats-Last-Sequence": extremes.INTEGERS,
    b"Nats-Time-Stamp": extremes.TIMES,
    b"Nats-Num-Pending": extremes.INTEGERS,
    b"Nats-Msg-Size": extremes.INTEGERS,
    # of features that are not built
    b"Nats-Trace-Dest": extremes.SUBJECTS,
    b"Nats-Trace-Only": ("true", "1", "false", ""),
    b"Nats-Trace-Hop": extremes.INTEGERS,
    b"traceparent": ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00", ""),
    b"Nats-Fast-Batch-Id": (*extremes.TEXTS, "b1"),
    b"Nats-Pin-Id": extremes.TEXTS,
}

# Options of the requests to the server itself, each with extremes of its type.
_FLAG = (b"true", b"false", b"null", b"1", b'"true"')
_TEXT = tuple(map(extremes.text_json, (*extremes.TEXTS, *extremes.SUBJECTS, "A", "B", "S0", "C0")))
_NUMBER = tuple(value.encode() for value in extremes.INTEGERS if value[-1:].isdigit())
OPTIONS: dict[str, tuple[bytes, ...]] = {
    **dict.fromkeys(("auth", "subscriptions", "subscriptions_detail", "subs", "details", "exact_match"), _FLAG),
    **dict.fromkeys(
        ("accounts", "streams", "consumers", "config", "leader_only", "raft", "include_unused", "stream_leader_only"),
        _FLAG,
    ),
    **dict.fromkeys(("js-enabled-only", "js-server-only", "js-enabled", "js-meta-only", "stream_leader_only"), _FLAG),
    **dict.fromkeys(("direct_consumer", "direct-consumers", "accs", "unused", "all"), _FLAG),
    **dict.fromkeys(("offset", "limit", "cid", "state", "seq", "before", "debug", "duration"), _NUMBER),
    **dict.fromkeys(("sort", "acc", "user", "mqtt_client", "filter_subject", "test", "account", "stream"), _TEXT),
    **dict.fromkeys(("consumer", "server_name", "host", "cluster", "domain", "name", "account_name", "group"), _TEXT),
    **dict.fromkeys(("table", "search", "filter"), _TEXT),
    "tags": (b"[]", b'["x"]', b'[""]', b"[1]", b"[[]]", b"[" + b'"x",' * 5000 + b'"x"]'),
}
SERVICES = tuple(
    "STATSZ IDZ HEALTHZ VARZ CONNZ SUBSZ JSZ LEAFZ ROUTEZ GATEWAYZ RAFTZ CONNS ACCOUNTZ IPQUEUESZ PROFILEZ EXPVARZ "
    "INFO".split()
)
PAGES = (
    "",
    *"varz connz subsz jsz healthz routez gatewayz leafz accountz accstatz ipqueuesz raftz metrics x".split(),
    *"dashboard dashboard/summary dashboard/rows dashboard/messages dashboard/message".split(),
)
SERVICES_OF_ACCOUNTS = ("$SYS.REQ.USER.INFO", "$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.ACCOUNT.PING.STATZ")


@dataclasses.dataclass(frozen=True)
class Field:
    """One field of a body: where it stands, and what it is."""

    path: Path
    kind: Kind


def fields_of(cls: type[Any], at: Path = ()) -> list[Field]:
    """All fields of a body, also those of the structs it holds."""
    found: list[Field] = []
    for field in dataclasses.fields(cls):
        if "embedded" in field.metadata:
            found += fields_of(field.metadata["class"], at)
        elif "kind" in field.metadata:
            kind: Kind = field.metadata["kind"]
            path = (*at, field.metadata["key"] or field.name)
            found.append(Field(path, kind))
            if isinstance(kind, StructKind):
                found += fields_of(kind.cls, path)
            elif isinstance(kind, ListKind) and isinstance(kind.item, StructKind):
                found += fields_of(kind.item.cls, (*path, 0))
    return found


FIELDS: dict[type[Any], list[Field]] = {
    cls: fields_of(cls) for cls in {*BODIES.values(), DIRECT, PULL} if cls is not None
}


def put(tree: Tree, path: Path, value: bytes) -> None:
    """Set the value at a path; what is missing on the way there is filled with something plausible."""
    for name, following in zip(path, (*path[1:], None), strict=True):
        if following is None or isinstance(tree, bytes):
            if isinstance(tree, (dict, list)):
                tree[name] = value  # type: ignore[index]
            return
        if isinstance(tree, dict) and isinstance(name, str):
            inner = tree.get(name)
            if inner is None or isinstance(inner, bytes):
                inner = tree[name] = copied(_PARENTS[name])
            tree = inner
        elif isinstance(tree, list) and isinstance(name, int):
            if len(tree) <= name:
                return
            tree = tree[name]


def copied(tree: Tree) -> Tree:
    """A tree of its own."""
    if isinstance(tree, bytes):
        return tree
    if isinstance(tree, list):
        return [copied(entry) for entry in tree]
    return {name: copied(entry) for name, entry in tree.items()}


def rendered(tree: Tree) -> bytes:
    """The tree as JSON."""
    if isinstance(tree, bytes):
        return tree
    if isinstance(tree, list):
        return b"[" + b",".join(map(rendered, tree)) + b"]"
    return b"{" + b",".join(b'"%b":%b' % (name.encode(), rendered(entry)) for name, entry in tree.items()) + b"}"


def missing_endpoints() -> set[str]:
    """Endpoints of the API that no step asks, and steps without an endpoint."""
    return set(ENDPOINTS) ^ set(BODIES)
