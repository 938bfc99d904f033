"""`jetbroker store infer`: typed columns that fit the payloads of a stream, by a sample of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from jetbroker.daemon.stored import showing
from jetbroker.daemon.stored.rows import need_arrow
from jetbroker.errors import StoreReadError
from jetbroker.store.offline.reader import Query, StreamSnapshot, read_part
from jetbroker.store.offline.stores import open_stream
from jetbroker.tables import models
from jetbroker.tables.infer import model_of, sample, text_of
from jetbroker.tables.typed import FORMS, loader

SEGMENTS = 20  # that are looked at, spread over the stream

_DESCRIPTION = """\
Prints a pydantic model for the payloads of a stream, and the text for --decode and json=. It looks at a sample, spread
over the stream: payloads that it did not see may be of another kind.
"""


def add(words: Any) -> None:
    """The command's own arguments."""
    parser = words.add_parser(
        "infer",
        help="print a model that fits the payloads of a stream",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("store", metavar="STORE", help="the broker's store_dir, or its jetstream folder")
    parser.add_argument("stream", metavar="STREAM")
    parser.add_argument("--account", default="$G", help="the account that owns STREAM (default: %(default)s)")
    parser.add_argument("--subject", default="", metavar="PATTERN", help="only subjects that match (orders.eu.>)")
    parser.add_argument("--sample", type=int, default=1000, metavar="N", help="messages to look at (1000)")
    parser.add_argument("--form", choices=FORMS, default="json", help="what payloads are (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print an object: model, text, sampled, others")
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace, program: str) -> int:
    """Run it. Returns the exit code."""
    need_arrow()
    models.need_pydantic()
    if asked.sample < 1:
        raise StoreReadError(f"--sample: {asked.sample} is not a number from 1 on")
    query = Query(subject=asked.subject)
    snapshot = open_stream(asked.store, asked.stream, asked.account)
    found = sample(_payloads(snapshot, query, asked.sample), loader(asked.form))
    if not found.shape.members:
        said = f"{found.others} payloads are no objects" if found.others else "there is no message"
        print(f"{program}: stream {asked.stream!r}: {said}: nothing to infer", file=sys.stderr)
        return 1
    model, text = model_of(found.shape, asked.stream), text_of(found.shape)
    if asked.json:
        showing.show_json({"model": model, "text": text, "sampled": found.shape.seen, "others": found.others})
        return 0
    left_out = f", {found.others} others are no objects" if found.others else ""
    print(f"# by {found.shape.seen} payloads{left_out}\n{model}\n\n# {asked.form}={text!r}")
    return 0


def _payloads(snapshot: StreamSnapshot, query: Query, count: int) -> Iterator[bytes]:
    """At most `count`, of segments that are spread over the stream."""
    from jetbroker.store.offline.arrow import schema_of

    parts = snapshot.plan(query)
    chosen = parts[:: max(1, -(-len(parts) // SEGMENTS))]
    for left, part in zip(range(len(chosen), 0, -1), chosen, strict=True):
        share = -(-count // left)
        for batch in read_part(part, query, schema_of(["data"]), share):
            taken = batch.column(0).to_pylist()[:share]
            yield from taken
            share -= len(taken)
            count -= len(taken)
            if share <= 0:
                break
