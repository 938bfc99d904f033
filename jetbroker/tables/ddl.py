"""Columns as text: `amount double, item.name string, tags array<string>`, with the names of Spark's types."""

from __future__ import annotations

import re

from jetbroker.errors import StoreReadError
from jetbroker.limits import TYPED_COLUMNS, TYPED_DEPTH, TYPED_TEXT_CHARACTERS
from jetbroker.tables.column_types import MAX_PRECISION, SIMPLE, ColumnType, Field

SYNONYMS = {"bool": "boolean", "integer": "int", "bigint": "long", "smallint": "short", "tinyint": "byte",
            "real": "float", "dec": "decimal", "numeric": "decimal"}  # fmt: skip
ALL_TYPES = (*SIMPLE, "decimal(p,s)", "array<type>")
TOKEN = re.compile(
    r"\s*(?:(?P<word>[\w-]+)|`(?P<quoted>[^`]+)`|(?P<mark>[.,:<>()])|(?P<end>$)|(?P<wrong>.))", re.DOTALL
)
PLAIN = re.compile(r"[\w-]+")


def parse(text: str, source: str) -> tuple[Field, ...]:
    """The columns that a text names. `source`: what the text is to its writer ("json"), for errors.

    A dotted name reaches into objects; its column has underscores for the dots. A key of other characters stands in
    backticks. Raises StoreReadError that names the place.
    """
    if len(text) > TYPED_TEXT_CHARACTERS:
        raise StoreReadError(f"{source}: the text has {len(text)} characters, at most {TYPED_TEXT_CHARACTERS} will do")
    return _Parser(text, source).columns()


def text_of(fields: tuple[Field, ...]) -> str:
    """The text that `parse` makes these fields of."""
    return ", ".join(f"{'.'.join(_quoted(key) for key in field.path)} {field.type}" for field in fields)


def _quoted(key: str) -> str:
    return key if PLAIN.fullmatch(key) else f"`{key}`"


class _Parser:
    """Recursive descent over the tokens; `at` is where the present one begins."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.at = 0
        self.next = 0
        self.kind = ""
        self.token = ""
        self._advance()

    def columns(self) -> tuple[Field, ...]:
        fields = [self._column()]
        while self.token == "," and self.kind == "mark":
            self._advance()
            fields.append(self._column())
            if len(fields) > TYPED_COLUMNS:
                raise self._error(f"more than {TYPED_COLUMNS} columns")
        if self.kind != "end":
            raise self._error(f"expected a comma, not {self.token!r}")
        return tuple(fields)

    def _column(self) -> Field:
        path = [self._name()]
        while self._take("."):
            path.append(self._name())
        self._take(":")
        return Field(tuple(path), self._type(0), "_".join(path))

    def _name(self) -> str:
        if self.kind not in ("word", "quoted"):
            raise self._error("expected the name of a column" + (f", not {self.token!r}" if self.token else ""))
        name = self.token
        self._advance()
        return name

    def _type(self, depth: int) -> ColumnType:
        at, word = self.at, self.token
        if self.kind != "word":
            raise self._error(f"expected a type; there are {', '.join(ALL_TYPES)}")
        name = SYNONYMS.get(word.lower(), word.lower())
        self._advance()
        if name in SIMPLE:
            return ColumnType(name)
        if name == "decimal":
            return self._decimal()
        if name == "array":
            if depth >= TYPED_DEPTH:
                raise self._error(f"arrays nest at most {TYPED_DEPTH} deep", at)
            self._expect("<")
            item = self._type(depth + 1)
            self._expect(">")
            return ColumnType("array", item=item)
        raise self._error(f"{word!r} is no type; there are {', '.join(ALL_TYPES)}", at)

    def _decimal(self) -> ColumnType:
        precision, scale = 10, 0
        at = self.at
        if self._take("("):
            precision = self._number()
            if self._take(","):
                scale = self._number()
            self._expect(")")
        if not 1 <= precision <= MAX_PRECISION or scale > precision:
            raise self._error(
                f"a decimal has 1 to {MAX_PRECISION} digits, and no more than these are behind the point", at
            )
        return ColumnType("decimal", precision, scale)

    def _number(self) -> int:
        if self.kind != "word" or not (self.token.isascii() and self.token.isdecimal()) or len(self.token) > 3:
            raise self._error(f"expected a number of digits, not {self.token!r}")
        number = int(self.token)
        self._advance()
        return number

    def _take(self, mark: str) -> bool:
        if self.kind != "mark" or self.token != mark:
            return False
        self._advance()
        return True

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise self._error(f"expected {mark!r}" + (f", not {self.token!r}" if self.token else ""))

    def _advance(self) -> None:
        match = TOKEN.match(self.text, self.next)
        if match is None or match.lastgroup is None:  # cannot be: one of the alternatives takes any text
            raise self._error("not understood")
        self.kind, self.token = match.lastgroup, match[match.lastgroup]
        self.at, self.next = match.start(match.lastgroup), match.end()

    def _error(self, what: str, at: int | None = None) -> StoreReadError:
        at = self.at if at is None else at
        near = self.text[at : at + 20]
        place = f"at character {at + 1} ({near!r})" if near else "at the end"
        return StoreReadError(f"{self.source}: {place}: {what}")
