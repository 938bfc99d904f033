"""What one link asks for, and how much of it."""

import asyncio

import pytest

from fuzz.links import RecordingLink
from jetbroker.leafnodes.subscriptions import LinkSubscriptions
from jetbroker.routing.router import Router
from jetbroker.tick import Tick


@pytest.fixture
def router():
    loop = asyncio.new_event_loop()
    yield Router("$G", Tick(loop))
    loop.close()


def asked(router):
    subs = router.subscription_list(0, router.subscriptions)
    return sorted((sub.subject, sub.queue or b"", sub.weight) for sub in subs)


def test_asking_twice_is_asking_once_and_sets_the_number_of_a_group(router):
    subscriptions = LinkSubscriptions(router, RecordingLink(), -1)
    for queue, weight in ((None, 1), (None, 7), (b"q", 3), (b"q", 5), (b"p", 1)):
        assert subscriptions.add(b"a", queue, weight)
    assert asked(router) == [(b"a", b"", 1), (b"a", b"p", 1), (b"a", b"q", 5)]


def test_taking_back_what_was_not_asked_for_is_harmless(router):
    subscriptions = LinkSubscriptions(router, RecordingLink(), -1)
    subscriptions.add(b"a", None, 1)
    subscriptions.remove(b"a", b"q")
    subscriptions.remove(b"b", None)
    assert asked(router) == [(b"a", b"", 1)]
    subscriptions.remove(b"a", None)
    subscriptions.remove(b"a", None)
    assert asked(router) == []


def test_a_link_may_ask_for_so_much_and_no_more(router):
    subscriptions = LinkSubscriptions(router, RecordingLink(), 2)
    assert subscriptions.add(b"a", None, 1)
    assert subscriptions.add(b"a", b"q", 1)
    assert not subscriptions.add(b"b", None, 1)
    assert subscriptions.add(b"a", b"q", 2), "what is known is no more"
    subscriptions.remove(b"a", None)
    assert subscriptions.add(b"b", None, 1)
    assert len(subscriptions) == 2


@pytest.mark.parametrize(("weight", "counted"), [(-1, 1), (0, 1), (2**31 - 1, 999_999_999)])
def test_a_number_of_members_is_one_that_peers_can_read(router, weight, counted):
    subscriptions = LinkSubscriptions(router, RecordingLink(), -1)
    subscriptions.add(b"a", b"q", weight)
    assert asked(router) == [(b"a", b"q", counted)]


def test_a_link_that_is_gone_asks_for_nothing(router):
    subscriptions = LinkSubscriptions(router, RecordingLink(), -1)
    for i in range(10_000):
        subscriptions.add(b"a.%d" % i, None, 1)
    subscriptions.retire_all()
    assert len(subscriptions) == 0
    while router.subscriptions:
        router.tick.loop.run_until_complete(asyncio.sleep(0))
