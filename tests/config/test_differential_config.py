"""The same configuration through `nats-server -t` and through ours: verdict, digest and words of the error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jetbroker.daemon import cli
from jetbroker.errors import ConfigError
from tests.config import test_language, test_options
from tests.support.process import find_nats_server

NATS_SERVER = find_nats_server()
pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(NATS_SERVER is None, reason="nats-server is neither on the PATH nor in ~/go/bin"),
]

OUR_OWN = "jetstream {ship"  # a block that nats-server does not know
# What we do otherwise, on purpose: see docs/CONFIG.md, "Differences".
DIFFERENT = {
    "cluster: false",  # refused there: no map
    "a: 100e",  # wraps around there, out of range here
    'server_name: "\\xff"',  # taken there
}


def theirs(path: Path) -> str:
    """What nats-server says: `OK <digest>` or the error."""
    result = subprocess.run(
        [str(NATS_SERVER), "-t", "-c", path.name], cwd=path.parent, capture_output=True, timeout=30, check=False
    )
    text = result.stderr.decode("utf-8", "replace").strip().removeprefix("nats-server: ")
    return text.replace(f"configuration file {path.name} is valid (", "OK (").replace("\0", " ")


def ours(path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same in our words."""
    monkeypatch.chdir(path.parent)
    try:
        options = cli.check_file(path.name)
    except ConfigError as error:
        return str(error).strip()
    return f"OK ({options.config_digest})"


TEXTS = [
    *(text for text, _ in test_language.FILES),
    *(f"accounts: {text}" for text, _ in test_language.VALUES if not text.startswith(("[", "{"))),
    *(text for text, _ in test_language.ERRORS),
    *(text for text, _, _ in test_options.SETTINGS if OUR_OWN not in text),
    *(text for text, _ in test_options.ERRORS if OUR_OWN not in text),
    *(text for text, _ in test_options.START_ERRORS),
]


@pytest.mark.parametrize("text", TEXTS)
def test_same_verdict(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "conf"
    path.write_text(text)
    mine, reference = ours(path, monkeypatch), theirs(path)
    if "not supported yet" in mine or text in DIFFERENT:
        return
    assert mine.startswith("OK (") == reference.startswith("OK ("), (mine, reference)
    if mine.startswith("OK ("):
        assert mine == reference


SAME_WORDS = [
    text
    for text, message in [*test_language.ERRORS, *test_options.ERRORS]
    if "not supported" not in message and "UTF-8" not in message and "NUL" not in message
]
# nats-server places the error at the end of the entry; at a random one of the two; wraps around.
OTHER_WORDS = {
    "authorization {users: [{pass: a}]}",
    "store_dir: a\njetstream {store_dir: b}",
    "accounts {A {users: [{user: a}]}, B {users: [{user: a}]}}",
    "a: 100e",
}


@pytest.mark.parametrize("text", [text for text in SAME_WORDS if text not in OTHER_WORDS and OUR_OWN not in text])
def test_same_words(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "conf"
    path.write_text(text)
    mine, reference = ours(path, monkeypatch).splitlines(), theirs(path).splitlines()
    # Lines come in the order of a Go map there; what follows from an error is not ours.
    known = {line for line in reference if "nil pointer" not in line}
    assert set(mine) == known


WORDS = st.lists(
    st.sampled_from(
        ["port", "accounts", "jetstream", "domain", "a", ":", "=", " ", "\n", ",", ";", "{", "}", "[", "]", "5", "-1",
         "1k", "2mb", "1.5", "true", '"', "'", '"x"', "# c\n", "// c\n", "$x", "x", "127.0.0.1", "10s",
         "\\t", "(\n", "\n)\n"]
    ),
    min_size=1,
    max_size=14,
).map("".join)  # fmt: skip


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=WORDS)
def test_what_they_accept_is_accepted(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever starts nats-server starts us, and says the same; the reverse need not hold."""
    path = tmp_path / "conf"
    path.write_text(text)
    reference = theirs(path)
    if not reference.startswith("OK ("):
        return
    mine = ours(path, monkeypatch)
    # Not taken over: a lone `/`, a number that ends in `]`, values nobody wrote, a block cut off by the end.
    odd = ("Expected a comment", "got ']' instead", "Expected a value", "got '\"' instead")
    if any(words in mine for words in odd) or "(\n" in text:
        return
    assert mine == reference
