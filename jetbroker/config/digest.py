"""The digest of a configuration, the same as nats-server's: equal for equal values, whatever their order, the comments
and the way of writing them."""

import hashlib
import json
import re
from datetime import datetime

from jetbroker.config.parser import Node, Plain, plain
from jetbroker.forms.gojson import escape_html

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # a byte that is no UTF-8
_LINE_END = b"\n"


def digest(tree: dict[str, Node]) -> str:
    """`sha256:<hex>` of what a configuration says."""
    text = _LONE_SURROGATE.sub("\\\\ufffd", _go_json(plain(tree)))
    return f"sha256:{hashlib.sha256(escape_html(text.encode()) + _LINE_END).hexdigest()}"


def _go_json(value: Plain) -> str:
    """JSON as Go writes it; Python differs in floats and in the order of keys outside of ASCII."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_go_json(key)}:{_go_json(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_go_json, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return f'"{value:%Y-%m-%dT%H:%M:%SZ}"'
    if isinstance(value, float):
        return _go_float(value)
    if isinstance(value, int):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def _go_float(value: float) -> str:
    """The shortest text of a float; with an exponent only below 1e-6 and from 1e21."""
    from decimal import Decimal  # only configurations with floats need it

    size = abs(value)
    if size and (size < 1e-6 or size >= 1e21):
        return repr(value).replace("e-0", "e-")
    text = f"{Decimal(repr(value)):f}"
    return text.removesuffix(".0")
