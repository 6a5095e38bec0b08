"""Kafka's error codes for the problems of the catalogue: the catalogue's code, or the nearest one where Kafka
has none."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Final

from admin_api.answers import Answer
from admin_api.problem import ProblemError
from controller.contract.administration import AdminOutcome
from controller.core.events import Refusal

MESSAGE_CHARS_MAX: Final = 1_000


class Kafka(IntEnum):
    """The members of Kafka's `Errors` that are answered here besides those of the catalogue."""

    UNKNOWN_SERVER_ERROR = -1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    REQUEST_TIMED_OUT = 7
    INVALID_TOPIC_EXCEPTION = 17
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    UNKNOWN_TOPIC_ID = 100


#: Clients retry on NOT_CONTROLLER: nothing was done, and a retry can succeed.
_NEAREST: Final[dict[str, Kafka]] = {
    "audit_unavailable": Kafka.NOT_CONTROLLER,
    "no_active_controller": Kafka.NOT_CONTROLLER,
    "not_the_active_controller": Kafka.NOT_CONTROLLER,
    "overloaded": Kafka.NOT_CONTROLLER,
    "outcome_unknown": Kafka.REQUEST_TIMED_OUT,
    "forbidden": Kafka.CLUSTER_AUTHORIZATION_FAILED,
    "unauthenticated": Kafka.CLUSTER_AUTHORIZATION_FAILED,
    "read_only": Kafka.POLICY_VIOLATION,
    "precondition_required": Kafka.POLICY_VIOLATION,
    "reason_required": Kafka.POLICY_VIOLATION,
    "policy_violated": Kafka.POLICY_VIOLATION,
    "approval_required": Kafka.POLICY_VIOLATION,
    "ineligible_broker": Kafka.INVALID_REPLICA_ASSIGNMENT,
    "unknown_broker": Kafka.INVALID_REPLICA_ASSIGNMENT,
}


def outcome_of_problem(problem: ProblemError) -> AdminOutcome:
    kafka = problem.kind.kafka_error
    return AdminOutcome(
        error_code=_number(problem.code, problem.status, None if kafka is None else kafka.code),
        message=_message(problem.detail, problem.hint),
    )


def outcome_of_answer(answer: Answer) -> AdminOutcome:
    """Return the outcome for a problem that is already rendered."""
    problem = json.loads(answer.body)
    kafka = problem.get("kafka_error")
    return AdminOutcome(
        error_code=_number(problem["code"], answer.status, None if kafka is None else kafka["code"]),
        message=_message(problem["detail"], problem.get("hint")),
    )


def _number(code: str, status: int, kafka_code: int | None) -> int:
    if kafka_code is not None:
        return kafka_code
    fallback = Kafka.UNKNOWN_SERVER_ERROR if status >= 500 else Kafka.INVALID_REQUEST
    return int(_NEAREST.get(code, fallback))


def _message(detail: str, hint: str | None) -> str:
    return (detail if hint is None else f"{detail}; {hint}")[:MESSAGE_CHARS_MAX]


def failed(code: Kafka, message: str) -> AdminOutcome:
    return AdminOutcome(error_code=code, message=message[:MESSAGE_CHARS_MAX])


def message_of(refusal: Refusal) -> str:
    return _message(refusal.detail, refusal.hint)
