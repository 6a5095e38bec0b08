"""Evidence that ZooKeeper went back: what brokers were told once, against what its rows say now.

ZooKeeper may have been restored from a backup, or have come up from a server that lagged. The controller
that finds itself there has nothing to compare with but brokers. Each is a witness of the latest term and
record that it was ever told of (session.Witness), and a controller only ever tells what is persisted; so if
ZooKeeper does not have what a broker was told, ZooKeeper lost it.

Sound evidence, each impossible in one history: a controller epoch above the one that still holds its claim;
one controller epoch with two lineages; more records under a term than there were when the next one began;
a broker epoch that was never minted, or that names another incarnation; a partition's state above its row;
in a shard's log a writer that can't have been named yet; a level above the cluster's.
Logs of unknown topics are no evidence. A broker that was away while a topic was deleted, and no longer among
its replicas by then, brings such logs in an ordinary life.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller.core.events import (
    AllocateProducerIds,
    AppliedReply,
    BrokerApplied,
    BrokerFenceReply,
    BrokerProvenDead,
    Event,
    Heartbeat,
    NameWriter,
    Refusal,
    RefusalCode,
    RegisterMember,
    Reply,
    Report,
    Tick,
)
from controller.core.image import ClusterImage
from controller.core.shards import is_beyond
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import LagReport, LagReportResponse
from springtide.contract.session import HeartbeatResponse, RegisterRequest, RegisterResponse, Witness
from springtide.contract.updates import AHEAD, NameWriterRequest, NameWriterResponse, ProducerIdsResponse

HINT = "docs/backup.md says what to do"


class TermStart(msgspec.Struct, frozen=True, kw_only=True):
    """The start of a term's history of one cluster. lineage: "" is not known. records: how many had ever been
    persisted by then; -1: not known."""

    controller_epoch: ControllerEpoch
    lineage: str = ""
    records: int = -1


def evidence_in_rows(terms: Sequence[TermStart]) -> str | None:
    """ZooKeeper lost its controller epoch and kept the cluster."""
    mine = terms[-1]
    for term in terms[:-1]:
        if term.controller_epoch >= mine.controller_epoch:
            return (
                f"the cluster was written under controller epoch {term.controller_epoch}, and the term that "
                f"took it over has {mine.controller_epoch}"
            )
    return None


def evidence_in(image: ClusterImage, terms: Sequence[TermStart], event: Event) -> str | None:
    """Return why ZooKeeper must have gone back, by what this event brings; None if the event fits. terms:
    ascending, the last is the one that asks. The caller makes sure that its term had not ended when the event
    arrived: to a controller that was replaced, everything newer looks like this."""
    match event:
        case RegisterMember(request=request):
            return _in_witness(image, terms, request.broker_id, request.witness) or _in_registration(
                image, request
            )
        case Heartbeat(request=beat):
            return _in_witness(image, terms, beat.broker_id, beat.witness) or _in_broker_epoch(
                image, beat.broker_id, beat.broker_epoch, beat.incarnation_id, beat.witness
            )
        case BrokerApplied():
            return _in_witness(image, terms, event.broker_id, event.witness) or _in_failures(image, event)
        case NameWriter(request=ask):
            return _in_found_writer(image, ask)
        case Report(request=report):
            return _in_witness(image, terms, report.broker_id, report.witness) or _in_proposals(image, report)
        case _:
            return None


def _in_witness(
    image: ClusterImage, terms: Sequence[TermStart], broker_id: int, witness: Witness | None
) -> str | None:
    if witness is None or witness.cluster_id != image.cluster_id:
        return None
    if witness.level > image.level:
        return f"broker {broker_id} was told level {witness.level}: the cluster is at level {image.level}"
    epoch = witness.controller_epoch
    if epoch > terms[-1].controller_epoch:
        return f"broker {broker_id} has seen controller epoch {epoch}: this is {terms[-1].controller_epoch}"
    for term in terms:
        if term.controller_epoch == epoch and "" != term.lineage != witness.lineage != "":
            return (
                f"broker {broker_id} has seen another controller epoch {epoch} "
                f"({witness.lineage[:8]}, not {term.lineage[:8]})"
            )
        if term.controller_epoch > epoch:
            if 0 <= term.records < witness.records:
                return (
                    f"broker {broker_id} was told of {witness.records} records under controller epoch "
                    f"{epoch}: there were {term.records} when controller epoch {term.controller_epoch} began"
                )
            return None
    return None


def _in_registration(image: ClusterImage, request: RegisterRequest) -> str | None:
    epoch = request.previous_broker_epoch
    if request.cluster_id != image.cluster_id or epoch <= image.last_broker_epoch:
        return None
    return _never_minted(image, request.broker_id, epoch)


def _never_minted(image: ClusterImage, broker_id: int, broker_epoch: BrokerEpoch) -> str:
    highest = image.last_broker_epoch
    return f"broker {broker_id} was given broker epoch {broker_epoch}: the highest is {highest}"


def _in_broker_epoch(
    image: ClusterImage,
    broker_id: int,
    broker_epoch: BrokerEpoch,
    incarnation_id: str,
    witness: Witness | None,
) -> str | None:
    if witness is None or witness.cluster_id != image.cluster_id:
        return None
    if broker_epoch > image.last_broker_epoch:
        return _never_minted(image, broker_id, broker_epoch)
    broker = image.brokers.get(broker_id)
    if broker and broker.broker_epoch == broker_epoch and broker.incarnation_id != incarnation_id:
        return f"broker epoch {broker_epoch} of broker {broker_id} was given to two processes"
    return None


def _in_failures(image: ClusterImage, event: BrokerApplied) -> str | None:
    broker = image.brokers.get(event.broker_id)
    if broker is None or broker.broker_epoch != event.broker_epoch:
        return None
    for failure in event.failures:
        state = image.partitions.get((failure.topic_id, failure.partition))
        if (
            failure.code == AHEAD
            and state is not None
            and (failure.partition_epoch > state.partition_epoch or failure.leader_epoch > state.leader_epoch)
        ):
            return (
                f"broker {event.broker_id} holds partition epoch {failure.partition_epoch}, leader epoch "
                f"{failure.leader_epoch} of {state.topic}-{state.partition}: its row has "
                f"{state.partition_epoch}, {state.leader_epoch}"
            )
    return None


def _in_found_writer(image: ClusterImage, ask: NameWriterRequest) -> str | None:
    coordinator = image.coordinators.get(ask.broker_id)
    state = image.partitions.get((ask.topic_id, ask.partition))
    if (
        coordinator is None
        or coordinator.coordinator_epoch != ask.broker_epoch
        or state is None
        or ask.found is None
        or not is_beyond(ask.found, state)
    ):
        return None
    found = f"({ask.found.producer_id}, {ask.found.producer_epoch})"
    return (
        f"coordinator {ask.broker_id} found writer {found} in the log of {state.topic}-{state.partition}: "
        f"none above partition epoch {state.partition_epoch} can have been named"
    )


def _in_proposals(image: ClusterImage, report: LagReport) -> str | None:
    broker = image.brokers.get(report.broker_id)
    if broker is None or broker.broker_epoch != report.broker_epoch:
        return None
    for proposal in report.proposals:
        state = image.partitions.get((proposal.topic_id, proposal.partition))
        if state is not None and (
            proposal.partition_epoch > state.partition_epoch or proposal.leader_epoch > state.leader_epoch
        ):
            return (
                f"broker {report.broker_id} leads {state.topic}-{state.partition} under partition epoch "
                f"{proposal.partition_epoch}, leader epoch {proposal.leader_epoch}: its row has "
                f"{state.partition_epoch}, {state.leader_epoch}"
            )
    return None


def reply_of_halted(event: Event, *, evidence: str, controller_epoch: ControllerEpoch) -> Reply | None:
    """Return the reply of a controller that decides nothing. No lease is renewed, none is ended: leaders go
    on while their in-sync followers vouch for them, as in a controller's absence (2.9, leases)."""
    error = ControllerError.METADATA_WENT_BACK
    match event:
        case RegisterMember():
            return RegisterResponse(error=error, detail=evidence, controller_epoch=controller_epoch)
        case Heartbeat():
            return HeartbeatResponse(error=error, controller_epoch=controller_epoch)
        case BrokerApplied():
            return AppliedReply(error=error)
        case Report():
            return LagReportResponse(error=error, controller_epoch=controller_epoch)
        case NameWriter():
            return NameWriterResponse(error=error, controller_epoch=controller_epoch)
        case AllocateProducerIds():
            return ProducerIdsResponse(error=error, controller_epoch=controller_epoch)
        case BrokerProvenDead():
            return BrokerFenceReply(fenced=False)
        case Tick():
            return None
        case _:
            return Refusal(code=RefusalCode.METADATA_WENT_BACK, detail=evidence, hint=HINT)
