"""What is wrong with JSON, in the words of Go's decoder: they are what nats-server's log says of a bad CONNECT."""

from __future__ import annotations

import re
from typing import Any, Final

from jetbroker.forms.gotext import char_quoted

_LITERALS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_BLANKS: Final = re.compile(rb"[ \t\r\n]*")
_PLAIN_TEXT: Final = re.compile(rb'[^"\\\x00-\x1f]*')
_DIGITS: Final = re.compile(rb"[0-9]*")
_HEX: Final = b"0123456789abcdefABCDEF"
_KINDS: Final = {bool: "bool", str: "string", list: "array", dict: "object"}


def syntax_fault(text: bytes) -> str:
    """Why `text` is not one JSON value; "" where it is one."""
    try:
        _Walk(text).document()
    except _Fault as fault:
        return str(fault)
    return ""


def type_fault(value: Any, wanted: str, field: str = "", holder: str = "") -> str:
    """A value of another type than its field of this holder has; an empty holder: the value is the whole."""
    given = _KINDS.get(type(value), "number")
    if given == "number" and wanted.lstrip("u").startswith("int"):
        given = f"number {value}"
    place = f"struct field {holder}.{field}" if holder else "value"
    return f"json: cannot unmarshal {given} into Go {place} of type {wanted}"


class _Fault(Exception):
    pass


class _Walk:
    """Goes through a text once, from the left; nested values are kept on a stack."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._at = 0

    def document(self) -> None:
        """One value, and nothing but blanks behind it."""
        open_ones: list[int] = []
        self._value(open_ones)
        while open_ones:
            self._next(open_ones)
        self._skip(_BLANKS)
        if self._at < len(self._text):
            raise self._fault("after top-level value")

    def _value(self, open_ones: list[int]) -> None:
        """A value that is whole, or the beginning of one that holds others."""
        while self._peek() in b"{[":
            opened = self._here()
            self._at += 1
            if self._peek() == (ord("}") if opened == ord("{") else ord("]")):
                self._at += 1
                return
            open_ones.append(opened)
            if opened == ord("{"):
                self._key()
        char = self._here()
        if char == ord('"'):
            self._string()
        elif char in b"-0123456789":
            self._number()
        elif char in _LITERALS:
            self._literal(_LITERALS[char])
        else:
            raise self._fault("looking for beginning of value")

    def _next(self, open_ones: list[int]) -> None:
        """What follows a value inside of another one."""
        char = self._peek()
        inside_map = open_ones[-1] == ord("{")
        if char == (ord("}") if inside_map else ord("]")):
            self._at += 1
            open_ones.pop()
        elif char != ord(","):
            raise self._fault("after object key:value pair" if inside_map else "after array element")
        else:
            self._at += 1
            if inside_map:
                self._key()
            self._value(open_ones)

    def _key(self) -> None:
        if self._peek() != ord('"'):
            raise self._fault("looking for beginning of object key string")
        self._string()
        if self._peek() != ord(":"):
            raise self._fault("after object key")
        self._at += 1

    def _string(self) -> None:
        self._at += 1
        while True:
            self._skip(_PLAIN_TEXT)
            char = self._here()
            if char == ord('"'):
                self._at += 1
                return
            if char != ord("\\"):
                raise self._fault("in string literal")
            self._at += 1
            if self._or_blank() == ord("u"):
                for _ in range(4):
                    self._at += 1
                    if self._or_blank() not in _HEX:
                        raise self._fault("in \\u hexadecimal character escape")
            elif self._or_blank() not in b'bfnrt\\/"':
                raise self._fault("in string escape code")
            self._at += 1

    def _number(self) -> None:
        if self._or_blank() == ord("-"):
            self._at += 1
        if self._or_blank() == ord("0"):
            self._at += 1
        else:
            self._digits("in numeric literal")
        if self._text[self._at : self._at + 1] == b".":
            self._at += 1
            self._digits("after decimal point in numeric literal")
        if self._text[self._at : self._at + 1] in (b"e", b"E"):
            self._at += 1
            if self._or_blank() in b"+-":
                self._at += 1
            self._digits("in exponent of numeric literal")

    def _digits(self, where: str) -> None:
        if self._or_blank() not in b"0123456789":
            raise self._fault(where)
        self._skip(_DIGITS)

    def _literal(self, word: bytes) -> None:
        for expected in word:
            if self._or_blank() != expected:
                raise self._fault(f"in literal {word.decode()} (expecting '{chr(expected)}')")
            self._at += 1

    def _skip(self, what: re.Pattern[bytes]) -> None:
        found = what.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _peek(self) -> int:
        """The next byte that is no blank."""
        self._skip(_BLANKS)
        return self._here()

    def _here(self) -> int:
        if self._at >= len(self._text):
            raise _Fault("unexpected end of JSON input")
        return self._text[self._at]

    def _or_blank(self) -> int:
        """As _here, where Go's decoder looks whether a blank may follow before it says that the end came too early."""
        return self._text[self._at] if self._at < len(self._text) else ord(" ")

    def _fault(self, where: str) -> _Fault:
        return _Fault(f"invalid character {char_quoted(chr(self._or_blank()))} {where}")
