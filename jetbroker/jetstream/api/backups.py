"""API handlers: STREAM.SNAPSHOT and STREAM.RESTORE.

What they need (a tar reader, say) is imported behind the start, see JetStreamServer.
"""

from typing import Any

from jetbroker.forms.gojson import fast_value
from jetbroker.jetstream.account import JetStream
from jetbroker.jetstream.api.endpoints import Endpoint, Later, Request, read_body
from jetbroker.jetstream.api.requesters import client_fields
from jetbroker.jetstream.api.streams import stream_info
from jetbroker.jetstream.models.errors import api_error
from jetbroker.wire.subjects import valid_literal


async def _snapshot(js: JetStream, request: Request) -> Later:
    from jetbroker.jetstream.backup.snapshot import Snapshot, SnapshotRequest

    _expect_body(request)
    stream = js.stream(request.tokens[2])
    asked = read_body(js, SnapshotRequest, "JSApiStreamSnapshotRequest", request)
    if not valid_literal(asked.deliver_subject.encode()):
        raise api_error("snapshot_deliver_subject_invalid")
    answer: dict[str, Any] = {}
    prepared = Snapshot(js, stream, asked, client_fields(js.host, request)).prepare(answer)
    return Later(answer, prepared, "stream_snapshot")


async def _restore(js: JetStream, request: Request) -> dict[str, Any]:
    from jetbroker.jetstream.backup.restore import Restore, RestoreRequest

    _expect_body(request)
    asked = read_body(js, RestoreRequest, "JSApiStreamRestoreRequest", request)
    name = request.tokens[2]
    asked.config.name = asked.config.name or name
    if asked.config.name != name:
        raise api_error("stream_mismatch")
    if "/" in name or "\\" in name:
        raise api_error("stream_name_contains_path_separators")
    config = await js.check_arrival(asked.config)
    if config.storage == "memory":
        raise api_error("stream_restore", err="memory streams have no archive")
    if js.transfers.full:
        raise api_error("stream_restore", err="too many backups and restores under way")
    restore = Restore(js, config, client_fields(js.host, request), lambda stream: stream_info(js, stream))
    restore.start()
    return {"deliver_subject": restore.subject}


def _expect_body(request: Request) -> None:
    try:
        says_nothing = not request.body or fast_value(request.body) == {}
    except ValueError:
        return
    if says_nothing:
        raise api_error("bad_request")


ENDPOINTS = (
    Endpoint("STREAM.SNAPSHOT", 3, 3, "stream_snapshot", _snapshot),
    Endpoint("STREAM.RESTORE", 3, 3, "stream_restore", _restore, {"deliver_subject": ""}, answers_always=True),
)
