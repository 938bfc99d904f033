"""What tests do with nats-py."""

from __future__ import annotations

from nats.aio.client import Client


async def settle(client: Client) -> None:
    """Wait until the server has taken everything `client` sent.

    One flush is not enough: nats-py writes its PING ahead of the commands it still holds back, so a subscription may
    reach the server after what another connection sends next.
    """
    await client.flush(timeout=30)
    await client.flush(timeout=30)
