"""What a person can do for records that no leader has: replicas in quarantine, brokers that are away,
logs that fall short (docs/replication.md 3.5, unclean election).

A follower goes into quarantine when its leader asks it to cut what it knows to be committed (I15, no cut
below the high watermark). The leader may be the one that is short then, and an answer that nothing has to be
lost would hide the other log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.core.image import ClusterImage
from controller.core.loss import LossPreview
from springtide.contract.holdings import SetAsideLog
from springtide.contract.lag_report import PartitionLag, ReplicaProblem
from springtide.contract.partition_state import PartitionKey, PartitionState


class QuarantinedReplicas:
    """What replicas in quarantine told of their logs. Bounded: one report for each replica of the image."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: dict[PartitionKey, dict[int, ReplicaProblem]] = {}

    def note(self, state: PartitionState, broker_id: int, problem: ReplicaProblem) -> None:
        self._told.setdefault((state.topic_id, state.partition), {})[broker_id] = problem

    def of(self, state: PartitionState) -> dict[int, ReplicaProblem]:
        """Return them by broker, in assignment order. A report counts under the leader epoch that it is
        about: under the next one the replica compares its log anew. One that is in sync beside its leader has
        been copied since."""
        told = self._told.get((state.topic_id, state.partition), {})
        return {
            b: told[b]
            for b in state.replicas
            if b in told
            and told[b].leader_epoch == state.leader_epoch
            and (b == state.leader or b not in state.isr)
        }

    def forget(self, image: ClusterImage) -> None:
        """Forget partitions that are gone."""
        self._told = {key: told for key, told in self._told.items() if key in image.partitions}


def way_out_of_quarantine(
    state: PartitionState, quarantined: Mapping[int, ReplicaProblem], last: PartitionLag | None
) -> str | None:
    """Return who keeps records that the leader of this state lacks, and how they are brought back; None if no
    replica is in quarantine. last: the latest report of a leader of this partition."""
    if not quarantined:
        return None
    leader, name = state.leader, f"{state.topic} {state.partition}"
    end = "an end that is not known yet"
    if last is not None and last.leader_epoch == state.leader_epoch:
        end = f"{last.log_end_offset}"
    kept = "; ".join(_kept(broker_id, told) for broker_id, told in quarantined.items())
    return (
        f"broker {leader} was elected, and its log goes to {end}, but replicas are in quarantine: {kept}. "
        f"If their records are the right ones, stop broker {leader}: nothing more is written then, and one "
        "that still has a seat and holds all that is known to be committed leads by itself. If none does, "
        f"`springtide partitions preview-loss {name}` says then what each log holds, and `springtide "
        f"elect-leader {name} --election-type unclean` chooses. What broker {leader} took in leader epoch "
        f"{state.leader_epoch} may be lost to readers then: read it before"
    )


def _kept(broker_id: int, told: ReplicaProblem) -> str:
    what = f"broker {broker_id}"
    if told.next_offset >= 0:
        what += f" holds a log that ends at {told.next_offset}"
    if told.high_watermark >= 0:
        what += f", knows records below {told.high_watermark} to be committed"
    if told.first_offset >= 0:
        what += f", and refused to cut it at {told.first_offset}"
    return f"{what} ({told.detail[:200]})"


def way_out_without_leader(
    image: ClusterImage,
    state: PartitionState,
    preview: LossPreview,
    set_aside: Mapping[int, Iterable[SetAsideLog]],
) -> str:
    """Return what brings the partition a leader, the way that loses least first. set_aside: what brokers have
    in quarantine on their disks."""
    said = []
    away = [b for b in (*state.isr, *state.elr) if not image.is_eligible(b)]
    if away:
        said.append(
            f"bring back broker {_listed(away)} with its disk: it held every acknowledged record, and leads "
            "by itself unless its log falls short"
        )
    for broker_id, logs in set_aside.items():
        said += [
            f"broker {broker_id} has a log of it in quarantine/{log.directory} that ends at "
            f"{log.log_end_offset}: look at it before anything is lost"
            for log in logs
            if (log.topic_id, log.partition) == (state.topic_id, state.partition) and log.records > 0
        ]
    least, known = preview.least, preview.known_committed
    if least is None:
        said.append("no live replica has reported the end of its log yet")
    elif least.lost_committed:
        said.append(
            f"records below {known} are known to be committed, and of the live replicas' logs that of broker "
            f"{least.broker_id} lacks least, {least.lost_committed} of them: if a newer disk or copy is left "
            f"of broker {_listed(_others(state, preview))}, stop that broker, bring it back, start it"
        )
    else:
        said.append(f"broker {least.broker_id} lacks nothing that is known to be committed")
        if least.lost_records:
            said.append(
                f"it lacks {least.lost_records} records that others reported; some of them may have been "
                "acknowledged"
            )
        if least.broker_id in state.last_known_elr:
            said.append(
                "but it could not prove that its log is whole: if a newer disk or copy is left of broker "
                f"{_listed(state.last_known_elr)}, stop that broker, bring it back, start it"
            )
        if least.lost_records or not state.elr:
            name = f"{state.topic} {state.partition}"
            said.append(
                f"`springtide elect-leader {name} --election-type unclean` elects it now, and gives up "
                "the records that it lacks"
            )
    silent = [b for b in preview.unheard if b not in away]
    if silent:
        said.append(f"start broker {_listed(silent)}: it has not reported what it holds")
    return "; ".join(said)


def _others(state: PartitionState, preview: LossPreview) -> list[int]:
    """Return the replicas of which no log is known that reaches what is committed."""
    short = {c.broker_id for c in preview.candidates if c.log is None or c.lost_committed}
    return [b for b in state.replicas if b in short]


def _listed(broker_ids: Iterable[int]) -> str:
    return " or ".join(str(broker_id) for broker_id in broker_ids)
