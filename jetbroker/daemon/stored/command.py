"""`jetbroker store`: its commands, and what all of them do about errors.

$ jetbroker store ls /var/lib/jetbroker
$ jetbroker store cat /var/lib/jetbroker ORDERS --since 2h --subject 'orders.eu.>' -o ndjson
"""

import argparse
import os
import sys
from collections.abc import Sequence

from jetbroker.daemon.stored import cat, export, infer, info, listing, restore, ship, verify
from jetbroker.errors import JetbrokerError

FINE, PROBLEM, WRONG_USAGE = 0, 1, 2
INTERRUPTED = 130

_DESCRIPTION = """\
Looks into the files of a store, and copies it elsewhere. The broker may be running or stopped: it is not asked, and
nothing of its store is locked or written. STORE may also be the folder or URL that a store was shipped to.
Exit code 0: all is well. 1: something is damaged, or went wrong on the way. 2: wrong usage, such as a store or a stream
that is not there.
"""


def main(argv: Sequence[str], program: str) -> int:
    """Run it with the words behind `store`. Returns the exit code."""
    asked = _parser(program).parse_args(argv)
    try:
        code = int(asked.run(asked, program))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # whoever read has enough; Python's own flush at the end would complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except KeyboardInterrupt:
        return INTERRUPTED
    except JetbrokerError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return WRONG_USAGE
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"{program}: {place}{error.strerror or error}", file=sys.stderr)
        return PROBLEM


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{program} store", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words = parser.add_subparsers(required=True, metavar="COMMAND")
    for each in (listing, info, cat, export, infer, verify, ship, restore):
        each.add(words)
    return parser
