"""`exports []` and `imports []` of an account. What concerns two accounts is checked when all of them are known."""

from typing import Any

from jetbroker.config import keys, values
from jetbroker.config.durations import parse_duration
from jetbroker.config.options import ExportOptions, ImportOptions
from jetbroker.config.parser import Node, Place
from jetbroker.config.report import Report
from jetbroker.errors import ConfigError
from jetbroker.forms.gotext import quoted

_RESPONSE_TYPES = {
    "single": "Singleton",
    "singleton": "Singleton",
    "stream": "Stream",
    "chunk": "Chunked",
    "chunked": "Chunked",
}
_THRESHOLD_KEYS = ("threshold", "response_threshold", "response_max_time", "response_time")
_NOT_A_SERVICE = "Detected response directive on non-service"


def read_exports(report: Report, node: Node) -> list[ExportOptions]:
    """What an account exports; what is wrong is in the report."""
    found = []
    for entry in report.list(node, "Exports should be an array, got {}") or []:
        if not isinstance(entry.value, dict):
            got = values.type_name(entry.value)
            report.fail(entry.place, f"Export Items should be a map with type entry, got {got}")
            continue
        export = _Export(report, entry).read(entry.value)
        if export is not None:
            found.append(export)
    return found


def read_imports(report: Report, node: Node) -> list[ImportOptions]:
    """What an account imports; what is wrong is in the report."""
    found: list[ImportOptions] = []
    services: dict[tuple[str, str], ImportOptions] = {}
    for entry in report.list(node, "Imports should be an array, got {}") or []:
        if not isinstance(entry.value, dict):
            got = values.type_name(entry.value)
            report.fail(entry.place, f"Import Items should be a map with type entry, got {got}")
            continue
        imported = _Import(report, entry).read(entry.value)
        if imported is None:
            continue
        if imported.kind == "service":
            local = imported.to or imported.subject
            before = services.setdefault((local, imported.account), imported)
            if before is not imported:
                report.fail(
                    entry.place,
                    f"Duplicate service import subject {quoted(local)}, previously used in import for "
                    f"account {quoted(before.account)}, subject {quoted(before.subject)}",
                )
                continue
        found.append(imported)
    return found


class _Export:
    """Reads one entry of `exports`."""

    def __init__(self, report: Report, node: Node) -> None:
        self.report = report
        self.options = ExportOptions(kind="", subject="", place=str(node.place))
        self.response: Place | None = None  # of the first directive that only a service can have
        self.traced: Place | None = None  # of allow_trace, which only a service can have
        self.seen: set[str] = set()

    def read(self, tree: dict[str, Node]) -> ExportOptions | None:
        """The export; None when it is wrong, or names nothing (nats-server ignores that, too)."""
        before = len(self.report.errors)
        blocks = {
            "stream": self._subject,
            "service": self._subject,
            "accounts": self._accounts,
            **dict.fromkeys(("response", "response_type"), self._response_type),
            **dict.fromkeys(_THRESHOLD_KEYS, self._threshold),
            "account_token_position": self._position,
            "allow_trace": self._allow_trace,
        }
        self.report.fill(self.options, tree, {}, blocks, keys.EXPORT_UNSUPPORTED)
        if self.options.kind == "stream" and self.response is not None:
            self.report.fail(self.response, _NOT_A_SERVICE)
        if self.options.kind == "stream" and self.traced is not None:
            self.report.fail(self.traced, "Detected allow_trace directive on non-service")
        return self.options if self.options.kind and len(self.report.errors) == before else None

    def _subject(self, key: str, node: Node) -> None:
        if self.options.kind and self.options.kind != key:
            shown = quoted(node.value) if isinstance(node.value, str) else values.shown(node.value)
            self.report.fail(node.place, f"Detected {key} {shown} but already saw a {self.options.kind}")
            return
        if not isinstance(node.value, str):
            got = values.type_name(node.value)
            self.report.fail(node.place, f"Expected {key} name to be string, got {got}")
            return
        self.options.kind = key
        self.options.subject = self.report.read(key, node, values.string) or ""

    def _accounts(self, key: str, node: Node) -> None:
        names = [self.report.read(key, entry, values.string) for entry in self.report.list(node) or []]
        # An empty list is as none: a public export.
        self.options.accounts = [name for name in names if name is not None] or None

    def _response_type(self, key: str, node: Node) -> None:
        if "type" in self.seen:
            self.report.fail(node.place, "Duplicate response type definition")
            return
        self.seen.add("type")
        if not isinstance(node.value, str):
            got = values.type_name(node.value)
            self.report.fail(node.place, f"Expected response type to be string, got {got}")
        elif node.value.lower() not in _RESPONSE_TYPES:
            self.report.fail(node.place, f"Unknown response type: {quoted(node.value)}")
        else:
            self.response = self.response or node.place
            self.options.response_type = _RESPONSE_TYPES[node.value.lower()]

    def _threshold(self, key: str, node: Node) -> None:
        if "threshold" in self.seen:
            self.report.fail(node.place, "Duplicate response threshold detected")
            return
        self.seen.add("threshold")
        wanted = "Expected response threshold to be a parseable time duration, got"
        if not isinstance(node.value, str):
            self.report.fail(node.place, f"{wanted} {values.type_name(node.value)}")
            return
        try:
            self.options.response_threshold = parse_duration(node.value)
            self.response = self.response or node.place
        except ConfigError:
            self.report.fail(node.place, f"{wanted} {quoted(node.value)}")

    def _allow_trace(self, key: str, node: Node) -> None:
        self.traced = node.place
        self.options.traced = bool(self.report.read(key, node, values.boolean))

    def _position(self, key: str, node: Node) -> None:
        position = self.report.read(key, node, values.integer)
        if position is not None:
            self.options.token_position = position


class _Import:
    """Reads one entry of `imports`."""

    def __init__(self, report: Report, node: Node) -> None:
        self.report = report
        self.options = ImportOptions(kind="", account="", subject="", place=str(node.place))
        self.traced: Place | None = None  # of allow_trace, which only a stream can have

    def read(self, tree: dict[str, Node]) -> ImportOptions | None:
        """The import; None when it is wrong, or names nothing (nats-server ignores that, too)."""
        before = len(self.report.errors)
        blocks = {"stream": self._source, "service": self._source, "allow_trace": self._allow_trace}
        self.report.fill(self.options, tree, keys.IMPORT, blocks)
        options = self.options
        if options.kind == "service" and self.traced is not None:
            self.report.fail(self.traced, "Detected allow_trace directive on a non-stream")
        if options.kind == "stream" and options.prefix and options.to:
            place = next(node.place for name, node in tree.items() if name.lower() == "to")
            self.report.fail(place, "Stream import can not have a 'prefix' and a 'to' property")
        return options if options.kind and len(self.report.errors) == before else None

    def _allow_trace(self, key: str, node: Node) -> None:
        self.traced = node.place
        self.options.traced = bool(self.report.read(key, node, values.boolean))

    def _source(self, key: str, node: Node) -> None:
        """`{account, subject}` of the exporter."""
        options = self.options
        if options.kind and options.kind != key:
            self.report.fail(node.place, f"Detected {key} but already saw a {options.kind}")
            return
        if not isinstance(node.value, dict):
            got = values.type_name(node.value)
            self.report.fail(node.place, f"{key.capitalize()} entry should be an account map, got {got}")
            return
        table: dict[str, tuple[str, Any]] = {
            "account": ("account", values.string),
            "subject": ("subject", values.string),
        }
        self.report.fill(options, node.value, table, {})
        if not options.account or not options.subject:
            self.report.fail(node.place, "Expect an account name and a subject")
            return
        options.kind = key
