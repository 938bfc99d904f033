"""Jobs that are done once. A job that fails three times goes to the stream DEAD, and waits there for somebody to look.

python work_queue.py [URL]
jetbroker replay DEAD        # publishes the dead letters again
"""

import asyncio
import json
import sys
from collections.abc import Callable

import nats
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, RetentionPolicy

TRIES = 3


async def set_up(jetstream: JetStreamContext) -> None:
    """Make the streams and the consumer; harmless when they are there."""
    await jetstream.add_stream(name="DEAD", subjects=["dead.none"])  # nobody publishes there: the broker fills it
    await jetstream.add_stream(name="JOBS", subjects=["jobs.>"], retention=RetentionPolicy.WORK_QUEUE)
    config = ConsumerConfig(max_deliver=TRIES, ack_wait=30, metadata={"jetbroker.dead_letter": "DEAD"})
    await jetstream.pull_subscribe("jobs.>", durable="worker", stream="JOBS", config=config)


async def work(jetstream: JetStreamContext, do: Callable[[dict[str, object]], None]) -> int:
    """Do jobs until there are none; returns how many went well. An error of `do` means: try again later."""
    consumer = await jetstream.pull_subscribe_bind("worker", stream="JOBS")
    done = 0
    while True:
        state = await consumer.consumer_info()
        if not state.num_pending and not state.num_ack_pending:
            return done
        try:
            jobs = await consumer.fetch(10, timeout=1)
        except TimeoutError:  # what somebody else works on may come back
            continue
        for job in jobs:
            try:
                do(json.loads(job.data))
            except Exception as error:
                print(f"{job.subject}, try {job.metadata.num_delivered}: {error}")
                await job.nak()
            else:
                await job.ack_sync(timeout=30)  # the broker has taken note: the job is gone from the queue
                done += 1


async def dead(jetstream: JetStreamContext) -> list[tuple[str, str]]:
    """The subject and the reason of each dead letter."""
    letters = []
    state = (await jetstream.stream_info("DEAD")).state
    for seq in range(state.first_seq, state.last_seq + 1):
        headers = (await jetstream.get_msg("DEAD", seq)).headers or {}
        letters.append((headers["Dead-Letter-Subject"], headers["Dead-Letter-Reason"]))
    return letters


def print_job(job: dict[str, object]) -> None:
    """What is to be done."""
    if job["pages"] == 0:
        raise ValueError("nothing to print")
    print("printed", job)


async def main(url: str) -> None:
    client = await nats.connect(url)
    jetstream = client.jetstream()
    await set_up(jetstream)
    for number, pages in enumerate((3, 0, 5)):
        await jetstream.publish(f"jobs.print.{number}", json.dumps({"pages": pages}).encode())
    print(await work(jetstream, print_job), "jobs done; dead:", await dead(jetstream))
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "nats://127.0.0.1:4222"))
