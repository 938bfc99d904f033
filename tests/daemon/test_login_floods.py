"""Wrong logins by the dozen, with any name or with somebody's: they cost those who send them, and nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count

import pytest

from jetbroker.auth.passwords import hash_password
from tests.support.daemon import Daemon

COST = 8  # a hundredth of a second and more
KINDS = ("any name", "one name", "somebody's")
HONEST = 5  # for each of them, so that nobody's password is known from before
ATTACKERS = 60  # connections that have a wrong login under way at any time
TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("floods")
    users = [
        f'{{ user: {name}, password: "{hash_password(name, COST)}" }}'
        for name in ["victim", "owner", *(name for kind in KINDS for name in honest(kind))]
    ]
    # nobody is too slow on a busy machine: what counts is whom somebody waits for
    (folder / "conf").write_text(f"authorization {{ timeout: {TIMEOUT_S}, users: [" + "\n".join(users) + "] }")
    with Daemon("-c", str(folder / "conf")) as daemon:
        yield daemon


def honest(kind: str) -> list[str]:
    return [f"honest{KINDS.index(kind)}{number}" for number in range(HONEST)]


async def login(port: int, name: str, password: str) -> bytes:
    """Everything the broker answers, to the PONG or to the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b'CONNECT {"verbose":false,"user":"%b","pass":"%b"}\r\nPING\r\n'
                     % (name.encode(), password.encode()))  # fmt: skip
        answer = b""
        while b"PONG\r\n" not in answer:
            received = await reader.read(4096)
            answer += received
            if not received:
                break
        return answer
    except ConnectionError:  # a refusal may end with a reset
        return b"-ERR"
    finally:
        writer.close()


@asynccontextmanager
async def flood(port: int, names: Iterator[str]) -> AsyncIterator[Callable[[], int]]:
    """Wrong logins all the time, each with another password; how many were refused so far."""
    tries = count()
    refused = 0
    under_way = asyncio.Semaphore(0)

    async def attack() -> None:
        nonlocal refused
        under_way.release()
        while True:
            assert b"PONG" not in await login(port, next(names), f"wrong{next(tries)}")
            refused += 1

    attackers = [asyncio.create_task(attack()) for _ in range(ATTACKERS)]
    for _ in attackers:
        await under_way.acquire()
    try:
        yield lambda: refused
        assert not any(attacker.done() for attacker in attackers)
    finally:
        for attacker in attackers:
            attacker.cancel()
        await asyncio.wait(attackers)


@pytest.mark.parametrize("kind", KINDS)
async def test_everybody_else_comes_in(server: Daemon, kind: str) -> None:
    names = {
        "any name": (f"nobody{number}" for number in count()),
        "one name": ("nobody" for _ in count()),
        "somebody's": ("victim" for _ in count()),
    }[kind]
    async with asyncio.timeout(TIMEOUT_S), flood(server.port, names) as refused:
        for name in honest(kind):
            before = refused()
            assert b"PONG" in await login(server.port, name, name)
            # nobody tells new names from honest ones: then they wait in one line
            assert kind == "any name" or refused() - before <= ATTACKERS // 2


async def test_who_was_in_comes_in_again_although_others_try_his_name(server: Daemon) -> None:
    assert b"PONG" in await login(server.port, "owner", "owner")
    async with asyncio.timeout(TIMEOUT_S), flood(server.port, ("owner" for _ in count())) as refused:
        for _ in range(HONEST):
            before = refused()
            assert b"PONG" in await login(server.port, "owner", "owner")
            assert refused() - before <= ATTACKERS // 2


async def test_who_has_left_is_not_checked(server: Daemon) -> None:
    tries = 40
    before = len(server.log)
    for number in range(tries):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b'CONNECT {"verbose":false,"user":"victim","pass":"gone%d"}\r\nPING\r\n' % number)
        writer.close()
    async with asyncio.timeout(TIMEOUT_S):
        assert b"PONG" in await login(server.port, "victim", "victim")
    assert len([line for line in server.log[before:] if "authentication error" in line]) < tries // 2
