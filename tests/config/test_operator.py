"""Operator mode in a configuration file: what `-t` says of it and what a start, by nats-server and by jetbroker."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jetbroker.config import start
from jetbroker.daemon import cli
from jetbroker.errors import ConfigError
from tests.support.daemon import Daemon
from tests.support.jwts import Account, Operator, account_key, account_limits, configuration, operator_key, user_key
from tests.support.process import find_nats_server

NATS_SERVER = find_nats_server()
MEMORY = "resolver: MEMORY\n"
OPERATOR, OTHER = Operator("O"), Operator("P")
SYSTEM, A, SIGNER = Account("SYS"), Account("A"), operator_key()
STRICT = Operator(
    "S", more={"system_account": SYSTEM.public, "signing_keys": [SIGNER.public], "strict_signing_key_usage": True}
)
TOKEN = OPERATOR.token()
ON = f"operator: {TOKEN}\n{MEMORY}"
USER = A.user("x")
BEARER = A.user("b", nats={"bearer_token": True})
SCOPED = A.user("s", signer=account_key(), scoped=True)


def _version(text: str) -> str:
    return f"operator: {Operator('v', more={'assert_server_version': text}).token()}\n{MEMORY}"


def _preload(**tokens: str) -> str:
    return "resolver_preload: { " + ", ".join(f"{name}: {token}" for name, token in tokens.items()) + " }\n"


CASES = {
    "in place": ON,
    "a file": f"operator: FOLDER/operator.jwt\n{MEMORY}",
    "a decorated file": f"operator: FOLDER/decorated.jwt\n{MEMORY}",
    "a bad file": f"operator: FOLDER/bad.jwt\n{MEMORY}",
    "no file": f"operator: FOLDER/none.jwt\n{MEMORY}",
    "a folder": f"operator: FOLDER\n{MEMORY}",
    "a list": f"operator: [{TOKEN}]\n{MEMORY}",
    "two": f"operators: [{TOKEN}, {OTHER.token()}]\n{MEMORY}",
    "root": f"root: {TOKEN}\n{MEMORY}",
    "a number": f"operator: 5\n{MEMORY}",
    "a map": f"operator: {{a: 1}}\n{MEMORY}",
    "junk": f"operator: eyJxx\n{MEMORY}",
    "an account's token": f"operator: {A.token(OPERATOR.key)}\n{MEMORY}",
    "a forged token": f"operator: {TOKEN[:-6]}AAAAAA\n{MEMORY}",
    "another subject": f"operator: {Operator('O', outer={'sub': SIGNER.public}).token()}\n{MEMORY}",
    "a bad signing key": f"operator: {Operator('v', more={'signing_keys': ['x']}).token()}\n{MEMORY}",
    "accounts": f"{ON}accounts {{ A {{}} }}",
    "users": f"{ON}authorization {{ users: [{{user: a, password: b}}] }}",
    "nkeys": f"{ON}authorization {{ users: [{{nkey: {user_key().public}}}] }}",
    "one user": f"{ON}authorization {{ user: a, password: b }}",
    "a token": f"{ON}authorization {{ token: a }}",
    "no_auth_user": f"{ON}no_auth_user: a",
    "trusted keys too": f"{ON}trusted_keys: {OPERATOR.key.public}",
    "trusted keys": f"trusted_keys: {OPERATOR.key.public}\n",
    "trusted": f"trusted: [{OPERATOR.key.public}, {SIGNER.public}]\n{MEMORY}",
    "trusted account": f"trusted: [{A.public}]\n",
    "trusted number": "trusted: 5\n",
    "trusted junk": "trusted: x\n",
    "system account of another operator": f"operator: {STRICT.token()}\n{MEMORY}system_account: {A.public}",
    "resolver MEM": f"operator: {TOKEN}\nresolver: MEM\n",
    "resolver memory": f"operator: {TOKEN}\nresolver: memory\n",
    "resolver as a map": f"operator: {TOKEN}\nresolver: {{type: mem}}\n",
    "resolver of an unknown type": f"operator: {TOKEN}\nresolver: {{type: x}}\n",
    "resolver of no type": f"operator: {TOKEN}\nresolver: {{}}\n",
    "unknown resolver": f"operator: {TOKEN}\nresolver: x\n",
    "resolver number": f"operator: {TOKEN}\nresolver: 5\n",
    "resolver list": f"operator: {TOKEN}\nresolver: [a]\n",
    "account_resolver": f"operator: {TOKEN}\naccount_resolver: MEM\n",
    "resolver alone": MEMORY,
    "preload number": f"{ON}resolver_preload: 5",
    "preload of numbers": f"{ON}resolver_preload: {{ {A.public}: 5 }}",
    "preload of junk": ON + _preload(**{A.public: "x"}),
    "preload of an operator": ON + _preload(**{A.public: TOKEN}),
    "preload under another name": ON + _preload(X=A.token(OPERATOR.key)),
    "preload alone": _preload(**{A.public: A.token(OPERATOR.key)}),
    "pinned": f"{ON}resolver_pinned_accounts: {A.public}",
    "pinned list": f"{ON}resolver_pinned_accounts: [{A.public}]",
    "pinned junk": f"{ON}resolver_pinned_accounts: [x]",
    "pinned number": f"{ON}resolver_pinned_accounts: 5",
    "pinned alone": "resolver_pinned_accounts: [x]",
    "sentinel": f"{ON}default_sentinel: {BEARER.token()}",
    "scoped sentinel": f"{ON}default_sentinel: {SCOPED.token()}",
    "sentinel that signs": f"{ON}default_sentinel: {USER.token()}",
    "junk sentinel": f"{ON}default_sentinel: x",
    "sentinel alone": "default_sentinel: x",
    "links of users": f"{ON}leafnodes {{ authorization {{ users: [{{user: a}}] }} }}",
    "links of no account": f'{ON}leafnodes {{ remotes [ {{url: "nats://127.0.0.1:1"}} ] }}',
    "links of a name": f'{ON}leafnodes {{ remotes [ {{url: "nats://127.0.0.1:1", account: A}} ] }}',
    "links of an account": f'{ON}leafnodes {{ remotes [ {{url: "nats://127.0.0.1:1", account: {A.public}}} ] }}',
    "links to a name": f"{ON}leafnodes {{ port: -1, authorization {{ account: A }} }}",
    "links to a name without a listener": f"{ON}leafnodes {{ authorization {{ account: A }} }}",
    "links to an account": f"{ON}leafnodes {{ port: -1, authorization {{ account: {A.public} }} }}",
    "default domain of a name": f"{ON}default_js_domain {{ A: hub }}",
    "default domain of an account": f"{ON}default_js_domain {{ {A.public}: hub }}",
    "older version": _version("2.14.0"),
    "later minor version": _version("2.15.0"),
    "later major version": _version("3.0.0"),
    "later update": _version("2.14.6"),
    "half a version": _version("1"),
    "version in letters": _version("a.b.c"),
    "jwt_cookie": f"{ON}websocket {{ port: -1, no_tls: true, jwt_cookie: c }}",
    "jwt_cookie without": "websocket { port: -1, no_tls: true, jwt_cookie: c }",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("operator")
    (path / "operator.jwt").write_text(f"{TOKEN}\n")
    decorated = f"-----BEGIN NATS OPERATOR JWT-----\n{TOKEN}\n------END NATS OPERATOR JWT------\n"
    (path / "decorated.jwt").write_text(decorated)
    (path / "bad.jwt").write_text("xx")
    return path


def _of_ours(what: Callable[[], object]) -> str:
    try:
        what()
    except ConfigError as error:
        return str(error).strip()
    return ""


def _of_theirs(path: Path, *arguments: str) -> str:
    """What nats-server says before it ends; "" when it is content."""
    if NATS_SERVER is None:
        pytest.skip("no nats-server on this machine")
    process = subprocess.Popen(
        [NATS_SERVER, "-c", str(path), *arguments], stderr=subprocess.PIPE, text=True, errors="replace"
    )
    said: list[str] = []
    for line in process.stderr or ():
        if "Server is ready" in line or "is valid" in line:
            said = []
            process.kill()
            break
        if "[INF]" not in line and "[WRN]" not in line:
            said.append(line.removeprefix("nats-server: "))
    process.communicate()
    return "".join(said).strip()


@pytest.mark.differential
@pytest.mark.parametrize("name", CASES)
def test_the_same_is_said(name: str, folder: Path) -> None:
    path = folder / "conf"
    path.write_text(CASES[name].replace("FOLDER", str(folder)))
    assert _of_ours(lambda: cli.check_file(str(path))) == _of_theirs(path, "-t")
    assert _of_ours(lambda: start.load(str(path))) == _of_theirs(path, "-a", "127.0.0.1", "-p", "-1")


@pytest.mark.parametrize(
    "resolver", ['URL("http://127.0.0.1:1/jwt/v1/accounts/")', "{type: full, dir: d}", "{type: CACHE, dir: d}"]
)
def test_other_resolvers_are_refused_by_name(resolver: str, tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(f"operator: {TOKEN}\nresolver: {resolver}\n")
    with pytest.raises(ConfigError, match='"resolver" other than MEMORY not supported yet'):
        start.load(str(tmp_path / "conf"))


def test_an_account_server_is_refused_by_name(tmp_path: Path) -> None:
    operator = Operator("O", more={"account_server_url": "nats://127.0.0.1:4222"})
    (tmp_path / "conf").write_text(f"operator: {operator.token()}\n")
    with pytest.raises(ConfigError, match="account_server_url not supported yet"):
        start.load(str(tmp_path / "conf"))
    (tmp_path / "conf").write_text(f"operator: {operator.token()}\n{MEMORY}")
    start.load(str(tmp_path / "conf"))


def test_keys_that_may_sign_accounts(tmp_path: Path) -> None:
    path = tmp_path / "conf"
    path.write_text(f"operators: [{TOKEN}, {STRICT.token()}]\n{MEMORY}")
    operator = start.load(str(path)).options.operator
    assert operator.trusted_keys == [OPERATOR.key.public, SIGNER.public]
    assert operator.strict_keys == {SIGNER.public}
    assert operator.names == ["O", "S"]


def test_the_operator_names_the_system_account(tmp_path: Path) -> None:
    path = tmp_path / "conf"
    path.write_text(f"operator: {STRICT.token()}\n{MEMORY}resolver_pinned_accounts: {A.public}\n")
    options = start.load(str(path)).options
    assert options.system_account == SYSTEM.public
    assert options.operator.pinned_accounts == {A.public, SYSTEM.public}


@pytest.mark.parametrize("signer", [SIGNER, STRICT.key], ids=["signing key", "operator's own key"])
def test_starts_with_a_system_account(signer: object, tmp_path: Path) -> None:
    """An operator who wants signing keys used does not sign accounts with its own."""
    key = SIGNER if signer is SIGNER else STRICT.key
    path = tmp_path / "conf"
    path.write_text(configuration(STRICT, [SYSTEM], signer=key))
    daemon = Daemon("-c", str(path))
    if signer is SIGNER:
        with daemon:
            assert "error" not in " ".join(daemon.log)
    else:
        with pytest.raises(RuntimeError, match="error resolving system account: account validation failed"):
            daemon.start()


def test_start_tells_of_operators_and_of_accounts_that_cannot_be_used(tmp_path: Path) -> None:
    wrong = Account("wrong", limits=account_limits(imports=0), more={"imports": [{"subject": "a b", "type": "stream"}]})
    wrong.key = A.key
    path = tmp_path / "conf"
    path.write_text(configuration(Operator("Op", outer={"aud": "here", "exp": int(time.time()) + 9}), [wrong]))
    with Daemon("-c", str(path)) as daemon:
        told = [re.sub(r"^.*?\[(?=[IW])", "[", line) for line in daemon.log]
    first = told.index("[INF] Trusted Operators")
    assert told[first + 1 : first + 3] == ['[INF]   System  : "here"', '[INF]   Operator: "Op"']
    assert re.fullmatch(r"\[INF\]   Issued  : \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} \S+", told[first + 3])
    assert told[first + 4].startswith("[INF]   Expires : 2")
    assert told[first + 5 : first + 10] == [
        "[WRN] Trusted Operators should utilize a System Account",
        f"[WRN] Account [{A.public}] has validation issues:",
        "[WRN]   - account to import from is not specified",
        '[WRN]   - subject "a b" cannot have spaces',
        "[WRN]   - the account contains more imports than allowed by the operator",
    ]
