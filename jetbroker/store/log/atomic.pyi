from jetbroker.store.disk import Disk

class BatchWalk:
    first_seq: int
    start: int
    torn: list[tuple[int, int, list[tuple[int, int]] | None]]

def sync_apart(disk: Disk, path: str) -> None:
    """Have the content of a file on disk before this returns. Raises OSError."""
