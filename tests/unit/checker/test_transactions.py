"""Histories of transactions by hand: each anomaly is found, alone, and what Kafka allows is counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.checker.builder import HistoryBuilder
from tests.checker.check import check
from tests.checker.history import NO_OFFSET, Batch, HistoryError, Outcome
from tests.checker.options import CheckOptions
from tests.checker.verdict import Kind, Severity, Verdict

K0, K1 = ("orders", 0), ("orders", 1)
PARTIAL = CheckOptions(final_read=False)
OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO

Case = Callable[[HistoryBuilder], tuple[Kind, tuple[int, ...], tuple[int, ...]]]
"""Writes a history; returns what is to be found, its offsets and the lines that it names."""


def wrote(b: HistoryBuilder, name: str, *places: tuple[str, int, int], type: Outcome = OK) -> list[str]:
    """One transaction of process `name` without its number, with a record at each place; their values."""
    values = []
    for topic, partition, offset in places:
        values.append(b.new_value((topic, partition), name))
        b.send(name[:1], (topic, partition), [(offset, values[-1])], type=type, transaction=name)
    b.end(name[:1], name, type)
    return values


def lost_write(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    """Readers went past a committed record."""
    wrote(b, "p1", (*K0, 0))
    (after,) = wrote(b, "q1", (*K0, 2))
    b.assign("c", K0, from_offset=0)
    b.poll("c", K0, [(2, after)])
    return Kind.LOST_WRITE, (0,), (1, 6)


def unseen(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    first, _ = wrote(b, "p1", (*K0, 0), (*K1, 0))
    b.poll("c", K0, [(0, first)], final=True)
    return Kind.LOST_ACKED, (0,), (2,)


def duplicate(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    (value,) = wrote(b, "p1", (*K0, 0))
    b.poll("c", K0, [(0, value), (2, value)], final=True)
    return Kind.DUPLICATE, (0, 2), (1, 3)


def duplicate_under_two_epochs(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    """Outside of transactions a client may have sent it again; here its epoch had ended."""
    (value,) = wrote(b, "p1", (*K0, 0))
    b.poll("c", K0, [(0, value), (2, value)], final=True)
    batches = [
        Batch(
            base_offset=offset,
            record_count=1,
            leader_epoch=0,
            producer_id=7,
            producer_epoch=offset // 2,
            base_sequence=-1 if offset == 1 else 0,  # A marker has none.
        )
        for offset in range(3)
    ]
    b.dump("broker-1", K0, [(0, value), (2, value)], batches=batches)
    return Kind.DUPLICATE, (0, 2), (1, 3)


def inconsistent_offsets(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    (first,) = wrote(b, "p1", (*K0, NO_OFFSET), type=INFO)
    (second,) = wrote(b, "q1", (*K0, NO_OFFSET), type=INFO)
    b.poll("c", K0, [(0, first)])
    b.poll("d", K0, [(0, second)], final=True)
    return Kind.INCONSISTENT_OFFSETS, (0,), (5, 6)


def aborted_read(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    """An aborted record has an offset, and nobody reads it."""
    (value,) = wrote(b, "p1", (*K0, 0), type=FAIL)
    b.poll("c", K0, [(0, value)], final=True)
    return Kind.G1A, (0,), (3, 1)


def precommitted_read_by_itself(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    value = b.new_value(K0)
    b.poll("p", K0, [(0, value)], transaction="t", at=(0, 30))
    b.send("p", K0, [(0, value)], transaction="t", at=(0, 30))
    b.end("p", "t", at=(20, 30))
    b.poll("c", K0, [(0, value)], final=True)
    return Kind.PRECOMMITTED_READ, (0,), (1, 3)


def precommitted_read_by_time(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    value = b.new_value(K0)
    b.poll("c", K0, [(0, value)], final=True, at=(0, 10))
    b.send("p", K0, [(0, value)], transaction="t", at=(0, 30))
    b.end("p", "t", at=(20, 30))
    return Kind.PRECOMMITTED_READ, (0,), (1, 3)


def nonmonotonic_send(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    first, second = b.new_value(K0), b.new_value(K0)
    b.send("p", K0, [(1, first)], transaction="t", at=(0, 9))
    b.end("p", "t", at=(8, 9))
    b.send("p", K0, [(0, second)], transaction="u", at=(9, 20))
    b.end("p", "u", at=(19, 20))
    b.poll("c", K0, [(0, second), (1, first)], final=True)
    return Kind.NONMONOTONIC_SEND, (1, 0), (3, 1)


def int_nonmonotonic_send(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    first, second = b.new_value(K0), b.new_value(K0)
    b.send("p", K0, [(1, first), (0, second)], transaction="t")
    b.end("p", "t")
    b.poll("c", K0, [(0, second), (1, first)], final=True)
    return Kind.INT_NONMONOTONIC_SEND, (1, 0), (1,)


def int_nonmonotonic_poll(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    (first,) = wrote(b, "p1", (*K0, 0))
    b.poll("c", K0, [(0, first), (0, first)], final=True)
    return Kind.INT_NONMONOTONIC_POLL, (1, 0), (3,)


def nonmonotonic_poll(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    (first,) = wrote(b, "p1", (*K0, 0))
    b.poll("c", K0, [(0, first)], final=True)
    b.poll("c", K0, [(0, first)], final=True)
    return Kind.NONMONOTONIC_POLL, (1, 0), (4, 3)


def int_poll_skip(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    """A reader passed a record that was committed later: the last stable offset was too high."""
    values = [wrote(b, f"p{n}", (*K0, 2 * n))[0] for n in range(3)]
    b.poll("c", K0, [(0, values[0]), (4, values[2])])
    b.poll("d", K0, [(2 * n, value) for n, value in enumerate(values)], final=True)
    return Kind.INT_POLL_SKIP, (2,), (7, 8)


def poll_skip(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    values = [wrote(b, f"p{n}", (*K0, 2 * n))[0] for n in range(3)]
    b.poll("c", K0, [(0, values[0])])
    b.poll("c", K0, [(4, values[2])])
    b.poll("d", K0, [(2 * n, value) for n, value in enumerate(values)], final=True)
    return Kind.POLL_SKIP, (2,), (8, 7, 9)


def torn(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    first, _ = wrote(b, "p1", (*K0, 0), (*K1, 0), type=INFO)
    b.poll("c", K0, [(0, first)], final=True)
    return Kind.TORN_TRANSACTION, (0,), (2, 3, 4)


def torn_of_unknown_offset(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    first, _ = wrote(b, "p1", (*K0, 0), (*K1, NO_OFFSET), type=INFO)
    b.poll("c", K0, [(0, first)], final=True)
    return Kind.TORN_TRANSACTION, (), (2, 3, 4)


def torn_though_nobody_reads_the_end(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    first, _ = wrote(b, "p1", (*K0, 0), (*K1, 0), type=INFO)
    (after,) = wrote(b, "q1", (*K1, 2))
    b.poll("c", K0, [(0, first)])
    b.assign("c", K1, from_offset=0)
    b.poll("c", K1, [(2, after)])
    return Kind.TORN_TRANSACTION, (0,), (2, 3, 6)


def g1c(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    """Two transactions read each other's records; every commit had been asked for when they did."""
    one, two = b.new_value(K0), b.new_value(K1)
    b.poll("p", K1, [(0, two)], transaction="t", at=(4, 5))
    b.poll("q", K0, [(0, one)], transaction="u", at=(4, 5))
    b.send("p", K0, [(0, one)], transaction="t", at=(0, 9))
    b.end("p", "t", at=(3, 9))
    b.send("q", K1, [(0, two)], transaction="u", at=(0, 9))
    b.end("q", "u", at=(3, 9))
    b.poll("c", K0, [(0, one)], final=True)
    b.poll("c", K1, [(0, two)], final=True)
    return Kind.G1C, (), (2, 1, 4, 6)


def g1c_over_a_process(b: HistoryBuilder) -> tuple[Kind, tuple[int, ...], tuple[int, ...]]:
    """A transaction reads what read what its process wrote in its next transaction."""
    one, two = b.new_value(K0), b.new_value(K1)
    b.poll("p", K1, [(0, two)], transaction="t1", at=(8, 9))
    b.end("p", "t1", at=(9, 9))
    b.poll("q", K0, [(0, one)], transaction="u", at=(8, 9))
    b.send("q", K1, [(0, two)], transaction="u", at=(0, 9))
    b.end("q", "u", at=(8, 9))
    b.send("p", K0, [(0, one)], transaction="t2", at=(9, 19))
    b.end("p", "t2", at=(9, 19))
    b.poll("c", K0, [(0, one)], final=True)
    b.poll("c", K1, [(0, two)], final=True)
    return Kind.G1C, (), (1, 3, 7, 2, 5)


CASES: list[Case] = [
    lost_write,
    unseen,
    duplicate,
    duplicate_under_two_epochs,
    inconsistent_offsets,
    aborted_read,
    precommitted_read_by_itself,
    precommitted_read_by_time,
    nonmonotonic_send,
    int_nonmonotonic_send,
    int_nonmonotonic_poll,
    nonmonotonic_poll,
    int_poll_skip,
    poll_skip,
    torn,
    torn_of_unknown_offset,
    torn_though_nobody_reads_the_end,
    g1c,
    g1c_over_a_process,
]


def judged(b: HistoryBuilder, *, version_1: bool = False, version_2: tuple[str, ...] = ()) -> Verdict:
    has_final_read = any(operation.final for operation in b.operations)
    options = CheckOptions(final_read=has_final_read, version_1=version_1, version_2=version_2)
    return check(b.history(), options)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_each_anomaly_is_found_alone(case: Case) -> None:
    builder = HistoryBuilder()
    kind, offsets, lines = case(builder)
    verdict = judged(builder)
    assert verdict.bad == {kind: 1}
    (anomaly,) = [each for each in verdict.anomalies if each.severity is Severity.BAD]
    assert anomaly.offsets == offsets
    assert sorted(involved.line for involved in anomaly.operations) == sorted(lines)


# --- what is allowed ----------------------------------------------------------------------------------------


def test_a_sound_history_is_clean() -> None:
    """With a commit, an abort, both fates of an unknown outcome, markers that take offsets, and a
    transaction that reads what another committed."""
    b = HistoryBuilder()
    first, other = wrote(b, "p1", (*K0, 0), (*K1, 0))
    wrote(b, "p2", (*K0, 2), type=FAIL)
    known, same = wrote(b, "p3", (*K0, 4), (*K1, NO_OFFSET), type=INFO)
    wrote(b, "p4", (*K0, 6), (*K1, NO_OFFSET), type=INFO)
    b.poll("q", K0, [(0, first)], transaction="q1")
    (last,) = wrote(b, "q1", (*K1, 4))
    b.poll("c", K0, [(0, first), (4, known)], final=True)
    b.poll("c", K1, [(0, other), (2, same), (4, last)], final=True)
    verdict = judged(b)
    assert verdict.bad == {}
    assert verdict.counted == {}


def test_a_deliberate_abort_is_no_failure_to_write() -> None:
    b = HistoryBuilder()
    (value,) = wrote(b, "p1", (*K0, 0))
    wrote(b, "p2", (*K0, 2), type=FAIL)
    b.poll("c", K0, [(0, value)], final=True)
    assert judged(b).figures.availability_percent == 100


def test_transactions_write_in_between_each_other() -> None:
    """G0, and gaps within a transaction's sends, are legal."""
    b = HistoryBuilder()
    one, two = [b.new_value(K0, "p") for _ in range(2)], [b.new_value(K0, "q") for _ in range(2)]
    b.send("p", K0, [(0, one[0]), (2, one[1])], transaction="t", at=(0, 9))
    b.end("p", "t", at=(8, 9))
    b.send("q", K0, [(1, two[0]), (3, two[1])], transaction="u", at=(0, 9))
    b.end("q", "u", at=(8, 9))
    b.poll("c", K0, [(0, one[0]), (1, two[0]), (2, one[1]), (3, two[1])], final=True)
    verdict = judged(b)
    assert verdict.bad == {}
    assert verdict.counted == {Kind.INT_SEND_SKIP: 2, Kind.G0: 1}


def test_a_circle_of_a_read_and_a_write_is_counted() -> None:
    b = HistoryBuilder()
    first, second, read = b.new_value(K0, "p"), b.new_value(K0, "q"), b.new_value(K1, "p")
    b.send("p", K1, [(0, read)], transaction="t", at=(0, 6))
    b.send("p", K0, [(1, first)], transaction="t", at=(0, 6))
    b.end("p", "t", at=(5, 6))
    b.poll("q", K1, [(0, read)], transaction="u", at=(6, 7))
    b.send("q", K0, [(0, second)], transaction="u", at=(0, 9))
    b.end("q", "u", at=(8, 9))
    b.poll("c", K0, [(0, second), (1, first)], final=True)
    b.poll("c", K1, [(0, read)], final=True)
    verdict = judged(b)
    assert verdict.bad == {}
    assert verdict.counted == {Kind.G1C_BY_WRITES: 1}


def test_what_version_1_may_tear_is_counted_where_a_fault_lasted_at_the_end_before() -> None:
    def history(*, fault: bool) -> HistoryBuilder:
        b = HistoryBuilder()
        if fault:
            b.fault("a coordinator stood still", at=(0, 5))
        (kept,) = wrote(b, "p1", (*K0, 0))
        torn, _ = wrote(b, "p2", (*K0, 2), (*K1, 0), type=INFO)
        (aborted,) = wrote(b, "p3", (*K0, 4), type=FAIL)
        b.poll("c", K0, [(0, kept), (2, torn), (4, aborted)], final=True)
        return b

    both = {Kind.G1A: 1, Kind.TORN_TRANSACTION: 1}
    assert judged(history(fault=True)).bad == both
    assert judged(history(fault=False), version_1=True).bad == both
    exposed = HistoryBuilder()
    exposed.fault("a coordinator stood still", at=(0, 1000))
    exposed.operations += history(fault=False).operations
    verdict = judged(exposed, version_1=True)
    assert verdict.bad == {}
    assert verdict.counted == both
    assert judged(exposed, version_1=True, version_2=("p",)).bad == both


# --- what is no history -------------------------------------------------------------------------------------


def test_a_send_without_its_end_is_refused() -> None:
    b = HistoryBuilder()
    b.send("p", K0, [(0, b.new_value(K0))], transaction="t")
    with pytest.raises(HistoryError, match="has no end"):
        judged(b)


def test_a_send_of_another_fate_than_its_end_is_refused() -> None:
    b = HistoryBuilder()
    b.send("p", K0, [(0, b.new_value(K0))], transaction="t")
    b.end("p", "t", INFO)
    with pytest.raises(HistoryError, match="two outcomes"):
        judged(b)


def test_two_ends_are_refused() -> None:
    b = HistoryBuilder()
    b.end("p", "t")
    b.end("p", "t", FAIL)
    with pytest.raises(HistoryError, match="end the same"):
        judged(b)


def test_an_end_without_a_name_is_refused() -> None:
    b = HistoryBuilder()
    b.end("p", "")
    with pytest.raises(HistoryError, match="has its name"):
        judged(b)


UNCLEAN_0 = CheckOptions(unclean=frozenset({K0}))


def test_an_unclean_election_may_cut_a_whole_transaction_that_a_replica_set_aside() -> None:
    def history(*, aside: bool) -> HistoryBuilder:
        b = HistoryBuilder()
        cut, kept = wrote(b, "p1", (*K0, 0), (*K1, 0))
        b.poll("c", K0, [(0, cut)])
        (instead,) = wrote(b, "p2", (*K0, 0))
        b.poll("d", K0, [(0, instead)], final=True)
        b.poll("d", K1, [(0, kept)], final=True)
        b.dump("broker-1", K0, [(0, instead)], high_watermark=1)
        if aside:
            b.dump("broker-2 divergent", K0, [(0, cut)])
        return b

    verdict = check(history(aside=True).history(), UNCLEAN_0)
    assert verdict.bad == {}
    assert (verdict.figures.lost, verdict.figures.unpromised_lost) == (0, 1)
    assert set(verdict.counted) >= {Kind.LOST_ACKED, Kind.INCONSISTENT_OFFSETS}
    without_trace = check(history(aside=False).history(), UNCLEAN_0)
    assert (without_trace.bad, without_trace.figures.lost) == ({Kind.LOST_ACKED: 1}, 1)
    elsewhere = check(history(aside=True).history(), CheckOptions(unclean=frozenset({K1})))
    assert {Kind.LOST_ACKED, Kind.INCONSISTENT_OFFSETS} <= set(elsewhere.bad)


def test_of_a_transaction_that_an_election_cut_in_two_nothing_is_read() -> None:
    b = HistoryBuilder()
    left, cut = wrote(b, "p1", (*K0, 0), (*K0, 1))
    b.poll("d", K0, [(0, left)], final=True)
    b.dump("broker-2 divergent", K0, [(1, cut)])
    assert check(b.history(), UNCLEAN_0).bad == {Kind.TORN_TRANSACTION: 1}
