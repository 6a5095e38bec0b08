"""The certificate that a client has shown: the principal that its subject makes, and its alternative names.

The subject is written as Java's `X500Principal.getName()` writes it (RFC 2253), so that ACLs and rules made
for Kafka fit: `CN=alice,OU=billing,O=Example`, the last part first; attributes that RFC 2253 has no name for
as `1.2.840.113549.1.9.1=#16...`.

Pure. Sources: RFC 2253; RFC 5280 section 4.2.1.6; KIP-371.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from springtide.security.principal_rules import CertificateUnusable, PrincipalRule
from springtide.security.sasl.exchange import PRINCIPAL_CHARS_MAX

_KEYWORDS: Final = frozenset(
    (
        NameOID.COMMON_NAME,
        NameOID.LOCALITY_NAME,
        NameOID.STATE_OR_PROVINCE_NAME,
        NameOID.ORGANIZATION_NAME,
        NameOID.ORGANIZATIONAL_UNIT_NAME,
        NameOID.COUNTRY_NAME,
        NameOID.STREET_ADDRESS,
        NameOID.DOMAIN_COMPONENT,
        NameOID.USER_ID,
    )
)
"""The attributes that RFC 2253 names."""


@dataclass(frozen=True, slots=True)
class ClientNames:
    """principal: without Kafka's prefix `User:`. alternative: DNS names in lower case, and IP addresses."""

    principal: str
    alternative: frozenset[str]


def names_of_client(certificate: bytes, rules: Sequence[PrincipalRule]) -> ClientNames:
    """Return the names of a certificate in DER that a CA has vouched for. Raise CertificateUnusable."""
    try:
        parsed = x509.load_der_x509_certificate(certificate)
        subject = distinguished_name(parsed.subject)
        alternative = _alternative_names(parsed)
    except Exception as error:  # the library lets errors of types through, and has some of its own
        raise CertificateUnusable("the client's certificate can't be read") from error
    if len(subject) > PRINCIPAL_CHARS_MAX:
        raise CertificateUnusable(f"the certificate's subject has more than {PRINCIPAL_CHARS_MAX} characters")
    name = next((found for rule in rules if (found := rule.apply(subject)) is not None), None)
    if name is None:
        raise CertificateUnusable(f"no rule of ssl.principal.mapping.rules fits {subject!r}")
    if not 0 < len(name) <= PRINCIPAL_CHARS_MAX or not name.isprintable():
        raise CertificateUnusable(f"the certificate's subject {subject!r} makes no usable name")
    return ClientNames(name, alternative)


def distinguished_name(name: x509.Name) -> str:
    """Return the name as RFC 2253 writes it."""
    return ",".join("+".join(_attribute(each) for each in part) for part in reversed(name.rdns))


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    if attribute.oid in _KEYWORDS:
        return attribute.rfc4514_string()
    return f"{attribute.oid.dotted_string}=#{_value_in_der(attribute).hex()}"


def _value_in_der(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """Return the attribute's value with its tag, out of SEQUENCE(SET(SEQUENCE(OID, value)))."""
    rest = x509.Name([attribute]).public_bytes()
    for _ in range(3):
        rest = rest[_header_bytes(rest) :]
    return rest[_header_bytes(rest) + rest[1] :]  # an OID is always shorter than 128 bytes here


def _header_bytes(encoded: bytes) -> int:
    """Return the bytes of the tag and the length in front."""
    return 2 + (encoded[1] & 0x7F if encoded[1] & 0x80 else 0)


def _alternative_names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = found.get_values_for_type(x509.IPAddress)
    return frozenset(
        [name.lower() for name in found.get_values_for_type(x509.DNSName)]
        + [str(address) for address in addresses]
    )
