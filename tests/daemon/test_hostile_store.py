"""A broker on a store in which some files, with sound checksums, say what cannot be: it costs those streams only."""

from __future__ import annotations

import json
from pathlib import Path

from jetbroker.store.disk import Disk
from jetbroker.store.format import records as store_format
from jetbroker.store.recovery.decisions import write_checked_json
from tests.store.support import ACCOUNT, open_store, run
from tests.support.daemon import CONNECT, Daemon, Raw

LIMIT_BYTES = 400 * 1024 * 1024  # the old reading of one of these took 1.2 GB


def make(path: Path) -> None:
    """Streams GOOD, FAR (a record 60 million sequences ahead), LYING (a footer) and LOST (another one's folder)."""

    async def fill() -> None:
        store = open_store(str(path), segment_bytes=2000)
        ids = {}
        for name in ("GOOD", "FAR", "LYING", "LOST"):
            config = {
                "name": name,
                "subjects": [f"{name}.*"],
                "storage": "file",
                "retention": "limits",
                "num_replicas": 1,
            }
            log = await store.create_stream(ACCOUNT, name, config, "file", 1)
            for number in range(1, 51):
                log.append_message(b"%b.%d" % (name.encode(), number % 3), b"payload %d" % number, b"", number)
            ids[name] = log.stream_id
        await store.close()
        folder = path / "%24G"
        last = max((folder / "FAR").glob("*.seg"))
        far = store_format.encode_record(store_format.MESSAGE, ids["FAR"], 60_000_000, 60, b"FAR.1", b"", b"far")
        last.write_bytes(last.read_bytes() + far)
        lying = min((folder / "LYING").glob("*.seg"))
        data = bytearray(lying.read_bytes())
        at, length, _ = store_format.decode_trailer(bytes(data)) or (0, 0, 0)
        data[at + 24 : at + 28] = (2**32 - 2).to_bytes(4, "little")  # the place of the first record
        data[-16:-12] = store_format.crc32c(bytes(data[at : at + length])).to_bytes(4, "little")
        lying.write_bytes(data)
        (folder / "LOST").rename(folder / "MOVED")
        write_checked_json(Disk(), f"{path}/clean.json", {"positions": "everywhere"})
        for file in (path / "cache.mdb").iterdir():
            file.unlink()

    run(fill())


def info(raw: Raw, stream: str) -> dict[str, object]:
    """What STREAM.INFO says."""
    raw.send(b"SUB r 1\r\nPUB $JS.API.STREAM.INFO.%b r 0\r\n\r\n" % stream.encode())
    line = b""
    while not line.startswith(b"{"):
        line = raw.line()
    raw.send(b"UNSUB 1\r\n")
    answer: dict[str, object] = json.loads(line)
    return answer


def test_a_broker_serves_the_good_stream_and_says_what_is_wrong_with_the_others(tmp_path: Path) -> None:
    make(tmp_path / "jetstream")
    with Daemon("-js", "-sd", str(tmp_path)) as daemon, daemon.open() as raw:
        raw.send(CONNECT)
        for name in ("GOOD", "FAR", "LYING"):
            state = info(raw, name)["state"]
            assert isinstance(state, dict)
            assert (state["messages"], state["last_seq"]) == (50, 50), name
        error = info(raw, "MOVED")["error"]
        assert isinstance(error, dict)
        assert error["err_code"] == 10194
        assert "files of stream 'LOST'" in error["description"]
        raw.send(b"SUB a 2\r\nPUB GOOD.1 a 2\r\nhi\r\n")
        assert b'"seq":51' in raw.until(b"}\r\n")
        assert daemon.wait_for("Stream '$G > MOVED' is offline")
        assert daemon.wait_for("damaged places")
        assert daemon.wait_for("the footer is damaged; rebuilt from the records")
        assert daemon.peak_bytes() < LIMIT_BYTES
        assert not [line for line in daemon.log if "Traceback" in line]
    assert (tmp_path / "jetstream" / "%24G" / "MOVED" / "stream.json").exists()
