"""Backup and restore over the protocol, as a client does them, and archives made by hand."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import struct
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

from jetbroker.jetstream.backup.archive.highway import highway_hash
from jetbroker.jetstream.backup.archive.s2 import S2Reader, S2Writer
from tests.support.origins import WAIT_SECONDS, Streams

CHUNK = 64 * 1024
ERASED = 1 << 63
TOMBSTONE = 1 << 62


@dataclass
class Backup:
    """What came of a request for one."""

    answer: dict[str, Any]
    archive: bytes
    end: bytes  # headers of the last message
    chunks: list[int]  # their sizes

    @property
    def files(self) -> dict[str, bytes]:
        """By name, in order."""
        reader = S2Reader()
        reader.feed(self.archive)
        plain = b"".join(block for block in iter(reader.next_block, None) if block)
        with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
            found = {}
            for member in tar:
                content = tar.extractfile(member)
                found[member.name] = content.read() if content is not None else b""
        return found


async def backup(streams: Streams, name: str, **request: Any) -> Backup:
    """Ask for a backup and take all of it, answering every chunk."""
    client = streams.client
    inbox = client.new_inbox()
    done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    pieces: list[bytes] = []

    async def take(message: Msg) -> None:
        if not message.data:
            done.set_result(b"".join(f"{k}: {v}".encode() for k, v in (message.headers or {}).items()))
            return
        pieces.append(message.data)
        if message.reply:
            await client.publish(message.reply)

    subscription = await client.subscribe(inbox, cb=take)
    try:
        answer = await streams.api(f"STREAM.SNAPSHOT.{name}", {"deliver_subject": inbox, **request})
        end = b"" if "error" in answer else await asyncio.wait_for(done, WAIT_SECONDS)
    finally:
        await subscription.unsubscribe()
    return Backup(answer, b"".join(pieces), end, [len(piece) for piece in pieces])


async def begin_restore(streams: Streams, config: dict[str, Any]) -> str:
    """Where the chunks go."""
    answer = await streams.api(f"STREAM.RESTORE.{config['name']}", {"config": config, "state": {"messages": 1}})
    assert "error" not in answer, answer
    subject: str = answer["deliver_subject"]
    return subject


async def send(client: Client, subject: str, archive: bytes, chunk: int = CHUNK) -> dict[str, Any]:
    """All chunks, each answered, then the end; the last answer, or the first that says more than nothing."""
    for at in range(0, len(archive), chunk):
        reply = await client.request(subject, archive[at : at + chunk], timeout=WAIT_SECONDS)
        if reply.data:
            return dict(json.loads(reply.data))
    reply = await client.request(subject, b"", timeout=WAIT_SECONDS)
    return dict(json.loads(reply.data))


async def restore(streams: Streams, config: dict[str, Any], archive: bytes, chunk: int = CHUNK) -> dict[str, Any]:
    """The last answer of a restore."""
    return await send(streams.client, await begin_restore(streams, config), archive, chunk)


# --- archives made by hand ---


def key(text: str) -> bytes:
    """The key of the checksums of a file."""
    return hashlib.sha256(text.encode()).digest()


def record(
    stream: str,
    block: int,
    seq: int,
    subject: bytes = b"",
    payload: bytes = b"",
    headers: bytes = b"",
    *,
    time_ns: int = 1,
    headers_len: int | None = None,
) -> bytes:
    """A record of a message block; `headers_len`: what it says of its headers, if not the truth."""
    said = struct.pack("<I", len(headers) if headers_len is None else headers_len)
    body = subject + (said + headers if headers else b"") + payload
    length = 22 + len(body) + 8
    head = struct.pack("<IQqH", length | (1 << 31 if headers else 0), seq, time_ns, len(subject))
    return head + body + highway_hash(key(f"{stream}-{block}"), head[4:20] + subject + headers + payload)


def archive_of(files: Sequence[tuple[str | tarfile.TarInfo, bytes]]) -> bytes:
    """An archive with these files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry, content in files:
            info = tarfile.TarInfo(entry) if isinstance(entry, str) else entry
            if info.isreg():
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed(out.getvalue())


def packed(*pieces: bytes) -> bytes:
    """An S2 stream of these, each in chunks of its own."""
    writer = S2Writer()
    writer.begin()
    for piece in pieces:
        writer.write(piece)
    return writer.read(0, writer.size)


def meta_files(name: str, **config: Any) -> list[tuple[str, bytes]]:
    """A stream's configuration and its checksum."""
    return _checked("", name, {"name": name, **config})


def consumer_files(stream: str, name: str, state: bytes) -> list[tuple[str, bytes]]:
    """A consumer's configuration, its checksum and its state."""
    config = {"name": name, "durable_name": name, "ack_policy": "explicit"}
    return [*_checked(f"obs/{name}/", f"{stream}/{name}", config), (f"obs/{name}/o.dat", state)]


def _checked(folder: str, identity: str, config: dict[str, Any]) -> list[tuple[str, bytes]]:
    meta = json.dumps({"Created": "2024-05-06T07:08:09.123456789Z", **config}).encode()
    return [(f"{folder}meta.inf", meta), (f"{folder}meta.sum", highway_hash(key(identity), meta).hex().encode())]
