"""Reads that filled the buffer: what they send to one receiver goes out with what the next read sends it."""

from __future__ import annotations

from jetbroker import limits
from tests.support.inprocess import FakeClient, World

ANOTHER = b"PUB s 2\r\nhi\r\n"


def full_read() -> bytes:
    """One message that is as long as the read buffer, to the byte."""
    line = b"PUB s %d\r\n"
    size = limits.READ_BUFFER_BYTES - len(line % limits.READ_BUFFER_BYTES) - 2
    data = line % size + b"x" * size + b"\r\n"
    assert len(data) == limits.READ_BUFFER_BYTES
    return data


def delivered(receiver: FakeClient) -> int:
    return bytes(receiver.transport.sent).count(b"MSG s 1 ")


def receivers(world: World, count: int) -> list[FakeClient]:
    made = [world.client() for _ in range(count)]
    for receiver in made:
        receiver.say(b"SUB s 1\r\n")
    return made


def test_a_flush_waits_for_the_next_read() -> None:
    world = World()
    (receiver,), publisher = receivers(world, 1), world.client()
    publisher.feed(full_read())
    assert delivered(receiver) == 0
    publisher.feed(ANOTHER)
    assert delivered(receiver) == 2


def test_a_flush_waits_no_longer_than_for_the_next_iteration_of_the_loop() -> None:
    world = World()
    (receiver,), publisher = receivers(world, 1), world.client()
    publisher.feed(full_read())
    assert delivered(receiver) == 0
    world.loop.run_once()
    assert delivered(receiver) == 1


def test_a_flush_waits_for_so_many_full_reads_and_no_more() -> None:
    world = World()
    (receiver,), publisher = receivers(world, 1), world.client()
    for _ in range(limits.PUT_OFF_READS):
        publisher.feed(full_read())
        assert delivered(receiver) == 0
    publisher.feed(full_read())
    assert delivered(receiver) > 0
    world.loop.run()
    assert delivered(receiver) == limits.PUT_OFF_READS + 1


def test_two_receivers_get_theirs_at_once() -> None:
    world = World()
    first, second = receivers(world, 2)
    publisher = world.client()
    publisher.feed(full_read())
    assert (delivered(first), delivered(second)) == (1, 1)


def test_another_connections_read_flushes_too() -> None:
    world = World()
    (receiver,), publisher, other = receivers(world, 1), world.client(), world.client()
    publisher.feed(full_read())
    assert other.say(b"PING\r\n") == b"PONG\r\n"
    assert delivered(receiver) == 1
