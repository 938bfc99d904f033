"""Where links of this broker differ from those of nats-server on purpose (docs/differences.md)."""

from __future__ import annotations

import pytest

from tests.differential.leaf_steps import HELLO, UP, client, connect, first, hub, leaf, second
from tests.support.leaf_conversations import (
    END,
    Conversation,
    Outcome,
    Setting,
    played_by_hubs,
    played_by_leafs,
)
from tests.support.process import JETBROKER_COMMAND

OTHER = leaf(connect(name="other"), who="leaf2")
LEAFS = [
    Conversation("second CONNECT", [HELLO, leaf(connect(user="nobody")), leaf("LS+ foo"), client("PUB foo 1", "x")]),
    Conversation("blanks", [HELLO, OTHER, leaf("LS+ foo   q  2"), leaf("LS-   foo  q"), leaf("LS+ a"), leaf("LS- a ")]),
    Conversation(
        "carriage returns",
        [
            HELLO,
            client("SUB a\rb 1", "SUB jobs\rworkers\r9 2", "SUB ok q\rr 3", "SUB ok 4"),
            leaf("LS+ foo"),
            client("PUB foo a\rb 1", "x", "PUB foo |\rq 1", "y", "PUB foo 1", "z"),
        ],
    ),
    Conversation("weights", [HELLO, OTHER, leaf("LS+ foo q 0"), leaf("LS+ foo q 5"), leaf("LS+ foo q 5")]),
    Conversation(
        "one too many", [HELLO, leaf(connect(), until=END, who="leaf2"), leaf()], account="limits { max_leafnodes: 1 }"
    ),
    Conversation(
        "responses",
        [
            HELLO,
            leaf("LS+ foo"),
            client("SUB re.ply 1", "PUB foo re.ply 1", "x"),
            leaf("LMSG re.ply 2", "ok"),
            leaf("LMSG re.ply 2", "no", until=END),
        ],
        user="permissions: { publish: a, allow_responses: true }",
    ),
]
HUBS = [
    Conversation("interest before its time", [first(), hub("LS+ foo", until=END)]),
    Conversation("a message before its time", [client("SUB foo 1"), first(), hub("LMSG foo 1", "x"), second()]),
    Conversation(
        "denied imports, sent",
        [
            first(),
            second({"import": {"deny": ["foo"]}}),
            hub("LS+ >"),
            client("PUB foo 1", "x", "PUB bar 1", "y"),
            hub("LMSG foo 1", "x"),
        ],
    ),
    Conversation(
        "other permissions",
        [
            *UP,
            client("SUB foo 1", "SUB bar 2"),
            second({"import": {"deny": ["foo"]}}, until="LS- foo"),
            second({"import": {}}, until="LS+ foo"),  # soon after the one before: it has to wait
        ],
    ),
]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return {
        **played_by_leafs(JETBROKER_COMMAND, tmp_path_factory.mktemp("hub"), Setting("leafs", LEAFS)),
        **played_by_hubs(JETBROKER_COMMAND, tmp_path_factory.mktemp("spoke"), Setting("hubs", HUBS)),
    }


def said(played: dict[str, Outcome], name: str, who: str) -> list[str]:
    """Without the greeting, and what every account imports."""
    usual = ("INFO ", "CONNECT ", "LS+ $")
    return [line for speaker, line in played[name].heard if speaker == who and not line.startswith(usual)]


def test_a_second_connect_means_nothing(played: dict[str, Outcome]) -> None:
    assert said(played, "second CONNECT", "leaf") == ["LMSG foo 1|x"]


def test_blanks_between_arguments_do_not_matter(played: dict[str, Outcome]) -> None:
    assert said(played, "blanks", "leaf2") == ["LS+ foo q 2", "LS- foo q", "LS+ a", "LS- a"]


def test_words_with_a_carriage_return_are_not_told(played: dict[str, Outcome]) -> None:
    """Clients may use them (the byte stays); on a link they would be two words, or others' interest."""
    assert said(played, "carriage returns", "leaf") == ["LS+ ok", "LMSG foo 1|z"]


def test_a_number_of_members_is_told_once_and_as_it_is(played: dict[str, Outcome]) -> None:
    assert said(played, "weights", "leaf2") == ["LS+ foo q 1", "LS+ foo q 5"]


def test_one_link_too_many_costs_no_other_one(played: dict[str, Outcome]) -> None:
    refused = ["-ERR 'maximum account active connections exceeded'", "closed"]
    assert said(played, "one too many", "leaf2") == refused
    assert said(played, "one too many", "leaf") == []


def test_a_link_that_may_answer_answers_once(played: dict[str, Outcome]) -> None:
    assert said(played, "responses", "client") == ["MSG re.ply 1 2|ok"]
    assert said(played, "responses", "leaf")[-2:] == [
        "-ERR 'Permissions Violation for Publish to \"re.ply\"'",
        "closed",
    ]


def test_a_hub_that_asks_before_the_link_is_made_is_left(played: dict[str, Outcome]) -> None:
    assert said(played, "interest before its time", "hub") == ["-ERR 'Authorization Violation'", "closed"]
    assert said(played, "a message before its time", "client") == []


def test_what_a_spoke_may_not_receive_it_may_send(played: dict[str, Outcome]) -> None:
    assert said(played, "denied imports, sent", "hub") == ["LMSG foo 1|x", "LMSG bar 1|y"]


def test_interest_follows_permissions_that_change(played: dict[str, Outcome]) -> None:
    assert said(played, "other permissions", "hub") == ["LS+ bar", "LS+ foo", "LS- foo", "LS+ foo"]
