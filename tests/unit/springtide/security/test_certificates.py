"""Principals and names of certificates, and the rules that make names."""

from __future__ import annotations

import ipaddress

import pytest
from cryptography import x509

from springtide.security.certificates import ClientNames, names_of_client
from springtide.security.principal_rules import CertificateUnusable, parse_principal_rules
from tests.kit.springtide.client_certificates import certificate

ALICE = [("O", "Example, Inc."), ("OU", "billing"), ("CN", "Alice")]


def principal(subject: list[tuple[str, str]], rules: str = "DEFAULT") -> str:
    return names_of_client(certificate(subject), parse_principal_rules(rules)).principal


def test_a_subject_is_written_as_java_writes_it() -> None:
    assert principal(ALICE) == "CN=Alice,OU=billing,O=Example\\, Inc."
    assert principal([("email", "a@b.c"), ("CN", " x#")]) == (
        "CN=\\ x#,1.2.840.113549.1.9.1=#1605" + b"a@b.c".hex()
    )


def test_alternative_names_are_those_of_hosts_and_addresses() -> None:
    shown = certificate(
        ALICE,
        x509.DNSName("Store4.Example.COM"),
        x509.IPAddress(ipaddress.ip_address("10.0.0.7")),
        x509.IPAddress(ipaddress.ip_address("2001:DB8::0001")),
        x509.RFC822Name("alice@example.com"),
    )
    assert names_of_client(shown, parse_principal_rules("")) == ClientNames(
        "CN=Alice,OU=billing,O=Example\\, Inc.",
        frozenset(("store4.example.com", "10.0.0.7", "2001:db8::1")),
    )


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/", "Alice@billing"),
        ("RULE:^CN=(.*?),.*$/$1/L", "alice"),
        ("RULE:^CN=(.*?),.*$/$1/U,DEFAULT", "ALICE"),
        ("RULE:CN=.*/no/ , RULE:^CN=(\\w+),.*/a\\/b \\$1 $1/", "no"),
        ("RULE:CN=bob.*/no/,RULE:^CN=(\\w+),.*/a\\/b \\$1 $1/", "a/b $1 Alice"),
        ("RULE:CN=Alice/part of it is not enough/,DEFAULT", "CN=Alice,OU=billing,O=Example\\, Inc."),
    ],
)
def test_the_first_rule_that_fits_the_whole_subject_makes_the_name(rules: str, name: str) -> None:
    assert principal(ALICE, rules) == name


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("RULE:a/b", "does not begin with RULE"),
        ("DEFAULT,nonsense", "'nonsense' does not begin with RULE"),
        ("RULE:(/x/", "is not a regular expression"),
        ("RULE:a{99999999999}/x/", "is not a regular expression"),
        pytest.param(f"RULE:{'(' * 3000}{')' * 3000}/x/", "is not a regular expression", id="deep"),
        ("RULE:a(b)/$2/", "names group 2"),
        ("RULE:a/b/X", "does not begin with RULE"),
        (",".join(["DEFAULT"] * 101), "at most 100"),
    ],
)
def test_rules_that_can_not_be_meant_are_refused(rules: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_principal_rules(rules)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("subject", "rules", "message"),
    [
        (ALICE, "RULE:CN=bob/bob/", "no rule"),
        ([("CN", "a\nb")], "DEFAULT", "makes no usable name"),
        ([], "DEFAULT", "makes no usable name"),
        ([("OU", "x" * 60)] * 20, "DEFAULT", "more than 1024 characters"),
    ],
)
def test_a_certificate_that_makes_no_name_is_refused(
    subject: list[tuple[str, str]], rules: str, message: str
) -> None:
    with pytest.raises(CertificateUnusable) as refused:
        principal(subject, rules)
    assert message in str(refused.value)


def test_bytes_that_are_no_certificate_are_refused() -> None:
    with pytest.raises(CertificateUnusable):
        names_of_client(b"0", parse_principal_rules("DEFAULT"))


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        pytest.param(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x04", id="a version that does not exist"),
        pytest.param(b"\x0c\x05Alice", b"\x03\x05\0lice", id="a name of bits"),
    ],
)
def test_a_certificate_that_the_library_stumbles_over_is_refused(part: bytes, instead: bytes) -> None:
    shown = certificate(ALICE)
    assert part in shown
    with pytest.raises(CertificateUnusable, match="can't be read"):
        names_of_client(shown.replace(part, instead), parse_principal_rules("DEFAULT"))
