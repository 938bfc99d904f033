"""The `nats` command line drives both servers, and prints the same of each.

It needs `nats` on the PATH. What it does here, other tests do with client libraries: test_jetstream_api and its
neighbours, jetstream/test_nats_py_*, jetstream/test_backup.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.differential.conftest import Pair

pytestmark = [
    pytest.mark.differential,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("nats") is None, reason="not on the PATH: nats"),
]

CONFIG = (
    "jetstream { store_dir: STORE }\n"
    "accounts { $SYS { users: [{user: sys, password: s}] }\n"
    "A { jetstream: enabled, users: [{user: u, password: p}] } }\n"
    "no_auth_user: u\n"
)
ANSWER_SECONDS = 60
EVERYTHING = "*"  # in place of what a command prints: only how it ends is compared

# Commands by what they are about, in their order. FOLDER is a folder of the test's own. A line that begins with "sys:"
# is the system account's; one that begins with "*" prints rates or names made by chance.
SCENARIOS = {
    "streams": """
        stream add ORDERS --subjects=orders.> --defaults --description=first --max-msgs=1000 --allow-direct
        stream add ORDERS --subjects=orders.> --defaults --max-msgs=7
        stream add TWICE --subjects=orders.new --defaults
        stream add MEMORY --subjects=memory --defaults --storage=memory --retention=work --discard=new
        publish orders.new --count=5 one
        publish orders.paid -H Kind:card --count=2 two
        request orders.new three --timeout=2s
        stream info ORDERS --json
        stream state ORDERS --json
        stream subjects ORDERS --json
        stream ls
        stream ls --names
        stream report
        stream find --subject=orders.new --names
        stream get ORDERS 2 --json
        stream get ORDERS -S orders.paid --json
        stream get ORDERS 99
        stream rmm ORDERS 2 -f
        stream rmm ORDERS 2 -f
        *stream gaps ORDERS --force
        stream edit ORDERS --max-msgs=4 -f
        stream edit ORDERS --retention=work -f
        stream purge ORDERS --subject=orders.paid -f
        stream purge ORDERS --keep=1 -f
        stream info ORDERS
        stream copy ORDERS COPY --subjects=copied.>
        stream add MIRROR --mirror=ORDERS --defaults
        stream seal COPY -f
        publish copied.x four
        request copied.x five --timeout=2s
        stream rm COPY -f
        stream rm COPY -f
        account info
    """,
    "consumers": """
        stream add S --subjects=s.> --defaults
        publish s.a --count=10 body
        consumer add S pull --pull --defaults --ack=explicit --wait=20s --max-deliver=3
        consumer add S push --target=deliver.here --defaults --ack=none --filter=s.a --deliver=new
        consumer add S two --pull --defaults --filter=s.a --filter=s.b --sample=100 --max-pending=20
        consumer add S wrong --pull --defaults --filter=other
        consumer next S pull --count=3
        consumer next S pull --no-ack --count=2
        consumer next S pull --nak
        consumer next S pull --term
        consumer next S two --raw
        consumer next S none
        consumer info S pull
        consumer state S pull --json
        consumer ls S --names
        consumer report S
        consumer edit S pull --max-deliver=5 -f
        consumer pause S two 90h -f
        consumer info S two
        consumer resume S two -f
        consumer reset S pull -f
        consumer copy S pull again
        consumer find S --pull
        consumer rm S again -f
        consumer rm S again -f
    """,
    "priority groups": """
        stream add P --subjects=p.> --defaults
        consumer add P pinned --config=FOLDER/pinned.json
        consumer add P overflow --config=FOLDER/overflow.json
        consumer info P pinned
        consumer info P overflow
        consumer unpin P pinned g -f
        consumer unpin P pinned other -f
        consumer unpin P overflow g -f
    """,
    "key-value": """
        kv add B --history=5 --ttl=1h --description=keys
        kv add B --history=65
        kv put B a 1
        kv put B a 2
        kv create B a 3
        kv create B b 3
        kv update B a 4 2
        kv update B a 4 1
        kv get B a --raw
        kv get B a --revision=1 --raw
        kv get B none
        kv history B a
        kv del B a -f
        kv purge B b -f
        kv history B a
        kv revert B a 1
        kv ls B
        kv ls
        kv info B
        kv edit B --history=3
        kv compact B -f
        kv add L --marker-ttl=1m
        kv put L c 1
        kv del L c -f
        kv del B -f
        kv get B a
    """,
    "objects": """
        object add O --description=files --max-bucket-size=1000000
        object put O FOLDER/large --name=large --no-progress -f
        object put O FOLDER/large --name=again --no-progress -f
        object info O large
        object ls O
        object ls
        object get O large -O FOLDER/got --no-progress -f
        object del O again -f
        object del O again -f
        object seal O -f
        object put O FOLDER/large --name=more --no-progress -f
        object info O
        object del O -f
    """,
    "counters": """
        stream add C --subjects=c.> --defaults --allow-counter --allow-direct
        counter increment c.a 5
        counter increment c.a 7
        counter decrement c.a 2
        counter increment c.b 1
        counter get c.a
        counter view c.a
        counter list
        publish c.a 12
        request c.a 12 --timeout=2s
        stream info C
    """,
    "backups": """
        stream add S --subjects=s.> --defaults
        consumer add S C --pull --defaults
        publish s.a --count=200 body
        consumer next S C --count=5
        *stream backup S FOLDER/backup --no-progress --consumers
        stream restore FOLDER/backup --no-progress
        stream rm S -f
        *stream restore FOLDER/backup --no-progress
        consumer info S C
        stream info S
        *account backup FOLDER/account --force --consumers
        stream rm S -f
        *account restore FOLDER/account
        stream info S
    """,
    "traces": """
        stream add S --subjects=s.> --defaults
        trace s.a hello
        trace s.a hello --deliver
        trace nobody.here hello
        trace $JS.API.STREAM.INFO.S
        stream info S
    """,
    "benchmarks": """
        *bench pub b.x --msgs=1000 --no-progress
        *bench js pub sync b.s --create --purge --msgs=200 --no-progress
        *bench js pub async b.s --create --msgs=2000 --batch=100 --no-progress
        *bench js pub atomic b.s --create --msgs=1000 --batch=100 --no-progress
        *bench js pub fast b.s --create --msgs=2000 --batch=100 --no-progress
        *bench js fetch --msgs=1000 --batch=100 --no-progress
        *bench js consume --msgs=1000 --batch=100 --no-progress
        *bench js ordered --msgs=1000 --no-progress
        *bench js get sync --msgs=100 --no-progress
        *bench js get batch --msgs=100 --batch=10 --no-progress
        *bench kv put --msgs=500 --no-progress
        *bench kv get --msgs=500 --no-progress
        stream ls --names --all
    """,
    "servers": """
        *rtt
        *server ping --user=u --password=p
        *sys:server ping
        *sys:server list
        *sys:server info
        *sys:server report connections
        *sys:server report jetstream
        *sys:server report accounts
        *sys:server report health
        *sys:server request variables
        *sys:server request jetstream
        *sys:server request subscriptions
        *sys:server account info A
        *server check connection
        *server check jetstream
        *account report connections --sort=subs
    """,
}

NUMBERS = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| ?[+-]\d\d:?\d\d)?"  # times
    r"|\b\d+(?:\.\d+)?(?:ns|[µu]s|ms|s|m\d+s|m|h\d*m?\d*\w*)\b(?: ago)?"  # durations
    r"|\b[\d.]+[KM]?/s\b|Client ID: \d+|cid:\d+"
    r"|\b[A-Z0-9]{56}\b|\b[A-Za-z0-9]{22}\b"  # keys and ids
    r"|127\.0\.0\.1:\d+|\b(?:localhost|0\.0\.0\.0):\d+"
)
PADDING = re.compile(r"[ ─━-]{2,}")  # columns are as wide as what is in them


@dataclass(frozen=True)
class Tool:
    """The command line, for one server."""

    port: int
    folder: Path

    async def run(self, line: str) -> str:
        """What a command prints, without what differs from run to run, and how it ends."""
        silent, line = line.startswith(EVERYTHING), line.removeprefix(EVERYTHING)
        login = ("--user=sys", "--password=s") if line.startswith("sys:") else ()
        words = line.removeprefix("sys:").replace("FOLDER", str(self.folder)).split()
        home = {"HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder), "TZ": "UTC", "NO_COLOR": "1"}
        tool = await asyncio.create_subprocess_exec(
            "nats", "--no-context", f"--server=127.0.0.1:{self.port}", *login, *words,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **home},
        )  # fmt: skip
        try:
            printed, _ = await asyncio.wait_for(tool.communicate(), ANSWER_SECONDS)
        finally:
            if tool.returncode is None:
                tool.kill()
        text = "" if silent and tool.returncode == 0 else printed.decode().replace(str(self.folder), "FOLDER")
        return f"{PADDING.sub('  ', NUMBERS.sub('_', text))}\nexit {tool.returncode}"


def prepare(folder: Path) -> None:
    """The files that scenarios name."""
    (folder / "large").write_bytes(bytes(range(256)) * 1000)
    group = '"ack_policy": "explicit", "priority_groups": ["g"], "max_deliver": -1, "ack_wait": 30000000000'
    (folder / "pinned.json").write_text(
        f'{{"durable_name": "pinned", {group}, "priority_policy": "pinned_client", "priority_timeout": 60000000000}}'
    )
    (folder / "overflow.json").write_text(f'{{"durable_name": "overflow", {group}, "priority_policy": "overflow"}}')


@pytest.mark.parametrize("name", SCENARIOS)
async def test_it_prints_the_same_of_both(name: str, pair_of: Callable[[str], Pair], tmp_path: Path) -> None:
    pair = pair_of(f"{CONFIG}# {name}\n")
    tools = []
    for kind, server in (("nats-server", pair.reference), ("jetbroker", pair.broker)):
        (tmp_path / kind).mkdir()
        prepare(tmp_path / kind)
        tools.append(Tool(server.port, tmp_path / kind))
    for line in SCENARIOS[name].split("\n"):
        if line.strip():
            expected, got = await asyncio.gather(*(tool.run(line.strip()) for tool in tools))
            assert got == expected, line
