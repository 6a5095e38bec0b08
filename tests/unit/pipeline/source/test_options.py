"""The source's options: the official names, defaults and refusals, and offsets as JSON."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.client.values import TopicPartition
from pipeline.errors import InvalidOption
from pipeline.source.offset_json import (
    offsets_from_json,
    offsets_to_json,
    parse_assignment,
    parse_offsets,
    parse_timestamps,
)
from pipeline.source.options import (
    Assignment,
    Isolation,
    RowShape,
    SourceOptions,
    SourceView,
    TopicPattern,
    Topics,
    parse_options,
)
from pipeline.source.positions import AtOffsets, AtTimestamps, LogEnd

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LEAST = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}


def stream(**options: str) -> SourceOptions:
    return parse_options({**LEAST, **dotted(options)}, is_streaming=True)


def batch(**options: str) -> SourceOptions:
    return parse_options({**LEAST, **dotted(options)}, is_streaming=False)


def dotted(options: dict[str, str]) -> dict[str, str]:
    return {name.replace("__", "."): value for name, value in options.items()}


def test_defaults_are_the_official_ones() -> None:
    options = stream()
    assert options.subscription == Topics(("t",))
    assert (options.starting, options.ending) == (LogEnd.LATEST, LogEnd.LATEST)
    assert (batch().starting, batch().ending) == (LogEnd.EARLIEST, LogEnd.LATEST)
    assert options.fail_on_data_loss
    assert options.shape == RowShape(SourceView.RECORDS, None, include_headers=False)
    assert options.isolation is Isolation.READ_UNCOMMITTED
    assert options.max_trigger_delay_ms == 900_000
    assert (options.min_partitions, options.max_offsets_per_trigger) == (None, None)
    assert options.client.bootstrap == (("h", 9092),)
    assert options.client.retry_budget_ms == 120_000
    assert options.warnings == ()
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_are_case_insensitive() -> None:
    options = parse_options(
        {
            "KAFKA.Bootstrap.Servers": "h:1",
            "SUBSCRIBE": "t",
            "failondataloss": "FALSE",
            "MINPARTITIONS": " 7 ",
        },
        is_streaming=True,
    )
    assert (options.fail_on_data_loss, options.min_partitions) == (False, 7)


def test_topics_may_be_named_matched_or_assigned() -> None:
    assert stream(subscribe=" b, a ,b,").subscription == Topics(("a", "b"))
    given = {"kafka.bootstrap.servers": "h:1"}
    pattern = parse_options({**given, "subscribePattern": "orders-.*"}, is_streaming=True).subscription
    assert isinstance(pattern, TopicPattern)
    assert pattern.matches("orders-1")
    assert not pattern.matches("my-orders-1")
    assigned = parse_options({**given, "assign": '{"t":[1,0],"a":[5]}'}, is_streaming=True).subscription
    assert assigned == Assignment((TopicPartition("a", 5), T0, T1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "one of the options 'assign', 'subscribe', 'subscribePattern' must be given"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "only one of the options"),
        ({"subscribe": " ,"}, "must name 1 to"),
        ({"subscribePattern": " "}, "is empty"),
        ({"subscribePattern": "a("}, "not understood"),
        ({"subscribePattern": r"\p{Alpha}+"}, "not understood"),
        ({"subscribePattern": "[a-z&&[^b]]"}, "not understood"),
        ({"assign": "{}"}, "names no partition"),
        ({"assign": '{"a":0}'}, "list of partition numbers"),
        ({"assign": '{"a":[-1]}'}, "no partition number"),
        ({"assign": '{"a":[true]}'}, "no partition number"),
        ({"assign": "[]"}, "object of topics"),
        ({"assign": "{"}, "no JSON"),
    ],
)
def test_what_to_read_must_be_said_once_and_clearly(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        parse_options({"kafka.bootstrap.servers": "h:1", **options}, is_streaming=True)


def test_the_cluster_must_be_named() -> None:
    with pytest.raises(InvalidOption, match=r"'kafka.bootstrap.servers' must be specified"):
        parse_options({"subscribe": "t"}, is_streaming=True)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("kafka.auto.offset.reset", "startingOffsets"),
        ("kafka.key.deserializer", "read as bytes"),
        ("kafka.value.deserializer", "read as bytes"),
        ("kafka.enable.auto.commit", "checkpoint"),
        ("kafka.interceptor.classes", "no consumer"),
        ("group.id", "'kafka.group.id'"),
        ("bootstrap.servers", "'kafka.bootstrap.servers'"),
        ("startingOffset", "'startingOffsets'"),
        ("maxOffsetPerTrigger", "'maxOffsetsPerTrigger'"),
        ("failOnDataloss2", "'failOnDataLoss'"),
    ],
)
def test_options_that_would_do_something_else_are_refused(name: str, advice: str) -> None:
    with pytest.raises(InvalidOption, match=advice):
        parse_options({**LEAST, name: "x"}, is_streaming=True)


def test_other_layers_options_are_left_alone() -> None:
    assert (
        parse_options({**LEAST, "path": "/x", "kafka.max.poll.records": "5"}, is_streaming=True).warnings
        == ()
    )


def test_a_group_id_is_told_to_have_no_effect() -> None:
    assert "no consumer group" in stream(kafka__group__id="g").warnings[0]
    assert "no consumer group" in stream(groupIdPrefix="g").warnings[0]


@pytest.mark.parametrize(
    "options",
    [
        {"minPartitions": "0"},
        {"maxRecordsPerPartition": "-1"},
        {"maxOffsetsPerTrigger": "many"},
        {"maxOffsetsPerTrigger": str(2**63)},
        {"minOffsetsPerTrigger": "0"},
        {"maxTriggerDelay": "soon"},
        {"maxTriggerDelay": "15 parsecs"},
        {"maxTriggerDelay": "0s"},
        {"failOnDataLoss": "maybe"},
        {"includeHeaders": "1"},
        {"coalesce": "no"},
        {"coalesceRecords": "0"},
        {"view": "rows"},
        {"columns": " , "},
        {"columns": "key,key"},
        {"replica": "-1"},
        {"replica": "far"},
        {"epochCheck": ""},
        {"kafka.isolation.level": "serializable"},
        {"kafka.security.protocol": "TLS"},
        {"kafka.sasl.jaas.config": "ScramLoginModule required;"},
        {"kafka.fetch.max.bytes": "-5"},
        {"kafkaConsumer.pollTimeoutMs": "0"},
    ],
)
def test_values_without_a_meaning_are_refused_by_name(options: dict[str, str]) -> None:
    (name,) = options
    with pytest.raises(InvalidOption, match=name.removeprefix("kafka.")):
        parse_options({**LEAST, **options}, is_streaming=True)


def test_limits_of_a_trigger() -> None:
    options = stream(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="5", maxTriggerDelay="90s")
    limits = (options.min_offsets_per_trigger, options.max_offsets_per_trigger, options.max_trigger_delay_ms)
    assert limits == (5, 5, 90_000)
    for text, value in {"7": 7, "7ms": 7, "2 min": 120_000, "1H": 3_600_000, "1d": 86_400_000}.items():
        assert stream(maxTriggerDelay=text).max_trigger_delay_ms == value
    with pytest.raises(InvalidOption, match=r"minOffsetsPerTrigger \(6\) is higher"):
        stream(minOffsetsPerTrigger="6", maxOffsetsPerTrigger="5")
    ignored = batch(maxOffsetsPerTrigger="5")
    assert ignored.max_offsets_per_trigger is None
    assert ignored.warnings == ("option 'maxOffsetsPerTrigger' is ignored in batch queries",)


def test_ours() -> None:
    options = batch(view="Batches", columns="a, b", replica="3", coalesce="false", epochCheck="false")
    assert (options.shape.view, options.shape.columns, options.replica_id) == (
        SourceView.BATCHES,
        ("a", "b"),
        3,
    )
    assert (options.coalesce, options.epoch_check) == (False, False)
    assert stream(replica="nearest", kafka__client__rack="r").client.client_rack == "r"
    assert stream(kafkaConsumer__pollTimeoutMs="7").client.retry_budget_ms == 7
    with pytest.raises(InvalidOption, match="batch queries only"):
        stream(view="offsets")


# --- where to start and end -----------------------------------------------------------------------------


def test_the_first_of_three_ways_to_say_it_wins() -> None:
    ways = {
        "startingTimestamp": "1000",
        "startingOffsetsByTimestamp": '{"t":{"0":7}}',
        "startingOffsets": "earliest",
    }
    assert stream(**ways).starting == AtTimestamps("startingTimestamp", 1000, or_latest=False)
    del ways["startingTimestamp"]
    assert stream(**ways).starting == AtTimestamps("startingOffsetsByTimestamp", {T0: 7}, or_latest=False)
    del ways["startingOffsetsByTimestamp"]
    assert stream(**ways).starting is LogEnd.EARLIEST
    ends = {
        "endingTimestamp": "1000",
        "endingOffsetsByTimestamp": '{"t":{"0":7}}',
        "endingOffsets": '{"t":{"0":9}}',
    }
    assert batch(**ends).ending == AtTimestamps("endingTimestamp", 1000, or_latest=True)
    del ends["endingTimestamp"]
    assert batch(**ends).ending == AtTimestamps("endingOffsetsByTimestamp", {T0: 7}, or_latest=True)
    del ends["endingOffsetsByTimestamp"]
    assert batch(**ends).ending == AtOffsets("endingOffsets", {T0: 9})


def test_the_strategy_says_what_a_late_timestamp_does() -> None:
    options = stream(startingTimestamp="1", startingOffsetsByTimestampStrategy="LATEST")
    assert options.starting == AtTimestamps("startingTimestamp", 1, or_latest=True)
    with pytest.raises(InvalidOption, match="Strategy"):
        stream(startingOffsetsByTimestampStrategy="earliest")


def test_positions_that_have_no_meaning_are_refused() -> None:
    with pytest.raises(InvalidOption, match="starting offset can't be latest for batch"):
        batch(startingOffsets=" Latest ")
    with pytest.raises(InvalidOption, match="t-1: starting offset can't be latest for batch"):
        batch(startingOffsets='{"t":{"0":5,"1":-1}}')
    with pytest.raises(InvalidOption, match="ending offset can't be earliest for batch"):
        batch(endingOffsets="earliest")
    with pytest.raises(InvalidOption, match="t-0: ending offset can't be earliest for batch"):
        batch(endingOffsets='{"t":{"0":-2}}')
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        with pytest.raises(InvalidOption, match=f"'{name}' is not valid in streaming"):
            stream(**{name: "latest"})
    assert stream(startingOffsets='{"t":{"0":5,"1":-1}}').starting == AtOffsets(
        "startingOffsets", {T0: 5, T1: -1}
    )


@pytest.mark.parametrize("text", ["", "soon", "-1", "1.5", str(2**63)])
def test_timestamps_are_milliseconds(text: str) -> None:
    with pytest.raises(InvalidOption, match="startingTimestamp"):
        stream(startingTimestamp=text)


def test_a_mark_of_offsets_in_the_place_of_a_time_is_told_where_it_belongs() -> None:
    told = "Only in 'startingOffsets' does -1 stand for the latest and -2 for the earliest offset"
    with pytest.raises(InvalidOption, match=f"milliseconds since 1970, not '-1'. {told}"):
        stream(startingTimestamp="-1")
    with pytest.raises(InvalidOption, match=f"-2 of t-0 is no time in milliseconds since 1970. {told}"):
        stream(startingOffsetsByTimestamp='{"t":{"0":-2}}')
    with pytest.raises(InvalidOption, match="Only in 'endingOffsets'"):
        batch(endingTimestamp="-1")


# --- JSON -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "[]",
        "null",
        '{"t":5}',
        '{"t":{"0":"5"}}',
        '{"t":{"0":1.0}}',
        '{"t":{"0":true}}',
        '{"t":{"0":null}}',
        '{"t":{"0":-3}}',
        '{"t":{"0":9223372036854775808}}',
        '{"t":{"-1":0}}',
        '{"t":{"x":0}}',
        '{"t":{"2147483648":0}}',
        '{"t":{"٣":0}}',
        '{"t":{"0":1,"00":2}}',
        '{"t":{"0":1,"0":2}}',
        '{"t":{"0":1},"t":{"1":2}}',
        '{"t":{"0":NaN}}',
        "[" * 100_000,
        '{"a":' * 100_000,
    ],
)
def test_json_that_is_no_offsets_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="startingOffsets"):
        parse_offsets(text, "startingOffsets")


def test_marks_are_for_users_and_not_for_checkpoints() -> None:
    assert parse_offsets('{"t":{"0":-2,"1":-1}}', "o") == {T0: -2, T1: -1}
    with pytest.raises(InvalidOption, match="checkpoint"):
        offsets_from_json({"t": {"0": -1}})
    with pytest.raises(InvalidOption, match="option 'o'"):
        parse_timestamps('{"t":{"0":-1}}', "o")
    assert parse_assignment('{"t":[0,0]}', "assign") == (T0,)


OFFSETS = st.dictionaries(
    st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1)
)


@settings(deadline=None)
@given(OFFSETS)
def test_offsets_come_back_from_json_and_equal_ones_have_equal_text(
    offsets: dict[TopicPartition, int],
) -> None:
    told = json.dumps(offsets_to_json(offsets))
    assert offsets_from_json(json.loads(told)) == offsets
    backwards = dict(reversed(list(offsets.items())))
    assert json.dumps(offsets_to_json(backwards)) == told


def test_the_form_is_the_official_one() -> None:
    offsets = {TopicPartition("b", 10): 5, TopicPartition("b", 9): 4, TopicPartition("a", 0): 3}
    assert json.dumps(offsets_to_json(offsets)) == '{"a": {"0": 3}, "b": {"9": 4, "10": 5}}'
