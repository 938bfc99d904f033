"""Mirrors and sources of nats-server and of jetbroker: the same requests are refused, and the copies are equal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.differential.test_jetstream_api import normalised
from tests.support.origins import Streams, connected
from tests.support.process import ServerProcess

pytestmark = pytest.mark.differential

# origins that are there: A and B with subjects and messages, C mirrors A, D sources from C
TRANSFORM = {"src": "a.*", "dest": "t.{{wildcard(1)}}"}
EXTERNAL = {"api": "$JS.other.API", "deliver": ""}
MIRRORS: list[dict[str, Any]] = [
    {"name": "A"},
    {"name": "A", "filter_subject": "a.x"},
    {"name": "A", "filter_subject": "a.x", "subject_transforms": [TRANSFORM]},
    {"name": "A", "subject_transforms": [TRANSFORM]},
    {"name": "A", "subject_transforms": [{"src": "a..", "dest": "x"}]},
    {"name": "A", "subject_transforms": [{"src": "a.*", "dest": "x.{{wildcard(2)}}"}]},
    {"name": "A", "subject_transforms": [{"src": "a.*", "dest": "x"}, {"src": "a.>", "dest": "y.>"}]},
    {"name": "A", "subject_transforms": [{"src": "", "dest": ""}]},
    {"name": "A", "opt_start_seq": 2, "opt_start_time": "2020-01-01T00:00:00Z"},
    {"name": "T"},
    {"name": "D"},
    {"name": "a b"},
    {"name": "a b", "external": EXTERNAL},
    {"name": "T", "external": EXTERNAL},
    {"name": "A", "external": {"api": "x.*", "deliver": ""}},
    {"name": "A", "external": {"api": "x", "deliver": "d.>"}},
    {"name": "A", "external": {"api": "$JS.API", "deliver": "d"}},
    {"name": "A", "consumer": {"name": "", "deliver_subject": "d"}},
    {"name": "A", "consumer": {"name": "C", "deliver_subject": "d.*"}},
    {"name": "A", "filter_subject": "a..b"},
    {"name": "A", "filter_subject": "a b"},
    {"name": "A", "filter_subject": "x", "consumer": {"name": "C", "deliver_subject": "d"}},
]
SOURCES: list[list[dict[str, Any]]] = [
    *([source] for source in MIRRORS),
    [{"name": "A"}, {"name": "A", "filter_subject": ">"}],
    [{"name": "A"}, {"name": "A", "filter_subject": "a.x"}],
    [{"name": "A", "subject_transforms": [TRANSFORM]}, {"name": "A", "subject_transforms": [TRANSFORM]}],
    [{"name": "A", "external": EXTERNAL}, {"name": "A"}, {"name": "A", "external": {"api": "other", "deliver": ""}}],
    [{"name": "A"}, {"name": "B", "external": {"api": "x", "deliver": "a"}}],
    [{"name": "A"}, {"name": "B", "external": {"api": "x", "deliver": "d"}}],
    [{"name": "T", "filter_subject": "z"}],
    [{"name": "T", "filter_subject": "own"}],
]
EXTRAS: list[dict[str, Any]] = [
    {"max_msg_size": 50}, {"max_msg_size": 500}, {"duplicate_window": 1_000_000_000}, {"max_age": 1_000_000_000},
    {"mirror_direct": True}, {"mirror_direct": True, "pedantic": True}, {"allow_direct": True},
    {"retention": "interest"},
]  # fmt: skip


def settled(answer: dict[str, Any]) -> Any:
    """Without what depends on how far the copying is."""
    out = normalised(answer)
    out.pop("state", None)
    for origin in [*out.get("sources", []), *([out["mirror"]] if "mirror" in out else [])]:
        for key in ("active", "error", "lag", "filter_subject"):
            origin.pop(key, None)
    if "sources" in out:
        out["sources"].sort(key=str)  # nats-server keeps them in a map
    return out


async def prepare(streams: Streams) -> None:
    await streams.create("A", subjects=["a.>"], max_msg_size=100, allow_direct=True)
    await streams.create("B", subjects=["b.>"])
    await streams.create("C", mirror={"name": "A"})
    await streams.create("D", sources=[{"name": "C"}, {"name": "T"}])


async def clean(streams: Streams) -> None:
    for name in (await streams.api("STREAM.NAMES"))["streams"] or []:
        await streams.api(f"STREAM.DELETE.{name}")


async def configurations(streams: Streams) -> list[Any]:
    """The answers to many requests to make T, and to update it."""
    await prepare(streams)
    answers: list[Any] = []
    rows: list[dict[str, Any]] = [{"mirror": mirror} for mirror in MIRRORS]
    rows += [{"sources": sources, "subjects": ["own"]} for sources in SOURCES]
    rows += [{"mirror": {"name": "A"}, **extra} for extra in EXTRAS]
    rows += [{"sources": [{"name": "A"}], **extra} for extra in EXTRAS]
    for row in rows:
        answer = await streams.api("STREAM.CREATE.T", {"name": "T", **row})
        answers.append((row, settled(answer)))
        await streams.api("STREAM.DELETE.T")
    changes: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
        ({"mirror": {"name": "A"}}, {"mirror": {"name": "B"}}),
        ({"mirror": {"name": "A"}}, {"mirror": {"name": "A"}, "subjects": ["x"]}),
        ({"mirror": {"name": "A"}}, {"mirror": {"name": "A"}, "description": "new"}),
        ({"mirror": {"name": "A"}}, {"subjects": ["x"]}),
        ({"mirror": {"name": "A"}}, {}),
        ({"mirror": {"name": "A"}}, {"sources": [{"name": "A"}]}),
        ({"sources": [{"name": "A"}]}, {"sources": [{"name": "A"}, {"name": "B"}]}),
        ({"sources": [{"name": "A"}]}, {"sources": [{"name": "A", "opt_start_seq": 5}]}),
        ({"sources": [{"name": "A"}]}, {"mirror": {"name": "A"}}),
        ({"sources": [{"name": "A"}]}, {"sources": [{"name": "T"}]}),
        ({"sources": [{"name": "A"}]}, {"subjects": ["x"]}),
        ({"subjects": ["x"]}, {"subjects": ["x"], "sources": [{"name": "A"}]}),
        ({"subjects": ["x"]}, {"mirror": {"name": "A"}}),
        ({"subjects": ["x"]}, {"subjects": ["x"], "sources": [{"name": "D"}]}),
    )
    for config, change in changes:
        await streams.create("T", **config)
        answers.append((config, change, settled(await streams.update("T", **change))))
        answers.append(settled(await streams.api("STREAM.INFO.T")))
        await streams.api("STREAM.DELETE.T")
    await clean(streams)
    return answers


async def test_the_same_is_refused(reference_server: ServerProcess, broker: ServerProcess) -> None:
    async with connected(reference_server.url) as reference, connected(broker.url) as ours:
        for expected, got in zip(await configurations(reference), await configurations(ours), strict=True):
            assert got == expected


async def copies(streams: Streams) -> list[Any]:
    """What several copies of the same streams hold in the end."""
    await streams.create("A", subjects=["a.>"], allow_rollup_hdrs=True)
    await streams.create("B", subjects=["b.>"])
    await streams.publish("a.x", "1", "2", X="y", Nats_Expected_Stream="A")
    await streams.publish("a.x", "3", Nats_Msg_Id="one")
    await streams.publish("a.y.z", "4", "", Nats_Expected_Stream="A")
    await streams.publish("a.y", "6", Nats_Rollup="sub")
    await streams.publish("a.x", "7", Nats_Rollup="sub")
    await streams.publish("b.x", "8", Nats_Msg_Id="one", Nats_Stream_Source="other")
    await streams.publish("b.x", "9", Nats_Msg_Id="two")
    await streams.api("STREAM.MSG.DELETE.A", {"seq": 4})
    rows: dict[str, dict[str, Any]] = {
        "M1": {"mirror": {"name": "A"}},
        "M2": {"mirror": {"name": "A", "filter_subject": "a.y.>"}, "storage": "memory"},
        "M3": {"mirror": {"name": "A", "opt_start_seq": 6}, "allow_rollup_hdrs": True},
        "M4": {"mirror": {"name": "A", "subject_transforms": [TRANSFORM, {"src": "a.*.*", "dest": "u.{{wildcard(2)}}"}]}
               },
        "M5": {"mirror": {"name": "B"}, "max_msgs": 1},
        "S1": {"sources": [{"name": "B"}]},
        "S2": {"sources": [{"name": "A", "subject_transforms": [TRANSFORM, {"src": "a.*.*", "dest": ""}]}]},
        "S3": {"sources": [{"name": "B", "filter_subject": "b.x"}], "subjects": ["c.>"],
               "subject_transform": {"src": "b.*", "dest": "d.{{wildcard(1)}}"}},
        "S4": {"sources": [{"name": "M1"}], "max_msgs_per_subject": 1},
        "S5": {"sources": [{"name": "S1"}], "duplicate_window": 60_000_000_000},
        "S6": {"sources": [{"name": "A", "opt_start_seq": 6}], "first_seq": 100, "allow_rollup_hdrs": True},
    }  # fmt: skip
    lasts = {"M1": 7, "M2": 5, "M3": 7, "M4": 7, "M5": 2, "S1": 2, "S2": 3, "S3": 2, "S4": 3, "S5": 2, "S6": 101}
    for name, config in rows.items():
        await streams.create(name, **config)
    found: list[Any] = []
    for name, last in lasts.items():
        info = await streams.until_last(name, last)
        content = await streams.content(name)
        if name[0] == "S":
            for message in content:
                del message["time"]
        state = {key: value for key, value in info["state"].items() if not key.endswith("_ts")}
        origins = [info["mirror"]] if "mirror" in info else info["sources"]
        found.append((name, state, [{**origin, "active": 0} for origin in origins]))
        found += [(name, {**message, "time": 0}) for message in content]
    account = await streams.api("INFO")  # its consumers are those that copy
    found.append((account["streams"], account["consumers"], await streams.api("CONSUMER.NAMES.A")))
    await clean(streams)
    return found


async def test_the_copies_are_equal(reference_server: ServerProcess, broker: ServerProcess) -> None:
    async with connected(reference_server.url) as reference, connected(broker.url) as ours:
        for expected, got in zip(await copies(reference), await copies(ours), strict=True):
            assert got == expected


async def consequences(streams: Streams) -> list[Any]:
    """What copied messages bring about in the copies, and what publishers are told of them afterwards."""
    await streams.create("A", subjects=["a.>"], allow_msg_schedules=True, allow_msg_ttl=True)
    await streams.publish("a.schedule", "1", Nats_Schedule="@at 2090-01-01T00:00:00Z", Nats_Schedule_Target="a.x")
    marked: dict[str, Any] = {"subject_delete_marker_ttl": 9_000_000_000_000}
    rows: dict[str, dict[str, Any]] = {
        "M1": {"mirror": {"name": "A"}},
        "M2": {"mirror": {"name": "A"}, "allow_rollup_hdrs": True, "allow_msg_ttl": True},
        "S1": {"sources": [{"name": "A"}]},
        "S2": {"sources": [{"name": "A"}], "allow_rollup_hdrs": True},
        "S3": {"sources": [{"name": "A"}], "subjects": ["own"], **marked},
        "S4": {"sources": [{"name": "A"}], "subjects": ["other"], "retention": "interest", **marked},
    }  # fmt: skip
    for name, config in rows.items():
        await streams.create(name, **config)
        await streams.until_last(name, 1)
    await streams.publish("a.short", "2", Nats_TTL="7000", Nats_Msg_Id="two")
    await streams.publish("a.kept", "3", Nats_TTL="never")
    await streams.publish("a.end", "4", Nats_Scheduler="a.schedule", Nats_Schedule_Next="purge")
    await streams.publish("a.kept", "5", Nats_Msg_Id="five")
    found: list[Any] = []
    for name in rows:
        info = await streams.until_last(name, 5)
        found.append((name, {key: info["state"].get(key) for key in ("messages", "first_seq", "last_seq", "bytes")}))
        found += [(name, {**message, "time": 0}) for message in await streams.content(name)]
    for name in ("M1", "M2"):
        config = {key: value for key, value in rows[name].items() if key != "mirror"}
        found.append(settled(await streams.update(name, subjects=[f"{name}.>"], **config)))
        for ids in ({"Nats-Msg-Id": "two"}, {"Nats-Expected-Last-Msg-Id": "five"}, {"Nats-Msg-Id": "five"}):
            found.append((await streams.client.request(f"{name}.x", b"", timeout=5, headers=ids)).data)
    for subject in ("own", "other"):
        for ids in ({"Nats-Expected-Last-Msg-Id": "five"}, {"Nats-Msg-Id": "five"}):
            found.append((await streams.client.request(subject, b"", timeout=5, headers=ids)).data)
    await clean(streams)
    return found


async def test_what_copied_messages_bring_about(reference_server: ServerProcess, broker: ServerProcess) -> None:
    async with connected(reference_server.url) as reference, connected(broker.url) as ours:
        expected, got = await consequences(reference), await consequences(ours)
        for one, other in zip(got, expected, strict=True):
            assert one == other
