"""Where a topic's new partitions go: where the controller places them when it is asked to add some."""

from __future__ import annotations

from controller.core.placement import PlacementBroker, place_from_emptiest
from controller.core.planning.assembly import assemble
from controller.core.planning.goals import PlacePartitions
from controller.core.planning.layout import Layout
from controller.core.planning.plan import Move, MoveReason, Plan, Rejection, RejectionCode
from controller.core.planning.snapshot import Snapshot


def unknown_topic(topic_id: str) -> Rejection:
    return Rejection(code=RejectionCode.UNKNOWN_TOPIC, detail=f"there is no topic {topic_id[:22]!r}")


def place_partitions(snapshot: Snapshot, layout: Layout, goal: PlacePartitions) -> Plan:
    topic = snapshot.topic(goal.topic_id)
    short = {broker.broker_id for broker in snapshot.brokers if broker.is_short}
    takers = [broker for broker in sorted(layout.takers) if layout.broker_ids[broker] not in short]
    places = len({layout.owner[broker] for broker in takers})
    refusal = None
    if topic is None:
        refusal = unknown_topic(goal.topic_id)
    elif goal.partitions <= topic.partitions:
        refusal = Rejection(
            code=RejectionCode.INVALID_PARTITIONS,
            detail=f"topic {topic.topic!r} has {topic.partitions} partitions; it can only get more",
            topic_id=topic.topic_id,
            topic=topic.topic,
        )
    elif topic.replication_factor > places:
        refusal = Rejection(
            code=RejectionCode.NO_RECEIVER,
            detail=f"{topic.replication_factor} replicas need as many brokers that take some; there are "
            f"{places}" + (" whose disks are above their reserve" if short else ""),
            topic_id=topic.topic_id,
            topic=topic.topic,
        )
    if topic is None or refusal is not None:
        return assemble(snapshot, layout, goal, (), [refusal] if refusal else [])
    # A disk above the broker's reserve and below the cluster's is taken where there are too few others.
    ample = [broker for broker in takers if (room := layout.room[broker]) is None or room >= 0]
    if len({layout.owner[broker] for broker in ample}) >= topic.replication_factor:
        takers = ample
    members = {broker.broker_id: broker for broker in snapshot.brokers}
    chosen = [members[layout.broker_ids[broker]] for broker in takers]
    leads = [0] * len(layout.broker_ids)
    for replicas in layout.original:
        leads[replicas[0]] += 1
    placed = place_from_emptiest(
        [PlacementBroker(b.broker_id, b.host, b.rack, b.worker_of) for b in chosen],
        preferred=[leads[b] for b in takers],
        held=[layout.load[b] for b in takers],
        partitions=goal.partitions - topic.partitions,
        replication_factor=topic.replication_factor,
    )
    moves = [
        Move(
            topic_id=topic.topic_id,
            topic=topic.topic,
            partition=number,
            partition_epoch=None,
            replicas_before=(),
            replicas_after=replicas,
            reasons=(MoveReason.NEW_PARTITION,),
            size_bytes=0,
            bytes=0,
        )
        for number, replicas in enumerate(placed, topic.partitions)
    ]
    # By number: a topic's partitions form a row without a gap.
    return assemble(snapshot, layout, goal, moves, [], bytes_least=0)
