"""Subject mappings against nats-server: what a configuration is refused for, and where messages go."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg

from jetbroker.routing.mapping import Mappings
from jetbroker.routing.placeholders import TransformError
from tests.support import process
from tests.support.clients import settle
from tests.support.sharing import Step, play

SOURCES = ["a", "a.*", "a.*.*", "a.>", "a.*.>", ">"]
DESTINATIONS = """
    b.$1 b.$2 b.$0 b.$-1 b.$+1 b.$x $1 $ b.{{wildcard(1)}} b.{{_Wildcard(_1_)_}} b.{{wildcard()}} b.{{wildcard(1,2)}}
    b.{{wildcard(x)}} b.{{WILDCARD(1)}} b.{{left(1,2)}} b.{{right(1,2)}} b.{{SPLIT(1,-)}} b.{{split(1,-)}}
    b.{{split(1)}} b.{{split(1,-,x)}} b.{{split(x,-)}} b.{{split(1,a_b)}} b.{{partition()}} b.{{partition(0)}}
    b.{{partition(-3)}} b.{{partition(2147483648)}} b.{{partition(5,1)}} b.{{partition(5,2)}} b.{{partition(5,x)}}
    b.{{random(5)}} b.{{random()}} b.{{random(5,1)}} b.{{random(-5)}} b.{{splitfromleft(1,2)}} b.{{SplitFromLeft(1)}}
    b.{{SplitFromLeft(1,2,3)}} b.{{SplitFromRight(1,99999999999)}} b.{{SliceFromRight(1,-2)}} b..c b.> b.* b_c b.{{}}
    b.{{x}} b.{{nope(1)}} b.{{x{{wildcard(1)}} {{wildcard(1)}}.{{wildcard(1)}} > >.b b.{{wildcard(_1_,_)}}
""".split()  # `_` stands for a blank
MAPPED = {
    "lit": "literal", "fix.*": "fixed", "p.*.*": "q.{{partition(10,1,2)}}", "p1.*.*": "q.{{partition(10,2)}}",
    "ps": "q.{{partition(3)}}", "all.*.*": "{{wildcard(2)}}.{{wildcard(1)}}",
    "pw.*": "q.{{partition(5)}}", "pn.*": "q.{{partition(-7)}}", "sl.*": "q.{{SplitFromLeft(1,3)}}",
    "sr.*": "q.{{SplitFromRight(1,3)}}", "cl.*": "q.{{SliceFromLeft(1,3)}}", "cr.*": "q.{{SliceFromRight(1,3)}}",
    "sp.*": "q.{{split(1,-)}}", "so.*": "{{split(1,-)}}", "sd.*": "q.{{split(1,--)}}", "zero.*.*": "q.$0.$-1.$2",
    "tail.*.>": "q.$1.x.>", "none.*": [], "deep.>": "d.>", "back.*.*": "q.$2.{{wildcard(1)}}",
}  # fmt: skip
PUBLISHED = """
    ps p1.a.b p1.a.foo all.1.2 all.*.2 all.>.x
    lit lit.x fix.a fix. fix..a fix p.a.b p.foo.bar p.a pw.foo pw.* pw.> pw.é pn.a pn.b tail.a.b tail.a.b.c tail.a
    tail.a. tail.a.b.>.c tail.a.> tail.*.b zero.a.b deep.a deep.a..b deep. deep back.1.2 so.- so.a-b so.a--b so.-a other
    sd.a--b sd.a-b sd.--a-- none.a
""".split()
CUT = "a ab abc abcd abcdef abcdefg é- -a-b- a-b--c --".split()


def expected(source: str, destination: str) -> str:
    try:
        Mappings([(source.encode(), [(destination.encode(), 100, "")])])
    except TransformError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def program() -> str:
    found = process.find_nats_server()
    if found is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    return found


@pytest.mark.parametrize("source", SOURCES)
def test_mappings_are_refused_alike(program: str, tmp_path: Path, source: str) -> None:
    """One file for all destinations: nats-server tells every error at once."""
    config = tmp_path / "mappings.conf"
    destinations = [destination.replace("_", " ") for destination in DESTINATIONS]
    entries = "".join(
        f'account{number} {{ mappings {{ "{source}": "{destination}" }} }}\n'
        for number, destination in enumerate(destinations)
    )
    config.write_text(f"accounts {{\n{entries}}}\n", encoding="utf-8")
    done = subprocess.run([program, "-t", "-c", str(config)], capture_output=True, text=True, timeout=30)
    theirs = dict(re.findall(r'Error adding mapping for ".*?" to "(.*?)" : (.*)', done.stdout + done.stderr))
    assert {d: text for d in destinations if (text := expected(source, d))} == theirs


async def test_messages_go_where_nats_server_sends_them(program: str, tmp_path: Path) -> None:
    config = tmp_path / "mappings.conf"
    table = {source: target for source, target in MAPPED.items() if isinstance(target, str)}
    config.write_text(
        "mappings {\n" + "".join(f'"{source}": "{target}"\n' for source, target in table.items()) + "}\n",
        encoding="utf-8",
    )
    published = [*PUBLISHED, *(f"{name}.{token}" for name in ("sl", "sr", "cl", "cr", "sp", "so") for token in CUT)]
    ours = Mappings([(s.encode(), [(t.encode(), 100, "")]) for s, t in table.items()])
    with process.nats_server("-c", str(config)) as server:
        theirs = await deliveries(server.url, published)
    with process.jetbroker("-c", str(config)) as server:
        assert await deliveries(server.url, published) == theirs
    becomes = {subject: ours.mapped(subject.encode()) for subject in published}
    assert {s: (m.decode() if m is not None else s) for s, m in becomes.items()} == {
        s: theirs.get(s, becomes_nothing(becomes[s], s)) for s in published
    }


SCENARIO_CONFIG = """
accounts { A { users: [{user: a, password: p, permissions: {publish: {deny: denied}}}, {user: b, password: p}]
  mappings {
    gone: [{destination: "gone", weight: 0}], "split.*": "{{split(1,-)}}", denied: free, free: denied
    other: {destination: "there", weight: 100}, "w.*": [{destination: "v.$1", weight: 100, cluster: "nowhere"}]
    "r.*": "s.{{wildcard(1)}}", twice: once, once: never
  } } }
"""
SCENARIO = [
    Step("b", "SUB > 1\r\n"), Step("a", "SUB in 1\r\n"),
    *(Step.publish("a", subject, subject, "in") for subject in
      ("gone", "split.-", "split.a-b", "denied", "free", "other", "w.x", "r.x", "r.x.y", "twice", "$SYS.REQ.USER.x")),
    Step("b", "UNSUB 1\r\n"),
    *(Step.publish("a", subject, subject, "in") for subject in ("gone", "split.-", "other", "r.x", "unmapped")),
]  # fmt: skip


def test_requests_through_mappings(program: str, tmp_path: Path) -> None:
    config = tmp_path / "mappings.conf"
    config.write_text(SCENARIO_CONFIG, encoding="utf-8")
    told = []
    for make in (process.nats_server, process.jetbroker):
        with make("-c", str(config)) as server:
            told.append("\n".join(play(server.port, "ab", SCENARIO)))
    assert told[1] == told[0]


def becomes_nothing(mapped: bytes | None, subject: str) -> str:
    """What an undelivered message may have become: a subject with an empty token reaches nobody."""
    text = subject if mapped is None else mapped.decode()
    return text if "" in text.split(".") else "(nothing was delivered)"


async def deliveries(url: str, published: list[str]) -> dict[str, str]:
    """Payload (the subject that was published) to the subject it came on, for everything that came."""
    client = await nats.connect(url)
    seen: dict[str, str] = {}
    done = asyncio.Event()

    async def receive(message: Msg) -> None:
        if message.data == b"end":
            done.set()
        else:
            seen[message.data.decode()] = message.subject

    await client.subscribe(">", cb=receive)
    await settle(client)
    for subject in published:
        # nats-py refuses some of them
        client._pending.append(b"PUB %b %d\r\n%b\r\n" % ((s := subject.encode()), len(s), s))
        client._pending_data_size += 1
    await client.publish("the.end", b"end")
    await asyncio.wait_for(done.wait(), 10)
    await client.close()
    return seen
