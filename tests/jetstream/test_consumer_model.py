"""The consumer engine against a simple model: explicit acks, pulls, redelivery, removals, under an injected clock."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.consumers import SECOND, ConsumerBench, Delivered, counts, positions

ACK_WAIT = 10
MAX_ACK_PENDING = 6
MAX_DELIVER = 3
WANTED = {"s.a", "s.b"}


@dataclass
class Entry:
    """A message that is delivered and not finished."""

    cseq: int
    count: int
    due: float  # 0: queued


@dataclass
class Model:
    """What must be true of a pull consumer with explicit acks."""

    now: float = 0
    subjects: dict[int, str] = field(default_factory=dict)
    last_seq: int = 0
    cursor: int = 1
    delivered: tuple[int, int] = (0, 0)
    floor: tuple[int, int] = (0, 0)
    pending: dict[int, Entry] = field(default_factory=dict)
    exhausted: dict[int, int] = field(default_factory=dict)  # sequence -> deliveries
    queue: list[int] = field(default_factory=list)

    def publish(self, subject: str) -> None:
        self.last_seq += 1
        self.subjects[self.last_seq] = subject

    def ahead(self) -> int:
        return sum(seq >= self.cursor and subject in WANTED for seq, subject in self.subjects.items())

    def tick(self) -> None:
        due = sorted((entry.due, seq) for seq, entry in self.pending.items() if 0 < entry.due <= self.now)
        for _, seq in due:
            if self.pending[seq].count >= MAX_DELIVER:
                self.exhausted[seq] = self.pending.pop(seq).count
                continue
            self.pending[seq].due = 0
            self.queue.append(seq)

    def pull(self, batch: int) -> list[tuple[int, int, int, int]]:
        out: list[tuple[int, int, int, int]] = []
        while len(out) < batch:
            if self.queue:
                seq = self.queue[0]
                entry = self.pending[seq]
                if entry.count >= MAX_DELIVER:
                    self.queue.pop(0)
                    self.exhausted[seq] = entry.count
                    del self.pending[seq]
                    continue
                self.queue.pop(0)
                entry.count += 1
                entry.due = self.now + ACK_WAIT
                self.delivered = (self.delivered[0] + 1, self.delivered[1])
                out.append((entry.count, seq, self.delivered[0], self.ahead()))
                continue
            new = [seq for seq in sorted(self.subjects) if seq >= self.cursor and self.subjects[seq] in WANTED]
            if len(self.pending) >= MAX_ACK_PENDING or not new:
                break
            seq = new[0]
            self.cursor = seq + 1
            self.delivered = (self.delivered[0] + 1, seq)
            self.pending[seq] = Entry(self.delivered[0], 1, self.now + ACK_WAIT)
            out.append((1, seq, self.delivered[0], self.ahead()))
        return out

    def finish(self, seq: int) -> None:
        if self.exhausted.pop(seq, None) is not None or seq not in self.pending:
            return
        entry = self.pending.pop(seq)
        if seq in self.queue:
            self.queue.remove(seq)
        if not self.pending:
            self.floor = self.delivered
        elif entry.cseq == self.floor[0] + 1:
            lowest = min(self.pending)
            self.floor = (self.pending[lowest].cseq - 1, lowest - 1)

    def delay(self, seq: int, seconds: float) -> None:
        self.pending[seq].due = self.now + seconds
        if seq in self.queue:
            self.queue.remove(seq)

    def redelivered(self) -> int:
        return sum(entry.count > 1 for entry in self.pending.values()) + sum(n > 1 for n in self.exhausted.values())


class ConsumerMachine(RuleBasedStateMachine):
    """Drives both; each step compares what was delivered, each invariant what INFO says."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.model = Model()
        self.messages: list[Delivered] = []
        self.directory = tempfile.TemporaryDirectory()
        self.bench: ConsumerBench
        self.consumer: Any
        self.run(self._open())

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    async def _open(self) -> None:
        self.bench = ConsumerBench(Path(self.directory.name))
        self.bench.open()
        self.consumer = self.bench.consumer(
            filter_subjects=sorted(WANTED),
            ack_wait=ACK_WAIT * SECOND,
            max_ack_pending=MAX_ACK_PENDING,
            max_deliver=MAX_DELIVER,
        )
        await self.bench.turn()

    def teardown(self) -> None:
        self.consumer.stop("")
        self.run(self.bench.close())
        self.loop.close()
        self.directory.cleanup()

    @rule(subjects=st.lists(st.sampled_from(["s.a", "s.b", "s.c"]), min_size=1, max_size=5))
    def publish(self, subjects: list[str]) -> None:
        for subject in subjects:
            self.model.publish(subject)
        self.run(self.bench.fill(*subjects))

    @rule(batch=st.integers(1, 8))
    def pull(self, batch: int) -> None:
        mailbox = self.run(self.bench.pull({"batch": batch, "expires": SECOND}))
        mailbox.close()
        found = [one for one in mailbox.take() if one.reply]
        assert [one.numbers for one in found] == self.model.pull(batch)
        self.messages += found

    @precondition(lambda self: self.messages)
    @rule(data=st.data(), body=st.sampled_from([b"+ACK", b"", b"+TERM", b"-NAK", b"-NAK 3s", b"+WPI", b"junk"]))
    def answer(self, data: st.DataObject, body: bytes) -> None:
        message = data.draw(st.sampled_from(self.messages))
        receipts = self.run(self.bench.ack(message, body))
        assert [(one.headers, one.payload) for one in receipts] == [(b"", b"")]
        seq = message.numbers[1]
        entry = self.model.pending.get(seq)
        if body in (b"", b"+ACK", b"+TERM"):
            self.model.finish(seq)
        elif entry is not None and body == b"-NAK 3s":
            self.model.delay(seq, 3)
        elif entry is not None and entry.due:
            if body == b"-NAK":
                entry.due = 0
                self.model.queue.append(seq)
            elif body == b"+WPI":
                entry.due = self.model.now + ACK_WAIT

    @rule(seconds=st.sampled_from([1, 2, 5, 11]))
    def wait(self, seconds: int) -> None:
        # requests that wait expire; nothing is delivered by the passing of time alone
        self.model.now += seconds
        self.run(self.bench.advance(seconds))
        self.model.tick()

    @precondition(lambda self: self.model.subjects)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(sorted(self.model.subjects)))
        del self.model.subjects[seq]
        self.bench.stream.delete_message(seq)
        self.run(self.bench.turn())
        self.model.finish(seq)

    @invariant()
    def info_agrees(self) -> None:
        model = self.model
        delivered, floor = positions(self.consumer)
        if model.delivered == (0, 0):  # what is kept in memory tells how far it has looked, until it delivers
            assert delivered[1] <= model.last_seq
            delivered = (delivered[0], 0)
        assert (delivered, floor) == (model.delivered, model.floor)
        unacked, redelivered, _, ahead = counts(self.consumer)
        assert (unacked, redelivered, ahead) == (len(model.pending), model.redelivered(), model.ahead())


def test_a_message_that_was_given_up_can_be_ended() -> None:
    """`+TERM` behind the last delivery, as an ack: it is not counted as redelivered any more (nats-server 2.14.5)."""
    for body in (b"+TERM", b"+ACK"):
        machine = ConsumerMachine()
        machine.publish(["s.a"])
        for _ in range(MAX_DELIVER):
            machine.pull(1)
            machine.wait(ACK_WAIT + 1)
        assert (machine.model.redelivered(), counts(machine.consumer)[:2]) == (1, (0, 1))
        machine.run(machine.bench.ack(machine.messages[0], body))
        assert counts(machine.consumer)[:2] == (0, 0)
        machine.teardown()


TestConsumerModel = ConsumerMachine.TestCase
TestConsumerModel.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
