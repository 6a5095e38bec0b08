"""Answers about consumer groups of `prod`: `billing` reads `orders`, `search` has stopped."""

from __future__ import annotations

from typing import Final

from admin_api.openapi.examples.story import Shown, items

_BILLING: Final = {"group_id": "billing", "state": "stable", "protocol_type": "consumer"}
_SEARCH: Final = {"group_id": "search", "state": "empty", "protocol_type": "consumer"}
_MEMBER: Final = "billing-app-3f0b2c1e-8a3d-4d0e-9a53-5b6f0d5a1c77"
_PARTITION: Final = {
    "topic": "orders",
    "partition": 0,
    "member_id": _MEMBER,
    "committed_offset": 120_400,
    "leader_epoch": 3,
    "log_end_offset": 120_650,
    "lag": 250,
    "lag_ms": 4_200,
    "next_record_at": "2026-11-21T09:29:52.100Z",
    "newest_record_at": "2026-11-21T09:29:56.300Z",
}

GROUPS: Final[dict[tuple[str, int], tuple[Shown, ...]]] = {
    ("listGroups", 200): (
        Shown("two", "One that reads, one without members", items(_BILLING, _SEARCH) | {"unanswered": []}),
    ),
    ("getGroup", 200): (
        Shown(
            "behind",
            "A group with one member, 250 records behind",
            _BILLING
            | {
                "assignor": "range",
                "coordinator_id": 1001,
                "coordinator_endpoint": "desk1:9092",
                "lag": 250,
                "last_rebalance": {
                    "began_at": "2026-11-21T09:12:40.310Z",
                    "ended_at": "2026-11-21T09:12:43.402Z",
                    "reason": f"member {_MEMBER} joined",
                },
                "members_total": 1,
                "partitions_total": 1,
                "members": [
                    {
                        "member_id": _MEMBER,
                        "instance_id": None,
                        "client_id": "billing-app",
                        "host": "/10.0.0.12",
                        "assigned": [{"topic": "orders", "partitions": [0]}],
                    }
                ],
                "partitions": [_PARTITION],
            },
        ),
    ),
    ("deleteGroup", 200): (Shown("deleted", "The group as it was", _SEARCH),),
    ("resetGroupOffsets", 200): (
        Shown(
            "earliest",
            "Everything is read again",
            {
                "group_id": "search",
                "changed": True,
                "items": [
                    {
                        "topic": "orders",
                        "partition": 0,
                        "before": 120_400,
                        "after": 100_000,
                        "log_start_offset": 100_000,
                        "log_end_offset": 120_650,
                    }
                ],
            },
        ),
    ),
}
