"""An HTTP service on streams: an order is answered when it is on disk, and `/orders/{number}` reads the last state.

pip install fastapi uvicorn nats-py
NATS_URL=nats://127.0.0.1:4222 uvicorn fastapi_service:app
curl -X PUT 127.0.0.1:8000/orders/7 -H 'content-type: application/json' -d '{"item": "book", "count": 1}'
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import nats
from fastapi import FastAPI, HTTPException, Request
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError
from pydantic import BaseModel, Field


class Order(BaseModel):
    """What a client sends."""

    item: str
    count: int = Field(gt=0)


class Stored(BaseModel):
    """Where an order is."""

    seq: int


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One connection for all requests."""
    client = await nats.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222"))
    app.state.jetstream = client.jetstream()
    await app.state.jetstream.add_stream(name="ORDERS", subjects=["orders.*"], max_msgs_per_subject=10)
    yield
    await client.drain()


app = FastAPI(title="orders", lifespan=lifespan)


def jetstream_of(request: Request) -> JetStreamContext:
    """The connection's streams."""
    found: JetStreamContext = request.app.state.jetstream
    return found


@app.put("/orders/{number}", status_code=201)
async def put_order(number: int, order: Order, request: Request) -> Stored:
    """Store a version of an order. The answer means that it is on disk."""
    ack = await jetstream_of(request).publish(f"orders.{number}", order.model_dump_json().encode())
    return Stored(seq=ack.seq)


@app.get("/orders/{number}")
async def get_order(number: int, request: Request) -> Order:
    """The last version of an order."""
    try:
        message = await jetstream_of(request).get_last_msg("ORDERS", f"orders.{number}")
    except NotFoundError:
        raise HTTPException(404, f"there is no order {number}") from None
    return Order.model_validate_json(message.data or b"")
