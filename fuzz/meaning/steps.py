"""Sequences of steps: streams and consumers that mostly work, with one or two extremes in each request.

A seed gives the same steps, whatever the broker answers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

from fuzz.meaning import configuration, extremes
from fuzz.meaning.vocabulary import (
    BODIES,
    COMPANIONS,
    CONSUMERS,
    DIRECT,
    FIELDS,
    HEADERS,
    OPTIONS,
    PAGES,
    PULL,
    SERVICES,
    SERVICES_OF_ACCOUNTS,
    SILENT,
    STREAMS,
    Tree,
    put,
    rendered,
)

SEND, CHECK, RELOAD, STOP, KILL, START, HTTP = "send", "check", "reload", "stop", "kill", "start", "http"
ANSWERED = "answered"  # with JSON, and no fault of the broker's own
CLIENTS = ("A",) * 7 + ("B",) * 4 + ("P",)  # P is a user of A with permissions
MAX_SUBJECT_BYTES = 3000
MANY = 300  # messages of one scene
_BLANKS = str.maketrans(dict.fromkeys(" \t\r\n\x00", "_"))


@dataclasses.dataclass
class Step:
    """One thing that is done. `wants`: what must come back."""

    what: str
    who: str = ""
    subject: str = ""
    headers: bytes = b""
    body: bytes = b""
    wants: str = ""

    def to_json(self) -> dict[str, str]:
        """As findings keep it: bytes as text of one character each."""
        shown = {key: value for key, value in dataclasses.asdict(self).items() if value}
        return {key: value.decode("latin-1") if isinstance(value, bytes) else value for key, value in shown.items()}

    @classmethod
    def from_json(cls, stored: dict[str, str]) -> Step:
        """The step again."""
        raw: dict[str, Any] = {
            key: value.encode("latin-1") if key in ("headers", "body") else value for key, value in stored.items()
        }
        return cls(**raw)


def _tokens(text: str) -> str:
    """A text as it can stand in a subject on the wire."""
    return text.translate(_BLANKS)[:MAX_SUBJECT_BYTES] or "_"


class Steps:
    """Makes steps of a seed, a few that belong together at a time."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.scenes: tuple[tuple[float, Callable[[], list[Step]]], ...] = (
            (20, self._publish),
            (14, self._request),
            (9, self._stream),
            (8, self._consumer),
            (8, self._pull),
            (8, self._ack),
            (6, self._direct),
            (5, self._batch),
            (4, self._schedule),
            (4, self._service),
            (3, self._update),
            (3, self._origin),
            (2, self._check),
            (1, self._http),
            (0.3, self._fill),
        )
        self._weights = [weight for weight, _ in self.scenes]

    def some(self) -> list[Step]:
        """The next few steps."""
        return self.random.choices(self.scenes, self._weights)[0][1]()

    # --- parts ---

    def _client(self) -> str:
        return self.random.choice(CLIENTS)

    def _name(self, names: tuple[str, ...]) -> str:
        random = self.random
        if random.random() < 0.02:
            return _tokens(random.choice((*extremes.TEXTS, *extremes.SUBJECTS)))
        return random.choice(names)

    def _spoiled(self, cls: type[Any], tree: Tree, changes: int | None = None) -> bytes:
        """A body with some fields set to extremes."""
        random = self.random
        if changes is None:
            changes = random.choices((0, 1, 2, 4), (25, 50, 20, 5))[0]
        for _ in range(changes):
            field = random.choice(FIELDS[cls])
            put(tree, field.path, extremes.of_kind(field.kind, random))
            if field.path[0] == "config" and random.random() < 0.9:
                for name, value in COMPANIONS.get(str(field.path[-1]), {}).items():
                    put(tree, ("config", name), value)
        made = rendered(tree)
        if random.random() < 0.01:
            field = random.choice(FIELDS[cls])
            again = b'{"%b":%b,' % (str(field.path[0]).encode(), extremes.of_kind(field.kind, random))
            return made.replace(b"{", again, 1)  # a key that comes twice
        return extremes.body(random, made) if random.random() < 0.02 else made

    def _api(self, who: str, endpoint: str, *names: str, body: bytes = b"") -> Step:
        random = self.random
        prefix, roll = "$JS.API", random.random()
        if roll < 0.04:
            prefix = "$JS.hub.API"
        elif roll < 0.08 and who == "B":
            prefix = "JS.A.API"
        headers = b""
        if random.random() < 0.02:
            level = random.choice(HEADERS[b"Nats-Required-Api-Level"])
            headers = b"NATS/1.0\r\nNats-Required-Api-Level: " + level.encode() + b"\r\n\r\n"
        plain = all(name.isalnum() for name in names) and who != "P"
        wants = ANSWERED if plain and endpoint not in SILENT else ""
        return Step(SEND, who, ".".join((prefix, endpoint, *names)), headers, body, wants)

    def _tail(self, name: str) -> str:
        return f"{name.lower()}.{self.random.choice(('a', 'b', 'c', 't', 'a.b'))}"

    # --- scenes ---

    def _request(self) -> list[Step]:
        """Any endpoint with any body."""
        random = self.random
        endpoint = random.choice(tuple(BODIES))
        stream, consumer = self._name(STREAMS), self._name(CONSUMERS)
        cls = BODIES[endpoint]
        tree = self._good(cls, endpoint, stream, consumer)
        body = b"" if cls is None else self._spoiled(cls, tree)
        if random.random() < 0.02:
            body = extremes.body(random, body or b"{}")
        of = {"INFO": (), "STREAM.NAMES": (), "STREAM.LIST": (), "STREAM.PEER.REMOVE": (stream,)}
        names: tuple[str, ...] = of.get(endpoint, (stream,))
        if endpoint.startswith("CONSUMER.") and endpoint not in ("CONSUMER.NAMES", "CONSUMER.LIST"):
            names = (stream, consumer)
        return [self._api(self._client(), endpoint, *names, body=body)]

    def _good(self, cls: type[Any] | None, endpoint: str, stream: str, consumer: str) -> dict[str, Any]:
        random = self.random
        if endpoint in ("STREAM.CREATE", "STREAM.UPDATE", "STREAM.RESTORE"):
            return self._stream_config(stream)
        if endpoint in ("CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE"):
            return self._consumer_config(stream, consumer)
        seq = b"%d" % random.randint(1, 9)
        if endpoint == "STREAM.MSG.GET":
            last = {"last_by_subj": extremes.text_json(self._tail(stream))}
            return random.choice((last, {"seq": seq}, {"seq": seq, "next_by_subj": b'">"'}))
        if endpoint in ("STREAM.MSG.DELETE", "CONSUMER.RESET"):
            return {"seq": seq}
        if endpoint == "STREAM.PURGE":
            return random.choice(({}, {"keep": seq}, {"seq": seq}, {"filter": extremes.text_json(self._tail(stream))}))
        if endpoint == "CONSUMER.PAUSE":
            return {"pause_until": b'"@NOW+2@"'}
        if endpoint == "STREAM.INFO":
            return {"deleted_details": b"true", "subjects_filter": b'">"', "offset": b"0"}
        return {}

    def _stream_config(self, name: str) -> dict[str, Any]:
        """One that works."""
        random = self.random
        config: dict[str, Any] = {
            "name": extremes.text_json(name),
            "storage": b'"memory"' if (name == "S1") != (random.random() < 0.1) else b'"file"',
            "max_msgs": random.choice((b"-1", b"100", b"1000", b"3")),
            "max_bytes": random.choice((b"1000000", b"4000000")),
        }
        if name == "M0":
            config["mirror"] = {"name": random.choice((b'"S0"', b'"S1"', b'"S2"'))}
        else:
            config["subjects"] = [extremes.text_json(f"{name.lower()}.>")]
        if name == "Q0":
            config["sources"] = [{"name": b'"S0"'}, {"name": b'"S1"'}][: random.randint(1, 2)]
        flags = ["allow_direct", "allow_rollup_hdrs"]
        if name != "M0":
            flags += ["allow_msg_ttl", "allow_atomic", "allow_batched"]
        if name[0] == "S":
            flags.append("allow_msg_schedules")
        for flag in flags:
            if random.random() < 0.8:
                config[flag] = b"true"
        if name[0] == "S" and random.random() < 0.1:
            config = {"name": config["name"], "subjects": config["subjects"], "allow_msg_counter": b"true"}
        if name[0] == "S" and random.random() < 0.15:
            config["retention"] = random.choice((b'"interest"', b'"workqueue"'))
        if random.random() < 0.15 and "allow_msg_schedules" not in config:
            config["discard"] = b'"new"'
        if random.random() < 0.1:
            config["compression"] = b'"s2"'
        return config

    def _consumer_config(self, stream: str, consumer: str) -> dict[str, Any]:
        random = self.random
        name = extremes.text_json(consumer)
        config: dict[str, Any] = {"durable_name": name} if random.random() < 0.7 else {"name": name}
        config["ack_policy"] = random.choice((b'"explicit"', b'"explicit"', b'"none"', b'"all"'))
        if random.random() < 0.35:
            config["deliver_subject"] = extremes.text_json(f"d.{stream}.{consumer}")
            if random.random() < 0.4:
                config |= {"flow_control": b"true", "idle_heartbeat": b"1000000000"}
        if random.random() < 0.3:
            config["filter_subject"] = extremes.text_json(random.choice((f"{stream.lower()}.a", f"{stream.lower()}.*")))
        policy = random.random()
        if policy < 0.1:
            config |= {"deliver_policy": b'"by_start_time"', "opt_start_time": b'"@NOW-3600@"'}
        elif policy < 0.2:
            config |= {"deliver_policy": b'"by_start_sequence"', "opt_start_seq": b"2"}
        elif policy < 0.4:
            config["deliver_policy"] = random.choice((b'"last"', b'"new"', b'"last_per_subject"'))
        return {"stream_name": extremes.text_json(stream), "config": config}

    def _stream(self) -> list[Step]:
        """A stream anew, with a few messages in it."""
        random, who, name = self.random, self._client(), self._name(STREAMS)
        body = self._spoiled(BODIES["STREAM.CREATE"] or DIRECT, self._stream_config(name))
        steps = [self._api(who, "STREAM.DELETE", name), self._api(who, "STREAM.CREATE", name, body=body)]
        steps.append(self._made(who, name))  # when that was refused
        steps += [self._plain(who, name) for _ in range(random.randint(0, 5))]
        if random.random() < 0.3:
            steps.append(self._api(who, "STREAM.INFO", name, body=b'{"deleted_details":true,"subjects_filter":">"}'))
        return steps

    def _made(self, who: str, stream: str, consumer: str = "") -> Step:
        """A stream or consumer that works."""
        if consumer:
            body = rendered(self._consumer_config(stream, consumer))
            return self._api(who, "CONSUMER.CREATE", stream, consumer, body=body)
        return self._api(who, "STREAM.CREATE", stream, body=rendered(self._stream_config(stream)))

    def furnish(self) -> list[Step]:
        """All streams of the accounts, some consumers, a few messages."""
        steps = []
        for who in "AB":
            for stream in STREAMS:
                steps += [self._made(who, stream), self._made(who, stream, self.random.choice(CONSUMERS))]
                steps += [self._plain(who, stream) for _ in range(3)]
        return steps

    def _update(self) -> list[Step]:
        who, name = self._client(), self._name(STREAMS)
        body = self._spoiled(BODIES["STREAM.UPDATE"] or DIRECT, self._stream_config(name))
        return [self._api(who, "STREAM.UPDATE", name, body=body), self._plain(who, name), self._plain(who, name)]

    def _origin(self) -> list[Step]:
        """A stream that follows another, some of them in another account."""
        random, name = self.random, self.random.choice(("M0", "Q0"))
        who = random.choice("AB")
        config = self._stream_config(name)
        origin: Any = config["mirror"] if name == "M0" else config["sources"][0]
        if who == "B" and random.random() < 0.6:
            origin["external"] = {"api": b'"JS.A.API"', "deliver": b'"d.origin"'}
        if random.random() < 0.3:
            origin[random.choice(("opt_start_seq", "opt_start_time"))] = random.choice((b"2", b'"@NOW-5@"'))
        body = self._spoiled(BODIES["STREAM.CREATE"] or DIRECT, config, random.choice((0, 1)))
        return [
            self._api(who, "STREAM.DELETE", name),
            self._api(who, "STREAM.CREATE", name, body=body),
            self._made(who, name),
            self._plain("A", "S0"),
            self._plain(who, "S1"),
            self._api(who, "STREAM.INFO", name),
        ]

    def _consumer(self) -> list[Step]:
        random, who = self.random, self._client()
        stream, consumer = self._name(STREAMS), self._name(CONSUMERS)
        body = self._spoiled(BODIES["CONSUMER.CREATE"] or DIRECT, self._consumer_config(stream, consumer))
        steps = [self._api(who, "CONSUMER.DELETE", stream, consumer)] if random.random() < 0.7 else []
        names = (stream, consumer) if random.random() < 0.9 else (stream, consumer, random.choice(("a.>", ">", "x")))
        steps.append(self._api(who, "CONSUMER.CREATE", *names, body=body))
        if random.random() < 0.8:
            steps.append(self._made(who, stream, consumer))
        steps += [self._plain(who, stream), *self._pull_from(who, stream, consumer)]
        return [*steps, self._api(who, "CONSUMER.INFO", stream, consumer)]

    def _pull(self) -> list[Step]:
        return self._pull_from(self._client(), self._name(STREAMS), self._name(CONSUMERS))

    def _pull_from(self, who: str, stream: str, consumer: str) -> list[Step]:
        random = self.random
        tree: Tree = {"batch": b"%d" % random.randint(1, 5)}
        if random.random() < 0.7:
            put(tree, ("no_wait",), b"true")
        else:
            put(tree, ("expires",), b"100000000")
        body = self._spoiled(PULL, tree)
        if random.random() < 0.05:
            body = random.choice(extremes.INTEGERS).encode()
        return [Step(SEND, who, f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", b"", body)]

    def _ack(self) -> list[Step]:
        """Of a message that may well be on its way, in one of the two forms."""
        random = self.random
        numbers = [str(random.randint(1, 5)) for _ in range(3)] + ["1700000000000000000", "0"]
        if random.random() < 0.3:
            numbers[random.randrange(5)] = _tokens(random.choice((*extremes.INTEGERS, "9" * 2000)))
        prefix = "$JS.ACK.hub.x" if random.random() < 0.1 else "$JS.ACK"
        subject = ".".join((prefix, self._name(STREAMS), self._name(CONSUMERS), *numbers))
        word = random.choice(("", "+ACK", "+OK", "-NAK", "-NAK", "+WPI", "+TERM", "+NXT", "+nxt", "x", "-NAK\x00"))
        more = ""
        if word == "-NAK":
            more = " " + random.choice((*extremes.NAK_DELAYS, *extremes.GO_DURATIONS))
        elif word == "+TERM":
            more = " " + random.choice((*extremes.TEXTS, *extremes.LONG_TEXTS[:2]))
        body = (word + more).encode("utf-8", "surrogatepass")
        if word == "+NXT" and random.random() < 0.7:
            body += b" " + self._spoiled(PULL, {"batch": b"1", "no_wait": b"true"})
        return [Step(SEND, self._client(), subject, b"", body)]

    def _direct(self) -> list[Step]:
        random, stream = self.random, self._name(STREAMS)
        tail = f".{_tokens(self._tail(stream))}" if random.random() < 0.3 else ""
        start: Tree = random.choice(
            (
                {"seq": b"1", "batch": b"10"},
                {"seq": b"1", "next_by_subj": b'">"', "batch": b"5"},
                {"multi_last": [b'">"']},
                {"multi_last": [extremes.text_json(f"{stream.lower()}.*")], "up_to_seq": b"4", "batch": b"3"},
                {"last_by_subj": extremes.text_json(self._tail(stream))},
                {"start_time": b'"@NOW-60@"', "batch": b"3"},
            )
        )
        body = b"" if tail and random.random() < 0.7 else self._spoiled(DIRECT, start)
        step = self._api(self._client(), "DIRECT.GET", stream + tail, body=body)
        return [dataclasses.replace(step, wants="")]

    def _plain(self, who: str, stream: str) -> Step:
        body = self.random.choice((b"", b"x", b"hello", b'{"val":"1"}', b"y" * 200))
        return Step(SEND, who, _tokens(self._tail(stream)), b"", body)

    def _publish(self) -> list[Step]:
        random = self.random
        return [
            self._with_headers(self._client(), random.choice(STREAMS), random.choices((1, 2, 3), (60, 30, 10))[0])
            for _ in range(random.randint(1, 3))
        ]

    def _fill(self) -> list[Step]:
        """Many subjects, each with a message."""
        who, stream = self._client(), self.random.choice(STREAMS[:4]).lower()
        return [Step(SEND, who, f"{stream}.k.{number}", b"", b"x") for number in range(MANY)]

    def _with_headers(self, who: str, stream: str, count: int, fixed: dict[bytes, str] | None = None) -> Step:
        random = self.random
        given = dict(fixed or {})
        for name in random.sample(tuple(HEADERS), count):
            given.setdefault(name, random.choice(HEADERS[name]))
            if random.random() < 0.01:
                given[name] = "9" * 5000
        step = self._plain(who, stream)
        step.headers = headers_of(given)
        if random.random() < 0.01:
            step.headers = step.headers.replace(b"\r\n\r\n", b"\r\n" + random.choice(_ODD_LINES) + b"\r\n\r\n")
        return step

    def _schedule(self) -> list[Step]:
        random = self.random
        stream = random.choice(STREAMS[:4])
        moment = random.choice(("@at @NOW+1@", "@every 1s", random.choice(extremes.PATTERNS)))
        fixed = {b"Nats-Schedule": moment, b"Nats-Schedule-Target": f"{stream.lower()}.t"}
        return [self._with_headers(self._client(), stream, random.choice((0, 0, 1)), fixed)]

    def _batch(self) -> list[Step]:
        random, who, stream = self.random, self._client(), self.random.choice(STREAMS)
        steps, length = [], random.randint(1, 4)
        for number in range(1, length + 1):
            fixed = {
                b"Nats-Batch-Id": f"b{random.randint(1, 3)}" if number == 1 else "",
                b"Nats-Batch-Sequence": str(number),
            }
            fixed[b"Nats-Batch-Id"] = fixed[b"Nats-Batch-Id"] or "b1"
            if number == length:
                fixed[b"Nats-Batch-Commit"] = random.choice(("1", "1", "eob"))
            if random.random() < 0.15:
                name = random.choice((b"Nats-Batch-Id", b"Nats-Batch-Sequence", b"Nats-Batch-Commit"))
                fixed[name] = random.choice(HEADERS[name])
            steps.append(self._with_headers(who, stream, random.choice((0, 0, 0, 1)), fixed))
        return steps

    def _service(self) -> list[Step]:
        random = self.random
        options = {name: random.choice(OPTIONS[name]) for name in random.sample(tuple(OPTIONS), random.randint(0, 4))}
        body = rendered(dict(options))
        if random.random() < 0.05:
            body = extremes.body(random, body)
        if random.random() < 0.4:
            return [Step(SEND, random.choice("AB"), random.choice(SERVICES_OF_ACCOUNTS), b"", body)]
        place = random.choice(("SERVER.PING", "ACCOUNT.A", "ACCOUNT.PING", f"ACCOUNT.{self._name(('A', 'B', 'W'))}"))
        service = random.choice((*SERVICES, "STATZ"))
        subject = f"$SYS.REQ.{place}.{service}"
        if random.random() < 0.05:
            subject, body = "$SYS.DEBUG.SUBSCRIBERS", random.choice(extremes.SUBJECTS).encode()
        return [Step(SEND, "SYS", subject, b"", body)]

    def _http(self) -> list[Step]:
        """A request to the monitoring port."""
        random = self.random
        names = random.sample(tuple(OPTIONS), random.randint(0, 3))
        query = "&".join(f"{name}={random.choice(OPTIONS[name]).decode('utf-8', 'replace')}"[:2000] for name in names)
        return [Step(HTTP, "", f"/{random.choice(PAGES)}?{query.translate(_BLANKS)}")]

    def _check(self) -> list[Step]:
        return [Step(CHECK, "", "", b"", configuration.spoiled(self.random).encode("utf-8", "surrogatepass"))]

    # --- now and then ---

    def reload(self) -> list[Step]:
        """A configuration with an extreme in it, and the good one again."""
        text = configuration.spoiled(self.random, running=True).encode("utf-8", "surrogatepass")
        return [Step(RELOAD, "", "", b"", text), Step(RELOAD)]

    def restart(self) -> list[Step]:
        """The end of the broker in one of two ways, and its start."""
        steps = [Step(self.random.choice((STOP, KILL)))]
        if self.random.random() < 0.1:
            text = configuration.spoiled(self.random, running=True).encode("utf-8", "surrogatepass")
            return [*steps, Step(START, "", "", b"", text), Step(STOP), Step(START)]
        return [*steps, Step(START)]


_ODD_LINES = (
    b"x",
    b":",
    b": x",
    b"Nats-TTL",
    b"nats-ttl: 5",
    b"A" * 5000 + b": b",
    b"\xff\xfe: \x00",
    b" folded",
    b"\r",
)


def headers_of(values: dict[bytes, str]) -> bytes:
    """A header block; line ends inside of values go."""
    if not values:
        return b""
    lines = [b"NATS/1.0"]
    for name, value in values.items():
        raw = value.encode("utf-8", "surrogatepass").replace(b"\r", b"").replace(b"\n", b"")
        lines.append(name + b": " + raw)
    return b"\r\n".join([*lines, b"", b""])
