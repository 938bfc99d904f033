from typing import Any

from jetbroker.store.filelog import FileLog, FileSegment

Summary = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
"""What belongs to the file, to the subjects, and to what is deleted."""

def summarize(log: FileLog, segment: FileSegment) -> Summary | None:
    """Describe a sealed segment whose columns can be loaded; None when its file alone would not say the same."""

def adopt_summary(segment: FileSegment, summary: Summary) -> None:
    """Take everything but the columns from a summary. Raises ValueError when its parts do not fit each other."""
