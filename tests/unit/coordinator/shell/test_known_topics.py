"""Topics as groups know them, from the metadata stream."""

from __future__ import annotations

import msgspec

from coordinator.core.groups.consumer.assigning import KnownTopic
from coordinator.shell.known_topics import KnownTopics
from springtide.contract.partition_state import TopicState
from springtide.contract.updates import UpdateBatch
from springtide.node.topic_ids import topic_id_uuid


def state(name: str, partitions: int = 1, number: str = "A") -> TopicState:
    topic_id = name[0] * 21 + number
    return TopicState(topic_id=topic_id, topic=name, partitions=partitions, replication_factor=1)


def known(of: TopicState) -> dict[str, KnownTopic]:
    return {of.topic: KnownTopic(of.topic, topic_id_uuid(of.topic_id), of.partitions)}


A, B = state("a"), state("b", 2)


def test_topics_are_known_from_the_first_full_state_on() -> None:
    topics = KnownTopics()
    assert topics.take(UpdateBatch(topics=(A,))) is None
    assert topics.take(UpdateBatch(full=True)) == {}
    assert topics.take(UpdateBatch(topics=(A,))) == known(A)
    assert topics.take(UpdateBatch(full=True, topics=(B,))) == known(B)


def test_only_a_change_of_a_topic_is_one() -> None:
    topics = KnownTopics()
    topics.take(UpdateBatch(full=True, topics=(A, B)))
    assert topics.take(UpdateBatch()) is None
    assert topics.take(UpdateBatch(full=True, topics=(A, B))) is None
    assert topics.take(UpdateBatch(topics=(A,))) is None
    more = state("a", 3)
    assert topics.take(UpdateBatch(topics=(more,))) == known(more) | known(B)


def test_a_topic_that_is_being_deleted_or_kept_is_gone() -> None:
    topics = KnownTopics()
    topics.take(UpdateBatch(full=True, topics=(A, B)))
    assert topics.take(UpdateBatch(topics=(msgspec.structs.replace(A, deleting=True),))) == known(B)
    assert topics.take(UpdateBatch(deleted_topics=(A.topic_id,))) is None
    assert topics.take(UpdateBatch(kept_topics=(B.topic_id,))) == {}


def test_a_topic_under_the_name_of_a_deleted_one_stays() -> None:
    topics, again = KnownTopics(), state("a", number="Q")
    topics.take(UpdateBatch(full=True, topics=(A,)))
    assert topics.take(UpdateBatch(topics=(again,))) == known(again)
    assert topics.take(UpdateBatch(deleted_topics=(A.topic_id,))) is None
