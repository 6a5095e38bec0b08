"""docs/pipeline-from-kafka.md names every option, column and error that there is, and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import errors
from pipeline.client.config import CLIENT_OPTIONS, CLIENT_PREFIX
from pipeline.errors import InvalidOption
from pipeline.sink.columns import ALLOWED
from pipeline.sink.options import REFUSED_CLIENT_OPTIONS as SINK_REFUSES
from pipeline.sink.options import parse_sink_options
from pipeline.source.options import READ_OPTIONS, parse_options
from pipeline.source.options import REFUSED_CLIENT_OPTIONS as SOURCE_REFUSES
from pipeline.source.schemas import RECORDS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/pipeline-from-kafka.md").read_text(encoding="utf-8")
VERDICTS = {"same", "differs", "no effect", "refused", "new"}
SOURCE, SINK = "Options of the source", "Options of the sink"

SPARK_READS = {
    *("assign", "subscribe", "subscribePattern", "kafka.bootstrap.servers"),
    *("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets"),
    *("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", "startingOffsetsByTimestampStrategy"),
    *(
        "failOnDataLoss",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
    ),
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "includeHeaders"),
    *("maxRecordsPerPartition", "groupIdPrefix", "kafka.group.id"),
}
"""The tables of Spark's Structured Streaming + Kafka Integration Guide, 4.x."""
NEW_OF_THE_CLIENT = {"kafka.sasl.username", "kafka.sasl.password", "kafka.sasl.oauthbearer.token"}
"""Names of `kafka.*` that Kafka's own clients don't have."""
SPARK_WRITES = {"kafka.bootstrap.servers", "topic", "includeHeaders"}
ONLY_READING = ("client.rack", "fetch.", "max.")
"""How those of the connection's options begin that a sink has no use for."""


def rows(heading: str) -> dict[str, str]:
    """Return the verdict on each name in the table under the heading."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| `([^`]+)` \| ([a-z ]+) \|", section, re.MULTILINE)
    assert len(dict(found)) == len(found), "a name stands there twice"
    assert {verdict for _, verdict in found} <= VERDICTS
    return dict(found)


def read_in(module: str) -> set[str]:
    """Return the options whose name stands in a call: `options.get(name)`, `positive(options, name)`.

    The dictionary is called `ours` where it holds Kafka's, without their prefix."""
    names = set()
    for node in ast.walk(ast.parse((ROOT / module).read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        is_method = isinstance(node.func, ast.Attribute) and node.func.attr == "get"
        given = (
            [node.func.value, *node.args] if is_method and isinstance(node.func, ast.Attribute) else node.args
        )
        match given:
            case [ast.Name(id="options" | "ours" as where), ast.Constant(value=str(name)), *_]:
                names.add(f"{CLIENT_PREFIX}{name}" if where == "ours" else name)
    return names


def test_every_option_of_the_source_is_on_the_page_and_no_other() -> None:
    known = {name.lower(): name for name in READ_OPTIONS}
    asked = {known.get(name.lower(), name) for name in read_in("pipeline/source/options.py")}
    prefixed = {f"{CLIENT_PREFIX}{name}" for name in (*CLIENT_OPTIONS, *SOURCE_REFUSES, "group.id")}
    found = rows(SOURCE)
    assert set(found) == set(READ_OPTIONS) | asked | prefixed
    new = {name for name, verdict in found.items() if verdict == "new"}
    assert new == set(READ_OPTIONS) - SPARK_READS | NEW_OF_THE_CLIENT
    assert set(found) >= SPARK_READS


def test_every_option_of_the_sink_is_on_the_page_and_no_other() -> None:
    found = rows(SINK)
    spelt = {name.lower(): name for name in found}
    asked = {spelt.get(name.lower(), name) for name in read_in("pipeline/sink/options.py")}
    connection = {f"{CLIENT_PREFIX}{name}" for name in CLIENT_OPTIONS if not name.startswith(ONLY_READING)}
    refused = {f"{CLIENT_PREFIX}{name}" for name in SINK_REFUSES}
    ignored = {name for name, verdict in found.items() if verdict == "no effect"}
    assert "sinkId" in asked and "kafka.acks" in asked
    assert set(found) - ignored == asked | connection | refused
    assert set(found) >= SPARK_WRITES


@pytest.mark.parametrize("heading", [SOURCE, SINK])
def test_what_the_page_calls_refused_is_and_what_it_calls_without_effect_has_none(heading: str) -> None:
    def parse(given: Mapping[str, str]) -> object:
        if heading == SINK:
            return parse_sink_options({"kafka.bootstrap.servers": "b:1", "topic": "t", **given})
        told = parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t", **given}, is_streaming=True)
        return replace(told, warnings=())

    checks: dict[str, Callable[[str], None]] = {
        "refused": lambda name: refuses(parse, name),
        "no effect": lambda name: changes_nothing(parse, name),
    }
    found = [(name, verdict) for name, verdict in rows(heading).items() if verdict in checks]
    assert {verdict for _, verdict in found} == set(checks)
    for name, verdict in found:
        checks[verdict](name)


def refuses(parse: Callable[[Mapping[str, str]], object], name: str) -> None:
    with pytest.raises(InvalidOption, match=name):
        parse({name: "x"})


def changes_nothing(parse: Callable[[Mapping[str, str]], object], name: str) -> None:
    assert parse({name: "7"}) == parse({}), name


def test_every_column_is_on_the_page() -> None:
    assert list(rows("Columns of the source")) == list(RECORDS)
    assert set(rows("Columns of the sink")) == set(ALLOWED)


def test_every_error_of_the_source_and_the_sink_is_on_the_page() -> None:
    used = {
        node.id
        for folder in ("source", "sink")
        for path in (ROOT / "pipeline" / folder).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name)
    }
    raised = {name for name in used if isinstance(getattr(errors, name, None), type)}
    section = PAGE.split("## Errors\n")[1]
    assert "DataLossError" in raised
    assert sorted(name for name in raised if f"`{name}`" not in section) == []
