"""Leafs that dial: the lines nats-server answers and logs, and ours, are the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.differential.leaf_hub_rows import SETTINGS
from tests.support.leaf_conversations import Outcome, Setting, played_by_leafs

pytestmark = pytest.mark.differential

Both = tuple[dict[str, Outcome], dict[str, Outcome]]


@pytest.fixture(scope="module")
def played(commands: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory) -> Callable[[Setting], Both]:
    """All conversations of a setting with both servers, played when first asked for."""
    found: dict[str, Both] = {}

    def both(setting: Setting) -> Both:
        if setting.name not in found:
            theirs, ours = (played_by_leafs(command, tmp_path_factory.mktemp("hub"), setting) for command in commands)
            found[setting.name] = (theirs, ours)
        return found[setting.name]

    return both


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        pytest.param(setting, row.name, id=f"{setting.name}: {row.name}")
        for setting in SETTINGS
        for row in setting.conversations
    ],
)
def test_conversation_is_the_same(setting: Setting, name: str, played: Callable[[Setting], Both]) -> None:
    theirs, ours = played(setting)
    assert ours[name].heard == theirs[name].heard
    assert ours[name].log == theirs[name].log
