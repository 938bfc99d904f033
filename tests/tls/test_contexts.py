"""Contexts made of `tls {}` blocks, and the words for what a handshake brought."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from jetbroker.config.certificates import check
from jetbroker.config.options import TlsOptions
from jetbroker.config.tls import CIPHERS, INSECURE_CIPHERS
from jetbroker.connections import tls
from tests.support import certificates
from tests.support.certificates import Certificate, Certificates


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


def options(certificate: Certificate, **more: object) -> TlsOptions:
    found = TlsOptions(cert_file=str(certificate.cert), key_file=str(certificate.key))
    for name, value in more.items():
        setattr(found, name, value)
    return found


def shake(
    server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """A handshake in memory."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(up, down, server_side=True)
    theirs = client.wrap_bio(down, up, server_hostname=name)
    done: set[ssl.SSLObject] = set()
    for _ in range(10):
        for side in (theirs, ours):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                continue
        if len(done) == 2:
            return ours, theirs
    raise AssertionError("no end")


def client_of(made: Certificates, certificate: Certificate | None = None, *, older: bool = False) -> ssl.SSLContext:
    context = made.client_context(certificate)
    if older:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


@pytest.mark.parametrize("name", [name for name in CIPHERS if "ECDHE" in name])
def test_each_cipher_of_tls12_has_both_names(made: Certificates, name: str) -> None:
    certificate = made.server if "ECDSA" in name else made.server_rsa
    context = tls.server_context(options(certificate, ciphers=[name]))
    client = client_of(made, older=True)
    client.set_ciphers("ALL")
    ours, _ = shake(context, client)
    cipher = ours.cipher()
    assert cipher is not None
    assert tls._GO_NAMES[cipher[0]] == name


def test_without_a_list_a_client_without_forward_secrecy_is_refused(made: Certificates) -> None:
    client = client_of(made, older=True)
    client.set_ciphers("AES256-GCM-SHA384")
    with pytest.raises(ssl.SSLError):
        shake(tls.server_context(options(made.server_rsa)), client)
    wanted = options(made.server_rsa, ciphers=["TLS_RSA_WITH_AES_256_GCM_SHA384"])
    ours, _ = shake(tls.server_context(wanted), client)
    assert ours.version() == "TLSv1.2"


def test_a_list_of_tls13_only_leaves_no_tls12(made: Certificates) -> None:
    context = tls.server_context(options(made.server, ciphers=["TLS_AES_128_GCM_SHA256"]))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    with pytest.raises(ssl.SSLError):
        shake(context, client_of(made, older=True))


@pytest.mark.parametrize(
    "more",
    [{}, {"min_version": "1.2"}, {"verify": True}, {"ciphers": list(CIPHERS)}, {"ciphers": list(INSECURE_CIPHERS)}],
)
def test_nothing_below_tls12(made: Certificates, more: dict[str, object]) -> None:
    """Whatever path made the block, the command line's too: they all end here."""
    context = tls.server_context(options(made.server_rsa, **more))
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.num_tickets == 0


@pytest.mark.parametrize(
    ("curve", "name"), [("CurveP256", "prime256v1"), ("CurveP384", "secp384r1"), ("X25519", "X25519")]
)
def test_one_curve(made: Certificates, curve: str, name: str) -> None:
    client = client_of(made)
    wanted = options(made.server, curves=["X25519MLKEM768", curve])
    try:
        client.set_ecdh_curve(name)
    except (ValueError, ssl.SSLError):  # older releases of Python, or of OpenSSL, know no other than those of SEC 2
        with pytest.raises(tls.TlsError, match="curve preferences not supported by OpenSSL"):
            tls.server_context(wanted)
        return
    context = tls.server_context(wanted)
    shake(context, client)
    client.set_ecdh_curve("secp521r1")
    with pytest.raises(ssl.SSLError):
        shake(context, client)


def test_of_several_certificates_the_name_decides(made: Certificates) -> None:
    one = made.ca.sign("one", dns=["one.example.org"])
    wild = made.ca.sign("wild", dns=["*.example.net"], algorithm="RSA")
    pairs = [(str(one.cert), str(one.key)), (str(wild.cert), str(wild.key))]
    context = tls.server_context(TlsOptions(certs=pairs, ca_file=str(made.ca.cert), verify=True))
    client = client_of(made, made.client)
    for name, certificate in (("one.example.org", one), ("a.example.net", wild)):
        ours, theirs = shake(context, client, name)
        assert theirs.getpeercert(binary_form=True) == certificate.der
        assert ours.getpeercert(binary_form=True) == made.client.der
    client.check_hostname = False
    ours, theirs = shake(context, client, "other.example.com")
    assert theirs.getpeercert(binary_form=True) in (one.der, wild.der)
    with pytest.raises(ssl.SSLError):
        shake(context, client_of(made), "one.example.org")  # the certificate of the client is asked for there too


def test_an_rsa_and_an_ec_certificate_serve_both_kinds_of_clients(made: Certificates) -> None:
    pairs = [(str(made.server.cert), str(made.server.key)), (str(made.server_rsa.cert), str(made.server_rsa.key))]
    context = tls.server_context(TlsOptions(certs=pairs))
    for ciphers, certificate in (
        ("ECDHE-ECDSA-AES128-GCM-SHA256", made.server),
        ("ECDHE-RSA-AES128-GCM-SHA256", made.server_rsa),
    ):
        client = client_of(made, older=True)
        client.set_ciphers(ciphers)
        _, theirs = shake(context, client)
        assert theirs.getpeercert(binary_form=True) == certificate.der


def test_verify_trusts_ca_file_only(made: Certificates) -> None:
    context = tls.server_context(options(made.server, verify=True, ca_file=str(made.ca.cert)))
    shake(context, client_of(made, made.client))
    for certificate in (None, made.stranger, made.expired_client):
        with pytest.raises(ssl.SSLError):
            shake(context, client_of(made, certificate))
    assert tls.server_context(options(made.server, verify=True), verify=False).verify_mode == ssl.CERT_NONE


def test_a_certificate_in_ca_file_is_trusted_itself(made: Certificates) -> None:
    found = options(made.server, verify=True, ca_file=str(made.client.cert))
    check(found)
    context = tls.server_context(found)
    shake(context, client_of(made, made.client))
    with pytest.raises(ssl.SSLError):
        shake(context, client_of(made, made.server))


@pytest.mark.parametrize(
    ("cert", "key", "text"),
    [
        ("none.pem", "server-key.pem", "open {0}: no such file or directory"),
        ("server.pem", "none.pem", "open {1}: no such file or directory"),
        ("server.pem", "client-key.pem", "tls: private key does not match public key"),
        ("server.pem", "server-rsa-key.pem", "tls: private key type does not match public key type"),
        ("server-key.pem", "server.pem", "tls: failed to find certificate PEM data in certificate input, but did find"),
        ("empty.pem", "server-key.pem", "tls: failed to find any PEM data in certificate input"),
    ],
)
def test_what_is_wrong_with_files_is_told(made: Certificates, cert: str, key: str, text: str) -> None:
    assert made.server and made.client and made.server_rsa
    made.directory.joinpath("empty.pem").touch()
    paths = [str(made.directory / cert), str(made.directory / key)]
    with pytest.raises(tls.TlsError) as caught:
        tls.server_context(TlsOptions(cert_file=paths[0], key_file=paths[1]))
    assert str(caught.value).startswith("error parsing X509 certificate/key pair: " + text.format(*paths))


def test_a_locked_key_asks_nobody(made: Certificates, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    form, lock = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    path = tmp_path / "locked.pem"
    path.write_bytes(made.server.private.private_bytes(serialization.Encoding.PEM, form, lock))
    with pytest.raises(tls.TlsError, match="failed to parse private key"):
        tls.server_context(TlsOptions(cert_file=str(made.server.cert), key_file=str(path)))


def test_subjects_are_written_as_go_writes_them() -> None:
    def text(*parts: tuple[x509.ObjectIdentifier, str]) -> str:
        return tls.subject_text(x509.Name([x509.NameAttribute(oid, value) for oid, value in parts]))

    cn, o, ou = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME
    assert text((o, "Tests"), (cn, "ann")) == "CN=ann,O=Tests"
    assert text((cn, "ann"), (o, "Tests")) == "CN=ann,O=Tests"
    assert text((o, "a"), (o, "b"), (cn, "x"), (cn, "y")) == "CN=y,O=a+O=b"
    assert text((ou, 'a,b+"c"'), (cn, " x ")) == 'CN=\\ x\\ ,OU=a\\,b\\+\\"c\\"'
    assert text((cn, "ann"), (NameOID.DOMAIN_COMPONENT, "org")) == "CN=ann,0.9.2342.19200300.100.1.25=#13036f7267"
