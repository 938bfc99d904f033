"""Interest and delivery, held against a naive matcher."""

import asyncio
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from jetbroker.routing.router import CallbackReceiver, Router
from jetbroker.tick import Tick
from jetbroker.wire import subjects

tokens = st.sampled_from(["a", "b", "c", "*", ">", "a*", "_INBOX"])
names = st.lists(tokens, min_size=1, max_size=5).map(lambda parts: ".".join(parts).encode())
patterns = names.filter(subjects.valid_subject)
literals = st.lists(st.sampled_from(["a", "b", "c", "a*", "_INBOX", "*"]), min_size=1, max_size=5).map(
    lambda parts: ".".join(parts).encode()
)
queues = st.none() | st.sampled_from([b"q1", b"q2"])


def naive_match(subject: bytes, pattern: bytes) -> bool:
    left, right = subject.split(b"."), pattern.split(b".")
    for i, token in enumerate(right):
        if token == b">" and i == len(right) - 1:
            return len(left) > i
        if i >= len(left) or token not in (b"*", left[i]):
            return False
    return len(left) == len(right)


class Bench:
    """A router whose deliveries are counted per subscription."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.tick = Tick(self.loop)
        self.router = Router("$G", self.tick)

    def subscribe(self, pattern, queue, got):
        return self.router.subscribe(CallbackReceiver(self.tick, lambda *message: got.append(message)), pattern, queue)

    def publish(self, subject):
        count = self.router.publish_bytes(subject, None, b"", b"x")
        self.tick.run()
        return count


operations = st.lists(
    st.one_of(
        st.tuples(st.just("subscribe"), patterns, queues),
        st.tuples(st.just("unsubscribe"), st.integers(0, 30)),
        st.tuples(st.just("publish"), literals),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(operations)
def test_deliveries_equal_those_of_a_naive_matcher(steps):
    compare_deliveries(steps)


deep_patterns = st.builds(
    lambda begin, end: ".".join(["x"] * 20 + begin + end).encode(),
    st.lists(st.sampled_from(["x", "x", "*"]), min_size=12, max_size=14),
    st.lists(st.sampled_from(["a", "b", "*", ">"]), max_size=8),
).filter(subjects.valid_subject)
deep_literals = st.lists(st.sampled_from(["a", "b", "x"]), max_size=8).map(
    lambda end: ".".join(["x"] * 32 + end).encode()
)
deep_operations = st.lists(
    st.one_of(
        st.tuples(st.just("subscribe"), deep_patterns, queues),
        st.tuples(st.just("unsubscribe"), st.integers(0, 30)),
        st.tuples(st.just("publish"), deep_literals),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(deep_operations)
def test_so_do_those_of_subjects_with_very_many_tokens(steps):
    compare_deliveries(steps)


def compare_deliveries(steps):
    bench = Bench()
    live: list = []
    for step in steps:
        if step[0] == "subscribe":
            got: list = []
            live.append((step[1], step[2], got, bench.subscribe(step[1], step[2], got)))
        elif step[0] == "unsubscribe" and live:
            _, _, _, sub = live.pop(step[1] % len(live))
            bench.router.unsubscribe(sub)
        elif step[0] == "publish":
            for _, _, got, _ in live:
                got.clear()
            count = bench.publish(step[1])
            matching = [entry for entry in live if naive_match(step[1], entry[0])]
            plain = [entry for entry in matching if entry[1] is None]
            groups = {entry[1] for entry in matching if entry[1] is not None}
            assert count == len(plain) + len(groups)
            assert all(len(entry[2]) == 1 for entry in plain)
            for group in groups:
                assert sum(len(entry[2]) for entry in matching if entry[1] == group) == 1
            assert not any(entry[2] for entry in live if entry not in matching)
            assert bench.router.interested(step[1]) == bool(matching)
    listed = bench.router.subscription_list(0, len(live) + 1)
    assert sorted(sub.subject for sub in listed) == sorted(entry[0] for entry in live)
    for *_, sub in live:
        bench.router.unsubscribe(sub)
    assert bench.router.subscription_list(0, 1) == []
    bench.loop.close()


@given(literals, patterns)
def test_matches_agrees_with_the_naive_matcher(subject, pattern):
    assert subjects.matches(subject, pattern) == naive_match(subject, pattern)


@given(patterns, patterns, literals)
def test_a_subset_matches_nothing_more(a, b, subject):
    if subjects.subset(a, b) and naive_match(subject, a):
        assert naive_match(subject, b)


@given(patterns, patterns, literals)
def test_patterns_that_share_a_match_collide(a, b, subject):
    if naive_match(subject, a) and naive_match(subject, b):
        assert subjects.collide(a, b)


replies = st.lists(st.sampled_from(["a", "b", "1", "2"]), min_size=1, max_size=4).map(
    lambda parts: ".".join(["_INBOX", *parts]).encode()
)
acks = st.lists(st.sampled_from(["1", "2", "a"]), min_size=1, max_size=8).map(
    lambda parts: ".".join(["$JS", "ACK", *parts]).encode()
)


def masked(subject: bytes, masks: list[str]) -> bytes:
    """Put wildcards over some tokens; '>' only over the last."""
    parts = subject.split(b".")
    for i, mask in enumerate(masks[: len(parts)]):
        if mask == "*" or (mask == ">" and i == len(parts) - 1):
            parts[i] = mask.encode()
    return b".".join(parts)


masks = st.lists(st.sampled_from(["", "*", ">"]), min_size=10, max_size=10)
reply_patterns = st.builds(masked, st.one_of(replies, acks, patterns), masks)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(reply_patterns, queues), max_size=8), st.lists(replies | acks, min_size=1, max_size=12))
def test_one_off_subjects_reach_whom_a_naive_matcher_says(interest, published):
    bench = Bench()
    live = [(pattern, queue) for pattern, queue in interest if subjects.valid_subject(pattern)]
    for pattern, queue in live:
        bench.subscribe(pattern, queue, [])
    for subject in published:
        matching = [entry for entry in live if naive_match(subject, entry[0])]
        expected = sum(1 for entry in matching if entry[1] is None) + len({q for _, q in matching if q is not None})
        assert bench.publish(subject) == expected
    bench.loop.close()


def test_very_many_literal_subjects_that_come_and_go():
    """The table of literals grows and shrinks; some subjects have several subscriptions, some of them in a queue."""
    bench = Bench()
    rng = random.Random(7)
    live: list = []
    expected: dict[bytes, int] = {}

    def check(subject):
        assert bench.publish(subject) == expected.get(subject, 0)
        assert len(bench.router.matching(subject)) == sum(entry.subject == subject for entry in live)

    for step in range(6000):
        subject = b"s.%d" % rng.randrange(4000)
        if step % 7 == 0 and expected.get(subject, 0) < 2:
            live.append(bench.subscribe(subject, b"q", []))
            expected[subject] = sum(entry.subject == subject and entry.queue is None for entry in live) + 1
        elif not expected.get(subject, 0):
            live.append(bench.subscribe(subject, None, []))
            expected[subject] = 1
    assert {id(sub) for sub in bench.router.subscription_list(0, 10_000)} == {id(sub) for sub in live}
    pages = [bench.router.subscription_list(at, 500) for at in range(0, len(live), 500)]
    assert sum(map(len, pages)) == len({id(sub) for page in pages for sub in page}) == len(live)
    for number in rng.sample(range(4000), 200):
        check(b"s.%d" % number)
    rng.shuffle(live)
    while live:
        sub = live.pop()
        bench.router.unsubscribe(sub)
        same = [entry for entry in live if entry.subject == sub.subject]
        expected[sub.subject] = sum(entry.queue is None for entry in same) + any(entry.queue for entry in same)
        if len(live) % 16 == 0:
            check(sub.subject)
    assert bench.router.subscription_list(0, 10) == []
    bench.loop.close()


def test_empty_tokens_match_nothing():
    bench = Bench()
    got: list = []
    for pattern in (b">", b"*.*", b"a.>", b"*"):
        bench.subscribe(pattern, None, got)
    for subject in (b"a.", b".a", b"a..b", b".", b""):
        assert bench.publish(subject) == 0
    bench.loop.close()


def test_the_route_cache_stays_bounded_and_right():
    bench = Bench()
    got: list = []
    bench.subscribe(b"s.*", None, got)
    for i in range(40_000):
        assert bench.router.publish_bytes(b"s.%d" % i, None, b"", b"") == 1
    assert bench.router.route_count <= 16_384
    bench.subscribe(b"s.7", None, got)
    assert bench.router.publish_bytes(b"s.7", None, b"", b"") == 2
    bench.loop.close()


def test_the_route_cache_holds_few_routes_to_many_receivers():
    bench = Bench()
    receiver = CallbackReceiver(bench.tick, lambda *message: None)
    for _ in range(100_000):
        bench.router.subscribe(receiver, b"w.*", b"workers")
    for i in range(400):
        assert bench.publish(b"w.%d" % i) == 1
    assert 7 <= bench.router.route_count <= 10
    got: list = []
    bench.subscribe(b"w.399", None, got)
    bench.subscribe(b"w.7", None, got)
    assert [bench.publish(subject) for subject in (b"w.7", b"w.399", b"w.8")] == [2, 2, 1]
    assert len(got) == 2
    bench.loop.close()


def test_subjects_beyond_the_cache_follow_interest():
    """What is known of a subject's neighbours says who gets it, for as long as nothing changes."""
    bench = Bench()
    rng = random.Random(11)
    for i in range(13_000):
        bench.router.publish_bytes(b"k.%d" % i, None, b"", b"")
    live: list = []
    for step in range(1500):
        subject = b"k.%s.%d" % (rng.choice([b"a", b"b"]), step if step % 2 else step % 50)
        if step % 5 == 0:
            pattern = rng.choice([b"k.*.*", b"k.a.>", b"k.b.*", b"k.a.*", b">", b"k.*.7", subject])
            live.append(bench.subscribe(pattern, rng.choice([None, None, None, b"q%d" % step]), []))
        elif step % 5 == 3 and len(live) > 8:
            bench.router.unsubscribe(live.pop(rng.randrange(len(live))))
        assert bench.publish(subject) == sum(naive_match(subject, entry.subject) for entry in live)
    bench.loop.close()


def test_a_full_cache_makes_room_for_subjects_that_come_again():
    bench = Bench()
    got: list = []
    bench.subscribe(b"s.*", None, got)

    def publish(first: int) -> int:
        for i in range(first, first + 4000):
            assert bench.router.publish_bytes(b"s.%d" % i, None, b"", b"") == 1
        return bench.router.builds

    for first in range(0, 60_000, 4000):
        publish(first)
        builds = publish(first)
        assert publish(first) == builds  # what made room was older
    assert 12_000 < bench.router.route_count <= 16_384
    bench.loop.close()


def test_valid_subjects():
    for good in (b"a", b"a.b", b"*", b"a.*", b"a.>", b">", b"a*", b"a.b*c.>x", b"\x80.\xff"):
        assert subjects.valid_subject(good)
    for bad in (b"", b".", b"a.", b".a", b"a..b", b"a b", b"a\tb", b"a\r", b"a\n", b">.a", b"a.>.b"):
        assert not subjects.valid_subject(bad)
    assert not subjects.valid_literal(b"a.*")
    assert subjects.valid_literal(b"a.b*")
