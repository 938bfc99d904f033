"""From two looks at a server to its figures. What a server says is taken for what it should be, or for nothing."""

from dataclasses import asdict, dataclass, field
from typing import Any

from jetbroker import limits
from jetbroker.bounds import UINT64_MAX
from jetbroker.daemon.top.asking import Answers


@dataclass
class ServerRow:
    """The server as a whole. Rates are per second, None after the first look."""

    name: str
    version: str
    uptime: str
    health: str
    cpu: float
    memory: int
    connections: int
    subscriptions: int
    leafnodes: int
    slow_consumers: int
    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    streams: int
    consumers: int
    messages: int
    stored: int
    problems: list[str] = field(default_factory=list)
    in_msgs_rate: float | None = None
    out_msgs_rate: float | None = None
    in_bytes_rate: float | None = None
    out_bytes_rate: float | None = None


@dataclass
class StreamRow:
    """A stream."""

    account: str
    name: str
    messages: int
    bytes: int
    last_seq: int
    consumers: int
    rate: float | None = None


@dataclass
class ConsumerRow:
    """A consumer. `lag`: sequences between the last delivered one and the stream's end."""

    account: str
    stream: str
    name: str
    lag: int
    pending: int
    ack_pending: int
    redelivered: int
    waiting: int


@dataclass
class ConnectionRow:
    """A client, or a link to another server. `rate`: messages of both directions."""

    account: str
    cid: int
    name: str
    address: str
    subscriptions: int
    in_msgs: int
    out_msgs: int
    pending_bytes: int
    rate: float | None = None


@dataclass
class Figures:
    """One look, with the rates since the one before. `at`: seconds of any clock that does not go back."""

    at: float
    server: ServerRow
    streams: list[StreamRow]
    consumers: list[ConsumerRow]
    connections: list[ConnectionRow]

    def to_json(self) -> dict[str, Any]:
        """For scripts."""
        found = asdict(self)
        del found["at"]
        return found


def figures_of(answers: Answers, at: float, before: Figures | None) -> Figures:
    """What the answers say; rates are those since `before`."""
    streams, consumers = _jetstream(answers.jsz)
    connections = [_connection(row) for row in _rows(answers.connz, "connections")]
    found = Figures(at, _server(answers), streams, consumers, connections)
    if before is not None and at > before.at:
        _add_rates(found, before, at - before.at)
    return found


def _add_rates(now: Figures, before: Figures, seconds: float) -> None:
    for name in ("in_msgs", "out_msgs", "in_bytes", "out_bytes"):
        grown = getattr(now.server, name) - getattr(before.server, name)
        setattr(now.server, f"{name}_rate", max(grown, 0) / seconds)
    known = {(row.account, row.name): row.last_seq for row in before.streams}
    for stream in now.streams:
        if (stream.account, stream.name) in known:
            stream.rate = max(stream.last_seq - known[stream.account, stream.name], 0) / seconds
    moved = {row.cid: row.in_msgs + row.out_msgs for row in before.connections}
    for row in now.connections:
        if row.cid in moved:
            row.rate = max(row.in_msgs + row.out_msgs - moved[row.cid], 0) / seconds


def _server(answers: Answers) -> ServerRow:
    varz, jsz = answers.varz, answers.jsz
    problems = []
    status = _text(answers.healthz, "status")
    if status != "ok":
        problems.append(_text(answers.healthz, "error") or "the server is not healthy")
    damaged = [
        f"{_text(row, 'stream')} lost {_int(row, 'messages')} messages" for row in _rows(answers.healthz, "damaged")
    ]
    offline = [f"{_text(row, 'stream')} is offline" for row in _rows(answers.healthz, "offline")]
    problems += damaged + offline
    for name, what in (("storage_faults", "storage faults"), ("watchdog_breaches", "breaches of the watchdog")):
        if _int(jsz, name):
            problems.append(f"{_int(jsz, name)} {what}")
    counted = (
        "connections",
        "subscriptions",
        "leafnodes",
        "slow_consumers",
        "in_msgs",
        "out_msgs",
        "in_bytes",
        "out_bytes",
    )
    return ServerRow(
        name=_text(varz, "server_name"),
        version=_version(_text(varz, "version"), _text(varz, "go")),
        uptime=_text(varz, "uptime"),
        health=status or "unknown",
        cpu=_float(varz, "cpu"),
        memory=_int(varz, "mem"),
        **{name: _int(varz, name) for name in counted},
        **{name: _int(jsz, name) for name in ("streams", "consumers", "messages")},
        stored=_int(jsz, "bytes"),
        problems=problems[: limits.DASHBOARD_PROBLEMS],
    )


def _version(version: str, made_of: str) -> str:
    return made_of.partition(",")[0] if made_of.startswith("jetbroker") else f"nats-server {version}"


def _jetstream(jsz: dict[str, Any]) -> tuple[list[StreamRow], list[ConsumerRow]]:
    streams: list[StreamRow] = []
    consumers: list[ConsumerRow] = []
    for account in _rows(jsz, "account_details"):
        name = _text(account, "name")
        for stream in _rows(account, "stream_detail"):
            state = _map(stream, "state")
            last = _int(state, "last_seq")
            counts = [_int(state, field) for field in ("messages", "bytes", "last_seq", "consumer_count")]
            streams.append(StreamRow(name, _text(stream, "name"), *counts))
            for consumer in _rows(stream, "consumer_detail"):
                delivered = max(_int(_map(consumer, "delivered"), "stream_seq"), _int(state, "first_seq") - 1)
                counts = [
                    _int(consumer, field)
                    for field in ("num_pending", "num_ack_pending", "num_redelivered", "num_waiting")
                ]
                lag = max(last - delivered, 0)
                consumers.append(ConsumerRow(name, _text(stream, "name"), _text(consumer, "name"), lag, *counts))
    return streams, consumers


def _connection(row: dict[str, Any]) -> ConnectionRow:
    return ConnectionRow(
        _text(row, "account") or "$G",
        _int(row, "cid"),
        _text(row, "name") or _text(row, "authorized_user"),
        f"{_text(row, 'ip')}:{_int(row, 'port')}",
        _int(row, "subscriptions"),
        _int(row, "in_msgs"),
        _int(row, "out_msgs"),
        _int(row, "pending_bytes"),
    )


# --- values of strangers ---


def _int(found: dict[str, Any], name: str) -> int:
    value = found.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= UINT64_MAX else 0


def _float(found: dict[str, Any], name: str) -> float:
    value = found.get(name)
    return float(value) if isinstance(value, int | float) and abs(value) < 1e15 else 0.0


def _text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    return value[: limits.DASHBOARD_TEXT] if isinstance(value, str) else ""


def _map(found: dict[str, Any], name: str) -> dict[str, Any]:
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def _rows(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    value = found.get(name)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
