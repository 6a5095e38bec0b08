"""A streaming query's offsets, on the driver: where it starts, how far the next micro-batch goes.

The first micro-batch only pins the start: it goes from `unresolved_start` to the resolved offsets and reads
nothing. Spark writes its end to the checkpoint before it runs, so a restart finds the same start, although
"latest" has moved. Each later one goes from the end of the last one towards the logs' ends, as far as rates
allow.

A leader epoch is remembered for each end seen, by `memory` across restarts too. When it changes, the new
leader is asked where the old epoch ended: if below what was read, the log was truncated and has grown again,
which offsets alone don't show (KIP-101, KIP-320). If the leader does not know the epoch, it leads another
log. Where a query continues and no epoch is remembered, a log that had elections below what was read may have
been truncated meanwhile: a warning says so.

Each offset says to which topic it belongs, by the topic's id. A topic that was deleted and created again
has other records at the same offsets, perhaps in the same leader epoch, so it is a loss like the others, and
where losses are accepted it is read from its first record. A checkpoint without ids (of an earlier release,
or of Spark's Kafka source) takes those of the topics that are there when the query continues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from pipeline.client.errors import ClientError, TopicUnknown
from pipeline.client.offset_words import read_until
from pipeline.client.values import FoundOffset, PartitionRange, TopicPartition
from pipeline.source.offset_json import (
    Offsets,
    TopicIds,
    offsets_from_json,
    offsets_to_json,
    topic_ids_from_json,
)
from pipeline.source.offsets import (
    backlog,
    is_unresolved,
    made_again,
    of_new_topics,
    raise_losses,
    ranges_between,
    told_made_again,
    unresolved_start,
)
from pipeline.source.options import SourceOptions
from pipeline.source.planning import TriggerClock, limit_rate, plan_tasks
from pipeline.source.positions import LogEnd, Position
from pipeline.source.start_state import Pinned, StartState
from springtide.wire.fetch_response import EpochEnd

_log = logging.getLogger(__name__)

FIRST_EPOCH = 0
OffsetJson = dict[str, dict[str, int]]


class StreamCluster(Protocol):
    """The planner's part of SourceCluster."""

    def partitions(
        self,
        *,
        must_exist: bool,
        known: Collection[TopicPartition] = (),
        known_ids: Mapping[str, str] = ...,
    ) -> list[TopicPartition]: ...

    def topic_ids(self) -> TopicIds: ...

    def ends(self, partitions: list[TopicPartition], edge: LogEnd) -> dict[TopicPartition, FoundOffset]: ...

    def resolve(
        self, position: Position, partitions: list[TopicPartition], *, latest: Offsets | None = None
    ) -> Offsets: ...

    def epoch_ends(self, epochs: dict[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]: ...


class StreamPlanner:
    """The planner of one running query. Without a `memory`, leader epochs are forgotten at its end."""

    def __init__(
        self,
        options: SourceOptions,
        cluster: StreamCluster,
        clock_ms: Callable[[], int],
        memory: StartState | None = None,
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._clock_ms = clock_ms
        self._memory = memory
        self._trigger = TriggerClock()
        self._frozen: Offsets | None = None
        self._frozen_ids: TopicIds = {}
        self._epochs: dict[TopicPartition, int] = {} if memory is None else memory.epochs()
        """Leader epochs at which each log was whole up to where it is read."""
        self._remembered: Collection[TopicPartition] | None = set(self._epochs)
        """Partitions whose leader epochs outlived the last driver; None once the query has continued."""
        self._seen: Offsets | None = None

    def initial(self) -> dict[str, object]:
        """Return the offset before the first micro-batch."""
        return unresolved_start(self._options.starting)

    def freeze(self) -> None:
        """Fix the logs' ends where they are now, for Trigger.AvailableNow."""
        partitions = self._cluster.partitions(must_exist=False)
        self._frozen_ids = self._cluster.topic_ids()
        self._frozen = self._ends(partitions)

    def next_end(self, start: object, *, is_limited: bool) -> dict[str, object] | OffsetJson:
        """Return where the micro-batch that begins at `start` ends; `start` itself if there is nothing to do
        yet. `is_limited`: whether rate options count. Raises DataLossError, InvalidOption, or the client's
        errors."""
        try:
            return self._next_end(start, is_limited=is_limited)
        except TopicUnknown:  # deleted after the first question: it is told as one deleted before
            return self._next_end(start, is_limited=is_limited)

    def _next_end(
        self, start: object, *, is_limited: bool, is_second: bool = False
    ) -> dict[str, object] | OffsetJson:
        if is_unresolved(start):
            partitions = self._cluster.partitions(must_exist=True)
            self._remembered = None
            return offsets_to_json(*self._start(partitions))
        current, known_ids = offsets_from_json(start), topic_ids_from_json(start)
        partitions = self._cluster.partitions(must_exist=False, known=current.keys(), known_ids=known_ids)
        topic_ids = known_ids | self._cluster.topic_ids()
        current = self._without_old_topics(current, known_ids, topic_ids, partitions)
        latest = self._ends(partitions, after=current)
        if not is_second and made_again(topic_ids, self._cluster.topic_ids()):
            # Asked until the new topic answered: by the id of the old one no task would get its records.
            return self._next_end(start, is_limited=is_limited, is_second=True)
        goal = latest
        if self._frozen is not None:
            again = made_again(self._frozen_ids, topic_ids)  # since the ends were fixed: fix them anew
            self._frozen |= {where: end for where, end in latest.items() if where.topic in again}
            self._frozen_ids = topic_ids
            goal = _within_frozen(current, latest, self._frozen)
        self._report(ranges_between(current, goal).losses)
        self._warn_of_unseen_cuts({where: end for where, end in current.items() if where in latest})
        if is_limited:
            goal = self._limited(current, goal)
        if backlog(current, goal):
            self._trigger = TriggerClock(self._clock_ms())
        return offsets_to_json(goal, topic_ids)

    def _without_old_topics(
        self, current: Offsets, known: TopicIds, now: TopicIds, partitions: Collection[TopicPartition]
    ) -> Offsets:
        """Return where to continue, after telling of topics that were made again: in these, at the first
        record. Leader epochs of the old topics say nothing of the new ones."""
        again = made_again(known, now)
        if not again:
            return current
        self._report(told_made_again(current, known, now))
        self._epochs = {where: epoch for where, epoch in self._epochs.items() if where.topic not in again}
        there = set(partitions)
        left = {where: at for where, at in current.items() if where.topic not in again or where in there}
        return of_new_topics(left, again)

    def _start(self, partitions: list[TopicPartition]) -> Pinned:
        """Return where the query begins: as decided before, or as its options mean now."""
        memory = self._memory
        pinned = None if memory is None else memory.pinned()
        if pinned is None:
            topic_ids = self._cluster.topic_ids() | self._frozen_ids
            offsets = self._cluster.resolve(self._options.starting, partitions, latest=self._frozen)
            pinned = Pinned(offsets, topic_ids) if memory is None else memory.pin(offsets, topic_ids)
        self._ends(partitions)
        return pinned

    def latest_seen(self) -> OffsetJson | None:
        """Return the logs' ends when the last micro-batch was planned, which shows the lag."""
        return None if self._seen is None else offsets_to_json(self._seen)

    def _ends(
        self, partitions: list[TopicPartition], *, after: Mapping[TopicPartition, int] | None = None
    ) -> Offsets:
        """Return the logs' ends now, after checking that the logs still hold what was read before `after`.
        If None, nothing is checked, and the remembered epochs stay."""
        found = self._cluster.ends(partitions, LogEnd.LATEST)
        if self._options.epoch_check and after is not None:
            self._check_epochs(after, found)
        epochs = {where: one.leader_epoch for where, one in found.items() if one.leader_epoch >= 0}
        known = {where: epoch for where, epoch in self._epochs.items() if where in found}
        self._remember({**epochs, **known} if after is None else {**known, **epochs})
        self._seen = {where: one.offset for where, one in found.items()}
        return dict(self._seen)

    def _remember(self, epochs: dict[TopicPartition, int]) -> None:
        if self._memory is not None and epochs != self._epochs:
            self._memory.remember(epochs)
        self._epochs = epochs

    def _check_epochs(
        self, next_offsets: Mapping[TopicPartition, int], found: Mapping[TopicPartition, FoundOffset]
    ) -> None:
        changed = {
            where: epoch
            for where, epoch in self._epochs.items()
            if epoch >= 0
            and where in next_offsets
            and where in found
            and found[where].leader_epoch not in (epoch, -1)
        }
        if not changed:
            return
        ends = self._cluster.epoch_ends(changed)
        self._report(
            f"{where} was read {read_until(next_offsets[where])}, but {_told_end(epoch, ends[where])}"
            for where, epoch in sorted(changed.items())
            if max(ends[where].end_offset, 0) < next_offsets[where]
        )

    def _warn_of_unseen_cuts(self, read_until: Mapping[TopicPartition, int]) -> None:
        """Warn, once, where a query continues, of logs that may have been cut while no driver ran."""
        remembered, self._remembered = self._remembered, None
        if remembered is None or not self._options.epoch_check:
            return
        unknown = {where: end for where, end in read_until.items() if end > 0 and where not in remembered}
        if not unknown:
            return
        try:
            ends = self._cluster.epoch_ends(dict.fromkeys(unknown, FIRST_EPOCH))
        except ClientError as error:
            _log.warning("unseen_cuts_possible cause=%s", error)
            return
        had_elections = [where for where, end in sorted(ends.items()) if end.end_offset < unknown[where]]
        if had_elections:
            shown = ", ".join(map(str, had_elections[:10])) + (", ..." if len(had_elections) > 10 else "")
            _log.warning(
                "unseen_cuts_possible partitions=%s cause=%s consequence=%s hint=%s",
                shown,
                f"{len(had_elections)} partitions had elections of leaders below what was read here",
                "if one of them cut records off while no driver ran, others may stand in their place, "
                "and this query does not see it",
                "the source option 'startState' remembers what is needed to decide",
            )

    def _report(self, losses: Iterable[str]) -> None:
        told = list(losses)
        if self._options.fail_on_data_loss:
            raise_losses(told)
        for loss in told:
            _log.warning("data_loss_accepted detail=%s hint=%s", loss, "failOnDataLoss is false")

    def _limited(self, current: Offsets, goal: Offsets) -> Offsets:
        options = self._options
        least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
        if (
            least is not None
            and self._frozen is None
            and self._trigger.should_wait(
                current,
                goal,
                now_ms=self._clock_ms(),
                min_offsets=least,
                max_delay_ms=options.max_trigger_delay_ms,
            )
        ):
            return current
        return goal if most is None else limit_rate(current, goal, max_offsets=most)


def _told_end(epoch: int, end: EpochEnd) -> str:
    if end.end_offset < 0:
        return f"its leader does not know leader epoch {epoch}: the log is another one"
    return f"leader epoch {epoch} ended before offset {end.end_offset}: the log was truncated"


def _within_frozen(current: Offsets, latest: Offsets, frozen: Offsets) -> Offsets:
    """Return the frozen ends, as far as the logs still reach them. Partitions that were added later wait for
    the next run; one that was read before and is not frozen stays where it is."""
    return {
        where: min(frozen.get(where, current.get(where, end)), end)
        for where, end in latest.items()
        if where in frozen or where in current
    }


def plan_between(options: SourceOptions, start: object, end: object) -> list[tuple[PartitionRange, ...]]:
    """Return a micro-batch's tasks, which depend on its two offsets and the options only. Raises
    DataLossError."""
    if is_unresolved(start):
        return []
    found = ranges_between(
        offsets_from_json(start),
        offsets_from_json(end),
        known=topic_ids_from_json(start),
        now=topic_ids_from_json(end),
    )
    if options.fail_on_data_loss:
        raise_losses(found.losses)
    return plan_tasks(found.ranges, options.plan)
