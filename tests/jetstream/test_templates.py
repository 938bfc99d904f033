"""Stream templates: a stream for each new subject, as nats-server had them until 2.12."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client
from nats.errors import NoRespondersError

from tests.support.daemon import Daemon

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANSWER_S = 30
CONFIG = """
jetstream {{ store_dir: "{folder}", tech_preview_api: {preview} }}
accounts {{
  A {{ jetstream: enabled, users: [{{user: a, password: p}}] }}
  S {{ jetstream {{ max_streams: 1 }}, users: [{{user: s, password: p}}] }}
  SYS {{ users: [{{user: sys, password: p}}] }}
}}
system_account: SYS
"""
TYPE = "io.nats.jetstream.api.v1.stream_template_%s_response"


def configured(folder: Path, preview: str = "true") -> Daemon:
    (folder / "server.conf").write_text(CONFIG.format(folder=folder, preview=preview))
    return Daemon("-c", str(folder / "server.conf"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with configured(tmp_path_factory.mktemp("templates")) as started:
        yield started


async def connect(broker: Daemon, user: str = "a") -> Client:
    client = await nats.connect(f"nats://{user}:p@127.0.0.1:{broker.port}", allow_reconnect=False)
    await api(client, "INFO")  # until then the account may still be on its way
    return client


@pytest_asyncio.fixture(loop_scope="module")
async def client(broker: Daemon) -> AsyncIterator[Client]:
    opened = await connect(broker)
    yield opened
    for name in (await api(opened, "STREAM.TEMPLATE.NAMES"))["streams"]:
        assert (await api(opened, f"STREAM.TEMPLATE.DELETE.{name}"))["success"]
    for name in (await api(opened, "STREAM.NAMES"))["streams"] or []:
        await api(opened, f"STREAM.DELETE.{name}")
    await opened.close()


async def api(client: Client, subject: str, body: Any = b"") -> dict[str, Any]:
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer: dict[str, Any] = json.loads((await client.request(f"$JS.API.{subject}", payload, ANSWER_S)).data)
    return answer


def template(name: str = "T", subjects: tuple[str, ...] = ("CLIENT.*",), most: int = 10, **more: Any) -> dict[str, Any]:
    return {"name": name, "config": {"subjects": list(subjects), **more}, "max_streams": most}


async def create(client: Client, name: str = "T", **wanted: Any) -> dict[str, Any]:
    answer = await api(client, f"STREAM.TEMPLATE.CREATE.{name}", template(name, **wanted))
    assert "error" not in answer, answer
    return answer


async def publish(client: Client, subject: str, payload: bytes = b"x") -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((await client.request(subject, payload, ANSWER_S)).data)
    return answer


async def answers(client: Client, *subjects: str, count: int = 0) -> list[dict[str, Any] | None]:
    """Publish to these: the first `count` answers, behind which there must be none once all streams are made.

    None: nobody listens.
    """
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    for subject in subjects:
        await client.publish(subject, b"x", inbox)
    found = [json.loads((await subscription.next_msg(ANSWER_S)).data or "null") for _ in range(count)]
    await api(client, "STREAM.DELETE.NONE")  # behind all streams that are being made
    assert subscription.pending_msgs == 0
    await subscription.unsubscribe()
    return found


async def streams(client: Client) -> list[str]:
    return (await api(client, "STREAM.NAMES"))["streams"] or []


def error(answer: dict[str, Any]) -> tuple[int, str]:
    return answer["error"]["err_code"], answer["error"]["description"]


async def test_a_new_subject_gets_a_stream(client: Client) -> None:
    made = await create(client, subjects=("CLIENT.*", "other.>"), max_msgs=5)
    assert made["type"] == TYPE % "create"
    assert (made["config"]["name"], made["config"]["max_streams"], made["streams"]) == ("T", 10, [])
    assert (made["config"]["config"]["name"], made["config"]["config"]["max_msgs"]) == ("_", 5)
    assert await publish(client, "CLIENT.acme") == {"stream": "CLIENT_acme", "seq": 1}
    assert await publish(client, "CLIENT.acme") == {"stream": "CLIENT_acme", "seq": 2}
    assert await publish(client, "other.a.b.c") == {"stream": "other_a_b_c", "seq": 1}
    info = await api(client, "STREAM.INFO.CLIENT_acme")
    assert (info["config"]["subjects"], info["config"]["max_msgs"]) == (["CLIENT.acme"], 5)
    assert (info["config"]["template_owner"], info["state"]["messages"]) == ("T", 2)
    assert (await api(client, "STREAM.TEMPLATE.INFO.T"))["streams"] == ["CLIENT_acme", "other_a_b_c"]
    with pytest.raises(NoRespondersError):
        await publish(client, "CLIENT.a.b")


async def test_all_first_messages_are_stored_in_order(client: Client) -> None:
    await create(client, most=50)
    publishing = client.jetstream(timeout=ANSWER_S)
    acks = [await publishing.publish_async(f"CLIENT.{n % 20}", b"%d" % n, wait_stall=ANSWER_S) for n in range(400)]
    for number, ack in enumerate(await asyncio.gather(*acks)):
        assert (ack.stream, ack.seq) == (f"CLIENT_{number % 20}", number // 20 + 1)
    stored = [await publishing.get_msg("CLIENT_7", seq) for seq in range(1, 21)]
    assert [message.data for message in stored] == [b"%d" % n for n in range(7, 400, 20)]
    assert [message.subject for message in stored] == ["CLIENT.7"] * 20


async def test_headers_of_the_first_message_hold(client: Client) -> None:
    await create(client)
    publishing = client.jetstream(timeout=ANSWER_S)
    first = await publishing.publish("CLIENT.a", b"1", headers={"Nats-Msg-Id": "1", "Other": "o"})
    again = await publishing.publish("CLIENT.a", b"1", headers={"Nats-Msg-Id": "1"})
    assert (first.seq, first.duplicate, again.seq, again.duplicate) == (1, None, 1, True)
    assert (await publishing.get_msg("CLIENT_a", 1)).headers == {"Nats-Msg-Id": "1", "Other": "o"}


async def test_no_more_streams_than_allowed(broker: Daemon, client: Client) -> None:
    await create(client, most=2)
    await answers(client, "CLIENT.a", "CLIENT.b", "CLIENT.c", "CLIENT.d", count=2)
    assert await streams(client) == ["CLIENT_a", "CLIENT_b"]
    broker.wait_for('JetStream could not create stream for account "A" on subject "CLIENT.c", at limit')
    assert (await api(client, "STREAM.DELETE.CLIENT_a"))["success"]
    assert (await api(client, "STREAM.TEMPLATE.INFO.T"))["streams"] == ["CLIENT_b"]
    assert (await publish(client, "CLIENT.c"))["stream"] == "CLIENT_c"
    await answers(client, "CLIENT.a")


async def test_a_deleted_stream_is_made_again(client: Client) -> None:
    await create(client, most=1)
    for _ in range(3):
        assert await publish(client, "CLIENT.a") == {"stream": "CLIENT_a", "seq": 1}
        assert (await api(client, "STREAM.DELETE.CLIENT_a"))["success"]


async def test_a_template_goes_with_its_streams(client: Client) -> None:
    await create(client)
    await create(client, "U", subjects=("u.*",))
    await api(client, "STREAM.CREATE.OWN", {"name": "OWN", "subjects": ["own"]})
    for subject in ("CLIENT.a", "CLIENT.b", "u.a"):
        await publish(client, subject)
    answer = await api(client, "STREAM.TEMPLATE.DELETE.T")
    assert answer == {"type": TYPE % "delete", "success": True}
    assert await streams(client) == ["OWN", "u_a"]
    with pytest.raises(NoRespondersError):
        await publish(client, "CLIENT.a")
    assert error(await api(client, "STREAM.TEMPLATE.INFO.T")) == (10068, "template not found")
    assert error(await api(client, "STREAM.TEMPLATE.DELETE.T")) == (10068, "template not found")
    names = await api(client, "STREAM.TEMPLATE.NAMES")
    assert names == {"type": TYPE % "names", "total": 1, "offset": 0, "limit": 1024, "streams": ["U"]}
    assert (await api(client, "STREAM.TEMPLATE.NAMES", {"offset": 5}))["streams"] == []


async def test_its_streams_cannot_be_updated(client: Client) -> None:
    await create(client)
    await publish(client, "CLIENT.a")
    config = (await api(client, "STREAM.INFO.CLIENT_a"))["config"]
    del config["template_owner"]
    text = "stream configuration update not allowed on template owned stream"
    assert error(await api(client, "STREAM.UPDATE.CLIENT_a", config)) == (10052, text)


async def test_advisories_name_the_template(client: Client) -> None:
    heard = await client.subscribe("$JS.EVENT.ADVISORY.STREAM.*.CLIENT_a")
    await create(client)
    await publish(client, "CLIENT.a")
    await api(client, "STREAM.TEMPLATE.DELETE.T")
    told = [json.loads((await heard.next_msg(ANSWER_S)).data) for _ in range(2)]
    assert [(one["action"], one["template"]) for one in told] == [("create", "T"), ("delete", "T")]
    await heard.unsubscribe()


async def test_what_is_refused(client: Client) -> None:
    await create(client)
    wrong = (
        (template(), 10066, 'template with name "T" already exists'),
        (template("X"), 10073, "template name in subject does not match request"),
        ({"name": "T", "max_streams": 1}, 10066, "template config is required"),
        (template(name="T") | {"config": {"name": "S"}}, 10066, "template config name should be empty"),
        (template(most=10_001), 10066, "template max streams can not be larger than 10000"),
        (template(most=-1), 10025, ""),
        (template(most=2**32), 10025, ""),
        (template(color=1), 10025, ""),
        (template(subjects=("a..b",)), 10052, "invalid subject"),
        (template(subjects=("$JS.API.>",)), 10052, ""),
        (template(subjects=("a.*", "a.b")), 10052, 'subject "a.*" overlaps with "a.b"'),
        (template(sealed=True), 10052, "stream configuration for create can not be sealed"),
        (b"", 10073, ""),
        (b"{", 10025, ""),
        (b"[]", 10025, ""),
    )
    for body, code, text in wrong:
        answer = await api(client, "STREAM.TEMPLATE.CREATE.T", body)
        assert answer["type"] == TYPE % "create"
        found = error(answer)
        assert found[0] == code and text in found[1], (body, found)
    long = "n" * 256
    answer = await api(client, f"STREAM.TEMPLATE.CREATE.{long}", template(long))
    assert error(answer) == (10066, "template name is too long, maximum allowed is 255")
    assert error(await api(client, "STREAM.TEMPLATE.INFO.T", b"x"))[0] == 10038
    assert error(await api(client, "STREAM.TEMPLATE.DELETE.T", b"x"))[0] == 10038
    assert (await api(client, "STREAM.TEMPLATE.NAMES"))["streams"] == ["T"]


async def test_names_that_look_like_paths(client: Client) -> None:
    for name in ("a/b", "\\up", "%2E", "-" * 255):
        await create(client, name, subjects=("p.*",))
        assert (await api(client, f"STREAM.TEMPLATE.INFO.{name}"))["config"]["name"] == name
    await answers(client, "p.a/b", "p.\\")
    assert await streams(client) == []


async def test_what_cannot_be_made_is_not_answered(client: Client) -> None:
    await create(client)
    await api(client, "STREAM.CREATE.OWN", {"name": "OWN", "subjects": ["CLIENT.a"]})
    await api(client, "STREAM.CREATE.CLIENT_b", {"name": "CLIENT_b", "subjects": ["b"]})
    found = await answers(client, "CLIENT.a", "CLIENT.a", "CLIENT.b", "CLIENT." + "c" * 250, count=2)
    assert found == [{"stream": "OWN", "seq": 1}, {"stream": "OWN", "seq": 2}]
    assert await streams(client) == ["CLIENT_b", "OWN"]


async def test_a_wildcard_makes_no_streams_of_inboxes(client: Client) -> None:
    await create(client, subjects=("*.a", "$KV.x.*"), no_ack=True)
    found = await answers(client, "_INBOX.a", "$SYS.a", "$KV.x.y", "f.a", count=2)
    assert found == [None, None]
    assert await streams(client) == ["$KV_x_y", "f_a"]


async def test_two_templates_for_one_subject_make_one_stream(client: Client) -> None:
    await create(client)
    await create(client, "U", subjects=("CLIENT.>",))
    assert await publish(client, "CLIENT.a") == {"stream": "CLIENT_a", "seq": 1}
    assert await publish(client, "CLIENT.a.b") == {"stream": "CLIENT_a_b", "seq": 1}
    assert (await api(client, "STREAM.INFO.CLIENT_a"))["state"]["messages"] == 1
    made = [(await api(client, f"STREAM.TEMPLATE.INFO.{name}"))["streams"] for name in "TU"]
    assert sorted(made[0] + made[1]) == ["CLIENT_a", "CLIENT_a_b"]


async def test_limits_of_the_account_hold(broker: Daemon) -> None:
    client = await connect(broker, "s")
    await create(client)
    await answers(client, "CLIENT.a", "CLIENT.b", count=1)
    assert await streams(client) == ["CLIENT_a"]
    sys = await nats.connect(f"nats://sys:p@127.0.0.1:{broker.port}", allow_reconnect=False)
    purged = json.loads((await sys.request("$JS.API.ACCOUNT.PURGE.S", b"", ANSWER_S)).data)
    assert purged["initiated"]
    await sys.close()
    assert await streams(client) == []
    assert (await api(client, "STREAM.TEMPLATE.NAMES"))["streams"] == []
    await client.close()


async def test_the_words_of_2020(client: Client) -> None:
    async def ask(subject: str, body: Any = b"") -> bytes:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        return (await client.request(f"$JS.{subject}", payload, ANSWER_S)).data

    assert await ask("TEMPLATE.T.CREATE", template()) == b"+OK"
    assert await ask("TEMPLATE.T.CREATE", template()) == b"-ERR 'template with name \"T\" already exists'"
    await publish(client, "CLIENT.acme")
    assert json.loads(await ask("TEMPLATES.LIST")) == ["T"]
    info = json.loads(await ask("TEMPLATE.T.INFO"))
    assert (list(info), info["streams"]) == (["config", "streams"], ["CLIENT_acme"])
    assert await ask("TEMPLATE.T.DELETE") == b"+OK"
    assert await ask("TEMPLATE.T.INFO") == b"-ERR 'template not found'"
    assert json.loads(await ask("STREAM.LIST")) == []


async def test_a_kill_forgets_nothing(tmp_path: Path) -> None:
    server = configured(tmp_path)
    with server:
        client = await connect(server)
        await create(client, most=2)
        await create(client, "M", subjects=("m.*",), storage="memory")
        await create(client, "G", subjects=("g.*",))
        assert (await api(client, "STREAM.TEMPLATE.DELETE.G"))["success"]
        await publish(client, "CLIENT.a")
        await publish(client, "m.a")
        server.kill()
        server.start()
        client = await connect(server)
        assert (await api(client, "STREAM.TEMPLATE.NAMES"))["streams"] == ["T"]
        assert (await api(client, "STREAM.TEMPLATE.INFO.T"))["streams"] == ["CLIENT_a"]
        assert await publish(client, "CLIENT.a") == {"stream": "CLIENT_a", "seq": 2}
        assert await publish(client, "CLIENT.b") == {"stream": "CLIENT_b", "seq": 1}
        await answers(client, "CLIENT.c")
        assert (await api(client, "STREAM.TEMPLATE.DELETE.T"))["success"]
        server.kill()
        server.start()
        client = await connect(server)
        assert (await api(client, "STREAM.TEMPLATE.NAMES"))["streams"] == []
        assert await streams(client) == []


async def test_without_the_option_there_are_none(tmp_path: Path) -> None:
    with configured(tmp_path) as server:
        client = await connect(server)
        await create(client)
        await publish(client, "CLIENT.a")
    damaged = tmp_path / "jetstream" / "A" / "template-D.json"
    damaged.write_bytes(b'{"name": "D"}')
    with configured(tmp_path, preview="false") as server:
        client = await connect(server)
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox)
        for verb in ("NAMES", "INFO.T", "DELETE.T", "CREATE.X"):
            await client.publish(f"$JS.API.STREAM.TEMPLATE.{verb}", b"", inbox)
        assert await streams(client) == ["CLIENT_a"]
        assert await publish(client, "CLIENT.a") == {"stream": "CLIENT_a", "seq": 2}
        with pytest.raises(NoRespondersError):
            await publish(client, "CLIENT.b")
        assert subscription.pending_msgs == 0
    with configured(tmp_path) as server:
        client = await connect(server)
        assert (await api(client, "STREAM.TEMPLATE.INFO.T"))["streams"] == ["CLIENT_a"]
        assert any("template-D.json is damaged" in line for line in server.log)
        assert damaged.read_bytes() == b'{"name": "D"}'
