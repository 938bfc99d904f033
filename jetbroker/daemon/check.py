"""`jetbroker check config`: everything that is wrong with a configuration file, before a start or a reload.

$ jetbroker check config broker.conf
jetbroker: broker.conf:3:1: unknown field "max_paylod"
jetbroker: broker.conf:3:1: did you mean "max_payload"?
"""

import argparse
import sys
from collections.abc import Sequence

from jetbroker.errors import ConfigError

_DESCRIPTION = """\
Reads a configuration file as a start does, and says what is wrong with it: file, line, column and key, all errors at
once. Exit code 0: a broker would start with it. 1: it would not.
"""


def main(argv: Sequence[str], program: str) -> int:
    """Run it with the words behind `check`. Returns the exit code."""
    asked = _parser(program).parse_args(argv)
    lines = wrong(asked.file)
    for line in lines:
        print(f"{program}: {line}", file=sys.stderr)
    if not lines:
        print(f"{asked.file} is valid")
    return 1 if lines else 0


def wrong(path: str) -> list[str]:
    """What is wrong with a file, a line for each fault, and what may have been meant."""
    from jetbroker.config import checks, start
    from jetbroker.config.report import ConfigErrors
    from jetbroker.daemon.cli import check_file

    try:
        check_file(path)
        checks.check_opening(start.load(path).options)
    except ConfigErrors as error:
        return [*error.lines, *error.hints]
    except ConfigError as error:
        text = str(error).strip()
        return [text if path in text else f"{path}: {text}"]
    return []


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{program} check", description="Checks what a broker is given.")
    words = parser.add_subparsers(required=True, metavar="COMMAND")
    config = words.add_parser("config", help="check a configuration file", description=_DESCRIPTION)
    config.add_argument("file", metavar="FILE", help="the configuration file")
    return parser
