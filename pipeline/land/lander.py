"""The driver's loop: plan a batch, have its tasks run, commit it. After a crash the next run continues.

    progress ---> plan n is there? ---yes----------------------> tasks ---> manifest n ---> progress
                      '--no--> ask the cluster, propose plan n --'

A plan is durable before its tasks begin, and the manifest follows when all files have their names. So at most
one plan is begun and not finished, and the next run finishes it: file names follow from the plan, so files
that are there already are found and not written again. Two drivers agree on each plan and each manifest, and
do the same work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from pipeline.client.values import TopicPartition
from pipeline.errors import LandError
from pipeline.land.documents import LandedSpan, LandPlan, Manifest
from pipeline.land.planning import LandProgress, Observed, PlanSettings, check_topic_ids, next_plan
from pipeline.land.table import LandTable
from pipeline.land.task import LandReport


class LandingCluster(Protocol):
    """The questions of a lander about its topics."""

    def observe(self, progress: LandProgress) -> Observed: ...

    def topic_ids(self, topics: Iterable[str]) -> Mapping[str, str]: ...


RunTasks = Callable[[LandPlan], Sequence[LandReport]]
"""Runs a plan's tasks; returns one report for each range."""


class LandedBatch(NamedTuple):
    """One batch done."""

    manifest: Manifest
    was_resumed: bool
    is_more_due: bool


@dataclass
class LandTotals:
    batches: int = 0
    records: int = 0
    files: int = 0
    bytes: int = 0
    skipped: int = 0
    losses: list[str] = field(default_factory=list)

    def add(self, manifest: Manifest) -> None:
        self.batches += 1
        self.records += sum(span.records for span in manifest.spans)
        self.bytes += sum(file.bytes for file in manifest.files)
        self.files += len(manifest.files)
        self.skipped += sum(span.skipped for span in manifest.spans)
        self.losses += manifest.losses


class Lander:
    """Lands batch after batch. Methods raise LandError, the client's errors, or what `run_tasks` raises."""

    def __init__(
        self,
        table: LandTable,
        cluster: LandingCluster,
        run_tasks: RunTasks,
        plan_settings: PlanSettings,
        now_ms: Callable[[], int],
    ) -> None:
        self._table = table
        self._cluster = cluster
        self._run_tasks = run_tasks
        self._plan_settings = plan_settings
        self._now_ms = now_ms
        self._progress = LandProgress()

    def look(self) -> LandPlan | None:
        """Read the table; return the plan that was begun and not finished, if there is one."""
        self._progress = self._table.progress(self._progress)
        self._table.merge(self._progress)
        return self._table.plan(self._progress.batches)

    def next_plan(self) -> tuple[LandPlan | None, bool]:
        """Return what would be landed now, and whether another batch is due after it."""
        observed = self._cluster.observe(self._progress)
        return next_plan(self._progress, observed, self._plan_settings, now_ms=self._now_ms())

    def land_next(self) -> LandedBatch | None:
        """Land one batch; None if there is nothing to land."""
        begun = self.look()
        if begun is not None:
            return LandedBatch(self._carry_out(begun), was_resumed=True, is_more_due=True)
        self._table.forget_aside(self._progress)
        plan, is_more_due = self.next_plan()
        if plan is None:
            return None
        held = self._table.propose(plan)
        return LandedBatch(
            self._carry_out(held), was_resumed=held != plan, is_more_due=is_more_due or held != plan
        )

    def _carry_out(self, plan: LandPlan) -> Manifest:
        check_topic_ids(plan.topic_ids, self._cluster.topic_ids(plan.topic_ids))
        reports = self._run_tasks(plan)
        manifest = self._table.commit(manifest_of(plan, reports, committed_ms=self._now_ms()))
        self._progress = self._progress.after(manifest)
        return manifest


def manifest_of(plan: LandPlan, reports: Sequence[LandReport], *, committed_ms: int) -> Manifest:
    """Return the manifest. Raises LandError unless every range of the plan is reported once."""
    planned = sorted(one for task in plan.tasks for one in task)
    reported = sorted(report.range for report in reports)
    if planned != reported:
        raise LandError(
            f"batch {plan.batch}: {len(planned)} ranges were planned, and {len(reported)} reported or others"
        )
    records: dict[TopicPartition, int] = {}
    skipped: dict[TopicPartition, int] = {}
    for report in reports:
        where = report.range.where
        records[where] = records.get(where, 0) + report.records
        skipped[where] = skipped.get(where, 0) + report.skipped
    return Manifest(
        plan.batch,
        committed_ms,
        plan.topic_ids,
        tuple(
            LandedSpan(*span, records.get(span.where, 0), skipped.get(span.where, 0)) for span in plan.spans
        ),
        tuple(file for report in sorted(reports, key=lambda report: report.range) for file in report.files),
        plan.losses,
    )
