"""`jetbroker top`: what a server does now.

$ jetbroker top
$ jetbroker top http://broker:8222 --table consumers
$ jetbroker top nats://admin:secret@broker:4222 --once
"""

import argparse
import contextlib
import io
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence

from jetbroker.daemon.top import screen
from jetbroker.daemon.top.asking import HTTP_PORT, Answers, AskError, Place, asker
from jetbroker.daemon.top.figures import Figures, figures_of
from jetbroker.daemon.top.screen import View

_DESCRIPTION = """\
Shows what a server does: messages a second, connections, streams, consumers. It asks the monitoring port
(http://host:8222), or over NATS as a user of the system account (nats://user:password@host:4222). nats-server is
understood, too. Keys: s, c and n for streams, consumers and connections, o for another order, arrows to scroll,
space to pause, q to quit.
"""
_INTERRUPTED = 130
_SIGNALLED = 128
_WIDE = 10_000  # columns of an output that is no terminal
_SHARE = 4  # a look that took a second is followed by the next one after so many


def main(argv: Sequence[str], program: str) -> int:
    """Run it with the words behind `top`. Returns the exit code; raises JetbrokerError for what cannot be asked."""
    parser = _parser(program)
    asked = parser.parse_args(argv)
    view = View()
    view.show(asked.table)
    try:
        if asked.sort:
            view.sort(asked.sort)
    except ValueError as error:
        parser.error(str(error))
    if not (asked.once or asked.json) and not (sys.stdin.isatty() and sys.stdout.isatty()):
        parser.error("this is no terminal: use --once or --json")
    ask = asker(Place(asked.url, asked.creds, asked.nkey, asked.tlsca, asked.timeout))
    try:
        if asked.once or asked.json:
            return _print(ask, view, asked)
        return _follow(ask, view, asked.interval)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{program} top", description=_DESCRIPTION)
    default = f"http://127.0.0.1:{HTTP_PORT}"
    parser.add_argument("url", metavar="URL", nargs="?", default=default, help=f"the server (default: {default})")
    parser.add_argument("--interval", type=_seconds, default=1.0, help="seconds between two looks (default: 1)")
    parser.add_argument("--table", choices=screen.TABLES, default="streams", help="what is shown first")
    parser.add_argument("--sort", default="", metavar="COLUMN", help="what the table is sorted by")
    parser.add_argument("--once", action="store_true", help="look twice, print, and end")
    parser.add_argument("--json", action="store_true", help="print an object of JSON for each look")
    parser.add_argument("--creds", default="", metavar="FILE", help="a credentials file, over NATS")
    parser.add_argument("--nkey", default="", metavar="FILE", help="a file with the seed of an nkey, over NATS")
    parser.add_argument("--tlsca", default="", metavar="FILE", help="the authority of the server's certificate")
    parser.add_argument("--timeout", type=_seconds, default=5.0, help="seconds for each answer (default: 5)")
    return parser


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.1 <= value <= 3600:
        raise argparse.ArgumentTypeError("from 0.1 to 3600 seconds")
    return value


# --- for scripts ---


def _print(ask: Callable[[], Answers], view: View, asked: argparse.Namespace) -> int:
    """Without a terminal: once, or for each look until somebody ends it."""
    figures: Figures | None = figures_of(ask(), time.monotonic(), None)
    while True:
        time.sleep(asked.interval)
        figures = figures_of(ask(), time.monotonic(), figures)
        if asked.json:
            print(json.dumps(figures.to_json()), flush=True)
        else:
            print(_as_text(figures, view))
        if asked.once:
            return 0


def _as_text(figures: Figures, view: View) -> str:
    """The server and all tables; the one that was asked for comes first."""
    from rich.console import Console, Group

    tables = [screen.table_of(figures, view, None)]
    for name in screen.TABLES:
        if name != view.table:
            other = View()
            other.show(name)
            tables.append(screen.table_of(figures, other, None))
    text = io.StringIO()
    width = None if sys.stdout.isatty() else _WIDE
    console = Console(file=text, width=width, no_color=True, highlight=False)
    console.print(Group(*screen.server_lines(figures.server)))
    for table in tables:
        console.print()
        console.print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


# --- in a terminal ---


class _Looks:
    """Looks at the server in a thread: keys are heard meanwhile. A byte in `told` says that there is something new."""

    def __init__(self, ask: Callable[[], Answers], interval: float) -> None:
        self._ask = ask
        self._interval = interval
        self._end = threading.Event()
        self.told, self._tell = os.pipe()
        self.figures: Figures | None = None
        self.trouble = ""
        threading.Thread(target=self._run, name="jetbroker-top", daemon=True).start()

    def _run(self) -> None:
        while not self._end.is_set():
            began = time.monotonic()
            try:
                self.figures = figures_of(self._ask(), time.monotonic(), self.figures)
                self.trouble = ""
            except AskError as error:
                self.trouble = str(error)
            with contextlib.suppress(OSError):  # the end came meanwhile
                os.write(self._tell, b".")
            took = time.monotonic() - began
            self._end.wait(max(self._interval - took, took * _SHARE))

    def end(self) -> None:
        """No more looks."""
        self._end.set()


def _follow(ask: Callable[[], Answers], view: View, interval: float) -> int:
    from jetbroker.daemon.top.terminal import Ended, taken

    ask()  # a server that is not there is told before the terminal is taken
    looks = _Looks(ask, interval)
    try:
        with taken() as terminal:
            figures, lines = looks.figures, 0
            while True:
                if not view.paused:
                    figures, view.trouble = looks.figures, looks.trouble
                lines = terminal.lines
                terminal.show(screen.whole(figures, view, lines))
                key = terminal.key(interval, looks.told)
                if key is None or key in ("q", "Q"):
                    return 0
                _obey(view, key, screen.rows_that_fit(lines))
    except Ended as end:
        return _SIGNALLED + end.number
    except OSError:  # the terminal is gone
        return _SIGNALLED + signal.SIGHUP
    finally:
        looks.end()


def _obey(view: View, key: str, page: int) -> None:
    """What a key means."""
    tables = {"s": "streams", "c": "consumers", "n": "connections"}
    steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -page, "pagedown": page}
    if key.lower() in tables:
        view.show(tables[key.lower()])
    elif key in steps:
        view.scroll(steps[key])
    elif key == "o":
        view.next_order()
    elif key == " ":
        view.paused = not view.paused
