"""`/accountz` and `/accstatz`: the accounts by name, one of them in detail, and the figures of all."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from jetbroker import limits
from jetbroker.accounts.account import Account
from jetbroker.config.options import GLOBAL_ACCOUNT, SYSTEM_ACCOUNT, AccountOptions, ExportOptions, MappingOptions
from jetbroker.forms.gotext import format_time
from jetbroker.monitor import statistics
from jetbroker.monitor.options import AccountStatzOptions, AccountzOptions
from jetbroker.monitor.query import BadRequest, Query
from jetbroker.monitor.sources import Room, Sources, now_text, paced
from jetbroker.monitor.subsz import figures
from jetbroker.routing.placeholders import number_wildcards

if TYPE_CHECKING:
    from jetbroker.accounts.graph import AccountGraph
    from jetbroker.auth.tokens import KnownAccount

_RESPONSES = {"Singleton": "Singleton", "Stream": "Streamed", "Chunked": "Chunked"}
_CONNZ, _STATZ, _USER = "$SYS.REQ.ACCOUNT.{}.CONNZ", "$SYS.REQ.ACCOUNT.{}.STATZ", "$SYS.REQ.USER.{}.INFO"
_SUBSCRIBERS, _API = "$SYS.DEBUG.SUBSCRIBERS", "$JS.API.>"
# what each account takes from the system account: there, here, with the name of who asks
_SYSTEM_SERVICES = (
    (_CONNZ, "$SYS.REQ.ACCOUNT.PING.CONNZ", False),
    (_CONNZ, "$SYS.REQ.SERVER.PING.CONNZ", False),
    (_STATZ, "$SYS.REQ.ACCOUNT.PING.STATZ", False),
    (_USER, "$SYS.REQ.USER.INFO", True),
)
_SYSTEM_EXPORTS = (
    (_CONNZ.format("*"), "Stream"),
    (_STATZ.format("*"), "Stream"),
    (_SUBSCRIBERS, "Singleton"),
    (_USER.format("*"), "Singleton"),
)


def asked(query: Query) -> AccountzOptions:
    """What a query string asks for."""
    return AccountzOptions(query.text("acc"))


def asked_for_figures(query: Query) -> AccountStatzOptions:
    """What a query string asks of all accounts' figures. Raises BadRequest."""
    return AccountStatzOptions([], query.boolean("unused"))


async def accountz(sources: Sources, options: AccountzOptions) -> dict[str, Any]:
    """The names of all accounts, or one account. Raises BadRequest."""
    answer: dict[str, Any] = {"server_id": sources.server_id, "now": now_text()}
    if sources.options.has_system_account:
        answer["system_account"] = sources.options.system_account or SYSTEM_ACCOUNT
    if options.account:
        return answer | {"account_detail": await account_info(sources, options.account)}
    return answer | {"accounts": list(sources.accounts)[: limits.MONITOR_ROWS]}


async def statz(sources: Sources, options: AccountStatzOptions) -> dict[str, Any]:
    """Figures of the accounts that are named, else of all; those that nobody uses only where that is asked for."""
    wanted = dict.fromkeys(options.accounts) or sources.accounts
    named = [sources.accounts[name] for name in wanted if name in sources.accounts]
    shown = [account for account in named if options.include_unused or statistics.used(account)]
    rows = await statistics.of_accounts(sources, shown)
    return {"server_id": sources.server_id, "now": now_text(), "account_statz": rows}


async def account_info(sources: Sources, name: str) -> dict[str, Any]:
    """What an account is, maps, gives and takes. Raises BadRequest."""
    account = sources.accounts.get(name)
    if account is None:
        raise BadRequest(f"Account {name} does not exist")
    configured = sources.options.accounts.get(name) or AccountOptions(name)
    known, room = sources.token_of(name), Room()
    server = sources.jetstream
    jetstream = None if server is None else server.by_account.get(name)
    found: dict[str, Any] = {
        "account_name": name,
        "update_time": format_time(sources.config_loaded_ns if known is None else known.taken_ns),
        "is_system": account.is_system,
        "expired": known is not None and known.expired,
        "complete": all(entry.account in sources.accounts for entry in configured.imports),
        "jetstream_enabled": jetstream is not None and jetstream.enabled,
        "leafnode_connections": account.links,
        "client_connections": account.connections,
        "subscriptions": account.router.subscriptions,
        "mappings": dict([room.take(row) async for row in paced(_mappings(sources, account, configured))]),
        "exports": [room.take(row) async for row in paced(_exports(sources, account, configured))],
        "imports": [room.take(row) async for row in paced(_imports(sources, account))],
        **({} if known is None else {"jwt": known.token, "issuer_key": known.claims.issuer}),
        "name_tag": account.tag or name,
        **({} if known is None else _told_by(known)),
        "sublist_stats": figures(sources, [account]),
    }
    return {key: value for key, value in found.items() if value or key not in _LEFT_OUT}


_LEFT_OUT = frozenset(("is_system", "mappings", "exports", "imports", "tags", "revoked_user"))  # where they are empty


def _told_by(known: "KnownAccount") -> dict[str, Any]:
    """What stands in an account's token."""
    from jetbroker.config.tokens.envelope import open_kind

    claims = known.claims
    said = dict(open_kind(known.token, "account").claims.raw)
    return {"tags": list(claims.tags), "decoded_jwt": said, "revoked_user": _times(claims.revocations)}


def _times(seconds: dict[str, int]) -> dict[str, str]:
    return {key: format_time(at * 1_000_000_000) for key, at in sorted(seconds.items())}


# --- mappings ---


def _mappings(
    sources: Sources, account: Account, configured: AccountOptions
) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    entries = [*configured.mappings, *(sources.options.mappings if account.name == GLOBAL_ACCOUNT else ())]
    found = [(entry.source, list(_destinations(entry))) for entry in entries]
    domain = account.router.domain
    if domain is not None and not account.is_system:
        for source in domain.sources():
            found.append((source.decode(), [{"subject": (domain.mapped(source) or source).decode(), "weight": 100}]))
    return sorted(found, key=lambda mapping: mapping[0])


def _destinations(entry: MappingOptions) -> Iterator[dict[str, Any]]:
    """Of each cluster, "" for any: the rarest first. A weight counts those before it in, up to 100."""
    by_cluster: dict[str, list[tuple[int, str]]] = {"": []}
    for target in entry.destinations:
        by_cluster.setdefault(target.cluster, []).append((target.weight, target.subject))
    named = {target.subject for target in entry.destinations}
    for cluster, targets in by_cluster.items():
        missing = 100 - sum(weight for weight, _ in targets)
        if missing and entry.source not in named:
            targets.append((missing, number_wildcards(entry.source.encode()).decode()))
        below = 0
        for weight, subject in sorted(targets, key=lambda target: target[0]):
            below += weight
            yield {"subject": subject, "weight": below, **({"cluster": cluster} if cluster else {})}


# --- what accounts give and take ---


def _exports(sources: Sources, account: Account, configured: AccountOptions) -> Iterator[dict[str, Any]]:
    def place(export: ExportOptions) -> tuple[str, str]:
        return export.kind, export.subject

    if account.is_system:
        own = {export.subject for export in configured.exports if export.kind == "service"}
        services = ((_API, "Singleton"), *_SYSTEM_EXPORTS) if sources.jetstream is not None else _SYSTEM_EXPORTS
        yield from (_service(subject, kind) for subject, kind in services if subject not in own)
    for (kind, subject), entries in groupby(sorted(configured.exports, key=place), key=place):
        yield _export(kind, subject, list(entries))


def _service(subject: str, response_type: str) -> dict[str, Any]:
    return {"subject": subject, "type": "service", "response_type": _RESPONSES[response_type]}


def _export(kind: str, subject: str, entries: list[ExportOptions]) -> dict[str, Any]:
    """One subject, however often the configuration names it."""
    row = {"subject": subject, "type": kind}
    if kind == "service":
        row = _service(subject, entries[-1].response_type)
    told: dict[str, Any] = {
        "token_req": any(entry.activated for entry in entries),
        "approved_accounts": list(dict.fromkeys(name for entry in entries for name in entry.accounts or ())),
        "revoked_activations": _times({key: at for entry in entries for key, at in entry.revocations.items()}),
    }
    return row | {key: value for key, value in told.items() if value}


def _imports(sources: Sources, account: Account) -> Iterator[dict[str, Any]]:
    taken: AccountGraph | None = sources.graph.get(account.name)
    if taken is not None:
        for stream in taken.streams:
            yield _import("stream", stream.exporter, stream.subject.decode(), stream.local.decode())
        for service in taken.services:
            local, subject = service.local.decode(), service.subject.decode()
            yield _import("service", service.exporter, subject, local, share=service.share)
    yield from _of_the_system(sources, account)


def _of_the_system(sources: Sources, account: Account) -> Iterable[dict[str, Any]]:
    system = sources.options.system_account or SYSTEM_ACCOUNT
    services = _SYSTEM_SERVICES[-1:] if account.is_system else _SYSTEM_SERVICES
    for there, here, share in services:
        yield _import("service", system, there.format(account.name), here, share=share)
    if sources.jetstream is not None and not account.is_system:
        yield _import("service", system, _API, _API, share=True)


def _import(kind: str, exporter: str, subject: str, local: str, *, share: bool = False) -> dict[str, Any]:
    row: dict[str, Any] = {"subject": subject, "account": exporter}
    if kind == "service":
        row |= {"to": local}
    row |= {"local_subject": local, "type": kind, "invalid": False, "share": share}
    return row | {"tracking": False}
