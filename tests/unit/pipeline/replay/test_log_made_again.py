"""A replay's source topic is deleted and created again after the replay was planned."""

from __future__ import annotations

from contextlib import ExitStack
from uuid import UUID

import pytest

from pipeline.client.config import ClientConfig
from pipeline.errors import ReplayError
from pipeline.replay.log import Log, log_rows
from pipeline.replay.plan import Partitioning, ReplayPlan, ReplayRange, ReplaySettings
from pipeline.replay.plan_json import decode_plan, encode_plan
from springtide.wire.apis import ApiKey
from tests.kit.pipeline.brokers import Cluster

OLD, NEW = UUID(int=7), UUID(int=8)
SETTINGS = ReplaySettings(
    run_id="r",
    source="kafka://c/t",
    topic="copy",
    topic_id="",
    partition_count=1,
    partitioning=Partitioning.KEEP,
    source_topic_id=str(OLD),
)


def test_its_records_are_not_taken_for_those_that_were_planned() -> None:
    with ExitStack() as stack:
        cluster = Cluster(stack)
        cluster.name({"t": NEW}, leaders={("t", 0): 1})
        config = ClientConfig(bootstrap=(cluster.brokers[1].address,), unknown_topic_budget_ms=1)
        with pytest.raises(ReplayError, match=f"deleted and created again: its id was {OLD}, and is {NEW}"):
            list(log_rows(Log(config, "t"), [ReplayRange("t", 0, 0, 10)], SETTINGS, now_ms=0))
        assert not cluster.brokers[1].times_asked(ApiKey.FETCH)


def test_the_plan_keeps_the_id() -> None:
    plan = ReplayPlan(SETTINGS, ((((ReplayRange("t", 0, 0, 10)),),),))
    assert decode_plan(encode_plan(plan), "plan").settings.source_topic_id == str(OLD)
