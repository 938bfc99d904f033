"""A plant stores readings at its own broker, a leaf. The hub copies them, and makes up leeway when the link was down.

jetbroker -c hub.conf &
jetbroker -c leaf.conf &
python copy_readings.py [URL of the hub] [URL of the leaf]
"""

import asyncio
import sys

import nats
from nats.js import JetStreamContext
from nats.js.api import ExternalStream, StreamSource


async def set_up(hub: JetStreamContext, plant: JetStreamContext) -> None:
    """READINGS at the plant, and its mirror at the hub, which asks the plant's domain over the link."""
    await plant.add_stream(name="READINGS", subjects=["readings.>"])
    origin = StreamSource(name="READINGS", external=ExternalStream(api="$JS.plant.API"))
    await hub.add_stream(name="READINGS_OF_PLANT", mirror=origin)


async def copied(hub: JetStreamContext, count: int) -> None:
    """Wait until the mirror has so many messages."""
    while (await hub.stream_info("READINGS_OF_PLANT")).state.messages < count:
        await asyncio.sleep(0.05)


async def main(hub_url: str, leaf_url: str) -> None:
    hub, plant = await nats.connect(hub_url), await nats.connect(leaf_url)
    await set_up(hub.jetstream(), plant.jetstream())
    for number in range(10):
        await plant.jetstream().publish(f"readings.{number % 3}", b"21.5")
    await copied(hub.jetstream(), 10)
    message = await hub.jetstream().get_msg("READINGS_OF_PLANT", 10)
    print("the hub has", message.subject, message.data)
    await hub.close()
    await plant.close()


if __name__ == "__main__":
    urls = sys.argv[1:] or ["nats://127.0.0.1:4222", "nats://127.0.0.1:4223"]
    asyncio.run(main(*urls))
