"""Answers to changes of `prod`: brokers under maintenance, settings, reassignments, verifications. They
continue the example of values.py."""

from __future__ import annotations

from typing import Any, Final

from admin_api.openapi.examples.story import (
    BROKER,
    OPERATION,
    PARTITION,
    TOPIC,
    TOPIC_ID,
    Shown,
    items,
    links,
)

_DONE: Final = {
    "started_at": "2026-11-21T09:30:00.000Z",
    "finished_at": "2026-11-21T09:30:00.041Z",
    "blocked": [],
}
_DEMOTION: Final = (
    OPERATION
    | _DONE
    | {
        "kind": "broker_demote",
        "links": links(moves=False),
        "state": "running",
        "finished_at": None,
        "reason": "a new kernel for store1",
        "spec": {"broker_id": 1},
        "steps": [{"name": "mark", "state": "succeeded"}, {"name": "hand_over", "state": "running"}],
        "blocked": [
            {
                "code": "no_other_leader",
                "detail": "orders-3: no other replica in sync may lead",
                "broker_id": None,
                "topic": "orders",
                "partition": 3,
            }
        ],
    }
)
_RETURN: Final = (
    OPERATION
    | _DONE
    | {
        "kind": "broker_return",
        "links": links(moves=False, has_ended=True),
        "state": "succeeded",
        "reason": "the new kernel runs",
        "spec": {"broker_id": 1},
        "steps": [{"name": "unmark", "state": "succeeded"}],
        "summary": (
            "broker 1 takes replicas and leads again; "
            "partitions that prefer it get it back as their leader by themselves"
        ),
    }
)
_ELECTIONS: Final = (
    OPERATION
    | _DONE
    | {
        "kind": "preferred_election",
        "links": links(moves=False, has_ended=True),
        "state": "succeeded",
        "reason": "after maintenance of store1",
        "spec": {"elected": 4, "refused": 0},
        "steps": [{"name": "elect", "state": "succeeded"}],
        "summary": "4 partitions have their preferred leader back",
    }
)
_REFUSED: Final = {
    "topic": "orders",
    "partition": 3,
    "code": "ineligible_broker",
    "detail": "broker 1 is not in sync and live",
}
_GROWTH: Final = (
    OPERATION
    | _DONE
    | {
        "kind": "partitions_add",
        "links": links(moves=False),
        "state": "running",
        "finished_at": None,
        "reason": "twice as many consumers",
        "spec": {"topic": "orders", "topic_id": TOPIC_ID, "partitions": 24},
        "steps": [{"name": "write", "state": "succeeded"}, {"name": "create_replicas", "state": "running"}],
    }
)
_REASSIGNMENT: Final = (
    OPERATION
    | _DONE
    | {
        "kind": "reassignment",
        "links": links(),
        "state": "running",
        "finished_at": None,
        "reason": "store1 is to be replaced",
        "spec": {
            "moves": [
                {
                    "topic": "orders",
                    "topic_id": TOPIC_ID,
                    "partition": 0,
                    "original": [1, 2, 3],
                    "replicas": [4, 2, 3],
                }
            ]
        },
        "steps": [{"name": "assign", "state": "succeeded"}, {"name": "move", "state": "running"}],
        "progress": {
            "moves_total": 1,
            "moves_done": 0,
            "bytes_total": 402_653_184,
            "bytes_done": 201_326_592,
            "rate_bytes_per_s": 48_000_000,
            "eta": {"p50_ms": 4_300, "p90_ms": 5_100},
            "throttle_bytes_per_s": 50_000_000,
        },
    }
)
_CANCELLATION: Final = (
    OPERATION
    | _DONE
    | {
        "kind": "reassignment_cancel",
        "links": links(moves=False, has_ended=True),
        "state": "succeeded",
        "reason": "clients time out",
        "spec": {"topic": "orders", "partition": 0, "replicas": [1, 2, 3]},
        "steps": [{"name": "roll_back", "state": "succeeded"}],
        "summary": "orders-0 is on brokers 1, 2, 3 again",
    }
)
_LEARNER: Final = {
    "broker_id": 4,
    "is_learner": True,
    "in_sync": False,
    "log_end_offset": 92_110,
    "lag_records": 92_110,
    "copied_bytes": 201_326_592,
    "remaining_bytes": 201_326_592,
    "rate_bytes_per_s": 48_000_000,
    "eta": {"p50_ms": 4_300, "p90_ms": 5_100},
    "throttle_bytes_per_s": 50_000_000,
}
_IN_SYNC: Final = dict.fromkeys(_LEARNER) | {
    "is_learner": False,
    "in_sync": True,
    "log_end_offset": 184_220,
    "lag_records": 0,
}
_MOVING: Final = {
    "topic": "orders",
    "topic_id": TOPIC_ID,
    "partition": 0,
    "partition_epoch": 18,
    "original_replicas": [1, 2, 3],
    "target_replicas": [4, 2, 3],
    "adding_replicas": [4],
    "removing_replicas": [1],
    "targets": [
        _LEARNER,
        _IN_SYNC | {"broker_id": 2},
        _IN_SYNC | {"broker_id": 3},
    ],
    "targets_in_sync": 2,
    "copied_bytes": 201_326_592,
    "remaining_bytes": 201_326_592,
    "size_bytes": 402_653_184,
    "blocked": None,
    "operation_id": OPERATION["id"],
}
_STUCK: Final = _MOVING | {"blocked": {"code": "target_offline", "detail": "broker 4 is fenced"}}
_PARTITION_MOVING: Final = PARTITION | {
    "partition_epoch": 18,
    "preferred_leader": 4,
    "replicas": [4, 2, 3, 1],
    "isr": [2, 3, 1],
    "adding_replicas": [4],
    "removing_replicas": [1],
    "log_start_offset": None,
    "log_end_offset": None,
    "high_watermark": None,
    "size_bytes": None,
    "followers": [],
    "last_change": None,
}
_MINIMUM: Final = {
    "name": "min.insync.replicas",
    "value": "2",
    "source": "topic",
    "default": "2",
    "cluster_config": "min.insync.replicas",
    "is_read_only": False,
    "note": None,
}
_RETENTION: Final = {
    "name": "retention.ms",
    "value": "604800000",
    "source": "default",
    "default": "604800000",
    "cluster_config": "log.retention.ms",
    "is_read_only": False,
    "note": None,
}

_RATE: Final = {
    "name": "follower.replication.throttled.rate",
    "value": "50000000",
    "source": "broker",
    "default": None,
    "cluster_config": "follower.replication.throttled.rate",
    "is_read_only": False,
    "note": None,
}
_FACTOR: Final = {
    "name": "default.replication.factor",
    "value": "3",
    "source": "cluster",
    "default": "3",
    "cluster_config": None,
    "is_read_only": False,
    "note": None,
}

#: Examples by operation id and status.
CHANGES: Final[dict[tuple[str, int], tuple[Shown, ...]]] = {
    ("changeBroker", 200): (Shown("cordoned", "It gets no new replicas", BROKER | {"cordoned": True}),),
    ("removeBroker", 200): (
        Shown(
            "removed",
            "It held nothing",
            BROKER | {"broker_id": 4, "state": "fenced", "replicas": 0, "leaders": 0},
        ),
    ),
    ("demoteBroker", 202): (Shown("waits", "A partition has no other replica in sync", _DEMOTION),),
    ("demoteBroker", 200): (
        Shown(
            "dry_run",
            "What would move",
            {
                "broker": BROKER | {"demoted": True},
                "leaders_moved": 3,
                "warnings": ["1 partitions have no other replica in sync that may lead"],
            },
        ),
    ),
    ("returnBroker", 202): (Shown("done", "It may lead again", _RETURN),),
    ("returnBroker", 200): (
        Shown("dry_run", "The broker as it would be", {"broker": BROKER, "leaders_moved": 0, "warnings": []}),
    ),
    ("electPreferredLeaders", 202): (
        Shown("done", "All have theirs back", _ELECTIONS),
        Shown(
            "refused",
            "One is not in sync yet",
            _ELECTIONS
            | {
                "state": "failed",
                "spec": {"elected": 3, "refused": 1},
                "steps": [{"name": "elect", "state": "failed"}],
                "refused": [_REFUSED],
                "error": {
                    "code": "elections_refused",
                    "detail": "1 were refused: orders-3: broker 1 is not in sync and live",
                },
                "summary": "3 partitions have their preferred leader back",
            },
        ),
    ),
    ("electPreferredLeaders", 200): (
        Shown(
            "dry_run",
            "Who would lead",
            {
                "elected": [{"topic": "orders", "partition": 0, "leader": 1, "leader_epoch": 5}],
                "refused": [_REFUSED],
            },
        ),
    ),
    ("changeTopic", 202): (Shown("accepted", "Brokers create the replicas", _GROWTH),),
    ("changeTopic", 200): (
        Shown(
            "dry_run",
            "Where the new one would be",
            {
                "topic": TOPIC | {"partitions": 13, "last_change": None},
                "assignments": [{"partition": 12, "replicas": [2, 3, 1]}],
            },
        ),
    ),
    ("listTopicConfigs", 200): (Shown("two", "One set, one left alone", items(_MINIMUM, _RETENTION)),),
    ("getTopicConfig", 200): (Shown("set", "Set for the topic", _MINIMUM),),
    ("setTopicConfig", 200): (Shown("set", "As it is now", _MINIMUM),),
    ("unsetTopicConfig", 200): (Shown("unset", "The default applies", _RETENTION),),
    ("alterTopicConfigs", 200): (Shown("altered", "One set, one unset", {"items": [_MINIMUM, _RETENTION]}),),
    ("listBrokerConfigs", 200): (Shown("throttle", "A throttle of its own", items(_RATE)),),
    ("getBrokerConfig", 200): (Shown("set", "Set for the broker", _RATE),),
    ("setBrokerConfig", 200): (Shown("set", "As it is now", _RATE),),
    ("unsetBrokerConfig", 200): (
        Shown("unset", "Nothing bounds it", _RATE | {"value": None, "source": "default"}),
    ),
    ("alterBrokerConfigs", 200): (Shown("altered", "As it is now", {"items": [_RATE]}),),
    ("listClusterConfigs", 200): (Shown("factor", "A default of topics", items(_FACTOR)),),
    ("getClusterConfig", 200): (Shown("set", "Set for the cluster", _FACTOR),),
    ("setClusterConfig", 200): (Shown("set", "As it is now", _FACTOR),),
    ("unsetClusterConfig", 200): (Shown("unset", "Ours applies", _FACTOR | {"source": "default"}),),
    ("alterClusterConfigs", 200): (Shown("altered", "As it is now", {"items": [_FACTOR]}),),
    ("assignPartition", 202): (Shown("accepted", "It is on its way", _REASSIGNMENT),),
    ("assignPartition", 200): (
        Shown(
            "dry_run",
            "What would be copied",
            {"partition": _PARTITION_MOVING, "bytes_to_copy": 402_653_184},
        ),
    ),
    ("cancelReassignment", 202): (Shown("done", "The original replicas are back", _CANCELLATION),),
    ("cancelReassignment", 200): (
        Shown(
            "dry_run",
            "The partition as it would be",
            {
                "partition": _PARTITION_MOVING
                | {
                    "partition_epoch": 19,
                    "preferred_leader": 1,
                    "replicas": [1, 2, 3],
                    "isr": [1, 2, 3],
                    "adding_replicas": [],
                    "removing_replicas": [],
                },
                "bytes_to_copy": 0,
            },
        ),
    ),
    ("listReassignments", 200): (
        Shown("moving", "Half of it is copied", items(_MOVING)),
        Shown("blocked", "Its target is down", items(_STUCK)),
    ),
    ("changeOperation", 200): (Shown("throttled", "It copies slower now", _REASSIGNMENT),),
    ("cancelOperation", 202): (Shown("accepted", "It is undone", _REASSIGNMENT | {"state": "cancelling"}),),
    ("cancelOperation", 200): (Shown("dry_run", "As it would be", _REASSIGNMENT | {"state": "cancelling"}),),
}


_SUMMARY: Final[dict[str, Any]] = {
    "id": "ver_Zk1lV0pCTEq4nY6mXw2v3A",
    "cluster": "prod",
    "verdict": "damaged",
    "began_at": "2026-11-21T02:00:00.000Z",
    "ended_at": "2026-11-21T02:01:52.000Z",
    "recorded_at": "2026-11-21T02:01:52.100Z",
    "topics": 1,
    "partitions_total": 12,
    "batches": 1_200_000,
    "records": 24_000_000,
    "bytes": 4_831_838_208,
    "compared_bytes": 14_495_514_624,
    "findings_total": 1,
    "findings_kept": 1,
    "actor": "alice",
    "reason": "nightly",
}
_VERIFICATION: Final = _SUMMARY | {
    "partitions": [
        {
            "topic": "orders",
            "partition": 0,
            "first_offset": 0,
            "next_offset": 2_000_000,
            "records": 2_000_000,
            "findings": 1,
        }
    ]
}
_FINDING: Final = {
    "position": 0,
    "kind": "crc_mismatch",
    "topic": "orders",
    "partition": 0,
    "broker_id": 3,
    "first_offset": 1_204_960,
    "last_offset": 1_204_979,
    "batches": 1,
    "detail": "stored CRC 1c6e0d58, the bytes have 77e1a9f0",
}

#: By operation id and status.
VERIFICATIONS: Final[dict[tuple[str, int], tuple[Shown, ...]]] = {
    ("listVerifications", 200): (Shown("one", "A bit has flipped", items(_SUMMARY)),),
    ("recordVerification", 201): (Shown("damaged", "A bit has flipped", _VERIFICATION),),
    ("recordVerification", 200): (Shown("dry_run", "What would be kept", _VERIFICATION),),
    ("getVerification", 200): (Shown("damaged", "A bit has flipped", _VERIFICATION),),
    ("listFindings", 200): (Shown("one", "On broker 3, in one batch", items(_FINDING)),),
}
