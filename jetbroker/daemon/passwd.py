"""`jetbroker passwd`: makes a bcrypt hash for the configuration file, as `nats server passwd` does.

$ jetbroker passwd
Enter password:
Re-enter password:
$2a$11$...
$ printf 'correct horse battery' | jetbroker passwd
"""

import argparse
import getpass
import os
import secrets
import string
import sys
from collections.abc import Sequence

from jetbroker.auth.passwords import hash_password
from jetbroker.errors import JetbrokerError

MIN_CHARACTERS = 10
GENERATED_CHARACTERS = 22
DEFAULT_COST = 11
MIN_COST, MAX_COST = 4, 31
_LETTERS = string.ascii_letters + string.digits

_DESCRIPTION = """\
Makes a bcrypt hash of a password (or token) for the configuration file:

    authorization { user: ann, password: "$2a$11$..." }

The password is asked for twice. When the input is no terminal, its first line is the password.
"""


def main(argv: Sequence[str], program: str) -> int:
    """Run it with the words behind `passwd`. Returns the exit code; raises JetbrokerError for a bad password."""
    asked = _parser(program).parse_args(argv)
    if not MIN_COST <= asked.cost <= MAX_COST:
        raise JetbrokerError(f"bcrypt cost should be between {MIN_COST} and {MAX_COST}")
    password = asked.password or os.environ.get("PASSWORD", "")
    generated = asked.generate and not password
    if generated:
        password = generated_password()
    elif not password:
        password = _ask()
    if not _is_text(password):
        raise JetbrokerError("password should be valid UTF-8")
    if len(password) < MIN_CHARACTERS:
        raise JetbrokerError(f"password should be at least {MIN_CHARACTERS} characters long")
    try:
        hashed = hash_password(password, asked.cost)
    except ValueError as error:
        raise JetbrokerError(f"error producing bcrypt hash: {error}") from None
    if generated:
        print(f"Generated password: {password}")
        print(f"       bcrypt hash: {hashed}")
    else:
        print(hashed)
    return 0


def generated_password() -> str:
    """Letters and digits that nobody guesses."""
    return "".join(secrets.choice(_LETTERS) for _ in range(GENERATED_CHARACTERS))


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{program} passwd", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "-p",
        "--pass",
        dest="password",
        default="",
        metavar="PASSWORD",
        help="the password; other users of this machine can see it ($PASSWORD does the same, unseen)",
    )
    parser.add_argument("-g", "--generate", action="store_true", help="make up a secure password and show it")
    parser.add_argument(
        "-c",
        "--cost",
        type=int,
        default=DEFAULT_COST,
        help=f"bcrypt cost, {MIN_COST} to {MAX_COST}; each step doubles the time of a login (default: %(default)s)",
    )
    return parser


def _is_text(password: str) -> bool:
    """False when it came from bytes that no client could send."""
    try:
        password.encode()
    except UnicodeEncodeError:
        return False
    return True


def _ask() -> str:
    """The password, from a terminal twice and unseen, else the first line of the input."""
    if not sys.stdin.isatty():
        line = sys.stdin.buffer.readline()
        return line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
    try:
        first = getpass.getpass("Enter password: ")
        second = getpass.getpass("Re-enter password: ")
    except (EOFError, KeyboardInterrupt):
        raise JetbrokerError("could not read password") from None
    if first != second:
        raise JetbrokerError("entered and re-entered passwords do not match")
    return first
