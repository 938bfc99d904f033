"""The fields of a token's JSON, each of the type it must have."""

from jetbroker.errors import ConfigError

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class TokenError(ConfigError):
    """A token cannot be taken for what it says: damaged, forged, or of another kind. No place in a file."""


class Fields:
    """An object of JSON. What is missing or null has the default of its type. Raises TokenError for other types."""

    def __init__(self, value: object, name: str = "") -> None:
        if value is not None and not isinstance(value, dict):
            raise TokenError(f"{name or 'a token'} must be an object")
        self.raw: dict[str, object] = value or {}

    def __contains__(self, key: str) -> bool:
        return self.raw.get(key) is not None

    def text(self, key: str) -> str:
        """A string."""
        value = self.raw.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise TokenError(f"{key} must be a string")
        return value

    def integer(self, key: str, default: int = 0) -> int:
        """An integer of 64 bits."""
        value = self.raw.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not _INT64_MIN <= value <= _INT64_MAX:
            raise TokenError(f"{key} must be an integer")
        return value

    def flag(self, key: str) -> bool:
        """A boolean."""
        value = self.raw.get(key)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise TokenError(f"{key} must be a boolean")
        return value

    def block(self, key: str) -> "Fields":
        """An object, empty when there is none."""
        return Fields(self.raw.get(key), key)

    def entries(self, key: str) -> list[object]:
        """A list of anything."""
        value = self.raw.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise TokenError(f"{key} must be a list")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        found = self.entries(key)
        texts = tuple("" if value is None else value for value in found if value is None or isinstance(value, str))
        if len(texts) != len(found):
            raise TokenError(f"{key} must be a list of strings")
        return texts

    def blocks(self, key: str) -> "list[Fields]":
        """A list of objects."""
        return [Fields(value, key) for value in self.entries(key)]

    def integers(self, key: str) -> dict[str, int]:
        """An object whose values are integers."""
        block = self.block(key)
        return {name: block.integer(name) for name in block.raw}
