"""The loss of an unclean election as operators see it: shown on demand, in a dry run, in the audit."""

from __future__ import annotations

from pydantic import Field

from admin_api.problem import ProblemError
from admin_api.views import View
from controller.contract.partition_state import NO_LEADER, PartitionState
from controller.core.alarms import explain_replicas
from controller.core.loss import CandidateLoss, LossPreview
from controller.shell.engine_port import EnginePort


class HeldElsewhereView(View):
    """Records that one replica holds and would have to truncate if another replica led."""

    broker_id: int
    first_offset: int
    next_offset: int = Field(description="the first offset after them")
    records: int
    committed: int = Field(description="of them, those known to be acknowledged with acks=all")
    is_exact: bool = Field(description="false: there may be fewer; the histories were too long to tell whole")


class CandidateLossView(View):
    """A replica as the possible leader."""

    broker_id: int
    standing: str = Field(
        description="`in_sync`, `eligible`, `excluded`, `learner`, `behind`: as in `why`", examples=["behind"]
    )
    broker_status: str = Field(examples=["active"])
    may_lead: bool = Field(description="it is live: an election can choose it now")
    last_leader_epoch: int | None = Field(description="in which its last record was written")
    log_start_offset: int | None
    log_end_offset: int | None = Field(description="null: it has not told how far its log goes")
    high_watermark: int | None = Field(description="as it knows it: what lies below is committed")
    lost_records: int | None = Field(description="null: not known", examples=[30])
    lost_committed: int | None = Field(
        description="of them, those known to be acknowledged with acks=all", examples=[10]
    )
    held_elsewhere: list[HeldElsewhereView] = Field(
        description="what other replicas hold and would set aside"
    )


class LossPreviewView(View):
    """A partition without a leader, and the loss with each possible leader, according to its replicas'
    reports."""

    topic: str = Field(examples=["orders"])
    partition: int = Field(examples=[0])
    partition_epoch: int = Field(description="for the election's body, so that it is about this very state")
    unheard: list[int] = Field(description="replicas that have not told: they may hold more than is counted")
    last_leader: int | None
    last_log_end_offset: int | None = Field(
        description="by the last leader's last report; null: none is known"
    )
    last_high_watermark: int | None
    least: int | None = Field(
        description="who may lead and loses least; null: no live replica's log is known"
    )
    candidates: list[CandidateLossView] = Field(description="in assignment order")


def find_loss(engine: EnginePort, cluster: str, state: PartitionState) -> LossPreviewView:
    """Return the loss. Raise election_not_needed if the partition has a leader, and what `loss_preview`
    raises."""
    key = (state.topic_id, state.partition)
    found = engine.loss_preview(cluster, key)
    decided = engine.decided(cluster).partitions.get(key, state)
    if found is None:
        raise ProblemError("election_not_needed", f"broker {decided.leader} leads: nothing has to be lost")
    return loss_view(engine, cluster, decided, found)


def loss_view(engine: EnginePort, cluster: str, state: PartitionState, found: LossPreview) -> LossPreviewView:
    """Return the view of the loss. state: the partition without a leader."""
    verdicts = {v.broker_id: v for v in explain_replicas(engine.decided(cluster), state)}
    least = found.least
    return LossPreviewView(
        topic=state.topic,
        partition=state.partition,
        partition_epoch=found.partition_epoch,
        unheard=list(found.unheard),
        last_leader=None if found.last_leader == NO_LEADER else found.last_leader,
        last_log_end_offset=_known(found.last_log_end_offset),
        last_high_watermark=_known(found.last_high_watermark),
        least=None if least is None else least.broker_id,
        candidates=[
            _candidate_view(one, verdicts[one.broker_id].standing, verdicts[one.broker_id].broker_status)
            for one in found.candidates
            if one.broker_id in verdicts
        ],
    )


def _candidate_view(found: CandidateLoss, standing: str, broker_status: str) -> CandidateLossView:
    log = found.log
    return CandidateLossView(
        broker_id=found.broker_id,
        standing=standing,
        broker_status=broker_status,
        may_lead=found.may_lead,
        last_leader_epoch=None if log is None or not log.epochs else log.epochs[-1][0],
        log_start_offset=None if log is None else log.log_start_offset,
        log_end_offset=None if log is None else log.log_end_offset,
        high_watermark=None if log is None else log.high_watermark,
        lost_records=found.lost_records,
        lost_committed=found.lost_committed,
        held_elsewhere=[
            HeldElsewhereView(
                broker_id=held.broker_id,
                first_offset=held.first_offset,
                next_offset=held.next_offset,
                records=held.records,
                committed=held.committed,
                is_exact=held.is_exact,
            )
            for held in found.held
        ],
    )


def _known(offset: int) -> int | None:
    return None if offset < 0 else offset


def loss_sentence(found: LossPreview, chosen: int) -> str:
    """Return a sentence for the operation and the audit: what was known when the leader was chosen."""
    candidate = found.candidate(chosen)
    if candidate is None or candidate.lost_records is None:
        said = f"how much is lost is not known: broker {chosen} had not told how far its log goes"
    elif candidate.lost_records == 0:
        said = "no record is known to be lost"
    else:
        said = (
            f"{candidate.lost_records} records are lost as far as is known, "
            f"{candidate.lost_committed} of them acknowledged with acks=all"
        )
    if found.unheard:
        silent = ", ".join(str(broker_id) for broker_id in found.unheard)
        said += f"; replicas that had not told how far their logs go: {silent}"
    return said
