"""`mappings {}` of the server or of an account: weights and subjects; the transforms are checked by who builds them."""

from jetbroker.config import values
from jetbroker.config.options import MappingDestination, MappingOptions
from jetbroker.config.parser import Node, Value
from jetbroker.config.report import Report
from jetbroker.config.subjects import is_valid_subject
from jetbroker.errors import ConfigError
from jetbroker.forms.gotext import quoted

_MAX_WEIGHT = 100


def read_mappings(report: Report, node: Node) -> list[MappingOptions]:
    """The mappings of a block, in its order; what is wrong is in the report."""
    tree = report.map(node)
    found = []
    for source, entry in (tree or {}).items():
        if not is_valid_subject(source) or not values.is_utf8(source):
            report.fail(node.place, f"Subject {quoted(source)} is not a valid subject")
            continue
        mapping = MappingOptions(source, plain=isinstance(entry.value, str), place=str(entry.place))
        mapping.destinations = _destinations(report, entry)
        if wrong := _wrong_weights(mapping):
            report.fail(entry.place, f"Error adding mapping for {quoted(source)} : {wrong}")
            continue
        found.append(mapping)
    return found


def _destinations(report: Report, node: Node) -> list[MappingDestination]:
    """A subject, a map, or a list of maps."""
    if isinstance(node.value, str):
        subject = report.read("mapping", node, values.string)
        return [] if subject is None else [MappingDestination(subject)]
    entries = node.value if isinstance(node.value, list) else [node]
    found = [_destination(report, entry) for entry in entries]
    return [destination for destination in found if destination is not None]


def _destination(report: Report, node: Node) -> MappingDestination | None:
    if not isinstance(node.value, dict):
        report.fail(node.place, "Expected an entry for the mapping destination")
        return None
    destination = MappingDestination("", weight=-1)
    before = len(report.errors)
    for name, entry in node.value.items():
        key = name.lower()
        if key in ("dest", "destination"):
            destination.subject = report.read(key, entry, values.string) or ""
        elif key == "weight":
            weight = report.read(key, entry, _weight)
            destination.weight = 0 if weight is None else weight
        elif key == "cluster":
            destination.cluster = report.read(key, entry, values.string) or ""
        else:
            report.fail(entry.place, f"Unknown field {quoted(name)} for mapping destination")
    if destination.weight < 0 and len(report.errors) == before:
        report.fail(node.place, f"Missing weight for mapping destination {quoted(destination.subject)}")
    return destination if len(report.errors) == before else None


def _weight(key: str, value: Value) -> int:
    """Percents: a number, or text with or without `%`."""
    if isinstance(value, str):
        text = value.removesuffix("%")
        digits = text[1:] if text[:1] in ("+", "-") else text
        if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
            raise ConfigError(f"Invalid weight {quoted(text)} for mapping destination")
        weight = int(text)
    elif isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"Unknown entry type for weight of {values.shown(value)}\n")
    else:
        weight = value
    if not 0 <= weight <= _MAX_WEIGHT:
        raise ConfigError(f"Invalid weight {weight} for mapping destination")
    return weight


def _wrong_weights(mapping: MappingOptions) -> str:
    """What is wrong with the destinations taken together."""
    seen: set[str] = set()
    total: dict[str, int] = {}
    for destination in mapping.destinations:
        if destination.subject in seen:
            return f"duplicate entry for {quoted(destination.subject)}"
        seen.add(destination.subject)
        total[destination.cluster] = total.get(destination.cluster, 0) + destination.weight
        if total[destination.cluster] > _MAX_WEIGHT:
            return "total weight needs to be <= 100"
    return ""
