"""Bugs for the simulation to find: each breaks one rule of the sink's delivery."""

from __future__ import annotations

from dataclasses import replace

from pipeline.sink.delivery import DeliveryOptions, PartitionDelivery
from pipeline.sink.steps import (
    Action,
    Checked,
    Delivered,
    Event,
    NoUsableAnswer,
    Scanned,
    SendAnswered,
    Stored,
)
from springtide.wire.errors import ErrorCode
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


class TakesDuplicatesForItsOwn(PartitionDelivery):
    """A duplicate is what this attempt has sent."""

    __slots__ = ()

    def _on_answered(self, answered: SendAnswered, now_ms: int) -> Action:
        return super()._on_answered(replace(answered, base_offset=max(answered.base_offset, 0)), now_ms)


class NeverCompares(PartitionDelivery):
    """What a scan finds under this attempt's sequences is this attempt's."""

    __slots__ = ()

    def _compare(self, scanned: Scanned) -> Stored | None:
        return None


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


class ForgetsToWait(PartitionDelivery):
    """What is described and not in the committed log was written before the opening."""

    __slots__ = ()

    def _is_before_the_opening(self, scanned: Scanned) -> bool:
        return True


class GivesUpAsDone(PartitionDelivery):
    """A timeout is taken for an answer."""

    __slots__ = ()

    def step(self, event: Event, *, now_ms: int) -> Action | None:
        if isinstance(event, NoUsableAnswer) and self._asked.name == "SEND":
            event = SendAnswered(ErrorCode.NONE, base_offset=0)
        return super().step(event, now_ms=now_ms)


ALL = frozenset(FAULTS)
MOVES = frozenset({"elect", "elect same", "shrink", "give up", "kill", "speculate", "linger", "driver"})
TOGETHER = frozenset({"speculate", "linger", "give up", "reorder"})
CUTS = frozenset({"shrink", "unclean"})
AGAIN = frozenset({"make again", "kill", "speculate", "linger", "driver", "give up"})

PLANTS: dict[str, tuple[Plant, frozenset[str]]] = {
    "trusts memory always": (replace(PLANT, delivery=TrustsMemoryAlways), ALL),
    "trusts memory of any leader": (
        replace(PLANT, delivery=TrustsMemoryOfAnyLeader),
        MOVES - {"kill", "driver"} | {"unclean", "reorder"},
    ),
    "takes duplicates for its own": (replace(PLANT, delivery=TakesDuplicatesForItsOwn), TOGETHER),
    "never compares": (replace(PLANT, delivery=NeverCompares), TOGETHER),
    "skips by count only": (replace(PLANT, skips_by_count=True), frozenset({"kill", "reorder"})),
    "takes what is not committed for stored": (
        replace(PLANT, scans_to_log_end=True),
        frozenset({"kill", "elect"}),
    ),
    "keeps evidence": (replace(PLANT, delivery=KeepsEvidence), MOVES | {"unclean"}),
    "never checks": (replace(PLANT, delivery=NeverChecks), CUTS),
    "takes what is not committed for forgotten": (
        replace(PLANT, delivery=ForgetsToWait),
        frozenset({"kill", "linger", "speculate", "give up"}),
    ),
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
    "produces by name": (replace(PLANT, produces_by_id=False), AGAIN),
    "commit does not compare topics": (replace(PLANT, commit_knows_topics=False), AGAIN),
    "attempts don't notice another topic": (replace(PLANT, notices_topics=False), AGAIN),
    "the new topic is opened at its end": (replace(PLANT, opens_again_at_start=False), AGAIN),
    "a broker that is behind opens the new topic": (replace(PLANT, opens_again_by_id=False), AGAIN),
}
"""Each with the kinds of faults among which it is looked for."""
