"""The headers of message schedules: what a publish may ask for, and what a generated message carries."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import tzinfo

from jetbroker.jetstream.models.errors import ApiError, api_error
from jetbroker.jetstream.publish.headers import header_text
from jetbroker.jetstream.publish.schedule_patterns import Cron, Pattern, is_zero, load_zone, parse_pattern
from jetbroker.jetstream.publish.ttl import ttl_seconds
from jetbroker.wire.subjects import valid_literal

PURGE = b"purge"
_INVALID_TTL = -2
_NEW_BLOCK = b"NATS/1.0\r\n\r\n"


@dataclass(frozen=True)
class Rules:
    """What of its configuration a stream's schedules depend on."""

    allowed: bool
    allow_ttl: bool
    covers: Callable[[bytes], bool]  # does a stream subject match this valid literal?


NO_SCHEDULES = Rules(allowed=False, allow_ttl=False, covers=lambda _: False)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What can be said of a publish with schedule headers before it is its turn to be stored."""

    rules: Rules
    error: str  # its name, empty: none so far
    block: bytes  # as it is stored
    pattern: Pattern | None = None  # None: it is no schedule
    first: int = 0  # when that is due


@dataclass(frozen=True)
class Verdict:
    """`refusal` None: the message may be stored, with this header block; `is_schedule`: it is one."""

    refusal: ApiError | None
    block: bytes
    is_schedule: bool = False


# The header block of the last message of a subject, None: it has none.
LastHeaders = Callable[[bytes], bytes | None]


def prepare(subject: bytes, block: bytes, rules: Rules) -> Prepared:
    """Read the headers of a publish and check what does not depend on what is stored, in nats-server's order."""
    pattern, error = read_pattern(block)
    first = pattern.first(time.time_ns()) if pattern is not None else None
    if pattern is not None and first is None:
        error = "message_schedules_pattern_invalid"  # no such day in the next years
    if (error or pattern is not None) and not rules.allowed:
        error = "message_schedules_disabled"
    if not error and pattern is not None:
        error = _schedule_fault(subject, block, rules)
    if error:
        return Prepared(rules, error, block)
    if pattern is not None and not header_text(block, b"Nats-Rollup"):
        block = with_header(block, b"Nats-Rollup", b"sub")
    return Prepared(rules, "", block, pattern, first or 0)


def judge(
    subject: bytes,
    block: bytes,
    rules: Rules,
    last_headers: LastHeaders,
    staged: Mapping[bytes, bool] | None = None,
    prepared: Prepared | None = None,
) -> Verdict:
    """What a publish with schedule headers is allowed.

    `staged`: subjects written before in the same batch, and whether by a schedule. `prepared`: what prepare() has
    said before; it counts as long as the rules are the same.
    """
    if prepared is None or prepared.rules is not rules:
        prepared = prepare(subject, block, rules)
    if prepared.error:
        return Verdict(api_error(prepared.error), block)
    error = _scheduler_fault(subject, prepared.block, rules, last_headers, staged or {})
    return Verdict(api_error(error) if error else None, prepared.block, prepared.pattern is not None)


def due_first(prepared: Prepared, now: int) -> int | None:
    """When a schedule that is stored now is due first; None: never.

    The next of a cron pattern's times stays the next one until it has come; Schedules looks again when it has.
    """
    if prepared.pattern is None or isinstance(prepared.pattern, Cron):
        return prepared.first
    return prepared.pattern.first(now)


def read_pattern(block: bytes) -> tuple[Pattern | None, str]:
    """The schedule of a header block (None: there is none), and the name of the error when it is wrong."""
    zone: tzinfo | None = None
    name = header_text(block, b"Nats-Schedule-Time-Zone")
    if name is not None:
        zone = load_zone(name.decode("utf-8", "replace")) if name else None
        if zone is None:
            return None, "message_schedules_time_zone_invalid"
    text = header_text(block, b"Nats-Schedule")
    if not text:
        return None, ""
    pattern = parse_pattern(text.decode("utf-8", "replace"), zone)
    if pattern is None:
        return None, "message_schedules_pattern_invalid"
    return (None if is_zero(pattern) else pattern), ""


def _schedule_fault(subject: bytes, block: bytes, rules: Rules) -> str:
    """Name of the error, empty: none."""
    ttl = header_text(block, b"Nats-Schedule-TTL") or b""
    target = header_text(block, b"Nats-Schedule-Target") or b""
    source = header_text(block, b"Nats-Schedule-Source") or b""
    faults = (
        ("message_schedules_ttl_invalid", ttl_seconds(ttl) == _INVALID_TTL),
        (
            "message_schedules_rollup_invalid",
            (header_text(block, b"Nats-Schedule-Rollup") or b"sub") != b"sub",
        ),
        ("message_ttl_disabled", bool(ttl) and not rules.allow_ttl),
        ("message_schedules_target_invalid", not valid_literal(target) or target == subject),
        (
            "message_schedules_source_invalid",
            bool(source) and (source in (target, subject) or not valid_literal(source)),
        ),
        ("message_schedules_target_invalid", not _covered(target, rules)),
        ("message_schedules_source_invalid", bool(source) and not _covered(source, rules)),
        (
            "message_schedules_rollup_invalid",
            (header_text(block, b"Nats-Rollup") or b"sub").lower() != b"sub",
        ),
    )
    return next((name for name, wrong in faults if wrong), "")


def _covered(subject: bytes, rules: Rules) -> bool:
    return valid_literal(subject) and rules.covers(subject)


def _scheduler_fault(
    subject: bytes, block: bytes, rules: Rules, last_headers: LastHeaders, staged: Mapping[bytes, bool]
) -> str:
    """A publisher may end a schedule; nothing else of what generated messages say is allowed to him."""
    following = header_text(block, b"Nats-Schedule-Next")
    scheduler = header_text(block, b"Nats-Scheduler")
    if not following:
        return "message_schedules_scheduler_invalid" if scheduler else ""
    if following != PURGE or not scheduler or scheduler == subject or not valid_literal(scheduler):
        return "message_schedules_scheduler_invalid"
    if not rules.allowed:
        return "message_schedules_disabled"
    if scheduler in staged:
        return "" if staged[scheduler] else "message_schedules_scheduler_invalid"
    last = last_headers(scheduler)
    if last is not None and not header_text(last, b"Nats-Schedule"):
        return "message_schedules_scheduler_invalid"
    return ""


def with_header(block: bytes, name: bytes, value: bytes) -> bytes:
    """The block with one more header at its end."""
    return (block or _NEW_BLOCK).removesuffix(b"\r\n") + name + b": " + value + b"\r\n\r\n"


def generated_block(block: bytes, schedule: bytes, subject: bytes, following: str) -> bytes:
    """The headers of a generated message.

    `block`: of the message whose content it has, `schedule`: of the schedule, stored on `subject`; `following`: when
    it is due again, empty: it has done its work.
    """
    out = _without_own(block)
    out = with_header(out, b"Nats-Scheduler", subject)
    out = with_header(out, b"Nats-Schedule-Next", following.encode() or PURGE)
    for name in (b"TTL", b"Rollup"):
        value = header_text(schedule, b"Nats-Schedule-" + name)
        if value:
            out = with_header(out, b"Nats-" + name, value)
    return out


def _without_own(block: bytes) -> bytes:
    """Without what is about the stored message, not about its content."""
    lines = block.split(b"\r\n")
    kept = [line for line in lines[1:-2] if not _is_own(line)]
    return b"\r\n".join([lines[0], *kept, b"", b""]) if kept else b""


def _is_own(line: bytes) -> bool:
    return line.startswith((b"Nats-Schedule", b"Nats-Expected-", b"Nats-Msg-Id:", b"Nats-TTL:", b"Nats-Rollup:"))
