"""Which coordinator is to own a shard, and which to follow it: the rule alone, on a few shards."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.draft import Draft
from controller.core.events import NameWriter
from controller.core.floor import Floors
from controller.core.image import ClusterImage
from controller.core.loss import LogEnds
from controller.core.options import ControllerOptions
from controller.core.records import (
    Cause,
    Change,
    CoordinatorRegistration,
    MemberRecord,
    PartitionRecord,
    TopicRecord,
)
from controller.core.shards import assign_shards, missing_topics, ordinary_topics
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.partition_state import NO_COORDINATOR, Shard, WriterId
from springtide.contract.updates import NameWriterRequest, NameWriterResponse
from tests.kit.controller.coordinator_cluster import OFFSETS_ID, CoordinatorCluster
from tests.kit.controller.core_cluster import Cluster, changed, topic_id

CHANGE = Change(cause=Cause.SHARD_ASSIGNED, at_ms=0)


def shard(text: str) -> Shard:
    owner, standby = (NO_COORDINATOR if one == "-" else int(one) for one in text.split("/"))
    return Shard(writer=WriterId(1), owner=owner, standby=standby)


def image_of(coordinators: str, shards: str) -> ClusterImage:
    """coordinators: all active; `d` is drained, `m` is demoted. shards: `owner/standby` of each."""
    image = ClusterImage()
    for text in coordinators.split():
        row = CoordinatorRegistration(
            coordinator_id=int(text[0]),
            coordinator_epoch=BrokerEpoch(int(text[0])),
            incarnation_id="a",
            host="h",
            port=1,
            admitted=True,
            fenced=False,
            draining="d" in text,
            demoted="m" in text,
        )
        image.replay(MemberRecord(registration=row, change=CHANGE))
    cluster = Cluster()
    cluster.create((1, 2, 3))
    for number, text in enumerate(shards.split()):
        state = changed(cluster.partition(), partition=number, shard=shard(text))
        image.replay(PartitionRecord(state=state, change=CHANGE))
    return image


@pytest.mark.parametrize(
    ("coordinators", "before", "are_level", "after"),
    [
        # 9 is dead: its standby takes all, though that is more than its share, and the others even it out.
        ("1 2m 3 4", "-/- 1/- 2/- 3/- 9/3 9/3", True, "4/2 1/3 2/1 3/1 3/2 3/4"),
        ("1 2m 3", "9/3 1/- 1/3 -/- 9/- -/3", False, "3/2 1/2 1/2 3/2 1/2 3/2"),
        # 3 is drained: it gives to its standbys, and to 1, which is to follow first.
        ("1 2 3d 4", "1/- 3/2 4/3 3/2 2/- 4/9", True, "1/2 2/4 4/1 3/1 2/4 4/2"),
        # Where all others are demoted, they own; where all are drained, who has a shard keeps it.
        ("1m 2m 3d 4m", "3/9 2/- 3/1", True, "3/4 2/1 1/2"),
        ("1d", "-/-", False, "1/-"),
        ("1 2 3", "1/2", True, "1/2"),  # at rest
    ],
)
def test_who_is_to_own_and_to_follow_each_shard(
    coordinators: str, before: str, are_level: bool, after: str
) -> None:
    image = image_of(coordinators, before)
    assign_shards(Draft(image, wall_ms=0, floors=Floors(LogEnds())), lambda *_: are_level)
    found = [image.partitions[key].shard for key in sorted(image.shards)]
    assert [(one.owner, one.standby) for one in found if one is not None] == [
        (one.owner, one.standby) for one in map(shard, after.split())
    ]


def test_a_coordinator_topic_is_missing_where_somebody_could_serve_it_and_hold_it() -> None:
    assert missing_topics(image_of("1", ""), wants_transactions=True) == []  # no broker
    assert missing_topics(Cluster().image, wants_transactions=True) == []  # no coordinator
    cluster = CoordinatorCluster(1001)
    del cluster.image.topic_ids["__consumer_offsets"]
    assert missing_topics(cluster.image, wants_transactions=True) == ["__consumer_offsets"]


def test_a_coordinator_topic_of_one_shard_is_no_ordinary_one() -> None:
    assert not ordinary_topics(CoordinatorCluster(1001, options=ControllerOptions(shards=1)).image)


def test_no_writer_is_named_for_a_partition_that_is_no_shard_or_of_a_topic_that_ends() -> None:
    cluster = CoordinatorCluster(1001)
    cluster.create((1, 2, 3))
    assert cluster.name_writer(1001, 0).error is ControllerError.NONE
    request = NameWriterRequest(
        broker_id=1001,
        broker_epoch=cluster.image.coordinators[1001].coordinator_epoch,
        topic_id=topic_id(),
        partition=0,
    )
    reply = cluster.ask(NameWriter(wall_ms=0, request=request), NameWriterResponse)
    assert reply.error is ControllerError.UNKNOWN_TOPIC_OR_PARTITION
    ends = msgspec.structs.replace(cluster.image.topics[OFFSETS_ID], deleting=True)
    cluster.image.replay(TopicRecord(state=ends, change=CHANGE))
    assert cluster.name_writer(1001, 0).error is ControllerError.UNKNOWN_TOPIC_OR_PARTITION
