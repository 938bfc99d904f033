"""Tokens: nothing but what its issuer signed is taken, whatever it says is typed or refused, and never more."""

from __future__ import annotations

import base64
import json
import time
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetbroker import limits
from jetbroker.auth.scopes import TemplateError, filled_in
from jetbroker.auth.tokens import seconds_left
from jetbroker.config.options import PermissionsOptions, SubjectPermissions
from jetbroker.config.tokens import checks, envelope
from jetbroker.config.tokens.accounts import account_options
from jetbroker.config.tokens.claims import (
    TimeRange,
    is_revoked,
    read_account,
    read_activation,
    read_operator,
    read_user,
)
from jetbroker.config.tokens.fields import TokenError
from tests.support.jwts import (
    Account,
    Key,
    Operator,
    account_key,
    account_limits,
    as_json,
    encoded,
    jetstream_limits,
    operator_key,
    user_key,
)

OPERATOR, A, B = Operator("O"), Account("A"), Account("B")
USER = A.user("u")
NOW = int(time.time())
READERS = (read_operator, read_account, read_user, read_activation)
ACTIVATION = B.activation(A.public, "x.>", "stream")
TOKENS = (OPERATOR.token(), A.token(OPERATOR.key), USER.token(), ACTIVATION)
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner))


# --- the envelope ---


@pytest.mark.parametrize("token", TOKENS)
def test_each_kind_is_read_as_what_it_is_only(token: str) -> None:
    kinds = []
    for read in READERS:
        try:
            read(token)
        except TokenError as error:
            assert str(error).startswith("not ")
        else:
            kinds.append(read)
    assert kinds == [READERS[TOKENS.index(token)]]


@given(token=st.sampled_from(TOKENS), at=st.integers(min_value=0), letter=st.sampled_from(ALPHABET))
def test_one_other_letter_is_refused(token: str, at: int, letter: str) -> None:
    at %= len(token)
    changed = token[:at] + letter + token[at + 1 :]
    head, body, signature = token.split(".")
    parts = changed.split(".")
    same = parts[:2] == [head, body] and len(parts) == 3 and _bits(parts[2]) == _bits(signature)
    if same:  # the last letter has bits that mean nothing
        envelope.open_token(changed)
    else:
        with pytest.raises(TokenError):
            envelope.open_token(changed)


def _bits(part: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        return part.encode()


@given(st.text(max_size=40) | st.lists(st.text(ALPHABET, max_size=12), max_size=4).map(".".join))
def test_junk_is_refused(text: str) -> None:
    with pytest.raises(TokenError):
        envelope.open_token(text)


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ({"typ": "JWT", "alg": "none"}, 'unexpected "none" algorithm'),
        ({"typ": "JWT", "alg": "HS256"}, 'unexpected "HS256" algorithm'),
        ({"typ": "JWT"}, 'unexpected "" algorithm'),
        ({"typ": "x", "alg": "ed25519-nkey"}, 'not supported type "x"'),
        ({"alg": "ed25519-nkey"}, 'not supported type ""'),
        ([1], "a token must be an object"),
        ({"typ": 1}, "typ must be a string"),
    ],
)
def test_headers(header: Any, why: str) -> None:
    with pytest.raises(TokenError) as raised:
        envelope.open_token(A.key.token({"sub": A.public, "nats": {"type": "user", "version": 2}}, header))
    assert str(raised.value) == why


def test_texts_of_what_is_no_token() -> None:
    head, body, signature = TOKENS[2].split(".")
    for text, why in (
        ("", "expected 3 chunks"),
        ("a.b", "expected 3 chunks"),
        (f"{head}.{body}.{signature}.x", "expected 3 chunks"),
        ("e*J.b.c", "illegal base64 data at input byte 1"),
        (f"{head}.{body}.{signature[:-1]}*", f"illegal base64 data at input byte {len(signature) - 1}"),
        (f"{head}.{body}.{signature[:20]}", "claim failed V2 signature verification"),
        (f"{head}.{body}.", "claim failed V2 signature verification"),
        ("x" * (limits.TOKEN_BYTES + 1), f"token size {limits.TOKEN_BYTES + 1} exceeds maximum of"),
    ):
        with pytest.raises(TokenError) as raised:
            envelope.open_token(text)
        assert str(raised.value).startswith(why)


def test_line_ends_are_skipped() -> None:
    head, body, signature = TOKENS[2].split(".")
    envelope.open_token(f"{head}.{body}.{signature}\r\n")


def _signed(kind: str, signer: Key, **nats: Any) -> str:
    return signer.token({"sub": A.public, "nats": {"type": kind, "version": 2, **nats}})


@pytest.mark.parametrize(
    ("kind", "good"),
    [("operator", "O"), ("account", "AO"), ("user", "A"), ("activation", "AO")],
)
def test_who_may_issue_what(kind: str, good: str) -> None:
    for letter, signer in (("O", operator_key()), ("A", account_key()), ("U", user_key())):
        token = _signed(kind, signer)
        if letter in good:
            assert envelope.open_token(token).kind == kind
        else:
            with pytest.raises(TokenError, match="unable to validate expected prefixes"):
                envelope.open_token(token)


def test_another_issuer_than_the_signer() -> None:
    with pytest.raises(TokenError, match="claim failed V2 signature verification"):
        envelope.open_token(A.key.token({"iss": B.public, "sub": "x", "nats": {"type": "user", "version": 2}}))
    with pytest.raises(TokenError, match="claim failed V2 signature verification"):
        envelope.open_token(A.key.token({"iss": "junk", "sub": "x", "nats": {"type": "user", "version": 2}}))


def test_versions() -> None:
    old = A.key.token_v1({"sub": USER.key.public, "type": "user", "nats": {"pub": {}, "sub": {}}})
    assert read_user(old).may.limits.subscriptions == -1
    head, body, _ = old.split(".")
    assert read_account(OPERATOR.key.token_v1({"sub": A.public, "type": "account", "nats": {}})).subject == A.public
    with pytest.raises(TokenError, match="V1 signature"):  # signed as version 2
        envelope.open_token(f"{head}.{body}.{encoded(A.key.sign(f'{head}.{body}'.encode()))}")
    with pytest.raises(TokenError, match="newer version"):
        envelope.open_token(_signed("user", A.key, version=3))
    with pytest.raises(TokenError, match="received 0"):
        envelope.open_token(A.key.token({"sub": "x", "nats": {"type": "user"}}))
    with pytest.raises(TokenError, match="ClusterClaims are not supported"):
        envelope.open_token(_signed("cluster", A.key))


# --- claims ---


@given(st.sampled_from(["operator", "account", "user", "activation"]), st.data())
def test_claims_of_any_type_are_read_or_refused(kind: str, data: st.DataObject) -> None:
    """And what was read can be checked and used."""
    keys = _keys_of(kind)
    nats = data.draw(st.dictionaries(st.sampled_from(keys), values | _block(keys), max_size=4))
    outer = data.draw(st.dictionaries(st.sampled_from(["exp", "nbf", "iat", "name", "aud", "sub"]), values, max_size=2))
    signer = OPERATOR.key if kind in ("operator", "account") else A.key
    token = signer.token({"sub": A.public, **outer, "nats": {**nats, "type": kind, "version": 2}})
    try:
        if kind == "operator":
            assert isinstance(read_operator(token).shown, dict)
        elif kind == "account":
            account = read_account(token)
            checks.check_account(account)
            account_options(account)
        elif kind == "user":
            checks.check_user(read_user(token))
        else:
            checks.check_activation(read_activation(token))
    except TokenError:
        return


def _keys_of(kind: str) -> list[str]:
    return {
        "operator": ["signing_keys", "system_account", "strict_signing_key_usage", "assert_server_version", "tags"],
        "account": [
            "imports", "exports", "limits", "signing_keys", "revocations", "default_permissions", "mappings",
            "authorization", "trace", "tags",
        ],
        "user": [
            "pub", "sub", "resp", "subs", "payload", "data", "src", "times", "times_location", "bearer_token",
            "allowed_connection_types", "issuer_account",
        ],
        "activation": ["subject", "kind", "issuer_account"],
    }[kind]  # fmt: skip


def _block(keys: list[str]) -> st.SearchStrategy[Any]:
    inner = [
        "subject", "type", "account", "token", "to", "local_subject", "share", "allow", "deny", "max", "ttl", "subs",
        "conn", "tiered_limits", "R1", "kind", "key", "template", "token_req", "revocations", "weight", "start", "end",
        "account_token_position", "response_type", "response_threshold", "service_latency", "sampling", "results",
    ]  # fmt: skip
    texts = st.sampled_from(["stream", "service", "a.*", "a.$1", ">", "", "x.", A.public, "user_scope", "Stream"])
    entry = st.dictionaries(st.sampled_from(inner + keys), values | texts, max_size=5)
    return entry | st.lists(entry | texts, max_size=3) | st.dictionaries(texts, st.lists(entry, max_size=2), max_size=2)


def test_limits_that_are_missing_allow_nothing() -> None:
    user = read_user(A.user(scoped=True).token())
    assert (user.may.limits.subscriptions, user.may.limits.payload) == (0, 0)
    assert user.may.unset
    options = account_options(read_account(Account("x", limits={}).token(OPERATOR.key)))
    assert (options.limits.max_connections, options.limits.max_payload) == (0, 0)


def test_jetstream_limits() -> None:
    def made(**more: Any) -> Any:
        return account_options(read_account(Account("x", limits=account_limits(**more)).token(OPERATOR.key))).jetstream

    assert made() is None
    plain = made(**jetstream_limits(disk_storage=5, mem_storage=0, streams=3, mem_max_stream_bytes=0))
    assert (plain.max_store, plain.max_memory, plain.max_streams, plain.memory_max_stream_bytes) == (5, 0, 3, -1)
    tiered = made(disk_storage=9, tiered_limits={"R1": jetstream_limits(disk_storage=7), "R3": {}})
    assert (tiered.max_store, sorted(tiered.tiers)) == (7, ["R1", "R3"])
    assert made(tiered_limits={"R3": jetstream_limits()}).max_store == -1
    assert made(tiered_limits={"R1": {}}) is None


@pytest.mark.parametrize(
    ("revocations", "issued", "revoked"),
    [({}, 5, False), ({"k": 5}, 5, True), ({"k": 4}, 5, False), ({"*": 5}, 5, True), ({"*": 4, "k": 9}, 5, True)],
)
def test_revocations(revocations: dict[str, int], issued: int, revoked: bool) -> None:
    assert is_revoked(revocations, "k", issued) is revoked


# --- scopes ---


def _filled(*allow: str, deny: tuple[str, ...] = (), name: str = "ann", tags: tuple[str, ...] = ()) -> Any:
    scope_key = account_key()
    template = {"pub": {"allow": list(allow), "deny": list(deny)}}
    scope = {"kind": "user_scope", "key": scope_key.public, "role": "", "template": template}
    account = Account("acc", more={"signing_keys": [scope], "tags": ["dept:x", "dept:y", "one:1"]})
    claims = read_account(account.token(OPERATOR.key))
    user = read_user(account.user(name, signer=scope_key, scoped=True, nats={"tags": list(tags)}).token())
    found = claims.signing_keys[scope_key.public]
    assert found is not None
    permissions = filled_in(found, user, claims).permissions
    assert isinstance(permissions, PermissionsOptions)
    return permissions.publish


def test_templates() -> None:
    found = _filled("a.{{name()}}", "{{ NAME() }}.x", "{{account-name()}}", "plain", "q.*.>")
    assert found == SubjectPermissions(["a.ann", "ann.x", "acc", "plain", "q.*.>"], [])
    assert _filled("{{tag(t)}}.{{account-tag(dept)}}", tags=("t:1", "t:2", "u:3")).allow == ["1.x", "1.y", "2.x", "2.y"]
    assert _filled("{{tag(T)}}", "z", tags=("t:a b", "t:ok")).allow == ["ok", "z"]
    assert _filled("{{tag(no)}}", "z") == SubjectPermissions(["z"], [])
    assert _filled("{{TAG(t)}}", "z", tags=("t:1",)).allow == ["z"]
    assert _filled("{{tag(no)}}") == SubjectPermissions(None, [">"])
    assert _filled("{{name()}}", name="a b", deny=("x",)) == SubjectPermissions(None, ["x", ">"])


@pytest.mark.parametrize("deny", ["{{tag(no)}}", "a.{{name()}}.", "{{unknown()}}", "{{tag(t)}}", "{{TAG(ok)}}", ""])
def test_templates_that_let_nobody_in(deny: str) -> None:
    with pytest.raises(TemplateError):
        _filled("x", deny=(deny,), tags=("t:a b", "ok:1"))


def test_a_list_that_is_filled_in_names_no_queues() -> None:
    assert _filled("a q", "b", "c d e", "x..y").allow == ["a q", "b"]
    assert _filled("a q", "b", "{{name()}}").allow == ["b", "ann"]
    assert _filled("x", deny=("a q",)).deny == ["a q"]
    with pytest.raises(TemplateError):
        _filled("x", deny=("a q", "{{name()}}"))


def test_templates_do_not_multiply_for_ever() -> None:
    many = tuple(f"t:{number}" for number in range(20))
    with pytest.raises(TemplateError):
        _filled("{{tag(t)}}.{{ tag(t)}}.{{tag(t) }}", tags=many)
    with pytest.raises(TemplateError):
        _filled(*(f"{number}.{{{{tag(t)}}}}.{{{{ tag(t)}}}}" for number in range(20)), tags=many)
    with pytest.raises(TemplateError):
        _filled(".".join("{{" + " " * blanks + "name()}}" for blanks in range(limits.TOKEN_PLACEHOLDERS + 1)))
    with pytest.raises(TemplateError):
        _filled("{{tag(t)}}." + "x" * (limits.TOKEN_BYTES // 20), tags=many)
    assert _filled(".".join(["{{tag(t)}}"] * 3), tags=many[:2]).allow == ["0.0.0", "1.1.1"]


# --- times ---


@pytest.mark.parametrize(
    ("start", "end", "now", "left"),
    [
        ("11:00:00", "22:00:00", "13:00:00", 9 * 3600),
        ("11:00:00", "22:00:00", "10:59:59", 0),
        ("11:00:00", "22:00:00", "22:00:00", 0),
        ("22:00:00", "06:00:00", "23:30:00", 6.5 * 3600),
        ("22:00:00", "06:00:00", "05:00:00", 3600),
        ("22:00:00", "06:00:00", "12:00:00", 0),
        ("00:00:00", "00:00:00", "12:00:00", 0),
    ],
)
def test_windows(start: str, end: str, now: str, left: float) -> None:
    moment = datetime.fromisoformat(f"2026-03-01T{now}")
    assert seconds_left((TimeRange(start, end),), "", moment) == left
    assert seconds_left((), "", moment) is None
    assert seconds_left((TimeRange("00:00:00", "00:00:00"), TimeRange(start, end)), "", moment) == left


@pytest.mark.parametrize(
    ("now", "hours"), [("2026-03-29T00:30", 6.5), ("2026-03-29T03:30", 4.5), ("2026-10-25T00:30", 8.5)]
)
def test_a_window_on_a_day_when_the_clocks_change(now: str, hours: float) -> None:
    moment = datetime.fromisoformat(now).replace(tzinfo=ZoneInfo("Europe/Berlin"))
    assert seconds_left((TimeRange("00:00:00", "08:00:00"),), "Europe/Berlin", moment) == hours * 3600


@pytest.mark.parametrize(
    ("start", "end", "location"),
    [
        ("09:00:00", "17:00", ""),
        ("", "22:00:00", ""),
        ("09:00:00", "22:00:00", "Nowhere/Land"),
        ("09:00:00", "22:00:00", "../etc"),
    ],
)
def test_times_that_cannot_be_read_allow_nothing(start: str, end: str, location: str) -> None:
    moment = datetime.fromisoformat("2026-03-01T13:00:00")
    assert seconds_left((TimeRange("00:00:00", "23:59:59"), TimeRange(start, end)), location, moment) == 0


def test_clock() -> None:
    assert checks.clock_seconds("23:59:59") == 86_399
    for text in ("24:00:00", "1:2", "", "12:60:00", "12:00:61", "noon"):
        assert checks.clock_seconds(text) is None


# --- what is wrong with accounts ---


def _import(subject: str = "a", kind: str = "stream", account: str = "X", **more: Any) -> dict[str, Any]:
    return {"imports": [{"subject": subject, "account": account, "type": kind, **more}]}


def _export(subject: str = "a", kind: str = "stream", **more: Any) -> dict[str, Any]:
    return {"exports": [{"subject": subject, "type": kind, **more}]}


POSITION = "Account Token Position"
WRONG: list[tuple[dict[str, Any], str]] = [
    (_import(account=""), "account to import from is not specified"),
    (_import(kind=""), 'invalid import type: "unknown"'),
    (_import("a.*", local_subject="b"), "subject does not contain enough * or reference wildcards $[0-9]"),
    (_import("a.>", local_subject="b"), "both, renaming subject and subject, need to end or not end in >"),
    (_import("a.*", local_subject="$2"), 'Reference $2 in "$2" reference * in "a.*" that do not exist'),
    (_import("a.*", local_subject="$1", to="x"), "Local Subject replaces To"),
    (_import(share=True), 'sharing information (for latency tracking) is only valid for services: "a"'),
    (_import(kind="service", allow_trace=True), "AllowTrace only valid for stream import"),
    ({"trace": {"dest": "a b"}}, 'the account Trace.Destination subject "a b" cannot have spaces'),
    ({"trace": {"dest": "a.*"}}, 'the account Trace.Destination subject "a.*" is not a valid publish subject'),
    (
        {"trace": {"dest": "a", "sampling": 101}},
        "the account Trace.Sampling value '101' is not valid, should be in the range [1..100]",
    ),
    (_import(token="x"), 'import "a" contains an invalid activation token'),
    (
        {"imports": [*_import(kind="service")["imports"], *_import("*", "service")["imports"]]},
        'overlapping subject namespace for "*" and "a" in same account "X"',
    ),
    (_export(kind="x"), 'unknown export type "x"'),
    ({"exports": [*_export()["exports"], *_export("*")["exports"]]}, 'stream export subject "*" already exports "a"'),
    (_export(response_type="Stream"), 'invalid response type for stream: "Stream"'),
    (_export(kind="service", response_type="x"), 'invalid response type for service: "x"'),
    (_export(response_threshold=-1), "negative response threshold is invalid"),
    (_export(account_token_position=1), f"{POSITION} can only be used with wildcard subjects: a"),
    (_export("a.*", account_token_position=3), f"{POSITION} 3 exceeds length of subject 'a.*'"),
    (_export("a.*", account_token_position=1), f"{POSITION} 1 matches 'a' but must match a * in: a.*"),
    (
        {"mappings": {"a": [{"subject": "b", "weight": 60}, {"subject": "c", "weight": 60}]}},
        'Mapping "a" exceeds 100% among all of it\'s weighted to mappings',
    ),
    ({"signing_keys": ["x"]}, '"x" is not a valid account signing key'),
    (
        {"default_permissions": {"pub": {"allow": ["a q"]}}},
        'Permission Subject "a q" is not allowed to contain queue',
    ),
]


@pytest.mark.parametrize(("more", "why"), WRONG)
def test_accounts_that_are_wrong(more: dict[str, Any], why: str) -> None:
    token = Account("x", more=more).token(OPERATOR.key)
    try:
        found = checks.check_account(read_account(token))
    except TokenError as error:
        found = [str(error)]
    assert why in found


def test_exports_that_the_operator_does_not_allow() -> None:
    exports = [{"subject": "a.*", "type": "stream"}, {"subject": "b", "type": "stream"}]
    account = Account("x", limits=account_limits(exports=1, wildcards=False), more={"exports": exports})
    assert checks.check_account(read_account(account.token(OPERATOR.key))) == [
        "the account contains more exports than allowed by the operator",
        "the account contains wildcard exports that are not allowed by the operator",
    ]


def test_times_of_claims() -> None:
    late, early = "claim is expired", "claim is not yet valid"
    for outer, wrong in (({}, []), ({"exp": NOW - 5}, [late]), ({"nbf": NOW + 86_400}, [early])):
        assert checks.check_user(read_user(A.user(outer=outer).token())) == wrong
    assert not checks.check_user(read_user(A.user(outer={"exp": NOW}).token()), NOW + 0.9)  # to the end of the second


def test_what_the_claims_of_an_operator_show() -> None:
    operator = Operator("O", more={"signing_keys": [], "tags": ["a"], "odd": 1, "account_server_url": "nats://x"})
    shown = read_operator(operator.token()).shown
    assert list(shown) == ["jti", "iat", "iss", "name", "sub", "nats"]
    assert shown["nats"] == {"account_server_url": "nats://x", "tags": ["a"], "type": "operator", "version": 2}


def test_large_numbers() -> None:
    head = encoded(as_json({"typ": "JWT", "alg": "ed25519-nkey"}))
    body = encoded(
        json.dumps({"iss": A.public, "sub": "x", "exp": 10**30, "nats": {"type": "user", "version": 2}}).encode()
    )
    token = f"{head}.{body}.{encoded(A.key.sign(f'{head}.{body}'.encode()))}"
    with pytest.raises(TokenError, match="exp must be an integer"):
        read_user(token)
