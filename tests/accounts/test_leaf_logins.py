"""Whose links come in, and to which account: by `leafnodes { authorization {} }`, else as clients do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetbroker.auth.authenticator import LEAFNODE, LEAFNODE_WEBSOCKET, Authenticator, Claim, Login, Verdict
from jetbroker.auth.leaf_logins import LeafLogins, accused
from jetbroker.auth.password_queue import PasswordQueue
from jetbroker.auth.passwords import hash_password
from jetbroker.auth.tokens import KnownAccount, TokenAuthenticator
from jetbroker.config.checks import settle
from jetbroker.config.options import (
    AccountOptions,
    LeafAuthorization,
    LeafUser,
    Options,
    PermissionsOptions,
    SubjectPermissions,
    TlsOptions,
    UserOptions,
    WebsocketOptions,
)
from jetbroker.config.tokens.claims import read_account
from tests.support import certificates
from tests.support.jwts import Account, Operator, User, user_key
from tests.support.nkeys import UserKey

KEY = UserKey()
NONCE = b"0123456789abcde"
HASH = hash_password("secret", 4)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


class Judge:
    """Judges links, and waits for what has to be checked."""

    def __init__(self, options: Options, loop: asyncio.AbstractEventLoop) -> None:
        settle(options)
        self.loop = loop
        self.passwords = PasswordQueue(loop)
        self.logins = LeafLogins(options, Authenticator(options), self.passwords)

    def reload(self, options: Options) -> None:
        settle(options)
        self.logins.replace(options, Authenticator(options))

    def begin(self, claim: Claim, *, wanted: bool = True) -> asyncio.Future[Verdict]:
        found: asyncio.Future[Verdict] = self.loop.create_future()
        verdict = self.logins.judge(claim, lambda: wanted, found.set_result)
        if verdict is not None:
            assert verdict.check is None
            found.set_result(verdict)
        return found

    def __call__(self, claim: Claim) -> Verdict:
        return self.loop.run_until_complete(asyncio.wait_for(self.begin(claim), 10))

    def account(self, claim: Claim) -> str:
        login = self(claim).login
        return "" if login is None else login.account


def link(user: str = "", password: str = "", kind: str = LEAFNODE) -> Claim:
    return Claim(kind, user, password, nonce=NONCE, address="127.0.0.1")


def signed(key: UserKey, nonce: bytes = NONCE) -> Claim:
    return Claim(LEAFNODE, nkey=key.public, signature=key.signature(nonce.decode()), nonce=NONCE, address="127.0.0.1")


def block(**said: Any) -> Options:
    options = Options()
    options.leafnodes.port = -1
    options.accounts = {"A": AccountOptions("A"), "B": AccountOptions("B")}
    options.leafnodes.authorization = LeafAuthorization(**said)
    return options


def test_a_broker_without_logins_takes_every_link(loop: asyncio.AbstractEventLoop) -> None:
    judge = Judge(block(), loop)
    assert judge.account(link()) == "$G"
    assert judge.account(link("u", "p")) == "$G"


def test_links_without_logins_come_to_the_account_of_the_block(loop: asyncio.AbstractEventLoop) -> None:
    assert Judge(block(account="A"), loop).account(link()) == "A"


def test_one_user(loop: asyncio.AbstractEventLoop) -> None:
    judge = Judge(block(user="u", password="p", account="A"), loop)
    assert judge.account(link("u", "p")) == "A"
    for wrong in (link("u", "x"), link("v", "p"), link("u"), link()):
        assert judge.account(wrong) == ""


def test_users_have_accounts_of_their_own(loop: asyncio.AbstractEventLoop) -> None:
    judge = Judge(block(account="B", users=[LeafUser("u", "p", "A"), LeafUser("v", "q")]), loop)
    assert judge.account(link("u", "p")) == "A"
    assert judge.account(link("v", "q")) == "$G"
    for wrong in (link("u", "q"), link("x", "p"), link()):
        assert judge.account(wrong) == ""


def test_the_block_comes_before_the_users_of_the_server(loop: asyncio.AbstractEventLoop) -> None:
    options = block(user="u", password="p")
    options.authorization.users = [UserOptions(user="client", password="c")]
    judge = Judge(options, loop)
    assert judge.account(link("client", "c")) == ""
    assert judge.account(link("u", "p")) == "$G"


def test_an_nkey_signs_the_nonce(loop: asyncio.AbstractEventLoop) -> None:
    judge = Judge(block(nkey=KEY.public, account="A"), loop)
    assert judge.account(signed(KEY)) == "A"
    assert judge(signed(KEY, b"another-nonce-1")) == Verdict(None, told=("Signature not verified",))
    assert judge(Claim(LEAFNODE, nkey=KEY.public, nonce=NONCE)) == Verdict(None, told=("Signature missing",))
    assert judge.account(signed(UserKey())) == ""
    assert judge.account(link()) == ""


def test_a_hash_is_checked_later(loop: asyncio.AbstractEventLoop) -> None:
    judge = Judge(block(users=[LeafUser("u", HASH, "A"), LeafUser("v", "plain", "B")]), loop)
    assert judge.logins.judge(link("u", "secret"), lambda: True, lambda verdict: None) is None
    assert judge.account(link("u", "secret")) == "A"
    assert judge.account(link("u", "wrong")) == ""
    assert judge.account(link("u", HASH)) == ""
    assert judge.account(link("v", "plain")) == "B"


def test_nobody_learns_from_the_time_whether_a_user_exists(loop: asyncio.AbstractEventLoop) -> None:
    judge = Judge(block(users=[LeafUser("u", HASH), LeafUser("v", "plain")]), loop)
    for name in ("u", "v", "nobody"):
        assert judge.logins.judge(link(name, "wrong"), lambda: True, lambda verdict: None) is None


def test_users_of_the_server_bring_their_account_and_permissions(loop: asyncio.AbstractEventLoop) -> None:
    options = block(account="B")
    may = PermissionsOptions(publish=SubjectPermissions(allow=["a"]))
    options.accounts["A"].users = [UserOptions(user="u", password=HASH, permissions=may), UserOptions(nkey=KEY.public)]
    judge = Judge(options, loop)
    found = judge(link("u", "secret")).login
    assert found is not None and found.account == "A" and found.permissions is not None
    assert judge.account(signed(KEY)) == "A"
    assert judge.account(link("u", "wrong")) == ""
    assert judge.account(link()) == ""


@pytest.mark.parametrize(
    ("kinds", "tcp", "websocket"),
    [("STANDARD", "", ""), ("LEAFNODE", "A", ""), ("LEAFNODE_WS", "", "A"), ("WEBSOCKET", "", "")],
)
def test_users_may_be_bound_to_kinds_of_links(
    kinds: str, tcp: str, websocket: str, loop: asyncio.AbstractEventLoop
) -> None:
    options = block()
    options.accounts["A"].users = [UserOptions(user="u", password="p", connection_types=frozenset({kinds}))]
    judge = Judge(options, loop)
    assert judge.account(link("u", "p")) == tcp
    assert judge.account(link("u", "p", LEAFNODE_WEBSOCKET)) == websocket


def test_no_auth_user_is_for_links_as_well(loop: asyncio.AbstractEventLoop) -> None:
    options = block()
    options.accounts["A"].users = [UserOptions(user="u", password="p")]
    options.accounts["B"].users = [UserOptions(user="v", password="q")]
    options.no_auth_user = "u"
    options.websocket = WebsocketOptions(port=-1, no_auth_user="v")
    judge = Judge(options, loop)
    assert judge.account(link()) == "A"
    assert judge.account(link(kind=LEAFNODE_WEBSOCKET)) == "B"


def test_a_user_behind_a_proxy_comes_no_other_way(loop: asyncio.AbstractEventLoop) -> None:
    judge = Judge(block(users=[LeafUser("u", "p", proxy_required=True), LeafUser("v", "q")]), loop)
    assert judge(link("u", "p")).reason == "Proxy Required"
    assert judge.account(link("v", "q")) == "$G"
    assert Judge(block(user="u", password="p", proxy_required=True), loop).account(link("u", "p")) == ""


def test_a_certificate_names_the_user(
    loop: asyncio.AbstractEventLoop, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    from jetbroker.auth.certificates import names_of

    made = certificates.make(tmp_path_factory.mktemp("certificates"))
    with open(made.client.cert, "rb") as file:
        der = x509.load_pem_x509_certificate(file.read()).public_bytes(Encoding.DER)
    names = names_of(der)
    assert names is not None
    name = (*names.alternatives, *names.written)[0]
    for options in (block(users=[LeafUser(name, "", "A"), LeafUser("other", "")]), block()):
        if not options.leafnodes.authorization.users:
            options.accounts["A"].users = [UserOptions(user=name), UserOptions(user="other")]
        options.leafnodes.tls = TlsOptions(verify=True, verify_and_map=True)
        judge = Judge(options, loop)
        claim = link()
        claim.certificate = der
        assert judge.account(claim) == "A"
        assert judge.account(link(name)) == ""
        assert judge.account(link("other")) == ""


def test_a_reload_during_a_check_counts(loop: asyncio.AbstractEventLoop) -> None:
    judge = Judge(block(users=[LeafUser("u", HASH, "A")]), loop)
    pending = judge.begin(link("u", "secret"))
    judge.reload(block(users=[LeafUser("u", HASH, "B")]))
    login = loop.run_until_complete(pending).login
    assert login is not None and login.account == "B"
    pending = judge.begin(link("u", "wrong"))
    pending_good = judge.begin(link("u", "secret"))
    judge.reload(block(users=[LeafUser("v", "x", "A")]))
    assert loop.run_until_complete(pending).login is None
    assert loop.run_until_complete(pending_good).login is None


def test_nothing_is_checked_for_a_link_that_has_gone(loop: asyncio.AbstractEventLoop) -> None:
    judge = Judge(block(users=[LeafUser("u", HASH, "A")]), loop)
    assert loop.run_until_complete(judge.begin(link("u", "secret"), wanted=False)).login is None


def test_who_is_still_let_in_after_a_reload(loop: asyncio.AbstractEventLoop) -> None:
    judge = Judge(block(users=[LeafUser("u", "p", "A")]), loop)
    login = judge(link("u", "p")).login
    assert login is not None
    assert judge.logins.renew(login, link()) is not None
    judge.reload(block(users=[LeafUser("u", "other", "A")]))
    assert judge.logins.renew(login, link()) is None
    anybody = Login(account="A")
    judge.reload(block(account="A"))
    assert judge.logins.renew(anybody, link()) is not None
    judge.reload(block(account="B"))
    assert judge.logins.renew(anybody, link()) is None
    options = block()
    options.accounts["A"].users = [UserOptions(user="u", password="p")]
    judge.reload(options)
    known = judge(link("u", "p")).login
    assert known is not None
    judge.reload(options)
    assert judge.logins.renew(known, link()) is not None
    assert judge.logins.renew(anybody, link()) is None
    judge.reload(block())
    assert judge.logins.renew(known, link()) is None


def test_time_for_the_login(loop: asyncio.AbstractEventLoop) -> None:
    assert Judge(block(), loop).logins.timeout == 2
    assert Judge(block(timeout=0.5), loop).logins.timeout == 0.5
    options = block()
    options.leafnodes.tls = TlsOptions(timeout=3)
    assert Judge(options, loop).logins.timeout == 4


def test_the_log_names_who_was_refused(loop: asyncio.AbstractEventLoop) -> None:
    refused = Verdict(None)
    assert accused(link("u", "x"), refused) == 'authentication error - User "u"'
    assert accused(signed(KEY), refused) == f'authentication error - Nkey "{KEY.public}"'
    assert accused(link(), refused) == "authentication error"
    assert accused(link(), refused._replace(who="mapped")) == 'authentication error - User "mapped"'
    claim = link()
    claim.token = "secret"
    assert accused(claim, refused) == 'authentication error - Token "[REDACTED]"'


def test_in_operator_mode_a_token_says_the_account(loop: asyncio.AbstractEventLoop) -> None:
    operator, account = Operator(), Account("A")
    known = KnownAccount.of(
        account.token(operator.key), read_account(account.token(operator.key)), strict_keys=frozenset()
    )
    options = Options()
    options.leafnodes.port = -1
    options.operator.trusted_keys = [operator.key.public]
    settle(options)

    def find(name: str) -> KnownAccount:
        assert name == account.public
        return known

    logins = LeafLogins(options, TokenAuthenticator(options, find, lambda: None), PasswordQueue(loop))

    def judged(user: User, kind: str = LEAFNODE) -> Verdict:
        claim = Claim(kind, jwt=user.token(), signature=user.key.signature(NONCE.decode()), nonce=NONCE)
        verdict = logins.judge(claim, lambda: True, lambda later: None)
        assert verdict is not None
        return verdict

    found = judged(account.user(nats={"sub": {"deny": ["a"]}})).login
    assert found is not None
    assert (found.account, found.permissions is not None) == (account.public, True)
    assert logins.renew(found, Claim(LEAFNODE)) is not None
    only_tcp = account.user(nats={"allowed_connection_types": ["LEAFNODE"]})
    assert judged(only_tcp).login is not None
    assert judged(only_tcp, LEAFNODE_WEBSOCKET).told == ("Connection type not allowed",)
    assert judged(account.user(nats={"allowed_connection_types": ["STANDARD"]})).login is None
    assert judged(Account("B", key=account.key).user(signer=user_key())).login is None
    assert logins.judge(link(), lambda: True, lambda later: None) == Verdict(
        None, told=("Authentication requires a user JWT",)
    )


some_login = st.builds(
    LeafUser,
    user=st.sampled_from(["u", "v"]),
    password=st.sampled_from(["p", "q", ""]),
    account=st.sampled_from(["A", "B", ""]),
    proxy_required=st.booleans(),
)
some_block = st.builds(
    LeafAuthorization,
    user=st.sampled_from(["", "u"]),
    password=st.sampled_from(["p", ""]),
    nkey=st.sampled_from(["", KEY.public]),
    account=st.sampled_from(["A", ""]),
    users=st.lists(some_login, max_size=2, unique_by=lambda user: user.user),
    proxy_required=st.booleans(),
)
some_claim = st.builds(
    Claim,
    kind=st.sampled_from([LEAFNODE, LEAFNODE_WEBSOCKET]),
    user=st.sampled_from(["u", "v", ""]),
    password=st.sampled_from(["p", "q", ""]),
    nkey=st.sampled_from(["", KEY.public, UserKey().public]),
    signature=st.sampled_from(["", KEY.signature(NONCE.decode()), UserKey().signature(NONCE.decode())]),
    nonce=st.just(NONCE),
)


def granted(options: LeafAuthorization, claim: Claim) -> set[str]:
    """Every account this claim has a right to: each grant of the block on its own."""
    accounts = set()
    mine = (claim.user, claim.password)
    if options.user and mine == (options.user, options.password) and not options.proxy_required:
        accounts.add(options.account or "$G")
    signed_by_key = claim.nkey == options.nkey and claim.signature == KEY.signature(NONCE.decode())
    if options.nkey and signed_by_key and not options.proxy_required:
        accounts.add(options.account or "$G")
    for user in options.users:
        if mine == (user.user, user.password) and not (user.proxy_required or options.proxy_required):
            accounts.add(user.account or "$G")
    return accounts if options.defined else {options.account or "$G"}


@given(said=some_block, claim=some_claim)
def test_no_link_without_a_grant(said: LeafAuthorization, claim: Claim) -> None:
    options = block()
    options.leafnodes.authorization = said
    loop = asyncio.new_event_loop()
    verdict = LeafLogins(options, Authenticator(options), PasswordQueue(loop)).judge(claim, lambda: True, print)
    loop.close()
    assert verdict is not None
    if verdict.login is not None:
        assert verdict.login.account in granted(said, claim)
    if not granted(said, claim):
        assert verdict.login is None
