"""Bugs of the controller: whom it elects, what it believes, what it persists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from controller.core import draft, election, isr, machine, recovery, registration, sessions, set_aside
from controller.core.floor import Floors
from controller.core.records import Cause
from controller.core.sessions import Sessions
from springtide.contract.errors import ControllerError
from springtide.contract.holdings import HeldLog
from springtide.contract.partition_state import PartitionState
from tests.kit.controller import images
from tests.simulation import controller_node
from tests.simulation.planted.plant import Patches, plant
from tests.simulation.zookeeper import ModelZooKeeper, Outcome, Znode


@plant(breaks="I1", seen="unclean leader election: any live replica will do", scenario="S38")
def elect_anyone() -> Patches:
    original = election.settle

    def settle(state: PartitionState, **kwargs: Any) -> PartitionState | None:
        after = original(state, **kwargs)
        if after is not None and after.leader == -1:
            for candidate in state.replicas:
                if candidate in kwargs["eligible"]:
                    return isr.advance(state, isr=(candidate,), leader=candidate)
        return after

    return [(election, "settle", settle)]


@plant(breaks="I11", seen="KIP-966: a machine crash keeps its seats (S1, S2)", scenario="S1 S2")
def unclean_restart_keeps_seats() -> Patches:
    return [
        (module, "vouches_for_seats", lambda before, request: True) for module in (registration, sessions)
    ]


@plant(
    breaks="I12",
    seen="whoever leaves stays eligible, whatever it lacks (KIP-966)",
    seeds_max=200,
    scenario="S19",
)
def eligible_without_freeze() -> Patches:
    original = isr.advance

    def advance(state: PartitionState, **kwargs: Any) -> PartitionState | None:
        after = original(state, **kwargs)
        if after is None:
            return None
        elr = tuple(b for b in state.replicas if b not in after.isr and b != kwargs.get("excluded"))
        return msgspec.structs.replace(after, elr=elr)

    return [(isr, "advance", advance), (election, "advance", advance)]


@plant(
    breaks="I6",
    seen="an ISR change built on an older partition epoch is accepted",
    seeds_max=200,
    scenario="S19",
)
def proposal_version_unchecked() -> Patches:
    original = isr.check_proposal

    def check_proposal(image: Any, state: Any, broker_id: int, proposal: Any) -> ControllerError:
        error = original(image, state, broker_id, proposal)
        return ControllerError.NONE if error is ControllerError.INVALID_UPDATE_VERSION else error

    return [(isr, "check_proposal", check_proposal)]


@plant(
    breaks="I8", seen="KIP-903: the member's incarnation is not checked (S3)", seeds_max=400, scenario="S3"
)
def member_epoch_unchecked() -> Patches:
    return [(isr, "is_eligible_member", lambda image, state, broker_id, broker_epoch: True)]


@plant(breaks="I7", seen="a new leader under the old leader epoch")
def leader_epoch_reused() -> Patches:
    original = isr.advance

    def advance(state: PartitionState, **kwargs: Any) -> PartitionState | None:
        after = original(state, **kwargs)
        if after is None or after.leader_epoch == state.leader_epoch:
            return after
        return msgspec.structs.replace(after, leader_epoch=state.leader_epoch)

    return [(isr, "advance", advance), (election, "advance", advance)]


@plant(
    breaks="I5", seen="a controller that lost its session goes on writing (S16)", seeds_max=60, scenario="S16"
)
def controller_epoch_unchecked() -> Patches:
    original = ModelZooKeeper.multi

    def multi(self: ModelZooKeeper, session: str, controller_epoch: int, writes: Any, done: Any) -> None:
        low, high = self.options.latency_ms

        def apply() -> None:
            for key, value in writes:
                if value is None:
                    self.nodes.pop(key, None)
                else:
                    self.nodes.setdefault(key, Znode(None, -1)).value = value
            if self.on_write is not None:
                self.on_write(session, controller_epoch)
            self.events.after(self.random.uniform(low, high), lambda: done(Outcome.APPLIED))

        if controller_epoch == self.nodes["controller_epoch"].value:
            original(self, session, controller_epoch, writes, done)
        else:
            self.events.after(self.random.uniform(low, high), apply)

    return [(ModelZooKeeper, "multi", multi)]


@plant(breaks="I6", seen="8.6: KazooRetry repeats a write that was applied (S17)", scenario="S17")
def lost_answer_is_repeated() -> Patches:
    original = ModelZooKeeper.multi

    def multi(self: ModelZooKeeper, session: str, controller_epoch: int, writes: Any, done: Any) -> None:
        def answered(outcome: Outcome) -> None:
            if outcome is Outcome.UNKNOWN:
                again = (self, session, controller_epoch, writes, lambda repeated: None)
                self.events.after(250, lambda: original(*again))
            done(outcome)

        original(self, session, controller_epoch, writes, answered)

    return [(ModelZooKeeper, "multi", multi)]


@plant(breaks="I7", seen="KIP-497: a deposed leader changes the ISR, and is leader again", scenario="S19")
def deposed_leader_obeyed() -> Patches:
    original = isr.check_proposal

    def check_proposal(image: Any, state: Any, broker_id: int, proposal: Any) -> ControllerError:
        error = original(image, state, broker_id, proposal)
        deposed = (ControllerError.FENCED_LEADER_EPOCH, ControllerError.INVALID_REQUEST)
        return ControllerError.NONE if error in deposed else error

    return [(isr, "check_proposal", check_proposal)]


@plant(breaks="I10", seen="the controller puts whoever is back into the ISR", seeds_max=30, scenario="S3")
def controller_expands_isr() -> Patches:
    original = election.elect_leaderless

    def elect_leaderless(draft: Any, broker_id: int) -> None:
        original(draft, broker_id)
        for key in draft.image.replicas_of.get(broker_id, {}):
            state = draft.image.partitions[key]
            if state.leader != -1 and broker_id not in state.isr:
                members = tuple(b for b in state.replicas if b in state.isr or b == broker_id)
                after = isr.advance(state, isr=members, leader=state.leader)
                draft.write_partition(after, draft.change(Cause.ISR_EXPANDED))

    return [(sessions, "elect_leaderless", elect_leaderless)]


@plant(
    breaks="I11",
    seen="a broker that restarts at once keeps its seats, as if it had not been away",
    scenario="S2",
)
def restart_unnoticed() -> Patches:
    return [(Sessions, "_end_incarnation", lambda self, draft, before, request: None)]


@plant(breaks="I5", seen="decisions are told before they are persisted")
def told_before_persisted() -> Patches:
    original = ModelZooKeeper.multi

    def multi(self: ModelZooKeeper, session: str, controller_epoch: int, writes: Any, done: Any) -> None:
        original(self, session, controller_epoch, writes, lambda outcome: None)
        done(Outcome.APPLIED)

    return [(ModelZooKeeper, "multi", multi)]


@plant(
    breaks="L2",
    seen="KIP-966: who leaves below the minimum is forgotten",
    scenario="S1",
)
def eligible_forgotten() -> Patches:
    original = isr.advance

    def advance(state: PartitionState, **kwargs: Any) -> PartitionState | None:
        after = original(state, **kwargs)
        return None if after is None else msgspec.structs.replace(after, elr=())

    return [(isr, "advance", advance), (election, "advance", advance)]


@plant(breaks="L4", seen="KAFKA-9307: an update is lost on its way, and counted as applied", scenario="S32")
def update_lost() -> Patches:
    original = images.build_update

    def build_update(image: Any, request: Any, **kwargs: Any) -> Any:
        batch = original(image, request, **kwargs)
        if batch is None or batch.full or batch.sequence % 3:
            return batch
        return msgspec.structs.replace(batch, partitions=())

    return [(controller_node, "build_update", build_update)]


@plant(breaks="2.10", seen="a new controller counts the silence before it took over (S18)", scenario="S18")
def no_grace_after_takeover() -> Patches:
    original = Sessions.__init__

    def init(self: Sessions, image: Any, alarms: Any, **kwargs: Any) -> None:
        kwargs["now_ms"] -= 5_500
        original(self, image, alarms, **kwargs)

    return [(Sessions, "__init__", init)]


@plant(breaks="3.4", seen="Kafka 3.9: a dead replica is elected (S38)", scenario="S38")
def dead_replica_elected() -> Patches:
    original = election.settle

    def settle(state: PartitionState, **kwargs: Any) -> PartitionState | None:
        after = original(state, **kwargs)
        if after is not None and after.leader == -1 and after.elr:
            return isr.advance(state, isr=after.elr[:1], leader=after.elr[0])
        return after

    return [(election, "settle", settle)]


@plant(
    breaks="2.10",
    seen="a held controller fences everybody: no heartbeat was counted while it was busy (KAFKA-15019)",
    family="pauses",
)
def own_hold_counts_as_silence() -> Patches:
    return [(Sessions, "forgive_silence", lambda self, deaf_ms, now_ms: None)]


@plant(breaks="L2", seen="a ZooKeeper that was restored is believed", seeds_max=60, family="metadata")
def witnesses_are_not_heard() -> Patches:
    return [(machine, "evidence_in", lambda image, terms, event: None)]


@plant(breaks="L2", seen="a recovery mints from the rows that went back", seeds_max=60, family="metadata")
def recovery_mints_too_low() -> Patches:
    original = recovery.rebuilt_partition

    def rebuilt(*args: Any, **names: Any) -> PartitionState:
        after = original(*args, **names)
        return msgspec.structs.replace(after, leader_epoch=1, partition_epoch=1)

    return [(recovery, "rebuilt_partition", rebuilt)]


@plant(breaks="I1", seen="a topic is brought back by its shortest log", seeds_max=60, family="metadata")
def brought_back_by_its_shortest_log() -> Patches:
    original = recovery.rebuilt_partition

    def rebuilt(*args: Any, logs: Mapping[int, HeldLog], **names: Any) -> PartitionState:
        after = original(*args, logs=logs, **names)
        shortest = min(logs, key=lambda b: (logs[b].leader_epoch, logs[b].log_end_offset), default=None)
        return after if shortest is None else msgspec.structs.replace(after, isr=(shortest,))

    return [(set_aside, "rebuilt_partition", rebuilt)]


@plant(breaks="I1", seen="a recovery takes the rows that went back", seeds_max=60, family="metadata")
def recovery_believes_the_rows() -> Patches:
    def whole(base: PartitionState, *args: Any, **names: Any) -> int | None:
        return base.replicas[0]

    return [(recovery, "_whole", whole)]


@plant(breaks="2.12", seen="a raised minimum is answered before its leaders obey it", scenario="S12")
def raised_minimum_answered_at_once() -> Patches:
    return [(draft, "forbids", lambda image, record: False)]


@plant(
    breaks="I1",
    seen="an older copy is put over the log of a member of the ELR, and nothing shows it: without a floor "
    "the first in assignment order is elected, beside one that is whole (3.8)",
    scenario="S90",
)
def ends_not_compared() -> Patches:
    original = Floors.unproven

    def unproven(self: Floors, image: Any, state: PartitionState, *, out: int | None = None) -> Any:
        return original(self, image, state, out=out) if self.of(state) else ()

    return [(Floors, "unproven", unproven)]
