"""The wait until clients can use what was made (docs/replication.md 2.12, answers).

A topic is *stored* when ZooKeeper has it. Its brokers make their logs a moment later, and until each live
broker has heard of it and has made its own, some Metadata answer says that the topic is not there, or that a
partition has no leader. A client that meets such an answer waits for its retry, 100 ms or more, or fails.
Kafka's brokers answer a creation when they know the topic.
"""

from __future__ import annotations

from collections.abc import Sequence

from admin_api.http.services import Services
from controller.face.commands import NotActive, NotInForce


async def until_serving(services: Services, cluster: str, topic_ids: Sequence[str], wait_ms: int) -> None:
    """Wait until every live broker and coordinator knows these topics and their partitions lead. Raise
    NotInForce if that is not known to be so after `wait_ms`, or when this controller leads no more. The
    topics are stored, and go on being made."""
    try:
        await services.engine.cluster(cluster).until_serving(topic_ids, wait_ms)
    except NotActive:
        raise NotInForce(()) from None
