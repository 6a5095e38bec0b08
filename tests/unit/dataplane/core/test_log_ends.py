"""What the controller is told of replicas without a leader: once, and again where it has changed."""

from __future__ import annotations

from dataplane.core.log_ends import UntoldLogEnds, log_end_of
from dataplane.core.role import Offline
from springtide.contract.partition_state import NO_LEADER, PartitionKey
from tests.kit.dataplane.replica import TOPIC_ID, Bench, log_of

KEY: PartitionKey = (TOPIC_ID, 0)


def leaderless() -> Bench:
    bench = Bench(2, log=log_of(1, 1))
    bench.apply(leader=NO_LEADER)
    return bench


def test_only_a_replica_without_a_leader_and_with_a_log_has_an_end_to_tell() -> None:
    bench = Bench(2, log=log_of(1, 1))
    assert log_end_of(bench.replica) is None, "it was told nothing yet"
    bench.apply()
    assert log_end_of(bench.replica) is None, "it has a leader"
    bench = leaderless()
    end = log_end_of(bench.replica)
    assert end is not None and (end.log_end_offset, end.epochs) == (2, ((1, 0),))
    bench.replica.go_offline("EIO")
    assert isinstance(bench.replica.role, Offline)
    assert log_end_of(bench.replica) is None


def test_an_end_is_told_until_the_controller_has_it() -> None:
    bench, untold = leaderless(), UntoldLogEnds()
    assert untold.on_applied(KEY, bench.replica) is True
    ends = untold.next(count_max=9)
    assert [(end.topic_id, end.partition) for end in ends] == [KEY]
    assert untold.on_told([]) is True
    assert untold.on_told(ends) is False
    assert untold.next(count_max=9) == []
    assert untold.on_told(ends) is False, "told twice"


def test_an_end_that_has_changed_since_is_told_again() -> None:
    bench, untold = leaderless(), UntoldLogEnds()
    untold.on_applied(KEY, bench.replica)
    ends = untold.next(count_max=9)
    bench.log.truncate_to(1)
    assert untold.on_told(ends) is True
    assert [end.log_end_offset for end in untold.next(count_max=9)] == [1]


def test_with_a_leader_there_is_nothing_to_tell_any_more() -> None:
    bench, untold = leaderless(), UntoldLogEnds()
    untold.on_applied(KEY, bench.replica)
    bench.apply(leader_epoch=2, partition_epoch=2)
    assert untold.on_applied(KEY, bench.replica) is False
    assert untold.on_told([]) is False
