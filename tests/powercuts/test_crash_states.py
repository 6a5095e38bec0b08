"""The short version of the crash states, and that they find what is planted."""

from __future__ import annotations

import pytest

from tests.powercuts.crash_states import explore
from tests.powercuts.planted import PLANTS, Plant
from tests.powercuts.teeth import bite
from tests.powercuts.workload import WEIGHTS, Workload
from tests.simulation.memory_disk import MemoryDisk


@pytest.mark.parametrize("seed", range(3))
def test_every_crash_state_recovers_to_what_was_promised(seed: int) -> None:
    explored = explore(seed, steps=35)
    assert explored.failures == []
    assert explored.states > 100
    assert set(explored.by_kind) == {
        "power cut",
        "kill",
        "power cut, recovered twice",
        "kill, recovered twice",
        "power cut after recovery",
        "power cut during recovery",
    }


def test_a_seed_is_the_same_states_every_time() -> None:
    one, other = explore(5, steps=15), explore(5, steps=15)
    assert one == other


def test_the_workload_does_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    done: set[str] = set()
    step = Workload.step

    def watched(self: Workload) -> None:
        before = self._random.getstate()
        (name,) = self._random.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))
        self._random.setstate(before)
        done.add(name)
        step(self)

    monkeypatch.setattr(Workload, "step", watched)
    for seed in range(6):
        Workload(MemoryDisk(), "/data", seed).run(70)
    assert done == set(WEIGHTS)


QUICK = {
    "flush_without_fsync",
    "crc_unchecked_on_recovery",
    "rename_without_fsync",
    "recovery_point_not_lowered",
}


@pytest.mark.parametrize("bug", [bug for bug in PLANTS if bug.name in QUICK], ids=lambda bug: str(bug.name))
def test_a_planted_bug_is_found(bug: Plant) -> None:
    assert bite(bug).how


@pytest.mark.slow
@pytest.mark.parametrize(
    "bug", [bug for bug in PLANTS if bug.name not in QUICK], ids=lambda bug: str(bug.name)
)
def test_a_planted_bug_is_found_sooner_or_later(bug: Plant) -> None:
    assert bite(bug).how
