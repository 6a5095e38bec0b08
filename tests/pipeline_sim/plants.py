"""Bugs for the simulation to find: each breaks one rule of the sink's delivery."""

from __future__ import annotations

from dataclasses import replace

from dataplane.wire.errors import ErrorCode
from pipeline.sink.delivery import DeliveryOptions, PartitionDelivery
from pipeline.sink.steps import Action, Answered, Checked, Delivered, Event, Unsettled
from tests.pipeline_sim.attempt import Plant
from tests.pipeline_sim.simulation import FAULTS

PLANT = Plant()


class TrustsMemoryAlways(PartitionDelivery):
    """An unknown producer has stored nothing, however old the micro-batch is: starts at 0 blindly."""

    __slots__ = ()

    def _is_memory_trusted(self, leader_epoch: int, now_ms: int) -> bool:
        return True


class TrustsMemoryOfAnyLeader(PartitionDelivery):
    """A leader that was elected since knows all that the one before knew."""

    __slots__ = ()

    def _is_memory_trusted(self, leader_epoch: int, now_ms: int) -> bool:
        return super()._is_memory_trusted(self._opening.leader_epoch, now_ms)


class TakesDescribedForCommitted(PartitionDelivery):
    """The last batch is not sent again before success."""

    __slots__ = ()

    def _on_evidence(self, stored: int, leader_epoch: int, now_ms: int) -> Action:
        self._committed = max(self._committed, stored)
        return super()._on_evidence(stored, leader_epoch, now_ms)


class SendsScannedAgain(PartitionDelivery):
    """What a scan found is sent again as if a broker had described it."""

    __slots__ = ()

    def _on_evidence(self, stored: int, leader_epoch: int, now_ms: int) -> Action:
        self._committed = -1
        return super()._on_evidence(stored, leader_epoch, now_ms)


class KeepsEvidence(PartitionDelivery):
    """After a lost answer or an error the batch is sent again, without asking what has become of it."""

    __slots__ = ()

    def _again(self, reason: str, now_ms: int) -> Action:
        evidence = self._evidence_epoch
        action = super()._again(reason, now_ms)
        self._evidence_epoch = evidence
        return action


class NeverChecks(PartitionDelivery):
    """Success without asking once more who leads."""

    __slots__ = ()

    def _on_checked(self, checked: Checked, now_ms: int) -> Action:
        return Delivered(self._offered + 1, checked.leader_epoch, checked.high_watermark)


class GivesUpAsDone(PartitionDelivery):
    """A timeout is taken for an answer."""

    __slots__ = ()

    def step(self, event: Event, *, now_ms: int) -> Action | None:
        if isinstance(event, Unsettled) and self._asked.name == "SEND":
            event = Answered(ErrorCode.NONE)
        return super().step(event, now_ms=now_ms)


ALL = frozenset(FAULTS)
MOVES = frozenset({"elect", "elect same", "shrink", "give up", "kill", "speculate", "linger", "driver"})
CUTS = frozenset({"shrink", "unclean"})

PLANTS: dict[str, tuple[Plant, frozenset[str]]] = {
    "trusts memory always": (replace(PLANT, delivery=TrustsMemoryAlways), ALL),
    "trusts memory of any leader": (replace(PLANT, delivery=TrustsMemoryOfAnyLeader), MOVES | {"unclean"}),
    "takes described for committed": (replace(PLANT, delivery=TakesDescribedForCommitted), MOVES),
    "sends scanned again": (replace(PLANT, delivery=SendsScannedAgain), ALL),
    "keeps evidence": (replace(PLANT, delivery=KeepsEvidence), MOVES | {"unclean"}),
    "never checks": (replace(PLANT, delivery=NeverChecks), CUTS),
    "gives up as done": (replace(PLANT, delivery=GivesUpAsDone), frozenset({"lose"})),
    "never old": (
        replace(
            PLANT,
            options=DeliveryOptions(stalled_ms=10**15, memory_trusted_ms=10**15, silence_ms_max=10**15),
        ),
        ALL,
    ),
    "never silent": (
        replace(PLANT, options=DeliveryOptions(stalled_ms=10**15, silence_ms_max=10**15)),
        frozenset({"day", "linger", "speculate"}),
    ),
    "commit is not checked": (replace(PLANT, commit_is_checked=False), MOVES | {"unclean"}),
    "epoch not raised": (replace(PLANT, epochs_rise=False), ALL),
    "tasks share an id": (replace(PLANT, tasks_differ=False), ALL),
    "scans from the opening only": (
        replace(PLANT, scans_from_opening_only=True),
        CUTS | {"foreign", "day", "kill"},
    ),
}
"""Each with the kinds of faults among which it is looked for."""
