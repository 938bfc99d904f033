"""Nobody comes in without a grant, whatever the configuration and the first message; refusals take the same time."""

from __future__ import annotations

import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetbroker.auth import authenticator, passwords
from jetbroker.auth.authenticator import (
    CONNECTION_TYPES,
    LEAFNODE,
    LEAFNODE_WEBSOCKET,
    NATS,
    NOBODY,
    WEBSOCKET,
    Authenticator,
    Claim,
    Login,
    Renewal,
    Verdict,
)
from jetbroker.config.checks import is_bcrypt
from jetbroker.config.options import AccountOptions, AuthorizationOptions, Options, TlsOptions, UserOptions
from tests.support.nkeys import UserKey

KEYS = [UserKey() for _ in range(2)]
NAMES = ["u", "v", ""]
SECRETS = ["p", "q", "", "t"]
TYPES = [
    frozenset[str](),
    *map(frozenset, (["STANDARD"], ["WEBSOCKET"], ["MQTT", "LEAFNODE"], ["LEAFNODE_WS"])),
]
NONCE = b"0123456789abcde"

some_user = st.builds(
    UserOptions,
    user=st.sampled_from(["u", "v"]),
    password=st.sampled_from(SECRETS),
    connection_types=st.sampled_from(TYPES),
    proxy_required=st.booleans(),
)
some_key = st.builds(
    UserOptions,
    nkey=st.sampled_from([key.public for key in KEYS]),
    connection_types=st.sampled_from(TYPES),
    proxy_required=st.booleans(),
)
some_users = st.lists(st.one_of(some_user, some_key), max_size=4, unique_by=lambda user: user.user or user.nkey)
some_claim = st.builds(
    Claim,
    kind=st.sampled_from([NATS, WEBSOCKET, LEAFNODE, LEAFNODE_WEBSOCKET]),
    user=st.sampled_from(NAMES),
    password=st.sampled_from(SECRETS),
    token=st.sampled_from(SECRETS),
    nkey=st.sampled_from([*(key.public for key in KEYS), "", "x"]),
    signature=st.sampled_from([*(key.signature(NONCE.decode()) for key in KEYS), "", "x"]),
    nonce=st.just(NONCE),
)


@st.composite
def some_options(draw: st.DrawFn) -> Options:
    options = Options()
    found = draw(some_users)
    shape = draw(st.sampled_from(["users", "accounts", "system", "user", "token", "nothing"]))
    if shape == "users":
        options.authorization = AuthorizationOptions(users=found, defined=True)
    elif shape == "accounts":
        options.accounts = {"A": AccountOptions("A", users=found), "B": AccountOptions("B")}
    elif shape == "system":
        options.accounts = {"SYS": AccountOptions("SYS", users=found)}
        if draw(st.booleans()):
            options.accounts["A"] = AccountOptions("A")
        options.system_account = "SYS"
        options.authorization.defined = draw(st.booleans())
    elif shape == "user":
        options.authorization = AuthorizationOptions(user="u", password=draw(st.sampled_from(SECRETS)), defined=True)
    elif shape == "token":
        options.authorization = AuthorizationOptions(token="t", defined=True)
    options.authorization.proxy_required = draw(st.booleans())
    names = [user.user or user.nkey for user in options.all_users()]
    if names:
        options.no_auth_user = draw(st.sampled_from(["", *names]))
        options.websocket.no_auth_user = draw(st.sampled_from(["", *names]))
    else:
        options.websocket.token = draw(st.sampled_from(["", "t"]))
    return options


def granted(options: Options, claim: Claim) -> set[str]:
    """Every account this claim has a right to, by whatever it says: each grant on its own."""
    found = [("$G", user) for user in options.authorization.users]
    found += [(name, user) for name, account in options.accounts.items() for user in account.users]
    block, web = options.authorization, options.websocket
    open_to_all = options.no_auth_user
    single = (block.user, block.password, block.token)
    if claim.kind == WEBSOCKET and (web.user or web.token or web.no_auth_user):
        open_to_all, single = web.no_auth_user, (web.user, web.password, web.token)
    if claim.kind == LEAFNODE_WEBSOCKET:
        open_to_all = web.no_auth_user or open_to_all
    if not found and not any(single[::2]):
        return {"$G"}
    accounts = set()
    for account, user in found:
        kind = CONNECTION_TYPES[claim.kind]
        if user.proxy_required or (user.connection_types and kind not in user.connection_types):
            continue
        by_password = user.user and (claim.user, claim.password) == (user.user, user.password)
        by_key = any(
            key.public == user.nkey == claim.nkey and key.signature(NONCE.decode()) == claim.signature for key in KEYS
        )
        by_nothing = open_to_all == (user.user or user.nkey) and not (claim.user or claim.password or claim.token)
        if by_password or by_key or by_nothing or (user.nkey and user.nkey == open_to_all == claim.nkey):
            accounts.add(account)
    user_name, password, token = single
    if not found and not block.proxy_required:
        if token and claim.token == token:
            accounts.add("$G")
        if user_name and not token and (claim.user, claim.password) == (user_name, password):
            accounts.add("$G")
    only_system = [*options.accounts] == ["SYS"] and not block.defined and not options.no_auth_user
    if only_system and not (claim.user or claim.password or claim.token) and open_to_all == options.no_auth_user:
        accounts.add("$G")
    return accounts


@settings(max_examples=600)
@given(options=some_options(), claim=some_claim)
def test_no_access_without_a_grant(options: Options, claim: Claim) -> None:
    found = Authenticator(options)
    verdict = found.find(claim)
    assert verdict.check is None
    if verdict.login is not None:
        assert verdict.login.account in granted(options, claim)
    silent = found.find_silent(Claim(claim.kind)).login
    if silent is not None and found.due(claim.kind):
        assert silent.account in granted(options, Claim(claim.kind))
    if not granted(options, claim):
        assert verdict.login is None


@given(options=some_options(), claim=some_claim)
def test_a_reload_that_changes_nothing_changes_nothing(options: Options, claim: Claim) -> None:
    before, after = Authenticator(options), Authenticator(options)
    login = before.find(claim).login
    if login is None:
        return
    given_now = claim if login is NOBODY else Claim(claim.kind)
    renewal, verdict = after.renew(login, given_now)
    assert (renewal, verdict.check) == (Renewal.STAYS, None)
    assert verdict.login is not None
    assert (verdict.login.account, verdict.login.user) == (login.account, login.user)


@given(before=some_options(), after=some_options(), claim=some_claim)
def test_who_stays_would_be_let_in(before: Options, after: Options, claim: Claim) -> None:
    login = Authenticator(before).find(claim).login
    if login is None:
        return
    now = Authenticator(after)
    renewal, verdict = now.renew(login, claim if login is NOBODY else Claim(claim.kind))
    if renewal is Renewal.STAYS and now.due(claim.kind):
        assert verdict.login is not None
        again = Claim(claim.kind, login.user, login.secret if login.user else "", "", login.nkey, "", NONCE)
        if login.by_token:
            again.token = login.secret
        if login is NOBODY:
            again = claim
        if login.nkey:
            again.signature = next(key for key in KEYS if key.public == login.nkey).signature(NONCE.decode())
        assert verdict.login.account in granted(after, again)
        assert verdict.login.account == login.account


# --- the same time for everybody who is refused ---

COSTS = {"u": 4, "v": 6, "w": 9}


def hashed(cost: int) -> str:
    return f"$2a${cost:02}$" + "." * 53


@pytest.mark.parametrize(
    "claim", [Claim(user=name, password="wrong") for name in ("u", "v", "w", "plain", "nobody", "other")]
)
def test_every_refusal_costs_the_same(claim: Claim) -> None:
    options = Options()
    options.authorization.users = [UserOptions(user=name, password=hashed(cost)) for name, cost in COSTS.items()]
    options.authorization.users.append(UserOptions(user="plain", password="p"))
    options.authorization.users.append(
        UserOptions(user="other", password=hashed(4), connection_types=frozenset({"WEBSOCKET"}))
    )
    verdict = Authenticator(options).find(claim)
    assert verdict.check is not None
    assert verdict.check.secret == (hashed(COSTS[claim.user]) if claim.user in COSTS else "")
    assert verdict.check.dearest == max(COSTS.values())


def test_who_is_right_pays_for_his_own_hash() -> None:
    options = Options()
    options.authorization.users = [UserOptions(user=name, password=hashed(cost)) for name, cost in COSTS.items()]
    verdict = Authenticator(options).find(Claim(user="u", password="right"))
    assert verdict.check == (hashed(COSTS["u"]), "right", max(COSTS.values()))
    assert "right" not in repr(verdict)


def test_plain_passwords_cost_nothing() -> None:
    options = Options()
    options.authorization.users = [UserOptions(user="u", password="p")]
    for name in ("u", "nobody"):
        assert Authenticator(options).find(Claim(user=name, password="x")) == Verdict(None)


def test_comparisons_are_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []

    def compare(left: bytes, right: bytes) -> bool:
        seen.append((len(left), len(right)))
        return left == right

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for secret, given_text in (("a", "a"), ("a", "b" * 1000), ("", "x"), ("é", "\ud800")):
        assert passwords.is_equal(secret, given_text) is (secret == given_text)
    assert set(seen) == {(32, 32)}


@pytest.mark.parametrize(
    ("secret", "given_text", "fits"),
    [
        # vectors of other implementations
        ("$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*U", True),
        ("$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*U", True),
        ("$2x$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*U", True),
        ("$2b$05$CCCCCCCCCCCCCCCCCCCCC.VGOzA784oUp/Z0DY336zx7pLYAy0lwK", "U*U*", True),
        ("$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*V", False),
        ("$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOe", "U*U", False),
        ("$2a$05$CCCC", "U*U", False),
        ("$2a$99$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*U", False),
    ],
)
def test_known_hashes(secret: str, given_text: str, fits: bool) -> None:
    assert is_bcrypt(secret)
    assert passwords.fits_hash(secret, given_text) is fits


@given(st.text(max_size=20))
def test_what_looks_like_a_hash(text: str) -> None:
    assert is_bcrypt("$2a$10$" + text)
    assert not is_bcrypt("$2a$1x$" + text)
    assert not is_bcrypt("$3a$10$" + text)


# --- certificates and empty passwords ---


def test_a_user_known_by_certificate_has_no_empty_password_elsewhere() -> None:
    options = Options()
    options.authorization.users = [
        UserOptions(user="u"),
        UserOptions(user="w", connection_types=frozenset({"STANDARD"})),
    ]
    assert Authenticator(options).find(Claim(user="u")).login is not None
    options.websocket.port = 1
    options.websocket.tls = TlsOptions(verify_and_map=True)
    assert Authenticator(options).find(Claim(user="u")).login is None
    assert Authenticator(options).find(Claim(user="w")).login is not None
    options.no_auth_user = "u"
    for claim in (Claim(), Claim(user="u")):
        assert Authenticator(options).find(claim).login is not None


def test_a_link_over_a_websocket_without_certificates_makes_nobody_known_by_one() -> None:
    options = Options()
    options.authorization.users = [UserOptions(user="u", connection_types=frozenset({"STANDARD", "LEAFNODE_WS"}))]
    options.leafnodes.port = 1
    options.leafnodes.tls = TlsOptions(verify=True, verify_and_map=True)
    options.websocket.port = 2
    assert Authenticator(options).find(Claim(user="u")).login is not None
    options.websocket.tls = TlsOptions(verify=True)
    assert Authenticator(options).find(Claim(user="u")).login is None


def test_secrets_are_not_shown() -> None:
    shown = repr(Login(user="u", secret="canary")) + repr(
        Claim(user="u", password="canary", token="canary", signature="canary")
    )
    assert "canary" not in shown
    assert authenticator.FAILED == "Authentication Failure"
