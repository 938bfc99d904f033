"""Tamper-evident streams: a chain of hashes that restarts do not break, and what does not agree with it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from jetbroker.store.format import hash_chain as form
from jetbroker.store.offline.integrity import verify
from tests.support import process

KEY, HEAD = "jetbroker.hash_chain", "jetbroker.hash_chain.head"


async def api(client: Client, subject: str, body: object = b"") -> dict[str, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer: dict[str, Any] = json.loads((await client.request(f"$JS.API.{subject}", data, 30)).data)
    assert "error" not in answer, answer
    return answer


async def create(client: Client, verb: str = "CREATE", algorithm: str = "sha256", **config: Any) -> None:
    wanted = {"name": "S", "subjects": ["s.>"], "metadata": {KEY: algorithm}, **config}
    await api(client, f"STREAM.{verb}.S", wanted)


async def head_of(client: Client) -> str:
    """Asked behind a publish that was confirmed: what it stored is chained then."""
    found: str = (await api(client, "STREAM.INFO.S"))["config"]["metadata"][HEAD]
    return found


def command(*words: str) -> tuple[int, str]:
    line = [sys.executable, "-m", "jetbroker", "store", "verify", *words]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=60)
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.parametrize("algorithm", ["sha256", "blake2b"])
async def test_a_chain_holds_over_kills_removals_and_restarts(tmp_path: Path, algorithm: str) -> None:
    server = process.jetbroker("-js", "-sd", str(tmp_path))
    heads = []
    for run in range(3):
        server.start()
        client = await nats.connect(server.url)
        js = client.jetstream()
        if run == 0:
            await create(client, algorithm=algorithm)
        for number in range(10):
            await js.publish(f"s.{number}", b"%d" % number, headers={"A": "b"} if number % 2 else None)
        if run == 1:
            await api(client, "STREAM.MSG.DELETE.S", {"seq": 3})
            await api(client, "STREAM.PURGE.S", {"filter": "s.7"})
        heads.append(await head_of(client))
        await client.close()
        server.kill() if run < 2 else server.stop()
    assert [head.split(":")[0] for head in heads] == ["10", "20", "30"]
    for head in heads:  # each end there ever was is known
        known = verify(tmp_path, "S", head=head)
        assert known is not None and known.intact, known
    verdict = verify(tmp_path, "S")
    assert verdict is not None
    assert (verdict.found.matching, verdict.removed, verdict.sequence) == (27, 3, 30)
    assert f"{verdict.sequence}:{verdict.head}" == heads[-1]
    code, told = command(str(tmp_path), "S")
    assert code == 0 and told.startswith("$G > S: intact, 27 messages match, 3 removed; "), told
    code, told = command(str(tmp_path), "S", "--head", "20:" + "0" * 64)
    assert code == 1 and "NOT INTACT: it never ended as --head says" in told


async def filled(path: Path, **config: Any) -> None:
    with process.jetbroker("-js", "-sd", str(path)) as server:
        client = await nats.connect(server.url)
        await create(client, **config)
        for number in range(5):
            await client.jetstream().publish("s.a", b"message %d" % number)
        await client.close()


async def test_what_was_changed_on_disk_is_found(tmp_path: Path) -> None:
    """One who knows the format gives the record a new checksum: here the broker itself, in a store with other words."""
    await filled(tmp_path / "honest")
    chain = tmp_path / "honest" / "jetstream" / "%24G" / "S" / form.FILE_NAME
    with process.jetbroker("-js", "-sd", str(tmp_path / "forged")) as server:
        client = await nats.connect(server.url)
        await create(client, metadata={})
        for number in range(5):
            await client.jetstream().publish("s.a", b"message %d" % (9 if number == 2 else number))
        await client.close()
    forged = tmp_path / "forged" / "jetstream" / "%24G" / "S" / form.FILE_NAME
    assert not forged.exists() and command(str(tmp_path / "forged"), "S")[0] == 2
    shutil.copy(chain, forged)
    verdict = verify(tmp_path / "forged", "S")
    assert verdict is not None and not verdict.intact and 3 in verdict.found.changed
    code, told = command(str(tmp_path / "forged"), "--json")
    (shown,) = json.loads(told)
    assert (code, shown["intact"], shown["changed"]) == (1, False, verdict.found.changed)


async def test_a_chain_that_was_changed_is_found(tmp_path: Path) -> None:
    await filled(tmp_path)
    path = tmp_path / "jetstream" / "%24G" / "S" / form.FILE_NAME
    good = path.read_bytes()
    for at in (form.HEAD.size + 1, form.HEAD.size + 20, form.HEAD.size + 2 * form.ENTRY.size + 60):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        verdict = verify(tmp_path, "S")
        assert verdict is not None and verdict.broken_at is not None and not verdict.intact
    without = good[: form.HEAD.size + form.ENTRY.size] + good[form.HEAD.size + 2 * form.ENTRY.size :]
    path.write_bytes(without)
    verdict = verify(tmp_path, "S")
    assert verdict is not None and verdict.broken_at == 3
    for broken in (b"", b"JBHCHAIN", bytes([good[0] ^ 1]) + good[1:], good[:20] + b"\1" + good[21:]):
        path.write_bytes(broken)
        assert command(str(tmp_path), "S")[0] == 2


async def test_a_torn_end_is_made_again(tmp_path: Path) -> None:
    await filled(tmp_path)
    path = tmp_path / "jetstream" / "%24G" / "S" / form.FILE_NAME
    good = path.read_bytes()
    for torn in (good[:-10], good[:-100], good + b"x" * 7, good[:-30] + bytes(30), good[: form.HEAD.size], b""):
        path.write_bytes(torn)
        with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
            client = await nats.connect(server.url)
            await api(client, "STREAM.INFO.S")
            await client.close()
        if torn:
            assert path.read_bytes() == good
        verdict = verify(tmp_path, "S")
        assert verdict is not None and verdict.intact and verdict.found.matching == 5


async def test_a_chain_that_is_ahead_of_its_log_says_so(tmp_path: Path) -> None:
    """A machine that lost its power may have kept more of the chain than of the log."""
    await filled(tmp_path)
    path = tmp_path / "jetstream" / "%24G" / "S" / form.FILE_NAME
    header = form.read_header(path.read_bytes())
    last = list(form.entries(path.read_bytes()))[-1]
    more = form.new_entry(header.hash, last.chain, 6, form.MESSAGE, bytes(32))
    path.write_bytes(path.read_bytes() + more)
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url)
        assert (await client.jetstream().publish("s.a", b"another")).seq == 6
        assert (await head_of(client)).startswith("6:")
        await client.close()
    verdict = verify(tmp_path, "S")
    assert verdict is not None and verdict.intact and (verdict.rewound, verdict.found.matching) == (1, 6)


async def test_a_chain_may_begin_late_and_end(tmp_path: Path) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        await create(client, metadata={})
        for _ in range(3):
            await js.publish("s.a", b"before")
        assert HEAD not in (await api(client, "STREAM.INFO.S"))["config"]["metadata"]
        await create(client, "UPDATE")
        await js.publish("s.a", b"first")
        head = await head_of(client)
        assert head.startswith("4:")
        # what the server shows comes back from clients that edit a configuration: it is not stored
        await create(client, "UPDATE", metadata={KEY: "sha256", HEAD: "77:00"})
        assert await head_of(client) == head
        await create(client, "UPDATE", metadata={})
        await js.publish("s.a", b"not chained")
        await create(client, "UPDATE")
        assert (await head_of(client)).startswith("5:")
        await client.close()
    verdict = verify(tmp_path, "S", head=head)
    assert verdict is not None and verdict.intact and verdict.found.matching == 5


@pytest.mark.parametrize("config", [{"algorithm": "md5"}, {"storage": "memory"}, {"algorithm": "../x"}])
async def test_a_stream_without_a_chain_says_why(tmp_path: Path, config: dict[str, Any]) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url)
        await create(client, **config)
        await client.jetstream().publish("s.a", b"stored all the same")
        assert HEAD not in (await api(client, "STREAM.INFO.S"))["config"]["metadata"]
        await client.close()
    assert any("[WRN] Stream '$G > S': it has no hash chain: " in line for line in server.log)


def test_a_store_without_chains_is_intact_and_one_that_is_none_is_not(tmp_path: Path) -> None:
    assert command(str(tmp_path))[0] == 2
    assert command()[0] == 2
    assert command(str(tmp_path), "--head", "1:00")[0] == 2
