"""Permissions, limits of subscriptions and trace: the same answers and log lines as nats-server's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential.permission_rows import CONVERSATIONS
from tests.support.conversations import Conversation, outcome, started
from tests.support.process import find_nats_server

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(find_nats_server() is None, reason="no nats-server on this machine"),
]


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda row: row.name)
def test_clients_hear_and_the_log_tells_the_same(conversation: Conversation, tmp_path: Path) -> None:
    expected, expected_log = outcome(started(tmp_path, conversation, find_nats_server()), conversation)
    heard, log = outcome(started(tmp_path, conversation, None), conversation)
    assert heard == expected
    assert log == expected_log
