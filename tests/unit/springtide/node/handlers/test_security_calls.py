"""Kafka's calls about ACLs, users and quotas in every version: what is told, and asked of the controller."""

from __future__ import annotations

from math import inf, nan
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from springtide.contract.administration import (
    AdminCall,
    AdminOutcome,
    AlterAclsCall,
    AlterQuotasCall,
    AlterScramCall,
    QuotasToAlter,
    ScramDeletion,
    ScramUpsertion,
)
from springtide.contract.security import (
    AUTHORIZER,
    DEFAULT_ENTITY,
    STANDARD_AUTHORIZER,
    AclsOfPattern,
    EntityQuotas,
    QuotaEntity,
    ScramSecret,
    UserSecrets,
)
from springtide.contract.updates import UpdateBatch
from springtide.node.cluster_view import ClusterView
from springtide.node.handlers.table import SHARED_HANDLERS
from springtide.security.acls.model import AclBinding, AclFilter, Operation, Permission, ResourceType
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.springtide.acl_lines import acl
from tests.kit.springtide.asking import Forwarded, answer_of

READ_PAY = acl("ALLOW alice@* READ TOPIC pay~")
WRITE_PAY = acl("DENY bob@10.0.0.1 WRITE TOPIC pay~")
READ_ALL = acl("ALLOW alice@* READ TOPIC *")
ALTER = acl("ALLOW root@* ALTER CLUSTER kafka-cluster")
REFUSED = AdminOutcome(error_code=42, message="no such host")
USER, BOTH, DEFAULT_USER, IP = (
    QuotaEntity(user="alice"),
    QuotaEntity(user="alice", client_id=DEFAULT_ENTITY),
    QuotaEntity(user=DEFAULT_ENTITY),
    QuotaEntity(ip="10.0.0.1"),
)


def secret(mechanism: str, iterations: int) -> ScramSecret:
    return ScramSecret(
        mechanism=mechanism, iterations=iterations, salt=b"NaCl", stored_key=b"k" * 32, server_key=b"v" * 32
    )


def of_pattern(*bindings: AclBinding) -> AclsOfPattern:
    first = bindings[0]
    return AclsOfPattern(
        resource_type=first.resource_type,
        pattern_type=first.pattern_type,
        resource_name=first.resource_name,
        bindings=bindings,
    )


STORED = UpdateBatch(
    full=True,
    cluster_configs={AUTHORIZER: STANDARD_AUTHORIZER},
    acls=(of_pattern(READ_PAY, WRITE_PAY), of_pattern(READ_ALL), of_pattern(ALTER)),
    users=(
        UserSecrets(user="bob", scram=(secret("SCRAM-SHA-512", 8192),)),
        UserSecrets(user="alice", scram=(secret("SCRAM-SHA-256", 4096), secret("SCRAM-SHA-512", 5000))),
    ),
    quotas=tuple(
        EntityQuotas(
            entity=entity,
            quotas={"connection_creation_rate": 3.0}
            if entity is IP
            else {"consumer_byte_rate": 2.0, "request_percentage": 50.5},
        )
        for entity in (USER, BOTH, DEFAULT_USER, IP)
    ),
)


def ask(
    key: ApiKey, version: int, fields: dict[str, Any], *outcomes: AdminOutcome, **settings: Any
) -> tuple[Any, list[Any]]:
    """Return the answer's message and the calls of the controller. settings: of the context."""
    view = ClusterView()
    view.apply(settings.get("stored", STORED), now_ms=0)
    way = Forwarded(*outcomes)
    context = SimpleNamespace(
        view=view, may_judge=lambda: settings.get("is_complete", True), administration=way
    )
    answer = answer_of(SHARED_HANDLERS[key], key, version, fields, context=context)
    for call in way.calls:  # the JSON in which the controller is asked says the same
        assert msgspec.json.decode(msgspec.json.encode(call), type=AdminCall) == call
    return answer, way.calls


def versions(key: ApiKey) -> list[int]:
    return list(range(APIS[key].served_since, APIS[key].version_max + 1))


def filter_fields(**fields: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    } | fields


def told(resources: Any) -> list[tuple[Any, ...]]:
    return [
        (
            one.resource_type,
            one.resource_name,
            one.pattern_type,
            *((acl.principal, acl.host, acl.operation, acl.permission_type) for acl in one.acls),
        )
        for one in resources
    ]


ALICE_READS, BOB_WRITES = ("User:alice", "*", 3, 3), ("User:bob", "10.0.0.1", 4, 2)
OF_PAY, OF_ALL = (2, "pay", 4, ALICE_READS, BOB_WRITES), (2, "*", 3, ALICE_READS)
OF_CLUSTER = (4, "kafka-cluster", 3, ("User:root", "*", 7, 3))


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_ACLS))
@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, [OF_ALL, OF_PAY, OF_CLUSTER]),
        ({"resource_type_filter": 2, "resource_name_filter": "pay", "pattern_type_filter": 1}, [OF_PAY]),
        ({"resource_name_filter": "payments", "pattern_type_filter": 1}, []),
        ({"resource_name_filter": "payments", "pattern_type_filter": 2}, [OF_ALL, OF_PAY]),
        ({"resource_name_filter": "pay", "pattern_type_filter": 3}, []),
        ({"principal_filter": "User:bob", "host_filter": "::ffff:10.0.0.1"}, [(2, "pay", 4, BOB_WRITES)]),
        ({"operation": 3, "permission_type": 2}, []),
    ],
)
def test_describe_acls_tells_what_a_filter_matches(version: int, fields: Any, found: Any) -> None:
    answer, calls = ask(ApiKey.DESCRIBE_ACLS, version, filter_fields(**fields))
    assert (answer.error_code, answer.error_message, calls) == (0, None, [])
    assert told(answer.resources) == found


@pytest.mark.parametrize("field", [{"operation": 99}, {"host_filter": "store1.example.com"}])
def test_a_filter_that_means_nothing_is_refused(field: dict[str, Any]) -> None:
    answer, _ = ask(ApiKey.DESCRIBE_ACLS, 3, filter_fields(**field))
    assert (answer.error_code, answer.resources) == (ErrorCode.INVALID_REQUEST, ())
    assert answer.error_message


def test_acls_are_not_told_without_an_authorizer_or_before_they_are_known() -> None:
    without, _ = ask(
        ApiKey.DESCRIBE_ACLS, 3, filter_fields(), stored=msgspec.structs.replace(STORED, cluster_configs={})
    )
    unknown, _ = ask(ApiKey.DESCRIBE_ACLS, 3, filter_fields(), is_complete=False)
    assert (without.error_code, unknown.error_code) == (54, ErrorCode.NOT_CONTROLLER)
    assert (without.resources, unknown.resources) == ((), ())


def creation(**fields: Any) -> dict[str, Any]:
    return {
        "resource_type": 2,
        "resource_name": "pay",
        "resource_pattern_type": 4,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    } | fields


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_ACLS))
def test_create_acls_asks_the_controller_for_each_binding(version: int) -> None:
    fields = {"creations": [creation(), creation(operation=77)]}
    answer, calls = ask(ApiKey.CREATE_ACLS, version, fields, AdminOutcome(), REFUSED)
    unknown = msgspec.structs.replace(READ_PAY, operation=Operation.UNKNOWN)
    assert calls == [AlterAclsCall(create=(READ_PAY, unknown))]
    assert [(one.error_code, one.error_message) for one in answer.results] == [
        (0, None),
        (42, "no such host"),
    ]


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_ACLS))
def test_delete_acls_tells_what_each_filter_removed(version: int) -> None:
    fields = {
        "filters": [
            filter_fields(resource_type_filter=2, resource_name_filter="pay"),
            filter_fields(permission_type=2),
        ]
    }
    gone = AdminOutcome(bindings=(READ_PAY, WRITE_PAY))
    answer, calls = ask(ApiKey.DELETE_ACLS, version, fields, gone, REFUSED)
    filters = (
        AclFilter(resource_type=ResourceType.TOPIC, resource_name="pay"),
        AclFilter(permission=Permission.DENY),
    )
    assert calls == [AlterAclsCall(delete=filters)]
    one, two = answer.filter_results
    assert [
        (acl.error_code, acl.resource_name, acl.pattern_type, acl.principal, acl.host, acl.operation)
        for acl in one.matching_acls
    ] == [(0, "pay", 4, "User:alice", "*", 3), (0, "pay", 4, "User:bob", "10.0.0.1", 4)]
    assert (one.error_code, two.error_code, two.matching_acls) == (0, 42, ())


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (None, [("alice", 0, [(1, 4096), (2, 5000)]), ("bob", 0, [(2, 8192)])]),
        ([], [("alice", 0, [(1, 4096), (2, 5000)]), ("bob", 0, [(2, 8192)])]),
        (["bob", "carol"], [("bob", 0, [(2, 8192)]), ("carol", 91, [])]),
        (["alice", "bob", "alice"], [("alice", 92, []), ("bob", 0, [(2, 8192)])]),
    ],
)
def test_describe_scram_credentials_tells_mechanisms_and_iterations(asked: Any, found: Any) -> None:
    users = None if asked is None else [{"name": name} for name in asked]
    answer, calls = ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": users})
    assert (answer.error_code, calls) == (0, [])
    assert [
        (one.user, one.error_code, [(info.mechanism, info.iterations) for info in one.credential_infos])
        for one in answer.results
    ] == found


def test_alter_scram_credentials_answers_once_for_each_user() -> None:
    fields = {
        "deletions": [{"name": "bob", "mechanism": 2}, {"name": "alice", "mechanism": 1}],
        "upsertions": [
            {"name": name, "mechanism": 2, "iterations": 4096, "salt": b"s", "salted_password": b"hidden"}
            for name in ("carol", "alice")
        ],
    }
    done, refused = AdminOutcome(), AdminOutcome(error_code=91, message="none")
    answer, calls = ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, fields, done, refused, done)
    upsertions = tuple(
        ScramUpsertion(user=user, mechanism=2, iterations=4096, salt=b"s", salted_password=b"hidden")
        for user in ("carol", "alice")
    )
    deletions = (ScramDeletion(user="bob", mechanism=2), ScramDeletion(user="alice", mechanism=1))
    assert calls == [AlterScramCall(deletions=deletions, upsertions=upsertions)]
    assert [(one.user, one.error_code) for one in answer.results] == [("bob", 0), ("alice", 91), ("carol", 0)]
    assert "hidden" not in repr(calls)


def component(of_type: str, match_type: int, match: str | None = None) -> dict[str, Any]:
    return {"entity_type": of_type, "match_type": match_type, "match": match}


NAMED = {
    ("alice",): [("user", "alice")],
    ("alice", None): [("user", "alice"), ("client-id", None)],
    (None,): [("user", None)],
    ("ip",): [("ip", "10.0.0.1")],
}


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CLIENT_QUOTAS))
@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, [("alice",), ("alice", None), (None,), ("ip",)]),
        ([], True, []),
        ([component("user", 0, "alice")], False, [("alice",), ("alice", None)]),
        ([component("user", 0, "alice")], True, [("alice",)]),
        ([component("user", 1)], False, [(None,)]),
        ([component("user", 2)], True, [("alice",), (None,)]),
        ([component("user", 2), component("client-id", 1)], True, [("alice", None)]),
        ([component("client-id", 0, "app")], False, []),
        ([component("ip", 2)], True, [("ip",)]),
    ],
)
def test_describe_client_quotas_tells_what_a_filter_matches(
    version: int, components: Any, strict: bool, found: list[tuple[Any, ...]]
) -> None:
    fields = {"components": components, "strict": strict}
    answer, calls = ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, fields)
    assert (answer.error_code, answer.error_message, calls) == (0, None, [])
    entities = [[(part.entity_type, part.entity_name) for part in one.entity] for one in answer.entries]
    assert sorted(entities, key=str) == sorted((NAMED[key] for key in found), key=str)
    for one in answer.entries:
        values = {value.key: value.value for value in one.values}
        assert values in (
            {"consumer_byte_rate": 2.0, "request_percentage": 50.5},
            {"connection_creation_rate": 3.0},
        )


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([component("group", 2)], ErrorCode.UNSUPPORTED_VERSION),
        ([component("", 2)], ErrorCode.INVALID_REQUEST),
        ([component("user", 2), component("user", 1)], ErrorCode.INVALID_REQUEST),
        ([component("user", 0)], ErrorCode.INVALID_REQUEST),
        ([component("user", 1, "alice")], ErrorCode.INVALID_REQUEST),
        ([component("user", 7)], ErrorCode.INVALID_REQUEST),
        ([component("user", 2), component("ip", 2)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_of_quotas_that_means_nothing_is_refused(components: Any, code: ErrorCode) -> None:
    answer, _ = ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": components, "strict": False})
    assert (answer.error_code, answer.entries) == (code, None)


def alteration(*parts: tuple[str, str | None], **quotas: float | None) -> dict[str, Any]:
    return {
        "entity": [{"entity_type": of_type, "entity_name": name} for of_type, name in parts],
        "ops": [
            {"key": key, "value": 0.0 if value is None else value, "remove": value is None}
            for key, value in quotas.items()
        ],
    }


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_CLIENT_QUOTAS))
def test_alter_client_quotas_asks_for_the_entities_that_can_be_meant(version: int) -> None:
    fields = {
        "entries": [
            alteration(
                ("user", "alice"), ("client-id", None), producer_byte_rate=5.0, request_percentage=None
            ),
            alteration(("group", "g"), producer_byte_rate=5.0),
            alteration(("ip", "10.0.0.1"), connection_creation_rate=1.5),
        ],
        "validate_only": True,
    }
    answer, calls = ask(ApiKey.ALTER_CLIENT_QUOTAS, version, fields, AdminOutcome(), REFUSED)
    wanted = (
        QuotasToAlter(entity=BOTH, quotas={"producer_byte_rate": 5.0, "request_percentage": None}),
        QuotasToAlter(entity=IP, quotas={"connection_creation_rate": 1.5}),
    )
    assert calls == [AlterQuotasCall(entities=wanted, validate_only=True)]
    assert [one.error_code for one in answer.entries] == [0, 42, 42]
    assert [(part.entity_type, part.entity_name) for part in answer.entries[0].entity] == [
        ("user", "alice"),
        ("client-id", None),
    ]


@pytest.mark.parametrize(
    "entry",
    [
        alteration(("user", "")),
        alteration(("user", "a"), ("user", "b")),
        alteration(("user", DEFAULT_ENTITY)),
        alteration(("user", "a"), producer_byte_rate=nan),
        alteration(("user", "a"), producer_byte_rate=inf),
        alteration(("user", "a"))
        | {"ops": [{"key": "k", "value": 1.0, "remove": remove} for remove in (0, 1)]},
    ],
)
def test_quotas_that_cant_be_meant_are_not_asked_for(entry: dict[str, Any]) -> None:
    answer, calls = ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": [entry], "validate_only": False})
    assert ([one.error_code for one in answer.entries], calls) == ([ErrorCode.INVALID_REQUEST], [])


def test_an_entity_that_is_named_twice_is_refused_both_times() -> None:
    entries = [alteration(("user", "alice"), producer_byte_rate=1.0), alteration(("user", "alice"))]
    answer, calls = ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": entries, "validate_only": False})
    assert ([one.error_code for one in answer.entries], calls) == ([42, 42], [])
