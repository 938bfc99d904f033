"""What comes over a link read in the plainest way: a second opinion on the compiled parser, as fuzz/model.py is."""

from __future__ import annotations

from fuzz import model

_MESSAGES = {b"LMSG": 1, b"RMSG": 1, b"HMSG": 2}  # how many sizes they have
_INTEREST = (b"LS+", b"RS+", b"SUB")
_NO_INTEREST = (b"LS-", b"RS-", b"UNSUB")


def answer(data: bytes, settings: model.Settings) -> bytes:
    """Events, then how it ended, in the form of fuzz.parsing.splits."""
    return _LeafReader(data, settings).answer()


def _words(line: bytes) -> list[bytes]:
    return [word for word in line.replace(b"\t", b" ").replace(b"\r", b" ").split(b" ") if word]


class _LeafReader(model.Reader):
    VERBS = (*model.VERBS, *_MESSAGES, b"LS+", b"LS-", b"RS+", b"RS-", b"A+", b"A-")

    def command_of(self, verb: bytes, line: bytes, end: bytes, left: bytes) -> None:
        if verb in _MESSAGES:
            self.message(_MESSAGES[verb], line, end, left)
        else:
            super().command_of(verb, line, end, left)

    def line(self, verb: bytes, line: bytes) -> None:
        words = _words(line)
        if verb in _INTEREST:
            if len(words) == 1:
                self.events += model.event(b"S", words[0], None, b"1")
            elif len(words) == 3:
                self.events += model.event(b"S", words[0], words[1], b"%d" % max(model.size(words[2]) or 0, 1))
            else:
                raise model.End(model.NOT_A_WORD)
        elif verb in _NO_INTEREST:
            if len(words) in (1, 2):
                self.events += model.event(b"U", words[0], words[1] if len(words) == 2 else None)
        elif verb not in (b"A+", b"A-"):
            super().line(verb, line)

    def message(self, numbers: int, line: bytes, end: bytes, left: bytes) -> None:
        """Subject; a reply, or + with a reply and queue groups, or | and queue groups; one size or two."""
        words = _words(line)
        if len(words) <= numbers:
            raise model.End(model.NOT_A_WORD)
        subject, middle, sizes = words[0], words[1:-numbers], words[-numbers:]
        indicator = middle.pop(0) if len(middle) > 1 else None
        if indicator not in (None, b"+", b"|"):
            raise model.End(model.NOT_A_WORD)
        reply = middle.pop(0) if middle and indicator != b"|" else None
        total, before = model.size(sizes[-1]), 0 if numbers == 1 else model.size(sizes[0])
        body = self.payload(total, before, left)
        self.events += model.event(b"M", subject, reply, body[:before], body[before:], sizes[-1])
        self.events += b"".join(map(model.netstring, middle))
        tail = None
        if end == b"\r\n" and line == b" ".join(words) and (numbers == 1 or before) and indicator != b"+":
            tail = b" ".join([word for word in (reply,) if word] + sizes) + b"\r\n" + body + b"\r\n"
        self.events += model.netstring(tail)
