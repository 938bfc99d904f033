"""What a start and a reload ask for: the options of a file, the flags over them, the defaults, the checks.

The language and its keys are imported only when there is a file to read: a start without one is quicker.
"""

from collections.abc import Sequence
from typing import Any

from jetbroker.config import checks
from jetbroker.config.options import Options


class Loaded:
    """What a configuration says: the options, and what is worth telling but stops no start (`-t` counts it)."""

    def __init__(self, options: Options, notices: list[str]) -> None:
        self.options = options
        self.notices = notices


def load(path: str, flags: Sequence[tuple[str, str | int | float | bool]] = ()) -> Loaded:
    """The options of a file (none if `path` is empty), with the flags over them, ready to start with.

    The flags stay in `Options.flags`, so a reload is ``load(options.config_file, options.flags)``. Raises
    :class:`~jetbroker.errors.ConfigError`.
    """
    if path:
        from jetbroker.config.loader import load_file

        loaded = load_file(path)
    else:
        loaded = Loaded(Options(), [])
    loaded.options.flags = list(flags)
    for field, value in flags:
        target: Any = loaded.options
        *blocks, name = field.split(".")
        for block in blocks:
            target = getattr(target, block)
        setattr(target, name, value)
    checks.settle(loaded.options)
    checks.check_start(loaded.options)
    return loaded
