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


class End(Exception):
    """Nothing more is read: `verdict` is the error, None when more input is waited for."""

    def __init__(self, verdict: bytes | None = None) -> None:
        super().__init__(verdict)
        self.verdict = verdict


def netstring(value: bytes | None) -> bytes:
    """A field; None is none at all."""
    return b"-," if value is None else b"%d:%b," % (len(value), value)


def event(letter: bytes, *fields: bytes | None) -> bytes:
    """As fuzz.parsing.splits writes it."""
    return letter + b"".join(map(netstring, fields))


def answer(data: bytes, settings: Settings) -> bytes:
    """Events, then how it ended, in the form of fuzz.parsing.splits."""
    return Reader(data, settings).answer()


class Reader:
    """Reads one input."""

    VERBS: tuple[bytes, ...] = VERBS

    def __init__(self, data: bytes, settings: Settings) -> None:
        self.rest = data
        self.events = b""
        self.settings = settings
        self.login_due = settings.login_due

    def answer(self) -> bytes:
        """All of it."""
        verdict = None
        try:
            while self.rest:
                self.command()
        except End as end:
            verdict = end.verdict
        return self.events + b"!" + (b"%d" % len(self.rest) if verdict is None else verdict)

    def command(self) -> None:
        """Take one command off the input."""
        if self.login_due and self.rest[:1] not in (b"C", b"c"):
            raise End(NO_LOGIN)
        verb = self.verb()
        behind = self.rest[len(verb) :]
        if verb in IGNORING_THEIR_LINE:
            line, found, left = behind.partition(b"\n")
            self.rest = left
            if not found:
                raise End
            self.events += IGNORING_THEIR_LINE[verb]
            return
        if not behind:
            raise End
        if verb not in WITHOUT_BLANK and behind[:1] not in (b" ", b"\t"):
            raise End(UNKNOWN)
        line, found, left = behind.partition(b"\n")
        end = b"\r\n" if line.endswith(b"\r") else b"\n"
        whole = line.removesuffix(b"\r")
        line = whole.lstrip(b" \t")
        if max(len(whole) - len(line), len(line)) > self.settings.max_control_line:
            raise End(TOO_LONG)
        if not found:
            raise End
        self.command_of(verb, line, end, left)

    def command_of(self, verb: bytes, line: bytes, end: bytes, left: bytes) -> None:
        """A command whose line, which ended so, is whole."""
        if verb in (b"PUB", b"HPUB"):
            self.publish(verb, line, left)
        else:
            self.line(verb, line)
            self.rest = left

    def verb(self) -> bytes:
        """The verb that starts the rest; waits when it may still become one."""
        for verb in self.VERBS:
            start = self.rest[: len(verb)].upper()
            if start == verb:
                return verb
            if verb.startswith(start):
                raise End
        raise End(UNKNOWN)

    def line(self, verb: bytes, line: bytes) -> None:
        """The commands that are one line."""
        words = line.replace(b"\t", b" ").split(b" ")
        words = [word for word in words if word]
        if verb == b"CONNECT":
            self.login_due = False
            self.events += event(b"C", line)
        elif verb == b"INFO":
            self.events += event(b"I", line)
        elif verb == b"-ERR":
            self.events += event(b"E", line)
        elif verb == b"SUB" and len(words) == 2:
            self.events += event(b"S", words[0], None, words[1])
        elif verb == b"SUB" and len(words) == 3:
            self.events += event(b"S", *words)
        elif verb == b"UNSUB" and len(words) in (1, 2):
            most = size(words[1]) if len(words) == 2 else None
            self.events += event(b"U", words[0], b"%d" % (most or 0))
        else:
            raise End(NOT_A_WORD)

    def publish(self, verb: bytes, line: bytes, left: bytes) -> None:
        """PUB subject [reply] size; HPUB subject [reply] header-size total-size."""
        words = [word for word in line.replace(b"\t", b" ").split(b" ") if word]
        numbers = 1 if verb == b"PUB" else 2
        if not numbers + 1 <= len(words) <= numbers + 2 or (numbers == 2 and not self.settings.headers):
            raise End(NOT_A_WORD)
        total = size(words[-1])
        before = 0 if numbers == 1 else size(words[-2])
        body = self.payload(total, before, left)
        reply = words[1] if len(words) == numbers + 2 else None
        self.events += event(b"M", words[0], reply, body[:before], body[before:], words[-1])

    def payload(self, total: int | None, before: int | None, left: bytes) -> bytes:
        """Take it off the input: `total` bytes, `before` of them headers; None: that was no size."""
        if total is None or before is None or before > total:
            raise End(NOT_A_WORD)
        if 0 < self.settings.max_payload < total:
            raise End(TOO_LARGE)
        body, terminator = left[:total], left[total : total + 2]
        if not b"\r\n".startswith(terminator):
            raise End(UNKNOWN)
        if len(terminator) < 2:
            raise End
        self.rest = left[total + 2 :]
        return body


def size(word: bytes) -> int | None:
    """One to nine digits, else None."""
    return int(word) if 0 < len(word) <= 9 and all(48 <= letter <= 57 for letter in word) else None
