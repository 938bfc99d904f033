"""Settings of a program in a key-value bucket. A program that runs hears of each change.

python kv_settings.py [URL]
"""

import asyncio
import sys

import nats
from nats.js import JetStreamContext
from nats.js.errors import KeyWrongLastSequenceError
from nats.js.kv import KeyValue


class Settings:
    """A copy of a bucket that is kept up to date."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self._changed = asyncio.Event()

    async def follow(self, bucket: KeyValue) -> None:
        """Take what is there, then each change; runs until it is cancelled."""
        watcher = await bucket.watchall()
        async for entry in watcher:
            if entry is None:  # all that was there has come
                continue
            if entry.operation in ("DEL", "PURGE"):
                self.values.pop(entry.key, None)
            else:
                self.values[entry.key] = (entry.value or b"").decode()
            self._changed.set()

    async def until(self, key: str, value: str | None) -> None:
        """Wait until a setting has a value (None: until it is gone)."""
        while self.values.get(key) != value:
            await self._changed.wait()
            self._changed.clear()


async def bucket_of(jetstream: JetStreamContext) -> KeyValue:
    """The bucket `settings`, with five versions of each key."""
    return await jetstream.create_key_value(bucket="settings", history=5)


async def raise_by(bucket: KeyValue, key: str, step: int) -> int:
    """Add to a number that others may change at the same time: who comes second tries again."""
    while True:
        entry = await bucket.get(key)
        value = int(entry.value or b"0") + step
        try:
            await bucket.update(key, str(value).encode(), last=entry.revision)
        except KeyWrongLastSequenceError:
            continue
        return value


async def main(url: str) -> None:
    client = await nats.connect(url)
    bucket = await bucket_of(client.jetstream())
    settings = Settings()
    following = asyncio.create_task(settings.follow(bucket))
    await bucket.put("workers", b"2")
    await settings.until("workers", "2")
    await asyncio.gather(raise_by(bucket, "workers", 1), raise_by(bucket, "workers", 10))
    await settings.until("workers", "13")
    print(settings.values, "after", [entry.value for entry in await bucket.history("workers")])
    await bucket.delete("workers")
    await settings.until("workers", None)
    following.cancel()
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "nats://127.0.0.1:4222"))
