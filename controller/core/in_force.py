"""When a change that forbids something is in force: no broker or coordinator acts by the rule before it
(docs/replication.md 2.12, answers).

    stored --every member that might still act has applied it, or its lease has run out--> in force

A change is stored when ZooKeeper has it, and each member learns of it a moment later by its poll. Until
then a leader acknowledges under the old minimum, and a removed user logs in. So the answer to such a change
waits for the members' own word, which their next poll or heartbeat brings (I25, applied is said afterwards).
What only permits more is answered when it is stored: a wait would protect nothing.

A change that is asked for again and changes nothing waits for the last one that forbade something: its first
answer may have been lost, or have said that it is not in force yet.

A deletion waits in a way of its own (deletions.py), because something follows from it: another topic may
have the name. So who has stopped is a record for the next controller, and creations wait for it, too. What is
waited for here decides nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from controller.core.events import (
    AlterAcls,
    AlterQuotas,
    AlterUsers,
    ConfigureCluster,
    ConfigureTopic,
    Event,
)
from controller.core.image import ClusterImage
from controller.core.records import (
    AclsRecord,
    ClusterRecord,
    PartitionRecord,
    QuotasRecord,
    Record,
    TopicRecord,
    UserRecord,
)
from controller.core.settings_table import AUTHORIZATION_SETTINGS, TOPIC_SETTINGS
from springtide.contract.security import is_everyone_allowed
from springtide.security.acls.model import Permission

#: Settings that say which records a leader may take. The minimum in sync is not among them: it is part of
#: each partition's state.
_LIMITS: Final = (
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
)
_LIMITS_OF_CLUSTER: Final = (
    *AUTHORIZATION_SETTINGS,
    *(name for limit in _LIMITS if (name := TOPIC_SETTINGS[limit].cluster_name) is not None),
)


class Awaited(NamedTuple):
    """What the answer to a change waits for. sequence: how far it must be applied. by_coordinators: by
    coordinators, too, and not by brokers alone."""

    sequence: int
    by_coordinators: bool


def may_forbid(event: Event) -> bool:
    """Return whether an operator's event is of a kind that can forbid something by what members apply."""
    return isinstance(event, ConfigureTopic | ConfigureCluster | AlterAcls | AlterUsers | AlterQuotas)


def concerns_coordinators(event: Event) -> bool:
    """Return whether coordinators obey such a change: of ACLs, users, quotas, the cluster's settings."""
    return not isinstance(event, ConfigureTopic)


def forbids(image: ClusterImage, record: Record) -> bool:
    """Return whether something that was allowed before the record is not allowed after it. image: as it is
    before the record. In doubt it is so: a wait costs milliseconds."""
    match record:
        case PartitionRecord(state=state):
            before = image.partitions.get((state.topic_id, state.partition))
            return before is not None and state.min_insync_replicas > before.min_insync_replicas
        case TopicRecord(state=topic):
            known = image.topics.get(topic.topic_id)
            return known is not None and any(
                known.configs.get(name) != topic.configs.get(name) for name in _LIMITS
            )
        case ClusterRecord(configs=configs):
            return any(image.configs.get(name) != configs.get(name) for name in _LIMITS_OF_CLUSTER)
        case AclsRecord():
            return _forbids_by_acls(image, record)
        case UserRecord(secrets=secrets):
            return secrets.user in image.users  # a password that was valid is gone
        case QuotasRecord(quotas=after):
            quotas = image.quotas.get(after.entity)
            # Where one is removed or added, a default may be lower, or none have been there.
            return (
                quotas is None
                or quotas.quotas.keys() != after.quotas.keys()
                or any(after.quotas[name] < value for name, value in quotas.quotas.items())
            )
        case _:
            return False


def _forbids_by_acls(image: ClusterImage, record: AclsRecord) -> bool:
    known = image.acls.get(record.acls.key)
    before = frozenset(() if known is None else known.bindings)
    after = frozenset(record.acls.bindings)
    return (
        any(binding.permission is Permission.ALLOW for binding in before - after)
        or any(binding.permission is Permission.DENY for binding in after - before)
        # The first binding of a resource that was open to each client is closed.
        or (not before and is_everyone_allowed(image.configs))
    )
