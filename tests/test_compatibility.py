"""`make compatibility` counts right, and tells what it cannot do. Nothing is fetched here."""

from __future__ import annotations

import json

import pytest

from compatibility import __main__ as command
from compatibility import counting
from compatibility.commands import CompatibilityError, Target, fetch
from compatibility.counting import Outcome
from compatibility.projects import PROJECTS
from compatibility.report import Comparison, table
from compatibility.scenarios import checks
from tests.support import process


def go_events(*events: tuple[str, str | None]) -> str:
    return "\n".join(
        json.dumps({"Action": action, "Package": "example.org/pkg/nats"} | ({"Test": test} if test else {}))
        for action, test in events
    )


def test_go_events_are_counted() -> None:
    text = go_events(("run", "A"), ("output", "A"), ("pass", "A"), ("run", "B"), ("fail", "B"), ("run", "C"))
    text += "\nwritten on stderr\n" + go_events(("run", "D"), ("skip", "D"), ("fail", None))
    assert counting.from_go(text) == Outcome(frozenset({"nats: A"}), frozenset({"nats: B", "nats: C"}))


def test_a_go_package_that_does_not_compile_has_failed() -> None:
    assert counting.from_go(go_events(("fail", None))) == Outcome(frozenset(), frozenset({"nats: the package"}))


def test_generated_names_of_two_runs_are_the_same() -> None:
    first = go_events(
        ("pass", "T/c6a09557-011d-4c6b-837f-d3741b4588e6"), ("pass", "T/7c457b7a-282a-4bfb-a68f-000000000001")
    )
    second = go_events(("pass", "T/3fee7eed-18a4-4d85-993b-53ff07a984b0"))
    assert counting.from_go(first).passed - counting.from_go(second).passed == {"nats: T/* (2)"}


def test_results_of_pytest_are_counted() -> None:
    text = (
        '<testsuites><testsuite><testcase classname="t" name="a"/>'
        '<testcase classname="t" name="b"><failure/></testcase>'
        '<testcase classname="t" name="c"><error/></testcase><testcase classname="t" name="d"><skipped/></testcase>'
        "</testsuite></testsuites>"
    )
    assert counting.from_junit(text) == Outcome(frozenset({"t: a"}), frozenset({"t: b", "t: c"}))


def test_a_scenario_tells_what_passed_and_why_something_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def one_is_one(url: str) -> None:
        checks.expect(1, 1)

    async def one_is_two(url: str) -> None:
        checks.expect(url, "two")

    monkeypatch.setattr("sys.argv", ["scenario", "nats://one"])
    checks.play([one_is_one, one_is_two])
    told = capsys.readouterr().out
    assert "Wrong: got 'nats://one', not 'two'" in told
    assert counting.from_scenario(told) == Outcome(frozenset({"one is one"}), frozenset({"one is two"}))


def test_the_table_names_what_fails_with_jetbroker_only() -> None:
    theirs = Outcome(frozenset({"a", "b"}), frozenset({"c"}))
    ours = Outcome(frozenset({"a"}), frozenset({"b", "c"}))
    assert table([Comparison(PROJECTS[0], theirs, ours)]).endswith("| 2, 1 | 1, 2 | b |\n")
    assert table([Comparison(PROJECTS[0], theirs, theirs)]).endswith("| 2, 1 | 2, 1 | nothing |\n")


@pytest.mark.parametrize(("theirs", "ours", "code"), [("ab", "ab", 0), ("ab", "", 1), ("", "a", 2)])
def test_the_exit_code_tells_what_came_out(monkeypatch: pytest.MonkeyPatch, theirs: str, ours: str, code: int) -> None:
    class Fake:
        name, version, kind = "fake", "1", "its own tests"

        def prepare(self) -> None: ...

        def run(self, target: Target) -> Outcome:
            return Outcome(frozenset(ours if "jetbroker" in target.command else theirs), frozenset())

    class Server:
        url = "nats://127.0.0.1:1"

        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> Server:
            return self

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(command, "PROJECTS", (Fake(),))
    monkeypatch.setattr(process, "find_nats_server", lambda: "nats-server")
    monkeypatch.setattr(process, "ServerProcess", Server)
    assert command.main([]) == code


def test_help_names_every_project(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        command.main(["--help"])
    told = capsys.readouterr().out
    assert all(project.name in told for project in PROJECTS)


def test_an_unknown_project_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main(["nats-py", "nothing-such"])
    assert "no project is named nothing-such; there are nats-py, " in capsys.readouterr().err


def test_a_missing_nats_server_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(process, "find_nats_server", lambda: None)
    with pytest.raises(SystemExit, match="2"):
        command.main([])
    assert "neither on the PATH nor in ~/go/bin: install it first" in capsys.readouterr().err


def test_a_tool_that_is_missing_or_fails_is_told(tmp_path) -> None:
    with pytest.raises(CompatibilityError, match="'no-such-tool' is not on the PATH"):
        fetch(["no-such-tool"], tmp_path)
    with pytest.raises(CompatibilityError, match="ended with 3: why"):
        fetch(["sh", "-c", "echo why >&2; exit 3"], tmp_path)
