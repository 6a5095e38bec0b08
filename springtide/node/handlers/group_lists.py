"""Who is told which groups in the answer to ListGroups.

Clients send ListGroups to every node that they know and put the answers together, some without looking for
groups that are named twice (librdkafka, KafkaJS). Not all of them know coordinators (listed_coordinators.py).
So the first of the brokers tells a client all groups, and no other node tells it any. Processes of Springtide
ask coordinators themselves, and say so by their client id; it gives no rights.
"""

from __future__ import annotations

from typing import Final

from springtide.node.handlers.context import Request
from springtide.security.acls.model import Operation, ResourceType

OUR_PREFIX: Final = "springtide-"
"""Of the client ids of brokers and controllers that ask coordinators for groups."""


def asks_coordinators(request: Request) -> bool:
    """Return whether the client asks every coordinator itself."""
    return (request.answer.connection.client_id or "").startswith(OUR_PREFIX)


def visible(request: Request, group_ids: list[str]) -> set[str]:
    """Return those that the client may know of: all, if it may describe the cluster."""
    if request.may(Operation.DESCRIBE, ResourceType.CLUSTER, is_filter=True):
        return set(group_ids)
    return {
        one for one in group_ids if request.may(Operation.DESCRIBE, ResourceType.GROUP, one, is_filter=True)
    }
