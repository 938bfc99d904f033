"""A service by request and reply: each request goes to one of the workers that listen.

python request_reply.py [URL]
"""

import asyncio
import json
import sys

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg


async def work(client: Client, name: str) -> None:
    """Answer requests on `prices.get`; the workers of the queue `prices` share them.

    What this connection sends afterwards finds the worker, for the broker reads its commands in order.
    """

    async def answer(request: Msg) -> None:
        try:
            order = json.loads(request.data)
            reply = {"worker": name, "price": round(order["count"] * 2.5, 2)}
        except (ValueError, KeyError, TypeError) as error:
            reply = {"worker": name, "error": f"{type(error).__name__}: {error}"}
        await request.respond(json.dumps(reply).encode())

    await client.subscribe("prices.get", queue="prices", cb=answer)


async def ask(client: Client, count: object) -> dict[str, object]:
    """The answer of one worker. Raises nats.errors.NoRespondersError when nobody works."""
    reply = await client.request("prices.get", json.dumps({"count": count}).encode(), timeout=30)
    told: dict[str, object] = json.loads(reply.data)
    return told


async def main(url: str) -> None:
    client = await nats.connect(url)
    for name in ("ann", "bob"):
        await work(client, name)
    for count in (1, 2, 3, "many"):
        print(count, await ask(client, count))
    await client.drain()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "nats://127.0.0.1:4222"))
