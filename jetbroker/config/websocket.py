"""`websocket {}`."""

from jetbroker.config import keys, values
from jetbroker.config.certificates import check_files
from jetbroker.config.options import WebsocketOptions
from jetbroker.config.parser import Node
from jetbroker.config.report import Report
from jetbroker.config.tls import read_tls
from jetbroker.errors import ConfigError

_ORIGINS = "allowed_origins allowed_origin allow_origins allow_origin origins origin".split()


def read_websocket(report: Report, node: Node, options: WebsocketOptions) -> None:
    """Read the block into `options`; what is wrong is in the report."""
    if not isinstance(node.value, dict):
        report.fail(node.place, f"Expected websocket to be a map, got {values.type_name(node.value)}")
        return

    def listen(key: str, entry: Node) -> None:
        try:
            host, options.port = values.address(entry.value)
        except ConfigError as error:
            report.fail(entry.place, error)
            return
        options.host = host or ""

    def tls(key: str, entry: Node) -> None:
        options.tls = read_tls(report, entry)
        if options.tls is not None:
            check_files(report, entry.place, options.tls)

    def origins(key: str, entry: Node) -> None:
        options.allowed_origins = report.read("allowed origins", entry, values.string_list) or []

    def authorization(key: str, entry: Node) -> None:
        report.fill(options, report.map(entry) or {}, keys.WEBSOCKET_AUTHORIZATION, {})

    def headers(key: str, entry: Node) -> None:
        options.headers = _headers(report, entry)

    blocks = {
        "listen": listen,
        "tls": tls,
        **dict.fromkeys(_ORIGINS, origins),
        **dict.fromkeys(("authorization", "authentication"), authorization),
        "headers": headers,
    }
    report.fill(options, node.value, keys.WEBSOCKET, blocks)


def _headers(report: Report, node: Node) -> dict[str, str]:
    if not isinstance(node.value, dict):
        report.fail(node.place, f"error parsing headers: unsupported type {values.type_name(node.value)}")
        return {}
    headers = {}
    for name, entry in node.value.items():
        if not isinstance(entry.value, str):
            got = values.type_name(entry.value)
            report.fail(entry.place, f"error parsing header key {name}: unsupported type {got}")
            continue
        headers[name] = report.read(name, entry, values.string) or ""
    return headers
