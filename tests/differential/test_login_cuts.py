"""What is said where a login is due, whole, byte by byte and cut in two: hashes are checked meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.differential.conftest import Pair
from tests.support.login_rows import HASHED
from tests.support.wire import PING, Row, answers

pytestmark = pytest.mark.differential

USERS = f'authorization {{ timeout: 30, users: [ {{user: u, password: p}}, {{user: v, password: "{HASHED}"}} ] }}\n'
CONFIGS = {
    "users": USERS,
    "a guest": USERS + "no_auth_user: u\n",
    "a guest with a hash": USERS + "no_auth_user: v\n",
}
PLAIN = b'CONNECT {"user":"u","pass":"p"}\r\n'
SLOW = b'CONNECT {"user":"v","pass":"hashed-secret"}\r\n'
WRONG = SLOW.replace(b"secret", b"secrets")
TALK = b"SUB foo 1\r\nPUB foo 1\r\nx\r\n"
SAYS = [
    TALK,
    b"\r\n",
    b"CX\r\n",
    b"CONNECT {\r\n",
    b"CONNECT {}\r\n",
    b"INFO {}\r\n",
    PLAIN + TALK,
    SLOW + TALK,
    WRONG + TALK,
    SLOW + b"X\r\n",
    TALK + SLOW,
    PLAIN + b"SUB foo 1\r\n" + WRONG,
    SLOW + b"SUB foo 1\r\n" + SLOW + TALK,
    b'CONNECT {"user":"v","pass":"x","protocol":9}\r\n',
    b'CONNECT {"user":"v","pass":"hashed-secret","no_responders":true}\r\n',
]


@pytest.mark.parametrize("name", CONFIGS)
async def test_answers_are_equal(name: str, pair_of: Callable[[str], Pair]) -> None:
    pair = pair_of(CONFIGS[name])
    for said in SAYS:
        row = Row(repr(said), said + PING)
        expected, got = await answers(pair.reference.port, row), await answers(pair.broker.port, row)
        different = {way: (expected[way], got[way]) for way in expected if expected[way] != got[way]}
        assert not different, said
