"""When Python looks for cycles of garbage, and how long a look holds the event loop up."""

import gc
import time

from jetbroker import limits

_OLDEST = 2  # the generation with everything in it


def collect_rarely() -> None:
    """Modules and streams found on disk stay: later collections of garbage need not walk them."""
    gc.freeze()
    gc.set_threshold(*limits.COLLECTED_AFTER)
    gc.callbacks.append(LongLooks())
    gc.enable()


class LongLooks:
    """A look for cycles through all objects holds the event loop up, with 10,000 streams for a quarter of a second.

    So what a long one has left is not walked again. It is freed when nothing refers to it any more, as all but cycles
    is: streams, consumers and connections that are over leave none.
    """

    def __init__(self) -> None:
        self._began_ns = 0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """The collector begins or ends a look."""
        if info["generation"] < _OLDEST:
            return
        if phase == "start":
            self._began_ns = time.thread_time_ns()
        elif time.thread_time_ns() - self._began_ns > limits.LONG_LOOK_NS:
            gc.freeze()
