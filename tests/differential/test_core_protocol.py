"""The same bytes to nats-server and to jetbroker: whole, byte by byte, cut in two. The answers are equal."""

from __future__ import annotations

import json
import socket

import pytest

from tests.differential.core_rows import ROWS
from tests.support.process import ServerProcess
from tests.support.wire import Row, answers

pytestmark = pytest.mark.differential

# INFO fields whose values belong to one server, build or address
NOT_OURS = {"git_commit", "xkey"}  # a build's commit; the key of auth callout, which there is none of
OWN_VALUES = {"server_id", "server_name", "version", "go", "git_commit", "port", "client_id", "xkey"}


def test_rows_have_names_of_their_own() -> None:
    names = [row.name for row in ROWS]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_answers_are_equal(row: Row, reference_server: ServerProcess, broker: ServerProcess) -> None:
    expected = await answers(reference_server.port, row)
    got = await answers(broker.port, row)
    differences = [
        f"{way}\n  nats-server {expected[way]}\n  jetbroker   {got[way]}"
        for way in expected
        if expected[way] != got[way]
    ]
    assert not differences, f"{len(differences)} of {len(expected)} ways differ\n" + "\n".join(differences[:3])


def _first_info(port: int) -> dict[str, object]:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection, connection.makefile("rb") as lines:
        line = lines.readline()
    verb, _, text = line.partition(b" ")
    assert (verb, line[-3:]) == (b"INFO", b" \r\n")
    info: dict[str, object] = json.loads(text)
    return info


def test_first_info_has_the_same_fields(reference_server: ServerProcess, broker: ServerProcess) -> None:
    expected, got = _first_info(reference_server.port), _first_info(broker.port)
    assert [key for key in got if key not in NOT_OURS] == [key for key in expected if key not in NOT_OURS]
    assert {key: value for key, value in got.items() if key not in OWN_VALUES} == {
        key: value for key, value in expected.items() if key not in OWN_VALUES
    }
