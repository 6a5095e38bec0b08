"""Stock administration clients and ACLs, users and quotas, with real processes: what they ask for is stored
by the controller, told to brokers, and shown over REST."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import kafka.admin
import kafka.errors
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from localcluster.cluster import LocalCluster

pytestmark = [pytest.mark.timeout(240), pytest.mark.filterwarnings("ignore::DeprecationWarning")]
SECONDS_MAX = 30.0
READ = AclBinding(
    ResourceType.TOPIC,
    "payments",
    ResourcePatternType.PREFIXED,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)
GROUP = AclBinding(
    ResourceType.GROUP,
    "billing",
    ResourcePatternType.LITERAL,
    "User:alice",
    "10.0.0.7",
    AclOperation.READ,
    AclPermissionType.DENY,
)
ANY: Any = None
EACH = AclBindingFilter(
    ResourceType.ANY, ANY, ResourcePatternType.ANY, ANY, ANY, AclOperation.ANY, AclPermissionType.ANY
)

EACH_IN_PYTHON = kafka.admin.ACLFilter(
    principal=None,
    host=None,
    operation=kafka.admin.ACLOperation.ANY,
    permission_type=kafka.admin.ACLPermissionType.ANY,
    resource_pattern=kafka.admin.ResourcePatternFilter(
        kafka.admin.ResourceType.ANY, None, kafka.admin.ACLResourcePatternType.ANY
    ),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A cluster whose processes speak TLS to each other, which an authorizer needs. Its clients are not known
    by name, and may do everything."""
    with LocalCluster(brokers=1, is_secure=True) as running:
        running.form()
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, **tls_of(cluster), "log_level": 0}
    with AdminClient(settings) as client:
        yield client


def tls_of(cluster: LocalCluster) -> dict[str, Any]:
    assert cluster.tls is not None
    return {"security.protocol": "SSL", "ssl.ca.location": str(cluster.tls.ca)}


@contextmanager
def python_admin(cluster: LocalCluster) -> Iterator[kafka.admin.KafkaAdminClient]:
    assert cluster.tls is not None
    client = kafka.admin.KafkaAdminClient(
        bootstrap_servers=cluster.bootstrap_servers,
        security_protocol="SSL",
        ssl_cafile=str(cluster.tls.ca),
        client_id="python-tool",
    )
    try:
        yield client
    finally:
        client.close()


@contextmanager
def authorizer(cluster: LocalCluster) -> Iterator[None]:
    """Let ACLs decide meanwhile."""
    name, path = "authorizer.class.name", f"/clusters/{cluster.name}/configs:alter"
    on = {
        name: "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    cluster.rest.post(path, json={"configs": on}).raise_for_status()
    try:
        yield
    finally:
        cluster.rest.post(path, json={"configs": {name: None}}).raise_for_status()


def until(told: Callable[[], object], wanted: object) -> None:
    """Ask until it is as wanted: a broker is told a moment after the controller has answered."""
    deadline = time.monotonic() + SECONDS_MAX
    while (found := told()) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def code_of(refused: pytest.ExceptionInfo[KafkaException]) -> int:
    error = refused.value.args[0]
    assert isinstance(error, KafkaError)
    return error.code()


def test_without_an_authorizer_acls_are_refused_as_in_kafka(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    with pytest.raises(KafkaException) as refused:
        admin.create_acls([READ])[READ].result(SECONDS_MAX)
    assert code_of(refused) == KafkaError.SECURITY_DISABLED
    assert admin.describe_acls(EACH).result(SECONDS_MAX) == [], "librdkafka does not tell that it was refused"
    with python_admin(cluster) as client, pytest.raises(kafka.errors.SecurityDisabledError):
        client.describe_acls(EACH_IN_PYTHON)


def test_acls_are_created_described_and_deleted(cluster: LocalCluster, admin: AdminClient) -> None:
    path = f"/clusters/{cluster.name}/acls"

    def described() -> set[AclBinding]:
        try:
            return set(admin.describe_acls(EACH).result(SECONDS_MAX))
        except KafkaException:
            return set()

    with authorizer(cluster):
        wrong = AclBinding(
            ResourceType.TOPIC,
            "payments",
            ResourcePatternType.LITERAL,
            "User:alice",
            "store1",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        created = admin.create_acls([READ, GROUP, wrong])
        for binding in (READ, GROUP):
            created[binding].result(SECONDS_MAX)
        with pytest.raises(KafkaException) as refused:
            created[wrong].result(SECONDS_MAX)
        assert code_of(refused) == KafkaError.INVALID_REQUEST
        until(described, {READ, GROUP})
        shown = cluster.api.get(path)["items"]
        assert [(item["resource_name"], item["permission"]) for item in shown] == [
            ("payments", "allow"),
            ("billing", "deny"),
        ]
        matching = AclBindingFilter(
            ResourceType.TOPIC,
            "payments.eu",
            ResourcePatternType.MATCH,
            ANY,
            ANY,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        assert admin.describe_acls(matching).result(SECONDS_MAX) == [READ]
        (gone,) = admin.delete_acls([matching]).values()
        assert gone.result(SECONDS_MAX) == [READ]
        until(described, {GROUP})
        (rest,) = admin.delete_acls([EACH]).values()
        assert rest.result(SECONDS_MAX) == [GROUP]
        until(described, set())
        assert cluster.api.get(path)["items"] == []


def test_kafka_python_speaks_of_acls(cluster: LocalCluster) -> None:
    acl = kafka.admin.ACL(
        principal="User:bob",
        host="*",
        operation=kafka.admin.ACLOperation.WRITE,
        permission_type=kafka.admin.ACLPermissionType.ALLOW,
        resource_pattern=kafka.admin.ResourcePattern(kafka.admin.ResourceType.TOPIC, "orders"),
    )
    with authorizer(cluster), python_admin(cluster) as client:
        created = client.create_acls([acl])
        assert (created["succeeded"], created["failed"]) == ([acl], [])
        until(lambda: client.describe_acls(EACH_IN_PYTHON)[0], [acl])
        client.delete_acls([EACH_IN_PYTHON])
        until(lambda: client.describe_acls(EACH_IN_PYTHON)[0], [])


def test_users_get_and_lose_passwords(cluster: LocalCluster, admin: AdminClient) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    path = f"/clusters/{cluster.name}/users"
    changed = admin.alter_user_scram_credentials(
        [
            UserScramCredentialUpsertion("carol", info, b"first"),
            UserScramCredentialDeletion("nobody", ScramMechanism.SCRAM_SHA_512),
        ]
    )
    changed["carol"].result(SECONDS_MAX)
    with pytest.raises(KafkaException) as refused:
        changed["nobody"].result(SECONDS_MAX)
    assert code_of(refused) == KafkaError.RESOURCE_NOT_FOUND

    def described() -> list[tuple[str, int]]:
        asked: Any = admin.describe_user_scram_credentials(["carol"])
        try:
            found = asked["carol"].result(SECONDS_MAX)
        except KafkaException:
            return []
        return [(one.mechanism.name, one.iterations) for one in found.scram_credential_infos]

    until(described, [("SCRAM_SHA_256", 8192)])
    (user,) = cluster.api.get(path)["items"]
    assert (user["user"], user["mechanisms"]) == (
        "carol",
        [{"mechanism": "SCRAM-SHA-256", "iterations": 8192}],
    )
    gone = admin.alter_user_scram_credentials([UserScramCredentialDeletion("carol", info.mechanism)])
    gone["carol"].result(SECONDS_MAX)
    until(described, [])
    assert cluster.api.get(path)["items"] == []
