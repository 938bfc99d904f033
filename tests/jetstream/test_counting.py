"""What consumers have ahead is searched and counted in steps, and is exact whatever happens in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetbroker import limits
from jetbroker.jetstream.consumers.consumer import Consumer
from jetbroker.jetstream.models.config import ConsumerConfig
from jetbroker.turns import at_once
from tests.support.consumers import ConsumerBench, counts
from tests.support.streams import StreamBench

SUBJECTS = limits.JS_FEW_SUBJECTS * 2
MESSAGES = limits.JS_COUNT_SLOTS * 2 + 1000


def filled(bench: StreamBench, **config: Any) -> Any:
    """`s.<n>.x` and `s.<n>.y` in turn."""
    stream = bench.open(**config)
    for number in range(MESSAGES):
        stream.log.append_message(b"s.%d.%s" % (number % SUBJECTS, b"xy"[number % 2 : number % 2 + 1]), b"")
    return stream


def added(stream: Any, **config: Any) -> Consumer:
    config = {"ack_policy": "none", "filter_subject": "s.*.x"} | config
    consumer = Consumer(stream, ConsumerConfig(name="c", **config), None, 1, "c")
    stream.add_consumer(consumer)
    return consumer


def steps_of(work: Any) -> int:
    return sum(1 for _ in work)


def stored(log: Any, start: int, suffix: bytes = b".x") -> list[int]:
    """Sequences of what is there."""
    rows = ((seq, log.get(seq)) for seq in range(max(start, log.first_seq), log.last_seq + 1))
    return [seq for seq, row in rows if row[0] == 0 and row[1].endswith(suffix)]


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_what_is_ahead_is_counted_in_steps(tmp_path: Path, storage: str) -> None:
    bench = StreamBench(tmp_path)
    consumer = added(filled(bench, storage=storage))
    consumer.start()
    assert steps_of(consumer.counting()) >= 2
    assert consumer.info()["num_pending"] == MESSAGES // 2
    assert steps_of(consumer.counting()) == 0
    consumer.stop()
    await bench.close()


async def test_few_subjects_are_counted_at_once(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open()
    for number in range(MESSAGES):
        stream.log.append_message(b"s.%d.%s" % (number % 10, b"xy"[number % 2 : number % 2 + 1]), b"")
    consumer = added(stream)
    assert steps_of(consumer.counting()) == 0
    assert consumer.info()["num_pending"] == MESSAGES // 2
    stream.purge(seq=1001)
    assert steps_of(consumer.counting()) <= 1
    assert consumer.info()["num_pending"] == MESSAGES // 2 - 500
    await bench.close()


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["publish", "remove", "evict", "purge", "step", "step", "count", "filter"]),
        st.integers(0, MESSAGES + 100),
    ),
    max_size=30,
)


@pytest.mark.parametrize("policy", ["all", "last_per_subject"])
async def test_the_count_is_exact_whatever_happens_on_the_way(tmp_path: Path, policy: str) -> None:
    bench = StreamBench(tmp_path)
    templates = [(b"s.%d.%s" % (n % SUBJECTS, b"xy"[n % 2 : n % 2 + 1])) for n in range(MESSAGES)]
    numbers = iter(range(10_000))

    @settings(max_examples=25, deadline=None, database=None)
    @given(ACTIONS)
    def play(actions: list[tuple[str, int]]) -> None:
        stream = bench.open(name=f"S{next(numbers)}", subjects=[], storage="memory")
        log = stream.log
        for subject in templates:
            log.append_message(subject, b"")
        consumer = added(stream, deliver_policy=policy)
        chosen: set[int] = set()
        placed_at = log.last_seq
        if policy == "last_per_subject":
            chosen = set(range(MESSAGES - SUBJECTS + 1, MESSAGES + 1))
            at_once(consumer.placing())
        suffix = b".x"

        def ahead() -> int:
            rows = stored(log, 1, suffix) if policy == "all" else stored(log, placed_at + 1, suffix)
            first = [seq for seq in stored(log, MESSAGES - SUBJECTS, b".x") if seq in chosen]
            return len(rows) + len(first)

        for action, number in actions:
            if action == "publish":
                for extra in range(number % 100):
                    log.append_message(b"s.%d.x" % (number + extra), b"")
            elif action == "remove":
                stream.delete_message(number)
            elif action == "evict":
                for _ in range(number % 3000):
                    log.evict()
            elif action == "purge":
                stream.purge(f"s.{number % SUBJECTS}.x")
            elif action == "filter" and policy == "all":
                suffix = b".y" if suffix == b".x" else b".x"
                consumer.update(ConsumerConfig(name="c", ack_policy="none", filter_subject=f"s.*{suffix.decode()}"))
            elif action == "step":
                next(consumer.counting(), None)
            elif action == "count":
                at_once(consumer.counting())
                assert consumer.info()["num_pending"] == ahead()
        at_once(consumer.counting())
        assert consumer.info()["num_pending"] == ahead()

    play()
    await bench.close()


async def test_the_newest_of_each_subject_are_chosen_in_steps(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    stream = filled(bench)
    consumer = added(stream, deliver_policy="last_per_subject")
    placing = consumer.placing()
    for step, _ in enumerate(placing):
        stream.log.append_message(b"s.%d.x" % (2 * step), b"new")
        stream.delete_message(MESSAGES - 2 * step)
    news = stream.log.last_seq - MESSAGES
    assert news > MESSAGES // limits.JS_CHOSEN_SLOTS
    # a subject whose newest message was gone by the time, or another one, has none in the first pass
    at_once(consumer.counting())
    left = [seq for seq in stored(stream.log, MESSAGES - SUBJECTS + 1) if seq <= MESSAGES]
    newer = {stream.log.get(seq)[1] for seq in range(MESSAGES + 1, stream.log.last_seq + 1)}
    chosen = consumer.info()["num_pending"] - news
    assert len([seq for seq in left if stream.log.get(seq)[1] not in newer]) <= chosen <= len(left)
    await bench.close()


async def test_the_last_match_is_searched_for_in_steps(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open()
    for number in range(MESSAGES):
        stream.log.append_message(b"s.%d.%s" % (number % SUBJECTS, b"x" if number == 70 else b"y"), b"")
    consumer = added(stream, deliver_policy="last")
    assert steps_of(consumer.placing()) >= MESSAGES // 4096
    at_once(consumer.counting())
    assert consumer.info()["delivered"]["stream_seq"] == 70
    assert consumer.info()["num_pending"] == 1
    await bench.close()


async def test_each_delivery_tells_how_many_are_left_whatever_was_removed(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    stream = filled(bench)
    bench.consumer(filter_subject="s.*.x", ack_policy="none")
    at = 0
    for number in range(40):
        mailbox = await bench.pull({"batch": 50, "no_wait": True})
        messages = [message for message in mailbox.take() if not message.status]
        left = stored(stream.log, at + 1)
        assert [message.numbers[1] for message in messages] == left[:50]
        assert [message.numbers[3] for message in messages] == list(range(len(left) - 1, len(left) - 51, -1))
        at = left[49]
        for seq in (at + 2 * number, MESSAGES - number, 5):
            stream.delete_message(seq)
        for _ in range(number * 10):
            stream.log.evict()
        stream.purge(f"s.{2 * number}.x", keep=3)
        await bench.fill("s.1.x", "s.2.y")
    await bench.close()


async def test_a_match_behind_many_others_is_found(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    stream = filled(bench)
    bench.consumer(filter_subject="s.*.z", ack_policy="none")
    mailbox = await bench.pull({"batch": 3, "expires": 5_000_000_000})
    assert mailbox.take() == []
    await bench.fill("s.1.z")
    stream.log.skip_to(2**40)
    await bench.fill("s.1.x", "s.1.z")
    found = [message.numbers[1::2] for message in mailbox.take()]
    assert found == [(MESSAGES + 1, 0), (2**40 + 1, 0)]
    await bench.close()


async def test_many_acks_at_once_leave_a_work_queue_in_steps(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    stream = bench.open(retention="workqueue")
    acked = limits.JS_DUE_AT_ONCE * 4
    for _ in range(acked + 10):
        stream.log.append_message(b"s.1", b"")
    consumer = bench.consumer(ack_policy="all", max_ack_pending=-1)
    mailbox = await bench.pull({"batch": acked + 10})
    for _ in range(acked // 512 + 1):
        await bench.turn()
    last = mailbox.take()[acked - 1]
    bench.router.publish_bytes(last.reply.encode(), None, b"", b"+ACK")
    bench.tick.run()
    assert acked // 2 < stream.log.messages < acked + 10
    assert counts(consumer)[0] == 10
    assert steps_of(consumer.settling()) >= 2
    assert stream.log.messages == 10
    await bench.close()


async def test_an_ack_of_all_forgets_all_and_what_comes_next_is_pending(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    stream = bench.open()
    for _ in range(3000):
        stream.log.append_message(b"s.1", b"")
    consumer = bench.consumer(ack_policy="all", max_ack_pending=-1)
    mailbox = await bench.pull({"batch": 2000})
    await bench.turn()
    messages = mailbox.take()
    await bench.ack(messages[10], b"-NAK")
    await bench.ack(messages[-1])
    assert counts(consumer)[:2] == (0, 0)
    mailbox = await bench.pull({"batch": 1000})
    assert [message.numbers[:2] for message in mailbox.take()] == [(1, seq) for seq in range(2001, 3001)]
    assert counts(consumer)[0] == 1000
    await bench.close()
