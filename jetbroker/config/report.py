"""Collecting: what is wrong with a configuration, each with its place, while its values are put into the options.

All errors of a file are told at once. What nats-server knows and this broker does not do is refused by name, never
silently ignored.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from jetbroker.config import values
from jetbroker.config.durations import bounded
from jetbroker.config.hints import did_you_mean
from jetbroker.config.parser import Node, Place
from jetbroker.errors import ConfigError
from jetbroker.forms.gotext import quoted

Reader: TypeAlias = Callable[[str, Any], Any]
Table: TypeAlias = Mapping[str, tuple[str, Reader]]
Blocks: TypeAlias = Mapping[str, Callable[[str, Node], None]]

_NO_KEYS: frozenset[str] = frozenset()
_UNKNOWN_FIELD = "unknown field {}"


class ConfigErrors(ConfigError):
    """Everything that is wrong with a configuration, one line each."""

    def __init__(self, lines: list[str], hints: Sequence[str] = ()) -> None:
        super().__init__("".join(f"{line}\n" for line in lines))
        self.lines = lines
        self.hints = hints


class Report:
    """What is wrong (`errors`), and what is odd but stops no start (`notices`); the readers that fill both."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.notices: list[str] = []
        self.hints: list[str] = []

    def fail(self, place: Place, what: str | Exception) -> None:
        """Note an error."""
        self.errors.append(f"{place}: {what}")

    def notice(self, place: Place, what: str | Exception) -> None:
        """Note what a check fails for and a start only tells."""
        self.notices.append(f"{place}: {what}")

    def read(self, key: str, node: Node, reader: Reader) -> Any:
        """The value of a key, None when it is wrong (that is noted)."""
        try:
            return reader(key, node.value)
        except values.DurationWanted as notice:
            self.notice(node.place, notice)
            try:
                return bounded(float(values.integer(key, node.value)))
            except ConfigError as error:
                self.fail(node.place, error)
        except values.ElementError as error:
            self.fail(error.place, error)
        except ConfigError as error:
            self.fail(node.place, error)
        return None

    def map(self, node: Node, message: str = "") -> dict[str, Node] | None:
        """The map that a block must be; None (noted) if it is none. In `message` the value stands for `{}`."""
        if isinstance(node.value, dict):
            return node.value
        what = message.format(values.shown(node.value)) if message else values.wrong_type(node.value, values.MAP)
        self.fail(node.place, what)
        return None

    def list(self, node: Node, message: str = "") -> list[Node] | None:
        """The list that a value must be; None (noted) if it is none. In `message` the value's type stands for `{}`."""
        if isinstance(node.value, list):
            return node.value
        what = message.format(values.type_name(node.value)) if message else values.wrong_type(node.value, values.LIST)
        self.fail(node.place, what)
        return None

    def fill(
        self,
        target: object,
        tree: dict[str, Node],
        table: Table,
        blocks: Blocks,
        unsupported: frozenset[str] = _NO_KEYS,
        unknown: str = _UNKNOWN_FIELD,
    ) -> None:
        """Set the options of `target` from a map: rows of `table`, functions for the others, errors for the rest."""
        for name, node in tree.items():
            key = name.lower()
            if key in table:
                field, reader = table[key]
                value = self.read(key, node, reader)
                if value is not None:
                    setattr(target, field, value)
            elif key in blocks:
                blocks[key](key, node)
            elif key in unsupported:
                if node.value is not False:
                    self.fail(node.place, f'"{name}" not supported yet')
            elif not node.used:
                self.fail(node.place, unknown.format(quoted(name)))
                if hint := did_you_mean(key, [*table, *blocks]):
                    self.hints.append(f"{node.place}: {hint}")
