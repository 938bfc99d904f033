"""The JetStream API through a running broker: what lasts, what is told to others, what is limited."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError

from jetbroker import limits
from jetbroker.store.disk import Disk
from jetbroker.store.recovery.decisions import read_checked_json, write_checked_json
from tests.conftest import Connect
from tests.support import process
from tests.support.clients import settle

SECOND = 1_000_000_000


class Api:
    """JSON requests over one connection."""

    def __init__(self, client: Client, prefix: str = "$JS.API.") -> None:
        self.client = client
        self.prefix = prefix

    async def __call__(self, subject: str, body: object = b"", **headers: str) -> dict[str, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        message = await self.client.request(self.prefix + subject, data, 10, headers=headers or None)
        answer: dict[str, Any] = json.loads(message.data)
        return answer

    async def good(self, subject: str, body: object = b"") -> dict[str, Any]:
        """As a call; an error in the reply fails the test."""
        answer = await self(subject, body)
        assert "error" not in answer, answer
        return answer

    async def error(self, subject: str, body: object = b"") -> int:
        """The number of the error in the reply, 0 when there is none."""
        number: int = (await self(subject, body)).get("error", {}).get("err_code", 0)
        return number


@pytest.fixture
async def api(connect: Connect) -> AsyncIterator[Api]:
    api = Api(await connect())
    yield api
    for name in (await api("STREAM.NAMES"))["streams"] or []:
        await api(f"STREAM.DELETE.{name}")


def stream(name: str = "S", **fields: Any) -> dict[str, Any]:
    return {"name": name, "subjects": [f"{name.lower()}.>"]} | fields


def consumer(name: str = "C", stream_name: str = "S", **fields: Any) -> dict[str, Any]:
    return {"stream_name": stream_name, "config": {"durable_name": name, "ack_policy": "explicit"} | fields}


async def test_streams_and_consumers_outlive_the_broker(tmp_path: Path) -> None:
    config = stream(max_msgs=100, metadata={"a": "<b>"}, description="été")
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url, allow_reconnect=False)
        api = Api(client)
        await api.good("STREAM.CREATE.S", config)
        await api.good("STREAM.UPDATE.S", config | {"max_msgs": 50})
        await api.good("STREAM.CREATE.M", stream("M", storage="memory"))
        await api.good("STREAM.CREATE.GONE", stream("GONE"))
        await client.request("s.a", b"hello", 5)
        await client.request("s.b", b"hello", 5)
        await api.good("CONSUMER.CREATE.S.C", consumer(filter_subject="s.a"))
        await api.good("CONSUMER.CREATE.S.C", consumer(filter_subject="s.b", description="changed"))
        await api.good("CONSUMER.CREATE.S.GONE", consumer("GONE"))
        await api.good("CONSUMER.CREATE.S.MEM", consumer("MEM", mem_storage=True))
        await api.good("CONSUMER.DELETE.S.GONE")
        await api.good("STREAM.DELETE.GONE")
        await api.good("STREAM.MSG.DELETE.S", {"seq": 1})
        before = await api.good("STREAM.INFO.S"), await api.good("CONSUMER.INFO.S.C")
        await client.close()
        for ended in (server.kill, server.stop):
            ended()
            server.start()
            client = await nats.connect(server.url, allow_reconnect=False)
            api = Api(client)
            assert (await api.good("STREAM.NAMES"))["streams"] == ["S"]
            assert (await api.good("CONSUMER.NAMES.S"))["consumers"] == ["C"]
            after = await api.good("STREAM.INFO.S"), await api.good("CONSUMER.INFO.S.C")
            await client.close()
            for old, new in zip(before, after, strict=True):
                for value in (old, new):
                    value.pop("ts", None)
                    value.get("cluster", {}).pop("leader", None)
                    value.get("state", {}).pop("consumer_count", None)
            assert after == before


async def test_requests_are_answered_in_order(api: Api) -> None:
    inbox = api.client.new_inbox()
    answers = await api.client.subscribe(inbox)
    for number in range(40):
        name = f"N{number}"
        for verb, body in (("CREATE", stream(name)), ("UPDATE", stream(name, description="x")), ("DELETE", b"")):
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            await api.client.publish(f"$JS.API.STREAM.{verb}.{name}", data, inbox)
    kinds = []
    for _ in range(120):
        answer = json.loads((await answers.next_msg(10)).data)
        assert "error" not in answer
        kinds.append(answer["type"].split(".")[-1])
    assert kinds == ["stream_create_response", "stream_update_response", "stream_delete_response"] * 40


async def test_deleted_and_made_again_is_empty(api: Api) -> None:
    for _ in range(5):
        await api.good("STREAM.CREATE.S", stream())
        await api.client.request("s.a", b"x", 5)
        await api.good("STREAM.DELETE.S")
    assert (await api.good("STREAM.CREATE.S", stream()))["state"]["messages"] == 0


async def test_names_of_any_kind_stay_apart(api: Api) -> None:
    names = ["a", "A", "é", "x" * 255, "%41", "a%2F", "con", "..."[:1] + "_", "-", "~"]
    names = [name for name in names if "." not in name]
    for name in names:
        await api.good(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"in.{names.index(name)}"]})
    assert (await api.good("STREAM.NAMES"))["streams"] == sorted(names)


async def test_ephemeral_consumers_go_when_nobody_asks(api: Api) -> None:
    await api.good("STREAM.CREATE.S", stream())
    deleted = await api.client.subscribe("$JS.EVENT.ADVISORY.CONSUMER.DELETED.>")
    await settle(api.client)
    request = {"stream_name": "S", "config": {"inactive_threshold": SECOND // 5}}
    name = (await api.good("CONSUMER.CREATE.S", request))["name"]
    advisory = json.loads((await deleted.next_msg(10)).data)
    assert (advisory["consumer"], advisory["action"]) == (name, "delete")
    assert await api.error(f"CONSUMER.INFO.S.{name}") == 10014


async def test_waiting_pulls_hear_of_a_deleted_consumer(api: Api) -> None:
    for deletion in ("CONSUMER.DELETE.S.C", "STREAM.DELETE.S"):
        await api.good("STREAM.CREATE.S", stream())
        await api.good("CONSUMER.CREATE.S.C", consumer())
        inbox = api.client.new_inbox()
        answers = await api.client.subscribe(inbox)
        await api.client.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"expires":60000000000}', inbox)
        await settle(api.client)
        await api.good(deletion)
        status = await answers.next_msg(10)
        assert (status.headers or {})["Status"] == "409"
        assert (status.headers or {})["Description"] == "Consumer Deleted"


async def test_advisories(api: Api) -> None:
    heard = await api.client.subscribe("$JS.EVENT.ADVISORY.>")
    await settle(api.client)
    await api.good("STREAM.CREATE.S", stream())
    await api.good("STREAM.UPDATE.S", stream(description="x"))
    await api.good("CONSUMER.CREATE.S.C", consumer())
    await api.good("CONSUMER.DELETE.S.C")
    assert await api.error("STREAM.INFO.T") == 10059
    await api.good("STREAM.DELETE.S")
    await settle(api.client)
    found = [await heard.next_msg(10) for _ in range(11)]
    actions = [message.subject for message in found if not message.subject.endswith("ADVISORY.API")]
    assert actions == [
        f"$JS.EVENT.ADVISORY.{tail}"
        for tail in (
            "STREAM.CREATED.S",
            "STREAM.UPDATED.S",
            "CONSUMER.CREATED.S.C",
            "CONSUMER.DELETED.S.C",
            "STREAM.DELETED.S",
        )
    ]
    audits = [json.loads(message.data) for message in found if message.subject.endswith("ADVISORY.API")]
    assert [audit["subject"] for audit in audits][:2] == ["$JS.API.STREAM.CREATE.S", "$JS.API.STREAM.UPDATE.S"]
    assert json.loads(audits[4]["response"])["error"]["err_code"] == 10059
    assert "request" not in audits[4]
    for audit in audits:
        assert audit["type"] == "io.nats.jetstream.advisory.v1.api_audit"
        assert len(audit["id"]) == 22


async def test_what_nobody_knows_is_met_with_silence_or_no_responders(api: Api) -> None:
    for subject in ("NOPE", "STREAM.INFO", "STREAM.INFO.S.T", "CONSUMER.DURABLE.CREATE.S", "META.LEADER.STEPDOWN",
                    "CONSUMER.RESET.S.C"):  # fmt: skip
        with pytest.raises(TimeoutError):
            await api.client.request(f"$JS.API.{subject}", b"", 0.2)
    for subject in ("CONSUMER.MSG.NEXT.S.C", "DIRECT.GET.S"):
        with pytest.raises(NoRespondersError):
            await api.client.request(f"$JS.API.{subject}", b"", 5)


async def test_nothing_in_a_request_stops_the_api(api: Api) -> None:
    await api.good("STREAM.CREATE.S", stream())
    bodies = [b"[" * 900_000, b'{"a":' * 90_000, b"\xff" * 1000, b"{}" * 400_000, b'{"config":' + b"9" * 900_000 + b"}",
              json.dumps({"name": "S", "subjects": ["x"] * 100_000}).encode(), b"null", b"\x00"]  # fmt: skip
    subjects = ["STREAM.CREATE.S", "STREAM.UPDATE.S", "STREAM.INFO.S", "STREAM.PURGE.S", "STREAM.MSG.GET.S",
                "STREAM.MSG.DELETE.S", "CONSUMER.CREATE.S", "CONSUMER.CREATE.S.C", "CONSUMER.NAMES.S",
                "CONSUMER.PAUSE.S.C", "CONSUMER.UNPIN.S.C", "STREAM.SNAPSHOT.S", "STREAM.RESTORE.R", "INFO",
                "STREAM.NAMES"]  # fmt: skip
    for subject in subjects:
        for body in bodies:
            answer = await api(subject, body)
            assert "internal" not in answer.get("error", {}).get("description", ""), (subject, body[:40])
    assert (await api.good("STREAM.INFO.S"))["config"]["subjects"] == ["s.>"]


async def test_a_purge_to_the_last_sequence_there_is(api: Api) -> None:
    await api.good("STREAM.CREATE.S", stream())
    error = (await api("STREAM.PURGE.S", {"seq": 2**64 - 1}))["error"]
    assert error["err_code"] == 10_110
    await api.good("STREAM.PURGE.S", {"seq": limits.STREAM_SKIP_SEQUENCE})
    state = (await api.good("STREAM.INFO.S"))["state"]
    assert state["first_seq"] == state["last_seq"] + 1 == limits.STREAM_SKIP_SEQUENCE
    await api.good("STREAM.DELETE.S")


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[process.ServerProcess]:
    folder = tmp_path_factory.mktemp("limited")
    (folder / "broker.conf").write_text(
        f"""
        jetstream {{ store_dir: "{folder}/store", domain: hub }}
        accounts {{
          A {{ users: [{{user: a, password: a}}]
               jetstream {{ max_mem: 1M, max_file: 10K, max_streams: 2, max_consumers: 2 }} }}
          B {{ users: [{{user: b, password: b}},
                       {{user: d, password: d, permissions: {{ publish: {{
                           deny: ["$JS.API.STREAM.DELETE.>", "$KV.>"] }} }} }}], jetstream: enabled }}
          NONE {{ users: [{{user: n, password: n}}] }}
        }}
        """
    )
    with process.jetbroker("-c", str(folder / "broker.conf")) as server:
        yield server


async def _as(server: process.ServerProcess, user: str) -> Api:
    return Api(await nats.connect(server.url, user=user, password=user, allow_reconnect=False))


async def test_limits_of_an_account(limited: process.ServerProcess) -> None:
    api = await _as(limited, "a")
    assert await api.error("STREAM.CREATE.S", stream(max_bytes=20_000)) == 10047
    assert await api.error("STREAM.CREATE.S", stream(max_bytes=2_000_000, storage="memory")) == 10028
    await api.good("STREAM.CREATE.S", stream(max_bytes=6_000))
    assert await api.error("STREAM.CREATE.T", stream("T", max_bytes=6_000)) == 10047
    assert await api.error("STREAM.UPDATE.S", stream(max_bytes=11_000)) == 10047
    await api.good("STREAM.UPDATE.S", stream(max_bytes=10_000))
    assert await api.error("STREAM.CREATE.T", stream("T")) == 10047  # every byte is reserved
    await api.good("STREAM.UPDATE.S", stream(max_bytes=9_999))
    await api.good("STREAM.CREATE.T", stream("T"))
    assert await api.error("STREAM.CREATE.U", stream("U")) == 10027
    for name, stream_name in (("C", "S"), ("D", "S"), ("D", "T")):
        await api.good(f"CONSUMER.CREATE.{stream_name}.{name}", consumer(name, stream_name))
    assert await api.error("CONSUMER.CREATE.S.E", consumer("E")) == 10026
    info = await api.good("INFO")
    assert (info["streams"], info["consumers"], info["reserved_storage"]) == (2, 3, 9_999)
    assert info["limits"]["max_streams"] == 2
    assert info["domain"] == "hub"
    for name in "ST":
        await api.good(f"STREAM.DELETE.{name}")
    await api.client.close()


async def test_accounts_do_not_see_each_other(limited: process.ServerProcess) -> None:
    first, second = await _as(limited, "a"), await _as(limited, "b")
    for api in (first, second):
        await api.good("STREAM.CREATE.SAME", stream("SAME"))
    await second.client.request("same.x", b"1", 5)
    assert (await first.good("STREAM.INFO.SAME"))["state"]["messages"] == 0
    assert (await second.good("STREAM.INFO.SAME"))["state"]["messages"] == 1
    for api in (first, second):
        await api.good("STREAM.DELETE.SAME")
        await api.client.close()


async def test_the_domain_is_a_second_name_of_the_api(limited: process.ServerProcess) -> None:
    api = await _as(limited, "b")
    there = Api(api.client, "$JS.hub.API.")
    await there.good("STREAM.CREATE.D", stream("D", allow_direct=True))
    await api.client.request("d.x", b"1", 5)
    assert (await there.good("STREAM.INFO.D"))["domain"] == "hub"
    assert (await api.client.request("$JS.hub.API.DIRECT.GET.D.d.x", b"", 5)).data == b"1"
    for subject in ("$JS.hub.API.CONSUMER.MSG.NEXT.D.C", "$JS.other.API.INFO"):
        with pytest.raises(NoRespondersError):
            await api.client.request(subject, b"", 5)
    await there.good("STREAM.DELETE.D")
    await api.client.close()


async def test_the_domain_is_no_way_around_permissions(limited: process.ServerProcess) -> None:
    owner, denied = await _as(limited, "b"), await _as(limited, "d")
    await owner.good("STREAM.CREATE.KV_b", stream("KV_b", subjects=["$KV.b.>"]))
    there = Api(denied.client, "$JS.hub.API.")
    await there.good("STREAM.INFO.KV_b")
    for subject in ("STREAM.DELETE.KV_b", "$KV.b.key"):
        await denied.client.publish(f"$JS.hub.API.{subject}", b"x")
    await settle(denied.client)
    assert (await owner.good("STREAM.INFO.KV_b"))["state"]["messages"] == 0
    assert "permissions violation" in str(denied.client.last_error)
    await owner.good("STREAM.DELETE.KV_b")
    for api in (owner, denied):
        await api.client.close()


async def test_an_account_without_jetstream(limited: process.ServerProcess) -> None:
    api = await _as(limited, "n")
    for subject in ("INFO", "STREAM.NAMES", "STREAM.CREATE.S", "CONSUMER.LIST.S"):
        assert await api.error(subject) == 10039
    answer = await api("STREAM.NAMES")
    assert (answer["total"], answer["streams"]) == (0, None)
    await api.client.close()


async def test_many_streams(api: Api) -> None:
    names = [f"S{number:04d}" for number in range(300)]
    for start in range(0, len(names), 50):
        await asyncio.gather(*(
            api.good(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], "storage": "memory"})
            for name in names[start : start + 50]
        ))  # fmt: skip
    first = await api.good("STREAM.LIST")
    rest = await api.good("STREAM.LIST", {"offset": 256})
    assert (first["total"], len(first["streams"]), len(rest["streams"])) == (300, 256, 44)
    assert [entry["config"]["name"] for entry in first["streams"] + rest["streams"]] == names
    assert (await api.good("STREAM.NAMES", {"subject": "S0123.x"}))["streams"] == ["S0123"]


async def test_a_stream_this_release_cannot_read_is_offline_and_kept(tmp_path: Path) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url, allow_reconnect=False)
        for name in "ST":
            await Api(client).good(f"STREAM.CREATE.{name}", stream(name))
        await client.request("s.a", b"kept", 5)
        await client.close()
        server.stop()
        file = tmp_path / "jetstream" / "%24G" / "S" / "stream.json"
        meta = read_checked_json(Disk(), str(file))
        assert meta is not None
        meta["config"]["retention"] = "of the future"
        write_checked_json(Disk(), str(file), meta)
        server.start()
        client = await nats.connect(server.url, allow_reconnect=False)
        api = Api(client)
        for subject, body in (("STREAM.INFO.S", b""), ("STREAM.CREATE.S", stream()), ("STREAM.PURGE.S", b"")):
            assert await api.error(subject, body) == 10194
        listed = await api.good("STREAM.LIST")
        assert [entry["config"]["name"] for entry in listed["streams"]] == ["T"]
        assert list(listed["offline"]) == ["S"]
        await client.close()
        assert any("offline" in line for line in server.log)


async def test_too_many_requests_are_dropped_and_the_rest_goes_on(api: Api, connect: Connect) -> None:
    """Each of these waits for the disk, so they come faster than they are done."""
    dropped = await api.client.subscribe("$JS.EVENT.ADVISORY.API.LIMIT_REACHED")
    await settle(api.client)
    flood = await connect()
    body = json.dumps(stream("FLOOD", subjects=["flood"])).encode()
    for _ in range(limits.JS_API_QUEUE_REQUESTS * 6 // 10):
        await flood.publish("$JS.API.STREAM.CREATE.FLOOD", body)
        await flood.publish("$JS.API.STREAM.DELETE.FLOOD", b"")
    advisory = json.loads((await dropped.next_msg(20)).data)
    assert advisory["type"] == "io.nats.jetstream.advisory.v1.api_limit_reached"
    assert advisory["dropped"] > limits.JS_API_QUEUE_REQUESTS // 2  # the others wait for the disk
    await api.good("STREAM.CREATE.S", stream())
