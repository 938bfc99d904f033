"""TLS: from the options of a `tls {}` block to a context; from a handshake to what the log and monitoring say of it.

`ssl` and `cryptography` are loaded with this module or later: import it only when TLS is configured. Names of versions
and cipher suites are Go's, as everywhere in nats-server's output.
"""

import contextlib
import hashlib
import ipaddress
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jetbroker.config import certificates
from jetbroker.config.options import TlsOptions
from jetbroker.errors import ConfigError, JetbrokerError

if TYPE_CHECKING:
    from cryptography import x509

_EXCHANGES = {"ECDHE_ECDSA_WITH_": "ECDHE-ECDSA-", "ECDHE_RSA_WITH_": "ECDHE-RSA-", "RSA_WITH_": ""}
_BULK = {
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "RC4_128_SHA": "RC4-SHA",
}
_OPENSSL_NAMES = {  # of TLS 1.2; those of 1.3 have one name everywhere
    f"TLS_{exchange}{bulk}": prefix + name for exchange, prefix in _EXCHANGES.items() for bulk, name in _BULK.items()
}
_DER = 2  # what the ssl module's own certificates call that form
_GO_NAMES = {name: go for go, name in _OPENSSL_NAMES.items()}
_DEFAULT_CIPHERS = [  # Go's default list: what has no forward secrecy is not in it
    f"TLS_{exchange}{bulk}" for bulk in list(_BULK)[:5] for exchange in list(_EXCHANGES)[:2]
]
_CURVES = {
    "X25519MLKEM768": "X25519MLKEM768",
    "X25519": "X25519",
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
}
_VERSIONS = {"TLSv1.2": "1.2", "TLSv1.3": "1.3"}


class TlsError(JetbrokerError):
    """A `tls {}` block cannot be used; the text is nats-server's."""


# --- contexts ---


def server_context(options: TlsOptions, *, verify: bool | None = None) -> ssl.SSLContext:
    """What a listener needs for handshakes. `verify` overrides the block's. Raises TlsError."""
    try:
        certificates.check(options)
        context = _base_context(options, options.verify if verify is None else verify)
        pairs = [(options.cert_file, options.key_file)] if options.cert_file else options.certs
        for cert_file, key_file in reversed(pairs):  # of two for one kind of key the last one loaded counts
            context.load_cert_chain(cert_file, key_file, _no_password)
        if len(pairs) > 1:
            _choose_by_name(context, options, pairs, verify)
    except ConfigError as error:
        raise TlsError(str(error)) from None
    except (OSError, ValueError) as error:
        raise TlsError(f"error parsing X509 certificate/key pair: {error}") from error
    return context


def client_context(options: TlsOptions | None) -> ssl.SSLContext:
    """What a handshake needs that this server begins; None: no block says anything of it. Raises TlsError."""
    options = options or TlsOptions()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if options.min_version == "1.3" else ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    try:
        certificates.check(options)
        _set_ciphers(context, options.ciphers)
        _set_curves(context, options.curves)
        if options.cert_file:
            context.load_cert_chain(options.cert_file, options.key_file, _no_password)
        if options.ca_file:
            context.load_verify_locations(options.ca_file)
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    except ConfigError as error:
        raise TlsError(str(error)) from None
    except (OSError, ValueError) as error:
        raise TlsError(f"error parsing X509 certificate/key pair: {error}") from error
    if options.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _base_context(options: TlsOptions, verify: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if options.min_version == "1.3" else ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION
    context.num_tickets = 0  # a resumed session would keep a certificate that is trusted no more
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN  # each certificate of `ca_file` is an authority
    _set_ciphers(context, options.ciphers)
    _set_curves(context, options.curves)
    if not verify:
        return context  # without authorities: OpenSSL would send them behind the certificate
    context.verify_mode = ssl.CERT_REQUIRED
    if options.ca_file:
        with open(options.ca_file, encoding="ascii", errors="replace") as file:
            context.load_verify_locations(cadata=file.read())
    else:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    return context


def _no_password() -> str:
    raise ConfigError("error parsing X509 certificate/key pair: tls: failed to parse private key")


def _set_ciphers(context: ssl.SSLContext, wanted: list[str]) -> None:
    """Those of TLS 1.3 are always all there, as in Go; a list that names no others leaves no TLS 1.2."""
    names = wanted or _DEFAULT_CIPHERS
    older = [_OPENSSL_NAMES[name] for name in names if name in _OPENSSL_NAMES]
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    try:
        context.set_ciphers(":".join(older))
    except ssl.SSLError:
        raise TlsError(f"cipher suites not supported by {ssl.OPENSSL_VERSION}: {', '.join(wanted)}") from None


def _set_curves(context: ssl.SSLContext, wanted: list[str]) -> None:
    """Python before 3.15 can set one curve or leave them all: then the first that OpenSSL knows is the one."""
    names = [_CURVES[name] for name in wanted]
    set_groups = getattr(context, "set_groups", None)
    if set_groups is not None and names:
        set_groups(":".join(f"?{name}" for name in names))
        return
    if len(set(names)) >= len(_CURVES) - 1:
        return  # all that matter
    for name in names:
        try:
            context.set_ecdh_curve(name)
            return
        except (ValueError, OSError):
            continue
    if names:
        raise TlsError(f"curve preferences not supported by {ssl.OPENSSL_VERSION}: {', '.join(wanted)}")


def _choose_by_name(
    default: ssl.SSLContext, options: TlsOptions, pairs: list[tuple[str, str]], verify: bool | None
) -> None:
    """Several certificates: those that fit the name the client asks for, else all of them."""
    names = [_dns_names(cert_file) for cert_file, _ in pairs]
    made: dict[tuple[int, ...], ssl.SSLContext] = {}
    for single in {name for of_one in names for name in of_one}:
        fitting = tuple(index for index, of_one in enumerate(names) if _fits(single, of_one))
        if fitting not in made and len(fitting) < len(pairs):
            part = TlsOptions(
                ca_file=options.ca_file,
                verify=options.verify,
                min_version=options.min_version,
                ciphers=options.ciphers,
                curves=options.curves,
            )
            made[fitting] = _base_context(part, options.verify if verify is None else verify)
            for index in reversed(fitting):
                made[fitting].load_cert_chain(*pairs[index], _no_password)

    def choose(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
        if name:
            fitting = tuple(index for index, of_one in enumerate(names) if _fits(name.lower(), of_one))
            connection.context = made.get(fitting, default)

    default.sni_callback = choose


def _fits(name: str, names: set[str]) -> bool:
    return name in names or "*." + name.partition(".")[2] in names


def _dns_names(cert_file: str) -> set[str]:
    from cryptography import x509

    with open(cert_file, "rb") as file:
        leaf = x509.load_pem_x509_certificates(file.read())[0]
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {name.lower() for name in found.get_values_for_type(x509.DNSName)}


# --- what a handshake brought ---


@dataclass(frozen=True, slots=True)
class TlsFacts:
    """What a handshake brought. `peer_certificates` are DER: the client's own, then its chain.

    `first`: it came before INFO.
    """

    version: str
    cipher_suite: str
    peer_certificates: tuple[bytes, ...]
    first: bool

    @property
    def peer_certificate(self) -> bytes | None:
        """The client's certificate in DER, None when it has shown none."""
        return self.peer_certificates[0] if self.peer_certificates else None

    @property
    def spki_sha256(self) -> str:
        """SHA-256 of the client certificate's public key in hex, "" without a certificate: what `pinned_certs` hold."""
        if self.peer_certificate is None:
            return ""
        return _spki_sha256(_parsed(self.peer_certificate))

    def peer_certs(self) -> list[dict[str, str]]:
        """`tls_peer_certs` of `/connz`."""
        return [_shown_certificate(der) for der in self.peer_certificates]


def facts(connection: ssl.SSLObject, first: bool) -> TlsFacts:
    """Of a connection whose handshake is done."""
    cipher = connection.cipher()
    name = cipher[0] if cipher else ""
    version = connection.version() or ""
    return TlsFacts(
        version=_VERSIONS.get(version, version),
        cipher_suite=_GO_NAMES.get(name, name),
        peer_certificates=_peer_certificates(connection),
        first=first,
    )


def _peer_certificates(connection: ssl.SSLObject) -> tuple[bytes, ...]:
    chain: Callable[[], list[bytes]] | None = getattr(connection, "get_unverified_chain", None)
    if chain is not None:
        return tuple(chain())
    inner: Any = getattr(connection, "_sslobj", None)  # where Python before 3.13 has it
    if hasattr(inner, "get_unverified_chain"):
        return tuple(certificate.public_bytes(_DER) for certificate in inner.get_unverified_chain() or ())
    own = connection.getpeercert(binary_form=True)
    return () if own is None else (own,)


def _shown_certificate(der: bytes) -> dict[str, str]:
    parsed = _parsed(der)
    return {
        "subject": subject_text(parsed.subject),
        "spki_sha256": _spki_sha256(parsed),
        "cert_sha256": hashlib.sha256(der).hexdigest(),
    }


def _parsed(der: bytes) -> "x509.Certificate":
    from cryptography import x509

    return x509.load_der_x509_certificate(der)


def _spki_sha256(certificate: "x509.Certificate") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(key).hexdigest()


_SHOWN = {  # in the order of Go's text
    "2.5.4.5": "SERIALNUMBER",
    "2.5.4.3": "CN",
    "2.5.4.17": "POSTALCODE",
    "2.5.4.9": "STREET",
    "2.5.4.8": "ST",
    "2.5.4.7": "L",
    "2.5.4.11": "OU",
    "2.5.4.10": "O",
    "2.5.4.6": "C",
}
_SINGLE = ("2.5.4.5", "2.5.4.3")  # of these the last one counts
_PRINTABLE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 '()+,-./:=?")


def subject_text(name: "x509.Name") -> str:
    """A subject as Go writes it: `CN=ann,O=Tests`, what it has no word for behind, as `oid=#hex`."""
    values: dict[str, list[str]] = {}
    others: list[str] = []
    for attribute in name:
        oid, value = attribute.oid.dotted_string, attribute.value
        text = value if isinstance(value, str) else value.decode("latin-1")
        if oid in _SHOWN:
            values.setdefault(oid, []).append(text)
        else:
            others.append(f"{oid}=#{_der_string(text)}")
    parts = []
    for oid, word in _SHOWN.items():
        found = values.get(oid, [])
        if found:
            shown = found[-1:] if oid in _SINGLE else found
            parts.append("+".join(f"{word}={_escaped(text)}" for text in shown))
    return ",".join(parts + others[::-1])


def _escaped(text: str) -> str:
    out = []
    for at, char in enumerate(text):
        special = char in ',+"\\<>;' or (char == " " and at in (0, len(text) - 1)) or (char == "#" and at == 0)
        out.append("\\" + char if special else char)
    return "".join(out)


def _der_string(text: str) -> str:
    data = text.encode("utf-8", "replace")
    size = len(data)
    length = bytes([size]) if size < 128 else bytes([0x80 | (size.bit_length() + 7) // 8]) + _big_endian(size)
    return (bytes([0x13 if set(text) <= _PRINTABLE else 0x0C]) + length + data).hex()


def _big_endian(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


# --- why there was no handshake ---

_NO_TLS = ("HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "WRONG_VERSION_NUMBER")
_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "tls: client didn't provide a certificate",
    "NO_SHARED_CIPHER": "tls: no cipher suite supported by both client and server",
    "UNSUPPORTED_PROTOCOL": "tls: client offered only unsupported versions",
    "NO_SUITABLE_KEY_SHARE": "tls: no key exchanges supported by both client and server",
    "NO_SHARED_GROUPS": "tls: no key exchanges supported by both client and server",
}
_ALERTS = {
    "BAD_CERTIFICATE": "bad certificate",
    "UNSUPPORTED_CERTIFICATE": "unsupported certificate",
    "CERTIFICATE_REVOKED": "revoked certificate",
    "CERTIFICATE_EXPIRED": "expired certificate",
    "CERTIFICATE_UNKNOWN": "unknown certificate",
    "UNKNOWN_CA": "unknown certificate authority",
    "HANDSHAKE_FAILURE": "handshake failure",
    "PROTOCOL_VERSION": "protocol version not supported",
    "DECRYPT_ERROR": "error decrypting message",
    "DECODE_ERROR": "error decoding message",
    "UNEXPECTED_MESSAGE": "unexpected message",
    "INTERNAL_ERROR": "internal error",
    "USER_CANCELLED": "user canceled",
}
_UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)  # OpenSSL's X509_V_ERR_*: there is no way to an authority
_NOT_IN_TIME = (9, 10)
_WRONG_PURPOSE = 26
WRONG_NAME = (62, 64)  # a host's, an address


def is_plain_http(error: Exception) -> bool:
    """A request came where a handshake should have begun."""
    return isinstance(error, ssl.SSLError) and error.reason == "HTTP_REQUEST"


def failure_text(error: Exception, addresses: str) -> tuple[str, bool]:
    """Why a handshake failed, in Go's words, and whether that is usual with probes and load balancers.

    `addresses` is `local->remote`.
    """
    if isinstance(error, TimeoutError):
        return f"read tcp {addresses}: i/o timeout", True
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: {_verify_text(error)}", False
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        if reason in _NO_TLS:
            return "tls: first record does not look like a TLS handshake", True
        alert = reason.partition("_ALERT_")[2]
        if alert:
            return f"remote error: tls: {_ALERTS.get(alert, alert.lower().replace('_', ' '))}", False
        return _REASONS.get(reason) or f"tls: {reason.lower().replace('_', ' ') or error}", False
    if isinstance(error, OSError) and error.errno:
        return f"read tcp {addresses}: read: {os.strerror(error.errno).lower()}", False
    return str(error), False


def refusal_text(error: ssl.SSLCertVerificationError, connection: ssl.SSLObject, name: str) -> str:
    """Why it was we who refused, in Go's words, and what we were shown. `name` is that of the server we wanted."""
    from jetbroker.auth.certificates import UNREADABLE

    shown = _peer_certificates(connection)
    text, told = _verify_text(error), ""
    with contextlib.suppress(*UNREADABLE):  # OpenSSL reads more than `cryptography` does
        if error.verify_code in WRONG_NAME and shown:
            text = _mismatch_text(_parsed(shown[0]), name)
        told = "; ".join(
            f"{subject_text(_parsed(der).subject)} SHA-256: {hashlib.sha256(der).hexdigest()}" for der in shown
        )
    return f"tls: failed to verify certificate: {text}" + (f" ({told})" if told else "")


def _mismatch_text(certificate: "x509.Certificate", name: str) -> str:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    try:
        ipaddress.ip_address(name)
    except ValueError:
        valid = names.get_values_for_type(x509.DNSName)
    else:
        valid = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
        if not valid:
            return f"x509: cannot validate certificate for {name} because it doesn't contain any IP SANs"
    if not valid:
        return f"x509: certificate is not valid for any names, but wanted to match {name}"
    return f"x509: certificate is valid for {', '.join(valid)}, not {name}"


def _verify_text(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return "x509: certificate signed by unknown authority"
    if error.verify_code in _NOT_IN_TIME:
        return f"x509: certificate has expired or is not yet valid: {error.verify_message}"
    if error.verify_code == _WRONG_PURPOSE:
        return "x509: certificate specifies an incompatible key usage"
    return f"x509: {error.verify_message}"


def shown(of: TlsFacts | Any, *, auth: bool) -> dict[str, Any]:
    """The fields of a connection in `/connz`; {} in clear. `auth`: with the certificates."""
    if not isinstance(of, TlsFacts):
        return {}
    fields: dict[str, Any] = {"tls_version": of.version, "tls_cipher_suite": of.cipher_suite}
    if auth and of.peer_certificate is not None:
        fields["tls_peer_certs"] = of.peer_certs()
    if of.first:
        fields["tls_first"] = True
    return fields
