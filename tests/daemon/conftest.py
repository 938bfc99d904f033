"""Fixtures for commands."""

from __future__ import annotations

import sys

import pytest

from jetbroker.daemon import cli
from tests.support.store_command import Run


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """The exit code, what stands on stdout and on stderr."""

    def command(*words: object) -> tuple[int, str, str]:
        try:
            code = cli.main(["store", *map(str, words)])
        except SystemExit as end:  # argparse
            code = int(end.code or 0)
        sys.stdout.flush()
        said = capfd.readouterr()
        return code, said.out, said.err

    return command
