"""What the checker says: anomalies, figures and series, for people and as JSON.

Every anomaly is counted; of each kind only the first EXAMPLES_MAX are kept with their details, so that a
system that loses everything still gets a verdict that fits in memory and on a screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from enum import StrEnum

import msgspec

from .history import Function, History, Key, Operation

EXAMPLES_MAX = 100
"""Of one kind, kept with their details."""
SHOWN_MAX = 5
"""Of one kind, shown in a report."""
LISTED_MAX = 20
"""Offsets, values and operations that one anomaly lists."""
VALUE_CHARACTERS_MAX = 120


class Severity(StrEnum):
    BAD = "bad"
    COUNTED = "counted"


class Kind(StrEnum):
    # What stands where (places.py).
    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    DUPLICATE = "duplicate"
    PHANTOM = "phantom"
    CORRUPT = "corrupt"
    MISPLACED = "misplaced"
    G1A = "g1a"
    REPLICAS_DIFFER = "replicas-differ"
    # What is missing (losses.py).
    LOST_WRITE = "lost-write"
    LOST_ACKED = "lost-acked"
    READ_THEN_GONE = "read-then-gone"
    UNSEEN = "unseen"
    NO_FINAL_READ = "no-final-read"
    # In which order (order.py).
    INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
    INT_POLL_SKIP = "int-poll-skip"
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    POLL_SKIP = "poll-skip"
    INT_NONMONOTONIC_SEND = "int-nonmonotonic-send"
    INT_SEND_SKIP = "int-send-skip"
    NONMONOTONIC_SEND = "nonmonotonic-send"
    # Against the clock (realtime.py, series.py).
    REAL_TIME_ORDER = "real-time-order"
    WATERMARK_REGRESS = "watermark-regress"
    READ_ABOVE_WATERMARK = "read-above-watermark"
    STALL = "stall"
    REAL_TIME_LAG = "real-time-lag"
    # Who wrote (sequences.py).
    PRODUCER_SEQUENCE = "producer-sequence"
    PRODUCER_EPOCH = "producer-epoch"
    # Of transactions (transactions.py).
    TORN_TRANSACTION = "torn-transaction"
    PRECOMMITTED_READ = "precommitted-read"
    G1C = "g1c"
    G1C_BY_WRITES = "g1c-by-writes"
    G0 = "g0"
    # Of the controller (admin.py, placement.py).
    ADMIN_NOT_LINEARIZABLE = "admin-not-linearizable"
    ADMIN_UNDECIDED = "admin-undecided"
    PLACEMENT_DIFFERS = "placement-differs"
    AUDIT_MISSING = "audit-missing"
    AUDIT_REPEATED = "audit-repeated"
    AUDIT_UNFOUNDED = "audit-unfounded"
    AUDIT_ORDER = "audit-order"
    AUDIT_OUTCOME = "audit-outcome"


AFTER_UNCLEAN = frozenset(
    {
        Kind.INCONSISTENT_OFFSETS,
        Kind.LOST_WRITE,
        Kind.READ_THEN_GONE,
        Kind.INT_POLL_SKIP,
        Kind.POLL_SKIP,
        Kind.NONMONOTONIC_POLL,
        Kind.INT_SEND_SKIP,
        Kind.NONMONOTONIC_SEND,
        Kind.REAL_TIME_ORDER,
        Kind.WATERMARK_REGRESS,
        Kind.READ_ABOVE_WATERMARK,
    }
)
"""What clients see where an unclean election dropped records, and others took their offsets."""


class Involved(msgspec.Struct, frozen=True, kw_only=True):
    """An operation that an anomaly is about: its line in the history, and what it was in short."""

    line: int
    summary: str


class Anomaly(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that must not be (`bad`), or that is allowed but worth knowing (`counted`)."""

    kind: Kind
    severity: Severity
    key: Key | None
    offsets: tuple[int, ...]
    values: tuple[str, ...]
    operations: tuple[Involved, ...]
    explanation: str


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Sends that completed within one window, counted by their outcome; `during_fault`: some fault lasted
    into it."""

    at_ms: int
    ok: int
    fail: int
    info: int
    during_fault: bool


class Point(msgspec.Struct, frozen=True, kw_only=True):
    at_ms: int
    value: int


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Times are milliseconds since the history's first invocation. Per partition ("topic/0"), points only
    where the value changes."""

    availability: tuple[Window, ...] = ()
    unseen: dict[str, tuple[Point, ...]] = {}
    real_time_lag_ms: dict[str, tuple[Point, ...]] = {}


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Counts are of values unless their name says otherwise; None where the history cannot tell."""

    operations: int = 0
    faults: int = 0
    duration_ms: int = 0
    total: int = 0
    acked: int = 0
    failed: int = 0
    unknown: int = 0
    records_read: int = 0
    read: int = 0
    final_read: int | None = None
    lost: int = 0
    hidden: int = 0
    retained_away: int = 0
    unpromised_lost: int = 0
    duplicated: int = 0
    unseen_at_end: int = 0
    unseen_zero_ms: int | None = None
    longest_stall_ms: int = 0
    real_time_lag_ms_max: int = 0
    availability_percent: float | None = None
    availability_in_faults_percent: float | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """`counts` has every anomaly, by kind; `anomalies` the first of each kind."""

    anomalies: tuple[Anomaly, ...]
    bad: dict[str, int]
    counted: dict[str, int]
    figures: Figures
    series: Series = Series()

    @property
    def is_bad(self) -> bool:
        return bool(self.bad)

    def with_anomalies(self, more: Iterable[Anomaly]) -> Verdict:
        """The same verdict with what another check found, such as placement.py."""
        findings = Findings(())
        findings.bad.update(self.bad)
        findings.counted.update(self.counted)
        findings.kept.extend(self.anomalies)
        for anomaly in more:
            findings.take(anomaly)
        return msgspec.structs.replace(
            self,
            anomalies=tuple(findings.kept),
            bad=dict(findings.bad),
            counted=dict(findings.counted),
        )

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"

    def report(self) -> str:
        """Return the report for people: the figures, then each kind of anomaly with its first examples."""
        f = self.figures
        lines = [
            f"{'BAD' if self.is_bad else 'clean'}: {f.operations} operations, {f.faults} faults, "
            f"{f.duration_ms / 1000:.1f} s",
            f"  total {f.total}  acked {f.acked}  failed {f.failed}  unknown {f.unknown}  "
            f"read {f.read} ({f.records_read} records)  lost {f.lost}",
            f"  hidden {f.hidden}  retained away {f.retained_away}  lost without a promise "
            f"{f.unpromised_lost}  duplicated {f.duplicated}  unseen at the end {f.unseen_at_end}",
            f"  final read {'none' if f.final_read is None else f.final_read}  "
            f"longest stall {f.longest_stall_ms} ms  largest real-time lag {f.real_time_lag_ms_max} ms",
        ]
        if f.unseen_zero_ms is not None:
            lines.append(f"  everything acknowledged was seen {f.unseen_zero_ms} ms after the last ack")
        if f.availability_percent is not None:
            in_faults = f.availability_in_faults_percent
            during = "" if in_faults is None else f", {in_faults:.2f} % while a fault lasted"
            lines.append(f"  availability of writes {f.availability_percent:.2f} %{during}")
        for title, counts in ((Severity.BAD, self.bad), (Severity.COUNTED, self.counted)):
            for kind, count in counts.items():
                lines.append(f"{title} {kind}: {count}")
                shown = [a for a in self.anomalies if a.kind == kind and a.severity is title][:SHOWN_MAX]
                for anomaly in shown:
                    lines.append(f"  {anomaly.explanation}")
                    lines += [f"    line {i.line}: {i.summary}" for i in anomaly.operations[:SHOWN_MAX]]
                if count > len(shown):
                    lines.append(f"  and {count - len(shown)} more")
        return "\n".join(lines)


def show_key(key: Key) -> str:
    return f"{key[0]}/{key[1]}"


def show_value(value: str) -> str:
    if len(value) <= VALUE_CHARACTERS_MAX:
        return value
    return f"{value[:VALUE_CHARACTERS_MAX]}… ({len(value)} characters)"


def summarize(operation: Operation) -> str:
    """One line about an operation: who, what, where, when, what came of it."""
    o = operation
    times = f"{o.t_invoke_ns / 1e9:.6f}-{o.t_return_ns / 1e9:.6f} s"
    parts = [f"{o.process} {o.f} {o.type}", times]
    if o.key is not None:
        parts.append(show_key(o.key))
    if o.items:
        first = f"{o.items[0][0]} {show_value(o.items[0][1])}"
        rest = "" if len(o.items) == 1 else f" … {o.items[-1][0]}, {len(o.items)} records"
        parts.append(first + rest)
    if o.f is not Function.SEND and o.high_watermark is not None:
        parts.append(f"high watermark {o.high_watermark}")
    if o.from_offset is not None:
        parts.append(f"from {o.from_offset}")
    if o.transaction:
        parts.append(f"in {o.transaction}")
    if o.admin is not None:
        parts.append(f"{o.admin.action} {o.admin.topic}")
    parts += [text for text in (o.error, o.note) if text]
    return ", ".join(parts)


class Findings:
    """Collects anomalies while the checks run."""

    def __init__(self, operations: Sequence[Operation], *, unclean: Set[Key] = frozenset()) -> None:
        self._operations = operations
        self._unclean = unclean
        self.bad: dict[str, int] = {}
        self.counted: dict[str, int] = {}
        self.kept: list[Anomaly] = []

    @classmethod
    def about(cls, history: History, *, unclean: Set[Key]) -> Findings:
        return cls(history.operations, unclean=unclean)

    def _is_room(self, kind: Kind, severity: Severity) -> bool:
        """Counts one more; whether its details are still kept."""
        counts = self.bad if severity is Severity.BAD else self.counted
        counts[kind] = counts.get(kind, 0) + 1
        return counts[kind] <= EXAMPLES_MAX

    def take(self, anomaly: Anomaly) -> None:
        if self._is_room(anomaly.kind, anomaly.severity):
            self.kept.append(anomaly)

    def add(
        self,
        kind: Kind,
        explanation: str,
        *,
        key: Key | None,
        severity: Severity = Severity.BAD,
        offsets: Sequence[int] = (),
        values: Sequence[str] = (),
        about: Sequence[int] = (),
    ) -> None:
        """`about`: indices of the operations involved, first the one that shows it."""
        if key in self._unclean and kind in AFTER_UNCLEAN:
            severity = Severity.COUNTED
        if not self._is_room(kind, severity):
            return
        self.kept.append(
            Anomaly(
                kind=kind,
                severity=severity,
                key=key,
                offsets=tuple(offsets[:LISTED_MAX]),
                values=tuple(show_value(value) for value in values[:LISTED_MAX]),
                operations=tuple(
                    Involved(line=index + 1, summary=summarize(self._operations[index]))
                    for index in list(dict.fromkeys(about))[:LISTED_MAX]
                ),
                explanation=explanation,
            )
        )
