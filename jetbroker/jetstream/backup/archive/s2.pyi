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

def framed(data: bytes, begins: bool) -> bytes:
    """These bytes as chunks of a stream; `begins`: with what stands in front of the first."""
