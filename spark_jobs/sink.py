"""`df.write` and `df.writeStream.format("jetstream")`: rows become messages, published through a broker.

Each message carries a Nats-Msg-Id of query, epoch, partition and row. A task that Spark starts again publishes the same
ids, so the stream stores nothing twice within its duplicate window.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from jetbroker.client.server import Server
from jetbroker.store.offline.reader import is_literal
from spark_jobs.options import check_role, count
from spark_jobs.publisher import Publisher, PublishError
from spark_jobs.workers import in_one_sentence

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

COLUMNS = {
    "subject": ("string",),
    "data": ("binary", "string"),
    "headers": ("map<string,array<string>>", "map<string,string>"),
    "msg_id": ("string",),
}
MESSAGE_ID = "Nats-Msg-Id"
EXPECTED_STREAM = "Nats-Expected-Stream"
IN_FLIGHT = 4096
MOST_IN_FLIGHT = 1_000_000
ACK_SECONDS = 30
MOST_ACK_SECONDS = 86_400
QUERY_PROPERTY, EPOCH_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"  # what Spark tells its tasks


@dataclass
class Published(WriterCommitMessage):
    """What one task did: messages stored, and messages that the stream had already."""

    stored: int
    repeated: int


class Rows:
    """How rows become messages: the same for batch and streaming. Pickled to the tasks."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        check_role(options, "write and writeStream")
        if overwrite:
            raise PublishError('a stream only grows: use mode("append"), and outputMode append')
        urls = tuple(url.strip() for url in options.get("url", "").split(",") if url.strip())
        if not urls:
            raise PublishError('the option "url" is missing: where the broker is, as nats://host:4222')
        self.server = Server(
            urls,
            user=options.get("user", ""),
            password=options.get("password", ""),
            token=options.get("token", ""),
            credentials=options.get("credentials", ""),
            nkey=options.get("nkey", ""),
            tls_ca=options.get("tlsCa", ""),
            tls_cert=options.get("tlsCert", ""),
            tls_key=options.get("tlsKey", ""),
        )
        self.in_flight = count(options, "maxInFlight", IN_FLIGHT, MOST_IN_FLIGHT) or IN_FLIGHT
        self.ack_seconds = count(options, "ackTimeout", ACK_SECONDS, MOST_ACK_SECONDS) or ACK_SECONDS
        self.subject = options.get("subject", "")
        self.expected = _header(EXPECTED_STREAM, options["stream"]) if options.get("stream") else b""
        self._check_columns(schema)

    def _check_columns(self, schema: StructType) -> None:
        for column in schema.fields:
            kind = column.dataType.simpleString()
            if column.name not in COLUMNS:
                raise PublishError(f"column {column.name!r} cannot be published: select {', '.join(COLUMNS)}")
            if kind not in COLUMNS[column.name]:
                raise PublishError(f"column {column.name!r} is {kind}, not {' or '.join(COLUMNS[column.name])}")
        names = schema.fieldNames()
        if "data" not in names:
            raise PublishError("there is no column 'data': what the messages hold")
        if ("subject" in names) == bool(self.subject):
            what = "both" if self.subject else "neither"
            raise PublishError(f"there is {what} a column and an option 'subject': where the messages go")
        if self.subject and not is_literal(self.subject):
            raise PublishError(f"option subject: {self.subject!r} is no subject to publish to")

    def publisher(self) -> Publisher:
        return Publisher(self.server, self.in_flight, self.ack_seconds)

    def publish(self, batches: Iterator[pa.RecordBatch], prefix: str) -> Published:
        """Publishes the rows of one task. Their ids are `prefix`, the row's number and a checksum of the message.

        The checksum matters when Spark repeats a task with its rows in another order: then messages are stored twice,
        rather than one being taken for another and lost.
        """
        row = 0
        with self.publisher() as publisher:
            for batch in batches:
                for subject, data, headers, given in self._messages(batch):
                    self._check(subject, data, publisher.max_payload)
                    lines = b"".join(_header(name, value) for name, value in headers)
                    if not given:
                        checksum = zlib.crc32(data, zlib.crc32(lines, zlib.crc32(subject.encode())))
                        given = b"%s: %s:%d:%08x\r\n" % (MESSAGE_ID.encode(), prefix.encode(), row, checksum)
                    block = b"NATS/1.0\r\n%s%s%s\r\n" % (given, self.expected, lines)
                    publisher.publish(subject, block, data)
                    row += 1
            publisher.flush()
            return Published(publisher.stored, publisher.repeated)

    def _check(self, subject: str | None, data: bytes, max_payload: int) -> None:
        if subject is None or not is_literal(subject):
            raise PublishError(f"a row has the subject {subject!r}, which is none to publish to")
        if len(data) > max_payload:
            raise PublishError(f"a row for {subject!r} has {len(data)} bytes, the broker takes {max_payload}")

    def _messages(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, bytes, list[tuple[str, str]], bytes]]:
        """(subject, data, headers, line of its own message id or b"")."""
        rows = batch.num_rows
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        subjects = columns.get("subject") or [self.subject] * rows
        headers = columns.get("headers") or [None] * rows
        ids = columns.get("msg_id") or [None] * rows
        for subject, data, fields, own in zip(subjects, columns["data"], headers, ids, strict=True):
            pairs = _pairs(fields) if fields else []
            if own is None and pairs:
                own = next((value for name, value in pairs if name == MESSAGE_ID), None)
            if pairs:
                pairs = [pair for pair in pairs if pair[0] != MESSAGE_ID]
            payload = data.encode() if isinstance(data, str) else bytes(data or b"")
            yield subject, payload, pairs, _header(MESSAGE_ID, own) if own else b""


def _pairs(fields: Any) -> list[tuple[str, str]]:
    """The lines of a map column, whose values are texts or lists of texts."""
    found: list[tuple[str, str]] = []
    for name, values in fields.items() if isinstance(fields, dict) else fields:
        for value in values if isinstance(values, list) else [values]:
            found.append((name, value or ""))
    return found


def _header(name: str, value: str) -> bytes:
    if not name or not name.isprintable() or ":" in name or " " in name or not name.isascii():
        raise PublishError(f"{name!r} is no name of a header")
    if "\r" in value or "\n" in value:
        raise PublishError(f"the header {name!r} has a line break in its value")
    return f"{name}: {value}\r\n".encode()


def _task() -> TaskContext:
    """What Spark tells the task that runs this."""
    task = TaskContext.get()
    if task is None:
        raise PublishError("rows are published by tasks of Spark alone")
    return task


@in_one_sentence
class JetStreamWriter(DataSourceArrowWriter):
    """One write of a batch; its id is made once, on the driver, so that all attempts of its tasks share it."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self.rows = Rows(options, schema, overwrite)
        self.id = options.get("writeId") or uuid.uuid4().hex
        _header(MESSAGE_ID, self.id)
        self.rows.publisher().close()  # an address that is wrong is told here, once

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.rows.publish(iterator, f"{self.id}:0:{_task().partitionId()}")


@in_one_sentence
class JetStreamStreamWriter(DataSourceStreamArrowWriter):
    """One streaming query; the id of the query comes from its checkpoint, so that it outlives restarts."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if options.get("writeId"):
            raise PublishError("option writeId is for df.write: a streaming query has an id of its own")
        self.rows = Rows(options, schema, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = _task()
        query, epoch = task.getLocalProperty(QUERY_PROPERTY), task.getLocalProperty(EPOCH_PROPERTY)
        if query is None or epoch is None:
            raise PublishError("Spark does not tell which query and epoch this is, so rows would have no ids")
        return self.rows.publish(iterator, f"{query}:{epoch}:{task.partitionId()}")
