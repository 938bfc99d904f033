"""Extreme numbers and times in JetStream requests, and what nats-server makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.differential.conftest import Pair
from tests.support.daemon import CONNECT, Raw

pytestmark = pytest.mark.differential

CONFIG = "jetstream { store_dir: STORE }\n"
LEVELS = ["", "0", "4", "5", "+4", "-1", "--1", "4.0", "0x4", "x", "4 4", "9" * 19, "9" * 20, "9" * 3000]
ASKED = ["STREAM.NAMES", "DIRECT.GET.S.s", "CONSUMER.MSG.NEXT.S.c"]
IN_RANGE = ["2262-04-11T23:47:16.854775807Z", "1970-01-01T00:00:00Z", "1677-09-21T00:12:43.145224192Z"]
SECOND = 10**9
ZERO = "0001-01-01T00:00:00Z"
ANY_YEAR = [*IN_RANGE, ZERO, "9999-12-31T23:59:59Z", "1600-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59"]
OFFSETS = [2**63 - 1, -(2**63), -1, 1]
OF_THE_MOMENT = (
    "ts",
    "created",
    "metadata",
    "pause_remaining",
    "first_ts",
    "last_ts",
    "time",
    "cluster",
    "last_active",
)


def answer(client: Raw, subject: str, body: bytes = b"", headers: bytes = b"") -> bytes:
    """What comes first, without what the server adds that is of the moment."""
    size = len(headers)
    if headers:
        client.send(b"HPUB $JS.API.%b r %d %d\r\n%b%b\r\n" % (subject.encode(), size, size + len(body), headers, body))
    else:
        client.send(b"PUB $JS.API.%b r %d\r\n%b\r\n" % (subject.encode(), len(body), body))
    while not (line := client.line()).startswith((b"MSG ", b"HMSG ")):
        assert line, "the connection was closed"
    length = int(line.split()[-1])
    found = b""
    while len(found) < length + 2:
        found += client.until(b"\r\n")
    return found


def settled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: settled(entry) for key, entry in value.items() if key not in OF_THE_MOMENT}
    return [settled(entry) for entry in value] if isinstance(value, list) else value


def api(client: Raw, subject: str, body: dict[str, Any] | None = None) -> Any:
    return settled(json.loads(answer(client, subject, json.dumps(body).encode() if body is not None else b"")))


def fresh(client: Raw) -> None:
    """Stream S with three messages and consumer c, both new."""
    client.exchange(CONNECT.replace(b"{", b'{"headers":true,', 1) + b"SUB r 1\r\n")
    api(client, "STREAM.DELETE.S")
    api(client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "allow_direct": True})
    for number in range(3):
        client.send(b"PUB s r 1\r\n%d\r\n" % number)
        client.until(b"}\r\n")
    api(client, "CONSUMER.CREATE.S.c", {"stream_name": "S", "config": {"name": "c", "durable_name": "c"}})


def both(pair: Pair, ask: Callable[[Raw], Any]) -> tuple[Any, Any]:
    found = []
    for server in (pair.reference, pair.broker):
        client = Raw(server.port)
        with client.socket:
            fresh(client)
            found.append(ask(client))
    return found[0], found[1]


def test_required_levels(pair_of: Callable[[str], Pair]) -> None:
    def refused(client: Raw) -> list[tuple[str, str]]:
        found = []
        for subject in ASKED:
            for level in LEVELS:
                headers = b"NATS/1.0\r\nNats-Required-Api-Level: %b\r\n\r\n" % level.encode()
                said = answer(client, subject, b'{"no_wait":true}' if "NEXT" in subject else b"", headers)
                if b"10185" in said or said.startswith(b"NATS/1.0 412"):
                    found.append((subject, level))
        return found

    theirs, ours = both(pair_of(CONFIG), refused)
    assert ours == theirs
    assert len(theirs) > len(LEVELS)


@pytest.mark.parametrize("time", [*ANY_YEAR, "2262-04-11T23:47:17Z", "1677-09-21T00:12:43Z", "2847-01-01T00:00:00Z"])
def test_start_times_of_any_year(pair_of: Callable[[str], Pair], time: str) -> None:
    def starts(client: Raw) -> list[Any]:
        config = {"name": "d", "deliver_policy": "by_start_time", "opt_start_time": time}
        return [
            api(client, "CONSUMER.CREATE.S.d", {"stream_name": "S", "config": config}),
            api(client, "STREAM.MSG.GET.S", {"start_time": time}),
            api(client, "STREAM.MSG.GET.S", {"start_time": time, "next_by_subj": ">"}),
            answer(client, "DIRECT.GET.S", json.dumps({"start_time": time}).encode()).partition(b"Time-Stamp")[0],
            answer(client, "DIRECT.GET.S", json.dumps({"up_to_time": time, "multi_last": ["s"]}).encode())[:60],
        ]

    theirs, ours = both(pair_of(CONFIG), starts)
    assert ours == theirs


@pytest.mark.parametrize("time", ANY_YEAR)
def test_pauses(pair_of: Callable[[str], Pair], time: str) -> None:
    def paused(client: Raw) -> list[Any]:
        config = {"name": "d", "pause_until": time}
        return [
            api(client, "CONSUMER.CREATE.S.d", {"stream_name": "S", "config": config}),
            api(client, "CONSUMER.PAUSE.S.c", {"pause_until": time}),
            api(client, "CONSUMER.INFO.S.c"),
        ]

    theirs, ours = both(pair_of(CONFIG), paused)
    assert ours == theirs


@pytest.mark.parametrize("offset", OFFSETS)
def test_offsets_of_pages(pair_of: Callable[[str], Pair], offset: int) -> None:
    def pages(client: Raw) -> list[Any]:
        body = {"offset": offset}
        return [
            api(client, "STREAM.NAMES", body),
            api(client, "STREAM.LIST", body),
            api(client, "CONSUMER.NAMES.S", body),
            api(client, "CONSUMER.LIST.S", body),
            api(client, "STREAM.INFO.S", {**body, "subjects_filter": ">"}),
        ]

    theirs, ours = both(pair_of(CONFIG), pages)
    assert ours == theirs


DURATIONS = [2**63 - 1, -(2**63), -1]


@pytest.mark.parametrize("value", DURATIONS)
@pytest.mark.parametrize(
    "field", ["ack_wait", "inactive_threshold", "max_expires", "idle_heartbeat", "max_ack_pending", "max_deliver"]
)
def test_consumers_of_extremes(pair_of: Callable[[str], Pair], field: str, value: int) -> None:
    def made(client: Raw) -> list[Any]:
        body = {
            "stream_name": "S",
            "config": {"name": "d", "durable_name": "d", "ack_policy": "explicit", field: value},
        }
        return [api(client, "CONSUMER.CREATE.S.d", body), api(client, "CONSUMER.INFO.S.d")]

    theirs, ours = both(pair_of(CONFIG), made)
    assert ours == theirs


@pytest.mark.parametrize("max_age", [0, SECOND - 1, SECOND, 119 * SECOND, 120 * SECOND])
def test_pedantic_ages_beside_duplicate_windows(pair_of: Callable[[str], Pair], max_age: int) -> None:
    def created(client: Raw) -> list[Any]:
        found = []
        for window in ({}, {"duplicate_window": SECOND}, {"duplicate_window": 121 * SECOND}):
            for pedantic in (True, False):
                config = {"name": "P", "subjects": ["p"], "max_age": max_age, "pedantic": pedantic, **window}
                found += [api(client, "STREAM.CREATE.P", config), api(client, "STREAM.DELETE.P")]
        return found

    theirs, ours = both(pair_of(CONFIG), created)
    assert ours == theirs


def test_negative_limits_of_consumers_beside_consumer_limits(pair_of: Callable[[str], Pair]) -> None:
    def created(client: Raw) -> list[Any]:
        limits = {"max_ack_pending": 5, "inactive_threshold": SECOND}
        found = [api(client, "STREAM.CREATE.P", {"name": "P", "subjects": ["p"], "consumer_limits": limits})]
        for name in ("max_batch", "max_expires", "max_bytes", "max_waiting", "max_ack_pending", "inactive_threshold"):
            for pedantic in (True, False):
                config = {"name": "c", "ack_policy": "explicit", "max_ack_pending": 3, name: -1}
                found.append(
                    api(client, "CONSUMER.CREATE.P.c", {"stream_name": "P", "pedantic": pedantic, "config": config})
                )
                api(client, "CONSUMER.DELETE.P.c")
        api(client, "STREAM.DELETE.P")
        return found

    theirs, ours = both(pair_of(CONFIG), created)
    assert ours == theirs
