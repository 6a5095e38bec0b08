"""The workers of a broker: to operators they are one broker, to replication and to clients each is one.

    broker 5 = worker 0 (id 5), worker 1 (id 1000005), worker 2 (id 2000005), ...

Operators name brokers, and what they ask of one is done to all its workers; reassignments and plans name
workers, because a partition moves between workers as it moves between brokers. A broker that never had more
than one worker is the only one of itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from controller.core.events import Refusal, RefusalCode
from controller.core.image import ClusterImage
from controller.core.records import BrokerRegistration
from springtide.contract.session import WORKER_ID_STEP, WORKERS_MAX, BrokerStatus, RegisterRequest, owner_of

_FROM_WORST: Final = (
    BrokerStatus.WAITING,
    BrokerStatus.FENCED,
    BrokerStatus.SHUTTING_DOWN,
    BrokerStatus.ACTIVE,
)
APART: Final = "one host would hold two replicas of the partition"
"""Why replicas of a partition never are on two workers of a broker."""


def workers_of(image: ClusterImage, broker_id: int) -> tuple[BrokerRegistration, ...]:
    """Return the registered workers of a broker, by number."""
    return tuple(image.brokers[worker_id] for worker_id in image.worker_ids.get(broker_id, ()))


def ids_of(image: ClusterImage, broker_id: int) -> tuple[int, ...]:
    """Return the ids by which replication knows the workers of a broker; its own if none is registered."""
    return image.worker_ids.get(broker_id, (broker_id,))


def brokers_of(image: ClusterImage) -> dict[int, tuple[BrokerRegistration, ...]]:
    """Return the brokers as operators know them, ascending by id, each with its registered workers."""
    return {broker_id: workers_of(image, broker_id) for broker_id in sorted(image.worker_ids)}


def status_of(workers: Iterable[BrokerRegistration]) -> BrokerStatus:
    """Return the status of a broker: that of the worker that is worst off."""
    return min((worker.status for worker in workers), key=_FROM_WORST.index)


def claim_fault(image: ClusterImage, request: RegisterRequest) -> str | None:
    """Return what is wrong with a registration's claim to be a worker, or not to be one; None: nothing."""
    member_id, owner_id = request.broker_id, request.worker_of
    if owner_id is not None:
        number, rest = divmod(member_id - owner_id, WORKER_ID_STEP)
        if not 0 <= owner_id < WORKER_ID_STEP or rest or not 0 <= number < WORKERS_MAX:
            return (
                f"{member_id} is the id of no worker of broker {owner_id}: only a broker with an id below "
                f"{WORKER_ID_STEP} has workers, and the id of its worker k is its own and k times "
                f"{WORKER_ID_STEP}, for k below {WORKERS_MAX}"
            )
    known = image.brokers.get(member_id)
    if known is None or known.owner_id == owner_of(member_id, owner_id):
        return None
    return f"{member_id} is the id of {known.name}: give the process another, or remove that one first"


def check_named(image: ClusterImage, broker_ids: Iterable[int], field: str) -> Refusal | None:
    """Refuse ids of brokers that are not registered, and those by which only replication knows workers."""
    for broker_id in broker_ids:
        found = image.brokers.get(broker_id)
        if found is not None and found.owner_id != broker_id:
            return Refusal(
                code=RefusalCode.INELIGIBLE_BROKER,
                field=field,
                detail=f"{broker_id} is {found.name}; what is asked of a broker is done to all its workers",
                hint=f"name broker {found.owner_id}",
            )
        if found is None and not workers_of(image, broker_id):
            return Refusal(
                code=RefusalCode.UNKNOWN_BROKER,
                field=field,
                detail=image.what_is(broker_id, "is not registered"),
            )
    return None


def crowding_fault(image: ClusterImage, replicas: Iterable[int]) -> str | None:
    """Return which of these members would hold one partition together on one broker; None: no two."""
    first_of: dict[int, BrokerRegistration] = {}
    for broker in (image.brokers[broker_id] for broker_id in replicas):
        other = first_of.setdefault(broker.owner_id, broker)
        if other is not broker:
            return (
                f"{other.broker_id} and {broker.broker_id} are workers of broker {broker.owner_id}: {APART}"
            )
    return None


def workers_named(image: ClusterImage, broker_ids: Iterable[int]) -> dict[int, BrokerRegistration]:
    """Return all workers of these brokers, by their own ids, each once."""
    return {
        worker.broker_id: worker
        for broker_id in dict.fromkeys(broker_ids)
        for worker in workers_of(image, broker_id)
    }
