"""A short run of each fuzz target, and what longer runs have found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from fuzz.__main__ import Run, main
from fuzz.checks import Target
from fuzz.parsing.splits import SplitChecker
from fuzz.parsing.splitting import SplitPlayer
from fuzz.targets import TARGETS

ROOT = Path(__file__).resolve().parents[2]
INPUTS = 1000
SECONDS = 2.0

FOUND = [
    # `>` of a pattern took a subject with an empty token
    ("subjects", b"a..b a.>"),
    # an inbox with an empty token was delivered by what was known of its prefix
    ("interest", b"\x40\x00\x03\x02\x03\x05\x00\x08\x01"),
]


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_generated_input_is_answered_as_it_has_to_be(name: str, tmp_path: Path) -> None:
    run = Run(TARGETS[name], seed=7, folder=tmp_path)
    run.play(INPUTS, SECONDS)
    assert not run.findings
    assert run.inputs > 0


@pytest.mark.parametrize(("name", "data"), FOUND)
def test_what_was_found_stays_repaired(name: str, data: bytes) -> None:
    TARGETS[name].check(data)


def test_a_finding_is_kept_and_can_be_played_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(data: bytes) -> None:
        if b"3" in data:
            raise ValueError(data)

    target = Target("picky", lambda random: b"%d" % random.randrange(10), refuse)
    monkeypatch.setitem(TARGETS, "picky", target)
    assert main(["picky", "--inputs", "100", "--folder", str(tmp_path)]) == 1
    kept = sorted(tmp_path.iterdir())
    assert kept and all(path.read_bytes() == b"3" for path in kept)
    assert "findings" in capsys.readouterr().out
    with pytest.raises(ValueError, match="3"):
        main(["picky", "--replay", str(kept[0])])


def test_bursts_make_all_inputs_and_what_they_find_is_played_again(tmp_path: Path) -> None:
    bursts: list[int] = []
    found = [b"played again and wrong", b"right by itself"]

    def check(data: bytes) -> None:
        if data == found[0]:
            raise ValueError(data)

    def burst(seed: int, inputs: int) -> list[bytes]:
        bursts.append(inputs)
        return found if len(bursts) == 2 else []

    run = Run(Target("quick", lambda random: b"", check, burst), seed=1, folder=tmp_path)
    run.play(10_000, SECONDS)
    assert run.inputs == 10_000
    assert sum(bursts) + len(bursts) == 10_000
    assert [path.read_bytes() for path in run.findings] == found


def test_compiled_generator_makes_all_kinds_of_input() -> None:
    seeds = Random(4)
    inputs = [SplitPlayer().make(seeds.getrandbits(64)) for _ in range(2000)]
    assert len(set(inputs)) > 1900
    assert {data[0] for data in inputs} == set(range(16))
    assert max(map(len, inputs)) > 100


@pytest.mark.parametrize("name", ["protocol", "protocol-fast"])
def test_generators_reach_every_event_and_every_error(name: str) -> None:
    random, checker = Random(1), SplitChecker(max_control_line=40, max_payload=8)
    answers = [checker.check(TARGETS[name].generate(random)[1:]) for _ in range(3000)]
    events = b"".join(answer.rpartition(b"!")[0] for answer in answers)
    ends = {answer.rpartition(b"!")[2].partition(b"|")[0] for answer in answers}
    assert all(letter in events for letter in (b"C", b"M", b"S", b"U", b"<", b">", b"I", b"E"))
    assert {b"", b"0", b"Unknown Protocol Operation", b"Maximum Payload Violation"} < ends
    assert b"maximum control line exceeded" in ends


def test_atheris_is_guided_by_the_model(tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    command = [sys.executable, "-m", "fuzz.guided", "protocol", str(tmp_path), "-runs=300", "-seed=1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.iterdir())) > 10, "inputs that reached something new"
