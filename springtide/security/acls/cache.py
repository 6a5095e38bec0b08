"""The decisions that a connection remembers, so that a request for many partitions costs few look-ups."""

from __future__ import annotations

from typing import Final

from .model import Decision, Operation, ResourceType
from .table import Acls
from .validation import NAME_LENGTH_MAX

DECISIONS_MAX: Final = 1000


class DecisionCache:
    """The decisions for one client: at most `decisions_max` of them, all of one version of the ACLs.

    A full cache forgets its oldest decision. A decision about a name longer than a binding's is not held.
    """

    def __init__(self, principal: str, host: str, decisions_max: int = DECISIONS_MAX) -> None:
        self._principal = principal
        self._host = host
        self._decisions_max = decisions_max
        self._version: int | None = None
        self._decisions: dict[tuple[ResourceType, str | None, Operation], Decision] = {}

    def __len__(self) -> int:
        return len(self._decisions)

    def decide(
        self, acls: Acls, resource_type: ResourceType, name: str | None, operation: Operation
    ) -> Decision:
        """Return what the ACLs decide for the client. Without a name: for any resource (KIP-679)."""
        if acls.version != self._version:
            self._decisions.clear()
            self._version = acls.version
        found = self._decisions.get((resource_type, name, operation))
        if found is not None:
            return found
        who = (self._principal, self._host)
        if name is None:
            found = acls.decide_any(*who, resource_type, operation)
        else:
            found = acls.decide(*who, resource_type, name, operation)
        if len(name or "") <= NAME_LENGTH_MAX:
            if len(self._decisions) >= self._decisions_max:
                del self._decisions[next(iter(self._decisions))]
            self._decisions[resource_type, name, operation] = found
        return found
