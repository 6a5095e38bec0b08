"""The whole check: a history in, a verdict out. Pure; the families are in the modules beside this one.

places      what stands where: inconsistent-offsets, duplicate, phantom, corrupt, misplaced, g1a, replicas
losses      what is missing: lost-write, lost-acked, read-then-gone, and readers that skip
order       one client's reads go forwards, its writes stand in order
realtime    across clients: real-time order, watermarks
sequences   producer sequences and epochs in replicas' logs
transactions  all of a transaction or nothing, not before its commit, and no circle of reads
admin       the controller's answers fit one order of events
series      availability, stalls, unseen, lag
placement   REST = ZooKeeper = brokers = audit; called on its own, over plain dictionaries
"""

from __future__ import annotations

from .admin import check_admin
from .history import Function, History, Outcome
from .index import Index, build_index
from .losses import Losses, check_losses, check_skips
from .options import CheckOptions
from .order import check_polls, check_sends
from .places import check_places, check_replicas
from .realtime import check_real_time_order, check_watermarks
from .sequences import check_sequences
from .series import Timeline, check_lag, check_stalls, measure_availability, measure_unseen
from .transactions import check_transactions, find_transactions
from .verdict import Figures, Findings, Series, Verdict

STRICT = CheckOptions()


def check(history: History, options: CheckOptions = STRICT) -> Verdict:
    """Finds every anomaly. Raises HistoryError where the history can't be judged (a value sent twice)."""
    index = build_index(history)
    findings = Findings.about(history, unclean=options.unclean)
    transactions = find_transactions(index, options)
    duplicated = check_places(index, findings, exposed=transactions.exposed)
    check_replicas(index, options, findings)
    losses = check_losses(index, options, findings)
    check_skips(index, options, findings)
    check_polls(index, findings)
    check_sends(index, findings)
    check_real_time_order(index, findings)
    check_watermarks(index, findings)
    check_sequences(index, findings)
    check_transactions(index, transactions, options, findings)
    check_admin(index, findings)
    timeline = Timeline(index, options)
    stall_ms = check_stalls(index, timeline, options, findings)
    lag = check_lag(index, timeline, options, findings)
    availability = measure_availability(index, timeline)
    unseen = measure_unseen(index, timeline, losses.excused)
    figures = _count(
        index,
        timeline,
        losses,
        Figures(
            duplicated=duplicated,
            unseen_at_end=unseen.at_end,
            unseen_zero_ms=unseen.zero_ms,
            longest_stall_ms=stall_ms,
            real_time_lag_ms_max=lag.max_ms,
            availability_percent=availability.percent,
            availability_in_faults_percent=availability.in_faults_percent,
        ),
    )
    return Verdict(
        anomalies=tuple(findings.kept),
        bad=findings.bad,
        counted=findings.counted,
        figures=figures,
        series=Series(availability=availability.windows, unseen=unseen.series, real_time_lag_ms=lag.series),
    )


def _count(index: Index, timeline: Timeline, losses: Losses, measured: Figures) -> Figures:
    sent = dict.fromkeys(Outcome, 0)
    faults = 0
    for operation in index.operations:
        if operation.f is Function.SEND:
            sent[operation.type] += len(operation.items)
        faults += operation.f is Function.FAULT
    logs = index.logs.values()
    final = sum(len(log.final_values) for log in logs) if index.has_final_read else None
    return Figures(
        operations=len(index.operations),
        faults=faults,
        duration_ms=(timeline.end_ns - timeline.start_ns) // 1_000_000,
        total=sum(sent.values()),
        acked=sent[Outcome.OK],
        failed=sent[Outcome.FAIL],
        unknown=sent[Outcome.INFO],
        records_read=sum(log.records_read for log in logs),
        read=sum(len(log.places) for log in logs),
        final_read=final,
        lost=losses.lost,
        hidden=losses.hidden,
        retained_away=losses.retained_away,
        unpromised_lost=losses.unpromised,
        duplicated=measured.duplicated,
        unseen_at_end=measured.unseen_at_end,
        unseen_zero_ms=measured.unseen_zero_ms,
        longest_stall_ms=measured.longest_stall_ms,
        real_time_lag_ms_max=measured.real_time_lag_ms_max,
        availability_percent=measured.availability_percent,
        availability_in_faults_percent=measured.availability_in_faults_percent,
    )
