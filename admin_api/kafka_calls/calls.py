"""A Kafka client's call while it is carried out: the caller, the cluster, how a write is made of it, and
Kafka's error codes for the problems of the catalogue: the catalogue's code, or the nearest one where Kafka
has none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from pydantic import ValidationError

from admin_api.http.answers import Answer
from admin_api.http.catalogue import CATALOGUE
from admin_api.http.conditions import Precondition
from admin_api.http.messages import plain_message
from admin_api.http.problems import ProblemError
from admin_api.http.rights import CHANGE_ACCESS
from admin_api.http.services import Services
from admin_api.http.writes import Asked, Service, Writing
from controller.face.commands import Refusal
from controller.face.database import DatabaseRejected, DatabaseUnavailable
from springtide.contract.administration import AdminOutcome

MESSAGE_CHARS_MAX: Final = 1_000


class Kafka(IntEnum):
    """The members of Kafka's `Errors` that are answered here besides those of the catalogue."""

    UNKNOWN_SERVER_ERROR = -1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    REQUEST_TIMED_OUT = 7
    INVALID_TOPIC_EXCEPTION = 17
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    SECURITY_DISABLED = 54
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    UNACCEPTABLE_CREDENTIAL = 93
    UNKNOWN_TOPIC_ID = 100


#: Clients retry on NOT_CONTROLLER: nothing was done, and a retry can succeed.
_NEAREST: Final[dict[str, Kafka]] = {
    "audit_unavailable": Kafka.NOT_CONTROLLER,
    "no_active_controller": Kafka.NOT_CONTROLLER,
    "not_the_active_controller": Kafka.NOT_CONTROLLER,
    "overloaded": Kafka.NOT_CONTROLLER,
    "precondition_failed": Kafka.NOT_CONTROLLER,  # a list changed meanwhile
    "outcome_unknown": Kafka.REQUEST_TIMED_OUT,
    "not_in_force": Kafka.REQUEST_TIMED_OUT,
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
#: What to do about problems whose own hint is about REST, for who uses Kafka's tools.
_REMEDIES: Final[dict[str, str]] = {
    "precondition_required": "change it over REST or with `springtide`, where a reason can be given",
    "reason_required": "change it over REST or with `springtide`, where a reason can be given",
    "approval_required": "make a plan over REST or with `springtide`, and have it approved",
    "read_only": "the controller was started with --read-only",
}


def outcome_of_problem(problem: ProblemError) -> AdminOutcome:
    kafka = problem.kind.kafka_error
    return AdminOutcome(
        error_code=_number(problem.code, problem.status, None if kafka is None else kafka.code),
        message=_message(problem.detail, problem.hint or _REMEDIES.get(problem.code)),
    )


def outcome_of_answer(answer: Answer) -> AdminOutcome:
    """Return the outcome for a problem that is already rendered."""
    problem = json.loads(answer.body)
    kafka, code, hint = problem.get("kafka_error"), problem["code"], problem.get("hint")
    if hint == CATALOGUE[code].hint:  # it is for REST's clients
        hint = _REMEDIES.get(code)
    return AdminOutcome(
        error_code=_number(code, answer.status, None if kafka is None else kafka["code"]),
        message=_message(problem["detail"], hint),
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


UNCONDITIONAL = Precondition(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """One caller's calls. writing: makes a write for this caller; its argument says whether it is only a dry
    run. is_authorized: whether the cluster's authorizer allowed the call to a principal that the broker
    verified."""

    services: Services
    cluster: str
    writing: Callable[[bool], Writing]
    is_authorized: bool = False

    def need_admin(self) -> None:
        """Raise forbidden unless ACLs and users may be changed: with the role admin, or with the operation
        ALTER on the cluster, which the authorizer checked."""
        if not self.is_authorized:
            self.writing(False).need(CHANGE_ACCESS)

    async def carry_out(
        self, asked: Asked, service: Service, *, dry_run: bool = False
    ) -> tuple[Answer, AdminOutcome]:
        """Carry out the write, with the intent in the audit before it and the outcome after it, as for every
        write."""
        try:
            answer = await self.writing(dry_run).try_here(asked, service)
        except (DatabaseUnavailable, DatabaseRejected) as error:  # no intent was written: nothing was tried
            message = f"what is not written down is not done, and the audit can't be written now: {error}"
            return Answer(503, b"{}"), failed(Kafka.NOT_CONTROLLER, message)
        return answer, AdminOutcome() if answer.status < 300 else outcome_of_answer(answer)


#: Kafka's error if a part of a request is out of its bounds, and what Kafka's tools call the part.
_FIELDS = {
    "name": (Kafka.INVALID_TOPIC_EXCEPTION, "topic name"),
    "partitions": (Kafka.INVALID_PARTITIONS, "number of partitions"),
    "replication_factor": (Kafka.INVALID_REPLICATION_FACTOR, "replication factor"),
    "assignments": (Kafka.INVALID_REPLICA_ASSIGNMENT, "replica assignment"),
    "configs": (Kafka.INVALID_CONFIG, "configs"),
}


def outcome_of_invalid(error: ValidationError) -> AdminOutcome:
    """Return the outcome for the first invalid field."""
    first: Any = error.errors(include_url=False, include_input=False)[0]
    field = str(first["loc"][0]) if first["loc"] else ""
    code, called = _FIELDS.get(field, (Kafka.INVALID_REQUEST, field))
    where = ".".join([called, *(str(part)[:100] for part in first["loc"][1:])])
    return failed(code, f"{where}: {plain_message(first)}")
