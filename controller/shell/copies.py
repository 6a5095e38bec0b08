"""A standby's copies of the clusters, as ZooKeeper had them when they were last read."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

import anyio.lowlevel

from controller.shell.clock import ControllerClock, Ids
from controller.shell.kept_fields import UnreadableRows
from controller.shell.leadership import CLUSTERS_PATH
from controller.shell.levels import UnsupportedLevel
from controller.shell.meta import Meta, Node
from controller.shell.metadata_store import ClusterStore, MetadataCorrupt
from controller.shell.published import Published
from controller.shell.rows import head_path

log = logging.getLogger(__name__)

#: Records replayed before other tasks get a turn.
SLICE_RECORDS: Final = 1_000


class Copies:
    """One copy a cluster, read anew when the cluster's head has moved."""

    def __init__(self, meta: Meta, clock: ControllerClock, ids: Ids) -> None:
        #: Whether all clusters were read; what is not here then is not in ZooKeeper either.
        self.are_complete = False
        self._meta = meta
        self._clock = clock
        self._ids = ids
        self._of: dict[str, ClusterCopy] = {}
        #: Why clusters can't be served as their znodes are.
        self.unreadable: dict[str, str] = {}

    def names(self) -> list[str]:
        return sorted(self._of)

    def published(self, cluster: str) -> Published | None:
        copy = self._of.get(cluster)
        return None if copy is None else copy.published

    def drop(self) -> None:
        """Forget all: what is driven needs no copy."""
        self._of = {}
        self.are_complete = False

    async def refresh(self, is_wanted: Callable[[], bool]) -> None:
        """Read what has changed. is_wanted: asked after each read, for a term may have begun meanwhile. Raise
        MetaUnavailable."""
        clusters = await self._meta.children(CLUSTERS_PATH)
        for gone in [cluster for cluster in self._of if cluster not in clusters]:
            del self._of[gone]
        for gone in self.unreadable.keys() - set(clusters):
            del self.unreadable[gone]
        for cluster in clusters:
            asked_ms = self._clock.now_mono_ms()
            head = await self._meta.get_synced(head_path(cluster))
            copy = self._of.get(cluster)
            if head is None:
                continue
            if copy is None or not copy.is_of(head):
                # When it moved while it was read, the next round tries again and the old copy stays.
                try:
                    copy = await read_published(self._meta, self._clock, self._ids, cluster)
                except UnreadableRows as error:
                    self._refuse(cluster, error)
                    copy = None
            if copy is not None and is_wanted():
                copy.published.as_of_ms = asked_ms
                self.unreadable.pop(cluster, None)
                self._of[cluster] = copy
        self.are_complete = is_wanted()

    async def take_over(self, cluster: str) -> tuple[ClusterStore, Published] | None:
        """Return the cluster's store and what is published of it, for a term; None if it can't be read. A
        copy that is current is not read again. Raise MetaUnavailable, and UnsupportedLevel: another
        controller must serve all of them."""
        copy = self._of.get(cluster)
        if copy is not None and copy.is_of(await self._meta.get(head_path(cluster))):
            self._of[cluster] = copy._replace(head=None)
            return copy.store, copy.published
        store = ClusterStore(meta=self._meta, clock=self._clock, ids=self._ids, cluster=cluster)
        try:
            if not await store.load():
                log.error("cluster_incomplete cluster=%s detail=%s", cluster, "it has no head")
                return None
        except UnsupportedLevel:
            raise
        except UnreadableRows as error:
            # The others must go on. No controller serves this one until its znodes are repaired, or one of
            # the release that wrote them runs.
            self._refuse(cluster, error)
            return None
        self.unreadable.pop(cluster, None)
        return store, await published_of(store)

    def _refuse(self, cluster: str, error: UnreadableRows) -> None:
        """Tell of a cluster that can't be served, once for each reason."""
        if self.unreadable.get(cluster) != str(error):
            self.unreadable[cluster] = str(error)
            if isinstance(error, MetadataCorrupt):
                log.error("cluster_corrupt cluster=%s detail=%s", cluster, error)
            else:
                log.error("cluster_of_another_release cluster=%s detail=%s", cluster, error)


class ClusterCopy(NamedTuple):
    """A cluster as ZooKeeper had it when `head` was its head. Every write names itself in the head, so under
    the same head it still has it: a controller that takes over need not read the cluster again. head: None
    once a term has taken the store over, which may count on from there with what is never written."""

    head: Node | None
    store: ClusterStore
    published: Published

    def is_of(self, head: Node | None) -> bool:
        """Return whether nothing was written since, if this is the head now."""
        known = self.head
        return (
            head is not None
            and known is not None
            and (head.version, head.data) == (known.version, known.data)
        )


async def read_published(meta: Meta, clock: ControllerClock, ids: Ids, cluster: str) -> ClusterCopy | None:
    """Read a cluster; None when it does not exist, or changed meanwhile. Raise MetaUnavailable,
    UnreadableRows."""
    store = ClusterStore(meta=meta, clock=clock, ids=ids, cluster=cluster)
    if not await store.load():
        return None
    head = await meta.get(head_path(cluster))
    if head is None or head.version != store.head_version:
        return None
    published = await published_of(store)
    published.as_of_ms = clock.now_mono_ms()
    return ClusterCopy(head, store, published)


async def published_of(store: ClusterStore) -> Published:
    """Replay the records of a store that is loaded."""
    published = Published(store.cluster)
    for done, (record, number) in enumerate(store.records()):
        published.replay(record, number)
        if done % SLICE_RECORDS == SLICE_RECORDS - 1:
            await anyio.lowlevel.checkpoint()
    return published
