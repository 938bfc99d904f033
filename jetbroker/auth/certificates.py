"""`verify_and_map`: the names in a client's certificate that may be a user's, in the order they are tried.

Names come from the subject alternative names (mail addresses, then DNS names, then URIs), then from the subject. The
subject is compared as what it is, attributes and values, never as text that somebody could have put together with a
comma in a value; only a user who is configured in the written form of a subject is compared as text, escaped.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509 import NameOID

# attribute types that a distinguished name of a user may have; a subject with others is compared as text only
_TYPES = {
    NameOID.COMMON_NAME: "CN",
    NameOID.SERIAL_NUMBER: "SERIALNUMBER",
    NameOID.COUNTRY_NAME: "C",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.POSTAL_CODE: "POSTALCODE",
    NameOID.DOMAIN_COMPONENT: "DC",
}
# the written form: these and no others, in this order, whatever the order in the certificate
_WRITTEN = ("SERIALNUMBER", "CN", "POSTALCODE", "STREET", "ST", "L", "OU", "O", "C")
_SINGLE = ("SERIALNUMBER", "CN")  # the last one counts
_ESCAPED = frozenset(',+"\\<>;')
_HEX = frozenset("0123456789abcdefABCDEF")

UNREADABLE = (
    ValueError,
    TypeError,  # a name that is a bit string
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    UnsupportedAlgorithm,
)

Attribute = tuple[str, str]  # type in upper case, value
RelativeName = frozenset[Attribute]


class DistinguishedName(NamedTuple):
    """A subject, most specific part first. Two are equal when their parts are, in order."""

    parts: tuple[RelativeName, ...]

    def is_reordered(self, other: "DistinguishedName") -> bool:
        """The same parts, in whatever order?"""
        return sorted(map(sorted, self.parts)) == sorted(map(sorted, other.parts))


class CertificateNames(NamedTuple):
    """What a certificate calls its owner. `written`: the subject as text, tried last, most exact form first."""

    alternatives: tuple[str, ...]
    subject: DistinguishedName | None
    written: tuple[str, ...]


def names_of(certificate: bytes) -> CertificateNames | None:
    """The names in a certificate (DER); None when it cannot be read or has none."""
    try:
        loaded = x509.load_der_x509_certificate(certificate)
        alternatives = tuple(_alternatives(loaded))
        subject = loaded.subject
        attributes = [[_attribute(item) for item in part] for part in subject.rdns]
    except UNREADABLE:
        return None
    if not alternatives and not attributes:
        return None
    known = all(kind for part in attributes for kind, _ in part)
    named = DistinguishedName(tuple(frozenset(part) for part in reversed(attributes) if part)) if known else None
    written = _written(item for part in attributes for item in part)
    domains = ",".join(f"DC={value}" for part in attributes for kind, value in part if kind == "DC")
    forms = ([f"{written},{domains}"] if domains else []) + ([written] if written else [])
    return CertificateNames(alternatives, named, tuple(forms))


def parse_name(text: str) -> DistinguishedName | None:
    """A distinguished name as a configuration has it (RFC 4514: `CN=a,OU=b`); None when it is none."""
    parts: list[RelativeName] = []
    attributes: list[Attribute] = []
    for kind, value, end in _pairs(text):
        if not kind:
            return None
        attributes.append((kind.upper(), value))
        if end != "+":
            parts.append(frozenset(attributes))
            attributes = []
    return DistinguishedName(tuple(parts)) if parts else None


def _pairs(text: str) -> Iterator[tuple[str, str, str]]:
    """(type, value, what ended it) of each attribute; an empty type stands for an error."""
    kind, value, kept, at = "", bytearray(), 0, 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            escaped = text[at + 1 : at + 3]
            if escaped[:1] and escaped[0] in ' "#+,;<=>\\':
                value += escaped[0].encode()
                at += 2
            elif len(escaped) == 2 and _HEX.issuperset(escaped):
                value.append(int(escaped, 16))
                at += 3
            else:
                yield "", "", ""
                return
            kept = len(value)
            continue
        at += 1
        if char == "=":
            kind, value, kept = value[:kept].decode("utf-8", "replace"), bytearray(), 0
            if text[at : at + 1] == "#":  # BER in hexadecimal is not supported
                yield "", "", ""
                return
        elif char in ",+":
            yield kind, value[:kept].decode("utf-8", "replace"), char
            kind, value, kept = "", bytearray(), 0
        elif char != " " or value:
            value += char.encode("utf-8", "surrogatepass")
            if char != " ":
                kept = len(value)
    if value or kind:
        yield kind, value[:kept].decode("utf-8", "replace"), ""


def _alternatives(certificate: x509.Certificate) -> Iterator[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    for kind in (x509.RFC822Name, x509.DNSName, x509.UniformResourceIdentifier):
        yield from (name for name in found.get_values_for_type(kind) if name)


def _attribute(item: "x509.NameAttribute[str | bytes]") -> Attribute:
    """Type and value; an empty type for what a name cannot have."""
    if not isinstance(item.value, str):
        return "", ""
    return _TYPES.get(item.oid, ""), item.value


def _written(attributes: Iterable[Attribute]) -> str:
    """The subject as text, escaped so that no value can pass for a part of its own."""
    values: dict[str, list[str]] = {}
    for kind, value in attributes:
        values.setdefault(kind, []).append(value)
    parts = []
    for kind in _WRITTEN:
        found = values.get(kind, [])
        if kind in _SINGLE:
            found = found[-1:]
        if found:
            parts.append("+".join(f"{kind}={_escape(value)}" for value in found))
    return ",".join(parts)


def _escape(value: str) -> str:
    last = len(value) - 1
    return "".join(
        f"\\{char}" if char in _ESCAPED or (char == "#" and at == 0) or (char == " " and at in (0, last)) else char
        for at, char in enumerate(value)
    )
