"""`jetbroker replay`: publishes dead letters again, each on its original subject.

$ jetbroker replay DEAD
seq 1: orders.new -> ORDERS 5012
1 letter replayed
"""

import argparse
import base64
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jetbroker.client.requester import Requester
from jetbroker.client.server import Server

_DESCRIPTION = """\
Publishes the messages of a dead-letter stream again, each on the subject it was stored with before it died. A letter
leaves the dead-letter stream when the stream it came from has confirmed the message. A replay that was cut short may
be run again: within the duplicate window no message is stored twice.
"""
_NOT_FOUND = 10_037


class Letter(NamedTuple):
    """One stored dead letter."""

    seq: int
    headers: list[tuple[str, str]]
    data: bytes

    def header(self, name: str) -> str:
        """The value of a header, "" when there is none."""
        return next((value for key, value in self.headers if key == name), "")

    def block(self) -> bytes:
        """The headers it is published with: its own, and what keeps it from being stored twice or elsewhere."""
        lines = [f"{name}: {value}" for name, value in self.headers if not name.startswith(("Dead-Letter-", "Nats-"))]
        if first_id := self.header("Dead-Letter-Msg-Id"):
            lines.append(f"Dead-Letter-Msg-Id: {first_id}")
        lines.append(f"Nats-Msg-Id: {self.header('Nats-Msg-Id')}.replay")
        lines.append(f"Nats-Expected-Stream: {self.header('Dead-Letter-Stream')}")
        return "\r\n".join(["NATS/1.0", *lines, "", ""]).encode("utf-8", "surrogateescape")


def main(argv: Sequence[str], program: str) -> int:
    """Run it with the words behind `replay`. Returns the exit code: 1 when a letter was refused.

    Raises JetbrokerError when the server cannot be asked.
    """
    asked = _parser(program).parse_args(argv)
    url = asked.server if "://" in asked.server else f"nats://{asked.server}"
    with Requester(
        Server((url,), credentials=asked.creds, nkey=asked.nkey, tls_ca=asked.tlsca), asked.timeout
    ) as server:
        return replay(server, asked)


def replay(server: Requester, asked: argparse.Namespace) -> int:
    """Replay what is wanted, in order, up to the last letter there is now. Returns the exit code."""
    done = refused = 0
    for letter in letters(server, asked.stream, asked.subject):
        if not _is_wanted(letter, asked):
            continue
        if asked.limit and done + refused >= asked.limit:
            break
        subject = letter.header("Dead-Letter-Subject")
        if asked.dry_run:
            print(f"seq {letter.seq}: {subject} ({letter.header('Dead-Letter-Reason')})")
            done += 1
            continue
        answer = server.request(subject, letter.data, letter.block())
        if "error" in answer or not answer.get("stream"):
            refused += 1
            told = answer.get("error", {}).get("description", "no stream has confirmed it")
            print(f"seq {letter.seq}: {subject}: {told}", file=sys.stderr)
            continue
        done += 1
        print(f"seq {letter.seq}: {subject} -> {answer['stream']} {answer['seq']}")
        if not asked.keep:
            server.api(f"STREAM.MSG.DELETE.{asked.stream}", {"seq": letter.seq, "no_erase": True})
    print(f"{done} letter{'' if done == 1 else 's'} {'to replay' if asked.dry_run else 'replayed'}")
    return 1 if refused else 0


def letters(server: Requester, stream: str, subject: str) -> Iterator[Letter]:
    """The messages of the stream whose subject matches, in order; none that come while it runs."""
    last = server.api(f"STREAM.INFO.{stream}", {})["state"]["last_seq"]
    seq = 1
    while seq <= last:
        answer = server.ask(f"STREAM.MSG.GET.{stream}", {"seq": seq, "next_by_subj": subject})
        if answer.get("error", {}).get("err_code") == _NOT_FOUND:
            return
        found = server.checked(answer)["message"]
        if found["seq"] > last:
            return
        seq = found["seq"] + 1
        yield _letter(found)


def _letter(found: dict[str, Any]) -> Letter:
    block = base64.b64decode(found.get("hdrs", "")).decode("utf-8", "surrogateescape")
    pairs = (line.partition(":") for line in block.split("\r\n")[1:] if ":" in line)
    headers = [(name, value.strip()) for name, _, value in pairs]
    return Letter(found["seq"], headers, base64.b64decode(found.get("data", "")))


def _is_wanted(letter: Letter, asked: argparse.Namespace) -> bool:
    """What is no dead letter stays where it is."""
    if not letter.header("Dead-Letter-Subject") or not letter.header("Dead-Letter-Stream"):
        return False
    wanted = ((asked.origin, "Dead-Letter-Stream"), (asked.consumer, "Dead-Letter-Consumer"))
    if any(value and letter.header(name) != value for value, name in wanted):
        return False
    return not asked.reason or letter.header("Dead-Letter-Reason").split(":")[0] == asked.reason


def _stream_name(text: str) -> str:
    if not text or any(letter in text for letter in " \t\r\n.*>/\\"):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a stream")
    return text


def _subject(text: str) -> str:
    if not text or any(letter.isspace() for letter in text):
        raise argparse.ArgumentTypeError(f"{text!r} is no subject")
    return text


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of letters")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds up to an hour")
    return seconds


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{program} replay", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stream", type=_stream_name, help="the dead-letter stream")
    parser.add_argument(
        "-s",
        "--server",
        default=os.environ.get("NATS_URL", "nats://127.0.0.1:4222"),
        metavar="URL",
        help="nats://[user:password@ or token@]host:port, tls:// for TLS (default: $NATS_URL, else this machine)",
    )
    parser.add_argument("--tlsca", default="", metavar="FILE", help="certificates to trust with tls://")
    parser.add_argument("--creds", default="", metavar="FILE", help="a credentials file to log in with")
    parser.add_argument("--nkey", default="", metavar="FILE", help="a file with the seed of an nkey to log in with")
    parser.add_argument("--subject", type=_subject, default=">", help="only letters whose subject matches")
    parser.add_argument("--origin", default="", metavar="STREAM", help="only what died in this stream")
    parser.add_argument("--consumer", default="", metavar="NAME", help="only what this consumer gave up")
    parser.add_argument("--reason", choices=("max_deliver", "terminated"), default="", help="only what died so")
    parser.add_argument("--limit", type=_count, default=0, metavar="N", help="at most so many (default: all)")
    parser.add_argument("--keep", action="store_true", help="leave the letters in the dead-letter stream")
    parser.add_argument("-n", "--dry-run", action="store_true", help="tell what would be replayed")
    parser.add_argument("--timeout", type=_seconds, default=10.0, metavar="S", help="for each answer (default: 10)")
    return parser
