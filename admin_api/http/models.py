"""Bases of the REST models, and parts of answers that several nouns share."""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from admin_api.http.times import timestamp
from controller.core.records import Change


class View(BaseModel):
    """The base of every answer."""

    # The schema is built on first use: a controller's start needs none of them.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, from_attributes=True)

    @classmethod
    def of(cls, found: object, **given: Any) -> Self:
        """Return the view of a value: each field that is not given has the value's attribute of the same
        name."""
        shown = {name: getattr(found, name) for name in cls.model_fields if name not in given}
        return cls(**shown, **given)


class RequestBody(BaseModel):
    """The base of every request body: no field is ignored, no type is guessed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


ItemView = TypeVar("ItemView", bound=View)


class ViewList(View, Generic[ItemView]):
    items: list[ItemView]
    next_page_token: str | None


class LastChange(View):
    """The reason for the resource's state: the change that wrote its row."""

    cause: str = Field(examples=["topic_created"])
    actor: str = Field(examples=["unverified:alice@10.0.0.7"])
    at: str = Field(examples=["2026-11-21T09:30:00.000Z"])
    reason: str | None = None
    request_id: str | None = None
    operation_id: str | None = None


def last_change(change: Change | None) -> LastChange | None:
    return None if change is None else LastChange.of(change, at=timestamp(change.at_ms))
