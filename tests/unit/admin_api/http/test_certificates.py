"""The names that a verified certificate goes by."""

from __future__ import annotations

from admin_api.http.certificates import certificate_names

SUBJECT = ((("organizationName", "Example"),), (("commonName", "Alice"),))


def test_alternative_names_come_before_the_common_name() -> None:
    named = {
        "subject": SUBJECT,
        "subjectAltName": (
            ("DNS", "Store1.example.com"),
            ("IP Address", "192.0.2.1"),
            ("email", "alice@example.com"),
            ("URI", "spiffe://example.com/store1"),
            ("DirName", SUBJECT),
            ("DNS", "store1.example.com"),
        ),
    }
    assert certificate_names(named) == (
        "store1.example.com",
        "192.0.2.1",
        "alice@example.com",
        "spiffe://example.com/store1",
    )


def test_without_them_the_common_name_counts() -> None:
    assert certificate_names({"subject": SUBJECT}) == ("alice",)
    assert certificate_names({}) == ()
