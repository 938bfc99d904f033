"""What is fuzzed: a generator of input, and a check that raises when something is wrong with the answer."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from fuzz import connection_targets, generate, leaf_model, model, store_files
from fuzz.checks import Target, require
from fuzz.parsing.splits import SplitChecker
from fuzz.parsing.splitting import SplitPlayer
from jetbroker.config.loader import load_text
from jetbroker.connections.handshake import decode_connect
from jetbroker.errors import ConfigError, ProtocolError
from jetbroker.routing.router import CallbackReceiver, Router
from jetbroker.routing.subscription import Subscription
from jetbroker.tick import Tick
from jetbroker.wire import subjects
from jetbroker.wire.headers import header_value

# --- the client protocol: the first byte chooses the connection's settings, the rest is what the client sends ---


@functools.cache
def _protocol(choice: int) -> tuple[SplitChecker, model.Settings]:
    settings = model.Settings(
        headers=choice & 1 == 0,
        login_due=choice & 2 != 0,
        max_payload=8 if choice & 4 else 1048576,
        max_control_line=40 if choice & 8 else 4096,
    )
    checker = SplitChecker(settings.headers, settings.login_due, settings.max_payload, settings.max_control_line)
    return checker, settings


def _protocol_input(random: Random) -> bytes:
    return bytes([random.randrange(16)]) + generate.commands(random)


def check_protocol(data: bytes) -> None:
    """Cut at every place and whole: one answer, and it is that of the model."""
    checker, settings = _protocol(data[0] & 15 if data else 0)
    got, expected = checker.check(data[1:]), model.answer(data[1:], settings)
    require(got == expected, settings, "parser", got, "model", expected)


# --- the same for what comes over a link ---


@functools.cache
def _leaf_protocol(choice: int) -> tuple[SplitChecker, model.Settings]:
    settings = _protocol(choice)[1]
    checker = SplitChecker(settings.headers, settings.login_due, settings.max_payload, settings.max_control_line, True)
    return checker, settings


def _leaf_protocol_input(random: Random) -> bytes:
    return bytes([random.randrange(16)]) + generate.leaf_commands(random)


def check_leaf_protocol(data: bytes) -> None:
    """Cut at every place and whole: one answer, and it is that of the model."""
    checker, settings = _leaf_protocol(data[0] & 15 if data else 0)
    got, expected = checker.check(data[1:]), leaf_model.answer(data[1:], settings)
    require(got == expected, settings, "parser", got, "model", expected)


@functools.cache
def _player() -> SplitPlayer:
    return SplitPlayer()


def _compiled_input(random: Random) -> bytes:
    return _player().make(random.getrandbits(64))


def _compiled_burst(seed: int, inputs: int) -> list[bytes]:
    """Cut at every place and whole, without the model: that sees the first input of each burst only."""
    return _player().play(seed, inputs)


def check_compiled(data: bytes) -> None:
    """As check_protocol, and by the compiled player."""
    check_protocol(data)
    require(_player().check(data or b"\0"), "has several answers")


# --- subscriptions ---

_TOKENS = (b"a", b"b", b"*", b">", b"a*", b"_INBOX", b"$JS", b"ACK", b"", b"c")


class _Step(NamedTuple):
    """One step of a script of subscriptions: three bytes and more of input."""

    what: int
    queue: bytes | None
    subject: bytes


def _steps(data: bytes) -> list[_Step]:
    steps, at = [], 0
    while at + 2 <= len(data):
        what, length = data[at], data[at + 1] % 6 + 1
        tokens = [_TOKENS[byte % len(_TOKENS)] for byte in data[at + 2 : at + 2 + length]]
        steps.append(_Step(what % 4, None if what & 64 else b"q%d" % (what >> 7), b".".join(tokens) or b"a"))
        at += 2 + length
    return steps


def _random_bytes(random: Random) -> bytes:
    return random.randbytes(random.randint(3, 120))


def naive_match(subject: bytes, pattern: bytes) -> bool:
    """Token by token; a subject with an empty token is matched by nothing."""
    left, right = subject.split(b"."), pattern.split(b".")
    if b"" in left:
        return False
    for at, token in enumerate(right):
        if token == b">" and at == len(right) - 1:
            return len(left) > at
        if at >= len(left) or token not in (b"*", left[at]):
            return False
    return len(left) == len(right)


class _Interest:
    """A router beside a plain list of what was subscribed to."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.tick = Tick(loop)
        self.router = Router("$G", self.tick)
        self.receiver = CallbackReceiver(self.tick, self.count)
        self.live: list[tuple[bytes, bytes | None, Subscription]] = []
        self.got = 0

    def count(self, *message: object) -> None:
        self.got += 1

    def play(self, step: _Step) -> None:
        if step.what == 0 and subjects.valid_subject(step.subject):
            made = self.router.subscribe(self.receiver, step.subject, step.queue)
            self.live.append((step.subject, step.queue, made))
        elif step.what == 1 and self.live:
            self.router.unsubscribe(self.live.pop(len(step.subject) % len(self.live))[2])
        else:
            self.publish(step.subject)
        require(self.router.subscriptions == len(self.live), "subscriptions", self.router.subscriptions)

    def close(self) -> None:
        """Take all back: a router's subscriptions are not for the garbage collector."""
        for _, _, sub in self.live:
            self.router.unsubscribe(sub)
        self.live.clear()

    def publish(self, subject: bytes) -> None:
        matching = [(queue, sub) for pattern, queue, sub in self.live if naive_match(subject, pattern)]
        plain = sum(1 for queue, _ in matching if queue is None)
        expected = plain + len({queue for queue, _ in matching if queue is not None})
        self.got = 0
        told = self.router.publish_bytes(subject, None, b"", b"x")
        self.tick.run()
        require(told == self.got == expected, subject, "delivered", self.got, "told", told, "expected", expected)
        require(self.router.interested(subject) == bool(matching), subject, "interest")
        require(set(self.router.matching(subject)) == {sub for _, sub in matching}, subject, "matching")


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def check_interest(data: bytes) -> None:
    """Subscriptions made, taken back and published to: the trie and its caches against a list."""
    interest = _Interest(_loop())
    try:
        for step in _steps(data):
            interest.play(step)
    finally:
        interest.close()


# --- subjects: two of them, divided by a blank ---

_SUBJECT_WORDS = (b"a", b"b", b".", b".", b".", b"*", b">", b"*.", b">.", b" ", b"aa", b"\t", b"\xff", b"a*")
_LITERALS = [
    b"a",
    b"b",
    b"a.a",
    b"a.b",
    b"b.a",
    b"b.b",
    b"aa",
    b"a.a.a",
    b"a.b.a",
    b"a.a.b.b",
    b"b.aa.b",
    b"a*",
    b"\xff",
]


def check_subjects(data: bytes) -> None:
    """Validity, matching, overlap and inclusion against their definitions."""
    a, _, b = data.partition(b" ")
    for text in (a, b):
        tokens = text.split(b".")
        good = b"" not in tokens and b">" not in tokens[:-1] and not any(blank in text for blank in b" \t\r\n\f")
        require(subjects.valid_subject(text) == good, "valid", text)
        wild = b"*" in tokens or b">" in tokens
        require(subjects.wildcard(text) == wild, "wildcard", text)
        require(subjects.valid_literal(text) == (good and not wild), "literal", text)
    if subjects.valid_subject(b):
        require(subjects.matches(a, b) == naive_match(a, b), "matches", a, b)
    if not (subjects.valid_subject(a) and subjects.valid_subject(b)):
        return
    collide, subset = subjects.collide(a, b), subjects.subset(a, b)
    require(collide == subjects.collide(b, a), "collide is not symmetric", a, b)
    require(collide or not subset, "a subset that does not collide", a, b)
    for literal in _LITERALS:
        in_a, in_b = naive_match(literal, a), naive_match(literal, b)
        require(collide or not (in_a and in_b), "collide", a, b, literal)
        require(not subset or in_b or not in_a, "subset", a, b, literal)


# --- configuration files ---

_CONFIG_WORDS = (
    *(
        b"listen",
        b"port",
        b"authorization",
        b"users",
        b"user",
        b"password",
        b"accounts",
        b"A",
        b"jetstream",
        b"include",
    ),
    *(b"max_payload", b"ping_interval", b"mappings", b"permissions", b"publish", b"subscribe", b"allow", b"deny"),
    *(b"exports", b"imports", b"stream", b"service", b"account", b"tls", b"websocket", b"limits", b"no_auth_user"),
    *(b"token", b"nkey", b"timeout", b"server_tags", b"cert_file", b"weight", b"destination", b"server_metadata"),
    *(
        b"true",
        b"no",
        b"4222",
        b"-1",
        b"1MB",
        b"2m",
        b'"2m"',
        b"1.5",
        b"$2a$11$x",
        b"$A",
        b"$PORT",
        b"2020-01-02T03:04:05Z",
    ),
    *(b"a.*", b"a.>", b"'b'", b'"c\\n"', b"\\x41", b"127.0.0.1:4222", b"(\n", b"\n)\n", b"# c\n", b"// d\n", b"\r\n"),
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b"=",
        b",",
        b";",
        b"\n",
        b" ",
        b" ",
        b" ",
        b"\t",
        b"'",
        b'"',
        b"\\",
        b"$",
        b"-",
        b".",
    ),
    *(b"{", b"}", b": ", b": ", b"\n", b"\n", b"\xff", b"\xc2\xa0", b"/"),
)
_OUTSIDE = (b"/dev", b"/proc", b"/sys")  # files which an `include` would wait for


def _config_input(random: Random) -> bytes:
    data = generate.words(random, _CONFIG_WORDS, 40)
    return generate.mutate(random, data) if random.random() < 0.2 else data


def check_config(data: bytes) -> None:
    """Any text is either a configuration or a ConfigError that says where."""
    if any(place in data for place in _OUTSIDE):
        return
    try:
        load_text(data.decode("utf-8", "surrogateescape"), "x.conf", {"PORT": "4222", "A": "[a, {b: c}]"})
    except ConfigError as error:
        require(bool(str(error)), "an error without a text")


# --- CONNECT ---

_JSON_WORDS = (
    *(b'"verbose":', b'"pedantic":', b'"user":', b'"pass":', b'"protocol":', b'"headers":', b'"NAME":', b'"sig":'),
    *(b'"auth_token":', b'"nkey":', b'"jwt":', b'"no_responders":', b'"echo":', b'"x":', b'"account":'),
    *(
        b"true",
        b"false",
        b"null",
        b"1",
        b"0",
        b"-1",
        b"1e0",
        b"1.0",
        b"9" * 20,
        b'"t"',
        b'"\\u0041"',
        b'"\\ud800"',
        b'""',
    ),
    *(
        b"{",
        b"}",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b",",
        b",",
        b" ",
        b"\n",
        b"\xff",
        b"\0",
        b'"',
        b"\\",
        b"NaN",
        b"Infinity",
    ),
    *(b"[" * 2000, b'{"a":' * 700, b"9" * 3000),
)


def _json_input(random: Random) -> bytes:
    inside = generate.words(random, _JSON_WORDS, 12)
    data = b"{" + inside + b"}" if random.random() < 0.7 else inside
    return generate.mutate(random, data) if random.random() < 0.3 else data


def check_connect(data: bytes) -> None:
    """Any bytes are either options of the right types or a refusal without a text."""
    try:
        options = decode_connect(data)
    except ProtocolError as error:
        require(error.text == "", "text", error.text)
        return
    require(isinstance(options.verbose, bool) and isinstance(options.name, str), "types")
    require(type(options.protocol) is int and -(2**63) <= options.protocol < 2**63, "protocol", options.protocol)


# --- headers: the block ---

_HEADER_WORDS = (
    b"NATS/1.0",
    b"\r\n",
    b"\r\n",
    b"\r\n",
    b"\n",
    b"A",
    b"AB",
    b": ",
    b":",
    b"\t",
    b" ",
    b"x",
    b"\r",
    b"A: b\r\n",
)


def naive_header(block: bytes, name: bytes) -> bytes | None:
    """Line by line; the first line is the status, and a line must have ended."""
    for line in block.split(b"\n")[1:-1]:
        found, colon, value = line.partition(b":")
        if colon and found == name:
            return value.lstrip(b" \t").rstrip(b"\r \t")
    return None


def check_headers(data: bytes) -> None:
    """Values of headers against reading the block line by line."""
    for name in (b"A", b"AB", b"x"):
        require(header_value(data, name) == naive_header(data, name), "header", name, header_value(data, name))


def _of(vocabulary: tuple[bytes, ...], most: int) -> Callable[[Random], bytes]:
    return lambda random: generate.words(random, vocabulary, most)


TARGETS = {
    target.name: target
    for target in (
        Target("protocol", _protocol_input, check_protocol),
        Target("protocol-fast", _compiled_input, check_compiled, _compiled_burst),
        Target("leaf-protocol", _leaf_protocol_input, check_leaf_protocol),
        Target("interest", _random_bytes, check_interest),
        Target("subjects", _of(_SUBJECT_WORDS, 14), check_subjects),
        Target("config", _config_input, check_config),
        Target("connect", _json_input, check_connect),
        Target("headers", _of(_HEADER_WORDS, 20), check_headers),
        *connection_targets.TARGETS,
        store_files.TARGET,
    )
}
