"""Whether the files of a `tls {}` block are what they should be: told while the configuration is read, with its place.

`ssl` is imported here only: a configuration without TLS does not pay for it.
"""

import re

from jetbroker.config.options import TlsOptions
from jetbroker.config.parser import Place
from jetbroker.config.report import Report
from jetbroker.errors import ConfigError
from jetbroker.forms.gotext import quoted

_MAX_BYTES = 16 * 1024 * 1024  # bundles of all public authorities are below one
_PEM_BLOCK = re.compile(rb"^-----BEGIN ([A-Z0-9 ]+)-----", re.MULTILINE)
_CERTIFICATE = "CERTIFICATE"
_KEY = "PRIVATE KEY"


def check_files(report: Report, place: Place, options: TlsOptions) -> None:
    """Report what keeps the certificates, keys and authorities of a block from being used."""
    try:
        check(options)
    except ConfigError as error:
        report.fail(place, error)


def check(options: TlsOptions) -> None:
    """Raise :class:`~jetbroker.errors.ConfigError` when the files of a block cannot be used."""
    if options.cert_file and not options.key_file:
        raise ConfigError("missing 'key_file' in TLS configuration")
    if options.key_file and not options.cert_file:
        raise ConfigError("missing 'cert_file' in TLS configuration")
    if options.cert_file:
        _check_pair(options.cert_file, options.key_file, "")
    else:
        for number, (cert_file, key_file) in enumerate(options.certs, 1):
            _check_pair(cert_file, key_file, f" {number}/{len(options.certs)}")
    if options.ca_file:
        _check_authorities(options.ca_file)


def _check_pair(cert_file: str, key_file: str, which: str) -> None:
    try:
        _check_certificate(_read(cert_file))
        _check_key(_read(key_file))
        _load_pair(cert_file, key_file)
    except ConfigError as error:
        raise ConfigError(f"error parsing X509 certificate/key pair{which}: {error}") from None


def _check_certificate(data: bytes) -> None:
    blocks = _blocks(data)
    if not blocks:
        raise ConfigError("tls: failed to find any PEM data in certificate input")
    if _CERTIFICATE in blocks:
        return
    if len(blocks) == 1 and blocks[0].endswith(_KEY):
        raise ConfigError(
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may "
            "have been switched"
        )
    raise ConfigError(
        f'tls: failed to find "{_CERTIFICATE}" PEM block in certificate input after skipping PEM blocks of the '
        f"following types: [{' '.join(blocks)}]"
    )


def _check_key(data: bytes) -> None:
    blocks = _blocks(data)
    if not blocks:
        raise ConfigError("tls: failed to find any PEM data in key input")
    if any(block == _KEY or block.endswith(f" {_KEY}") for block in blocks):
        return
    if blocks == [_CERTIFICATE]:
        raise ConfigError("tls: found a certificate rather than a key in the PEM for the private key")
    raise ConfigError(
        f'tls: failed to find PEM block with type ending in "{_KEY}" in key input after skipping PEM blocks of the '
        f"following types: [{' '.join(blocks)}]"
    )


def _load_pair(cert_file: str, key_file: str) -> None:
    import ssl

    def no_password() -> str:
        raise ConfigError("tls: failed to parse private key")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert_file, key_file, no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError("tls: private key does not match public key") from None
        if error.reason in ("KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"):
            raise ConfigError("tls: private key type does not match public key type") from None
        raise ConfigError(f"tls: failed to parse certificate or key: {error}") from None
    except OSError as error:
        raise ConfigError(str(error)) from None


def _check_authorities(path: str) -> None:
    data = _read(path)
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(cadata=data.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError):
        # One good certificate among broken ones is enough there; the context made of this file has the last word.
        raise ConfigError("failed to parse root ca certificate") from None
    if not context.cert_store_stats()["x509"]:
        raise ConfigError("failed to parse root ca certificate")


def _blocks(data: bytes) -> list[str]:
    """The types of the PEM blocks in a file, in its order."""
    return [match[1].decode("ascii") for match in _PEM_BLOCK.finditer(data)]


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        verb = "read" if isinstance(error, IsADirectoryError) else "open"
        raise ConfigError(f"{verb} {path}: {why[:1].lower()}{why[1:]}") from None
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{quoted(path)} is larger than {_MAX_BYTES} bytes")
    return data
