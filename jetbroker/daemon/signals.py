"""`--signal`: tell a running broker what to do. Signals, texts and meanings are nats-server's."""

import os
import signal
from collections.abc import Callable, Collection, Iterable

from jetbroker.errors import JetbrokerError

SIGNALS = {
    "stop": signal.SIGKILL,
    "quit": signal.SIGINT,
    "term": signal.SIGTERM,
    "reopen": signal.SIGUSR1,
    "reload": signal.SIGHUP,
    "ldm": signal.SIGUSR2,
}


class SignalError(JetbrokerError):
    """No such signal, no such process, or not one process."""


def send(
    command: str,
    program: str,
    commands: Collection[str] = (),
    running: Callable[[str, Collection[str]], list[int]] | None = None,
    kill: Callable[[int, int], None] = os.kill,
) -> None:
    """Do what `--signal <command>` says: `name`, or `name=` followed by a pid, a pid with `*`, or a pid file.

    Without a pid there must be exactly one other process of this program, one that runs none of these `commands`.
    Raises :class:`SignalError`.
    """
    name, given, expression = command.partition("=")
    find = running or running_processes
    beginning = expression.removesuffix("*")
    if given and beginning and beginning != expression and not beginning.isdecimal():
        raise SignalError(f"invalid pid: {beginning}")
    if given and beginning and beginning == expression:
        pids = [_pid(expression)]
    else:
        pids = find(program, commands)
        if not pids:
            raise SignalError(f"no {program} processes running")
        if len(pids) > 1 and not expression:
            raise SignalError(f"multiple {program} processes running:\n" + "\n".join(map(str, pids)))
        pids = [pid for pid in pids if str(pid).startswith(beginning)]
    number = _known(name)
    failed = [text for pid in pids if (text := _kill(kill, name, pid, number))]
    if failed:
        raise SignalError("\n" + "\n".join(failed))


def _known(name: str) -> signal.Signals:
    if name not in SIGNALS:
        raise SignalError(f'unknown signal "{name}"')
    return SIGNALS[name]


def _kill(kill: Callable[[int, int], None], name: str, pid: int, number: signal.Signals) -> str:
    try:
        kill(pid, number)
    except OSError as error:
        why = error.strerror or str(error)
        return f'signal "{name}" {pid}: {why[:1].lower()}{why[1:]}'
    return ""


def _pid(expression: str) -> int:
    """The pid itself, or the one in a pid file."""
    text = expression
    if not text.isdecimal():
        try:
            with open(expression, encoding="ascii") as file:
                text = file.read(64).strip()
        except (OSError, ValueError):
            text = expression
    if not text.isdecimal() or not 0 < int(text[:20]) < 2**31:
        raise SignalError(f"invalid pid: {text}")
    return int(text)


def running_processes(program: str, commands: Collection[str] = ()) -> list[int]:
    """The other processes of this program, from /proc; those that run one of its `commands` are no brokers."""
    try:
        entries: Iterable[str] = os.listdir("/proc")
    except OSError as error:
        raise SignalError(f"unable to resolve pid, try providing one: {error}") from error
    pids = [int(entry) for entry in entries if entry.isdecimal() and int(entry) != os.getpid()]
    return sorted(pid for pid in pids if _is_program(pid, program, commands))


def _is_program(pid: int, program: str, commands: Collection[str]) -> bool:
    """True when the process is this program, by its own name, as a script or as `python -m`, and runs no command."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).decode("utf-8", "replace").split("\0")
    except OSError:
        return False  # gone, or not ours to look at
    behind = _behind_program(words, program)
    return behind is not None and not (behind and behind[0] in commands)


def _behind_program(words: list[str], program: str) -> list[str] | None:
    """The words behind the program's name in a command line; None where that is another program's."""
    if os.path.basename(words[0]) == program:
        return words[1:]
    if not os.path.basename(words[0]).startswith("python"):
        return None
    options = [word for word in words[1:] if word]
    while options and options[0].startswith("-") and options[0] != "-m":
        options.pop(0)
    if options[:1] == ["-m"]:
        return options[2:] if options[1:2] == [program] else None
    return options[1:] if options and os.path.basename(options[0]) == program else None
