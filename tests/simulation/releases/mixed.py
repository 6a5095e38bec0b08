"""A simulated cluster whose processes are of two releases: each restarts as this one or as the last.

A node is of the release whose driver it is an object of; `start` makes it one of the release that is wanted
by then, with the same name, clock and disk. Between nodes of different releases everything goes as
crossing.py says. Beside the oracle's invariants these are checked:

U2   before finalization nothing stored is unreadable to the last release: every row that is written is what
     the last release, too, would write of what it reads there; and at the end it reads each disk's notes
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from tests.simulation.events import keyed_random
from tests.simulation.network import Unreadable
from tests.simulation.releases import fetching
from tests.simulation.releases.crossing import Rows, received
from tests.simulation.releases.translation import Release, release_of, translated
from tests.simulation.violation import Violation
from tests.simulation.zookeeper import ModelZooKeeper, Outcome, Stored

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.disk import Disk

#: How a run begins, and how often: with the last release only, with both, with this one only.
BEGINNINGS = (None, 0.5, 1.0)
BEGINNING_SHARES = (6, 3, 1)


class _Silent:
    """Marks count what this release's nodes come to."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _nothing


def _nothing(*_: object, **__: object) -> None:
    return None


class _OracleOf:
    """The oracle as nodes of the last release see it: what they tell it, it hears in this release's words."""

    def __init__(self, oracle: Any) -> None:
        self._oracle = oracle

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._oracle, name)
        if not callable(value):
            return value

        def told(*args: Any, **named: Any) -> Any:
            args = translated(args, Release.THIS)
            return value(*args, **translated(named, Release.THIS))

        self.__dict__[name] = told
        return told


class _ClusterOf:
    """The cluster as nodes of the last release see it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.marks = _Silent()
        self.oracle = _OracleOf(cluster.oracle)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


class _ZooKeeperOf:
    """ZooKeeper as a controller of one release sees it: rows are bytes, which it encodes and decodes."""

    def __init__(self, mixed: Mixed, release: Release) -> None:
        self._mixed = mixed
        self._release = release
        self._zookeeper = mixed.cluster.zookeeper

    def __getattr__(self, name: str) -> Any:
        return getattr(self._zookeeper, name)

    def read_all(self) -> dict[str, Any]:
        rows = self._mixed.rows[self._release]
        return {key: self._mixed.read(key, self._release) for key in self._zookeeper.nodes if rows.knows(key)}

    def multi(
        self,
        session: str,
        controller_epoch: int,
        writes: list[tuple[str, Any | None]],
        done: Callable[[Outcome], None],
    ) -> None:
        stored = [
            (key, None if value is None else self._mixed.row(key, value, self._release))
            for key, value in writes
        ]
        self._zookeeper.multi(session, controller_epoch, stored, done)


class Mixed:
    """wanted: the release as which each process starts the next time. unread: what was refused because its
    receiver could not read it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.random = keyed_random(cluster.seed, "releases")
        self.unread: Counter[str] = Counter()
        self.rows = {release: Rows(release) for release in Release}
        self._views = {release: _ZooKeeperOf(self, release) for release in Release}
        self._wires = {release: fetching.Wire(release) for release in Release}
        self._world = {Release.THIS: cluster, Release.LAST: _ClusterOf(cluster)}
        self.running: dict[str, Release] = {}
        self._disks: dict[int, tuple[Disk, Disk]] = {}
        share = self.random.choices(BEGINNINGS, BEGINNING_SHARES)[0]
        self.wanted = {
            node.name: Release.THIS if share is not None and self.random.random() < share else Release.LAST
            for node in self.nodes
        }
        cluster.network.crossing = self._cross
        for key, node in cluster.zookeeper.nodes.items():
            value = translated(node.value, Release.LAST, objects=True)
            node.value, node.data = self.row(key, value, Release.LAST)
        for controller in cluster.controllers:
            controller.zookeeper = self._as_zookeeper(Release.THIS)
        for node in self.nodes:
            self.running[node.name] = Release.THIS
            self._supervise(node)

    @property
    def nodes(self) -> list[Any]:
        shards = self.cluster.shards
        return [*self.cluster.nodes, *(() if shards is None else shards.nodes)]

    def _as_zookeeper(self, release: Release) -> ModelZooKeeper:
        view: Any = self._views[release]
        found: ModelZooKeeper = view
        return found

    # --- processes --------------------------------------------------------------------------------------

    def _supervise(self, node: Any) -> None:
        """Whoever starts it has it started as the release that is wanted."""
        node.start = partial(self._start, node)

    def _start(self, node: Any) -> None:
        wanted = self.wanted[node.name]
        if self.running[node.name] is not wanted:
            self._become(node, wanted)
            self.cluster.events.note(f"{node.name} is of the {wanted.name.lower()} release")
        if hasattr(node, "disk"):
            before = node.disk
            node.disk = translated(before, wanted, objects=True)
            for name in ("logs", "quarantined"):  # a copy that was put back may be of either
                setattr(node.disk, name, translated(getattr(node.disk, name), wanted, objects=True))
            if node.disk is not before:
                self._disks[id(before)] = (before, node.disk)
        type(node).start(node)

    def disk_now(self, disk: Disk) -> Disk:
        """Return the object that a disk is today: each change of release makes another one of it."""
        while (found := self._disks.get(id(disk))) is not None:
            disk = found[1]
        return disk

    def _become(self, node: Any, release: Release) -> None:
        """The same object is a node of that release, which has not been started yet."""
        assert not node.is_up
        before = dict(node.__dict__)
        kind, given = self._driver(node, release)
        node.__dict__.clear()
        node.__class__ = kind
        kind.__init__(node, *given)
        for name in _KEPT & before.keys():
            setattr(node, name, before[name])
        self.running[node.name] = release
        self._supervise(node)
        if hasattr(node, "elections") and release is Release.LAST:
            node.submit = partial(_submit, node)

    def _driver(self, node: Any, release: Release) -> tuple[Any, tuple[Any, ...]]:
        cluster: Any = self._world[release]
        if hasattr(node, "broker_id"):
            return release.module("tests.simulation.broker_node").BrokerNode, (
                node.broker_id,
                node.events,
                node.network,
                node.random,
                cluster,
                node.controllers,
                translated(node.options, release),
                node.disk,
            )
        if hasattr(node, "coordinator_id"):
            kind = release.module("tests.simulation.coordinator_node").CoordinatorNode
            return kind, (node.coordinator_id, cluster, node.shards)
        told = self.cluster

        def on_shard_moved(before: Any, after: Any, is_alive: bool) -> None:
            this = Release.THIS
            told._on_shard_moved(translated(before, this), translated(after, this), is_alive)

        return release.module("tests.simulation.controller_node").ControllerNode, (
            node.name,
            node.events,
            node.network,
            self._views[release],
            translated(node.options, release),
            node.new_topic_id,
            lambda controller, record: told._on_published(controller, translated(record, Release.THIS)),
            node.on_went_back,
            node.on_taken_over,
            on_shard_moved,
            cluster.marks,
            node.poll_wait_ms,
            node.records_per_write,
        )

    # --- between them -----------------------------------------------------------------------------------

    def _cross(self, target: str, message: Any) -> Any:
        """Raise Unreadable."""
        release = self.running.get(target, Release.THIS)
        try:
            if type(message).__name__ in _FETCHING and release_of(type(message)) is not release:
                return fetching.received(message, release, self._wires)
            return received(message, release)
        except Unreadable as lost:
            self.unread[str(lost)] += 1
            self.cluster.events.note(f"{target}: {lost}")
            raise

    # --- rows -------------------------------------------------------------------------------------------

    def read(self, key: str, release: Release) -> Any:
        """Return the value of a key as a controller of that release reads it."""
        node = self.cluster.zookeeper.nodes[key]
        if not node.data:
            return node.value
        try:
            return self.rows[release].decode(key, node.data)
        except msgspec.MsgspecError as error:
            raise Violation("U2", f"the {release.name.lower()} release can't read {key}: {error}") from error

    def row(self, key: str, value: Any, release: Release) -> Stored:
        """Return what a controller of that release stores."""
        node = self.cluster.zookeeper.nodes.get(key)
        version = 0 if node is None else node.version + 1
        data = self.rows[release].encode(key, value, version)
        if not data:
            return Stored(value, b"")
        if release is Release.THIS:
            self._check_row(key, data, version)
        return Stored(self.rows[Release.THIS].decode(key, data), data)

    def _check_row(self, key: str, data: bytes, version: int) -> None:
        rows = self.rows[Release.LAST]
        try:
            again = rows.encode(key, rows.decode(key, data), version)
        except msgspec.MsgspecError as error:
            raise Violation("U2", f"{key} is unreadable to the last release: {error}: {data!r}") from error
        if again != data:
            raise Violation("U2", f"{key} is {data!r}, and the last release makes {again!r} of it")

    # --- the end ----------------------------------------------------------------------------------------

    def check_end(self) -> None:
        """Everything that is stored is readable to both releases."""
        for key in self.cluster.zookeeper.nodes:
            for release in Release:
                if self.rows[release].knows(key):
                    self.read(key, release)
        for broker in self.cluster.brokers.values():
            for note in broker.disk.notes.values():
                for release in Release:
                    try:
                        received(note, release)
                    except Unreadable as lost:
                        raise Violation("U2", f"{broker.name} keeps a note that is lost: {lost}") from lost


_FETCHING = ("FetchCall", "FetchAnswer")
#: What a node keeps over its restarts, whatever release it is of.
_KEPT = frozenset(
    {"life", "clock", "random", "poll_delays_ms", "told_level", "write_count", "elections", "incarnation"}
)


def _submit(node: Any, event: Any, answer: Callable[[Any], None], *, waits: bool = False) -> None:
    """An operator of this release asks a controller of the last."""
    asked = translated(event, Release.LAST)
    if asked is not event:
        told = answer

        def answer(reply: Any) -> None:
            told(translated(reply, Release.THIS))

    type(node).submit(node, asked, answer, waits=waits)


__all__ = ["Mixed", "Release"]
