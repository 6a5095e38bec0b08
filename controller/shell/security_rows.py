"""The rows of ACLs, users, quotas and groups' settings in ZooKeeper, and their paths.

    /clusters/{cluster}/acls/{pattern}     AclsRow, if it is not in a chunk (acl_chunks.py)
    /clusters/{cluster}/users/{user}       UserRecord: secrets, in base64
    /clusters/{cluster}/quotas/{entity}    QuotasRecord
    /clusters/{cluster}/groups/{group}     GroupRecord, since level 3

The names are those of core/names.py. A pattern without bindings, a user without secrets, an entity without
quotas and a group without settings have no row, and a folder is made with its first row.
"""

from __future__ import annotations

from typing import Final

import msgspec

from controller.core.names import name_of
from controller.core.records import AclsRecord, Change, GroupRecord, QuotasRecord, SecurityRecord, UserRecord
from controller.shell.kept_fields import check_kept, reading
from controller.shell.rows import cluster_path, encode_row, read_row, shorten
from springtide.contract.security import AclsOfPattern
from springtide.contract.words import UnknownWord
from springtide.security.acls.model import AclBinding, Operation, PatternType, Permission, ResourceType

ACLS: Final = "acls"
USERS: Final = "users"
QUOTAS: Final = "quotas"
GROUPS: Final = "groups"
FOLDERS: Final = (ACLS, USERS, QUOTAS, GROUPS)


class BindingRow(msgspec.Struct, frozen=True, array_like=True):
    """A binding without its pattern, by Kafka's words: `["User:alice", "*", "READ", "ALLOW"]`."""

    principal: str
    host: str
    operation: str
    permission: str


class PatternRow(msgspec.Struct, frozen=True, kw_only=True):
    """The bindings of one pattern. The audit has them in this form, too."""

    resource_type: str
    pattern_type: str
    resource_name: str
    bindings: tuple[BindingRow, ...]


class AclsRow(msgspec.Struct, frozen=True, kw_only=True):
    acls: PatternRow
    version: int
    change: Change


def folder_path(cluster: str, folder: str) -> str:
    return f"{cluster_path(cluster)}/{folder}"


def folder_of(record: SecurityRecord) -> str:
    match record:
        case AclsRecord():
            return ACLS
        case UserRecord():
            return USERS
        case QuotasRecord():
            return QUOTAS
        case GroupRecord():
            return GROUPS


def security_path(cluster: str, record: SecurityRecord) -> str:
    return f"{folder_path(cluster, folder_of(record))}/{name_of(record)}"


def pattern_row(acls: AclsOfPattern) -> PatternRow:
    return PatternRow(
        resource_type=acls.resource_type.name,
        pattern_type=acls.pattern_type.name,
        resource_name=acls.resource_name,
        bindings=tuple(
            BindingRow(one.principal, one.host, one.operation.name, one.permission.name)
            for one in acls.bindings
        ),
    )


def acls_row(record: AclsRecord, version: int) -> AclsRow:
    return AclsRow(acls=pattern_row(record.acls), version=version, change=shorten(record.change))


def acls_record(row: AclsRow) -> AclsRecord:
    """Return the record of a row. Raise msgspec.ValidationError."""
    return AclsRecord(acls=_acls(row.acls), change=row.change)


def encode_security(record: SecurityRecord, version: int) -> bytes:
    if isinstance(record, AclsRecord):
        return msgspec.json.encode(acls_row(record, version))
    return encode_row(record, version)


def read_security(path: str, folder: str, data: bytes) -> tuple[SecurityRecord, int]:
    """Return the record of the row at a path and its number. Raise msgspec.ValidationError or DecodeError for
    bytes that are no row of this folder, and as `read_row`."""
    match folder:
        case "acls":
            return read_acls(path, data)
        case "users":
            return read_row(path, data, UserRecord)
        case "groups":
            return read_row(path, data, GroupRecord)
        case _:
            return read_row(path, data, QuotasRecord)


def read_acls(path: str, data: bytes | msgspec.Raw) -> tuple[AclsRecord, int]:
    """Return the record of a pattern's row, in a chunk or in a znode of its own, as `read_security` does."""
    with reading(path):
        row = msgspec.json.decode(data, type=AclsRow)
        record = acls_record(row)
    check_kept(path, data, msgspec.json.encode(row))
    return record, row.version


def _acls(row: PatternRow) -> AclsOfPattern:
    try:
        resource_type, pattern_type = ResourceType[row.resource_type], PatternType[row.pattern_type]
        bindings = tuple(
            AclBinding(
                resource_type,
                row.resource_name,
                pattern_type,
                one.principal,
                one.host,
                Operation[one.operation],
                Permission[one.permission],
            )
            for one in row.bindings
        )
    except KeyError as error:
        raise UnknownWord(f"ACLs have {error}") from error
    return AclsOfPattern(
        resource_type=resource_type,
        pattern_type=pattern_type,
        resource_name=row.resource_name,
        bindings=bindings,
    )
