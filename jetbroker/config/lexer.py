"""The words of the NATS configuration language: text in, tokens with their places out, in one pass.

The lexer knows the grammar (what may follow what) but no key and no variable. It walks the text once with an explicit
stack of the open `{` and `[`, so its time is linear and deep nesting costs no Python recursion.

Columns count characters, from 0 on the first line and from 1 on all others, because nats-server's messages do.
"""

import re
from collections.abc import Iterator
from enum import IntEnum

from jetbroker import limits
from jetbroker.errors import ConfigError


class Kind(IntEnum):
    """What a token is. KEY, INCLUDE and the values carry text, the brackets and EOF do not."""

    KEY = 0
    INCLUDE = 1
    STRING = 2
    VARIABLE = 3
    BOOL = 4
    INTEGER = 5
    FLOAT = 6
    DATE = 7
    ARRAY_START = 8
    ARRAY_END = 9
    MAP_START = 10
    MAP_END = 11
    EOF = 12


class Token:
    """One word: its kind, its text (escapes resolved) and where its first character stands."""

    __slots__ = ("column", "kind", "line", "text")

    def __init__(self, kind: Kind, text: str, line: int, column: int) -> None:
        self.kind = kind
        self.text = text
        self.line = line
        self.column = column


class ParseError(ConfigError):
    """The text breaks the grammar. `line` counts from 1."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"Parse error on line {line}: '{what}'")
        self.line = line


# What ends a bare key: a separator or any white space of Unicode (Python's isspace knows four more).
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_KEY = re.compile(f"[^:={_SPACE}]*")
_SPACES = re.compile(f"[{_SPACE}]*")
_BLANKS = re.compile(r"[ \t]*")
_BLANKS_AND_LINES = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"[^\r\n]*")
_BARE = re.compile(r"[^\\' \t\r\n;,\]}]*")  # a `'` at the end of bare text is passed, as nats-server does
_QUOTED = re.compile(r'[^\\"]*')
_BLOCK_END = re.compile(r"\n\)(?=\n|\Z)")
_DIGITS = re.compile(r"-?[0-9]+")
_ADDRESS = re.compile(r"[0-9.:-]*")
_FRACTION = re.compile(r"\.[0-9]+")
_SUFFIX = re.compile(r"[kmgtpe](?:ib?|b)?", re.IGNORECASE)
_DATE = "0000-00-00T00:00:00Z"  # the one form of a date; 0 stands for any digit
_LAST_BRACE = re.compile(r"\}[ \t\r\n]*\Z")
_INCLUDE_PATH = re.compile(r"[^ \t\r\n;}]*")
_HEX = re.compile(r"[0-9a-fA-F]{2}")

_SEPARATORS = ":="
_LINE_ENDS = "\r\n"
_NUMBER_ENDS = " \t\r\n,;}]"  # `]` too, unlike nats-server, which refuses `[1]` (and takes `[1 ]`)
_ESCAPES = {"t": b"\t", "n": b"\n", "r": b"\r", '"': b'"', "\\": b"\\"}
_TRUE = frozenset(("true", "yes", "on"))
_FALSE = frozenset(("false", "no", "off"))
_BCRYPT_PREFIX = "2a$"  # `$2a$...` is a password hash, not a variable

_TOP, _MAP, _ARRAY = 0, 1, 2


class Lexer:
    """Tokens of one text. Use once: ``for token in Lexer(text).tokens()``; raises :class:`ParseError`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self.line = 1
        self.line_start = 0
        self.open: list[int] = [_TOP]
        self.braced = False  # braces around the whole file are open

    # --- places ---

    def _move(self, pos: int) -> None:
        """Go on at `pos`, counting the lines passed."""
        lines = self.text.count("\n", self.pos, pos)
        if lines:
            self.line += lines
            self.line_start = self.text.rfind("\n", self.pos, pos) + 1
        self.pos = pos

    def _token(self, kind: Kind, text: str = "") -> Token:
        column = self.pos - self.line_start
        return Token(kind, text, self.line, column if self.line == 1 else column + 1)

    def _fail(self, what: str) -> ParseError:
        return ParseError(self.line, what)

    def _char(self) -> str:
        """The character at the current place, empty at the end."""
        return self.text[self.pos] if self.pos < len(self.text) else ""

    def _shown(self) -> str:
        """The current character for a message; the end is shown as a blank."""
        return self._char() or " "

    def _skip(self, run: re.Pattern[str]) -> str:
        """Pass a run of characters, return the character behind it."""
        match = run.match(self.text, self.pos)
        if match is not None:
            self._move(match.end())
        return self._char()

    def _skip_comments(self) -> str:
        """Pass blanks, line ends and comments."""
        while True:
            char = self._skip(_BLANKS_AND_LINES)
            if not self._comment(char):
                return char

    def _comment(self, char: str) -> bool:
        """Pass a comment if one starts here."""
        if char == "/" and not self.text.startswith("//", self.pos):
            raise self._fail("Expected a comment or a key, but got '/' instead.")
        if char not in ("#", "/"):
            return False
        self._skip(_COMMENT)
        return True

    # --- the walk ---

    def tokens(self) -> Iterator[Token]:
        """All tokens in order, EOF last."""
        nul = self.text.find("\0")
        if nul >= 0:
            self._move(nul)
            raise self._fail("Unexpected NUL.")
        if self._skip_comments() == "{":
            self.pos += 1  # they mean nothing; the closing one is passed like a comma
            self.braced = True
        while True:
            value: Token | None
            if self.open[-1] == _ARRAY:
                value = self._element()
            else:
                key = self._key()
                if key is not None:
                    yield key
                    if key.kind == Kind.EOF:
                        return
                    value = self._include_path() if key.kind == Kind.INCLUDE else self._value_of_key()
                    if value is None:
                        yield self._token(Kind.EOF)
                        return
                else:
                    value = None  # the map ends
            if value is not None:
                yield value
                if value.kind in (Kind.ARRAY_START, Kind.MAP_START):
                    continue
            elif self.open[-1] != _TOP:
                yield self._close()
            while self._value_end():
                yield self._close()

    def _open(self, kind: Kind, context: int) -> Token:
        if len(self.open) > limits.CONFIG_MAX_NESTING:
            raise self._fail(f"Nested deeper than {limits.CONFIG_MAX_NESTING} levels.")
        token = self._token(kind)
        self.open.append(context)
        self.pos += 1
        return token

    def _close(self) -> Token:
        """The bracket at the current place closes what is open."""
        token = self._token(Kind.MAP_END if self.open.pop() == _MAP else Kind.ARRAY_END)
        self.pos += 1
        return token

    def _value_end(self) -> bool:
        """Pass what ends a value. True: the current character closes the open map or array."""
        context = self.open[-1]
        while True:
            char = self._skip(_BLANKS)
            if context != _TOP and char == ("}" if context == _MAP else "]"):
                return True
            if char in ("#", "/") and self._comment(char):
                continue
            if char and char in _LINE_ENDS:
                self._move(self.pos + 1)
                return False
            if char == "," or (char == ";" and context != _ARRAY) or (char == "}" and context == _TOP):
                self.pos += 1
                self.braced = self.braced and char != "}"
                return False
            if context == _TOP:
                if not char and not self.braced:
                    return False
                level = "block-level" if self.braced else "top-level"
                wanted = f"a {level} value to end with a new line, comment or EOF"
            elif context == _MAP:
                wanted = 'a map value terminator "," or a map terminator "}"'
            else:
                wanted = 'an array value terminator "," or an array terminator "]"'
            raise self._fail(f"Expected {wanted}, but got '{self._shown()}' instead.")

    # --- keys ---

    def _key(self) -> Token | None:
        """The next key, an include, EOF, or None when the map ends here."""
        in_map = self.open[-1] == _MAP
        char = self._skip_comments()
        if not in_map and _LAST_BRACE.match(self.text, self.pos):
            self._move(len(self.text))
            char = ""
        if not char:
            if in_map:
                raise self._fail("Unexpected EOF processing map.")
            return self._token(Kind.EOF)
        if char in _SEPARATORS:
            raise self._fail(f"Unexpected key separator '{char}'{'.' if in_map else ''}")
        if in_map and char == "}":
            return None
        if in_map and char == "]":
            raise self._fail("Unexpected array end ']' processing map.")
        if char in ("'", '"'):
            return self._quoted_key(char)
        match = _KEY.match(self.text, self.pos)
        end = match.end() if match is not None else self.pos
        token = self._token(Kind.KEY, self.text[self.pos : end])
        self.pos = end
        behind = self._char()
        if not behind and in_map:
            raise self._fail("Unexpected EOF processing map key.")
        if token.text.lower() == "include" and behind and behind not in _SEPARATORS:
            token.kind = Kind.INCLUDE
        return token

    def _quoted_key(self, quote: str) -> Token:
        """A key in quotes; nothing is an escape in it."""
        self.pos += 1
        end = self.text.find(quote, self.pos)
        if end < 0:
            name = "double" if quote == '"' else "single"
            in_map = self.open[-1] == _MAP
            raise self._fail(f"Unexpected EOF processing {name} quoted map key." if in_map else "Unexpected EOF.")
        token = self._token(Kind.KEY, self.text[self.pos : end])
        self._move(end + 1)
        return token

    def _include_path(self) -> Token:
        """What follows `include`: quoted, or bare up to a blank, `;` or `}`."""
        char = self._skip(_BLANKS)
        if char and char in _LINE_ENDS:
            self._move(self.pos + 1)
            raise self._fail("Expected include value but found new line")
        if char in ("[", "{"):
            raise self._fail(f"Expected include value but found start of {'an array' if char == '[' else 'a map'}")
        if char == "'":
            return self._raw_string()
        if char == '"':
            return self._string(char)
        token = self._token(Kind.STRING)
        start = self.pos
        self._skip(_INCLUDE_PATH)
        token.text = self.text[start : self.pos]
        return token

    # --- values ---

    def _value_of_key(self) -> Token | None:
        """The value behind a key and its separator, None at the end of the file.

        A line end may stand before a separator, not behind it.
        """
        char = self._skip(_SPACES)
        if char and char in _SEPARATORS:
            self.pos += 1
            char = self._skip(_BLANKS)
            if char and char in _LINE_ENDS:
                self._move(self.pos + 1)
                raise self._fail("Expected value but found new line")
            if not char and self.open[-1] == _TOP:
                return self._token(Kind.STRING)  # `key:` at the end of the file is the empty string
        if not char and self.open[-1] == _TOP:
            return None
        if not char or (char == "}" and self.open[-1] == _MAP):
            raise self._fail(f"Expected a value but got '{self._shown()}' instead.")
        return self._value(char)

    def _element(self) -> Token | None:
        """The next element of an array, None when it ends here."""
        char = self._skip_comments()
        if char == "]":
            return None
        if char == ",":
            raise self._fail("Unexpected array value terminator ','.")
        if not char:
            raise self._fail(
                'Expected an array value terminator "," or an array terminator "]", but got \' \' instead.'
            )
        return self._value(char)

    def _value(self, char: str) -> Token:
        if char == "[":
            return self._open(Kind.ARRAY_START, _ARRAY)
        if char == "{":
            return self._open(Kind.MAP_START, _MAP)
        if char == "(":
            return self._block()
        if char == "-" or "0" <= char <= "9":
            return self._number()
        if char == ".":
            raise self._fail("Floats must start with a digit")
        return self._string(char)

    def _string(self, char: str) -> Token:
        if char == "'":
            return self._raw_string()
        if char == '"':
            self.pos += 1
            token = self._token(Kind.STRING)
            token.text, _ = self._text_until(_QUOTED)
            return token
        return self._bare()

    def _raw_string(self) -> Token:
        self.pos += 1
        end = self.text.find("'", self.pos)
        if end < 0:
            self._move(len(self.text))
            raise self._fail("Unexpected EOF.")
        token = self._token(Kind.STRING, self.text[self.pos : end])
        self._move(end + 1)
        return token

    def _block(self) -> Token:
        """`(` to a line that is only `)`; everything between is the string."""
        match = _BLOCK_END.search(self.text, self.pos + 1)
        if match is None:
            self._move(len(self.text))
            raise self._fail("Unexpected EOF processing block.")
        self.pos += 1
        token = self._token(Kind.STRING, self.text[self.pos : match.end() - 1])
        self._move(match.end())
        return token

    def _bare(self) -> Token:
        """Text without quotes: a variable, a boolean or a string."""
        token = self._token(Kind.STRING)
        text, escaped = self._text_until(_BARE)
        token.text = text
        if escaped:
            return token
        if text.startswith("$") and not text.startswith(_BCRYPT_PREFIX, 1):
            token.kind = Kind.VARIABLE
            token.text = text[1:]
        elif (word := text.lower()) in _TRUE or word in _FALSE:
            token.kind = Kind.BOOL
            token.text = "true" if word in _TRUE else "false"
        return token

    def _text_until(self, run: re.Pattern[str]) -> tuple[str, bool]:
        """Text up to what ends `run`, with its escapes resolved, and whether there were any."""
        start = self.pos
        char = self._skip(run)
        if char != "\\":
            end = self.pos
            self._end_text(run, char)
            return self.text[start:end], False
        parts: list[bytes] = []
        while char == "\\":
            parts.append(self.text[start : self.pos].encode("utf-8", "surrogateescape"))
            parts.append(self._escape())
            start = self.pos
            char = self._skip(run)
        parts.append(self.text[start : self.pos].encode("utf-8", "surrogateescape"))
        self._end_text(run, char)
        return b"".join(parts).decode("utf-8", "surrogateescape"), True

    def _end_text(self, run: re.Pattern[str], char: str) -> None:
        """Pass the quote that ended the text; quoted text must have one."""
        if char == "'" or char == '"':
            self.pos += 1
        elif run is _QUOTED:
            raise self._fail("Unexpected EOF.")

    def _escape(self) -> bytes:
        """One escape sequence, `\\` at the current place."""
        self.pos += 1
        char = self._char()
        if char == "x":
            digits = self.text[self.pos + 1 : self.pos + 3]
            if _HEX.fullmatch(digits) is None:
                raise self._fail(f"Expected two hexadecimal digits after '\\x', but got '{digits}'")
            self.pos += 3
            return bytes.fromhex(digits)
        if char not in _ESCAPES:
            raise self._fail(
                f"Invalid escape character '{self._shown()}'. Only the following escape characters are allowed: "
                '\\xXX, \\t, \\n, \\r, \\", \\\\.'
            )
        self.pos += 1
        return _ESCAPES[char]

    # --- numbers ---

    def _number(self) -> Token:
        """An integer, a float, a date, or a bare string that starts with a digit (`127.0.0.1`, `10s`)."""
        token = self._token(Kind.INTEGER)
        match = _DIGITS.match(self.text, self.pos)
        if match is None:
            self.pos += 1
            raise self._fail(f"Expected a digit but got '{self._shown()}'.")
        start, end = self.pos, match.end()
        negative = self.text[start] == "-"
        behind = self.text[end : end + 1]
        if behind == "-" and not negative:
            return self._date(token, end - start)
        if behind == ".":
            return self._float(token, end)
        suffix = _SUFFIX.match(self.text, end)
        if suffix is not None:
            end = suffix.end()
            behind = self.text[end : end + 1]
            number = not behind or behind in _NUMBER_ENDS or behind.isdigit()
        else:
            number = not behind or behind in _NUMBER_ENDS or negative
        if not number:
            token.kind = Kind.STRING
            # The character that showed it is no number belongs to the string, whatever it is.
            self.pos = end if suffix is not None else end + 1
            rest, _ = self._text_until(_BARE)
            token.text = self.text[start : end if suffix is not None else end + 1] + rest
            return token
        token.text = self.text[start:end]
        self.pos = end
        return token

    def _float(self, token: Token, dot: int) -> Token:
        match = _FRACTION.match(self.text, dot)
        if match is None:
            self.pos = dot + 1
            raise self._fail(f"Floats must have a digit after the '.', but got '{self._shown()}' instead.")
        end = match.end()
        if self.text[end : end + 1] == ".":  # an address
            start = self.pos
            self.pos = end
            self._skip(_ADDRESS)
            token.kind = Kind.STRING
            token.text = self.text[start : self.pos]
            return token
        token.kind = Kind.FLOAT
        token.text = self.text[self.pos : end]
        self.pos = end
        return token

    def _date(self, token: Token, year_digits: int) -> Token:
        if year_digits != 4:
            raise self._fail("All ISO8601 dates must be in full Zulu form.")
        for offset, wanted in enumerate(_DATE):
            found = self.text[self.pos + offset : self.pos + offset + 1]
            if found.isdecimal() and found.isascii() if wanted == "0" else found == wanted:
                continue
            name = "digit" if wanted == "0" else f"'{wanted}'"
            raise self._fail(f"Expected {name} in ISO8601 datetime, but found '{found or ' '}' instead.")
        token.kind = Kind.DATE
        token.text = self.text[self.pos : self.pos + len(_DATE)]
        self.pos += len(_DATE)
        return token
