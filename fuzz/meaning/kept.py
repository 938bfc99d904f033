"""What the broker has acknowledged to keep: streams in files and their durable consumers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fuzz.meaning.steps import Step

_LONG_NS = 3600 * 10**9  # a consumer that nobody uses lives longer than a run on one store


class Kept:
    """`streams`: by account and name the names of the stream's consumers."""

    def __init__(self) -> None:
        self.streams: dict[str, dict[str, set[str]]] = {}

    def answered(self, step: Step, answer: Any) -> None:
        """Take in the answer to a request that was granted."""
        if not isinstance(answer, dict) or ".API." not in step.subject:
            return
        kind, config = str(answer.get("type", "")), answer.get("config") or {}
        streams = self.streams.setdefault(_account(step), {})
        tokens = step.subject.partition(".API.")[2].split(".")
        if kind.endswith("stream_create_response"):
            if config.get("storage") == "file":
                streams.setdefault(config["name"], set())
        elif kind.endswith("stream_delete_response"):
            streams.pop(tokens[-1], None)
        elif kind.endswith("consumer_delete_response") and tokens[2] in streams:
            streams[tokens[2]].discard(tokens[3])
        elif kind.endswith("consumer_create_response") and answer.get("stream_name") in streams:
            consumers = streams[answer["stream_name"]]
            if _lasts(config):
                consumers.add(answer["name"])
            else:
                consumers.discard(answer["name"])

    def forget_unclear(self, steps: Sequence[tuple[Step, bool]]) -> None:
        """Nothing is known of what several clients made and deleted at once, nor of what nobody waited for, or in vain.

        `steps`, each with whether its answer came.
        """
        touched: dict[tuple[str, str], set[str]] = {}
        for step, answered in steps:
            area, _, rest = step.subject.partition(".API.")[2].partition(".")
            verb, _, names = rest.partition(".")
            if area in ("STREAM", "CONSUMER") and verb in ("CREATE", "DELETE", "UPDATE", "DURABLE"):
                stream = names.removeprefix("CREATE.").partition(".")[0]
                clear = step.wants and answered
                touched.setdefault((_account(step), stream), set()).add(step.who if clear else "")
        for (account, name), clients in touched.items():
            if len(clients) > 1 or "" in clients:
                self.streams.get(account, {}).pop(name, None)


def _account(step: Step) -> str:
    return "A" if step.subject.startswith("JS.A.") or step.who == "P" else step.who


def _lasts(config: dict[str, Any]) -> bool:
    threshold = config.get("inactive_threshold", 0)
    return bool(config.get("durable_name")) and not config.get("mem_storage") and not 0 < threshold < _LONG_NS
