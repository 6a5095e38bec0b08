"""The subject of the examples: `prod`, its brokers, a topic `orders`, an operation that adds a fourth
broker."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

TOPIC_ID: Final = "Zk1lV0pCTEq4nY6mXw2v3A"
OPERATION_ID: Final = "op_TvcWIsqjfPWJhZaHEmdumg"
REQUEST_ID: Final = "F9cmqsT9jBmxJpt6iz7Ngw"
URL: Final = "http://controller1:8080"
REASON: Final = "the shop opens on Monday"

CHANGE: Final = {
    "cause": "topic_created",
    "actor": "alice",
    "at": "2026-11-21T09:30:00.000Z",
    "reason": REASON,
    "request_id": REQUEST_ID,
    "operation_id": None,
}
HARM: Final = {
    "leaderless": 0,
    "recovering": 0,
    "under_min_isr": 0,
    "under_replicated": 12,
    "stops_acks_all": 0,
}


def _skew(
    unit: str, mean: float | None = None, highest: int | None = None, over: float | None = None
) -> dict[str, Any]:
    return {
        "unit": unit,
        "mean": mean,
        "highest": highest,
        "broker_id": None if highest is None else 3,
        "max_over_mean": over,
        "unknown_partitions": 0,
    }


CLUSTER: Final[dict[str, Any]] = {
    "name": "prod",
    "cluster_id": "Hn5gk2bTRkKZb0mYl8Q1uw",
    "health": "ok",
    "configs": {"default.replication.factor": "3"},
    "protected": False,
    "brokers": {"active": 3, "fenced": 0, "shutting_down": 0, "waiting": 1},
    "topics": 1,
    "partitions": {
        "total": 12,
        "leaderless": 0,
        "under_min_isr": 0,
        "under_replicated": 0,
        "leader_not_preferred": 0,
    },
    "controller": {"active_url": URL, "epoch": 7},
    "resilience": {
        "broker": {"lose": "broker:3", "partitions": HARM},
        "host": None,
        "rack": {"lose": "rack:r1", "partitions": HARM},
    },
    "skew": {
        "replicas": _skew("replicas", 12.0, 12, 1.0),
        "leaders": _skew("leaders", 4.0, 4, 1.0),
        "bytes": _skew("bytes", 48_000_000_000.0, 51_840_000_000, 1.08),
    },
    "last_change": CHANGE | {"cause": "cluster_created", "reason": "the first production cluster"},
}
EMPTY_CLUSTER: Final = CLUSTER | {
    "brokers": {"active": 0, "fenced": 0, "shutting_down": 0, "waiting": 0},
    "topics": 0,
    "partitions": dict.fromkeys(CLUSTER["partitions"], 0),
    "resilience": {"broker": None, "host": None, "rack": None},
    "skew": {unit: _skew(unit) for unit in ("replicas", "leaders", "bytes")},
}
TOPIC: Final = {
    "name": "orders",
    "topic_id": TOPIC_ID,
    "cluster": "prod",
    "state": "online",
    "partitions": 12,
    "replication_factor": 3,
    "min_insync_replicas": 2,
    "configured_min_insync_replicas": 2,
    "tolerates_broker_losses": 1,
    "online_partitions": 12,
    "under_replicated_partitions": 0,
    "under_min_isr_partitions": 0,
    "configs": {"min.insync.replicas": "2"},
    "warnings": [],
    "last_change": CHANGE,
}
PARTITION: Final = {
    "topic": "orders",
    "topic_id": TOPIC_ID,
    "partition": 0,
    "state": "online",
    "leader": 1,
    "leader_epoch": 4,
    "partition_epoch": 17,
    "preferred_leader": 1,
    "replicas": [1, 2, 3],
    "isr": [1, 2, 3],
    "elr": [],
    "adding_replicas": [],
    "removing_replicas": [],
    "min_insync_replicas": 2,
    "last_known_leader": None,
    "last_known_elr": [],
    "unclean_leader_epoch": None,
    "log_start_offset": 0,
    "log_end_offset": 184_220,
    "high_watermark": 184_211,
    "size_bytes": 402_653_184,
    "followers": [
        {"broker_id": 2, "in_sync": True, "log_end_offset": 184_220, "lag_records": 0, "lag_ms": 0},
        {"broker_id": 3, "in_sync": True, "log_end_offset": 184_211, "lag_records": 9, "lag_ms": 35},
    ],
    "why": None,
    "last_change": CHANGE | {"cause": "isr_expanded", "actor": "broker:1", "reason": None},
}
BLOCKED_PARTITION: Final = PARTITION | {
    "state": "leaderless",
    "leader": None,
    "isr": [],
    "elr": [3],
    "last_known_leader": 3,
    "log_start_offset": None,
    "log_end_offset": None,
    "high_watermark": None,
    "size_bytes": None,
    "followers": [],
    "why": (
        "broker 1: was not in sync when the last leader left: it may lack acknowledged records; "
        "broker 2: was not in sync when the last leader left: it may lack acknowledged records; "
        "broker 3: holds every acknowledged record but is down: it leads as soon as it is back with its disks"
    ),
    "last_change": CHANGE | {"cause": "broker_died", "actor": "controller", "reason": None},
}
BROKER: Final[dict[str, Any]] = {
    "broker_id": 1,
    "state": "active",
    "cordoned": False,
    "draining": False,
    "drained": False,
    "demoted": False,
    "endpoint": "store1:9092",
    "listeners": [],
    "rack": "r1",
    "assigned_rack": None,
    "labels": {"owner": "storage"},
    "broker_epoch": 3,
    "incarnation_id": "31437a3ed479e777232fedf92bd173c3",
    "log_dirs": ["75dkAqssMq6mM-bxj8DJcw"],
    "offline_log_dirs": [],
    "workers": [],
    "disk_free_bytes": 812_000_000_000,
    "disk_total_bytes": 1_000_000_000_000,
    "last_shutdown": "clean",
    "version": "0.1.0",
    "registered_at": "2026-11-21T08:00:12.433Z",
    "replicas": 12,
    "leaders": 4,
    "last_change": CHANGE | {"cause": "broker_unfenced", "actor": "controller", "reason": None},
}


def links(*, moves: bool = True, has_begun: bool = True, has_ended: bool = False) -> dict[str, str | None]:
    """Return the links of the operation. moves: whether it moves replicas."""
    path = f"/operations/{OPERATION_ID}"
    return {
        "self": path,
        "events": None if has_ended else f"{path}/events",
        "moves": f"{path}/moves" if moves else None,
        "receipt": f"{path}/receipt" if has_begun else None,
        "audit": f"/audit?operation={OPERATION_ID}",
    }


OPERATION: Final[dict[str, Any]] = {
    "id": OPERATION_ID,
    "kind": "broker_add",
    "cluster": "prod",
    "state": "preflight",
    "created_at": "2026-11-21T09:30:00.000Z",
    "started_at": None,
    "finished_at": None,
    "deadline_at": "2026-11-21T09:40:00.000Z",
    "actor": "alice",
    "reason": "capacity for Q4",
    "request_id": REQUEST_ID,
    "plan_id": None,
    "spec": {
        "brokers": [{"broker_id": 4, "host": "store4", "port": 9092, "rack": "r2", "replaces": None}],
        "mode": "new_only",
        "moves": {
            "throttle_bytes_per_s": 50_000_000,
            "max_concurrent_moves": 5,
            "not_before_ms": None,
            "window": None,
        },
    },
    "steps": [
        {"name": "preflight", "state": "running"},
        {"name": "register", "state": "pending"},
        {"name": "plan", "state": "pending"},
        {"name": "move", "state": "pending"},
        {"name": "elect", "state": "pending"},
    ],
    "progress": {
        "moves_total": None,
        "moves_done": None,
        "bytes_total": None,
        "bytes_done": None,
        "rate_bytes_per_s": None,
        "eta": None,
        "throttle_bytes_per_s": None,
    },
    "blocked": [
        {
            "code": "broker_unreachable",
            "detail": "broker 4 has not registered yet: start `dataplane serve` at store4:9092",
            "broker_id": 4,
            "topic": None,
            "partition": None,
        }
    ],
    "refused": [],
    "error": None,
    "summary": None,
    "links": links(has_begun=False),
}


class Shown(NamedTuple):
    """One example. name: unique among those of its answer. summary: what the reader chooses it by."""

    name: str
    summary: str
    value: dict[str, Any]


def items(*items: dict[str, Any]) -> dict[str, Any]:
    return {"items": list(items), "next_page_token": None}
