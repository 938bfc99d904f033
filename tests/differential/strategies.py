"""Scripts for hypothesis: one to four clients, commands good and bad, cut anywhere."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from tests.differential.variants import Variant
from tests.support.scripts import Script, Step

OPTIONS = (
    b'"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"protocol":1',
    b'"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"protocol":1,"echo":false',
    b'"verbose":true,"pedantic":false,"headers":true,"protocol":0',
    b'"verbose":true,"pedantic":true,"headers":true,"no_responders":true',
    b'"verbose":false,"pedantic":false,"headers":false',
    b'"lang":"x","version":"1"',
)
BAD_OPTIONS = (
    b'"verbose":1',
    b'"protocol":2',
    b'"no_responders":true',
    b'"account":"A"',
    b'"x":}',
)
CLOSING = (
    b"X\r\n",
    b"SUB \r\n",
    b"PUB a\r\n",
    b"\r\n",
    b"PUB foo.a -1\r\n",
    b"-ERR 'x'\r\n",
    b"INFO {\r\n",
    b"QUIT\r\n",
    b"HPUB foo.a 5 4\r\nabcd\r\n",
    b"PUB foo.a 1\r\nxyz",
    b"PUB foo.a 1048577\r\n",
    b"SUB foo.a 1 2 3\r\n",
    b"UNSUB " + b"1" * 4097 + b"\r\n",
    b"CONNECT {\r\n",
)
# taken, refused, or taken for something else: the connection stays
ODD = (
    b"SUB foo.a _sys_ 1\r\n",
    b"SUB foo..a 1\r\n",
    b"SUB foo.>.a 2\r\n",
    b"UNSUB 1 x\r\n",
    b"UNSUB 2 -1\r\n",
    b"UNSUB nobody 3\r\n",
    b"UNSUB 1 0000000009\r\n",
    b"PUB $NRG.foo 1\r\nx\r\n",
    b"PUB _GR_.foo foo.r.1 1\r\nx\r\n",
    b"PUB foo.a $JS.ACK.foo 1\r\nx\r\n",
    b"PUB _R_.foo foo.r.1 1\r\nx\r\n",
)
HARMLESS = (b"PONG\r\n", b"+OK\r\n", b"INFO {}\r\n", b"pong x\n", b"+ok then\r\n")
BLANKS = (b" ", b" ", b" ", b"  ", b"\t")
ENDS = (b"\r\n", b"\r\n", b"\n")
INVALID = (b"foo..a", b"foo.a.")


class Command(NamedTuple):
    """`%(serial)` is still to be put into payloads, so that no two are equal."""

    data: bytes
    size: int | None = None  # of the payload, None: none
    pongs: int = 0


def commands(variant: Variant) -> st.SearchStrategy[Command]:
    """One command of a client that is logged in."""
    pick = st.sampled_from
    tokens = pick([b"foo." + token for token in variant.tokens])
    literals = pick([b"foo." + token for token in variant.tokens if b"*" not in token and b">" not in token])
    patterns = st.one_of(tokens, tokens, pick([b"foo.>", b"foo.*", b"foo.*.*", b"foo", b"foo.r.*", *INVALID]))
    targets = st.one_of(literals, literals, literals, pick([b"foo", b"foo.*", b"foo.r.1", *INVALID]))
    replies = st.one_of(st.none(), st.none(), pick([b"foo.r.1", b"foo.r.2", b"_R_.x", b"foo..r", b"_INBOX.foo.1"]))
    sids, queue_sids = pick([b"1", b"2", b"3", b"s"]), pick([b"1", b"2"])

    def publish(
        target: bytes, reply: bytes | None, size: int, headers: bytes | None, blank: bytes, end: bytes
    ) -> Command:
        words = [b"PUB" if headers is None else b"HPUB", target, *([] if reply is None else [reply])]
        head = blank.join(words + ([] if headers is None else [b"%d" % len(headers)])) + blank + b"SIZE" + end
        return Command(head + (headers or b""), size)

    def subscribe(subject: bytes, sid: bytes, blank: bytes, end: bytes) -> Command:
        return Command(blank.join([b"SUB", subject, sid]) + end)

    def join(subject: bytes, queue: bytes, sid: bytes) -> Command:
        return Command(b"SUB %b %b %b-%b\r\n" % (subject, queue, queue, sid))

    headers = st.one_of(st.none(), st.none(), pick([b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n", b"", b"odd"]))
    blanks, ends = pick(BLANKS), pick(ENDS)
    return st.one_of(
        st.builds(publish, targets, replies, pick(variant.sizes), headers, blanks, ends),
        st.builds(publish, targets, replies, pick(variant.sizes), headers, blanks, ends),
        st.builds(subscribe, patterns, sids, blanks, ends),
        st.builds(subscribe, patterns, sids, blanks, ends),
        st.builds(join, patterns, pick([b"Q1", b"Qw"]), queue_sids),
        st.builds(lambda sid, most: Command(b"UNSUB " + sid + most + b"\r\n"), sids, pick([b"", b" 1", b" 2", b" 0"])),
        st.builds(lambda sid, queue: Command(b"UNSUB %b-%b\r\n" % (queue, sid)), queue_sids, pick([b"Q1", b"Qw"])),
        st.just(Command(b"PING\r\n", pongs=1)),
        pick(HARMLESS + ODD).map(Command),
    )


def _render(chosen: list[Command], serial: int) -> bytes:
    """The commands' bytes, each payload with a number of its own."""
    parts = []
    for number, command in enumerate(chosen):
        data = command.data
        if command.size is not None:
            payload = b"%d.%d" % (serial, number) + b"x" * command.size
            head, _, headers = data.partition(b"SIZE")
            before = len(headers) - (2 if headers.startswith(b"\r\n") else 1)
            data = head + b"%d" % (before + len(payload)) + headers + payload + b"\r\n"
        parts.append(data)
    return b"".join(parts)


@st.composite
def scripts(draw: st.DrawFn, variant: Variant, most_steps: int = 12) -> Script:
    """A whole script for this configuration."""
    clients = draw(st.integers(1, 4))
    logins = tuple(draw(st.sampled_from(list(variant.logins))) for _ in range(clients))
    one, cuts = commands(variant), st.lists(st.integers(1, 60), max_size=2).map(tuple)
    steps: list[Step] = []
    for client in range(clients):
        if draw(st.integers(0, 9)):  # else: commands before any CONNECT
            options = draw(st.sampled_from(OPTIONS + OPTIONS + OPTIONS + BAD_OPTIONS))
            steps.append(Step(client, b"CONNECT {LOGIN%b}\r\n" % options, draw(cuts)))
    for serial in range(draw(st.integers(1, most_steps))):
        client = draw(st.integers(0, clients - 1))
        kind = draw(st.integers(0, 19))
        if kind == 0:
            steps.append(Step(client, draw(st.sampled_from(CLOSING))))
        elif kind == 1:
            login = draw(st.sampled_from([None, *(variant.logins if variant.moves else ())]))
            again = b"CONNECT {LOGIN%b}\r\n" % draw(st.sampled_from(OPTIONS))
            steps.append(Step(client, again, draw(cuts), login=login))
        else:
            chosen = draw(st.lists(one, min_size=1, max_size=7))
            pongs = sum(command.pongs for command in chosen)
            steps.append(Step(client, _render(chosen, serial), draw(cuts), pongs))
    return Script(logins, tuple(steps))
