"""No server at the other end of a link keeps clients waiting: what it asks for is done in turns."""

from __future__ import annotations

import json

import pytest

from jetbroker.auth.permissions import Permissions
from jetbroker.config.options import PermissionsOptions, SubjectPermissions
from jetbroker.leafnodes.rules import Rules
from tests.leafnodes.test_link import End

COUNT = 2000
NAMES = b" ".join(b"n%d" % number for number in range(COUNT))
LONG = b".".join(b"a" for _ in range(15_000))
INFO = b"INFO " + json.dumps({"import": {"allow": [f"a.{number}.>" for number in range(COUNT)]}}).encode() + b"\r\n"
FLOODS = {
    "interest": b"".join(b"LS+ a.%d.b\r\n" % number for number in range(COUNT)),
    "interest that comes and goes": b"LS+ a\r\nLS- a\r\n" * COUNT,
    "weights that change": b"LS+ a q 1\r\nLS+ a q 2147483648\r\n" * COUNT,
    "long subjects": b"".join(b"LS+ %d." % number + LONG + b"\r\n" for number in range(4)),
    "names of groups": (b"LMSG a | " + NAMES + b" 0\r\n\r\n") * 10,
    "messages with long subjects": (b"LMSG " + LONG + b" " + LONG + b" 0\r\n\r\n") * 20,
    "INFO": INFO * 4,
    "errors": b"-ERR 'x'\r\n" * 200,
}


def end_of_link() -> End:
    end = End("hub", spoke=False)
    end.link.set_max_control_line(65_536)
    end.begin()
    end.said()
    return end


@pytest.mark.parametrize("kind", FLOODS)
def test_others_are_served_between_two_turns(kind: str) -> None:
    hub = end_of_link()
    other = hub.world.client()
    data = FLOODS[kind]
    turns = 0
    while data:
        buffer = hub.link.get_buffer(-1)
        size = min(len(buffer), len(data))
        buffer[:size], data = data[:size], data[size:]
        hub.link.buffer_updated(size)
        while hub.transport.paused:
            turns += 1
            other.feed(b"PING\r\n")  # what it gets is sent at once
            assert bytes(other.transport.sent).endswith(b"PONG\r\n" * turns)
            hub.world.loop.run_once()
    assert turns, "all of it was done at once"
    assert not hub.link.closed


def test_who_publishes_to_many_groups_behind_a_link_has_fewer_messages_in_a_turn() -> None:
    hub = end_of_link()
    hub.hear(b"".join(b"LS+ a n%d 1\r\n" % number for number in range(COUNT)))
    client = hub.world.client()
    client.feed(b"PUB a 0\r\n\r\n" * 100)
    assert client.transport.paused
    hub.world.loop.run()
    said = hub.said()
    assert said.count(b"LMSG a | ") == 100
    assert said.split(b"\r\n", 1)[0].split(b" ")[3:-1] == NAMES.split(b" ")


def test_no_line_gets_longer_than_a_peer_reads() -> None:
    hub = end_of_link()
    names = [b"%d" % number + b"x" * 1000 for number in range(100)]
    hub.hear(b"".join(b"LS+ a " + name + b" 1\r\n" for name in names))
    hub.world.client().say(b"PUB a 0\r\n\r\n")
    line = hub.said().split(b"\r\n", 1)[0]
    assert 30_000 < len(line) < 40_000
    assert line.split(b" ")[3:-1] == names[:32]


def test_new_rules_are_followed_in_turns_though_each_subject_is_judged_by_many() -> None:
    hub = end_of_link()
    client = hub.world.client()
    client.say(b"".join(b"SUB b.%d 1%d\r\n" % (number, number) for number in range(500)))
    hub.said()
    denied = SubjectPermissions(deny=["b.1", *(f"*.x.{number}.never" for number in range(2000))])
    judge = Permissions(PermissionsOptions(subscribe=denied))
    walked: list[object] = []
    hub.world.loop.create_task = walked.append  # type: ignore[attr-defined]
    hub.link.apply_rules(Rules(judge, None))
    assert len(walked) == 1, "all of it was looked at at once"
    walked[0].close()  # type: ignore[attr-defined]
