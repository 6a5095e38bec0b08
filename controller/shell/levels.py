"""The levels of clusters as a controller reads them before it stands for election, and the controllers that
run, as each of them says in an ephemeral znode of its own (docs/upgrades.md)."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from controller.core.events import Process
from controller.shell.clock import ControllerClock
from controller.shell.kept_fields import UnreadableRows
from controller.shell.meta import (
    ANY_VERSION,
    Committed,
    Create,
    Delete,
    Meta,
    MetaSession,
    MetaUnavailable,
    SessionState,
)
from controller.shell.rows import decode_level, level_path
from springtide.levels import SUPPORTED, Level, LevelRange, explain_level

log = logging.getLogger(__name__)

RUNNING_PATH: Final = "/controllers/running"
_RETRY_MS: Final = 500


class RunningRow(msgspec.Struct, frozen=True, kw_only=True):
    """`/controllers/running/{controller_id}`, ephemeral: a controller that runs, standbys too, so that one
    sees which releases are there. Those of release 0.1 have no such row."""

    controller_id: str
    url: str
    version: str
    levels: LevelRange


class UnsupportedLevel(UnreadableRows):
    """A cluster is at a level at which this release can't run."""

    def __init__(self, cluster: str, level: Level) -> None:
        super().__init__(f"cluster {cluster!r} is at {explain_level(level)}")
        self.cluster = cluster
        self.level = level


def check_level(cluster: str, data: bytes) -> None:
    """Check the row of a cluster's level. Raise UnsupportedLevel, ValueError."""
    level = decode_level(data)
    if not SUPPORTED.has(level):
        raise UnsupportedLevel(cluster, level)


async def why_not_stand(meta: Meta, clusters_path: str) -> str | None:
    """Return why this release can't serve all clusters, or None. A level's row that can't be read keeps no
    controller from serving the others. Raise MetaUnavailable."""
    clusters = await meta.children(clusters_path)
    nodes = await meta.get_many([level_path(cluster) for cluster in clusters])
    for cluster, node in zip(clusters, nodes, strict=True):
        try:
            if node is not None:
                check_level(cluster, node.data)
        except UnsupportedLevel as error:
            return str(error)
        except ValueError:  # of msgspec, or of text that is no UTF-8
            continue
    return None


# -- controllers that run --


async def keep_running_row(meta: Meta, clock: ControllerClock, row: RunningRow) -> None:
    """Keep the row of this controller there for as long as this runs, in each session anew."""
    while True:
        session = meta.session
        if session.state is SessionState.CONNECTED and not await _write(meta, row, session):
            await clock.sleep_ms(_RETRY_MS)
            continue
        await meta.session_changed(session)


async def _write(meta: Meta, row: RunningRow, session: MetaSession) -> bool:
    """Return whether the row is there, of this session."""
    path = f"{RUNNING_PATH}/{row.controller_id}"
    try:
        node = await meta.get_synced(path)
    except MetaUnavailable as error:
        log.debug("running_row_waits detail=%s", str(error))
        return False
    if node is not None and node.owner == session.session_id:
        return True
    create = Create(path, msgspec.json.encode(row), ephemeral=True)
    of_last_session = () if node is None else (Delete(path, ANY_VERSION),)
    return isinstance(await meta.start_write([*of_last_session, create]).outcome(), Committed)


async def read_running(meta: Meta, *, active_id: str | None) -> tuple[Process, ...]:
    """Return the controllers that run, by id. Raise MetaUnavailable."""
    names = await meta.children(RUNNING_PATH)
    nodes = await meta.get_many([f"{RUNNING_PATH}/{name}" for name in names])
    found = []
    for name, node in zip(names, nodes, strict=True):
        if node is None:
            continue
        try:
            row = msgspec.json.decode(node.data, type=RunningRow)
            url, version, levels = row.url, row.version, row.levels
        except ValueError:  # of msgspec, or of text that is no UTF-8
            url, version, levels = f"controller {name}", "", None
        found.append(
            Process(
                kind="controller",
                process_id=name,
                name=url,
                version=version,
                levels=levels,
                is_running=True,
                is_active=name == active_id,
            )
        )
    return tuple(found)
