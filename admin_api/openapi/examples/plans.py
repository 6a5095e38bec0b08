"""Answers about plans of `prod`, and of operations that carry one out: broker 3 is drained. They continue the
example of values.py."""

from __future__ import annotations

from typing import Any, Final

from admin_api.openapi.examples.story import OPERATION, TOPIC_ID, Shown, items, links

PLAN_ID: Final = "plan_TvcWIsqjfPWJhZaHEmdumg"
_HASH: Final = "5d41402abc4b2a76b9719d911017c592ae2f7e5d8b1f0e1f3c2a4b5c6d7e8f90"
_LEVEL: Final = {"lowest": 12, "highest": 12, "total": 36, "brokers": 3, "skew": 0.0}
_LEVELS: Final = {"replicas": _LEVEL, "leaders": _LEVEL, "bytes": _LEVEL, "crowded": 0, "loads": None}
_MOVE: Final = {
    "position": 0,
    "topic": "orders",
    "topic_id": TOPIC_ID,
    "partition": 0,
    "partition_epoch": 17,
    "replicas_before": [1, 2, 3],
    "replicas_after": [1, 2, 4],
    "reasons": ["drain"],
    "bytes": 402_653_184,
    "size_bytes": 402_653_184,
    "gain": 2,
}
_GOAL: Final = {"kind": "drain", "broker_ids": [3]}
_PLAN: Final[dict[str, Any]] = {
    "id": PLAN_ID,
    "cluster": "prod",
    "goal": _GOAL,
    "outcome": "ready",
    "content_hash": _HASH,
    "totals": {
        "moves": 1,
        "copies": 1,
        "bytes": 402_653_184,
        "bytes_least": 402_653_184,
        "unknown_sizes": 0,
    },
    "before": _LEVELS,
    "after": _LEVELS,
    "curve": [{"percent": 100, "moves": 1, "bytes": 402_653_184}],
    "moves": [_MOVE],
    "rejections": [],
    "skipped": [],
    "worst_slack": {"slack": 1, "topic": "orders", "partition": 0},
    "unknown_room": [],
    "destinations": None,
    "policies": [{"name": "prod_rf3", "ok": True, "error": None, "columns": [], "rows": [], "rows_total": 0}],
    "approval": None,
    "created_at": "2026-11-21T09:30:00.000Z",
    "expires_at": "2026-11-22T09:30:00.000Z",
    "actor": "alice",
    "reason": "store3 is to be replaced",
    "operation_id": None,
}
_DRY: Final = _PLAN | {
    "id": None,
    "created_at": None,
    "expires_at": None,
    "actor": None,
    "reason": None,
}
_SUMMARY: Final = {
    name: _PLAN[name]
    for name in (
        "id",
        "cluster",
        "goal",
        "outcome",
        "content_hash",
        "created_at",
        "expires_at",
        "actor",
        "reason",
        "operation_id",
    )
} | {"kind": "drain", "moves": 1, "bytes": 402_653_184}
_EXECUTION: Final = OPERATION | {
    "links": links(),
    "kind": "plan_execution",
    "state": "running",
    "started_at": "2026-11-21T09:31:00.000Z",
    "finished_at": None,
    "reason": "store3 is to be replaced",
    "plan_id": PLAN_ID,
    "spec": {"plan_id": PLAN_ID, "undoes": None},
    "steps": [{"name": "move", "state": "running"}, {"name": "elect", "state": "pending"}],
    "progress": OPERATION["progress"]
    | {
        "moves_total": 1,
        "moves_done": 0,
        "bytes_total": 402_653_184,
        "bytes_done": 201_326_592,
        "rate_bytes_per_s": 50_000_000,
        "eta": {"p50_ms": 4_027, "p90_ms": 5_033},
        "throttle_bytes_per_s": 50_000_000,
    },
    "blocked": [],
}
_SCHEDULED: Final = _EXECUTION | {
    "links": links(has_begun=False),
    "state": "scheduled",
    "started_at": None,
    "steps": [{"name": "move", "state": "pending"}, {"name": "elect", "state": "pending"}],
}
_UNDO: Final = _EXECUTION | {
    "reason": "store3 is to be kept after all",
    "spec": {"plan_id": PLAN_ID, "undoes": "op_F9cmqsT9jBmxJpt6iz7Ngw"},
}
_MOVING: Final = {
    "plan_id": PLAN_ID,
    "position": 0,
    "topic": "orders",
    "topic_id": TOPIC_ID,
    "partition": 0,
    "replicas_before": [1, 2, 3],
    "replicas_after": [1, 2, 4],
    "fate": "moving",
    "detail": None,
    "bytes": 402_653_184,
    "copied_bytes": 201_326_592,
    "remaining_bytes": 201_326_592,
    "rate_bytes_per_s": 50_000_000,
    "eta": {"p50_ms": 4_027, "p90_ms": 5_033},
    "blocked": None,
    "begun_at": "2026-11-21T09:31:00.000Z",
    "ended_at": None,
}
_BACK: Final = _DRY | {
    "goal": {
        "kind": "assign",
        "assignments": [{"topic_id": TOPIC_ID, "partition": 0, "replicas": [1, 2, 3]}],
    },
    "moves": [
        _MOVE
        | {
            "partition_epoch": 19,
            "replicas_before": [1, 2, 4],
            "replicas_after": [1, 2, 3],
            "reasons": ["by_hand"],
        }
    ],
}

#: By operation id and status.
_REBALANCE: Final = _DRY | {
    "goal": {"kind": "rebalance", "mode": "new_only", "new_broker_ids": [4]},
    "moves": [_MOVE | {"reasons": ["balance"]}],
}
_ADDITION: Final[dict[str, Any]] = {
    "brokers": [4],
    "moves": 1,
    "bytes": 402_653_184,
    "warnings": ["the controller can't connect to broker 4 at store4:9092"],
    "checks": [
        {
            "broker_id": 4,
            "name": "listener",
            "state": "failed",
            "code": "listener_unreachable",
            "detail": "the controller can't connect to broker 4 at store4:9092",
        },
        {
            "broker_id": 4,
            "name": "disk_flush",
            "state": "passed",
            "code": "",
            "detail": "812 us for a small append, 1904 at most",
        },
    ],
    "plans": [_REBALANCE],
}
_DRAIN: Final = _EXECUTION | {
    "kind": "broker_drain",
    "spec": {
        "broker_id": 3,
        "moves": {
            "throttle_bytes_per_s": 50_000_000,
            "max_concurrent_moves": 50,
            "not_before_ms": None,
            "window": None,
        },
    },
    "steps": [
        {"name": "mark", "state": "succeeded"},
        {"name": "plan", "state": "succeeded"},
        {"name": "move", "state": "running"},
        {"name": "elect", "state": "pending"},
    ],
}

PLANS: Final[dict[tuple[str, int], tuple[Shown, ...]]] = {
    ("addBrokers", 200): (Shown("dry_run", "What is open, and what would be moved", _ADDITION),),
    ("drainBroker", 202): (Shown("moving", "Broker 3 is being emptied", _DRAIN),),
    ("drainBroker", 200): (Shown("dry_run", "What emptying broker 3 takes", _DRY),),
    ("listPlans", 200): (Shown("one", "It waits to be executed", items(_SUMMARY)),),
    ("makePlan", 201): (Shown("drain", "What emptying broker 3 takes", _PLAN),),
    ("makePlan", 200): (Shown("dry_run", "The same, and it is not kept", _DRY),),
    ("getPlan", 200): (Shown("drain", "As it was made", _PLAN),),
    ("listPlannedMoves", 200): (Shown("one", "The one that pays most comes first", items(_MOVE)),),
    ("executePlan", 202): (
        Shown("accepted", "It is on its way", _EXECUTION),
        Shown("scheduled", "It begins in the night", _SCHEDULED),
    ),
    ("executePlan", 200): (Shown("dry_run", "Nothing has drifted", _PLAN),),
    ("pauseOperation", 200): (Shown("paused", "It begins nothing new", _EXECUTION | {"state": "paused"}),),
    ("resumeOperation", 200): (Shown("resumed", "It goes on", _EXECUTION),),
    ("listMoves", 200): (Shown("moving", "Half of it is copied", items(_MOVING)),),
    ("undoOperation", 202): (Shown("accepted", "What it moved goes back", _UNDO),),
    ("undoOperation", 200): (Shown("dry_run", "What that would copy", _BACK),),
}
