"""Peers that dial a hub, and hubs that are dialled: the lines nats-server answers and logs, and ours, are the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.differential.leaf_hub_rows import SETTINGS as OF_HUBS
from tests.differential.leaf_spoke_rows import SETTINGS as OF_SPOKES
from tests.support.leaf_conversations import Outcome, Setting, played_by_hubs, played_by_leafs

pytestmark = pytest.mark.differential

Outcomes = dict[str, Outcome]
ROLES = {"hub": (played_by_leafs, OF_HUBS), "spoke": (played_by_hubs, OF_SPOKES)}
"""Of the server that is tested: who plays the other end, and what."""
AGAIN = 2


@pytest.fixture(scope="module")
def played(
    commands: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, Setting], tuple[Outcomes, Outcomes]]:
    """All conversations of a setting with both servers, played when first asked for."""
    found: dict[tuple[str, str], tuple[Outcomes, Outcomes]] = {}

    def both(role: str, setting: Setting) -> tuple[Outcomes, Outcomes]:
        if (role, setting.name) not in found:
            play = ROLES[role][0]
            theirs, ours = (play(command, tmp_path_factory.mktemp(role), setting) for command in commands)
            found[role, setting.name] = (theirs, ours)
        return found[role, setting.name]

    return both


@pytest.mark.parametrize(
    ("role", "setting", "name"),
    [
        pytest.param(role, setting, row.name, id=f"{role}, {setting.name}: {row.name}")
        for role, (_, settings) in ROLES.items()
        for setting in settings
        for row in setting.conversations
    ],
)
def test_conversation_is_the_same(
    role: str,
    setting: Setting,
    name: str,
    played: Callable[[str, Setting], tuple[Outcomes, Outcomes]],
    commands: list[tuple[str, ...]],
    tmp_path: Path,
) -> None:
    theirs, ours = played(role, setting)
    for _ in range(AGAIN):
        if ours[name] == theirs[name]:
            break
        # nats-server's log names the account of a refused link, or does not, as its goroutines happen to run
        alone = replace(setting, conversations=[row for row in setting.conversations if row.name == name])
        theirs, ours = (ROLES[role][0](command, folder_in(tmp_path), alone) for command in commands)
    assert ours[name].heard == theirs[name].heard
    assert ours[name].log == theirs[name].log


def folder_in(parent: Path) -> Path:
    """A new one."""
    folder = parent / str(len(list(parent.iterdir())))
    folder.mkdir()
    return folder
