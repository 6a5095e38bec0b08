"""ElectLeaders: preferred, or unclean, to the controller (KIP-183, KIP-460)."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.contract.administration import AdminOutcome, ElectLeadersCall
from springtide.node.handlers.administer import administer, code_of, denial, grouped_by_topic, message_of
from springtide.node.handlers.context import NodeContext, Request
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    ElectLeadersPartitionResult,
    ElectLeadersReplicaElectionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
)

PREFERRED, UNCLEAN = 0, 1


def handle(context: NodeContext, request: Request, message: ElectLeadersRequest) -> None:
    election = message.election_type
    named = message.topic_partitions
    wanted = None if named is None else tuple((t.topic, number) for t in named for number in t.partitions)
    refused = denial(request, Operation.ALTER, ResourceType.CLUSTER)
    if refused is not None:
        _answer(request, wanted or (), [refused] * len(wanted or ()), whole=code_of(refused))
        return
    if election not in (PREFERRED, UNCLEAN):
        error = AdminOutcome(
            error_code=ErrorCode.INVALID_REQUEST, message=f"there is no election of type {election}"
        )
        _answer(request, wanted, [error] * (1 if wanted is None else len(wanted)))
        return
    administer(
        context,
        request,
        ElectLeadersCall(unclean=election == UNCLEAN, partitions=wanted),
        named=-1 if wanted is None else len(wanted),
        timeout_ms=message.timeout_ms,
        answer=lambda outcomes: _answer(request, wanted, outcomes),
    )


def _answer(
    request: Request,
    wanted: Sequence[tuple[str, int]] | None,
    outcomes: Sequence[AdminOutcome],
    *,
    whole: ErrorCode = ErrorCode.NONE,
) -> None:
    """Answer. A request that named no partition gets the error of the whole, if there is one."""
    error = whole
    if wanted is None:
        error = next((code_of(outcome) for outcome in outcomes if outcome.topic is None), error)
        outcomes = [outcome for outcome in outcomes if outcome.topic is not None]
        wanted = [(outcome.topic or "", outcome.partition) for outcome in outcomes]
    request.reply(
        ElectLeadersResponse(
            error_code=error,
            replica_election_results=tuple(
                ElectLeadersReplicaElectionResult(
                    topic=topic,
                    partition_result=tuple(
                        ElectLeadersPartitionResult(
                            partition_id=number,
                            error_code=code_of(outcome),
                            error_message=message_of(outcome),
                        )
                        for number, outcome in found
                    ),
                )
                for topic, found in grouped_by_topic(wanted, outcomes).items()
            ),
        )
    )
