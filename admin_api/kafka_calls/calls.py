"""A Kafka client's call while it is carried out: the caller, the cluster, and how a write is made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from admin_api.answers import Answer
from admin_api.conditions import Condition
from admin_api.kafka_calls.errors import Kafka, failed, outcome_of_answer
from admin_api.services import Services
from admin_api.writes import Asked, Service, Writing
from controller.contract.administration import AdminOutcome
from controller.database.sql import DatabaseRejected, DatabaseUnavailable

UNCONDITIONAL = Condition(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """One caller's calls. writing: makes a write for this caller; its argument says whether it is only a dry
    run."""

    services: Services
    cluster: str
    writing: Callable[[bool], Writing]

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


#: Kafka's error if a part of a request is out of its bounds.
_FIELDS = {
    "name": Kafka.INVALID_TOPIC_EXCEPTION,
    "partitions": Kafka.INVALID_PARTITIONS,
    "replication_factor": Kafka.INVALID_REPLICATION_FACTOR,
    "assignments": Kafka.INVALID_REPLICA_ASSIGNMENT,
    "configs": Kafka.INVALID_CONFIG,
}


def outcome_of_invalid(error: ValidationError) -> AdminOutcome:
    """Return the outcome for the first invalid field, in REST's words."""
    first: Any = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = str(first["loc"][0]) if first["loc"] else ""
    where = ".".join(str(part)[:100] for part in first["loc"])
    return failed(_FIELDS.get(field, Kafka.INVALID_REQUEST), f"{where}: {first['msg']}")
