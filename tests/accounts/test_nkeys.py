"""Nkeys: texts and keys, signatures, and that nothing but the real ones passes."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetbroker.auth import nkeys
from jetbroker.auth.server_id import new_server_id
from tests.support.nkeys import UserKey

KNOWN = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"  # a public key of ADR-14's kind
KEY = UserKey()


@pytest.mark.parametrize("prefix", [nkeys.USER, nkeys.ACCOUNT, nkeys.SERVER, nkeys.CURVE])
def test_there_and_back(prefix: int) -> None:
    key = bytes(range(32))
    text = nkeys.encode(prefix, key)
    assert text[0] == {nkeys.USER: "U", nkeys.ACCOUNT: "A", nkeys.SERVER: "N", nkeys.CURVE: "X"}[prefix]
    assert len(text) == 56
    assert nkeys.decode(prefix, text) == key


def test_a_known_key() -> None:
    assert len(nkeys.decode(nkeys.USER, KNOWN)) == 32


@given(st.text(max_size=70))
def test_garbage_is_no_key(text: str) -> None:
    with pytest.raises(nkeys.NkeyError):
        nkeys.decode(nkeys.USER, text)


@given(st.integers(0, 55), st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"))
def test_one_wrong_letter(at: int, letter: str) -> None:
    text = KEY.public[:at] + letter + KEY.public[at + 1 :]
    if text == KEY.public:
        assert nkeys.decode(nkeys.USER, text)
        return
    with pytest.raises(nkeys.NkeyError):
        nkeys.decode(nkeys.USER, text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "U",
        KEY.public[:-1],
        KEY.public + "A",
        KEY.public.lower(),
        KEY.public + "=" * 8,
        UserKey(nkeys.ACCOUNT).public,
        new_server_id(),
        KEY.seed,
        "é" * 56,
        "U" * 56,
    ],
)
def test_what_is_no_key_of_a_user(text: str) -> None:
    with pytest.raises(nkeys.NkeyError):
        nkeys.decode(nkeys.USER, text)


def test_signatures() -> None:
    public = nkeys.decode(nkeys.USER, KEY.public)
    signature = KEY.sign("nonce")
    assert nkeys.is_signed(public, b"nonce", signature)
    assert not nkeys.is_signed(public, b"nonce2", signature)
    assert not nkeys.is_signed(nkeys.decode(nkeys.USER, UserKey().public), b"nonce", signature)
    for size in range(64):
        assert not nkeys.is_signed(public, b"nonce", signature[:size])
    assert not nkeys.is_signed(public, b"nonce", signature + b"\0")
    assert not nkeys.is_signed(public[:31], b"nonce", signature)
    assert not nkeys.is_signed(b"\xff" * 32, b"nonce", signature)


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=70))
def test_random_keys_and_signatures_are_refused(public: bytes, signature: bytes) -> None:
    assert not nkeys.is_signed(public, b"nonce", signature)


@given(st.binary(min_size=64, max_size=64))
def test_spellings_of_a_signature(raw: bytes) -> None:
    url, standard = base64.urlsafe_b64encode(raw).decode(), base64.b64encode(raw).decode()
    assert nkeys.decode_signature(url.rstrip("=")) == raw
    assert nkeys.decode_signature(standard) == raw
    if url != standard:
        assert nkeys.decode_signature(url) is None
        assert nkeys.decode_signature(standard.rstrip("=")) is None


@given(st.text(max_size=100))
def test_any_text_as_a_signature(text: str) -> None:
    found = nkeys.decode_signature(text)
    assert found is None or len(found) <= len(text)


def test_the_curve_key_is_one() -> None:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    key, other = nkeys.CurveKey(), X25519PrivateKey.generate()
    assert key.public == key.public
    assert key.public[0] == "X"
    public = X25519PublicKey.from_public_bytes(nkeys.decode(nkeys.CURVE, key.public))
    shared = X25519PrivateKey.from_private_bytes(key.private).exchange(other.public_key())
    assert other.exchange(public) == shared
    assert nkeys.CurveKey().public != key.public
