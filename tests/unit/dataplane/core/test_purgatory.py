"""Waiting producers: order, groups, time, and the check that the record is still theirs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dataplane.core.leader_epochs import EpochStart, LeaderEpochs
from dataplane.core.purgatory import Purgatory
from springtide.contract.epochs import LeaderEpoch

NONE = LeaderEpochs()


def add(purgatory: Purgatory, waiter: object, required_offset: int, *, leader_epoch: int = 1) -> None:
    purgatory.add(
        waiter, required_offset=required_offset, leader_epoch=LeaderEpoch(leader_epoch), expires_ms=10
    )


def test_a_duplicate_takes_its_place_among_the_newer_ones() -> None:
    purgatory = Purgatory()
    add(purgatory, "a", 1)
    add(purgatory, "c", 3)
    add(purgatory, "b", 2)
    add(purgatory, "a again", 1)
    assert purgatory.complete_to(2, leader_epoch=LeaderEpoch(1), epochs=NONE) == (("a", "a again", "b"), ())
    assert purgatory.complete_to(3, leader_epoch=LeaderEpoch(1), epochs=NONE) == (("c",), ())


def test_i4_success_needs_the_epoch_that_wrote_the_record_still_at_its_offset() -> None:
    purgatory = Purgatory()
    add(purgatory, "kept", 5, leader_epoch=1)
    add(purgatory, "overwritten", 7, leader_epoch=1)
    add(purgatory, "new", 8, leader_epoch=7)
    epochs = LeaderEpochs([EpochStart(1, 0), EpochStart(7, 5)])
    assert purgatory.complete_to(8, leader_epoch=LeaderEpoch(7), epochs=epochs) == (
        ("kept", "new"),
        ("overwritten",),
    )


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=30), st.integers(0, 20))
def test_each_waiter_leaves_exactly_once(waits: list[tuple[int, int]], high_watermark: int) -> None:
    purgatory = Purgatory()
    for number, (required_offset, expires_ms) in enumerate(waits):
        purgatory.add(
            number, required_offset=required_offset, leader_epoch=LeaderEpoch(1), expires_ms=expires_ms
        )
    committed, overwritten = purgatory.complete_to(high_watermark, leader_epoch=LeaderEpoch(1), epochs=NONE)
    expired = purgatory.expire(5)
    rest = purgatory.take_all()
    offsets = [waits[n][0] for n in committed]  # type: ignore[call-overload]
    assert offsets == sorted(offset for offset, _ in waits if offset <= high_watermark)
    assert {*expired} == {
        n for n, (offset, expires) in enumerate(waits) if offset > high_watermark and expires <= 5
    }
    assert overwritten == ()
    assert sorted([*committed, *expired, *rest]) == list(range(len(waits)))  # type: ignore[type-var]
    assert len(purgatory) == 0
