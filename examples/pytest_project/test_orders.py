"""Run it with `pip install 'jetbroker[test]'`, then `pytest` in this folder. pytest finds the fixtures by itself."""

import nats
import orders

from jetbroker.testing import Server


async def test_an_order_is_billed_once(jetstream):
    await orders.set_up(jetstream)
    await orders.place(jetstream, 1, item="book", price=12.5)
    await orders.place(jetstream, 2, item="pen", price=2)
    assert await orders.bill(jetstream) == 14.5
    assert await orders.bill(jetstream) == 0


async def test_an_order_that_is_sent_twice_is_stored_once(jetstream):
    await orders.set_up(jetstream)
    assert await orders.place(jetstream, 1, item="book", price=12.5) == 1
    assert await orders.place(jetstream, 1, item="book", price=12.5) == 1
    assert (await jetstream.stream_info("ORDERS")).state.messages == 1


async def test_an_order_outlives_a_crash_of_the_broker():
    with Server(jetstream=True) as server:  # a process of its own, which can be killed
        client = await nats.connect(server.url)
        await orders.set_up(client.jetstream())
        await orders.place(client.jetstream(), 1, item="book", price=12.5)
        await client.close()
        server.kill()  # kill -9
        server.start()
        client = await nats.connect(server.url)
        assert await orders.bill(client.jetstream()) == 12.5
        await client.close()
