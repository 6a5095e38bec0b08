"""What structs have that the release before did not know, and why that is no harm to it.

The key is `Struct.field`, `Enumeration:word`, or `Struct.field:tag` of one more kind in a union. The value is
the feature since whose level it is written, or the reason why a process of the older level never meets it, or
reads on as if it were not there. An entry goes when the level that it is new to is no longer supported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from springtide.levels import CONSUMER_GROUPS, KEPT_DELETED_TOPICS, TRANSACTIONS, Feature

_IGNORED = "a field of a message: a process of 0.1 ignores what it does not know"
_OF_TRANSACTIONS = "a field of a message, None or empty where no transaction is; 0.2 ignores it"
_OF_RECEIVERS = "what a receiver makes of a word that it does not know; never sent, never stored"
_OF_REBALANCES = "a field of a message, for people; 0.2 ignores it"
_UNSET_AT_0 = "UNSET, and so not in the row, while the cluster is at level 0"

NEW: Final[Mapping[str, str | Feature]] = {
    "RegisterRequest.levels": _IGNORED,
    "RegisterResponse.level": _IGNORED,
    "HeartbeatRequest.levels": _IGNORED,
    "UpdateBatch.level": _IGNORED,
    "Witness.level": _IGNORED,
    "BrokerRegistration.levels": _UNSET_AT_0,
    "CoordinatorRegistration.levels": _UNSET_AT_0,
    "ClaimRow.levels": "an ephemeral row, of which a controller of 0.1 ignores the field",
    "ControllerError:unsupported_level": "told only to processes that told levels, which 0.1 does not",
    "HeartbeatRequest.transactions": _OF_TRANSACTIONS,
    "HeartbeatRequest.wants_transactions": "a field of a message; 0.2 ignores it, and has no transactions",
    "HeartbeatResponse.suspects": _OF_TRANSACTIONS,
    "PartitionLag.transactions": _OF_TRANSACTIONS,
    "Cause:upgrade_finalized": "the change that ends level 0",
    "Subject.producer_id": TRANSACTIONS,
    "Subject.transactional_id": TRANSACTIONS,
    "TopicState.kept": KEPT_DELETED_TOPICS,
    "UpdateBatch.kept_topics": KEPT_DELETED_TOPICS,
    "Cause:topic_restored": KEPT_DELETED_TOPICS,
    "Cause:topic_purged": KEPT_DELETED_TOPICS,
    "Cause:topic_expired": KEPT_DELETED_TOPICS,
    "Cause:upgrade_possible": "only in the row `upgrade`, which a controller of 0.1 does not read",
    "Cause:group_configured": CONSUMER_GROUPS,
    "UpdateBatch.group_configs": CONSUMER_GROUPS,
    "ResourceKind:group": "asked by nodes that know it; a controller of 0.2 refuses what it does not know",
    "ConfigSource:group": "told to nodes alone that ask for the settings of a group",
    **{
        f"GroupRebalance.{name}": _OF_REBALANCES
        for name in (
            "assigned_ms",
            "assignor",
            "awaited",
            "awaited_total",
            "causes",
            "causes_total",
            "is_superseded",
            "moved",
            "moves",
            "paused",
            "paused_ms_max",
            "to_move",
        )
    },
    **{
        f"{name}:unknown": _OF_RECEIVERS
        for name in (
            "BrokerStatus",
            "ConfigSource",
            "ConfigType",
            "ControllerError",
            "LeaderRecovery",
            "ReachFailure",
            "ResourceKind",
            "ShutdownKind",
        )
    },
}
