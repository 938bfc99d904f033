"""`/metrics`: what Prometheus scrapes. Names and labels are prometheus-nats-exporter's; `jetbroker_` are our own."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jetbroker import limits
from jetbroker.monitor import healthz, jsz
from jetbroker.monitor.exposition import Histogram, Row, Table, text_of
from jetbroker.monitor.options import HealthzOptions, JSzOptions
from jetbroker.monitor.sources import Sources, paced
from jetbroker.monitor.varz import varz
from jetbroker.turns import in_turns

if TYPE_CHECKING:
    from jetbroker.jetstream.account import JetStream
    from jetbroker.jetstream.server import JetStreamServer
    from jetbroker.jetstream.streams.stream import Stream

_SKIPPED = frozenset(("leaf", "trusted_operators_claim"))  # by the exporter, too
_TEXTS = frozenset("server_id server_name version domain leader name".split())
_TIMES = frozenset(("start", "config_load_time"))
_SERVER = ("server_id", "server_name", "cluster", "domain", "meta_leader", "is_meta_leader")
_ACCOUNT = (*_SERVER, "account", "account_name", "account_id")
_STREAM = (*_ACCOUNT, "stream_name", "stream_leader", "is_stream_leader", "stream_raft_group")
_CONSUMER = (*_STREAM, "consumer_name", "consumer_leader", "is_consumer_leader", "consumer_desc")

_OF_SERVER = (
    ("jetstream_server_jetstream_disabled", "JetStream disabled or not"),
    ("jetstream_server_total_streams", "Total number of streams in JetStream"),
    ("jetstream_server_total_consumers", "Total number of consumers in JetStream"),
    ("jetstream_server_total_messages", "Total number of stored messages in JetStream"),
    ("jetstream_server_total_message_bytes", "Total number of bytes stored in JetStream"),
    ("jetstream_server_max_memory", "JetStream Max Memory"),
    ("jetstream_server_max_storage", "JetStream Max Storage"),
)
_OF_ACCOUNT = (
    ("jetstream_account_max_memory", "JetStream Account Max Memory in bytes"),
    ("jetstream_account_max_storage", "JetStream Account Max Storage in bytes"),
    ("jetstream_account_storage_used", "Total number of bytes used by JetStream storage"),
    ("jetstream_account_memory_used", "Total number of bytes used by JetStream memory"),
)
_OF_STREAM = (
    ("jetstream_stream_total_messages", "Total number of messages from a stream"),
    ("jetstream_stream_total_bytes", "Total stored bytes from a stream"),
    ("jetstream_stream_first_seq", "First sequence from a stream"),
    ("jetstream_stream_last_seq", "Last sequence from a stream"),
    ("jetstream_stream_consumer_count", "Total number of consumers from a stream"),
    ("jetstream_stream_subject_count", "Total number of subjects in a stream"),
    ("jetstream_stream_limit_bytes", "The configured limit of a stream in bytes, -1 for none"),
    ("jetstream_stream_limit_messages", "The configured limit of a stream in messages, -1 for none"),
)
_OF_CONSUMER = (
    ("jetstream_consumer_delivered_consumer_seq", "Latest sequence number of a stream consumer"),
    ("jetstream_consumer_delivered_stream_seq", "Latest sequence number of a stream"),
    ("jetstream_consumer_num_ack_pending", "Number of pending acks from a consumer"),
    ("jetstream_consumer_num_redelivered", "Number of redelivered messages from a consumer"),
    ("jetstream_consumer_num_waiting", "Number of inflight fetch requests from a pull consumer"),
    ("jetstream_consumer_num_pending", "Number of pending messages from a consumer"),
    ("jetstream_consumer_ack_floor_stream_seq", "Number of ack floor stream seq from a consumer"),
    ("jetstream_consumer_ack_floor_consumer_seq", "Number of ack floor consumer seq from a consumer"),
)
_OF_ORIGIN = {
    "mirror": (
        ("jetstream_stream_mirror_lag", "Number of messages a stream mirror is behind"),
        ("jetstream_stream_mirror_active_duration_ns", "Nanoseconds since the mirror was heard of, -1: inactive"),
    ),
    "source": (
        ("jetstream_stream_source_lag", "Number of messages a stream source is behind"),
        ("jetstream_stream_source_active_duration_ns", "Nanoseconds since the source was heard of, -1: inactive"),
    ),
}
_CONNZ = ("pending_bytes", "subscriptions", "in_bytes", "out_bytes", "in_msgs", "out_msgs")
_SHIPPED = (
    ("jetbroker_ship_passes", "Times that the whole store was shipped"),
    ("jetbroker_ship_failures", "Passes of shipping that failed"),
    ("jetbroker_ship_objects", "Objects that were shipped"),
    ("jetbroker_ship_bytes", "Bytes of these objects"),
    ("jetbroker_ship_moved_bytes", "Bytes that shipping sent or read back"),
)
_SHIPPING = (
    ("jetbroker_ship_failing", "1: the last pass of shipping failed"),
    ("jetbroker_ship_last_pass_seconds", "When the store was last shipped as a whole, in seconds since 1970"),
    ("jetbroker_ship_segments", "Segments that the shipped copy has"),
)
_FAULTS = (
    ("jetbroker_storage_faults", "Streams and consumers that the disk refuses to write now"),
    ("jetbroker_offline_assets", "Streams and consumers that the start could not bring back"),
    ("jetbroker_metrics_left_out", "Streams and consumers that this answer has no room for"),
)
_SYNC_SECONDS = ("jetbroker_fdatasync_seconds", "Seconds that the fdatasync of one file took")
_SYNC_CHANGES = ("jetbroker_commit_changes", "Messages and deletions that one round of fdatasync put on disk together")
_SYNC_FAILURES = ("jetbroker_sync_failures", "Times that a stream or consumer was told that its fdatasync had failed")


async def metrics(sources: Sources) -> bytes:
    """All figures, in Prometheus's text format 0.0.4."""
    server = (sources.server_id,)
    tables = [*_of_varz(sources.server_id, await varz(sources)), await _of_connections(sources), *_of_health(sources)]
    if sources.jetstream is None:
        return await text_of(tables)
    found = _JetStreamTables(sources, sources.jetstream)
    await found.collect()
    breaches = (("jetbroker_watchdog_breaches", "Consumers that the watchdog of deliveries had to set going"),)
    tables.append(Table(breaches, ("server_id",), [(server, (sources.jetstream.watchdog.breaches,))], counts=True))
    tables += _of_shipping(server, sources.jetstream)
    return await text_of([*tables, *found.tables()], _of_syncs(sources.server_id, sources.jetstream))


def _of_shipping(server: tuple[str, ...], jetstream: "JetStreamServer") -> list[Table]:
    """The copy of the store elsewhere; nothing without one."""
    shipping = jetstream.shipping
    if shipping is None or jetstream.options.jetstream.ship is None:
        return []
    figures = shipping.figures
    counts = (figures.passes, figures.failures, figures.objects, figures.bytes, figures.moved)
    state = (int(bool(figures.error)), figures.passed_at, figures.segments)
    return [
        Table(_SHIPPED, ("server_id",), [(server, counts)], counts=True),
        Table(_SHIPPING, ("server_id",), [(server, state)]),
    ]


def _of_varz(server_id: str, figures: dict[str, Any]) -> Iterator[Table]:
    """Each number of `/varz`, nested names joined; and the texts and times that tell of the server."""
    for name, key, value in _flat(figures, ""):
        metric = ((f"gnatsd_varz_{name}", name),)
        if isinstance(value, str):
            if key in _TIMES:
                milliseconds = round(datetime.fromisoformat(value).timestamp() * 1000)
                yield Table(metric, ("server_id",), [((server_id,), (milliseconds,))])
            elif key in _TEXTS:
                yield Table(metric, ("server_id", "value"), [((server_id, value), (1,))])
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield Table(metric, ("server_id",), [((server_id,), (value,))])


def _flat(figures: dict[str, Any], before: str) -> Iterator[tuple[str, str, Any]]:
    """(name of the metric, last key, value)"""
    for key, value in figures.items():
        if key == "metadata":  # an operator's own words
            continue
        name = "_".join(part for part in f"{before}_{key}".replace("/", "_").split("_") if part)
        if name in _SKIPPED:
            continue
        if isinstance(value, dict):
            yield from _flat(value, name)
        else:
            yield name, key, value


async def _of_connections(sources: Sources) -> Table:
    """The sums over all connections."""
    count, sums = 0, dict.fromkeys(_CONNZ, 0)
    async for connection in paced(sources.connected):
        count += 1
        sums["pending_bytes"] += connection.pending_bytes
        sums["subscriptions"] += connection.subscription_count
        for name in ("in_bytes", "out_bytes", "in_msgs", "out_msgs"):
            sums[name] += getattr(connection, name)
    shown = {"num_connections": count, "total": count, **sums}
    metrics = tuple((f"gnatsd_connz_{name}", name) for name in shown)
    return Table(metrics, ("server_id",), [((sources.server_id,), tuple(shown.values()))])


def _of_health(sources: Sources) -> list[Table]:
    status = str(healthz.healthz(sources, HealthzOptions())[1]["status"])
    is_ok = status == "ok"
    server = sources.server_id
    return [
        Table((("gnatsd_healthz_status", "0: healthy"),), ("server_id",), [((server,), (int(not is_ok),))]),
        Table(
            (("gnatsd_healthz_status_value", "1: healthy"),),
            ("server_id", "value"),
            [((server, status), (int(is_ok),))],
        ),
    ]


def _of_syncs(server_id: str, jetstream: "JetStreamServer") -> list[Histogram]:
    """What the rounds of fdatasync tell of themselves."""
    if jetstream.store is None:
        return []
    figures, labels = jetstream.store.group.figures, {"server_id": server_id}
    return [
        Histogram(metric, labels, histogram.cumulated(), histogram.sum)
        for metric, histogram in ((_SYNC_SECONDS, figures.seconds), (_SYNC_CHANGES, figures.changes))
    ]


class _JetStreamTables:
    """A row for each account, stream and consumer, as long as there is room in the answer."""

    def __init__(self, sources: Sources, jetstream: "JetStreamServer") -> None:
        self._sources = sources
        self._jetstream = jetstream
        name, domain = str(sources.info.server_name), sources.options.jetstream.domain
        self._server = (sources.server_id, name, "", domain, "", "true")
        self._room = limits.MONITOR_ANSWER_BYTES
        self._left_out = self._offline = 0
        self._of_account = Table(_OF_ACCOUNT, _ACCOUNT)
        self._of_stream = Table(_OF_STREAM, _STREAM)
        self._of_consumer = Table(_OF_CONSUMER, _CONSUMER)
        self._of_origin = {
            kind: Table(metrics, (*_STREAM, f"{kind}_name", f"{kind}_api", f"{kind}_deliver"))
            for kind, metrics in _OF_ORIGIN.items()
        }
        lost = (("jetbroker_stream_lost_messages", "Messages of a stream that damage on the disk has taken"),)
        self._lost = Table(lost, ("server_id", "account", "stream_name"))

    async def collect(self) -> None:
        """Look at all of them, in turns."""
        for jetstream in [found for found in self._jetstream.by_account.values() if found.enabled]:
            self._offline += len(jetstream.offline)
            account = await jsz.of_account(self._sources, JSzOptions(account=jetstream.account_name))
            labels = (*self._server, account["name"], account["name"], account["id"])
            fields = ("reserved_memory", "reserved_storage", "storage", "memory")
            self._take(self._of_account, (labels, tuple(account[field] for field in fields)))
            async for stream in paced(list(jetstream.streams.values())):
                await self._stream(jetstream, stream, labels)

    async def _stream(self, jetstream: "JetStream", stream: "Stream", account: tuple[str, ...]) -> None:
        leader = str((jetstream.host.server_info.placement() or {}).get("leader", ""))
        labels = (*account, stream.name, leader, "true", "")
        config, state, listed = stream.config, stream.state(), stream.listed_consumers()
        self._offline += len(stream.offline)
        counts = [state[name] for name in ("messages", "bytes", "first_seq", "last_seq", "consumer_count")]
        subjects = state.get("num_subjects", 0)
        self._take(self._of_stream, (labels, (*counts, subjects, config.max_bytes, config.max_msgs)))
        if lost := stream.log.lost_count():
            self._take(self._lost, ((self._sources.server_id, jetstream.account_name, stream.name), (lost,)))
        if stream.origins is not None:
            told = stream.origins.info()
            self._origins("mirror", labels, [told["mirror"]] if "mirror" in told else [])
            self._origins("source", labels, told.get("sources", []))
        async for consumer in paced(list(listed.values())):
            await in_turns(consumer.counting())
            self._consumer(labels, leader, consumer.info())

    def _origins(self, kind: str, stream: tuple[str, ...], told: list[dict[str, Any]]) -> None:
        for origin in told:
            external = origin.get("external", {})
            labels = (*stream, origin["name"], external.get("api", ""), external.get("deliver", ""))
            self._take(self._of_origin[kind], (labels, (origin["lag"], origin["active"])))

    def _consumer(self, stream: tuple[str, ...], leader: str, info: dict[str, Any]) -> None:
        labels = (*stream, info["name"], leader, "true", info["config"].get("description", ""))
        delivered, floor = info["delivered"], info["ack_floor"]
        counts = tuple(info[name] for name in ("num_ack_pending", "num_redelivered", "num_waiting", "num_pending"))
        seqs = (delivered["consumer_seq"], delivered["stream_seq"])
        self._take(self._of_consumer, (labels, (*seqs, *counts, floor["stream_seq"], floor["consumer_seq"])))

    def _take(self, table: Table, row: Row) -> None:
        size = table.size_of(row)
        if size > self._room:
            self._left_out += 1
            return
        self._room -= size
        table.rows.append(row)

    def tables(self) -> list[Table]:
        """What was found."""
        totals = jsz.server_figures(self._jetstream)
        names = ("streams", "consumers", "messages", "bytes", "max_memory", "max_storage")
        of_server = Table(_OF_SERVER, _SERVER, [(self._server, (0, *(totals[name] for name in names)))])
        store = self._jetstream.store
        faults = sum(1 for _ in store.faults) if store is not None else 0
        failures = store.group.figures.failures if store is not None else 0
        server = (self._sources.server_id,)
        own = Table(_FAULTS, ("server_id",), [(server, (faults, self._offline, self._left_out))])
        return [
            of_server,
            self._of_account,
            self._of_stream,
            self._of_consumer,
            *self._of_origin.values(),
            self._lost,
            own,
            Table((_SYNC_FAILURES,), ("server_id",), [(server, (failures,))], counts=True),
        ]
