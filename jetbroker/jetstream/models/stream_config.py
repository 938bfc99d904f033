"""Defaults and checks of stream configurations: which are refused, and with which text.

The order of the checks is part of the behaviour: a request with two faults is refused for the first one.
"""

import dataclasses
from collections.abc import Callable

from jetbroker import limits
from jetbroker.forms.gotext import MILLISECOND, MINUTE, SECOND, duration_text
from jetbroker.jetstream.models.config import Placement, StreamConfig
from jetbroker.jetstream.models.contracts import AccountLimits
from jetbroker.jetstream.models.errors import ApiError, api_error
from jetbroker.jetstream.models.metadata import metadata_bytes, stored_metadata, stream_level
from jetbroker.jetstream.models.names import valid_name, valid_stream_subject
from jetbroker.jetstream.models.origin_config import FindStream, check_origins
from jetbroker.jetstream.models.subject_index import PIECE, SubjectIndex, TooManySteps, any_collides
from jetbroker.jetstream.models.transforms import can_republish, transform_fault
from jetbroker.turns import Steps
from jetbroker.wire.subjects import collide, subset

DEFAULT_DUPLICATE_WINDOW = 2 * MINUTE
_SHORTEST = 100 * MILLISECOND  # of max_age and of the duplicate window
_MAX_REPLICAS = 5
_NAME_REFUSAL = "stream name is required and can not contain '.', '*', '>', '\\', '/'"


def _refuse(text: str) -> ApiError:
    return api_error("stream_invalid_config", err=text)


def check_creation(config: StreamConfig) -> None:
    """What a new stream cannot be, whatever else is wrong with its configuration. Raises ApiError."""
    if config.sealed:
        raise _refuse("stream configuration for create can not be sealed")
    if config.mirror_direct and config.mirror is None:
        raise _refuse("stream has no mirror but does have mirror direct")


def check_stream_config(
    config: StreamConfig,
    account: AccountLimits,
    *,
    pedantic: bool = False,
    creating: bool = True,
    arriving: bool = False,
    find_stream: FindStream = lambda name: None,
) -> Steps[StreamConfig]:
    """`config` with its defaults filled in. Raises ApiError when it cannot be a stream's configuration.

    `arriving`: it comes with a stream from elsewhere, and says itself which API level it needs. `find_stream` gives the
    configurations of the account's streams.
    """
    config = dataclasses.replace(config)
    _check_texts(config)
    _check_replicas(config)
    _default_limits(config, pedantic)
    if config.first_seq > limits.STREAM_SKIP_SEQUENCE:
        raise _refuse(f"first sequence can not be larger than {limits.STREAM_SKIP_SEQUENCE}")
    _check_times(config, account, pedantic)
    _check_policies(config, pedantic)
    config.metadata = stored_metadata(config.metadata, None if arriving else stream_level(config))
    if metadata_bytes(config.metadata) > limits.JS_METADATA_BYTES:
        raise _refuse(f"stream metadata exceeds maximum size of {limits.JS_METADATA_BYTES} bytes")
    yield from check_origins(config, find_stream, pedantic=pedantic)
    yield from _check_subjects(config)
    _check_max_bytes(config, account)
    _check_transforms(config)
    yield from _check_republish(config, pedantic)
    _check_placement(config)
    if creating and config.num_replicas > 1:
        raise api_error("stream_replicas_not_supported")
    return config


def check_stream_update(old: StreamConfig, new: StreamConfig) -> None:
    """Refuse what an update may not change; `new` has been through check_stream_config. Seals `new` when asked."""
    for error, text, forbidden in _FORBIDDEN_CHANGES:
        if forbidden(old, new):
            raise api_error(error, err=text)
    if new.sealed:
        new.max_age = 0
        new.discard = "new"
        new.deny_delete = new.deny_purge = True
        new.allow_rollup_hdrs = False


_INVALID = "stream_invalid_config"
_CHANGE = "stream configuration update can not "
_FORBIDDEN_CHANGES: tuple[tuple[str, str, Callable[[StreamConfig, StreamConfig], bool]], ...] = (
    (_INVALID, _CHANGE + "change storage type", lambda old, new: old.storage != new.storage),
    (
        _INVALID,
        _CHANGE + "change retention policy to/from workqueue",
        lambda old, new: old.retention != new.retention and "workqueue" in (old.retention, new.retention),
    ),
    (_INVALID, _CHANGE + "unseal a sealed stream", lambda old, new: old.sealed and not new.sealed),
    (_INVALID, _CHANGE + "cancel deny message deletes", lambda old, new: old.deny_delete and not new.deny_delete),
    (_INVALID, _CHANGE + "cancel deny purge", lambda old, new: old.deny_purge and not new.deny_purge),
    ("stream_mirror_not_updatable", "", lambda old, new: new.mirror is not None and new.mirror != old.mirror),
    (_INVALID, "message TTL status can not be disabled", lambda old, new: old.allow_msg_ttl and not new.allow_msg_ttl),
    (
        _INVALID,
        _CHANGE + "change message counter setting",
        lambda old, new: old.allow_msg_counter != new.allow_msg_counter,
    ),
    (
        _INVALID,
        "message schedules can not be disabled",
        lambda old, new: old.allow_msg_schedules and not new.allow_msg_schedules,
    ),
    (_INVALID, _CHANGE + "change persist mode", lambda old, new: old.persist_mode != new.persist_mode),
)


def _check_texts(config: StreamConfig) -> None:
    if not valid_name(config.name):
        raise _refuse(_NAME_REFUSAL)
    if len(config.name.encode()) > limits.JS_NAME_BYTES:
        raise _refuse(f"stream name is too long, maximum allowed is {limits.JS_NAME_BYTES}")
    if len(config.description.encode()) > limits.JS_DESCRIPTION_BYTES:
        raise _refuse(f"stream description is too long, maximum allowed is {limits.JS_DESCRIPTION_BYTES}")


def _default_limits(config: StreamConfig, pedantic: bool) -> None:
    for name in ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers"):
        value = getattr(config, name)
        if value < -1 and pedantic:
            raise api_error("pedantic", err=f"{name} must be set to -1")
        if value < -1 or value == 0:
            setattr(config, name, -1)


def _check_replicas(config: StreamConfig) -> None:
    if config.num_replicas < 0:
        raise api_error("replicas_count_cannot_be_negative")
    if config.num_replicas > _MAX_REPLICAS:
        raise _refuse(f"maximum replicas is {_MAX_REPLICAS}")
    config.num_replicas = config.num_replicas or 1


def _default_window(max_age: int, server_limit: int, pedantic: bool) -> int:
    window = DEFAULT_DUPLICATE_WINDOW
    if 0 < server_limit < window:
        if pedantic:
            raise api_error("pedantic", err="duplicate window limits are higher than current limits")
        window = server_limit
    if 0 < max_age < window:
        if pedantic:
            raise api_error("pedantic", err="duplicate window cannot be bigger than max age")
        window = max_age
    return window


def _check_times(config: StreamConfig, account: AccountLimits, pedantic: bool) -> None:
    if config.max_age < 0:
        raise _refuse("max age can not be negative")
    if 0 < config.max_age < _SHORTEST:
        raise _refuse("max age needs to be >= 100ms")
    server_limit = account.server.duplicate_window
    if config.duplicate_window == 0 and config.mirror is None and not config.sources:
        config.duplicate_window = _default_window(config.max_age, server_limit, pedantic)
    if config.duplicate_window < 0:
        raise _refuse("duplicates window can not be negative")
    if config.max_age and config.duplicate_window > config.max_age:
        raise _refuse("duplicates window can not be larger then max age")
    if server_limit > 0 and config.duplicate_window > server_limit:
        limit = duration_text(server_limit)
        raise _refuse(f"duplicates window can not be larger then server limit of {limit}")
    if 0 < config.duplicate_window < _SHORTEST:
        raise _refuse("duplicates window needs to be >= 100ms")


def _check_policies(config: StreamConfig, pedantic: bool) -> None:
    if config.allow_rollup_hdrs and config.deny_purge:
        raise _refuse("roll-ups require the purge permission")
    _check_counter(config)
    if config.discard_new_per_subject:
        if config.discard != "new":
            raise _refuse("discard new per subject requires discard new policy to be set")
        if config.max_msgs_per_subject <= 0:
            raise _refuse("discard new per subject requires max msgs per subject > 0")
    _check_delete_markers(config, pedantic)
    _check_schedules(config, pedantic)
    if config.persist_mode == "async":
        if config.storage != "file":
            raise _refuse("async persist mode is only supported on file storage")
        if config.num_replicas > 1:
            raise _refuse("async persist mode is not supported on replicated streams")
        if config.allow_atomic:
            raise _refuse("async persist mode is not supported with atomic batch publish")


def _check_delete_markers(config: StreamConfig, pedantic: bool) -> None:
    ttl = config.subject_delete_marker_ttl
    if ttl == 0:
        return
    if ttl < 0:
        raise _refuse("subject delete marker TTL must not be negative")
    if ttl < SECOND:
        raise _refuse("subject delete marker TTL must be at least 1 second")
    if pedantic:
        if not config.allow_msg_ttl:
            raise _refuse("subject delete marker cannot be set if message TTLs are disabled")
        if not config.allow_rollup_hdrs:
            raise _refuse("subject delete marker cannot be set if roll-ups are disabled")
        return
    config.allow_msg_ttl = True
    _allow_roll_ups(config)


def _check_counter(config: StreamConfig) -> None:
    if not config.allow_msg_counter:
        return
    if config.discard == "new":
        raise _refuse("counter stream cannot use discard new")
    if config.allow_msg_ttl:
        raise _refuse("counter stream cannot use message TTLs")
    if config.allow_msg_schedules:
        raise _refuse("counter stream cannot use message schedules")
    if config.retention != "limits":
        raise _refuse("counter stream can only use limits retention")


def _check_schedules(config: StreamConfig, pedantic: bool) -> None:
    if not config.allow_msg_schedules:
        return
    if config.discard == "new":
        raise _refuse("message scheduling cannot use discard new")
    if pedantic and not config.allow_rollup_hdrs:
        raise _refuse("message scheduling cannot be set if roll-ups are disabled")
    _allow_roll_ups(config)


def _allow_roll_ups(config: StreamConfig) -> None:
    if not config.allow_rollup_hdrs:
        config.allow_rollup_hdrs, config.deny_purge = True, False


def _check_subjects(config: StreamConfig) -> Steps[None]:
    if not config.subjects and config.mirror is None and not config.sources:
        config.subjects = [config.name]
    if len(config.subjects) > limits.JS_SUBJECTS:
        raise _refuse("too many subjects")
    fault, sound = "", len(config.subjects)
    for number, subject in enumerate(map(str.encode, config.subjects)):
        if number % PIECE == PIECE - 1:
            yield
        fault = _fault_of(subject, config.no_ack)
        if fault:
            sound = number
            break
    overlapping = yield from _first_overlap(config.subjects, sound)
    if overlapping is not None:
        raise _refuse('subject "{}" overlaps with "{}"'.format(*overlapping))
    if fault:
        raise _refuse(fault)


def _fault_of(subject: bytes, no_ack: bool) -> str:
    if not valid_stream_subject(subject):
        return "invalid subject"
    if no_ack:
        return ""
    if subject == b">":
        return "capturing all subjects requires no-ack to be true"
    if subject[:1] not in b"$*":
        return ""
    is_api = any(collide(subject, space) for space in (b"$JS.>", b"$JSC.>", b"$NRG.>"))
    if is_api and not subset(subject, b"$JS.EVENT.>"):
        return "subjects that overlap with jetstream api require no-ack to be true"
    if collide(subject, b"$SYS.>") and not subset(subject, b"$SYS.ACCOUNT.>"):
        return "subjects that overlap with system api require no-ack to be true"
    return ""


def _first_overlap(subjects: list[str], sound: int) -> Steps[tuple[str, str] | None]:
    """The first of `subjects[:sound]` that overlaps with one behind it, and the first of those.

    In bounded time, a configuration may list very many subjects.
    """
    index = SubjectIndex(limits.JS_OVERLAP_STEPS)
    positions: dict[str, int] = {}
    first, pair = sound, None
    try:
        for position, subject in enumerate(subjects):
            if position >= sound and not valid_stream_subject(subject.encode()):
                continue
            found = yield from index.overlapping(subject.encode())
            earliest = min(map(positions.__getitem__, found), default=first)
            if earliest < first:
                first, pair = earliest, (subjects[earliest], subject)
            if position < first:  # what stands behind a pair makes none that comes before it
                yield from index.add(subject, [subject])
                positions[subject] = position
    except TooManySteps:
        if pair is None:
            raise _refuse("too many subjects to compare") from None
    yield from index.clear()
    return pair


def _check_transforms(config: StreamConfig) -> None:
    transform = config.subject_transform
    if transform is not None:
        in_source, fault = transform_fault(transform.src, transform.dest)
        if fault:
            name = "stream_transform_invalid_source" if in_source else "stream_transform_invalid_destination"
            raise api_error(name, err=fault)


def _check_republish(config: StreamConfig, pedantic: bool) -> Steps[None]:
    if config.republish is None:
        return
    if not config.republish.src and pedantic:
        raise api_error("pedantic", err="republish source can not be empty")
    config.republish = republish = dataclasses.replace(config.republish, src=config.republish.src or ">")
    transform = config.subject_transform
    if republish.src == republish.dest == ">" and transform is not None and config.subjects == [transform.src]:
        # "everything, as it is stored": no cycle, as all that is taken is stored under other subjects
        if pedantic:
            raise api_error("pedantic", err="implicit republish based on subject transform")
        republish.src = republish.dest = transform.dest
    destination = republish.dest.encode()
    if destination and (yield from any_collides(destination, config.subjects)):
        raise _refuse("stream configuration for republish destination forms a cycle")
    if not can_republish(republish.src, republish.dest):
        route = f"from '{republish.src}' to '{republish.dest}'"
        raise _refuse(f"stream configuration for republish with transform {route} not valid")


def _check_placement(config: StreamConfig) -> None:
    if config.placement is not None:
        if config.placement.preferred:
            raise _refuse("preferred server not permitted in placement")
        if config.placement == Placement():
            config.placement = None


def _check_max_bytes(config: StreamConfig, account: AccountLimits) -> None:
    if account.max_bytes_required and config.max_bytes <= 0:
        raise api_error("stream_max_bytes_required")
    is_file = config.storage == "file"
    highest = account.storage_max_stream_bytes if is_file else account.memory_max_stream_bytes
    if highest > 0 and config.max_bytes > highest:
        raise api_error("stream_max_stream_bytes_exceeded")
