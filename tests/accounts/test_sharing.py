"""What accounts give each other: routers, imports and exports without sockets."""

from __future__ import annotations

import asyncio
import os
import string
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetbroker.accounts.account import Account
from jetbroker.accounts.graph import Export, Graph, ServiceImport, check, work_out
from jetbroker.accounts.services import with_request_info
from jetbroker.accounts.sharing import Sharing
from jetbroker.config.options import (
    AccountOptions,
    ExportOptions,
    ImportOptions,
    MappingDestination,
    MappingOptions,
    Options,
)
from jetbroker.errors import ConfigError
from jetbroker.routing.router import CallbackReceiver
from jetbroker.routing.subscription import Subscription
from jetbroker.routing.transform import Transform
from jetbroker.tick import Tick
from jetbroker.wire.subjects import matches

Message = tuple[bytes, bytes | None, bytes, bytes]


class Bench:
    """Accounts whose deliveries are kept, on a loop that runs only when a test waits for it."""

    def __init__(self, *names: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.tick = Tick(self.loop)
        self.accounts = {name: Account(name, self.tick) for name in names}
        self.sharing = Sharing(SimpleNamespace(server_name="server", cluster=""), "$SYS")

    def apply(self, options: Options) -> Graph:
        graph = check(options)
        self.sharing.apply(self.accounts, graph)
        return graph

    def subscribe(self, account: str, subject: bytes, queue: bytes | None = None) -> tuple[Subscription, list[Message]]:
        got: list[Message] = []
        receiver = CallbackReceiver(self.tick, lambda *message: got.append(message[:4]))
        return self.accounts[account].router.subscribe(receiver, subject, queue), got

    def publish(self, account: str, subject: bytes, reply: bytes | None = None, payload: bytes = b"x") -> int:
        count = self.accounts[account].router.publish_bytes(subject, reply, b"", payload)
        self.tick.run()
        return count

    def wait_until_nothing_is_owed(self, account: str) -> None:
        async def nothing_owed() -> None:
            while self.owed(account):
                await asyncio.sleep(0.01)

        self.loop.run_until_complete(asyncio.wait_for(nothing_owed(), 10))

    def owed(self, account: str) -> int:
        return len(self.accounts[account].router.imports.responses.owed)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench("A", "B", "C", "$G")
    yield made
    made.loop.close()


def accounts(**entries: tuple[list[ExportOptions], list[ImportOptions]]) -> Options:
    return Options(accounts={name: AccountOptions(name, exports=e, imports=i) for name, (e, i) in entries.items()})


def stream_options(subject: str, to: str) -> Options:
    return accounts(A=([ExportOptions("stream", ">")], []), B=([], [ImportOptions("stream", "A", subject, to=to)]))


def service_options(**more: object) -> Options:
    export = ExportOptions("service", "svc.*", **more)  # type: ignore[arg-type]
    return accounts(A=([export], []), B=([], [ImportOptions("service", "A", "svc.*", to="ask.*")]))


TOKENS = st.sampled_from(["a", "b", "x", "*"])
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=4).map(".".join)
PATTERNS = st.tuples(SUBJECTS, st.booleans()).map(lambda parts: parts[0] + ".>" if parts[1] else parts[0])
LITERALS = st.lists(st.sampled_from(["a", "b", "x"]), min_size=1, max_size=5).map(".".join)
LOCALS = {"a.*.b": "x.$1", "*.*": "p.$2.b.$1", "a.>": "x.a.>", "*.>": "b.$1.x.>", "a.b": "x", ">": "a.>", "a.*": ""}


@settings(max_examples=200, deadline=None)
@given(
    imported=st.sampled_from(sorted(LOCALS)),
    interest=st.lists(st.tuples(PATTERNS, st.sampled_from([None, b"q"])), min_size=1, max_size=6),
    published=st.lists(LITERALS, min_size=1, max_size=6),
    gone=st.integers(0, 6),
)
def test_imported_messages_reach_whom_a_naive_matcher_says(
    imported: str, interest: list[tuple[str, bytes | None]], published: list[str], gone: int
) -> None:
    bench = Bench("A", "B", "$G")
    bench.apply(stream_options(imported, LOCALS[imported]))
    router = bench.accounts["A"].router
    live = [(s.encode(), queue, *bench.subscribe("B", s.encode(), queue)) for s, queue in interest]
    for place, (_, _, sub, _) in enumerate(list(live)):
        if place == gone:
            bench.accounts["B"].router.unsubscribe(sub)
            del live[place]
    local = Transform(imported.encode(), (LOCALS[imported] or imported.replace("*", "$1")).encode())
    for subject in published:
        bench.publish("A", subject.encode(), payload=subject.encode())
        seen = local.transform(subject.encode())
        for pattern, queue, _, got in live:
            meant = seen is not None and matches(seen, pattern)
            assert meant or not got
            assert queue is not None or len(got) == meant
            assert all(message[0] == seen for message in got)
        # members of a group on one subject share it; on different subjects of one group, too
        together = sum(len(got) for _, queue, _, got in live if queue is not None)
        assert together == any(q is not None and seen is not None and matches(seen, p) for p, q, _, _ in live)
        for *_, got in live:
            got.clear()
    for _, _, sub, _ in live:
        bench.accounts["B"].router.unsubscribe(sub)
    assert router.subscriptions == 0
    bench.loop.close()


def test_replies_are_made_of_the_systems_random_numbers(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can guess them answers in somebody's place."""
    drawn = bytearray()
    draw = os.urandom

    def watched(size: int) -> bytes:
        drawn.extend(draw(size))
        return bytes(drawn[-size:])

    bench.apply(service_options())
    monkeypatch.setattr(os, "urandom", watched)
    _, asked = bench.subscribe("A", b"svc.*")
    for number in range(600):  # more than are drawn at once
        bench.publish("B", b"ask.me", b"in.%d" % number)
    letters = (string.digits + string.ascii_uppercase + string.ascii_lowercase).encode()
    made = bytes(letters[byte % 62] for byte in drawn if byte < 248)
    tokens = b"".join(message[1].split(b".")[2] for message in asked if message[1] is not None)
    at = tokens.index(made[:32])
    assert made.startswith(tokens[at:])


def test_a_request_and_its_answer(bench: Bench) -> None:
    bench.apply(service_options())
    _, asked = bench.subscribe("A", b"svc.*")
    _, answers = bench.subscribe("B", b"in.*")
    assert bench.publish("B", b"ask.me", b"in.1") == 1
    ((subject, reply, headers, payload),) = asked
    assert (subject, headers, payload) == (b"svc.me", b'NATS/1.0\r\nNats-Request-Info: {"acc":"B"}\r\n\r\n', b"x")
    assert reply is not None and reply.startswith(b"_R_.") and len(reply) == 27
    assert bench.owed("A") == 1
    bench.publish("A", reply, payload=b"yes")
    bench.publish("A", reply, payload=b"again")
    assert answers == [(b"in.1", None, b"", b"yes")]
    assert bench.owed("A") == 0


def test_an_answer_may_be_a_request(bench: Bench) -> None:
    """The reply subject is the name of another service: the responder is who asks that."""
    options = service_options()
    options.accounts["C"] = AccountOptions("C", exports=[ExportOptions("service", "third")])
    options.accounts["B"].imports.append(ImportOptions("service", "C", "third"))
    bench.apply(options)
    _, asked = bench.subscribe("A", b"svc.*")
    _, third = bench.subscribe("C", b"third")
    bench.publish("B", b"ask.me", b"third")
    assert asked[0][1] is not None
    bench.publish("A", asked[0][1], payload=b"yes")
    assert [(message[0], message[3]) for message in third] == [(b"third", b"yes")]


def test_nobody_takes_a_request(bench: Bench) -> None:
    bench.apply(service_options())
    assert bench.publish("B", b"ask.me", b"in.1") == 0
    assert bench.owed("A") == 0


def test_requests_are_forgotten_after_the_exports_time(bench: Bench) -> None:
    bench.apply(service_options(response_threshold=0.05, response_type="Stream"))
    bench.subscribe("A", b"svc.*")
    for number in range(100):
        bench.publish("B", b"ask.me", b"in.%d" % number)
    assert bench.owed("A") == 100
    bench.wait_until_nothing_is_owed("A")


@pytest.mark.parametrize("interest", [b"in.1", b"in.*", b"in.>"])
def test_requests_are_forgotten_with_the_requestors_interest(bench: Bench, interest: bytes) -> None:
    bench.apply(service_options(response_type="Stream"))
    bench.subscribe("A", b"svc.*")
    sub, _ = bench.subscribe("B", interest)
    bench.publish("B", b"ask.me", b"in.1")
    assert bench.owed("A") == 1
    bench.accounts["B"].router.unsubscribe(sub)
    bench.wait_until_nothing_is_owed("A")


def test_an_exporter_knows_where_its_answers_end() -> None:
    bench = Bench("$G", "N0", "N1", "N2")
    bench.apply(chain(3))
    _, asked = bench.subscribe("N0", b"s")
    sub, _ = bench.subscribe("N2", b"in.1")
    bench.publish("N2", b"s", b"in.1")
    exporter, reply = bench.accounts["N0"].router, asked[0][1]
    assert exporter.imports.asker_of(reply) == (bench.accounts["N2"].router, b"in.1")
    assert exporter.imports.asker_of(b"_R_.of.nobody") == (exporter, b"_R_.of.nobody")
    bench.accounts["N2"].router.unsubscribe(sub)
    assert exporter.imports.asker_of(reply) is None
    bench.loop.close()


def test_mappings_of_the_exporter_hold_for_requests(bench: Bench) -> None:
    options = service_options()
    options.accounts["A"].mappings = [MappingOptions("svc.old", [MappingDestination("new")])]
    bench.apply(options)
    _, asked = bench.subscribe("A", b"new")
    assert bench.publish("B", b"ask.old") == 1
    assert asked[0][0] == b"new"


def test_a_reload_gives_and_takes(bench: Bench) -> None:
    sub, got = bench.subscribe("B", b"s.*")
    bench.apply(accounts(A=([], []), B=([], [])))
    bench.publish("A", b"s.1")
    assert not got
    with_stream = stream_options("s.*", "")
    bench.apply(with_stream)
    bench.publish("A", b"s.2")
    assert [message[0] for message in got] == [b"s.2"]
    bench.apply(with_stream)  # the same again: nothing comes twice
    bench.publish("A", b"s.3")
    assert [message[0] for message in got] == [b"s.2", b"s.3"]
    bench.apply(accounts(A=([], []), B=([], [])))
    bench.publish("A", b"s.4")
    assert len(got) == 2
    assert bench.accounts["A"].router.subscriptions == 0
    assert not sub.closed


def test_a_reload_leaves_requests_that_are_under_way(bench: Bench) -> None:
    bench.apply(service_options())
    _, asked = bench.subscribe("A", b"svc.*")
    _, answers = bench.subscribe("B", b"in.*")
    bench.publish("B", b"ask.me", b"in.1")
    bench.apply(service_options())
    assert asked[0][1] is not None
    bench.publish("A", asked[0][1], payload=b"yes")
    assert [message[3] for message in answers] == [b"yes"]
    bench.apply(accounts(A=([], []), B=([], [])))
    assert bench.publish("B", b"ask.me", b"in.1") == 0


def test_an_account_that_is_gone_takes_its_part_along(bench: Bench) -> None:
    bench.apply(stream_options("s.*", ""))
    _, got = bench.subscribe("B", b"s.*")
    gone = bench.accounts.pop("B")
    bench.apply(accounts(A=([ExportOptions("stream", ">")], [])))
    bench.publish("A", b"s.1")
    assert not got
    assert bench.accounts["A"].router.subscriptions == 0
    assert gone.router.subscriptions == 1


# --- cycles, depth ---


def chain(length: int) -> Options:
    """Each account imports the service `s` of the one before."""
    entries = {"N0": AccountOptions("N0", exports=[ExportOptions("service", "s")])}
    for number in range(1, length):
        imports = [ImportOptions("service", f"N{number - 1}", "s")]
        entries[f"N{number}"] = AccountOptions(f"N{number}", exports=[ExportOptions("service", "s")], imports=imports)
    return Options(accounts=entries)


def test_a_request_through_very_many_accounts() -> None:
    bench = Bench("$G", *(f"N{number}" for number in range(1000)))
    bench.apply(chain(1000))
    _, asked = bench.subscribe("N0", b"s")
    assert bench.publish("N999", b"s") == 1
    assert b'"acc":"N999"' in asked[0][2] and b'"svc":"N1"' in asked[0][2]
    bench.loop.close()


def test_more_accounts_in_a_row_than_a_search_may_follow_are_refused() -> None:
    with pytest.raises(ConfigError, match="search cycle depth exhausted"):
        check(chain(1030))


def test_a_cycle_that_was_not_refused_ends_at_run_time(bench: Bench) -> None:
    exports = {name: Export(name, b"s") for name in "AB"}
    graph = bench.apply(Options(accounts={name: AccountOptions(name) for name in "AB"}))
    for importer, exporter in ("AB", "BA"):
        graph[importer].services = [ServiceImport(exporter, b"s", b"s", exports[exporter], None, False, False)]
    bench.sharing.apply(bench.accounts, graph)
    assert bench.publish("A", b"s", b"in") == 0
    _, got = bench.subscribe("B", b"s")
    assert bench.publish("A", b"s", b"in") == 1
    assert len(got) == 1


NAMES = ["A", "B", "C", "D"]
IMPORTS = st.builds(
    lambda kind, importer, exporter, subject, to: (importer, ImportOptions(kind, exporter, subject, to=to)),
    st.sampled_from(["stream", "service"]),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.sampled_from(["x", "x.a", "x.*", "y.>", ">"]),
    st.sampled_from(["", "x", "x.a", "y.$1", "y.*"]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(IMPORTS, max_size=10))
def test_any_graph_is_refused_or_bounded(entries: list[tuple[str, ImportOptions]]) -> None:
    options = Options(accounts={name: AccountOptions(name) for name in NAMES})
    for account in options.accounts.values():
        account.exports = [ExportOptions(kind, ">") for kind in ("stream", "service")]
    for importer, entry in entries:
        options.accounts[importer].imports.append(entry)
    try:
        check(options)
    except ConfigError:
        return
    bench = Bench("$G", *NAMES)
    bench.apply(options)
    got = [bench.subscribe(name, b">")[1] for name in NAMES]
    for name in NAMES:
        for subject in (b"x", b"x.a", b"y.b"):
            for messages in got:
                messages.clear()
            bench.publish(name, subject, b"in")
            assert sum(map(len, got)) <= len(NAMES) * (len(entries) + 1) ** 2
    bench.loop.close()


# --- headers ---


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (b"", b"NATS/1.0\r\nNats-Request-Info: I\r\n\r\n"),
        (b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nNats-Request-Info: I\r\n\r\n"),
        (b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0\r\nA: b\r\nNats-Request-Info: I\r\n\r\n"),
        *(
            (b"NATS/1.0\r\n" + forged + b"A: b\r\n\r\n", b"NATS/1.0\r\nA: b\r\nNats-Request-Info: I\r\n\r\n")
            for forged in (
                b"Nats-Request-Info: x\r\n",
                b"nats-request-info: x\r\n",
                b"NATS-REQUEST-INFO:x\r\n",
                b"Nats-Request-Info : x\r\n",
                b" Nats-Request-Info: x\r\n",
                b"Nats-Request-Info: x\r\n more\r\n\tand more\r\n",
                b"Nats-Request-Info: x\nNats-Request-Info: y\r\n",
            )
        ),
    ],
)
def test_nobody_can_say_who_asks_but_the_server(block: bytes, expected: bytes) -> None:
    assert with_request_info(block, b"I") == expected


@given(st.lists(st.sampled_from([b"Nats-Request-Info", b"NATS-request-INFO", b":", b" x", b"\r\n", b"\n", b" "])))
def test_one_such_header_is_left_whatever_was_sent(parts: list[bytes]) -> None:
    block = with_request_info(b"NATS/1.0\r\n" + b"".join(parts) + b"\r\n\r\n", b"I")
    names = [line.partition(b":")[0].strip().lower() for line in block.replace(b"\r", b"\n").split(b"\n")]
    assert names.count(b"nats-request-info") == 1
    assert block.endswith(b"Nats-Request-Info: I\r\n\r\n")


def test_an_import_that_cannot_be_undone(bench: Bench) -> None:
    """Its local subject has a wildcard of its own: who subscribes to less than that gets nothing, and that is all."""
    imports = [ImportOptions("stream", "A", "a.*", to="t.*.$1")]
    bench.apply(accounts(A=([ExportOptions("stream", "a.*")], []), B=([], imports)))
    everything, narrower = bench.subscribe("B", b">")[1], bench.subscribe("B", b"t.x.y")[1]
    bench.publish("A", b"a.y")
    assert len(everything) == 1
    assert narrower == []


@pytest.mark.parametrize("position", [-1, 2, 3])
@pytest.mark.parametrize("kind", ["stream", "service"])
def test_an_export_with_a_wrong_token_position_is_none(kind: str, position: int) -> None:
    """What is left of it would be open to every account."""
    export = ExportOptions(kind, "*.a", token_position=position)
    graph, flaws = work_out(accounts(A=([export], []), B=([], [ImportOptions(kind, "A", "B.a")])))
    assert [flaw.what for flaw in flaws] == [f"{kind} export", f"{kind} import"]
    assert not graph["A"].stream_exports
    assert not graph["A"].service_exports
    assert not graph["B"].streams
    assert not graph["B"].services
