"""One problem document for each code, as `prod` would answer with it."""

from __future__ import annotations

from typing import Any, Final

from admin_api.problem import CATALOGUE

#: (detail, facts, errors) of the problems that say more than their title.
_SAID: Final[dict[str, tuple[str, dict[str, Any], list[dict[str, Any]]]]] = {
    "unauthenticated": ("no token was sent", {}, []),
    "forbidden": (
        "this takes the role operator; the token of grafana has the role viewer",
        {"role": "viewer", "needed": "operator"},
        [],
    ),
    "read_only": ("POST is not possible: this controller is read-only", {}, []),
    "cluster_not_found": ("there is no cluster 'prd'", {}, []),
    "broker_not_found": ("broker 9 has not registered with 'prod'", {}, []),
    "topic_not_found": ("there is no topic 'ordrs' in 'prod'", {}, []),
    "partition_not_found": ("topic 'orders' has no partition 12", {}, []),
    "cluster_already_exists": ("there is a cluster 'prod' already", {}, []),
    "topic_already_exists": ("topic 'orders' exists in 'prod'", {}, []),
    "broker_id_in_use": (
        "broker 4 is registered at store9:9092, not at store4:9092",
        {"broker_id": 4},
        [],
    ),
    "broker_operation_running": ("operation op_TvcWIsqjfPWJhZaHEmdumg is adding broker 4", {}, []),
    "replication_factor_too_large": (
        "replication factor 3 needs 3 eligible brokers in 'prod'; 2 are active",
        {"eligible_brokers": 2},
        [{"pointer": "/replication_factor", "message": "must be at most 2", "limit": 2}],
    ),
    "unknown_config": (
        "there is no topic setting 'retention.hours'",
        {},
        [{"pointer": "/configs/retention.hours", "message": "unknown"}],
    ),
    "invalid_request": (
        "limit: must be at most 1000",
        {},
        [{"parameter": "limit", "message": "must be at most 1000", "limit": 1000}],
    ),
    "precondition_failed": ('the topic is at version "18", not "17"', {}, []),
    "audit_unavailable": ("the database does not answer", {}, []),
    "not_ready": ("ZooKeeper is ok, SQL is unavailable", {"zookeeper": "ok", "sql": "unavailable"}, []),
    "not_the_active_controller": ("the active controller is http://controller2:8080", {}, []),
}


def problem_example(code: str) -> dict[str, Any]:
    """Return the problem as `problem_response` writes it."""
    kind = CATALOGUE[code]
    detail, facts, errors = _SAID.get(code, (kind.title[:1].lower() + kind.title[1:], {}, []))
    kafka = kind.kafka_error
    return {
        "type": f"/problems/{code}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "instance": "/clusters/prod",
        "code": code,
        "kafka_error": None if kafka is None else {"code": kafka.code, "name": kafka.name},
        "retryable": kind.retryable,
        "errors": errors,
        "hint": kind.hint,
        "facts": facts,
        "request_id": "F9cmqsT9jBmxJpt6iz7Ngw",
        "operation_id": None,
    }
