from jetbroker.store.log.segment import Ranges

class PendingRemovals:
    def __init__(self) -> None: ...
    def add(self, first: int, last: int) -> int:
        """These sequences are removed."""
    def next_batch(self) -> Ranges | None:
        """What the next D record says; it is in the write buffer from now on."""
    def written(self) -> int:
        """What was in the write buffer is in the file."""
    def new_file(self) -> int:
        """The next batch is the first of its file."""
    def take_back(self, last_seq: int) -> int:
        """What is not in the file waits again; sequences behind `last_seq` were taken back themselves."""
    def undo(self, back: list[int]) -> None:
        """These sequences (sorted) are not removed after all."""
