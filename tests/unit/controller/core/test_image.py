"""The image apart from the machine."""

from __future__ import annotations

from copy import deepcopy

import msgspec

from controller.contract.partition_state import NO_LEADER
from controller.core.records import BrokerRecord, Cause, Change, PartitionRecord, RemoveTopicRecord
from tests.kit.controller.core_cluster import Cluster, topic_id


def test_what_a_copy_replays_does_not_move_its_original() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), (2, 3, 1))
    image = cluster.image
    before = deepcopy(vars(image))
    copy = image.copy()
    assert vars(copy) == before
    change = Change(cause=Cause.BROKER_DIED, at_ms=1)
    for state in image.partitions.values():
        after = msgspec.structs.replace(state, leader=NO_LEADER, isr=(), elr=(3,), partition_epoch=9)
        copy.replay(PartitionRecord(state=after, change=change))
    fenced = msgspec.structs.replace(image.brokers[1], fenced=True, demoted=True)
    copy.replay(BrokerRecord(registration=fenced, change=change))
    assert (len(copy.leaderless), len(copy.below_min), copy.demoted) == (2, 2, {1: None})
    assert vars(image) == before
    rows = copy.rows()
    shown = deepcopy(vars(rows))
    copy.replay(RemoveTopicRecord(topic_id=topic_id(0), topic="orders-0", change=change))
    assert (copy.partitions, copy.topics, copy.leaderless) == ({}, {}, {})
    assert vars(image) == before
    assert vars(rows) == shown
