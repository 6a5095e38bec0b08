"""Some seeds of the full stack, and that a seed is all that a run depends on."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from dataplane.core import leader
from dataplane.core.results import AppendResult
from springtide.wire.errors import ErrorCode
from tests.fullstack.__main__ import digest_elsewhere
from tests.fullstack.options import Options
from tests.fullstack.run import Result, run_seed
from tests.simulation.planted import controllers, planted, topics
from tests.simulation.schedule import Strike, from_json, to_json

FAULTS_MS = 6_000


@pytest.mark.parametrize("seed", [1, 2])  # CI and the proof sweep a hundred and more
def test_nothing_is_lost_whatever_strikes(seed: int) -> None:
    result = run_seed(seed, faults_ms=FAULTS_MS)
    assert not result.failures, result.report()
    assert result.acked > 0
    assert result.strikes


@pytest.mark.parametrize(
    "seed",
    [
        267670265,  # a disk was lost while no controller was active, and counted as made good
        267670282,  # the last drain was asked for before everybody had come back
        20261406,  # a coordinator that started in a leap of the controller's clock expired offsets by it
        20262033,  # a topic that was created after a fetch session had named it was never looked at again
    ],
)
def test_seeds_that_found_something(seed: int) -> None:
    result = run_seed(seed)
    assert not result.failures, result.report()


@pytest.mark.parametrize(
    ("seed", "kind"), [(2, "create_many"), (6, "zookeeper_goes_back"), (9, "leap_clock"), (10, "suspend_all")]
)
def test_nothing_is_lost_when_a_family_of_faults_strikes(seed: int, kind: str) -> None:
    result = run_seed(seed)
    assert kind in result.faults
    assert not result.failures, result.report()


def test_a_restored_zookeeper_that_is_believed_is_found() -> None:
    with planted(controllers.witnesses_are_not_heard):
        assert run_seed(6).failures


def test_i39_what_is_acknowledged_after_a_topic_was_made_again_is_in_it() -> None:
    """The planted bug frees the name before the leaders have stopped. By Kafka's call it would not show: that
    creation is answered when each live broker knows the new leaders."""
    cut = {"way": "rest", "trouble": "cut", "followers": 9, "after_ms": 0, "for_ms": 3_000}
    strikes = (Strike(3_000, "make_again", cut),)

    def run() -> Result:
        return run_seed(1, faults_ms=FAULTS_MS, options=Options(), strikes=strikes)

    result = run()
    assert not result.failures, result.report()
    assert any(line.endswith("again-0 is made again") for line in result.recent), result.report()
    with planted(topics.name_free_at_once):
        assert [failure.split(":")[0] for failure in run().failures] == ["I39"]


def test_disks_below_their_reserve_refuse_writes_and_lose_nothing() -> None:
    """The planted bug answers what there is no room for as if it were written."""
    strikes = tuple(
        Strike(at_ms, "disk_short", {"brokers": brokers, "for_ms": 2_500})
        for at_ms, brokers in ((1_500, [1]), (4_500, [1, 2, 3]))
    )

    def run() -> Result:
        return run_seed(1, faults_ms=FAULTS_MS, options=Options(), strikes=strikes)

    result = run()
    assert not result.failures, result.report()
    assert len(result.strikes) == 2
    with patch.object(leader, "_NO_ROOM", AppendResult(ErrorCode.NONE, 0, -1, 0)):
        assert run().failures


def test_a_seed_replays_in_another_process_and_under_another_hash_seed() -> None:
    first = run_seed(6, faults_ms=FAULTS_MS)
    assert first.events > 1_000
    assert digest_elsewhere(6, faults_ms=FAULTS_MS) == first.digest
    assert run_seed(7, faults_ms=FAULTS_MS).digest != first.digest
    assert run_seed(6, faults_ms=FAULTS_MS).digest == first.digest, "an earlier run left something behind"


def test_a_schedule_is_played_again_without_its_planner() -> None:
    first = run_seed(8, faults_ms=FAULTS_MS)
    strikes = from_json(to_json(first.strikes))
    again = run_seed(8, faults_ms=FAULTS_MS, strikes=strikes)
    assert not again.failures, again.report()
    assert [strike.kind for strike in again.strikes] == [strike.kind for strike in first.strikes]
