"""Histories, courses and results for the tests of the 2013 schedule: values in, no cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.checker.check import check
from tests.checker.history import NO_OFFSET, Function, History, Item, Operation, Outcome
from tests.checker.values import make_value
from tests.faults.jepsen2013.divergent_copies import Copy
from tests.faults.jepsen2013.report import Result
from tests.faults.jepsen2013.schedule import TOPIC, WRITERS, Plan, writer_name
from tests.faults.jepsen2013.tally import Course, Sighting, Write, tally

SECOND = 1_000_000_000
VICTIM = 1
FIRST_CUT, SECOND_CUT, REPLACED, HEALED = 10, 20, 26, 27
ISR_SHRUNK = 15


def value_of(integer: int, partition: int) -> str:
    writer = integer % WRITERS + 1
    return make_value(
        run="run", process=writer_name(writer), number=integer // WRITERS, key=(TOPIC, partition)
    )


def send(
    integer: int,
    partition: int,
    *,
    at: float,
    until: float,
    offset: int = NO_OFFSET,
    error: str = "",
    process: str | None = None,
) -> Operation:
    """Acknowledged when it has an offset. Times in seconds since the writes began."""
    return Operation(
        process=process or writer_name(integer % WRITERS + 1),
        f=Function.SEND,
        type=Outcome.INFO if offset == NO_OFFSET else Outcome.OK,
        t_invoke_ns=round(at * SECOND),
        t_return_ns=round(until * SECOND),
        key=(TOPIC, partition),
        items=((offset, value_of(integer, partition)),),
        error=error,
    )


def final_read(partition: int, *items: Item, at: float = 60.0) -> Operation:
    return Operation(
        process="final",
        f=Function.POLL,
        type=Outcome.OK,
        t_invoke_ns=round(at * SECOND),
        t_return_ns=round(at * SECOND),
        key=(TOPIC, partition),
        items=items,
        final=True,
    )


def seen(at: float, leaders: Sequence[int | None], isr: Sequence[Sequence[int]]) -> Sighting:
    return Sighting(round(at * SECOND), tuple(leaders), tuple(map(frozenset, isr)))


def course(*more: Sighting) -> Course:
    """Broker 1 leads partitions 0 and 1, is alone from second 15 on and replaced at second 26."""
    everybody = [1, 2, 3, 4, 5]
    before = (VICTIM, VICTIM, 2, 3, 4)
    alone = [[VICTIM], [VICTIM], everybody, everybody, everybody]
    without = [[2, 3, 4, 5]] * 5
    return Course(
        victim=VICTIM,
        victim_led=frozenset({0, 1}),
        started_ns=0,
        first_cut_ns=FIRST_CUT * SECOND,
        second_cut_ns=SECOND_CUT * SECOND,
        healed_ns=HEALED * SECOND,
        seen=(
            seen(9, before, [everybody] * 5),
            *(seen(second, before, alone) for second in range(ISR_SHRUNK, REPLACED)),
            seen(REPLACED, (2, 3, 2, 3, 4), without),
            *more,
        ),
    )


def writable_again() -> list[Operation]:
    """The probe's first acknowledgement in each partition, two seconds after the healing."""
    return [
        send(10_000 + partition, partition, at=HEALED, until=HEALED + 2, offset=900, process="probe")
        for partition in range(5)
    ]


def probe_reads() -> dict[int, Item]:
    return {partition: (900, value_of(10_000 + partition, partition)) for partition in range(5)}


def result(
    sends: Sequence[Operation],
    kept: Mapping[int, Sequence[Item]],
    *,
    total: int,
    is_control: bool = False,
    found: Mapping[Write, Sequence[Copy]] | None = None,
    during: Course | None = None,
    is_writable: bool = True,
) -> Result:
    """A run whose drain found `kept`, by partition."""
    probes = writable_again() if is_writable else []
    reads = []
    for partition in range(5):
        items = [*kept.get(partition, ()), *([probe_reads()[partition]] if is_writable else [])]
        reads.append(final_read(partition, *sorted(items)))
    operations = [*sends, *probes, *reads]
    what_was_done = course() if during is None else during
    return Result(
        plan=Plan(total=total),
        is_control=is_control,
        is_idempotent=False,
        tally=tally(operations, what_was_done),
        course=what_was_done,
        verdict=check(History.of(operations)),
        seconds=60.0,
        found={} if found is None else found,
    )


EVERYBODY_SEES = (seen(15, (VICTIM, VICTIM, 2, 3, 4), [[1, 2, 3, 4, 5]] * 5),)
"""The controller never heard that a replica left an ISR."""
