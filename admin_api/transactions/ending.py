"""Ending transactions for an operator.

One that its coordinator has is aborted there: its producer is fenced, by the id and epoch that were seen, so
that another transaction than that is not touched. One that hangs has no coordinator: the partition's leader
writes the marker that nothing else will write. That is done only while the controller knows that it hangs
(controller/core/transaction_watch.py); and no producer may have its epoch any more, or the marker could end
what that one writes meanwhile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

from admin_api.http.answers import Answer
from admin_api.http.problems import ProblemError
from admin_api.http.services import Services
from admin_api.http.writes import Attempt
from admin_api.transactions.models import EndHangingTransaction, TransactionAborted, TransactionEnded
from admin_api.transactions.service import as_problems, hanging_view, total, waits_of
from controller.face.groups import Place
from controller.face.transactions import TransactionDetail

#: The wait until the coordinator has decided. Its markers follow, and need no one to wait for them.
ABORT_WAIT_MS: Final = 5_000
_RETRY_MS: Final = 250
#: Of what the audit keeps beside the request.
_NAMED_MAX: Final = 20
_ABORTED: Final = frozenset({"prepare_abort", "complete_abort", "empty"})


async def abort(services: Services, cluster: str, transactional_id: str, attempt: Attempt) -> Answer:
    """Abort a transaction that its coordinator has, and answer 200 with what that frees. Raise
    transaction_not_open."""
    with as_problems(services, cluster, transactional_id):
        seen = await services.transactions.described(cluster, transactional_id)
        if seen.state != "ongoing":
            raise _not_open(seen)
        waits = waits_of(services.engine.cluster(cluster), seen)
        state = seen.state
        if not attempt.dry_run:
            decided = await _fenced(services, cluster, seen, _is_decided)
            if decided.state not in _ABORTED:
                raise _not_open(decided)
            state = decided.state
    shown = TransactionAborted(
        transactional_id=transactional_id,
        producer_id=seen.producer_id,
        producer_epoch=seen.producer_epoch,
        state=state,
        changed=not attempt.dry_run,
        freed_records=total(wait.freed_records for wait in waits),
        partitions=waits,
    )
    places = ", ".join(f"{wait.topic}-{wait.partition}" for wait in waits[:_NAMED_MAX])
    more = f" and {len(waits) - _NAMED_MAX} more" if len(waits) > _NAMED_MAX else ""
    told = f"producer {seen.producer_id}, epoch {seen.producer_epoch}, in {places or 'no partition'}{more}"
    return dataclasses.replace(Answer.of(200, shown), detail=told)


async def _fenced(
    services: Services, cluster: str, seen: TransactionDetail, is_done: Callable[[TransactionDetail], bool]
) -> TransactionDetail:
    """Fence the producer until that is done, and return what is there then."""
    until_ms = services.clock.now_mono_ms() + ABORT_WAIT_MS
    while True:
        await services.transactions.fence(cluster, seen)
        now = await services.transactions.described(cluster, seen.transactional_id)
        if is_done(now):
            return now
        if services.clock.now_mono_ms() >= until_ms:
            detail = f"{seen.transactional_id[:100]!r} is still {now.state}"
            raise ProblemError("coordinator_unavailable", detail)
        await services.clock.sleep_ms(_RETRY_MS)


def _is_decided(now: TransactionDetail) -> bool:
    return now.state not in ("ongoing", "prepare_epoch_fence")


def _not_open(found: TransactionDetail) -> ProblemError:
    end = {"prepare_commit": "committed", "prepare_abort": "aborted"}.get(found.state)
    why = (
        "no transaction is open"
        if end is None
        else f"it is {end} already: markers are being written to {len(found.partitions)} partitions"
    )
    return ProblemError(
        "transaction_not_open",
        f"{found.transactional_id[:100]!r} is {found.state}: {why}",
        facts={"state": found.state},
    )


async def end(
    services: Services, cluster: str, place: Place, attempt: Attempt, *, body: EndHangingTransaction
) -> Answer:
    """End a transaction that hangs in a partition as aborted, and answer 200 with what that frees. Raise
    transaction_not_hanging."""
    producer_id = body.producer_id
    view = services.engine.cluster(cluster)
    hanging = [
        one
        for one in view.hanging_transactions()
        if (one.suspect.topic, one.suspect.partition, one.suspect.producer_id) == (*place, producer_id)
    ]
    name = f"{place[0]}-{place[1]}"
    if not hanging:
        raise ProblemError(
            "transaction_not_hanging", f"no transaction of producer {producer_id} is known to hang in {name}"
        )
    (one,) = hanging
    shown = hanging_view(view, one)
    with as_problems(services, cluster):
        opened = await services.transactions.open_producers(cluster, place)
        seen = next((found for found in opened if found.producer_id == producer_id), None)
        if seen is None or seen.first_offset != one.suspect.first_offset:
            raise ProblemError("transaction_not_hanging", f"its leader holds it open no more in {name}")
        listed, unanswered = await services.transactions.listed(cluster, producer_ids=(producer_id,))
        if unanswered:
            raise ProblemError("coordinator_unavailable", f"each must say that it has none: {unanswered[0]}")
        fences = None

        def has_another_epoch(now: TransactionDetail) -> bool:
            return (now.producer_id, now.producer_epoch) != (producer_id, seen.producer_epoch)

        for listing in listed:
            known = await services.transactions.described(cluster, listing.transactional_id)
            if not has_another_epoch(known):
                if place in known.partitions and known.is_live:
                    raise ProblemError(
                        "transaction_not_hanging",
                        f"it is that of {known.transactional_id[:100]!r}, which can be aborted",
                    )
                fences = known.transactional_id
                if not attempt.dry_run:
                    await _fenced(services, cluster, known, has_another_epoch)
        if not attempt.dry_run:
            await services.transactions.write_abort(cluster, place, seen)
    ended = TransactionEnded(**shown.model_dump(), changed=not attempt.dry_run, fences=fences)
    told = f"producer {producer_id}, epoch {seen.producer_epoch}, open in {name} from {seen.first_offset} on"
    return dataclasses.replace(Answer.of(200, ended), detail=told)
