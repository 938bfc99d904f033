class S2Error(Exception):
    """The stream cannot be read."""

class S2Reader:
    """Blocks out of a stream that comes in pieces."""

    def feed(self, data: bytes) -> None:
        """The next piece."""
    def next_block(self) -> bytes | None:
        """The next block, 4 MiB at most; None: not there yet. Raises S2Error."""
    @property
    def held(self) -> int:
        """Bytes that wait."""

class S2Writer:
    """Chunks of a stream, in memory that the next ones take again."""

    size: int
    def begin(self) -> None:
        """What stands in front of a stream's first chunk."""
    def write(self, data: bytes) -> None:
        """These bytes as chunks. May run in a thread."""
    def read(self, start: int, n: int) -> bytes:
        """Up to `n` bytes of what was written, from there on."""
    def clear(self) -> None:
        """The next chunks are written over these."""
