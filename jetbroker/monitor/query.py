"""Query strings as Go reads them, and nats-server's texts for values that do not fit."""

from urllib.parse import unquote_to_bytes

from jetbroker.forms.gotext import quote

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_INT64_MAX = 2**63 - 1
_UINT64_MAX = 2**64 - 1
_MAX_DIGITS = 100  # Python refuses to convert endless ones; all of them are out of range


class BadRequest(Exception):
    """The request cannot be answered; the message says why and goes out as status 400."""


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
        text = self.text(name)
        digits = text[1:] if text[:1] in ("+", "-") else text
        value = self._number(name, text, digits, "int", "Atoi")
        value = -value if text[:1] == "-" else value
        if not -_INT64_MAX - 1 <= value <= _INT64_MAX:
            raise _refused(name, text, "int", "Atoi", "value out of range")
        return value

    def unsigned(self, name: str) -> int:
        """A number that is not negative, 0 when there is none. Raises BadRequest."""
        text = self.text(name)
        value = self._number(name, text, text, "uint64", "ParseUint")
        if value > _UINT64_MAX:
            raise _refused(name, text, "uint64", "ParseUint", "value out of range")
        return value

    def boolean(self, name: str) -> bool:
        """A boolean in one of Go's spellings, False when there is none. Raises BadRequest."""
        text = self.text(name)
        if text in _TRUE:
            return True
        if text and text not in _FALSE:
            raise _refused(name, text, "boolean", "ParseBool", "invalid syntax")
        return False

    @staticmethod
    def _number(name: str, text: str, digits: str, kind: str, function: str) -> int:
        if not text:
            return 0
        if not (digits.isascii() and digits.isdigit()):
            raise _refused(name, text, kind, function, "invalid syntax")
        return int(digits) if len(digits) <= _MAX_DIGITS else _UINT64_MAX + 1


def _refused(name: str, text: str, kind: str, function: str, why: str) -> BadRequest:
    return BadRequest(f"Error decoding {kind} for '{name}': strconv.{function}: parsing {quote(text)}: {why}")


def _is_escaped_well(text: str) -> bool:
    return all(len(part) >= 2 and _is_hex(part[:2]) for part in text.split("%")[1:])


def _is_hex(text: str) -> bool:
    return all(char in "0123456789abcdefABCDEF" for char in text)


def _unescaped(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")
