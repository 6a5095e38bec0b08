"""The end of a run: every side tells the same story, or the difference is named."""

from __future__ import annotations

from tests.checker.check import check
from tests.checker.history import History
from tests.checker.placement import (
    Asked,
    AuditedChange,
    Mutation,
    Partition,
    check_audit_changes,
    check_audit_requests,
    check_placement,
)
from tests.checker.verdict import Anomaly, Kind

K = ("orders", 0)


def partition(**changes: int | tuple[int, ...]) -> Partition:
    facts: dict[str, int | tuple[int, ...]] = {
        "leader": 1,
        "isr": (1, 2, 3),
        "replicas": (1, 2, 3),
        "leader_epoch": 4,
        "partition_epoch": 9,
    }
    return {**facts, **changes}


def kinds(anomalies: tuple[Anomaly, ...]) -> list[Kind]:
    return [anomaly.kind for anomaly in anomalies]


MUTATIONS = [
    Mutation(entity="topic/orders", version=0, zxid=5),
    Mutation(entity="partition/orders/0", version=0, zxid=5),
    Mutation(entity="partition/orders/0", version=1, zxid=6),
]
ROWS = [AuditedChange(entity=m.entity, version=m.version) for m in MUTATIONS]


def test_equal_views_have_no_anomaly_whatever_the_order_of_their_sets() -> None:
    rest = {K: partition(isr=(3, 2, 1))}
    broker: dict[tuple[str, int], Partition] = {K: {"leader": 1, "leader_epoch": 4}}
    assert check_placement({K: partition()}, {"rest": rest, "broker 2": broker}) == ()


def test_a_view_that_differs_is_named_with_both_values() -> None:
    found = check_placement({K: partition()}, {"broker 2": {K: partition(leader=2, leader_epoch=5)}})
    assert kinds(found) == [Kind.PLACEMENT_DIFFERS]
    assert found[0].key == K
    assert (
        found[0].explanation
        == "broker 2 says of orders/0: leader 2 instead of 1; leader_epoch 5 instead of 4"
    )


def test_the_order_of_replicas_is_a_fact() -> None:
    assert check_placement({K: partition()}, {"rest": {K: partition(replicas=(2, 1, 3))}})


def test_a_partition_that_one_side_lacks_is_named_either_way() -> None:
    missing = check_placement({K: partition()}, {"rest": {}})
    assert missing[0].explanation == "rest does not know orders/0, which ZooKeeper has"
    invented = check_placement({}, {"rest": {K: partition()}})
    assert invented[0].explanation == "ZooKeeper does not know orders/0, which rest has"


def test_a_view_that_states_nothing_does_not_pass() -> None:
    assert kinds(check_placement({K: partition()}, {"rest": {K: {}}})) == [Kind.PLACEMENT_DIFFERS]


def test_one_row_for_each_mutation_in_order_is_clean() -> None:
    assert check_audit_changes(MUTATIONS, ROWS) == ()
    assert check_audit_changes(MUTATIONS, [ROWS[1], ROWS[0], ROWS[2]]) == (), "one transaction has no order"


def test_a_mutation_without_a_row_is_missing() -> None:
    assert kinds(check_audit_changes(MUTATIONS, ROWS[:2])) == [Kind.AUDIT_MISSING]


def test_a_second_row_is_repeated() -> None:
    assert kinds(check_audit_changes(MUTATIONS, [*ROWS, ROWS[2]])) == [Kind.AUDIT_REPEATED]


def test_a_row_without_a_mutation_is_unfounded() -> None:
    row = AuditedChange(entity="topic/ghosts", version=0)
    assert kinds(check_audit_changes(MUTATIONS, [*ROWS, row])) == [Kind.AUDIT_UNFOUNDED]


def test_rows_against_the_order_of_writes_are_named() -> None:
    assert kinds(check_audit_changes(MUTATIONS, [ROWS[2], ROWS[0], ROWS[1]])) == [Kind.AUDIT_ORDER] * 2


def test_requests_are_audited_once_as_they_ended() -> None:
    asked = {"a": Asked.OK, "b": Asked.REFUSED, "c": Asked.UNKNOWN, "d": Asked.UNKNOWN}
    assert check_audit_requests(asked, [("a", Asked.OK), ("b", Asked.REFUSED), ("c", Asked.OK)]) == ()


def test_a_refused_request_must_be_audited_as_refused() -> None:
    asked = {"b": Asked.REFUSED}
    assert kinds(check_audit_requests(asked, [("b", Asked.OK)])) == [Kind.AUDIT_OUTCOME]
    assert kinds(check_audit_requests(asked, [])) == [Kind.AUDIT_MISSING]
    assert kinds(check_audit_requests(asked, [("b", Asked.REFUSED)] * 2)) == [Kind.AUDIT_REPEATED]
    assert kinds(check_audit_requests({}, [("b", Asked.REFUSED)])) == [Kind.AUDIT_UNFOUNDED]


def test_a_verdict_takes_in_what_the_end_shows() -> None:
    verdict = check(History.of([]))
    found = check_placement({K: partition()}, {"rest": {}})
    assert verdict.with_anomalies(found).bad == {Kind.PLACEMENT_DIFFERS: 1}
    assert "rest does not know orders/0" in verdict.with_anomalies(found).report()
    assert not verdict.is_bad
