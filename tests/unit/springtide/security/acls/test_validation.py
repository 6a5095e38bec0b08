"""What a binding and a filter must be to be accepted, and the canonical form of a host."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from springtide.security.acls.model import AclFilter, Operation, PatternType, Permission, ResourceType
from springtide.security.acls.validation import (
    HOST_LENGTH_MAX,
    NAME_LENGTH_MAX,
    PRINCIPAL_LENGTH_MAX,
    InvalidAcl,
    canonical_host,
    validate_binding,
    validate_filter,
)
from tests.kit.springtide.acl_lines import acl

VALID = acl("ALLOW alice@* READ TOPIC pay")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"resource_type": ResourceType(99)}, "resource type UNKNOWN is not one of a resource"),
        ({"resource_type": ResourceType.ANY}, "resource type ANY is not one of a resource"),
        ({"pattern_type": PatternType.MATCH}, "pattern type MATCH is not LITERAL or PREFIXED"),
        ({"pattern_type": PatternType.ANY}, "pattern type ANY is not LITERAL or PREFIXED"),
        ({"pattern_type": PatternType(-1)}, "pattern type UNKNOWN is not LITERAL or PREFIXED"),
        ({"permission": Permission.ANY}, "permission ANY is not ALLOW or DENY"),
        ({"permission": Permission(7)}, "permission UNKNOWN is not ALLOW or DENY"),
        ({"operation": Operation.ANY}, "operation ANY is not one of resource type TOPIC"),
        ({"operation": Operation(16)}, "operation UNKNOWN is not one of resource type TOPIC"),
        ({"resource_name": ""}, "the resource name is empty"),
        (
            {"resource_name": "x" * (NAME_LENGTH_MAX + 1)},
            "the resource name has 1001 characters, more than 1000",
        ),
        (
            {"resource_type": ResourceType.CLUSTER, "operation": Operation.ALTER},
            "the only resource of type CLUSTER is kafka-cluster",
        ),
        ({"principal": ""}, "the principal is empty"),
        ({"principal": "alice"}, "principal 'alice' is not User: followed by a name"),
        ({"principal": "user:alice"}, "principal 'user:alice' is not User: followed by a name"),
        ({"principal": "Group:a"}, "principal 'Group:a' is not User: followed by a name"),
        ({"principal": "User:"}, "principal 'User:' is not User: followed by a name"),
        ({"principal": "x" * 61}, f"principal '{'x' * 60}...' is not User: followed by a name"),
        (
            {"principal": f"User:{'x' * PRINCIPAL_LENGTH_MAX}"},
            "the principal has 1005 characters, more than 1000",
        ),
        ({"host": ""}, "the host is empty"),
        ({"host": "db.example.org"}, "host 'db.example.org' is not an IP address or *"),
        ({"host": "10.0.0.0/8"}, "host '10.0.0.0/8' is not an IP address or *"),
        ({"host": "1" * (HOST_LENGTH_MAX + 1)}, "the host has 65 characters, more than 64"),
    ],
)
def test_a_binding_that_could_match_no_request_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidAcl) as refusal:
        validate_binding(msgspec.structs.replace(VALID, **change))
    assert str(refusal.value) == reason


def test_a_resource_type_has_its_operations() -> None:
    """In the order of their numbers from READ; ALL is one of each type."""
    stated = {
        "TOPIC": "yyyyyynyynnnn",
        "GROUP": "ynnynynyynnnn",
        "CLUSTER": "nnynyyyyyynnn",
        "TRANSACTIONAL_ID": "nynnnynnnnnny",
        "DELEGATION_TOKEN": "nnnnnynnnnnnn",
        "USER": "nnnnnnnnnnyyn",
    }

    def is_accepted(resource_type: str, operation: str) -> bool:
        try:
            validate_binding(acl(f"DENY alice@* {operation} {resource_type} kafka-cluster"))
        except InvalidAcl:
            return False
        return True

    assert stated == {
        resource_type: "".join(
            "y" if is_accepted(resource_type, operation.name) else "n"
            for operation in Operation
            if operation > Operation.ALL
        )
        for resource_type in stated
    }
    assert all(is_accepted(resource_type, "ALL") for resource_type in stated)


@pytest.mark.parametrize(
    "line",
    [
        f"ALLOW *@* ALL TOPIC {'x' * NAME_LENGTH_MAX}~",
        f"DENY {'x' * (PRINCIPAL_LENGTH_MAX - len('User:'))}@10.0.0.1 READ GROUP *",
        "ALLOW User:a@::1 CREATE_TOKENS USER User:alice",
        "ALLOW alice@* ALTER CLUSTER kafka-cluster",
    ],
)
def test_a_binding_at_the_bounds_is_returned_as_it_is(line: str) -> None:
    assert validate_binding(acl(line)) == acl(line)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("*", "*"),
        ("10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::00A", "2001:db8::a"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
def test_an_address_has_one_form_in_bindings_and_filters(written: str, canonical: str) -> None:
    assert canonical_host(written) == canonical
    assert validate_binding(msgspec.structs.replace(VALID, host=written)).host == canonical
    assert validate_filter(AclFilter(host=written)) == AclFilter(host=canonical)


@pytest.mark.parametrize(
    "host", ["10.0.0.1%eth0", "010.0.0.1", "10.0.0.1 ", "10.1", "%eth0", "::1%", "localhost"]
)
def test_what_is_no_address_is_refused(host: str) -> None:
    with pytest.raises(InvalidAcl):
        canonical_host(host)


@pytest.mark.parametrize(
    "wanted",
    [
        AclFilter(resource_type=ResourceType(8)),
        AclFilter(pattern_type=PatternType(5)),
        AclFilter(operation=Operation(0)),
        AclFilter(permission=Permission(4)),
        AclFilter(host="localhost"),
    ],
)
def test_a_filter_with_an_unknown_number_or_a_bad_host_is_refused(wanted: AclFilter) -> None:
    with pytest.raises(InvalidAcl):
        validate_filter(wanted)


def test_other_filters_are_returned_as_they_are() -> None:
    for wanted in (AclFilter(), AclFilter(ResourceType.GROUP, "", PatternType.MATCH, "anything")):
        assert validate_filter(wanted) == wanted
