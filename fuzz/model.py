"""The client protocol read in the plainest way: an independent second opinion on the compiled parser.

It takes whole input only and has no idea of speed. Under a coverage-guided fuzzer its branches are what guides.
"""

from __future__ import annotations

from dataclasses import dataclass

VERBS = (b"CONNECT", b"INFO", b"PUB", b"HPUB", b"SUB", b"UNSUB", b"PING", b"PONG", b"+OK", b"-ERR")
WITHOUT_BLANK = (b"CONNECT", b"INFO")
IGNORING_THEIR_LINE = {b"PING": b"<", b"PONG": b">", b"+OK": b""}
UNKNOWN = b"Unknown Protocol Operation|Protocol Violation"
NOT_A_WORD = b"|Protocol Violation"
TOO_LONG = b"maximum control line exceeded|Maximum Control Line Exceeded"
TOO_LARGE = b"Maximum Payload Violation|Maximum Message Payload Exceeded"
NO_LOGIN = b"Authorization Violation|Authentication Failure"


@dataclass(frozen=True)
class Settings:
    """What a connection tells its parser."""

    headers: bool = True
    login_due: bool = False
    max_payload: int = 1048576
    max_control_line: int = 4096


class _End(Exception):
    """Nothing more is read: `verdict` is the error, None when more input is waited for."""

    def __init__(self, verdict: bytes | None = None) -> None:
        super().__init__(verdict)
        self.verdict = verdict


def _netstring(value: bytes | None) -> bytes:
    return b"-," if value is None else b"%d:%b," % (len(value), value)


def _event(letter: bytes, *fields: bytes | None) -> bytes:
    return letter + b"".join(map(_netstring, fields))


def answer(data: bytes, settings: Settings) -> bytes:
    """Events, then how it ended, in the form of fuzz.parsing.splits."""
    reader = _Reader(data, settings)
    verdict = None
    try:
        while reader.rest:
            reader.command()
    except _End as end:
        verdict = end.verdict
    return reader.events + b"!" + (b"%d" % len(reader.rest) if verdict is None else verdict)


class _Reader:
    def __init__(self, data: bytes, settings: Settings) -> None:
        self.rest = data
        self.events = b""
        self.settings = settings
        self.login_due = settings.login_due

    def command(self) -> None:
        """Take one command off the input."""
        if self.login_due and self.rest[:1] not in (b"C", b"c"):
            raise _End(NO_LOGIN)
        verb = self.verb()
        behind = self.rest[len(verb) :]
        if verb in IGNORING_THEIR_LINE:
            line, found, left = behind.partition(b"\n")
            self.rest = left
            if not found:
                raise _End
            self.events += IGNORING_THEIR_LINE[verb]
            return
        if not behind:
            raise _End
        if verb not in WITHOUT_BLANK and behind[:1] not in (b" ", b"\t"):
            raise _End(UNKNOWN)
        line, found, left = behind.partition(b"\n")
        line = line.removesuffix(b"\r").lstrip(b" \t")
        if len(line) > self.settings.max_control_line:
            raise _End(TOO_LONG)
        if not found:
            raise _End
        if verb in (b"PUB", b"HPUB"):
            self.publish(verb, line, left)
        else:
            self.line(verb, line)
            self.rest = left

    def verb(self) -> bytes:
        """The verb that starts the rest; waits when it may still become one."""
        for verb in VERBS:
            start = self.rest[: len(verb)].upper()
            if start == verb:
                return verb
            if verb.startswith(start):
                raise _End
        raise _End(UNKNOWN)

    def line(self, verb: bytes, line: bytes) -> None:
        """The commands that are one line."""
        words = line.replace(b"\t", b" ").split(b" ")
        words = [word for word in words if word]
        if verb == b"CONNECT":
            self.login_due = False
            self.events += _event(b"C", line)
        elif verb == b"INFO":
            self.events += _event(b"I", line)
        elif verb == b"-ERR":
            self.events += _event(b"E", line)
        elif verb == b"SUB" and len(words) == 2:
            self.events += _event(b"S", words[0], None, words[1])
        elif verb == b"SUB" and len(words) == 3:
            self.events += _event(b"S", *words)
        elif verb == b"UNSUB" and len(words) in (1, 2):
            most = _size(words[1]) if len(words) == 2 else None
            self.events += _event(b"U", words[0], b"%d" % (most or 0))
        else:
            raise _End(NOT_A_WORD)

    def publish(self, verb: bytes, line: bytes, left: bytes) -> None:
        """PUB subject [reply] size; HPUB subject [reply] header-size total-size."""
        words = [word for word in line.replace(b"\t", b" ").split(b" ") if word]
        numbers = 1 if verb == b"PUB" else 2
        if not numbers + 1 <= len(words) <= numbers + 2 or (numbers == 2 and not self.settings.headers):
            raise _End(NOT_A_WORD)
        total = _size(words[-1])
        before = 0 if numbers == 1 else _size(words[-2])
        if total is None or before is None or before > total:
            raise _End(NOT_A_WORD)
        if 0 < self.settings.max_payload < total:
            raise _End(TOO_LARGE)
        body, terminator = left[:total], left[total : total + 2]
        if not b"\r\n".startswith(terminator):
            raise _End(UNKNOWN)
        if len(terminator) < 2:
            raise _End
        reply = words[1] if len(words) == numbers + 2 else None
        self.events += _event(b"M", words[0], reply, body[:before], body[before:], words[-1])
        self.rest = left[total + 2 :]


def _size(word: bytes) -> int | None:
    """One to nine digits, else None."""
    return int(word) if 0 < len(word) <= 9 and all(48 <= letter <= 57 for letter in word) else None
