"""Bugs about logs that are still to be made: who is taken to have one, and under which state it begins."""

from __future__ import annotations

from typing import Any

from controller.core import election, sessions
from controller.core.sessions import Sessions
from dataplane.core.creations import UntoldCreations
from springtide.contract.lag_report import CreatedLogs
from tests.simulation.planted.plant import Patches, plant


@plant(
    breaks="I11",
    seen="here: who has applied the position of a partition's row is taken to have its log (S56)",
    scenario="S56",
    family="creation",
)
def log_believed_by_position() -> Patches:
    original = Sessions.record_applied

    def record_applied(self: Sessions, broker_id: int, **position: Any) -> None:
        before = self.applied.get(broker_id, -1)
        original(self, broker_id, **position)
        if self.applied.get(broker_id, -1) > before:
            image = self._image
            rows = [CreatedLogs(topic_id=topic, partitions=(n,)) for topic, n in image.unconfirmed_new]
            self.record_created(image, broker_id, rows)

    return [(Sessions, "record_applied", record_applied)]


@plant(
    breaks="I11",
    seen="here: whoever loses its seat by a restart is new no more, log or not (S56)",
    seeds_max=200,
    family="creation",
)
def log_believed_by_seat() -> Patches:
    original = election.vacate_seats

    def vacate_seats(draft: Any, broker_id: int, change: Any, **fields: Any) -> Any:
        return original(draft, broker_id, change, **{**fields, "created": draft.image.unconfirmed_new})

    return [(module, "vacate_seats", vacate_seats) for module in (election, sessions)]


@plant(breaks="L4", seen="what an earlier controller was told of is not told to the next", family="creation")
def logs_told_once_for_all() -> Patches:
    return [(UntoldCreations, "on_full_state", lambda self: None)]
