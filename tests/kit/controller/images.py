"""What tests do with a cluster's image: replay records, and answer a poll in one call."""

from __future__ import annotations

from collections.abc import Iterable

from controller.contract.errors import ControllerError
from controller.contract.updates import PollRequest, UpdateBatch
from controller.core.image import ClusterImage
from controller.core.records import Record
from controller.core.stream import DELTA_PARTITIONS_MAX, build_range, check_poll, plan_update


def replay_all(image: ClusterImage, records: Iterable[Record]) -> None:
    for record in records:
        image.replay(record)


def build_update(
    image: ClusterImage,
    request: PollRequest,
    *,
    controller_epoch: int,
    partitions_max: int = DELTA_PARTITIONS_MAX,
    lineage: str = "",
) -> UpdateBatch | None:
    """Return the whole answer to a poll; None if nothing is new, so the poll waits."""
    error = check_poll(image, request)
    if error is not ControllerError.NONE:
        return UpdateBatch(error=error, controller_epoch=controller_epoch)
    update = plan_update(image, request, controller_epoch=controller_epoch, partitions_max=partitions_max)
    if update is None:
        return None
    return build_range(
        image,
        update,
        controller_epoch=controller_epoch,
        broker_epoch=request.broker_epoch,
        lineage=lineage,
    )
