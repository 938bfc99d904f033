"""How this server presents itself in front of what it tells by messages."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jetbroker import NATS_VERSION
from jetbroker.config.options import Options

if TYPE_CHECKING:
    from jetbroker.monitor.sources import Sources

_FEATURES = {"js_ack_fc_v2": False, "js_raft_delete_range": False}
_JETSTREAM_FLAGS = 7


class Envelope:
    """Made anew for each answer and event: they are numbered, and sent in that order, unless they are compressed."""

    def __init__(self, server_id: str, sources: "Callable[[], Sources]") -> None:
        self.server_id = server_id
        self.sources = sources
        self._sequence = 0

    def server(self) -> dict[str, Any]:
        """This server, by now."""
        from jetbroker.monitor.sources import now_text

        sources = self.sources()
        options: Options = sources.options
        self._sequence += 1
        server: dict[str, Any] = {
            "name": sources.info.server_name,
            "host": options.host,
            "id": self.server_id,
            "cluster": sources.info.cluster,
            "domain": options.jetstream.domain,
            "ver": NATS_VERSION,
            "tags": options.server_tags,
            "metadata": options.server_metadata,
        }
        server = {key: value for key, value in server.items() if value}
        server |= {"feature_flags": _FEATURES, "jetstream": options.jetstream.enabled}
        server |= {"flags": _JETSTREAM_FLAGS if options.jetstream.enabled else 0, "seq": self._sequence}
        return server | {"time": now_text()}
