"""How recovery is counted, and what makes a run a failure."""

from __future__ import annotations

from tests.checker.check import check
from tests.checker.history import Function, History, Key, Operation, Outcome
from tests.faults.nemesis.figures import Acknowledged, Course, recoveries, to_part, transactions_of
from tests.faults.nemesis.schedule import Done

SECOND = 1_000_000_000
KEYS: list[Key] = [("t", 0), ("t", 1)]


def sent(partition: int, invoked: float, returned: float, outcome: Outcome = Outcome.OK) -> Operation:
    return Operation(
        process="p",
        f=Function.SEND,
        type=outcome,
        t_invoke_ns=int(invoked * SECOND),
        t_return_ns=int(returned * SECOND),
        key=("t", partition),
        items=((-1, f"{partition}-{invoked}"),),
    )


def done(struck: float, healed: float) -> Done:
    return Done("kill", "kill", int(struck * SECOND), int(healed * SECOND))


def test_what_was_produced_before_the_heal_or_not_acknowledged_proves_nothing() -> None:
    acknowledged = Acknowledged(
        [sent(0, 9.9, 10.1), sent(1, 10.1, 10.2), sent(0, 10.3, 10.4, Outcome.INFO), sent(0, 11, 12)], KEYS
    )
    assert recoveries([done(5, 10)], acknowledged) == [2.0]
    assert recoveries([done(5, 11.5)], acknowledged) == []


def test_a_recovery_under_another_fault_is_not_counted() -> None:
    acknowledged = Acknowledged([sent(0, 10.5, 11), sent(1, 10.5, 12)], KEYS)
    assert recoveries([done(5, 10), done(11.5, 12.5)], acknowledged) == []
    assert recoveries([done(5, 10), done(12, 13)], acknowledged) == [2.0]


def test_transactions_are_counted_by_their_ends() -> None:
    ends = [
        Operation(
            process=process,
            f=Function.TRANSACTION,
            type=outcome,
            t_invoke_ns=0,
            t_return_ns=seconds * SECOND,
            transaction=f"t{seconds}",
        )
        for seconds, outcome, process in [
            (1, Outcome.OK, "java-1-life-1"),
            (7, Outcome.INFO, "java-1-life-2"),
            (9, Outcome.OK, "p"),
            (12, Outcome.OK, "java-2-life-1"),
        ]
    ]
    assert transactions_of([*ends, sent(0, 1, 2)], version_2="java-") == {
        "transactions committed": 3,
        "of them under version 2": 2,
        "transactions aborted": 0,
        "transactions of unknown outcome": 1,
        "longest time without a commit s": 8.0,
    }


def test_a_part_fails_on_anything_bad_and_names_it() -> None:
    read_nothing = Operation(
        process="final",
        f=Function.POLL,
        type=Outcome.OK,
        t_invoke_ns=3 * SECOND,
        t_return_ns=4 * SECOND,
        key=("t", 0),
        final=True,
    )
    verdict = check(History.of([sent(0, 1, 2), read_nothing]))
    part = to_part(
        seed=7,
        seconds=1.0,
        minutes=0.5,
        faults=[done(1, 2)],
        verdict=verdict,
        course=Course(3, 10, 1.0),
        recovered=[],
        failures=["a client ended"],
    )
    assert not part.is_ok
    assert part.failures[0] == "a client ended"
    assert part.failures[1:] == ["lost-acked: 1"]
    assert part.lost == 1
    assert part.figures["other changes of ISR and ELR"] == 7
    assert part.faults == {"kill": 1}
