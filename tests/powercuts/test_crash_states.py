"""The short version of the crash states, and that they find what is planted."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from dataplane.storage.log_settings import PartitionId
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.memory.disk import MemoryDisk
from tests.powercuts import teeth
from tests.powercuts.crash_states import explore
from tests.powercuts.ledger import Incarnation
from tests.powercuts.planted import PLANTS, Plant
from tests.powercuts.teeth import bite, find_planted
from tests.powercuts.workload import WEIGHTS, Workload


def encoded(base_offset: int, *, records: int = 1) -> bytes:
    values = [NewRecord(value=b"v", timestamp=1)] * records
    return encode_batch(values, base_offset=base_offset, leader_epoch=0)


def test_a_cut_inside_a_batch_promises_nothing_of_what_takes_its_place() -> None:
    known = Incarnation(PartitionId("A" * 22, "orders", 0))
    known.appending([encoded(0), encoded(1, records=3)])
    known.appended(())
    known.flushed = 4
    known.cutting(3)
    assert known.flushed == 1
    known.appending([encoded(1)])
    known.appended(())
    assert [node.header.next_offset for node in known.chain] == [1, 2]


def test_a_gap_at_the_end_of_a_log_is_promised_to_no_later_process() -> None:
    known = Incarnation(PartitionId("A" * 22, "orders", 0))
    known.appending([encoded(0), encoded(7)])
    known.appended(())
    known.flushed = 8
    known.cutting(5)
    assert known.flushed == 5
    known.reopened(0)
    assert known.flushed == 1


@pytest.mark.parametrize("seed", range(3))
def test_every_crash_state_recovers_to_what_was_promised(seed: int) -> None:
    explored = explore(seed, steps=35)
    assert explored.failures == []
    assert explored.states > 100
    assert set(explored.by_kind) == {
        "power cut",
        "kill",
        "power cut, recovered twice",
        "volume back",
        "volume back, recovered twice",
        "killed before it was registered",
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
    "boot_id_alone_believed",
    "boot_id_written_before_registration",
    "mount_mark_set_before_registration",
}
"""Found within 160 states. `python -m tests.powercuts teeth` finds all, and so does each commit."""


@pytest.mark.parametrize("bug", [bug for bug in PLANTS if bug.name in QUICK], ids=lambda bug: str(bug.name))
def test_a_planted_bug_is_found(bug: Plant) -> None:
    assert bite(bug).how


def test_a_bug_that_is_not_found_fails_the_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that changes nothing: what is found of it would be found without it, too."""
    monkeypatch.chdir(tmp_path)
    none = Plant("no_bug", "nothing", 1, list)
    monkeypatch.setattr(teeth, "PLANTS", [none])
    monkeypatch.setattr(teeth, "explore", partial(explore, steps=15))
    part = find_planted(jobs=1, plants=[none])
    assert part.figures["found"] == 0
    assert len(part.failures) == 1
    assert part.failures[0].startswith("no_bug was not found in ")


@pytest.mark.proof
@pytest.mark.parametrize(
    "bug", [bug for bug in PLANTS if bug.name not in QUICK], ids=lambda bug: str(bug.name)
)
def test_a_planted_bug_is_found_sooner_or_later(bug: Plant) -> None:
    assert bite(bug).how
