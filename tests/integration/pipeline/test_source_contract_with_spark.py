"""The option matrix of Spark's Kafka source, read by `format("springtide")`: the same rows, offsets and
refusals.

The logs hold tombstones, null keys, headers, gaps, control batches, an aborted transaction and a truncated
beginning (tests/pipeline_proof/contract/world.py); what is right comes from the documentation's rules
(rules.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline_proof.connector import FORMAT, NOT_AT_HAND, connector_version
from tests.pipeline_proof.contract.cases import SUBSCRIPTIONS, batch_cases, stream_cases
from tests.pipeline_proof.contract.reading import (
    OURS,
    Stream,
    batch_read,
    goes_on,
    judge,
    judge_batches,
    rows_of,
    table_read,
)
from tests.pipeline_proof.contract.rules import expected
from tests.pipeline_proof.contract.world import World, make_world
from tests.pipeline_proof.part import proving

pytestmark = [pytest.mark.timeout(600)]
SEED = 20_261_122
DRAWN = 80
UNLIKE_ITS_DOCUMENTATION = frozenset({"endingTimestamp of a stream"})
"""Where Spark's Kafka source 4.2 does not refuse what its documentation says is not valid; ours does."""


@pytest.fixture
def world() -> Iterator[World]:
    made = make_world()
    with made.server:
        yield made


@pytest.mark.proof
def test_some_of_the_matrix(spark: Any, world: World, tmp_path: Path) -> None:
    cases = list(batch_cases(world, seed=SEED, drawn=DRAWN).items())
    wrong = []
    for name, options in cases[:: len(cases) // 12]:
        for read in (batch_read, table_read):
            _, found = judge(world, options, read(spark, world, options), is_streaming=False)
            wrong += [f"{name}, {read.__name__}: {one}" for one in found]
    assert not wrong
    stream = Stream(spark, world, {**SUBSCRIPTIONS["pattern"], "startingOffsets": "earliest"}, tmp_path)
    assert judge(world, stream.options, stream.run, is_streaming=True) == ("rows", [])


@pytest.mark.proof
def test_what_retention_takes_in_the_middle_of_a_read_is_a_loss_or_passed_over(
    spark: Any, world: World
) -> None:
    log = world.topics["orders-a"][0]
    world.on_fetch = lambda: log.retain_from(14)
    options = {"subscribe": "orders-a", "includeHeaders": "true"}
    with pytest.raises(Exception, match="failOnDataLoss"):
        batch_read(spark, world, options)()
    log.start = 0
    rows = batch_read(spark, world, {**options, "failOnDataLoss": "false"})()
    right = expected(world, {**options, "failOnDataLoss": "false"}, is_streaming=False)
    assert rows == rows_of(right, has_headers=True)
    assert min(offset for _, partition, offset, *_ in rows if partition == 0) == 14


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_the_matrix(spark: Any, tmp_path: Path) -> None:
    with proving(1, "contract") as part:
        world = make_world()
        with world.server:
            batches, streams = batch_cases(world, seed=SEED, drawn=DRAWN), stream_cases(world)
            counted, lines = judge_batches(spark, world, batches)
            part.failures += lines
        moved_on = 0
        for number, name in enumerate(streams):
            world = make_world()
            with world.server:
                stream = Stream(spark, world, streams[name], tmp_path / str(number))
                promised, wrong = judge(world, stream.options, stream.run, is_streaming=True)
                counted[promised] += 1
                if promised == "rows" and not wrong:
                    moved_on += 1
                    wrong = goes_on(world, stream)
                for one in wrong:
                    part.fail(f"stream, {name}: {one}")
        part.figures |= {
            "batch queries": len(batches),
            "streams": len(streams),
            "streams that went on after a restart": moved_on,
            "queries whose rows were promised": counted["rows"],
            "queries whose refusal was promised": counted["refused"],
            "queries of which nothing is documented": counted["nothing"],
        }
        assert not part.failures


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_the_matrix_beside_sparks_own_kafka_source(spark: Any, tmp_path: Path) -> None:
    """Whether its documentation was read rightly, and whether either goes on from the other's checkpoint."""
    with proving(1, "beside-kafka") as part:
        version = connector_version()
        if version is None:
            part.not_compared(f"Spark's Kafka source, and checkpoints handed over to it: {NOT_AT_HAND}")
            return
        part.figures["Spark's Kafka connector"] = version
        world = make_world()
        with world.server:
            batches, streams = batch_cases(world, seed=SEED, drawn=DRAWN), stream_cases(world)
            counted, lines = judge_batches(spark, world, batches, format_name=FORMAT)
            part.failures += lines
        moved = 0
        for number, (name, options) in enumerate(streams.items()):
            for first, then in ((FORMAT, OURS), (OURS, FORMAT)):
                world = make_world()
                with world.server:
                    stream = Stream(spark, world, options, tmp_path / f"{number}-{first}", format_name=first)
                    promised, wrong = judge(
                        world, options, stream.run, is_streaming=True, has_our_words=first == OURS
                    )
                    if first == FORMAT and name in UNLIKE_ITS_DOCUMENTATION:
                        assert wrong, f"{name} is as documented now"
                        continue
                    stream.format_name = then
                    if promised == "rows" and not wrong:
                        moved += 1
                        wrong = goes_on(world, stream)
                    for one in wrong:
                        part.fail(f"stream, {name}, begun by {first}, then {then}: {one}")
        part.figures |= {
            "batch queries": len(batches),
            "as documented: rows": counted["rows"],
            "as documented: refusals": counted["refused"],
            "streams unlike its documentation, which ours follows": len(UNLIKE_ITS_DOCUMENTATION),
            "checkpoints handed over": moved,
        }
        assert not part.failures
