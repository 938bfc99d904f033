"""Who is never silent is asked now and then all the same: the answer measures the round trip."""

from __future__ import annotations

import time

import pytest

from jetbroker import limits
from jetbroker.testing import embedded
from tests.support.daemon import CONNECT, Raw

SECONDS = 20.0
ASKED = 3


def test_a_busy_client_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ROUND_TRIP_SECONDS", 0.5)
    with embedded(config='ping_interval: "200ms"\n', jetstream=False) as broker:
        client = Raw(broker.port, pings=True)
        client.send(CONNECT)
        asked, end = 0, time.monotonic() + SECONDS
        while asked < ASKED and time.monotonic() < end:
            pings = client.exchange(b"PUB s 1\r\nx\r\n").count(b"PING\r\n")
            client.send(b"PONG\r\n" * pings)
            asked += pings
        client.close()
    assert asked == ASKED
