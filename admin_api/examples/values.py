"""Answers by operation and status, of one story: `prod` has three brokers and a topic `orders`; alice adds a
fourth broker. A test holds each against the model of its route."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

_TOPIC_ID: Final = "Zk1lV0pCTEq4nY6mXw2v3A"
_OPERATION_ID: Final = "op_TvcWIsqjfPWJhZaHEmdumg"
_REQUEST_ID: Final = "F9cmqsT9jBmxJpt6iz7Ngw"
_URL: Final = "http://controller1:8080"
_REASON: Final = "the shop opens on Monday"

_CHANGE: Final = {
    "cause": "topic_created",
    "actor": "alice",
    "at": "2026-11-21T09:30:00.000Z",
    "reason": _REASON,
    "request_id": _REQUEST_ID,
    "operation_id": None,
}
_HARM: Final = {
    "leaderless": 0,
    "recovering": 0,
    "under_min_isr": 0,
    "under_replicated": 12,
    "stops_acks_all": 0,
}
_CLUSTER: Final[dict[str, Any]] = {
    "name": "prod",
    "cluster_id": "Hn5gk2bTRkKZb0mYl8Q1uw",
    "health": "ok",
    "configs": {"default.replication.factor": "3"},
    "brokers": {"active": 3, "fenced": 0, "shutting_down": 0, "waiting": 1},
    "topics": 1,
    "partitions": {
        "total": 12,
        "leaderless": 0,
        "under_min_isr": 0,
        "under_replicated": 0,
        "leader_not_preferred": 0,
    },
    "controller": {"active_url": _URL, "epoch": 7},
    "resilience": {
        "broker": {"lose": "broker:3", "partitions": _HARM},
        "host": None,
        "rack": {"lose": "rack:r1", "partitions": _HARM},
    },
    "last_change": _CHANGE | {"cause": "cluster_created", "reason": "the first production cluster"},
}
_EMPTY_CLUSTER: Final = _CLUSTER | {
    "brokers": {"active": 0, "fenced": 0, "shutting_down": 0, "waiting": 0},
    "topics": 0,
    "partitions": dict.fromkeys(_CLUSTER["partitions"], 0),
    "resilience": {"broker": None, "host": None, "rack": None},
}
_TOPIC: Final = {
    "name": "orders",
    "topic_id": _TOPIC_ID,
    "cluster": "prod",
    "state": "online",
    "partitions": 12,
    "replication_factor": 3,
    "min_insync_replicas": 2,
    "tolerates_broker_losses": 1,
    "online_partitions": 12,
    "under_replicated_partitions": 0,
    "under_min_isr_partitions": 0,
    "configs": {"min.insync.replicas": "2"},
    "last_change": _CHANGE,
}
_PARTITION: Final = {
    "topic": "orders",
    "topic_id": _TOPIC_ID,
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
    "last_change": _CHANGE | {"cause": "isr_expanded", "actor": "broker:1", "reason": None},
}
_BLOCKED_PARTITION: Final = _PARTITION | {
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
    "last_change": _CHANGE | {"cause": "broker_died", "actor": "controller", "reason": None},
}
_BROKER: Final = {
    "broker_id": 1,
    "state": "active",
    "endpoint": "store1:9092",
    "rack": "r1",
    "broker_epoch": 3,
    "incarnation_id": "31437a3ed479e777232fedf92bd173c3",
    "log_dirs": ["75dkAqssMq6mM-bxj8DJcw"],
    "offline_log_dirs": [],
    "last_shutdown": "clean",
    "version": "0.1.0",
    "registered_at": "2026-11-21T08:00:12.433Z",
    "replicas": 12,
    "leaders": 4,
    "last_change": _CHANGE | {"cause": "broker_unfenced", "actor": "controller", "reason": None},
}
_OPERATION: Final = {
    "id": _OPERATION_ID,
    "kind": "broker_add",
    "cluster": "prod",
    "state": "preflight",
    "created_at": "2026-11-21T09:30:00.000Z",
    "started_at": None,
    "finished_at": None,
    "deadline_at": "2026-11-21T09:40:00.000Z",
    "actor": "alice",
    "reason": "capacity for Q4",
    "request_id": _REQUEST_ID,
    "plan_id": None,
    "spec": {
        "brokers": [{"broker_id": 4, "host": "store4", "port": 9092, "rack": "r2"}],
        "mode": "new_only",
    },
    "steps": [
        {"name": "preflight", "state": "running"},
        {"name": "register", "state": "pending"},
        {"name": "plan", "state": "skipped"},
        {"name": "move", "state": "skipped"},
        {"name": "elect", "state": "skipped"},
    ],
    "progress": {"moves_total": None, "moves_done": None, "bytes_total": None, "bytes_done": None},
    "blocked": [
        {
            "code": "broker_unreachable",
            "detail": "broker 4 has not registered yet: start `dataplane serve` at store4:9092",
            "broker_id": 4,
            "topic": None,
            "partition": None,
        }
    ],
    "error": None,
    "summary": None,
    "links": {"self": f"/operations/{_OPERATION_ID}", "audit": f"/audit?operation={_OPERATION_ID}"},
}
_FINISHED: Final = _OPERATION | {
    "state": "succeeded",
    "started_at": "2026-11-21T09:31:04.120Z",
    "finished_at": "2026-11-21T09:31:04.310Z",
    "steps": [
        {"name": "preflight", "state": "succeeded"},
        {"name": "register", "state": "succeeded"},
        {"name": "plan", "state": "skipped"},
        {"name": "move", "state": "skipped"},
        {"name": "elect", "state": "skipped"},
    ],
    "blocked": [],
    "summary": "broker 4 is active; no data was moved",
}
_DELETION: Final = _OPERATION | {
    "kind": "topic_delete",
    "state": "running",
    "started_at": "2026-11-21T09:30:00.000Z",
    "reason": "replaced by orders-v2",
    "spec": {"topic": "orders", "topic_id": _TOPIC_ID},
    "steps": [{"name": "delete", "state": "running"}],
    "blocked": [
        {
            "code": "replica_unreachable",
            "detail": "broker 3 is down: it deletes its replicas when it is back",
            "broker_id": 3,
            "topic": "orders",
            "partition": None,
        }
    ],
}
_ELECTION: Final = _OPERATION | {
    "kind": "leader_election",
    "state": "succeeded",
    "started_at": "2026-11-21T09:30:00.000Z",
    "finished_at": "2026-11-21T09:30:00.041Z",
    "reason": "after maintenance of store1",
    "spec": {"topic": "orders", "partition": 0, "election": "preferred", "leader": 1, "leader_epoch": 5},
    "steps": [{"name": "elect", "state": "succeeded"}],
    "blocked": [],
    "summary": "broker 1 leads orders-0 in leader epoch 5",
}
_ROW: Final = {
    "id": 1_204,
    "cluster": "prod",
    "seq": 1_180,
    "kind": "change",
    "entity": "partition",
    "entity_id": f"{_TOPIC_ID}/0",
    "version": 18,
    "topic": "orders",
    "partition": 0,
    "brokers": [1, 2],
    "cause": "broker_died",
    "actor": "controller",
    "reason": "refuses connections: its process is dead",
    "request_id": None,
    "operation_id": None,
    "at": "2026-11-21T09:30:00.000Z",
    "recorded_at": "2026-11-21T09:30:00.012Z",
    "before": {"leader": 1, "leader_epoch": 4, "partition_epoch": 17, "isr": [1, 2, 3], "elr": []},
    "after": {"leader": 2, "leader_epoch": 5, "partition_epoch": 18, "isr": [2, 3], "elr": []},
    "controller_epoch": 7,
    "backfilled": False,
    "gap_before": False,
    "chain_position": 1_190,
    "previous_hash": "5412e218dfa194abf9bf13a97a3d1d1ee8b10af380311702e1cd09f172e33f40",
    "hash": "e775e4868baa7e3c479bd23436b80a57e780d4b0fa1367476753c28bedc4c30f",
    "outcome": None,
}
_PLACEMENT: Final = {
    "topic": "orders",
    "topic_id": _TOPIC_ID,
    "partition": 0,
    "replicas": [1, 2, 3],
    "adding_replicas": [],
    "removing_replicas": [],
    "leader": 1,
    "leader_epoch": 4,
    "partition_epoch": 17,
    "isr": [1, 2, 3],
    "elr": [],
    "changed_at": "2026-11-21T09:30:00.000Z",
    "audit_id": 1_180,
    "is_certain": True,
}
_CARRIED: Final = {
    "broker_id": 3,
    "replicas": 12,
    "leaders": 4,
    "preferred": 4,
    "out_of_sync": 0,
    "bytes": 4_831_838_208,
    "followed": 8,
    "lag_records": 21,
    "lag_records_max": 9,
    "lag_ms_max": 35,
    "farthest_topic": "orders",
    "farthest_partition": 0,
}


class Shown(NamedTuple):
    """One example. name: among those of its answer; summary: what the reader chooses it by."""

    name: str
    summary: str
    value: dict[str, Any]


def _items(*items: dict[str, Any]) -> dict[str, Any]:
    return {"items": list(items), "next_page_token": None}


#: By operation id and status.
ANSWERS: Final[dict[tuple[str, int], tuple[Shown, ...]]] = {
    ("createCluster", 201): (Shown("created", "The new cluster", _EMPTY_CLUSTER),),
    ("createCluster", 200): (Shown("dry_run", "What would be created", _EMPTY_CLUSTER),),
    ("listClusters", 200): (Shown("one", "One cluster", _items(_CLUSTER | {"resilience": None})),),
    ("getCluster", 200): (Shown("well", "All is well", _CLUSTER),),
    ("listAlarms", 200): (
        Shown(
            "broker_down",
            "A broker is down",
            _items(
                {
                    "code": "broker_fenced",
                    "topic": None,
                    "topic_id": None,
                    "partition": None,
                    "broker_id": 3,
                    "detail": "broker 3 refuses connections: its process is dead",
                }
            ),
        ),
        Shown("none", "Nothing is wrong", _items()),
    ),
    ("addBrokers", 202): (Shown("accepted", "It waits for its broker", _OPERATION),),
    ("addBrokers", 200): (
        Shown(
            "dry_run",
            "What would be done",
            {
                "brokers": [4],
                "moves": 0,
                "bytes": 0,
                "warnings": ["broker 4 has not registered yet: start it at store4:9092"],
            },
        ),
    ),
    ("listBrokers", 200): (
        Shown(
            "two",
            "One active, one waiting to be added",
            _items(
                _BROKER,
                _BROKER
                | {
                    "broker_id": 4,
                    "state": "waiting",
                    "endpoint": "store4:9092",
                    "rack": "r2",
                    "replicas": 0,
                    "leaders": 0,
                    "last_shutdown": "first_start",
                },
            ),
        ),
    ),
    ("getBroker", 200): (Shown("active", "An active broker", _BROKER),),
    ("getReplication", 200): (
        Shown(
            "well",
            "A follower 35 ms behind",
            {
                "cluster": "prod",
                "partitions": 12,
                "reported": 12,
                "states": {
                    "leaderless": 0,
                    "under_min_isr": 0,
                    "recovering": 0,
                    "under_replicated": 0,
                    "online": 12,
                },
                "brokers": [_CARRIED],
            },
        ),
    ),
    ("createTopic", 201): (Shown("created", "The new topic", _TOPIC),),
    ("createTopicInCluster", 201): (Shown("created", "The new topic", _TOPIC),),
    ("listTopics", 200): (Shown("one", "One topic", _items(_TOPIC)),),
    ("getTopic", 200): (Shown("well", "All partitions online", _TOPIC),),
    ("deleteTopic", 202): (Shown("accepted", "It waits for a broker", _DELETION),),
    ("deleteTopic", 200): (
        Shown("dry_run", "What would be deleted", {"topic": _TOPIC, "waits_for_brokers": [1, 2, 3]}),
    ),
    ("electLeader", 202): (Shown("elected", "The preferred leader leads", _ELECTION),),
    ("electLeader", 200): (Shown("dry_run", "The partition after the election", {"partition": _PARTITION}),),
    ("listPartitions", 200): (Shown("one", "A partition that is well", _items(_PARTITION)),),
    ("listPartitionsOfCluster", 200): (
        Shown("worst_first", "One without a leader first", _items(_BLOCKED_PARTITION, _PARTITION)),
    ),
    ("getPartition", 200): (
        Shown("well", "All replicas in sync", _PARTITION),
        Shown("leaderless", "No leader, and why", _BLOCKED_PARTITION),
    ),
    ("getAssignment", 200): (
        Shown(
            "then",
            "The placement at a time",
            {"as_of": "2026-11-21T09:30:00.000Z", "is_complete": True} | _items(_PLACEMENT),
        ),
    ),
    ("listOperations", 200): (Shown("two", "One waits, one is done", _items(_OPERATION, _FINISHED)),),
    ("getOperation", 200): (
        Shown("waits", "It waits for its broker", _OPERATION),
        Shown("done", "It is done", _FINISHED),
    ),
    ("listAudit", 200): (Shown("failover", "A failover", _items(_ROW)),),
    ("getAuditRow", 200): (Shown("failover", "A failover", _ROW),),
    ("getHealth", 200): (Shown("ok", "It is alive", {"status": "ok"}),),
    ("getReadiness", 200): (
        Shown(
            "active",
            "The active controller",
            {
                "ready": True,
                "role": "active",
                "active_url": _URL,
                "controller_epoch": 7,
                "read_only": False,
                "zookeeper": "ok",
                "sql": "ok",
                "audit_outbox_depth": 0,
            },
        ),
    ),
}
