"""`/healthz`: may traffic be sent here?"""

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from jetbroker import limits
from jetbroker.forms.gotext import quoted
from jetbroker.monitor.options import HealthzOptions
from jetbroker.monitor.query import Query
from jetbroker.monitor.sources import Sources

if TYPE_CHECKING:
    from jetbroker.jetstream.account import JetStream

_SERVER_ONLY = ("js-enabled", "js-enabled-only", "js-server-only", "js-meta-only")

_NOT_READY = "failed to be ready for connections after 1ms: server"  # nats-server's words for a lame duck


class _Unhealthy(Exception):
    """What is wrong: the text, its kind in the detailed form, and what it is about."""

    def __init__(self, status: HTTPStatus, kind: str, text: str, **about: str) -> None:
        super().__init__(text)
        self.status = status
        self.kind = kind
        self.about = about


def asked(query: Query) -> HealthzOptions:
    """What a query string asks for. Raises BadRequest."""
    flags = {name.replace("-", "_"): query.boolean(name) for name in (*_SERVER_ONLY, "details")}
    return HealthzOptions(
        account=query.text("account"), stream=query.text("stream"), consumer=query.text("consumer"), **flags
    )


def healthz(sources: Sources, options: HealthzOptions) -> tuple[HTTPStatus, dict[str, Any]]:
    """The HTTP status and the body."""
    account, stream, consumer = options.account, options.stream, options.consumer
    try:
        if stream and not account:
            raise _bad_request('"account" must not be empty when checking stream health')
        if consumer and not stream:
            raise _bad_request('"stream" must not be empty when checking consumer health')
        if not sources.ready():
            raise _Unhealthy(HTTPStatus.INTERNAL_SERVER_ERROR, "CONNECTION", _NOT_READY)
        if sources.options.jetstream.enabled and sources.jetstream is None and not options.js_server_only:
            raise _Unhealthy(HTTPStatus.SERVICE_UNAVAILABLE, "JETSTREAM", "JetStream not enabled (10076)")
        if sources.jetstream is not None and not options.server_only:
            _check(sources, account, stream, consumer)
    except _Unhealthy as fault:
        return fault.status, _fault(fault, options.details)
    told = {} if options.server_only else {"damaged": _damage(sources), "offline": _offline(sources)}
    return HTTPStatus.OK, {"status": "ok"} | {name: found for name, found in told.items() if found}


def _damage(sources: Sources) -> list[dict[str, Any]]:
    """Streams that lost messages to a damaged disk. They work: no probe should fail for what no restart mends."""
    by_account = sources.jetstream.by_account if sources.jetstream is not None else {}
    found = []
    for name, jetstream in by_account.items():
        for stream in jetstream.streams.values():
            lost = stream.log.lost_count()
            if lost:
                found.append({"account": name, "stream": stream.name, "messages": lost})
    return found


def _offline(sources: Sources) -> list[dict[str, Any]]:
    """Streams and consumers that the start could not bring back: the others work, and a restart would not help."""
    by_account = sources.jetstream.by_account if sources.jetstream is not None else {}
    found: list[dict[str, Any]] = []
    for name, jetstream in by_account.items():
        found += [
            {"account": name, "stream": stream, "error": why} for stream, why in sorted(jetstream.offline.items())
        ]
        for stream in jetstream.streams.values():
            where = {"account": name, "stream": stream.name}
            found += [where | {"consumer": consumer, "error": why} for consumer, why in sorted(stream.offline.items())]
    return found[: limits.MONITOR_ROWS]


def _bad_request(text: str) -> _Unhealthy:
    return _Unhealthy(HTTPStatus.BAD_REQUEST, "BAD_REQUEST", text)


def _fault(fault: _Unhealthy, details: bool) -> dict[str, Any]:
    if details:
        return {"status": "error", "errors": [{"type": fault.kind, **fault.about, "error": str(fault)}]}
    own_fault = fault.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.INTERNAL_SERVER_ERROR)
    status = "error" if own_fault else "unavailable"
    return {"status": status, "error": str(fault)}


def _check(sources: Sources, account: str, stream: str, consumer: str) -> None:
    by_account = sources.jetstream.by_account if sources.jetstream is not None else {}
    if not account:
        for jetstream in by_account.values():
            _check_streams(jetstream, list(jetstream.streams))
        store = sources.jetstream.store if sources.jetstream is not None else None
        for fault in store.faults.of_stream("", "") if store is not None else ():
            text = f"JetStream storage cannot be written: {fault.file}: {fault.reason}"
            raise _Unhealthy(HTTPStatus.SERVICE_UNAVAILABLE, "STORE", text)
        return
    found = by_account.get(account)
    if found is None or not found.enabled:
        text = f"JetStream account {quoted(account)} not found"
        raise _Unhealthy(HTTPStatus.NOT_FOUND, "ACCOUNT", text, account=account)
    known = sources.token_of(account)
    if known is not None and known.expired:
        text = f"JetStream account '{account}' is expired"
        raise _Unhealthy(HTTPStatus.SERVICE_UNAVAILABLE, "ACCOUNT", text, account=account)
    if not stream:
        _check_streams(found, list(found.streams))
        return
    if stream not in found.streams and stream not in found.offline:
        text = f"JetStream stream {quoted(stream)} not found on account {quoted(account)}"
        raise _Unhealthy(HTTPStatus.NOT_FOUND, "STREAM", text, account=account, stream=stream)
    about = {"account": account, "stream": stream}
    if stream in found.offline:
        raise _is_offline(f"stream {quoted(stream)}", "STREAM", found.offline[stream], **about)
    _check_streams(found, [stream])
    offline = found.streams[stream].offline
    if consumer in offline:
        text = f"consumer {quoted(consumer)} of stream {quoted(stream)}"
        raise _is_offline(text, "CONSUMER", offline[consumer], **about, consumer=consumer)
    if consumer and consumer not in found.streams[stream].consumers:
        text = (
            f"JetStream consumer {quoted(consumer)} not found for stream {quoted(stream)} on account {quoted(account)}"
        )
        raise _Unhealthy(HTTPStatus.NOT_FOUND, "CONSUMER", text, account=account, stream=stream, consumer=consumer)


def _is_offline(what: str, kind: str, reason: str, **about: str) -> _Unhealthy:
    text = f"JetStream {what} on account {quoted(about['account'])} is offline: {reason}"
    return _Unhealthy(HTTPStatus.SERVICE_UNAVAILABLE, kind, text, **about)


def _check_streams(jetstream: "JetStream", names: list[str]) -> None:
    """Streams that the disk refuses to write."""
    where = f"on account {quoted(jetstream.account_name)}"
    about = {"account": jetstream.account_name}
    for name in names:
        for fault in jetstream.store.faults.of_stream(jetstream.account_name, name):
            what = f"stream {quoted(name)}"
            if fault.consumer:
                what = f"consumer {quoted(fault.consumer)} of {what}"
            text = f"JetStream {what} {where} cannot be written: {fault.file}: {fault.reason}"
            raise _Unhealthy(HTTPStatus.SERVICE_UNAVAILABLE, "STREAM", text, **about, stream=name)
