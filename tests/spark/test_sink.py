"""Rows that become messages of a broker; no Spark runs here (see test_streaming for that)."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, BinaryType, LongType, MapType, StringType, StructField, StructType

from jetbroker.client.server import ClientError
from jetbroker.client.server import Server as Target
from jetbroker.errors import StoreReadError
from jetbroker.store.offline.reader import open_stream
from jetbroker.testing import Server
from spark_jobs.publisher import Publisher, PublishError
from spark_jobs.sink import JetStreamStreamWriter, JetStreamWriter, Rows
from spark_jobs.source import JetStreamDataSource
from tests.support.certificates import make
from tests.support.nkeys import UserKey

TYPES = {
    "string": StringType(),
    "binary": BinaryType(),
    "bigint": LongType(),
    "headers": MapType(StringType(), ArrayType(StringType())),
}
SCHEMA = "subject string, data binary, headers headers"


def schema_of(text: str) -> StructType:
    """`name type, name type`: Spark reads such a text only in a session."""
    fields = (column.split() for column in text.split(","))
    return StructType([StructField(name, TYPES[kind]) for name, kind in fields])


def rows_of(url: str, schema: str = SCHEMA, **options: str) -> Rows:
    return Rows({"url": url, **options}, schema_of(schema), False)


def batch(**columns: list[Any]) -> pa.RecordBatch:
    types = {"headers": pa.map_(pa.string(), pa.list_(pa.string())), "subject": pa.string()}
    arrays = {name: pa.array(values, types.get(name)) for name, values in columns.items()}
    return pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))


def numbered(count: int) -> pa.RecordBatch:
    return batch(subject=[f"orders.{i % 3}" for i in range(count)], data=[b"%d" % i for i in range(count)])


@pytest.fixture(scope="module")
def broker() -> Iterator[Server]:
    with Server(jetstream=True) as running:
        yield running


@pytest.fixture
async def server(broker: Server) -> AsyncIterator[Server]:
    """The broker with an empty stream ORDERS."""
    import nats

    client = await nats.connect(broker.url)
    await client.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
    yield broker
    await client.jetstream().delete_stream("ORDERS")
    await client.close()


def stored(server: Server) -> list[dict[str, Any]]:
    found = open_stream(server.store_dir, "ORDERS").to_arrow(["subject", "headers", "data"]).to_pylist()
    return [{**row, "headers": dict(row["headers"])} for row in found]


async def test_columns_become_subject_headers_and_payload(server: Server) -> None:
    there = batch(
        subject=["orders.a", "orders.b", "orders.c"],
        data=[b"\x00\xff", "grün".encode(), None],
        headers=[[("Tag", ["x", "y"])], [("Nats-Msg-Id", ["mine"]), ("A", ["1"])], None],
    )
    done = rows_of(server.url).publish(iter([there]), "q:0:0")
    assert (done.stored, done.repeated) == (3, 0)
    first, second, third = stored(server)
    assert (first["subject"], first["data"], first["headers"]["Tag"]) == ("orders.a", b"\x00\xff", ["x", "y"])
    assert first["headers"]["Nats-Msg-Id"][0].startswith("q:0:0:0:")
    assert second == {
        "subject": "orders.b", "data": "grün".encode(), "headers": {"Nats-Msg-Id": ["mine"], "A": ["1"]},
    }  # fmt: skip
    assert (third["data"], list(third["headers"])) == (b"", ["Nats-Msg-Id"])


async def test_a_task_that_is_repeated_stores_nothing_twice(server: Server) -> None:
    rows = rows_of(server.url, maxInFlight="64")
    assert rows.publish(iter([numbered(300)]), "q:7:1").stored == 300
    again = rows.publish(iter([numbered(300)]), "q:7:1")
    assert (again.stored, again.repeated) == (0, 300)
    assert rows.publish(iter([numbered(10)]), "q:8:1").stored == 10  # the next epoch is another
    assert [row["data"] for row in stored(server)[:300]] == [b"%d" % i for i in range(300)]


async def test_an_id_of_ones_own_replaces_the_made_one(server: Server) -> None:
    rows = rows_of(server.url, "data string, msg_id string", subject="orders.x")
    done = rows.publish(iter([batch(data=["a", "b"], msg_id=["same", "same"])]), "q:0:0")
    assert (done.stored, done.repeated) == (1, 1)


class CutLink:
    """A way to the broker that is cut once, after so many bytes of the client."""

    def __init__(self, port: int, after: int) -> None:
        self.port, self.left = port, after
        self.cuts = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.listener.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            broker = socket.create_connection(("127.0.0.1", self.port))
            threading.Thread(target=self._copy, args=(broker, client, False), daemon=True).start()
            threading.Thread(target=self._copy, args=(client, broker, not self.cuts), daemon=True).start()

    def _copy(self, origin: socket.socket, to: socket.socket, cutting: bool) -> None:
        try:
            while data := origin.recv(4096):
                to.sendall(data)
                self.left -= len(data) if cutting else 0
                if cutting and self.left < 0:
                    self.cuts += 1
                    break
        except OSError:
            pass  # the other direction ended first
        for end in (origin, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed already


async def test_a_link_that_is_cut_loses_and_repeats_nothing(server: Server) -> None:
    link = CutLink(server.port, 60_000)
    done = rows_of(link.url).publish(iter([numbered(3000)]), "q:0:0")
    link.listener.close()
    assert link.cuts == 1
    assert done.stored + done.repeated == 3000
    assert sorted(int(row["data"]) for row in stored(server)) == list(range(3000))


@pytest.mark.parametrize(
    ("there", "options", "text"),
    [
        (batch(subject=["nobody.here"], data=[b""]), {}, "no stream takes the subject 'nobody.here'"),
        (batch(subject=["a..b"], data=[b""]), {}, "subject 'a..b', which is none to publish to"),
        (batch(subject=["orders.*"], data=[b""]), {}, "subject 'orders.\\*', which is none to publish to"),
        (batch(subject=[None], data=[b""]), {}, "subject None"),
        (batch(subject=["orders.a"], data=[b""]), {"stream": "OTHER"}, "refused: expected stream does not match"),
        (batch(subject=["orders.a"], data=[bytes(2**20 + 1)]), {}, "has 1048577 bytes, the broker takes 1048576"),
        (batch(subject=["orders.a"], data=[b""], headers=[[("A", ["x\r\ny"])]]), {}, "'A' has a line break"),
        (batch(subject=["orders.a"], data=[b""], headers=[[("A:", ["x"])]]), {}, "'A:' is no name of a header"),
    ],
)
async def test_rows_that_cannot_be_published_are_named(
    server: Server, there: pa.RecordBatch, options: dict[str, str], text: str
) -> None:
    with pytest.raises(ClientError, match=text):
        rows_of(server.url, **options).publish(iter([there]), "q:0:0")


@pytest.mark.parametrize(
    ("schema", "options", "text"),
    [
        (SCHEMA, {"url": ""}, 'the option "url" is missing'),
        (SCHEMA, {"url": "http://a"}, "'http://a' is no URL of a server"),
        (SCHEMA, {"subject": "a"}, "both a column and an option 'subject'"),
        ("data binary", {}, "neither a column and an option 'subject'"),
        ("data binary", {"subject": "a.>"}, "'a.>' is no subject to publish to"),
        ("subject string", {}, "no column 'data'"),
        ("subject string, data bigint", {}, "column 'data' is bigint, not binary or string"),
        ("subject string, data string, seq bigint", {}, "column 'seq' cannot be published"),
        (SCHEMA, {"maxInFlight": "many"}, "'many' is not a number from 1 to"),
        (SCHEMA, {"startSeq": "1"}, "option startSeq is for read, not for write"),
    ],
)
def test_mistakes_are_named(schema: str, options: dict[str, str], text: str) -> None:
    with pytest.raises((ClientError, StoreReadError), match=text):
        rows_of(**{"url": "nats://127.0.0.1:1", "schema": schema, **options})


def test_a_stream_only_grows() -> None:
    with pytest.raises(PublishError, match="a stream only grows"):
        JetStreamWriter({"url": "nats://127.0.0.1:1"}, schema_of(SCHEMA), True)
    with pytest.raises(PublishError, match=r"option writeId is for df\.write"):
        JetStreamStreamWriter({"url": "nats://a", "writeId": "x"}, schema_of(SCHEMA), False)


def test_an_unreachable_url_is_one_sentence() -> None:
    source = JetStreamDataSource({"url": "nats://me:secret@127.0.0.1:1"})
    with pytest.raises(ClientError, match=r"^nats://127\.0\.0\.1:1 cannot be reached: .*refused$"):
        source.writer(schema_of(SCHEMA), False)


def test_what_is_no_nats_server_is_said() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        peer, _ = listener.accept()
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        peer.close()

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    with pytest.raises(ClientError, match="is no NATS server"):
        Publisher(Target((f"nats://127.0.0.1:{listener.getsockname()[1]}",)), 1, 1)
    thread.join()
    listener.close()


@pytest.fixture
def configured(tmp_path: Path) -> Iterator[Any]:
    """Starts a server with a configuration; the store is its own."""
    servers: list[Server] = []

    def start(text: str) -> Server:
        path = tmp_path / "server.conf"
        path.write_text(text)
        servers.append(Server("-c", str(path), jetstream=True).start())
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def logs_in(url: str, **options: str) -> None:
    rows_of(url, **options).publisher().close()


def test_it_logs_in_by_user_token_and_nkey(configured: Any, tmp_path: Path) -> None:
    key = UserKey()
    seed = key.seed
    server = configured(f"authorization {{ users [ {{user: me, password: secret}}, {{nkey: {key.public}}} ] }}")
    logs_in(server.url, user="me", password="secret")
    logs_in(server.url.replace("//", "//me:secret@"))
    logs_in(server.url, nkey=seed)
    (tmp_path / "me.nk").write_text(f"# mine\n{seed}\n")
    logs_in(server.url, nkey=str(tmp_path / "me.nk"))
    with pytest.raises(ClientError, match="refuses this login: 'Authorization Violation'"):
        logs_in(server.url, user="me", password="wrong")
    with pytest.raises(ClientError, match=r"the login cannot be used: .*malformed seed"):
        logs_in(server.url, nkey="SUnone")
    with pytest.raises(ClientError, match=r"the login cannot be used: open .*no such file"):
        logs_in(server.url, credentials=str(tmp_path / "nowhere.creds"))


def test_it_logs_in_by_a_token(configured: Any) -> None:
    server = configured("authorization { token: secret }")
    logs_in(server.url, token="secret")
    logs_in(server.url.replace("//", "//secret@"))
    with pytest.raises(ClientError, match="refuses this login"):
        logs_in(server.url)


def test_it_publishes_over_tls(configured: Any, tmp_path: Path) -> None:
    made = make(tmp_path)
    server = configured(made.tls_block(verify=True))
    files = {"tlsCa": str(made.ca.cert), "tlsCert": str(made.client.cert), "tlsKey": str(made.client.key)}
    logs_in(server.url, **files)
    logs_in(server.url.replace("nats:", "tls:"), **files)
    with pytest.raises(ClientError, match=r"ended the connection at its start|refuses"):
        logs_in(server.url, tlsCa=files["tlsCa"])
    with pytest.raises(ClientError, match=r"the TLS files .* cannot be used"):
        logs_in(server.url, tlsCa=str(tmp_path / "nowhere.pem"))
