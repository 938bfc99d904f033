"""The Spark job that checks tamper-evident streams."""

from __future__ import annotations

import json
from pathlib import Path

import nats
import pytest

from jetbroker.store.format.hash_chain import ENTRY, FILE_NAME, HEAD
from jetbroker.store.offline.integrity import verify
from jetbroker.store.offline.places import place_of
from jetbroker.store.shipping.shipper import Shipper
from spark_jobs import integrity_audit
from spark_jobs.session import SparkMissingError, java_version
from tests.support import process

pytestmark = pytest.mark.spark


async def test_spark_comes_to_the_same_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        java_version()
    except SparkMissingError as error:
        pytest.skip(str(error))
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url)
        wanted = {"name": "S", "subjects": ["s.>"], "metadata": {"jetbroker.hash_chain": "sha256"}}
        await client.request("$JS.API.STREAM.CREATE.S", json.dumps(wanted).encode(), 30)
        for number in range(5):
            await client.jetstream().publish("s.a", b"%d" % number)
        await client.close()
    assert integrity_audit.main([str(tmp_path), "S", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    verdict = verify(tmp_path, "S")
    assert verdict is not None and shown == verdict.to_json()
    assert integrity_audit.main([str(tmp_path), "S", "--head", "5:00"]) == 1
    table = capsys.readouterr().out.split()
    assert table[:5] == ["Hash", "chain", "of", "S", "of"] and table[table.index("intact") + 1] == "no"
    assert integrity_audit.main([str(tmp_path), "NONE"]) == 2
    place = str(tmp_path / "place")
    list(Shipper(tmp_path, place_of(place), unsealed=True).ship())
    assert integrity_audit.main([place, "S", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == shown
    path = tmp_path / "jetstream" / "%24G" / "S" / FILE_NAME
    data = path.read_bytes()
    at = HEAD.size + 2 * ENTRY.size + 20
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    assert integrity_audit.main([str(tmp_path), "S"]) == 1
