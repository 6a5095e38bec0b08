"""Admitting, changing, removing and showing coordinators."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Unpack

from fastapi import Depends, Path

from admin_api.coordinators.models import (
    AdmitCoordinatorsBody,
    AdmittedCoordinators,
    ChangeCoordinator,
    CoordinatorView,
)
from admin_api.http.answers import Answer
from admin_api.http.conditions import IfMatch
from admin_api.http.models import BrokerId, ClusterPath, last_change, listener_views, timestamp
from admin_api.http.problems import ProblemError
from admin_api.http.services import Services, Serving
from admin_api.http.writes import Asked, Attempt, ChangeFields, RowChange, Write, submit
from controller.face.cluster import CoordinatorRegistration, Entity, KnownCluster
from controller.face.commands import (
    AdmitCoordinators,
    CoordinatorsChanged,
    MaintainCoordinators,
    MemberKind,
    RefusalCode,
    RemoveMember,
)
from controller.face.operations import endpoint_of

CoordinatorPath = Annotated[BrokerId, Path(examples=[1001])]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorChange(RowChange):
    """A request to change one coordinator."""

    coordinator_id: int

    @property
    def coordinator(self) -> CoordinatorRegistration:
        """Return the coordinator. Raises coordinator_not_found."""
        return find_coordinator(self.view, self.cluster, self.coordinator_id)

    async def asked(self, **fields: Unpack[ChangeFields]) -> Asked:
        return Asked(
            cluster=self.cluster, entity=Entity.COORDINATOR, entity_id=str(self.coordinator_id), **fields
        )


async def coordinator_change(
    services: Serving, write: Write, condition: IfMatch, cluster: ClusterPath, coordinator_id: CoordinatorPath
) -> CoordinatorChange:
    return CoordinatorChange(
        services=services, write=write, condition=condition, cluster=cluster, coordinator_id=coordinator_id
    )


Changing = Annotated[CoordinatorChange, Depends(coordinator_change)]


async def admit_coordinators(
    services: Services, cluster: str, body: AdmitCoordinatorsBody, attempt: Attempt
) -> Answer:
    """Admit them and answer 200. Each serves shards as soon as it has heard of it."""
    event = AdmitCoordinators(**attempt.event, coordinator_ids=tuple(body.coordinator_ids))
    done = await submit(services.engine, cluster, event, CoordinatorsChanged)
    view = services.engine.cluster(cluster)
    return Answer.of(200, AdmittedCoordinators(items=[coordinator_view(view, c) for c in done.coordinators]))


async def change_coordinator(
    change: CoordinatorChange, attempt: Attempt, *, body: ChangeCoordinator
) -> Answer:
    """Change what an operator says of it, and answer 200. Shards follow by themselves."""
    coordinator = change.coordinator
    _check_settled(change, coordinator)
    event = MaintainCoordinators(
        **attempt.event,
        coordinator_ids=(coordinator.coordinator_id,),
        draining=body.draining,
        demoted=body.demoted,
    )
    done = await submit(change.services.engine, change.cluster, event, CoordinatorsChanged)
    if attempt.dry_run:
        return Answer.of(200, coordinator_view(change.view, done.coordinators[0]))
    version = version_of(change.view, change.coordinator_id)
    return Answer.of(200, coordinator_view(change.view, change.coordinator), version=version)


async def remove_coordinator(change: CoordinatorChange, attempt: Attempt) -> Answer:
    """Remove the coordinator and answer 200 with the coordinator as it was."""
    await change.services.engine.notice_death(change.cluster, change.coordinator_id)
    coordinator = change.coordinator
    _check_settled(change, coordinator)
    before = coordinator_view(change.view, coordinator)
    event = RemoveMember(**attempt.event, kind=MemberKind.COORDINATOR, member_id=coordinator.coordinator_id)
    await change.remove(event, RefusalCode.COORDINATOR_IN_USE)
    return Answer.of(200, before)


def _check_settled(change: CoordinatorChange, coordinator: CoordinatorRegistration) -> None:
    coordinator_id = coordinator.coordinator_id
    decided = change.view.decided.coordinators.get(coordinator_id)
    version = version_of(change.view, coordinator_id)
    change.check_settled(coordinator, decided, version=version, what=f"coordinator {coordinator_id}")


def find_coordinator(view: KnownCluster, cluster: str, coordinator_id: int) -> CoordinatorRegistration:
    coordinator = view.image.coordinators.get(coordinator_id)
    if coordinator is None:
        detail = f"coordinator {coordinator_id} has not registered with {cluster!r}"
        raise ProblemError("coordinator_not_found", detail)
    return coordinator


def version_of(view: KnownCluster, coordinator_id: int) -> str:
    return str(view.version_of(Entity.COORDINATOR, str(coordinator_id)))


def coordinator_view(view: KnownCluster, coordinator: CoordinatorRegistration) -> CoordinatorView:
    image, coordinator_id = view.image, coordinator.coordinator_id
    shards = [state.shard for key in image.shards if (state := image.partitions[key]).shard is not None]
    owned = Counter(shard.owner for shard in shards)[coordinator_id]
    return CoordinatorView.of(
        coordinator,
        state=coordinator.status,
        drained=coordinator.draining and not owned,
        endpoint=endpoint_of(coordinator),
        listeners=listener_views(coordinator),
        registered_at=timestamp(coordinator.registered_at_ms),
        shards=owned,
        followed_shards=Counter(shard.standby for shard in shards)[coordinator_id],
        last_change=last_change(view.last_change(Entity.COORDINATOR, str(coordinator_id))),
    )
