"""The life of a stream's origins: of the one it mirrors, or of those it sources from.

Each origin is asked for a consumer by its API (or to reset one that was made beforehand), as any client would ask, so
that it makes no difference whether it is in this account, behind an account's imports or in another domain. What the
consumer delivers is taken by an OriginIngest; this module makes the connection, finds out that it is broken, and makes
it again.

Where a source goes on after a restart is recorded once per tick beside the stream. The record is written no later than
the messages are given out, so no message that consumers have removed since is forgotten; those stored after the last
record tell by their `Nats-Stream-Source` header. A mirror goes on behind its own last sequence.
"""

import random
from asyncio import TimerHandle
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson

from jetbroker.errors import StorageError
from jetbroker.forms.api_level import API_LEVEL, LEVEL_HEADER
from jetbroker.forms.gojson import dumps
from jetbroker.forms.gotext import HOUR, SECOND, quoted
from jetbroker.jetstream.models.config import StreamConfig, StreamSource
from jetbroker.jetstream.models.errors import ApiError, api_error
from jetbroker.jetstream.models.names import random_name, short_hash, valid_name
from jetbroker.jetstream.models.origin_config import index_name
from jetbroker.jetstream.sourcing.origin_answers import AnswerError, ConsumerAnswer, read_answer
from jetbroker.jetstream.sourcing.origin_ingest import OriginIngest
from jetbroker.jetstream.sourcing.patience import Patience
from jetbroker.jetstream.sourcing.positions import last_positions
from jetbroker.jetstream.streams.direct import DirectGet
from jetbroker.jetstream.streams.stream import Stream
from jetbroker.routing.router import CallbackReceiver
from jetbroker.routing.subscription import Subscription
from jetbroker.routing.transform import Transform
from jetbroker.store.log.statelog import StateLog
from jetbroker.turns import Steps, at_once
from jetbroker.wire.subjects import valid_subject

API_PREFIX = "$JS.API"
DIRECT_QUEUE = b"_sys_"
CAUGHT_UP = 10  # messages: so close behind its origin a mirror answers direct gets for it
FIRST_TRY_SECONDS = 0.05  # behind the start, when the other streams are there
CONNECTS_PER_SECOND = 2000  # about, of one stream: its origins take turns with everybody else
CHECK_SECONDS = 1.0
HEARTBEAT_NS = SECOND
SILENT_NS = 3 * HEARTBEAT_NS
DOUBTFUL_NS = HEARTBEAT_NS + HEARTBEAT_NS // 2  # silent for so long, and a link came or went: it is broken
LOST_SECONDS = 0.5  # asked for so long, and a link came or went: asked again
TIMER_SECONDS = 0.01  # a timer may be early by less
INACTIVE_NS = 10 * SECOND
ACK_WAIT_NS = 22 * HOUR
MAX_POSITIONS = 10_000  # of sources that are configured no more; they go on there when they come back

_NO_RESPONDERS = b"NATS/1.0 503"
_NEEDS_LEVEL = b"NATS/1.0\r\n%b: %d\r\n\r\n" % (LEVEL_HEADER, API_LEVEL)
_OLDER_PEER = (
    api_error("required_api_level").err_code,
    api_error("invalid_json", err="").err_code,
    # it took `sourcing` for nothing, and still has the consumer that the connection before had
    api_error("consumer_name_exist").err_code,
    api_error("consumer_create", err="").err_code,
)
_STORE_FAILED = api_error("stream_store_failed", err="").err_code
_NO_ROOM = ("maximum messages exceeded", "maximum bytes exceeded", "maximum messages per subject exceeded")


class Origin:
    """One origin of a stream."""

    def __init__(self, origins: "Origins", source: StreamSource, name: str) -> None:
        self.origins = origins
        self.stream = origins.stream
        self.host = origins.host
        self.source = source
        self.name = name  # index name; "" for a mirror
        self.error: ApiError | dict[str, Any] | None = None
        transforms = [
            Transform((t.src or ">").encode(), t.dest.encode()) if t.dest else None for t in source.subject_transforms
        ]
        self.ingest = OriginIngest(self.stream, self, name, transforms, origins.moved)
        self.consumer = ""  # the name it has at the origin, "": there is none
        self._patience = Patience()
        self._is_doubtful = False
        self._asked_at = 0.0
        self._timer: TimerHandle | None = None
        self._reply: Subscription | None = None
        self._deliveries: Subscription | None = None
        self._direct: list[Subscription] = []
        self._direct_gets: DirectGet | None = None
        self._deliver_subject = ""
        self._is_sourcing = True
        self._has_asked = False  # as nats-server, which shows the filter of a mirror only then

    # --- life ---

    def start(self, position: int) -> None:
        """Connect soon; `position`: the last message of the origin that is done with."""
        self.ingest.go_back(position)
        self._later(FIRST_TRY_SECONDS)

    def stop(self) -> None:
        """Disconnect for good; the consumer at the origin stays."""
        self._disconnect()
        self.end_direct_gets()
        if self._direct_gets is not None:
            self._direct_gets.forget()

    def release(self) -> None:
        """Nothing comes any more: what took it and this let go of each other."""
        del self.ingest

    def delete_consumer(self) -> None:
        """Tell the origin, without waiting for an answer; a consumer that was made beforehand stays."""
        if self.consumer and self.source.consumer is None:
            self._request(f"CONSUMER.DELETE.{self.source.name}.{self.consumer}", None, b"", b"")
            self.consumer = ""

    def info(self) -> dict[str, Any]:
        """StreamSourceInfo."""
        out: dict[str, Any] = {"name": self.source.name}
        if self.source.external is not None:
            out["external"] = {"api": self.source.external.api, "deliver": self.source.external.deliver}
        out |= {"lag": self.ingest.lag, "active": self.ingest.silent_ns()}
        if self.error is not None:
            out["error"] = self.error.to_json() if isinstance(self.error, ApiError) else self.error
        if self.source.filter_subject and (self.name or self._has_asked):
            out["filter_subject"] = self.source.filter_subject
        if self.source.subject_transforms:
            out["subject_transforms"] = [{"src": t.src, "dest": t.dest} for t in self.source.subject_transforms]
        return out

    def _later(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        spread = self.origins.count / CONNECTS_PER_SECOND
        seconds = seconds * random.uniform(1.0, 1.1) + random.uniform(0.0, spread)
        self._timer = self.host.tick.loop.call_later(seconds, self._connect)

    def _disconnect(self) -> None:
        self.ingest.end()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for subscription in (self._reply, self._deliveries):
            if subscription is not None:
                self.host.router.unsubscribe(subscription)
        self._reply = self._deliveries = None

    def _retry(self, error: ApiError | dict[str, Any] | None, *, refused: bool = True) -> None:
        self._disconnect()
        self.error = error
        if self.consumer != self.origins.consumer_name(self):
            self.delete_consumer()  # one that is for this connection only
        self._later(self._patience.before_next(refused=refused))

    def _retry_unheard(self) -> None:
        """Nobody took the request, or nobody answered it."""
        self._retry(self._setup_failed("no response from the origin"), refused=False)

    def _setup_failed(self, reason: str) -> ApiError:
        return api_error("source_consumer_setup_failed" if self.name else "mirror_consumer_setup_failed", err=reason)

    # --- asking for a consumer ---

    def _connect(self) -> None:
        self._disconnect()
        self._has_asked = True
        host = self.host
        reply = f"$JSC.R.{random_name()}".encode()
        self._reply = host.router.subscribe(CallbackReceiver(host.tick, self._answered), reply)
        self._asked_at = host.tick.loop.time()
        self._timer = host.tick.loop.call_later(self._patience.for_answer(), self._retry_unheard)
        if self.source.consumer is not None:
            # one made beforehand goes back to what we have confirmed
            self._deliver_subject = self.source.consumer.deliver_subject
            asked = self._request(f"CONSUMER.RESET.{self.source.name}.{self.source.consumer.name}", reply, b"", b"")
        else:
            asked = self._ask_for_consumer(reply)
        if not asked:
            self._retry_unheard()

    def _ask_for_consumer(self, reply: bytes) -> int:
        """How many took the request."""
        prefix = self.source.external.deliver if self.source.external is not None else ""
        kind = "S" if self.name else "M"
        self._deliver_subject = f"{prefix or '$JS'}.{kind}.{random_name()}".replace("..", ".")
        wanted = self._wanted_consumer()
        subject = f"CONSUMER.CREATE.{self.source.name}"
        if "filter_subject" in wanted:
            subject += f".{wanted['name']}.{wanted['filter_subject']}"
        body = dumps({"stream_name": self.source.name, "config": wanted, "action": ""})
        return self._request(subject, reply, _NEEDS_LEVEL if self._is_sourcing else b"", body)

    def _request(self, subject: str, reply: bytes | None, headers: bytes, body: bytes) -> int:
        prefix = self.source.external.api if self.source.external is not None else ""
        target = f"{prefix or API_PREFIX}.{subject}".replace("..", ".").encode()
        if not valid_subject(target):
            return 0  # the filter of an update or the name of an external origin, at which nobody else has looked
        return self.host.router.publish_bytes(target, reply, headers, body)

    def _wanted_consumer(self) -> dict[str, Any]:
        """Body of the request's `config`."""
        name = self.origins.consumer_name(self)
        kind = "src" if self.name else "mirror"
        metadata = {f"_nats.{kind}.stream": self.stream.name, f"_nats.{kind}.acc": self.host.account_name}
        if self.host.server_info.domain:
            metadata[f"_nats.{kind}.domain"] = self.host.server_info.domain
        out: dict[str, Any] = {
            "name": name if self._is_sourcing else f"{name}_{random_name()}",
            "deliver_subject": self._deliver_subject,
            **self._start(),
            "ack_policy": "none",
            "ack_wait": ACK_WAIT_NS,
            "max_deliver": 1,
            "replay_policy": "instant",
            "flow_control": True,
            "idle_heartbeat": HEARTBEAT_NS,
            "inactive_threshold": INACTIVE_NS,
            "num_replicas": 0,
            "direct": True,
            "metadata": metadata,
        }
        if self._is_sourcing:
            out["sourcing"] = True
        filters = [self.source.filter_subject] if self.source.filter_subject else []
        filters = filters or [transform.src or ">" for transform in self.source.subject_transforms]
        if len(filters) == 1:
            out["filter_subject"] = filters[0]
        elif filters:
            out["filter_subjects"] = filters
        return out

    def _start(self) -> dict[str, Any]:
        """Where deliveries begin: behind what is done with, at first where the configuration says."""
        log = self.stream.log
        is_new = self.ingest.stream_seq == 0
        if not self.name:
            is_new = log.messages == 0 and log.first_seq == 0
        if not is_new:
            done = self.ingest.stream_seq if self.name else log.last_seq
            return {"deliver_policy": "by_start_sequence", "opt_start_seq": done + 1}
        if self.source.opt_start_seq:
            return {"deliver_policy": "by_start_sequence", "opt_start_seq": self.source.opt_start_seq}
        if self.source.opt_start_time is not None:
            return {"deliver_policy": "by_start_time", "opt_start_time": str(self.source.opt_start_time)}
        return {"deliver_policy": "all"}

    def _answered(self, subject: bytes, reply: bytes | None, headers: bytes, payload: bytes, origin: object) -> None:
        if self._reply is None:
            return
        if headers.startswith(_NO_RESPONDERS):
            self._retry_unheard()
            return
        try:
            answer = read_answer(payload)
            if isinstance(answer, ConsumerAnswer):
                self._begin(answer)
                return
        except AnswerError:
            answer = self._setup_failed("invalid consumer create response").to_json()
        if self._is_sourcing and answer["err_code"] in _OLDER_PEER:
            self._is_sourcing = False
            self._connect()
            return
        self._is_sourcing = True
        what = f"stream {self.stream.name} create source consumer {self.source.name}"
        error = f"{answer['description']} ({answer['err_code']})"
        self.host.log.warn_seldom(
            f"JetStream error response for {what if self.name else 'create mirror consumer'}: {error}"
        )
        self._retry(answer)

    def _begin(self, answer: ConsumerAnswer) -> None:
        """The consumer is there: take what it delivers. Raises AnswerError when it is not what was asked for."""
        router = self.host.router
        if self.source.consumer is None:
            if answer.deliver_subject != self._deliver_subject:
                raise AnswerError  # an origin does not choose what is listened to
        elif answer.ack_policy != "flow_control":
            self._retry(api_error(f"{'source' if self.name else 'mirror'}_consumer_requires_ack_fc"))
            return
        self.consumer = answer.name
        self._disconnect()
        try:
            self.ingest.begin(max(answer.delivered, self.ingest.stream_seq) if self.name else answer.delivered)
        except StorageError as error:
            self._retry(api_error("stream_store_failed", err=error))
            return
        self.error = None
        self._deliveries = router.subscribe(self.ingest, self._deliver_subject.encode())
        self._check_in(CHECK_SECONDS)
        if answer.pending < CAUGHT_UP:
            self._answer_direct_gets()

    # --- while it lasts ---

    def _check_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.host.tick.loop.call_later(seconds, self._check)

    def _check(self) -> None:
        silent_ns, doubtful = self.ingest.silent_ns(), self._is_doubtful
        self._is_doubtful = False
        if doubtful and silent_ns > DOUBTFUL_NS:
            self._connect()
            return
        if silent_ns > SILENT_NS:
            self._retry(self.error, refused=False)
            return
        self._patience.renew()
        if not self._direct and self.ingest.lag < CAUGHT_UP:
            self._answer_direct_gets()
        self._check_in(CHECK_SECONDS)

    def links_changed(self) -> None:
        """A leafnode connection came or went: maybe the one that leads to the origin.

        One that is not reached is tried at once: what it announces comes soon. One that is reached has to be heard.
        """
        if self.source.external is None:
            return
        self._patience.renew()
        if self._deliveries is not None:
            self._is_doubtful = True
            self._check_in(max(DOUBTFUL_NS - self.ingest.silent_ns(), 0) / SECOND + TIMER_SECONDS)
        elif self._reply is None or self.host.tick.loop.time() > self._asked_at + LOST_SECONDS:
            self._later(0.0)

    def _answer_direct_gets(self) -> None:
        """A mirror that has caught up answers for its origin, beside it."""
        if self._direct or not self.stream.config.mirror_direct or self.name or not valid_name(self.source.name):
            return
        host = self.host
        gets = self.stream.direct_gets(self.source.name)
        prefix = f"$JS.API.DIRECT.GET.{self.source.name}".encode()
        self._direct = [host.router.subscribe(gets, target, DIRECT_QUEUE) for target in (prefix, prefix + b".>")]
        self._direct_gets = gets

    def end_direct_gets(self) -> None:
        """Take none for the origin any more."""
        for subscription in self._direct:
            self.host.router.unsubscribe(subscription)
        self._direct = []

    def moved(self) -> None:
        """See origin_ingest._Owner: this tick brought something."""
        self.origins.record_moved()

    def broke(self, refusal: ApiError | None) -> None:
        """See origin_ingest._Owner: something is missing, or was refused."""
        if self._deliveries is None:
            return
        if self.ingest.consumer_seq:
            self._patience.renew()
        if refusal is not None:
            self._tell(refusal)
        self._retry(refusal)

    def _tell(self, refusal: ApiError) -> None:
        """The log hears of a message that was refused; that a source has to wait for room is nothing to tell."""
        is_stores = refusal.err_code == _STORE_FAILED
        if self.name and is_stores and refusal.description in _NO_ROOM:
            return
        what = f"source {quoted(self.name)}" if self.name else "mirror message"
        who = f"'{self.host.account_name}' > '{self.stream.name}'"
        why = refusal.description if is_stores else str(refusal)
        self.host.log.warn_seldom(f"Error processing inbound {what} for {who}: {why}")


class Origins:
    """All origins of one stream.

    `positions`: what was recorded of them, None when nothing was; `begin_log` makes the log of positions, and raises
    StorageError.
    """

    def __init__(self, stream: Stream, positions: StateLog | None, begin_log: Callable[[], StateLog]) -> None:
        self.stream = stream
        self.host = stream.host
        self.mirror: Origin | None = None
        self.sources: dict[str, Origin] = {}
        self.moved: list[OriginIngest] = []
        self.count = 0  # of sources
        self._named: Counter[str] = Counter()  # those of one name
        self._log = positions
        self._begin_log = begin_log
        self._positions: dict[str, int] = {}
        self._is_read = False

    def following(self, config: StreamConfig) -> Steps[None]:
        """Have the origins that the configuration names, and no others, in steps."""
        if self.mirror is not None and config.mirror is None:
            self._drop(self.mirror)
            self.mirror = None
        elif self.mirror is None and config.mirror is not None:
            self.mirror = Origin(self, config.mirror, "")
            self.mirror.start(0)
        wanted = {index_name(source): source for source in config.sources}
        self.count = len(wanted)
        self._named = Counter(source.name for source in wanted.values())
        for name in self.sources.keys() - wanted.keys():
            self._drop(self.sources.pop(name))
        if wanted and not self._is_read:
            yield from self._read_positions(set(wanted))
            if not self.stream.running:
                return
        present, self.sources = self.sources, {}
        for name, source in wanted.items():
            found = present.get(name)
            if found is None:
                found = Origin(self, source, name)
                found.start(self._positions.get(name, 0))
            found.source = source
            found.ingest.renew()
            self.sources[name] = found
        if self.mirror is not None:
            self.mirror.ingest.renew()
            if not config.mirror_direct:
                self.mirror.end_direct_gets()

    def all(self) -> list[Origin]:
        """In the configuration's order."""
        return [self.mirror] if self.mirror is not None else list(self.sources.values())

    def stop(self) -> None:
        """Disconnect from all; their consumers stay, for a while or until the stream is back."""
        for origin in self.all():
            origin.stop()
        if self.moved:
            self.record_moved()

    def release(self) -> None:
        """The stream is deleted, and they are stopped: what they refer to lets go of them."""
        for origin in self.all():
            origin.release()
        self.mirror, self.sources = None, {}

    def delete_consumers(self) -> None:
        """The stream will not be back."""
        for origin in self.all():
            origin.delete_consumer()

    def links_changed(self) -> None:
        """See Origin."""
        for origin in self.all():
            origin.links_changed()

    def info(self) -> dict[str, Any]:
        """What StreamInfo says of them."""
        if self.mirror is not None:
            return {"mirror": self.mirror.info()}
        return {"sources": [origin.info() for origin in self.sources.values()]} if self.sources else {}

    def consumer_name(self, origin: Origin) -> str:
        """What the consumer at this origin is called; the same after every restart."""
        identity = f"{self.stream.name} {self.host.account_name}"
        if self.host.server_info.domain:
            identity += f" {self.host.server_info.domain}"
        stable = short_hash(identity)
        if not origin.name:
            return f"JS_MIRROR_{stable}"
        if self._named[origin.source.name] > 1:
            stable = f"{stable} {origin.name}"
        return f"JS_SRC_{short_hash(stable)}"

    def _drop(self, origin: Origin) -> None:
        if origin.name:
            self._positions[origin.name] = origin.ingest.stream_seq
            if len(self._positions) > MAX_POSITIONS + len(self.sources):
                del self._positions[next(iter(self._positions))]
        origin.stop()
        origin.delete_consumer()

    # --- positions ---

    def committed(self, seq: int) -> None:
        """The stream's log has committed everything up to `seq`."""
        for origin in self.all():
            origin.ingest.committed(seq)

    def write_failed(self, first_lost: int) -> None:
        """The log took back everything from `first_lost` on: those messages are wanted again."""
        for origin in self.all():
            base, position = origin.ingest.write_failed(first_lost)
            if origin.name:
                found = at_once(last_positions(self.stream.log, {origin.name}, base))
                position = found.get(origin.name, position)
                self._positions[origin.name] = position
            origin.ingest.go_back(position)
        self.moved.clear()
        if self.sources:
            self._record(self.stream.log.last_seq, {name: self._positions[name] for name in self.sources})

    def record_moved(self) -> None:
        """Record where the origins stand that have moved on; all of them in one record, as one holds for all."""
        now = {ingest.index_name: ingest.stream_seq for ingest in self.moved}
        for ingest in self.moved:
            ingest.mark()
        self.moved.clear()
        self._positions |= now
        self._record(self.stream.log.last_seq, now)

    def _record(self, log_seq: int, positions: dict[str, int]) -> None:
        if self._log is None:
            return
        self._log.append_entry(orjson.dumps({"at": log_seq, "of": positions}))
        if self.stream.config.retention != "limits":
            self._log.request_sync()
        if self._log.should_rewrite(len(self._positions) * 64):
            self._rewrite(log_seq)

    def _rewrite(self, log_seq: int) -> None:
        if self._log is None:
            return
        try:
            self._log.rewrite(orjson.dumps({"at": log_seq, "of": self._positions}))
            self._log.request_sync()
        except StorageError as error:
            # nothing is lost: the log only goes on growing
            self.host.log.warn(f"Stream '{self.host.account_name} > {self.stream.name}': {error}")

    def _read_positions(self, wanted: set[str]) -> Steps[None]:
        """Where each source stands: by the records, and by the messages that were stored after them."""
        last = self.stream.log.last_seq
        above = 0
        for entry in self._log.recovered if self._log is not None else ():
            record = orjson.loads(entry)
            if record["at"] <= last:
                above = record["at"]
                self._positions |= record["of"]
        self._positions |= yield from last_positions(self.stream.log, wanted, above)
        self._is_read = True
        if self._log is not None:
            self._log.recovered.clear()
            self._rewrite(last)
        elif self.stream.config.storage == "file":
            self._make_log()
            self._record(last, self._positions)

    def _make_log(self) -> None:
        try:
            self._log = self._begin_log()
            self._log.request_sync()
        except StorageError as error:
            # the headers of stored messages still tell; only what has been removed may come twice
            self.host.log.warn(f"Stream '{self.host.account_name} > {self.stream.name}': {error}")
