from typing import Any

from jetbroker.store.log.filelog import FileLog
from jetbroker.store.log.segment_files import FileSegment

Summary = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
"""What belongs to the file, to the subjects, and to what is deleted."""

NUMBERS: dict[str, int]
"""The numbers of the first part, and how large each can be."""

def summarize(log: FileLog, segment: FileSegment) -> Summary | None:
    """Describe a sealed segment whose columns can be loaded; None when its file alone would not say the same."""

def check_summary(file: dict[str, Any], subjects: dict[str, Any], gone: dict[str, Any]) -> None:
    """Every number of a summary has its range and agrees with the others. Raises ValueError."""

def adopt_summary(segment: FileSegment, summary: Summary) -> None:
    """Take everything but the columns from a summary that `check_summary` has passed."""
