"""Names of ACL patterns, users, entities with quotas and groups with settings, in ZooKeeper and in the audit.

A name has only characters that a ZooKeeper path may have, and can be read: `topic:literal:orders`, `alice`,
`user=alice,client-id=reports`. All others are percent-encoded. A long name is cut, and ends in `!`, which no
other name has, and a hash of the whole.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final
from urllib.parse import quote

from controller.core.records import AclsRecord, GroupRecord, QuotasRecord, SecurityRecord, UserRecord
from springtide.contract.security import PatternKey, QuotaEntity

NAME_CHARS_MAX: Final = 200
_KEPT_CHARS: Final = 120


def name_of(record: SecurityRecord) -> str:
    match record:
        case AclsRecord(acls=acls):
            return pattern_name(acls.key)
        case UserRecord(secrets=secrets):
            return user_name(secrets.user)
        case QuotasRecord(quotas=quotas):
            return entity_name(quotas.entity)
        case GroupRecord(group=group):
            return group_name(group.group_id)


def pattern_name(key: PatternKey) -> str:
    resource_type, name, pattern_type = key
    return _bounded(f"{resource_type.name.lower()}:{pattern_type.name.lower()}:{quote(name, safe='')}")


def group_name(group_id: str) -> str:
    return user_name(group_id)


def user_name(user: str) -> str:
    name = _bounded(quote(user, safe=""))
    return name.replace(".", "%2E") if name in (".", "..") else name


def entity_name(entity: QuotaEntity) -> str:
    parts = (("user", entity.user), ("client-id", entity.client_id), ("ip", entity.ip))
    return _bounded(",".join(f"{part}={quote(name, safe='')}" for part, name in parts if name is not None))


def _bounded(name: str) -> str:
    if len(name) <= NAME_CHARS_MAX:
        return name
    return f"{name[:_KEPT_CHARS]}!{sha256(name.encode()).hexdigest()}"
