from collections.abc import Callable

from jetbroker.jetstream.timing.work_turns import Worker, WorkTurns
from jetbroker.store.log.hash_chain import ChainFile
from jetbroker.store.log.stream_log import StreamLog

class HashChain(Worker):
    """The chain of one stream, kept in `file`."""

    def __init__(self, log: StreamLog, file: ChainFile, turns: WorkTurns, complain: Callable[[str], None]) -> None: ...
    def position(self) -> str: ...
    def close(self) -> None: ...
