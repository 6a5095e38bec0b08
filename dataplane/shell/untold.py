"""What this broker's partitions have learnt and no controller has been told yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dataplane.core.creations import UntoldCreations
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.log_ends import UntoldLogEnds
from springtide.contract.lag_report import ReplicaProblem
from springtide.contract.partition_state import PartitionKey

UNREPORTED_PROBLEMS_MAX = 10_000
"""Limit of problems that wait for a controller; the oldest are dropped, but remain in the log file."""


class Untold:
    """The table notes here, and PartitionReports tells. `wake` asks for a report soon."""

    def __init__(self, broker_id: int, wake: Callable[[], None]) -> None:
        self.wake = wake
        self.log_ends = UntoldLogEnds()
        self.creations = UntoldCreations(broker_id)
        self.proposals: dict[PartitionKey, None] = {}
        self.lags: dict[PartitionKey, HostedPartition] = {}
        """Leaders of which there may be news."""
        self.problems: list[ReplicaProblem] = []
        self.is_set_aside_untold = False
        """True if the logs in quarantine are to be reported: they changed, or a controller begins."""

    def on_full_state(self, table: Iterable[HostedPartition]) -> None:
        """Tell everything again: a controller that took over knows nothing of it."""
        self.lags = {hosted.key: hosted for hosted in table}
        for hosted in self.lags.values():
            hosted.lag_reported = None

    def note_proposal(self, key: PartitionKey) -> None:
        self.proposals[key] = None
        self.wake()

    def note_problem(self, problem: ReplicaProblem) -> None:
        if len(self.problems) >= UNREPORTED_PROBLEMS_MAX:
            self.problems.pop(0)
        self.problems.append(problem)
        self.wake()

    def note_set_aside(self) -> None:
        """Report logs in quarantine once a whole batch is applied: a topic must not be brought back by half
        its logs.
        """
        self.is_set_aside_untold = True
        self.wake()

    def forget(self, key: PartitionKey) -> None:
        self.lags.pop(key, None)
        self.proposals.pop(key, None)
        self.log_ends.forget(key)
        self.creations.forget(key)
