# ruff: noqa: RUF009 -- json_field returns dataclasses.field(), which is made for this place
"""The configurations in an archive, with their checksums, and the names of its files."""

import hashlib
import posixpath
from dataclasses import dataclass
from typing import Any, NamedTuple

from jetbroker.forms.gojson import dumps
from jetbroker.forms.gotext import Timestamp, format_time
from jetbroker.jetstream.backup.archive.blocks import ArchiveError
from jetbroker.jetstream.backup.archive.highway import highway_hash
from jetbroker.jetstream.models.config import ConsumerConfig
from jetbroker.jetstream.models.decode import TEXT, TIME, DecodeError, decode, json_field

META = "meta.inf"
SUM = "meta.sum"
STATE = "o.dat"
ERRORS = "errors.txt"
INDEX = "index.db"
_MESSAGES = "msgs"
_CONSUMERS = "obs"
_BLOCK = ".blk"


class ForeignContentError(ArchiveError):
    """There is something in the archive that none of a stream has."""

    def __init__(self) -> None:
        super().__init__("unexpected content")


class Member(NamedTuple):
    """What a file in an archive is: a block of messages, or a document of the stream (`consumer` "") or a consumer."""

    block: int | None
    consumer: str
    kind: str


def block_name(index: int) -> str:
    """The file of a block of messages."""
    return f"{_MESSAGES}/{index}{_BLOCK}"


def consumer_file(consumer: str, kind: str) -> str:
    """A document of a consumer."""
    return f"{_CONSUMERS}/{consumer}/{kind}"


def member_of(name: str) -> Member | None:
    """What a file is by its name; None: nothing that a restore needs. Raises ArchiveError for one outside."""
    path = posixpath.normpath(name)
    parts = path.split("/")
    if path.startswith("/") or parts[0] == ".." or "\0" in path:
        raise ForeignContentError
    if parts in ([META], [SUM], [ERRORS]):
        return Member(None, "", parts[0])
    if parts == [_MESSAGES, INDEX]:
        return Member(None, "", INDEX)
    if len(parts) == 2 and parts[0] == _MESSAGES and parts[1].endswith(_BLOCK):
        number = parts[1].removesuffix(_BLOCK)
        if number.isascii() and number.isdigit() and len(number) <= 10:
            return Member(int(number), "", "")
    if len(parts) == 3 and parts[0] == _CONSUMERS and parts[2] in (META, SUM, STATE):
        return Member(None, parts[1], parts[2])
    return None


def document(name: str, created_ns: int, config: dict[str, Any], *, of_consumer: bool = False) -> bytes:
    """A configuration as nats-server stores it."""
    fields: dict[str, Any] = {"Created": format_time(created_ns)}
    if of_consumer:
        fields["Name"] = name
    return dumps(fields | config)


def checksum(key: str, content: bytes) -> bytes:
    """What stands beside a configuration; `key` is the stream's name, or `stream/consumer`."""
    return highway_hash(hashlib.sha256(key.encode()).digest(), content).hex().encode()


@dataclass
class _Head:
    """What a restore takes of a stored configuration beside the configuration itself."""

    created: Timestamp | None = json_field(TIME)
    name: str = json_field(TEXT)


class StreamDocument(NamedTuple):
    """Of the stream: its name, and when it was made (0: not known)."""

    name: str
    created_ns: int


def read_stream(content: bytes) -> StreamDocument:
    """Raises ArchiveError."""
    try:
        head = decode(_Head, "FileStreamInfo", content, strict=False)
    except DecodeError as error:
        raise ArchiveError(str(error)) from error
    return StreamDocument(head.name, _created(head))


def read_consumer(content: bytes) -> tuple[ConsumerConfig, int]:
    """The configuration, and when it was made (0: not known). Raises ArchiveError."""
    try:
        head = decode(_Head, "FileConsumerInfo", content, strict=False)
        return decode(ConsumerConfig, "ConsumerConfig", content, strict=False), _created(head)
    except DecodeError as error:
        raise ArchiveError(str(error)) from error


def _created(head: _Head) -> int:
    return max(head.created.ns, 0) if head.created is not None else 0
