"""Clean histories flag nothing; a clean history with one thing broken in it always does.

Each mutation changes what clients saw as one fault of the system would have: it says which kinds of anomaly
may name it, and at least one of these must be found, and nothing bad beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec
import pytest

from tests.checker.check import check
from tests.checker.history import NO_OFFSET, Function, History, Item, Operation, Outcome
from tests.checker.options import CheckOptions
from tests.checker.values import make_value
from tests.checker.verdict import Kind
from tests.kit.clean_histories import make_clean_history

SEEDS = range(40)

Operations = list[Operation]
Mutation = Callable[[Operations, Random], set[Kind]]

replace = msgspec.structs.replace


def pick(
    operations: Operations, random: Random, wanted: Callable[[Operation], bool]
) -> tuple[int, Operation]:
    index = random.choice([i for i, operation in enumerate(operations) if wanted(operation)])
    return index, operations[index]


def is_final(operation: Operation) -> bool:
    return operation.final and len(operation.items) > 1


def is_acked(operation: Operation) -> bool:
    return operation.f is Function.SEND and operation.type is Outcome.OK


def is_live_read(operation: Operation) -> bool:
    return operation.f is Function.POLL and not operation.final and bool(operation.items)


def set_items(operations: Operations, index: int, items: list[Item]) -> None:
    operations[index] = replace(operations[index], items=tuple(items))


def acked_values(operations: Operations) -> set[str]:
    return {value for operation in operations if is_acked(operation) for _, value in operation.items}


def drop_from_final_read(operations: Operations, random: Random) -> set[Kind]:
    """A record in the middle of the log is no longer served."""
    acked = acked_values(operations)
    index, operation = pick(operations, random, lambda o: is_final(o) and o.items[0][1] in acked)
    set_items(operations, index, list(operation.items[1:]))
    return {Kind.LOST_ACKED, Kind.READ_THEN_GONE, Kind.REPLICAS_DIFFER}


def drop_the_tail(operations: Operations, random: Random) -> set[Kind]:
    """The log was cut: the final read ends before the last acknowledged batch."""
    _, last = [(i, o) for i, o in enumerate(operations) if is_acked(o)][-1]
    cut = last.items[0][0]
    for index, operation in enumerate(operations):
        if operation.final and operation.key == last.key:
            set_items(operations, index, [item for item in operation.items if item[0] < cut])
    return {Kind.LOST_ACKED, Kind.READ_THEN_GONE}


def drop_from_a_live_read(operations: Operations, random: Random) -> set[Kind]:
    """A reader is not given a record that is there."""
    index, operation = pick(operations, random, lambda o: is_live_read(o) and len(o.items) > 2)
    set_items(operations, index, [operation.items[0], *operation.items[2:]])
    return {Kind.INT_POLL_SKIP}


def swap_in_a_read(operations: Operations, random: Random) -> set[Kind]:
    """Two records come in the wrong order, each with its own offset."""
    index, operation = pick(operations, random, is_final)
    first, second, *rest = operation.items
    set_items(operations, index, [second, first, *rest])
    return {Kind.INT_NONMONOTONIC_POLL, Kind.NONMONOTONIC_POLL, Kind.INT_POLL_SKIP, Kind.POLL_SKIP}


def swap_values_in_a_read(operations: Operations, random: Random) -> set[Kind]:
    """Two records stand at each other's offsets."""
    index, operation = pick(operations, random, is_final)
    (a, first), (b, second), *rest = operation.items
    set_items(operations, index, [(a, second), (b, first), *rest])
    return {Kind.INCONSISTENT_OFFSETS, Kind.DUPLICATE, Kind.REPLICAS_DIFFER}


def repeat_in_a_read(operations: Operations, random: Random) -> set[Kind]:
    index, operation = pick(operations, random, is_final)
    set_items(operations, index, [operation.items[0], *operation.items])
    return {Kind.INT_NONMONOTONIC_POLL}


def append_a_duplicate(operations: Operations, random: Random) -> set[Kind]:
    """A retry was appended again, at the end of the log."""
    index = max(i for i, operation in enumerate(operations) if operation.final)
    last = operations[index]
    offset = last.items[-1][0] + 1
    acked = {value for o in operations if is_acked(o) and o.key == last.key for _, value in o.items}
    set_items(operations, index, [*last.items, (offset, random.choice(sorted(acked)))])
    operations[index] = replace(operations[index], high_watermark=offset + 1)
    return {Kind.DUPLICATE}


def move_an_acknowledgement(operations: Operations, random: Random) -> set[Kind]:
    """The client was told another offset than the record has."""
    index, operation = pick(operations, random, is_acked)
    moved = [(offset + 1000, value) for offset, value in operation.items]
    set_items(operations, index, moved)
    return {Kind.DUPLICATE, Kind.REAL_TIME_ORDER, Kind.NONMONOTONIC_SEND}


def corrupt_a_value(operations: Operations, random: Random) -> set[Kind]:
    """A bit of an acknowledged record flipped between the log and its reader."""
    index, operation = pick(operations, random, is_final)
    offset, value = operation.items[0]
    at = random.randrange(len(value))
    damaged = value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :]
    set_items(operations, index, [(offset, damaged), *operation.items[1:]])
    return {
        Kind.CORRUPT,
        Kind.INCONSISTENT_OFFSETS,
        Kind.LOST_ACKED,
        Kind.LOST_WRITE,
        Kind.REPLICAS_DIFFER,
    }


def invent_a_record(operations: Operations, random: Random) -> set[Kind]:
    index = max(i for i, operation in enumerate(operations) if operation.final)
    last = operations[index]
    assert last.key is not None
    offset = last.items[-1][0] + 1
    invented = make_value(run="nobody", process="p", number=1, key=last.key)
    set_items(operations, index, [*last.items, (offset, invented)])
    operations[index] = replace(operations[index], high_watermark=offset + 1)
    return {Kind.PHANTOM}


def misplace_a_record(operations: Operations, random: Random) -> set[Kind]:
    """A record turns up at the end of another partition."""
    index = max(i for i, operation in enumerate(operations) if operation.final)
    last = operations[index]
    foreign = sorted(v for o in operations if is_acked(o) and o.key != last.key for _, v in o.items)
    offset = last.items[-1][0] + 1
    set_items(operations, index, [*last.items, (offset, random.choice(foreign))])
    operations[index] = replace(operations[index], high_watermark=offset + 1)
    return {Kind.MISPLACED}


def lose_an_acknowledged_batch(operations: Operations, random: Random) -> set[Kind]:
    """A batch is acknowledged and nowhere to be found, at offsets behind the end."""
    _, operation = pick(operations, random, is_acked)
    assert operation.key is not None
    value = make_value(run="lost", process="late", number=0, key=operation.key)
    first_final = min(o.t_invoke_ns for o in operations if o.final)
    operations.insert(
        0,
        replace(
            operation,
            process="late",
            items=((10_000, value),),
            producer=None,
            t_invoke_ns=first_final - 2,
            t_return_ns=first_final - 1,
        ),
    )
    return {Kind.LOST_ACKED}


def acknowledge_behind_the_past(operations: Operations, random: Random) -> set[Kind]:
    """A later send is given an offset below one that was read before it began, and the log agrees."""
    sends = [i for i, o in enumerate(operations) if is_acked(o)]
    index = sends[-1]
    operation = operations[index]
    earlier = next(
        i
        for i in sends
        if operations[i].key == operation.key and operations[i].t_return_ns < operation.t_invoke_ns
    )
    late, early = operation, operations[earlier]
    operations[index] = replace(late, t_invoke_ns=early.t_invoke_ns, t_return_ns=early.t_return_ns)
    operations[earlier] = replace(early, t_invoke_ns=late.t_invoke_ns, t_return_ns=late.t_return_ns)
    return {Kind.REAL_TIME_ORDER, Kind.NONMONOTONIC_SEND}


def regress_a_watermark(operations: Operations, random: Random) -> set[Kind]:
    index, operation = pick(operations, random, lambda o: is_live_read(o) and (o.high_watermark or 0) > 0)
    later = replace(
        operation,
        f=Function.LIST_OFFSETS,
        items=(),
        high_watermark=random.randrange(operation.high_watermark or 1),
        t_invoke_ns=operation.t_return_ns + 1,
        t_return_ns=operation.t_return_ns + 2,
    )
    operations.insert(index + 1, later)
    return {Kind.WATERMARK_REGRESS}


def read_uncommitted(operations: Operations, random: Random) -> set[Kind]:
    index, operation = pick(operations, random, is_live_read)
    operations[index] = replace(operation, high_watermark=operation.items[-1][0])
    return {Kind.READ_ABOVE_WATERMARK, Kind.WATERMARK_REGRESS}


def serve_what_was_refused(operations: Operations, random: Random) -> set[Kind]:
    index, operation = pick(operations, random, is_acked)
    items = [(NO_OFFSET, value) for _, value in operation.items]
    operations[index] = replace(operation, type=Outcome.FAIL, items=tuple(items), producer=None)
    return {Kind.G1A}


def rewind_a_reader(operations: Operations, random: Random) -> set[Kind]:
    """A reader is given again what it has read, without having asked."""
    index, operation = pick(operations, random, is_live_read)
    again = replace(operation, t_invoke_ns=operation.t_return_ns + 1, t_return_ns=operation.t_return_ns + 2)
    operations.insert(index + 1, again)
    return {Kind.NONMONOTONIC_POLL}


def drop_a_poll(operations: Operations, random: Random) -> set[Kind]:
    """A reader's position moved on over a whole poll."""
    polls = [i for i, o in enumerate(operations) if o.final]
    index = random.choice(polls[:-1])
    before = {value for i in polls if i != index for _, value in operations[i].items}
    lost = [v for _, v in operations[index].items if v not in before and v in acked_values(operations)]
    del operations[index]
    assert lost
    return {Kind.LOST_ACKED, Kind.LOST_WRITE, Kind.READ_THEN_GONE}


def change_a_replica(operations: Operations, random: Random) -> set[Kind]:
    index, operation = pick(operations, random, lambda o: o.f is Function.DUMP)
    items = list(operation.items)
    at = random.randrange(len(items))
    assert operation.key is not None
    items[at] = (items[at][0], make_value(run="other", process="p", number=0, key=operation.key))
    set_items(operations, index, items)
    return {Kind.REPLICAS_DIFFER}


def empty_a_replica(operations: Operations, random: Random) -> set[Kind]:
    index, _ = pick(operations, random, lambda o: o.f is Function.DUMP)
    set_items(operations, index, [])
    return {Kind.REPLICAS_DIFFER}


def drop_a_batch_header(operations: Operations, random: Random) -> set[Kind]:
    index, operation = pick(operations, random, lambda o: o.f is Function.DUMP)
    followed = [
        n
        for n, batch in enumerate(operation.batches)
        if batch.base_sequence
        and any(later.producer_id == batch.producer_id for later in operation.batches[n + 1 :])
    ]
    if not followed:
        pytest.skip("no producer wrote three batches here")
    at = random.choice(followed)
    batches = operation.batches[:at] + operation.batches[at + 1 :]
    operations[index] = replace(operation, batches=batches)
    return {Kind.PRODUCER_SEQUENCE}


def decrease_a_producers_epoch(operations: Operations, random: Random) -> set[Kind]:
    index, operation = pick(operations, random, lambda o: o.f is Function.DUMP)
    first, *rest = operation.batches
    if all(batch.producer_id != first.producer_id for batch in rest):
        pytest.skip("the first producer wrote once")
    operations[index] = replace(operation, batches=(replace(first, producer_epoch=9), *rest))
    return {Kind.PRODUCER_EPOCH}


def forget_the_final_read(operations: Operations, random: Random) -> set[Kind]:
    operations[:] = [o for o in operations if not o.final and o.f is not Function.DUMP]
    return {Kind.NO_FINAL_READ}


MUTATIONS: list[Mutation] = [
    drop_from_final_read,
    drop_the_tail,
    drop_from_a_live_read,
    swap_in_a_read,
    swap_values_in_a_read,
    repeat_in_a_read,
    append_a_duplicate,
    move_an_acknowledgement,
    corrupt_a_value,
    invent_a_record,
    misplace_a_record,
    lose_an_acknowledged_batch,
    acknowledge_behind_the_past,
    regress_a_watermark,
    read_uncommitted,
    serve_what_was_refused,
    rewind_a_reader,
    drop_a_poll,
    change_a_replica,
    empty_a_replica,
    drop_a_batch_header,
    decrease_a_producers_epoch,
    forget_the_final_read,
]


def test_clean_histories_flag_nothing() -> None:
    for seed in range(300):
        verdict = check(History.of(make_clean_history(seed)))
        assert not verdict.anomalies, f"seed {seed}\n{verdict.report()}"
        figures = verdict.figures
        assert (figures.lost, figures.duplicated, figures.unseen_at_end) == (0, 0, 0)
        assert figures.final_read == figures.read >= figures.acked > 0


def test_clean_histories_flag_nothing_in_whatever_order_their_lines_stand() -> None:
    for seed in range(40):
        operations = make_clean_history(seed)
        Random(seed).shuffle(operations)
        operations.sort(key=lambda o: (o.process, o.t_invoke_ns, o.t_return_ns))
        verdict = check(History.of(operations))
        assert not verdict.anomalies, f"seed {seed}\n{verdict.report()}"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_broken_history_is_flagged(mutation: Mutation, seed: int) -> None:
    operations = make_clean_history(seed)
    allowed = mutation(operations, Random(seed))
    verdict = check(History.of(operations))
    assert verdict.is_bad, f"seed {seed}: {mutation.__doc__}"
    assert set(verdict.bad) <= allowed, verdict.report()


def test_unknown_sends_may_be_there_or_not() -> None:
    fates: set[bool] = set()
    for seed in range(40):
        operations = make_clean_history(seed)
        read = {value for o in operations if o.final for _, value in o.items}
        unknown = [o for o in operations if o.f is Function.SEND and o.type is Outcome.INFO]
        fates.update(o.items[0][1] in read for o in unknown)
        assert not check(History.of(operations)).is_bad
    assert fates == {True, False}


def test_an_acknowledgement_that_got_lost_changes_no_verdict() -> None:
    """ok turned into info: the record may be there, so nothing follows from it."""
    for seed in range(40):
        operations = make_clean_history(seed)
        index, operation = pick(operations, Random(seed), is_acked)
        items = tuple((NO_OFFSET, value) for _, value in operation.items)
        operations[index] = replace(operation, type=Outcome.INFO, items=items)
        assert not check(History.of(operations)).anomalies


def test_retention_excuses_what_is_below_the_log_start_and_nothing_else() -> None:
    for seed in range(20):
        operations = make_clean_history(seed)
        for index, operation in enumerate(operations):
            if operation.final:
                kept = [item for item in operation.items if item[0] >= 5]
                operations[index] = replace(operation, items=tuple(kept), log_start_offset=5)
        operations = [o for o in operations if o.f not in (Function.DUMP, Function.ASSIGN)]
        operations = [o for o in operations if o.final or o.f is not Function.POLL]
        verdict = check(History.of(operations), CheckOptions(retention=True))
        assert not verdict.is_bad, verdict.report()
        assert verdict.figures.retained_away > 0
        strict = check(History.of(operations))
        assert strict.bad == {Kind.LOST_ACKED: verdict.figures.retained_away}
