"""Deny rules cannot be got round: what is delivered is what a naive model of the rules says, on every path there is."""

from __future__ import annotations

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jetbroker.config.options import PermissionsOptions, SubjectPermissions
from tests.support.inprocess import FakeClient, World

# `_INBOX.` subjects take the path of those that are used once
HEADS = ["a", "b", "_INBOX"]
TOKENS = ["a", "b", "c"]
QUEUES = ["q", "q.x", "other"]
QUEUE_ENTRIES = [*QUEUES, "q.*", "*", ">"]
LITERALS = [
    ".".join(tokens)
    for head in HEADS
    for tokens in [(head,), *((head, x) for x in TOKENS), *((head, x, y) for x in "ab" for y in "ab")]
]


def subject(rest: str) -> st.SearchStrategy[str]:
    tokens = st.lists(st.sampled_from([*TOKENS, "*"]), max_size=2)
    return st.builds(
        lambda head, middle, tail: ".".join([head, *middle, *tail]),
        st.sampled_from([*HEADS, "*"]),
        tokens,
        st.sampled_from([[], [], [rest]]),
    )


SUBJECTS = st.one_of(subject(">"), st.just(">"))
ENTRIES = st.one_of(SUBJECTS, st.builds("{} {}".format, SUBJECTS, st.sampled_from(QUEUE_ENTRIES)))
RULES = st.builds(
    SubjectPermissions, st.one_of(st.none(), st.lists(ENTRIES, min_size=1, max_size=4)), st.lists(ENTRIES, max_size=4)
)
WANTED = st.lists(st.tuples(SUBJECTS, st.sampled_from([None, None, *QUEUES])), min_size=1, max_size=4)


# --- the model ---


def fits(literal: str, pattern: str) -> bool:
    """Does a subject fit a pattern, token by token? Its own wildcards are ordinary tokens."""
    expression = r"\.".join({"*": r"[^.]+", ">": r".+"}.get(token, re.escape(token)) for token in pattern.split("."))
    return re.fullmatch(expression, literal) is not None


def says(entries: list[str], literal: str, queue: str | None) -> tuple[bool, bool | None]:
    """Does an entry without queue match; does one with this queue (None: no entry of the subject names a queue)?"""
    plain, named = False, None
    for entry in entries:
        pattern, _, name = entry.partition(" ")
        if not fits(literal, pattern):
            continue
        if not name:
            plain = True
        elif queue is not None:
            named = bool(named) or fits(queue, name)
    return plain, named


def permitted(rules: SubjectPermissions, literal: str, queue: str | None) -> bool:
    if rules.allow is not None:
        plain, named = says(rules.allow, literal, queue)
        if not (plain if named is None else named):
            return False
    plain, named = says(rules.deny, literal, queue)
    return not (plain or named)


# --- against the broker ---


def received(client: FakeClient) -> list[tuple[str, str]]:
    return sorted(
        (subject.decode(), sid.decode()) for subject, sid in re.findall(rb"MSG (\S+) (\S+) 0\r\n", client.heard())
    )


@settings(max_examples=300, deadline=None)
@given(rules=RULES, wanted=WANTED)
@example(rules=SubjectPermissions([">", "a q.x"], []), wanted=[("*", "q")])
def test_what_is_delivered_is_what_the_rules_say(
    rules: SubjectPermissions, wanted: list[tuple[str, str | None]]
) -> None:
    world = World()
    reader, writer = world.client(PermissionsOptions(subscribe=rules)), world.client()
    expected = []
    groups: dict[tuple[str, str], set[str]] = {}
    for number, (subject_, queue) in enumerate(wanted):
        answer = reader.say(" ".join(filter(None, ("SUB", subject_, queue, str(number)))).encode() + b"\r\n")
        assert (answer == b"") == permitted(rules, subject_, queue), answer
        if answer:
            continue
        for literal in LITERALS:
            if fits(literal, subject_) and permitted(rules, literal, queue):
                if queue is None:
                    expected.append((literal, str(number)))
                else:
                    groups.setdefault((literal, queue), set()).add(str(number))
    for _ in range(2):  # unknown routes, then those that are remembered
        writer.say(b"".join(b"PUB %b 0\r\n\r\n" % literal.encode() for literal in LITERALS))
        found = received(reader)
        queued = [(subject_, sid) for subject_, sid in found if wanted[int(sid)][1] is not None]
        assert [item for item in found if item not in queued] == sorted(expected)
        assert sorted((subject_, str(wanted[int(sid)][1])) for subject_, sid in queued) == sorted(groups)
        assert all(sid in groups[subject_, str(wanted[int(sid)][1])] for subject_, sid in queued)


@settings(max_examples=300, deadline=None)
@given(rules=RULES)
def test_what_is_published_is_what_the_rules_say(rules: SubjectPermissions) -> None:
    world = World()
    plain = SubjectPermissions(
        None if rules.allow is None else [entry.split()[0] for entry in rules.allow],
        [entry.split()[0] for entry in rules.deny],
    )
    asked = SubjectPermissions(plain.allow, rules.deny)  # a queue means nothing in what is denied
    writer, reader = world.client(PermissionsOptions(publish=asked)), world.client()
    reader.say(b"SUB > 1\r\n")
    for _ in range(2):
        answer = writer.say(b"".join(b"PUB %b 0\r\n\r\n" % literal.encode() for literal in LITERALS))
        allowed = [literal for literal in LITERALS if permitted(plain, literal, None)]
        assert [subject_ for subject_, _ in received(reader)] == sorted(allowed)
        assert answer.count(b"Permissions Violation for Publish") == len(LITERALS) - len(allowed)


@settings(max_examples=100, deadline=None)
@given(before=RULES, after=RULES, wanted=WANTED)
def test_new_rules_hold_at_once(
    before: SubjectPermissions, after: SubjectPermissions, wanted: list[tuple[str, str | None]]
) -> None:
    """A reload gives a connected client other permissions: as if it had come with them and subscribed anew."""
    from jetbroker.auth.permissions import Permissions

    worlds = World(), World()
    old = worlds[0].client(PermissionsOptions(subscribe=before))
    new = worlds[1].client(PermissionsOptions(subscribe=after))
    kept = []
    for number, (subject_, queue) in enumerate(wanted):
        line = " ".join(filter(None, ("SUB", subject_, queue, str(number)))).encode() + b"\r\n"
        if not old.say(line):
            kept.append(line)
    writer = worlds[0].client()
    publishes = b"".join(b"PUB %b 0\r\n\r\n" % literal.encode() for literal in LITERALS)
    writer.say(publishes)
    old.heard()
    old.protocol.apply_permissions(Permissions(PermissionsOptions(subscribe=after)))
    removed = old.heard().count(b"-ERR 'Permissions Violation for Subscription to ")
    assert removed == new.say(b"".join(kept)).count(b"-ERR")
    writer.say(publishes)
    worlds[1].client().say(publishes)
    assert _without_choice(received(old), wanted) == _without_choice(received(new), wanted)


def _without_choice(found: list[tuple[str, str]], wanted: list[tuple[str, str | None]]) -> list[tuple[str, str]]:
    """Which member of a queue group gets a message is the broker's to choose."""
    return sorted((subject_, wanted[int(sid)][1] or sid) for subject_, sid in found)
