"""A cluster's feature level, and raising it: what an operator sees of an upgrade, and how it is finalized."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from admin_api.http.answers import Answer
from admin_api.http.models import Reason, RequestBody, View
from admin_api.http.services import Services
from admin_api.http.writes import Attempt, submit
from controller.face.cluster import Process, blockers_of, target_of
from controller.face.commands import Blocker, FinalizeUpgrade, UpgradeFinalized
from controller.face.database import why_not_ready
from springtide.levels import RELEASES, Level


class UpgradeBlocker(View):
    """What keeps the level from being raised."""

    kind: str = Field(description="`controller`, `broker`, `coordinator` or `database`", examples=["broker"])
    name: str = Field(examples=["broker 3"])
    reason: str = Field(
        description="goes on from the name, and says what to do",
        examples=["runs release 0.1, which has level 0 only: start it with release 0.2"],
    )


class UpgradeProcess(View):
    """A process, its release, and the levels that it can run at; null: it has not told the active controller
    yet. Controllers of release 0.1 say nothing of themselves, and are not listed."""

    kind: str = Field(description="`controller`, `broker` or `coordinator`", examples=["broker"])
    id: str = Field(examples=["3"])
    name: str = Field(examples=["broker 3"])
    version: str = Field(description="of its release; empty: not told", examples=["0.3.0"])
    lowest_level: int | None
    highest_level: int | None
    is_running: bool
    is_active: bool = Field(description="whether it is the active controller, or serves")


class UpgradeStatus(View):
    """The cluster's level, the next one, and what stands in its way."""

    level: int = Field(description="by which everything is written")
    release: str = Field(description="the first release of this level", examples=["0.1"])
    target_level: int = Field(
        description="what finalizing raises the level to; the level if it is the highest"
    )
    target_release: str = Field(examples=["0.2"])
    can_finalize: bool
    blockers: list[UpgradeBlocker]
    pending_since_ms: int | None = Field(
        description="since when all brokers and coordinators can run at the next level (Unix time); null: "
        "they can't, or there is none"
    )
    processes: list[UpgradeProcess]


class UpgradeToFinalize(RequestBody):
    """Options for finalizing an upgrade."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "0.2 has run for a week"}]})

    reason: Reason | None = None


class FinalizedUpgrade(View):
    """The level that the cluster has now, or would have."""

    level_before: int = Field(description="the same as `level` if there was nothing to finalize")
    level: int
    release: str = Field(description="the first release of this level", examples=["0.2"])
    dry_run: bool


async def status_of(services: Services, cluster: str) -> UpgradeStatus:
    """Raise NotActive, UnknownCluster."""
    engine = services.engine
    controllers = await engine.controllers()
    view = engine.cluster(cluster)
    processes = (*controllers, *view.processes())
    level, target = view.image.level, target_of(view.image.level)
    blockers = (*await _of_database(services, level), *blockers_of(view.image, processes))
    return UpgradeStatus(
        level=level,
        release=RELEASES[level],
        target_level=target,
        target_release=RELEASES[target],
        can_finalize=target != level and not blockers,
        blockers=[UpgradeBlocker.of(blocker) for blocker in blockers],
        pending_since_ms=view.image.upgrade_pending_since_ms,
        processes=[_process(process) for process in processes],
    )


async def _of_database(services: Services, level: Level) -> tuple[Blocker, ...]:
    target = target_of(level)
    why = None if target == level else await why_not_ready(services.database, target)
    return () if why is None else (Blocker(kind="database", name="the database", reason=why),)


def _process(process: Process) -> UpgradeProcess:
    levels = process.levels
    return UpgradeProcess.of(
        process,
        id=process.process_id,
        lowest_level=None if levels is None else levels.lowest,
        highest_level=None if levels is None else levels.highest,
    )


async def finalize(services: Services, cluster: str, attempt: Attempt) -> Answer:
    engine = services.engine
    event = FinalizeUpgrade(
        **attempt.event,
        controllers=await engine.controllers(),
        blockers=await _of_database(services, engine.cluster(cluster).image.level),
    )
    reply = await submit(engine, cluster, event, UpgradeFinalized)
    return Answer.of(200, FinalizedUpgrade.of(reply, release=RELEASES[reply.level]))
