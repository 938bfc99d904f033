"""`leafnodes {}`: where each key ends up, what the defaults are, what is refused, how remotes are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from jetbroker.config import keys
from jetbroker.config.checks import check_start, settle
from jetbroker.config.leafnodes import leaf_url, remote_name, url_text
from jetbroker.config.loader import load_text
from jetbroker.config.options import LeafCompression, LeafRemote, LeafUrl, LeafUser, Options
from jetbroker.errors import ConfigError
from tests.config.corpus_leafnodes import USER_KEY, USER_SEED
from tests.support import certificates

OPTIONS = TypeAdapter(Options)
URLS = [LeafUrl("nats", "a", 0, "u", "p"), LeafUrl("tls", "::1", 5)]


def read(text: str) -> Options:
    options = load_text(text, "conf").options
    OPTIONS.validate_python(options, strict=True)
    return options


def remote(text: str) -> LeafRemote:
    (found,) = read(f"leafnodes {{ remotes [ {{ {text} }} ] }}").leafnodes.remotes
    return found


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("port: 7422", "port", 7422),
        ('listen: "127.0.0.1:-1"', "host", "127.0.0.1"),
        ('listen: "127.0.0.1:-1"', "port", -1),
        ("net: a", "host", "a"),
        ('leafnode_advertise: "a:5"', "advertise", "a:5"),
        ("no_advertise: true", "no_advertise", True),
        ("isolate: true", "isolate_leafnode_interest", True),
        ('write_deadline: "5s"', "write_deadline", 5.0),
        ("write_timeout: retry", "write_timeout", "retry"),
        ("write_timeout: default", "write_timeout", ""),
        ('reconnect: "3s"', "reconnect", 3.0),
        ('reconnect_delay: "3s"', "reconnect", 3.0),
        ('reconnect_interval: "3s"', "reconnect", 3.0),
        ('dial_timeout: "3s"', "dial_timeout", 3.0),
        ('minimum_version: "2.10.0"', "min_version", "2.10.0"),
        ("compression: true", "compression", LeafCompression("s2_auto")),
        ("compression: false", "compression", LeafCompression("off")),
        ("compression: Fast", "compression", LeafCompression("Fast")),
        ('compression {mode: auto, rtts: ["1ms", "2ms"]}', "compression", LeafCompression("auto", [0.001, 0.002])),
    ],
)
def test_a_key_of_the_block(text: str, field: str, value: Any) -> None:
    assert getattr(read(f"leafnodes {{ {text} }}").leafnodes, field) == value


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("user: a, pass: b", "user", "a"),
        ("username: a, password: b", "password", "b"),
        (f"nkey: {USER_KEY}", "nkey", USER_KEY),
        ("account: A", "account", "A"),
        ('timeout: "3s"', "timeout", 3.0),
        ("proxy_required: true", "proxy_required", True),
        ("users [ {user: a, pass: b, account: A} ]", "users", [LeafUser("a", "b", "A")]),
    ],
)
def test_a_key_of_the_logins(text: str, field: str, value: Any) -> None:
    assert getattr(read(f"leafnodes {{ authorization {{ {text} }} }}").leafnodes.authorization, field) == value


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ('url: "nats://a:5"', "urls", [LeafUrl("nats", "a", 5)]),
        ('urls: ["nats://u:p@a", "tls://[::1]:5"]', "urls", URLS),
        ('url: "ws://a/b?c"', "urls", [LeafUrl("ws", "a", rest="/b?c")]),
        ("local: A", "account", "A"),
        ('creds: "/a/b"', "credentials", "/a/b"),
        (f"seed: {USER_SEED}", "nkey", USER_SEED),
        ("hub: true", "hub", True),
        ("deny_import: a", "deny_imports", ["a"]),
        ("deny_exports: [a, b]", "deny_exports", ["a", "b"]),
        ("dont_randomize: true", "no_randomize", True),
        ('first_info_timeout: "3s"', "first_info_timeout", 3.0),
        ('dial_timeout: "3s"', "dial_timeout", 3.0),
        ("compression: accept", "compression", LeafCompression("accept")),
        ("ws_compress: true", "ws_compression", True),
        ("websocket_no_masking: true", "ws_no_masking", True),
        ("isolate: true", "isolate_leafnode_interest", True),
        ("request_isolation: true", "request_isolation", True),
        ("disabled: true", "disabled", True),
        ("ignore_discovered_servers: true", "ignore_discovered_servers", True),
        ("jetstream_cluster_migrate: false", "disabled", False),
    ],
)
def test_a_key_of_a_remote(text: str, field: str, value: Any) -> None:
    assert getattr(remote(text), field) == value


@pytest.mark.parametrize("key", sorted(keys.LEAF_REMOTE_UNSUPPORTED))
def test_what_remotes_cannot_do_is_refused_by_name(key: str) -> None:
    with pytest.raises(ConfigError, match=rf'conf:2:\d+: "{key}" not supported yet'):
        remote(f"\n{key}: {{}}")


def test_certificates_of_both_sides(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    tls = f'tls {{ cert_file: "{made.server.cert}", key_file: "{made.server.key}", handshake_first: true }}'
    options = read(f'leafnodes {{ port: -1\n{tls}\nremotes [ {{\nurl: "nats://a"\n{tls}\n}} ] }}').leafnodes
    assert options.tls is not None and options.tls.handshake_first == 0.0
    assert options.remotes[0].tls == options.tls


def test_the_home_directory_and_variables_in_the_path_of_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/x")
    monkeypatch.setenv("WHERE", "/etc")
    assert remote('creds: "~/a.creds"').credentials == "/home/x/a.creds"
    assert remote("creds: '${WHERE}/a/$WHERE'").credentials == "/etc/a//etc"
    monkeypatch.delenv("HOME")
    with pytest.raises(ConfigError, match="failed to get home dir"):
        remote('creds: "~/a.creds"')


def test_defaults_before_a_start() -> None:
    text = 'leafnodes { port: -1, remotes [ {url: "nats://a"}, {url: "nats://b:5", dial_timeout: "3s"} ] }'
    options = read(text)
    settle(options)
    check_start(options)
    block = options.leafnodes
    assert (block.host, block.reconnect, block.dial_timeout) == ("0.0.0.0", 1.0, 1.0)
    assert block.authorization.timeout == 2.0
    assert block.compression == LeafCompression("s2_auto", [0.01, 0.05, 0.1])
    first, second = block.remotes
    assert [url.port for url in (*first.urls, *second.urls)] == [7422, 5]
    assert (first.account, first.first_info_timeout, first.dial_timeout, second.dial_timeout) == ("$G", 1.0, 0.0, 3.0)
    assert first.compression.mode == "s2_auto"


def test_a_block_without_a_port_does_not_listen() -> None:
    options = read("leafnodes {}").leafnodes
    assert (options.port, options.enabled) == (0, False)
    assert read('leafnodes { remotes [ {url: "nats://a"} ] }').leafnodes.enabled
    assert read("leafnodes { port: -1 }").leafnodes.enabled


def test_secrets_of_remotes_are_not_shown() -> None:
    found = remote(f'url: "nats://u:secret@a:5", nkey: {USER_SEED}')
    shown = remote_name(found, redacted=True)
    assert shown == 'urls=["nats://u:xxxxx@a:5"], account="$G", nkey="[REDACTED]"'
    assert remote_name(found) == f'urls=["nats://u:secret@a:5"], account="$G", nkey="{USER_SEED}"'
    assert "secret" not in repr(found) and USER_SEED not in repr(found)


@pytest.mark.parametrize("text", ["nats://u:p@h:1", "nats://[::1]:5/a", "wss://h", "nats://h:5?a#b"])
def test_urls_are_written_as_they_were_read(text: str) -> None:
    assert url_text(leaf_url(text)) == text


def test_domains_of_accounts() -> None:
    options = read('accounts { A {} }\ndefault_js_domain { A: hub, $G: "" }')
    assert options.leafnodes.default_js_domain == {"A": "hub", "$G": ""}
