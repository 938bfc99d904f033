"""What the messages of a counter say, read as Go reads JSON: a running total, and how much of it each source gave."""

from dataclasses import dataclass
from typing import Any

from jetbroker.forms import gojson
from jetbroker.forms.gojson import JsonError
from jetbroker.jetstream.models.decode import TEXT, DecodeError, Kind, MapKind, Place, StructKind, json_field

Sources = dict[str, dict[str, str] | None]  # stream -> subject -> its total there


@dataclass
class CounterValue:
    """The body of a counter's message."""

    val: str = json_field(TEXT)


class _TotalsKind(MapKind):
    """Those of one stream; null stays null."""

    def read(self, value: Any, where: Place, old: Any, strict: bool) -> Any:
        return None if value is None else super().read(value, where, old, strict)


_VALUE = StructKind(CounterValue, "CounterValue", optional=False)
_SOURCES = MapKind(_TotalsKind(TEXT))


def read_value(body: bytes) -> bytes:
    """`val` of a counter's body, b"" when it is not there. Raises DecodeError."""
    value: str = _read(body, _VALUE).val
    return value.encode("utf-8", "replace")


def read_sources(text: bytes) -> Sources:
    """The value of `Nats-Counter-Sources`. Raises DecodeError."""
    sources: Sources = _read(text, _SOURCES)
    return sources


def sources_text(sources: Sources) -> bytes:
    """The value of `Nats-Counter-Sources` for these."""
    return gojson.dumps({stream: totals and dict(sorted(totals.items())) for stream, totals in sorted(sources.items())})


def _read(text: bytes, kind: Kind) -> Any:
    try:
        found = [gojson.fast_value(text)]
    except ValueError:  # no JSON, or JSON that only Go takes
        try:
            found = list(gojson.values(text))
        except (JsonError, ValueError) as error:
            raise DecodeError(str(error)) from None
    if len(found) != 1:
        raise DecodeError("not one JSON value")
    return kind.read(found[0], Place(), kind.zero(), strict=False)
