"""Subjects that are made to cost much: long, of very many tokens, of wildcards that meet everywhere."""

import asyncio
import itertools
import tracemalloc

import pytest

from jetbroker.routing.router import CallbackReceiver, Router
from jetbroker.tick import Tick

TOKENS = 2000


class Bench:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.tick = Tick(self.loop)
        self.router = Router("$G", self.tick)
        self.receiver = CallbackReceiver(self.tick, lambda *_: None)

    def subscribe(self, subject: bytes) -> None:
        self.router.subscribe(self.receiver, subject)

    def publish(self, subject: bytes) -> int:
        return self.router.publish_bytes(subject, None, b"", b"")


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.loop.close()


def test_a_subject_of_four_kilobytes(bench):
    subject = b"a" * 2000 + b"." + b"b" * 2095
    bench.subscribe(subject)
    bench.subscribe(b"*.*")
    bench.subscribe(b"*.>")
    assert bench.publish(subject) == 3
    assert bench.publish(subject[:-1]) == 2


def test_very_many_tokens_against_every_kind_of_pattern(bench):
    """For each length of the beginning: `a.a.>`, `*.*.>`, and all of it with one `*` in it."""
    tokens = [b"a"] * TOKENS
    subject = b".".join(tokens)
    bench.subscribe(subject)
    bench.subscribe(b".".join([b"*"] * TOKENS))
    expected = 2
    for place in range(1, TOKENS, 40):
        bench.subscribe(b".".join([b"a"] * place) + b".>")
        bench.subscribe(b".".join([b"*"] * place) + b".>")
        bench.subscribe(b".".join([*tokens[:place], b"*", *tokens[place + 1 :]]))
        expected += 3
    assert bench.publish(subject) == expected
    of_stars = (expected - 2) // 3
    assert bench.publish(b"_INBOX." + subject) == bench.publish(b"_INBOX." + subject + b".a") == of_stars
    assert bench.publish(subject + b".") == bench.publish(subject.replace(b"a.a", b"a..a", 1)) == 0
    assert bench.router.interested(subject)


def test_stars_against_many_subjects_cost_what_they_match(bench):
    """A walk visits a node once at most: here all patterns match, and no more than those are delivered."""
    levels = 12
    for pattern in itertools.product((b"a", b"*"), repeat=levels):
        bench.subscribe(b".".join(pattern))
    subject = b".".join([b"a"] * levels)
    assert bench.publish(subject) == 2**levels
    assert bench.publish(subject[:-1] + b"b") == 2 ** (levels - 1)
    assert bench.publish(subject + b".a") == 0


def test_a_star_subscription_among_very_many_literal_ones(bench):
    for number in range(100_000):
        bench.subscribe(b"dev.%d.temp" % number)
    bench.subscribe(b"*.*.*")
    bench.subscribe(b"*.*.*.*.*.*.*.>")
    for number in range(0, 100_000, 97):
        assert bench.publish(b"dev.%d.temp" % number) == 2
    assert bench.publish(b"dev.x.temp") == 1
    assert bench.router.subscriptions == 100_002


def test_odd_bytes_are_bytes(bench):
    subjects = [b"\x00", b"\xff\xfe.\x80", b"..".replace(b".", b"/"), b"../..".replace(b".", b"-"), b"\x0c", b"a" * 255]
    for subject in subjects:
        bench.subscribe(subject)
    for subject in subjects:
        assert bench.publish(subject) == 1


@pytest.mark.parametrize("subject", [b"*" + b".a" * 400_000, b"*" + b".*" * 400_000, b"a" + b".a" * 400_000 + b".>"])
def test_a_subscription_of_very_many_tokens_costs_its_bytes(bench, subject):
    nearly = subject[:500_000] + b"b" + subject[500_001:]
    tracemalloc.start()
    try:
        held = [bench.router.subscribe(bench.receiver, each) for each in (subject, nearly, subject[:-2], subject)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * len(subject)
    literal = subject.replace(b"*", b"a").replace(b">", b"a")
    assert bench.publish(literal) == sum(sub.subject == subject for sub in held)
    for sub in held:
        bench.router.unsubscribe(sub)
    assert bench.publish(literal) == 0
