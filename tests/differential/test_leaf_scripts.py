"""Random conversations of clients and links: both servers tell and deliver the same.

Each queue group has all its members in one place: which place a message goes to is left to chance otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.differential.leaf_steps import UP, client, connect, leaf, says
from tests.support.daemon import Daemon
from tests.support.leaf_conversations import Conversation, Stage, Step
from tests.support.leaf_peer import Listener
from tests.support.process import free_port

pytestmark = pytest.mark.differential

CONFIG = """
server_name: same
accounts {{ U {{ users: [ {{user: u, password: p}}, {{user: leaf-u, password: p}} ], {account} }} }}
leafnodes {{ listen: "127.0.0.1:{port}", compression: off, reconnect: "20ms"
  remotes: [ {{ url: "nats-leaf://127.0.0.1:{hub}", account: U, compression: off
    first_info_timeout: "60s" }} ] }}
"""
SUBJECTS = ["a", "b", "a.b", "a.c"]
INTEREST = [*SUBJECTS, "a.*", "*", ">", "*.b", "a.>"]
CLIENTS = ["client", "client2"]
LINKS = ["hub", "leaf", "leaf2", "leaf3"]
GROUPS = {name: f"q{name}" for name in [*CLIENTS, *LINKS]}
BEGIN = [
    client(),
    client(who="client2"),
    *UP,
    leaf(connect(name="one")),
    leaf(connect(name="two", cluster="c"), who="leaf2"),
    leaf(connect(name="three", cluster="c"), who="leaf3"),
]


@dataclass(frozen=True)
class Pair:
    """Both servers, each with the port for leafs and the hub that it dials."""

    servers: list[tuple[Daemon, int, Listener]]


@pytest.fixture(scope="module")
def pair(commands: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with ExitStack() as stack:
        servers = []
        for command in commands:
            listener, port = Listener(), free_port()
            stack.callback(listener.close)
            path: Path = tmp_path_factory.mktemp("links") / "conf"
            path.write_text(CONFIG.format(port=port, hub=listener.port, account='mappings { m: "a.b" }'))
            servers.append((stack.enter_context(Daemon("-c", str(path), command=command)), port, listener))
        yield Pair(servers)


@st.composite
def of_a_client(draw: st.DrawFn) -> Step:
    who = draw(st.sampled_from(CLIENTS))
    sid = draw(st.integers(1, 4))
    what = draw(st.sampled_from(["SUB", "SUB", "UNSUB", "PUB", "PUB"]))
    if what == "UNSUB":
        return says(who, f"UNSUB {draw(st.sampled_from([str(sid), f'{sid} 1', f'{sid} 3', f'Q{sid}']))}")
    if what == "SUB":
        return says(
            who, f"SUB {draw(st.sampled_from(INTEREST))} {draw(st.sampled_from(['', f'{GROUPS[who]} Q']))}{sid}"
        )
    return says(who, f"PUB {draw(st.sampled_from([*SUBJECTS, 'm']))}{draw(st.sampled_from(['', ' re.ply']))} 1", "x")


@st.composite
def of_a_link(draw: st.DrawFn) -> Step:
    who = draw(st.sampled_from(LINKS))
    what = draw(st.sampled_from(["LS+", "LS+", "LS-", "LMSG", "LMSG"]))
    if what == "LMSG":
        subject = draw(st.sampled_from(SUBJECTS))  # nats-server sends back what is mapped, to groups of the same link
        groups = draw(st.lists(st.sampled_from([group for name, group in GROUPS.items() if name != who]), unique=True))
        reply = draw(st.sampled_from(["", "re.ply"]))
        if groups:
            return says(who, f"LMSG {subject} {f'+ {reply}' if reply else '|'} {' '.join(groups)} 1", "x")
        return says(who, f"LMSG {subject} {reply} 1".replace("  ", " "), "x")
    subject = draw(st.sampled_from(INTEREST))
    if draw(st.booleans()):
        return says(who, f"{what} {subject}")
    weight = f" {draw(st.integers(1, 5))}" if what == "LS+" else ""
    return says(who, f"{what} {subject} {GROUPS[who]}{weight}")


def asked_once(steps: list[Step]) -> list[Step]:
    """Without plain interest that a link tells again: nats-server counts it twice, and never takes it back."""
    held: set[tuple[str, bytes]] = set()
    kept = []
    for step in steps:
        data = step.data if isinstance(step.data, bytes) else b""
        verb, _, rest = data.rstrip().partition(b" ")
        if verb == b"LS+" and b" " not in rest:
            if (step.who, rest) in held:
                continue
            held.add((step.who, rest))
        elif verb == b"LS-":
            held.discard((step.who, rest))
        kept.append(step)
    return kept


def member(line: str) -> str:
    """Which member of a queue group gets a message is the server's to choose."""
    return re.sub(r"^(MSG \S+) Q\d", r"\1 Q", line)


def news(lines: list[str], known: dict[str, str]) -> list[str]:
    """Without the number of a group that is told a second time; `known`: what was told before, by subject and group."""
    found = []
    for line in lines:
        verb, _, name = line.partition(" ")
        if verb == "LS+" and name.count(" ") == 2:
            group, _, number = name.rpartition(" ")
            if known.get(group) == number:
                continue
            known[group] = number
        elif verb == "LS-":
            known.pop(name, None)
        found.append(line)
    return found


def heard(server: Daemon, port: int, listener: Listener, steps: list[Step]) -> list[tuple[str, list[str]]]:
    """What each heard after each step; copies of a message come in no order."""
    stage = Stage(server, "u", {"LEAF": port, "PEER": listener.port}, listener, keeps_listening=True)
    first = len(server.log)
    found = []
    known: dict[str, dict[str, str]] = {name: {} for name in [*CLIENTS, *LINKS]}
    try:
        stage.play(Conversation("", BEGIN))
        for step in steps:
            # once more: what a message changes is told behind the answer to a PING
            lines = stage.play(Conversation("", [step, says(step.who)]))
            for name in stage.peers:
                said = news([member(line) for who, line in lines if who == name], known[name])
                found.append((name, sorted(said)))
    finally:
        links = stage.links()
        stage.close()
    closed = [f":{number} - lid:" for number in links]
    server.wait_until(
        lambda log: all(any(link in line and "connection closed" in line for line in log[first:]) for link in closed),
        "the end of each link",
    )
    return found


@settings(deadline=None, max_examples=60)
@given(st.lists(st.one_of(of_a_client(), of_a_link()), min_size=5, max_size=25))
def test_told_and_delivered(pair: Pair, steps: list[Step]) -> None:
    theirs, ours = (heard(*server, asked_once(steps)) for server in pair.servers)
    assert ours == theirs
