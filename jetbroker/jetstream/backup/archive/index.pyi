from jetbroker.store.log.stream_log import StreamLog

class DeletedIndex:
    """What an index says of deleted messages."""

    @staticmethod
    def read(data: bytes, stream: str) -> DeletedIndex | None:
        """None: it is damaged, or of another version or stream. May run in a thread."""
    def remove(self, log: StreamLog, until_ns: int) -> bool:
        """Remove what it tells, until the time is over; True: there is more."""
