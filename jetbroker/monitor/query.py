"""Query strings as Go reads them, and nats-server's texts for values that do not fit."""

from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from jetbroker.bounds import UINT64_MAX
from jetbroker.forms.gotext import quoted
from jetbroker.forms.strconv import atoi, parse_uint

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))


class BadRequest(Exception):
    """The request cannot be answered; the message says why. It goes out as status 400, over NATS as 500."""


class NotAsked(BadRequest):
    """The request is for another server. Over NATS it gets no answer."""


class Query:
    """The options of one request. Of a name that comes twice the first counts, an empty value is none."""

    def __init__(self, raw: str) -> None:
        self._values: dict[str, str] = {}
        for pair in raw.split("&"):
            if not pair or ";" in pair:
                continue
            name, _, value = pair.partition("=")
            if _is_escaped_well(name) and _is_escaped_well(value):
                self._values.setdefault(_unescaped(name), _unescaped(value))

    def text(self, name: str) -> str:
        """The value, "" when there is none."""
        return self._values.get(name, "")

    def integer(self, name: str) -> int:
        """A signed number, 0 when there is none. Raises BadRequest."""
        return self._number(name, "int", atoi)

    def unsigned(self, name: str) -> int:
        """A number that is not negative, 0 when there is none. Raises BadRequest."""
        return self._number(name, "uint64", lambda text: parse_uint(text, UINT64_MAX))

    def boolean(self, name: str) -> bool:
        """A boolean in one of Go's spellings, False when there is none. Raises BadRequest."""
        text = self.text(name)
        if text in _TRUE:
            return True
        if text and text not in _FALSE:
            why = f"strconv.ParseBool: parsing {quoted(text)}: invalid syntax"
            raise BadRequest(f"Error decoding boolean for '{name}': {why}")
        return False

    def boolean_or(self, name: str, word: str) -> tuple[bool, bool]:
        """A boolean, and whether the value is this word in its place, in whatever case. Raises BadRequest."""
        is_word = self.text(name).lower() == word
        return not is_word and self.boolean(name), is_word

    def _number(self, name: str, kind: str, read: Callable[[str], int]) -> int:
        text = self.text(name)
        if not text:
            return 0
        try:
            return read(text)
        except ValueError as error:
            raise BadRequest(f"Error decoding {kind} for '{name}': {error}") from None


def _is_escaped_well(text: str) -> bool:
    return all(len(part) >= 2 and _is_hex(part[:2]) for part in text.split("%")[1:])


def _is_hex(text: str) -> bool:
    return all(char in "0123456789abcdefABCDEF" for char in text)


def _unescaped(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")
