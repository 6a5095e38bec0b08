"""The secured cluster of the matrix, and how clients get into it: by TLS, certificate, or SASL.

ACLs decide there. A row's client may do to the row's topic and group what the row needs, under the name by
which it must become known; so a cell is also a proof that it is known by that name.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from localcluster.cluster import LocalCluster
from tests.interop.rows import ACL_PRINCIPAL, ADMINISTRATOR, REPLICATION_FACTOR, Row
from tests.kit.springtide.token_issuer import token_issuer

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
USERS = {"alice": "alice's-password", "stranger": "stranger's-password", ADMINISTRATOR: "admin's-password"}
ACL_CALLS = ("describe_acls", "delete_acl")
"""They find an ACL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What a driver is told. identity: a PEM file with a key and its certificate. token_file: has the token,
    for clients that read one. What does not belong to the way in is empty."""

    bootstrap: str
    principal: str
    protocol: str
    ca: str
    identity: str = ""
    mechanism: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    token_file: str = ""

    def asked(self) -> dict[str, str]:
        """Return it as a part of a request (rows.py)."""
        return asdict(self)


Logins = Mapping[str, Login]
"""By Row.login."""


@contextmanager
def secured_cluster(
    *, coordinators: int, tell: Callable[[str], None], brokers: int = REPLICATION_FACTOR
) -> Iterator[Logins]:
    """A cluster whose clients are known by name, with the users above and ACLs that decide."""
    with token_issuer() as issuer, tempfile.TemporaryDirectory() as directory:
        sasl = {"sasl.enabled.mechanisms": ",".join(MECHANISMS), **issuer.configs}
        with LocalCluster(
            brokers=brokers, coordinators=coordinators, is_secure=True, sasl=sasl, on_progress=tell
        ) as cluster:
            cluster.form()
            _make_users(cluster)
            _let_acls_decide(cluster)
            token = issuer.token("olga", exp=4_000_000_000)
            token_file = Path(directory) / "token"
            token_file.write_text(token, encoding="ascii")
            yield _logins(cluster, token, token_file)


def acls_of(row: Row, topic: str, login: Login) -> list[AclBinding]:
    """Return what stands before the row begins. The topic's name is its group's, too."""
    if row.call in ACL_CALLS:
        return [acl(topic, ResourceType.TOPIC, ACL_PRINCIPAL, AclOperation.READ)]
    if row.is_refused or row.login == ADMINISTRATOR:
        return []
    return [
        acl(topic, ResourceType.TOPIC, login.principal, AclOperation.READ),
        acl(topic, ResourceType.TOPIC, login.principal, AclOperation.WRITE),
        acl(topic, ResourceType.GROUP, login.principal, AclOperation.READ),
    ]


def acl(name: str, resource: ResourceType, principal: str, operation: AclOperation) -> AclBinding:
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    return AclBinding(resource, name, literal, principal, "*", operation, allow)


def _make_users(cluster: LocalCluster) -> None:
    for user, password in USERS.items():
        path = f"/clusters/{cluster.name}/users/{user}"
        cluster.rest.put(path, json={"password": password}).raise_for_status()


def _let_acls_decide(cluster: LocalCluster) -> None:
    configs = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMINISTRATOR}",
    }
    path = f"/clusters/{cluster.name}/configs:alter"
    cluster.rest.post(path, json={"configs": configs}).raise_for_status()


def _logins(cluster: LocalCluster, token: str, token_file: Path) -> Logins:
    assert cluster.tls is not None
    ca = str(cluster.tls.ca)

    def by_tls(principal: str, identity: str = "") -> Login:
        return Login(
            bootstrap=cluster.bootstrap_servers,
            principal=principal,
            protocol="SSL",
            ca=ca,
            identity=identity,
        )

    def by_sasl(mechanism: str, user: str, token: str = "") -> Login:
        return Login(
            bootstrap=cluster.sasl_bootstrap_servers,
            principal=f"User:{user}",
            protocol="SASL_SSL",
            ca=ca,
            mechanism=mechanism,
            user=user,
            password=USERS.get(user, ""),
            token=token,
            token_file=str(token_file) if token else "",
        )

    return {
        "tls": by_tls("User:ANONYMOUS"),
        "mtls": by_tls("User:CN=mary", str(cluster.tls.certificate("mary"))),
        "plain": by_sasl("PLAIN", "alice"),
        "scram-sha-256": by_sasl("SCRAM-SHA-256", "alice"),
        "scram-sha-512": by_sasl("SCRAM-SHA-512", "alice"),
        "oauthbearer": by_sasl("OAUTHBEARER", "olga", token),
        "stranger": by_sasl("SCRAM-SHA-512", "stranger"),
        ADMINISTRATOR: by_sasl("SCRAM-SHA-512", ADMINISTRATOR),
    }
