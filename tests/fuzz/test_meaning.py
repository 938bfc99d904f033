"""The fuzzer of meaning: a short run, that it knows all there is to say, and that it sees what is wrong."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fuzz.meaning import command, configuration, extremes, player, vocabulary
from fuzz.meaning.command import Run, groups
from fuzz.meaning.player import Finding, Player, Wrong
from fuzz.meaning.steps import CHECK, KILL, RELOAD, SEND, START, STOP, Step
from jetbroker.config.loader import load_text
from jetbroker.config.report import Report
from jetbroker.jetstream.models.decode import Kind
from jetbroker.jetstream.streams.direct import DirectRequest
from jetbroker.monitor import options

PRODUCT = Path(__file__).resolve().parents[2] / "jetbroker"
STEPS = 1000
SECONDS = 20.0


def sources(*folders: str) -> str:
    return "\n".join(
        path.read_text() for folder in folders for path in (PRODUCT / folder).rglob("*.py*") if path.suffix != ".pyc"
    )


# --- it plays ---


def test_no_extreme_disturbs_the_broker(tmp_path: Path) -> None:
    run = Run(seed=1, folder=tmp_path)
    run.play(STEPS, SECONDS)
    assert not run.findings, run
    assert run.starts > 1
    assert run.steps > 100


def test_a_seed_gives_the_same_steps() -> None:
    def some(seed: int, epoch: int) -> list[list[Step]]:
        source = groups(seed, epoch)
        return [source.next() for _ in range(100)]

    assert some(3, 0) == some(3, 0)
    assert some(3, 0) != some(3, 1)
    assert some(3, 0) != some(4, 0)
    whats = {step.what for group in some(3, 0) for step in group}
    assert {SEND, CHECK, RELOAD, START} < whats
    assert {STOP, KILL} & whats


# --- it knows everything ---


def test_every_endpoint_has_its_body() -> None:
    assert vocabulary.missing_endpoints() == set()


def test_every_field_has_extremes_that_are_decoded() -> None:
    random = Random(1)
    for cls, fields in vocabulary.FIELDS.items():
        assert fields, cls
        for field in fields:
            assert {extremes.of_kind(field.kind, random) for _ in range(20)}, field
    names = {field.path[-1] for field in vocabulary.FIELDS[vocabulary.DIRECT]}
    asked = {name for name in vars(DirectRequest) if not name.startswith("_")}
    aliases = {"last_by_subject": "last_by_subj", "next_by_subject": "next_by_subj"}
    assert {aliases.get(name, name).removesuffix("_ns") for name in asked} == names


def test_a_kind_without_extremes_is_an_error() -> None:
    class Odd(Kind):
        pass

    with pytest.raises(TypeError, match="Odd"):
        [extremes.of_kind(Odd(), Random(seed)) for seed in range(50)]


def test_every_header_is_sent() -> None:
    text = sources("jetstream", "connections", "routing", "accounts")
    found = {name.removesuffix("-") for name in re.findall(r'b"(Nats-[A-Za-z-]+)', text)}
    found |= {f"Nats-{name}" for name in re.findall(r'assign\(&out\.\w+, name, b"([A-Za-z-]+)"', text)}
    prefixes = {"Nats-Expected", "Nats-Schedule"}
    sent = {name.decode() for name in vocabulary.HEADERS}
    assert found - prefixes - sent == set()


def test_every_option_of_the_servers_own_requests_is_sent() -> None:
    text = sources("monitor")
    found = set(re.findall(r'query\.(?:text|integer|unsigned|boolean)\("([\w-]+)"', text))
    named = [cls for cls in vars(options).values() if dataclasses.is_dataclass(cls) and isinstance(cls, type)]
    found |= {str(field.path[-1]) for cls in named for field in vocabulary.fields_of(cls)}
    assert len(found) > 15
    assert found - set(vocabulary.OPTIONS) == set()


def test_every_key_of_a_configuration_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    offered: set[str] = set()
    fill = Report.fill

    def watched(self: Report, target: object, tree: Any, table: Any, blocks: Any, *more: Any, **named: Any) -> None:
        offered.update(table, blocks)
        fill(self, target, tree, table, blocks, *more, **named)

    monkeypatch.setattr(Report, "fill", watched)
    random = Random(2)
    for _ in range(500):
        try:
            load_text(configuration.spoiled(random), "file.conf", {})
        except Exception:  # what is wrong with one is for another test
            continue
    assert len(offered) > 100
    assert offered - configuration.all_keys() == set()
    assert configuration.missing_readers() == set()


def test_the_good_configuration_is_one() -> None:
    assert len(load_text(configuration.written(configuration.good())).options.accounts) == 4


# --- it sees ---


@pytest.fixture
def playing() -> Iterator[Player]:
    with Player() as made:
        yield made


@pytest.fixture(scope="module")
def lasting() -> Iterator[Player]:
    """For tests that do the broker no harm."""
    with Player() as made:
        yield made


def found_by(play: Callable[[], object]) -> Finding:
    with pytest.raises(Wrong) as wrong:
        play()
    return wrong.value.finding


PUBLISH = [Step(SEND, "A", "s0.a", b"", b"x")]


def play_often(playing: Player) -> None:
    for _ in range(100):
        playing.play(PUBLISH)


def test_a_broker_that_ends_is_a_finding(playing: Player) -> None:
    playing.play(PUBLISH)
    os.kill(playing.server.pid, signal.SIGSEGV)
    assert found_by(lambda: play_often(playing)).what.startswith("ended with -11")


def test_messages_that_are_gone_are_a_finding(playing: Player) -> None:
    playing.play(PUBLISH)
    playing.play([Step(STOP)])
    shutil.rmtree(playing.folder / "store" / "jetstream" / "W")
    assert found_by(lambda: playing.play([Step(START)])).what == "acknowledged messages are gone"


def test_streams_that_are_gone_are_a_finding(playing: Player) -> None:
    playing.play([Step(SEND, "A", "$JS.API.STREAM.CREATE.S0", b"", b'{"name":"S0"}', "answered"), Step(KILL)])
    shutil.rmtree(playing.folder / "store" / "jetstream" / "A")
    assert found_by(lambda: playing.play([Step(START)])).what == "streams are gone"


def test_a_fault_in_the_log_is_a_finding(lasting: Player) -> None:
    line = "[1] 2026/01/01 00:00:00.000000 [ERR] Internal error in X: OverflowError('too large')"
    lasting.server.log.append(line)
    finding = found_by(lambda: lasting.play(PUBLISH))
    assert "OverflowError" in finding.what
    assert not finding.over


def test_a_broker_that_computes_is_a_finding(lasting: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    lasting.play(PUBLISH)
    monkeypatch.setattr(lasting, "strict_ping_ms", 1e-6)  # no PING is answered without any work
    assert found_by(lambda: play_often(lasting)).what == "a bystander waited"


def test_a_request_without_an_answer_is_a_finding(lasting: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player, "ANSWER_SECONDS", 0.5)
    silent = Step(SEND, "A", "$JS.API.NOTHING", b"", b"", "answered")
    assert found_by(lambda: lasting.play([silent])).what == "no answer to API.NOTHING"


def test_a_configuration_that_raises_anything_else_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(player, "load_text", fail)
    assert found_by(lambda: player.check(b"port: 1")).what == "configuration: KeyError"


def test_a_finding_is_written_down_and_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def play(self: Player, steps: Sequence[Step]) -> None:
        if any(step.body == b"\xff" for step in steps):
            raise Wrong("seen")

    monkeypatch.setattr(Player, "play", play)
    monkeypatch.setattr(Player, "start", lambda self: None)
    path = tmp_path / "found.json"
    harmless = Step(SEND, "A", "a")
    command.write(path, Finding("seen"), [[harmless] * 9, [harmless, Step(SEND, "A", "b", b"h", b"\xff"), harmless]])
    assert command.main(["--replay", str(path)]) == 1
    assert command.main(["--shorten", str(path)]) == 0
    what, short = command.read(path.with_suffix(".short.json"))
    assert (what, short) == ("seen", [[Step(SEND, "A", "b", b"h", b"\xff")]])
