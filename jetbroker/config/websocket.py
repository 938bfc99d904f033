"""`websocket {}`."""

from jetbroker.config import keys, values
from jetbroker.config.certificates import check_files
from jetbroker.config.no_auth_user import check_no_auth_user
from jetbroker.config.options import Options, WebsocketOptions
from jetbroker.config.origins import parse_origin
from jetbroker.config.parser import Node
from jetbroker.config.report import Report
from jetbroker.config.tls import read_tls
from jetbroker.errors import ConfigError
from jetbroker.forms.gotext import quoted

_ORIGINS = "allowed_origins allowed_origin allow_origins allow_origin origins origin".split()

_OWN_HEADERS = frozenset(("host", "content-length", "connection", "upgrade", "nats-no-masking"))


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


def check_websocket(options: Options) -> None:
    """What must hold before a listener starts. Raises :class:`~jetbroker.errors.ConfigError`."""
    websocket = options.websocket
    if websocket.tls is None and not websocket.no_tls:
        raise ConfigError("websocket requires TLS configuration")
    for origin in websocket.allowed_origins:
        _check_origin(origin)
    check_no_auth_user(options, websocket.no_auth_user)
    if options.all_users():
        for what, given in (("username", websocket.user), ("token", websocket.token)):
            if given:
                raise ConfigError(f"websocket authentication {what} not compatible with presence of users/nkeys")
    if websocket.jwt_cookie and not options.operator.enabled:
        raise ConfigError(
            "trusted operators or trusted keys configuration is required for JWT authentication via cookie "
            f"{quoted(websocket.jwt_cookie)}"
        )
    for name in websocket.headers:
        if name.lower() in _OWN_HEADERS:
            raise ConfigError(f"websocket: invalid header {quoted(name)} not allowed")
        if name.lower().startswith("sec-websocket-"):
            raise ConfigError(f'websocket: invalid header {quoted(name)}, "Sec-WebSocket-" prefix not allowed')


def _check_origin(text: str) -> None:
    failed = "unable to parse allowed origin"
    try:
        origin = parse_origin(text)
    except ValueError as error:
        raise ConfigError(f"{failed}: {error}") from None
    if origin.scheme not in ("http", "https"):
        what = "allowed origins must be absolute URLs with http or https scheme"
        raise ConfigError(f"{failed} {quoted(text)}: {what}")
    if not origin.host:
        raise ConfigError(f"{failed} {quoted(text)}: host is required")


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
