"""Bindings and filters of ACLs in the messages of Kafka's three calls, to and from values."""

from __future__ import annotations

from springtide.security.acls.model import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from springtide.wire.messages import CreateAclsAclCreation, DeleteAclsFilter, DescribeAclsRequest


def binding_of(creation: CreateAclsAclCreation) -> AclBinding:
    """Return the binding that a CreateAcls request states. A number without a name becomes UNKNOWN."""
    return AclBinding(
        resource_type=ResourceType(creation.resource_type),
        resource_name=creation.resource_name,
        pattern_type=PatternType(creation.resource_pattern_type),
        principal=creation.principal,
        host=creation.host,
        operation=Operation(creation.operation),
        permission=Permission(creation.permission_type),
    )


def filter_of(wanted: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Return the filter of a DescribeAcls request, or one of a DeleteAcls request."""
    return AclFilter(
        resource_type=ResourceType(wanted.resource_type_filter),
        resource_name=wanted.resource_name_filter,
        pattern_type=PatternType(wanted.pattern_type_filter),
        principal=wanted.principal_filter,
        host=wanted.host_filter,
        operation=Operation(wanted.operation),
        permission=Permission(wanted.permission_type),
    )
