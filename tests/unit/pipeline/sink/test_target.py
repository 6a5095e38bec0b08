"""The topics that are written to, as scripted brokers tell of them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from pipeline.errors import InvalidRows
from pipeline.sink.opening import fingerprint_of
from pipeline.sink.target import propose_opening, propose_openings
from springtide.wire.apis import ApiKey
from tests.kit.pipeline.brokers import Cluster, Says

FINGERPRINT = fingerprint_of({"sinkId": "s"})


def ends_of(message: Any) -> Says:
    """Answer 100 and the partition's number for each end."""
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": n, "offset": 100 + n, "leader_epoch": 7}
                    for n in (one.partition_index for one in topic.partitions)
                ],
            }
            for topic in message.topics
        ]
    }


def test_topics_are_opened_where_all_partitions_have_a_leader() -> None:
    with ExitStack() as stack:
        cluster = Cluster(stack)
        cluster.lead({("a", 0): 1, ("a", 1): 2, ("b", 0): 1, ("headless", 0): 1, ("headless", 1): -1})
        cluster.on(ApiKey.LIST_OFFSETS, ends_of)
        client = cluster.client(unknown_topic_budget_ms=100)
        opened = propose_openings(client, batch_id=3, fingerprint=FINGERPRINT)
        assert {one.topic: (one.start_offsets, one.leader_epochs) for one in opened} == {
            "a": ((100, 101), (7, 7)),
            "b": ((100,), (7,)),
        }
        assert {(one.batch_id, one.fingerprint) for one in opened} == {(3, FINGERPRINT)}
        alone = propose_opening(client, "a", batch_id=3, fingerprint=FINGERPRINT)
        assert alone.start_offsets == (100, 101)
        with pytest.raises(InvalidRows, match="'nowhere' can't be written to"):
            propose_opening(client, "nowhere", batch_id=3, fingerprint=FINGERPRINT)
        cluster.lead({})
        assert propose_openings(client, batch_id=3, fingerprint=FINGERPRINT) == ()
