"""`jetbroker store`: ls, info, cat and export on the files of a store, while a broker runs on it or not."""

from __future__ import annotations

import base64
import csv
import fcntl
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.support import process
from tests.support.store_command import Run
from tests.support.stores import StreamWriter, write_store_marker

pa = pytest.importorskip("pyarrow")

BINARY = b"\x00\xff\x1b[31m"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Account $G: ORDERS with twelve messages in two segments, sequence 3 deleted. Account B: EMPTY."""
    writer = StreamWriter(tmp_path, "ORDERS")
    for number in range(1, 13):
        writer.append(b"orders.eu" if number % 2 else b"orders.us", b'{"amount": %d}' % number)
        if number == 6:
            writer.seal()
    writer.append(b"raw\x1b[2J", BINARY, b"NATS/1.0\r\nTag: a\r\nTag: b\r\n\r\n")
    writer.delete([(3, 3)])
    writer.close()
    StreamWriter(tmp_path, "EMPTY", "B").close()
    return tmp_path


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_ls_lists_streams_of_all_accounts(run: Run, store: Path) -> None:
    code, out, err = run("ls", store)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split()[:4] == ["Account", "Stream", "Messages", "Size"]
    assert [line.split()[:3] for line in lines[1:]] == [["$G", "ORDERS", "12"], ["B", "EMPTY", "0"]]
    assert "\x1b" not in out
    found = json.loads(run("ls", store, "--json")[1])
    assert [(each["stream"], each["messages"], each["first_seq"], each["last_seq"]) for each in found] == [
        ("ORDERS", 12, 1, 13),
        ("EMPTY", 0, 0, 0),
    ]
    assert found[0]["first_time"] == "2023-11-14T22:13:20.001Z" and found[1]["first_time"] is None
    assert len(run("ls", store, "--account", "B")[1].splitlines()) == 2


def test_info_shows_segments_and_subjects(run: Run, store: Path) -> None:
    code, out, err = run("info", store, "ORDERS", "--json")
    shown = json.loads(out)
    assert (code, err) == (0, "")
    assert shown["top_subjects"] == {"orders.us": 6, "orders.eu": 5, "raw\x1b[2J": 1} and shown["subjects"] == 3
    assert [(each["sealed"], each["first_seq"], each["messages"]) for each in shown["segments"]] == [
        (True, 1, 5),
        (False, 7, 7),
    ]
    text = run("info", store, "ORDERS", "--subjects", 1)[1]
    assert "orders.us" in text and "orders.eu" not in text
    assert "\x1b" not in run("info", store, "ORDERS")[1]


def damage(store: Path, old: bytes, new: bytes) -> None:
    path = next(path for path in sorted(store.rglob("*.seg")) if old in path.read_bytes())
    path.write_bytes(path.read_bytes().replace(old, new))


def test_damage_is_told_and_the_rest_is_read(run: Run, store: Path) -> None:
    damage(store, b'"amount": 5', b'"amount": 9')
    assert run("info", store, "ORDERS")[0] == 0  # the footer of a sealed segment answers
    code, out, err = run("info", store, "ORDERS", "--check", "--json")
    assert (code, json.loads(out)["damaged"]) == (1, [[5, 5]]) and "cannot be read: 5\n" in err
    code, out, err = run("cat", store, "ORDERS", "-o", "ndjson", "--end-seq", 6)
    assert (code, [row["seq"] for row in objects(out)]) == (1, [1, 2, 4, 6])
    assert err.endswith("these messages cannot be read: 5\n")
    code, out, err = run("cat", store, "ORDERS", "-o", "ndjson", "--limit", 4)
    assert (code, [row["seq"] for row in objects(out)]) == (1, [1, 2, 4, 6])
    assert err.endswith("these messages cannot be read: 5\n")


def test_verify_of_a_store_without_chains_says_what_it_did_not_look_for(run: Run, store: Path) -> None:
    code, out, err = run("verify", store)
    assert (code, out, err.count("\n")) == (0, "", 1)
    assert "no stream of this store has a hash chain" in err and "store info STORE STREAM --check" in err
    assert run("verify", store, "--json")[:2] == (0, "[]\n")


def test_cat_prints_lines_that_stand_below_each_other(run: Run, store: Path) -> None:
    code, out, _ = run("cat", store, "ORDERS", "--limit", 2)
    head, *lines = out.splitlines()
    assert (code, len(lines)) == (0, 2)
    assert head.split() == ["seq", "time", "subject", "headers", "data"]
    assert {line.index("orders.") for line in lines} == {head.index("subject")}
    raw = run("cat", store, "ORDERS", "--start-seq", 13)[1]
    assert r"raw\x1b[2J" in raw and "Tag: a | b" in raw and "\x1b" not in raw


def test_cat_as_lines_of_json_loses_no_byte(run: Run, store: Path) -> None:
    row = objects(run("cat", store, "ORDERS", "--start-seq", 13, "--json")[1])[0]
    assert row == {
        "seq": 13,
        "time": "2023-11-14T22:13:20.013000Z",
        "subject": "raw\x1b[2J",
        "headers": {"Tag": ["a", "b"]},
        "data_base64": base64.b64encode(BINARY).decode(),
    }


def test_cat_as_csv(run: Run, store: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run("cat", store, "ORDERS", "--start-seq", 12, "-o", "csv")[1])))
    assert [(row["seq"], row["headers"], row["data"], row["data_base64"]) for row in rows] == [
        ("12", "", '{"amount": 12}', ""),
        ("13", '{"Tag":["a","b"]}', "", base64.b64encode(BINARY).decode()),
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--subject", "orders.us", "--limit", 2], [2, 4]),
        (["--limit", 0], []),
        (["--since", "2023-11-14T22:13:20.012Z"], [12, 13]),
        (["--since", "10m"], []),
        (["--since", "99999d", "--until", "2023-11-14T22:13:20.003Z"], [1, 2]),
        (["--start-seq", 2, "--end-seq", 4], [2, 4]),
    ],
)
def test_rows_are_chosen(run: Run, store: Path, words: list[object], expected: list[int]) -> None:
    assert [row["seq"] for row in objects(run("cat", store, "ORDERS", "-o", "ndjson", *words)[1])] == expected


def test_payloads_are_decoded(run: Run, store: Path) -> None:
    words = ["cat", store, "ORDERS", "-o", "ndjson", "--start-seq", 12, "--decode", "amount decimal(6,2)"]
    rows = objects(run(*words, "--columns", "amount,_corrupt")[1])
    assert rows == [
        {"amount": "12.00", "_corrupt": None},
        {"amount": None, "_corrupt_base64": base64.b64encode(BINARY).decode()},
    ]
    code, _, err = run(*words, "--mode", "failing")
    assert code == 1 and "stream 'ORDERS', sequence 13: the payload does not validate" in err


@pytest.mark.parametrize("ending", ["parquet", "ndjson", "csv"])
def test_export_writes_a_file_of_each_form(run: Run, store: Path, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"out.{ending}"
    code, out, err = run("export", store, "ORDERS", target, "--json", "--decode", "amount long", "--mode", "dropping")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "stream": "ORDERS",
        "file": str(target),
        "messages": 11,
        "bytes": target.stat().st_size,
        "damaged": [],
    }
    if ending == "parquet":
        from pyarrow import parquet

        amounts = parquet.read_table(target).column("amount").to_pylist()
    elif ending == "ndjson":
        amounts = [row["amount"] for row in objects(target.read_text())]
    else:
        amounts = [int(row["amount"]) for row in csv.DictReader(io.StringIO(target.read_text()))]
    assert amounts == [1, 2, *range(4, 13)]


def test_an_export_that_fails_leaves_nothing_behind_and_replaces_nothing(run: Run, store: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.parquet"
    code, _, err = run("export", store, "ORDERS", target, "--decode", "amount long", "--mode", "failing")
    assert (code, target.exists()) == (1, False) and "sequence 13" in err and "was not written" in err
    target.write_bytes(b"mine")
    assert run("export", store, "ORDERS", target)[0] == 2
    assert run("export", store, "ORDERS", target, "--force", "--decode", "amount long", "--mode", "failing")[0] == 1
    assert target.read_bytes() == b"mine"
    assert run("export", store, "ORDERS", target, "--force")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jetstream", "out.parquet"]


def test_what_killed_exports_left_is_removed_by_the_next(run: Run, store: Path, tmp_path: Path) -> None:
    def unfinished(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    left = unfinished(".old.csv.12.jetbroker.part", b"seq")
    being_made = unfinished(".new.csv.13.jetbroker.part", b"")
    another = unfinished(".else.csv.14.part", b"theirs")
    with unfinished(".now.csv.15.jetbroker.part", b"seq").open("rb") as written:
        fcntl.flock(written, fcntl.LOCK_EX)
        assert run("export", store, "ORDERS", tmp_path / "out.csv")[0] == 0
        assert not left.exists()
        assert being_made.exists() and another.exists() and Path(written.name).exists()
    os.utime(being_made, (0, 0))
    assert run("export", store, "ORDERS", tmp_path / "out.csv", "--force")[0] == 0
    assert sorted(path.name for path in tmp_path.glob(".*")) == [another.name]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cat", "STORE", "NONE"], "no stream 'NONE' of account '$G'"),
        (["cat", "STORE", "EMPTY"], "there is ORDERS"),
        (
            ["cat", "STORE", "ORDERS", "--since", "soon"],
            "nor milliseconds since 1970, nor a duration before now (90s, 2h, 7d)",
        ),
        (["cat", "STORE", "ORDERS", "--columns", "x"], "no column 'x'"),
        (["cat", "STORE", "ORDERS", "--subject", "a..b"], "not a valid subject"),
        (["cat", "STORE", "ORDERS", "--limit", "-1"], "--limit: -1"),
        (["cat", "STORE", "ORDERS", "--decode", "a dubble"], "'dubble' is no type"),
        (["cat", "STORE", "ORDERS", "--decode", "a int", "--model", "a:B"], "not both"),
        (["cat", "STORE", "ORDERS", "--model", "no.such:Model"], "cannot be imported"),
        (["ls", "STORE/none"], "no such directory"),
        (["ls", "STORE/jetstream/%24G"], "no store of jetbroker"),
        (["export", "STORE", "ORDERS", "STORE/out.xls"], "say which with -o"),
        (["export", "STORE", "ORDERS", "STORE/none/out.csv"], "there is no folder"),
        (["cat", "STORE"], "STREAM"),
        (["dump", "STORE"], "invalid choice"),
        ([], "COMMAND"),
    ],
)
def test_wrong_usage_is_code_2_and_one_sentence(run: Run, store: Path, words: list[str], said: str) -> None:
    code, out, err = run(*(word.replace("STORE", str(store)) for word in words))
    assert (code, out) == (2, "")
    assert said in err and "Traceback" not in err


def test_a_store_of_a_newer_release_is_refused(run: Run, tmp_path: Path) -> None:
    write_store_marker(tmp_path, 99)
    code, _, err = run("ls", tmp_path)
    assert code == 2 and "update jetbroker" in err


@pytest.mark.parametrize("word", ["", "ls", "info", "cat", "export", "infer", "verify"])
def test_every_command_has_help(run: Run, word: str) -> None:
    code, out, _ = run(*filter(None, [word]), "--help")
    assert code == 0 and "usage: " in out


def test_a_broken_pipe_ends_quietly(store: Path) -> None:
    command = [sys.executable, "-m", "jetbroker", "store", "cat", str(store), "ORDERS", "-o", "ndjson"]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=50)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_infer_prints_a_model_that_takes_the_payloads(run: Run, store: Path) -> None:
    code, out, err = run("infer", store, "ORDERS", "--subject", "orders.*", "--json")
    found = json.loads(out)
    assert (code, err, found["text"], found["sampled"], found["others"]) == (0, "", "amount long", 11, 0)
    assert "class ORDERS" not in found["model"] and "class Orders(BaseModel):\n    amount: int" in found["model"]
    assert run("infer", store, "ORDERS")[1].endswith("\n\n# json='amount long'\n")
    code, out, err = run("infer", store, "ORDERS", "--subject", "raw*.>")
    assert (code, out) == (1, "") and "nothing to infer" in err


async def test_a_store_is_read_while_its_broker_runs_and_after(run: Run, tmp_path: Path) -> None:
    server = process.jetbroker("-js", "-sd", str(tmp_path))
    server.start()
    try:
        client = await nats.connect(server.url)
        js = client.jetstream()
        await js.add_stream(name="LIVE", subjects=["live.>"])
        for number in range(5):
            await js.publish(f"live.{number % 2}", b"%d" % number)
        puller = await js.pull_subscribe("live.1", durable="ones")
        for message in await puller.fetch(2):
            await message.ack_sync(timeout=30)
        assert [row["data"] for row in objects(run("cat", tmp_path, "LIVE", "--json")[1])] == list("01234")
        await js.publish("live.0", b"5")  # the broker has not been held up
        assert json.loads(run("ls", tmp_path, "--json")[1])[0]["messages"] == 6
        await client.close()
    finally:
        server.stop()
    shown = json.loads(run("info", tmp_path, "LIVE", "--json")[1])
    (consumer,) = shown["consumers"]
    assert (shown["messages"], shown["top_subjects"]) == (6, {"live.0": 4, "live.1": 2})
    assert (consumer["name"], consumer["filters"], consumer["ack_pending"]) == ("ones", ["live.1"], 0)
    assert consumer["delivered_seq"] == consumer["ack_floor_seq"] == 4
