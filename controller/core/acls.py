"""Operators' requests about ACLs: what is removed, what is added, and how many a cluster can have.

Filters are matched first, against what stood before the request, so that a request can replace bindings in
one step. Bindings of a pattern are one row in ZooKeeper and one entity of the audit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from controller.core.draft import Draft
from controller.core.events import AclAdded, AclsAltered, AclsRemoved, AlterAcls, Refusal, RefusalCode
from controller.core.image import ClusterImage
from controller.core.records import AclsRecord, Cause
from controller.core.request_size import check_size
from controller.core.topics import operator_change
from springtide.contract.security import AclsOfPattern, PatternKey, is_everyone_allowed, super_users
from springtide.security.acls.model import WILDCARD, AclBinding, AclFilter, PatternType, ResourceType
from springtide.security.acls.table import Acls
from springtide.security.acls.validation import (
    NAME_LENGTH_MAX,
    InvalidAcl,
    validate_binding,
    validate_filter,
)

BINDINGS_MAX: Final = 100_000
#: Of the names and principals of all bindings: a FULL batch of the metadata stream has them in one piece.
CHARACTERS_MAX: Final = 20_000_000
#: Each pattern is a row, and a controller that takes over decodes all rows.
PATTERNS_MAX: Final = 20_000
#: A row of ZooKeeper holds a megabyte.
PATTERN_BYTES_MAX: Final = 800_000
#: Filters of one request that name no pattern. Each reads all bindings, a fifth of a second for BINDINGS_MAX.
SCANS_MAX: Final = 5
#: Punctuation, host, operation and permission of a binding in its row.
_BINDING_BYTES: Final = 120


def acls_about(
    acls: Mapping[PatternKey, AclsOfPattern],
    configs: Mapping[str, str],
    resource_type: ResourceType,
    name: str,
) -> Acls:
    """Return the ACLs that decide about one resource: those of its name, of `*`, and of each beginning of its
    name. They are few, though a cluster may have many."""
    keys = [(resource_type, one, PatternType.LITERAL) for one in dict.fromkeys((name, WILDCARD))]
    lengths = range(1, min(len(name), NAME_LENGTH_MAX) + 1)
    keys += [(resource_type, name[:length], PatternType.PREFIXED) for length in lengths]
    return Acls(
        (binding for key in keys if key in acls for binding in acls[key].bindings),
        version=0,
        super_users=super_users(configs),
        allow_everyone_if_no_acl_found=is_everyone_allowed(configs),
    )


def alter_acls(draft: Draft, event: AlterAcls) -> AclsAltered | Refusal:
    refusal = check_size(len(event.added) + len(event.removed)) or _check_scans(event.removed)
    if refusal is not None:
        return refusal
    pending = _Pending(draft.image)
    removed = tuple(_remove(pending, wanted) for wanted in event.removed)
    added = tuple(_add(pending, binding) for binding in event.added)
    if not event.dry_run:
        change = operator_change(event, Cause.ACLS_ALTERED)
        for acls in pending.changed():
            draft.write(AclsRecord(acls=acls, change=change))
    return AclsAltered(added=added, removed=removed, dry_run=event.dry_run)


class _Pending:
    """The bindings of the patterns that a request touches, on top of an image that stays as it is."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._touched: dict[PatternKey, set[AclBinding]] = {}
        self._bytes: dict[PatternKey, int] = {}
        self._patterns = len(image.acls)
        self._bindings = image.acl_bindings
        self._characters = image.acl_characters

    def matching(self, wanted: AclFilter) -> tuple[AclBinding, ...]:
        """Return the bindings of the image that a filter matches, in order."""
        of_pattern: Iterable[AclsOfPattern] = self._image.acls.values()
        key = _pattern_of(wanted)
        if key is not None:
            of_pattern = (self._image.acls[key],) if key in self._image.acls else ()
        found = (binding for acls in of_pattern for binding in acls.bindings if wanted.matches(binding))
        return tuple(sorted(found))

    def remove(self, binding: AclBinding) -> None:
        bindings = self._of(_key_of(binding))
        if binding in bindings:
            bindings.remove(binding)
            self._bindings -= 1
            self._characters -= binding.characters
            self._patterns -= not bindings
            self._bytes[_key_of(binding)] -= _bytes_of(binding)

    def has(self, binding: AclBinding) -> bool:
        return binding in self._of(_key_of(binding))

    def full(self, binding: AclBinding) -> Refusal | None:
        """Return why there is no room for one more binding."""
        if self._bindings >= BINDINGS_MAX:
            return _too_many(f"the cluster has {BINDINGS_MAX} bindings already", BINDINGS_MAX)
        if self._characters + binding.characters > CHARACTERS_MAX:
            detail = (
                f"the names and principals of all bindings would have more than {CHARACTERS_MAX} characters"
            )
            return _too_many(detail, CHARACTERS_MAX)
        key = _key_of(binding)
        if not self._of(key) and self._patterns >= PATTERNS_MAX:
            return _too_many(
                f"the cluster has bindings of {PATTERNS_MAX} patterns already",
                PATTERNS_MAX,
                hint="a prefix (KIP-290) can stand for many resources",
            )
        if self._bytes[key] + _bytes_of(binding) > PATTERN_BYTES_MAX:
            detail = f"the bindings of this pattern would take more than {PATTERN_BYTES_MAX} bytes"
            return _too_many(detail, PATTERN_BYTES_MAX, hint="User:* can stand for many principals")
        return None

    def add(self, binding: AclBinding) -> None:
        key = _key_of(binding)
        bindings = self._of(key)
        self._patterns += not bindings
        self._bindings += 1
        self._characters += binding.characters
        self._bytes[key] += _bytes_of(binding)
        bindings.add(binding)

    def changed(self) -> Iterable[AclsOfPattern]:
        """Yield the bindings of each pattern that has others than before, in order."""
        for key in sorted(self._touched):
            resource_type, name, pattern_type = key
            after = AclsOfPattern(
                resource_type=resource_type,
                resource_name=name,
                pattern_type=pattern_type,
                bindings=tuple(sorted(self._touched[key])),
            )
            before = self._image.acls.get(key)
            if after.bindings != (() if before is None else before.bindings):
                yield after

    def _of(self, key: PatternKey) -> set[AclBinding]:
        if key not in self._touched:
            before = self._image.acls.get(key)
            self._touched[key] = set() if before is None else set(before.bindings)
            self._bytes[key] = sum(_bytes_of(binding) for binding in self._touched[key])
        return self._touched[key]


def _remove(pending: _Pending, wanted: AclFilter) -> AclsRemoved:
    try:
        wanted = validate_filter(wanted)
    except InvalidAcl as error:
        return AclsRemoved(refusal=_invalid(error, "removed"))
    found = pending.matching(wanted)
    for binding in found:
        pending.remove(binding)
    return AclsRemoved(bindings=found)


def _add(pending: _Pending, binding: AclBinding) -> AclAdded:
    try:
        binding = validate_binding(binding)
    except InvalidAcl as error:
        return AclAdded(binding=binding, refusal=_invalid(error, "added"))
    if pending.has(binding):
        return AclAdded(binding=binding)
    refusal = pending.full(binding)
    if refusal is not None:
        return AclAdded(binding=binding, refusal=refusal)
    pending.add(binding)
    return AclAdded(binding=binding, is_new=True)


def _check_scans(filters: Iterable[AclFilter]) -> Refusal | None:
    scans = sum(1 for wanted in filters if _pattern_of(wanted) is None)
    if scans <= SCANS_MAX:
        return None
    return Refusal(
        code=RefusalCode.TOO_MANY_CHANGES,
        field="removed",
        detail=f"one request can have {SCANS_MAX} filters that do not name a pattern, not {scans}",
        limit=SCANS_MAX,
        hint="name the type, the name and the pattern type (LITERAL or PREFIXED) of the resource",
    )


def _pattern_of(wanted: AclFilter) -> PatternKey | None:
    """Return the one pattern whose bindings the filter can match, if there is one."""
    if (
        wanted.resource_name is None
        or wanted.resource_type is ResourceType.ANY
        or wanted.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED)
    ):
        return None
    return (wanted.resource_type, wanted.resource_name, wanted.pattern_type)


def _key_of(binding: AclBinding) -> PatternKey:
    return (binding.resource_type, binding.resource_name, binding.pattern_type)


def _bytes_of(binding: AclBinding) -> int:
    """Return an upper bound of what the binding adds to its row."""
    return _BINDING_BYTES + len(msgspec.json.encode(binding.principal))


def _invalid(error: InvalidAcl, field: str) -> Refusal:
    return Refusal(code=RefusalCode.INVALID_ACL, field=field, detail=str(error))


def _too_many(detail: str, limit: int, *, hint: str | None = None) -> Refusal:
    return Refusal(code=RefusalCode.TOO_MANY_ACLS, detail=detail, limit=limit, hint=hint)
