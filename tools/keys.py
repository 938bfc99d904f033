"""The keys of the configuration, as the readers themselves look for them: a sample file with every block is read."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from unittest.mock import patch

from jetbroker.config import keys, loader, report
from jetbroker.config.report import ConfigErrors

SAMPLE = """
authorization {
    users: [ { user: u, password: p, permissions {
        publish { allow: a }, allow_responses { max: 1 }
    } } ]
}
tls {}
websocket { authorization {} }
leafnodes {
    authorization { users: [ {} ] }
    remotes: [ { url: "nats-leaf://h:1", compression {} } ]
}
accounts { A {
    limits {}
    msg_trace {}
    jetstream {}
    exports: [ { stream: s } ]
    imports: [ { stream { account: B, subject: s } } ]
} }
jetstream { limits { batch {} }, ship {} }
"""

# Where each block stands; what is not a table of its own is known by one of its keys.
PLACES = {
    "TOP": "top level",
    "AUTHORIZATION": "`authorization {}`",
    "USER": "an entry of `users`",
    "pub": "`permissions {}` of a user, `default_permissions {}`",
    "allow": "`publish {}` and `subscribe {}` of permissions",
    "RESPONSES": "`allow_responses {}` of permissions",
    "TLS": "`tls {}`",
    "WEBSOCKET": "`websocket {}`",
    "WEBSOCKET_AUTHORIZATION": "`authorization {}` of `websocket`",
    "LEAFNODES": "`leafnodes {}`",
    "LEAF_AUTHORIZATION": "`authorization {}` of `leafnodes`",
    "LEAF_USER": "an entry of `users` there",
    "LEAF_REMOTE": "an entry of `remotes` of `leafnodes`",
    "rtt": "`compression {}` of links",
    "ACCOUNT": "an account in `accounts {}`",
    "ACCOUNT_LIMITS": "`limits {}` of an account",
    "MSG_TRACE": "`msg_trace {}` of an account",
    "ACCOUNT_JETSTREAM": "`jetstream {}` of an account",
    "account_token_position": "an entry of `exports`",
    "IMPORT": "an entry of `imports`",
    "subject": "`stream {}` and `service {}` of an import",
    "JETSTREAM": "`jetstream {}`",
    "JETSTREAM_LIMITS": "`limits {}` of `jetstream`",
    "JETSTREAM_BATCHES": "`batch {}` of these limits",
    "JETSTREAM_SHIP": "`ship {}` of `jetstream`",
}
OF_THE_TOP = ("MONITORING",)  # tables whose keys stand at the top level, too
VALUES = {
    "host_names": "name or list of names",
    "string": "text",
    "boolean": "true or false",
    "tls_flag": "true or false",
    "account_flag": "true or false",
    "strict_flag": "true or false",
    "integer": "number",
    "small_integer": "number, at most 2^31-1",
    "limit": "number, -1: unlimited",
    "connections": "number",
    "subject_tokens": "1 to 255",
    "duration": "duration",
    "reconnect": "duration",
    "lame_duck_duration": "duration, at least 30s",
    "lame_duck_grace_period": "duration",
    "handshake_timeout": "duration",
    "ship_interval": "duration, from 1s to 8760h",
    "kept_duration": "duration, from 0s to 8760h",
    "byte_rate": 'bytes a second, or text such as "50MB"; -1: no bound',
    "ship_url": "folder or URL",
    "response_expiry": "duration",
    "tls_timeout": "duration or seconds",
    "number_of_seconds": "duration or seconds",
    "storage_size": 'bytes, or text such as "10GB"',
    "tags": "text or a list",
    "string_list": "text or a list",
    "metadata": "map of texts",
    "connection_types": "list of connection types",
    "tls_file": "path",
    "tls_version": '"1.2" or "1.3"',
    "tls_rate_limit": "number a second",
    "server_name": "text without blanks",
    "system_account": "name of an account",
    "write_timeout": "`default`, `close`, `retry`",
    "leaf_version": 'version, such as "2.10.0"',
    "leaf_nkey": "public key, `U...`",
    "trace_destination": "subject without wildcards",
    "trace_sampling": "1 to 100, also with `%`",
    "account_nkey": "public key, `A...`",
}


class Key(NamedTuple):
    """One option with its names; `value` is "" for what CONFIG.md describes: a block, a list, several forms."""

    names: tuple[str, ...]
    option: str
    value: str


class Block(NamedTuple):
    """One block: where it stands, its keys, and what is refused by name."""

    place: str
    keys: list[Key]
    refused: tuple[str, ...]


def blocks() -> list[Block]:
    """Every block that a reader knows, in the order of PLACES. Raises KeyError for one that has no place there."""
    found: dict[str, Block] = {}

    class Recorder(report.Report):
        def fill(self, target: object, tree: Any, table: Any, blocks: Any, unsupported: Any = frozenset(),
                 unknown: str = "") -> None:  # fmt: skip
            if not any(table is getattr(keys, name) for name in OF_THE_TOP):
                block = _block(table, blocks, unsupported)
                found[block.place] = block
            super().fill(target, tree, table, blocks, unsupported, unknown)

    # the sample names every block, and means nothing
    with patch("jetbroker.config.loader.Report", Recorder), suppress(ConfigErrors):
        loader.load_text(SAMPLE)
    return [found[place] for place in PLACES.values()]


def _block(table: Mapping[str, Any], functions: Mapping[str, Any], refused: frozenset[str]) -> Block:
    names = [name for name in PLACES if getattr(keys, name, None) is table]
    names += [name for name in PLACES if name in functions or (name in table and name.islower())]
    if not names:
        raise KeyError(f"a block with the keys {sorted([*table, *functions])} has no place in PLACES")
    if table is keys.TOP:
        table = ChainMap(*(dict(getattr(keys, name)) for name in ("TOP", *OF_THE_TOP)))
    rows: dict[tuple[object, ...], list[str]] = {}
    for name, (option, reader) in table.items():
        rows.setdefault((option, VALUES.get(reader.__name__, reader.__name__.replace("_", " "))), []).append(name)
    for name in functions.keys() - table.keys():
        rows["", name] = [name]
    made = [Key(tuple(spelled), str(row[0]), str(row[1]) if row[0] else "") for row, spelled in rows.items()]
    return Block(PLACES[names[0]], sorted(made), tuple(sorted(refused)))
