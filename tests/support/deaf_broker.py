"""Run a broker whose streams do not tell their consumers of commits: `deaf_broker.py [flags of jetbroker]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent


def main() -> int:
    sys.path[0] = str(ROOT)  # what is imported from beside this file would hide the standard library
    from jetbroker.daemon import cli
    from jetbroker.jetstream import account
    from jetbroker.jetstream.streams.stream import Stream

    class DeafStream(Stream):
        def add_consumer(self, consumer: Any) -> None:
            super().add_consumer(consumer)
            kept = dict(self.consumers)
            self.consumers.clear()
            self._tell_ingest()  # type: ignore[attr-defined]
            self.consumers.update(kept)

    account.Stream = DeafStream  # type: ignore[attr-defined]
    return cli.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
