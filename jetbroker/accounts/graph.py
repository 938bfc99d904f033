"""What accounts give each other, worked out and checked: exports, imports, and the mappings of each account.

Nothing here touches a running broker: a start, a reload and `-t` all ask `check` first.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import astuple, dataclass, field
from typing import NamedTuple

from jetbroker import limits
from jetbroker.config.options import (
    GLOBAL_ACCOUNT,
    AccountOptions,
    ActivationOptions,
    ExportOptions,
    ImportOptions,
    MappingOptions,
    Options,
)
from jetbroker.errors import ConfigError
from jetbroker.forms.gotext import quoted
from jetbroker.routing.mapping import Mappings
from jetbroker.routing.placeholders import TransformError, number_wildcards, take_placeholders
from jetbroker.routing.transform import Transform
from jetbroker.wire.subjects import collide, subset, valid_subject, wildcard

DEFAULT_THRESHOLD_SECONDS = 120.0
EVERYBODY = "*"  # whose activations are revoked
# what the system account gives to others unasked; a request may be about the account only that asks
_OF_THE_SYSTEM_ACCOUNT = (
    ExportOptions("service", "$SYS.REQ.ACCOUNT.*.CONNZ", token_position=4, response_type="Stream"),
    ExportOptions("service", "$SYS.REQ.ACCOUNT.*.STATZ", token_position=4, response_type="Stream"),
    ExportOptions("service", "$SYS.DEBUG.SUBSCRIBERS"),
    ExportOptions("service", "$SYS.REQ.USER.*.INFO"),
)


@dataclass(slots=True, eq=False)
class Export:
    """What one account offers to others. `accounts` None: to all; `threshold` in seconds without an answer.

    With `activated` set, to those only whom one of its signers gave a token that was not revoked.
    """

    account: str
    subject: bytes
    accounts: set[str] | None = None
    token_position: int = 0
    single: bool = True
    threshold: float = DEFAULT_THRESHOLD_SECONDS
    activated: ExportOptions | None = None
    traced: bool = False  # traces tell what becomes of requests here

    def allows(self, importer: str, subject: bytes, activation: ActivationOptions | None) -> bool:
        """May this account import this subject, which is the export's or a part of it?"""
        if self.token_position:
            # nats-server looks at the token of parts only, not of the whole export
            tokens = subject.split(b".") if subject != self.subject else []
            return len(tokens) >= self.token_position and tokens[self.token_position - 1] == importer.encode()
        if self.activated is not None:
            return activation is not None and self._accepts(self.activated, activation)
        return self.accounts is None or importer in self.accounts

    def doubt(self, entry: ImportOptions) -> str:
        """What an exporter's log is told of an activation that names another account as its issuer's; "": nothing."""
        activation = entry.activation
        if self.token_position or self.activated is None or activation is None:
            return ""
        if activation.issuer_account in ("", self.account):
            return ""
        what = f"(subject: {quoted(activation.subject)} - type: {quoted(entry.kind)})"
        issuer = quoted(activation.issuer_account)
        return f"Invalid issuer account {issuer} in activation claim {what} for account {quoted(self.account)}"

    def _accepts(self, options: ExportOptions, activation: ActivationOptions) -> bool:
        if 0 < activation.expires <= time.time():
            return False
        if activation.issuer_account and (
            activation.issuer_account != self.account or activation.issuer not in options.signers
        ):
            return False
        revoked = (options.revocations.get(key) for key in (activation.importer, EVERYBODY))
        return all(at is None or at < activation.issued_at for at in revoked)


@dataclass(slots=True, frozen=True)
class StreamImport:
    """`subject` of the exporter's appears as `local`. `transform` and `undo` are None where one is the other as is."""

    exporter: str
    subject: bytes
    local: bytes
    rule: bytes  # `local` with its placeholders
    transform: Transform | None = field(default=None, compare=False)
    undo: Transform | None = field(default=None, compare=False)
    traced: bool = False  # traces tell what becomes of it here


@dataclass(slots=True, frozen=True)
class ServiceImport:
    """Requests to `local` go to `subject` of the exporter. `transform` None: to it, or as published if `published`."""

    exporter: str
    local: bytes
    subject: bytes
    export: Export
    transform: Transform | None = field(compare=False)
    published: bool
    share: bool


@dataclass(slots=True)
class AccountGraph:
    """What one account maps, offers and takes."""

    name: str
    mappings: Mappings | None = None
    stream_exports: dict[bytes, Export] = field(default_factory=dict)
    service_exports: dict[bytes, Export] = field(default_factory=dict)
    streams: list[StreamImport] = field(default_factory=list)
    services: list[ServiceImport] = field(default_factory=list)
    complete: bool = True  # every import could be made


Graph = dict[str, AccountGraph]


class _Fault(Exception):
    """Why one import cannot be; the text is nats-server's. `doubt` is told besides, as an error."""

    def __init__(self, text: str, doubt: str = "") -> None:
        super().__init__(text)
        self.doubt = doubt


class Flaw(NamedTuple):
    """Something that an account cannot map, offer or take. `what` is a "mapping", "stream import" and so on.

    `line` is all of it, as a check of a configuration tells it; `doubt` what a log is told before, as an error.
    """

    account: str
    what: str
    why: str
    line: str
    doubt: str = ""


def check(options: Options) -> Graph:
    """Mappings, exports and imports of all accounts, by account. Raises ConfigError, one line for each flaw."""
    graph, flaws = work_out(options)
    if flaws:
        raise ConfigError("\n".join(flaw.line for flaw in flaws))
    return graph


def work_out(
    options: Options, before: Graph | None = None, only: Collection[str] | None = None
) -> tuple[Graph, list[Flaw]]:
    """The same, and what is wrong with it: that is left out. Exports that are as `before` stay the same objects.

    `only`: nothing has changed but these accounts.
    """
    flaws: list[Flaw] = []
    accounts = dict(options.accounts)
    accounts.setdefault(GLOBAL_ACCOUNT, AccountOptions(GLOBAL_ACCOUNT))
    graph = {} if only is None or before is None else dict(before)
    if only is not None:
        accounts = {name: accounts[name] for name in only}
    graph |= {name: AccountGraph(name) for name in accounts}
    for name, account in accounts.items():
        sources = [*account.mappings, *(options.mappings if name == GLOBAL_ACCOUNT else ())]
        graph[name].mappings = _mappings(name, sources, flaws)
        for export in _exports(options, account):
            _add_export(graph[name], export, flaws)
        if before is not None and name in before:
            _keep_exports(graph[name].stream_exports, before[name].stream_exports)
            _keep_exports(graph[name].service_exports, before[name].service_exports)
    for kind, add in (("stream", _add_stream), ("service", _add_service)):
        for name, account in accounts.items():
            for entry in account.imports:
                if entry.kind == kind:
                    _add_import(graph, name, entry, add, flaws)
    return graph, flaws


def of_the_system_account(configured: Collection[ExportOptions]) -> list[ExportOptions]:
    """Its exports beside those that are configured: each that none of them covers."""
    return [export for export in _OF_THE_SYSTEM_ACCOUNT if not covered(export.subject, configured)]


def covered(service: str, configured: Iterable[ExportOptions]) -> bool:
    """Does one of the exports give this service, maybe with others?"""
    offered = (export.subject.encode() for export in configured if export.kind == "service")
    return any(subset(service.encode(), subject) for subject in offered)


def _exports(options: Options, account: AccountOptions) -> Iterator[ExportOptions]:
    """All that an import may be of. Without operators, nats-server reads imports before it adds exports of its own."""
    yield from account.exports
    if options.operator.enabled and account.name == options.system_account:
        yield from of_the_system_account(account.exports)


def _mappings(account: str, configured: Iterable[MappingOptions], flaws: list[Flaw]) -> Mappings | None:
    sources = []
    for mapping in configured:
        targets = [(target.subject.encode(), target.weight, target.cluster) for target in mapping.destinations]
        try:
            Mappings([(mapping.source.encode(), targets)])
        except TransformError as error:
            to = f" to {quoted(mapping.destinations[0].subject)}" if mapping.plain else ""
            line = _placed(mapping.place, f"Error adding mapping for {quoted(mapping.source)}{to} : {error}")
            flaws.append(Flaw(account, "mapping", str(error), line))
            continue
        sources.append((mapping.source.encode(), targets))
    return Mappings(sources) if sources else None


def _placed(place: str, text: str) -> str:
    return f"{place}: {text}" if place else text


def _add_export(account: AccountGraph, options: ExportOptions, flaws: list[Flaw]) -> None:
    subject = options.subject.encode()
    exports = account.stream_exports if options.kind == "stream" else account.service_exports
    if options.token_position:
        tokens = subject.split(b".")
        if not 1 <= options.token_position <= len(tokens) or tokens[options.token_position - 1] != b"*":
            why = "sublist: invalid subject"
            text = f"Error adding {options.kind} export {quoted(options.subject)}: {why}"
            flaws.append(Flaw(account.name, f"{options.kind} export", why, _placed(options.place, text)))
            return
    export = exports.setdefault(subject, Export(account.name, subject))
    if options.token_position:
        export.token_position = options.token_position
    if options.accounts:
        export.accounts = (export.accounts or set()) | set(options.accounts)
    if options.activated:
        export.activated = options
    export.single = export.single and options.response_type == "Singleton"
    if options.response_threshold:
        export.threshold = options.response_threshold
    export.traced = export.traced or options.traced


def _keep_exports(now: dict[bytes, Export], before: dict[bytes, Export]) -> None:
    for subject, export in now.items():
        known = before.get(subject)
        if known is not None and astuple(known) == astuple(export):
            now[subject] = known


def _add_import(
    graph: Graph,
    importer: str,
    options: ImportOptions,
    add: Callable[[Graph, AccountGraph, ImportOptions], None],
    flaws: list[Flaw],
) -> None:
    if options.account not in graph:
        graph[importer].complete = False
        text = f"{quoted(options.account)} account not defined for {options.kind} import"
        flaws.append(Flaw(importer, f"{options.kind} import", "account missing", _placed(options.place, text)))
        return
    try:
        add(graph, graph[importer], options)
    except _Fault as fault:
        graph[importer].complete = False
        text = f"Error adding {options.kind} import {quoted(options.subject)}: {fault}"
        line = _placed(options.place, text)
        flaws.append(Flaw(importer, f"{options.kind} import", str(fault), line, fault.doubt))


def _authorize(exports: dict[bytes, Export], importer: str, options: ImportOptions) -> Export:
    """The export that an import is of: the same subject, else the first that covers it."""
    subject = options.subject.encode()
    export = exports.get(subject)
    if export is None and valid_subject(subject):
        export = next((one for one in exports.values() if subset(subject, one.subject)), None)
    if export is None or not export.allows(importer, subject, options.activation):
        raise _Fault(f"{options.kind} import not authorized", "" if export is None else export.doubt(options))
    return export


def _add_stream(graph: Graph, importer: AccountGraph, options: ImportOptions) -> None:
    exporter, subject = graph[options.account], options.subject.encode()
    _authorize(exporter.stream_exports, importer.name, options)
    local = (options.to or options.subject).encode()
    if options.prefix:
        if wildcard(options.prefix.encode()):
            raise _Fault("stream import prefix can not contain wildcard tokens")
        local = f"{options.prefix.removesuffix('.')}.{options.subject}".encode()
    _check_cycle(graph, importer.name, exporter.name, local, _streams_that_collide)
    _check_cycle(graph, importer.name, exporter.name, subject, _streams_that_collide)
    transform, rule = None, local
    if wildcard(subject) and local != subject:
        transform = _strict("stream", subject, local, subject, number_wildcards(local))
        local = take_placeholders(local)[0]
    if any(one.exporter == exporter.name and one.subject == subject for one in importer.streams):
        raise _Fault("stream import already exists")
    undo = _undo(transform)
    importer.streams.append(StreamImport(exporter.name, subject, local, rule, transform, undo, options.traced))


def _undo(transform: Transform | None) -> Transform | None:
    """What leads back from the local subject; None without a transform, or when it cannot be undone."""
    try:
        return None if transform is None else transform.reversed()
    except TransformError:
        return None


def _add_service(graph: Graph, importer: AccountGraph, options: ImportOptions) -> None:
    exporter, subject = graph[options.account], options.subject.encode()
    local = (options.to or options.subject).encode()
    if not valid_subject(local) or not valid_subject(subject):
        raise _Fault("sublist: invalid subject")
    export = _authorize(exporter.service_exports, importer.name, options)
    published = wildcard(subject) and local == subject
    asked = take_placeholders(local)[0] if wildcard(subject) else local
    _check_cycle(graph, importer.name, exporter.name, asked, _services_that_collide)
    transform = None
    if wildcard(subject) and not published:
        there = _strict("service", local, subject, subject, number_wildcards(local))
        transform = _undo(there)
        local = asked
    importer.services.append(ServiceImport(exporter.name, local, subject, export, transform, published, options.share))


def _strict(kind: str, first: bytes, second: bytes, source: bytes, destination: bytes) -> Transform:
    try:
        return Transform(source, destination, strict=True)
    except TransformError as error:
        route = f"from {quoted(first.decode())} to {quoted(second.decode())}"
        raise _Fault(f"failed to create mapping transform for {kind} import subject {route}: {error}") from None


def _streams_that_collide(account: AccountGraph, subject: bytes) -> Iterator[tuple[str, bytes]]:
    """(exporter, subject to look for there) of each import that a subject may have come through."""
    if not any(subset(subject, export) for export in account.stream_exports):
        return
    for one in account.streams:
        if collide(subject, one.local):
            yield one.exporter, one.local if subset(one.local, subject) else subject


def _services_that_collide(account: AccountGraph, subject: bytes) -> Iterator[tuple[str, bytes]]:
    for one in account.services:
        if collide(subject, one.subject):
            yield one.exporter, one.local if subset(one.local, subject) else subject


def _check_cycle(
    graph: Graph,
    importer: str,
    exporter: str,
    subject: bytes,
    followed: Callable[[AccountGraph, bytes], Iterator[tuple[str, bytes]]],
) -> None:
    """Follow the imports of the exporter; an account that comes up twice is refused. Linear: nobody is left again."""
    visited = {importer}
    stack = [(exporter, followed(graph[exporter], subject))]
    while stack:
        account, imports = stack[-1]
        found = next(imports, None)
        if found is None:
            stack.pop()
            continue
        if found[0] in visited:
            raise _Fault("import forms a cycle")
        visited.add(account)
        if len(visited) >= limits.IMPORT_DEPTH:
            raise _Fault("search cycle depth exhausted")
        stack.append((found[0], followed(graph[found[0]], found[1])))
