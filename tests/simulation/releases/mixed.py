"""A simulated cluster whose processes are of two releases: each restarts as this one or as the last.

A node is of the release whose driver it is an object of; `start` makes it one of the release that is wanted
by then, with the same name, clock and disk. Between nodes of different releases everything goes as
crossing.py says. Beside the oracle's invariants these are checked:

U1   what a release reads of its own rows is what it wrote
U2   before finalization nothing stored is unreadable to the last release: every row that is written is what
     the last release, too, would write of what it reads there; and at the end it reads each disk's notes
U3   the cluster's level never falls
U4   no process acts under a level that it can't run at: the level is not raised while a member is known to be
     of the last release, or has not run for long; afterwards none of that release is registered

A controller of release 0.1 (level 0) knew no levels and told of itself only while it was the active one:
that none ran any more when the level was raised was left to operators, here as in docs/upgrades.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from controller.core.events import FinalizeUpgrade, Process, UpgradeFinalized
from controller.core.records import Cause
from springtide.levels import UNTOLD, Level, LevelRange
from tests.simulation.events import keyed_random
from tests.simulation.network import Unreadable
from tests.simulation.releases import fetching, files
from tests.simulation.releases.crossing import Rows, received
from tests.simulation.releases.translation import Release, release_of, translated
from tests.simulation.violation import Violation
from tests.simulation.zookeeper import ModelZooKeeper, Outcome, Stored
from tests.upgrade.last_release import NAMED, named

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.disk import Disk

#: What the last release knows (tests/upgrade/last_release).
LAST_LEVEL = Level(named(NAMED.read_text(encoding="utf-8")).level)
#: A controller may believe for so many of its graces what a process told before.
GRACES = 3
#: So many runs restart whole.
BY_HALVES = 0.15
#: After which share of the faults' time an upgrade goes on to its end; None: in this run it does not.
GOES_ON = (None, 0.0, 0.0, 0.3)
ASKED_MS_MIN = 1_000
#: So many times at most, or a few more.
ASKED_MAX = 20
NEVER_MS = 2**62
_REGISTERED = (Cause.BROKER_REGISTERED, Cause.COORDINATOR_REGISTERED)
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

    def _check_level(self, what: str) -> None:
        """U4 of a controller."""
        if self._release is Release.LAST and self._mixed.level > LAST_LEVEL:
            raise Violation("U4", f"{what} at level {self._mixed.level}, and is of the last release")

    def claim_leadership(self, name: str) -> int | None:
        epoch: int | None = self._zookeeper.claim_leadership(name)
        if epoch is not None:
            self._check_level(f"{name} stands")
        return epoch

    def read_all(self) -> dict[str, Any]:
        self._check_level("a controller reads rows")
        rows = self._mixed.rows[self._release]
        return {key: self._mixed.read(key, self._release) for key in self._zookeeper.nodes if rows.knows(key)}

    def multi(
        self,
        session: str,
        controller_epoch: int,
        writes: list[tuple[str, Any | None]],
        done: Callable[[Outcome], None],
    ) -> None:
        self._check_level(f"{session} writes")
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
        #: How a release says that it can't read a row.
        self._unreadable: tuple[type[Exception], ...] = (
            msgspec.MsgspecError,
            *(release.module("controller.shell.kept_fields").UnreadableRows for release in Release),
        )
        self._world = {Release.THIS: cluster, Release.LAST: _ClusterOf(cluster)}
        self.running: dict[str, Release] = {}
        self._disks: dict[int, tuple[Disk, Disk]] = {}
        share = self.random.choices(BEGINNINGS, BEGINNING_SHARES)[0]
        #: The operator asks to raise the level, or has: no controller goes back.
        self.is_final = False
        #: From when on all upgrades go one way, and the operator asks to raise the level.
        self.goes_on_ms = NEVER_MS
        self._is_over = False
        self._ask_ms = ASKED_MS_MIN
        #: When each process began to be of its release.
        self._since_ms: dict[str, int] = {}
        self.wanted = {
            node.name: Release.THIS if share is not None and self.random.random() < share else Release.LAST
            for node in self.nodes
        }
        #: All processes change their release in one moment, or none does.
        self.is_by_halves = self.random.random() < BY_HALVES
        if self.is_by_halves:
            self.wanted = dict.fromkeys(self.wanted, Release.LAST)
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
            node.disk = self._found(node.name, before, wanted)
            if node.disk is not before:
                self._disks[id(before)] = (before, node.disk)
        type(node).start(node)

    def _found(self, name: str, disk: Any, release: Release) -> Any:
        try:
            return files.found(disk, release)
        except Unreadable as error:
            raise Violation("U2", f"{name} keeps a note that is lost: {error}") from error

    def disk_now(self, disk: Disk) -> Disk:
        """Return the object that a disk is today: each change of release makes another one of it."""
        while (found := self._disks.get(id(disk))) is not None:
            disk = found[1]
        return disk

    def _become(self, node: Any, release: Release) -> None:
        """The same object is a node of that release, which has not been started yet."""
        assert not node.is_up
        before = {name: getattr(node, name) for name in _KEPT if hasattr(node, name)}
        kind, given = self._driver(node, release)
        node.__dict__.clear()
        node.__class__ = kind
        kind.__init__(node, *given)
        for name, value in before.items():
            setattr(node, name, value)
        self.running[node.name] = release
        self._since_ms[node.name] = self.cluster.events.now_ms
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
        except self._unreadable as error:
            raise Violation("U2", f"the {release.name.lower()} release can't read {key}: {error}") from error

    def row(self, key: str, value: Any, release: Release) -> Stored:
        """Return what a controller of that release stores."""
        node = self.cluster.zookeeper.nodes.get(key)
        version = 0 if node is None else node.version + 1
        data = self.rows[release].encode(key, value, version)
        if not data:
            return Stored(value, b"")
        if key == "level":
            self._check_level(value.level)
        elif self.level > LAST_LEVEL:
            self._check_member(key, value)
        elif release is Release.THIS and self.rows[Release.LAST].knows(key):
            self._check_row(key, data, version)
        read = self.rows[release].decode(key, data)
        if read != value:
            raise Violation("U1", f"{key} was to hold {value}, and is read as {read}")
        return Stored(read if release is Release.THIS else self.rows[Release.THIS].decode(key, data), data)

    def _check_row(self, key: str, data: bytes, version: int) -> None:
        rows = self.rows[Release.LAST]
        try:
            again = rows.encode(key, rows.decode(key, data), version)
        except self._unreadable as error:
            raise Violation("U2", f"{key} is unreadable to the last release: {error}: {data!r}") from error
        if again != data:
            raise Violation("U2", f"{key} is {data!r}, and the last release makes {again!r} of it")

    # --- levels -----------------------------------------------------------------------------------------

    @property
    def level(self) -> int:
        """The cluster's, as ZooKeeper has it."""
        node = self.cluster.zookeeper.nodes.get("level")
        return 0 if node is None else int(node.value.level)

    def _check_level(self, level: int) -> None:
        """U3, and U4 of a level that is raised. What a controller believes of a process is up to a grace old,
        or what an earlier life of it told."""
        if level < self.level:
            raise Violation("U3", f"the level falls from {self.level} to {level}")
        if level <= LAST_LEVEL:
            return
        for node in self.nodes:
            since_ms = self.cluster.events.now_ms - self._since_ms.get(node.name, 0)
            is_controller = node in self.cluster.controllers
            is_member = node.name.replace("-", "/") in self.cluster.zookeeper.nodes
            is_member = is_member or (is_controller and node.is_up)
            is_old = (
                self.running[node.name] is Release.LAST and since_ms > GRACES * self.cluster.options.grace_ms
            )
            if is_member and is_old:
                raise Violation(
                    "U4", f"the level is raised to {level}, and {node.name} is of the last release"
                )

    def _check_member(self, key: str, value: Any) -> None:
        """U4 of a process that is registered."""
        registration = getattr(value, "registration", None)
        node = next((node for node in self.nodes if node.name.replace("-", "/") == key), None)
        if registration is None or node is None or self.running[node.name] is not Release.LAST:
            return
        if registration.incarnation_id == f"{node.name}#{node.life}" and value.change.cause in _REGISTERED:
            raise Violation("U4", f"{node.name}, of the last release, is registered at level {self.level}")

    def may_become(self, node: Any, release: Release) -> bool:
        """Return whether anybody would start it so: no controller of 0.1 after the level was raised."""
        is_safe = release is Release.THIS or not self.is_final or node not in self.cluster.controllers
        return is_safe or LAST_LEVEL > UNTOLD

    def begin(self, faults_ms: int) -> None:
        """The faults begin. In most runs the upgrade is meant to be finalized, from some time on."""
        share = self.random.choice(GOES_ON)
        if share is not None:
            self._ask_ms = max(ASKED_MS_MIN, faults_ms // ASKED_MAX)
            self.goes_on_ms = self.cluster.events.now_ms + int(share * faults_ms)
            self.cluster.events.at(self.goes_on_ms, self._ask)

    @property
    def goes_on(self) -> bool:
        """Whether processes only go to this release now."""
        return not self.is_final and self.cluster.events.now_ms >= self.goes_on_ms

    def _ask(self) -> None:
        """Before the faults end: the operator asks, and asks again."""
        if self._is_over:
            return
        controller = self.cluster.active_controller()
        if controller is not None and self.can_ask_to_finalize():
            self.finalize(controller)
        self.cluster.events.after(self._ask_ms * (0.2 + self.random.random()), self._ask)

    def can_ask_to_finalize(self) -> bool:
        """Return whether the operator has to fear no controller that tells nobody of itself."""
        return LAST_LEVEL > UNTOLD or all(
            Release.LAST not in (self.running[each.name], self.wanted[each.name])
            for each in self.cluster.controllers
        )

    def finalize(self, controller: Any) -> None:
        """The operator asks for it."""
        self.is_final = True
        process = partial(Process, kind="controller", version="", is_running=True)
        running = [each for each in self.cluster.controllers if each.is_up]
        event = FinalizeUpgrade(
            wall_ms=self.cluster.events.now_ms,
            actor="operator",
            controllers=tuple(
                process(
                    process_id=each.name,
                    name=each.name,
                    is_active=each is controller,
                    levels=_levels_of(self.running[each.name]),
                )
                for each in running
            ),
        )

        def answered(reply: Any) -> None:
            self.is_final = self.level > LAST_LEVEL
            is_done = isinstance(reply, UpgradeFinalized)
            self.cluster.marks.reached("upgrade.finalized" if is_done else "upgrade.refused")
            self.cluster.events.note(f"{controller.name} answers: {reply}")

        controller.submit(event, answered)

    def end(self) -> None:
        """The faults end: what can't serve any more since the level was raised comes back as this release."""
        self._is_over = True
        self.is_final = self.level > LAST_LEVEL
        for node in self.nodes if self.is_final else ():
            self.wanted[node.name] = Release.THIS
            if node.is_up and self.running[node.name] is Release.LAST:
                node.crash()
                node.start()

    # --- the end ----------------------------------------------------------------------------------------

    def check_end(self) -> None:
        """Everything that is stored is readable to both releases, as long as there is a way back."""
        if self.level > LAST_LEVEL:
            return
        for key in self.cluster.zookeeper.nodes:
            for release in Release:
                if self.rows[release].knows(key):
                    self.read(key, release)
        for broker in self.cluster.brokers.values():
            for release in Release:
                self._found(broker.name, broker.disk, release)


_FETCHING = ("FetchCall", "FetchAnswer")
#: What a node keeps over its restarts, whatever release it is of.
_KEPT = frozenset(
    {"life", "clock", "random", "poll_delays_ms", "told_level", "write_count", "elections", "incarnation"}
)


def _levels_of(release: Release) -> LevelRange:
    levels: LevelRange = translated(release.module("springtide.levels").SUPPORTED, Release.THIS)
    return levels


def _submit(node: Any, event: Any, answer: Callable[[Any], None], *, waits: bool = False) -> None:
    """An operator of this release asks a controller of the last."""
    asked = translated(event, Release.LAST)
    if asked is not event:
        told = answer

        def answer(reply: Any) -> None:
            told(translated(reply, Release.THIS))

    type(node).submit(node, asked, answer, waits=waits)


__all__ = ["Mixed", "Release"]
