"""ACLs, secrets of users and quotas, as records; secrets whose bytes a test can look for."""

from __future__ import annotations

from base64 import b64encode

from controller.core.records import AclsRecord, Cause, Change, GroupRecord, QuotasRecord, UserRecord
from springtide.contract.groups import GroupConfigs
from springtide.contract.security import (
    AclsOfPattern,
    EntityQuotas,
    QuotaEntity,
    ScramSecret,
    UserSecrets,
)
from springtide.security.acls.model import PatternType, ResourceType
from tests.kit.springtide.acl_lines import acl

SHA_256 = ScramSecret(
    mechanism="SCRAM-SHA-256",
    iterations=4096,
    salt=b"the salt of 256",
    stored_key=b"k" * 32,
    server_key=b"s" * 32,
)
SHA_512 = ScramSecret(
    mechanism="SCRAM-SHA-512",
    iterations=8192,
    salt=b"the salt of 512",
    stored_key=b"k" * 64,
    server_key=b"s" * 64,
)


def has_secrets(text: str) -> bool:
    """Return whether the text has a salt or a key of one of the secrets, as such or in base64."""
    raw = [
        part for secret in (SHA_256, SHA_512) for part in (secret.salt, secret.stored_key, secret.server_key)
    ]
    return any(form in text for part in raw for form in (part.decode(), b64encode(part[:9]).decode()))


def of_topic(name: str, *lines: str) -> AclsOfPattern:
    """Return bindings of one topic by lines such as `ALLOW alice@* READ`."""
    return AclsOfPattern(
        resource_type=ResourceType.TOPIC,
        pattern_type=PatternType.LITERAL,
        resource_name=name,
        bindings=tuple(acl(f"{line} TOPIC {name}") for line in lines),
    )


def _change(cause: Cause) -> Change:
    return Change(cause=cause, at_ms=1, actor="ann")


def acls_record(name: str, *lines: str) -> AclsRecord:
    return AclsRecord(acls=of_topic(name, *lines), change=_change(Cause.ACLS_ALTERED))


def user_record(user: str, *scram: ScramSecret) -> UserRecord:
    return UserRecord(secrets=UserSecrets(user=user, scram=scram), change=_change(Cause.USER_ALTERED))


def group_record(group_id: str, **configs: str) -> GroupRecord:
    return GroupRecord(
        group=GroupConfigs(group_id=group_id, configs=configs), change=_change(Cause.GROUP_CONFIGURED)
    )


def quotas_record(entity: QuotaEntity, **quotas: float) -> QuotasRecord:
    return QuotasRecord(
        quotas=EntityQuotas(entity=entity, quotas=quotas), change=_change(Cause.QUOTAS_ALTERED)
    )
