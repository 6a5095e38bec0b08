"""Opening every log of a data directory before the broker runs, and what the controller must hear of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from dataplane.core.titles import NewerFormat
from dataplane.storage.log_dir import LogDir, StrayDirectory
from dataplane.storage.log_settings import PartitionId
from dataplane.storage.recovery import DamagedLog
from springtide.contract.lag_report import ProblemCode, ReplicaProblem

_log = logging.getLogger(__name__)

LOADED_LOGGED_EVERY = 1_000


def load_logs(log_dir: LogDir, *, wall_ms: Callable[[], int]) -> Sequence[ReplicaProblem]:
    """Open or recover every log, into `log_dir.logs`, and return the problems found: damaged logs, which go
    to quarantine whole, and missing records. Scans and fsyncs: call it in a thread, or before the loop runs.
    Raises LogError; NewerFormat for a log that a later release has written, before it has changed anything in
    it."""
    problems = _load_logs(log_dir, wall_ms)
    if log_dir.claim.is_refuted:
        _log.warning(
            "machine_crash_found path=%s cause=%s",
            log_dir.path,
            "not all that the last process wrote is here",
        )
        log_dir.begin_anew()
        problems += _load_logs(log_dir, wall_ms)
    log_dir.finish_loading()
    for problem in log_dir.offsets.problems:
        _log.warning("log_directory_problem detail=%s", problem)
    return problems


def _load_logs(log_dir: LogDir, wall_ms: Callable[[], int]) -> list[ReplicaProblem]:
    problems: list[ReplicaProblem] = []
    names = log_dir.partition_names()
    for number, name in enumerate(names, start=1):
        try:
            entry = log_dir.load(name, now_ms=wall_ms())
        except NewerFormat as newer:
            raise newer.at(name) from newer
        if isinstance(entry, DamagedLog):
            why = f"damaged: {entry.reason}"
            moved = log_dir.quarantine_directory(entry.directory, why=why, now_ms=wall_ms())
            _log.error("log_damaged log=%s cause=%s set_aside_as=%s", name, entry.reason, moved)
            problems.append(
                ReplicaProblem(
                    topic_id=entry.partition.topic_id,
                    partition=entry.partition.partition,
                    code=ProblemCode.LOG_MISSING,
                    detail=f"damaged: {entry.reason}; ends at {entry.valid_end_offset}; set aside as {moved}",
                    next_offset=entry.valid_end_offset,
                    high_watermark=entry.high_watermark,
                )
            )
        elif isinstance(entry, StrayDirectory):
            _log.warning("stray_directory name=%s cause=%s", name, entry.reason)
        else:
            report = entry.report
            if report.cut_bytes:
                _log.warning(
                    "log_tail_cut log=%s bytes=%d log_end_offset=%d cause=%s",
                    name,
                    report.cut_bytes,
                    report.log_end_offset,
                    report.cut_reason,
                )
            for note in report.notes:
                _log.info("log_recovered log=%s detail=%s", name, note)
            if report.missing is not None:
                problems.append(_missing(entry.log.partition, *report.missing))
        if number % LOADED_LOGGED_EVERY == 0:
            _log.info("opening_logs opened=%d of=%d", number, len(names))
    return problems


def _missing(partition: PartitionId, log_end_offset: int, high_watermark: int) -> ReplicaProblem:
    detail = f"ends at {log_end_offset} after a machine crash, {high_watermark} was known to be committed"
    _log.error("log_short topic=%s partition=%d detail=%s", partition.topic, partition.partition, detail)
    return ReplicaProblem(
        topic_id=partition.topic_id,
        partition=partition.partition,
        code=ProblemCode.LOG_SHORT,
        detail=detail,
        next_offset=log_end_offset,
        high_watermark=high_watermark,
    )
