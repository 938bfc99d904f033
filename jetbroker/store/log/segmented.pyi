import builtins

from jetbroker.store.log.stream_log import StreamLog, SubjectFilter, SubjectState

class StoreTotals:
    """What all logs of one kind of storage hold together, counted as nats-server does."""

    messages: int
    bytes: int
    def discount(self, log: SegmentedLog) -> None:
        """What is stored in a log does not count any more: its stream is on its way out."""

class SegmentedLog(StreamLog):
    totals: StoreTotals
    stream_id: int
    def read_next(
        self, filter: SubjectFilter | None, start: int, limit: int = ...
    ) -> tuple[int, int, builtins.bytes, builtins.bytes, builtins.bytes, int]: ...
    def append_message(
        self,
        subject: builtins.bytes,
        payload: builtins.bytes,
        headers: builtins.bytes = b"",
        time_ns: int = 0,
        flags: int = 0,
    ) -> int: ...
    def slots_held(self) -> int:
        """Sequences that the segments have, whether there is a message or not."""
    def evict(self) -> None: ...
    def state_of(self, subject: builtins.bytes) -> SubjectState: ...
