"""`verify_and_map`: which user a certificate is."""

from __future__ import annotations

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from jetbroker.auth.authenticator import Authenticator, Claim, Renewal
from jetbroker.auth.certificates import names_of, parse_name
from jetbroker.config.options import Options, TlsOptions, UserOptions
from tests.support.certificates import Authority, Certificate

SUBJECT = [("C", "US"), ("O", "Acme, Inc"), ("OU", "Eng"), ("CN", "ann")]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def user_of(certificate: bytes | None, *users: str, password: str = "") -> str | None:
    """The user that a client with this certificate is, and with nothing but it."""
    options = Options()
    options.tls = TlsOptions(verify=True, verify_and_map=True)
    options.authorization.users = [UserOptions(user=name) for name in users]
    verdict = Authenticator(options).find(Claim(certificate=certificate, password=password))
    return None if verdict.login is None else verdict.login.user


def signed(authority: Authority, **options: object) -> bytes:
    made: Certificate = authority.sign("client", **options)  # type: ignore[arg-type]
    return made.der


def test_the_one_user_stays_over_a_reload_without_a_certificate() -> None:
    options = Options()
    options.tls = TlsOptions(verify=True, verify_and_map=True)
    options.authorization.user, options.authorization.password = "u", "p"
    login = Authenticator(options).find(Claim(user="u", password="p")).login
    assert Authenticator(options).renew(login, Claim())[0] is Renewal.STAYS


def test_alternative_names_come_in_order(authority: Authority) -> None:
    der = signed(
        authority,
        subject=SUBJECT,
        emails=["ann@a.com", "ann@b.com"],
        dns=["ann.a.com"],
        uris=["spiffe://a.com/ann"],
    )
    everyone = ["spiffe://a.com/ann", "ann.a.com", "ann@b.com", "ann@a.com"]
    while everyone:
        expected = everyone[-1]
        assert user_of(der, *everyone) == expected
        everyone.pop()
    assert user_of(der, "ann") is None
    assert user_of(der, r"CN=ann,OU=Eng,O=Acme\, Inc,C=US") == r"CN=ann,OU=Eng,O=Acme\, Inc,C=US"


@pytest.mark.parametrize(
    "user",
    [
        r"CN=ann,OU=Eng,O=Acme\, Inc,C=US",
        r"cn=ann, ou=Eng, o=Acme\2c Inc, c=US",
        r"C=US,O=Acme\, Inc,OU=Eng,CN=ann",
        r"O=Acme\, Inc,CN=ann,C=US,OU=Eng",
    ],
)
def test_a_subject_in_any_order(authority: Authority, user: str) -> None:
    assert user_of(signed(authority, subject=SUBJECT), user) == user


@pytest.mark.parametrize(
    "user",
    [
        "ann",
        "CN=ann",
        r"CN=ann,OU=Eng,O=Acme\, Inc",
        r"CN=ann,OU=Eng,O=Acme\, Inc,C=us",
        r"CN=Ann,OU=Eng,O=Acme\, Inc,C=US",
        "CN=ann,OU=Eng,O=Acme, Inc,C=US",
        r"CN=ann+OU=Eng,O=Acme\, Inc,C=US",
        r"CN=ann,CN=ann,OU=Eng,O=Acme\, Inc,C=US",
    ],
)
def test_a_subject_that_is_another_one(authority: Authority, user: str) -> None:
    assert user_of(signed(authority, subject=SUBJECT), user) is None


@pytest.mark.parametrize("value", ["ann,OU=Admin", "ann+OU=Admin", "ann\\,OU=Admin", 'ann",OU=Admin', "ann, OU=Admin"])
def test_no_value_passes_for_more_than_itself(authority: Authority, value: str) -> None:
    der = signed(authority, subject=[("CN", value)])
    for user in ("CN=ann,OU=Admin", "OU=Admin,CN=ann", "CN=ann+OU=Admin", f"CN={value}"):
        # written as it stands, the last one is two attributes, or wrong
        assert user_of(der, user) is None
    escaped = "".join(f"\\{char}" if char in ',+"\\' else char for char in value)
    assert user_of(der, f"CN={escaped}") == f"CN={escaped}"


def test_domain_components(authority: Authority) -> None:
    der = signed(authority, subject=[("DC", "com"), ("DC", "acme"), ("OU", "x"), ("CN", "ann")])
    for user in ("CN=ann,OU=x,DC=acme,DC=com", "CN=ann,OU=x,DC=com,DC=acme", "DC=com,DC=acme,OU=x,CN=ann"):
        assert user_of(der, user) == user
    assert user_of(der, "CN=ann,OU=x") == "CN=ann,OU=x"  # the written form without them, as nats-server
    assert user_of(der, "CN=ann,OU=x,DC=acme") is None


def test_a_password_is_compared_too(authority: Authority) -> None:
    der = signed(authority, emails=["ann@a.com"])
    assert user_of(der, "ann@a.com") == "ann@a.com"
    assert user_of(der, "ann@a.com", password="x") is None


def test_nobody(authority: Authority) -> None:
    assert user_of(None, "ann") is None
    assert user_of(b"", "ann") is None
    assert user_of(signed(authority, subject=[("CN", "bob")]), "ann") is None


@given(st.binary(max_size=200))
def test_garbage_is_nobody(data: bytes) -> None:
    assert names_of(data) is None


@given(st.integers(0, 2000), st.binary(min_size=1, max_size=4), st.integers(0, 4))
def test_damaged_certificates(damaged: bytes, at: int, put: bytes, instead_of: int) -> None:
    at %= len(damaged)
    names = names_of(damaged[:at] + put + damaged[at + instead_of :])
    assert names is None or isinstance(names.alternatives, tuple)


@pytest.fixture(scope="module")
def damaged(authority: Authority) -> bytes:
    return signed(authority, subject=SUBJECT, emails=["ann@a.com"])


ATTRIBUTE = st.tuples(st.sampled_from(["CN", "OU", "O", "DC", "L"]), st.text(min_size=1, max_size=10))


@given(st.lists(ATTRIBUTE, min_size=1, max_size=5))
def test_written_names_are_read_back(attributes: list[tuple[str, str]]) -> None:
    """Each special character escaped, all of a value as hexadecimal: one and the same name."""
    escaped = ",".join(f"{kind}=" + "".join(f"\\{b:02x}" for b in value.encode()) for kind, value in attributes)
    found = parse_name(escaped)
    assert found is not None
    assert found.parts == tuple(frozenset([attribute]) for attribute in attributes)


@given(st.text(alphabet='CN=,+\\ #;"a2cé', max_size=30))
def test_any_name(text: str) -> None:
    found = parse_name(text)
    assert found is None or found.parts


def test_the_parsed_subject_is_structured(authority: Authority) -> None:
    names = names_of(signed(authority, subject=[("CN", "a"), ("O", "b")]))
    assert names is not None
    assert names.subject == parse_name("O=b,CN=a")
    assert names.written == ("CN=a,O=b",)
    assert isinstance(x509.load_der_x509_certificate(signed(authority)), x509.Certificate)
