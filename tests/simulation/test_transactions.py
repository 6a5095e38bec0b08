"""Producers with transactions in the simulated cluster: in health, under faults, and what a judge sees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from springtide.wire.fetch_response import AbortedTransaction
from springtide.wire.markers import Outcome, encode_marker
from springtide.wire.records import NewRecord, encode_batch
from tests.simulation.cluster import Cluster
from tests.simulation.options import DENSE, draw_options, of_family
from tests.simulation.run import run_seed
from tests.simulation.transaction_judge import CommittedReader, SimulatedTransaction
from tests.simulation.transaction_shards import TransactionShards
from tests.simulation.violation import Violation

OPTIONS = of_family(draw_options(2, DENSE), "transactions")


def test_transactions_of_both_versions_end_in_a_healthy_cluster() -> None:
    cluster = Cluster(7, OPTIONS)
    shards = cluster.shards
    assert isinstance(shards, TransactionShards)
    cluster.start()
    assert cluster.run_until(30_000, lambda: shards.answered >= 20)
    cluster.stop_clients()
    assert cluster.run_until(cluster.events.now_ms + 30_000, lambda: shards.missing() is None), (
        shards.missing()
    )
    shards.check_end()
    outcomes = [(one.client, one.outcome) for one in shards.judge.transactions.values()]
    for version in (0, 1):
        of_version = {outcome for client, outcome in outcomes if int(client[-1]) % 2 == version}
        assert {Outcome.COMMIT, Outcome.ABORT} <= of_version


def test_a_run_of_the_family_is_the_same_again() -> None:
    options = replace(OPTIONS, faults_ms=3_000)
    first, again = run_seed(2, options=options), run_seed(2, options=options)
    assert first.failure is None
    assert first.digest == again.digest
    assert first.marks["transaction.commit"] > 0


def batch(value: str, producer_id: int, base_offset: int) -> bytes:
    return encode_batch(
        [NewRecord(timestamp=0, key=None, value=value.encode())],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        base_offset=base_offset,
        is_transactional=True,
    )


def marker(outcome: Outcome, producer_id: int, base_offset: int) -> bytes:
    return encode_marker(
        outcome,
        coordinator_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        base_offset=base_offset,
        leader_epoch=0,
        timestamp_ms=0,
    )


def test_a_reader_of_committed_records_leaves_out_what_was_aborted() -> None:
    reader = CommittedReader()
    log = [
        batch("a", 1, 0),
        batch("b", 2, 1),
        marker(Outcome.ABORT, 1, 2),
        batch("c", 1, 3),
        marker(Outcome.COMMIT, 2, 4),
        marker(Outcome.COMMIT, 1, 5),
    ]
    assert reader.take([b"".join(log)], [AbortedTransaction(1, 0)]) == ["b", "c"]
    assert reader.position == 6


@pytest.mark.parametrize(
    ("visible", "last", "outcome", "told"),
    [
        ({"a"}, 1, Outcome.COMMIT, "is committed, and"),
        ({"a"}, 1, None, "is torn"),
        ({"a", "b"}, 1, Outcome.ABORT, "never committed"),
        ({"a", "b"}, 0, Outcome.COMMIT, "its offset is lost"),
        ({"a", "b"}, 0, None, "without its offset"),
        (set(), 1, None, "the offset of"),
    ],
)
def test_what_is_half_of_a_transaction_is_a_violation(
    visible: set[str], last: int, outcome: Outcome | None, told: str
) -> None:
    shards = Cluster(1, OPTIONS).shards
    assert isinstance(shards, TransactionShards)
    made = SimulatedTransaction("c", 1, (1, 0), ["a", "b"], ["a", "b"], True, True, True, outcome)
    with pytest.raises(Violation, match=told):
        shards.judge._check(made, visible, {"group-of-c": {last}})


def test_what_is_whole_or_not_there_is_none() -> None:
    shards = Cluster(1, OPTIONS).shards
    assert isinstance(shards, TransactionShards)
    for outcome in (Outcome.COMMIT, None):
        made = SimulatedTransaction("c", 1, (1, 0), ["a", "b"], ["a", "b"], True, True, True, outcome)
        shards.judge._check(made, {"a", "b"}, {"group-of-c": {1}})
    made = SimulatedTransaction("c", 1, (1, 0), ["a", "b"], ["a"], True, False, True, None)
    shards.judge._check(made, set(), {})
