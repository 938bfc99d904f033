from typing import final

from jetbroker.jetstream.timing.work_turns import WorkTurns
from jetbroker.store.log.segmented import SegmentedLog
from jetbroker.store.log.stream_log import SubjectFilter
from jetbroker.turns import Steps

@final
class StreamCursor:
    filter: SubjectFilter
    next_seq: int
    resume: int
    def __init__(self, log: SegmentedLog, filter: SubjectFilter, start: int, turns: WorkTurns) -> None: ...
    def choose_last_per_subject(self, resume: int, delivered: int) -> Steps[None]:
        """First give out each matching subject's last message up to `resume` (0: now), then what came after it."""
    def first_chosen(self) -> int:
        """The first message of the first pass, 0: there is none."""
    def move_to(self, seq: int) -> None: ...
