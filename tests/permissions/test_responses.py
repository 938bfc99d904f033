"""The replies that may be answered are bounded in number, in time and in memory."""

from __future__ import annotations

from jetbroker import limits
from jetbroker.auth.permissions import Permissions, Responses
from jetbroker.config.options import PermissionsOptions, ResponsePermissions

SECOND = 1_000_000_000


def responses(max_msgs: int = 1, expires: float = 120.0) -> Responses:
    return Responses(Permissions(PermissionsOptions(responses=ResponsePermissions(max_msgs, expires))))


def test_answers_are_counted() -> None:
    given = responses(2)
    given.receive(b"re", 0)
    assert [given.answer(b"re", 0) for _ in range(3)] == [True, True, False]
    assert not given.answer(b"other", 0)
    given.receive(b"re", 0)
    assert given.answer(b"re", 0)


def test_answers_come_too_late() -> None:
    given = responses(expires=10.0)
    given.receive(b"in time", 0)
    given.receive(b"late", 0)
    assert given.answer(b"in time", 10 * SECOND)
    assert not given.answer(b"late", 10 * SECOND + 1)


def test_negative_means_any_number_at_any_time() -> None:
    given = responses(-1, -1.0)
    given.receive(b"re", 0)
    assert all(given.answer(b"re", year * 10**16) for year in range(100))


def test_what_may_be_published_anyway_is_not_remembered() -> None:
    options = PermissionsOptions(responses=ResponsePermissions())
    anything = Permissions(options)
    assert not anything.publishable(b"re"), "who may answer may publish nothing else"
    given = Responses(Permissions(PermissionsOptions()))
    given.receive(b"re", 0)
    assert len(given) == 0


def test_memory_is_bounded_and_the_newest_replies_stay() -> None:
    given = responses(expires=-1.0)
    for number in range(limits.RESPONSE_SUBJECTS * 2):
        given.receive(b"re.%d" % number, 0)
    assert len(given) <= limits.RESPONSE_SUBJECTS
    assert given.answer(b"re.%d" % (limits.RESPONSE_SUBJECTS * 2 - 1), 0)


def test_expired_and_answered_replies_are_forgotten() -> None:
    given = responses(expires=1.0)
    for number in range(1000):
        given.receive(b"re.%d" % number, 0)
        if number % 2:
            given.answer(b"re.%d" % number, 0)
    given.receive(b"new", 3 * SECOND)
    assert len(given) == 1
