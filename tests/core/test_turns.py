"""No connection keeps the others waiting: what one read asks for is done in turns."""

from __future__ import annotations

import re

import pytest

from jetbroker.config.options import PermissionsOptions, ResponsePermissions, SubjectPermissions
from tests.support.inprocess import World

COUNT = 10_000


def flood(kind: str) -> bytes:
    line, count = {
        "SUB": (b"SUB a.%d.b %d\r\n", COUNT),
        "SUB with wildcards": (b"SUB *.%d.> %d\r\n", COUNT // 5),
        "SUB and UNSUB": (b"SUB *.x 1%d\r\nUNSUB 1%d\r\n", COUNT // 5),
        "PUB to new subjects": (b"PUB new.%d.%d 0\r\n\r\n", COUNT),
        "PUB to many": (b"PUB all re.%d.%d 0\r\n\r\n", COUNT // 10),
    }[kind]
    return b"".join(line % (number, number) for number in range(count))


@pytest.mark.parametrize("kind", ["SUB", "SUB with wildcards", "SUB and UNSUB", "PUB to new subjects", "PUB to many"])
def test_others_are_served_between_two_turns(kind: str) -> None:
    world = World()
    busy, other, listener = world.client(), world.client(), world.client()
    listener.say(b"".join(b"SUB all %d\r\n" % sid for sid in range(1000)))
    filler = b"".join(b"PUB a.%d.b 0\r\n\r\n" % number for number in range(15_000))
    other.say(filler)  # a full route cache: the dearest to look through
    data = flood(kind)
    assert busy.feed(data) == len(data)
    assert busy.transport.paused, "all of it was done at once"
    turns = 0
    while busy.transport.paused:
        other.feed(b"PING\r\n")  # what it gets is sent at once
        assert bytes(other.transport.sent).endswith(b"PONG\r\n" * (turns + 1))
        world.loop.run_once()
        listener.transport.sent.clear()
        turns += 1
        assert turns < COUNT
    assert busy.say(b"PING\r\n").endswith(b"PONG\r\n")


RULES = [f"*.*.{number}.never" for number in range(5000)]
QUEUE_RULES = [f"new.* q{number}" for number in range(5000)]
JUDGED = 200  # less than a turn where nobody judges


@pytest.mark.parametrize(
    "line", [b"PUB new.%d 0\r\n\r\n", b"SUB new.%d 1\r\nUNSUB 1\r\n", b"SUB new.*.%d.> 1\r\nUNSUB 1\r\n"]
)
def test_judging_a_client_by_many_rules_takes_of_its_turn(line: bytes) -> None:
    rules = SubjectPermissions(["new.>", *RULES], RULES)
    plain, judged = World(), World()
    data = b"".join(line % number for number in range(JUDGED))
    unjudged = plain.client()
    unjudged.feed(data)
    assert not unjudged.transport.paused
    busy = judged.client(PermissionsOptions(publish=rules, subscribe=rules))
    busy.feed(data)
    assert busy.transport.paused, "all of it was judged at once"
    judged.loop.run()
    assert busy.say(b"PING\r\n") == b"PONG\r\n"
    assert not judged.server.refused


@pytest.mark.parametrize(
    ("subscription", "permissions"),
    [
        (b"SUB new.> 1\r\n", PermissionsOptions(subscribe=SubjectPermissions(None, RULES))),
        (b"SUB new.> 1\r\n", PermissionsOptions(subscribe=SubjectPermissions(["new.*", *RULES]))),
        (b"SUB new.> q 1\r\n", PermissionsOptions(subscribe=SubjectPermissions(None, QUEUE_RULES))),
        (b"SUB new.> 1\r\n", PermissionsOptions(publish=SubjectPermissions(RULES), responses=ResponsePermissions())),
    ],
    ids=["denied", "wider than allowed", "denied to queues", "replies"],
)
def test_judging_its_receivers_takes_of_the_turn_of_the_publisher(
    subscription: bytes, permissions: PermissionsOptions
) -> None:
    world = World()
    busy, listener = world.client(), world.client(permissions)
    listener.say(subscription)
    data = b"".join(b"PUB new.%d new.reply.%d 0\r\n\r\n" % (number, number) for number in range(JUDGED))
    busy.feed(data)
    assert busy.transport.paused, "all of it was judged at once"
    world.loop.run()
    assert busy.say(b"PING\r\n") == b"PONG\r\n"


def test_a_remembered_verdict_takes_nothing_of_the_turn() -> None:
    world = World()
    busy = world.client(PermissionsOptions(publish=SubjectPermissions(["new.>", *RULES], RULES)))
    listener = world.client(PermissionsOptions(subscribe=SubjectPermissions(None, QUEUE_RULES)))
    listener.say(b"SUB new.> q 1\r\n")
    subjects = [b"PUB new.%d 0\r\n\r\n" % number for number in range(10)]
    busy.say(b"".join(subjects))
    busy.feed(b"".join(subjects * (JUDGED // 10)))
    assert not busy.transport.paused


DENIED = PermissionsOptions(subscribe=SubjectPermissions(None, ["x.d", "_INBOX.x.d"]))


@pytest.mark.parametrize("subscription", [b"SUB %b 1%d\r\n", b"SUB %b q 1%d\r\n"], ids=["plain", "queue"])
@pytest.mark.parametrize("subject", [b"x.d", b"_INBOX.x.d"])
@pytest.mark.parametrize("cached", [True, False], ids=["cached", "full cache"])
def test_those_who_may_not_have_a_message_take_of_the_turn_of_the_publisher(
    subscription: bytes, subject: bytes, cached: bool
) -> None:
    world = World()
    busy, listener = world.client(), world.client(DENIED)
    if not cached:
        busy.say(b"".join(b"PUB a.%d.b 0\r\n\r\n" % number for number in range(15_000)))
    listener.say(b"".join(subscription % (subject[:-1] + b">", number) for number in range(1000)))
    busy.feed(b"PUB %b 0\r\n\r\n" % subject * JUDGED)
    assert busy.transport.paused, "all of them were asked at once"
    world.loop.run()
    assert busy.say(b"PING\r\n") == b"PONG\r\n"
    assert listener.heard() == b""


def test_ones_own_subscriptions_without_echo_take_of_the_turn() -> None:
    world = World()
    busy = world.client(echo=False)
    busy.say(b"".join(b"SUB x.> %d\r\n" % number for number in range(1000)))
    busy.feed(b"PUB x.d 0\r\n\r\n" * JUDGED)
    assert busy.transport.paused, "all of them were asked at once"


NOBODY = b"HMSG r 1 36 36\r\nNATS/1.0 503\r\nNats-Subject: none\r\n\r\n\r\n"


def test_the_answer_that_nobody_is_there_takes_of_the_turn() -> None:
    world = World()
    busy = world.client(no_responders=True)
    busy.say(b"SUB r 1\r\n")
    busy.feed(b"PUB none r 0\r\n\r\n" * COUNT)
    assert busy.transport.paused, "all of it was answered at once"
    assert busy.heard() == NOBODY * COUNT


def test_the_look_for_whom_to_tell_that_nobody_is_there_takes_of_the_turn() -> None:
    world = World()
    busy, other = world.client(no_responders=True), world.client()
    other.say(b"".join(b"SUB r %d\r\n" % number for number in range(1000)))
    busy.say(b"SUB r 1\r\n")
    busy.feed(b"PUB none r 0\r\n\r\n" * JUDGED)
    assert busy.transport.paused, "all of it was looked for at once"
    assert busy.heard() == NOBODY * JUDGED


def test_a_subscription_to_the_reply_is_told_that_nobody_is_there_ahead_of_one_to_everything() -> None:
    world = World()
    client = world.client(no_responders=True)
    client.say(b"SUB r q 3\r\nSUB > 2\r\nSUB r 1\r\n")
    assert client.say(b"PUB .none r 0\r\n\r\n") == NOBODY.replace(b"none", b".none").replace(b"36", b"37")


def test_a_turn_changes_nothing_about_the_order() -> None:
    world = World()
    busy, listener = world.client(verbose=True), world.client()
    listener.say(b"SUB > 1\r\n")
    data = b"".join(
        b"SUB a.%d %d\r\nPUB a.%d 1\r\nx\r\nUNSUB %d\r\nPUB a.%d 1\r\ny\r\nPING\r\n" % ((number,) * 5)
        for number in range(COUNT)
    )
    heard = busy.say(data)
    expected = b"".join(
        b"+OK\r\n+OK\r\nMSG a.%d %d 1\r\nx\r\n+OK\r\n+OK\r\nPONG\r\n" % (number, number) for number in range(COUNT)
    )
    assert heard == expected
    subjects = re.findall(rb"MSG a\.(\d+) 1 1\r\n([xy])", listener.heard())
    assert subjects == [(b"%d" % number, letter) for number in range(COUNT) for letter in (b"x", b"y")]


def test_input_goes_on_to_arrive_while_a_turn_is_due() -> None:
    """A transport that was told to pause may still hand over what it had read."""
    world = World()
    busy = world.client()
    data = flood("SUB")
    fed = busy.feed(data[:100_000])
    assert busy.transport.paused
    while fed < len(data):
        fed += busy.feed(data[fed:])
    world.loop.run()
    assert busy.protocol.subscription_count == COUNT
    assert not busy.transport.paused


def test_a_client_that_is_gone_gets_no_further_turn() -> None:
    world = World()
    busy, listener = world.client(), world.client()
    listener.say(b"SUB > 1\r\n")
    busy.feed(flood("SUB") + b"PUB last 0\r\n\r\n")
    assert busy.transport.paused
    busy.protocol.connection_lost(None)
    world.loop.run()
    assert b"last" not in listener.heard()
    assert world.router.subscriptions == 1


def test_many_subscriptions_of_a_lost_connection_go_bit_by_bit_and_get_nothing_meanwhile() -> None:
    world = World()
    holder, other = world.client(), world.client()
    holder.say(b"".join(b"SUB a.%d %d\r\n" % (number, number) for number in range(60_000)))
    other.say(b"SUB a.59999 1\r\n")
    holder.protocol.connection_lost(None)
    left = world.router.subscriptions
    assert 1 < left <= 60_001
    assert other.say(b"PUB a.59999 0\r\n\r\n") == b"MSG a.59999 1 0\r\n\r\n"
    world.loop.run()
    assert world.router.subscriptions == 1
    assert other.say(b"PUB a.59999 0\r\n\r\n") == b"MSG a.59999 1 0\r\n\r\n"


def test_few_subscriptions_are_removed_at_once_where_each_looks_through_all_routes() -> None:
    world = World()
    holder, other = world.client(), world.client()
    other.say(b"".join(b"PUB a.%d.b 0\r\n\r\n" % number for number in range(15_000)))
    holder.say(b"".join(b"SUB *.n%d.> %d\r\n" % (number, number) for number in range(200)))
    holder.protocol.connection_lost(None)
    assert world.router.subscriptions > 200 - 64
    world.loop.run()
    assert world.router.subscriptions == 0


def test_a_second_connect_frees_all_sids_at_once() -> None:
    world = World()
    holder = world.client()
    holder.say(b"".join(b"SUB a %d\r\n" % number for number in range(60_000)))
    from jetbroker.connections.handshake import ConnectOptions

    options = ConnectOptions()
    options.verbose = options.pedantic = False
    holder.protocol.apply_connect(options, world.router, world.account)
    assert holder.protocol.subscription_count == 0
    assert holder.say(b"SUB b 1\r\nPUB a 0\r\n\r\nPUB b 0\r\n\r\n") == b"MSG b 1 0\r\n\r\n"
