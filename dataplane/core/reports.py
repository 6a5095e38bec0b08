"""What this broker's replicas have learnt and no controller knows yet: pure.

The driver, which carries out the effects of replicas, notes here what a report has to hold. A
proposal counts as promised from the moment it is taken (2.5, promises). Everything else stays untold until
the answer to its report: a report that was lost has told nothing. A FULL state comes from a controller that
knows nothing of this broker, so everything is told again.

A method that notes something returns true if a report should go out soon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Generic

from msgspec.structs import replace

from dataplane.core.creations import UntoldCreations
from dataplane.core.hosted import H
from dataplane.core.log_ends import UntoldLogEnds
from springtide.contract.lag_report import (
    CreatedLogs,
    IsrProposal,
    PartitionLag,
    ReplicaLogEnd,
    ReplicaProblem,
)
from springtide.contract.partition_state import PartitionKey, PartitionState
from springtide.contract.transactions import OpenTransactions

UNREPORTED_PROBLEMS_MAX: Final = 10_000
"""Limit of problems that wait for a controller; the oldest are dropped, but remain in the log file."""
OPEN_TOLD_AGAIN_MS: Final = 10_000
"""A transaction that stays open is told again after so long."""


class Reports(Generic[H]):
    """partitions: the broker's table."""

    __slots__ = (
        "_creations",
        "_is_set_aside_untold",
        "_lags",
        "_log_ends",
        "_partitions",
        "_problems",
        "_proposals",
    )

    def __init__(self, broker_id: int, partitions: Mapping[PartitionKey, H]) -> None:
        self._partitions = partitions
        self._log_ends = UntoldLogEnds()
        self._creations = UntoldCreations(broker_id)
        self._proposals: dict[PartitionKey, None] = {}
        #: Leaders of which there may be news.
        self._lags: dict[PartitionKey, H] = {}
        self._problems: list[ReplicaProblem] = []
        #: True if the logs in quarantine are to be reported: they changed, or a controller begins.
        self._is_set_aside_untold = False

    # What happens

    def on_applied(self, hosted: H, state: PartitionState) -> bool:
        """Note that a replica with a log was given a state."""
        has_log_end = self._log_ends.on_applied(hosted.key, hosted.replica)
        return self._creations.on_applied(state) or has_log_end

    def on_full_state_begins(self) -> None:
        """Forget which logs were told of. Called before the states of a FULL batch are applied."""
        self._creations.on_full_state()

    def on_full_state(self) -> None:
        """Tell the lag of every partition again. Called once a FULL batch is applied."""
        self._lags = dict(self._partitions)
        for hosted in self._lags.values():
            hosted.lag_reported = None

    def note_news(self, hosted: H) -> None:
        """Note that something happened to this replica, so that its lag may have changed."""
        self._lags[hosted.key] = hosted

    def note_proposal(self, key: PartitionKey) -> None:
        self._proposals[key] = None

    def note_problem(self, problem: ReplicaProblem) -> None:
        if len(self._problems) >= UNREPORTED_PROBLEMS_MAX:
            self._problems.pop(0)
        self._problems.append(problem)

    def note_set_aside(self) -> None:
        """Note that the logs in quarantine are to be reported: only once a whole batch is applied, because a
        topic must not be brought back by half its logs. Called again if a report of them was lost."""
        self._is_set_aside_untold = True

    def forget(self, key: PartitionKey) -> None:
        self._lags.pop(key, None)
        self._proposals.pop(key, None)
        self._log_ends.forget(key)
        self._creations.forget(key)

    # What a report asks for

    def due_proposals(self, now_ms: int) -> Sequence[IsrProposal]:
        """Return the proposals that leaders have ready. Their promises begin now."""
        ready, self._proposals = self._proposals, {}
        return [
            proposal
            for key in ready
            if (hosted := self._partitions.get(key)) is not None
            and (leader := hosted.replica.leading) is not None
            and (proposal := leader.due_proposal(now_ms)) is not None
        ]

    def changed_lags(self, now_ms: int, *, count_max: int) -> Sequence[PartitionLag]:
        """Return what changed of the partitions that are led here, since it was returned last."""
        lags: list[PartitionLag] = []
        for key, hosted in list(self._lags.items()):
            if len(lags) >= count_max:
                break
            del self._lags[key]
            leader = hosted.replica.leading
            lag = None if leader is None else leader.lag(now_ms)
            if lag is not None:
                lag = replace(lag, bytes_in=hosted.bytes_in, bytes_out=hosted.bytes_out)
            if lag is not None and not _is_same_lag(lag, hosted.lag_reported):
                hosted.lag_reported = lag
                lags.append(lag)
            if not hosted.replica.role.is_at_rest or (lag is not None and lag.transactions is not None):
                self._lags[key] = hosted  # behind those that are not told of yet
        return lags

    def untold_log_ends(self, *, count_max: int) -> Sequence[ReplicaLogEnd]:
        return self._log_ends.next(count_max=count_max)

    def untold_creations(self, *, count_max: int) -> Sequence[CreatedLogs]:
        return self._creations.next(count_max=count_max)

    def unreported_problems(self) -> Sequence[ReplicaProblem]:
        return tuple(self._problems)

    def take_set_aside(self) -> bool:
        """Return whether the logs in quarantine are to be told. They count as told from now on."""
        is_untold, self._is_set_aside_untold = self._is_set_aside_untold, False
        return is_untold

    # What the controller has heard

    def on_log_ends_told(self, log_ends: Iterable[ReplicaLogEnd]) -> bool:
        return self._log_ends.on_told(log_ends)

    def on_creations_told(self, created: Iterable[CreatedLogs]) -> bool:
        return self._creations.on_told(created)

    def on_problems_reported(self, problems: Iterable[ReplicaProblem]) -> None:
        told = {id(problem) for problem in problems}
        self._problems = [problem for problem in self._problems if id(problem) not in told]


def _is_same_lag(lag: PartitionLag, reported: PartitionLag | None) -> bool:
    """Return whether nothing changed that an operator looks at. `lag_ms` stays small for a follower that has
    everything; for another it grows, and is reported.
    """
    if reported is None:
        return False
    return (
        lag.leader_epoch == reported.leader_epoch
        and lag.log_end_offset == reported.log_end_offset
        and lag.high_watermark == reported.high_watermark
        and lag.log_start_offset == reported.log_start_offset
        and lag.size_bytes == reported.size_bytes
        and lag.bytes_out == reported.bytes_out
        and all(follower.lag_records == 0 for follower in lag.followers)
        and len(lag.followers) == len(reported.followers)
        and all(follower.lag_records == 0 for follower in reported.followers)
        and _told(lag.transactions) == _told(reported.transactions)
    )


def _told(transactions: OpenTransactions | None) -> object:
    """Return what is worth a report of open transactions: also that they are open still, from time to time,
    because the controller finds those that hang by it."""
    if transactions is None:
        return None
    named = [(one.producer_id, one.producer_epoch, one.first_offset) for one in transactions.oldest]
    longest_ms = max(one.open_ms for one in transactions.oldest)
    return transactions.last_stable_offset, transactions.count, named, longest_ms // OPEN_TOLD_AGAIN_MS
