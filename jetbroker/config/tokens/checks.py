"""What must hold of claims beyond their types. Texts are those of nats-server's own library; the log shows them.

Each check gives a list of what is wrong, and nothing when all is well. What only time makes wrong stands in it too.
"""

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from jetbroker.config.nkeys import is_public_key
from jetbroker.config.options import SubjectPermissions
from jetbroker.config.subjects import is_literal
from jetbroker.config.tokens.claims import (
    SERVICE,
    STREAM,
    AccountClaims,
    ActivationClaims,
    Claims,
    Export,
    Import,
    TimeRange,
    UserClaims,
    UserLimits,
    read_activation,
)
from jetbroker.config.tokens.fields import TokenError
from jetbroker.forms.gotext import quoted

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

_RESPONSE_TYPES = ("", "Singleton", "Stream", "Chunked")
_CLOCK = "%H:%M:%S"


def check_user(claims: UserClaims, now: float | None = None) -> list[str]:
    """What is wrong with a user's claims."""
    found = [*_times(claims, now), *_limits(claims.may)]
    if claims.issuer_account and not is_public_key("account", claims.issuer_account):
        found.append("account_id is not an account public key")
    return found


def check_activation(claims: ActivationClaims, now: float | None = None) -> list[str]:
    """What is wrong with an activation, whoever it is for."""
    return [*_times(claims, now), *_activation(claims)]


def check_account(claims: AccountClaims, now: float | None = None) -> list[str]:
    """What is wrong with an account's claims."""
    found = [*_times(claims, now), *_imports(claims), *_exports(claims)]
    found += _tiers(claims)
    if claims.default_permissions is not None:
        found += _permissions(claims.default_permissions.subscribe, queues=True)
        found += _permissions(claims.default_permissions.publish, queues=False)
    found += _mappings(claims)
    found += _traces(claims)
    found += [f"AuthUser {quoted(user)} is not a valid user public key" for user in claims.external_users
              if not is_public_key("user", user)]  # fmt: skip
    for key, scope in claims.signing_keys.items():
        if not is_public_key("account", key):
            found.append(
                f"{quoted(key)} is not a valid account signing key"
                if scope is None
                else f"{key} is not an account public key"
            )
        if scope is not None:
            found += _limits(scope, template=True)
    return found


def _traces(claims: AccountClaims) -> Iterator[str]:
    if claims.traces is None:
        return
    subject, sampling = claims.traces
    yield from (f"the account Trace.Destination {what}" for what in islice(_subject(subject), 1))
    if not is_literal(subject):
        yield f"the account Trace.Destination subject {quoted(subject)} is not a valid publish subject"
    if not 0 <= sampling <= 100:
        yield f"the account Trace.Sampling value '{sampling}' is not valid, should be in the range [1..100]"


def _times(claims: Claims, now: float | None) -> Iterator[str]:
    seconds = int(time.time() if now is None else now)
    if 0 < claims.expires < seconds:
        yield "claim is expired"
    if 0 < seconds < claims.not_before:
        yield "claim is not yet valid"


# --- users ---


def check_time_ranges(times: tuple[TimeRange, ...], location: str) -> list[str]:
    """What is wrong with the times of the day when a user may be connected, and with their place."""
    found = []
    for entry in times:
        for name, text in (("start", entry.start), ("end", entry.end)):
            if not text:
                found.append(f"time ranges {name} must contain {'a' if name == 'start' else 'an'} {name}")
            elif clock_seconds(text) is None:
                found.append(f"{name} in time range is invalid {quoted(text)}")
    if location and not is_location(location):
        found.append(f"could not parse iana time zone by name: unknown time zone {location}")
    return found


def _limits(may: UserLimits, *, template: bool = False) -> Iterator[str]:
    """Of a user; a scope's template is not complete before it is filled in, so its subjects are not looked at."""
    if may.permissions is not None and not template:
        yield from _permissions(may.permissions.subscribe, queues=True)
        yield from _permissions(may.permissions.publish, queues=False)
    if template:
        return
    for source in may.sources:
        try:
            network(source)
        except ValueError:
            yield f"invalid cidr {quoted(source)} in user src limits"
    yield from check_time_ranges(may.times, may.times_location)


def network(text: str) -> "IPv4Network | IPv6Network":
    """A CIDR block. Raises ValueError for anything else, an address without a length included."""
    import ipaddress  # few users have any

    if "/" not in text or not text.rpartition("/")[2].isdigit():
        raise ValueError(text)
    return ipaddress.ip_network(text, strict=False)


def clock_seconds(text: str) -> int | None:
    """A time of the day in seconds; None for what is none."""
    try:
        found = time.strptime(text, _CLOCK)
    except ValueError:
        return None
    return (found.tm_hour * 60 + found.tm_min) * 60 + found.tm_sec if found.tm_sec < 60 else None


def is_location(name: str) -> bool:
    """Does the time zone database know this name?"""
    import zoneinfo

    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _permissions(subjects: SubjectPermissions | None, *, queues: bool) -> Iterator[str]:
    if subjects is None:
        return
    for text in [*(subjects.allow or ()), *subjects.deny]:
        words = text.split(" ")
        if len(words) > 2:
            yield f'Permission Subject "{text}" contains too many spaces'
            continue
        for word in words:
            yield from _subject(word)
        if len(words) == 2 and not queues:
            yield f'Permission Subject "{text}" is not allowed to contain queue'


def _subject(text: str) -> Iterator[str]:
    if not text:
        yield "subject cannot be empty"
        return
    if len(text.split()) != 1 or text.split()[0] != text:
        yield f"subject {quoted(text)} cannot have spaces"
    if text.startswith(".") or text.endswith("."):
        yield f"subject {quoted(text)} cannot start or end with a `.`"
    if ".." in text:
        yield f"subject {quoted(text)} cannot contain consecutive `.`"
    if not _is_utf8(text):
        yield "subject is not valid UTF-8"


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# --- accounts ---


def _tiers(claims: AccountClaims) -> list[str]:
    if "" in claims.limits.tiers:
        return ['Tiered JetStream Limits can not contain a blank "" tier name']
    return []


def _mappings(claims: AccountClaims) -> Iterator[str]:
    for source, targets in claims.mappings.items():
        yield from _subject(source)
        totals: dict[str, int] = {}
        for target in targets:
            yield from _subject(target.subject)
            if not 0 <= target.weight <= 100:
                yield f"Mapping {quoted(source)} has a weight {target.weight} that exceeds 100"
            totals[target.cluster] = totals.get(target.cluster, 0) + target.weight
        for cluster, total in totals.items():
            if total > 100:
                where = f" in cluster {quoted(cluster)}" if cluster else ""
                yield f"Mapping {quoted(source)}{where} exceeds 100% among all of it's weighted to mappings"


def _imports(claims: AccountClaims) -> Iterator[str]:
    seen: dict[str, set[str]] = {}
    for entry in claims.imports:
        if entry.kind == SERVICE:
            local = entry.to or _untokenized(entry.local_subject) or entry.subject
            others = seen.setdefault(entry.account, set())
            for other in others:
                if _is_contained(local, other) or _is_contained(other, local):
                    both = f"{quoted(local)} and {quoted(other)} in same account {quoted(entry.account)}"
                    yield f"overlapping subject namespace for {both}"
            others.add(local)
        yield from check_import(entry, claims.subject)
    if 0 <= claims.limits.imports < len(claims.imports):
        yield "the account contains more imports than allowed by the operator"


def check_import(entry: Import, importer: str) -> Iterator[str]:
    """What is wrong with an import by itself, its activation token included (but for its times)."""
    if entry.kind not in (STREAM, SERVICE):
        yield 'invalid import type: "unknown"'
    if entry.kind == SERVICE and entry.allow_trace:
        yield "AllowTrace only valid for stream import"
    if not entry.account:
        yield "account to import from is not specified"
    yield from _subject(entry.subject)
    if entry.local_subject:
        yield from _renaming(entry.local_subject, entry.subject)
        if entry.to:
            yield "Local Subject replaces To"
    if entry.share and entry.kind != SERVICE:
        yield f"sharing information (for latency tracking) is only valid for services: {quoted(entry.subject)}"
    if entry.token:
        yield from _token(entry, importer)


def _token(entry: Import, importer: str) -> Iterator[str]:
    try:
        activation = read_activation(entry.token)
    except TokenError:
        yield f"import {quoted(entry.subject)} contains an invalid activation token"
        return
    if entry.account not in (activation.issuer, activation.issuer_account):
        yield f"activation token doesn't match account for import {quoted(entry.subject)}"
    if activation.subject != importer:
        yield f"activation token doesn't match account it is being included in, {quoted(entry.subject)}"
    if activation.kind != entry.kind:
        yield f"mismatch between token import type {activation.kind} and type of import {entry.kind}"
    yield from _activation(activation)
    subject = entry.to if entry.kind == SERVICE and entry.to else entry.subject
    if not _is_contained(subject, activation.import_subject):
        yield (
            f"activation token import subject {quoted(activation.import_subject)} doesn't match import "
            f"{quoted(entry.subject)}"
        )


def _activation(claims: ActivationClaims) -> Iterator[str]:
    if claims.kind not in (STREAM, SERVICE):
        yield 'invalid import type: "unknown"'
    yield from _subject(claims.import_subject)
    if claims.issuer_account and not is_public_key("account", claims.issuer_account):
        yield "account_id is not an account public key"


def _renaming(local: str, subject: str) -> Iterator[str]:
    yield from _subject(local)
    if _ends_open(local) != _ends_open(subject):
        yield "both, renaming subject and subject, need to end or not end in >"
    wildcards = subject.split(".").count("*")
    references = 0
    for token in local.split("."):
        references += token == "*"
        if len(token) > 1 and _is_reference(token):
            if int(token[1:]) > wildcards:
                what = f"Reference ${token[1:]} in {quoted(local)} reference * in {quoted(subject)}"
                yield f"{what} that do not exist"
            else:
                references += 1
    if references != wildcards:
        yield "subject does not contain enough * or reference wildcards $[0-9]"


def _ends_open(subject: str) -> bool:
    return subject == ">" or subject.endswith(".>")


def _is_reference(token: str) -> bool:
    return token.startswith("$") and token[1:].isascii() and token[1:].isdigit()


def _untokenized(subject: str) -> str:
    return ".".join("*" if _is_reference(token) else token for token in subject.split(".")) if subject else ""


def _exports(claims: AccountClaims) -> Iterator[str]:
    for kind in (SERVICE, STREAM):
        subjects = [entry.subject for entry in claims.exports if entry.kind == kind]
        yield from _overlapping(kind, subjects)
    for entry in claims.exports:
        yield from _export(entry)
    allowed = claims.limits
    if allowed.exports < 0:
        return
    if len(claims.exports) > allowed.exports:
        yield "the account contains more exports than allowed by the operator"
    if not allowed.wildcard_exports and any(_has_wildcards(entry.subject) for entry in claims.exports):
        yield "the account contains wildcard exports that are not allowed by the operator"


def _overlapping(kind: str, subjects: list[str]) -> Iterator[str]:
    told = set()
    for first, subject in enumerate(subjects):
        for second, other in enumerate(subjects):
            if first != second and other not in told and _is_contained(subject, other):
                told.add(other)
                yield f"{kind} export subject {quoted(other)} already exports {quoted(subject)}"


def _export(entry: Export) -> Iterator[str]:
    if entry.kind not in (STREAM, SERVICE):
        yield 'invalid export type: "unknown"'
    if entry.kind == SERVICE and entry.response_type not in _RESPONSE_TYPES:
        yield f"invalid response type for service: {quoted(entry.response_type)}"
    if entry.kind == STREAM:
        if entry.response_type:
            yield f"invalid response type for stream: {quoted(entry.response_type)}"
        if entry.allow_trace:
            yield "AllowTrace only valid for service export"
    if entry.latency is not None:
        yield from _latency(entry, *entry.latency)
    if entry.threshold_ns < 0:
        yield "negative response threshold is invalid"
    if entry.threshold_ns > 0 and entry.kind != SERVICE:
        yield "response threshold only valid for services"
    yield from _subject(entry.subject)
    if entry.token_position > 0:
        yield from _token_position(entry)


def _latency(entry: Export, sampling: int, results: str) -> Iterator[str]:
    if entry.kind != SERVICE:
        yield "latency tracking only permitted for services"
    if not 0 <= sampling <= 100:
        yield "sampling percentage needs to be between 1-100"
    yield from _subject(results)
    if _has_wildcards(results):
        yield "results subject can not contain wildcards"


def _token_position(entry: Export) -> Iterator[str]:
    position, tokens = entry.token_position, entry.subject.split(".")
    if not _has_wildcards(entry.subject):
        yield f"Account Token Position can only be used with wildcard subjects: {entry.subject}"
    elif position > len(tokens):
        yield f"Account Token Position {position} exceeds length of subject '{entry.subject}'"
    elif tokens[position - 1] != "*":
        found = f"matches '{tokens[position - 1]}' but must match a * in: {entry.subject}"
        yield f"Account Token Position {position} {found}"


def _has_wildcards(subject: str) -> bool:
    tokens = subject.split(".")
    return "*" in tokens or tokens[-1] == ">"


def _is_contained(subject: str, other: str) -> bool:
    """Is all of a subject part of another one?"""
    own, others = subject.split("."), other.split(".")
    if (len(own) > len(others) and others[-1] != ">") or len(own) < len(others):
        return False
    for at, token in enumerate(others):
        if token == ">" and at == len(others) - 1:
            return True
        if token not in (own[at], "*"):
            return False
    return True


def first(found: Iterable[str]) -> str:
    """The first thing that is wrong; "" when nothing is."""
    return next(iter(found), "")
