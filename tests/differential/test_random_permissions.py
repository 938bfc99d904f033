"""Users with rules made by chance: who may publish and subscribe to what, and what arrives, as with nats-server."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from jetbroker.auth.permissions import Permissions
from jetbroker.config.options import PermissionsOptions, SubjectPermissions
from jetbroker.wire import subjects
from tests.support.conversations import quiet, user
from tests.support.daemon import Daemon
from tests.support.process import find_nats_server

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(find_nats_server() is None, reason="no nats-server on this machine"),
]

USERS = 40
SUBSCRIPTIONS = 6
HEADS = ("a", "b", "_INBOX")
LITERALS = [
    ".".join(tokens)
    for head in HEADS
    for tokens in [(head,), *((head, x) for x in "abc"), *((head, x, y) for x in "ab" for y in "ab")]
]


class Rules:
    """One user: allow and deny lists, and what it subscribes to."""

    def __init__(self, chance: random.Random, number: int) -> None:
        self.name = f"u{number}"
        self._chance = chance
        self.publish = self._lists(queues=False)
        self.subscribe = self._lists(queues=True)
        # a queue of its own for each, so that nobody has to choose a member
        self.wanted = [
            (self._subject(), f"q.{sid}" if chance.random() < 0.4 else "", sid) for sid in range(SUBSCRIPTIONS)
        ]
        self.wanted = [wanted for wanted in self.wanted if not self._wider(*wanted)]

    def _subject(self) -> str:
        pick = self._chance.choice
        tokens = [pick((*HEADS, "*")), *(pick("aabbc*") for _ in range(pick((0, 1, 1, 2))))]
        return ".".join([*tokens, ">"] if self._chance.random() < 0.25 else tokens)

    def _entry(self, queues: bool) -> str:
        named = queues and self._chance.random() < 0.3
        return self._subject() + (" " + self._chance.choice(("q.1", "q.2", "q.*", "q.>", "z")) if named else "")

    def _lists(self, queues: bool) -> SubjectPermissions:
        allow = [self._entry(queues) for _ in range(self._chance.choice((0, 2, 3, 4)))]
        deny = [self._entry(queues) for _ in range(self._chance.choice((0, 1, 2)))]
        return SubjectPermissions(allow or None, deny)

    def _wider(self, subject: str, queue: str, _: int) -> bool:
        """nats-server delivers too much there (docs/PERMISSIONS.md)."""
        entries = [entry.split()[0].encode() for entry in self.subscribe.allow or ()]
        return subject.endswith(">") and any(
            subjects.matches(subject.encode(), entry) and not subjects.subset(subject.encode(), entry)
            for entry in entries
        )

    def config(self) -> str:
        def lists(rules: SubjectPermissions) -> str:
            allow = f"allow: {rules.allow}, " if rules.allow else ""
            return f"{{ {allow}deny: {rules.deny} }}".replace("'", '"')

        return (
            f"{{ user: {self.name}, password: p, permissions: "
            f"{{ publish: {lists(self.publish)}, subscribe: {lists(self.subscribe)} }} }}"
        )


def outcome(server: Daemon, everybody: list[Rules]) -> list[object]:
    found: list[object] = []
    publishes = b"".join(b"PUB %b 0\r\n\r\n" % literal.encode() for literal in LITERALS)
    with server, server.open() as writer, server.open() as listener:
        writer.exchange(b"CONNECT {%b}\r\n" % quiet("all"))
        listener.exchange(b"CONNECT {%b}\r\nSUB > 1\r\n" % quiet("all"))
        for rules in everybody:
            with server.open() as reader:
                reader.exchange(b"CONNECT {%b}\r\n" % user(rules.name))
                wanted = "".join(f"SUB {subject} {queue} {sid}\r\n" for subject, queue, sid in rules.wanted)
                found.append((rules.config(), wanted, reader.exchange(wanted.encode())))
                for _ in range(2):
                    writer.exchange(publishes)
                    found.append(sorted(re.findall(rb"MSG (\S+) (\S+) 0", reader.exchange(b""))))
                listener.exchange(b"")
                found.append(reader.exchange(publishes).count(b"-ERR"))
                found.append(re.findall(rb"MSG (\S+) 1 0", listener.exchange(b"")))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_random_rules(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    everybody = [Rules(chance, number) for number in range(USERS)]
    config = tmp_path / "conf"
    config.write_text(
        "authorization { users: [\n"
        + "\n".join(rules.config() for rules in everybody)
        + "\n{ user: all, password: p } ] }\n"
    )
    program = find_nats_server()
    assert program is not None
    expected = outcome(Daemon("-c", str(config), command=[program]), everybody)
    got = outcome(Daemon("-c", str(config)), everybody)
    for theirs, ours in zip(expected, got, strict=True):
        assert ours == theirs


def test_the_rules_are_worth_it() -> None:
    """Something is allowed, something is not."""
    chance = random.Random(0)
    everybody = [Rules(chance, number) for number in range(USERS)]
    verdicts = {
        Permissions(PermissionsOptions(subscribe=rules.subscribe)).subscribable(subject.encode())
        for rules in everybody
        for subject, _, _ in rules.wanted
    }
    assert verdicts == {True, False}
