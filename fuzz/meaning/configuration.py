"""The configuration the broker is played with, and the same with extremes at some of its keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from fuzz.meaning import extremes
from jetbroker.config import keys, values
from jetbroker.config.report import Table

PASSWORD = "x"
DOMAIN = "hub"
_STORE_BYTES = 64 * 1024 * 1024  # of each account that is played with
_MEMORY_BYTES = 32 * 1024 * 1024


class Raw(str):
    """Text that goes into a configuration as it is, without quotes."""


def _user(name: str, **more: Any) -> dict[str, Any]:
    return {"user": name, "password": PASSWORD, **more}


def _jetstream() -> dict[str, Any]:
    return {"max_memory": _MEMORY_BYTES, "max_store": _STORE_BYTES}


def good() -> dict[str, Any]:
    """The configuration in which all steps make sense; a tree of its own."""
    limited = {"publish": {"deny": ["s1.>", "$JS.API.STREAM.DELETE.S1"]}, "subscribe": {"deny": ["d.S1.>"]}}
    exports = [
        {"service": "$JS.API.>", "response_type": "stream"},
        {"stream": "d.origin.>"},
        {"service": "$JS.FC.>"},
        {"service": "$JS.ACK.>"},
    ]
    imports = [
        {"service": {"account": "A", "subject": "$JS.API.>"}, "to": "JS.A.API.>"},
        {"stream": {"account": "A", "subject": "d.origin.>"}},
    ]
    return {
        "server_name": "meaning",
        "http": "127.0.0.1:-1",
        "accounts": {
            "A": {
                "jetstream": _jetstream(),
                "users": [_user("A"), _user("P", permissions=limited)],
                "exports": exports,
                "mappings": {"m.*": "s0.{{wildcard(1)}}"},
            },
            "B": {"jetstream": _jetstream(), "users": [_user("B")], "imports": imports},
            "W": {"jetstream": {"max_memory": -1, "max_store": -1}, "users": [_user("W")]},
            "SYS": {"users": [_user("SYS")]},
        },
        "system_account": "SYS",
        "jetstream": {"domain": DOMAIN, "max_memory_store": 1 << 30, "max_file_store": 1 << 32},
    }


# Blocks that the good configuration does without; each is put there when one of its keys is to be set.
_BLOCKS: dict[tuple[str | int, ...], Any] = {
    ("authorization",): {"timeout": 2},
    ("websocket",): {"port": -1, "no_tls": True},
    ("websocket", "authorization"): {"timeout": 2},
    ("leafnodes",): {"port": -1, "host": "127.0.0.1", "remotes": [{"urls": ["nats-leaf://127.0.0.1:1"]}]},
    ("leafnodes", "authorization"): {"users": [_user("L", account="A")]},
    ("tls",): {"cert_file": "nowhere.pem", "key_file": "nowhere.pem"},
    ("accounts", "A", "limits"): {},
    ("accounts", "A", "users", 1, "permissions", "allow_responses"): {"max": 1, "expires": "1m"},
    ("jetstream", "limits"): {},
    ("jetstream", "limits", "batch"): {},
    ("jetstream", "ship"): {"url": "memory://nowhere"},
}

# Where the keys of a table stand, and those keys of the place that are no rows of a table.
TABLES: tuple[tuple[tuple[str | int, ...], Table, tuple[str, ...]], ...] = (
    (
        (),
        {**keys.TOP, **keys.MONITORING},
        (
            *"listen http https trace_verbose trace_headers tls write_timeout websocket ws authorization".split(),
            *"accounts mappings maps jetstream store_dir storedir leafnodes leaf default_js_domain".split(),
            "default_sentinel",
            *keys.OPERATOR_MODE,
        ),
    ),
    (
        ("authorization",),
        keys.AUTHORIZATION,
        tuple("users timeout default_permission default_permissions permissions".split()),
    ),
    (("accounts", "A", "users", 0), keys.USER, ("permission", "permissions", "authorization")),
    (
        ("accounts", "A", "users", 1, "permissions"),
        {},
        tuple("pub publish import sub subscribe export allow_responses publish_allow_responses".split()),
    ),
    (("accounts", "A", "users", 1, "permissions", "publish"), {}, ("allow", "deny")),
    (("accounts", "A", "users", 1, "permissions", "allow_responses"), keys.RESPONSES, ()),
    (
        ("accounts", "A"),
        keys.ACCOUNT,
        tuple("users default_permissions jetstream mappings maps exports imports limits msg_trace trace_dest".split()),
    ),
    (("accounts", "A", "msg_trace"), keys.MSG_TRACE, ()),
    (("accounts", "A", "limits"), keys.ACCOUNT_LIMITS, ()),
    (("accounts", "A", "jetstream"), keys.ACCOUNT_JETSTREAM, ()),
    (
        ("accounts", "A", "exports", 0),
        {},
        tuple(
            "stream service accounts response response_type threshold response_threshold response_max_time "
            "response_time account_token_position allow_trace".split()
        ),
    ),
    (("accounts", "B", "imports", 0), keys.IMPORT, ("stream", "service", "allow_trace")),
    (("accounts", "B", "imports", 0, "service"), {}, ("account", "subject")),
    (
        ("tls",),
        keys.TLS,
        tuple(
            "verify verify_and_map verify_cert_and_check_known_urls allow_insecure_cipher_suites cipher_suites "
            "curve_preferences handshake_first first immediate certs certificates pinned_certs".split()
        ),
    ),
    (
        ("websocket",),
        keys.WEBSOCKET,
        tuple(
            "allowed_origins allowed_origin allow_origins allow_origin origins origin listen tls authorization "
            "authentication headers".split()
        ),
    ),
    (("websocket", "authorization"), keys.WEBSOCKET_AUTHORIZATION, ()),
    (("leafnodes",), keys.LEAFNODES, ("listen", "authorization", "remotes", "tls", "compression")),
    (("leafnodes", "authorization"), keys.LEAF_AUTHORIZATION, ("timeout", "users")),
    (("leafnodes", "authorization", "users", 0), keys.LEAF_USER, ()),
    (
        ("leafnodes", "remotes", 0),
        keys.LEAF_REMOTE,
        tuple(
            "url urls credentials creds nkey seed tls deny_imports deny_import deny_exports deny_export "
            "compression proxy".split()
        ),
    ),
    (("jetstream",), keys.JETSTREAM, (*keys.STORE_DIR, "sync", "sync_interval", "limits", "ship")),
    (("jetstream", "limits"), keys.JETSTREAM_LIMITS, ("batch",)),
    (("jetstream", "limits", "batch"), keys.JETSTREAM_BATCHES, ()),
    (("jetstream", "ship"), keys.JETSTREAM_SHIP, ()),
)

# With these a running broker would leave its folder, its log or this machine: they are only checked.
OUTSIDE = frozenset(
    (
        "log_file logfile syslog remote_syslog pid_file pidfile ports_file_dir store_dir storedir store host net "
        "listen port http https http_port monitor_port https_port resolver account_resolver accounts_resolver "
        "http_base_path url urls credentials creds"
    ).split()
)

_NUMBERS = tuple(map(Raw, (value for value in extremes.INTEGERS if value.strip()))) + tuple(
    Raw(f"{number}{unit}") for number in (0, 1, -1, 10**18, 2**63 - 1) for unit in ("k", "KB", "m", "G", "TB", "x")
)
_TEXTS = (*extremes.TEXTS, *extremes.SUBJECTS, *extremes.TRANSFORMS, *extremes.LONG_TEXTS)
_LENGTHS = (*extremes.GO_DURATIONS, *map(Raw, extremes.GO_DURATIONS[:10]), *_NUMBERS)
_FLAGS = tuple(map(Raw, ("true", "false", "yes", "off", "on", "0", '"true"')))
_MAPS: tuple[Any, ...] = (
    *({}, {"x": 1}, {"a.>": "b.>"}, {"a.*": "b.{{wildcard(1)}}"}, {"allow": [], "deny": [">"]}, {"dir": "x"}),
    *({"s0.>": [{"destination": "s1.>", "weight": "50%"}, {"destination": "s2.>", "weight": "51%"}]},),
    *({"s0.*": [{"destination": "s1.{{partition(10,1)}}", "weight": 100}]}, {"account": "A", "subject": ">"}),
)
_LISTS: tuple[Any, ...] = (
    *(
        [],
        [""],
        ["a"],
        [1],
        [[]],
        [{}],
        ["x"] * 1000,
        [[[[[[[]]]]]]],
        [{"user": "A"}, {"user": "A"}],
        [">", "a.>", "*"],
    ),
    *([{"stream": ">"}], [{"service": ">"}], [{"service": "a.*", "account_token_position": 2}], ["A", "W", "nobody"]),
    *([{"user": "x", "password": "$2a$31$" + "x" * 53}], [{"nkey": "U" + "A" * 55}], [{"user": "y" * 5000}]),
    *([{"stream": {"account": "B", "subject": ">"}, "prefix": "x"}], [{"service": {"account": "W", "subject": ">"}}]),
)
_ANYTHING: tuple[Any, ...] = (*_NUMBERS, *_TEXTS, *_LENGTHS, *_FLAGS, *_MAPS, *_LISTS, *map(Raw, extremes.TIMES))

_OF_READER: Mapping[Any, tuple[Any, ...]] = {
    values.integer: _NUMBERS,
    values.small_integer: _NUMBERS,
    values.connections: _NUMBERS,
    values.subject_tokens: _NUMBERS,
    values.limit: _NUMBERS,
    values.tls_rate_limit: _NUMBERS,
    values.storage_size: (*_NUMBERS, "1K", "9223372036854775807T", "-1G", "99999999999999999999K", "K"),
    values.duration: _LENGTHS,
    values.lame_duck_duration: _LENGTHS,
    values.lame_duck_grace_period: _LENGTHS,
    values.response_expiry: _LENGTHS,
    values.handshake_timeout: _LENGTHS,
    values.tls_timeout: _LENGTHS,
    values.number_of_seconds: _LENGTHS,
    values.boolean: _FLAGS,
    values.strict_flag: _FLAGS,
    values.account_flag: _FLAGS,
    values.tls_flag: _FLAGS,
    values.string: _TEXTS,
    values.server_name: _TEXTS,
    values.system_account: ("A", "B", "W", "SYS", "$SYS", "$G", *_TEXTS),
    values.tls_file: _TEXTS,
    values.tls_version: ("1.0", "1.1", "1.2", "1.3", "1.4", *_TEXTS[:20]),
    values.account_nkey: _TEXTS,
    values.tags: _LISTS,
    values.host_names: _LISTS,
    values.metadata: _MAPS,
    values.write_timeout: ("default", "close", "retry", *_TEXTS[:20]),
    values.reconnect: _LENGTHS,
    values.ship_url: ("/nowhere", "s3://bucket", "s3://a:b@bucket", "file:///nowhere", "nothing://x", *_TEXTS),
    values.ship_interval: _LENGTHS,
    values.kept_duration: _LENGTHS,
    values.byte_rate: (*_NUMBERS, "1K", "50MB", "1EB", "x"),
    values.leaf_version: ("2.10.0", "2.7.0", "99.99.99", *_TEXTS[:20]),
    values.leaf_nkey: _TEXTS,
    values.trace_destination: _TEXTS,
    values.trace_sampling: (*_NUMBERS, "1%", "100%", "50 %", *_TEXTS[:20]),
    values.connection_types: (["STANDARD"], ["MQTT"], [], *_LISTS),
}
_OF_KEY: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("sync", "sync_interval"), ("always", *_LENGTHS)),
    **dict.fromkeys(("timeout", "threshold", "response_threshold", "response_max_time", "response_time"), _LENGTHS),
    "account_token_position": _NUMBERS,
    "allow_trace": _FLAGS,
    "msg_trace": ({"dest": "t.x", "sampling": 50}, *_TEXTS),
    "trace_dest": ({"dest": "t.>"}, *_TEXTS),
    **dict.fromkeys(("mappings", "maps", "headers"), _MAPS),
    **dict.fromkeys(("users", "exports", "imports", "allow", "deny", "accounts", "certs", "pinned_certs"), _LISTS),
}


def missing_readers() -> set[str]:
    """Types of plain keys that have no extremes here."""
    readers = {reader for _, table, _ in TABLES for _, reader in table.values()}
    return {str(reader) for reader in readers if reader not in _OF_READER}


def all_keys() -> set[str]:
    """The names of all keys that are set."""
    return {name for _, table, others in TABLES for name in (*table, *others)}


def spoiled(random: Random, *, running: bool = False) -> str:
    """The good configuration with one extreme, sometimes two. `running`: one that a broker may be given."""
    tree = good()
    for _ in range(random.choice((1, 1, 1, 2))):
        path, table, others = random.choice(TABLES)
        name = random.choice((*table, *others))
        if running and (name in OUTSIDE or (not path and name in ("accounts", "jetstream"))):
            continue
        _put(tree, (*path, name), _extreme(name, table, random))
    text = written(tree)
    if not running and random.random() < 0.02:
        text = random.choice(
            (text[: random.randrange(len(text))], text + "}", "{" * 300, "x = $x", 'include "."', "a" * 9999)
        )
    return text


def _extreme(name: str, table: Table, random: Random) -> Any:
    if random.random() < 0.25:
        return random.choice(_ANYTHING)
    if name in table:
        return random.choice(_OF_READER[table[name][1]])
    return random.choice(_OF_KEY.get(name, _ANYTHING))


def _put(tree: Any, path: tuple[str | int, ...], value: Any) -> None:
    for depth, name in enumerate(path[:-1], 1):
        if isinstance(tree, dict) and name not in tree:
            tree[name] = json.loads(json.dumps(_BLOCKS.get(path[:depth], {})))
        if isinstance(tree, list) and (not isinstance(name, int) or name >= len(tree)):
            return
        tree = tree[name]
        if not isinstance(tree, (dict, list)):
            return  # an extreme stands there already
    if isinstance(tree, dict):
        tree[path[-1]] = value


def written(value: Any) -> str:
    """A tree in nats-server's language."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + "\n".join(f"{json.dumps(name)}: {written(entry)}" for name, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
