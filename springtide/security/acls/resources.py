"""The bindings of one resource type, found by who a client is and by what stands for a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from .model import ANY_USER, WILDCARD, AclBinding, Operation, PatternType, Permission, ResourceType

Subject = tuple[str, str]
"""The principal and host of a binding."""
Pattern = tuple[PatternType, str]
Rights = dict[Pattern, int]
"""What one subject is allowed and denied: for each pattern a bit for each operation and permission."""
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

EACH_RESOURCE: Final = (PatternType.LITERAL, WILDCARD)


def bit_of(operation: Operation, permission: Permission) -> int:
    return 1 << (operation if permission is Permission.ALLOW else len(Operation) + operation)


class Resources(NamedTuple):
    """The bindings of one resource type. Never changed in place.

    bindings: how many a pattern has. prefixes: how many have a prefix of a length, the longest first.
    """

    resource_type: ResourceType
    rights: Mapping[Subject, Rights] = {}
    bindings: Mapping[Pattern, int] = {}
    prefixes: Mapping[int, int] = {}

    def patterns_for(self, name: str) -> list[Pattern]:
        """Return the patterns that stand for a resource, the most specific first."""
        return [(PatternType.LITERAL, name), *self.prefixes_of(name), EACH_RESOURCE]

    def prefixes_of(self, name: str) -> list[Pattern]:
        return [(PatternType.PREFIXED, name[:length]) for length in self.prefixes if length <= len(name)]

    def rights_of(self, principal: str, host: str) -> list[tuple[Subject, Rights]]:
        """Return each subject that the client is, with its rights."""
        subjects = ((principal, host), (principal, WILDCARD), (ANY_USER, host), (ANY_USER, WILDCARD))
        return [(subject, self.rights[subject]) for subject in subjects if subject in self.rights]

    def first(
        self, patterns: Iterable[Pattern], mine: list[tuple[Subject, Rights]], bits: int
    ) -> AclBinding | None:
        """Return the first binding for a pattern and a subject that has one of the bits."""
        for pattern in patterns:
            for subject, rights in mine:
                held = rights.get(pattern, 0) & bits
                if held:
                    return self.binding(pattern, subject, held)
        return None

    def binding(self, pattern: Pattern, subject: Subject, bits: int) -> AclBinding:
        """Return the binding that one of the bits stands for."""
        place = (bits & -bits).bit_length() - 1
        permission = Permission.ALLOW if place < len(Operation) else Permission.DENY
        operation = Operation(place % len(Operation))
        pattern_type, name = pattern
        return AclBinding(self.resource_type, name, pattern_type, *subject, operation, permission)

    def changed(self, *, added: Iterable[AclBinding] = (), removed: Iterable[AclBinding] = ()) -> Resources:
        """Return the resources with bindings that they lack and without ones that they have."""
        rights, bindings, prefixes = dict(self.rights), dict(self.bindings), dict(self.prefixes)
        copied: dict[Subject, Rights] = {}
        for step, changes in ((-1, removed), (1, added)):
            for binding in changes:
                subject = (binding.principal, binding.host)
                pattern = (binding.pattern_type, binding.resource_name)
                if subject not in copied:
                    copied[subject] = dict(rights.get(subject, {}))
                bit = bit_of(binding.operation, binding.permission)
                _set(copied[subject], pattern, copied[subject].get(pattern, 0) ^ bit)
                _set(bindings, pattern, bindings.get(pattern, 0) + step)
                if binding.pattern_type is PatternType.PREFIXED:
                    length = len(binding.resource_name)
                    _set(prefixes, length, prefixes.get(length, 0) + step)
        for subject, held in copied.items():
            _set(rights, subject, held)
        longest_first = dict(sorted(prefixes.items(), reverse=True))
        return self._replace(rights=rights, bindings=bindings, prefixes=longest_first)


def _set(table: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Set what a key has; a key that has nothing goes."""
    if value:
        table[key] = value
    else:
        table.pop(key, None)
