"""Nkeys: texts and keys, signatures, and that nothing but the real ones passes."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetbroker.auth.nkeys import CurveKey, decode_signature
from jetbroker.auth.server_id import new_server_id
from jetbroker.config import nkeys
from jetbroker.config.nkeys import is_signed
from tests.support.nkeys import UserKey

KNOWN = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"  # a public key of ADR-14's kind
KEY = UserKey()


def raw(text: str, prefix: int = nkeys.USER) -> bytes:
    key = nkeys.decode(prefix, text)
    assert key is not None
    assert len(key) == 32
    return key


@pytest.mark.parametrize("prefix", [nkeys.USER, nkeys.ACCOUNT, nkeys.SERVER, nkeys.CURVE])
def test_there_and_back(prefix: int) -> None:
    key = bytes(range(32))
    text = nkeys.encode(prefix, key)
    assert text[0] == {nkeys.USER: "U", nkeys.ACCOUNT: "A", nkeys.SERVER: "N", nkeys.CURVE: "X"}[prefix]
    assert len(text) == 56
    assert nkeys.decode(prefix, text) == key


def test_a_known_key() -> None:
    assert raw(KNOWN) != raw(KEY.public)


@given(st.text(max_size=70))
def test_garbage_is_no_key(text: str) -> None:
    assert nkeys.decode(nkeys.USER, text) is None


@given(st.integers(0, 55), st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"))
def test_one_wrong_letter(at: int, letter: str) -> None:
    text = KEY.public[:at] + letter + KEY.public[at + 1 :]
    if text == KEY.public:
        assert nkeys.decode(nkeys.USER, text)
        return
    assert nkeys.decode(nkeys.USER, text) is None


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
    ids=range(11),  # the keys are others in each process
)
def test_what_is_no_key_of_a_user(text: str) -> None:
    assert nkeys.decode(nkeys.USER, text) is None


def test_signatures() -> None:
    public = raw(KEY.public)
    signature = KEY.sign("nonce")
    assert is_signed(public, b"nonce", signature)
    assert not is_signed(public, b"nonce2", signature)
    assert not is_signed(raw(UserKey().public), b"nonce", signature)
    for size in range(64):
        assert not is_signed(public, b"nonce", signature[:size])
    assert not is_signed(public, b"nonce", signature + b"\0")
    assert not is_signed(public[:31], b"nonce", signature)
    assert not is_signed(b"\xff" * 32, b"nonce", signature)


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=70))
def test_random_keys_and_signatures_are_refused(public: bytes, signature: bytes) -> None:
    assert not is_signed(public, b"nonce", signature)


@given(st.binary(min_size=64, max_size=64))
def test_spellings_of_a_signature(raw: bytes) -> None:
    url, standard = base64.urlsafe_b64encode(raw).decode(), base64.b64encode(raw).decode()
    assert decode_signature(url.rstrip("=")) == raw
    assert decode_signature(standard) == raw
    if url != standard:
        assert decode_signature(url) is None
        assert decode_signature(standard.rstrip("=")) is None


@given(st.text(max_size=100))
def test_any_text_as_a_signature(text: str) -> None:
    found = decode_signature(text)
    assert found is None or len(found) <= len(text)


@pytest.mark.parametrize(
    ("public", "text", "signature"),
    [  # RFC 8032, section 7.1
        (
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595b"
            "be24655141438e7a100b",
        ),
        (
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb430"
            "2aeeb00d291612bb0c00",
        ),
    ],
)
def test_known_signatures(public: str, text: str, signature: str) -> None:
    assert is_signed(bytes.fromhex(public), bytes.fromhex(text), bytes.fromhex(signature))
    assert not is_signed(bytes.fromhex(public), bytes.fromhex(text) + b"\0", bytes.fromhex(signature))


def test_the_curve_key_is_one() -> None:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    key, other = CurveKey(), X25519PrivateKey.generate()
    assert key.public == key.public
    assert key.public[0] == "X"
    assert len(set(key.private)) > 8  # random, and surely not all zero
    public = X25519PublicKey.from_public_bytes(raw(key.public, nkeys.CURVE))
    shared = X25519PrivateKey.from_private_bytes(key.private).exchange(other.public_key())
    assert other.exchange(public) == shared
    assert CurveKey().public != key.public
