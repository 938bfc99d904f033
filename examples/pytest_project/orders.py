"""The program under test: it stores orders in a stream and adds up what is to be billed."""

import json
from typing import Any

from nats.js import JetStreamContext


async def set_up(jetstream: JetStreamContext) -> None:
    """Make the stream; harmless when it is there."""
    await jetstream.add_stream(name="ORDERS", subjects=["orders.>"])


async def place(jetstream: JetStreamContext, number: int, **order: Any) -> int:
    """Store an order. The answer comes when it is on disk. Placing the same number again stores nothing."""
    ack = await jetstream.publish(
        f"orders.{number}", json.dumps(order).encode(), headers={"Nats-Msg-Id": f"order-{number}"}
    )
    return ack.seq


async def bill(jetstream: JetStreamContext) -> float:
    """The sum of all orders that were not billed before."""
    consumer = await jetstream.pull_subscribe("orders.>", durable="billing", stream="ORDERS")
    total = 0.0
    while (await consumer.consumer_info()).num_pending:
        for message in await consumer.fetch(100, timeout=30):
            total += json.loads(message.data)["price"]
            await message.ack_sync(timeout=30)
    return total
