"""`default_js_domain`: an account without JetStream at the hub uses that of the spoke."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js.errors import ServiceUnavailableError

from tests.support.jwts import Account, Operator, configuration
from tests.support.pairs import PAIRS, Pair

HUB = """
jetstream { store_dir: "STORE/hub" }
leafnodes { listen: "127.0.0.1:{leaf_port}", authorization { user: leaf, password: secret, account: A } }
accounts { A: { users: [ {user: a, password: a} ] }, B: { users: [ {user: b, password: b} ] } }
default_js_domain { A: "", B: "" }
"""
SPOKE = """
jetstream { store_dir: "STORE/spoke" }
leafnodes { remotes: [ {url: "nats-leaf://leaf:secret@127.0.0.1:{leaf_port}", account: A} ] }
accounts { A: { jetstream: enabled, users: [ {user: a, password: a} ] } }
default_js_domain { A: "" }
"""
TOKEN_HUB = 'leafnodes { listen: "127.0.0.1:{leaf_port}" }\ndefault_js_domain { ACCOUNT: edge }\n'
TOKEN_SPOKE = """
jetstream { store_dir: "STORE", domain: edge }
leafnodes { remotes: [ {url: "nats-leaf://127.0.0.1:{leaf_port}", account: A, credentials: "CREDS"} ] }
accounts { A: { jetstream: enabled, users: [ {user: a, password: a} ] } }
"""
SECONDS = 30
by_kinds = pytest.mark.parametrize("kinds", PAIRS, ids=lambda pair: f"hub {pair[0]}, spoke {pair[1]}")


class Undivided(Pair):
    """Nothing of JetStream is kept from the link."""

    def linked(self, hub_after: int = 0, spoke_after: int = 0) -> None:
        for server, after in ((self.hub, hub_after), (self.spoke, spoke_after)):
            server.wait_for('Skipping deny "$JS.API.>" for account "A"', after)


async def stream_at(client: Any) -> str:
    """The name of a stream that is made once the hub knows of the JetStream behind the link."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            info = await client.jetstream(timeout=1).add_stream(name="S", subjects=["s"])
        except (NatsTimeoutError, ServiceUnavailableError):
            continue
        return str(info.config.name)
    return "none was made"


@by_kinds
async def test_an_account_with_links_leaves_its_requests_to_them(kinds: tuple[str, str], tmp_path: Path) -> None:
    hub, spoke = HUB.replace("STORE", str(tmp_path)), SPOKE.replace("STORE", str(tmp_path))
    with Undivided(kinds, tmp_path, hub, spoke) as pair:
        client = await nats.connect(pair.hub.url, user="a", password="a")
        assert await stream_at(client) == "S"
        streams = json.loads((await client.request("$JS.API.STREAM.NAMES", timeout=5)).data)
        assert streams["streams"] == ["S"]
        alone = await nats.connect(pair.hub.url, user="b", password="b")
        answer = json.loads((await alone.request("$JS.API.STREAM.NAMES", timeout=5)).data)
        assert answer["error"]["err_code"] == 10039
        await client.close()
        await alone.close()


@by_kinds
async def test_a_restore_is_refused_where_other_requests_are_left_to_links(
    kinds: tuple[str, str], tmp_path: Path
) -> None:
    spoke = SPOKE.replace("STORE", str(tmp_path)).replace("jetstream: enabled, ", "")
    with Undivided(kinds, tmp_path, HUB.replace("STORE", str(tmp_path)), spoke) as pair:
        client = await nats.connect(pair.hub.url, user="a", password="a")
        answer = json.loads((await client.request("$JS.API.STREAM.RESTORE.S", b"{}", timeout=5)).data)
        assert answer["error"]["err_code"] == 10039
        cluster = json.loads((await client.request("$JS.API.STREAM.LEADER.STEPDOWN.S", timeout=5)).data)
        assert cluster["error"]["err_code"] == 10010
        with pytest.raises(NatsTimeoutError):
            await client.request("$JS.API.STREAM.NAMES", timeout=0.5)
        await client.close()


@by_kinds
async def test_an_account_of_operator_mode_has_its_domain(kinds: tuple[str, str], tmp_path: Path) -> None:
    pytest.importorskip("nkeys")
    system, account = Account("SYS"), Account("A")
    operator = Operator("O", more={"system_account": system.public})
    path = tmp_path / "a.creds"
    path.write_text(account.user("a").creds())
    hub = configuration(operator, [system, account], more=TOKEN_HUB.replace("ACCOUNT", account.public))
    spoke = TOKEN_SPOKE.replace("STORE", str(tmp_path)).replace("CREDS", str(path))
    with Pair(kinds, tmp_path, hub, spoke) as pair:
        client = await nats.connect(pair.hub.url, user_credentials=str(path))
        assert await stream_at(client) == "S"
        await client.close()
