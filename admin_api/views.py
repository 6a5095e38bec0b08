"""Parts of answers that several resources share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from admin_api.names import timestamp
from controller.core.records import Change


class View(BaseModel):
    """The base of every answer."""

    # The schema is built on first use: a controller's start needs none of them.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class RequestBody(BaseModel):
    """The base of every request body: no field is ignored, no type is guessed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class LastChange(View):
    """The reason for the resource's state: the change that wrote its row."""

    cause: str = Field(examples=["topic_created"])
    actor: str = Field(examples=["unverified:alice@10.0.0.7"])
    at: str = Field(examples=["2026-11-21T09:30:00.000Z"])
    reason: str | None = None
    request_id: str | None = None
    operation_id: str | None = None

    @classmethod
    def of(cls, change: Change | None) -> LastChange | None:
        if change is None:
            return None
        return cls(
            cause=change.cause.value,
            actor=change.actor,
            at=timestamp(change.at_ms),
            reason=change.reason,
            request_id=change.request_id,
            operation_id=change.operation_id,
        )
