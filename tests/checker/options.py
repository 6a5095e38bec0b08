"""What a run allows, and so what the checker may not hold against the system."""

from __future__ import annotations

from dataclasses import dataclass

from tests.checker.history import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """The strictest is the default.

    final_read: whether the history must end with a final read. Without one, a record that no client read
        since may be anywhere, and only the Jepsen rule speaks of losses; a run that forgot it must not pass.
    retention: whether the partitions' logs may lose their beginnings (retention, DeleteRecords). Where they
        may not, a log start above a record does not excuse that the record is gone.
    stall_ms_max, real_time_lag_ms_max: bounds on the longest time in which a partition with sends waiting
        acknowledged none, and on the staleness of a reader; None only measures.
    window_ms: width of the windows of the series.
    version_1: whether clients spoke version 1 of Kafka's transactions. Then a request to end a transaction
        that was delayed may end the next one of the same producer (KAFKA-17754), which no server can see:
        reads of an aborted or torn transaction are counted where a fault lasted while the transaction before
        it was ended.
    version_2: beginnings of the names of processes that spoke version 2 all the same.
    unclean: partitions of which a leader was elected uncleanly. Their records may be lost, and others take
        their offsets; but an acknowledged one that is in no replica's log is in what one of them set aside,
        and what is left of a transaction is read whole or not at all.
    """

    final_read: bool = True
    retention: bool = False
    stall_ms_max: int | None = None
    real_time_lag_ms_max: int | None = None
    window_ms: int = 1000
    version_1: bool = False
    version_2: tuple[str, ...] = ()
    unclean: frozenset[Key] = frozenset()
