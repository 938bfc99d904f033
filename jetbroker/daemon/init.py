"""`jetbroker init`: writes a configuration to begin with, with one login.

$ jetbroker init
Wrote jetbroker.conf: user "admin", password dQ8...
The file has its hash only: note the password now. Start the broker with: jetbroker -c jetbroker.conf
"""

import argparse
import os
from collections.abc import Sequence

from jetbroker.auth.passwords import hash_password
from jetbroker.daemon.passwd import DEFAULT_COST, generated_password
from jetbroker.errors import JetbrokerError

_DESCRIPTION = """\
Writes a commented configuration with one login, whose password is made up, shown once and kept as a hash. A file that
is there stays as it is.
"""

_TEXT = """\
# A broker with JetStream for one machine.
#
#   jetbroker check config {file}     says what is wrong with this file
#   jetbroker -c {file}
#   jetbroker --signal reload         takes changes while the broker runs

# Other machines reach the broker when this is "0.0.0.0:4222"; see tls below before you do that.
listen: "127.0.0.1:4222"

# What the broker does: /healthz for probes, /metrics for Prometheus. This port has no login.
http: "127.0.0.1:8222"

# A page that shows all of this to people, with the login below: http://127.0.0.1:8222/dashboard
dashboard: true

authorization {{
    user: {user}
    # `jetbroker passwd` makes another hash
    password: "{hash}"
}}

jetstream {{
    # The streams are in ./data/jetstream, seen from where the broker is started.
    store_dir: "./data"

    # An ack means that the message is on disk.
    sync_interval: always

    # Without these: 75% of the memory and of the free disk.
    # max_memory_store: 1GB
    # max_file_store: 100GB
}}

# The largest message.
max_payload: 1MB

# tls {{
#     cert_file: "server.pem"
#     key_file: "server-key.pem"
# }}
"""


def main(argv: Sequence[str], program: str) -> int:
    """Run it with the words behind `init`. Returns the exit code; raises JetbrokerError when it cannot be written."""
    asked = _parser(program).parse_args(argv)
    if not asked.user.isascii() or not asked.user.isidentifier():
        raise JetbrokerError("--user takes letters, digits and _ only")
    password = generated_password()
    text = _TEXT.format(file=asked.file, user=asked.user, hash=hash_password(password, DEFAULT_COST))
    _write(asked.file, text)
    print(f'Wrote {asked.file}: user "{asked.user}", password {password}')
    print(f"The file has its hash only: note the password now. Start the broker with: {program} -c {asked.file}")
    return 0


def _write(path: str, text: str) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise JetbrokerError(f"{path} is there already: name another file") from None
    except (OSError, ValueError) as error:
        raise JetbrokerError(f"cannot write {path}: {error}") from None
    try:
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        os.unlink(path)
        raise JetbrokerError(f"cannot write {path}: {error}") from None


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{program} init", description=_DESCRIPTION)
    parser.add_argument("file", nargs="?", default="jetbroker.conf", metavar="FILE", help="default: %(default)s")
    parser.add_argument("--user", default="admin", help="the name of the login (default: %(default)s)")
    return parser
