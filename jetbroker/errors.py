"""The error taxonomy: whose fault it is decides who hears of it."""

from collections.abc import Sequence


class JetbrokerError(Exception):
    """Base of all errors the broker raises on purpose. `hints`: lines that say what may have been meant."""

    hints: Sequence[str] = ()


class ConfigError(JetbrokerError):
    """A configuration file is wrong. The text starts with `file:line:column:` where a place is known."""


class ProtocolError(JetbrokerError):
    """The peer broke the protocol. `text` goes out as -ERR when not empty; the connection closes.

    `reason` is why it closed, `detail` what the log says ("": the text), `unread` how many bytes had arrived behind
    the one that made it wrong. `often`: it may come for thousands of connections, and says the same of all of them.
    """

    def __init__(
        self, text: str, reason: str = "Protocol Violation", detail: str = "", unread: int = 0, *, often: bool = False
    ) -> None:
        super().__init__(text or reason)
        self.text = text
        self.reason = reason
        self.detail = detail or text
        self.unread = unread
        self.often = often


class LoginRefused(ProtocolError):
    """The peer's login is no good, or is so no longer. `asked`: it said who it is."""

    def __init__(self, reason: str, detail: str, *, asked: bool = True) -> None:
        super().__init__("Authorization Violation", reason, detail)
        self.asked = asked


class StorageError(JetbrokerError):
    """The disk refused. The stream stops accepting until writing works again; reads and deletes go on."""


class SequenceError(StorageError):
    """A stream's log was to go beyond the last sequence there is."""


class StoreOpenError(StorageError):
    """The store cannot be opened at all: not a directory, not writable, damaged beyond starting."""


class StoreLockedError(StoreOpenError):
    """Another broker owns the store; `pid` is its process id (0 when unknown)."""

    def __init__(self, path: str, pid: int) -> None:
        super().__init__(f"store {path!r} is in use by another broker (pid {pid})")
        self.pid = pid


class StoreVersionError(StoreOpenError):
    """The store was written by a newer release."""


class StoreReadError(StorageError):
    """The offline reader cannot give what was asked: no such store or stream, or a segment that is gone."""


class PlaceError(StoreReadError):
    """The folder or URL that a store was shipped to cannot be read or written, or what it holds is not whole."""


class ManifestError(PlaceError):
    """What a shipped store says of itself is damaged."""


class SegmentGoneError(StoreReadError):
    """A segment was removed between planning and reading: the read has to be planned again."""
