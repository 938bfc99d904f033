"""What failed inside Spark, as one sentence: Spark's own text is a trace of Java around one of Python."""

from __future__ import annotations

import re

OF_SPARK = ("pyspark", "py4j")
OURS = re.compile(r"(?<![\w.])(?:jetbroker|spark_jobs)(?:\.\w+)*\.\w+Error: (.+)$", re.MULTILINE)
JAVA = re.compile(r"^(?::|Caused by:) [\w.$]+: (.+)$", re.MULTILINE)
STOPPED = "Cannot call methods on a stopped SparkContext"  # all that Spark says when a master never answered
CALL = "An error occurred while calling"  # how py4j begins, before it says what


def sentence(error: Exception) -> str:
    """What the source said, or the first line of what Spark says; "" for an error that is not of Spark."""
    if type(error).__module__.partition(".")[0] not in OF_SPARK:
        return ""
    text = str(error)
    if STOPPED in text:
        return (
            "Spark has stopped: its master does not answer, or has ended this application; see that --master names a "
            "running Spark master of the same release"
        )
    for pattern in (OURS, JAVA):
        if found := pattern.findall(text):
            return str(found[-1])
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(CALL)]
    return f"Spark failed: {lines[0]}" if lines else f"Spark failed: {type(error).__name__}"
