"""What a fetcher may be given of one log: a check that its position lies within the log, and the committed
records.

The caller decides which fetchers may ask. The rest is the same for a leader and for a follower that serves
reads.
"""

from __future__ import annotations

from dataplane.core.log_port import LogPort, LogSlice
from dataplane.core.results import FetchResult
from springtide.wire.errors import ErrorCode


def check_position(log: LogPort, fetch_offset: int, last_fetched_epoch: int) -> FetchResult | None:
    """Return None if the fetcher's log is a prefix of this one and its next record lies within it; else the
    answer (5.2, the exchange). Below the log start wins over diverging: the point of divergence may lie below
    it as well."""
    end_offset = log.log_end_offset
    if fetch_offset < log.log_start_offset:
        return out_of_range(log)
    if last_fetched_epoch >= 0:
        epochs = log.epochs
        if last_fetched_epoch == epochs.latest and fetch_offset <= end_offset:
            return None
        end = epochs.end_offset_for(last_fetched_epoch, log_end_offset=end_offset)
        if not end.is_defined:  # never take the log's end for it (KAFKA-6857)
            return out_of_range(log)
        if end.leader_epoch < last_fetched_epoch or end.end_offset < fetch_offset:
            return FetchResult(ErrorCode.NONE, diverging=end)
    if fetch_offset > end_offset:
        return out_of_range(log)
    return None


def out_of_range(log: LogPort) -> FetchResult:
    return FetchResult(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=log.log_start_offset)


def read_committed(
    log: LogPort,
    high_watermark: int,
    fetch_offset: int,
    *,
    max_bytes: int,
    at_least_one: bool,
    is_debugging: bool,
) -> FetchResult:
    """Return records from `fetch_offset` on, none at or beyond the high watermark, which the caller took
    once, before this call (I18, reads stop at the high watermark). is_debugging: read the files, because that
    is what a verification checks. Raises LogError."""
    if fetch_offset < high_watermark:
        records = log.read(
            fetch_offset,
            max_bytes=max_bytes,
            end_offset=high_watermark,
            at_least_one=at_least_one,
            from_disk=is_debugging,
        )
    else:
        records = LogSlice((), 0, fetch_offset)
    return FetchResult(
        ErrorCode.NONE,
        high_watermark,
        log.log_start_offset,
        records,
        None,
        not at_least_one and not records.size_bytes and fetch_offset < high_watermark,
    )
