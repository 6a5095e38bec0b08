"""When a controller takes its database further: at once what each release beside it works with, the rest when
the levels of all clusters allow it, without a restart."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

import anyio.to_thread
import msgspec
import sqlalchemy as sa

from controller.database import schema
from controller.database.sql import cause_of
from controller.shell.clock import ControllerClock
from controller.shell.leadership import ACTIVE_PATH, CLUSTERS_PATH
from controller.shell.meta import Meta, MetaUnavailable, Node
from controller.shell.rows import decode_level, level_path
from springtide.levels import NEWEST, SUPPORTED, UNTOLD, Level, LevelRange

log = logging.getLogger("controller")

RETRY_MS: Final = 2_000
#: How often the levels are looked at while revisions wait for them.
LEVELS_EVERY_MS: Final = 5_000


async def make_ready(database_url: str, clock: ControllerClock) -> str:
    """Bring SQL to the revision that this release needs at least, however long it takes to be there: until
    then operators' writes are refused, and failovers go on as ever. Return the revision that is there then. A
    first failure may be another controller that makes the same tables."""
    return await _upgrade(database_url, clock, SUPPORTED.lowest)


async def follow_levels(database_url: str, revision: str, meta: Meta, clock: ControllerClock) -> None:
    """Apply the revisions that wait for clusters to be finalized as soon as all of them are; return when none
    waits. revision: of the database now."""
    waits_told = False
    while revision < schema.HEAD:
        try:
            level = await lowest_level(meta)
        except MetaUnavailable:
            await clock.sleep_ms(RETRY_MS)
            continue
        if schema.revision_for(level) > revision:
            revision = await _upgrade(database_url, clock, level)
            log.info("database_upgraded revision=%s", revision)
            continue
        if not waits_told:
            waits_told = True
            log.info("database_upgrade_waits revision=%s lowest_level=%d", revision, level)
        await clock.sleep_ms(LEVELS_EVERY_MS)


async def _upgrade(database_url: str, clock: ControllerClock, lowest: Level) -> str:
    grade, told = logging.INFO, ""
    while True:
        try:
            return await anyio.to_thread.run_sync(
                schema.upgrade, database_url, lowest, abandon_on_cancel=True
            )
        except (sa.exc.SQLAlchemyError, schema.MigrationFailed, OSError) as error:
            cause = cause_of(error, sa.make_url(database_url))
            if (grade, cause) != (logging.ERROR, told):
                log.log(grade, "database_not_ready cause=%s", cause)
                grade, told = logging.ERROR, cause
            await clock.sleep_ms(RETRY_MS)


class _Claim(msgspec.Struct, frozen=True):
    levels: LevelRange = LevelRange()


async def lowest_level(meta: Meta) -> Level:
    """Return the lowest level that a cluster in ZooKeeper is at; where there is none, the own level of the
    active controller's release, or of this one's if none is active. What can't be read counts as the lowest
    level there is. Raise MetaUnavailable."""
    clusters = await meta.children(CLUSTERS_PATH)
    if not clusters:
        claim = await meta.get_synced(ACTIVE_PATH)
        return NEWEST if claim is None else min(NEWEST, _highest_of(claim))
    lowest = NEWEST
    for cluster in clusters:
        node = await meta.get_synced(level_path(cluster))
        if node is None:
            return UNTOLD
        lowest = min(lowest, _level_of(node))
    return lowest


def _highest_of(claim: Node) -> Level:
    with suppress(ValueError):
        return msgspec.json.decode(claim.data, type=_Claim).levels.highest
    return UNTOLD


def _level_of(node: Node) -> Level:
    with suppress(ValueError):
        return decode_level(node.data)
    return UNTOLD
