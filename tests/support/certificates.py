"""Certificates for tests: a CA, what it signed, and what goes wrong with them. All of it in files of one directory.

made = certificates.make(tmp_path)
config = f'tls {{ cert_file: "{made.server.cert}", key_file: "{made.server.key}", ca_file: "{made.ca.cert}" }}'
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

_DAY = datetime.timedelta(days=1)
_NAMES = {
    "C": NameOID.COUNTRY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "L": NameOID.LOCALITY_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "CN": NameOID.COMMON_NAME,
    "DC": NameOID.DOMAIN_COMPONENT,
}


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, in memory and as PEM files (`cert`, `key`)."""

    cert: Path
    key: Path
    made: x509.Certificate
    private: PrivateKey

    @property
    def der(self) -> bytes:
        return self.made.public_bytes(serialization.Encoding.DER)

    @property
    def sha256(self) -> str:
        """Of the whole certificate, hex."""
        return hashlib.sha256(self.der).hexdigest()

    @property
    def spki_sha256(self) -> str:
        """Of its public key as `pinned_certs` wants it, hex."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return hashlib.sha256(self.made.public_key().public_bytes(serialization.Encoding.DER, form)).hexdigest()


class Authority:
    """A CA that writes what it signs into `directory`."""

    def __init__(self, directory: Path, name: str = "ca", common_name: str = "Test CA") -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        subject = distinguished_name([("O", "Tests"), ("CN", common_name)])
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, subject, key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        own = builder.add_extension(usage, critical=True).sign(key, hashes.SHA256())
        self.own = _write(directory, name, own, key)

    @property
    def cert(self) -> Path:
        """Its own certificate: `ca_file`."""
        return self.own.cert

    def sign(
        self,
        name: str,
        *,
        subject: Sequence[tuple[str, str]] | None = None,
        dns: Sequence[str] = (),
        ips: Sequence[str] = (),
        emails: Sequence[str] = (),
        uris: Sequence[str] = (),
        algorithm: str = "EC",
        expired: bool = False,
        usage: str = "both",
        seconds: int | None = None,
    ) -> Certificate:
        """A certificate with these names in the files `name`.pem and `name`-key.pem; good for so many `seconds`.

        `subject` are pairs like ("CN", "ann"), most general first; without it, CN is `name`. `algorithm` is EC or
        RSA, `usage` client, server or both.
        """
        key = _private_key(algorithm)
        who = distinguished_name([("CN", name)] if subject is None else subject)
        lasts = -_DAY if expired else 30 * _DAY if seconds is None else datetime.timedelta(seconds=seconds)
        builder = _builder(who, self.own.made.subject, key, lasts)
        names: list[x509.GeneralName] = [x509.DNSName(value) for value in dns]
        names += [x509.IPAddress(ipaddress.ip_address(value)) for value in ips]
        names += [x509.RFC822Name(value) for value in emails]
        names += [x509.UniformResourceIdentifier(value) for value in uris]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        usages = {"client": [ExtendedKeyUsageOID.CLIENT_AUTH], "server": [ExtendedKeyUsageOID.SERVER_AUTH]}
        usages["both"] = [*usages["server"], *usages["client"]]
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages[usage]), critical=False)
        made = builder.sign(self.own.private, hashes.SHA256())
        return _write(self.directory, name, made, key)


class Certificates:
    """What most tests need; each is made when first asked for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @cached_property
    def ca(self) -> Authority:
        return Authority(self.directory)

    @cached_property
    def other_ca(self) -> Authority:
        """A CA nobody trusts."""
        return Authority(self.directory / "other", "other-ca", "Other CA")

    @cached_property
    def server(self) -> Certificate:
        """For localhost, 127.0.0.1 and ::1."""
        return self.ca.sign("server", dns=["localhost"], ips=["127.0.0.1", "::1"])

    @cached_property
    def server_rsa(self) -> Certificate:
        """The same with an RSA key."""
        return self.ca.sign("server-rsa", dns=["localhost"], ips=["127.0.0.1", "::1"], algorithm="RSA")

    @cached_property
    def other_server(self) -> Certificate:
        """Another certificate for the same names: what a renewal brings."""
        return self.ca.sign("other-server", dns=["localhost"], ips=["127.0.0.1", "::1"])

    @cached_property
    def expired_server(self) -> Certificate:
        return self.ca.sign("expired-server", dns=["localhost"], ips=["127.0.0.1"], expired=True)

    @cached_property
    def client(self) -> Certificate:
        """No names but its subject, `CN=client`."""
        return self.ca.sign("client", usage="client")

    @cached_property
    def expired_client(self) -> Certificate:
        return self.ca.sign("expired-client", usage="client", expired=True)

    @cached_property
    def stranger(self) -> Certificate:
        """A client certificate by the other CA."""
        return self.other_ca.sign("stranger", usage="client")

    def tls_block(self, more: str = "", *, server: Certificate | None = None, verify: bool = False) -> str:
        """`tls {}` of a configuration with the server's certificate, the CA, and `more` lines."""
        own = server or self.server
        lines = [f'cert_file: "{own.cert}"', f'key_file: "{own.key}"', f'ca_file: "{self.ca.cert}"']
        if verify:
            lines.append("verify: true")
        return "tls {\n  " + "\n  ".join([*lines, more]) + "\n}\n"

    def client_context(self, certificate: Certificate | None = None) -> ssl.SSLContext:
        """A client's context that trusts the CA, with that certificate."""
        context = ssl.create_default_context(cafile=str(self.ca.cert))
        if certificate is not None:
            context.load_cert_chain(certificate.cert, certificate.key)
        return context


def make(directory: Path) -> Certificates:
    """The certificates of a test, in files of `directory`."""
    return Certificates(directory)


def distinguished_name(parts: Sequence[tuple[str, str]]) -> x509.Name:
    """A subject from pairs like ("CN", "ann"), in the order in which they stand in the certificate."""
    return x509.Name([x509.NameAttribute(_NAMES[kind], value) for kind, value in parts])


def _private_key(algorithm: str) -> PrivateKey:
    if algorithm == "RSA":
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return ec.generate_private_key(ec.SECP256R1())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: PrivateKey, lasts: datetime.timedelta = 30 * _DAY
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 30 * _DAY)
        .not_valid_after(now + lasts)
    )


def _write(directory: Path, name: str, made: x509.Certificate, key: PrivateKey) -> Certificate:
    cert_path, key_path = directory / f"{name}.pem", directory / f"{name}-key.pem"
    cert_path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return Certificate(cert_path, key_path, made, key)
