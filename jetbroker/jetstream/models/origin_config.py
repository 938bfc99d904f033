"""Checks of a stream's mirror and sources, and of what they have to do with the account's other streams."""

from collections.abc import Callable, Iterable

from jetbroker import limits
from jetbroker.jetstream.models.config import StreamConfig, StreamSource
from jetbroker.jetstream.models.errors import ApiError, api_error
from jetbroker.jetstream.models.names import short_hash, valid_name, valid_stream_subject
from jetbroker.jetstream.models.subject_index import PIECE, TooManySteps, any_collides, any_contains, any_two_overlap
from jetbroker.jetstream.models.transforms import transform_fault
from jetbroker.turns import Steps
from jetbroker.wire.subjects import collide, valid_literal

FindStream = Callable[[str], StreamConfig | None]
API_PREFIX = "$JS.API"
_SEPARATOR = "\f"  # between the filters of several transforms in an index name


def index_name(source: StreamSource) -> str:
    """What tells a source from the others of its stream: three words, which `Nats-Stream-Source` shows as well."""
    name = source.name
    if source.external is not None:
        name += ":" + short_hash(source.external.api)
    if source.consumer is not None:
        name += ":C=" + short_hash(source.consumer.name)
    if not source.subject_transforms:
        return f"{name} {source.filter_subject or '>'} >"
    filters = _SEPARATOR.join(transform.src or ">" for transform in source.subject_transforms)
    return f"{name} {filters} {_SEPARATOR.join(transform.dest or '>' for transform in source.subject_transforms)}"


def check_origins(config: StreamConfig, find_stream: FindStream, *, pedantic: bool) -> Steps[None]:
    """Refuse what cannot be mirrored or sourced; a mirror takes over whether its origin answers direct gets."""
    if config.mirror is not None:
        yield from _check_mirror(config, config.mirror)
        _check_local_mirror(config, config.mirror, find_stream, pedantic)
    if config.sources and config.allow_msg_schedules:
        raise api_error("source_with_msg_schedules")
    seen: set[str] = set()
    consumers: set[tuple[str, str]] = set()
    for source in config.sources:
        name = index_name(source)
        yield from _check_source(source, is_known=name in seen)
        seen.add(name)
        _check_source_consumer(source, consumers)
        if source.external is None:
            _check_size(config, find_stream(source.name), "source_max_message_size_too_big")
    yield from _check_prefixes(config, find_stream)
    yield from _check_cycles(config, find_stream)


def check_filters(config: StreamConfig) -> None:
    """Refuse what is no subject. As by nats-server an update is not asked: such an origin is not reached then."""
    mirrored = [("mirror", config.mirror)] if config.mirror is not None else []
    for what, origin in [*mirrored, *(("source:", source) for source in config.sources)]:
        wanted = origin.filter_subject
        if wanted and not valid_stream_subject(wanted.encode()):
            raise api_error("stream_create", err=f"subject filter '{wanted}' for the {what} invalid subject")


def _check_mirror(config: StreamConfig, mirror: StreamSource) -> Steps[None]:
    for error, refused in (
        ("mirror_with_first_seq", config.first_seq > 0),
        ("mirror_with_subjects", bool(config.subjects)),
        ("mirror_with_sources", bool(config.sources)),
        ("mirror_with_counters", config.allow_msg_counter),
        ("mirror_with_atomic_publish", config.allow_atomic),
        ("mirror_with_batch_publish", config.allow_batched),
        ("mirror_with_msg_schedules", config.allow_msg_schedules),
        ("mirror_durable_consumer_cfg_invalid", not _is_consumer_sound(mirror)),
        ("mirror_multiple_filters_not_allowed", bool(mirror.filter_subject and mirror.subject_transforms)),
    ):
        if refused:
            raise api_error(error)
    if config.subject_delete_marker_ttl:
        raise _refuse("subject delete markers forbidden on mirrors")
    sources = [transform.src for transform in mirror.subject_transforms]
    for number, transform in enumerate(mirror.subject_transforms):
        in_source, fault = transform_fault(transform.src, transform.dest)
        if fault:
            name = "mirror_invalid_subject_filter" if in_source else "mirror_invalid_transform_destination"
            raise api_error(name, err=fault)
        yield
        if number == 0 and (yield from _bounded(any_two_overlap(sources, limits.JS_OVERLAP_STEPS))):
            raise api_error("mirror_overlapping_subject_filters")


def _check_local_mirror(config: StreamConfig, mirror: StreamSource, find_stream: FindStream, pedantic: bool) -> None:
    if mirror.external is not None:
        return
    if not valid_name(mirror.name):
        raise api_error("mirror_invalid_stream_name")
    origin = find_stream(mirror.name)
    _check_size(config, origin, "mirror_max_message_size_too_big")
    if origin is None:
        return
    if pedantic and config.mirror_direct != origin.allow_direct:
        raise api_error("pedantic", err="origin stream has direct get set, mirror has it disabled")
    config.mirror_direct = origin.allow_direct


def _check_source(source: StreamSource, *, is_known: bool) -> Steps[None]:
    if not valid_name(source.name):
        raise api_error("source_invalid_stream_name")
    if is_known:
        raise api_error("source_duplicate_detected")
    if source.filter_subject and source.subject_transforms:
        raise api_error("source_multiple_filters_not_allowed")
    for transform in source.subject_transforms:
        in_source, fault = transform_fault(transform.src, transform.dest)
        if fault:
            name = "source_invalid_subject_filter" if in_source else "source_invalid_transform_destination"
            raise api_error(name, err=fault)
        yield
    filters = [transform.src for transform in source.subject_transforms]
    yield
    if (yield from _bounded(any_contains(filters, limits.JS_OVERLAP_STEPS))):
        raise api_error("source_overlapping_subject_filters")


def _bounded(search: Steps[bool]) -> Steps[bool]:
    try:
        return (yield from search)
    except TooManySteps:
        raise _refuse("too many subject transforms") from None


def _check_source_consumer(source: StreamSource, known: set[tuple[str, str]]) -> None:
    if not _is_consumer_sound(source):
        raise api_error("source_durable_consumer_cfg_invalid")
    if source.consumer is None:
        return
    identity = (index_name(source).split(" ", 1)[0], source.consumer.name)
    if identity in known:
        raise api_error("source_durable_consumer_duplicate_detected")
    known.add(identity)


def _is_consumer_sound(origin: StreamSource) -> bool:
    consumer = origin.consumer
    if consumer is None:
        return True
    is_named = valid_name(consumer.name) and valid_literal(consumer.deliver_subject.encode())
    return is_named and not (origin.opt_start_seq or origin.opt_start_time is not None or origin.filter_subject)


def _check_size(config: StreamConfig, origin: StreamConfig | None, error: str) -> None:
    if origin is not None and 0 < config.max_msg_size < origin.max_msg_size:
        raise api_error(error)


def _origins(config: StreamConfig) -> Iterable[StreamSource]:
    return [*([config.mirror] if config.mirror is not None else []), *config.sources]


def _check_prefixes(config: StreamConfig, find_stream: FindStream) -> Steps[None]:
    local = [find_stream(origin.name) for origin in _origins(config) if origin.external is None]
    subjects = [subject for found in local if found is not None for subject in found.subjects]
    external = [origin.external for origin in _origins(config) if origin.external is not None]
    delivered = dict.fromkeys(prefixes.deliver for prefixes in external if prefixes.deliver)
    if len(delivered) * len(subjects) > limits.JS_OVERLAP_STEPS:
        raise _refuse("too many external prefixes to compare")
    for prefix in delivered:
        if not valid_literal(prefix.encode()):
            raise api_error("stream_invalid_external_delivery_subj", prefix=prefix)
        for number, subject in enumerate(subjects):
            if number % PIECE == 0:
                yield
            if collide(subject.encode(), f"{prefix}.{subject}".encode()):
                raise api_error("stream_external_del_prefix_overlaps", prefix=prefix, subject=subject)
    for prefix in (prefixes.api for prefixes in external if prefixes.api):
        if not valid_literal(prefix.encode()):
            raise _refuse(f'stream external api prefix "{prefix}" must be a valid subject without wildcards')
        if prefix == API_PREFIX:
            raise api_error("stream_external_api_overlap", prefix=prefix, subject=API_PREFIX)


def _check_cycles(config: StreamConfig, find_stream: FindStream) -> Steps[None]:
    """Follow the origins within the account; one that is met again must not feed its subjects back."""
    waiting = [config]
    visited: set[str] = set()
    left = limits.JS_CYCLE_STEPS
    while waiting:
        at = waiting.pop(0)
        visited.add(at.name)
        for origin in _origins(at):
            if origin.external is not None:
                continue
            yield
            left -= 1
            if left < 0:
                raise _refuse("too many origins of origins")
            if origin.name not in visited:
                found = find_stream(origin.name)
                if found is not None:
                    waiting.append(found)
            elif origin is at.mirror or (yield from _feeds(at.subjects, origin.filter_subject)):
                raise _refuse("detected cycle")


def _feeds(subjects: list[str], wanted: str) -> Steps[bool]:
    return not wanted or (yield from any_collides(wanted.encode(), subjects))


def _refuse(text: str) -> ApiError:
    return api_error("stream_invalid_config", err=text)
