"""Which process a rolling restart stops next, and when it stops itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from springtide.cli.rolling import (
    AllDone,
    Restart,
    Roll,
    RolledProcess,
    Sight,
    Stop,
    Wait,
    in_order,
    not_well,
    pace,
    to_restart,
)

PATIENCE = 60.0


def process(kind: str, name: object, state: str = "active", **fields: Any) -> RolledProcess:
    return RolledProcess(
        **{
            "kind": kind,
            "name": str(name),
            "host": "h",
            "state": state,
            "run": "old",
            "version": "0.1.0",
            **fields,
        }
    )


CONTROLLERS = process("controller", "ctl1:8080"), process("controller", "ctl2:8080", "standby")
BROKERS = tuple(process("broker", broker_id) for broker_id in (10, 2, 1))
COORDINATOR = process("coordinator", 1001)
ALL = (COORDINATOR, *BROKERS, *CONTROLLERS)


def sight(*processes: RolledProcess, **counts: Any) -> Sight:
    return Sight(processes=processes or ALL, **counts)


def changed(seen: Sight, key: tuple[str, str], **fields: Any) -> Sight:
    """The same with one process changed."""
    return replace(
        seen, processes=tuple(replace(one, **fields) if one.key == key else one for one in seen.processes)
    )


def titles(processes: list[RolledProcess]) -> list[str]:
    return [one.title for one in processes]


def test_standbys_come_first_then_the_active_controller_then_brokers_then_coordinators() -> None:
    assert titles(in_order(ALL)) == [
        "controller ctl2:8080",
        "controller ctl1:8080",
        "broker 1",
        "broker 2",
        "broker 10",
        "coordinator 1001",
    ]


def test_what_runs_the_wanted_version_is_left_out() -> None:
    seen = changed(changed(sight(), ("broker", "2"), version="0.2.0"), CONTROLLERS[1].key, version=None)
    assert titles(to_restart(seen, "0.2.0")) == [
        "controller ctl2:8080",  # its version is not known
        "controller ctl1:8080",
        "broker 1",
        "broker 10",
        "coordinator 1001",
    ]
    assert len(to_restart(seen, None)) == len(ALL)


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (sight(), None),
        (sight(*ALL, process("broker", 11, "waiting")), None),
        (sight(is_lost=True), "ZooKeeper has lost what it once held: see springtide clusters alarms"),
        (sight(CONTROLLERS[1], *BROKERS), "no controller is active"),
        (changed(sight(), ("broker", "2"), state="fenced"), "broker 2 is fenced"),
        (
            sight(*CONTROLLERS, process("broker", 1, "fenced"), process("broker", 2, "shutting_down")),
            "broker 1 is fenced, and 1 more",
        ),
        (changed(sight(), CONTROLLERS[1].key, state="not ready"), "controller ctl2:8080 is not ready"),
        (sight(leaderless=1, under_replicated=9), "1 partition without a leader"),
        (sight(under_min_isr=2), "2 partitions below their minimum of replicas in sync"),
        (
            sight(under_replicated=9, lag_records=1_234),
            "9 partitions with a replica that is not in sync, 1,234 records to copy",
        ),
    ],
)
def test_nothing_is_stopped_while_anything_is_missing(seen: Sight, why: str | None) -> None:
    assert not_well(seen) == why
    step = Roll(version=None, patience_s=PATIENCE).step(seen, 0.0)
    assert step == (Restart(CONTROLLERS[1]) if why is None else Wait(why))


def test_the_next_goes_when_the_last_is_back_and_its_partitions_are_whole() -> None:
    roll = Roll(version=None, patience_s=PATIENCE)
    whole = sight(*BROKERS, CONTROLLERS[0])
    assert roll.step(whole, 0.0) == Restart(CONTROLLERS[0])
    roll.on_restarted(CONTROLLERS[0], 1.0)
    assert roll.step(whole, 2.0) == Wait("controller ctl1:8080 still runs as before it was restarted")
    assert roll.step(None, 3.0) == Wait("no active controller answers")
    whole = changed(whole, CONTROLLERS[0].key, run="new")
    assert roll.step(whole, 5.0) == Restart(BROKERS[2])
    assert roll.done == {CONTROLLERS[0].key: 4.0}

    roll.on_restarted(BROKERS[2], 10.0)
    gone = changed(replace(whole, under_replicated=3), ("broker", "1"), state="fenced")
    assert roll.step(gone, 11.0) == Wait("broker 1 is fenced")
    back = changed(gone, ("broker", "1"), state="active", run="new")
    assert roll.step(back, 12.0) == Wait("3 partitions with a replica that is not in sync")
    assert roll.step(replace(back, under_replicated=0), 13.0) == Restart(BROKERS[1])
    assert titles(roll.left(back)) == ["broker 2", "broker 10"]


def test_it_ends_when_none_is_left_and_all_is_well() -> None:
    roll = Roll(version=None, patience_s=PATIENCE)
    roll.on_restarted(CONTROLLERS[0], 0.0)
    back = sight(replace(CONTROLLERS[0], run="new"))
    assert roll.step(replace(back, under_replicated=1), 1.0) == Wait(
        "1 partition with a replica that is not in sync"
    )
    assert roll.step(back, 2.0) == AllDone()
    assert Roll(version="0.1.0", patience_s=PATIENCE).step(sight(), 0.0) == AllDone()


def test_it_stops_when_nothing_gets_better_and_says_what_to_do() -> None:
    roll = Roll(version=None, patience_s=PATIENCE)
    roll.done[CONTROLLERS[0].key] = 1.0
    roll.on_restarted(BROKERS[2], 0.0)
    gone = changed(sight(), ("broker", "1"), state="fenced")
    assert roll.step(gone, 100.0) == Wait("broker 1 is fenced")
    assert roll.step(gone, 100.0 + PATIENCE - 1) == Wait("broker 1 is fenced")
    stopped = roll.step(gone, 100.0 + PATIENCE)
    assert isinstance(stopped, Stop)
    assert stopped.why.splitlines() == [
        "nothing got better for 60 s: broker 1 is fenced",
        "  broker 1 was restarted last: its log says what it waits for",
        "  nothing else was stopped. When all is well again, run this command again",
        "  to leave out those that are done, name the version with --to VERSION",
    ]


def test_a_long_copy_is_waited_for_as_long_as_it_moves() -> None:
    roll = Roll(version=None, patience_s=PATIENCE)
    for number in range(20):
        seen = sight(under_replicated=2, lag_records=1_000_000 - number)
        assert isinstance(roll.step(seen, number * (PATIENCE - 1)), Wait)
    # Lag that grows with what is produced is no improvement, and neither is one that comes and goes.
    now = 20 * PATIENCE
    for lag in (2_000_000, 1_500_000, 1_000_000):
        roll.step(sight(under_replicated=2, lag_records=lag), now)
    assert isinstance(roll.step(sight(under_replicated=2, lag_records=1_000_000), now + PATIENCE), Stop)


def test_a_process_that_comes_back_with_another_version_ends_it() -> None:
    roll = Roll(version="0.2.0", patience_s=PATIENCE)
    roll.on_restarted(BROKERS[2], 0.0)
    back = changed(sight(), ("broker", "1"), run="new")
    stopped = roll.step(back, 1.0)
    assert isinstance(stopped, Stop)
    assert stopped.why.startswith("broker 1 came back with version 0.1.0, not 0.2.0: install that version")
    assert roll.done == {}


def test_a_controller_that_tells_no_run_is_back_when_it_is_ready() -> None:
    """0.1 does not name its runs."""
    roll = Roll(version=None, patience_s=PATIENCE)
    old = replace(CONTROLLERS[0], run=None)
    roll.on_restarted(old, 0.0)
    away = sight(replace(old, state="not ready"), BROKERS[2])
    assert roll.step(away, 1.0) == Wait("controller ctl1:8080 is not ready")
    assert roll.step(sight(old, BROKERS[2]), 2.0) == Restart(BROKERS[2])


def test_a_process_that_was_removed_while_it_was_away_is_missed() -> None:
    roll = Roll(version=None, patience_s=PATIENCE)
    roll.on_restarted(process("broker", 7), 0.0)
    assert roll.step(sight(), 1.0) == Wait("broker 7 is not known any more")


def test_the_time_left_is_told_from_the_first_one_on() -> None:
    assert pace([], 3) == ""
    assert pace([30.0, 50.0], 6) == "40 s each, about 4 min left"
    assert pace([30.0], 0) == "30 s each"
    assert pace([3.0], 1) == "3 s each, about 3 s left"
