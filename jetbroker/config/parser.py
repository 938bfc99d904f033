"""Tokens to a tree of values, each with its place: variables looked up, includes read, nothing known of any key.

Texts of errors are nats-server's. Everything wrong with a file, down to its not being there, is a
:class:`~jetbroker.errors.ConfigError`.
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias, Union

from jetbroker import limits
from jetbroker.config.lexer import Kind, Lexer, Token
from jetbroker.errors import ConfigError

Value: TypeAlias = Union[str, int, float, bool, datetime, "list[Node]", "dict[str, Node]"]
Plain: TypeAlias = Union[str, int, float, bool, datetime, "list[Plain]", "dict[str, Plain]"]

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_POWERS = "kmgtpe"
_ENV_KEY = "value"  # an environment variable is read as the value of this key


class Place(NamedTuple):
    """Where a word stands. Shown as nats-server does: `file:line:column`, the first line's column from 0."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Node:
    """A value of the tree. `place` is that of its key (of itself in arrays), `value_place` always its own.

    `used` tells that a variable took its value from here: such a key need not be a known one.
    """

    __slots__ = ("place", "used", "value", "value_place")

    def __init__(self, value: Value, place: Place, value_place: Place) -> None:
        self.value = value
        self.place = place
        self.value_place = value_place
        self.used = False


class MissingVariables(ConfigError):
    """Variables that stand for nothing; the text is the first one's, as nats-server has it.

    `lines`: one for each. `tree`: the rest of the configuration, without the keys and elements that they stand for.
    """

    def __init__(self, text: str, lines: list[str], tree: "dict[str, Node]") -> None:
        super().__init__(text)
        self.lines = lines
        self.tree = tree


class _NotFound(ConfigError):
    """A variable stands for nothing."""


def parse_file(path: str, env: Mapping[str, str] | None = None) -> dict[str, Node]:
    """The tree of a configuration file. `env` is what variables fall back to, the process environment if None.

    Raises :class:`MissingVariables` when that is all that is wrong.
    """
    reading = _Reading(os.environ if env is None else env)
    return reading.complete(lambda: reading.file(path))


def parse_text(text: str, file: str = "", env: Mapping[str, str] | None = None) -> dict[str, Node]:
    """The tree of a text; `file` is named in errors, and includes are looked up beside it."""
    reading = _Reading(os.environ if env is None else env)
    return reading.complete(lambda: reading.text(text, file))


def plain(value: Value) -> Plain:
    """The value without places: what the text says."""
    if isinstance(value, dict):
        return {key: plain(node.value) for key, node in value.items()}
    if isinstance(value, list):
        return [plain(node.value) for node in value]
    return value


class _Reading:
    """What the files of one configuration share: the environment, and which files and variables are open."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env
        self.files: list[str] = []
        self.variables: list[str] = []
        self.missing: list[tuple[str, str]] = []  # variables: nats-server's text, and a line that names the place
        self.files_read = 0
        self.extents: dict[int, tuple[int, int]] = {}  # of closed maps and lists: values in all, depth

    def complete(self, build: Callable[[], dict[str, Node]]) -> dict[str, Node]:
        """The tree that is built, unless something is missing in it. That is told first, whatever else is wrong."""
        tree: dict[str, Node] = {}
        behind: list[str] = []
        try:
            tree = build()
        except ConfigError as error:
            if not self.missing:
                raise
            behind.append(str(error))
        if self.missing:
            raise MissingVariables(self.missing[0][0], [line for _, line in self.missing] + behind, tree)
        return tree

    def file(self, path: str) -> dict[str, Node]:
        real = os.path.realpath(path)
        if real in self.files:
            raise ConfigError(f"include cycle for '{path}'")
        self.files_read += 1
        if self.files_read > limits.CONFIG_MAX_INCLUDES:
            raise ConfigError(f"more than {limits.CONFIG_MAX_INCLUDES} included files")
        text = _read(path)
        self.files.append(real)
        tree = self.text(text, path)
        self.files.pop()
        return tree

    def text(self, text: str, file: str) -> dict[str, Node]:
        return _Builder(self, file).build(text)

    def close(self, container: Value) -> None:
        """Measure a map or list that is complete. Variables stand for whole values: a few lines can say billions."""
        children = (
            container.values() if isinstance(container, dict) else container if isinstance(container, list) else ()
        )
        size, depth = 1, 0
        for child in children:
            more, below = self.extents.get(id(child.value), (1, 0)) if isinstance(child.value, (dict, list)) else (1, 0)
            size += more
            depth = max(depth, below)
        if size > limits.CONFIG_MAX_VALUES:
            raise ConfigError(f"more than {limits.CONFIG_MAX_VALUES} values")
        if depth > limits.CONFIG_MAX_NESTING:
            raise ConfigError(f"values nested deeper than {limits.CONFIG_MAX_NESTING}")
        self.extents[id(container)] = size, depth + 1

    def variable(self, name: str, line: int) -> Value:
        """The value of an environment variable: its text, read as a value."""
        failed = f"variable reference for '{name}' on line {line}"
        if name in self.variables:
            raise ConfigError(f"variable reference cycle for '{name}'")
        text = self.env.get(name)
        if text is None:
            raise _NotFound(f"{failed} can not be found")
        self.variables.append(name)
        try:
            return self.text(f"{_ENV_KEY}={text}", "")[_ENV_KEY].value
        except ConfigError as error:
            raise ConfigError(f"{failed} could not be parsed: {error}") from error
        finally:
            self.variables.pop()


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(limits.CONFIG_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        verb = "read" if isinstance(error, IsADirectoryError) else "open"
        raise ConfigError(f"{verb} {path}: {why[:1].lower()}{why[1:]}") from error
    if len(data) > limits.CONFIG_MAX_BYTES:
        raise ConfigError(f"{path}: larger than {limits.CONFIG_MAX_BYTES} bytes")
    return data.decode("utf-8", "surrogateescape")


class _Builder:
    """Builds the tree of one text, with a stack of the containers that are open."""

    def __init__(self, reading: _Reading, file: str) -> None:
        self.reading = reading
        self.file = file
        self.open: list[dict[str, Node] | list[Node]] = [{}]
        self.starts: list[Place] = []
        self.keys: list[tuple[str, Place]] = []
        self.including = False

    def build(self, text: str) -> dict[str, Node]:
        for token in Lexer(text).tokens():
            place = Place(self.file, token.line, token.column)
            kind = token.kind
            if kind == Kind.KEY:
                self.keys.append((token.text, place))
            elif kind == Kind.INCLUDE:
                self.including = True
            elif kind == Kind.MAP_START or kind == Kind.ARRAY_START:
                self.open.append({} if kind == Kind.MAP_START else [])
                self.starts.append(place)
            elif kind == Kind.MAP_END or kind == Kind.ARRAY_END:
                # Attached only now, so that a variable inside of a container never finds the container itself.
                self.reading.close(self.open[-1])
                self._put(self.open.pop(), self.starts.pop())
            elif self.including:
                self.including = False
                self._include(token.text)
            elif kind == Kind.VARIABLE:
                self._put_variable(token, place)
            elif kind != Kind.EOF:
                self._put(self._scalar(token), place)
        if self.keys:
            raise ConfigError(f"config is invalid ({place})")
        root = self.open[0]
        self.reading.close(root)
        return root if isinstance(root, dict) else {}

    def _put_variable(self, token: Token, place: Place) -> None:
        """What it stands for. If that is nothing, whoever reads the tree hears of it in the end, and reads the rest."""
        try:
            self._put(self._variable(token.text, token.line), place)
        except _NotFound as error:
            if self.reading.variables or len(self.reading.missing) >= limits.CONFIG_MAX_MISSING:
                raise  # part of another variable's value, or one too many
            self.reading.missing.append((str(error), f"{place}: {error}"))
            if isinstance(self.open[-1], dict):
                self.keys.pop()

    def _put(self, value: Value, place: Place) -> None:
        container = self.open[-1]
        if isinstance(container, list):
            container.append(Node(value, place, place))
            return
        key, key_place = self.keys.pop()
        container[key] = Node(value, key_place, place)

    def _scalar(self, token: Token) -> Value:
        kind, text = token.kind, token.text
        if kind == Kind.INTEGER:
            return _integer(text)
        if kind == Kind.FLOAT:
            return float(text)
        if kind == Kind.BOOL:
            return text == "true"
        if kind == Kind.DATE:
            return _date(text)
        return text

    def _variable(self, name: str, line: int) -> Value:
        for container in reversed(self.open):
            if isinstance(container, dict) and name in container:
                node = container[name]
                node.used = True
                return node.value
        return self.reading.variable(name, line)

    def _include(self, path: str) -> None:
        """Merge the keys of another file into the map that is open."""
        container = self.open[-1]
        before = len(self.reading.missing)
        try:
            tree = self.reading.file(os.path.join(os.path.dirname(self.file), path))
        except ConfigError as error:
            raise ConfigError(f"error parsing include file '{path}', {error}") from error
        for index, (text, line) in enumerate(self.reading.missing[before:], before):
            self.reading.missing[index] = f"error parsing include file '{path}', {text}", line
        if isinstance(container, dict):
            container.update(tree)


def _integer(text: str) -> int:
    digits = text.rstrip("kmgtpeibKMGTPEIB")
    suffix = text[len(digits) :].lower()
    value = int(digits) if len(digits) <= 20 else _INT64_MAX + 1
    if suffix:
        value *= (1000 if len(suffix) == 1 else 1024) ** (_POWERS.index(suffix[0]) + 1)
    if not _INT64_MIN <= value <= _INT64_MAX:
        raise ConfigError(f"integer '{text}' is out of the range")
    return value


def _date(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise ConfigError(f"expected Zulu formatted DateTime, but got '{text}'") from None
