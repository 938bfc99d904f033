"""How long an origin is waited for: longer each time, and from the beginning when there is new hope."""

RETRY_SECONDS = 0.25  # twice as long each time
LONGEST_RETRY_SECONDS = 5.0  # behind a refusal
LONGEST_UNHEARD_SECONDS = 2.0  # while it cannot be reached: asking costs nothing then
ANSWER_SECONDS = 2.0  # twice as long each time: a request may be lost with a link, or the origin may have much to do
LONGEST_ANSWER_SECONDS = 16.0
_MOST_FAILURES = 10


class Patience:
    """Counts failures in a row."""

    def __init__(self) -> None:
        self._failures = 0

    def renew(self) -> None:
        """The connection stands, or something has changed since the last failure."""
        self._failures = 0

    def before_next(self, *, refused: bool) -> float:
        """Seconds until the next try, behind one that failed."""
        longest = LONGEST_RETRY_SECONDS if refused else LONGEST_UNHEARD_SECONDS
        seconds = min(RETRY_SECONDS * 2.0**self._failures, longest)
        self._failures = min(self._failures + 1, _MOST_FAILURES)
        return seconds

    def for_answer(self) -> float:
        """Seconds to wait for the answer to a request."""
        return min(ANSWER_SECONDS * 2.0**self._failures, LONGEST_ANSWER_SECONDS)
