"""Imports and exports between accounts, and mappings, against nats-server."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jetbroker.accounts import graph
from jetbroker.config.loader import load_text
from jetbroker.errors import ConfigError
from tests.support import process
from tests.support.sharing import Step, play

CONFIG = """
jetstream { store_dir: "%s" }
accounts {
  A { users: [{user: a, password: p}], jetstream: enabled
      mappings { "svc.old": "svc.new", "gone.*": "{{split(1,-)}}" }
      exports: [
        {stream: "s.>"}, {stream: "lit"}, {stream: "t.*.*"}, {stream: "u.*.>"}, {stream: "own.*", accounts: [B]}
        {service: "svc.*"}, {service: "two.*.*"}, {service: "many", response: stream}, {service: "plain"}
        {service: "gone.*"}, {service: "s.svc"}
        {service: "$JS.API.>", response: stream}, {service: "$JS.ACK.>"}
        {service: "acc.*.x", account_token_position: 2}, {stream: "tok.*", account_token_position: 2}
      ] }
  B { users: [
        {user: b, password: p}, {user: d, password: p, permissions: {
          subscribe: {deny: ["pre.s.no", "loc"]}, publish: {allow: ["svc.*"], deny: "svc.no"}, allow_responses: true}}
      ]
      mappings { "asked": "svc.one" }
      imports: [
        {stream: {account: A, subject: "s.>"}, prefix: "pre"}, {stream: {account: A, subject: "lit"}, to: "loc"}
        {stream: {account: A, subject: "t.*.*"}, to: "tt.$2.x.$1"}
        {stream: {account: A, subject: "u.*.>"}, to: "v.$1.>"}
        {stream: {account: A, subject: "own.*"}}, {stream: {account: A, subject: "tok.B"}}
        {service: {account: A, subject: "svc.*"}}
        {service: {account: A, subject: "two.*.*"}, to: "l.$2.$1", share: true}
        {service: {account: A, subject: "many"}}, {service: {account: A, subject: "plain"}, to: "p.*"}
        {service: {account: A, subject: "gone.*"}}, {service: {account: A, subject: "s.svc"}}
        {service: {account: A, subject: "$JS.API.>"}}
        {service: {account: A, subject: "$JS.ACK.>"}}, {service: {account: A, subject: "acc.B.x"}}
      ]
      exports: [ {stream: "pre.s.>"}, {service: "svc.*"}, {service: "l.*.*"} ] }
  C { users: [{user: c, password: p}]
      imports: [
        {stream: {account: B, subject: "pre.s.>"}}, {service: {account: B, subject: "svc.*"}, to: "c.svc.*"}
        {service: {account: B, subject: "l.*.*"}, share: true}
      ] }
}
"""
INFO = "NATS/1.0\r\nNats-Request-Info: forged\r\nB: c\r\n\r\n"
STREAM = '{"name":"S","subjects":["js.*"],"storage":"memory"}'
CONSUMER = '{"stream_name":"S","config":{"name":"D","durable_name":"D","ack_policy":"explicit"}}'
say, publish = Step, Step.publish
SCENARIOS: dict[str, list[Step]] = {
    "streams": [
        say("b", "SUB pre.s.* 1\r\nSUB > 2\r\nSUB pre.*.x q 3\r\n"), say("c", "SUB pre.> 1\r\n"),
        publish("a", "s.x", "1", "back"), publish("a", "lit", "2"), publish("b", "pre.s.x", "3"),
        publish("a", "t.1.2", "4"), publish("a", "u.1.2.3", "5"), publish("a", "own.x"), publish("a", "tok.B"),
        publish("a", "tok.C"), say("b", "UNSUB 2\r\nUNSUB 1 1\r\n"), publish("a", "s.x"), publish("a", "s.x"),
        publish("b", "pre.s.x"), publish("a", "s.x"),
    ],
    "service": [
        say("a", "SUB svc.> 9\r\nSUB svc.* q 10\r\n"), say("b", "SUB in.* 1\r\nSUB svc.* 2\r\n"),
        publish("b", "svc.one", "q", "in.1"), publish("a", "{reply}", "yes"), publish("a", "{reply}", "again"),
        publish("b", "svc.one", "no reply"), publish("b", "asked", "mapped here", "in.2"),
        publish("b", "svc.old", "mapped there", "in.3"), publish("b", "acc.B.x", "q", "in.4"),
    ],
    "headers": [
        say("a", "SUB svc.* 9\r\n"), publish("b", "svc.a", "q", "", "NATS/1.0\r\nA: b\r\n\r\n"),
        publish("b", "svc.a", "q", "", INFO), publish("b", "svc.a", "q", "", "NATS/1.0 503\r\n\r\n"),
        publish("b", "svc.a", "q", "", "abcdef"), say("b", "HPUB svc.a 0 1\r\nq\r\n"),
    ],
    "answers": [
        say("a", "SUB many 9\r\nSUB svc.* 9\r\nSUB back 10\r\n"), say("b", "SUB in.* 1\r\n"),
        publish("b", "many", "q", "in.1"), publish("a", "{reply}", "1"), publish("a", "{reply}", "2", "back"),
        publish("b", "{reply}", "and back"), publish("b", "many", "q", "in.2"), publish("a", "{reply}", "1"),
        publish("a", "{reply}", "", "", "NATS/1.0\r\nA: b\r\n\r\n"), publish("a", "{reply}", ""),
        publish("a", "{reply}", "late", "back"), publish("b", "svc.a", "q", "in.nobody.here"),
        publish("a", "{reply}", "1", "back"), publish("a", "_R_.none.x", "1", "back"),
        say("b", "SUB one 5\r\n"), publish("b", "many", "q", "one"), publish("a", "{reply}", "1"),
        say("b", "UNSUB 5\r\nSUB one 6\r\n"), publish("a", "{reply}", "2"),
    ],
    "nobody answers": [
        say("b", "SUB in.* 1\r\n"), publish("b", "svc.a", "q", "in.1"), publish("b", "l.1.2", "q", "in.2"),
        say("c", "SUB in.* 1\r\n"), publish("c", "c.svc.a", "q", "in.1"), publish("b", "p.x", "q", "in.3"),
        publish("b", "gone.-", "lost", "in.4"), publish("b", "gone.a-b", "q", "in.5"),
    ],
    "through two accounts": [
        say("a", "SUB svc.* 9\r\nSUB two.*.* 9\r\n"), say("b", "SUB svc.* 8\r\n"), say("c", "SUB in.* 1\r\n"),
        publish("c", "c.svc.a", "q", "in.1"), publish("a", "{reply}", "yes"), publish("c", "l.1.2", "q", "in.2"),
        publish("a", "{reply}", "yes"),
    ],
    "an answer that is a request": [
        say("a", "SUB svc.* 9\r\nSUB acc.*.x 9\r\nSUB back 9\r\n"), publish("b", "svc.a", "q", "acc.B.x"),
        publish("a", "{reply}", "yes", "back"), publish("a", "{reply}", "and"), publish("b", "svc.a", "q", "svc.b"),
        publish("a", "{reply}", "again", "back"), publish("a", "{reply}", "and"),
    ],
    "permissions": [
        say("d", "SUB pre.s.> 1\r\nSUB pre.s.no 2\r\nSUB > 3\r\nSUB in 4\r\n"), say("a", "SUB svc.* 9\r\n"),
        *(publish("a", subject, subject) for subject in ("s.no", "s.yes", "lit", "s.x.no")),
        *(publish("d", subject, "q", "in") for subject in ("svc.no", "svc.a", "l.1.2", "p.x")),
        publish("a", "{reply}", "yes", "back"), publish("d", "{reply}", "once"), publish("d", "{reply}", "twice"),
    ],
    "shared details": [
        say("a", "SUB two.*.* 9\r\nSUB plain 9\r\n"), publish("b", "l.x.y", "q"), publish("b", "l.x.y", "q", "", INFO),
        publish("b", "p.q", "q", "in"), publish("b", "p.q.r", "q", "in"),
    ],
    "echo": [
        say("a", "SUB svc.* 9\r\n"), say("b-", "SUB svc.one 1\r\nSUB pre.s.> 2\r\nSUB in 3\r\n"),
        publish("b-", "svc.one", "q", "in"), publish("a", "{reply}", "yes"), publish("b-", "svc.two", "q", "in"),
        say("a", "SUB s.svc 12\r\n"), say("b", "SUB pre.> 12\r\n"), publish("b-", "s.svc", "there and back"),
        publish("b", "s.svc", "there and back"),
    ],
    "a pull request whose requestor is gone": [
        say("b", "SUB in.* 1\r\nSUB pull 2\r\n"), publish("b", "$JS.API.STREAM.CREATE.S", STREAM, "in.1", expects=1),
        publish("b", "$JS.API.CONSUMER.CREATE.S.D", CONSUMER, "in.2", expects=1),
        publish("b", "$JS.API.CONSUMER.MSG.NEXT.S.D", '{"batch":1,"expires":60000000000}', "pull"),
        say("b", "UNSUB 2\r\nSUB again 3\r\n"), publish("a", "js.one", "m1"),
        publish("b", "$JS.API.CONSUMER.MSG.NEXT.S.D", '{"batch":1,"expires":60000000000}', "again", expects=1),
        publish("b", "$JS.API.STREAM.DELETE.S", "", "in.4", expects=1),
    ],
    "JetStream": [
        say("b", "SUB in.* 1\r\nSUB in.*.* 2\r\n"),
        publish("b", "$JS.API.STREAM.CREATE.S", STREAM, "in.1", expects=1),
        publish("a", "js.one", "m1"), publish("a", "js.two", "m2"), publish("a", "js.three", "m3"),
        publish("b", "$JS.API.CONSUMER.CREATE.S.D", CONSUMER, "in.2", expects=1),
        publish("b", "$JS.API.CONSUMER.MSG.NEXT.S.D", '{"batch":2,"expires":60000000000}', "in.pull.1", expects=2),
        publish("b", "$JS.API.STREAM.MSG.GET.S", '{"seq":2}', "in.3", expects=1),
        publish("b", "$JS.API.STREAM.DELETE.S", "", "in.4", expects=1),
    ],
}  # fmt: skip


TRIES = 3  # nats-server may give the message to the requestor that is gone, and again only after a while


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """nats-server's and ours, with the same configuration."""
    if process.find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    servers = []
    for make in (process.nats_server, process.jetbroker):
        folder = tmp_path_factory.mktemp("sharing")
        config = folder / "server.conf"
        config.write_text(CONFIG % folder, encoding="utf-8")
        servers.append(make("-c", str(config)))
    with servers[0] as theirs, servers[1] as ours:
        yield theirs.port, ours.port


def without_times(told: list[str]) -> list[str]:
    """Of JetStream's answers: the times, and the time in an ack subject."""
    told = [re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "T", line) for line in told]
    told = [re.sub(r"(\$JS\.ACK\.S\.D\.\d+\.\d+\.\d+)\.\d+", r"\1.T", line) for line in told]
    told = [re.sub(r'"(_nats.ver|ts)":"[^"]*"', r'"\1":""', line) for line in told]
    return [re.sub(r"(MSG \S+ \S+(?: \S+)?) \d+\\r\\n\{", r"\1 N\\r\\n{", line) for line in told]


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios(ports: tuple[int, int], name: str) -> None:
    clients = sorted({step.client for step in SCENARIOS[name]} | {"a", "b", "c"})
    for _ in range(TRIES):
        theirs, ours = (without_times(play(port, clients, SCENARIOS[name])) for port in ports)
        if ours == theirs:
            return
    assert "\n".join(ours) == "\n".join(theirs)


TOKENS = st.sampled_from(["pre", "s", "x", "loc", "lit", "tt", "v", "1", "*", "*", "own", "t", "u"])
SUBSCRIBED = st.tuples(st.lists(TOKENS, min_size=1, max_size=5), st.booleans()).map(
    lambda parts: ".".join([*parts[0], *([">"] if parts[1] else [])])
)
PUBLISHED = st.sampled_from(["s.x", "s.x.1", "s.1.x.s", "lit", "t.x.1", "t.1.x", "u.1.x", "u.x.1.s", "own.x", "t.1"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    subscribed=st.lists(st.tuples(SUBSCRIBED, st.sampled_from(["", "q"])), min_size=1, max_size=6),
    published=st.lists(PUBLISHED, min_size=1, max_size=4),
    gone=st.lists(st.integers(1, 6), max_size=2),
)
def test_any_subscription_gets_of_imported_streams_what_it_gets_there(
    ports: tuple[int, int], subscribed: list[tuple[str, str]], published: list[str], gone: list[int]
) -> None:
    subs = "".join(f"SUB {subject} {queue} {sid}\r\n" for sid, (subject, queue) in enumerate(subscribed, 1))
    steps = [say("b", subs), *(publish("a", subject, subject) for subject in published)]
    steps += [say("b", "".join(f"UNSUB {sid}\r\n" for sid in gone)), publish("a", "s.x", "again")]
    theirs, ours = (play(port, "ab", steps) for port in ports)
    assert same_queue_member(ours) == same_queue_member(theirs)


def same_queue_member(told: list[str]) -> list[str]:
    """Which member of a group gets a message is left to chance: not told, only how many messages there are."""
    return sorted(re.sub(r"(MSG \S+) \d+", r"\1 sid", line) for line in told)


def faults(text: str) -> list[str]:
    """What ours says of a configuration, without the places."""
    try:
        graph.check(load_text(text).options)
    except ConfigError as error:
        return sorted(re.sub(r"^\S*\d+:\d+: ", "", line) for line in str(error).splitlines())
    return []


def take(kind: str, subject: str, rest: str = "", account: str = "A") -> str:
    return f'{{{kind}: {{account: {account}, subject: "{subject}"}}{rest}}},'


BAD = {  # exports of A, imports of B, exports of B, imports of C, exports of C
    "not authorized": (
        '{stream: "x.>", accounts: [C]}, {service: "sv", accounts: [C]}',
        take("stream", "x.y") + take("service", "sv") + take("service", "no"),
    ),
    "token": (
        '{stream: "x.*", account_token_position: 2}, {service: "sv.*", account_token_position: 2}',
        take("stream", "x.C") + take("stream", "x.*") + take("stream", "x.B") + take("service", "sv.B")
        + take("service", "sv.C"),
    ),
    "token of an export": (
        '{stream: "x", account_token_position: 2}, {service: "x.*", account_token_position: 1}', "",
    ),
    "twice": (
        '{stream: "x.>"}, {service: "sv.>"}',
        take("stream", "x.a") + take("stream", "x.a", ', to: "z"') + take("service", "sv.a"),
    ),
    "streams": (
        '{stream: "x.>"}',
        take("stream", "x.*", ', prefix: "p.*"') + take("stream", "x.*", ', to: "z"')
        + take("stream", "x.*.*", ', to: "z.*"') + take("stream", "x.b.*", ', to: "z.{{partition(5,1)}}"'),
    ),
    "services": (
        '{service: "x.>"}',
        take("service", "x.*", ', to: "z"') + take("service", "x.*.*", ', to: "z.*"')
        + take("service", "x.b.*", ', to: "z.{{partition(5,1)}}"') + take("service", "x.c.*", ', to: "z.$2"'),
    ),
    "stream cycle": (
        '{stream: "x.>"}', take("stream", "x.>", account="C"), '{stream: "x.>"}', take("stream", "x.>", account="B"),
        '{stream: "x.>"}',
    ),
    "service cycle": (
        '{service: "x.>"}', take("service", "x.>", account="C"), '{service: "x.>"}',
        take("service", "x.>", account="B"), '{service: "x.>"}',
    ),
    "import of its own": ('{service: "x.>"}', take("service", "x.a", ', to: "y.a"', "B"), '{service: "x.>"}'),
    "good": ('{stream: "x.>", accounts: [B]}', take("stream", "x.>", ', to: "y.>"')),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_refused_alike(tmp_path: Path, name: str) -> None:
    program = process.find_nats_server()
    if program is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    exports, imports, exports_b, imports_c, exports_c = (*BAD[name], "", "", "")[:5]
    text = (
        f"accounts {{\nA {{ exports: [ {exports} ] }}\nB {{ imports: [ {imports} ]\n exports: [ {exports_b} ] }}\n"
        f"C {{ imports: [ {imports_c} ]\n exports: [ {exports_c} ] }}\n}}\n"
    )
    config = tmp_path / "test.conf"
    config.write_text(text, encoding="utf-8")
    done = subprocess.run([program, "-t", "-c", str(config)], capture_output=True, text=True, timeout=30)
    theirs = re.findall(r"test\.conf:\d+:\d+: (.*)", done.stderr) if done.returncode else []
    assert faults(text) == sorted(theirs)
