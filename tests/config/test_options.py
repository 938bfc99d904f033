"""The keys of the configuration: what they set, what is refused with which words, what a start checks."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from jetbroker.auth.permissions import Permissions
from jetbroker.config import checks, durations, keys, loader, report, start
from jetbroker.config.options import (
    ExportOptions,
    ImportOptions,
    Loaded,
    MappingDestination,
    MappingOptions,
    Options,
    PermissionsOptions,
    ResponsePermissions,
    ShipOptions,
    TlsOptions,
)
from jetbroker.daemon import cli
from jetbroker.errors import ConfigError
from tests.support import certificates
from tests.support.nkeys import UserKey

OPTIONS = TypeAdapter(Options)
CONFIGS = Path(__file__).resolve().parent.parent.parent / "configs"


def load(text: str, **env: str) -> Loaded:
    return loader.load_text(text, "conf", env)


def field(options: Options, path: str) -> Any:
    found: Any = options
    for name in path.split("."):
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    return found


SETTINGS: list[tuple[str, str, Any]] = [
    ("listen: 4223", "port", 4223),
    ('listen: "127.0.0.1:4223"', "host", "127.0.0.1"),
    ("listen: 127.0.0.1:4223", "port", 4223),
    ('listen: "[::1]:4223"', "host", "::1"),
    ('listen: ":4223"', "host", ""),
    ("net: 127.0.0.1", "host", "127.0.0.1"),
    ("HOST: localhost", "host", "localhost"),
    ("port: -1", "port", -1),
    ("server_name: a", "server_name", "a"),
    ("server_tags: a", "server_tags", ["a"]),
    ("server_tags: [a, b]", "server_tags", ["a", "b"]),
    ("debug: true", "debug", True),
    ("trace: on", "trace", True),
    ("logtime: false", "logtime", False),
    ("logtime_utc: yes", "logtime_utc", True),
    ("logfile: a", "log_file", "a"),
    ("log_file: a", "log_file", "a"),
    ("pidfile: a", "pid_file", "a"),
    ("ports_file_dir: a", "ports_file_dir", "a"),
    ("max_control_line: 8kb", "max_control_line", 8192),
    ("max_payload: 2MB", "max_payload", 2 << 20),
    ("max_payload: -1", "max_payload", -1),
    ("max_pending: 1G", "max_pending", 10**9),
    ("max_conn: 5", "max_connections", 5),
    ("max_connections: -1", "max_connections", -1),
    ("max_subs: 5", "max_subscriptions", 5),
    ('ping_interval: "1m30s"', "ping_interval", 90.0),
    ("ping_interval: 100ms", "ping_interval", 0.1),
    ("ping_max: 3", "ping_max", 3),
    ("write_deadline: 5s", "write_deadline", 5.0),
    ('lame_duck_duration: "1h"', "lame_duck_duration", 3600.0),
    ('lame_duck_grace_period: "0"', "lame_duck_grace_period", 0.0),
    ("authorization {user: a, pass: b}", "authorization.password", "b"),
    ("authorization {username: a, password: b}", "authorization.user", "a"),
    ("authorization {token: a, timeout: 1.5}", "authorization.timeout", 1.5),
    ('authorization {timeout: "5s"}', "authorization.timeout", 5.0),
    ("no_auth_user: a", "no_auth_user", "a"),
    ("system: a", "system_account", "a"),
    ("jetstream: true", "jetstream.enabled", True),
    ("jetstream: enabled", "jetstream.enabled", True),
    ("jetstream: disabled", "jetstream.enabled", False),
    ("jetstream {}", "jetstream.enabled", True),
    ("jetstream {enabled: false}", "jetstream.enabled", False),
    ("jetstream {store_dir: a}", "jetstream.store_dir", "a"),
    ("store_dir: a", "jetstream.store_dir", "a"),
    ("jetstream {max_mem: 1G}", "jetstream.max_memory_store", 10**9),
    ('jetstream {max_file_store: "1G"}', "jetstream.max_file_store", 1 << 30),
    ("jetstream {sync: always}", "jetstream.sync_interval", None),
    ('jetstream {sync_interval: "2m"}', "jetstream.sync_interval", 120.0),
    ("jetstream {ship {url: /a}}", "jetstream.ship", ShipOptions("/a")),
    ("jetstream {ship {url: 's3://a/b'\nrate: 50MB}}", "jetstream.ship.rate", 50 * 1024 * 1024),
    ("jetstream {ship {url: 's3://a/b'\nrate: '2M'}}", "jetstream.ship.rate", 2_000_000),
    ("jetstream {ship {url: 's3://a/b@c'\nrate: -1\ninterval: '1s'}}", "jetstream.ship.interval", 1.0),
    ("jetstream {ship {url: 's3://a'\nkeep_dropped: '0s'}}", "jetstream.ship.keep_dropped", 0.0),
    ("jetstream {ship: false}", "jetstream.ship", None),
    ("jetstream {domain: hub}", "jetstream.domain", "hub"),
    ("jetstream {strict: false}", "jetstream.strict", False),
    ("jetstream {max_buffered_msgs: 5, max_buffered_size: 6}", "jetstream.max_buffered_size", 6),
    ("accounts {A {}}", "accounts.A.jetstream", None),
    ("accounts {A {jetstream: enabled}}", "accounts.A.jetstream.max_streams", -1),
    ("accounts {A {jetstream: off}}", "accounts.A.jetstream", None),
    ("accounts {A {jetstream {memory: 1k, disk: 2k, streams: 3}}}", "accounts.A.jetstream.max_store", 2000),
    ("accounts {A {jetstream {max_bytes: true}}}", "accounts.A.jetstream.max_bytes_required", True),
    ("accounts [A, B]", "accounts.B.name", "B"),
    ("cluster: false", "port", 4222),
    ("client_advertise: 'a:5'", "client_advertise", "a:5"),
    ("proxy_protocol: true", "proxy_protocol", True),
    ("server_tags: [A, ' b ', a]", "server_tags", ["a", "b"]),
    ("server_metadata {a: b}", "server_metadata", {"a": "b"}),
    ("trace_verbose: true", "trace", True),
    ("trace: false\ntrace_headers: true", "trace", True),
    ("trace: true\ntrace_verbose: false", "trace", True),
    ("max_traced_msg_len: 5", "max_traced_msg_len", 5),
    ("logfile_size_limit: 1kb", "log_size_limit", 1024),
    ("logfile_max_num: 3", "log_max_num", 3),
    ("syslog: true", "syslog", True),
    ("remote_syslog: 'udp://a:514'", "remote_syslog", "udp://a:514"),
    ("connect_error_reports: 5", "connect_error_reports", 5),
    ("reconnect_error_reports: 5", "reconnect_error_reports", 5),
    ("max_sub_tokens: 8", "max_sub_tokens", 8),
    ("no_header_support: true", "no_header_support", True),
    ("no_fast_producer_stall: true", "no_fast_producer_stall", True),
    ("no_sublist_cache: true", "disable_sublist_cache", True),
    ("no_sys_acc: true", "no_system_account", True),
    ("default_sentinel: a", "operator.default_sentinel", "a"),
    ("https: 'a:5'", "https_host", "a"),
    ("https_port: 5", "https_port", 5),
    ("allow_non_tls: true", "allow_non_tls", True),
    ("tls {}", "tls.cert_file", ""),
    ("tls {verify_and_map: true}", "tls.verify", True),
    ("tls {timeout: '3s'}", "tls.timeout", 3.0),
    ("tls {timeout: 3}", "authorization.timeout", 0.0),
    ("tls {handshake_first: true}", "tls.handshake_first", 0.0),
    ("tls {first: off}", "tls.handshake_first", None),
    ("tls {handshake_first: auto}", "tls.handshake_first", 0.05),
    ("tls {immediate: 300ms}", "tls.handshake_first", 0.3),
    ("tls {min_version: '1.3'}", "tls.min_version", "1.3"),
    ("tls {cipher_suites: [TLS_AES_128_GCM_SHA256]}", "tls.ciphers", ["TLS_AES_128_GCM_SHA256"]),
    ("tls {curve_preferences: [CurveP256]}", "tls.curves", ["CurveP256"]),
    (f"tls {{pinned_certs: ['{'AB' * 32}']}}", "tls.pinned_certs", frozenset(("ab" * 32,))),
    ("tls {connection_rate_limit: 5}", "tls.connection_rate_limit", 5),
    ("websocket {listen: 'a:5'}", "websocket.host", "a"),
    ("ws {port: -1}", "websocket.port", -1),
    ("websocket {compress: true}", "websocket.compression", True),
    ("websocket {origin: 'http://a'}", "websocket.allowed_origins", ["http://a"]),
    ("websocket {handshake_timeout: '3s'}", "websocket.handshake_timeout", 3.0),
    ("websocket {authorization: {user: a, password: b, timeout: 3}}", "websocket.auth_timeout", 3.0),
    ("websocket {headers: {X: y}}", "websocket.headers", {"X": "y"}),
    ("websocket {tls {insecure: true}}", "websocket.tls.insecure", True),
    ("authorization {proxy_required: true}", "authorization.proxy_required", True),
    ("authorization {permissions {publish: a}}", "authorization.default_permissions.publish.allow", ["a"]),
    ("authorization {permissions {publish: {deny: a}}}", "authorization.default_permissions.publish.allow", None),
    ("authorization {permissions {publish: {allow: []}}}", "authorization.default_permissions.publish.allow", None),
    ("authorization {permissions {publish: {}}}", "authorization.default_permissions.publish", None),
    ("authorization {permissions {sub: ['a q']}}", "authorization.default_permissions.subscribe.allow", ["a q"]),
    ("authorization {permissions {allow_responses: true}}", "authorization.default_permissions.publish.allow", []),
    (
        "authorization {permissions {allow_responses: true}}",
        "authorization.default_permissions.responses.expires",
        120.0,
    ),
    (
        "authorization {permissions {allow_responses: {max: 0, ttl: '-1s'}}}",
        "authorization.default_permissions.responses",
        ResponsePermissions(1, -1.0),
    ),
    (
        "authorization {permissions {allow_responses: true\npublish: a}}",
        "authorization.default_permissions.publish.allow",
        ["a"],
    ),
    ("mappings {a: b}", "mappings", [MappingOptions("a", [MappingDestination("b")], True, "conf:1:10")]),
    (
        "accounts {A {maps {a: [{dest: b, weight: 20%}]}}}",
        "accounts.A.mappings",
        [MappingOptions("a", [MappingDestination("b", 20)], False, "conf:1:19")],
    ),
    ("accounts {A {limits {max_pay: 1kb}}}", "accounts.A.limits.max_payload", 1024),
    (
        "accounts {A {exports [{service: a, response: chunk, threshold: 5s}]}}",
        "accounts.A.exports",
        [ExportOptions("service", "a", None, 0, "Chunked", 5.0, "conf:1:22")],
    ),
    (
        "accounts {A {exports [{stream: a, accounts: [A]}]}}",
        "accounts.A.exports",
        [ExportOptions("stream", "a", ["A"], place="conf:1:22")],
    ),
    (
        "accounts {A {imports [{stream: {account: B, subject: a}, prefix: p}]}, B {exports [{stream: a}]}}",
        "accounts.A.imports",
        [ImportOptions("stream", "B", "a", "", "p", place="conf:1:22")],
    ),
    (
        "accounts {A {imports [{service: {account: B, subject: a}, to: b, share: true}]}, B {exports [{service: a}]}}",
        "accounts.A.imports",
        [ImportOptions("service", "B", "a", "b", share=True, place="conf:1:22")],
    ),
]


@pytest.mark.parametrize(("text", "path", "value"), SETTINGS)
def test_setting(text: str, path: str, value: Any) -> None:
    loaded = load(text)
    assert loaded.notices == []
    assert field(loaded.options, path) == value


def test_users() -> None:
    options = load(
        """
        authorization { users: [ {user: a, password: b}, {username: c, pass: "$2a$11$hash"} ] }
        accounts { A { users = [ {user: d} ] } }
        """
    ).options
    assert [(user.user, user.password) for user in options.all_users()] == [("a", "b"), ("c", "$2a$11$hash"), ("d", "")]
    assert options.auth_required
    assert not load("authorization {users: []}").options.auth_required


def test_default_permissions_are_for_those_without_their_own() -> None:
    options = load(
        """
        authorization {
            users: [ {user: a}, {user: b, permissions {publish: own}} ]
            permissions { publish: default }
        }
        accounts { A { users: [ {user: c} ], default_permissions { publish: account } }, B { users: [ {user: d} ] } }
        """
    ).options
    allowed = {
        user.user: user.permissions and user.permissions.publish and user.permissions.publish.allow
        for user in options.all_users()
    }
    assert allowed == {"a": ["default"], "b": ["own"], "c": ["account"], "d": None}


def test_nkeys_and_connection_types() -> None:
    key = "UCNGL4W5QX66CFX6A6DCBVDH5VOHMI7B2UZZU7TXAUQQSI2JPHULCKBR"
    (user,) = load(f"authorization {{users: [{{nkey: {key}, clients: [standard, Websocket]}}]}}").options.all_users()
    assert (user.nkey, user.connection_types) == (key, frozenset(("STANDARD", "WEBSOCKET")))


def test_flags_for_tls_replace_the_block(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    cert, key = str(made.server.cert), str(made.server.key)
    path = tmp_path / "conf"
    path.write_text("tls {timeout: 7, verify: true}\nmax_connections: 5")
    flags: list[tuple[str, str | int | float | bool]] = [("tls.cert_file", cert), ("tls.key_file", key)]
    tls = start.load(str(path), flags).options.tls
    assert tls is not None
    assert (tls.cert_file, tls.key_file, tls.verify, tls.timeout) == (cert, key, False, 7.0)
    assert start.load(str(path), [*flags, ("tls", False)]).options.tls is None
    with pytest.raises(ConfigError, match=r"^TLS Server private key must be present and valid$"):
        start.load(str(path), flags[:1])


def test_a_handshake_leaves_time_for_the_login() -> None:
    assert started("").authorization.timeout == 2.0
    assert started("tls {}").authorization.timeout == 3.0
    assert started("tls {timeout: 5}").authorization.timeout == 6.0
    assert started("tls {timeout: 5}\nauthorization {timeout: 1}").authorization.timeout == 1.0


ERRORS = [
    ("foo: 1", 'conf:1:0: unknown field "foo"'),
    ("\n\nfoo: 1", 'conf:3:1: unknown field "foo"'),
    ("jetstream: { foo: 1 }", 'conf:1:13: unknown field "foo"'),
    ("accounts {A: {users: [{user: a,\n password: b, zip: 1}]}}", 'conf:2:15: unknown field "zip"'),
    ("port: x", "conf:1:0: interface conversion: interface {} is string, not int64"),
    ("max_payload: 1.5", "conf:1:0: interface conversion: interface {} is float64, not int64"),
    ('max_payload: "1MB"', "conf:1:0: interface conversion: interface {} is string, not int64"),
    ("max_payload: 3000000000", "conf:1:0: max_payload value is too big"),
    ("debug: 1", "conf:1:0: interface conversion: interface {} is int64, not bool"),
    ("server_name: {}", "conf:1:0: interface conversion: interface {} is map[string]interface {}, not string"),
    ('server_name: "a b"', "conf:1:0: server name cannot contain spaces"),
    ('server_name: "\\xff"', "conf:1:0: server_name is not valid UTF-8"),
    ('ping_interval: "x"', 'conf:1:0: error parsing ping_interval: time: invalid duration "x"'),
    ('ping_interval: "5"', 'conf:1:0: error parsing ping_interval: time: missing unit in duration "5"'),
    ('write_deadline: "1d"', 'conf:1:0: error parsing write_deadline: time: unknown unit "d" in duration "1d"'),
    ("lame_duck_duration: 60", "conf:1:0: interface conversion: interface {} is int64, not string"),
    ('lame_duck_duration: "10s"', "conf:1:0: invalid lame_duck_duration of 10s, minimum is 30 seconds"),
    ('lame_duck_grace_period: "-5s"', "conf:1:0: invalid lame_duck_grace_period, needs to be positive"),
    ('listen: "a:b"', 'conf:1:0: could not parse port "b"'),
    ("listen: a", 'conf:1:0: could not parse address string "a"'),
    ("listen: true", "conf:1:0: expected port or host:port, got bool"),
    ("authorization {user: a, token: b}", "conf:1:0: Cannot have a user/pass and token"),
    ("authorization {user: a, users: [{user: b}]}", "conf:1:0: Can not have a single user/pass and a users array"),
    ("authorization {token: a, users: [{user: b}]}", "conf:1:0: Can not have a token and a users array"),
    ("authorization {users: [{user: a},{user: a}]}", 'conf:1:0: Duplicate user "a" detected'),
    ("authorization {users: [a]}", "conf:1:23: Expected user entry to be a map/struct, got a"),
    ("authorization {users: 5}", "conf:1:15: Expected users field to be an array, got 5"),
    ("authorization {users: [{pass: a}]}", "conf:1:24: User entry requires a user"),
    ("authorization {timeout: x}", "conf:1:15: error parsing authorization config, 'timeout' "
                                   'time: invalid duration "x"'),
    ("accounts {A {users: [{user: a}]}, B {users: [{user: a}]}}", 'conf:1:37: Duplicate user "a" detected'),
    ("accounts {A: 5}", "conf:1:10: Expected map entries for accounts"),
    ("accounts {$G: {}}", 'conf:1:10: "$G" is a Reserved Account'),
    ("accounts [A, A]", "conf:1:13: Duplicate Account Entry: A"),
    ("accounts {A {jetstream {max_mem: x}}}", 'conf:1:24: Expected a parseable size for "max_mem", got x'),
    ("jetstream: 5", "conf:1:0: Expected map, bool or string to define JetStream, got int64"),
    ("jetstream: foo", "conf:1:0: Expected 'enabled' or 'disabled' for string value, got 'foo'"),
    ("jetstream {strict: x}", "conf:1:11: Expected 'true' or 'false' for bool value, got 'x'"),
    ("store_dir: a\njetstream {store_dir: b}", "conf:2:12: Duplicate 'store_dir' configuration"),
    ("system_account: 5", "conf:1:0: system account name must be a string"),
    ("cluster {}", 'conf:1:0: "cluster" not supported yet'),
    ("\ngateway {}", 'conf:2:1: "gateway" not supported yet'),
    ("accounts {A {trace_dest: a.*}}", 'conf:1:13: Trace destination "a.*" is not valid'),
    ("accounts {A {msg_trace: {dest: a, sampling: 0}}}",
     "conf:1:34: Ttrace destination sampling value 0 is invalid, needs to be [1..100]"),
    ("authorization {auth_callout: {}}", 'conf:1:15: "auth_callout" not supported yet'),
    ("jetstream {ship: 's3://a'}", "conf:1:11: Expected a map to define ship, got string"),
    ("jetstream {ship {}}", 'conf:1:11: ship needs "url": the folder or URL that the store is copied to'),
    ("jetstream {ship {url: a}}", "conf:1:17: url must be a folder that begins with / or a URL such as s3://bucket/folder"),
    ("jetstream {ship {url: 's3://a:b@c/d'}}", "conf:1:17: url must not hold a login: give that to the library by its "
                                               "environment variables or files"),
    ('jetstream {ship {url: "/a\\x00"}}', "conf:1:17: url must be at most 2048 printable characters"),
    ("jetstream {ship {url: /a, interval: '0s'}}", "conf:1:26: interval must be from 1s to 8760h"),
    ("jetstream {ship {url: /a, interval: -5}}", "conf:1:26: interval must be from 1s to 8760h"),
    ("jetstream {ship {url: /a, rate: 0}}", "conf:1:26: rate must be 1 or more bytes a second, or -1 for no bound"),
    ("jetstream {ship {url: /a, rate: fast}}", "conf:1:26: rate: 'fast' is no size: use 500000, 50MB or 2GB"),
    ("jetstream {ship {url: /a, keep_dropped: '9000h'}}", "conf:1:26: keep_dropped must be from 0s to 8760h"),
    ("jetstream {ship {url: /a, every: 5}}", 'conf:1:26: unknown field "every"'),
    ("jetstream {key: abc}", 'conf:1:11: "key" not supported yet'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_error(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert str(caught.value) == f"{message}\n"


def test_all_errors_are_told_at_once() -> None:
    with pytest.raises(report.ConfigErrors) as caught:
        load("port: x\nfoo: 1\nping_interval: 5\njetstream {bar: 1}")
    assert caught.value.lines == [
        'conf:3:1: invalid use of field "ping_interval": ping_interval should be converted to a duration',
        "conf:1:0: interface conversion: interface {} is string, not int64",
        'conf:2:1: unknown field "foo"',
        'conf:4:12: unknown field "bar"',
    ]


def test_every_unsupported_key_is_refused() -> None:
    for key in keys.TOP_UNSUPPORTED:
        with pytest.raises(ConfigError, match=f'"{key}" not supported yet'):
            load(f"{key}: x")
    known = {*keys.TOP, *keys.TOP_UNSUPPORTED}
    assert len(known) == len(keys.TOP) + len(keys.TOP_UNSUPPORTED)


def test_numbers_where_durations_belong() -> None:
    loaded = load("ping_interval: 5\njetstream {sync_interval: 10}")
    assert loaded.options.ping_interval == 5.0
    assert loaded.options.jetstream.sync_interval == 10.0
    assert len(loaded.notices) == 2


def test_a_used_variable_is_no_unknown_field() -> None:
    assert load("mine: 5\nport: $mine").options.port == 5
    with pytest.raises(ConfigError, match='unknown field "mine"'):
        load("mine: 5\nport: $mine\nmine: 6")


def test_digest_is_of_what_is_said() -> None:
    digest = load("port: 4222").options.config_digest
    assert digest == "sha256:797533ebd0dfba7d34a0f9337ecf147e442871f48ddfd07ed751575a5737267e"
    assert load('# comment\n{ "port" = 4222 }').options.config_digest == digest
    assert load("PORT: 4222").options.config_digest != digest


def started(text: str, **flags: Any) -> Options:
    path = "conf"
    loaded = loader.load_text(text, path, {})
    for name, value in flags.items():
        setattr(loaded.options, name, value)
    checks.settle(loaded.options)
    checks.check_start(loaded.options)
    checks.check_opening(loaded.options)
    return loaded.options


START_ERRORS = [
    ("no_auth_user: x", 'no_auth_user: "x" present, but users/nkeys are not defined'),
    (
        "no_auth_user: x\nauthorization {users: [{user: a, password: b}]}",
        'no_auth_user: "x" not present as user or nkey in authorization block or account configuration',
    ),
    ("max_payload: 2M\nmax_pending: 1M", "max_payload (2000000) cannot be higher than max_pending (1000000)"),
    (
        'lame_duck_grace_period: "3m"',
        "lame duck grace period (3m0s) should be strictly lower than lame duck duration (2m0s)",
    ),
    ("system_account: X", "error resolving system account: account missing"),
    ('jetstream {domain: "a.b"}', "invalid domain name: may not contain ., * or >"),
    ('jetstream {domain: "a b"}', 'invalid domain name: derived "$JS.a b.API.>" is not a valid subject'),
    ("jetstream: on\naccounts {$SYS {jetstream: on}}", "Not allowed to enable JetStream on the system account"),
    ("port: 99999", 'Error listening on port: 0.0.0.0:99999, "listen tcp: address 99999: invalid port"'),
    ('ping_interval: "-5s"', "ping_interval needs to be positive"),
]


@pytest.mark.parametrize(("text", "message"), START_ERRORS)
def test_start_error(text: str, message: str) -> None:
    load(text)  # no error of the file itself
    with pytest.raises(ConfigError) as caught:
        started(text)
    assert str(caught.value) == message


def test_options_are_dataclasses() -> None:
    one, other = MappingDestination("a", cluster="c"), MappingDestination("a", 100, "c")
    assert one == other
    assert one != dataclasses.replace(one, weight=5)
    assert one != "a"
    assert repr(one) == "MappingDestination(subject='a', weight=100, cluster='c')"
    assert dataclasses.asdict(one) == {"subject": "a", "weight": 100, "cluster": "c"}
    assert Options().accounts is not Options().accounts
    make: Any = MappingDestination
    for args, named in (((), {}), (("a",), {"colour": 1}), (("a", 1, "c", "d"), {})):
        with pytest.raises(TypeError):
            make(*args, **named)
    with pytest.raises(TypeError):
        hash(one)
    with pytest.raises(AttributeError):
        one.colour = 1  # type: ignore[attr-defined]  # slots: a wrong name is no new option


def test_zero_means_the_default() -> None:
    options = started('host: ""\nport: 0\nmax_payload: 0\nping_max: 0\nwrite_deadline: "0"\nmax_connections: 0')
    assert (options.host, options.port, options.max_payload, options.ping_max) == ("0.0.0.0", 4222, 1 << 20, 2)
    assert (options.write_deadline, options.max_connections) == (10.0, -1)


def test_warnings() -> None:
    assert checks.warnings(started("")) == []
    text = "max_payload: 9M\njetstream: on\naccounts {A {users: [{user: a, password: b}]}}"
    assert len(checks.warnings(started(text))) == 2
    assert checks.warnings(started("jetstream {store_dir: a, max_buffered_msgs: 5}")) == [
        "jetstream max_buffered_msgs has no effect yet"
    ]
    assert checks.warnings(started('authorization {user: a, password: "$2b$11$x"}')) == []


@pytest.mark.parametrize(
    ("allowed", "warned"),
    [("", 0), (", allowed_connection_types: [STANDARD, WEBSOCKET]", 0), (", allowed_connection_types: [WEBSOCKET]", 1)],
)
def test_a_user_without_a_password_is_warned_of_unless_a_certificate_can_name_it(allowed: str, warned: int) -> None:
    options = started(f"authorization {{users: [{{user: a{allowed}}}]}}")
    assert len(checks.warnings(options)) == 1
    options.tls = TlsOptions(verify=True, verify_and_map=True)
    assert len(checks.warnings(options)) == warned


def test_flags_override_the_file_and_are_kept_for_reloads(tmp_path: Path) -> None:
    path = tmp_path / "conf"
    path.write_text("port: 1\njetstream {store_dir: a}")
    flags: list[tuple[str, str | int | float | bool]] = [("port", 2), ("jetstream.store_dir", "b")]
    options = start.load(str(path), flags).options
    assert (options.port, options.jetstream.store_dir, options.jetstream.enabled) == (2, "b", True)
    assert start.load(options.config_file, options.flags).options == options


def test_configs_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = certificates.make(tmp_path)
    names = ("ORDERS", "REPORTS", "ADMIN", "SHOP", "WORKER", "BILLING", "PARTNER")
    env = {f"{name}_PASSWORD": "secret" for name in names}
    env |= {"APP_HASH": "$2a$04$" + "." * 53, "BOB_NKEY": UserKey().public, "LOG_FILE": str(tmp_path / "log")}
    env |= {"CERT_FILE": str(made.server.cert), "KEY_FILE": str(made.server.key), "CA_FILE": str(made.ca.cert)}
    env |= {"EDGE_PASSWORD": "secret", "OPS_PASSWORD": "secret", "HUB_URL": "nats://edge:secret@127.0.0.1:7422"}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    paths = sorted(CONFIGS.glob("*.conf"))
    examples = "standalone accounts interval-sync permissions tls websocket mappings exports-imports logging"
    assert {path.stem for path in paths} >= {*examples.split(), "leaf-hub", "leaf-edge", "shipping"}
    for path in paths:
        options = cli.check_file(str(path))
        checks.check_start(options)
        checks.check_opening(options)
    standalone = loader.load_file(str(CONFIGS / "standalone.conf"), env).options
    assert (standalone.port, standalone.jetstream.enabled, standalone.jetstream.sync_interval) == (4222, True, None)
    interval = loader.load_file(str(CONFIGS / "interval-sync.conf"), env).options
    assert interval.jetstream.sync_interval == 120.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("300ms", 0.3), ("2s", 2), ("5m", 300), ("1h30m", 5400), ("1.5s", 1.5), (".5s", 0.5), ("-5s", -5), ("0", 0)],
)
def test_duration(text: str, seconds: float) -> None:
    assert durations.parse_duration(text) == pytest.approx(seconds)


LONGEST = "2562047h47m16.854775807s"


@pytest.mark.parametrize("text", [LONGEST, f"-{LONGEST}"])
def test_the_nanoseconds_of_every_duration_fit_64_bits(text: str) -> None:
    assert -(2**63) < int(durations.parse_duration(text) * 1e9) < 2**63


def test_the_nanoseconds_of_every_number_of_seconds_fit_64_bits() -> None:
    options = load(f"""
        ping_interval: 9223372036854775807
        write_deadline: "{LONGEST}"
        authorization {{
            timeout: 9223372036854775807
            users: [{{user: a, password: a, permissions: {{allow_responses: {{expires: "{LONGEST}"}}}}}}]
        }}
    """).options
    permissions = options.authorization.users[0].permissions
    assert permissions is not None
    responses = permissions.responses
    assert responses is not None
    Permissions(PermissionsOptions(responses=responses))
    for seconds in (options.ping_interval, options.write_deadline, options.authorization.timeout, responses.expires):
        assert 9e18 < int(seconds * 1e9) < 2**63


@pytest.mark.parametrize(
    ("seconds", "text"), [(120, "2m0s"), (30, "30s"), (3900, "1h5m0s"), (0.3, "300ms"), (-1, "-1s"), (90.5, "1m30.5s")]
)
def test_format_duration(seconds: float, text: str) -> None:
    assert durations.format_duration(seconds) == text


KEYS = st.sampled_from(
    sorted({*keys.TOP, *keys.JETSTREAM, *keys.USER, "accounts", "authorization", "jetstream", "users", "listen", "A"})
)
ANY_VALUE = st.recursive(
    st.sampled_from(["5", "-1", "x", "true", '"5s"', "2m", "1.5", "$SYS", '""', '"\\xff"', "2021-01-01T00:00:00Z"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: "[" + "\n".join(items) + "\n]")
        | st.dictionaries(KEYS, inner, max_size=3).map(
            lambda items: "{" + "\n".join(f"{key}: {value}" for key, value in items.items()) + "\n}"
        )
    ),
    max_leaves=10,
)


@settings(deadline=None)
@given(st.dictionaries(KEYS, ANY_VALUE, max_size=4))
def test_any_values_are_options_or_a_config_error(tree: dict[str, str]) -> None:
    text = "\n".join(f"{key}: {value}" for key, value in tree.items())
    try:
        options = load(text, SYS="5").options
        checks.settle(options)
        checks.check_start(options)
    except ConfigError:
        return
    # Whatever is taken is of the declared types.
    assert OPTIONS.validate_python(dataclasses.asdict(options)) == options
