"""Plays sequences against a server, step by step, and tells what each step led to.

Nothing here waits for a time to pass. A fetch ends with what the server says last of it. An ack is followed by one
that is always answered, for acks are handled in order. What a server does on its own behind an answer is waited for
by comparing: see `Run.same`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.support.sequence_steps import NAMES, Sequence, Step
from tests.support.sequence_wire import Inbox, Received, Wire

ANSWER_S = 60.0
PULL_NS = 1_000_000_000  # of a fetch that may not be filled and hears nothing before
OWN = ("created", "ts", "time", "timestamp", "first_ts", "last_ts", "last_active", "id", "pause_remaining")
NO_TIME = "0001-"
TIME_TOKEN = 7
SILENCE = Received("silence", "", "silence", b'"silence"')


class Player:
    """One sequence on one server. `name` is the stream's and its subjects' first token."""

    def __init__(self, wire: Wire, name: str, sequence: Sequence) -> None:
        self.wire = wire
        self.name = name
        self.sequence = sequence
        self.stream = dict(sequence.stream)
        self.delivered: dict[str, list[str]] = {consumer: [] for consumer in NAMES}  # ack subjects
        self.advisories: list[str] = []
        self.numbers = itertools.count(1)
        self.published = 0

    # --- talking ---

    async def open(self) -> Any:
        """The answer to the stream's creation."""
        self.connected(self.wire)
        return await self.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], **self.stream})

    def connected(self, wire: Wire) -> None:
        """Listen, on a connection that is new after a restart."""
        self.wire = wire
        for kind in ("ADVISORY.CONSUMER.*", "METRIC.CONSUMER.*"):
            wire.subscribe(f"$JS.EVENT.{kind}.{self.name}.*", self._note)

    def _note(self, message: Received) -> None:
        event = self.common(json.loads(message.data))
        event.pop("ack_time", None)
        event.pop("pause_until", None)
        self.advisories.append(json.dumps(event, sort_keys=True))

    def common(self, value: Any) -> Any:
        """Without what differs from run to run; the stream is called S."""
        if isinstance(value, dict):
            return {
                self.common(key): self.common(each) if key not in OWN or str(each).startswith(NO_TIME) else "own"
                for key, each in value.items()
            }
        if isinstance(value, list):
            return [self.common(each) for each in value]
        return value.replace(self.name, "S") if isinstance(value, str) else value

    def real(self, value: Any) -> Any:
        """With the stream's real name."""
        if isinstance(value, dict):
            return {key: self.real(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.real(each) for each in value]
        if isinstance(value, str) and (value == "S" or value.startswith("S.")):
            return self.name + value[1:]
        return value

    async def ask(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> Received:
        """A request's answer."""
        inbox = self.inbox()
        self.wire.publish(subject, data, inbox.subject, headers)
        return await self.last_of(inbox)

    async def last_of(self, inbox: Inbox) -> Received:
        """The one message of an inbox."""
        try:
            return await asyncio.wait_for(inbox.messages.get(), ANSWER_S)
        except TimeoutError:
            return SILENCE
        finally:
            inbox.close()

    async def api(self, subject: str, body: Any = None) -> Any:
        """The comparable answer of a request of the API."""
        parts = [self.name if part == "S" else part for part in subject.split(".")]
        data = b"" if body is None else json.dumps(self.real(body)).encode()
        answer = await self.ask("$JS.API." + ".".join(parts), data)
        return self.common(json.loads(answer.data))

    def inbox(self) -> Inbox:
        """A new one."""
        return Inbox(self.wire, f"_D.{self.name}.{next(self.numbers)}")

    async def settle_acks(self, consumer: str) -> bool:
        """Every ack sent so far is handled: False when the consumer takes none."""
        answer = await self.ask(f"$JS.ACK.{self.name}.{consumer}.1.{1 << 41}.1.1.1", b"+WPI")
        return not answer.headers

    # --- steps ---

    async def play(self, step: Step) -> Any:
        """What the step's answers were."""
        done: Callable[..., Awaitable[Any]] = getattr(self, "on_" + step[0])
        return await done(*step[1:])

    async def on_publish(self, token: str, headers: dict[str, str]) -> Any:
        self.published += 1
        sent = {key: self.real(value) for key, value in headers.items()}
        answer = await self.ask(f"{self.name}.{token}", b"m%d" % self.published, sent)
        return self.common(json.loads(answer.data))

    async def on_create(self, name: str, config: dict[str, Any]) -> Any:
        request = {"stream_name": "S", "config": {"durable_name": name, **config}}
        return await self.api(f"CONSUMER.CREATE.S.{name}", request)

    async def on_drop(self, name: str) -> Any:
        return await self.api(f"CONSUMER.DELETE.S.{name}")

    async def on_fetch(self, name: str, batch: int) -> list[Any]:
        info = await self.api(f"CONSUMER.INFO.S.{name}")
        request: dict[str, Any] = {"batch": batch, "no_wait": True}
        if info.get("config", {}).get("max_ack_pending", 0) < 1000 and "config" in info:
            request = {"batch": batch, "expires": PULL_NS}  # one that does not wait hears nothing when that is reached
        return await self.collect(name, self.pull(name, request), batch)

    def pull(self, name: str, request: dict[str, Any]) -> Inbox:
        """Ask for messages; they come to this inbox."""
        inbox = self.inbox()
        body = json.dumps(request).encode()
        self.wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{self.name}.{name}", body, inbox.subject)
        return inbox

    async def collect(self, name: str, inbox: Inbox, batch: int) -> list[Any]:
        """Messages up to `batch`, or up to a status."""
        got = []
        for _ in range(batch):
            try:
                message = await asyncio.wait_for(inbox.messages.get(), ANSWER_S)
            except TimeoutError:
                got.append("silence")
                break
            got.append(self.describe(message))
            if not message.reply:
                break
            self.delivered[name].append(message.reply)
        inbox.close()
        return got

    def describe(self, message: Received) -> Any:
        """Comparable."""
        subject = "inbox" if message.subject.startswith("_D.") else message.subject
        reply = message.reply.split(".")
        if len(reply) > TIME_TOKEN:
            reply[TIME_TOKEN] = "time"
        headers = message.headers.partition("\r\nNats-Subject:")[0]  # of 503: what nobody listens to
        return self.common([subject, ".".join(reply), headers, message.data.decode()])

    async def on_ack(self, name: str, which: int, body: str, confirmed: bool) -> Any:
        known = self.delivered[name]
        if not known:
            return "nothing to ack"
        return await self.acknowledge(name, known[-1 - which % len(known)], body, confirmed)

    async def acknowledge(self, name: str, subject: str, body: str, confirmed: bool = True) -> Any:
        """What came as the answer up to the one of a later ack."""
        inbox = self.inbox()
        if body == "+NXT":
            self.wire.publish(subject, b'+NXT {"batch":1,"expires":%d}' % PULL_NS, inbox.subject)
            if await self.settle_acks(name):
                return await self.collect(name, inbox, 1)
            inbox.close()
            return "no acks"
        self.wire.publish(subject, body.encode(), inbox.subject if confirmed else "")
        taken = await self.settle_acks(name)
        inbox.close()
        return taken, [self.describe(inbox.messages.get_nowait()) for _ in range(inbox.messages.qsize())]

    async def on_forged(self, name: str, numbers: tuple[object, ...], body: str) -> Any:
        subject = "$JS.ACK.{}.{}.{}.{}.{}.1.1".format(self.name, name, *numbers)
        return await self.acknowledge(name, subject, body)

    async def on_delayed(self, name: str, which: int, body: str) -> Any:
        """A nak with a delay, and what one waits for then.

        The pull comes first: it looks through the stream before the delay is over, however busy the machine is.
        """
        inbox = self.pull(name, {"batch": 1, "expires": PULL_NS})
        answer = await self.on_ack(name, which, body, True)
        return answer, await self.collect(name, inbox, 1)

    async def on_delete(self, seq: int, erase: bool) -> Any:
        return await self.api("STREAM.MSG.DELETE.S", {"seq": seq, "no_erase": not erase})

    async def on_purge(self, request: dict[str, Any]) -> Any:
        return await self.api("STREAM.PURGE.S", request)

    async def on_pause(self, name: str, begin: bool) -> Any:
        until = "2099-01-01T00:00:00Z" if begin else "0001-01-01T00:00:00Z"
        return await self.api(f"CONSUMER.PAUSE.S.{name}", {"pause_until": until})

    async def on_update(self, change: dict[str, Any]) -> Any:
        self.stream.update(change)
        return await self.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["S.>"], **self.stream})

    async def on_reset(self, name: str, seq: int) -> Any:
        if "config" not in await self.api(f"CONSUMER.INFO.S.{name}"):
            return "nothing to reset"  # nobody answers
        return await self.api(f"CONSUMER.RESET.S.{name}", {"seq": seq} if seq else None)

    async def on_look(self, subject: str, request: dict[str, Any]) -> Any:
        answer = await self.api(subject, request)
        state = answer.get("state", {})
        if state.get("deleted") == [0]:  # nats-server's way to say that a file is new
            del state["deleted"], state["num_deleted"]
        return answer

    # --- what is there then ---

    async def state(self) -> Any:
        """The stream's and the consumers' infos, and the advisories so far."""
        names = [f"CONSUMER.INFO.S.{name}" for name in NAMES]
        found = await asyncio.gather(*(self.api(name) for name in ["STREAM.INFO.S", *names]))
        return [*found, sorted(self.advisories)]
