"""Answers of nats-server and of jetbroker side by side."""

from __future__ import annotations

from collections.abc import Iterable


def assert_same(rows: Iterable[tuple[object, ...]]) -> None:
    """Of each row: what was asked, nats-server's answer, ours. Fails with all that differ."""
    different = [
        f"{what}\n  nats-server {theirs}\n  jetbroker   {ours}" for what, theirs, ours in rows if theirs != ours
    ]
    assert not different, "\n".join(different)
