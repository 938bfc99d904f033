"""What an account tells whoever listens: `$JS.EVENT.ADVISORY.` and `$JS.EVENT.METRIC.`"""

import time
from typing import Any

from jetbroker.forms.gojson import dumps
from jetbroker.forms.gotext import format_time
from jetbroker.jetstream.models.names import random_name
from jetbroker.routing.router import Router

_ID_LENGTH = 22


def _publish(router: Router, subject: str, fields: dict[str, Any], kind: str) -> None:
    target = subject.encode()
    if not router.interested(target):
        return
    advisory = {
        "type": f"io.nats.jetstream.advisory.v1.{kind}",
        "id": random_name(_ID_LENGTH),
        "timestamp": format_time(time.time_ns()),
    }
    router.publish_bytes(target, None, b"", dumps(advisory | fields))


class Advisories:
    """Those of one account. `domain` is JetStream's, "" for none; `system`: where operators listen."""

    def __init__(self, router: Router, domain: str, system: Router | None = None) -> None:
        self._router = router
        self._system = system if system is not router else None
        self._domain = {"domain": domain} if domain else {}

    def publish(self, subject: str, fields: dict[str, Any], kind: str = "") -> None:
        """Tell whoever listens on `subject`; `kind` is the end of the type, when `fields` has none."""
        _publish(self._router, subject, fields | self._domain, kind)

    def publish_to_all(self, subject: str, fields: dict[str, Any], kind: str) -> None:
        """Tell operators, too, and them whose it is."""
        _publish(self._router, subject, fields, kind)
        if self._system is not None:
            _publish(self._system, subject, {"account": self._router.account_name} | fields, kind)

    def stream(self, event: str, name: str, action: str, template: str = "") -> None:
        """A stream was created, updated or deleted; `template`: the one that made it."""
        fields = {"stream": name, "action": action} | ({"template": template} if template else {})
        self._later(f"STREAM.{event}.{name}", fields, "stream_action")

    def consumer(self, event: str, stream: str, name: str, action: str) -> None:
        """A consumer was created or deleted."""
        fields = {"stream": stream, "consumer": name, "action": action}
        self._later(f"CONSUMER.{event}.{stream}.{name}", fields, "consumer_action")

    def pause(self, stream: str, name: str, state: dict[str, Any]) -> None:
        """Whether a consumer is paused, and until when."""
        self._later(f"CONSUMER.PAUSE.{stream}.{name}", {"stream": stream, "consumer": name} | state, "consumer_pause")

    def _later(self, subject: str, fields: dict[str, Any], kind: str) -> None:
        """Behind the reply: a stream that captures its own advisories still shows the state before them."""
        target = f"$JS.EVENT.ADVISORY.{subject}"
        self._router.tick.loop.call_soon(self.publish, target, fields, kind)
