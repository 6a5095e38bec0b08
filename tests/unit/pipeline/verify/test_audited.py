"""Leader epochs of a log against the elections of the audit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pipeline.client.values import TopicPartition
from pipeline.verify.audit_reading import audited_state, rest_topic_id
from pipeline.verify.audited import AuditedEpoch, AuditedLeadership, compare_epochs
from pipeline.verify.findings import Flaw
from pipeline.verify.log_order import EpochSpan
from tests.kit.pipeline.verify_world import partition

WHERE = TopicPartition("orders", 0)
CREATED = AuditedEpoch(None, 0, 1, "t0")


def change(before: int, after: int, *, leader: int = 2, gap: bool = False) -> AuditedEpoch:
    return AuditedEpoch(before, after, leader, f"t{after}", gap)


def judged(
    spans: list[tuple[int, int, int]], changes: list[AuditedEpoch], *, current: int = 9
) -> tuple[list[tuple[Flaw, int, int]], int]:
    """([(kind, first, last)], how many are not judged)."""
    epochs = tuple(EpochSpan(epoch, first, last, 1, last - first, 10) for epoch, first, last in spans)
    result = msgspec.structs.replace(partition([]), epochs=epochs)
    found = compare_epochs([result], {WHERE: changes}, {WHERE: current})
    return [(one.kind, one.first_offset, one.last_offset) for one in found.findings], found.unjudged


def test_every_epoch_of_the_log_was_an_election_and_it_is_said_who_led() -> None:
    result = msgspec.structs.replace(
        partition([]), epochs=(EpochSpan(0, 0, 40, 4, 40, 1), EpochSpan(3, 40, 100, 6, 60, 1))
    )
    changes = [CREATED, change(0, 0), change(0, 1), change(1, 3, leader=5), change(3, 3)]
    found = compare_epochs([result], {WHERE: changes}, {WHERE: 3})
    assert (found.findings, found.unjudged) == ((), 0)
    assert found.leaderships[WHERE] == (
        AuditedLeadership(0, 1, "t0", 0, 40, 40),
        AuditedLeadership(3, 5, "t3", 40, 100, 60),
    )


@pytest.mark.parametrize(
    ("epoch", "changes", "expected"),
    [
        (2, [CREATED, change(0, 1), change(1, 3)], "found"),
        (4, [CREATED, change(0, 3)], "not judged"),  # the audit is behind: brokers know it
        (10, [CREATED, change(0, 3)], "found"),  # nobody knows it
        (2, [CREATED, change(0, 1), change(3, 4, gap=True)], "not judged"),
        (4, [CREATED, change(0, 1), change(3, 5, gap=True)], "found"),
        (1, [change(2, 3)], "not judged"),  # retention has removed what was before
        (1, [change(1, 3)], "not judged"),
        (2, [change(0, 1), change(1, 3)], "found"),
        (2, [], "not judged"),
        (3, [CREATED, AuditedEpoch(None, 4, 1, "t", True)], "not judged"),
    ],
)
def test_an_epoch_that_was_no_election_is_found_unless_the_audit_has_a_hole_there(
    epoch: int, changes: list[AuditedEpoch], expected: str
) -> None:
    findings, unjudged = judged([(epoch, 0, 10)], changes)
    if expected == "found":
        assert (findings, unjudged) == ([(Flaw.UNKNOWN_LEADER_EPOCH, 0, 9)], 0)
    else:
        assert (findings, unjudged) == ([], 1)


def test_rows_become_states_of_this_topic_only() -> None:
    row: dict[str, Any] = {
        "before": {"leader_epoch": 3, "topic_id": "x"},
        "after": {"leader_epoch": 4, "leader": 7, "topic_id": "x"},
        "at": "2026-11-21T09:30:00.000Z",
        "gap_before": True,
    }
    assert audited_state(row, "x") == AuditedEpoch(3, 4, 7, row["at"], True)
    assert audited_state(row | {"before": None}, None) == AuditedEpoch(None, 4, 7, row["at"], True)
    assert audited_state(row, "y") is None
    assert audited_state(row | {"after": None}, "x") is None


def test_a_topic_id_is_written_in_two_ways() -> None:
    assert rest_topic_id("00000000-0000-0000-0000-000000000001") == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert rest_topic_id("") is None
