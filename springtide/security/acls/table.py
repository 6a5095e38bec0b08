"""The bindings of a cluster at one version, and the decisions that follow from them.

The rules, as the StandardAuthorizer of Apache Kafka 4.3 applies them:

1. A super user is allowed each operation.
2. A binding matches a request if its pattern stands for the resource, its principal is the client's or
   `User:*`, its host is the client's or `*`, and its operation is the request's or ALL. An ALLOW also matches
   what its operation implies: READ, WRITE, DELETE and ALTER imply DESCRIBE, ALTER_CONFIGS implies
   DESCRIBE_CONFIGS. A DENY implies nothing.
3. A DENY that matches refuses. Without one, an ALLOW that matches allows.
4. Without both the request is refused, unless `allow.everyone.if.no.acl.found` is set and the resource has no
   binding of any principal. A wildcard and a prefix are bindings of each resource that they stand for.

A table never changes. A changed table shares with the one before what stayed the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from .model import (
    AclBinding,
    AclFilter,
    Decision,
    Operation,
    PatternType,
    Permission,
    Reason,
    ResourceType,
)
from .resources import EACH_RESOURCE, Pattern, Resources, bit_of

_IMPLIED_BY: Final = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
_DENYING: Final = {
    asked: bit_of(asked, Permission.DENY) | bit_of(Operation.ALL, Permission.DENY) for asked in Operation
}
_ALLOWING: Final = {
    asked: sum(bit_of(one, Permission.ALLOW) for one in {asked, Operation.ALL, *_IMPLIED_BY.get(asked, ())})
    for asked in Operation
}


class Acls:
    """The ACLs of a cluster. `version` names the whole content, settings included; bindings are valid ones.

    A decision looks up the name, `*` and each length that a prefix of the type has; and each for the client's
    principal and `User:*`, at its host and `*`. So its cost does not grow with the number of bindings.
    super_users: principals, compared as a whole.
    """

    def __init__(
        self,
        bindings: Iterable[AclBinding] = (),
        *,
        version: int,
        super_users: frozenset[str] = frozenset(),
        allow_everyone_if_no_acl_found: bool = False,
    ) -> None:
        self.bindings: tuple[AclBinding, ...] = tuple(sorted(set(bindings)))
        self.version = version
        self.super_users = super_users
        self.allow_everyone_if_no_acl_found = allow_everyone_if_no_acl_found
        self._by_type = {
            of_type: Resources(of_type).changed(added=group)
            for of_type, group in groupby(self.bindings, key=lambda binding: binding.resource_type)
        }

    def changed(
        self,
        *,
        version: int,
        added: Iterable[AclBinding] = (),
        removed: Iterable[AclBinding] = (),
        super_users: frozenset[str] | None = None,
        allow_everyone_if_no_acl_found: bool | None = None,
    ) -> Acls:
        """Return the table of another version, without the removed bindings and with the added ones, under
        new settings where they are given.

        To remove a binding that is not there, or to add one that is, changes nothing. Each binding moves part
        of a list of all: a whole new set is built with the constructor.
        """
        bindings = list(self.bindings)
        gone, new = list[AclBinding](), list[AclBinding]()
        for binding in removed:
            index, is_there = _place(bindings, binding)
            if is_there:
                gone.append(bindings.pop(index))
        for binding in added:
            index, is_there = _place(bindings, binding)
            if not is_there:
                bindings.insert(index, binding)
                new.append(binding)
        after = Acls(
            version=version,
            super_users=self.super_users if super_users is None else super_users,
            allow_everyone_if_no_acl_found=self.allow_everyone_if_no_acl_found
            if allow_everyone_if_no_acl_found is None
            else allow_everyone_if_no_acl_found,
        )
        after.bindings = tuple(bindings)
        after._by_type = dict(self._by_type)
        for of_type in sorted({binding.resource_type for binding in (*gone, *new)}):
            after._by_type[of_type] = self._resources(of_type).changed(
                added=[binding for binding in new if binding.resource_type is of_type],
                removed=[binding for binding in gone if binding.resource_type is of_type],
            )
        return after

    def decide(
        self, principal: str, host: str, resource_type: ResourceType, name: str, operation: Operation
    ) -> Decision:
        """Return whether a client may do the operation on the resource. host: in canonical form."""
        if principal in self.super_users:
            return Decision(True, Reason.SUPER_USER)
        resources = self._resources(resource_type)
        return self._decide(resources, resources.patterns_for(name), principal, host, operation)

    def decide_any(
        self, principal: str, host: str, resource_type: ResourceType, operation: Operation
    ) -> Decision:
        """Return whether a client may do the operation on at least one resource of the type (KIP-679).

        The bindings for each resource (`*`) decide first, and the default if there are none. Else the client
        needs an ALLOW that no DENY covers: none of its own pattern, and none of a prefix of its name.

        Kafka decides the first part for a topic named `hardcode`, so that bindings of that name and of its
        prefixes count, and leaves implied operations out of the second. It asks for WRITE only, which no
        operation implies.
        """
        if principal in self.super_users:
            return Decision(True, Reason.SUPER_USER)
        resources = self._resources(resource_type)
        by_default = self._decide(resources, [EACH_RESOURCE], principal, host, operation)
        if by_default.allowed or by_default.reason is Reason.DENY_BINDING:
            return by_default
        mine = resources.rights_of(principal, host)
        covering: AclBinding | None = None
        for subject, rights in mine:
            for pattern, held in rights.items():
                allowing = held & _ALLOWING[operation]
                if not allowing:
                    continue
                covers = [pattern, *resources.prefixes_of(pattern[1])]
                denied = resources.first(covers, mine, _DENYING[operation])
                if denied is None:
                    binding = resources.binding(pattern, subject, allowing)
                    return Decision(True, Reason.ALLOW_BINDING, binding)
                covering = covering or denied
        if covering is not None:
            return Decision(False, Reason.DENY_BINDING, covering)
        return Decision(False, Reason.NO_MATCHING_BINDING if resources.bindings else Reason.NO_BINDING)

    def select(self, wanted: AclFilter) -> Iterator[AclBinding]:
        """Yield the bindings that a filter matches, in order. Only a filter without a name reads them all."""
        concrete = (of_type for of_type in ResourceType if of_type > ResourceType.ANY)
        for of_type in concrete if wanted.resource_type is ResourceType.ANY else (wanted.resource_type,):
            for begin, end in self._ranges(of_type, wanted):
                for index in range(begin, end):
                    if wanted.matches(self.bindings[index]):
                        yield self.bindings[index]

    def _resources(self, resource_type: ResourceType) -> Resources:
        return self._by_type.get(resource_type) or Resources(resource_type)

    def _decide(
        self,
        resources: Resources,
        patterns: list[Pattern],
        principal: str,
        host: str,
        operation: Operation,
    ) -> Decision:
        mine = resources.rights_of(principal, host)
        denied = resources.first(patterns, mine, _DENYING[operation])
        if denied is not None:
            return Decision(False, Reason.DENY_BINDING, denied)
        allowed = resources.first(patterns, mine, _ALLOWING[operation])
        if allowed is not None:
            return Decision(True, Reason.ALLOW_BINDING, allowed)
        if any(pattern in resources.bindings for pattern in patterns):
            return Decision(False, Reason.NO_MATCHING_BINDING)
        return Decision(self.allow_everyone_if_no_acl_found, Reason.NO_BINDING)

    def _ranges(self, of_type: ResourceType, wanted: AclFilter) -> Iterator[tuple[int, int]]:
        """Yield where, in the list of bindings, those lie that a filter can match."""
        if wanted.resource_name is None:
            yield self._position(of_type, ""), self._position(of_type + 1, "")
            return
        names = {wanted.resource_name}
        if wanted.pattern_type is PatternType.MATCH:
            names |= {name for _, name in self._resources(of_type).patterns_for(wanted.resource_name)}
        for name in sorted(names):
            yield self._position(of_type, name), self._position(of_type, f"{name}\0")

    def _position(self, of_type: int, name: str) -> int:
        """Return the index of the first binding that is not before a type and a name."""
        return bisect_left(
            self.bindings, (of_type, name), key=lambda binding: (binding.resource_type, binding.resource_name)
        )


def _place(bindings: list[AclBinding], binding: AclBinding) -> tuple[int, bool]:
    """Return the index of a binding in the sorted list, and whether it is there."""
    index = bisect_left(bindings, binding)
    return index, bindings[index : index + 1] == [binding]
