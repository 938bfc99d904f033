"""The terminal while `top` has it: a screen of its own, keys one by one, and everything back at the end."""

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from rich.console import Console, RenderableType
from rich.live import Live

_ARROWS = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1bOA": "up", b"\x1bOB": "down", b"\x1b[5~": "pageup"}
_ARROWS[b"\x1b[6~"] = "pagedown"
_READ_BYTES = 64


class Ended(Exception):
    """A signal asks for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Terminal:
    """Shows, and hears of keys and signals. An OSError of its methods: the terminal is gone."""

    def __init__(self, live: Live, keys: int, signals: int) -> None:
        self._live = live
        self._keys = keys
        self._signals = signals

    @property
    def lines(self) -> int:
        """How many it has now."""
        return self._live.console.size.height

    def show(self, what: RenderableType) -> None:
        """The whole screen."""
        self._live.update(what, refresh=True)

    def key(self, seconds: float, also: int) -> str | None:
        """The next key within so long, "" for none; None when nobody can press one any more. Raises Ended.

        A byte that can be read from `also` ends the wait, too, and is taken.
        """
        ready, _, _ = select.select([self._signals, self._keys, also], [], [], max(seconds, 0))
        if self._signals in ready:
            raise Ended(os.read(self._signals, 1)[0])
        if also in ready:
            os.read(also, _READ_BYTES)
        if self._keys not in ready:
            return ""
        pressed = os.read(self._keys, _READ_BYTES)
        if not pressed:
            return None
        return _ARROWS.get(pressed, pressed[:1].decode("ascii", "replace"))


def _told(number: int, frame: FrameType | None) -> None:
    """The number is in the pipe: what is being written is written first."""


@contextmanager
def taken() -> Iterator[Terminal]:
    """The terminal, until the end of the block: then it is as it was before."""
    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    signals, tell = os.pipe()
    os.set_blocking(tell, False)
    # not the handler: one that comes just before the wait, or to another thread, would run behind the wait only
    wakes = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    handlers = {number: signal.signal(number, _told) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # nobody would give the screen back
    try:
        tty.setcbreak(keys)
        with Live(console=Console(), screen=True, auto_refresh=False, redirect_stdout=False) as live:
            yield Terminal(live, keys, signals)
    finally:
        with suppress(termios.error):  # it is gone
            termios.tcsetattr(keys, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakes)
        os.close(signals)
        os.close(tell)
