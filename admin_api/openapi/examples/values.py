"""Answers by operation and status, from one example: `prod` has three brokers and a topic `orders`, and alice
adds a fourth broker. A test checks each against the model of its route."""

from __future__ import annotations

from typing import Final

from admin_api.openapi.examples.changes import CHANGES, VERIFICATIONS
from admin_api.openapi.examples.coordinators import COORDINATORS
from admin_api.openapi.examples.groups import GROUPS
from admin_api.openapi.examples.plans import PLANS
from admin_api.openapi.examples.security import SECURITY
from admin_api.openapi.examples.story import (
    BLOCKED_PARTITION,
    BROKER,
    CLUSTER,
    EMPTY_CLUSTER,
    OPERATION,
    PARTITION,
    TOPIC,
    TOPIC_ID,
    URL,
    Shown,
    items,
    links,
)

_FINISHED: Final = OPERATION | {
    "links": links(has_ended=True),
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
_DELETION: Final = OPERATION | {
    "links": links(moves=False),
    "kind": "topic_delete",
    "state": "running",
    "started_at": "2026-11-21T09:30:00.000Z",
    "reason": "replaced by orders-v2",
    "spec": {"topic": "orders", "topic_id": TOPIC_ID},
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
_ELECTION: Final = OPERATION | {
    "links": links(moves=False, has_ended=True),
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
_LOSS: Final = {
    "topic": "orders",
    "partition": 0,
    "partition_epoch": 17,
    "unheard": [3],
    "last_leader": 3,
    "last_log_end_offset": 120_000,
    "last_high_watermark": 119_990,
    "known_committed": 119_990,
    "way_out": "bring back broker 3 with its disk: it held every acknowledged record, and leads by itself "
    "unless its log falls short",
    "least": 1,
    "candidates": [
        {
            "broker_id": 1,
            "standing": "behind",
            "broker_status": "active",
            "may_lead": True,
            "last_leader_epoch": 4,
            "log_start_offset": 0,
            "log_end_offset": 119_970,
            "high_watermark": 119_950,
            "lost_records": 30,
            "lost_committed": 20,
            "held_elsewhere": [],
        },
        {
            "broker_id": 2,
            "standing": "behind",
            "broker_status": "active",
            "may_lead": True,
            "last_leader_epoch": 4,
            "log_start_offset": 0,
            "log_end_offset": 119_800,
            "high_watermark": 119_790,
            "lost_records": 200,
            "lost_committed": 190,
            "held_elsewhere": [
                {
                    "broker_id": 1,
                    "first_offset": 119_800,
                    "next_offset": 119_970,
                    "records": 170,
                    "committed": 170,
                    "is_exact": True,
                }
            ],
        },
        {
            "broker_id": 3,
            "standing": "eligible",
            "broker_status": "fenced",
            "may_lead": False,
            "last_leader_epoch": None,
            "log_start_offset": None,
            "log_end_offset": None,
            "high_watermark": None,
            "lost_records": None,
            "lost_committed": None,
            "held_elsewhere": [],
        },
    ],
}
_ROW: Final = {
    "id": 1_204,
    "cluster": "prod",
    "seq": 1_180,
    "kind": "change",
    "entity": "partition",
    "entity_id": f"{TOPIC_ID}/0",
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
    "topic_id": TOPIC_ID,
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
    "unknown": 0,
    "lag_records": 21,
    "lag_records_max": 9,
    "lag_ms_max": 35,
    "farthest_topic": "orders",
    "farthest_partition": 0,
}


#: Examples by operation id and status.
ANSWERS: Final[dict[tuple[str, int], tuple[Shown, ...]]] = {
    ("createCluster", 201): (Shown("created", "The new cluster", EMPTY_CLUSTER),),
    ("createCluster", 200): (Shown("dry_run", "What would be created", EMPTY_CLUSTER),),
    ("listClusters", 200): (
        Shown("one", "One cluster", items(CLUSTER | {"resilience": None, "skew": None})),
    ),
    ("getCluster", 200): (Shown("well", "All is well", CLUSTER),),
    ("listAlarms", 200): (
        Shown(
            "broker_down",
            "A broker is down",
            items(
                {
                    "code": "broker_fenced",
                    "topic": None,
                    "topic_id": None,
                    "partition": None,
                    "broker_id": 3,
                    "group_id": None,
                    "detail": "broker 3 refuses connections: its process is dead",
                }
            )
            | {"counts": {"broker_fenced": 1}},
        ),
        Shown("none", "Nothing is wrong", items() | {"counts": {}}),
    ),
    ("listMissingTopics", 200): (
        Shown(
            "one",
            "An application that waits",
            items(
                {
                    "topic": "lines",
                    "asked": 42,
                    "since": "2026-11-21T09:30:00.000Z",
                    "last_asked": "2026-11-21T09:36:40.250Z",
                    "clients": [{"client_id": "rsyslog", "software": "librdkafka 2.6.1"}],
                    "nodes": [1, 2],
                }
            ),
        ),
    ),
    ("addBrokers", 202): (Shown("accepted", "It waits for its broker", OPERATION),),
    ("listBrokers", 200): (
        Shown(
            "two",
            "One active, one waiting to be added",
            items(
                BROKER,
                BROKER
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
    ("getBroker", 200): (Shown("active", "An active broker", BROKER),),
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
                    "creating": 0,
                    "online": 12,
                },
                "brokers": [_CARRIED],
            },
        ),
    ),
    ("createTopic", 201): (Shown("created", "The new topic", TOPIC),),
    ("createTopicInCluster", 201): (Shown("created", "The new topic", TOPIC),),
    ("listTopics", 200): (Shown("one", "One topic", items(TOPIC)),),
    ("getTopic", 200): (Shown("well", "All partitions online", TOPIC),),
    ("deleteTopic", 202): (Shown("accepted", "It waits for a broker", _DELETION),),
    ("deleteTopic", 200): (
        Shown("dry_run", "What would be deleted", {"topic": TOPIC, "waits_for_brokers": [1, 2, 3]}),
    ),
    ("electLeader", 202): (Shown("elected", "The preferred leader leads", _ELECTION),),
    ("electLeader", 200): (
        Shown("dry_run", "The partition after the election", {"partition": PARTITION, "loss": None}),
    ),
    ("previewLoss", 200): (Shown("two_left", "Two of three tell; the last leader is lost", _LOSS),),
    ("listPartitions", 200): (Shown("one", "A partition that is well", items(PARTITION)),),
    ("listPartitionsOfCluster", 200): (
        Shown("worst_first", "One without a leader first", items(BLOCKED_PARTITION, PARTITION)),
    ),
    ("getPartition", 200): (
        Shown("well", "All replicas in sync", PARTITION),
        Shown("leaderless", "No leader, and why", BLOCKED_PARTITION),
    ),
    ("getAssignment", 200): (
        Shown(
            "then",
            "The placement at a time",
            {"as_of": "2026-11-21T09:30:00.000Z", "is_complete": True} | items(_PLACEMENT),
        ),
    ),
    ("listOperations", 200): (Shown("two", "One waits, one is done", items(OPERATION, _FINISHED)),),
    ("getOperation", 200): (
        Shown("waits", "It waits for its broker", OPERATION),
        Shown("done", "It is done", _FINISHED),
    ),
    ("listAudit", 200): (Shown("failover", "A failover", items(_ROW)),),
    ("getAuditRow", 200): (Shown("failover", "A failover", _ROW),),
    ("getHealth", 200): (Shown("ok", "It is alive", {"status": "ok"}),),
    ("getReadiness", 200): (
        Shown(
            "active",
            "The active controller",
            {
                "ready": True,
                "role": "active",
                "active_url": URL,
                "controller_epoch": 7,
                "read_only": False,
                "zookeeper": "ok",
                "sql": "ok",
                "sql_cause": None,
                "audit_outbox_depth": 0,
            },
        ),
    ),
    **CHANGES,
    **COORDINATORS,
    **GROUPS,
    **PLANS,
    **SECURITY,
    **VERIFICATIONS,
}
