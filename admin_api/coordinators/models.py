"""The REST models of coordinators."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, model_validator

from admin_api.http.models import BrokerId, LastChange, ListenerView, Reason, RequestBody, View, ViewList

COORDINATORS_PER_REQUEST_MAX = 100


class AdmitCoordinatorsBody(RequestBody):
    """Coordinators that may serve client groups from now on. All are admitted, or none."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"coordinator_ids": [1001, 1002], "reason": "the first of prod"}]}
    )

    coordinator_ids: Annotated[list[BrokerId], Field(min_length=1, max_length=COORDINATORS_PER_REQUEST_MAX)]
    reason: Reason | None = None


class ChangeCoordinator(RequestBody):
    """Changes of a coordinator. A field that is left out stays as it is."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"draining": True, "reason": "its host is to be replaced"}]}
    )

    draining: bool | None = Field(
        default=None, description="it gives its shards away, each as soon as another is level, and gets none"
    )
    demoted: bool | None = Field(
        default=None, description="it owns only what no other coordinator may, and follows the others"
    )
    reason: Reason | None = None

    @model_validator(mode="after")
    def _says_something(self) -> ChangeCoordinator:
        if self.draining is None and self.demoted is None:
            raise ValueError("no change was asked for: name draining or demoted")
        return self


class CoordinatorView(View):
    """A coordinator as the controller knows it."""

    coordinator_id: int = Field(description="no broker has it", examples=[1001])
    state: str = Field(
        description="`waiting`: registered, not admitted; `fenced`: admitted, not (or no longer) live; "
        "`active`",
        examples=["active"],
    )
    draining: bool = Field(description="it gives its shards away and gets none")
    drained: bool = Field(description="it is draining and owns nothing any more: it can be stopped")
    demoted: bool = Field(description="it owns only what no other coordinator may")
    endpoint: str = Field(examples=["desk1:9092"])
    listeners: list[ListenerView] = Field(description="all of them, where they have names; else none")
    rack: str | None
    coordinator_epoch: int = Field(
        description="names this run of the coordinator; grows with every start", examples=[17]
    )
    incarnation_id: str
    version: str
    registered_at: str
    shards: int = Field(
        description="parts of the client groups' state that it owns and serves", examples=[25]
    )
    followed_shards: int = Field(
        description="those whose log it reads along, to take over soon", examples=[25]
    )
    last_change: LastChange | None


class CoordinatorList(ViewList[CoordinatorView]): ...


class AdmittedCoordinators(View):
    """The coordinators as they are now; of a dry run, as they would be."""

    items: list[CoordinatorView]
