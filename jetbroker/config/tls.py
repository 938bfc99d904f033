"""`tls {}`: certificates, ciphers, who is verified."""

import re
from collections.abc import Callable
from typing import Any

from jetbroker.config import keys, values
from jetbroker.config.durations import parse_duration
from jetbroker.config.options import TlsOptions
from jetbroker.config.parser import Node
from jetbroker.config.report import Report
from jetbroker.errors import ConfigError
from jetbroker.forms.gotext import quoted

CIPHERS = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
)
INSECURE_CIPHERS = (
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
)
CURVES = ("X25519MLKEM768", "X25519", "CurveP256", "CurveP384", "CurveP521")
_AUTO_FALLBACK_SECONDS = 0.05  # `handshake_first: auto`, as in nats-server
_HELP = """
TLS configuration is specified in the tls section of a configuration file:

    tls {{
        cert_file: "./certs/server-cert.pem"
        key_file: "./certs/server-key.pem"
        ca_file: "./certs/ca.pem"
        verify: true
        cipher_suites: ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]
        curve_preferences: ["CurveP256", "CurveP384"]
    }}

Available cipher suites include:
{ciphers}

Available curve preferences include:
{curves}
"""
_PIN = re.compile("[0-9a-f]{64}")


def read_tls(report: Report, node: Node) -> TlsOptions | None:
    """The options of a block, None when it is wrong. Whether its files are good is for :func:`check_files`."""
    tree = report.map(node)
    if tree is None:
        return None
    block = _Block(report)
    before = len(report.errors)
    unknown = "error parsing tls config, unknown field {}"
    report.fill(block.options, tree, keys.TLS, block.blocks(), keys.TLS_UNSUPPORTED, unknown)
    if len(report.errors) > before:
        return None
    if block.options.certs and block.options.cert_file:
        report.fail(node.place, "error parsing tls config, cannot combine 'cert_file' option with 'certs' option")
        return None
    insecure = [name for name in block.options.ciphers if name in INSECURE_CIPHERS]
    if insecure and not block.allow_insecure_ciphers:
        report.fail(
            node.place,
            "insecure cipher suites configured without 'allow_insecure_cipher_suites' option set: "
            + ", ".join(insecure),
        )
        return None
    return block.options


def help_text() -> str:
    """What `--help_tls` prints: an example, and the names that `cipher_suites` and `curve_preferences` take."""
    names = "\n".join(f"    {name}" for name in sorted((*CIPHERS, *INSECURE_CIPHERS)))
    curves = "\n".join(f"    {name}" for name in CURVES)
    return _HELP.format(ciphers=names, curves=curves)


class _Block:
    """The keys of `tls {}` that need more than a row of a table."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.options = TlsOptions()
        self.allow_insecure_ciphers = False

    def blocks(self) -> dict[str, Callable[[str, Node], None]]:
        return {
            "verify": self._verify,
            "verify_and_map": self._verify,
            "verify_cert_and_check_known_urls": self._check_known_urls,
            "allow_insecure_cipher_suites": self._insecure,
            "cipher_suites": self._ciphers,
            "curve_preferences": self._curves,
            "pinned_certs": self._pinned,
            **dict.fromkeys(("handshake_first", "first", "immediate"), self._handshake_first),
            **dict.fromkeys(("certs", "certificates"), self._certs),
        }

    def _verify(self, key: str, node: Node) -> None:
        wanted = self.report.read(key, node, values.tls_flag)
        if wanted:
            self.options.verify = True
        if key == "verify_and_map":
            self.options.verify_and_map = bool(wanted)

    def _check_known_urls(self, key: str, node: Node) -> None:
        if self.report.read(key, node, values.tls_flag):
            self.report.fail(node.place, f"{key} not supported in this context")

    def _insecure(self, key: str, node: Node) -> None:
        self.allow_insecure_ciphers = bool(self.report.read(key, node, values.tls_flag))

    def _ciphers(self, key: str, node: Node) -> None:
        self.options.ciphers = self._names(key, node, (*CIPHERS, *INSECURE_CIPHERS), "unrecognized cipher")

    def _curves(self, key: str, node: Node) -> None:
        self.options.curves = self._names(key, node, CURVES, "unrecognized curve preference")

    def _names(self, key: str, node: Node, known: tuple[str, ...], unknown: str) -> list[str]:
        entries = self.report.list(node)
        if entries is None:
            return []
        if not entries:
            self.report.fail(node.place, f"error parsing tls config, '{key}' cannot be empty")
        names: list[str] = []
        for entry in entries:
            name = self.report.read(key, entry, values.string)
            if name is not None and name not in known:
                self.report.fail(entry.place, f"{unknown} {name}")
            elif name is not None:
                names.append(name)
        return names

    def _pinned(self, key: str, node: Node) -> None:
        wanted = "hex-encoded sha256 of DER encoded SubjectPublicKeyInfo"
        if not isinstance(node.value, list):
            self.report.fail(node.place, f"error parsing tls config, expected 'pinned_certs' to be a list of {wanted}")
            return
        pins = set()
        for entry in node.value:
            text = self.report.read(key, entry, values.string)
            if text is None:
                continue
            pin = text.lower()
            if not _PIN.fullmatch(pin):
                self.report.fail(
                    entry.place, f"error parsing tls config, 'pinned_certs' key {pin} does not look like {wanted}"
                )
            pins.add(pin)
        self.options.pinned_certs = frozenset(pins)

    def _handshake_first(self, key: str, node: Node) -> None:
        try:
            self.options.handshake_first = _handshake_first(key, node.value)
        except ConfigError as error:
            self.report.fail(node.place, error)

    def _certs(self, key: str, node: Node) -> None:
        failed = "error parsing certificates config: unsupported type"
        if not isinstance(node.value, list):
            self.report.fail(node.place, f"{failed} {values.MAP}")
            return
        for entry in node.value:
            if not isinstance(entry.value, dict):
                self.report.fail(entry.place, f"{failed} {values.type_name(entry.value)}")
                continue
            pair = {"cert_file": "", "key_file": ""}
            place, before = entry.place, len(self.report.errors)
            for name, file in entry.value.items():
                place = file.place
                if not isinstance(file.value, str):
                    self.report.fail(place, f"{failed} {values.type_name(file.value)}")
                elif name not in pair:
                    self.report.fail(place, f"error parsing tls certs config, unknown field {quoted(name)}")
                else:
                    pair[name] = self.report.read(name, file, values.string) or ""
            if len(self.report.errors) == before and not all(pair.values()):
                both = "both 'cert_file' and 'cert_key' options are required"
                self.report.fail(place, f"error parsing certificates config: {both}")
            self.options.certs.append((pair["cert_file"], pair["key_file"]))


def _handshake_first(key: str, value: Any) -> float | None:
    """None: INFO goes first; 0.0: it never does; else it does when the client was silent for so many seconds."""
    if isinstance(value, bool):
        return 0.0 if value else None
    if not isinstance(value, str):
        raise ConfigError(f"field {quoted(key)} should be a boolean or a string, got {values.type_name(value)}")
    word = value.lower()
    if word in ("true", "on"):
        return 0.0
    if word in ("false", "off"):
        return None
    if word in ("auto", "auto_fallback"):
        return _AUTO_FALLBACK_SECONDS
    try:
        return max(parse_duration(value), 0.0)
    except ConfigError:
        raise ConfigError(f"field {quoted(key)}'s value {quoted(value)} is invalid") from None
