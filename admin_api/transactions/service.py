"""Listing and showing transactions, and who waits for them. Coordinators are asked again each time; what
readers wait for is as leaders have reported it last."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import Path

from admin_api.http.models import optional_timestamp, timestamp
from admin_api.http.problems import ProblemError
from admin_api.http.services import Services
from admin_api.transactions.models import (
    HANGING_SHOWN_MAX,
    PARTITIONS_SHOWN_MAX,
    HangingTransaction,
    TransactionPhase,
    TransactionSummary,
    TransactionView,
    WaitView,
)
from controller.face.cluster import KnownCluster
from controller.face.groups import GroupsUnavailable, Place
from controller.face.transactions import (
    Hanging,
    TransactionAbsent,
    TransactionChanged,
    TransactionDetail,
    TransactionListing,
)
from springtide.contract.transactions import LINGERS_AFTER_TIMEOUT_MS
from springtide.levels import TRANSACTIONS, allows

#: Kafka's ids are shorter than 32 KiB; a request's target is shorter by its own limit.
TransactionPath = Annotated[
    str,
    Path(
        description="the transactional id, percent-encoded: a slash is %2F",
        examples=["payments-1"],
        min_length=1,
    ),
]
_STATES = tuple(phase.value for phase in TransactionPhase)
#: How much of an id is in a page's token.
_ORDER_CHARS = 40


@contextmanager
def as_problems(services: Services, cluster: str, transactional_id: str | None = None) -> Iterator[None]:
    """Raise what coordinators and leaders refuse as coordinator_unavailable, transaction_not_found or
    transaction_not_open. Below the level of transactions there is none."""
    name = repr(None if transactional_id is None else transactional_id[:100])
    if not has_transactions(services.engine.cluster(cluster)):
        raise ProblemError(
            "transaction_not_found",
            "the cluster has no transactions before its level is raised",
            hint="`springtide upgrade status` shows the way there",
        )
    try:
        yield
    except GroupsUnavailable as error:
        raise ProblemError("coordinator_unavailable", str(error)) from error
    except TransactionAbsent as error:
        raise ProblemError(
            "transaction_not_found", f"there is no transactional id {name}: {error}"
        ) from error
    except TransactionChanged as error:
        raise ProblemError("transaction_not_open", f"it is another one by now: {error}") from error


def has_transactions(view: KnownCluster) -> bool:
    return allows(view.image.level, TRANSACTIONS)


def summary(services: Services, view: KnownCluster, one: TransactionListing) -> TransactionSummary:
    waits = [wait_view(view, place, one.producer_id) for place in one.partitions]
    age = age_ms(services, one)
    return TransactionSummary(
        transactional_id=one.transactional_id,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        client_id=one.client_id,
        client_host=one.client_host,
        state=one.state,
        started_at=optional_timestamp(one.started_ms),
        age_ms=age,
        timeout_ms=one.timeout_ms,
        lingers=lingers(services, one),
        partitions_total=len(one.partitions) if one.started_ms is not None else None,
        waiting_records=total(wait.waiting_records for wait in waits),
    )


def total(values: Iterator[int | None]) -> int | None:
    """Return the sum; None if one is not known."""
    known = list(values)
    return None if None in known else sum(value or 0 for value in known)


def age_ms(services: Services, one: TransactionListing) -> int | None:
    return None if one.started_ms is None else max(0, services.clock.now_wall_ms() - one.started_ms)


def lingers(services: Services, one: TransactionListing) -> bool:
    """Return whether its coordinator would have ended it long ago, by the rule of the alarm."""
    age = age_ms(services, one)
    return age is not None and one.is_live and age > (one.timeout_ms or 0) + LINGERS_AFTER_TIMEOUT_MS


def sort_value(services: Services, view: KnownCluster, one: TransactionListing, order: str) -> int:
    """Return the value that the list is ordered by, before `order_of`. What is not known comes below 0."""
    match order.removeprefix("-"):
        case "age":
            age = age_ms(services, one)
            return 0 if age is None else age + 1
        case "waiting_records":
            waits = total(wait_view(view, place, one.producer_id).waiting_records for place in one.partitions)
            return 0 if waits is None else waits + 1
        case "producer_id":
            return max(0, one.producer_id)
        case "state":
            return _STATES.index(one.state)
        case _:
            return 0


def order_of(one: TransactionListing) -> tuple[str, str]:
    """Return where an id stands in lists: by its beginning, which is all that a page's token has room for."""
    digest = hashlib.sha256(one.transactional_id.encode()).hexdigest()
    return one.transactional_id[:_ORDER_CHARS], digest[:32]


async def transaction_view(services: Services, cluster: str, transactional_id: str) -> TransactionView:
    with as_problems(services, cluster, transactional_id):
        found = await services.transactions.described(cluster, transactional_id)
    view = services.engine.cluster(cluster)
    return TransactionView(
        **summary(services, view, found).model_dump(),
        coordinator_id=found.coordinator_id,
        coordinator_endpoint=found.endpoint,
        partitions=waits_of(view, found),
    )


def waits_of(view: KnownCluster, found: TransactionDetail) -> list[WaitView]:
    return [wait_view(view, place, found.producer_id) for place in found.partitions[:PARTITIONS_SHOWN_MAX]]


def wait_view(view: KnownCluster, place: Place, producer_id: int) -> WaitView:
    """Return what readers wait for in a partition because of a producer's open transaction, as its leader
    reported it last. In partitions of groups' offsets only offsets wait."""
    topic = view.image.topic_named(place[0])
    key = None if topic is None else (topic.topic_id, place[1])
    lag = None if key is None or key in view.image.shards else view.lag(key)
    wait_at, waiting, freed = None, None, None
    if lag is not None:
        waiting = freed = 0
        held = lag.transactions
        if held is not None and held.oldest and held.oldest[0].producer_id == producer_id:
            wait_at = held.last_stable_offset
            following = held.oldest[1].first_offset if len(held.oldest) > 1 else lag.high_watermark
            waiting = max(0, lag.high_watermark - wait_at)
            freed = max(0, min(following, lag.high_watermark) - wait_at)
    return WaitView(
        topic=place[0],
        partition=place[1],
        readers_wait_at=wait_at,
        waiting_records=waiting,
        freed_records=freed,
    )


def hanging_views(view: KnownCluster) -> list[HangingTransaction]:
    return [hanging_view(view, one) for one in view.hanging_transactions()[:HANGING_SHOWN_MAX]]


def hanging_view(view: KnownCluster, one: Hanging) -> HangingTransaction:
    suspect = one.suspect
    return HangingTransaction(
        **wait_view(view, (suspect.topic, suspect.partition), suspect.producer_id).model_dump(),
        producer_id=suspect.producer_id,
        producer_epoch=one.producer_epoch,
        first_offset=suspect.first_offset,
        open_since=timestamp(one.since_ms),
    )
