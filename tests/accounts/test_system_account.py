"""Is there a system account? The same as nats-server, where JetStream makes one when there is none."""

from __future__ import annotations

import json
from pathlib import Path

import nats.errors
import pytest

from tests.support.daemon import Daemon
from tests.support.http import get_json, monitor_port
from tests.support.logins import SERVERS, connect
from tests.support.process import JETBROKER_COMMAND, find_nats_server

NONE = "no_system_account: true\n"
CONFIGURED = "accounts { $SYS { users: [ {user: s, password: s} ] } }\n"


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize(
    ("config", "is_there"),
    [("", True), (NONE, False), (NONE + CONFIGURED, True), (NONE + "jetstream { store_dir: STORE }\n", True)],
    ids=["by itself", "not wanted", "not wanted but configured", "not wanted but needed"],
)
async def test_who_answers_for_the_system(tmp_path: Path, kind: str, config: str, is_there: bool) -> None:
    path = tmp_path / "conf"
    path.write_text('http: "127.0.0.1:-1"\n' + config.replace("STORE", json.dumps(str(tmp_path / "store"))))
    program = find_nats_server()
    command = [program] if kind == "nats-server" and program is not None else JETBROKER_COMMAND
    with Daemon("-c", str(path), command=command) as daemon:
        shown = [get_json(monitor_port(daemon), f"/{page}").get("system_account") for page in ("varz", "accountz")]
        assert shown == (["$SYS", "$SYS"] if is_there else [None, None])
        client = await connect(daemon)
        asked = client.request("$SYS.REQ.USER.INFO", timeout=20)
        if is_there:
            assert json.loads((await asked).data)["data"]["account"] == "$G"
        else:
            with pytest.raises(nats.errors.NoRespondersError):
                await asked
        await client.close()
