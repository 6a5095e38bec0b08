"""The last rebalances of a shard's groups: why each began, what it moved, how long that took. For people:
nothing is decided by it.

It is in memory alone. A coordinator that has just taken a group over does not know what was before, and notes
a rebalance without a cause. Memory is bounded for each rebalance, each group and the shard, whatever clients
do: what goes beyond is counted only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from springtide.wire.questions import Place

REBALANCES_KEPT_MAX: Final = 10
"""Of one group."""
CAUSES_KEPT_MAX: Final = 20
PAIRS_KEPT_MAX: Final = 50
PLACES_KEPT_MAX: Final = 100
"""Of one rebalance: causes; members between which partitions moved; partitions that moved."""
UNITS_KEPT_MAX: Final = 20_000
"""Of a shard: rebalances, causes, pairs and places together; some 150 bytes each."""
PARTITIONS_FOLLOWED_MAX: Final = 10_000
"""Of one group at a time: a few milliseconds of the loop. Of a larger change it is not known what moved."""
NOT_KNOWN: Final = -1
ID_CHARS_MAX: Final = 100
"""Of an id, where people are told of a member."""


class CauseKind(StrEnum):
    """What has made a rebalance necessary."""

    JOINED = "joined"
    RETURNED = "returned"  # a static member, with another subscription than it left with, or too early
    LEFT = "left"
    SILENT = "silent"  # no heartbeat for its session
    KEPT_PARTITIONS = "kept_partitions"  # did not give them up within its rebalance timeout
    NOT_JOINED = "not_joined"  # did not join again within the rebalance timeout of a classic group
    NOT_SYNCED = "not_synced"  # did not ask for its assignment within its rebalance timeout
    MISSED_REBALANCE = "missed_rebalance"  # a classic member of a consumer group did neither in that time
    SUBSCRIPTION = "subscription"
    ASSIGNOR = "assignor"
    REJOINED = "rejoined"  # a member of a classic group asks for a rebalance, with the same subscription
    TOPICS = "topics"  # created, deleted, or more partitions: no member did it
    NOT_WRITTEN = "not_written"  # the assignments could not be stored
    TOO_LARGE = "too_large"  # more members than a lowered limit allows
    CONVERTED = "converted"  # to the other protocol
    NOT_KNOWN = "not_known"  # a coordinator took the group over meanwhile


class GroupCause(NamedTuple):
    """text: a sentence without its full stop. member_id: who did it, or empty. at_ms: Unix time."""

    kind: CauseKind
    text: str
    member_id: str = ""
    at_ms: int = NOT_KNOWN


TAKEN_OVER: Final = GroupCause(
    CauseKind.NOT_KNOWN, "not known: the group's coordinator took it over after this rebalance began"
)


class Moved:
    """Partitions that went from one member to another. places: the first ones, each with the milliseconds for
    which it had no owner. unowned_ms_max: of all of them. NOT_KNOWN: it had none before."""

    __slots__ = ("count", "places", "unowned_ms_max")

    def __init__(self) -> None:
        self.count = 0
        self.unowned_ms_max = NOT_KNOWN
        self.places: list[tuple[Place, int]] = []


class NotedRebalance:
    """A rebalance. Times are Unix milliseconds; NOT_KNOWN where that is so, or it has not happened yet.

    generation_id: the group's generation, or its epoch. began_ms: rises from rebalance to rebalance of a
    group, and so names it. assigned_ms: when the assignments were made. ended_ms: when each member had its
    own, when the last member left, or when the next rebalance began, and is_superseded tells which.
    to_move: partitions that the assignments give to other members than have them. moved: those that have got
    there. moves: by the members from and to which; empty: from none. paused: partitions that stayed with
    their member and were not consumed meanwhile; paused_ms_max: for how long.
    """

    __slots__ = (
        "assigned_ms",
        "assignor",
        "began_ms",
        "causes",
        "causes_total",
        "ended_ms",
        "generation_id",
        "group_id",
        "is_superseded",
        "moved",
        "moves",
        "paused",
        "paused_ms_max",
        "places_kept",
        "to_move",
        "units",
    )

    def __init__(self, group_id: str, generation_id: int, began_ms: int) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.began_ms = began_ms
        self.assigned_ms = self.ended_ms = NOT_KNOWN
        self.is_superseded = False
        self.assignor = ""
        self.causes: list[GroupCause] = []
        self.causes_total = 0
        self.to_move = self.moved = self.paused = self.paused_ms_max = NOT_KNOWN
        self.moves: dict[tuple[str, str], Moved] = {}
        self.places_kept = 0
        self.units = 1

    @property
    def is_under_way(self) -> bool:
        return self.ended_ms == NOT_KNOWN

    def note_cause(self, cause: GroupCause) -> None:
        self.causes_total += 1
        if len(self.causes) < CAUSES_KEPT_MAX:
            self.causes.append(cause)

    def note_move(self, place: Place, before: str, after: str, unowned_ms: int = NOT_KNOWN) -> None:
        """Note that a partition has come to another member."""
        moved = self._move(before, after, 1)
        if moved is not None:
            moved.unowned_ms_max = max(moved.unowned_ms_max, unowned_ms)
            if self.places_kept < PLACES_KEPT_MAX:
                self.places_kept += 1
                moved.places.append((place, unowned_ms))

    def note_new(self, places: Iterable[Place], count: int, after: str) -> None:
        """Note that a member has got so many partitions that had none before. places: the first ones."""
        moved = self._move("", after, count)
        if moved is not None:
            found = [(place, NOT_KNOWN) for place in islice(places, PLACES_KEPT_MAX - self.places_kept)]
            self.places_kept += len(found)
            moved.places += found

    def _move(self, before: str, after: str, count: int) -> Moved | None:
        """Count moves between two members; return them, or None where there is no room."""
        self.moved = max(0, self.moved) + count
        pair = (before[:ID_CHARS_MAX], after[:ID_CHARS_MAX])
        moved = self.moves.get(pair)
        if moved is None:
            if len(self.moves) >= PAIRS_KEPT_MAX:
                return None
            moved = self.moves[pair] = Moved()
        moved.count += count
        return moved

    def note_pause(self, unowned_ms: int) -> None:
        """Note that a partition stayed with its member, which did not consume it meanwhile."""
        self.paused = max(0, self.paused) + 1
        self.paused_ms_max = max(self.paused_ms_max, unowned_ms)


class RebalanceHistory:
    """changed: rebalances that have changed since they were taken. consumers_begun: how often the epoch of a
    `consumer` group was raised (Kafka's consumer-group-rebalance-count)."""

    __slots__ = ("_of", "_units", "changed", "consumers_begun")

    def __init__(self) -> None:
        self.changed: dict[NotedRebalance, None] = {}
        self.consumers_begun = 0
        #: By group, those that changed longest ago first; the oldest rebalance of each first.
        self._of: dict[str, deque[NotedRebalance]] = {}
        self._units = 0

    def of(self, group_id: str) -> tuple[NotedRebalance, ...]:
        """Return a group's rebalances, the oldest first."""
        return tuple(self._of.get(group_id, ()))

    def last(self, group_id: str) -> NotedRebalance | None:
        found = self._of.get(group_id)
        return found[-1] if found else None

    def all(self) -> list[NotedRebalance]:
        """Return the last rebalance of each group, and then all others."""
        before = [one for found in self._of.values() for one in islice(found, len(found) - 1)]
        return [found[-1] for found in self._of.values()] + before

    def under_way(self, group_id: str) -> NotedRebalance | None:
        last = self.last(group_id)
        return last if last is not None and last.is_under_way else None

    def begin(self, group_id: str, generation_id: int, at_ms: int) -> NotedRebalance:
        """Begin a rebalance, which ends one that is under way."""
        last = self.last(group_id)
        if last is not None:
            at_ms = max(at_ms, last.began_ms + 1)
            if last.is_under_way:
                last.is_superseded = True
                self.end(last, at_ms)
        rebalance = NotedRebalance(group_id, generation_id, at_ms)
        self._keep(rebalance)
        return rebalance

    def take_over(self, group_id: str, generation_id: int, *, ended_ms: int) -> NotedRebalance:
        """Note the last rebalance of a group that another coordinator had before. ended_ms: NOT_KNOWN: it is
        under way."""
        rebalance = NotedRebalance(group_id, generation_id, NOT_KNOWN)
        rebalance.ended_ms = ended_ms
        rebalance.note_cause(TAKEN_OVER)
        self._keep(rebalance)
        return rebalance

    def _keep(self, rebalance: NotedRebalance) -> None:
        found = self._of.setdefault(rebalance.group_id, deque())
        if len(found) >= REBALANCES_KEPT_MAX:
            self._drop(found)
        found.append(rebalance)
        self._units += rebalance.units
        self.note(rebalance)

    def _drop(self, found: deque[NotedRebalance]) -> None:
        gone = found.popleft()
        self._units -= gone.units
        self.changed.pop(gone, None)

    def note(self, rebalance: NotedRebalance) -> None:
        """Take in that a rebalance has changed. What there is no more room for is forgotten, of the groups
        first whose rebalances changed longest ago."""
        self.changed[rebalance] = None
        ids = len(rebalance.group_id) // ID_CHARS_MAX
        units = 1 + ids + len(rebalance.causes) + len(rebalance.moves) + rebalance.places_kept
        self._units += units - rebalance.units
        rebalance.units = units
        self._of[rebalance.group_id] = self._of.pop(rebalance.group_id)
        while self._units > UNITS_KEPT_MAX:
            group_id = next(iter(self._of))
            self._drop(self._of[group_id])
            if not self._of[group_id]:
                del self._of[group_id]

    def end(self, rebalance: NotedRebalance, at_ms: int) -> None:
        rebalance.ended_ms = max(at_ms, rebalance.began_ms)
        self.note(rebalance)

    def forget(self, group_id: str) -> None:
        """Forget a group that was deleted."""
        found = self._of.pop(group_id, deque())
        while found:
            self._drop(found)
