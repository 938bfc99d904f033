"""Random sequences of steps for a stream and its consumers: what a seed stands for is the same for every server."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

NAMES = ("A", "B", "C")
TOKENS = ("a", "b", "c", "b.x")
STEPS = (12, 32)
FAR = 600.0  # seconds of ack_wait: nothing comes again by itself while a sequence is played
DELAYS_MS = (1, 20, 40)

Step = tuple[Any, ...]


@dataclass(frozen=True)
class Sequence:
    """A stream's configuration, then steps: (kind, what it needs ...). The first `prepare` lead to no comparison."""

    seed: int
    stream: dict[str, Any]
    steps: tuple[Step, ...] = field(repr=False)
    prepare: int = 0


def make(seed: int, *, restarts: bool) -> Sequence:
    """The sequence of this seed. `restarts`: one step may be a restart of the server."""
    return _Maker(random.Random(seed), restarts).sequence(seed)


class _Maker:
    def __init__(self, dice: random.Random, restarts: bool) -> None:
        self.dice = dice
        self.restarts = restarts
        self.retention = dice.choices(("limits", "interest", "workqueue"), (5, 3, 3))[0]
        self.removes = self.often(0.7)  # messages, other than by acks
        # of everything, or of subjects that consumers have all of, or nothing: see docs/differences.md for the others
        self.purges = dice.choice(("all", "subject", "")) if self.removes else ""

    def often(self, chance: float) -> bool:
        return self.dice.random() < chance

    def sequence(self, seed: int) -> Sequence:
        stream = self.stream()
        steps: list[Step] = [("publish", self.token(), {}) for _ in range(self.dice.randint(0, 6))]
        for name in NAMES[: self.dice.randint(1, 2)]:
            steps.append(("create", name, self.consumer()))
        if self.retention == "interest":
            steps = steps[::-1]  # what is published without interest is not kept
        count = self.dice.randint(*STEPS)
        restart_at = self.dice.randrange(count) if self.restarts else -1
        for number in range(count):
            if number == restart_at:
                steps.append(("restart",))
                self.restarts = False
            steps += self.step()
        return Sequence(seed, stream, tuple(steps))

    # --- configurations ---

    def stream(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "retention": self.retention,
            "storage": "file" if self.restarts or self.often(0.7) else "memory",
            "allow_rollup_hdrs": True,
            "allow_direct": True,
        }
        if self.often(0.1):
            config["first_seq"] = self.dice.randint(2, 9)
        if not self.removes:
            return config
        if self.often(0.3):
            config["max_msgs"] = self.dice.randint(2, 8)
        if self.often(0.3):
            config["max_msgs_per_subject"] = self.dice.randint(1, 3)
        if self.often(0.15):
            config["discard"] = "new"
            if "max_msgs_per_subject" in config and "max_msgs" in config:
                config["discard_new_per_subject"] = self.often(0.5)
        return config

    def consumer(self) -> dict[str, Any]:
        dice = self.dice
        config: dict[str, Any] = {
            "ack_policy": dice.choices(("explicit", "none", "all"), (6, 1, 2 * (not self.removes)))[0],
            "deliver_policy": dice.choices(
                ("all", "last", "new", "by_start_sequence", "last_per_subject"), (8, 1, 1, 1, 3 * (not self.removes))
            )[0],
            "ack_wait": int(FAR * 1e9),
        }
        if self.retention == "workqueue":
            config["deliver_policy"] = "all"
            config["ack_policy"] = dice.choices(("explicit", "all"), (9, 1))[0]
        if config["deliver_policy"] == "by_start_sequence":
            config["opt_start_seq"] = dice.randint(1, 9)
        filters = self.filters()
        if len(filters) == 1:
            config["filter_subject"] = filters[0]
        elif filters:
            config["filter_subjects"] = filters
        if self.often(0.3):
            config["max_deliver"] = dice.randint(1, 3)
        if self.often(0.25) and config["ack_policy"] != "none":
            config["max_ack_pending"] = dice.randint(1, 4)
        if self.often(0.3):
            config["sample_freq"] = "100"
        if self.often(0.15):
            config["headers_only"] = True
        if self.often(0.15) and not self.restarts:
            config["mem_storage"] = True
        return config

    def filters(self) -> list[str]:
        narrow: tuple[list[str], ...] = (["a"], ["b"], ["c"], ["b.>"])
        wide: tuple[list[str], ...] = ([], [], ["*"], [">"], ["a", "b"], ["a", "b.>"], ["c", "b.x"])
        chosen = self.dice.choice(narrow if self.purges == "subject" else (*narrow, *wide))
        return [f"S.{token}" for token in chosen]

    # --- steps ---

    def token(self) -> str:
        return self.dice.choices(TOKENS, (4, 3, 2, 1))[0]

    def name(self) -> str:
        return self.dice.choices(NAMES, (6, 4, 1))[0]

    def seq(self) -> int:
        return self.dice.randint(0, 14)

    def step(self) -> list[Step]:
        kinds = {
            self.publish: 10,
            self.fetch: 10,
            self.ack: 16,
            self.forged: 2,
            self.delayed: 1 * (not self.purges),
            self.delete: 4 * self.removes,
            self.purge: 2 * bool(self.purges),
            self.pause: 1,
            self.recreate: 1,
            self.update_stream: 1 * self.removes,
            self.reset: 1,
            self.look: 2,
        }
        chosen: Any = self.dice.choices(list(kinds), list(kinds.values()))[0]()
        return chosen if isinstance(chosen, list) else [chosen]

    def publish(self) -> Step:
        headers = {}
        kind = self.dice.randrange(20)
        if kind < 2:
            if self.purges:
                headers["Nats-Rollup"] = "all" if self.purges == "all" else "sub"
        elif kind == 2:
            headers["Nats-Msg-Id"] = f"id{self.dice.randrange(4)}"
        elif kind == 3:
            headers["Nats-Expected-Last-Sequence"] = str(self.seq())
        elif kind == 4:
            headers["Nats-Expected-Last-Subject-Sequence"] = str(self.seq())
        elif kind == 5:
            headers["Nats-Expected-Last-Msg-Id"] = f"id{self.dice.randrange(4)}"
        elif kind == 6:
            headers["Nats-Expected-Stream"] = self.dice.choice(("S", "T"))
        elif kind == 7:
            headers["Own"] = "value"
        return ("publish", self.token(), headers)

    def fetch(self) -> Step:
        return ("fetch", self.name(), self.dice.choices((1, 2, 3, 20), (3, 3, 3, 2))[0])

    def ack(self) -> Step:
        body = self.dice.choices(
            ("", "+ACK", "+OK", "-NAK", "+TERM", "+TERM why", "+WPI", "+NXT", "else"), (4, 8, 1, 6, 2, 1, 1, 1, 1)
        )[0]
        if (self.purges or self.restarts) and body == "-NAK":
            body = "+WPI"  # nats-server forgets at a purge or restart that it was asked to deliver again
        return ("ack", self.name(), self.dice.randrange(12), body, self.often(0.7))

    def forged(self) -> Step:
        """An ack of which no delivery told: (deliveries, stream sequence, consumer sequence)."""
        numbers = tuple(self.dice.choice((0, 1, 2, 3, 5, 8, 13, 1 << 40)) for _ in range(3))
        # where acks remove messages, nats-server removes one that was acked though nobody was given it
        finishing = ("+ACK", "+TERM", "+NXT") if self.retention == "limits" else ()
        body = self.dice.choice(("+WPI" if self.purges or self.restarts else "-NAK", "+WPI", "else", *finishing))
        return ("forged", self.name(), numbers, body)

    def delayed(self) -> list[Step]:
        """With nothing else to deliver: a short delay is as long as the server takes to look."""
        delay = self.dice.choice(DELAYS_MS)
        written = self.dice.choice((f"-NAK {delay}ms", "-NAK " + json.dumps({"delay": delay * 1_000_000})))
        name = self.name()
        return [("fetch", name, 20), ("delayed", name, self.dice.randrange(12), written)]

    def delete(self) -> Step:
        return ("delete", self.seq(), self.often(0.5))

    def purge(self) -> Step:
        request: dict[str, Any] = {}
        if self.purges == "subject":
            request["filter"] = self.dice.choice(("S.a", "S.b", "S.c", "S.b.x"))
        if self.often(0.3):
            request["seq"] = self.dice.randint(1, 14)
        elif self.often(0.4):
            request["keep"] = self.dice.randint(1, 4)
        return ("purge", request)

    def pause(self) -> Step:
        return ("pause", self.name(), self.often(0.4))

    def recreate(self) -> list[Step]:
        name = self.name()
        return [("drop", name), ("create", name, self.consumer())][: self.dice.choice((1, 2, 2))]

    def update_stream(self) -> Step:
        change: dict[str, Any] = {}
        if self.often(0.5):
            change["max_msgs"] = self.dice.choice((-1, 2, 4, 6))
        else:
            change["max_msgs_per_subject"] = self.dice.choice((-1, 1, 2, 3))
        return ("update", change)

    def reset(self) -> Step:
        # as for forged acks: what a reset has passed over would be removed by its late ack
        return ("reset", self.name(), self.dice.choice((0, 0, 1, 2, 4, 8)) if self.retention == "limits" else 0)

    def look(self) -> Step:
        kind = self.dice.randrange(5)
        if kind == 0:
            return ("look", "STREAM.INFO.S", {"subjects_filter": self.dice.choice((">", "S.a", "S.b.>", "S.z"))})
        if kind == 1:
            return ("look", "STREAM.INFO.S", {"deleted_details": True})
        if kind == 2:
            return ("look", "STREAM.MSG.GET.S", {"seq": self.seq()})
        if kind == 3:
            return ("look", "STREAM.MSG.GET.S", {"last_by_subj": f"S.{self.token()}"})
        return ("look", "STREAM.MSG.GET.S", {"next_by_subj": "S.>", "seq": self.seq()})
