"""Which remotes a reload adds, removes and changes."""

from __future__ import annotations

import pytest

from jetbroker.config.leaf_reload import leaf_changes
from jetbroker.config.options import LeafCompression, LeafOptions, LeafRemote, LeafUrl, TlsOptions
from jetbroker.errors import ConfigError


def remote(host: str, **said: object) -> LeafRemote:
    made = LeafRemote([LeafUrl("nats", host, 7422)], account="$G")
    for name, value in said.items():
        setattr(made, name, value)
    return made


def block(*remotes: LeafRemote) -> LeafOptions:
    return LeafOptions(remotes=[*remotes], defined=True)


def test_nothing_to_do() -> None:
    assert leaf_changes(block(), block()) is None


def test_remotes_come_go_and_stay() -> None:
    a, b, c = remote("a"), remote("b"), remote("c")
    again = remote("b", tls=TlsOptions(timeout=0.0))
    found = leaf_changes(block(a, b), block(c, again))
    assert found is not None
    assert found.added == [c] and found.added[0] is c
    assert found.removed == [a]
    (kept,) = found.kept
    assert kept.before is b and kept.after is again  # whose certificates count from now on
    assert not (kept.tls_first or kept.compression or kept.disabled)
    assert found.lines == ['Reloaded: LeafNode Remote urls=["nats://a:7422"], account="$G" removed']


def test_another_login_is_another_remote() -> None:
    found = leaf_changes(block(remote("a", credentials="x")), block(remote("a", credentials="y")))
    assert found is not None
    assert (len(found.added), len(found.removed), found.kept) == (1, 1, [])


def test_what_differs_of_a_remote_that_stays() -> None:
    compressed = remote("a", compression=LeafCompression("s2_fast"), disabled=True)
    found = leaf_changes(block(remote("a")), block(compressed))
    assert found is not None
    (kept,) = found.kept
    assert (kept.tls_first, kept.compression, kept.disabled) == (False, True, True)


def test_the_compression_of_the_listener() -> None:
    new = block()
    new.compression = LeafCompression("off")
    found = leaf_changes(block(), new)
    assert found is not None
    assert found.compression and not found.tls_first
    assert found.lines == ["Reloaded: LeafNode Compression value is: {off []}"]


def test_passwords_are_not_told() -> None:
    old, new = block(), block()
    old.authorization.user, old.authorization.password = "u", "hush"
    new.authorization.user, new.authorization.password = "u", "secret"
    with pytest.raises(ConfigError) as refused:
        leaf_changes(old, new)
    assert str(refused.value) == 'field "Password": old=[REDACTED], new=[REDACTED]'
