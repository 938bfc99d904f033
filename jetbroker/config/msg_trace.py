"""`msg_trace` of an account: where messages with a sampled traceparent are traced to, and how many of them."""

from jetbroker.config import keys, values
from jetbroker.config.options import TraceOptions
from jetbroker.config.parser import Node
from jetbroker.config.report import Report
from jetbroker.forms.gotext import quoted


def read_msg_trace(report: Report, key: str, node: Node) -> TraceOptions | None:
    """A subject, or a map with `dest` and `sampling`; None: it says no subject, or is wrong."""
    if isinstance(node.value, str):
        dest = report.read(key, node, values.trace_destination)
        return None if dest is None else TraceOptions(dest)
    if not isinstance(node.value, dict):
        what = f"Expected account message trace {quoted(key)} to be a string or a map/struct"
        report.fail(node.place, f"{what}, got {values.type_name(node.value)}")
        return None
    said = _Said()
    unknown = f"Unknown field {{}} parsing account message trace map/struct {quoted(key)}"
    report.fill(said, node.value, keys.MSG_TRACE, {}, unknown=unknown)
    if said.destination:
        return TraceOptions(said.destination, said.sampling or 100)
    if said.sampling:
        report.notice(node.place, "Trace destination sampling ignored since no destination was set")
    return None


class _Said:
    destination = b""
    sampling = 0
