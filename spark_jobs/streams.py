"""Which streams of which store the options mean."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path

from jetbroker.errors import StoreReadError
from jetbroker.store.offline.reader import NewestSegment, StreamSnapshot
from jetbroker.store.offline.stores import consumer_logs, files_of, list_streams, open_stream
from spark_jobs.options import store_path
from spark_jobs.patterns import named_by


class Streams:
    """The streams that the option `stream` means: one, several with commas, or a pattern of names."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.path = store_path(options)
        self.stream = options.get("stream", "")
        self.account = options.get("account") or "$G"
        self.domain = options.get("domain", "")
        if not self.stream:
            raise StoreReadError('the option "stream" is missing: the name of the stream to read')

    def open(self, from_seq: int = 1, stream: str = "", newest: NewestSegment | None = None) -> StreamSnapshot:
        """The present state of one of them, see open_stream."""
        return open_stream(self.path, stream or self.stream, self.account, self.domain, from_seq, newest)

    def files(self) -> Hashable:
        """Equal as long as no message is stored or removed; None: nobody knows."""
        return files_of(self.path, self.stream, self.account)

    def open_all(self) -> list[StreamSnapshot]:
        """The present states of all. Raises StoreReadError, which names those there are, when there is none."""
        if not set(self.stream) & {"*", ","}:
            return [self.open()]
        there = [name for account, name in list_streams(self.path) if account == self.account]
        names = named_by(self.stream, there)
        if not names:
            known = f"there is {', '.join(there)}" if there else "this account has no stream on disk"
            raise StoreReadError(f"no stream of account {self.account!r} is called {self.stream!r}; {known}")
        return [self.open(stream=name) for name in names]

    def consumer_logs(self, snapshot: StreamSnapshot) -> list[Path]:
        """The state logs of a stream's consumers."""
        return consumer_logs(self.path, snapshot.stream, self.account)
