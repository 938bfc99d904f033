"""Writes the pages of docs/reference, the man page and the badges, from the tables that the broker itself reads.

python -m tools.reference           # writes them
python -m tools.reference --check   # ends with 1 when one is not what it would write
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from jetbroker import NATS_VERSION, __version__
from jetbroker.config import keys as tables
from jetbroker.daemon import cli, flags
from jetbroker.jetstream.models.errors import ERRORS
from tools import keys
from tools.api import api_page
from tools.badges import badges
from tools.commands import commands_page
from tools.markdown import WRITTEN, code, table
from tools.metrics import Metric, metrics

ROOT = Path(__file__).resolve().parent.parent
DASHED = re.compile(r"-[\w-]+")


def dashed(name: str) -> str:
    """A flag as people write it."""
    return f"-{name}" if len(name) <= 2 or name.isupper() else f"--{name}"


def synonyms(wanted: Callable[[flags.Flag], bool]) -> dict[tuple[type, str], list[str]]:
    """Flags of one meaning stand together."""
    found: dict[tuple[type, str], list[str]] = {}
    for name, flag in flags.FLAGS.items():
        if wanted(flag):
            found.setdefault((flag.kind, flag.field), []).append(name)
    return found


def config_keys() -> str:
    """docs/reference/CONFIG-KEYS.md"""
    parts = [
        f"""# Keys of the configuration

This page lists every key that jetbroker's readers look for, block by block. [CONFIG.md](../CONFIG.md) says what they mean and what their defaults are. {WRITTEN}

Keys of one row mean the same. A row without a value is a block, a list, has several forms, or is another name for one that has. Any other key is an error that names file, line and column.
"""
    ]
    for block in keys.blocks():
        parts.append(f"## {block.place[0].upper()}{block.place[1:]}\n")
        rows = [
            (code(key.names), key.value, "no effect" if key.option in tables.WITHOUT_EFFECT else "")
            for key in block.keys
        ]
        parts.append(table(("Key", "Value", ""), rows) + "\n")
        if block.refused:
            parts.append(f"Refused, unless the value is `false`: {code(block.refused)}.\n")
    return "\n".join(parts)


def from_nats_server() -> str:
    """docs/reference/FROM-NATS-SERVER.md"""
    found = keys.blocks()
    taken = sum(len(key.names) for block in found for key in block.keys)
    refused = [(block.place, code(block.refused)) for block in found if block.refused]
    ignored = [
        (block.place, code(key.names)) for block in found for key in block.keys if key.option in tables.WITHOUT_EFFECT
    ]
    reasons: dict[str, list[str]] = {}
    for name, reason in flags.REFUSED.items():
        reasons.setdefault(reason, []).append(dashed(name))
    refused_flags = [(code(names), reason) for reason, names in reasons.items()]
    return f"""# From nats-server to jetbroker

This page is for operators who have a nats-server {NATS_VERSION} and try jetbroker in its place. {WRITTEN}

1. Check the configuration: `jetbroker -t -c nats.conf`. It names all that is wrong at once, each with its line.
2. Take out what is refused, see below. jetbroker refuses it because it would do something else than you expect.
3. Carry the streams over: back them up from nats-server, restore them into jetbroker ([BACKUP.md](../BACKUP.md#moving-from-nats-server)).
4. Start jetbroker with the same file, the same flags and the same service unit. Started by a link named `nats-server` it also uses that name in its log and messages.

[differences.md](../differences.md) lists what else is different. One difference is on purpose: an ack means that the message is on disk. `jetstream {{ sync_interval: "2m" }}` is nats-server's own setting.

## Accepted

{taken} names of keys in {len(found)} blocks, all in [CONFIG-KEYS.md](CONFIG-KEYS.md); and every flag of [FLAGS.md](FLAGS.md) but those below.

## Accepted, without effect

{table(("Block", "Keys"), ignored)}

`compression` of links is read and shown as well; links go uncompressed.

## Refused

{table(("Block", "Keys"), refused)}

`false` as their value is accepted: it asks for nothing. Values that are refused although the key is not (resolvers other than `MEMORY`, say) are in [CONFIG.md](../CONFIG.md#differences-to-nats-server).

{table(("Flag", "Why it is refused"), refused_flags)}
"""


def flags_page() -> str:
    """docs/reference/FLAGS.md"""
    kinds = {bool: "", int: "number", str: "text"}
    rows = [
        (code(map(dashed, names)), kinds[kind], code(field.split()))
        for (kind, field), names in synonyms(lambda flag: flag.supported).items()
    ]
    return f"""# Flags of the command line

This page lists every flag. `jetbroker --help` and [CONFIG.md](../CONFIG.md#command-line) explain them. {WRITTEN}

One dash or two; the value follows `=` or is the next word; a flag without a value takes `=false`. Flags override the file.

{table(("Flag", "Value", "Key or action"), rows)}

Refused by name: {code(dashed(name) for name, flag in flags.FLAGS.items() if not flag.supported)}.

## Commands

[COMMANDS.md](COMMANDS.md) lists what each of them takes.

```text
{commands()}
```

## Exit codes

| Code | When |
|---|---|
| 0 | a signal ended the broker; a command did what it should |
| 1 | a wrong configuration, a start that failed, a command that failed |
| 2 | a wrong flag; 0 under the name `nats-server` |
"""


def commands() -> str:
    """The part of the usage that lists commands."""
    return cli.USAGE.partition("Commands:\n")[2].partition("\n\n")[0].format(program="jetbroker")


def metrics_page(found: list[Metric]) -> str:
    """docs/reference/METRICS.md"""
    groups = (
        ("gnatsd_varz_", "The server", "each number of `/varz`"),
        ("gnatsd_", "Connections and health", "sums over all connections; `/healthz`"),
        ("jetstream_server_", "JetStream", "its totals and limits"),
        ("jetstream_account_", "Accounts", "what an account uses"),
        ("jetstream_stream_", "Streams", "and copies"),
        ("jetstream_consumer_", "Consumers", ""),
        ("jetbroker_", "Our own", "what prometheus-nats-exporter does not have"),
    )
    parts = [
        f"""# Metrics

This page lists every metric of `/metrics`, as a broker with streams, copies, a consumer and some damage answers. [MONITORING.md](../MONITORING.md#prometheus) explains them. {WRITTEN} More of `gnatsd_varz_` come when they are configured or asked for: `gnatsd_varz_http_req_stats_<path>` counts requests for each path.
"""
    ]
    left = found
    for prefix, title, text in groups:
        mine = [metric for metric in left if metric.name.startswith(prefix)]
        left = [metric for metric in left if metric not in mine]
        shared = set.intersection(*(set(metric.labels) for metric in mine))
        parts.append(f"## {title}\n")
        parts.append(f"{text[:1].upper()}{text[1:]}{'. ' if text else ''}Labels: {code(sorted(shared))}.\n")
        rows = [
            (
                f"`{metric.name}`",
                metric.kind,
                "" if prefix in ("gnatsd_varz_", "gnatsd_") else metric.text,
                code(sorted(set(metric.labels) - shared)),
            )
            for metric in mine
        ]
        parts.append(table(("Metric", "Type", "Meaning", "More labels"), rows) + "\n")
    return "\n".join(parts)


def errors_page() -> str:
    """docs/reference/ERRORS.md"""
    rows = sorted(
        (str(err_code), str(number), f"`{name}`", text.replace("{", "<").replace("}", ">"))
        for name, (number, err_code, text) in ERRORS.items()
    )
    return f"""# Errors of the JetStream API

This page lists each error that an answer may have under `error`. Numbers and texts are nats-server's. {WRITTEN} The server fills in the words in `<>`.

{table(("`err_code`", "`code`", "Name", "`description`"), [(*row[:3], f"`{row[3]}`") for row in rows])}
"""


def man_page() -> str:
    """man/jetbroker.1, from the usage."""
    lines = [
        f'.TH JETBROKER 1 "" "jetbroker {__version__}" "User Commands"',
        ".SH NAME",
        "jetbroker \\- a NATS and JetStream broker",
        ".SH SYNOPSIS",
        ".B jetbroker",
        "[\\fIoptions\\fR]",
        ".br",
        ".B jetbroker",
        "\\fIcommand\\fR [\\fIarguments\\fR]",
        ".SH DESCRIPTION",
        "Starts a message broker that speaks NATS and JetStream, as nats\\-server does.",
        "Its configuration language and its flags are those of nats\\-server.",
        "A key or flag that it does not support is refused by name.",
        "An acknowledgement means that the message is on disk.",
        ".PP",
        "A flag begins with one dash or two. Its value follows = or is the next word.",
        "Flags override the file.",
    ]
    for line in cli.USAGE.format(program="jetbroker").splitlines():
        lines += _man_line(line)
    lines += [
        ".SH SIGNALS",
        *_item("SIGHUP", "reads the configuration again; all of it takes effect, or nothing"),
        *_item("SIGUSR1", "opens the log file again"),
        *_item("SIGUSR2", "lame duck mode: takes no new clients, asks the others to leave, then ends"),
        *_item("SIGTERM, SIGINT", "ends in good order"),
        ".SH EXIT STATUS",
        *_item("0", "a signal ended the broker, or a command did what it should"),
        *_item("1", "a wrong configuration, or a start or a command that failed"),
        *_item("2", "a wrong flag"),
        ".SH EXAMPLES",
        ".nf",
        "jetbroker init broker.conf",
        "jetbroker \\-t \\-c broker.conf",
        "jetbroker \\-c broker.conf",
        "jetbroker \\-\\-signal reload",
        ".fi",
    ]
    return "\n".join(lines) + "\n"


def _man_line(line: str) -> list[str]:
    """One line of the usage: the title of a section, a flag, a flag's other name, or more of a text."""
    text = line.strip()
    if not text or text.startswith("Usage:"):
        return []
    if text.endswith(":") and not line.startswith(" "):
        return [f".SH {text[:-1].upper()}"]
    head, _, meaning = (part.strip() for part in _split(text))
    if not head:
        return [_roff(meaning)]
    return _item(head, meaning) if meaning else [".TP", f"\\fB{_roff(head)}\\fR", ".PD 0"]


def _split(text: str) -> tuple[str, str, str]:
    parts = re.split(r"\s{2,}", text, maxsplit=1)
    if text.startswith("-") or re.match(r"[a-z]+( |$)", text):
        return (parts[0], "", parts[1] if len(parts) > 1 else "")
    return ("", "", text)


def _item(head: str, text: str) -> list[str]:
    return [".TP", f"\\fB{_roff(head)}\\fR", ".PD", _roff(text)]


def _roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def pages() -> dict[Path, str]:
    """All that is written: path and text."""
    folder = ROOT / "docs" / "reference"
    return {
        folder / "CONFIG-KEYS.md": config_keys(),
        folder / "FROM-NATS-SERVER.md": from_nats_server(),
        folder / "FLAGS.md": flags_page(),
        folder / "METRICS.md": metrics_page(metrics()),
        folder / "ERRORS.md": errors_page(),
        folder / "COMMANDS.md": commands_page(),
        folder / "API.md": api_page(),
        ROOT / "man" / "jetbroker.1": man_page(),
        **badges(),
    }


def main(arguments: Sequence[str]) -> int:
    """Write them, or compare them. Returns the exit code."""
    code = 0
    for path, text in pages().items():
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            print(f"{path.relative_to(ROOT)} is not what the code says: run python -m tools.reference", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
