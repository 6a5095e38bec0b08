"""A streaming query's offsets, micro-batch by micro-batch, against a cluster that is a few dictionaries."""

from __future__ import annotations

import json

import pytest

from pipeline.client.errors import TopicUnknown, UnsupportedBroker
from pipeline.client.values import FoundOffset, PartitionRange, TopicPartition
from pipeline.errors import DataLossError, InvalidOption
from pipeline.source.offset_json import Offsets
from pipeline.source.options import parse_options
from pipeline.source.positions import LogEnd
from pipeline.source.stream_planner import plan_between
from springtide.wire.fetch_response import EpochEnd
from tests.kit.pipeline.stream import Logs, Query

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def test_the_start_is_pinned_before_anything_is_read() -> None:
    logs = Logs({T0: 100, T1: 7})
    query = Query(logs)
    assert query.trigger() == []
    assert query.checkpoint == '{"t": {"0": 100, "1": 7}}'
    logs.now = {T0: 120, T1: 7}
    query.restart()  # before the next micro-batch was planned: what came meanwhile is not lost
    assert query.trigger() == [PartitionRange("t", 0, 100, 120)]
    assert query.trigger() == []


def test_a_restart_before_the_start_was_pinned_finds_no_offset_to_contradict() -> None:
    logs = Logs({T0: 100})
    query = Query(logs)
    first = query.planner.initial()
    logs.now[T0] = 300
    query.restart()
    assert query.planner.initial() == first


@pytest.mark.parametrize(
    ("options", "pinned"),
    [
        ({"startingOffsets": "earliest"}, {T0: 5, T1: 0}),
        ({"startingOffsets": '{"t":{"0":50,"1":-1}}'}, {T0: 50, T1: 7}),
    ],
)
def test_any_position_is_pinned(options: dict[str, str], pinned: Offsets) -> None:
    logs = Logs({T0: 100, T1: 7})
    logs.begins[T0] = 5
    query = Query(logs, **options)
    query.trigger()
    expected = [PartitionRange(*where, first, logs.now[where]) for where, first in pinned.items()]
    assert query.trigger() == [one for one in expected if one.start_offset < one.end_offset]


def test_partitions_that_appear_are_read_from_their_first_record() -> None:
    logs = Logs({T0: 100})
    query = Query(logs)
    query.trigger()
    logs.now[T1], logs.begins[T1], logs.epochs[T1] = 30, 0, 0
    assert query.trigger() == [PartitionRange("t", 1, 0, 30)]


def test_a_deletion_half_way_through_a_planning_is_told_as_one_before_it() -> None:
    class Deleting(Logs):
        is_deleted = False

        def ends(self, partitions: list[TopicPartition], edge: LogEnd) -> dict[TopicPartition, FoundOffset]:
            if self.is_deleted:
                self.is_deleted = False
                self.now.clear()
                raise TopicUnknown("given up after 3 tries: LIST_OFFSETS of t-0")
            return super().ends(partitions, edge)

    for options in ({}, {"failOnDataLoss": "false"}):
        logs = Deleting({T0: 100})
        query = Query(logs, **options)
        query.trigger()
        logs.is_deleted = True
        if options:
            assert query.trigger() == []
        else:
            with pytest.raises(DataLossError, match="t-0 is gone; it was read up to offset 99"):
                query.trigger()


def test_rates_limit_a_micro_batch_unless_the_trigger_takes_all() -> None:
    logs = Logs({T0: 0, T1: 0})
    query = Query(logs, maxOffsetsPerTrigger="10")
    query.trigger()
    logs.now = {T0: 90, T1: 10}
    assert query.trigger() == [PartitionRange("t", 0, 0, 9), PartitionRange("t", 1, 0, 1)]
    assert query.trigger(is_limited=False) == [PartitionRange("t", 0, 9, 90), PartitionRange("t", 1, 1, 10)]


def test_a_minimum_waits_and_waits_no_longer_than_it_may() -> None:
    logs = Logs({T0: 0})
    query = Query(logs, minOffsetsPerTrigger="10", maxTriggerDelay="5s")
    query.trigger()
    logs.now[T0] = 1
    assert query.trigger() == [PartitionRange("t", 0, 0, 1)], "the first does not wait"
    logs.now[T0] = 5
    logs.now_ms += 4_999
    assert query.trigger() == []
    logs.now_ms += 1
    assert query.trigger() == [PartitionRange("t", 0, 1, 5)]
    logs.now[T0] = 15
    assert query.trigger() == [PartitionRange("t", 0, 5, 15)], "there are enough"


def test_available_now_stops_at_the_ends_it_began_with() -> None:
    logs = Logs({T0: 100})
    query = Query(logs, startingOffsets="earliest", maxOffsetsPerTrigger="60", minOffsetsPerTrigger="50")
    query.planner.freeze()
    logs.now = {T0: 500, T1: 9}
    logs.begins[T1] = logs.epochs[T1] = 0
    assert query.trigger() == []
    assert query.trigger() == [PartitionRange("t", 0, 0, 60)]
    assert query.trigger() == [PartitionRange("t", 0, 60, 100)], "a minimum does not hold it up"
    before = query.checkpoint
    assert query.trigger() == []
    assert query.checkpoint == before, "which is how Spark knows that it is over"
    query.restart()
    query.planner.freeze()
    assert query.trigger(is_limited=False) == [
        PartitionRange("t", 0, 100, 500),
        PartitionRange("t", 1, 0, 9),
    ]


def test_available_now_from_latest_reads_nothing() -> None:
    logs = Logs({T0: 100})
    query = Query(logs)
    query.planner.freeze()
    logs.now[T0] = 200
    assert query.trigger() == []
    assert query.checkpoint == '{"t": {"0": 100}}'
    assert query.trigger() == []


def test_an_end_that_went_back_is_a_loss_or_the_new_place_to_go_on() -> None:
    logs = Logs({T0: 100, T1: 50})
    for options in ({}, {"failOnDataLoss": "false"}):
        logs.now = {T0: 100, T1: 50}
        query = Query(logs, **options)
        query.trigger()
        logs.now = {T0: 60, T1: 51}
        if not options:
            with pytest.raises(
                DataLossError,
                match=r"t-0 was read up to offset 99, and its log ends at offset 59 now.*failOnData",
            ):
                query.trigger()
            continue
        assert query.trigger() == [PartitionRange("t", 1, 50, 51)]
        logs.now[T0] = 65
        assert query.trigger() == [PartitionRange("t", 0, 60, 65)]


def test_a_partition_that_is_gone_is_a_loss_or_forgotten() -> None:
    logs = Logs({T0: 100, T1: 50})
    strict, lenient = Query(logs), Query(logs, failOnDataLoss="false")
    strict.trigger()
    lenient.trigger()
    logs.now = {T0: 101}
    with pytest.raises(DataLossError, match="t-1 is gone"):
        strict.trigger()
    assert lenient.trigger() == [PartitionRange("t", 0, 100, 101)]
    assert lenient.checkpoint == '{"t": {"0": 101}}'


def test_a_log_that_was_truncated_and_grew_again_is_found_out_by_its_epochs() -> None:
    logs = Logs({T0: 100, T1: 50})
    queries = {check: Query(logs, epochCheck=check) for check in ("true", "false")}
    for query in queries.values():
        query.trigger()
    # An unclean election: the new leader had 80 of the 100 and has taken 40 more since.
    logs.now[T0], logs.epochs[T0] = 120, 5
    logs.epoch_end[T0] = EpochEnd(4, 80)
    with pytest.raises(
        DataLossError, match=r"t-0 was read up to offset 99, but leader epoch 4 ended before offset 80"
    ):
        queries["true"].trigger()
    assert logs.epochs_asked == [{T0: 4}]
    assert queries["false"].trigger() == [PartitionRange("t", 0, 100, 120)]


def test_a_clean_election_is_no_loss() -> None:
    logs = Logs({T0: 100})
    query = Query(logs)
    query.trigger()
    logs.now[T0], logs.epochs[T0] = 120, 5
    logs.epoch_end[T0] = EpochEnd(4, 105)
    assert query.trigger() == [PartitionRange("t", 0, 100, 120)]
    logs.now[T0] = 121
    assert query.trigger() == [PartitionRange("t", 0, 120, 121)]
    assert logs.epochs_asked == [{T0: 4}], "once a change"


def test_a_cut_that_no_driver_could_see_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    logs = Logs({T0: 100, T1: 50, T2: 0})
    query = Query(logs)
    query.trigger()
    # While no driver runs: an unclean election cuts t-0 at 80, and it grows again. t-1 has its first leader.
    logs.now = {T0: 120, T1: 60, T2: 5}
    logs.epochs[T0] = 5
    logs.epoch_end = {T0: EpochEnd(0, 80), T1: EpochEnd(0, 60)}
    query.restart()
    query.planner.freeze()  # availableNow looks at the logs first
    query.trigger()
    (warning,) = caplog.messages
    assert warning.startswith(
        "unseen_cuts_possible partitions=t-0 cause=1 partitions had elections of leaders "
    )
    assert "'startState'" in warning
    assert logs.epochs_asked == [{T0: 0, T1: 0}]
    query.trigger()
    assert len(caplog.messages) == 1, "once a driver"


class SilentLogs(Logs):
    """Brokers that do not know OffsetForLeaderEpoch."""

    def epoch_ends(self, epochs: dict[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        raise UnsupportedBroker("no such API")


def test_a_query_goes_on_where_brokers_tell_no_epochs(caplog: pytest.LogCaptureFixture) -> None:
    logs = SilentLogs({T0: 100})
    query = Query(logs)
    query.trigger()
    logs.now = {T0: 120}
    query.restart()
    assert query.trigger() == [PartitionRange("t", 0, 100, 120)]
    assert ["no such API" in message for message in caplog.messages] == [True]


def test_no_warning_where_a_query_begins_remembers_or_does_not_want_to_know(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logs = Logs({T0: 100})
    begins, careless = Query(logs), Query(logs, epochCheck="false")
    for query in (begins, careless):
        query.trigger()
        query.trigger()
    careless.restart()
    careless.trigger()
    assert (caplog.messages, logs.epochs_asked) == ([], [])


def test_the_ends_are_told_for_the_lag() -> None:
    logs = Logs({T0: 100})
    query = Query(logs, maxOffsetsPerTrigger="5")
    assert query.planner.latest_seen() is None
    query.trigger()
    logs.now[T0] = 150
    query.trigger()
    assert query.planner.latest_seen() == {"t": {"0": 150}}


def test_a_query_of_topics_that_are_not_there_does_not_start() -> None:
    with pytest.raises(InvalidOption, match="no topic"):
        Query(Logs({})).trigger()


def test_plans_repeat_exactly() -> None:
    options = parse_options(
        {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "minPartitions": "3"}, is_streaming=True
    )
    start, end = {"t": {"0": 0, "1": 5}}, {"t": {"0": 100, "1": 5, "2": 7}}
    first = plan_between(options, start, end)
    assert len(first) >= 3
    assert plan_between(options, dict(reversed(start.items())), json.loads(json.dumps(end))) == first
